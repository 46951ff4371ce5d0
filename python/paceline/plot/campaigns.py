"""Campaigns: goodput along an axis of a sweep, and what took the rest of one campaign."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..quantities import duration_text
from ..results import Result
from . import style
from .data import GOODPUT, Source, require_result, series, table
from .scaling import draw_lines, place_axis

NEGLIGIBLE = 5e-5  # of a campaign: nobody could see it


def loss_name(loss: str) -> str:
    """Name a loss."""
    return {"redone_steps": "steps done again", "first_step": "first steps"}.get(
        loss, loss.replace("_", " ")
    )


def time_scale(seconds: float) -> tuple[str, float]:
    """Return the unit in which a campaign's time is drawn, and how many seconds it has."""
    return ("days", 86400.0) if seconds >= 2 * 86400 else ("hours", 3600.0)


def goodput(source: Source, *, x: str | None = None) -> tuple[Figure, Axes]:
    """Draw goodput (%) of campaigns: along an axis of a sweep, or of several results.

    Parameters
    ----------
    source
        A sweep, its frame, or several results. A line per combination of the axes but x; bands are
        5 % to 95 % of the seeds: of the axis ``/run/seed``, or else of each campaign's own
        (``faults.seeds``).
    x
        The axis; left out: the axis of numbers with the most values.
    """
    with style.style():
        points = table(source, None)
        if GOODPUT not in points.frame or points.frame[GOODPUT].isna().all():
            raise ValueError("expected scenarios with faults, found no goodput")
        figure, grid = style.new_figure()
        axes = grid[0, 0]
        along = points.along(x)
        lines = series(points, along, GOODPUT, 100.0)
        drawn = draw_lines(axes, lines, place_axis(axes, lines, along), along)
        axes.set_ylabel("goodput (%)")
        axes.margins(y=0.1)
        style.title(axes, points.title)
        if any(line.banded for line in lines):
            drawn.append((Patch(facecolor=style.GREY, alpha=0.25), "5 % to 95 % of seeds"))
        if len(drawn) > 1:
            style.legend(figure, [handle for handle, _ in drawn], [name for _, name in drawn])
        style.finish(figure)
        return figure, axes


def losses(result: Result) -> tuple[Figure, Axes]:
    """Draw what took the time of a campaign that is not goodput; lines are 5 % to 95 % of seeds."""
    require_result(result)
    if result.campaign is None:
        raise ValueError("expected a result with a campaign: its scenario has no faults")
    frame = result.campaign_losses()
    frame = frame[frame["share"] >= NEGLIGIBLE]
    frame = frame.sort_values("mean_s", ascending=False, kind="stable")
    wall = result.campaign["wall_s"]["mean"]
    share = 100 * frame[["mean_s", "p5_s", "p95_s"]].to_numpy() / wall
    with style.style():
        figure, grid = style.new_figure(height=1.2 + 0.42 * max(len(frame), 1))
        axes = grid[0, 0]
        rows = np.arange(len(frame))
        axes.barh(rows, share[:, 0], 0.6, color=style.COLORS[1], lw=0)
        axes.hlines(rows, share[:, 1], share[:, 2], color="black", lw=1.5)
        for row, (mean, _, high), seconds in zip(rows, share, frame["mean_s"], strict=True):
            text = f" {mean:.2f} %, {duration_text(seconds)}"
            axes.text(max(mean, high), row, text, va="center", fontsize=9.5)
        axes.set_yticks(rows, [loss_name(loss) for loss in frame["loss"]])
        axes.invert_yaxis()
        axes.set_xlim(0, 1.35 * share[:, 2].max(initial=1e-3))
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("share of the campaign's time (%)")
        spread = result.campaign["goodput"]["mean"]
        days = duration_text(wall)
        style.title(axes, f"{result.gpus:,} GPUs, {days}, goodput {100 * spread:.1f} %")
        style.finish(figure)
        return figure, axes
