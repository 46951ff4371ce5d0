"""One step as it ran: a row for each stream of each rank that is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import (
    ColumnDataSource,
    CustomJS,
    CustomJSHover,
    PanTool,
    Range1d,
)
from bokeh.models.renderers import GlyphRenderer
from bokeh.plotting import figure
from bokeh.transform import linear_cmap

from ..plot import style
from . import charts
from .document import Choice, Details, Figure, Key, Part, Rows
from .names import gpu_name
from .view import KINDS, RunView

ROW, BAR, GAP = 2, 1.7, 1  # heights of a row, of what is drawn in it, and between ranks
PIXELS, RANK_PIXELS = 13, 50  # of a unit of height; of a rank, whose label has three lines
ROWS_IN_VIEW = 12  # at first
SHORTEST_MS = 1e-6  # that one can zoom in on
_BLUE, _VERMILION, _GREEN, _PINK, _SKY, _ORANGE, _ = style.COLORS
_YELLOW = "#F0E442"
_GREY, _PALE = "#8c8c8c", "#8c8c8c50"
_OTHER_KERNELS = "copies and other kernels"
LOOKS: dict[str, tuple[str, str]] = {  # by kind: name, colour
    "forward": ("forward", _BLUE),
    "backward": ("backward", _SKY),
    "accumulate": (_OTHER_KERNELS, _GREY),
    "copies": (_OTHER_KERNELS, _GREY),
    "optimizer": ("optimizer", _GREEN),
    "other": (_OTHER_KERNELS, _GREY),
    "collective": ("communication", _ORANGE),
    "cast": (_OTHER_KERNELS, _GREY),
    "wait": ("the GPU waits for communication, or the host for the GPU", _PALE),
    "input": ("the host waits for input", _PINK),
    "synchronize": ("the GPU waits for communication, or the host for the GPU", _PALE),
    "compress": ("compression", _YELLOW),
}
WAITING = ("waiting for the last rank of a collective", _VERMILION)
_BESIDE_COMPUTE = 65_535  # studies/run_view.cpp
_PATH_STREAMS = {"compute": (1,), "communication": (2, 3, 1)}  # of a piece; else the host's
Columns = dict[str, Any]  # arrays of equal length


@dataclass(frozen=True)
class Lanes:
    """Where the streams of ranks are drawn; y grows downwards."""

    ranks: list[int]
    tops: dict[tuple[int, int], int]  # of (rank, stream)
    middles: list[float]  # of the ranks

    @property
    def end(self) -> int:
        """Where the last one ends."""
        return max(self.tops.values(), default=0) + ROW


def timeline(view: RunView) -> list[Part]:
    """Draw the step that the view has, and above it its critical path."""
    path = view.critical_path
    lanes = lanes_of(view)
    columns = bars(view, lanes)
    plot = _plot(view, lanes, columns)
    drawn = _draw_bars(plot, columns)
    plot.add_tools(_hover(view, lanes, drawn))
    keys, choices = _keys(columns), []
    parts: list[Part] = []
    if path is not None:
        _draw_path(plot, path_line(path, lanes))
        keys.append(charts.line_key("critical path", "var(--ink)", dash=()))
        choices.append(Choice("Critical path", "critical_path"))
        pieces = path_table(path)
        parts = [
            Details(
                f"The {len(pieces):,} pieces of the critical path",
                [Rows(pieces, dict.fromkeys(pieces.columns[-2:], ",.3f"), "critical path")],
            )
        ]
    table = sums(view)
    return [
        Figure(
            name="timeline",
            title=f"Step {view.step:,} as it ran",
            caption=_caption(view, lanes),
            plot=plot,
            table=table,
            formats=dict.fromkeys(table.columns[3:], ",.3f"),
            keys=keys,
            choices=choices,
            navigable=True,
            tall=True,
        ),
        *parts,
    ]


def lanes_of(view: RunView) -> Lanes:
    """Give each stream that did anything a row: the host above, compute, communication."""
    streams: dict[int, list[int]] = {rank: [] for rank in view.shown}
    for key in np.unique(_key(view)).tolist():
        streams[key >> 16].append(key & 65_535)
    tops: dict[tuple[int, int], int] = {}
    middles = []
    top = 0
    for rank, own in streams.items():
        middles.append(top + ROW * len(own) / 2)
        for stream in own:
            tops[rank, stream] = top
            top += ROW
        top += GAP
    return Lanes(view.shown, tops, middles)


def _key(view: RunView) -> np.ndarray[Any, Any]:
    return view.slices.rank.astype(np.int64) << 16 | view.slices.stream


def bars(view: RunView, lanes: Lanes) -> Columns:
    """Return the lanes' slices, in columns of few bytes."""
    keys = np.array([rank << 16 | stream for rank, stream in lanes.tops])
    tops = np.array(list(lanes.tops.values()), np.min_scalar_type(lanes.end))
    order = np.argsort(keys)
    slices = view.slices
    return {
        "top": tops[order][np.searchsorted(keys[order], _key(view))],
        "start": slices.start_ms,
        "duration": slices.duration_ms,
        "waiting": slices.waiting_ms,
        "kind": slices.kind,
        "label": slices.label,
    }


