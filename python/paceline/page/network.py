"""The network: devices in tiers, and what crosses each link in a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from bokeh.core.properties import field
from bokeh.models import (
    BasicTicker,
    ColumnDataSource,
    CustomJSHover,
    LinearColorMapper,
    LinearInterpolator,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.models.renderers import GlyphRenderer
from bokeh.plotting import figure
from numpy.typing import NDArray

from ..plot import style
from . import charts
from .document import Figure
from .names import device_name, one_switch
from .view import DEVICE_KINDS, LINK_CLASSES, RunView

Numbers = NDArray[np.float32]

TIERS = {  # from below: where a tier begins, and its name
    "nvswitch": (0.0, "NVSwitch"),
    "gpu": (1.1, "GPUs"),
    "cpu": (2.3, "CPUs"),
    "pcie": (2.9, "PCIe"),
    "nic": (4.0, "NICs"),
    "leaf": (4.9, "leaves"),
    "spine": (6.2, "spines"),
    "core": (7.5, "cores"),
}
FABRIC = ("leaf", "spine", "core")
FABRIC_HEIGHT = 0.8  # of such a tier; a switch is a line as wide as what hangs on it
NODES_IN_VIEW = 2  # at first
LANE = 0.018  # of a node's width: by how much a link's two directions are aside
GREY = "#8c8c8c"
ENDS = ("x0", "y0", "x1", "y1")
_DEVICE = """
const {kind, node, number} = devices.data;
const name = kinds[kind[value]];
if (node[value] < 0) return name + number[value];
return `node${node[value]}/${name}` + (single && name === "nvswitch" ? "" : number[value]);
"""


def utilisation(view: RunView) -> Numbers:
    """Return which share of a step each link is busy with the job's own bytes."""
    most = view.link_bandwidth.astype(np.float64) * view.duration_ms * 1e-3
    share = np.divide(view.link_bytes, most, out=np.zeros(len(most)), where=most > 0)
    return share.astype(np.float32)


class Layout:
    """Where devices are: those of nodes at a point, switches of the fabric on a line."""

    def __init__(self, view: RunView) -> None:
        self.kind = view.device_kind
        self.y = np.array([TIERS[kind][0] for kind in DEVICE_KINDS], np.float32)[self.kind]
        self.left = np.zeros(len(self.kind), np.float32)
        for kind in range(len(DEVICE_KINDS)):
            own = (self.kind == kind) & (view.device_node >= 0)
            count = view.device_number[own].max(initial=0) + 1
            inside = 0.9 * ((view.device_number[own] + 0.5) / count - 0.5)
            self.left[own] = view.device_node[own] + inside
        self.right = self.left.copy()
        lower = np.where(
            self.y[view.link_from] <= self.y[view.link_to], view.link_from, view.link_to
        )
        upper = view.link_from + view.link_to - lower
        self.x0, self.x1 = self.left[view.link_from], self.left[view.link_to]
        for tier in FABRIC:
            self._spread(DEVICE_KINDS.index(tier), lower, upper)

    def _spread(self, tier: int, lower: NDArray[Any], upper: NDArray[Any]) -> None:
        """Draw a tier's switches as wide as what is below them; their links go straight up."""
        links = np.flatnonzero((self.kind[upper] == tier) & (self.kind[lower] != tier))
        own = np.flatnonzero(self.kind == tier)
        if not len(links):
            return
        below, above = lower[links], upper[links]
        pairs, which = np.unique(below.astype(np.uint64) << 32 | above, return_inverse=True)
        device = (pairs >> 32).astype(np.int64)
        first = np.searchsorted(device, device)
        count = np.searchsorted(device, device, side="right") - first
        port = (np.arange(len(pairs)) - first + 0.5) / count
        x = (self.left[device] + port * (self.right[device] - self.left[device]))[which]
        self.x0[links] = self.x1[links] = x
        self.left[own], self.right[own] = np.inf, -np.inf
        np.minimum.at(self.left, above, x.astype(np.float32))
        np.maximum.at(self.right, above, x.astype(np.float32))
        level = _levels(self.left[own], self.right[own])
        self.y[own] += FABRIC_HEIGHT * (level + 0.5) / (level.max() + 1)


