"""What runs on a worker; everything that it needs travels with it."""

from __future__ import annotations

import ctypes
import hashlib
import json
import pickle
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from distributed import get_worker

from .. import _core

# Draws, exponentials and logarithms: machines that compute these alike compute all alike.
_PROBE = {
    "scenario": {
        "cluster": {"node": "dgx-a100", "nodes": 2},
        "model": "resnet18",
        "training": {"batch_per_gpu": 32},
        "variability": {"per_operation": {"distribution": "lognormal", "cv": 0.1}},
        "run": {"iterations": 2},
    },
    "axes": [{"key": "/run/seed", "values": [1]}],
}


class Answer(NamedTuple):
    """Of a chunk: who computed it, how long it took, and of each point its line or its fault."""

    worker: str
    seconds: float
    lines: list[tuple[str, str]]


class OtherBuildError(Exception):
    """The worker has another build than the caller."""


@cache
def build() -> str:
    """Tell builds apart, and machines on which one build computes differently."""
    digest = hashlib.sha256(Path(_core.__file__).read_bytes())
    digest.update(Path(__file__).read_bytes())
    line, _ = _core.Study(json.dumps(_PROBE), "").line(0)
    digest.update(line.encode())
    known = f"{_core.VERSION}, model version {_core.MODEL_VERSION}"
    return f"paceline {known}, build {digest.hexdigest()[:12]}"


@lru_cache(maxsize=1)
def load(study: bytes) -> _core.Study:
    """Load the study; a worker does it once, and keeps what its points have in common."""
    _keep_memory()
    return pickle.loads(study)


def _keep_memory() -> None:
    """Let glibc keep what a point has used for the next one, as it does by itself.

    A nanny's MALLOC_TRIM_THRESHOLD_ turns that off: each large array of each point is then mapped
    and unmapped, which costs a twentieth of the time.
    """
    trim_threshold, mmap_threshold = -1, -3  # malloc.h
    with suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(mmap_threshold, 32 << 20)  # the largest to which glibc raises it
        mallopt(trim_threshold, 64 << 20)


def lines(points: Sequence[int], study: bytes, asked: str) -> Answer:
    """Compute the lines of some points."""
    if build() != asked:
        raise OtherBuildError(build())
    began = time.perf_counter()
    found = [load(study).line(point) for point in points]
    return Answer(get_worker().address, time.perf_counter() - began, found)
