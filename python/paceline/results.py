"""Predicting a training step, and what a prediction says."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from . import _core
from .errors import InputError, warn
from .scenarios import (
    Source,
    as_text,
    as_word,
    options_text,
    profile_document,
    warn_of_version,
    write_text,
)

_COLLECTIVE_COLUMNS = [
    *("collective", "bytes", "algorithm", "protocol"),
    *("straggler_wait_s", "exposed_communication_s"),
]
_STRAGGLER_COLUMNS = ["rank", "gpu", "collectives", "delay_s", "waited_s", "as_late"]
_OVERLAP_COLUMNS = [
    *("rank", "gpu", "first_step", "last_step", "communication_s", "overlapped_s", "share"),
]
_LINK_CLASS_COLUMNS = [
    *("class", "links", "bytes", "utilisation", "busiest", "busiest_bandwidth_bytes_per_s"),
    *("busiest_bytes", "busiest_utilisation", "busiest_while_communicating"),
    "neighbours_bytes_per_s",
]
_LINK_COLUMNS = [
    *("link", "class", "bandwidth_bytes_per_s", "bytes", "utilisation", "while_communicating"),
    "neighbours_bytes_per_s",
]
_SENSITIVITY_COLUMNS = ["change", "kind", "step_time_s", "time_per_sample_change", "edits"]


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
        self, text: str, *, trace: _core.Trace | None = None, interval_text: str | None = None
    ) -> None:
        self.text = text
        """The bytes that ``paceline run --out`` writes (``--no-explain``, unless asked for)."""
        self._trace = trace
        self._interval_text = interval_text

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Result:
        """Read a result.json; InputError where it is none."""
        name = os.fspath(path)
        text = _core.read_file(name)
        _core.remark_on_version(text, name)  # refuses what is no JSON
        result = cls(text)
        if not isinstance(result.data, dict) or "fingerprint" not in result.data:
            raise InputError("expected a result, as run(...).save writes it", file=name)
        return result

    @cached_property
    def data(self) -> dict[str, Any]:
        """result.json as a dictionary."""
        return json.loads(self.text)

    @cached_property
    def trace_text(self) -> str | None:
        """The timeline for https://ui.perfetto.dev, if ``run`` was asked for it.

        The same bytes as those of ``paceline run --trace FILE.json``.
        """
        return None if self._trace is None else self._trace.text()

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
        for key, not_used in (("own_rate", "rate is"), ("own_delays", "delays are")):
            if data[key]:
                warn(f"the profile's {not_used} not used: the scenario says its own")
        return Interval(data["low_s"], data["high_s"], data["extrapolated"], data["why"])

    @property
    def has_steps(self) -> bool:
        """Whether steps were simulated: else the scenario gives the step of its campaign."""
        return "step_time_s" in self.data

    def _of_step(self, key: str, cure: str = "it is older: run it again") -> Any:
        if not self.has_steps:
            raise ValueError("the result has no step: its scenario gives one, for days of training")
        if key not in self.data:
            raise ValueError(f"the result has no {key.replace('_', ' ')}: {cure}")
        return self.data[key]

    @property
    def gpus(self) -> int:
        """Number of GPUs that train."""
        return self.data["gpus"]

    @property
    def step_time_s(self) -> float:
        """Mean time of a step, in seconds, without the warm-up."""
        return self._of_step("step_time_s")["mean"]

    @property
    def synchronising_step_s(self) -> float | None:
        """Mean time of a step that ends with an average of the parameters (local SGD).

        None where all steps are of one kind.
        """
        return self.data.get("synchronising_step_s")

    @property
    def local_step_s(self) -> float | None:
        """Mean time of a step between two averages of the parameters (local SGD).

        None where all steps are of one kind.
        """
        return self.data.get("local_step_s")

    @property
    def drift(self) -> dict[str, Any] | None:
        """How far steps have not settled; None where they have, or are fewer than 14.

        ``change``: the mean of the last ``steps`` over that of the first as many, less 1. More
        iterations then tell what steps come to.
        """
        return self.data.get("drift")

    @property
    def throughput_samples_per_s(self) -> float:
        """Samples per second of all GPUs."""
        return self._of_step("throughput_samples_per_s")

    @property
    def scaling_efficiency(self) -> float:
        """Throughput over that of one GPU times their number; 1 is perfect."""
        return self._of_step("scaling_efficiency")

    @property
    def memory(self) -> dict[str, Any] | None:
        """What each GPU needs and has, in bytes, and whether it ``fits``.

        It needs ``total_bytes``: ``model_states_bytes`` (parameters, gradients, optimizer), what is
        gathered, buckets, and an estimate of activations. It has ``gpu_bytes``. None where that
        isn't known. ``unfused_loss_bytes`` are what a loss would need beside that which no kernel
        fuses. None also where the scenario gives the step.
        """
        return self.data.get("memory")

    @property
    def compression(self) -> dict[str, float] | None:
        """What a communication hook saves and costs; None without one.

        ``ratio`` (of what a GPU sends: a ring all-reduce of all gradients, to what the hook
        exchanges), ``kernels_s`` (of the hook, in a step), ``share_of_step``.
        """
        return self.data.get("compression")

    @property
    def servers(self) -> dict[str, Any] | None:
        """What parameter servers did with gradients; None where there are none.

        ``mean_staleness`` and ``p95_staleness``: updates between the parameters that a gradient was
        computed from and its own, without those of the warm-up. ``dropped_share`` of all gradients
        that were pushed, ``updates``, and ``hottest_server_in_bytes``: what all workers send the
        server that is sent most, in a step. :meth:`staleness` has the distribution.
        """
        return self.data.get("servers")

    @property
    def campaign(self) -> dict[str, Any] | None:
        """What is left of days of training; None for a scenario without ``faults``.

        ``goodput``, ``wall_s``, ``steps``, ``samples`` and ``failures`` have ``mean``,
        ``standard_deviation``, ``p5`` and ``p95`` over the seeds; ``checkpoint`` has the interval,
        ``goal`` the intervals that reach a share of goodput, ``levers`` what four changes would
        give, ``seeds`` each campaign in whole picoseconds. Where the scenario gives the step, the
        result has nothing else. :meth:`campaign_losses` and :meth:`campaign_seeds` are tables.
        """
        return self.data.get("campaign")

    def campaign_losses(self) -> pd.DataFrame:
        """Where the time of a campaign goes that is no goodput.

        Returns
        -------
        DataFrame
            A row per loss: ``loss``, ``mean_s``, ``p5_s``, ``p95_s`` over the seeds, and ``share``
            (of the mean wall time). Empty without ``faults``.
        """
        campaign = self.campaign
        losses = campaign["losses_s"] if campaign else {}
        wall = campaign["wall_s"]["mean"] if campaign else 0.0
        rows = [
            (
                loss,
                spread["mean"],
                spread["p5"],
                spread["p95"],
                spread["mean"] / wall if wall else 0.0,
            )
            for loss, spread in losses.items()
        ]
        return pd.DataFrame(rows, columns=["loss", "mean_s", "p5_s", "p95_s", "share"])

    def campaign_seeds(self) -> pd.DataFrame:
        """Each campaign: its seed, how it ended, goodput, steps, samples, failures, restarts.

        Returns
        -------
        DataFrame
            A row per seed. Empty without ``faults``.
        """
        columns = ["seed", "end", "goodput", "steps", "samples", "failures", "restarts"]
        seeds = self.campaign["seeds"] if self.campaign else []
        return pd.DataFrame(seeds, columns=columns)

    def breakdown(self) -> pd.DataFrame:
        """Where a step goes.

        Returns
        -------
        DataFrame
            A row per part: ``part``, ``time_s`` (mean of all GPUs), ``share`` (of the step) and
            ``worst_rank_time_s`` (the GPU with the most compute).
        """
        mean = self._of_step("breakdown_s")
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
        return pd.DataFrame(
            self._of_step("buckets"), columns=["bytes", "ready_s", "start_s", "end_s"]
        )

    def collectives(self) -> pd.DataFrame:
        """What each collective of a step costs.

        Returns
        -------
        DataFrame
            A row per collective, in order: ``collective``, ``bytes``, ``algorithm``,
            ``protocol``, ``straggler_wait_s`` and ``exposed_communication_s`` (both means of all
            GPUs and steps; the latter add up to the breakdown's, the former lack what is waited
            for at the end of a step), and ``every_steps``: how many steps have it once.
        """
        rows = pd.DataFrame(self._of_step("collectives"), columns=_COLLECTIVE_COLUMNS)
        every = [each.get("every_steps", 1) for each in self.data["collectives"]]
        return rows.assign(every_steps=pd.Series(every, dtype="int64"))

    def stragglers(self) -> pd.DataFrame:
        """Who made the others wait most.

        Returns
        -------
        DataFrame
            A row per GPU: ``rank``, ``gpu``, ``collectives`` (at which others waited for it, in all
            steps), ``delay_s`` (by how much of its own doing it entered later than the second last,
            in all), ``waited_s`` (mean of all GPUs and steps; of all GPUs they add up to the
            straggler wait) and ``as_late`` (ranks that were just as late).
        """
        return pd.DataFrame(self._of_step("stragglers"), columns=_STRAGGLER_COLUMNS)

    def links(self) -> pd.DataFrame:
        """What a step puts on the links of the cluster, by class.

        Returns
        -------
        DataFrame
            A row per class of directed links that carries anything: ``class`` ("nvlink_up": from
            GPUs to their switch; "nic_out"; "leaf_up" ...), ``links``, ``bytes`` and
            ``utilisation`` (bytes / (step x bandwidth)), means of the class; ``busiest``, a link,
            its ``busiest_bandwidth_bytes_per_s``, ``busiest_bytes``, ``busiest_utilisation`` and
            ``busiest_while_communicating`` (of the time in which collectives run; None with
            servers, and where GPUs send messages); ``neighbours_bytes_per_s`` (of others, on the
            link that has most).
        """
        return pd.DataFrame(self._of_step("links")["classes"], columns=_LINK_CLASS_COLUMNS)

    def busiest_links(self) -> pd.DataFrame:
        """Return the ten links that are busiest for their bandwidth.

        Returns
        -------
        DataFrame
            A row per directed link: ``link``, ``class``, ``bandwidth_bytes_per_s``, ``bytes``,
            ``utilisation``, ``while_communicating`` and ``neighbours_bytes_per_s``, as of
            :meth:`links`.
        """
        return pd.DataFrame(self._of_step("links")["busiest"], columns=_LINK_COLUMNS)

    def staleness(self) -> pd.DataFrame:
        """How stale gradients were when parameter servers took them.

        Returns
        -------
        DataFrame
            A row per number of updates between a gradient's parameters and its own, from 0 on:
            ``updates``, ``gradients`` (one of each tensor or partition, and worker), and their
            ``share``. Dropped ones are in none.

        Raises
        ------
        ValueError
            The scenario has no parameter servers.
        """
        if self.servers is None:
            raise ValueError("the result has no staleness: its scenario has no parameter servers")
        taken = pd.Series(self.servers["staleness"], dtype="int64")
        return pd.DataFrame(
            {"updates": taken.index, "gradients": taken, "share": taken / max(taken.sum(), 1)}
        )

    def overlap(self) -> pd.DataFrame:
        """How much of the traced GPUs' communication ran beside compute.

        Returns
        -------
        DataFrame
            A row per GPU: ``rank``, ``gpu``, ``first_step``, ``last_step``, ``communication_s``,
            ``overlapped_s`` and their ``share``.

        Raises
        ------
        ValueError
            ``run`` wasn't asked for a trace.
        """
        overlap = self._of_step("communication_overlap", "run(..., trace=True)")
        return pd.DataFrame(overlap, columns=_OVERLAP_COLUMNS)

    def critical_path(self) -> pd.DataFrame:
        """The chain of pieces that made the median step as long as it was.

        Returns
        -------
        DataFrame
            A row per piece, in order: ``kind``, ``rank``, ``gpu``, ``what``, ``start_s`` (in the
            step) and ``duration_s``. Each had to end before the next could begin.

        Raises
        ------
        ValueError
            ``run`` wasn't asked to explain; or workers of parameter servers share no step.
        """
        path = self._explained("critical_path")
        if path is None:
            raise ValueError("the result has no critical path: workers of servers share no step")
        frame = pd.DataFrame(
            path["segments"],
            columns=["kind", "rank", "gpu", "what", "start_ps", "duration_ps"],
        )
        seconds = {"start_ps": "start_s", "duration_ps": "duration_s"}
        frame[list(seconds)] = frame[list(seconds)] * 1e-12
        return frame.rename(columns=seconds)

    @property
    def spread(self) -> float:
        """Changes of the time per sample that are no larger say nothing; 0 where all count.

        It is how far steps have not settled (:attr:`drift`), or, with Horovod, how much the mean
        step varies where its cycles fall otherwise.
        """
        return float(self.data.get("spread", 0.0))

    def sensitivities(self) -> pd.DataFrame:
        """What would change the step, one change at a time, each simulated again.

        Returns
        -------
        DataFrame
            A row per change, the one that saves most first: ``change``, ``kind`` ("software",
            "hardware" or "cannot be had"), ``step_time_s``, ``time_per_sample_change`` (-0.11:
            11 % less) and ``edits`` (a list of {"key", "value"} for
            :func:`paceline.scenarios.edit`).

        Raises
        ------
        ValueError
            ``run`` wasn't asked to explain.
        """
        return pd.DataFrame(self._explained("sensitivities"), columns=_SENSITIVITY_COLUMNS)

    @property
    def best_levers(self) -> list[str]:
        """Sentences: what would save most, software before hardware, at most three of each.

        ValueError without ``explain=True``.
        """
        return self._explained("best_levers")

    def _explained(self, key: str) -> Any:
        return self._of_step(key, "run(..., explain=True)")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write result.json, as ``paceline run --out`` does."""
        write_text(path, self.text)

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline, as ``paceline run --trace PATH`` does.

        Parameters
        ----------
        path
            A name that ends in .json or .json.gz: one file for https://ui.perfetto.dev. Any other:
            a folder with a file per GPU, ``rank_N.json.gz``, as tools made for the traces of
            PyTorch's profiler want it; those that it has of an earlier run are replaced.

        Raises
        ------
        InputError
            Nothing can be written there.
        ValueError
            ``run`` wasn't asked for a trace.
        """
        if self._trace is None:
            raise ValueError("the result has no trace of this process: run(..., trace=True)")
        self._trace.save(os.fspath(path))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_trace": None, "trace_text": self.trace_text}

    def __repr__(self) -> str:
        if self.campaign is not None and not self.has_steps:
            goodput, days = (
                self.campaign["goodput"]["mean"],
                self.campaign["wall_s"]["mean"] / 86400,
            )
            return f"<Result: {self.gpus:,} GPUs, {days:,.4g} days, goodput {100 * goodput:.1f} %>"
        return (
            f"<Result: {_does_not_fit(self.data)}"
            f"{self.gpus:,} GPUs, step {self.step_time_s * 1e3:.4g} ms, "
            f"{self.throughput_samples_per_s:,.5g} samples/s, "
            f"scaling {100 * self.scaling_efficiency:.1f} %>"
        )


def _does_not_fit(data: dict[str, Any]) -> str:
    """Say what is missing; nothing where it fits, or where nobody knows."""
    memory = data.get("memory", {})
    if memory.get("fits") is not False:
        return ""
    needs, has = memory["total_bytes"], memory["gpu_bytes"]
    return f"does not fit: {needs * 1e-9:.1f} GB of {has * 1e-9:.1f} GB; "


def run(
    scenario: Source | Result,
    *,
    profile: Source | None = None,
    allow_other_machine: bool = False,
    seed: int | None = None,
    iterations: int | None = None,
    engine: str | None = None,
    trace: bool | str | Iterable[int] = False,
    trace_steps: tuple[int, int] | str | None = None,
    explain: bool = False,
    jobs: int | None = None,
    require_fit: bool = False,
) -> Result:
    """Predict step time, throughput and scaling of a scenario.

    The same computation as ``paceline run``: equal input gives equal bytes. Other Python threads
    go on meanwhile.

    Parameters
    ----------
    scenario
        A dictionary, whose relative file names start from the current folder, or the name of a
        file (a scenario, or a result.json, which is run again), or a result.
    profile
        What calibration knows of the machine: a :class:`Profile`, a dictionary or a file. The
        result then has an :attr:`Result.interval`.
    allow_other_machine
        Take the costs of a profile of another machine, too.
    seed, iterations, engine
        Instead of the scenario's: seed of all random draws, steps to simulate, and "auto",
        "event" or "vector".
    trace
        Also record a timeline: of these ranks (numbers, or "0,37,100-107"); or, if true, of the
        first 8 and those that made the others wait most, at most 32. The result then has
        :meth:`Result.overlap`, and ``communication_overlap`` in its data.
    trace_steps
        The first and the last step of the timeline, (1, 3) or "1-3"; 0 is the warm-up. Left out: 0
        to 3.
    explain
        Add why a step takes as long as it does and what would change it, by simulating again for
        each (:meth:`Result.critical_path`, :meth:`Result.sensitivities`,
        :attr:`Result.best_levers`): the program does unless it is told ``--no-explain``.
    jobs
        Threads to explain with; the machine's cores if left out.
    require_fit
        Raise, and name what would fit, where training needs more memory than a GPU has.

    Raises
    ------
    InputError
        With the file, the place in it, and what would be right.
    """
    text, file_name = as_text(scenario)
    options = run_options(
        profile=profile,
        allow_other_machine=allow_other_machine,
        seed=seed,
        iterations=iterations,
        engine=engine,
        jobs=jobs,
        explain=explain,
        require_fit=require_fit,
        trace=_trace_choice(trace, trace_steps),
    )
    warn_of_version(text, file_name)
    result, recorded, interval, *_ = _core.run(text, file_name, options)
    return Result(result, trace=recorded, interval_text=interval)


def explain(
    source: Source | Result,
    *,
    profile: Source | None = None,
    allow_other_machine: bool = False,
    seed: int | None = None,
    iterations: int | None = None,
    engine: str | None = None,
    jobs: int | None = None,
    require_fit: bool = False,
) -> Result:
    """Run a scenario, or a result again, and say why a step takes as long as it does.

    The same as ``run(source, ..., explain=True)``, and as ``paceline explain``.
    """
    return run(
        source,
        profile=profile,
        allow_other_machine=allow_other_machine,
        seed=seed,
        iterations=iterations,
        engine=engine,
        explain=True,
        jobs=jobs,
        require_fit=require_fit,
    )


def run_options(
    *,
    profile: Source | None,
    seed: int | None,
    iterations: int | None,
    engine: str | None,
    jobs: int | None,
    **more: Any,
) -> str:
    """Write what a run is asked as the core reads it."""
    return options_text(
        profile=profile_document(profile),
        engine=engine,
        seed=as_word(seed),
        iterations=as_word(iterations),
        jobs=thread_count(jobs),
        **more,
    )


def thread_count(jobs: int | None) -> int:
    """Return how many threads to use: the machine's cores if None."""
    if jobs is not None and jobs < 1:
        raise InputError(f"expected at least 1 thread, found {jobs}", "jobs")
    return os.cpu_count() or 1 if jobs is None else jobs


def _trace_choice(
    trace: bool | str | Iterable[int], steps: tuple[int, int] | str | None
) -> dict[str, str] | None:
    """Write ranks and steps as --trace-ranks and --trace-steps have them; None: no trace."""
    every = isinstance(trace, (bool, np.bool_))
    if every and not trace:
        if steps is not None:
            raise InputError("expected trace=True as well", "trace_steps")
        return None
    choice = {} if every else {"ranks": ranks_text(trace, "True or ranks", "trace")}
    return choice if steps is None else choice | {"steps": _steps_text(steps)}


def ranks_text(ranks: Any, expected: str, argument: str) -> str:
    """Write ranks as --trace-ranks has them."""
    if isinstance(ranks, str):
        return ranks
    try:
        return ",".join(str(operator.index(rank)) for rank in ranks)
    except TypeError:
        raise InputError(f"expected {expected} such as [0, 37], found {ranks}", argument) from None


def _steps_text(steps: Any) -> str:
    if isinstance(steps, str):
        return steps
    try:
        first, last = map(operator.index, steps)
    except (TypeError, ValueError):
        raise InputError(
            f"expected the first and the last step such as (1, 3), found {steps}", "trace_steps"
        ) from None
    return f"{first}-{last}"
