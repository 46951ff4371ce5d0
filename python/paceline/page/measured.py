"""Measured points of a sweep beside what was predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..plot.data import GPUS, Series, Table, axis_label, matching, named, series
from ..plot.scaling import EFFICIENCY, THROUGHPUT, alone_rates
from ..quantities import value_text
from . import charts
from . import document as page

STEP = "step_time_mean_s"


def column_name(column: str) -> str:
    """Name a column of results in a table's head."""
    return {THROUGHPUT: "throughput", EFFICIENCY: "efficiency", STEP: "mean step"}[column]


def comparison(points: Table, x: str) -> pd.DataFrame:
    """Put measured points beside what was predicted: a row each, also where nothing was."""
    rows = []
    for column, scale, unit in ((THROUGHPUT, 1.0, "samples/s"), (STEP, 1e3, "ms")):
        for line in series(points, x, column, scale):
            known = matching(points.measured, line.where, column)
            if x not in known:
                continue
            predicted = line.frame.set_index(line.frame[x].map(charts.key))
            for point in known.to_dict("records"):
                at = charts.key(point[x])
                found = predicted.loc[at] if at in predicted.index else None
                measured = point[column] * scale
                rows.append(
                    {
                        **{axis_label(axis) or axis: text for axis, text in line.where.items()},
                        axis_label(x) or x: value_text(point[x]),
                        "what": f"{column_name(column)} ({unit})",
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


def parts(compared: pd.DataFrame) -> list[page.Part]:
    """Return how far predictions are off, and the comparison itself."""
    errors = compared["off by (%)"].abs().dropna()
    form = page.decimals(compared["measured"])
    text = "No measured point lies where the study has one."
    if len(errors):
        text = (
            f"The mean error is {errors.mean():.1f} %, the worst {errors.max():.1f} %. An error is "
            "predicted over measured, less one."
        )
    forms = dict.fromkeys(("measured", "predicted", "low", "high"), form)
    return [
        page.Text(text),
        page.Rows(compared, {**forms, "off by (%)": "+.2f"}, "measured points"),
    ]


def draw_measured(
    plot: Any,
    points: Table,
    lines: Sequence[Series],
    x: str,
    column: str,
    scale: float,
    along: charts.Places,
    form: str,
    unit: str,
) -> bool:
    """Draw measured points of lines, if there are some; efficiencies are of the same ideal."""
    alone = alone_rates(points) if column == EFFICIENCY and x == GPUS else {}
    frames = []
    for index, line in enumerate(lines):
        known = matching(
            points.measured, line.where, THROUGHPUT if column == EFFICIENCY else column
        )
        if known.empty or x not in known or (column == EFFICIENCY and index not in alone):
            continue
        known = known[known[x].map(charts.key).isin(along.at)]
        if column == EFFICIENCY:
            y = 100 * known[THROUGHPUT] / known[GPUS].astype(float) / alone[index]
        else:
            y = known[column] * scale
        predicted = line.frame.set_index(line.frame[x].map(charts.key))["mean"]
        error = y / known[x].map(charts.key).map(predicted).astype(float)
        frames.append(
            pd.DataFrame(
                {
                    "x": known[x].map(charts.key).map(along.at),
                    "y": y,
                    "line": line.name,
                    "color": charts.line_look(index)["color"],
                    "where": [
                        ", ".join(filter(None, (named(x, value), line.name))) for value in known[x]
                    ],
                    "text": [f"{format(value, form)} {unit}" for value in y],
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