def path_line(path: Mapping[str, Any], lanes: Lanes) -> Columns:
    """Return the critical path as one line along its ranks' rows; NaN where one isn't shown."""
    xs: list[float] = []
    ys: list[float] = []
    for piece in path["segments"]:
        begins = piece["start_ps"] * 1e-9
        y = _path_lane(piece, lanes)
        xs += [begins, begins + piece["duration_ps"] * 1e-9]
        ys += [y, y]
    return {"x": np.array(xs, np.float32), "y": np.array(ys, np.float32)}


def _path_lane(piece: Mapping[str, Any], lanes: Lanes) -> float:
    for stream in _PATH_STREAMS.get(piece["kind"], (0, 1)):
        if (piece["rank"], stream) in lanes.tops:
            return lanes.tops[piece["rank"], stream] + BAR
    return np.nan


def path_table(path: Mapping[str, Any]) -> pd.DataFrame:
    """Return the pieces of the critical path, in order."""
    rows = [
        (
            piece["kind"].replace("_", " "),
            piece["rank"],
            piece["gpu"],
            piece["what"],
            piece["start_ps"] * 1e-9,
            piece["duration_ps"] * 1e-9,
        )
        for piece in path["segments"]
    ]
    names = ["piece", "rank", "GPU", "what", "start (ms)", "duration (ms)"]
    return pd.DataFrame(rows, columns=names)


def sums(view: RunView) -> pd.DataFrame:
    """Return for how long each rank did what, in ms, without kinds that there are none of."""
    slices, ranks = view.slices, view.shown
    place = np.zeros(view.ranks, np.int64)
    place[ranks] = np.arange(len(ranks))
    size = (len(ranks), len(KINDS) + 1)
    cells = place[slices.rank] * size[1]
    total = np.bincount(cells + slices.kind, slices.duration_ms, size[0] * size[1])
    waited = np.bincount(cells + len(KINDS), slices.waiting_ms, size[0] * size[1])
    times = (total + waited).reshape(size)
    names = [
        *("communication" if kind == "collective" else kind for kind in KINDS),
        "of it waiting",
    ]
    frame = pd.DataFrame(
        {
            "rank": ranks,
            "GPU": [gpu_name(view, rank) for rank in ranks],
            "shown as": [view.reasons.get(rank) for rank in ranks],
        }
    )
    for name, column in zip(names, times.T, strict=True):
        if column.any():
            frame[f"{name} (ms)"] = column
    return frame


def _caption(view: RunView, lanes: Lanes) -> str:
    text = (
        "Each rank has a row for what its GPU computes and below it one for each queue of "
        "communication; where the host waits it has a row above."
    )
    if any(stream == _BESIDE_COMPUTE for _, stream in lanes.tops):
        text += " The last row is what communication hooks compute on other streams of the GPU."
    if len(lanes.ranks) < view.ranks:
        text += (
            f" {len(lanes.ranks):,} of {view.ranks:,} ranks are shown, those that matter most "
            "first; the other "
            f"{view.ranks - len(lanes.ranks):,} are left out."
        )
    path = view.critical_path or {"segments": []}
    hidden = {piece["rank"] for piece in path["segments"]} - set(lanes.ranks)
    if hidden:
        text += f" {len(hidden):,} ranks of the critical path are among those left out."
    return text


