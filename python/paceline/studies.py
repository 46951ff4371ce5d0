"""Sweeps: a scenario along axes, and their results as tables."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pandas as pd

from . import _core, quantities
from .errors import InputError, warn
from .results import thread_count
from .scenarios import Source, as_text

if TYPE_CHECKING:
    from .workers import Workers

SEED_KEY = "/run/seed"
MOST_NEAR = 3  # names that are suggested


class Axis(NamedTuple):
    """What changes between points."""

    name: str
    key: str
    """A JSON pointer into the scenario, or "gpus"."""


class Sweep:
    """The results of a study: one line per point, as ``results.jsonl`` holds them."""

    workers: pd.DataFrame | None = None
    """Of a sweep with workers: ``worker``, ``points``, ``seconds``, ``points_per_s`` of each."""

    def __init__(self, study: dict[str, Any], lines: Sequence[dict[str, Any]]) -> None:
        self.study = study
        """The study, with its scenario written in."""
        self.lines = list(lines)
        """What is known of each point; see ``studies/sweep.h``."""

    @property
    def description(self) -> str:
        """The question that the study answers."""
        return self.study.get("description", "")

    @cached_property
    def axes(self) -> list[Axis]:
        """The axes, in the study's order; zipped ones one after the other."""
        return [
            Axis(axis.get("name") or _last_word(axis["key"]), axis["key"])
            for axis in _written(self.study)
        ]

    @property
    def seeds(self) -> list[str]:
        """Names of the axes that are seeds of the random draws."""
        return [axis.name for axis in self.axes if axis.key == SEED_KEY]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row per point, sorted along the axes.

        Columns: the axes, by name and as the study writes their values; the numbers of
        result.json, whose nested keys are joined (``step_time_mean_s``,
        ``breakdown_compute_s``, ``interval_low_s``); and ``error``, the message of a point whose
        scenario can't be. ``frame.attrs`` has the names of ``axes``, and which of them are
        ``seeds``: pictures of the frame go by them.
        """
        names = [axis.name for axis in self.axes]
        ranks = [_ranking(part) for part in _written(self.study)]

        def place(line: dict[str, Any]) -> list[tuple[float, str]]:
            return [rank(line["point"][name]) for name, rank in zip(names, ranks, strict=True)]

        rows = [_row(line) for line in sorted(self.lines, key=place)]
        frame = pd.DataFrame(rows, columns=None if rows else [*names, "error"])
        frame.attrs |= {"axes": names, "seeds": self.seeds}
        return frame

    def measured(self) -> pd.DataFrame:
        """The study's measured points: axes, and ``throughput_samples_per_s`` or its step time.

        The step time's column is ``step_time_mean_s``.
        """
        rows = []
        for entry in self.study.get("measured", []):
            row = dict(entry["point"])
            for key, column in (
                ("throughput", "throughput_samples_per_s"),
                ("step_time", "step_time_mean_s"),
            ):
                quantity = quantities.parse(entry.get(key))
                row[column] = math.nan if quantity is None else quantity.value
            rows.append(row)
        return pd.DataFrame(rows)

    def bands(self, column: str = "throughput_samples_per_s") -> pd.DataFrame:
        """One number over all seeds.

        Returns
        -------
        DataFrame
            A row per combination of the other axes: these, ``mean``, ``low`` and ``high`` (5 %
            and 95 % of the seeds, interpolated), ``points`` (how many seeds). Failed points are
            left out.

        Raises
        ------
        InputError
            The frame has no such column of numbers.
        """
        numbers = [str(name) for name in self.frame.select_dtypes("number")]
        if column not in numbers and any("error" not in line for line in self.lines):
            expected = "expected a column of numbers, such as throughput_samples_per_s"
            hint = did_you_mean(column, numbers)
            raise InputError(f"{expected}, found {column!r}{hint}", "column")
        return bands(self.frame, [axis.name for axis in self.axes], self.seeds, column)

    def __repr__(self) -> str:
        failed = sum("error" in line for line in self.lines)
        axes = ", ".join(axis.name for axis in self.axes)
        return f"<Sweep over {axes}: {len(self.lines)} points, {failed} failed>"


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return what follows an unknown name: those that begin so, or else the nearest."""
    word = _last_word(name)
    near = [each for each in known if each.startswith(word)] or get_close_matches(
        word, known, cutoff=0.7
    )
    return f"; did you mean {' or '.join(near[:MOST_NEAR])}?" if near else ""


