"""Does Paceline predict a real cluster that it was calibrated on a part of?

    cluster_test.py PACELINE PACELINE_MEASURE_MPI

Makes hosts as network namespaces with links of 50 Mbit/s (network.py), runs Open MPI's ring
all-reduce over real TCP (measuring.py), fits the costs to 2 and 4 hosts and a few sizes, and
predicts what was not fitted: more hosts, other sizes, other links, two racks with a thin trunk, one
slow link, and training steps. Prints each case, measured and predicted, and fails where a mean
error is above its goal. Exit status: 0 passed, 1 failed, 77 not permitted here.

The goals, and the rule for disturbed measurements, were fixed before the first run of this test.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hosts
from measuring import Measuring, Row, write_rows
from network import Network, NotPermittedError

SKIPPED = 77
KIB = 1024
RATE, TRUNK, SLOW = 50, 15, 0.5  # Mbit/s, Mbit/s, share of its rate
MOST_HOSTS = 8
FITTED_HOSTS, FITTED_SIZES = (2, 4), (32 * KIB, 128 * KIB, 512 * KIB)
OTHER_SIZES = (64 * KIB, 256 * KIB, 1024 * KIB)

# Mean error of a group of cases, and of the difference that a slow link makes.
GOALS = {
    "fitted": 0.07,
    "more hosts": 0.07,
    "other sizes": 0.10,
    "other rates": 0.10,
    "thin trunk": 0.10,
    "slow link": 0.10,
    "slow link's effect": 0.15,
    "training step": 0.10,
}


class Paceline:
    """The program, on files in a folder."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program = program
        self.folder = folder
        self.profile = folder / "profile.json"

    def file(self, name: str, content: object = None) -> Path:
        path = self.folder / name
        if content is not None:
            path.write_text(json.dumps(content, indent=1), encoding="utf-8")
        return path

    def run(self, *given: str | Path) -> str:
        words = [str(word) for word in given]
        result = subprocess.run([self.program, *words], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {result.stderr.strip()}")
        return result.stdout

    def fit(self, measured_by_hosts: Mapping[int, Mapping[int, Row]]) -> None:
        cluster = self.file("hosts.json", hosts.cluster(max(measured_by_hosts), RATE))
        files: list[Path] = []
        for count, rows in measured_by_hosts.items():
            files.append(self.file(f"all{count}.csv"))
            write_rows(files[-1], list(rows.values()))
        print(
            self.run(
                "calibrate",
                "fit",
                *files,
                "--cluster",
                cluster,
                "--library",
                "mpi",
                "-o",
                self.profile,
            )
        )

    def all_reduce(self, cluster: dict[str, Any], sizes: Sequence[int]) -> dict[int, float]:
        """Microseconds by size."""
        path = self.file("cluster.json", cluster)
        times = {}
        for size in sizes:
            text = self.run(
                "collective",
                "all_reduce",
                "--cluster",
                path,
                "--library",
                "mpi",
                "--profile",
                self.profile,
                "-b",
                str(size),
                "-e",
                str(size),
                "--json",
            )
            times[size] = json.loads(text)["results"][0]["out_of_place"]["time"]
        return times

    def step(self, cluster: dict[str, Any]) -> float:
        """Microseconds."""
        path, out = self.file("scenario.json", hosts.scenario(cluster)), self.file("result.json")
        self.run("run", path, "--profile", self.profile, "--quiet", "--out", out)
        mean: float = json.loads(out.read_text(encoding="utf-8"))["step_time_s"]["mean"]
        return mean * 1e6

    def operations(self, cluster: dict[str, Any]) -> Path:
        """Write the file of what each rank does in a step, for the trainer."""
        path = self.file("steps.csv")
        self.run(
            "calibrate",
            "replay",
            self.file("scenario.json", hosts.scenario(cluster)),
            "--steps",
            path,
        )
        return path


class Comparison:
    def __init__(self) -> None:
        self.errors: dict[str, list[float]] = {}

    def add(self, group: str, case: str, measured: float, predicted: float) -> None:
        error = predicted / measured - 1
        self.errors.setdefault(group, []).append(abs(error))
        times = f"{measured / 1000:10.2f} {predicted / 1000:10.2f}"
        print(f"{group:20} {case:32} {times} {100 * error:+8.1f} %", flush=True)

    def add_all(
        self, group: str, case: str, rows: Mapping[int, Row], predicted: Mapping[int, float]
    ) -> None:
        for size in sorted(rows):
            self.add(
                group, f"{case}, {size // KIB} KiB", float(rows[size]["time_us"]), predicted[size]
            )

    def passed(self) -> bool:
        print(f"\n{'mean error':20} {'':32} {'':10} {'':10} {'':8}   goal")
        passed = True
        for group, errors in self.errors.items():
            mean = sum(errors) / len(errors)
            broken = mean > GOALS[group]
            passed = passed and not broken
            print(
                f"{group:20} {len(errors):3} cases {100 * mean:46.1f} % {100 * GOALS[group]:6.0f} %"
                f"{'  broken' if broken else ''}"
            )
        return passed


def compare_collectives(
    network: Network, measuring: Measuring, paceline: Paceline, comparison: Comparison
) -> None:
    fitted = {count: measuring.all_reduce(count, FITTED_SIZES) for count in FITTED_HOSTS}
    paceline.fit(fitted)
    print(f"{'':20} {'':32} {'measured':>10} {'predicted':>10} {'error':>8}")
    print(f"{'':53} {'ms':>10} {'ms':>10}")

    def predict(
        sizes: Sequence[int],
        count: int,
        rate: float,
        slow: tuple[int, float] | None = None,
        racks: tuple[int, float] | None = None,
    ) -> dict[int, float]:
        return paceline.all_reduce(hosts.cluster(count, rate, slow, racks), sizes)

    for count, rows in fitted.items():
        comparison.add_all("fitted", f"{count} hosts", rows, predict(FITTED_SIZES, count, RATE))
    healthy = {}
    for count in (6, 8):
        healthy[count] = measuring.all_reduce(count, FITTED_SIZES)
        comparison.add_all(
            "more hosts", f"{count} hosts", healthy[count], predict(FITTED_SIZES, count, RATE)
        )
    for count in (4, 6):
        comparison.add_all(
            "other sizes",
            f"{count} hosts",
            measuring.all_reduce(count, OTHER_SIZES),
            predict(OTHER_SIZES, count, RATE),
        )
    for rate in (25, 100):
        network.set_rates(rate)
        comparison.add_all(
            "other rates",
            f"4 hosts, {rate} Mbit/s",
            measuring.all_reduce(4, FITTED_SIZES),
            predict(FITTED_SIZES, 4, rate),
        )
    network.set_rates(RATE)
    network.two_racks(3, 3, TRUNK)
    comparison.add_all(
        "thin trunk",
        f"2 x 3 hosts, {TRUNK} Mbit/s",
        measuring.all_reduce(6, FITTED_SIZES),
        predict(FITTED_SIZES, 6, RATE, racks=(3, TRUNK)),
    )
    network.one_rack()
    network.set_rate(2, RATE * SLOW)
    slow = measuring.all_reduce(6, FITTED_SIZES)
    slow_predicted = predict(FITTED_SIZES, 6, RATE, slow=(2, SLOW))
    network.set_rate(2, RATE)
    comparison.add_all("slow link", "6 hosts, one at half", slow, slow_predicted)
    healthy_predicted = predict(FITTED_SIZES, 6, RATE)
    for size in FITTED_SIZES:
        measured = float(slow[size]["time_us"]) - float(healthy[6][size]["time_us"])
        comparison.add(
            "slow link's effect",
            f"6 hosts, {size // KIB} KiB",
            measured,
            slow_predicted[size] - healthy_predicted[size],
        )


def compare_steps(
    network: Network, measuring: Measuring, paceline: Paceline, comparison: Comparison
) -> None:
    operations = paceline.operations(hosts.cluster(2, RATE))
    cases: list[tuple[int, tuple[int, float] | None]] = [(4, None), (6, None), (4, (1, SLOW))]
    for count, slow in cases:
        if slow:
            network.set_rate(slow[0], RATE * slow[1])
        measured = float(measuring.step(count, operations, 12)["time_us"])
        if slow:
            network.set_rate(slow[0], RATE)
        comparison.add(
            "training step",
            f"{count} hosts" + (", one at half" if slow else ""),
            measured,
            paceline.step(hosts.cluster(count, RATE, slow=slow)),
        )


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    for tool in ("ip", "tc", "mpirun", "unshare"):
        if shutil.which(tool) is None:
            print(f"skipped: there is no {tool} here")
            return SKIPPED
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    try:
        network = Network(MOST_HOSTS, RATE)
    except NotPermittedError as error:
        print(f"skipped: network namespaces and shaped links can't be made here: {error}")
        return SKIPPED
    try:
        measuring = Measuring(network, sys.argv[2], 1)
        paceline, comparison = Paceline(sys.argv[1], network.folder), Comparison()
        compare_collectives(network, measuring, paceline, comparison)
        compare_steps(network, measuring, paceline, comparison)
        return 0 if comparison.passed() else 1
    finally:
        network.close()


if __name__ == "__main__":
    sys.exit(main())
