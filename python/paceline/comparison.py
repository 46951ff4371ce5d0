"""Side by side: one scenario, trained in several ways, or several scenarios."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from . import _core
from .errors import warn
from .results import Result, run_options
from .scenarios import Source, as_text, warn_of_version

_SERVER_COLUMNS = ["mean_staleness", "p95_staleness", "dropped_share", "hottest_server_in_bytes"]


class Comparison:
    """What ``paceline compare --json`` says."""

    def __init__(self, text: str) -> None:
        self.data: dict[str, Any] = json.loads(text)
        """As a dictionary."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What is compared, as asked for."""
        return self.data["strategies"] if "strategies" in self.data else self.data["scenarios"]

    @property
    def has_steps(self) -> bool:
        """Whether steps are compared: else what is left of days whose step is given."""
        return "step_time_s" in self.rows[0]

    @property
    def verdict(self) -> str:
        """Who is the fastest that fits, and where the others lose it."""
        return self.data["verdict"]

    @property
    def remarks(self) -> list[str]:
        """Which options of the file don't count for which strategies."""
        return self.data["remarks"]

    @property
    def frame(self) -> pd.DataFrame:
        """A row per strategy or scenario, as asked for.

        Columns: ``strategy`` or ``scenario``, ``step_time_s``, ``throughput_samples_per_s``,
        ``exposed_communication_s``, what a GPU sends in a step (``nvlink_bytes``, ``pcie_bytes``,
        ``nic_bytes``), ``memory_bytes`` that it needs, and whether that ``fits``. Of parameter
        servers, and NaN for others: ``server_wait_s`` (of a step), ``mean_staleness`` and
        ``p95_staleness`` of gradients (updates), ``dropped_share`` of them, and
        ``hottest_server_in_bytes`` (what all workers send the server that is sent most, a step).
        Of communication hooks likewise: ``compression_ratio`` (of what a GPU sends, to a ring
        all-reduce of all gradients) and ``hook_kernels_s`` (of a step).

        Where the scenario gives the step: ``strategy``, ``stall_s`` and ``upload_s`` of a
        checkpoint, ``load_s``, ``interval_s``, and ``goodput`` with ``goodput_p5`` and
        ``goodput_p95`` over the seeds.
        """
        if not self.has_steps:
            return pd.DataFrame(
                {
                    **{key: row[key] for key in ("strategy", "stall_s", "upload_s", "load_s")},
                    "interval_s": row["campaign"]["interval_s"],
                    **{key: row[key] for key in ("goodput", "goodput_p5", "goodput_p95")},
                }
                for row in self.rows
            )
        name = "strategy" if "strategies" in self.data else "scenario"
        return pd.DataFrame(
            {
                name: row[name],
                "step_time_s": row["step_time_s"]["mean"],
                "throughput_samples_per_s": row["throughput_samples_per_s"],
                "exposed_communication_s": row["breakdown_s"]["exposed_communication"],
                **{f"{link}_bytes": sent for link, sent in row["sent_bytes"].items()},
                "memory_bytes": row["memory"]["total_bytes"],
                "fits": row["memory"]["fits"],
                **_of_hooks(row),
                **_of_servers(row),
            }
            for row in self.rows
        )

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.rows)}: {self.verdict}>"


def _of_hooks(row: dict[str, Any]) -> dict[str, float]:
    hooks = row.get("compression", {})
    return {
        "compression_ratio": hooks.get("ratio", math.nan),
        "hook_kernels_s": hooks.get("kernels_s", math.nan),
    }


def _of_servers(row: dict[str, Any]) -> dict[str, float]:
    servers = row.get("servers", {})
    wait = row["breakdown_s"]["server_wait"] if servers else math.nan
    return {"server_wait_s": wait} | {key: servers.get(key, math.nan) for key in _SERVER_COLUMNS}


def compare(
    scenario: Source | Result | Sequence[Source | Result],
    strategies: str | Sequence[str] | None = None,
    *,
    profile: Source | None = None,
    allow_other_machine: bool = False,
    seed: int | None = None,
    iterations: int | None = None,
    engine: str | None = None,
    jobs: int | None = None,
) -> Comparison:
    """Predict a scenario with several strategies, or several scenarios as they are.

    >>> paceline.compare(scenario, ["ddp", "zero1", "fsdp", "fsdp:shard_group=node"]).frame
    >>> paceline.compare(["a.json", "b.json"]).frame

    Parameters
    ----------
    scenario
        As for :func:`run`; or a list or tuple of such, each called as its file. Dictionaries and
        results are called "1", "2" and so on, by their place.
    strategies
        Of one scenario; of several, none:
        "ddp", "fsdp", "zero1", "zero2", "zero3", "parameter_server", "data_parallel", "mirrored",
        "horovod" and "local_sgd", each with options changed by ":key=value"
        ("parameter_server:stale=3", "ddp:compression=fp16").
    profile, allow_other_machine, seed, iterations, engine, jobs
        As for :func:`run`; the strategies run on several threads.

    Raises
    ------
    InputError
        With the file, the place in it, and what would be right.
    """
    options = run_options(
        profile=profile,
        allow_other_machine=allow_other_machine,
        seed=seed,
        iterations=iterations,
        engine=engine,
        jobs=jobs,
    )
    if isinstance(scenario, list | tuple):
        comparison = _side_by_side(scenario, strategies, options)
    else:
        text, file_name = as_text(scenario)
        names = ",".join(_names(strategies))
        warn_of_version(text, file_name)
        comparison = Comparison(_core.compare(text, file_name, names, options))
    for remark in comparison.remarks:
        warn(remark)
    return comparison


def _names(strategies: str | Sequence[str] | None) -> list[str]:
    if strategies is None:
        raise TypeError("expected strategies, or a list of several scenarios to compare, found one")
    names = [strategies] if isinstance(strategies, str) else list(strategies)
    for name in names:
        if not isinstance(name, str):
            expected = "expected strategies by name, with options as in 'fsdp:shard_group=node'"
            raise TypeError(f"{expected}, found {name!r}")
    return names


def _side_by_side(
    scenarios: Sequence[Source | Result], strategies: str | Sequence[str] | None, options: str
) -> Comparison:
    if strategies is not None:
        raise TypeError("expected one scenario beside strategies, found a list of them")
    if len(scenarios) < 2:
        raise TypeError(f"expected at least two scenarios, found {len(scenarios)}")
    texts, files = zip(*map(as_text, scenarios), strict=True)
    named = [file or str(place) for place, file in enumerate(files, 1)]
    for text, name in zip(texts, named, strict=True):
        warn_of_version(text, name)
    return Comparison(_core.compare_scenarios(list(texts), named, options))