def bands(
    frame: pd.DataFrame, axes: Sequence[str], seeds: Sequence[str], column: str
) -> pd.DataFrame:
    """Mean, 5 % and 95 % of a column over the axes ``seeds``, for each combination of the rest."""
    known = frame.dropna(subset=[column]) if column in frame else frame.iloc[:0]
    kept = [name for name in axes if name not in seeds]
    if known.empty:
        return pd.DataFrame(columns=[*kept, "mean", "low", "high", "points"])
    texts = [known[name].map(str).rename(name) for name in kept]  # a value may be any JSON
    groups = known.groupby(texts, sort=False) if kept else known.groupby(lambda _: 0)
    values = groups[column]
    low, high = values.quantile(0.05), values.quantile(0.95)
    summary = pd.DataFrame(
        {"mean": values.mean(), "low": low, "high": high, "points": values.size()}
    )
    first = groups.head(1)[kept].reset_index(drop=True)  # in the order of the groups
    return pd.concat([first, summary.reset_index(drop=True)], axis=1)


def sweep(
    study: Source,
    out: str | os.PathLike[str] | None = None,
    *,
    jobs: int | None = None,
    progress: bool | Callable[[int, int, int], object] = True,
    shard: str | tuple[int, int] | None = None,
    client: Workers | None = None,
) -> Sweep:
    """Run all points of a study.

    What is in ``out`` already is not computed again; an interrupted sweep goes on where it was.
    Ctrl-C stops it after the points in flight.

    Parameters
    ----------
    study
        A dictionary, whose relative file names start from the current folder, or a file. Its
        ``profile`` may be a file, a dictionary or a :class:`~paceline.Profile`.
    out
        The folder of results.jsonl and study.json; left out: results are kept in memory alone.
    jobs
        Threads; the machine's cores if left out.
    progress
        Show a bar; or call this with (points done, points in all, points failed).
    shard
        "3/16", or (3, 16): the fourth of 16 parts of the points alone, for machines that share the
        folder ``out``. The same sweep without it then joins them, and computes what is missing.
    client
        A ``dask.distributed.Client``, its scheduler's address, or "local": its workers compute the
        points, this process writes them. "local" starts ``jobs`` processes, and needs a script's
        own code under ``if __name__ == "__main__"``.

    Raises
    ------
    InputError
        The study is wrong, or ``out`` can't be used. A wrong point is a row with an ``error``.
    RuntimeError
        Points failed for another reason (memory, say), or the client's scheduler is lost; what was
        computed is in ``out``.
    """
    if out is None:
        if shard is not None:
            raise InputError("expected a folder, which the shards share", "out")
        with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
            return sweep(study, folder, jobs=jobs, progress=progress, client=client)
    if shard is not None and client is not None:
        raise InputError("expected a shard or a client, found both", "shard")
    text, file_name = as_text(study)
    threads = thread_count(jobs)
    folder = os.fspath(out)
    part = shard if shard is None or isinstance(shard, str) else _shard_text(shard)
    rates = None
    with progress_bar(progress) as tell:
        if client is None:
            outcome = _core.sweep(text, file_name, folder, threads, tell, part)
        else:
            from .workers import sweep_with

            outcome, rates = sweep_with(client, text, file_name, folder, threads, tell)
    ended = _ended(outcome, folder)
    ended.workers = rates
    return ended


def _shard_text(shard: Any) -> str:
    try:
        return "/".join(map(str, shard))
    except TypeError:
        raise InputError(f"expected a shard such as (3, 16), found {shard}", "shard") from None


Progress: TypeAlias = Callable[[int, int, int], object]


