"""Bokeh's charts in one style, whose colours follow the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import (
    AllLabels,
    BooleanFilter,
    CDSView,
    ColorMapper,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    Model,
    NoOverlap,
    NumeralTickFormatter,
    PanTool,
    Range1d,
    Tool,
    WheelZoomTool,
)
from bokeh.models.annotations import ColorBar, Span
from bokeh.plotting import figure
from pandas.api.types import is_numeric_dtype

from ..plot import style
from ..quantities import parse
from .document import Key

# The page's colours by their part, as page.css has them where the page is light. What a model
# takes from the page is in its tags, and page.js follows: "axis_line_color=rule".
PAGE = {
    "ink": "#16191d",
    "muted": "#59616e",
    "rule": "#dfe3e8",
    "paper": "#ffffff",
    "accent": "#0062a3",
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
HEIGHT = 340  # pixels
# Black can't be seen where the page is dark.
COLORS = [*style.COLORS[:-1], "#7d838c"]
MOST_LINES = 35  # that style.line_of tells apart
MOST_TICKS = 50  # that are tried: more are slow
MOST_LETTERS = 16  # of a name at a tick, and of an axis: what is longer leaves a phone
MOST_LABEL = 40
MOST_TURNED = 12

# Markers with the path that draws each in a square of ten.
MARKERS: dict[str, str] = {
    "circle": "M5 1a4 4 0 1 0 .01 0z",
    "square": "M1.5 1.5h7v7h-7z",
    "triangle": "M5 1l4.3 7.6H.7z",
    "diamond": "M5 .5L8.6 5 5 9.5 1.4 5z",
    "inverted_triangle": "M5 9L.7 1.4h8.6z",
    "plus": "M3.6 1h2.8v2.6H9v2.8H6.4V9H3.6V6.4H1V3.6h2.6z",
    "star": "M5 .6l1.3 3 3.2.2-2.5 2 .9 3.2L5 7.2 2.1 9l.9-3.2-2.5-2 3.2-.2z",
    "hex": "M5 .8l3.7 2.1v4.2L5 9.2 1.3 7.1V2.9z",
}
# Hatches of style.PARTS: Bokeh's name, and the path in a square of twelve.
HATCHES: dict[str, tuple[str, str]] = {
    "": ("blank", ""),
    "//": ("right_diagonal_line", "M0 6L6 0M0 12L12 0M6 12L12 6"),
    "xx": ("diagonal_cross", "M0 6L6 0M0 12L12 0M6 12L12 6M0 6L6 12M0 0L12 12M6 0L12 6"),
    "oo": ("ring", "M3 1.2a1.8 1.8 0 1 0 .01 0zM9 7.2a1.8 1.8 0 1 0 .01 0z"),
    "..": ("dot", "M3 2.4a.6.6 0 1 0 .01 0zM9 8.4a.6.6 0 1 0 .01 0z"),
    "--": ("horizontal_line", "M0 3H12M0 9H12"),
}


def follow(model: Model, **parts: str) -> None:
    """Give properties the page's colours: ``text_color="ink"``; they follow its theme."""
    for name, part in parts.items():
        setattr(model, name, PAGE[part])
    model.tags = [*model.tags, *(f"{name}={part}" for name, part in parts.items())]


