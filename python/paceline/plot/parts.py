"""Where a step goes: for one result, or along an axis; step times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..results import Result
from . import style
from .data import Source, Table, axis_label, named, series, table
from .scaling import Drawn, draw_lines, place_axis

MOST_FACETS = 6
NEGLIGIBLE = 1e-3  # of a step: nobody could see it
COLUMNS = {f"breakdown_{part}_s": part for part in style.PARTS}


def breakdown(
    source: Result | Source, *, x: str | None = None, share: bool = False
) -> tuple[Figure, Any]:
    """Draw the parts of a step, in ms: of one result, or stacked along an axis of a sweep.

    Parameters
    ----------
    source
        A result; or what :func:`scaling` draws. Combinations of further axes get a picture each,
        up to 6.
    x
        The axis; left out: the number of GPUs, or the axis of numbers with the most values.
    share
        Draw percent of the step instead of ms; not of one result, which has both.
    """
    with style.style():
        if isinstance(source, Result):
            return _one_result(source)
        points = table(source, None)
        along = points.along(x)
        wanted = _facets(points, along)
        columns = min(len(wanted), 3)
        rows = -(-len(wanted) // columns)
        width = style.WIDTH if columns == 1 else 3.7 * columns
        figure, axes = style.new_figure(
            rows,
            columns,
            width=width,
            height=style.HEIGHT if rows == 1 else 3.1 * rows,
            sharey=share or _alike(wanted),
        )
        for empty in axes.flat[len(wanted) :]:
            empty.set_visible(False)
        for place, (name, frame) in zip(axes.flat, wanted, strict=False):
            draw_breakdown(place, frame, along, share)
            style.title(place, name, inches=width / columns)
        for place in axes[:, 1:].flat:
            place.set_ylabel("")
        if share:
            axes[0, 0].set_ylim(0, 100)
        if len(wanted) == 1:
            style.title(axes[0, 0], points.title)
        _parts_legend(figure, points.frame)
        style.finish(figure)
        return figure, axes[0, 0] if len(wanted) == 1 else axes


def step_time_and_breakdown(source: Source, *, x: str | None = None) -> tuple[Figure, np.ndarray]:
    """Draw the mean step (ms) along an axis, and beside it where it goes."""
    with style.style():
        points = table(source, None)
        along = points.along(x)
        figure, axes = style.new_figure(1, 2, width=11.0)
        points.require("step_time_mean_s")
        lines = series(points, along, "step_time_mean_s", 1e3)
        drawn = draw_lines(axes[0, 0], lines, place_axis(axes[0, 0], lines, along), along)
        axes[0, 0].set_ylabel("mean step (ms)")
        axes[0, 0].margins(y=0.15)
        axes[0, 0].set_ylim(bottom=max(0.0, axes[0, 0].get_ylim()[0]))
        style.thousands(axes[0, 0].yaxis)
        wanted = _facets(points, along, most=10**6)
        draw_breakdown(axes[0, 1], wanted[0][1], along)
        if len(wanted) > 1:
            style.title(axes[0, 1], wanted[0][0], inches=5.5)
        figure.suptitle(points.title, x=0.01, ha="left", fontsize=10.5, wrap=True)
        names: Drawn = drawn if len(drawn) > 1 else []
        parts = _part_handles(points.frame)
        style.legend(figure, [h for h, _ in names + parts], [name for _, name in names + parts])
        style.finish(figure)
        return figure, axes[0]


def draw_breakdown(axes: Axes, frame: pd.DataFrame, x: str, share: bool = False) -> None:
    """Draw a stacked bar for each value of x: the mean over whatever else changes."""
    columns = [column for column in COLUMNS if column in frame]
    if not columns:
        raise ValueError("expected columns breakdown_compute_s ..., found none")
    means = frame.assign(_x=frame[x].map(str)).groupby("_x", sort=False)[columns].mean()
    texts, unit = style.tick_texts(list(frame[x][~frame[x].map(str).duplicated()]))
    scale = 100 / means.sum(axis=1) if share else pd.Series(1e3, means.index)
    bottom = np.zeros(len(means))
    for column in columns:
        _, color, hatch = style.PARTS[COLUMNS[column]]
        height = (means[column] * scale).to_numpy()
        if not height.any():  # its hatch alone would be most of the picture's file
            continue
        bars = axes.bar(range(len(means)), height, 0.72, bottom, color=color, hatch=hatch, lw=0)
        for bar in bars:
            bar.sticky_edges.y[:] = [0]  # an empty part on top would take the margin away
        bottom += height
    axes.set_xticks(range(len(means)), texts)
    axes.set_xlim(-0.6, len(means) - 0.4)
    axes.grid(axis="x", visible=False)
    axes.set_xlabel(f"{axis_label(x)} ({unit})" if unit else axis_label(x))
    axes.set_ylabel("part of the mean step (%)" if share else "mean step (ms)")
    style.thousands(axes.yaxis)


def _one_result(result: Result) -> tuple[Figure, Axes]:
    frame = result.breakdown()
    seen = NEGLIGIBLE * result.step_time_s
    frame = frame[(frame["time_s"] > seen) | (frame["worst_rank_time_s"] > seen)]
    figure, grid = style.new_figure(height=1.3 + 0.6 * len(frame))
    axes = grid[0, 0]
    rows = np.arange(len(frame))
    columns = (frame[name] for name in ("part", "time_s", "worst_rank_time_s", "share"))
    for part, time, worst, share, y in zip(*columns, rows, strict=True):
        _, color, hatch = style.PARTS.get(part, (part, style.GREY, ""))
        axes.barh(y - 0.2, time * 1e3, 0.36, color=color, hatch=hatch, lw=0)
        axes.barh(y + 0.2, worst * 1e3, 0.36, facecolor="none", edgecolor=color, lw=1.3)
        text = f" {time * 1e3:,.4g} ms, {share:.1%}".replace("%", " %")
        axes.text(time * 1e3, y - 0.2, text, va="center", fontsize=9.5)
        text = f" {worst * 1e3:,.4g} ms"
        axes.text(worst * 1e3, y + 0.2, text, va="center", fontsize=9.5)
    axes.set_yticks(rows, [style.PARTS.get(part, (part,))[0] for part in frame["part"]])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.32e3 * max(frame["time_s"].max(), frame["worst_rank_time_s"].max()))
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("time of a step (ms)")
    style.thousands(axes.xaxis)
    worst_name = result.data["worst_rank"]["gpu"]
    handles = [Patch(facecolor=style.GREY), Patch(facecolor="none", edgecolor=style.GREY, lw=1.3)]
    style.legend(figure, handles, ["mean of all GPUs", f"most compute: {worst_name}"])
    style.title(axes, f"{result.gpus:,} GPUs, step {result.step_time_s * 1e3:,.4g} ms")
    style.finish(figure)
    return figure, axes


def _facets(points: Table, x: str, most: int = MOST_FACETS) -> list[tuple[str, pd.DataFrame]]:
    groups = [
        (", ".join(named(name, value) for name, value in where.items()), frame)
        for where, frame in points.combinations(x)
    ]
    if len(groups) > most:
        raise ValueError(
            f"expected at most {most} combinations of {', '.join(points.beside(x))}, found "
            f"{len(groups)}: "
            "draw a part of the frame"
        )
    return groups


def _alike(facets: list[tuple[str, pd.DataFrame]]) -> bool:
    """Whether the parts of all steps can be seen at one scale."""
    highest = [frame.filter(like="breakdown_").sum(axis=1).max() for _, frame in facets]
    return max(highest) < 4 * min(highest)


def _part_handles(frame: pd.DataFrame) -> Drawn:
    step = frame[[column for column in COLUMNS if column in frame]].sum(axis=1)
    shown = [
        part
        for column, part in COLUMNS.items()
        if column in frame and (frame[column] > NEGLIGIBLE * step).any()
    ]
    return [
        (
            Patch(facecolor=style.PARTS[part][1], hatch=style.PARTS[part][2], lw=0),
            style.PARTS[part][0],
        )
        for part in shown
    ]


def _parts_legend(figure: Figure, frame: pd.DataFrame) -> None:
    parts = _part_handles(frame)
    style.legend(figure, [handle for handle, _ in parts], [name for _, name in parts])
