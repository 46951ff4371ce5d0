"""What a cluster did over the days of a campaign: a row for each kind of doing, in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, DataRange1d, Range1d
from bokeh.plotting import figure
from numpy.typing import NDArray

from ..plot import style
from ..plot.campaigns import time_scale
from ..quantities import duration_text
from . import charts
from .document import Figure, Key
from .view import CampaignView

Times = NDArray[np.float64]

_BLUE, _VERMILION, _GREEN, _PINK, _SKY, _ORANGE, _ = style.COLORS
_GREY, _PALE = "#8c8c8c", "#bbbbbb"
_SLOW, _REDONE, _TRAINED = "slower steps", "steps that were undone", "steps"
RESTART = ("stop", "rendezvous", "start", "initialisation")
# What the cluster does, in the order of the rows: colour, hatch.
LOOKS: dict[str, tuple[str, str]] = {
    _TRAINED: (_BLUE, ""),
    _SLOW: (_SKY, ".."),
    _REDONE: (_VERMILION, "xx"),
    "checkpoint": (_GREEN, ""),
    "detection": (_PINK, "oo"),
    "waiting for nodes": (_ORANGE, "//"),
    "restart": (_GREY, ""),
    "load": (_PALE, "--"),
}
PIXELS = 30  # of a row
MOST_BARS = 100
WIDTHS_S = [60.0 * m for m in (1, 5, 15, 60, 180, 360, 720, 1440, 2880, 7 * 1440, 28 * 1440)]
NO_FAILURE = 65_535
MOST_KINDS = 20  # of failures, with rows of their own


def row_of(what: str) -> str:
    """Return in which row an event or a loss is."""
    if what in RESTART:
        return "restart"
    known = {"redone_steps": _REDONE, "waiting_for_nodes": "waiting for nodes"}
    slow = dict.fromkeys(("slow_states", "fewer_nodes", "first_step"), _SLOW)
    return (known | slow).get(what, what)


class Pieces:
    """What the cluster did when: of each row its pieces, in order of time, in seconds."""

    def __init__(self, view: CampaignView) -> None:
        steps = np.isin(view.what, [i for i, what in enumerate(view.whats) if what == _TRAINED])
        ends = view.to_s - view.undone_s  # of steps: those that survive
        rows = np.array([row_of(what) for what in view.whats], object)[view.what]
        rows[steps & ~_healthy(view)] = _SLOW
        self.of: dict[str, tuple[Times, Times]] = {
            name: _some(view.from_s[rows == name], ends[rows == name]) for name in LOOKS
        }
        self.of[_REDONE] = _some(ends[steps], view.to_s[steps])
        made = (rows == _TRAINED) | (rows == _SLOW)
        self._slower = (view.from_s[made], ends[made], (ends - view.from_s - view.useful_s)[made])

    def lost_until(self, name: str, times: Times) -> Times:
        """Return how much of a row was lost until each of some times."""
        if name == _SLOW:
            return _until(*self._slower, times)
        from_s, to_s = self.of[name]
        return _until(from_s, to_s, to_s - from_s, times)


def _healthy(view: CampaignView) -> Any:
    """Whether all nodes train, and none is in a state that passes."""
    nodes = [label.split(";")[0] for label in view.labels]
    most = max((_leading(text) for text in nodes if text.endswith(" nodes")), default=0)
    plain = [label == f"{most} nodes" for label in view.labels]
    return np.array(plain, bool)[view.label]


def _leading(text: str) -> int:
    first = text.split(maxsplit=1)[0]
    return int(first) if first.isdigit() else 0


def _some(from_s: Times, to_s: Times) -> tuple[Times, Times]:
    """Keep pieces that take a time."""
    return from_s[to_s > from_s], to_s[to_s > from_s]


def _until(from_s: Times, to_s: Times, amounts: Times, times: Times) -> Times:
    """Sum amounts, each spread evenly over its piece, until each of some times."""
    if not len(from_s):
        return np.zeros(len(times))
    ends = np.cumsum(amounts)
    xs = np.column_stack([from_s, to_s]).ravel()
    return np.interp(times, xs, np.column_stack([ends - amounts, ends]).ravel())


def bars(view: CampaignView) -> Figure:
    """Draw what was lost to what, day by day."""
    pieces = Pieces(view)
    width = next((w for w in WIDTHS_S if w * MOST_BARS >= view.wall_s), WIDTHS_S[-1])
    edges = np.append(np.arange(0, view.wall_s, width), view.wall_s)
    lengths = np.diff(edges)
    word, unit_s = time_scale(view.wall_s)
    each = duration_text(width)
    plot = charts.new_figure(
        "days-bars",
        x_label=f"{word} since the begin",
        y_label="lost of the time (%)",
        x_range=Range1d(start=0, end=edges[-1] / unit_s),
        y_range=DataRange1d(start=0),
    )
    keys: list[Key] = []
    table = {f"from ({word})": edges[:-1] / unit_s}
    bottom = np.zeros(len(lengths))
    for name, (color, hatch) in LOOKS.items():
        if name == _TRAINED:
            continue
        share = 100 * np.diff(pieces.lost_until(name, edges)) / lengths
        table[f"{name} (%)"] = share
        if not share.any():
            continue
        data = {
            "left": edges[:-1] / unit_s,
            "right": edges[1:] / unit_s,
            "bottom": bottom,
            "top": bottom + share,
            "what": [name] * len(share),
            "text": [f"{value:.2f} %" for value in share],
            "when": [f"{start / unit_s:,.4g}, for {each}" for start in edges[:-1]],
        }
        drawn = plot.quad(
            left="left", right="right", bottom="bottom", top="top", fill_color=color,
            source=ColumnDataSource(data=data), line_width=0.5,
            hatch_pattern=charts.HATCHES[hatch][0], hatch_scale=8, hatch_alpha=0.6,
        )  # fmt: skip
        charts.follow(drawn.glyph, line_color="paper", hatch_color="paper")
        keys.append(charts.area_key(name, color, hatch=hatch))
        bottom = bottom + share
    plot.add_tools(charts.hover([(word, "@when"), ("lost to", "@what"), ("", "@text")]))
    return Figure(
        name="days",
        title="What was lost when",
        caption=f"With seed {view.seed}, for every {each}; what is not lost is goodput. Of slower "
        "steps (in a state that passes, with fewer nodes, the first after a start) what they take "
        "longer is lost.",
        plot=plot,
        table=pd.DataFrame(table),
        formats=dict.fromkeys(table, ",.3f"),
        keys=keys,
    )


def timeline(view: CampaignView, slices: int) -> Figure:
    """Draw what the cluster did when: a row for each kind of doing, and of failure."""
    pieces = {name: own for name, own in Pieces(view).of.items() if len(own[0])}
    drawn, gap = _within(pieces, slices)
    failures = _kinds(view)
    word, unit_s = time_scale(view.wall_s)
    rows = [*pieces, *failures]
    plot = charts.row_figure(
        "campaign-pieces",
        len(rows),
        pixels=PIXELS,
        around=80,
        x_label=f"{word} since the begin",
        navigable=True,
        x_range=Range1d(
            start=0,
            end=view.wall_s / unit_s,
            bounds=(0, view.wall_s / unit_s),
            min_interval=1e-6 * view.wall_s / unit_s,
        ),
        lod_threshold=None,
    )
    charts.name_rows(plot, dict(enumerate(style.shortened(rows, charts.MOST_LETTERS + 8))))
    plot.yaxis.major_tick_line_color = None
    _draw_pieces(plot, drawn, view.wall_s)
    _draw_failures(plot, view, failures, len(drawn))
    together = (
        f" Pieces of a row that are less than {duration_text(gap)} apart are drawn as one."
        if gap
        else ""
    )
    return Figure(
        name="campaign-timeline",
        title="The campaign as it went",
        caption=f"With seed {view.seed}: what the cluster did, and below it what failed. A restart "
        "is stop, rendezvous, start and initialisation; steps that were undone came after the "
        f"checkpoint that a failure goes back to.{together}",
        plot=plot,
        table=_sums(view, pieces, failures),
        formats={
            "pieces": ",d",
            "in all (h)": ",.3f",
            "share (%)": ",.3f",
            "longest (min)": ",.2f",
        },
        navigable=True,
    )


def _draw_pieces(plot: figure, pieces: Mapping[str, tuple[Times, Times]], wall_s: float) -> None:
    word, unit_s = time_scale(wall_s)
    for y, (name, (from_s, to_s)) in enumerate(pieces.items()):
        color, _ = LOOKS[name]
        source = ColumnDataSource(
            data={
                "left": from_s / unit_s,
                "right": to_s / unit_s,
                "seconds": to_s - from_s,
                "above": np.full(len(from_s), y - 0.35),
                "below": np.full(len(from_s), y + 0.35),
            }
        )
        drawn_bars = plot.hbar(
            y=y, left="left", right="right", height=0.7, source=source, fill_color=color,
            line_color=None,
        )  # fmt: skip
        plot.segment("left", "above", "left", "below", source=source, line_color=color)  # if short
        plot.add_tools(
            charts.hover(
                [("", name), (word, "@left{0,0.0000}"), ("for", "@seconds{0,0.0} s")],
                renderers=[drawn_bars],
                point_policy="follow_mouse",
            )
        )


def _draw_failures(
    plot: figure, view: CampaignView, failures: Mapping[str, Any], first_row: int
) -> None:
    word, unit_s = time_scale(view.wall_s)
    for y, where in enumerate(failures.values(), first_row):
        source = ColumnDataSource(
            data={
                "x": view.from_s[where] / unit_s,
                "y": np.full(int(where.sum()), y),
                "text": [view.labels[i] for i in view.label[where]],
            }
        )
        marks = plot.scatter("x", "y", source=source, marker="diamond", size=9, line_color=None)
        charts.follow(marks.glyph, fill_color="ink")
        plot.add_tools(
            charts.hover([("failed", "@text"), (word, "@x{0,0.0000}")], renderers=[marks])
        )


def _kinds(view: CampaignView) -> dict[str, Any]:
    """Return which rows of the view are failures of each kind; of many kinds the commonest."""
    counts = np.bincount(view.kind[view.kind < NO_FAILURE], minlength=len(view.kinds))
    order = [int(i) for i in np.argsort(-counts, kind="stable") if counts[i] > 0]
    found = {view.kinds[i]: view.kind == i for i in order[:MOST_KINDS]}
    if len(order) > MOST_KINDS:
        found["other failures"] = np.isin(view.kind, order[MOST_KINDS:])
    return found


def _within(
    pieces: dict[str, tuple[Times, Times]], most: int
) -> tuple[dict[str, tuple[Times, Times]], float]:
    """Join pieces of a row that are close, until there are few enough; return how close."""
    gap = 0.0
    wall = max((float(to_s[-1]) for _, to_s in pieces.values()), default=0.0)
    drawn = pieces
    while sum(len(from_s) for from_s, _ in drawn.values()) > max(most, len(pieces)):
        gap = 2 * gap if gap else wall / max(most, 1) / 16
        drawn = {name: joined(*own, gap) for name, own in pieces.items()}
    return drawn, gap


def joined(from_s: Times, to_s: Times, gap: float) -> tuple[Times, Times]:
    """Join pieces, in order of time, that are less than a gap apart."""
    apart = np.flatnonzero(from_s[1:] - to_s[:-1] >= gap)
    return from_s[np.append(0, apart + 1)], to_s[np.append(apart, len(to_s) - 1)]


def _sums(
    view: CampaignView, pieces: dict[str, tuple[Times, Times]], failures: dict[str, Any]
) -> pd.DataFrame:
    rows: list[tuple[Any, ...]] = []
    for name, (from_s, to_s) in pieces.items():
        times = to_s - from_s
        share = 100 * times.sum() / view.wall_s
        rows.append((name, len(times), times.sum() / 3600, share, times.max() / 60))
    rows += [(name, int(where.sum()), None, None, None) for name, where in failures.items()]
    names = ["what", "pieces", "in all (h)", "share (%)", "longest (min)"]
    return pd.DataFrame(rows, columns=names)