def new_figure(
    name: str,
    *,
    x_label: str = "",
    y_label: str = "",
    height: int = HEIGHT,
    navigable: bool = False,
    tools: Sequence[Tool] = (),
    **keys: Any,
) -> figure:
    """Return an empty chart as wide as the page.

    It has no toolbar, as buttons of that have no names. Where it is navigable, a drag pans, the
    wheel zooms with Ctrl held, so that the page still scrolls, and page.js adds keys and buttons.
    """
    navigation: list[Tool] = []
    if navigable:
        zoom = WheelZoomTool(dimensions="width", modifiers={"ctrl": True})  # a pinch, too
        navigation = [PanTool(dimensions="width"), zoom]
    plot = figure(
        name=name,
        height=height,
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools=[*navigation, *tools],
        x_axis_label=x_label or None,
        y_axis_label=y_label or None,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_right=12,
        **keys,
    )
    for axis in plot.axis:
        axis.update(
            axis_label_text_font=FONT,
            axis_label_text_font_size="13px",
            axis_label_text_font_style="normal",
            major_label_text_font=FONT,
            major_label_text_font_size="12px",
            major_label_policy=NoOverlap(min_distance=6),
            minor_tick_line_color=None,
            major_tick_in=0,
            major_tick_out=4,
        )
        follow(
            axis,
            axis_label_text_color="muted",
            major_label_text_color="muted",
            major_tick_line_color="rule",
        )
    plot.yaxis.axis_line_color = None
    for axis in plot.xaxis:
        follow(axis, axis_line_color="rule")
    plot.xgrid.grid_line_color = None
    for grid in plot.ygrid:
        follow(grid, grid_line_color="rule")
    return plot


def row_figure(
    name: str, rows: int, *, pixels: int, around: int = 70, above: float = 0.6, **keys: Any
) -> figure:
    """Return an empty chart with a row for each lying bar, the first on top.

    Parameters
    ----------
    pixels, around
        Heights of a row, and of what isn't rows.
    above
        From the middle of the first row to the upper edge, in rows.
    keys
        As of :func:`new_figure`.
    """
    count = max(rows, 1)
    plot = new_figure(
        name,
        height=around + pixels * count,
        y_range=Range1d(start=count - 0.4, end=-above),
        **keys,
    )
    upright_grid(plot)
    return plot


def upright_grid(plot: figure) -> None:
    """Draw lines from the ticks of the x axis alone."""
    plot.ygrid.visible = False
    for grid in plot.xgrid:
        follow(grid, grid_line_color="rule")


def name_rows(plot: figure, names: Mapping[Any, str]) -> None:
    """Put names on the y axis, by where they lie."""
    plot.yaxis.ticker = FixedTicker(ticks=list(names))
    plot.yaxis.major_label_overrides = dict(names)


def color_bar(mapper: ColorMapper, title: str) -> ColorBar:
    """Return what the colours mean, to stand below a chart."""
    bar = ColorBar(
        color_mapper=mapper,
        title=title,
        height=10,
        title_text_font=FONT,
        title_text_font_size="13px",
        title_text_font_style="normal",
        major_label_text_font=FONT,
        major_label_text_font_size="12px",
        major_label_policy=NoOverlap(min_distance=6),
        background_fill_color=None,
        major_tick_line_color=None,
    )
    follow(bar, title_text_color="muted", major_label_text_color="muted")
    return bar


def plain_numbers(axis: Any) -> None:
    """Ticks with separators, and as many digits as they need."""
    axis.formatter = NumeralTickFormatter(format="0,0.[0000]")


def log_ticks(axis: Any, values: Iterable[float]) -> None:
    """Ticks of a logarithmic axis at 1, 2 and 5 of each decade."""
    sizes = [value for value in values if value > 0 and np.isfinite(value)]
    decades = range(*np.floor(np.log10([min(sizes) / 10, max(sizes) * 100])).astype(int))
    axis.ticker = FixedTicker(ticks=[digit * 10.0**d for d in decades for digit in (1, 2, 5)])


def hover(entries: Sequence[tuple[str, str]], **keys: Any) -> HoverTool:
    """Return what shows pairs of a label and a text with ``@columns``, in the page's colours."""
    rows = "".join(
        f'<span style="color:var(--muted)">{escape(label)}</span>'
        f'<bdi style="min-width:0;overflow-wrap:break-word">{text}</bdi>'
        for label, text in entries
    )
    html = (
        '<div style="display:grid;grid-template-columns:auto 1fr;gap:2px 8px;'
        "max-width:min(300px,42vw);"
        "margin:-5px;padding:8px 12px;background:var(--paper);"
        "font:clamp(11px,3vw,13px)/1.4 system-ui,sans-serif;font-variant-numeric:tabular-nums;"
        'color:var(--ink)">'
        f"{rows}</div>"
    )
    return HoverTool(tooltips=html, show_arrow=False, **keys)


