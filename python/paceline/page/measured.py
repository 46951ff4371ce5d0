"""Measured points of a sweep beside what was predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..plot.data import GPUS, THROUGHPUT, Series, Table, axis_label, matching, named, series
from ..plot.scaling import EFFICIENCY, alone_rates
from ..quantities import value_text
from . import charts
from . import document as page


class Measure(NamedTuple):
    """What is drawn of points: a column of results, and how it is written."""

    column: str
    name: str  # of its figure
    title: str
    head: str  # of its columns in tables
    unit: str
    scale: float


RATE = Measure(THROUGHPUT, "throughput", "Throughput", "throughput (samples/s)", "samples/s", 1.0)
SHARE = Measure(EFFICIENCY, "efficiency", "Scaling efficiency", "efficiency (%)", "%", 100.0)
GOODPUT = Measure("goodput", "goodput", "Goodput", "goodput (%)", "%", 100.0)
STEP = Measure("step_time_mean_s", "step", "Mean step", "mean step (ms)", "ms", 1e3)


def comparison(points: Table, x: str) -> pd.DataFrame:
    """Put measured points beside what was predicted: a row each, also where nothing was."""
    rows = []
    for measure in (RATE, STEP):
        for line in series(points, x, measure.column, measure.scale):
            known = matching(points.measured, line.where, measure.column)
            if x not in known:
                continue
            predicted = line.frame.set_index(line.frame[x].map(charts.key))
            for point in known.to_dict("records"):
                at = charts.key(point[x])
                found = predicted.loc[at] if at in predicted.index else None
                measured = point[measure.column] * measure.scale
                rows.append(
                    {
                        **{axis_label(axis) or axis: text for axis, text in line.where.items()},
                        axis_label(x) or x: value_text(point[x]),
                        "what": measure.head,
                        "measured": measured,
                        "predicted": np.nan if found is None else found["mean"],
                        "low": np.nan if found is None or not line.banded else found["low"],
                        "high": np.nan if found is None or not line.banded else found["high"],
                        "off by (%)": np.nan
                        if found is None
                        else 100 * (found["mean"] / measured - 1),
                    }
                )
    return pd.DataFrame(rows)


def errors(compared: pd.DataFrame) -> pd.Series:
    """Return by how many percent predictions are off, whatever the sign."""
    return compared["off by (%)"].abs().dropna() if len(compared) else pd.Series(dtype=float)


def parts(compared: pd.DataFrame) -> list[page.Part]:
    """Return how far predictions are off, and the comparison itself."""
    off = errors(compared)
    form = page.decimals(compared["measured"])
    text = "No measured point lies where the study has one."
    if len(off):
        text = (
            f"The mean error is {off.mean():.1f} %, the worst {off.max():.1f} %. An error is "
            "predicted over measured, less one."
        )
    forms = dict.fromkeys(("measured", "predicted", "low", "high"), form)
    return [
        page.Text(text),
        page.Rows(compared, {**forms, "off by (%)": "+.2f"}, "measured points"),
    ]


def draw(
    plot: Any,
    points: Table,
    lines: Sequence[Series],
    x: str,
    measure: Measure,
    along: charts.Places,
    form: str,
) -> bool:
    """Draw measured points of lines, if there are some; efficiencies are of the same ideal."""
    of_rates = measure is SHARE
    alone = alone_rates(points) if of_rates and x == GPUS else {}
    column = THROUGHPUT if of_rates else measure.column
    frames = []
    for index, line in enumerate(lines):
        known = matching(points.measured, line.where, column)
        if known.empty or x not in known or (of_rates and index not in alone):
            continue
        known = known[known[x].map(charts.key).isin(along.at)]
        if of_rates:
            y = 100 * known[THROUGHPUT] / known[GPUS].astype(float) / alone[index]
        else:
            y = known[column] * measure.scale
        predicted = line.frame.set_index(line.frame[x].map(charts.key))["mean"]
        error = y / known[x].map(charts.key).map(predicted).astype(float)
        frames.append(
            pd.DataFrame(
                {
                    "x": known[x].map(charts.key).map(along.at),
                    "y": y,
                    "line": line.name,
                    "color": charts.line_look(index)["color"],
                    "where": [page.joined(named(x, value), line.name) for value in known[x]],
                    "text": [f"{value:{form}} {measure.unit}" for value in y],
                    "off": [page.cell_text(100 * (1 / e - 1), "+.2f") + " %" for e in error],
                }
            )
        )
    if not frames:
        return False
    drawn = plot.scatter(
        "x",
        "y",
        source=charts.source(pd.concat(frames, ignore_index=True)),
        marker="circle",
        size=12,
        line_width=2,
        line_color="color",
        fill_color=None,
        view=charts.chosen(),
        name=f"{plot.name}-measured",
    )
    if len(lines) == 1:
        charts.follow(drawn.glyph, line_color="ink")
    entries = [("", "@where"), ("measured", "@text"), ("predicted is off by", "@off")]
    plot.add_tools(charts.hover(entries, renderers=[drawn]))
    return True
