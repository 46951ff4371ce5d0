"""Curves of a sweep: throughput, efficiency and the mean step along an axis, with bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from bokeh.models import DataRange1d, TapTool
from bokeh.models.annotations import Span

from ..plot import style
from ..plot.data import GPUS, Series, Table, axis_label, named, series
from ..plot.scaling import alone_rates, different_rates
from ..quantities import value_text
from . import charts, measured
from . import document as page
from .measured import GOODPUT, RATE, SHARE, STEP, Measure

_ENDS = ("mean", "low", "high")


def curves(points: Table, x: str, *, opens: str = "") -> list[page.Part]:
    """Return what there is of goodput, throughput, efficiency and mean step.

    A click opens a row of a table.
    """
    parts: list[page.Part] = []
    count = len(points.combinations(x))
    if count > charts.MOST_LINES:
        parts.append(
            page.Notice(
                f"The charts have the first {charts.MOST_LINES} of {count:,} lines; the tables "
                "below have all points."
            )
        )
    over_gpus = x == GPUS and points.frame[GPUS].nunique() > 1
    known = [measure for measure in (GOODPUT, RATE, SHARE, STEP) if has(points.frame, measure)]
    hint = " A click on a point shows how its scenario differs from the study's." if opens else ""
    against = " The dotted line is what as many GPUs alone would do." if over_gpus else ""
    captions = {
        RATE: f"Samples per second of all GPUs.{against}",
        SHARE: "What is left of the throughput that as many GPUs alone would have: "
        "100 % is perfect.",
        STEP: "Mean time of a step.",
        GOODPUT: "What is left of days of training: of the whole time that of the steps that "
        "survive, as long as they take without faults.",
    }
    return parts + [
        curve(
            points,
            x,
            measure,
            f"{captions[measure]}{_band_text(points, x, measure)}{hint}",
            opens,
            log=over_gpus and measure is RATE,
        )
        for measure in known
    ]


def has(frame: pd.DataFrame, measure: Measure) -> bool:
    """Whether any point has a measure."""
    return measure.column in frame and bool(frame[measure.column].notna().any())


def curve(
    points: Table, x: str, measure: Measure, caption: str, opens: str, *, log: bool
) -> page.Figure:
    """Draw a measure along an axis: a line, with its band, for each combination of the others."""
    lines = series(points, x, measure.column, measure.scale)
    drawn = lines[: charts.MOST_LINES]
    along = charts.places([value for line in lines for value in line.frame[x]], axis_label(x))
    shown = _curve_table(lines, x, measure.head)
    form = page.decimals(shown[measure.head])
    plot = charts.new_figure(
        measure.name,
        y_label=f"{measure.title.lower()} ({measure.unit})",
        y_axis_type="log" if log else "linear",
        y_range=DataRange1d(range_padding=0.08),
        tools=[TapTool()] if opens else [],
    )
    charts.place_ticks(plot, along)
    charts.plain_numbers(plot.yaxis[0])
    if log:
        charts.log_ticks(plot.yaxis[0], shown[measure.head])
    ideal = _ideal(plot, points, drawn, x, measure, along)
    _draw_lines(plot, drawn, measure, _marks(points, drawn, x, along, form, measure.unit), along)
    keys = [*charts.line_keys([line.name for line in drawn], dashes=along.numbers), *ideal]
    if any(line.banded for line in drawn):
        keys.append(charts.area_key(_band_name(drawn, measure), style.GREY, opacity=0.3))
    if measured.draw(plot, points, drawn, x, measure, along, form):
        keys.append(charts.line_key("measured", "var(--ink)", marker="circle", hollow=True))
    return page.Figure(
        measure.name,
        measure.title,
        caption,
        plot,
        shown,
        dict.fromkeys((measure.head, "low", "high"), form),
        keys=keys if len(keys) > 1 else (),
        opens=opens,
    )


def _curve_table(lines: Sequence[Series], x: str, value: str) -> pd.DataFrame:
    """Write lines as rows: other axes, x, the mean, and where there is one the band."""
    banded = any(line.banded for line in lines)
    frames = []
    for line in lines:
        rows = {
            **{axis_label(axis) or axis: text for axis, text in line.where.items()},
            axis_label(x) or x: line.frame[x].map(value_text),
            value: line.frame["mean"],
        }
        if banded:
            rows |= {"low": line.frame["low"], "high": line.frame["high"]}
        frames.append(pd.DataFrame(rows))
    return pd.concat(frames, ignore_index=True)


def _marks(
    points: Table,
    lines: Sequence[Series],
    x: str,
    along: charts.Places,
    form: str,
    unit: str,
) -> pd.DataFrame:
    """Return what is drawn of the points of all lines, a row each."""
    frames = []
    for i, (line, (_, group)) in enumerate(zip(lines, points.combinations(x), strict=False)):
        look = charts.line_look(i)
        texts = line.frame[x].map(charts.key)
        first = dict(reversed([(charts.key(v), row) for row, v in group[x].items()]))
        written = {end: line.frame[end].map(lambda v: format(v, form)) for end in _ENDS}
        frames.append(
            pd.DataFrame(
                {
                    "line": line.name,
                    "x": texts.map(along.at),
                    "low": line.frame["low"],
                    "high": line.frame["high"],
                    "y": line.frame["mean"],
                    "color": look["color"],
                    "marker": look["marker"],
                    "row": texts.map(first),
                    "where": [page.joined(named(x, value), line.name) for value in line.frame[x]],
                    "text": written["mean"] + f" {unit}",
                    "band": written["low"] + " to " + written["high"] if line.banded else "",
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def _draw_lines(
    plot: Any, lines: Sequence[Series], measure: Measure, marks: pd.DataFrame, along: charts.Places
) -> None:
    names = [line.name for line in lines]
    banded = any(line.banded for line in lines)
    if along.numbers:
        own = [marks[marks["line"] == name] for name in names]
        bands = {
            i: (own[i]["x"], own[i]["low"], own[i]["high"])
            for i, line in enumerate(lines)
            if line.banded
        }
        charts.draw_bands(plot, bands, names)
        charts.draw_lines(plot, [(each["x"], each["y"]) for each in own], names)
    source = charts.source(marks)
    if banded:  # of one point alone, and of names, no area can be seen
        plot.segment(
            "x", "low", "x", "high", source=source, line_color="color", line_width=2,
            line_alpha=0.5, view=charts.chosen(),
        )  # fmt: skip
    points = plot.scatter(
        "x", "y", source=source, marker="marker", size=9, fill_color="color", line_color="color",
        view=charts.chosen(), name=f"{plot.name}-points", nonselection_alpha=1.0,
    )  # fmt: skip
    entries = [("", "@where"), ("predicted", "@text")]
    if banded:
        entries.append((_band_name(lines, measure), "@band"))
    plot.add_tools(charts.hover(entries, renderers=[points]))


def _ideal(
    plot: Any,
    points: Table,
    lines: Sequence[Series],
    x: str,
    measure: Measure,
    along: charts.Places,
) -> list[page.Key]:
    """Draw what as many GPUs alone would do."""
    if measure is SHARE:
        span = Span(location=100, dimension="width", line_dash=[2, 3])
        charts.follow(span, line_color="muted")
        plot.add_layout(span)
        return []
    rates = alone_rates(points) if x == GPUS and measure is RATE else {}
    if len(along.ticks) < 2:
        return []
    different = {i: rate for i, rate in different_rates(rates).items() if i < len(lines)}
    for index, rate in different.items():
        gpus = lines[index].frame[GPUS]
        ends = [gpus.min(), gpus.max()]
        ideal = plot.line(
            [along.at[charts.key(end)] for end in ends],
            [rate * float(end) for end in ends],
            line_dash=[2, 3],
            line_width=1.5,
        )
        if len(different) == 1:
            charts.follow(ideal.glyph, line_color="muted")
        else:
            ideal.glyph.line_color = charts.line_look(index)["color"]
    if not different:
        return []
    return [charts.line_key("ideal: GPUs times one alone", "var(--muted)", dash=[2, 3])]


def _band_name(lines: Sequence[Series], measure: Measure) -> str:
    seeds = measure is GOODPUT or any((line.frame["points"] > 1).any() for line in lines)
    return "5 % to 95 % of seeds" if seeds else "90 % interval"


def _band_text(points: Table, x: str, measure: Measure) -> str:
    lines = series(points, x, measure.column)
    if not any(line.banded for line in lines):
        return ""
    return f" Bands are {_band_name(lines, measure).replace('90 %', 'the 90 %')}."