def _levels(left: Numbers, right: Numbers) -> NDArray[np.int64]:
    """Stack lines so that none lies on another: the lowest free level for each, from the left."""
    ends: list[float] = []
    levels = np.zeros(len(left), np.int64)
    for each in np.argsort(left, kind="stable"):
        level = next((i for i, end in enumerate(ends) if end < left[each]), len(ends))
        ends[level : level + 1] = [float(right[each])]
        levels[each] = level
    return levels


def network(view: RunView) -> Figure:
    """Draw each link in both directions, as thick and red as it is used in the view's step."""
    layout = Layout(view)
    used = utilisation(view)
    columns = segments(view, layout, used)
    plot = _plot(view, int(columns["x0"][np.argmax(used)].round()))
    _draw_devices(plot, layout, view.device_node < 0)
    others = view.link_neighbours > 0
    keys = [charts.line_key("a switch of the fabric", GREY, dash=())]
    if others.any():
        halo = ColumnDataSource(data={name: columns[name][others] for name in ENDS})
        plot.segment(*ENDS, source=halo, line_width=9, line_color=style.COLORS[3])
        keys.append(charts.area_key("neighbours use it, too", style.COLORS[3]))
    end = max(0.1, float(np.ceil(10 * used.max(initial=0)) / 10))
    mapper = LinearColorMapper(palette=_palette(), low=0, high=end)
    drawn = plot.segment(
        *ENDS,
        source=ColumnDataSource(data=columns),
        line_width=field("used", LinearInterpolator(x=[0, end], y=[1, 4])),
        line_color=field("used", mapper),
        name="links",
    )
    bar = charts.color_bar(mapper, "share of the step that it transfers")
    bar.formatter = NumeralTickFormatter(format="0%")
    plot.add_layout(bar, "below")
    plot.add_tools(_hover(view, drawn))
    table = by_class(view, used)
    return Figure(
        name="network",
        title="What crosses each link",
        caption=_caption(view, used),
        plot=plot,
        table=table,
        formats={str(name): ".1f" if "%" in str(name) else ",.3f" for name in table.columns[3:]},
        keys=keys,
        navigable=True,
    )


def segments(view: RunView, layout: Layout, used: Numbers) -> dict[str, Any]:
    """Return the links as columns; the two directions lie beside each other."""
    y0, y1 = layout.y[view.link_from], layout.y[view.link_to]
    up = (y1 > y0) | ((y1 == y0) & (layout.x1 > layout.x0))
    aside = np.where(up, -LANE, LANE).astype(np.float32)
    level = np.where(y1 == y0, np.where(up, -0.06, 0.06), 0).astype(np.float32)
    return {
        "x0": layout.x0 + aside,
        "y0": y0 + level,
        "x1": layout.x1 + aside,
        "y1": y1 + level,
        "used": used,
        "megabytes": view.link_bytes * np.float32(1e-6),
        "bandwidth": view.link_bandwidth * np.float32(1e-9),
        "neighbours": view.link_neighbours * np.float32(1e-9),
        "from": view.link_from,
        "to": view.link_to,
        "class": view.link_class,
    }


def by_class(view: RunView, used: Numbers) -> pd.DataFrame:
    """Return means and the busiest link of each class."""
    rows = []
    for number, name in enumerate(LINK_CLASSES):
        own = np.flatnonzero(view.link_class == number)
        if not len(own):
            continue
        busiest = own[np.argmax(used[own])]
        rows.append(
            {
                "class": name.replace("_", " "),
                "links": len(own),
                "busiest": link_name(view, int(busiest)),
                "bandwidth (GB/s)": float(view.link_bandwidth[own].mean()) * 1e-9,
                "bytes of a step (MB)": float(view.link_bytes[own].mean()) * 1e-6,
                "used (%)": 100 * float(used[own].mean()),
                "neighbours (GB/s)": float(view.link_neighbours[own].mean()) * 1e-9,
                "its bytes (MB)": float(view.link_bytes[busiest]) * 1e-6,
                "it is used (%)": 100 * float(used[busiest]),
            }
        )
    return pd.DataFrame(rows)


def link_name(view: RunView, link: int) -> str:
    """Return both ends: "node0/nic0 - leaf0"."""
    ends = (view.link_from[link], view.link_to[link])
    return " - ".join(device_name(view, int(end)) for end in ends)