def zero_line(plot: figure) -> None:
    """Draw where nothing is off."""
    line = Span(location=0, dimension="width")
    follow(line, line_color="muted")
    plot.add_layout(line)


def bars(plot: figure, source: Mapping[str, Any], color: str, hatch: str = "") -> None:
    """Draw pieces of lying bars: from ``left`` to ``right`` at ``y``."""
    drawn = plot.hbar(
        y="y",
        left="left",
        right="right",
        height=0.7,
        source=ColumnDataSource(data=dict(source)),
        fill_color=color,
        line_color=None,
        hatch_pattern=HATCHES[hatch][0],
        hatch_scale=8,
        hatch_alpha=0.6,
    )
    follow(drawn.glyph, hatch_color="paper")


def source(frame: pd.DataFrame) -> ColumnDataSource:
    """Return a frame's columns as a chart's data: numbers as bytes, all else as text."""
    return ColumnDataSource(
        {
            str(name): column.to_numpy() if is_numeric_dtype(column) else column.tolist()
            for name, column in frame.items()
        }
    )


def chosen() -> CDSView:
    """Return a view that selects and legends of the figure narrow."""
    return CDSView(filter=BooleanFilter())


@dataclass(frozen=True)
class Places:
    """Where values of an axis lie, side by side or by their size."""

    at: dict[str, float]  # by the value's key
    ticks: list[float]
    texts: list[str]
    label: str
    numbers: bool  # there is something between them


def key(value: Any) -> str:
    """Return what tells values of an axis apart: 8 and 8.0 are one."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{value:.15g}" if plain else str(value)


def places(values: Iterable[Any], label: str, *, side_by_side: bool = False) -> Places:
    """Place values on an axis: numbers that grow by factors by their logarithm, names in a row.

    ``side_by_side``: numbers in a row, too.
    """
    known = list({key(value): value for value in values}.values())
    parsed = [parse(value) for value in known]
    texts, unit = style.tick_texts(known)
    label = f"{label} ({unit})" if unit else label
    numbers = [quantity.value for quantity in parsed if quantity is not None]
    units = {quantity.unit for quantity in parsed if quantity is not None}
    apart = side_by_side or len(numbers) < len(known) or len(units) > 1
    if apart:
        at = np.arange(len(known), dtype=float)
        texts = style.shortened(texts, MOST_LETTERS)
    elif min(numbers) > 0 and max(numbers) >= 4 * min(numbers):
        at = np.log2(numbers)
    else:
        at = np.array(numbers, dtype=float)
    order = np.argsort(at, kind="stable")
    return Places(
        dict(zip(map(key, known), at.tolist(), strict=True)),
        at[order].tolist(),
        [texts[i] for i in order],
        label,
        not apart,
    )


def place_ticks(plot: figure, along: Places) -> None:
    """Put ticks where values lie; of labels that would overlap some are left out."""
    stride = -(-len(along.ticks) // MOST_TICKS)
    ticks, texts = along.ticks[::stride], along.texts[::stride]
    for axis in plot.xaxis:
        axis.ticker = FixedTicker(ticks=ticks)
        axis.major_label_overrides = dict(zip(ticks, texts, strict=True))
        axis.axis_label = style.shortened([along.label], MOST_LABEL)[0] or None
        if not along.numbers and max(map(len, along.texts), default=0) > 10:
            axis.major_label_orientation = np.pi / 4
            # Side by side they touch nothing, whatever their boxes do.
            if len(ticks) <= MOST_TURNED:
                axis.major_label_policy = AllLabels()


def line_look(index: int) -> dict[str, Any]:
    """Colour, marker and dashes of the n-th line, as in the pictures."""
    dash = style.DASHES[(index + index // len(COLORS)) % len(style.DASHES)]
    return {
        "color": COLORS[index % len(COLORS)],
        "marker": list(MARKERS)[index % len(MARKERS)],
        "dash": [] if dash == "-" else [round(2 * length) for length in dash[1]],
    }


def draw_lines(plot: figure, lines: Sequence[tuple[Any, Any]], names: Sequence[str]) -> None:
    """Draw lines, each a pair of x and y."""
    looks = [line_look(i) for i in range(len(lines))]
    data = {
        "xs": [np.asarray(x) for x, _ in lines],
        "ys": [np.asarray(y) for _, y in lines],
        "color": [look["color"] for look in looks],
        "dash": [look["dash"] for look in looks],
        "line": names,
    }
    plot.multi_line(
        "xs", "ys", source=ColumnDataSource(data=data), line_color="color", line_dash="dash",
        line_width=2, view=chosen(),
    )  # fmt: skip


def draw_bands(
    plot: figure, bands: Mapping[int, tuple[Any, Any, Any]], names: Sequence[str]
) -> None:
    """Draw bands of lines, by the line's number: x, from where and to where."""
    data = {
        "xs": [np.concatenate([x, x[::-1]]) for x, _, _ in bands.values()],
        "ys": [np.concatenate([low, high[::-1]]) for _, low, high in bands.values()],
        "color": [line_look(i)["color"] for i in bands],
        "line": [names[i] for i in bands],
    }
    plot.patches(
        "xs", "ys", source=ColumnDataSource(data=data), fill_color="color", fill_alpha=0.2,
        line_color=None, view=chosen(),
    )  # fmt: skip


