"""What would change a step: each change simulated again, and how to try it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, Range1d
from bokeh.plotting import figure

from ..plot import style
from ..plot.parts import NEGLIGIBLE
from ..results import Result
from . import charts
from .document import Details, Figure, Part, Table, Text, time_text

MOST_LEVERS = 16  # that are drawn; the table has all
LETTERS_OF_CHANGE = 30  # that a phone has room for; the tooltip and the table have all
FIRST_STRONG, POP = "\u2068", "\u2069"  # isolate a name whose letters may run the other way
COLORS = {"software": style.COLORS[2], "hardware": style.COLORS[0], "cannot be had": style.GREY}


def parts(result: Result, command: str) -> list[Part]:
    """Return the best levers, all of them, and what was not possible."""
    if "sensitivities" not in result.data:
        return []
    found: list[Part] = [Text(sentence) for sentence in result.best_levers]
    if not found:
        found = [Text("Nothing that was tried makes a sample cheaper.")]
    if result.spread >= NEGLIGIBLE:
        share = f"{100 * result.spread:.1f} %"
        found.append(
            Text(f"Changes within the spread of {share} say nothing, and are not advised.")
        )
    frame = result.sensitivities()
    if not frame.empty:
        found.append(chart(result))
        found.append(table(frame, command))
    refused = result.data.get("not_possible", [])
    if refused:
        rows = [Text(reason) for reason in refused]
        found.append(Details(f"{len(refused):,} changes that are not possible here", rows))
    return found


def chart(result: Result) -> Figure:
    """Draw by how much each change would make a sample cheaper or dearer."""
    frame = result.sensitivities()
    change = 100 * frame["time_per_sample_change"]
    strongest = change.abs().sort_values(ascending=False, kind="stable")
    strongest = strongest[strongest >= 100 * NEGLIGIBLE].head(MOST_LEVERS)
    drawn = frame.loc[sorted(strongest.index)]
    kinds = [kind if kind in COLORS else "software" for kind in drawn["kind"]]
    everything = pd.DataFrame(
        {
            "change": frame["change"],
            "kind": frame["kind"],
            "time per sample (%)": change,
            "step (ms)": 1e3 * frame["step_time_s"],
        }
    )
    rest = len(frame) - len(drawn)
    return Figure(
        name="levers-figure",
        title="One change at a time",
        caption="Each change is simulated again; to the left a sample becomes cheaper."
        + (f" {rest:,} more changes, by less than these or than 0.1 %, are in the table."
           if rest else ""),
        plot=_draw(drawn, kinds),
        table=everything,
        formats={"time per sample (%)": "+.2f", "step (ms)": ",.3f"},
        keys=[charts.area_key(kind, COLORS[kind]) for kind in COLORS if kind in kinds],
    )  # fmt: skip


def _draw(drawn: pd.DataFrame, kinds: Sequence[str]) -> figure:
    percent = 100 * drawn["time_per_sample_change"].to_numpy()
    low, high = min(0.0, percent.min(initial=0)), max(0.0, percent.max(initial=0))
    room = max(0.03 * (high - low), 0.01)
    plot = charts.row_figure(
        "lever-bars",
        len(drawn),
        pixels=42,
        above=0.7,
        x_label="change of the time per sample (%)",
        x_range=Range1d(start=low - room, end=high + room),
    )
    plot.yaxis.visible = False
    steps = [time_text(step) for step in drawn["step_time_s"]]
    texts = [f"{value:+.1f} %" for value in percent]
    names = style.shortened(list(drawn["change"]), LETTERS_OF_CHANGE)
    source = ColumnDataSource(
        data={
            "y": np.arange(len(drawn)),
            "above": np.arange(len(drawn)) - 0.28,
            "right": percent,
            "color": [COLORS[kind] for kind in kinds],
            "label": [
                f"{text}  {FIRST_STRONG}{name}{POP}"
                for name, text in zip(names, texts, strict=True)
            ],
            "change": list(drawn["change"]),
            "kind": kinds,
            "text": texts,
            "step": steps,
        }
    )
    plot.hbar(
        y="y", left=0, right="right", height=0.36, source=source, fill_color="color",
        line_color=None,
    )  # fmt: skip
    labels = plot.text(
        x=low - room, y="above", text="label", source=source, text_font=charts.FONT,
        text_font_size="13px", text_baseline="bottom",
    )  # fmt: skip
    charts.follow(labels.glyph, text_color="ink")
    entries = [("change", "@change"), ("kind", "@kind"), ("time per sample", "@text")]
    plot.add_tools(charts.hover([*entries, ("step", "@step")], renderers=[plot.renderers[0]]))
    return plot


def table(frame: pd.DataFrame, command: str) -> Details:
    """Return each change with its edits, as JSON and for the command line."""
    edits = pd.DataFrame(
        {
            "change": frame["change"],
            "edits": [
                json.dumps({edit["key"]: edit["value"] for edit in edits}, ensure_ascii=False)
                for edits in frame["edits"]
            ],
            "command": [f"{command} {_settings(edits)}" for edits in frame["edits"]],
        }
    )
    return Details("How to try each change", [Table("edits", edits, label="edits of each change")])


def _settings(edits: Sequence[Mapping[str, Any]]) -> str:
    words = []
    for edit in edits:
        value = edit["value"]
        plain = isinstance(value, str) and not _is_json(value)
        text = value if plain else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        words += ["--set", shlex.quote(f"{edit['key']}={text}")]
    return " ".join(words)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
