"""Does Paceline predict what PyTorch does?

    PYTHON frameworks_test.py PACELINE [--cases some|all|hooked|sharded] [--keep FOLDER]

Runs under any Python that has torch with gloo (tried: 1.13 and 2.15).

Makes hosts as network namespaces with links of 50 Mbit/s, measures gloo's all-reduce between two of
them, fits the costs to that alone (for fully_shard also what it takes between two with units of
next to nothing), and lets PyTorch's DistributedDataParallel run training steps
on 2 to 8 hosts whose layers wait as long as the scenario says (paceline.replay); or fully_shard, in
one group or with replicas (--cases sharded, from PyTorch 2.6 on). Prints each case,
measured and predicted, and fails where errors are above their goals. Exit status: 0 passed, 1
failed, 77 not possible here.

The goals were fixed before the first run. What disturbs only slows down (measuring.py): a case that
is off by more than the goal for the mean is measured until its two fastest runs agree, at most
three times. If none agree, it doesn't count; with a third of them, or a fit whose measurements
don't repeat, nothing can be said (status 77).
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cases import (
    CASES,
    COLLECTIVES_OF_NOTHING,
    HOOKED_CASES,
    NEXT_TO_NOTHING,
    RATE,
    SHARDED_CASES,
    Case,
)
from torch_hosts import TorchHosts, version_of_torch

# torch_hosts has made tests/cluster known.
import hosts  # isort: skip
from measuring import (  # isort: skip
    MOST_DISTURBED,
    MOST_FITTED_RUNS,
    MOST_RUNS,
    DisturbedError,
    Row,
    alike,
    left_alone_since,
    processor_time,
    time_us,
    write_rows,
)
from network import Network, NotPermittedError  # isort: skip

SKIPPED = 77
KIB = 1024
FITTED_SIZES = (32 * KIB, 128 * KIB, 512 * KIB, 1024 * KIB, 4096 * KIB)
SOME = (2, 8, 11, 14, 15, 18, 20, 26, 29)  # each kind of case once or more, none of the longest
SOME_ITERATIONS = 5

STEP_MEAN, STEP_WORST = 0.02, 0.06
SHARDED_MEAN, SHARDED_WORST = 0.04, 0.10
FULLY_SHARD = (2, 6)  # has it
BUCKETS_WORST = 0.05  # of the step
PARTS_WORST = 0.05  # of the step


@dataclass(frozen=True)
class Outcome:
    step: float  # seconds
    predicted: float
    buckets: tuple[float, ...]  # how far off starts and ends are, of the step
    exposed: float  # likewise, with its sign
    waiting: float
    disturbed: bool = False  # no two runs that count agree

    @property
    def error(self) -> float:
        return self.predicted / self.step - 1


def run(*words: str | Path) -> str:
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {result.stderr.strip()}")
    return result.stdout


class Trial:
    """Cases on one network, with one PyTorch."""

    def __init__(self, paceline: str, network: Network, keep: Path | None) -> None:
        self.paceline = paceline
        self.network = network
        self.torch = TorchHosts(network)
        self.folder = keep or network.folder
        self.profile = network.folder / "profile.json"
        self.collective_launch_us = 0

    def fit(self) -> None:
        data, cluster = self.folder / "two_hosts.csv", self.folder / "two_hosts.json"
        cluster.write_text(json.dumps(hosts.cluster(2, RATE), indent=1) + "\n", encoding="utf-8")
        write_rows(data, self.undisturbed_all_reduce())
        words: list[str | Path] = ["--cluster", cluster, "--library", "gloo", "-o", self.profile]
        print(run(self.paceline, "calibrate", "fit", data, *words))

    def undisturbed_all_reduce(self) -> list[Row]:
        """Measure twice, and again while the smallest two medians of a size don't agree."""
        of_size: dict[str, list[Row]] = {}

        for _ in range(MOST_FITTED_RUNS):
            for row in self.torch.all_reduce(2, FITTED_SIZES, 120, "--budget", "1"):
                of_size.setdefault(row["size_bytes"], []).append(row)
            if all(alike(map(time_us, rows)) for rows in of_size.values()):
                break
        else:
            raise DisturbedError("gloo's all-reduce between two hosts doesn't repeat")
        return [min(rows, key=time_us) for rows in of_size.values()]

    def fit_units(self, pytorch: str) -> None:
        """Measure what a host does for each collective of fully_shard, beside waiting for it."""
        one = self.outcome(NEXT_TO_NOTHING, pytorch)
        beside = max(0.0, one.step - one.predicted) / COLLECTIVES_OF_NOTHING
        self.collective_launch_us = round(1e6 * beside)
        print(f"fully_shard between two hosts: {self.collective_launch_us} us a collective")

    def measure(self, case: Case, plan: dict[str, Any]) -> tuple[list[Row], bool]:
        """Return the rows, and whether the machine was left to run them."""
        before = processor_time()
        if case.slow_link:
            self.network.set_rate(case.slow_link[0], RATE * case.slow_link[1])
        try:
            rows = self.torch.replay(plan, 240)
        finally:
            self.network.set_rates(RATE)
        return rows, left_alone_since(before)

    def outcome(self, case: Case, pytorch: str) -> Outcome:
        path = self.folder / f"{case.name}.json"
        described = case.scenario(pytorch, self.collective_launch_us)
        path.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
        plan_file, result_file = (
            self.network.folder / "plan.json",
            self.network.folder / "result.json",
        )
        words: list[str | Path] = ["--with", "torch", "--steps", plan_file]
        run(self.paceline, "calibrate", "replay", path, *words)
        plan = json.loads(plan_file.read_text(encoding="utf-8"))
        fitted: list[str | Path] = ["--profile", self.profile]
        run(self.paceline, "run", path, *fitted, "--quiet", "--out", result_file)
        result = json.loads(result_file.read_text(encoding="utf-8"))
        goal = SHARDED_MEAN if case.sharding else STEP_MEAN
        runs: list[tuple[Outcome, list[Row]]] = []
        calm: list[float] = []
        for _ in range(MOST_RUNS):
            rows, left_alone = self.measure(case, plan)
            runs.append((compared(case, rows, result), rows))
            if left_alone:
                calm.append(runs[-1][0].step)
            best, rows = min(runs, key=lambda each: each[0].step)
            disturbed = abs(best.error) > goal and not alike(calm)
            if not disturbed:
                break
        write_rows(self.folder / f"{case.name}.csv", rows)
        return replace(best, disturbed=disturbed)


