"""What is drawn, from whatever a user has: a Sweep, a DataFrame, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias

import pandas as pd
from pandas.api.types import is_numeric_dtype

from ..errors import InputError
from ..quantities import parse, value_text
from ..results import Result
from ..studies import Sweep, bands, did_you_mean

GPUS = "gpus"
THROUGHPUT = "throughput_samples_per_s"
GOODPUT = "goodput"
NAME = "result"  # the axis of results that have names

Source: TypeAlias = Sweep | pd.DataFrame | Mapping[str, Result] | Sequence[Result]


@dataclass
class Table:
    """Points to draw: a row each, with the axes that tell them apart."""

    frame: pd.DataFrame
    axes: list[str]
    seeds: list[str]
    measured: pd.DataFrame
    title: str = ""

    @property
    def varying(self) -> list[str]:
        """Axes that have more than one value, without seeds."""
        return [
            name
            for name in self.axes
            if name not in self.seeds and self.frame[name].map(str).nunique() > 1
        ]

    def beside(self, x: str) -> list[str]:
        """Varying axes that no other decides, as x does one that is zipped with it."""
        kept: list[str] = []
        for name in self.varying:
            if name != x and not any(decides(self.frame, other, name) for other in (x, *kept)):
                kept.append(name)
        return kept

    def combinations(self, x: str) -> list[tuple[dict[str, str], pd.DataFrame]]:
        """Return the values of the axes beside x, as texts, with the rows that have them."""
        others = self.beside(x)
        if not others:
            return [({}, self.frame)]
        groups = self.frame.groupby(
            [self.frame[name].map(value_text) for name in others], sort=False
        )
        return [
            (dict(zip(others, map(str, values), strict=True)), frame) for values, frame in groups
        ]

    def along(self, x: str | None) -> str:
        """Return the axis to draw along: the one asked for, or else the main one."""
        if x is None:
            return self.main_axis()
        if x not in self.frame:
            hint = did_you_mean(x, [*dict.fromkeys([*self.axes, *self.frame])])
            raise InputError(f"expected an axis, {', '.join(self.axes)}, found {x!r}{hint}", "x")
        return x

    def require(self, column: str) -> None:
        """Refuse points without a column."""
        if column not in self.frame:
            hint = ": goodput draws days of training" if GOODPUT in self.frame else ""
            raise ValueError(f"expected points with {column}, found none{hint}")

    def main_axis(self) -> str:
        """What a picture goes along: GPUs, else the numbers with the most values, else names."""
        if GPUS in self.varying:
            return GPUS
        values = {name: self.frame[name].map(str).nunique() for name in self.varying or self.axes}
        return max(values, key=lambda name: (all(map(parse, self.frame[name])), values[name]))


def decides(frame: pd.DataFrame, x: str, name: str) -> bool:
    """Whether each value of x has one value of the other column."""
    return bool(frame[name].map(str).groupby(frame[x].map(str)).nunique().max() == 1)


def table(source: Source, measured: pd.DataFrame | None) -> Table:
    """Make a table of points that have a result."""
    if isinstance(source, Sweep):
        known = source.measured() if measured is None else _checked(measured)
        return _over_gpus(_of_sweep(source, known))
    known = pd.DataFrame() if measured is None else _checked(measured)
    if isinstance(source, pd.DataFrame):
        return _over_gpus(_of_frame(source, known))
    results = list(source.values()) if isinstance(source, Mapping) else source
    if isinstance(results, Sequence) and results and all(isinstance(r, Result) for r in results):
        frame = pd.DataFrame([_row(result) for result in results])
        if not isinstance(source, Mapping) and frame[GPUS].is_unique:
            _require_one_model(results)
            return Table(frame, [GPUS], [], known)
        names = source if isinstance(source, Mapping) else map(str, range(1, len(frame) + 1))
        frame.insert(0, NAME, list(names))
        return Table(frame, [NAME], [], known)
    raise wrong_kind("a sweep, its frame, or several results", source)


def _require_one_model(results: Sequence[Result]) -> None:
    models = dict.fromkeys(
        result.data["scenario"]["model"]["name"] for result in results if result.has_steps
    )
    if len(models) > 1:
        raise ValueError(
            f"expected results of one model, found {' and '.join(models)}: a dictionary gives each "
            "a name, a sweep over /model draws a curve of each"
        )


def wrong_kind(expected: str, source: Any) -> TypeError:
    """Say what a picture is drawn of, and what would draw this."""
    hints = {
        "Result": ": breakdown, stragglers, timeline, critical_path, sensitivities and losses draw "
        "one",
        "Sweep": ": scaling, efficiency, breakdown, step_time_and_breakdown and stragglers draw it",
        "DataFrame": ": scaling, efficiency, breakdown and stragglers draw a sweep's",
        "Profile": ": calibration draws it",
        "str": ": paceline.studies.load, paceline.Result.load or paceline.Profile.load reads it",
    }
    found = type(source).__name__
    return TypeError(f"expected {expected}, found a {found}{hints.get(found, '')}")


def at_least_one(name: str, value: Any) -> int:
    """Return an argument that says how many."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InputError(f"expected a whole number from 1 on, found {value}", name)
    return int(value)


