"""What paceline.run costs beyond the C++ run: prints both medians and their difference.

The C++ run is ``_core.run`` with a text that is there already: it reads the scenario, predicts and
writes result.json, as ``paceline run`` does. Beyond it ``paceline.run`` writes the dictionary as
JSON and, when ``data`` is asked for, reads the result. Calls alternate, so that both meet the same
machine.

    python python/benchmarks/python_call.py [SCENARIO.json] [--calls N]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import paceline
from paceline import _core, scenarios

DEFAULT = Path(__file__).resolve().parents[2] / "scenarios/slow_gpu_64.json"


def seconds(call: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Print one line for each way to call."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", nargs="?", type=Path, default=DEFAULT)
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    scenario = scenarios.load(options.scenario)
    text = scenarios.to_json(scenario)
    name = str(options.scenario)
    calls: dict[str, Callable[[], object]] = {
        "C++ run": lambda: _core.run(text, name, "{}"),
        "paceline.run(dict)": lambda: paceline.run(scenario),
        "paceline.run(dict).data": lambda: paceline.run(scenario).data,
        "paceline.run(file).data": lambda: paceline.run(options.scenario).data,
    }
    times: dict[str, list[float]] = {way: [] for way in calls}
    for _ in range(options.calls):
        for way, call in calls.items():
            times[way].append(1e3 * seconds(call))
    base = statistics.median(times["C++ run"])
    for way, measured in times.items():
        median = statistics.median(measured)
        print(f"{way:24} {median:9.3f} ms  {median - base:+8.3f} ms")


if __name__ == "__main__":
    main()