def compared(case: Case, rows: list[Row], result: dict[str, Any]) -> Outcome:
    def seconds(kind: str, name: str, bucket: int = 0) -> float:
        found = [
            row
            for row in rows
            if row["kind"] == kind and row["name"] == name and int(row["m"] or 0) == bucket
        ]
        return float(found[0]["time_us"]) * 1e-6

    step, parts = seconds("step", "step_median"), result["breakdown_s"]
    waiting = parts["straggler_wait"]
    if case.sharding:  # the replay looks at DDP's buckets alone
        return Outcome(step, result["step_time_s"]["p50"], (), 0.0, 0.0)
    buckets = [
        abs(bucket[f"{moment}_s"] - seconds("bucket", moment, number)) / step
        for number, bucket in enumerate(result["buckets"])
        for moment in ("start", "end")
    ]
    return Outcome(
        step=step,
        predicted=result["step_time_s"]["p50"],
        buckets=tuple(buckets),
        exposed=(parts["exposed_communication"] + waiting - seconds("step", "exposed")) / step,
        waiting=(waiting - seconds("step", "waiting")) / step,
    )


def described(case: Case) -> str:
    extra = [f"{len(case.layers)} layers"]
    if case.sharding:
        shards = case.sharding.shards
        extra.append(f"{case.hosts // shards} x {shards}")
        extra.append("resharded" if case.sharding.reshards else "kept")
    else:
        extra.append(f"{case.cap_mib} MiB")
    if case.accumulation > 1:
        extra.append(f"{case.accumulation} passes")
    if case.views:
        extra.append("views")
    if case.hook != "none":
        extra.append(case.hook)
    if case.slow_host:
        extra.append("a slow host")
    if case.slow_link:
        extra.append("a slow link")
    if case.jitter:
        extra.append(f"jitter {case.jitter}")
    return f"{case.hosts} hosts, {', '.join(extra)}"


