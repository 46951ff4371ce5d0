"""What the ranks saw, and the rows and the table that follow from it."""

from __future__ import annotations

import csv
import datetime as dt
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

# The measuring program's columns; what a row doesn't say is 0 or empty.
COLUMNS = {
    **dict.fromkeys(("kind", "name", "precision"), ""),
    **dict.fromkeys(("ranks", "nodes", "gpus_per_node", "size_bytes"), "0"),
    **dict.fromkeys(("m", "n", "k", "work_flop", "traffic_bytes"), "0"),
    **dict.fromkeys(("time_us", "min_us", "max_us", "repeats"), "0"),
    **dict.fromkeys(("condition", "backend", "library", "device", "host", "driver"), ""),
    "clock_mhz": "0",
    "date": "",
}
Row = dict[str, str]


@dataclass(frozen=True)
class BucketTimes:
    """Of one reduction, in seconds on the rank's clock."""

    bytes: int
    ready: float
    end: float


@dataclass(frozen=True)
class Step:
    """Of one iteration on one rank, in seconds on the rank's clock."""

    begin: float
    backward_end: float  # the last backward wait's
    gradients: float  # when all of them are there
    end: float
    buckets: tuple[BucketTimes, ...]


@dataclass(frozen=True)
class RankRecord:
    rank: int
    clock: str  # ranks with the same one share their clock
    steps: tuple[Step, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RankRecord:
        steps = [
            Step(**{**step, "buckets": tuple(BucketTimes(**bucket) for bucket in step["buckets"])})
            for step in data["steps"]
        ]
        return cls(data["rank"], data["clock"], tuple(steps))


@dataclass(frozen=True)
class Facts:
    """The columns that all rows of a run share."""

    ranks: int
    nodes: int
    backend: str
    library: str
    precision: str
    device: str
    host: str
    driver: str = ""


def worker_starts(buckets: Sequence[BucketTimes], workers: int) -> list[float]:
    """When each operation began: when it was ready and one of the workers was free.

    The workers take operations first in, first out, and stay with each to its end.
    """
    free = [float("-inf")] * workers
    starts = []
    for bucket in buckets:
        worker = min(range(workers), key=free.__getitem__)
        starts.append(max(bucket.ready, free[worker]))
        free[worker] = bucket.end
    return starts


def job_steps(records: Sequence[RankRecord]) -> list[float]:
    """Return each step's time: from the latest rank's end to the next one's.

    On several clocks: the longest of the ranks' own steps.
    """
    count = len(records[0].steps)
    if not one_clock(records):
        own = [[step.end - step.begin for step in record.steps] for record in records]
        return [max(times[i] for times in own) for i in range(count)]
    # A step begins where the one before ended.
    ends = [max(record.steps[0].begin for record in records)]
    ends += [max(record.steps[i].end for record in records) for i in range(count)]
    return [after - before for before, after in itertools.pairwise(ends)]


def one_clock(records: Sequence[RankRecord]) -> bool:
    return len({record.clock for record in records}) == 1


def waiting(records: Sequence[RankRecord], iteration: int, workers: int) -> list[float]:
    """Return what each rank waits for slower ones, once it has nothing left to compute.

    It waits for its reductions in their order; of that, what passes until the last rank begins, as
    far as that one took longer since its step began: ranks that a reduction itself has left apart
    are no stragglers (docs/model.md, "Skew is not straggling"). Only where all share a clock.
    """
    steps = [record.steps[iteration] for record in records]
    starts = [worker_starts(step.buckets, workers) for step in steps]
    last = [
        max(range(len(steps)), key=of_bucket.__getitem__) for of_bucket in zip(*starts, strict=True)
    ]
    result = []
    for step, own_starts in zip(steps, starts, strict=True):
        at, total = step.backward_end, 0.0
        for k, (start, bucket) in enumerate(zip(own_starts, step.buckets, strict=True)):
            slow = steps[last[k]]
            longer = (slow.buckets[k].ready - slow.begin) - (bucket.ready - step.begin)
            total += max(0.0, min(starts[last[k]][k] - max(at, start), longer))
            at = max(at, bucket.end)
        result.append(total)
    return result


def row(
    facts: Facts,
    kind: str,
    name: str,
    times_s: Sequence[float],
    **columns: int,
) -> Row:
    """Return a row of the median, in microseconds; other columns by name."""
    described = {
        "kind": kind,
        "name": name,
        "precision": facts.precision,
        "ranks": facts.ranks,
        "nodes": facts.nodes,
        "gpus_per_node": facts.ranks // facts.nodes,
        "time_us": f"{median(times_s) * 1e6:.6g}",
        "min_us": f"{min(times_s) * 1e6:.6g}",
        "max_us": f"{max(times_s) * 1e6:.6g}",
        "repeats": len(times_s),
        "backend": facts.backend,
        "library": facts.library,
        "device": facts.device,
        "host": facts.host,
        "driver": facts.driver,
        "date": dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {**COLUMNS, **{key: str(value) for key, value in (described | columns).items()}}


def step_rows(records: Sequence[RankRecord], facts: Facts, workers: int) -> list[Row]:
    """Return the job's step, and what it is made of: medians over steps, parts means of ranks."""
    rows = [row(facts, "step", "step_median", job_steps(records))]
    for record in records:
        times = [step.end - step.begin for step in record.steps]
        rows.append(row(facts, "step", "step_of_rank", times, n=record.rank))
    count = range(len(records[0].steps))
    exposed = [
        mean([record.steps[i].gradients - record.steps[i].backward_end for record in records])
        for i in count
    ]
    rows.append(row(facts, "step", "exposed", exposed))
    if one_clock(records) and records[0].steps[0].buckets:
        waits = [mean(waiting(records, i, workers)) for i in count]
        rows.append(row(facts, "step", "waiting", waits))
    return rows + _bucket_rows(records, facts, workers)


def _bucket_rows(records: Sequence[RankRecord], facts: Facts, workers: int) -> list[Row]:
    """When the last rank is ready, starts and ends, since the job's step began."""
    rows = []
    shared = one_clock(records)
    for k, bucket in enumerate(records[0].steps[0].buckets):
        times: dict[str, list[float]] = {"ready": [], "start": [], "end": []}
        for i in range(len(records[0].steps)):
            steps = [record.steps[i] for record in records]
            # The job's step begins where the latest rank's last one ended.
            job = max(step.begin for step in steps)
            begins = [job if shared else step.begin for step in steps]
            starts = [worker_starts(step.buckets, workers)[k] for step in steps]
            for name, moments in (
                ("ready", [step.buckets[k].ready for step in steps]),
                ("start", starts),
                ("end", [step.buckets[k].end for step in steps]),
            ):
                since = zip(moments, begins, strict=True)
                times[name].append(max(moment - begin for moment, begin in since))
        for name, values in times.items():
            columns = {"m": k, "size_bytes": bucket.bytes}
            rows.append(row(facts, "bucket", name, values, **columns))
    return rows


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(COLUMNS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _milliseconds(found: Row, column: str = "time_us") -> str:
    return f"{float(found[column]) / 1000:.3f}"


def table(rows: Sequence[Row]) -> str:
    """Return what rank 0 prints: the step, ranks, and the buckets of rank 0, in milliseconds."""
    lines = []
    for found in rows:
        time = _milliseconds(found)
        if found["kind"] == "collective":
            size = f"{found['name']:<16}{int(found['size_bytes']):>12,} B"
            lines.append(f"{size} {time:>10} ms ({found['repeats']} repeats)")
        if found["name"] == "step_median":
            spread = f"{_milliseconds(found, 'min_us')} to {_milliseconds(found, 'max_us')}"
            step = f"step {time} ms, median of {found['repeats']} ({spread})"
            lines.append(f"{found['library']}, {found['ranks']} ranks: {step}")
    ranks = [found for found in rows if found["name"].endswith("_of_rank")]
    buckets = [found for found in rows if found["kind"] == "bucket"]
    return "\n".join([*lines, *_part("rank", ranks, "n"), *_part("bucket of rank 0", buckets, "m")])


def _part(title: str, rows: Sequence[Row], key: str) -> list[str]:
    """Return a line per rank or bucket, a column per name."""
    names = list(dict.fromkeys(found["name"] for found in rows))
    if not rows:
        return []
    sized = rows[0]["size_bytes"] != "0"
    heads = [*(["bytes"] if sized else []), *(f"{n.removesuffix('_of_rank')} ms" for n in names)]
    lines = [f"{title:<18}" + "".join(f"{head:>14}" for head in heads)]
    for number in dict.fromkeys(found[key] for found in rows):
        of_number = [found for found in rows if found[key] == number]
        cells = [f"{int(of_number[0]['size_bytes']):,}"] if sized else []
        cells += [_milliseconds(found) for found in of_number]
        lines.append(f"{number:<18}" + "".join(f"{cell:>14}" for cell in cells))
    return lines