def _checked(measured: pd.DataFrame) -> pd.DataFrame:
    """Return measured points; ``throughput`` is what files of measurements call it."""
    if not isinstance(measured, pd.DataFrame):
        raise wrong_kind("measured points as a DataFrame", measured)
    if THROUGHPUT in measured:
        return measured
    if "throughput" not in measured:
        found = ", ".join(map(str, measured.columns)) or "none"
        raise InputError(f"expected a column {THROUGHPUT}, found {found}", "measured")
    return measured.rename(columns={"throughput": THROUGHPUT})


def _of_frame(frame: pd.DataFrame, measured: pd.DataFrame) -> Table:
    """Take a sweep's axes and columns of names, else every column that is no number of a result."""
    stated = frame.attrs.get("axes", [])
    seeds = frame.attrs.get("seeds", ["seed"])
    if any(frame.index.names):
        frame = frame.reset_index()
    kept = _with_results(frame)
    own = bool(stated) and set(stated) <= set(kept.columns)
    axes = [
        name
        for name in kept.columns
        if name in stated or not (_of_result(name) or (own and is_numeric_dtype(kept[name])))
    ]
    _require_told_apart(kept, axes)
    return Table(kept, axes, [name for name in axes if name in seeds], measured)


def _require_told_apart(frame: pd.DataFrame, axes: list[str]) -> None:
    """Refuse points that no axis tells apart: their mean would be drawn as one."""
    if not axes:
        raise ValueError("expected a column that is an axis, as gpus or a name, found none")
    texts = frame[axes].map(str)
    same = texts[texts.duplicated(keep=False)]
    if same.empty:
        return
    first = same.iloc[0]
    where = ", ".join(f"{name} {value}" for name, value in first.items())
    found = (same == first).all(axis=1).sum()
    raise ValueError(
        f"expected one point with {where}, found {found}: keep the axis that tells them apart, or "
        "add a column of names"
    )


def _with_results(frame: pd.DataFrame) -> pd.DataFrame:
    failed = frame["error"].notna() if "error" in frame else pd.Series(False, frame.index)
    if frame.empty or failed.all():
        why = "" if frame.empty else f": {frame['error'].iloc[0]}"
        raise ValueError(f"the sweep has no points to draw{why}")
    return frame[~failed]


def require_result(source: Any) -> None:
    """Refuse what is not one result."""
    if not isinstance(source, Result):
        raise wrong_kind("a result", source)


def _of_sweep(sweep: Sweep, known: pd.DataFrame) -> Table:
    frame = _with_results(sweep.frame)
    axes = [axis.name for axis in sweep.axes]
    gpus = [axis.name for axis in sweep.axes if axis.key == GPUS]
    if gpus and gpus[0] != GPUS:  # an axis by another name
        axes[axes.index(gpus[0])] = GPUS
        known = known.rename(columns={gpus[0]: GPUS})
    return Table(frame, axes, sweep.seeds, known, sweep.description)


def _over_gpus(points: Table) -> Table:
    """Where the number of GPUs grows with an axis (nodes, say), it stands for that axis."""
    for axis in points.varying:
        if axis == GPUS or GPUS not in points.frame or not _grows_with(points, axis):
            continue
        frame = points.frame
        axes = [name for name in points.axes if name != GPUS]
        axes[axes.index(axis)] = GPUS
        measured = points.measured
        if axis in measured and GPUS not in measured:
            stated = [name for name in points.axes if name in measured]
            measured = measured.merge(frame[[*stated, GPUS]].drop_duplicates(), on=stated)
        return Table(frame, axes, points.seeds, measured, points.title)
    return points


def _grows_with(points: Table, axis: str) -> bool:
    """Whether GPUs are proportional to an axis of plain numbers, whatever the others are."""
    frame = points.frame
    values = [parse(value) for value in frame[axis]]
    if not all(value and not value.unit and value.value > 0 for value in values):
        return False
    share = frame[GPUS] / [value.value for value in values if value]
    others = [name for name in points.beside(axis) if name != GPUS]
    if not others:
        return share.nunique() == 1
    return bool((share.groupby([frame[name].map(str) for name in others]).nunique() == 1).all())


