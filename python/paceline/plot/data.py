"""What is drawn, from whatever a user has: a Sweep, a DataFrame, results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ..quantities import number_text, parse
from ..run import Result
from ..studies import Sweep, bands

GPUS = "gpus"


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


def table(source: Sweep | pd.DataFrame | Sequence[Result], measured: pd.DataFrame | None) -> Table:
    """Make a table; of a DataFrame, every column that is no number of a result is an axis."""
    if isinstance(source, Sweep):
        frame = source.frame
        failed = frame["error"].notna() if "error" in frame else pd.Series(False, frame.index)
        if frame.empty or failed.all():
            why = "" if frame.empty else f": {frame['error'].iloc[0]}"
            raise ValueError(f"the sweep has no points to draw{why}")
        known = source.measured() if measured is None else measured
        axes = [axis.name for axis in source.axes]
        gpus = [axis.name for axis in source.axes if axis.key == GPUS]
        if gpus and gpus[0] != GPUS:  # an axis by another name
            axes[axes.index(gpus[0])] = GPUS
            known = known.rename(columns={gpus[0]: GPUS})
        return Table(frame[~failed], axes, source.seeds, known, source.description)
    if isinstance(source, pd.DataFrame):
        axes = [name for name in source.columns if not _of_result(name)]
        seeds = [name for name in axes if name == "seed"]
        return Table(source, axes, seeds, pd.DataFrame() if measured is None else measured)
    rows = [_row(result) for result in source]
    frame = pd.DataFrame(rows)
    return Table(frame, [GPUS], [], pd.DataFrame() if measured is None else measured)


_RESULT_COLUMNS = {
    *("description", "paceline", "model_version", "engine", "engine_reason", "iterations"),
    *("samples_per_step", "fingerprint", "warm_up_s", "throughput_samples_per_s"),
    *("scaling_efficiency", "error", "key"),
    "interval_extrapolated",
}
_RESULT_PREFIXES = ("step_time_", "breakdown_", "interval_", "worst_rank_")


def _of_result(name: str) -> bool:
    return name in _RESULT_COLUMNS or name.startswith(_RESULT_PREFIXES)


def _row(result: Result) -> dict[str, Any]:
    row = {
        GPUS: result.gpus,
        "step_time_mean_s": result.step_time_s,
        "throughput_samples_per_s": result.throughput_samples_per_s,
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
    others = [name for name in points.varying if name != x]
    axes = [x, *others, *points.seeds]
    frame = points.frame.copy()
    for name in others:
        frame[name] = frame[name].map(_text)
    groups: list[tuple[Any, pd.DataFrame]] = (
        list(frame.groupby(others, sort=False)) if others else [((), frame)]
    )
    lines = []
    for values, group in groups:
        line = bands(group, axes, points.seeds, column).sort_values(x, key=_sortable)
        spread = bool((line["points"] > 1).any())
        if not spread and "interval_low_s" in group:
            line = _with_intervals(line, group, x, column)
            spread = bool((line["high"] > line["low"]).any())
        line[["mean", "low", "high"]] *= scale
        where = dict(zip(others, values))
        name = ", ".join(named(axis, value) for axis, value in where.items())
        lines.append(Series(name, where, line.reset_index(drop=True), spread))
    return lines


def _with_intervals(line: pd.DataFrame, group: pd.DataFrame, x: str, column: str) -> pd.DataFrame:
    """Turn the interval of a step into that of the column."""
    by = group.assign(_x=group[x].map(str)).drop_duplicates("_x").set_index("_x")
    at = by.loc[line[x].map(str)]
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
            known = known[known[axis].map(_text) == value]
    return known


def axis_label(name: str) -> str:
    """Name an axis."""
    if name == GPUS:
        return "GPUs"
    return name.replace("_", " ")  # quantities have their units at the ticks


def _sortable(values: pd.Series) -> pd.Series:
    parsed = [parse(value) for value in values]
    if all(parsed):
        return pd.Series([quantity.value for quantity in parsed if quantity], index=values.index)
    return pd.Series(range(len(values)), index=values.index)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return number_text(value) if isinstance(value, (int, float)) else str(value)


def named(axis: str, value: Any) -> str:
    """Say which line or picture this is: "cv 0.1", "32 GPUs"."""
    if axis == GPUS:
        return f"{_text(value)} GPUs"
    return f"{axis.replace('_', ' ')} {_text(value)}"
