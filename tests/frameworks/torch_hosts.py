"""PyTorch over the network of namespaces: the rows of ``paceline.replay``, a rank in each host."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cluster"))

from measuring import Measuring, Row  # noqa: E402
from network import CONTROL, Network  # noqa: E402

DEBIANS_PYTHON = "/usr/bin/python3"  # of the package python3-torch


class TorchHosts:
    def __init__(self, network: Network, interpreter: str = DEBIANS_PYTHON) -> None:
        self.network = network
        self.interpreter = interpreter
        self.first = Measuring.real_time()
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
        processes = [self._start(rank, ranks, [*words, "--out", str(out)]) for rank in range(ranks)]
        until = time.monotonic() + limit
        try:
            outputs = [
                p.communicate(timeout=max(0.1, until - time.monotonic()))[0] for p in processes
            ]
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"replay of {ranks} ranks took more than {limit:g} s") from error
        finally:
            # Of a rank that runs on, all that it started.
            for process in processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if any(process.returncode != 0 for process in processes):
            statuses = [process.returncode for process in processes]
            raise RuntimeError(f"replay: statuses {statuses}: {' '.join(outputs).strip()}")
        with out.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def _start(self, rank: int, ranks: int, words: Sequence[str]) -> subprocess.Popen[str]:
        """The store's traffic goes over the control network, gloo's over the shaped links."""
        environment = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": f"{CONTROL}.1",
            "MASTER_PORT": str(29500 + self.runs),
            "GLOO_SOCKET_IFNAME": "data",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT / "python/paceline"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        host = ["ip", "netns", "exec", self.network.hosts[rank], *self.first]
        return subprocess.Popen(
            [*host, self.interpreter, "-m", "replay", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
