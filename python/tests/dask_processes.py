"""Dask's own programs on this machine: a scheduler, and workers that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from distributed import Client

PATIENCE = 60.0  # s


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Fail where it doesn't hold in time."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE} s"
        time.sleep(0.02)


class Cluster:
    """``dask scheduler`` on 127.0.0.1, and ``dask worker`` as often as it is asked for."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler",
            *("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)),
            env=environment,
        )
        wait_until(lambda: file.exists() and bool(file.read_text()), "a scheduler")
        self.address: str = json.loads(file.read_text())["address"]

    def worker(
        self,
        *words: str,
        preload: str = "",
        env: dict[str, str] | None = None,
        nanny: bool = True,
    ) -> subprocess.Popen[bytes]:
        """Start one of a thread; `preload`: Python that it runs first.

        A nanny starts a worker that died again; it costs as much as the worker's own start.
        """
        words = words if nanny else (*words, "--no-nanny")
        if preload:
            file = self._folder / f"preload_{len(self._processes)}.py"
            file.write_text(preload)
            words = (*words, "--preload", str(file))
        return self._start(
            "worker", self.address, "--nthreads", "1", "--host", "127.0.0.1", *words, env=env
        )

    def wait_for(self, workers: int) -> None:
        """Return when so many are there."""
        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=PATIENCE)

    def stop(self) -> None:
        """Kill all that still run."""
        for process in reversed(self._processes):
            kill(process)

    def _start(
        self, program: str, *words: str, env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        log = (self._folder / f"{program}_{len(self._processes)}.log").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", program, "--no-dashboard", *words],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=self._folder,
            env=os.environ | (env or {}),
            start_new_session=True,  # a worker and its nanny die together
        )
        self._processes.append(process)
        return process


def kill(process: subprocess.Popen[Any]) -> None:
    """Kill a process and its children at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
