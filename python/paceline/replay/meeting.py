"""The ranks meet in a store: they agree before they start, and name who died or hangs."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn

import torch.distributed as dist

from .place import Place
from .plan import InputError

DONE, FAILED, BAD_INPUT = 0, 1, 2
BEAT_S = 0.5
_MISSED = 3 * BEAT_S  # a process that misses so many beats doesn't run
_PROGRESS = 1 << 24  # a rank's counter: beats below, progress above


class Ended(Exception):  # noqa: N818
    """Rank 0 has said why all end; others end with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def one_line(text: object) -> str:
    return " ".join(str(text).split())


def say(message: str) -> None:
    print(f"paceline replay: {message}", file=sys.stderr, flush=True)


def named(ranks: Sequence[int]) -> str:
    words = [str(rank) for rank in ranks]
    return (
        f"rank {words[0]}" if len(words) == 1 else f"ranks {', '.join(words[:-1])} and {words[-1]}"
    )


class Meeting:
    def __init__(self, place: Place, timeout_s: float) -> None:
        self.place, self.timeout_s = place, timeout_s
        self.progress = 0  # of this rank: what it does counts it
        self._over = threading.Event()
        self.store: Any = dist.HashStore() if place.ranks == 1 else self._connect(place.hosts_store)

    def _connect(self, hosts: bool) -> Any:
        place = self.place
        where = f"{place.address}:{place.port}"
        limit = timedelta(seconds=self.timeout_s)
        try:
            store = dist.TCPStore(
                place.address, place.port, None, hosts, timeout=limit, wait_for_workers=False
            )
        except Exception as error:
            what = "can't listen" if hosts else f"no rank 0 within {self.timeout_s:.3g} s"
            raise InputError(
                f"rank {place.rank}: {what} at {where} (MASTER_ADDR, MASTER_PORT): "
                f"{one_line(error)}"
            ) from error
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return dist.PrefixStore(f"paceline/{attempt}", store)

    def agree(
        self, own: dict[str, Any], objection: Callable[[list[dict[str, Any]]], str]
    ) -> list[Any]:
        """Return what every rank says of itself; all end if rank 0 objects, or a rank is missing.

        A rank's "error" is an objection before all others.
        """
        own = {**own, "rank": self.place.rank}
        if self.place.ranks == 1:
            objected = own["error"] or objection([own])
            if objected:
                raise InputError(objected)
            return [own]
        self.store.set(f"here/{self.place.rank}", json.dumps(own))
        self.store.add(f"arrived/{self.place.rank}", 1)
        if self.place.rank == 0:
            all_ranks = self._arrivals()
            wrong = [(r["rank"], r["error"]) for r in all_ranks if r["error"]]
            if wrong:
                rank, error = wrong[0]
                objected = error if rank == 0 else f"rank {rank}: {error}"
            else:
                objected = objection(all_ranks)
            self.store.set("agreed", json.dumps([] if objected else all_ranks))
            if objected:
                self._see_off()
                raise InputError(objected)
            return all_ranks
        try:
            self.store.wait(["agreed"], timedelta(seconds=self.timeout_s + 4 * BEAT_S))
            agreed = json.loads(self.store.get("agreed"))
            self.store.add("left", 0 if agreed else 1)
        except RuntimeError as error:
            raise InputError(f"rank {self.place.rank}: rank 0 ended") from error
        if not agreed:
            raise Ended(BAD_INPUT)
        return agreed

    def _arrivals(self) -> list[dict[str, Any]]:
        missing = list(range(self.place.ranks))
        until = time.monotonic() + self.timeout_s
        while missing:
            missing = [rank for rank in missing if not self.store.add(f"arrived/{rank}", 0)]
            if missing and time.monotonic() > until:
                self.store.set("agreed", json.dumps([]))
                raise InputError(
                    f"{named(missing)} of {self.place.ranks} did not arrive within "
                    f"{self.timeout_s:.3g} s at {self.place.address}:{self.place.port}"
                )
            time.sleep(0.02 if missing else 0)
        return [json.loads(self.store.get(f"here/{rank}")) for rank in range(self.place.ranks)]

    def _see_off(self) -> None:
        """Rank 0 hosts the store: it stays until the others have read."""
        until = time.monotonic() + 4 * BEAT_S
        while self.store.add("left", 0) < self.place.ranks - 1 and time.monotonic() < until:
            time.sleep(0.02)

    def gather(self, name: str, own: Any) -> list[Any]:
        """Return every rank's, at rank 0; elsewhere nothing."""
        self.progress += 1
        self.store.set(f"{name}/{self.place.rank}", json.dumps(own))
        self.store.add(f"{name}s", 1)
        if self.place.rank > 0:
            return []
        while self.store.add(f"{name}s", 0) < self.place.ranks:
            time.sleep(0.02)  # the watch ends this if a rank doesn't come
        self.progress += 1
        return [json.loads(self.store.get(f"{name}/{rank}")) for rank in range(self.place.ranks)]

    def watch(self) -> None:
        """From now on a rank that ends, or hangs for the time-out, is named and all end."""
        if self.place.ranks > 1:
            store = self._connect(hosts=False)
            threading.Thread(target=self._watch, args=(store,), daemon=True).start()

    def _watch(self, store: Any) -> None:
        judge = _Judge(self.place.ranks, self.timeout_s)
        reported = 0
        try:
            while not self._over.wait(BEAT_S):
                progress = self.progress
                store.add(f"alive/{self.place.rank}", 1 + (progress - reported) * _PROGRESS)
                reported = progress
                if self.place.rank == 0:
                    verdict = judge.verdict(store)
                    if verdict:
                        self._end(store, *verdict)
                elif store.add("ended", 0):
                    status = int(store.get("status"))
                    store.add("left", 1)
                    os._exit(status)
        except RuntimeError:
            if not self._over.is_set():
                say(f"rank {self.place.rank}: rank 0 ended")
                os._exit(FAILED)

    def _end(self, store: Any, message: str, status: int) -> NoReturn:
        say(message)
        store.set("status", str(status))
        store.add("ended", 1)
        self._see_off()
        os._exit(status)

    def fail(self, message: str, status: int) -> NoReturn:
        """Tell why this rank can't go on; rank 0 says so, or who was the cause."""
        if self.place.ranks == 1:
            say(message)
            os._exit(status)
        try:
            self.store.set(f"failure/{self.place.rank}", json.dumps([message, status]))
            self.store.add(f"failed/{self.place.rank}", 1)
            self.store.add("failures", 1)
        except RuntimeError:
            say(f"rank {self.place.rank}: {message}")
            os._exit(status)
        time.sleep(20 * BEAT_S)  # the watch ends the process
        os._exit(status)

    def close(self) -> None:
        """All went well: end together."""
        self.gather("over", own=None)
        if self.place.ranks == 1:
            return
        if self.place.rank == 0:
            self._over.set()
            self.store.set("closed", "")
            self._see_off()
        else:
            self.store.wait(["closed"], timedelta(seconds=self.timeout_s))
            self._over.set()
            self.store.add("left", 1)


