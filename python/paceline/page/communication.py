"""What is sent: gradient buckets, collectives, links, what parameter servers take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import BasicTicker, ColumnDataSource, Range1d

from ..plot import style
from ..results import Result
from . import charts
from .document import Details, Facts, Figure, Part, Rows, Table, Text, time_text
from .timeline import LOOKS

PIXELS_OF_BUCKET, MOST_PIXELS = 14, 520


def collectives(result: Result) -> list[Part]:
    """Return the buckets of a step and its collectives."""
    parts: list[Part] = []
    if not result.buckets().empty:
        parts.append(buckets(result))
    frame = result.collectives()
    if not frame.empty:
        table = pd.DataFrame(
            {
                "collective": frame["collective"],
                "size (MB)": 1e-6 * frame["bytes"],
                "algorithm": frame["algorithm"],
                "protocol": frame["protocol"],
                "waiting for stragglers (ms)": 1e3 * frame["straggler_wait_s"],
                "exposed (ms)": 1e3 * frame["exposed_communication_s"],
            }
        )
        formats = dict.fromkeys(table.columns[[1, 4, 5]], ",.3f")
        parts.append(
            Details(
                f"The {len(table):,} collectives of a step",
                [
                    Text("What each costs, means of all GPUs and steps:"),
                    Table("collectives", table, formats, "collectives of a step"),
                ],
            )
        )
    return parts


def buckets(result: Result) -> Figure:
    """Draw when each gradient bucket is ready, and when its collective runs."""
    frame = result.buckets()
    times = 1e3 * frame[["ready_s", "start_s", "end_s"]].to_numpy()
    count = len(frame)
    plot = charts.new_figure(
        "bucket-bars",
        x_label="time in the step (ms)",
        y_label="bucket",
        height=80 + min(MOST_PIXELS, PIXELS_OF_BUCKET * max(count, 4)),
        y_range=Range1d(start=count - 0.5, end=-0.5),
    )
    plot.ygrid.visible = False
    plot.yaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
    charts.plain_numbers(plot.xaxis[0])
    texts = {
        "bucket": [f"{i:,}, {size * 1e-6:,.3f} MB" for i, size in enumerate(frame["bytes"])],
        **{
            name: [f"{time:,.3f} ms" for time in column]
            for name, column in zip(("ready", "start", "end"), times.T, strict=True)
        },
        "y": np.arange(count),
    }
    waits = {**texts, "left": times[:, 0], "right": times[:, 1]}
    communication, color = LOOKS["collective"]
    charts.bars(plot, {**texts, "left": times[:, 1], "right": times[:, 2]}, color)
    keys = [charts.area_key(communication, color)]
    if np.any(times[:, 1] > times[:, 0]):
        charts.bars(plot, waits, style.PARTS["other"][1])
        keys.append(charts.area_key("ready, its queue is busy", style.PARTS["other"][1]))
    names = ("bucket", "ready", "start", "end")
    plot.add_tools(charts.hover([(name, f"@{name}") for name in names]))
    table = pd.DataFrame(
        {
            "bucket": np.arange(count),
            "size (MB)": 1e-6 * frame["bytes"],
            **{f"{name} (ms)": c for name, c in zip(names[1:], times.T, strict=True)},
        }
    )
    return Figure(
        name="buckets",
        title="Gradient buckets",
        caption="From when a bucket's gradients exist on the last rank until its collective has "
        "ended on all; means of all steps, from the end of the step before.",
        plot=plot,
        table=table,
        formats=dict.fromkeys(table.columns[1:], ",.3f"),
        keys=keys,
    )


def links(result: Result) -> list[Part]:
    """Return what crosses links: by class, and those with the most."""
    known = result.data.get("links")
    if known is None:
        return []
    parts: list[Part] = []
    if known.get("communicating_s") is not None:
        parts.append(
            Text(f"Communication runs in {time_text(known['communicating_s'])} of a mean step.")
        )
    classes = _link_table(known["classes"], _CLASS_COLUMNS)
    busiest = _link_table(known["busiest"], _BUSIEST_COLUMNS)
    parts += [
        Text("Links by class, means of a step:"),
        Rows(classes, _link_formats(classes), "links by class"),
    ]
    if not busiest.empty:
        parts += [
            Text("The busiest links:"),
            Rows(busiest, _link_formats(busiest), "the busiest links"),
        ]
    return parts


_CLASS_COLUMNS = {  # of result.json: a header and a factor
    "class": ("class", None),
    "links": ("links", None),
    "bytes": ("bytes, mean (MB)", 1e-6),
    "utilisation": ("used, mean (%)", 100),
    "busiest": ("the busiest", None),
    "busiest_bandwidth_bytes_per_s": ("its bandwidth (GB/s)", 1e-9),
    "busiest_bytes": ("its bytes (MB)", 1e-6),
    "busiest_utilisation": ("it is used (%)", 100),
    "busiest_while_communicating": ("while communicating (%)", 100),
    "neighbours_bytes_per_s": ("neighbours (GB/s)", 1e-9),
}
_BUSIEST_COLUMNS = {
    "link": ("link", None),
    "class": ("class", None),
    "bandwidth_bytes_per_s": ("bandwidth (GB/s)", 1e-9),
    "bytes": ("bytes (MB)", 1e-6),
    "utilisation": ("used (%)", 100),
    "while_communicating": ("while communicating (%)", 100),
    "neighbours_bytes_per_s": ("neighbours (GB/s)", 1e-9),
}


def _link_table(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, tuple[str, float | None]]
) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=list(columns))
    frame["class"] = frame["class"].str.replace("_", " ")
    return pd.DataFrame(
        {
            head: frame[name] if factor is None else frame[name].astype(float) * factor
            for name, (head, factor) in columns.items()
        }
    )


def _link_formats(frame: pd.DataFrame) -> dict[str, str]:
    return {
        str(name): ".1f" if "%" in str(name) else ",.3f"
        for name in frame.columns
        if str(name).endswith(")")
    }


def servers(result: Result) -> list[Part]:
    """Return what parameter servers did, and how stale the gradients are that they took."""
    known = result.servers
    if known is None:
        return []
    stale = f"mean {known['mean_staleness']:,.4g}, 95 % at most {known['p95_staleness']:,.4g}"
    facts = Facts(
        [
            ("Updates between", stale),
            ("Dropped gradients", f"{known['dropped_share']:.3%}".replace("%", " %")),
            ("Updates in all", f"{known['updates']:,}"),
            ("Sent to the busiest server", f"{known['hottest_server_in_bytes'] * 1e-6:,.1f} MB"),
        ]
    )
    return [facts, _staleness(result)]


def _staleness(result: Result) -> Figure:
    taken = result.staleness()
    plot = charts.new_figure(
        "staleness-bars",
        x_label="updates between a gradient's parameters and its own",
        y_label="share of the gradients (%)",
        height=260,
        x_range=Range1d(start=-0.6, end=max(len(taken), 5) - 0.4),
        y_range=Range1d(start=0, end=max(1.0, 105 * float(taken["share"].max()))),
    )
    plot.xaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
    source = {
        "updates": taken["updates"],
        "share": 100 * taken["share"],
        "text": [f"{100 * share:.3f} %" for share in taken["share"]],
        "gradients": [f"{count:,}" for count in taken["gradients"]],
    }
    plot.vbar(
        x="updates",
        top="share",
        width=0.8,
        source=ColumnDataSource(data=source),
        fill_color=style.COLORS[0],
        line_color=None,
    )
    names = ("updates", "gradients")
    plot.add_tools(charts.hover([*((name, f"@{name}") for name in names), ("share", "@text")]))
    table = pd.DataFrame(
        {
            "updates": taken["updates"],
            "gradients": taken["gradients"],
            "share (%)": 100 * taken["share"],
        }
    )
    return Figure(
        name="staleness",
        title="How stale gradients are",
        caption="Gradients that servers took, by the updates that came between; dropped ones are "
        "not among them.",
        plot=plot,
        table=table,
        formats={"share (%)": ".3f"},
    )
