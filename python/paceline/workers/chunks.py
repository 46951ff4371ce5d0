"""What is left of a sweep, cut into tasks of about a second."""

from __future__ import annotations

from collections.abc import Sequence

SECONDS = 1.0  # of a task: Dask's own share of it is some milliseconds
LEAST_SECONDS = 0.05
TASKS_OF_THE_REST = 4  # for each thread: so that all end together
EMPTY = 20  # a point takes as long as so many GPUs do, and its GPUs
FIRST_GUESS = 1e-4  # s for each, until the first task has ended


class Chunks:
    """Points in the order of their size, the largest first, as they would else be waited for.

    Neighbours in the study stay beside each other: they share clusters, which are built once.
    """

    def __init__(self, gpus: Sequence[int]) -> None:
        self._sizes = [EMPTY + each for each in gpus]
        order = sorted(range(len(gpus)), key=lambda i: -gpus[i])
        self._left = order[::-1]  # the next one last
        self._size_left = sum(self._sizes)
        self._seconds, self._done = 0.0, 0

    def __bool__(self) -> bool:
        return bool(self._left)

    @property
    def measured(self) -> bool:
        """Whether a task has told how long it took."""
        return self._done > 0

    def took(self, chunk: Sequence[int], seconds: float) -> None:
        """Learn how fast a worker's thread is."""
        self._seconds += seconds
        self._done += sum(self._sizes[i] for i in chunk)

    def take(self, threads: int) -> list[int]:
        """Take the next chunk, for one of so many threads."""
        each = self._seconds / self._done if self._done else FIRST_GUESS
        rest = each * self._size_left / (TASKS_OF_THE_REST * threads)
        most = min(SECONDS, max(LEAST_SECONDS, rest)) / each
        chunk: list[int] = []
        size = 0
        while self._left and (not chunk or size + self._sizes[self._left[-1]] <= most):
            size += self._sizes[self._left[-1]]
            chunk.append(self._left.pop())
        self._size_left -= size
        return chunk