_RESULT_COLUMNS = {
    *("description", "paceline", "model_version", "engine", "engine_reason", "iterations"),
    *("samples_per_step", "fingerprint", "warm_up_s", "throughput_samples_per_s"),
    *("counted_steps_samples_per_s", "tokens_per_s", "compute_source"),
    *("scaling_efficiency", "error", "key"),
    *("interval_extrapolated", "goodput", "goodput_p5", "goodput_p95"),
    *("compression_ratio", "compression_kernels_s", "compression_share_of_step"),
}
_RESULT_PREFIXES = (
    *("step_time_", "breakdown_", "interval_", "worst_rank_", "drift_"),
    *("sent_bytes_", "model_flops_utilisation", "servers_", "campaign_"),
)


def _of_result(name: str) -> bool:
    if name.startswith("memory_"):  # memory_bandwidth and memory_efficiency are scenarios' keys
        return name.endswith(("_bytes", "_fits"))
    return name in _RESULT_COLUMNS or name.startswith(_RESULT_PREFIXES)


def _row(result: Result) -> dict[str, Any]:
    row: dict[str, Any] = {GPUS: result.gpus}
    if result.campaign is not None:
        spread = result.campaign[GOODPUT]
        row |= {GOODPUT: spread["mean"]} | {f"{GOODPUT}_{q}": spread[q] for q in ("p5", "p95")}
    if not result.has_steps:
        return row
    row |= {
        "step_time_mean_s": result.step_time_s,
        THROUGHPUT: result.throughput_samples_per_s,
        "scaling_efficiency": result.scaling_efficiency,
    }
    row |= {f"breakdown_{k}_s": v for k, v in result.data["breakdown_s"].items()}
    if result.interval is not None:
        row |= {"interval_low_s": result.interval.low_s, "interval_high_s": result.interval.high_s}
    return row


@dataclass
class Series:
    """One line: its name, and along x the mean and the band of y."""

    name: str
    where: dict[str, Any]  # the values of the other axes
    frame: pd.DataFrame  # x, mean, low, high: the last two may be the mean
    banded: bool


def series(points: Table, x: str, column: str, scale: float = 1.0) -> list[Series]:
    """Cut a table into lines along x, one for each combination of the other axes."""
    lines = []
    for where, group in points.combinations(x):
        line = bands(group, [x, *points.seeds], points.seeds, column).sort_values(x, key=_sortable)
        spread = bool((line["points"] > 1).any())
        if not spread and f"{column}_p5" in group:  # over seeds of its own
            by = group.drop_duplicates(x).set_index(group[x].map(str))
            at = by.loc[list(line[x].map(str))]
            ends = {
                end: at[f"{column}_{q}"].to_numpy() for end, q in (("low", "p5"), ("high", "p95"))
            }
            line = line.assign(**ends)
            spread = bool((line["high"] > line["low"]).any())
        elif not spread and "interval_low_s" in group:
            line = _with_intervals(line, group, x, column)
            spread = bool((line["high"] > line["low"]).any())
        line[["mean", "low", "high"]] *= scale
        name = ", ".join(named(axis, value) for axis, value in where.items())
        lines.append(Series(name, where, line.reset_index(drop=True), spread))
    return lines


def _with_intervals(line: pd.DataFrame, group: pd.DataFrame, x: str, column: str) -> pd.DataFrame:
    """Turn the interval of a step into that of the column."""
    by = group.assign(_x=group[x].map(str)).drop_duplicates("_x").set_index("_x")
    at = by.loc[list(line[x].map(str))]
    low = (at["interval_low_s"] / at["step_time_mean_s"]).fillna(1.0).to_numpy()
    high = (at["interval_high_s"] / at["step_time_mean_s"]).fillna(1.0).to_numpy()
    if column.startswith("step_time"):
        return line.assign(low=line["mean"] * low, high=line["mean"] * high)
    return line.assign(low=line["mean"] / high, high=line["mean"] / low)


def matching(points: pd.DataFrame, where: dict[str, Any], column: str) -> pd.DataFrame:
    """Return the measured points of a line: those that say nothing else about its axes."""
    if column not in points:
        return points.iloc[:0]
    known = points.dropna(subset=[column])
    for axis, value in where.items():
        if axis in known:
            known = known[known[axis].map(value_text) == value]
    return known


def axis_label(name: str) -> str:
    """Name an axis."""
    if name in (GPUS, NAME):
        return "GPUs" if name == GPUS else ""
    return name.replace("_", " ")  # quantities have their units at the ticks


def _sortable(values: pd.Series) -> pd.Series:
    parsed = [parse(value) for value in values]
    if all(parsed):
        return pd.Series([quantity.value for quantity in parsed if quantity], index=values.index)
    return pd.Series(range(len(values)), index=values.index)


def named(axis: str, value: Any) -> str:
    """Say which line or picture this is: "cv 0.1", "32 GPUs"."""
    if axis == GPUS:
        return f"{value_text(value)} GPUs"
    return f"{axis.replace('_', ' ')} {value_text(value)}"