def passed(outcomes: dict[Case, Outcome]) -> bool:
    """Print each figure beside its goal."""
    errors = [abs(one.error) for one in outcomes.values()]
    buckets = [error for one in outcomes.values() for error in one.buckets]
    sharded = any(case.sharding for case in outcomes)
    figures = [
        ("step, mean error", sum(errors) / len(errors), SHARDED_MEAN if sharded else STEP_MEAN),
        ("step, worst error", max(errors), SHARDED_WORST if sharded else STEP_WORST),
    ]
    if not sharded:
        exposed = [abs(one.exposed) for one in outcomes.values()]
        waiting = [abs(one.waiting) for one in outcomes.values()]
        figures += [
            ("the bucket that is furthest off", max(buckets), BUCKETS_WORST),
            ("exposed part, worst", max(exposed), PARTS_WORST),
            ("waiting for others, worst", max(waiting), PARTS_WORST),
        ]
    print()
    for name, value, goal in figures:
        broken = "  broken" if value > goal else ""
        print(f"{name:36} {100 * value:6.1f} %   goal {100 * goal:.0f} %{broken}")
    if buckets:
        print(f"{'starts and ends of buckets, mean':36} {100 * sum(buckets) / len(buckets):6.1f} %")
    return all(value <= goal for _, value, goal in figures)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paceline")
    parser.add_argument("--cases", choices=("some", "all", "hooked", "sharded"), default="some")
    parser.add_argument("--keep", type=Path, help="where scenarios and measurements are to stay")
    options = parser.parse_args()
    for tool in ("ip", "tc", "unshare"):
        if shutil.which(tool) is None:
            print(f"skipped: there is no {tool} here")
            return SKIPPED
    pytorch = version_of_torch()
    if pytorch is None:
        print("skipped: this Python has no torch (Debian: python3-torch)")
        return SKIPPED
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    chosen = {"sharded": SHARDED_CASES, "hooked": HOOKED_CASES}.get(options.cases, CASES)
    if options.cases == "sharded" and tuple(map(int, pytorch.split("."))) < FULLY_SHARD:
        print(f"skipped: PyTorch {pytorch} has no fully_shard")
        return SKIPPED
    if options.cases == "some":
        chosen = tuple(replace(CASES[i], iterations=SOME_ITERATIONS) for i in SOME)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    try:
        network = Network(max(case.hosts for case in chosen), RATE)
    except NotPermittedError as error:
        print(f"skipped: network namespaces and shaped links can't be made here: {error}")
        return SKIPPED
    try:
        trial = Trial(options.paceline, network, options.keep)
        trial.fit()
        if options.cases == "sharded":
            trial.fit_units(pytorch)
        print(f"PyTorch {pytorch}\n{'':61} measured  predicted   error  buckets  exposed  waiting")
        outcomes = {}
        for case in chosen:
            one = trial.outcome(case, pytorch)
            if not one.disturbed:
                outcomes[case] = one
            times = f"{1000 * one.step:8.1f} {1000 * one.predicted:8.1f}"
            print(
                f"{case.name} {described(case):52} {times}"
                f"  {100 * one.error:+6.1f} % {100 * max(one.buckets, default=0):6.1f} %"
                f" {100 * one.exposed:+7.1f} {100 * one.waiting:+8.1f}"
                f"{'  disturbed' if one.disturbed else ''}",
                flush=True,
            )
        if len(outcomes) < (1 - MOST_DISTURBED) * len(chosen):
            raise DisturbedError(
                f"{len(chosen) - len(outcomes)} of {len(chosen)} cases don't repeat"
            )
        return 0 if passed(outcomes) else 1
    except DisturbedError as error:
        print(f"skipped: {error}")
        return SKIPPED
    finally:
        network.close()


if __name__ == "__main__":
    sys.exit(main())