@contextmanager
def progress_bar(wanted: bool | Progress, seconds: float = 0.1) -> Iterator[Progress | None]:
    """Yield what is to be told of a sweep's progress: a bar's, the caller's own, or nothing."""
    if callable(wanted) or not wanted:
        yield wanted if callable(wanted) else None
        return
    from tqdm.auto import tqdm  # here: without ipywidgets a notebook gets a warning from it

    with ExitStack() as opened:
        bar: Any = None

        def show(done: int, points: int, failed: int) -> None:
            nonlocal bar
            if bar is None:  # what was found is no progress
                bar = opened.enter_context(
                    tqdm(
                        desc="sweep",
                        unit=" points",
                        total=points,
                        initial=done - 1,
                        mininterval=seconds,
                    )
                )
            if failed:
                bar.set_postfix(failed=failed, refresh=False)
            bar.update(done - bar.n)

        yield show


def _ended(outcome: str, folder: str) -> Sweep:
    found = json.loads(outcome)
    for remark in found["remarks"]:
        warn(remark)
    faults = found["faults"]
    if faults:
        raise RuntimeError(f"{len(faults)} points have no result: {'; '.join(faults[:5])}")
    return _loaded(Path(folder), Path(found["file"]))


def load(folder: str | os.PathLike[str]) -> Sweep:
    """Read the folder of a sweep; one that isn't finished has the points that it has.

    Raises
    ------
    InputError
        The folder holds no sweep, or a line that can't be read.
    """
    place = Path(folder)
    results = place / "results.jsonl"
    if not results.exists() and any(place.glob("results.*-*.jsonl")):
        message = "expected results.jsonl, found shards alone; the same sweep without a shard joins"
        raise InputError(f"{message} them", file=os.fspath(place))
    return _loaded(place, results)


def _loaded(folder: Path, results: Path) -> Sweep:
    study = json.loads(_core.read_file(os.fspath(folder / "study.json")))
    lines: dict[str, dict[str, Any]] = {}
    if results.exists():
        with results.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    break  # being written
                try:
                    data = json.loads(line)
                except json.JSONDecodeError as error:
                    raise InputError(str(error), f"line {number}", str(results)) from error
                if _core.line_was_changed(line.rstrip("\n")):
                    message = "expected a line as a sweep wrote it, found one that was changed"
                    raise InputError(message, f"line {number}", str(results))
                data.pop("check", None)
                lines[json.dumps(data["point"])] = data  # of a point's lines the last counts
    return Sweep(study, list(lines.values()))


def points(study: Source) -> list[dict[str, Any]]:
    """Expand a study: ``axes`` and ``scenario`` of each point, in order; else its ``error``."""
    text, file_name = as_text(study)
    return json.loads(_core.study_points(text, file_name))


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a study."""
    return json.loads(_core.study_schema())


def _last_word(pointer: str) -> str:
    return pointer.rsplit("/", 1)[-1].replace("~1", "/").replace("~0", "~")


def _row(line: dict[str, Any]) -> dict[str, Any]:
    error = line.get("error")
    numbers = {
        key: value for key, value in line.items() if key not in ("point", "error", "scenario")
    }
    message = None if error is None else str(InputError(**error))
    return {**line["point"], **_flat(numbers), **line["point"], "error": message}  # axes first


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Join nested keys, with the unit at the end: step_time_s/mean -> step_time_mean_s."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if not isinstance(value, dict):
            flat[key] = value
            continue
        stem, unit = (key[:-2], "_s") if key.endswith("_s") else (key, "")
        for inner, item in _flat(value).items():
            number = isinstance(item, (int, float)) and not isinstance(item, bool)
            number = number and not inner.endswith("_s")
            flat[f"{stem}_{inner}{unit if number else ''}"] = item
    return flat


def _written(study: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for axis in study["axes"] for part in axis.get("zip", [axis])]


def _ranking(part: dict[str, Any]) -> Callable[[Any], tuple[float, str]]:
    """Return the key that sorts an axis's values: as listed, or a range from end to end."""
    listed = {json.dumps(value): place for place, value in enumerate(part.get("values", []))}
    first, last = (quantities.parse(part.get(end)) for end in ("from", "to"))
    sign = -1 if first and last and first.value > last.value else 1

    def rank(value: Any) -> tuple[float, str]:
        text = json.dumps(value)
        size = quantities.parse(value)
        if listed or size is None:
            return listed.get(text, len(listed)), text
        return sign * size.value, text

    return rank
