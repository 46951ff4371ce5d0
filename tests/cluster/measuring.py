"""Real MPI over the network of namespaces: rows of paceline-measure-mpi."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from network import Network

Row = dict[str, str]

# The ring, and every block in one message at once: with the default of 64 KiB Open MPI's two sides
# agree on each larger block while other blocks are under way, and its time follows from who was
# first.
RING = [
    "--mca",
    "coll_tuned_use_dynamic_rules",
    "1",
    "--mca",
    "coll_tuned_allreduce_algorithm",
    "4",
]
MESSAGES: list[str] = []
for _parameter in ("btl_tcp_eager_limit", "btl_tcp_rndv_eager_limit", "btl_tcp_max_send_size"):
    MESSAGES += ["--mca", _parameter, str(8 << 20)]
# More ranks than cores: those that wait must leave the core to others.
TOGETHER = ["--mca", "mpi_yield_when_idle", "1"]

# What disturbs only slows down: what is off by more than its goal is measured until its two fastest
# runs agree, at most so often, and the fastest counts. Runs of which a hypervisor took its part
# agree with nothing; where none agree, the machine was disturbed and the figure doesn't count.
ALIKE = 1.02  # medians that agree
MOST_STOLEN = 0.05  # of the time that the machine was busy; 0.00 to 0.02 on calm ones
MOST_RUNS, MOST_FITTED_RUNS = 3, 5
MOST_DISTURBED = 1 / 3  # of the cases


class DisturbedError(Exception):
    """Nothing can be measured here and now; the message says why."""


def alike(times: Iterable[float]) -> bool:
    """Whether the two fastest agree."""
    fastest = sorted(times)[:2]
    return len(fastest) == 2 and fastest[1] < ALIKE * fastest[0]


def processor_time() -> tuple[int, int]:
    """Return the ticks in which the machine was busy, and in which a hypervisor kept it waiting."""
    words = Path("/proc/stat").read_text(encoding="utf-8").split(maxsplit=9)[1:9]
    user, nice, system, _, _, irq, softirq, steal = map(int, words)
    return user + nice + system + irq + softirq, steal


def left_alone_since(before: tuple[int, int]) -> bool:
    """Whether the machine was left to us since that processor_time()."""
    busy, stolen = (now - then for now, then in zip(processor_time(), before, strict=True))
    return stolen <= MOST_STOLEN * (busy + stolen)


class Measuring:
    def __init__(self, network: Network, program: str, seconds_a_row: float) -> None:
        self.network = network
        self.program = program
        self.budget = seconds_a_row
        self.runs = 0
        self.first = self.real_time()

    @staticmethod
    def real_time() -> list[str]:
        """Before all else on the machine, where it is allowed: ranks wait in a loop that yields."""
        words = ["chrt", "-r", "1"]
        try:
            allowed = (
                subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
            )
        except OSError:
            allowed = False
        return words if allowed else []

    def rows(self, ranks: int, words: Sequence[str], limit: float) -> list[Row]:
        """Start the program once; return the rows of its file."""
        self.runs += 1
        out = self.network.folder / f"run{self.runs}.csv"
        command = [
            *self.first,
            *self.network.mpirun_words(ranks),
            *RING,
            *MESSAGES,
            *TOGETHER,
            self.program,
            "--out",
            str(out),
            "--quiet",
            "--kernels",
            "none",
            *words,
        ]
        environment = {
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "TMPDIR": str(self.network.folder),
        }
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except BaseException:
            # What it started in the namespaces, the network removes.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        if process.returncode != 0:
            raise RuntimeError(
                f"{' '.join(command)}: status {process.returncode}: {output.strip()}"
            )
        with out.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def all_reduce(self, ranks: int, sizes: Iterable[int]) -> dict[int, Row]:
        """The row of each size, by size."""
        words = ["--collectives", "all_reduce", "--sizes", ",".join(map(str, sizes))]
        rows = self.rows(ranks, [*words, "--repeats", "30", "--budget", str(self.budget)], 120)
        return {int(row["size_bytes"]): row for row in rows}

    def step(self, ranks: int, operations: Path, iterations: int) -> Row:
        """The row of a training step's median."""
        words = ["--train", str(operations), "--iterations", str(iterations)]
        return next(row for row in self.rows(ranks, words, 120) if row["name"] == "step_median")


def time_us(row: Row) -> float:
    return float(row["time_us"])


def measured_until_alike(
    measure: Callable[[], Mapping[int, Row]], near: Callable[[int, float], bool], most: int
) -> tuple[dict[int, Row], set[int]]:
    """Return the fastest row of each size, and the sizes whose runs are neither near nor alike."""
    runs: list[Mapping[int, Row]] = []
    calm: list[Mapping[int, Row]] = []
    for _ in range(most):
        before = processor_time()
        runs.append(measure())
        if left_alone_since(before):
            calm.append(runs[-1])
        best = {size: min((rows[size] for rows in runs), key=time_us) for size in runs[0]}
        disturbed = {
            size
            for size, row in best.items()
            if not near(size, time_us(row)) and not alike(time_us(rows[size]) for rows in calm)
        }
        if not disturbed:
            break
    return best, disturbed


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
