"""Throughput and efficiency against the number of GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..quantities import parse
from ..run import Result
from ..studies import Sweep
from . import style
from .data import GPUS, Series, Table, axis_label, matching, series, table

Source: TypeAlias = Sweep | pd.DataFrame | Sequence[Result]
THROUGHPUT = "throughput_samples_per_s"
EFFICIENCY = "scaling_efficiency"


def scaling(source: Source, *, measured: pd.DataFrame | None = None) -> tuple[Figure, Axes]:
    """Draw throughput (samples/s) against GPUs, with the ideal line.

    Parameters
    ----------
    source
        A sweep with an axis "gpus", its frame, or several results. A line per combination of the
        other axes; bands are 5 % to 95 % of the seeds or, with a profile, the interval of 90 %.
    measured
        Columns ``gpus`` and ``throughput_samples_per_s``, and axes; left out: the study's.
    """
    with style.style():
        figure, axes = style.new_figure()
        points = table(source, measured)
        drawn = draw_scaling(axes[0, 0], points)
        style.title(axes[0, 0], points.title)
        _finish(figure, drawn)
        return figure, axes[0, 0]


def efficiency(source: Source, *, measured: pd.DataFrame | None = None) -> tuple[Figure, Axes]:
    """Draw scaling efficiency (%) against GPUs; parameters as of :func:`scaling`."""
    with style.style():
        figure, axes = style.new_figure()
        points = table(source, measured)
        drawn = draw_efficiency(axes[0, 0], points)
        style.title(axes[0, 0], points.title)
        _finish(figure, drawn)
        return figure, axes[0, 0]


def scaling_and_efficiency(
    source: Source, *, measured: pd.DataFrame | None = None
) -> tuple[Figure, np.ndarray]:
    """Draw :func:`scaling` and :func:`efficiency` side by side, with one legend."""
    with style.style():
        figure, axes = style.new_figure(1, 2, width=11.0)
        points = table(source, measured)
        drawn = draw_scaling(axes[0, 0], points)
        draw_efficiency(axes[0, 1], points)
        figure.suptitle(points.title, x=0.01, ha="left", fontsize=10.5, wrap=True)
        _finish(figure, drawn)
        return figure, axes[0]


Drawn = list[tuple[Any, str]]


def draw_lines(axes: Axes, lines: Sequence[Series], positions: dict[Any, float], x: str) -> Drawn:
    """Draw lines with their bands; return what a legend needs."""
    drawn: Drawn = []
    for index, line in enumerate(lines):
        look = style.line_of(index)
        at = np.array([positions[str(value)] for value in line.frame[x]])
        data = line.frame
        if line.banded and len(at) > 1:
            axes.fill_between(at, data["low"], data["high"], color=look["color"], alpha=0.18, lw=0)
        elif line.banded:
            spread = [data["mean"] - data["low"], data["high"] - data["mean"]]
            axes.errorbar(at, data["mean"], spread, color=look["color"], capsize=4, fmt="none")
        if not all(parse(value) for value in data[x]):  # names: nothing lies between them
            look["linestyle"] = "none"
        (handle,) = axes.plot(at, data["mean"], **look)
        drawn.append((handle, line.name or "predicted"))
    return drawn


def place_axis(axes: Axes, lines: Sequence[Series], x: str) -> dict[Any, float]:
    """Set up the x axis for all lines; return where each value lies."""
    values = list(dict.fromkeys(value for line in lines for value in line.frame[x]))
    at = style.numeric_axis(axes, values, axis_label(x))
    return {str(value): position for value, position in zip(values, at)}


def draw_scaling(axes: Axes, points: Table) -> Drawn:
    """Throughput with ideal lines and measured points."""
    lines = _lines(points, THROUGHPUT)
    positions = place_axis(axes, lines, GPUS)
    ideals = _ideals(points, lines)
    handle = None
    for first, (rate, line) in ideals.items():
        ends = np.array([line.frame[GPUS].min(), line.frame[GPUS].max()], float)
        single = len(ideals) == 1
        colour = style.GREY if single else style.COLOURS[first % len(style.COLOURS)]
        (handle,) = axes.plot(ends, rate * ends, color=colour, lw=1.1, ls=(0, (1, 1.5)), zorder=1)
    drawn = draw_lines(axes, lines, positions, GPUS)
    if handle is not None:
        ideal = Line2D([], [], color=style.GREY, lw=1.1, ls=(0, (1, 1.5)))
        drawn.append((ideal, "ideal: GPUs times one alone"))
    drawn += _draw_measured(axes, points.measured, lines, THROUGHPUT, 1.0)
    axes.set_ylabel("throughput (samples/s)")
    if len(positions) > 1:
        style.log_y(axes)
    else:
        axes.set_ylim(bottom=0)
        style.thousands(axes.yaxis)
    return drawn + _band_entry(points, lines)


def draw_efficiency(axes: Axes, points: Table, x: str = GPUS) -> Drawn:
    """Scaling efficiency in percent."""
    lines = _lines(points, EFFICIENCY, 100.0, x)
    positions = place_axis(axes, lines, x)
    drawn = draw_lines(axes, lines, positions, x)
    axes.axhline(100, color=style.GREY, lw=1.1, ls=(0, (1, 1.5)), zorder=1)
    axes.set_ylabel("scaling efficiency (% of ideal)")
    low = min(float(line.frame["low"].min()) for line in lines)
    axes.set_ylim(0 if low < 50 else low - 1 - 0.1 * (100 - low), None)
    style.thousands(axes.yaxis)
    return drawn + _band_entry(points, lines)


def _lines(points: Table, column: str, scale: float = 1.0, x: str = GPUS) -> list[Series]:
    if x not in points.frame:
        raise ValueError(f"expected an axis or column {x!r}, found {', '.join(points.axes)}")
    return series(points, x, column, scale)


def _ideals(points: Table, lines: Sequence[Series]) -> dict[int, tuple[float, Series]]:
    """Throughput of one GPU alone, by line: once for lines that share it."""
    if EFFICIENCY not in points.frame:
        return {}
    found: dict[int, tuple[float, Series]] = {}
    for index, (line, share) in enumerate(zip(lines, series(points, GPUS, EFFICIENCY))):
        rate = float((line.frame["mean"] / share.frame["mean"] / line.frame[GPUS]).iloc[0])
        if not any(abs(rate - known) < 0.01 * known for known, _ in found.values()):
            found[index] = (rate, line)
    return found


def _draw_measured(
    axes: Axes, measured: pd.DataFrame, lines: Sequence[Series], column: str, scale: float
) -> Drawn:
    handle = None
    for index, line in enumerate(lines):
        known = matching(measured, line.where, column)
        if known.empty or GPUS not in known:
            continue
        colour = style.COLOURS[index % len(style.COLOURS)]
        handle = axes.scatter(
            known[GPUS].astype(float),
            known[column] * scale,
            s=70,
            facecolor="white",
            edgecolor=colour if len(lines) > 1 else "black",
            linewidth=1.8,
            zorder=4,
        )
    return [] if handle is None else [(handle, "measured")]


def _band_entry(points: Table, lines: Sequence[Series]) -> Drawn:
    if not any(line.banded for line in lines):
        return []
    seeds = any((line.frame["points"] > 1).any() for line in lines)
    name = "5 % to 95 % of seeds" if seeds else "90 % interval"
    return [(Patch(facecolor=style.GREY, alpha=0.25), name)]


def _finish(figure: Figure, drawn: Drawn) -> None:
    if len(drawn) > 1:
        style.legend(figure, [handle for handle, _ in drawn], [name for _, name in drawn])
    style.finish(figure)
