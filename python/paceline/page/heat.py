"""Ranks as heat maps: where their GPUs stand, and step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import (
    BasicTicker,
    ColumnDataSource,
    CustomJS,
    CustomJSHover,
    LinearColorMapper,
    Range1d,
)
from bokeh.palettes import Cividis256
from bokeh.plotting import figure
from numpy.typing import NDArray

from . import charts
from .document import Choice, Figure
from .names import gpu_name
from .view import RunView

Values = NDArray[np.float32]

MEASURES = {  # by the view's member
    "compute_ms": "compute",
    "waiting_ms": "waiting for others",
    "waited_for_ms": "what others waited for it",
}
FIRST = "compute_ms"
CHOICE = Choice("Show", "measure", MEASURES)
NODES_IN_BAND = 128
MOST_CELLS = 400_000  # of rank x step: 1.6 MB for each measure
HIGHEST = 640  # pixels
SEEN = 0.01  # of a step: all colours stand for at least that much

# Of ranks that share a column of pixels it has the one that is furthest from the step's mean.
_POOL = """
const low = Math.max(0, Math.floor(x_range.start + 0.5));
const high = Math.min(ranks, Math.ceil(x_range.end + 0.5));
if (high <= low) return;
const columns = Math.min(high - low, Math.max(1, Math.floor(plot.inner_width)));
const name = mapper.tags[0];
const values = all.data[name];
const steps = values.length / ranks;
const pooled = new Float32Array(steps * columns), whose = new Float32Array(steps * columns);
for (let step = 0; step < steps; step++) {
  const mean = means[name][step];
  let far = -1, before = -1;
  for (let rank = low; rank < high; rank++) {
    const at = step * columns + Math.floor((rank - low) * columns / (high - low));
    if (at !== before) far = -1;
    before = at;
    const value = values[step * ranks + rank];
    if (Math.abs(value - mean) <= far) continue;
    far = Math.abs(value - mean);
    pooled[at] = value;
    whose[at] = rank;
  }
}
const {ndarray} = Bokeh.require("core/util/ndarray");
const picture = (array) => [ndarray(array, {dtype: "float32", shape: [steps, columns]})];
shown.data = {image: picture(pooled), rank: picture(whose), x: [low - 0.5], dw: [high - low]};
"""
_CHOOSE = """
mapper.tags = [cb_obj.value];
[mapper.low, mapper.high] = scales[cb_obj.value];
"""
_NAME = """
const gpu = gpus[value % gpus.length], node = Math.floor(value / gpus.length);
return `rank ${value.toLocaleString("en")}, node${node}/gpu${gpu}`;
"""


def node_map(view: RunView) -> Figure:
    """Draw the mean of the steps where the GPUs stand."""
    gpus = len(view.gpus_in_use)
    # What some do of the first step before all are warm doesn't count.
    steps = view.steps[1:] or view.steps
    means = {name: getattr(view, name)[-len(steps) :].mean(axis=0) for name in MEASURES}
    columns = {name: [in_bands(values, gpus)] for name, values in means.items()}
    ranks = in_bands(np.arange(view.ranks, dtype=np.float32), gpus)
    rows, wide = ranks.shape
    bands = -(-rows // (gpus + 1))
    plot = _new_figure("nodes", wide, rows, 18 * rows)
    mapper = _mapper(plot, means, SEEN * view.duration_ms)
    source = ColumnDataSource(data={**columns, "image": columns[FIRST], "rank": [ranks]})
    _draw(plot, source, mapper, rows, x=-0.5, dw=wide)
    code = "source.data = {...source.data, image: source.data[cb_obj.value]}"
    _on_choice(plot, CustomJS(args={"source": source}, code=code))
    if bands == 1:
        names = [str(gpu) for gpu in view.gpus_in_use]
        _ticks(plot, "node", "GPU of the node", dict(enumerate(names)))
    else:
        below = {band * (gpus + 1) + (gpus - 1) / 2: f"{band * wide:,}" for band in range(bands)}
        _ticks(plot, "node in its band", "first node of the band", below)
    plot.add_tools(_hover(view, "mean"))
    table = by_rank(view, means)
    bands_text = (
        f" Nodes are in {bands:,} bands of {wide:,}, one below the other." if bands > 1 else ""
    )
    return Figure(
        name="nodes",
        title="Where the GPUs stand",
        caption="A column per node, a row per GPU; means of steps "
        f"{steps[0]:,} to {steps[-1]:,}.{bands_text} The table has the GPUs that differ most from "
        "the mean first.",
        plot=plot,
        table=table,
        formats=dict.fromkeys(table.columns[2:], ",.3f"),
        choices=[CHOICE],
    )


def step_map(view: RunView) -> Figure:
    """Draw each step of each rank."""
    grouped = {name: grouped_steps(getattr(view, name), view.steps) for name in MEASURES}
    values = {name: picture for name, (picture, _) in grouped.items()}
    names = grouped[FIRST][1]
    ranks, rows = view.ranks, len(names)
    plot = _new_figure("steps", ranks, rows, 14 * rows)
    mapper = _mapper(plot, values, SEEN * view.duration_ms)
    nothing = np.full((rows, 1), np.nan, np.float32)
    shown = ColumnDataSource(
        data={"image": [nothing], "rank": [nothing], "x": [-0.5], "dw": [ranks]}
    )
    _draw(plot, shown, mapper, rows, x="x", dw="dw")
    pool = CustomJS(
        args={
            "plot": plot,
            "x_range": plot.x_range,
            "ranks": ranks,
            "all": ColumnDataSource(data={name: v.ravel() for name, v in values.items()}),
            "mapper": mapper,
            "means": {name: v.mean(axis=1).tolist() for name, v in values.items()},
            "shown": shown,
        },
        code=_POOL,
    )
    mapper.js_on_change("tags", pool)
    plot.js_on_change("inner_width", pool)
    for end in ("start", "end"):
        plot.x_range.js_on_change(end, pool)
    _ticks(plot, "rank", "step", dict(enumerate(names)))
    plot.add_tools(_hover(view, "time", names))
    table = by_step(view)
    grouped_text = (
        " Neighbouring steps share a row: the one that differs most."
        if (rows < len(view.steps))
        else ""
    )
    return Figure(
        name="steps",
        title="Step by step",
        caption="A column per rank, a row per step. Where several ranks share a column of pixels, "
        f"it shows the one that differs most from the mean; zoom in to tell them apart."
        f"{grouped_text}",
        plot=plot,
        table=table,
        formats={name: ",.3f" for name in table.columns if str(name).endswith("(ms)")},
        choices=[CHOICE],
        navigable=True,
    )


def in_bands(values: Values, gpus: int) -> Values:
    """Lay ranks out: nodes side by side in bands, a node's GPUs in a column."""
    nodes = -(-len(values) // gpus)
    wide = min(nodes, NODES_IN_BAND)
    bands = -(-nodes // wide)
    padded = np.full(bands * wide * gpus, np.nan, np.float32)
    padded[: len(values)] = values
    picture = np.full((bands, gpus + 1, wide), np.nan, np.float32)
    picture[:, :gpus] = padded.reshape(bands, wide, gpus).transpose(0, 2, 1)
    return picture.reshape(-1, wide)[:-1]


def grouped_steps(values: Values, steps: list[int]) -> tuple[Values, list[str]]:
    """Return a row per step; per some neighbours, where all are too many for a file.

    Of those each rank has the value that is furthest from the mean.
    """
    most = max(1, MOST_CELLS // values.shape[1])
    per = -(-len(steps) // most)
    if per == 1:
        return values, [f"{step:,}" for step in steps]
    rows, names = [], []
    for at in range(0, len(steps), per):
        group = values[at : at + per]
        far = np.abs(group - values.mean()).argmax(axis=0)
        rows.append(np.take_along_axis(group, far[None], axis=0)[0])
        names.append(f"{steps[at]:,} to {steps[at + len(group) - 1]:,}")
    return np.array(rows), names


def by_rank(view: RunView, means: Mapping[str, Values]) -> pd.DataFrame:
    """Return each rank's means, those first that differ most from the others."""
    apart = sum(np.abs(v - v.mean()) / max(float(v.std()), 1e-9) for v in means.values())
    order = np.argsort(-np.asarray(apart), kind="stable")
    columns = {f"{MEASURES[name]} (ms)": v[order].astype(float) for name, v in means.items()}
    names = [gpu_name(view, rank) for rank in order.tolist()]
    return pd.DataFrame({"rank": order, "GPU": names, **columns})


def by_step(view: RunView) -> pd.DataFrame:
    """Return what each step has of each measure: the mean, the most, and of which rank."""
    frame = pd.DataFrame({"step": view.steps})
    for name, measure in MEASURES.items():
        values: Values = getattr(view, name)
        frame[f"{measure}: mean (ms)"] = values.mean(axis=1).astype(float)
        frame["most (ms)", name] = values.max(axis=1).astype(float)
        frame["of rank", name] = values.argmax(axis=1)
    frame.columns = [name if isinstance(name, str) else name[0] for name in frame.columns]
    return frame


def _new_figure(name: str, wide: int, rows: int, height: int) -> figure:
    plot = charts.new_figure(
        name,
        height=110 + min(HIGHEST, max(60, height)),
        navigable=name == "steps",
        x_range=Range1d(start=-0.5, end=wide - 0.5, bounds=(-0.5, wide - 0.5), min_interval=4),
        y_range=Range1d(start=rows - 0.5, end=-0.5),
    )
    plot.grid.visible = False
    plot.xaxis.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
    charts.plain_numbers(plot.xaxis)
    return plot


def _ticks(plot: figure, x_label: str, y_label: str, rows: Mapping[Any, str]) -> None:
    plot.xaxis.axis_label, plot.yaxis.axis_label = x_label, y_label
    charts.name_rows(plot, rows)


def _mapper(plot: figure, values: Mapping[str, Values], least: float) -> LinearColorMapper:
    """Return colours for the first measure, which change with the choice, and draw their bar.

    They tell apart what differs by a share of that least number of ms.
    """
    lows = {name: float(v.min()) for name, v in values.items()}
    ends = {
        name: [lows[name], max(float(v.max()), lows[name] + least)] for name, v in values.items()
    }
    low, high = ends[FIRST]
    mapper = LinearColorMapper(
        palette=Cividis256, low=low, high=high, nan_color="#00000000", tags=[FIRST]
    )
    _on_choice(plot, CustomJS(args={"mapper": mapper, "scales": ends}, code=_CHOOSE))
    plot.add_layout(charts.color_bar(mapper, "ms"), "below")
    return mapper


def _on_choice(plot: figure, callback: CustomJS) -> None:
    callbacks = plot.js_event_callbacks
    callbacks[CHOICE.event] = [*callbacks.get(CHOICE.event, []), callback]


def _draw(
    plot: Any, source: ColumnDataSource, mapper: LinearColorMapper, rows: int, **along: Any
) -> None:
    plot.image("image", y=-0.5, dh=rows, source=source, **along, color_mapper=mapper)


def _hover(view: RunView, what: str, steps: list[str] | None = None) -> Any:
    formatters = {"@rank": CustomJSHover(args={"gpus": view.gpus_in_use}, code=_NAME)}
    entries = [("where", "@rank{name}")]
    if steps is not None:
        code = "return names[Math.floor(special_vars.y + 0.5)] ?? ''"
        formatters["$y"] = CustomJSHover(args={"names": steps}, code=code)
        entries.append(("step", "$y{name}"))
    return charts.hover(
        [*entries, (what, "@image{0,0.000} ms")], formatters=formatters, point_policy="follow_mouse"
    )