def line_keys(names: Sequence[str], *, dashes: bool = True) -> list[Key]:
    """Return a legend's entries of lines; where there are several, a click hides one."""
    looks = [line_look(i) for i in range(len(names))]
    return [
        line_key(
            name or "predicted",
            look["color"],
            marker=look["marker"],
            dash=look["dash"] if dashes else None,
            line=name if len(names) > 1 else "",
        )
        for name, look in zip(names, looks, strict=True)
    ]


def line_key(
    label: str,
    color: str,
    *,
    marker: str | None = None,
    dash: Sequence[float] | None = None,
    hollow: bool = False,
    line: str = "",
) -> Key:
    """Return a legend's entry of a line with markers, or of markers alone (``dash=None``)."""
    stroke = ""
    if dash is not None:
        dashes = " ".join(map(str, dash))
        stroke = (
            f'<path d="M1 6H27" stroke="{color}" stroke-width="2" stroke-dasharray="{dashes}"/>'
        )
    sign = ""
    if marker is not None:
        fill = "var(--paper)" if hollow else color
        sign = (
            f'<path d="{MARKERS[marker]}" transform="translate(9 1)" fill="{fill}" '
            f'stroke="{color}" stroke-width="{1.6 if hollow else 0}"/>'
        )
    return Key(label, f'<svg width="28" height="12" aria-hidden="true">{stroke}{sign}</svg>', line)


def area_key(label: str, color: str, *, hatch: str = "", opacity: float = 1.0) -> Key:
    """Return a legend's entry of an area or a bar."""
    lines = f'<path d="{HATCHES[hatch][1]}" stroke="var(--paper)" fill="none"/>' if hatch else ""
    return Key(
        label,
        '<svg width="20" height="12" viewBox="0 0 20 12" aria-hidden="true">'
        f'<rect width="20" height="12" rx="2" fill="{color}" '
        f'fill-opacity="{opacity}"/>{lines}'
        f"{lines and f'<g transform=translate(12)>{lines}</g>'}</svg>",
    )
