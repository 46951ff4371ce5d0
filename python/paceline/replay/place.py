"""Which rank this is, by its launcher's environment; its host; whether all can run together."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .plan import InputError

PORT = 29500

# Rank, ranks, rank on this node, ranks on this node.
_LAUNCHERS = {
    "mpirun": (
        *("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        *("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ),
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "srun": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
    "PMI": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
}


@dataclass(frozen=True)
class Place:
    rank: int = 0
    ranks: int = 1
    local_rank: int = 0
    address: str = "127.0.0.1"
    port: int = PORT
    hosts_store: bool = True  # else the launcher does


def place_of(environment: Mapping[str, str]) -> Place:
    launcher = next((name for name in _LAUNCHERS if _started_by(name, environment)), None)
    if launcher is None:
        return Place()
    rank_name, ranks_name, local_name, locals_name = _LAUNCHERS[launcher]
    ranks = _number(environment, ranks_name, 1)
    rank = _number(environment, rank_name, 0)
    if rank >= ranks:
        raise InputError(f"environment variable {rank_name}: rank {rank} of {ranks}")
    known = local_name in environment
    local = _number(environment, local_name, 0) if known else 0
    on_one = environment.get(locals_name) == str(ranks) or ranks == 1
    return Place(
        rank=rank,
        ranks=ranks,
        local_rank=local,
        address=environment.get("MASTER_ADDR") or _address(launcher, environment, on_one=on_one),
        port=_port(environment),
        hosts_store=rank == 0 and environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
    )


def _started_by(launcher: str, environment: Mapping[str, str]) -> bool:
    if _LAUNCHERS[launcher][0] not in environment:
        return False
    # In an allocation, but not under srun, Slurm sets SLURM_PROCID too.
    return launcher != "srun" or "SLURM_STEP_ID" in environment


def _number(environment: Mapping[str, str], name: str, least: int) -> int:
    value = environment.get(name)
    if value is None:
        raise InputError(
            f"environment variable {name} is missing, though its launcher's others are set"
        )
    if not value.isdecimal() or int(value) < least:
        raise InputError(
            f'environment variable {name}: expected a whole number from {least}, found "{value}"'
        )
    return int(value)


def _address(launcher: str, environment: Mapping[str, str], *, on_one: bool) -> str:
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_NODELIST", "")
    if launcher == "srun" and nodes:
        return first_node(nodes)
    if on_one:
        return "127.0.0.1"
    raise InputError(
        "environment variable MASTER_ADDR is missing: set it to the address of rank 0's node "
        "(mpirun -x MASTER_ADDR=...)"
    )


def first_node(nodes: str) -> str:
    """Return the first of Slurm's list: of "gpu[003-010,012],x7" gpu003."""
    found = re.match(r"([^,\[]*)(?:\[(\w+)[^\]]*\])?([^,]*)", nodes)
    return "".join(part or "" for part in found.groups()) if found else nodes


def _port(environment: Mapping[str, str]) -> int:
    if "MASTER_PORT" in environment:
        return _number(environment, "MASTER_PORT", 1)
    job = environment.get("SLURM_JOB_ID") or environment.get("OMPI_MCA_ess_base_jobid") or ""
    return 20000 + int(job) % 20000 if job.isdecimal() else PORT


def clock_identity() -> str:
    """Different on every machine and boot; alike on all ranks that share a clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def available_bytes() -> int:
    """Return what the host has free, or 0 where it doesn't tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    kibibytes = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), "0")
    return int(kibibytes) * 1024


def objection(everyone: Sequence[dict[str, Any]]) -> str:
    """Return why these ranks can't run together; empty if they can."""
    first = everyone[0]
    for key, what in (
        ("scenario", "the plan is of scenario"),
        ("torch", "PyTorch is"),
        ("task", "the plan or the options are"),
    ):
        others = [rank for rank in everyone if rank[key] != first[key]]
        if others:
            ranks = ", ".join(str(rank["rank"]) for rank in others)
            return f"rank {ranks}: {what} {others[0][key]}, that of rank 0 {first[key]}"
    for clock in dict.fromkeys(rank["clock"] for rank in everyone):
        of_host = [rank for rank in everyone if rank["clock"] == clock]
        needed = sum(rank["needed_bytes"] for rank in of_host)
        free = min(rank["free_bytes"] for rank in of_host)
        if free and needed > free:
            return (
                f"{of_host[0]['host']}: parameters, gradients and buckets of {len(of_host)} ranks "
                f"take {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free: "
                "run fewer ranks on a host, or a smaller model"
            )
    return ""
