"""What nccl-tests would print on a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from . import _core
from .scenarios import Source, as_word, cluster_text, options_text, profile_document


def collective(
    kind: str,
    *,
    cluster: Source,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    sizes: Iterable[int | str] | int | str | None = None,
    first: int | str = "8",
    last: int | str = "16G",
    factor: int = 2,
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
        A node preset, a built-in cluster, a file, or a dictionary; a scenario's file brings its
        ``training.collective``.
    nodes, gpus_per_node
        Of the cluster; all if left out.
    sizes
        In bytes, as nccl-tests writes them ("64K", "1G"), or "1 GiB"; one or several, instead
        of first, last, factor.
    first, last, factor
        As -b, -e and -f of nccl-tests.
    nccl
        Version whose tuner chooses, "2.12" to "2.30"; left out: the profile's or the newest.
    algorithm, protocol
        As NCCL_ALGO and NCCL_PROTO; or algorithm "hierarchical".
    library
        "nccl", "mpi", "gloo" or "tensorflow"; left out: the profile's or "nccl".
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
    if isinstance(sizes, (int, str)):
        sizes = [sizes]
    options = options_text(
        kind=kind,
        cluster=cluster_text(cluster),
        nodes=as_word(nodes),
        gpus_per_node=as_word(gpus_per_node),
        sizes=[] if sizes is None else [str(size) for size in sizes],
        first=str(first),
        last=str(last),
        factor=str(factor),
        nccl=nccl,
        algorithm=algorithm,
        protocol=protocol,
        library=library,
        gpus_per_process=as_word(gpus_per_process),
        settings=json.dumps(settings) if settings else "",
        explain=explain,
        all=all_choices,
        profile=profile_document(profile),
        allow_other_machine=allow_other_machine,
    )
    text = _core.collective(options)
    data = json.loads(text)
    place = {"collective": data["collective"], "nodes": data["nodes"], "gpus": data["ranks"]}
    return pd.DataFrame([place | _row(row) for row in data["results"]])


def bus_factor(kind: str, gpus: int) -> float:
    """Bus bandwidth over algorithm bandwidth, as nccl-tests defines it (its PERFORMANCE.md)."""
    if kind == "all_reduce":
        return 2 * (gpus - 1) / gpus
    if kind in ("all_gather", "reduce_scatter", "alltoall"):
        return (gpus - 1) / gpus
    return 1.0


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
