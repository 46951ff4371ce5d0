"""Where a step goes: of one run, and along an axis of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import DataRange1d, Range1d
from bokeh.plotting import figure

from ..plot import style
from ..plot.data import Table, axis_label, named
from ..plot.parts import COLUMNS, NEGLIGIBLE
from ..quantities import value_text
from ..results import Result
from . import charts
from .document import Figure, Select, decimals, joined

LETTERS_OF_GPU = 18  # beside a bar
MOST_COMBINATIONS = 100  # that one may choose from
MOST_BARS = 300


def of_run(result: Result) -> Figure:
    """Draw the parts of the mean step: of all GPUs, and of the one with the most compute."""
    frame = result.breakdown()
    worst = result.data["worst_rank"]
    gpu = style.shortened([worst["gpu"]], LETTERS_OF_GPU)[0]
    who = ["mean of all GPUs", f"most compute:\nrank {worst['rank']:,}\n{gpu}"]
    plot = charts.new_figure(
        "breakdown-bars",
        x_label="time of a step (ms)",
        height=210,
        x_range=Range1d(start=0, end=1.02e3 * frame[["time_s", "worst_rank_time_s"]].sum().max()),
        y_range=Range1d(start=1.5, end=-0.5),
    )
    plot.ygrid.visible = False
    charts.name_rows(plot, dict(enumerate(who)))
    charts.plain_numbers(plot.xaxis[0])
    keys, ends = [], np.zeros(2)
    for part, mean, most in zip(
        frame["part"], frame["time_s"], frame["worst_rank_time_s"], strict=True
    ):
        times = 1e3 * np.array([mean, most])
        if times.max() < 1e3 * NEGLIGIBLE * result.step_time_s:
            continue
        name, color, hatch = style.PARTS.get(part, (part, style.GREY, ""))
        shares = 100 * times / (1e3 * frame[["time_s", "worst_rank_time_s"]].sum().to_numpy())
        source = {
            "y": [0, 1],
            "left": ends,
            "right": ends + times,
            "who": [name.replace("\n", " ") for name in who],
            "part": [name, name],
            "time": [f"{time:,.3f} ms" for time in times],
            "share": [f"{share:.1f} %" for share in shares],
        }
        charts.bars(plot, source, color, hatch)
        ends = ends + times
        keys.append(charts.area_key(name, color, hatch=hatch))
    plot.add_tools(
        charts.hover([("", "@who"), ("part", "@part"), ("time", "@time"), ("share", "@share")])
    )
    table = pd.DataFrame(
        {
            "part": [style.PARTS.get(part, (part,))[0] for part in frame["part"]],
            "mean of all GPUs (ms)": 1e3 * frame["time_s"],
            "share (%)": 100 * frame["share"],
            f"rank {worst['rank']:,}, {worst['gpu']} (ms)": 1e3 * frame["worst_rank_time_s"],
        }
    )
    return Figure(
        name="parts",
        title="Parts of the mean step",
        caption="Means of all counted steps: of all GPUs, and of the GPU that computes longest. "
        "Communication that runs beside compute costs nothing and is in no part.",
        plot=plot,
        table=table,
        formats={table.columns[1]: ",.3f", table.columns[2]: ".1f", table.columns[3]: ",.3f"},
        keys=keys,
    )


def along(points: Table, x: str) -> Figure:
    """Draw where the mean step goes, stacked, at each value of an axis."""
    groups = points.combinations(x)
    values = {charts.key(value): value for value in points.frame[x]}
    shown_values = dict(list(values.items())[:MOST_BARS])
    bars = _bars(groups[:MOST_COMBINATIONS], x, shown_values)
    label = axis_label(x)
    spots = charts.places(shown_values.values(), label, side_by_side=True)
    form = decimals(bars["ms"], 3)
    bars["x"] = bars["key"].map(spots.at)
    bars["ms_text"] = [f"{value:{form}} ms" for value in bars["ms"]]
    bars["where"] = [
        joined(named(x, value), name)
        for value, name in zip(bars["value"], bars["combination"], strict=True)
    ]
    bars["share_text"] = [f"{value:.1f} %" for value in bars["share"]]
    plot = _draw_bars(bars, spots)
    shown = bars[["combination", "value", "part", "ms", "share"]].set_axis(
        [" and ".join(map(axis_label, points.beside(x))), axis_label(x) or x, "part", "time (ms)",
         "of the step (%)"], axis=1,
    )  # fmt: skip
    names = list(dict.fromkeys(bars["combination"]))
    cut = ""
    if len(groups) > MOST_COMBINATIONS:
        cut = f" Of {len(groups):,} combinations the first {MOST_COMBINATIONS} can be chosen."
    if len(values) > MOST_BARS:
        cut += f" Of {len(values):,} values of {label} the first {MOST_BARS} are drawn."
    return Figure(
        "parts",
        "Parts of the mean step",
        "Means over all GPUs and steps, and over seeds where there are some; parts below "
        f"{100 * NEGLIGIBLE:g} % of a step are left out.{cut}",
        plot,
        shown if len(names) > 1 else shown.iloc[:, 1:],
        {"time (ms)": form, "of the step (%)": ".1f"},
        keys=[
            charts.area_key(name, color, hatch=hatch)
            for name, color, hatch in style.PARTS.values()
            if name in set(bars["part"])
        ],
        selects=[Select("Show", "combination", names)] if len(names) > 1 else (),
    )


def _draw_bars(bars: pd.DataFrame, spots: charts.Places) -> figure:
    plot = charts.new_figure(
        "breakdown-bars",
        y_label="mean step (ms)",
        x_range=Range1d(start=-0.6, end=len(spots.ticks) - 0.4),
        y_range=DataRange1d(start=0),
    )
    charts.place_ticks(plot, spots)
    charts.plain_numbers(plot.yaxis[0])
    drawn = plot.vbar(
        x="x",
        bottom="bottom",
        top="top",
        width=0.72,
        source=charts.source(bars.drop(columns=["key", "ms", "share"])),
        fill_color="color",
        line_color=None,
        hatch_pattern="hatch",
        hatch_scale=8,
        hatch_alpha=0.6,
        view=charts.chosen(),
        name="bars",
    )
    charts.follow(drawn.glyph, hatch_color="paper")
    plot.add_tools(
        charts.hover(
            [
                ("", "@where"),
                ("part", "@part"),
                ("time", "@ms_text"),
                ("of the step", "@share_text"),
            ],
            renderers=[drawn],
        )
    )
    return plot


def _bars(
    groups: Sequence[tuple[dict[str, str], pd.DataFrame]], x: str, values: Mapping[str, Any]
) -> pd.DataFrame:
    """Return the pieces of all bars, a row each."""
    rows = []
    for where, group in groups:
        columns = [column for column in COLUMNS if column in group]
        name = ", ".join(named(axis, text) for axis, text in where.items())
        means = group.groupby(group[x].map(charts.key), sort=False)[columns].mean() * 1e3
        for key, *times in means.itertuples(name=None):
            if key not in values:
                continue
            step, bottom = sum(times), 0.0
            for column, time in zip(columns, times, strict=True):
                text, color, hatch = style.PARTS[COLUMNS[column]]
                if time > NEGLIGIBLE * step:
                    rows.append(
                        {
                            "combination": name,
                            "key": key,
                            "value": value_text(values[key]),
                            "part": text,
                            "ms": time,
                            "share": 100 * time / step,
                            "bottom": bottom,
                            "top": bottom + time,
                            "color": color,
                            "hatch": charts.HATCHES[hatch][0],
                        }
                    )
                bottom += time
    return pd.DataFrame(rows)