def _plot(view: RunView, lanes: Lanes, columns: Columns) -> figure:
    end = float(np.max(columns["start"] + columns["duration"], initial=view.duration_ms))
    begin = float(np.min(columns["start"], initial=0))
    shown = _first_view(lanes)
    plot = charts.new_figure(
        "timeline",
        x_label="time in the step (ms)",
        height=round(70 + shown * max(PIXELS, RANK_PIXELS / _lowest(lanes))),
        navigable=True,
        x_range=Range1d(start=begin, end=end, bounds=(begin, end), min_interval=SHORTEST_MS),
        y_range=Range1d(start=shown, end=-0.5, bounds=(-0.5, lanes.end)),
        lod_threshold=None,
    )
    plot.tools = [t for t in plot.tools if not isinstance(t, PanTool)] + [PanTool()]
    charts.upright_grid(plot)
    labels = [_row_label(view, rank) for rank in lanes.ranks]
    charts.name_rows(plot, dict(zip(lanes.middles, labels, strict=True)))
    plot.yaxis.major_tick_line_color = None
    return plot


def _lowest(lanes: Lanes) -> int:
    """Return the height of a rank with the fewest rows."""
    streams = Counter(rank for rank, _ in lanes.tops)
    return ROW * min(streams.values()) + GAP


def _first_view(lanes: Lanes) -> int:
    """Return where the ranks end that are seen at first: whole ones."""
    ends: dict[int, tuple[int, int]] = {}  # of a rank: rows up to its last one, and its end
    for rows, ((rank, _), top) in enumerate(lanes.tops.items(), 1):
        ends[rank] = (rows, top + ROW)
    fit = [end for rows, end in ends.values() if rows <= ROWS_IN_VIEW]
    return fit[-1] if fit else min(lanes.end, ROWS_IN_VIEW * ROW)


def _row_label(view: RunView, rank: int) -> str:
    lines = [f"rank {rank:,}", gpu_name(view, rank)]
    if rank in view.reasons:
        lines.append(view.reasons[rank])
    return "\n".join(lines)


def _draw_bars(plot: figure, columns: Columns) -> GlyphRenderer[Any]:
    fill = linear_cmap("kind", [LOOKS[kind][1] for kind in KINDS], -0.5, len(KINDS) - 0.5)
    drawn = plot.block(
        *("start", "top", "duration", BAR),
        source=ColumnDataSource(data=columns),
        fill_color=fill,
        line_color=None,
        name="slices",
    )
    some = columns["waiting"] > 0
    waits = ColumnDataSource(
        data={name: columns[name][some] for name in ("start", "top", "waiting")}
    )
    plot.block(
        *("start", "top", "waiting", BAR), source=waits, fill_color=_VERMILION, line_color=None
    )
    return drawn


def _draw_path(plot: figure, line: Columns) -> None:
    source = ColumnDataSource(data=line)
    lines = [plot.line("x", "y", source=source, line_width=width) for width in (6, 3)]
    for each, part in zip(lines, ("paper", "ink"), strict=True):
        charts.follow(each.glyph, line_color=part)
    code = "for (const line of lines) line.visible = cb_obj.value"
    plot.js_event_callbacks["critical_path"] = [CustomJS(args={"lines": lines}, code=code)]


def _hover(view: RunView, lanes: Lanes, drawn: GlyphRenderer[Any]) -> Any:
    names = [""] * lanes.end
    for (rank, stream), top in lanes.tops.items():
        names[top] = f"rank {rank:,}, {gpu_name(view, rank)}, {stream_name(stream)}"
    kinds = ["communication" if kind == "collective" else kind for kind in KINDS]
    tables = {"@top": names, "@kind": kinds, "@label": view.labels}
    formatters: dict[str, Any] = {
        column: CustomJSHover(args={"names": table}, code="return names[value]")
        for column, table in tables.items()
    }
    return charts.hover(
        [
            ("where", "@top{name}"),
            ("what", "@label{name}"),
            ("kind", "@kind{name}"),
            ("start", "@start{0,0.000} ms"),
            ("duration", "@duration{0,0.000} ms"),
            ("waiting", "@waiting{0,0.000} ms"),
        ],
        renderers=[drawn],
        formatters=formatters,
        point_policy="follow_mouse",
    )


def stream_name(stream: int) -> str:
    """Return what a stream is: the host, compute, a queue of communication, or beside compute."""
    if stream == _BESIDE_COMPUTE:
        return "compute, hooks"
    return ("host", "compute")[stream] if stream < 2 else f"communication queue {stream - 2}"


def _keys(columns: Columns) -> list[Key]:
    present = {LOOKS[KINDS[kind]] for kind in np.unique(columns["kind"])}
    looks = [look for look in dict.fromkeys(LOOKS.values()) if look in present]
    if np.any(columns["waiting"] > 0):
        looks.append(WAITING)
    return [
        charts.area_key(name, color[:7], opacity=0.31 if color == _PALE else 1.0)
        for name, color in looks
    ]
