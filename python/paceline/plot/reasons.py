"""Why a step takes as long as it does: whom the others waited for, what would change it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..results import Result
from . import style
from .data import Source, at_least_one, require_result, table
from .scaling import draw_efficiency

_NAME_WIDTH = 38  # of a change, in characters
NEGLIGIBLE = 1e-3  # as the program leaves out
_KINDS = {  # what a change asks for: a colour and a hatch
    "software": (style.COLORS[2], ""),
    "hardware": (style.COLORS[0], "//"),
    "cannot be had": (style.GREY, ".."),
    "": (style.COLORS[2], ""),  # the result doesn't say
}


def stragglers(
    source: Result | Source,
    *,
    most: int = 12,
    x: str | None = None,
) -> tuple[Figure, Axes]:
    """Draw whom the others waited for, in ms of a step; of a sweep, efficiency along an axis.

    Parameters
    ----------
    source
        A result: a bar per GPU that the others waited for, which add up to the straggler wait. A
        sweep or its frame: a line of scaling efficiency per jitter, or whatever else changes.
    most
        How many GPUs; what the others cost is one more bar.
    x
        The sweep's axis; left out: the number of GPUs, or the axis of numbers with the most values.
    """
    with style.style():
        if isinstance(source, Result):
            return _waited_for(source, at_least_one("most", most))
        points = table(source, None)
        figure, axes = style.new_figure()
        drawn = draw_efficiency(axes[0, 0], points, points.along(x))
        style.title(axes[0, 0], points.title)
        if len(drawn) > 1:
            style.legend(figure, [handle for handle, _ in drawn], [name for _, name in drawn])
        style.finish(figure)
        return figure, axes[0, 0]


def _waited_for(result: Result, most: int) -> tuple[Figure, Axes]:
    frame = result.stragglers().sort_values("waited_s", ascending=False, kind="stable")
    frame, rest = frame.head(most), frame.iloc[most:]
    names = [f"rank {row.rank:,} ({row.gpu})" for row in frame.itertuples()]
    waited = list(frame["waited_s"] * 1e3)
    notes = [f", at {count:,} collectives" for count in frame["collectives"]]
    if len(rest):
        names.append(f"{len(rest):,} others")
        waited.append(rest["waited_s"].sum() * 1e3)
        notes.append("")
    texts = [f"{time:,.4g} ms{note}" for time, note in zip(waited, notes, strict=True)]
    figure, axes = _bars(names, waited, texts, [(style.COLORS[1], "")] * len(names))
    axes.set_xlabel("wait for this GPU in a step, mean of all GPUs (ms)")
    step = result.step_time_s * 1e3
    if result.servers is not None:
        wait = result.data["breakdown_s"]["server_wait"] * 1e3
        text = f"GPUs wait for servers alone, {wait:,.4g} ms of a step of {step:,.4g} ms"
    elif frame.empty:
        text = "No GPU made others wait"
    else:
        wait = result.data["breakdown_s"]["straggler_wait"] * 1e3
        text = f"Straggler wait {wait:,.4g} ms of a step of {step:,.4g} ms"
    style.title(axes, text)
    style.finish(figure)
    return figure, axes


def sensitivities(result: Result, *, most: int = 16) -> tuple[Figure, Axes]:
    """Draw by how much each change would make a sample cheaper or dearer.

    Parameters
    ----------
    result
        Of ``run(..., explain=True)``.
    most
        How many changes, those with the largest effect.

    Raises
    ------
    ValueError
        The result has no sensitivities.
    """
    _require_explained(result, "sensitivities")
    at_least_one("most", most)
    frame = result.sensitivities()
    strength = frame["time_per_sample_change"].abs()
    frame = frame[strength >= NEGLIGIBLE]
    none = len(strength) - len(frame)
    strongest = strength[frame.index].sort_values(ascending=False, kind="stable")
    frame = frame.loc[sorted(strongest.index[:most])]  # saves most first
    kinds = [kind if isinstance(kind, str) else "" for kind in frame["kind"]]
    with style.style():
        changes = 100 * frame["time_per_sample_change"]
        names = [textwrap.fill(change, _NAME_WIDTH) for change in frame["change"]]
        texts = [
            f"{_signed(change)} %, step {1e3 * step:,.4g} ms"
            for change, step in zip(changes, frame["step_time_s"], strict=True)
        ]
        figure, axes = _bars(names, list(changes), texts, [_KINDS[kind] for kind in kinds])
        axes.axvline(0, color=style.GREY, lw=0.8)
        rest = f"\n{none} other changes: by less than {NEGLIGIBLE:.1%}".replace("%", " %")
        axes.set_xlabel("change of the time per sample (%)" + (rest if none else ""))
        title = f"What would change a step of {result.step_time_s * 1e3:,.4g} ms"
        style.title(axes, title if len(frame) else "Nothing that was tried changes the step")
        shown = [kind for kind in _KINDS if kind and kind in kinds]
        handles = [Patch(facecolor=_KINDS[k][0], hatch=_KINDS[k][1], lw=0) for k in shown]
        style.legend(figure, handles, shown)
        style.finish(figure)
        return figure, axes


def _require_explained(result: Result, key: str) -> None:
    require_result(result)
    if key not in result.data:
        raise ValueError(
            f"the result has no {key.replace('_', ' ')}: run(..., explain=True), or paceline run "
            "without --no-explain"
        )


def critical_path(result: Result, *, most: int = 12) -> tuple[Figure, Axes]:
    """Draw what the median step's critical path is made of, in ms, by GPU and kind.

    Parameters
    ----------
    result
        Of ``run(..., explain=True)``.
    most
        How many kinds, the longest; the rest is one more bar.

    Raises
    ------
    ValueError
        The result has no critical path.
    """
    _require_explained(result, "critical_path")
    at_least_one("most", most)
    path = result.critical_path()
    step = path["duration_s"].sum() * 1e3
    who = [
        "communication" if kind == "communication" else f"{kind}, rank {rank:,} ({gpu})"
        for kind, rank, gpu in zip(path["kind"], path["rank"], path["gpu"], strict=True)
    ]
    kinds = path["duration_s"].groupby(pd.Index(who), sort=False).sum() * 1e3
    kinds = kinds.sort_values(ascending=False, kind="stable")
    names = [str(name).replace("_", " ") for name in kinds.index[:most]]
    times = list(kinds.head(most))
    if len(kinds) > most:
        names.append(f"{len(kinds) - most:,} others")
        times.append(kinds.iloc[most:].sum())
    with style.style():
        texts = [f"{time:,.4g} ms, {time / step:.1%}".replace("%", " %") for time in times]
        figure, axes = _bars(names, times, texts, [(style.COLORS[0], "")] * len(names))
        axes.set_xlabel("time on the critical path (ms)")
        number = result.data["critical_path"]["step"]
        style.title(axes, f"Critical path of step {number:,}: {step:,.4g} ms")
        style.finish(figure)
        return figure, axes


def _signed(change: float) -> str:
    text = f"{change:+.1f}"
    return "0.0" if text in ("-0.0", "+0.0") else text


def _bars(
    names: Sequence[str],
    lengths: Sequence[float],
    texts: Sequence[str],
    looks: Sequence[tuple[str, str]],  # colour and hatch
) -> tuple[Figure, Axes]:
    """Draw horizontal bars, the first above, with a text beside each."""
    lines = sum(name.count("\n") + 1 for name in names)
    figure, grid = style.new_figure(height=1.25 + 0.2 * len(names) + 0.14 * max(lines, 1))
    axes = grid[0, 0]
    for row, (length, (color, hatch)) in enumerate(zip(lengths, looks, strict=True)):
        axes.barh(row, length, 0.7, color=color, hatch=hatch, lw=0)
    beside = axes.get_yaxis_transform()  # x of the axes, y of the data
    for row, text in enumerate(texts):
        axes.text(1.02, row, text, transform=beside, va="center", size=9.5)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    if not any(lengths):
        axes.set_xlim(0, 1)
    axes.grid(axis="y", visible=False)
    style.thousands(axes.xaxis)
    return figure, axes
