"""The caller's part of a sweep on Dask's workers: it hands out points, and writes their lines."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

import pandas as pd
from distributed import Client, Future, KilledWorker, LocalCluster, as_completed
from distributed.comm.addressing import resolve_address

from .. import _core
from ..errors import InputError, warn
from . import worker
from .chunks import Chunks

ANSWERS_WITHIN = 30  # s: a scheduler
# Tasks in the scheduler's hands for each thread: seconds of work, for which adaptive clusters grow.
AHEAD = 20
AHEAD_UNMEASURED = 3
COUNT_AGAIN = 1.0  # s between questions how many threads there are
POLL = 0.05  # s
NO_MEMORY = "out of memory"  # studies/pieces.cpp


@contextmanager
def connected(client: Any, jobs: int) -> Iterator[Client]:
    """Yield a client: the one given, of an address, or of a cluster of processes here ("local")."""
    if isinstance(client, Client):
        if client.asynchronous:
            raise InputError("expected a client that waits, found an asynchronous one", "client")
        yield client
    elif client == "local":
        options = {"processes": True, "dashboard_address": None}
        with (
            LocalCluster(n_workers=jobs, threads_per_worker=1, **options) as cluster,
            Client(cluster, set_as_default=False) as made,
        ):
            yield made
    elif isinstance(client, str):
        try:
            resolve_address(client)  # of a name that can't be, a client would be left half open
            made = Client(client, timeout=ANSWERS_WITHIN, set_as_default=False)
        except (OSError, ValueError) as error:
            expected = f"expected a scheduler that answers within {ANSWERS_WITHIN} s"
            raise InputError(f"{expected}, found none: {error}", file=client) from error
        with made:
            yield made
    else:
        kinds = 'a dask.distributed Client, an address such as tcp://HOST:8786 or "local"'
        raise InputError(f"expected {kinds}, found {type(client).__name__}", "client")


def sweep(
    client: Client,
    text: str,
    file_name: str,
    out: str,
    jobs: int,
    tell: Callable[[int, int, int], object] | None,
) -> tuple[str, pd.DataFrame]:
    """Compute what is left of a study with all workers of the client.

    Raises
    ------
    InputError
        The study is wrong, ``out`` can't be used or written, a worker has no or another Paceline.
    RuntimeError
        The scheduler is lost. What came until then is in ``out``.
    """
    asked = _require_build(client)
    study = _core.Study(text, file_name)
    folder = _core.OpenSweep(study, out, jobs)
    with _heeding_interrupts() as check:
        handing = _HandingOut(client, study, folder, asked, tell, check)
        try:
            try:
                handing.run()
            finally:
                handing.stop()
        except (CancelledError, OSError) as error:
            done, points, _ = folder.progress()  # with what came at last
            where = f"{done} of {points} points are in {out}: the same sweep goes on from there"
            raise RuntimeError(f"{_address(client)}: the scheduler is lost; {where}") from error
    return folder.end(), handing.rates()


def _lines() -> Callable[[list[int], bytes, str], worker.Answer]:
    """Make a task that travels as code: without the package it fails, and not the whole worker."""

    def lines(points: list[int], study: bytes, asked: str) -> worker.Answer:
        from paceline.workers import worker

        return worker.lines(points, study, asked)

    return lines


@contextmanager
def _heeding_interrupts() -> Iterator[Callable[[], None]]:
    """Yield what raises KeyboardInterrupt after Ctrl-C.

    Raised wherever Python happens to be, it may be lost: in a ``__del__`` of Dask's, say. A second
    Ctrl-C is raised at once.
    """
    asked = threading.Event()

    def note(*_: object) -> None:
        asked.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def check() -> None:
        if asked.is_set():
            raise KeyboardInterrupt

    ours = threading.current_thread() is threading.main_thread()
    if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, note)
        try:
            yield check
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        yield check


class _HandingOut:
    """Chunks of points on their way to workers and back."""

    def __init__(
        self,
        client: Client,
        study: _core.Study,
        folder: _core.OpenSweep,
        asked: str,
        tell: Callable[[int, int, int], object] | None,
        check: Callable[[], None],
    ) -> None:
        self._client, self._folder, self._asked = client, folder, asked
        self._check = check
        self._tell = tell or (lambda *_: None)
        self._left = folder.left()
        self._chunks = Chunks([gpus for _, gpus in self._left])
        # Points whose worker died, or ran out of memory: each is computed once more, alone.
        self._suspects: list[int] = []
        self._running: dict[Future[Any], list[int]] = {}
        self._done = as_completed(with_results=True, raise_errors=False, loop=client.loop)
        self._threads, self._counted = 1, 0.0
        self._name = f"paceline-{os.urandom(8).hex()}"
        self._number = 0
        self._study = client.submit(
            bytes, pickle.dumps(study), key=(f"{self._name}-study", 0), pure=False
        )
        self._rates: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])

    def run(self) -> None:
        """Return when every point has its line or its fault."""
        if self._chunks:
            self._share()
        while self._chunks or self._running:
            self._check()
            self._hand_out()
            self._take(*self._next())
        for suspect in self._suspects:
            self._check()
            self._submit([[suspect]])
            self._take(*self._next(), alone=True)

    def stop(self) -> None:
        """Keep what has come, and cancel what hasn't."""
        try:
            for future, answer in self._done.next_batch(block=False):
                if isinstance(answer, worker.Answer):
                    self._take(future, answer)
        finally:  # a disk that is full is so for these lines, too
            self._client.cancel([*self._running, self._study])

    def rates(self) -> pd.DataFrame:
        """Tell what each worker did."""
        rows = [(name, int(points), seconds) for name, (points, seconds) in self._rates.items()]
        frame = pd.DataFrame(sorted(rows), columns=["worker", "points", "seconds"])
        frame["points_per_s"] = frame["points"] / frame["seconds"]
        return frame

    def _share(self) -> None:
        while not self._study.done():  # until there is a worker
            self._check()
            self._count_threads()
            time.sleep(POLL)
        self._client.replicate([self._study])  # else all tasks would go where it was loaded

    def _hand_out(self) -> None:
        ahead = AHEAD if self._chunks.measured else AHEAD_UNMEASURED
        threads = max(1, self._threads)
        chunks: list[list[int]] = []
        while self._chunks and len(self._running) + len(chunks) < ahead * threads:
            chunks.append(self._chunks.take(threads))
        if chunks:
            self._submit(chunks)

    def _next(self) -> tuple[Future[Any], Any]:
        while not self._done.has_ready():
            self._check()
            self._count_threads()
            time.sleep(POLL)
        return next(self._done)

    def _count_threads(self) -> None:
        if time.monotonic() - self._counted < COUNT_AGAIN:
            return
        if self._client.status != "running":  # it would wait for the scheduler to come back
            raise CancelledError
        before, self._threads = self._threads, sum(self._client.nthreads().values())
        self._counted = time.monotonic()
        if before > 0 and self._threads == 0:
            warn(f"{_address(self._client)}: no workers; waiting for some")

    def _submit(self, chunks: list[list[int]]) -> None:
        first, self._number = self._number, self._number + len(chunks)
        futures = self._client.map(
            _lines(),
            [[self._left[i][0] for i in chunk] for chunk in chunks],
            key=[(f"{self._name}-lines", n) for n in range(first, self._number)],
            pure=False,
            study=self._study,
            asked=self._asked,
        )
        self._running.update(zip(futures, chunks, strict=True))
        self._done.update(futures)

    def _take(self, future: Future[Any], answer: Any, alone: bool = False) -> None:
        chunk = self._running.pop(future)
        if isinstance(answer, worker.Answer):
            self._write(chunk, answer, alone)
            return
        if isinstance(answer, CancelledError):  # Dask does so with all when the scheduler is lost
            raise answer
        _, failure, _ = answer
        killed = isinstance(failure, KilledWorker)
        if not killed:
            _require_build(self._client)  # of workers that came later
        if alone:
            what = "each worker that computed it died (of memory?)" if killed else str(failure)
            self._folder.fail(chunk[0], what)
        else:
            self._suspects += chunk

    def _write(self, chunk: list[int], answer: worker.Answer, alone: bool) -> None:
        self._chunks.took(chunk, answer.seconds)
        rate = self._rates[answer.worker]
        rate[0] += len(chunk)
        rate[1] += answer.seconds
        for i, (line, fault) in zip(chunk, answer.lines, strict=True):
            if not fault:
                self._folder.write_line(i, line)
                self._tell(*self._folder.progress())
            elif fault == NO_MEMORY and not alone:
                self._suspects.append(i)
            else:
                self._folder.fail(i, fault)


def _require_build(client: Client) -> str:
    """Ask every worker; raise where one has no or another Paceline."""
    own = worker.build()
    answers = client.run(worker.build, on_error="return")
    for address, found in sorted(answers.items()):
        if isinstance(found, OSError):
            continue  # it is gone
        if found != own:
            what = f"one without: {found}" if isinstance(found, Exception) else found
            raise InputError(f"expected a worker with {own}, found {what}", file=address)
    return own


def _address(client: Client) -> str:
    return str(client.scheduler.address) if client.scheduler else "scheduler"
