"""Predicting a training step."""

from __future__ import annotations

import json
import os
from functools import cached_property
from typing import Any, NamedTuple

import pandas as pd

from . import _core
from .scenarios import Source, as_text, write_text


class Interval(NamedTuple):
    """Where 90 % of measured mean step times are expected, in seconds."""

    low_s: float
    high_s: float
    extrapolated: bool
    """Outside what the profile was fitted on."""
    why: str


class Result:
    """What a prediction says; made by :func:`run` or :meth:`load`.

    Keys of :attr:`data` end with their unit. ``docs/model.md`` ("The report") defines each.
    """

    def __init__(
        self, text: str, *, trace_text: str | None = None, interval_text: str | None = None
    ) -> None:
        self.text = text
        """The bytes that ``paceline run --out`` writes (``--no-explain``, unless asked for)."""
        self.trace_text = trace_text
        """The timeline for https://ui.perfetto.dev, if ``run`` was asked for it."""
        self._interval_text = interval_text

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a result.json."""
        return cls(_core.read_file(os.fspath(path)))

    @cached_property
    def data(self) -> dict[str, Any]:
        """result.json as a dictionary."""
        return json.loads(self.text)

    @cached_property
    def trace(self) -> dict[str, Any] | None:
        """The timeline (Chrome trace events, microseconds), if there is one."""
        return None if self.trace_text is None else json.loads(self.trace_text)

    @cached_property
    def interval(self) -> Interval | None:
        """90 % interval of the mean step, where a profile was given."""
        if self._interval_text is None:
            return None
        data = json.loads(self._interval_text)
        return Interval(data["low_s"], data["high_s"], data["extrapolated"], data["why"])

    @property
    def gpus(self) -> int:
        """Number of GPUs that train."""
        return self.data["gpus"]

    @property
    def step_time_s(self) -> float:
        """Mean time of a step, in seconds, without the warm-up."""
        return self.data["step_time_s"]["mean"]

    @property
    def throughput_samples_per_s(self) -> float:
        """Samples per second of all GPUs."""
        return self.data["throughput_samples_per_s"]

    @property
    def scaling_efficiency(self) -> float:
        """Throughput over that of one GPU times their number; 1 is perfect."""
        return self.data["scaling_efficiency"]

    def breakdown(self) -> pd.DataFrame:
        """Where a step goes.

        Returns
        -------
        DataFrame
            A row per part: ``part``, ``time_s`` (mean of all GPUs), ``share`` (of the step) and
            ``worst_rank_time_s`` (the GPU with the most compute).
        """
        mean = self.data["breakdown_s"]
        worst = self.data["worst_rank"]["breakdown_s"]
        step = sum(mean.values())
        return pd.DataFrame(
            {
                "part": list(mean),
                "time_s": list(mean.values()),
                "share": [time / step if step else 0.0 for time in mean.values()],
                "worst_rank_time_s": [worst[part] for part in mean],
            }
        )

    def buckets(self) -> pd.DataFrame:
        """Gradient buckets in order: ``bytes``, ``ready_s``, ``start_s``, ``end_s`` in the step."""
        return pd.DataFrame(self.data["buckets"], columns=["bytes", "ready_s", "start_s", "end_s"])

    def stragglers(self) -> pd.DataFrame:
        """Who made the others wait most: ``rank``, ``gpu``, ``collectives``, ``delay_s`` in all."""
        return pd.DataFrame(
            self.data["stragglers"], columns=["rank", "gpu", "collectives", "delay_s"]
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write result.json, as ``paceline run --out`` does."""
        write_text(path, self.text)

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write trace.json; ValueError if ``run`` wasn't asked for a trace."""
        if self.trace_text is None:
            raise ValueError("no trace: run(..., trace=True)")
        write_text(path, self.trace_text)

    def __repr__(self) -> str:
        return (
            f"<Result: {self.gpus:,} GPUs, step {self.step_time_s * 1e3:.4g} ms, "
            f"{self.throughput_samples_per_s:,.5g} samples/s, "
            f"scaling {100 * self.scaling_efficiency:.1f} %>"
        )


TRACED_RANKS = 32
TRACED_ITERATIONS = 4


def run(
    scenario: Source,
    *,
    profile: Source | None = None,
    seed: int | None = None,
    iterations: int | None = None,
    engine: str | None = None,
    trace: bool = False,
    explain: bool = False,
    jobs: int | None = None,
) -> Result:
    """Predict step time, throughput and scaling of a scenario.

    The same computation as ``paceline run``: equal input gives equal bytes. Other Python threads
    go on meanwhile.

    Parameters
    ----------
    scenario
        A dictionary, whose relative file names start from the current folder, or the name of a
        file (a scenario, or a result.json, which is run again).
    profile
        What calibration knows of the machine: a :class:`Profile`, a dictionary or a file. The
        result then has an :attr:`Result.interval`.
    seed, iterations, engine
        Instead of the scenario's: seed of all random draws, steps to simulate, and "auto",
        "event" or "vector".
    trace
        Also record a timeline of the first 32 GPUs and 4 steps.
    explain
        Add why a step takes as long as it does and what would change it (``critical_path``,
        ``sensitivities``, ``best_levers`` of :attr:`Result.data`), by simulating again for each:
        the program does unless it is told ``--no-explain``.
    jobs
        Threads to explain with; the machine's cores if left out.

    Raises
    ------
    InputError
        With the file, the place in it, and what would be right.
    """
    text, file_name = as_text(scenario)
    profile_text, profile_name = (None, "") if profile is None else as_text(profile)
    result, trace_text, interval = _core.run(
        text,
        file_name,
        profile=profile_text,
        profile_name=profile_name,
        engine=engine,
        seed=None if seed is None else str(seed),
        iterations=None if iterations is None else str(iterations),
        explain=explain,
        jobs=os.cpu_count() or 1 if jobs is None else jobs,
        traced_ranks=TRACED_RANKS if trace else 0,
        traced_iterations=TRACED_ITERATIONS if trace else 0,
    )
    return Result(result, trace_text=trace_text, interval_text=interval)
