"""Throughput and efficiency, against the number of GPUs or along another axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..quantities import parse
from . import style
from .data import GPUS, THROUGHPUT, Series, Source, Table, axis_label, matching, series, table

EFFICIENCY = "scaling_efficiency"


def scaling(
    source: Source, *, x: str | None = None, measured: pd.DataFrame | None = None
) -> tuple[Figure, np.ndarray]:
    """Draw throughput (samples/s) with the ideal line, and below it what is left of the ideal (%).

    Throughput is on logarithmic axes against GPUs, which hide a few percent: the picture below
    shows them, of measured points too.

    Parameters
    ----------
    source
        A sweep, its frame, or several results. A line per combination of the axes but x; bands are
        5 % to 95 % of the seeds or, with a profile, the interval of 90 %. Of a frame the axes are
        the sweep's (``frame.attrs["axes"]``) and what columns of names were added: added numbers
        are none. Where the frame is no sweep's, every column is one that no result has.
        A list of results of one model is drawn over their GPUs; where two have as many, or in a
        dictionary, each has its name: "1", "2" and so on, or the dictionary's.
    x
        The axis; left out: the number of GPUs, whichever axis decides it, or the axis of numbers
        with the most values.
    measured
        Columns ``gpus`` and ``throughput_samples_per_s`` (or ``throughput``, as in files of
        measurements), and axes; left out: the study's.
    """
    with style.style():
        points = table(source, measured)
        along = points.along(x)
        both = EFFICIENCY in points.frame
        figure, grid = style.new_figure(
            1 + both,
            1,
            height=style.HEIGHT + 1.3 * both,
            sharex=True,
            gridspec_kw={"height_ratios": [3, 2][: 1 + both]},
        )
        drawn = draw_scaling(grid[0, 0], points, along)
        if both:
            draw_efficiency(grid[1, 0], points, along)
            grid[0, 0].set_xlabel("")
        style.title(grid[0, 0], points.title)
        _finish(figure, drawn)
        return figure, grid[:, 0]


def efficiency(
    source: Source, *, x: str | None = None, measured: pd.DataFrame | None = None
) -> tuple[Figure, Axes]:
    """Draw scaling efficiency (%) alone; parameters as of :func:`scaling`."""
    with style.style():
        points = table(source, measured)
        figure, axes = style.new_figure()
        drawn = draw_efficiency(axes[0, 0], points, points.along(x))
        style.title(axes[0, 0], points.title)
        _finish(figure, drawn)
        return figure, axes[0, 0]


Drawn = list[tuple[Any, str]]


def draw_lines(axes: Axes, lines: Sequence[Series], positions: dict[Any, float], x: str) -> Drawn:
    """Draw lines with their bands; return what a legend needs."""
    drawn: Drawn = []
    for index, line in enumerate(lines):
        look = style.line_of(index)
        at = np.array([positions[str(value)] for value in line.frame[x]])
        data = line.frame
        numbers = all(parse(value) for value in data[x])
        if line.banded and numbers and len(at) > 1:
            axes.fill_between(at, data["low"], data["high"], color=look["color"], alpha=0.18, lw=0)
        elif line.banded:
            spread = [data["mean"] - data["low"], data["high"] - data["mean"]]
            axes.errorbar(at, data["mean"], spread, color=look["color"], capsize=4, fmt="none")
        if not numbers:  # names: nothing lies between them
            look["linestyle"] = "none"
        (handle,) = axes.plot(at, data["mean"], **look)
        drawn.append((handle, line.name or "predicted"))
    return drawn


def place_axis(axes: Axes, lines: Sequence[Series], x: str) -> dict[Any, float]:
    """Set up the x axis for all lines; return where each value lies."""
    values = list({str(value): value for line in lines for value in line.frame[x]}.values())
    at = style.numeric_axis(axes, values, axis_label(x))
    return {str(value): position for value, position in zip(values, at, strict=True)}


def draw_scaling(axes: Axes, points: Table, x: str) -> Drawn:
    """Throughput with ideal lines and measured points."""
    points.require(THROUGHPUT)
    lines = series(points, x, THROUGHPUT)
    positions = place_axis(axes, lines, x)
    over_gpus = x == GPUS
    alone = alone_rates(points) if over_gpus else {}
    for index, rate in different_rates(alone).items():
        ends = np.array([lines[index].frame[GPUS].min(), lines[index].frame[GPUS].max()], float)
        single = len(different_rates(alone)) == 1
        color = style.GREY if single else style.COLORS[index % len(style.COLORS)]
        axes.plot(ends, rate * ends, color=color, **_IDEAL)
    drawn = draw_lines(axes, lines, positions, x)
    if alone:
        drawn.append((Line2D([], [], color=style.GREY, **_IDEAL), "ideal: GPUs times one alone"))
    drawn += _draw_measured(axes, points.measured, lines, x, dict.fromkeys(range(len(lines)), 1.0))
    axes.set_ylabel("throughput (samples/s)")
    if over_gpus and len(positions) > 1:
        style.log_y(axes)
    else:
        axes.set_ylim(0, 1.08 * axes.dataLim.y1)
        style.thousands(axes.yaxis)
    return drawn + _band_entry(lines)


def draw_efficiency(axes: Axes, points: Table, x: str) -> Drawn:
    """Scaling efficiency in percent; of measured points, of the same ideal."""
    points.require(EFFICIENCY)
    lines = series(points, x, EFFICIENCY, 100.0)
    positions = place_axis(axes, lines, x)
    drawn = draw_lines(axes, lines, positions, x)
    alone = alone_rates(points) if x == GPUS and THROUGHPUT in points.frame else {}
    drawn += _draw_measured(
        axes, points.measured, lines, x, {i: 100 / rate for i, rate in alone.items()}, per_gpu=True
    )
    axes.axhline(100, **{**_IDEAL, "color": style.GREY})
    axes.set_ylabel("scaling efficiency\n(% of ideal)")
    low = axes.dataLim.y0
    axes.set_ylim(0 if low < 50 else low - 1 - 0.1 * (100 - low), None)
    style.thousands(axes.yaxis)
    return drawn + _band_entry(lines)


_IDEAL: dict[str, Any] = {"lw": 1.1, "ls": (0, (1, 1.5)), "zorder": 1}


def alone_rates(points: Table) -> dict[int, float]:
    """Return the throughput of one GPU alone, by line."""
    if EFFICIENCY not in points.frame:
        return {}
    rates = series(points, GPUS, THROUGHPUT)
    shares = series(points, GPUS, EFFICIENCY)
    return {
        index: float((rate.frame["mean"] / share.frame["mean"] / rate.frame[GPUS]).iloc[0])
        for index, (rate, share) in enumerate(zip(rates, shares, strict=True))
    }


def different_rates(rates: dict[int, float]) -> dict[int, float]:
    """Keep the first of lines that share the rate of one GPU."""
    kept: dict[int, float] = {}
    for index, rate in rates.items():
        if not any(abs(rate - known) < 0.01 * known for known in kept.values()):
            kept[index] = rate
    return kept


def _draw_measured(
    axes: Axes,
    measured: pd.DataFrame,
    lines: Sequence[Series],
    x: str,
    scales: dict[int, float],
    per_gpu: bool = False,
) -> Drawn:
    """Draw measured throughputs of lines that have a scale, times that."""
    handle = None
    for index, line in enumerate(lines):
        known = matching(measured, line.where, THROUGHPUT)
        if x != GPUS or known.empty or GPUS not in known or index not in scales:
            continue
        gpus = known[GPUS].astype(float)
        color = style.COLORS[index % len(style.COLORS)]
        handle = axes.scatter(
            gpus,
            known[THROUGHPUT] * scales[index] / (gpus if per_gpu else 1),
            s=70,
            facecolor="white",
            edgecolor=color if len(lines) > 1 else "black",
            linewidth=1.8,
            zorder=4,
        )
    return [] if handle is None else [(handle, "measured")]


def _band_entry(lines: Sequence[Series]) -> Drawn:
    if not any(line.banded for line in lines):
        return []
    seeds = any((line.frame["points"] > 1).any() for line in lines)
    name = "5 % to 95 % of seeds" if seeds else "90 % interval"
    return [(Patch(facecolor=style.GREY, alpha=0.25), name)]


def _finish(figure: Figure, drawn: Drawn) -> None:
    if len(drawn) > 1:
        style.legend(figure, [handle for handle, _ in drawn], [name for _, name in drawn])
    style.finish(figure)
