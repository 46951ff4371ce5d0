"""A step as it ran: a row per GPU."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from .. import _core
from ..run import Result
from . import style

_TRACKS = {"kernel": -0.2, "wait": -0.2, "collective": 0.2}  # of a row
_LOOKS = {
    "kernel": ("compute", "#0072B2", ""),
    "collective": ("communication", "#E69F00", ""),
    "wait": ("waiting for a collective", "#CCCCCC", "////"),
}


def timeline(
    source: Result | Mapping[str, Any] | str | os.PathLike[str],
    *,
    iteration: int | None = None,
    ranks: int = 8,
) -> tuple[Figure, Axes]:
    """Draw one step: compute above, communication below, for each GPU.

    Parameters
    ----------
    source
        A result of ``run(..., trace=True)``, or a trace.json.
    iteration
        Which step; left out: the first after the warm-up, if there is one.
    ranks
        How many GPUs, from the first.
    """
    trace = _trace_of(source)
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    known = sorted({event["args"]["iteration"] for event in slices if "iteration" in event["args"]})
    if not known:
        raise ValueError("the trace holds no step")
    step = iteration if iteration is not None else known[min(1, len(known) - 1)]
    if step not in known:
        raise ValueError(f"expected a step of the trace, {known[0]} to {known[-1]}, found {step}")
    wanted = [e for e in slices if e["args"].get("iteration") == step and e["cat"] in _LOOKS]
    shown = sorted({event["pid"] for event in wanted})[:ranks]
    with style.style():
        return _draw(wanted, shown, _names(trace), step)


def _trace_of(source: Result | Mapping[str, Any] | str | os.PathLike[str]) -> Mapping[str, Any]:
    if isinstance(source, Result):
        if source.trace is None:
            raise ValueError("the result has no trace: run(..., trace=True)")
        return source.trace
    if isinstance(source, Mapping):
        return source
    return json.loads(_core.read_file(os.fspath(source)))


def _names(trace: Mapping[str, Any]) -> dict[int, str]:
    named = [event for event in trace["traceEvents"] if event["name"] == "process_name"]
    return {event["pid"]: event["args"]["name"] for event in named}


def _draw(
    events: list[dict[str, Any]], ranks: list[int], names: dict[int, str], step: int
) -> tuple[Figure, Axes]:
    figure, grid = style.new_figure(height=max(2.4, 1.3 + 0.4 * len(ranks)))
    axes = grid[0, 0]
    drawn = [event for event in events if event["pid"] in ranks]
    start = min(event["ts"] for event in drawn)
    for row, rank in enumerate(ranks):
        for kind in ("wait", "kernel", "collective"):
            spans = [
                ((event["ts"] - start) * 1e-3, event["dur"] * 1e-3)
                for event in drawn
                if event["pid"] == rank and event["cat"] == kind
            ]
            _, colour, hatch = _LOOKS[kind]
            axes.broken_barh(
                spans,
                (row + _TRACKS[kind] - 0.18, 0.36),
                facecolor=colour,
                hatch=hatch,
                edgecolor="none" if kind == "kernel" else "white",
                linewidth=0.5 if kind == "collective" else 0,
            )
    axes.set_yticks(range(len(ranks)), [names.get(rank, f"rank {rank}") for rank in ranks])
    axes.set_ylim(len(ranks) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"time in step {step:,} (ms)")
    style.thousands(axes.xaxis)
    kinds = [kind for kind in _LOOKS if any(event["cat"] == kind for event in drawn)]
    handles = [
        Patch(facecolor=_LOOKS[k][1], hatch=_LOOKS[k][2], edgecolor="white", lw=0) for k in kinds
    ]
    style.legend(figure, handles, [_LOOKS[kind][0] for kind in kinds])
    style.finish(figure)
    return figure, axes
