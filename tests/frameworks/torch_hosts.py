"""PyTorch over the network of namespaces: the rows of ``paceline.replay``, a rank in each host.

Ranks are forked from this process, which has loaded torch: once for all runs.
"""

from __future__ import annotations

import contextlib
import csv
import ctypes
import importlib
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cluster"), str(ROOT / "python/paceline")]

from measuring import Row  # noqa: E402
from network import CONTROL, Network  # noqa: E402

CLONE_NEWNET = 0x40000000  # linux/sched.h


def version_of_torch() -> str | None:
    """Load it; return its version, as scenarios have it, or None where there is none."""
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.dont_write_bytecode = True
    try:
        import torch

        importlib.import_module("replay.run")
    except (ImportError, OSError):
        return None
    return ".".join(torch.__version__.split(".")[:2])


class TorchHosts:
    def __init__(self, network: Network) -> None:
        self.network = network
        self.runs = 0

    def replay(self, plan: Mapping[str, Any], limit: float, *words: str) -> list[Row]:
        """Run a plan, a rank in each of the first hosts; return the rows of its file."""
        path = self.network.folder / f"plan{self.runs}.json"
        path.write_text(json.dumps(plan), encoding="utf-8")
        return self.rows(plan["ranks"], [str(path), *words], limit)

    def all_reduce(self, ranks: int, sizes: Sequence[int], limit: float, *words: str) -> list[Row]:
        asked = ["--measure", "all_reduce", "--sizes", ",".join(map(str, sizes)), *words]
        return self.rows(ranks, asked, limit)

    def rows(self, ranks: int, words: Sequence[str], limit: float) -> list[Row]:
        self.runs += 1
        out = self.network.folder / f"torch{self.runs}.csv"
        said = [out.with_suffix(f".{rank}.txt") for rank in range(ranks)]
        processes: list[BaseProcess] = []
        until = time.monotonic() + limit
        try:
            for rank, path in enumerate(said):
                path.touch()
                processes.append(self._start(rank, said, [*words, "--out", str(out)]))
            for process in processes:
                process.join(max(0.0, until - time.monotonic()))
            if any(process.exitcode is None for process in processes):
                raise RuntimeError(f"replay of {ranks} ranks took more than {limit:g} s")
        finally:
            for process in processes:
                process.kill()
                process.join()
        if any(process.exitcode != 0 for process in processes):
            statuses = [process.exitcode for process in processes]
            outputs = " ".join(path.read_text(errors="replace") for path in said).strip()
            raise RuntimeError(f"replay: statuses {statuses}: {outputs}")
        with out.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def _start(self, rank: int, said: Sequence[Path], words: Sequence[str]) -> BaseProcess:
        """The store's traffic goes over the control network, gloo's over the shaped links."""
        environment = {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(said)),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": f"{CONTROL}.1",
            "MASTER_PORT": str(29500 + self.runs),
            "GLOO_SOCKET_IFNAME": "data",
        }
        process = multiprocessing.get_context("fork").Process(
            target=self._rank, args=(self.network.hosts[rank], environment, said[rank], words)
        )
        process.start()
        return process

    def _rank(
        self, host: str, environment: Mapping[str, str], said: Path, words: Sequence[str]
    ) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        self.network.leave()
        with said.open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        enter(host)
        with contextlib.suppress(OSError):  # before all else on the machine, where it is allowed
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        os.environ.update(environment)
        sys.exit(importlib.import_module("replay.__main__").main(words))


def enter(host: str) -> None:
    """Go into a namespace of the network."""
    namespace = os.open(f"/run/netns/{host}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"setns {host}")
    os.close(namespace)
