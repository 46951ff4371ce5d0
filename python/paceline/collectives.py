"""What nccl-tests would print on a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

import pandas as pd

from . import _core
from .scenarios import Source, profile_text


def collective(
    kind: str,
    *,
    cluster: str | os.PathLike[str],
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    sizes: Iterable[int | str] | None = None,
    first: int | str = "8",
    last: int | str = "16G",
    factor: int = 2,
    nccl: str | None = None,
    algorithm: str = "",
    protocol: str = "",
    library: str = "nccl",
    explain: bool = False,
    profile: Source | None = None,
) -> pd.DataFrame:
    """Predict the table of an nccl-tests program.

    Parameters
    ----------
    kind
        "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall" or
        "sendrecv".
    cluster
        A node preset, a built-in cluster, or a file.
    nodes, gpus_per_node
        Of the cluster; all if left out.
    sizes
        In bytes, or as nccl-tests writes them ("64K", "1G"); instead of first, last, factor.
    first, last, factor
        As -b, -e and -f of nccl-tests.
    nccl
        Version whose tuner chooses, "2.12" to "2.30"; left out: the profile's or the newest.
    algorithm, protocol
        As NCCL_ALGO and NCCL_PROTO; or algorithm "hierarchical".
    library
        "nccl" or "mpi".
    explain
        Add what the time is made of: ``launch_us``, ``latency_us``, ``fill_us``,
        ``bandwidth_us``.
    profile
        What calibration knows of the machine. Adds ``low_us`` and ``high_us``, the interval of
        90 %, and ``extrapolated``.

    Returns
    -------
    DataFrame
        A row per size: ``collective``, ``nodes``, ``gpus``, ``size_bytes``, ``time_us``,
        ``algbw_gb_per_s``, ``busbw_gb_per_s`` (10^9 bytes), ``algorithm``, ``protocol``,
        ``channels``.

    Raises
    ------
    InputError
        Names the option of ``paceline collective`` that is wrong.
    """
    profile_bytes, profile_name = profile_text(profile)
    text = _core.collective(
        kind,
        os.fspath(cluster),
        sizes=[] if sizes is None else [str(size) for size in sizes],
        first=str(first),
        last=str(last),
        factor=str(factor),
        nodes=None if nodes is None else str(nodes),
        gpus_per_node=None if gpus_per_node is None else str(gpus_per_node),
        nccl=nccl,
        algorithm=algorithm,
        protocol=protocol,
        library=library,
        explain=explain,
        profile=profile_bytes,
        profile_name=profile_name,
    )
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
    if "interval_us" in row:
        flat |= {
            "low_us": row["interval_us"]["low"],
            "high_us": row["interval_us"]["high"],
            "extrapolated": row["extrapolated"],
        }
    return flat
