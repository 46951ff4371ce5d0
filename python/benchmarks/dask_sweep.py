"""What workers give, and what they cost: prints medians and ratios.

On this machine, each worker a process of one thread, its scheduler beside them: one worker against
two, two against two threads of one process, and one against one thread where a point takes 20 ms.

    python python/benchmarks/dask_sweep.py [--study FILE] [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from dask_processes import Cluster

import paceline

THOUSAND = Path(__file__).resolve().parents[2] / "scenarios/studies/thousand.json"
OF_20_MS = {
    "scenario": {
        "cluster": {"node": "dgx-a100", "nodes": 24},
        "model": "resnet50",
        "training": {"batch_per_gpu": 256, "precision": "fp16", "measured": "2500 samples/s"},
        "variability": {"per_iteration": {"distribution": "lognormal", "cv": 0.02}},
        "run": {"iterations": 3},
    },
    "axes": [{"key": "/run/seed", "from": 1, "to": 1000, "step": 1}],
}


def seconds(study: Any, **how: Any) -> float:
    """Wall time of a sweep into an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        paceline.sweep(study, folder, progress=False, **how)
        return time.perf_counter() - began


def with_workers(study: Any, workers: int) -> float:
    """The same with workers that wait for it."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(Path(folder))
        try:
            for _ in range(workers):
                cluster.worker()
            cluster.wait_for(workers)
            return seconds(study, client=cluster.address, jobs=2)
        finally:
            cluster.stop()


def main() -> None:
    """Print each time as it is known, then the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", default=THOUSAND, type=Path)
    parser.add_argument("--rounds", default=3, type=int)
    options = parser.parse_args()
    cases: dict[str, Callable[[], float]] = {
        "one worker": lambda: with_workers(options.study, 1),
        "two workers": lambda: with_workers(options.study, 2),
        "two threads": lambda: seconds(options.study, jobs=2),
        "one worker, 20 ms": lambda: with_workers(OF_20_MS, 1),
        "one thread, 20 ms": lambda: seconds(OF_20_MS, jobs=1),
    }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(options.rounds):
        for name, run in cases.items():
            times[name].append(run())
            print(f"{name:20} {times[name][-1]:8.2f} s", flush=True)
    median = {name: statistics.median(found) for name, found in times.items()}
    for above, below in (
        ("one worker", "two workers"),
        ("two threads", "two workers"),
        ("one worker, 20 ms", "one thread, 20 ms"),
    ):
        print(f"{above} / {below}: {median[above] / median[below]:.3f}")


if __name__ == "__main__":
    main()
