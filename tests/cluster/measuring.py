"""Real MPI over the network of namespaces: rows of paceline-measure-mpi."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
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

# A row whose median is so much above its minimum was disturbed: it is measured again, at most so
# often, and the smallest median counts.
DISTURBED, REPEATS_OF_A_ROW = 1.1, 2


class Measuring:
    def __init__(self, network: Network, program: str, seconds_a_row: int) -> None:
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
        chosen: dict[int, Row] = {}
        wanted = list(sizes)
        for _ in range(1 + REPEATS_OF_A_ROW):
            rows = self.rows(
                ranks,
                [
                    "--collectives",
                    "all_reduce",
                    "--sizes",
                    ",".join(map(str, wanted)),
                    "--repeats",
                    "30",
                    "--budget",
                    str(self.budget),
                ],
                120,
            )
            wanted = []
            for row in rows:
                size = int(row["size_bytes"])
                if size not in chosen or float(row["time_us"]) < float(chosen[size]["time_us"]):
                    chosen[size] = row
                if float(row["time_us"]) > DISTURBED * float(row["min_us"]):
                    wanted.append(size)
            if not wanted:
                break
        return chosen

    def step(self, ranks: int, operations: Path, iterations: int) -> Row:
        """The row of a training step's median."""
        kept: list[Row] = []
        for _ in range(1 + REPEATS_OF_A_ROW):
            rows = self.rows(
                ranks, ["--train", str(operations), "--iterations", str(iterations)], 120
            )
            row = next(row for row in rows if row["name"] == "step_median")
            kept.append(row)
            if float(row["time_us"]) <= DISTURBED * float(row["min_us"]):
                break
        return min(kept, key=lambda row: float(row["time_us"]))


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
