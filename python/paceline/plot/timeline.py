"""A step as it ran: a row per GPU."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..errors import InputError
from ..results import Result
from . import style
from .data import at_least_one, wrong_kind
from .traces import (
    COMMUNICATION,
    COMPUTE,
    SERVERS,
    WAIT,
    Slice,
    Trace,
    last_starts,
    read,
    waited_for,
)

MOST_ROWS = 8
_PEERS = "peers"  # what of a collective is waiting for the last GPU
_TRACKS = {COMPUTE: -0.2, WAIT: -0.2, SERVERS: -0.2, COMMUNICATION: 0.2, _PEERS: 0.2}  # of a row
_LOOKS = {
    COMPUTE: ("compute", "#0072B2", ""),
    WAIT: ("compute waits for communication", "#CCCCCC", "////"),
    SERVERS: style.PARTS["server_wait"],
    COMMUNICATION: ("communication", "#E69F00", ""),
    _PEERS: ("waiting for the last of these GPUs", "#D55E00", "xxxx"),
}


def timeline(
    source: Result | Mapping[str, Any] | str | os.PathLike[str],
    *,
    iteration: int | None = None,
    ranks: int | np.integer | Iterable[int] | None = None,
) -> tuple[Figure, Axes]:
    """Draw one step: compute above, communication below, for each GPU.

    A GPU that the others wait for begins its collectives last: the others' are hatched until then.
    With parameter servers compute waits for what it pulls.

    Parameters
    ----------
    source
        A result of ``run(..., trace=True)``; or what ``save_trace`` or ``paceline run --trace``
        wrote, a file or a folder.
    iteration
        Which step; left out: the first after the warm-up, if there is one.
    ranks
        Which GPUs, or how many; left out: those in the trace, at most 8. Of more the most
        waited-for are drawn.
    """
    trace = _trace_of(source)
    known = sorted({each.step for each in trace.slices})
    if not known:
        raise ValueError("the trace holds no step")
    step = iteration if iteration is not None else known[min(1, len(known) - 1)]
    if step not in known:
        raise ValueError(f"expected a step of the trace, {known[0]} to {known[-1]}, found {step}")
    wanted = [each for each in trace.slices if each.step == step]
    shown = _rows(wanted, ranks)
    with style.style():
        return _draw(wanted, shown, trace.names, step)


def _trace_of(source: Result | Mapping[str, Any] | str | os.PathLike[str]) -> Trace:
    if isinstance(source, Result):
        if source.trace is None:
            raise ValueError("the result has no trace: run(..., trace=True)")
        return read(source.trace)
    if not isinstance(source, (Mapping, str, os.PathLike)):
        raise wrong_kind("a result with a trace, or a trace", source)
    return read(source)


def _rows(slices: Sequence[Slice], ranks: int | np.integer | Iterable[int] | None) -> list[int]:
    known = sorted({each.rank for each in slices})
    if ranks is None or not isinstance(ranks, Iterable):
        most = MOST_ROWS if ranks is None else at_least_one("ranks", ranks)
        waited = waited_for(slices)
        order = sorted(known, key=lambda rank: (-waited.get(rank, 0.0), rank))
        return sorted(order[:most])
    wanted = list(dict.fromkeys(ranks))
    missing = [rank for rank in wanted if rank not in known]
    if missing or not wanted:
        found = missing[0] if missing else "none"
        expected = f"expected ranks of the trace, {', '.join(map(str, known))}"
        raise InputError(f"{expected}, found {found}", "ranks")
    return wanted


def _spans(slices: Iterable[Slice], rank: int, last: Mapping[Slice, float]) -> dict[str, list[Any]]:
    """Return (start, duration) in microseconds by what is drawn."""
    spans: dict[str, list[Any]] = {kind: [] for kind in _LOOKS}
    for each in slices:
        if each.rank != rank:
            continue
        begins = each.start
        if each.kind == COMMUNICATION:
            begins = min(last[each], each.end)
            if begins > each.start:
                spans[_PEERS].append((each.start, begins - each.start))
        spans[each.kind].append((begins, each.end - begins))
    return spans


def _draw(
    slices: list[Slice], ranks: list[int], names: dict[int, str], step: int
) -> tuple[Figure, Axes]:
    figure, grid = style.new_figure(height=max(2.4, 1.4 + 0.4 * len(ranks)))
    axes = grid[0, 0]
    drawn = [each for each in slices if each.rank in ranks]
    start = min(each.start for each in drawn)
    last = last_starts(drawn)
    seen = set()
    for row, rank in enumerate(ranks):
        for kind, spans in _spans(drawn, rank, last).items():
            if not spans:
                continue
            _, color, hatch = _LOOKS[kind]
            axes.broken_barh(
                [((begins - start) * 1e-3, lasts * 1e-3) for begins, lasts in spans],
                (row + _TRACKS[kind] - 0.18, 0.36),
                facecolor=color,
                hatch=hatch,
                edgecolor="none" if kind == COMPUTE else "white",
                linewidth=0.5 if kind == COMMUNICATION else 0,
            )
            seen.add(kind)
    axes.set_yticks(range(len(ranks)), [names.get(rank, f"rank {rank}") for rank in ranks])
    _mark(axes, ranks, waited_for(drawn))
    axes.set_ylim(len(ranks) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"time in step {step:,} (ms)")
    style.thousands(axes.xaxis)
    kinds = [kind for kind in _LOOKS if kind in seen]
    handles = [
        Patch(facecolor=_LOOKS[k][1], hatch=_LOOKS[k][2], edgecolor="white", lw=0) for k in kinds
    ]
    style.legend(figure, handles, [_LOOKS[kind][0] for kind in kinds])
    style.finish(figure)
    return figure, axes


def _mark(axes: Axes, ranks: list[int], waited: Mapping[int, float]) -> None:
    """Write in red who caused more than half of the waiting in collectives."""
    for label, rank in zip(axes.get_yticklabels(), ranks, strict=True):
        if waited.get(rank, 0.0) > 0.5 * sum(waited.values()):
            label.set(color="#B03A00", fontweight="bold")