def _caption(view: RunView, used: Numbers) -> str:
    text = (
        "Devices in tiers, each link in both directions: up on the left, down on the right. The "
        "thicker and redder, the larger the share of a step in which the job's own bytes cross it."
    )
    if used.max(initial=0) > 0:
        text += f" The busiest is {link_name(view, int(used.argmax()))}."
    nodes = _nodes(view)
    if nodes > NODES_IN_VIEW:
        text += f" {NODES_IN_VIEW} of {nodes:,} nodes are seen at first, around the busiest link."
    if view.links_left_out:
        text += f" {view.links_left_out:,} links with less traffic are left out."
    return text


def _nodes(view: RunView) -> int:
    return max(1, int(view.device_node.max(initial=0)) + 1)


def _plot(view: RunView, middle: int) -> figure:
    nodes = _nodes(view)
    wide = min(nodes, NODES_IN_VIEW)
    first = min(max(0, middle - wide // 2), nodes - wide)
    kinds = [k for k in TIERS if np.any(view.device_kind == DEVICE_KINDS.index(k))]
    top = TIERS[kinds[-1]][0] + (FABRIC_HEIGHT if kinds[-1] in FABRIC else 0)
    plot = charts.new_figure(
        "network",
        x_label="node",
        height=480,
        navigable=True,
        x_range=Range1d(
            start=first - 0.5,
            end=first + wide - 0.5,
            bounds=(-0.5, nodes - 0.5),
            min_interval=0.5,
        ),
        y_range=Range1d(start=TIERS[kinds[0]][0] - 0.3, end=top + 0.3),
        lod_threshold=None,
    )
    plot.grid.visible = False
    plot.xaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
    charts.plain_numbers(plot.xaxis)
    middles: dict[Any, Any] = {
        TIERS[kind][0] + (FABRIC_HEIGHT / 2 if kind in FABRIC else 0): TIERS[kind][1]
        for kind in kinds
    }
    charts.name_rows(plot, middles)
    return plot


def _draw_devices(plot: figure, layout: Layout, fabric: NDArray[np.bool_]) -> None:
    y = layout.y
    left, right = layout.left[fabric] - 2 * LANE, layout.right[fabric] + 2 * LANE
    plot.segment(left, y[fabric], right, y[fabric], line_width=3, line_color=GREY)
    plot.scatter(layout.left[~fabric], y[~fabric], size=7, marker="square", color=GREY)


def _hover(view: RunView, drawn: GlyphRenderer[Any]) -> Any:
    devices = ColumnDataSource(
        data={"kind": view.device_kind, "node": view.device_node, "number": view.device_number}
    )
    arguments = {"devices": devices, "kinds": list(DEVICE_KINDS), "single": one_switch(view)}
    device = CustomJSHover(args=arguments, code=_DEVICE)
    names = [name.replace("_", " ") for name in LINK_CLASSES]
    formatters: dict[str, Any] = {
        "@from": device,
        "@to": device,
        "@class": CustomJSHover(args={"names": names}, code="return names[value]"),
        "@used": CustomJSHover(code="return (100 * value).toFixed(1) + ' %'"),
    }
    return charts.hover(
        [
            ("from", "@from{name}"),
            ("to", "@to{name}"),
            ("class", "@class{name}"),
            ("bytes", "@megabytes{0,0.000} MB"),
            ("bandwidth", "@bandwidth{0,0.000} GB/s"),
            ("used", "@used{share}"),
            ("neighbours", "@neighbours{0,0.000} GB/s"),
        ],
        renderers=[drawn],
        formatters=formatters,
        line_policy="interp",
    )


def _palette() -> list[str]:
    """Grey, orange, vermilion: a line is seen on white and on black."""
    stops = np.array([[0x8F, 0x9B, 0xA8], [0xE6, 0x9F, 0x00], [0xC2, 0x3B, 0x00]], float)
    at = np.linspace(0, 2, 64)
    rows = [np.interp(at, [0, 1, 2], stops[:, channel]) for channel in range(3)]
    return [f"#{int(r):02x}{int(g):02x}{int(b):02x}" for r, g, b in zip(*rows, strict=True)]
