"""What nccl-tests would print on a cluster."""

from __future__ import annotations

import contextlib
import json
import numbers
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from . import _core
from .calibrate import scenario_file
from .errors import InputError
from .scenarios import (
    Source,
    as_word,
    cluster_text,
    options_text,
    profile_document,
    settings_text,
)

_ARGUMENTS = {"COLLECTIVE": "kind"}  # what the command line calls it


def collective(
    kind: str,
    *,
    cluster: Source,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    sizes: Iterable[int | str] | int | str | None = None,
    first: int | str | None = None,
    last: int | str | None = None,
    factor: int | None = None,
    nccl: str | None = None,
    algorithm: str = "",
    protocol: str = "",
    library: str | None = None,
    gpus_per_process: int | None = None,
    settings: Mapping[str, object] | None = None,
    explain: bool = False,
    all_choices: bool = False,
    profile: Source | None = None,
    allow_other_machine: bool = False,
) -> pd.DataFrame:
    """Predict the table of an nccl-tests program.

    Parameters
    ----------
    kind
        "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall" or
        "sendrecv".
    cluster
        A node preset, a built-in cluster, a file, or a dictionary; a scenario brings its
        ``training.collective``, and names files, where it is a dictionary, by absolute names.
    nodes, gpus_per_node
        Of the cluster; all if left out.
    sizes
        In bytes, as nccl-tests writes them ("64K", "1G"), or "1 GiB"; one or several, instead
        of first, last, factor.
    first, last, factor
        As -b, -e and -f of nccl-tests; left out: "8", "16G" and 2.
    nccl
        Version whose tuner chooses, "2.12" to "2.30"; left out: the scenario's,
        the profile's, or the newest.
    algorithm, protocol
        As NCCL_ALGO and NCCL_PROTO; or algorithm "hierarchical"; left out: the scenario's.
    library
        "nccl", "mpi", "gloo" or "tensorflow"; left out: the scenario's, the
        profile's, or "nccl".
    gpus_per_process
        That one process launches for, as -g of nccl-tests; 1 if left out.
    settings
        Other keys of a scenario's training.collective: ``{"nvls": False, "max_channels": 8}``.
    explain
        Add what the time is made of: ``launch_us``, ``latency_us``, ``fill_us``,
        ``bandwidth_us``.
    all_choices
        Every algorithm and protocol that could run in ``others``, not only the likely ones.
    profile
        What calibration knows of the machine.
    allow_other_machine
        Take the costs of a profile of another machine, too.

    Returns
    -------
    DataFrame
        A row per size: ``collective``, ``nodes``, ``gpus``, ``size_bytes``, ``time_us``,
        ``algbw_gb_per_s``, ``busbw_gb_per_s`` (10^9 bytes), ``algorithm``, ``protocol``,
        ``channels``; ``low_us`` and ``high_us``, the interval of 90 %; ``extrapolated``: beyond
        what the profile was fitted on; ``others``: what may run in place of the choice, as
        dictionaries with ``algorithm``, ``protocol``, ``time`` (us), ``beside_choice`` (its time
        over the choice's, as NCCL's tuner has them), ``likely``: the interval holds it.

    Raises
    ------
    InputError
        Names the argument that is wrong.
    """
    if sizes is not None and any(each is not None for each in (first, last, factor)):
        raise InputError("expected sizes, or first, last and factor, found both", "sizes")
    with _cluster(cluster) as name:
        options = options_text(
            kind=kind,
            cluster=name,
            nodes=as_word(nodes),
            gpus_per_node=as_word(gpus_per_node),
            sizes=None if sizes is None else _sizes(sizes),
            first=as_word(first),
            last=as_word(last),
            factor=as_word(factor),
            nccl=nccl,
            algorithm=algorithm,
            protocol=protocol,
            library=library,
            gpus_per_process=as_word(gpus_per_process),
            settings=settings_text(settings),
            explain=explain,
            all=all_choices,
            profile=profile_document(profile),
            allow_other_machine=allow_other_machine,
        )
        try:
            text = _core.collective(options)
        except InputError as error:
            argument = _ARGUMENTS.get(error.place, error.place)
            raise InputError(error.message, argument, error.file) from None
    data = json.loads(text)
    place = {"collective": data["collective"], "nodes": data["nodes"], "gpus": data["ranks"]}
    return pd.DataFrame([place | _row(row) for row in data["results"]])


def bus_factor(kind: str, gpus: int) -> float:
    """Bus bandwidth over algorithm bandwidth, as nccl-tests defines it (its PERFORMANCE.md)."""
    if kind == "all_reduce":
        return 2 * (gpus - 1) / gpus
    if kind in ("all_gather", "reduce_scatter", "alltoall"):
        return (gpus - 1) / gpus
    if kind in ("broadcast", "reduce", "sendrecv"):
        return 1.0
    raise InputError(f"expected a collective such as all_reduce, found {kind!r}", "kind")


@contextlib.contextmanager
def _cluster(cluster: Source) -> Iterator[str]:
    """Write a cluster as the core reads it; of a scenario it reads but a file."""
    if isinstance(cluster, Mapping) and "cluster" in cluster:
        with scenario_file(cluster) as name:
            yield name or ""
    else:
        yield cluster_text(cluster)


def _sizes(sizes: Iterable[int | str] | int | str) -> list[str]:
    several = [sizes] if isinstance(sizes, (str, int, numbers.Number)) else sizes
    words = [str(size) for size in several]
    if not words:
        raise InputError("expected at least one size, found none", "sizes")
    return words


def _row(row: dict[str, Any]) -> dict[str, Any]:
    half = row["out_of_place"]
    flat = {
        "size_bytes": row["size"],
        "time_us": half["time"],
        "algbw_gb_per_s": half["alg_bw"],
        "busbw_gb_per_s": half["bus_bw"],
        "algorithm": row["algorithm"],
        "protocol": row["protocol"],
        "channels": row["channels"],
    }
    flat |= {f"{part}_us": time for part, time in row.get("explained_us", {}).items()}
    return flat | {
        "low_us": row["interval_us"]["low"],
        "high_us": row["interval_us"]["high"],
        "extrapolated": row["extrapolated"],
        "others": row.get("others", []),
    }