class _Judge:
    """At rank 0: who is the cause when the run doesn't go on."""

    def __init__(self, ranks: int, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        now = time.monotonic()
        self.counts = [0] * ranks
        self.beat_at = [now] * ranks
        self.progress_at = now
        self.failed_at: float | None = None

    def verdict(self, store: Any) -> tuple[str, int] | None:
        now = time.monotonic()
        for rank, before in enumerate(self.counts):
            count = store.add(f"alive/{rank}", 0)
            if count != before:
                self.beat_at[rank] = now
            if count // _PROGRESS != before // _PROGRESS:
                self.progress_at = now
            self.counts[rank] = count
        silent = [rank for rank, at in enumerate(self.beat_at) if now - at > _MISSED]
        if store.add("failures", 0):
            return self._of_failures(store, silent, now)
        if silent and now - min(self.beat_at) > self.timeout_s:
            return f"{named(silent)} did not answer for {self.timeout_s:.3g} s", FAILED
        if now - self.progress_at > self.timeout_s:
            progress = [count // _PROGRESS for count in self.counts]
            late = [rank for rank, done in enumerate(progress) if done == min(progress)]
            if len(late) == len(progress):
                late_ones = "all ranks communicate or hang (--timeout gives more time)"
            else:
                late_ones = f"{named(late)} hung"
            return f"{late_ones}: nothing went on for {self.timeout_s:.3g} s", FAILED
        return None

    def _of_failures(self, store: Any, silent: list[int], now: float) -> tuple[str, int] | None:
        self.failed_at = self.failed_at or now
        failed = [rank for rank in range(len(self.counts)) if store.add(f"failed/{rank}", 0)]
        messages = {rank: json.loads(store.get(f"failure/{rank}")) for rank in failed}
        inputs = [rank for rank in failed if messages[rank][1] == BAD_INPUT]
        gone = [rank for rank in silent if rank not in failed]
        if not inputs and not gone and now - self.failed_at < 2 * _MISSED:
            return None  # who ended is known when it misses its beats
        if gone and not inputs:
            return f"{named(gone)} ended", FAILED
        rank = (inputs or failed)[0]
        message, status = messages[rank]
        return message if rank == 0 else f"rank {rank}: {message}", status
