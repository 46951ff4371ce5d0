"""``python -m paceline.replay PLAN``, on every rank: under torchrun, srun, mpirun, or alone."""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import socket
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .place import Place, available_bytes, clock_identity, objection, place_of
from .plan import InputError, Plan, read_plan
from .records import Facts, RankRecord, row, step_rows, table, write_rows

if TYPE_CHECKING:
    from .meeting import Meeting

GLOO_WORKERS, NCCL_WORKERS = 2, 1
_BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this rank; return its exit status: 0 done, 1 failed, 2 the input is wrong."""
    options = _parser().parse_args(arguments)
    place = Place()
    try:
        place = place_of(os.environ)
        try:
            from . import meeting
        except ImportError as error:
            raise InputError(
                f"this Python has no torch ({sys.executable}: {error}): pip install torch, "
                "or on Debian apt install python3-torch and run /usr/bin/python3"
            ) from error
        try:
            return _run(options, place, meeting.Meeting(place, options.timeout))
        except meeting.Ended as ended:
            return ended.status
    except InputError as error:
        print(f"paceline replay: {error}", file=sys.stderr)
        return _BAD_INPUT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "paceline.replay",
        description="Run a scenario's training steps with PyTorch: layers that take the stated "
        "time, PyTorch's own gradient reduction.",
    )
    positive = _number(float, 0.0)
    parser.add_argument(
        "plan", nargs="?", type=Path, metavar="PLAN", help="of calibrate replay --with torch"
    )
    parser.add_argument("--backend", choices=("gloo", "nccl"), help="nccl where CUDA is, else gloo")
    parser.add_argument("--compute", choices=("wait", "real"), default="wait")
    parser.add_argument("--observe", choices=("hook", "none"), default="hook")
    parser.add_argument("--steps", type=_number(int, 1), help="instead of the plan's iterations")
    parser.add_argument(
        "--timeout",
        type=positive,
        default=60.0,
        metavar="SECONDS",
        help="all end when nothing went on for so long, beside the plan's longest wait",
    )
    parser.add_argument("--out", type=Path, metavar="CSV")
    parser.add_argument("--measure", metavar="COLLECTIVE", help="time it alone, without a plan")
    parser.add_argument("--sizes", type=_sizes, default=[1 << i for i in range(10, 25, 2)])
    parser.add_argument("--repeats", type=_number(int, 1), default=30)
    parser.add_argument("--budget", type=positive, default=2.0, metavar="SECONDS", help="of a size")
    return parser


def _number(kind: type, least: float) -> Any:
    def parse(text: str) -> Any:
        value = kind(text)
        if not least <= value < float("inf") or value == 0:
            raise ValueError
        return value

    parse.__name__ = "positive number"
    return parse


def _sizes(text: str) -> list[int]:
    sizes = [int(word) for word in text.split(",")]
    if min(sizes) < 1:
        raise ValueError
    return sizes


def _run(options: argparse.Namespace, place: Place, meeting: Meeting) -> int:
    from .meeting import BAD_INPUT, DONE, FAILED, one_line

    plan, backend, error = None, "", ""
    try:
        plan = _input(options, place)
        backend = _backend(options)
    except InputError as wrong:
        error = str(wrong)
    own = {
        "error": error,
        "scenario": plan.scenario if plan else "",
        "task": _task(options, plan, backend),
        "torch": _torch_version(),
        "host": socket.gethostname(),
        "clock": clock_identity(),
        "local_rank": place.local_rank,
        "free_bytes": available_bytes(),
        "needed_bytes": plan.host_bytes() if plan and backend != "nccl" else 0,
    }
    everyone = meeting.agree(own, objection)
    meeting.timeout_s += plan.longest_wait_s() if plan else 0.0
    meeting.watch()
    try:
        rows = _measured(options, place, meeting, plan, backend, everyone)
        if place.rank == 0:
            if options.out:
                write_rows(options.out, rows)
            print(table(rows), flush=True)
        meeting.close()
    except (InputError, OSError) as wrong:
        meeting.fail(one_line(wrong), BAD_INPUT)
    except Exception as failed:  # noqa: BLE001  # gloo, NCCL, CUDA: whatever ends this rank
        if os.environ.get("PACELINE_REPLAY_TRACEBACK"):
            traceback.print_exc()
        meeting.fail(one_line(f"{type(failed).__name__}: {failed}")[:300], FAILED)
    # What gloo's threads still hold is the system's to clear up.
    sys.stdout.flush()
    os._exit(DONE)


def _input(options: argparse.Namespace, place: Place) -> Plan | None:
    from .model import load, refusal
    from .run import COLLECTIVES

    if options.out and place.rank == 0:
        try:
            options.out.open("a").close()  # before the run, not after it
        except OSError as error:
            raise InputError(f"--out {options.out}: {error.strerror}") from error
    if options.measure is not None:
        if options.plan is not None:
            raise InputError("--measure takes no plan")
        if options.measure not in COLLECTIVES:
            known = ", ".join(COLLECTIVES)
            raise InputError(f'--measure: expected one of {known}, found "{options.measure}"')
        if place.ranks == 1:
            raise InputError("--measure needs two ranks: start it with torchrun, srun or mpirun")
        return None
    if options.plan is None:
        raise InputError("expected a plan, or --measure")
    plan = read_plan(options.plan)
    if plan.ranks != place.ranks:
        raise InputError(_other_ranks(plan, place, options.plan))
    refused = refusal(plan)
    if refused:
        raise InputError(f"{options.plan}: {refused}")
    load()  # before the ranks watch each other
    return replace(plan, iterations=options.steps) if options.steps else plan


def _other_ranks(plan: Plan, place: Place, file: Path) -> str:
    nodes = -(-plan.ranks // plan.ranks_per_node)
    meet = " --master-addr=ADDRESS --node-rank=0,1,..." if nodes > 1 else ""
    words = f"--nnodes={nodes} --nproc-per-node={min(plan.ranks, plan.ranks_per_node)}{meet}"
    module = (__package__ or "replay") + " " + str(file)
    start = f"python -m torch.distributed.run {words} -m {module}"
    return f"the plan is for {plan.ranks} ranks, and here are {place.ranks}: {start}"


def _backend(options: argparse.Namespace) -> str:
    import torch
    import torch.distributed as dist

    cuda = torch.cuda.is_available()
    backend: str = options.backend or ("nccl" if cuda and dist.is_nccl_available() else "gloo")
    there = dist.is_gloo_available() if hasattr(dist, "is_gloo_available") else True
    if backend == "nccl" and not cuda:
        raise InputError("--backend nccl: there is no CUDA device here: use --backend gloo")
    if backend == "nccl" and not dist.is_nccl_available():
        raise InputError("--backend nccl: this PyTorch was built without it: use --backend gloo")
    if backend == "gloo" and not there:
        raise InputError("--backend gloo: this PyTorch was built without it")
    return backend


def _task(options: argparse.Namespace, plan: Plan | None, backend: str) -> str:
    """Return what all ranks must want alike, beside the scenario."""
    words = [backend, options.compute, options.observe, options.steps, options.measure]
    words += [options.sizes, options.repeats, options.budget] if options.measure else [repr(plan)]
    return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


def _measured(
    options: argparse.Namespace,
    place: Place,
    meeting: Meeting,
    plan: Plan | None,
    backend: str,
    everyone: Sequence[dict[str, Any]],
) -> list[dict[str, str]]:
    """Return the rows, at rank 0; elsewhere nothing."""
    import torch.distributed as dist

    from .model import DeviceClock, HostClock, Waits
    from .run import time_collective, train, whole_size

    dist.init_process_group(
        backend,
        store=dist.PrefixStore("group", meeting.store),
        rank=place.rank,
        world_size=place.ranks,
        # The meeting names the cause before this ends.
        timeout=timedelta(seconds=2 * meeting.timeout_s + 30),
    )

    def progress() -> None:
        meeting.progress += 1

    clock = DeviceClock(place.local_rank) if backend == "nccl" else HostClock()
    facts = _facts(options, place, backend, everyone, plan.precision if plan else "fp32")
    if plan is None:
        rows = []
        sizes = [whole_size(options.measure, size, place.ranks) for size in options.sizes]
        for size in dict.fromkeys(sizes):
            own = time_collective(
                options.measure, size, clock, options.repeats, options.budget, progress
            )
            by_rank = meeting.gather(f"times{size}", own)
            if by_rank:
                slowest = [max(times) for times in zip(*by_rank, strict=True)]
                rows.append(row(facts, "collective", options.measure, slowest, size_bytes=size))
        return rows
    waits = Waits(plan, place.rank, clock, progress, real=options.compute == "real")
    observe = options.observe == "hook"
    steps = train(plan, waits, clock, observe=observe, progress=progress)
    record = RankRecord(place.rank, clock_identity(), tuple(steps))
    records = [RankRecord.from_json(each) for each in meeting.gather("record", record.to_json())]
    workers = GLOO_WORKERS if backend == "gloo" else NCCL_WORKERS
    return step_rows(records, facts, workers) if records else []


def _facts(
    options: argparse.Namespace,
    place: Place,
    backend: str,
    everyone: Sequence[dict[str, Any]],
    precision: str,
) -> Facts:
    import torch

    version = torch.__version__.split("+")[0]
    cuda = backend == "nccl"
    library = ".".join(map(str, torch.cuda.nccl.version())) if cuda else version
    return Facts(
        ranks=place.ranks,
        nodes=max(1, sum(rank["local_rank"] == 0 for rank in everyone)),
        backend=backend,
        library=f"{backend} {library}" if options.measure else f"torch {version} {backend}",
        precision=precision,
        device=torch.cuda.get_device_name() if cuda else platform.machine(),
        host=socket.gethostname(),
        driver=f"CUDA {torch.version.cuda}"
        if cuda
        else f"{platform.system()} {platform.release()}",
    )


def _torch_version() -> str:
    import torch

    return str(torch.__version__)


if __name__ == "__main__":
    sys.exit(main())
