"""The page of a campaign: what is left of days of training, what took the rest, and when."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, DataRange1d, Range1d
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from ..plot import style
from ..plot.campaigns import NEGLIGIBLE, loss_name
from ..quantities import duration_text
from ..results import Result
from . import charts, days
from .document import Details, Facts, Figure, Number, Part, Rows, rounded
from .view import CampaignView


def parts(result: Result, view: CampaignView | None, slices: int) -> list[Part]:
    """Return what happened over the days, what took the time, and what seeds make of it.

    Parameters
    ----------
    view
        What happened when, with the first seed. Without it there is no timeline.
    slices
        At most so many pieces in the timeline.
    """
    if result.campaign is None:
        return []
    found: list[Part] = [losses(result)]
    if view is not None and len(view.from_s):
        found += [days.bars(view), days.timeline(view, slices)]
    if len(result.campaign["seeds"]) > 1:
        found.append(distribution(result))
    return [*found, _failures(result), *_levers(result), *_seeds(result)]


def headlines(result: Result) -> list[Number]:
    """Return what is left, and what decides it."""
    campaign = result.campaign
    assert campaign is not None
    goodput, wall, done = campaign["goodput"], campaign["wall_s"], campaign["steps"]
    seeds = len(campaign["seeds"])
    spread = f"{100 * goodput['p5']:.1f} to {100 * goodput['p95']:.1f} % in 90 % of {seeds} seeds"
    entries = [
        Number("Goodput", f"{100 * goodput['mean']:.1f}", "%", spread if seeds > 1 else ""),
        _quantity("Campaign", wall["mean"], f"{rounded(done['mean'])} steps that survive"),
    ]
    if campaign["system_mtbf_s"]:
        failures = campaign["failures"]["all"]["mean"]
        note = f"in the whole system; {rounded(failures)} in all"
        entries.append(_quantity("Between failures", campaign["system_mtbf_s"], note))
    checkpoint = campaign["checkpoint"]
    rule = checkpoint["rule"] if checkpoint["rule"] != "fixed" else "as told"
    stands = f"{rule}; training stands for {duration_text(checkpoint['stall_s'])}"
    entries.append(_quantity("Between checkpoints", checkpoint["interval_s"], stands))
    return entries


def facts(result: Result) -> Facts:
    """Return what a campaign is made of, in words."""
    campaign = result.campaign
    assert campaign is not None
    checkpoint = campaign["checkpoint"]
    entries = [
        ("Step", f"{duration_text(campaign['step_s'])}: {campaign['step_reason']}"),
        ("States", f"{campaign['states']:,} of the cluster" if result.has_steps else ""),
        ("Restart", duration_text(campaign["restart_s"]) if campaign["system_mtbf_s"] else ""),
        *(
            (name, duration_text(checkpoint[key]))
            for name, key in (
                ("Young's interval", "young_s"),
                ("Daly's interval", "daly_s"),
                ("The best interval", "best_s"),
            )
            if key in checkpoint
        ),
        ("Begins anew after", ", ".join(checkpoint.get("lost_with", []))),
        ("Fingerprint", campaign["fingerprint"]),
    ]
    return Facts([(term, text) for term, text in entries if text])


def _quantity(label: str, seconds: float, note: str) -> Number:
    value, unit = duration_text(seconds).split()
    return Number(label, value, unit, note)


# ---- what took the time ----


def losses(result: Result) -> Figure:
    """Draw the share of each loss, and how far the seeds are apart."""
    frame = result.campaign_losses()
    frame = frame[frame["p95_s"] > 0].sort_values("mean_s", ascending=False, kind="stable")
    assert result.campaign is not None
    wall = result.campaign["wall_s"]["mean"]
    several = len(result.campaign["seeds"]) > 1
    plot = _draw_losses(frame[frame["mean_s"] >= NEGLIGIBLE * wall], wall, several)
    table = pd.DataFrame(
        {
            "lost to": [loss_name(loss) for loss in frame["loss"]],
            "share (%)": 100 * frame["share"],
            "mean (h)": frame["mean_s"] / 3600,
            "5 % of seeds below (h)": frame["p5_s"] / 3600,
            "95 % of seeds below (h)": frame["p95_s"] / 3600,
        }
    )
    goodput = 100 * result.campaign["goodput"]["mean"]
    return Figure(
        name="losses",
        title="What took the rest",
        caption=f"Goodput is {goodput:.1f} % of the time: steps that survive, as long as they take "
        "without faults. The bars are the rest, each instant in one of them; with goodput they "
        "are the whole campaign, to the picosecond."
        + (" Lines are 5 % to 95 % of the seeds." if several else ""),
        plot=plot,
        table=table,
        formats={"share (%)": ",.3f", **dict.fromkeys(table.columns[2:], ",.2f")},
    )


def _draw_losses(drawn: pd.DataFrame, wall: float, several: bool) -> figure:
    shares = {name: 100 * drawn[f"{name}_s"].to_numpy() / wall for name in ("mean", "p5", "p95")}
    names = [loss_name(loss) for loss in drawn["loss"]]
    plot = charts.row_figure(
        "losses-bars",
        len(names),
        pixels=days.PIXELS,
        x_label="share of the campaign's time (%)",
        x_range=Range1d(start=0, end=1.05 * max(shares["p95"].max(initial=0), 1e-3)),
    )
    charts.name_rows(plot, dict(enumerate(names)))
    texts = [f"{share:.2f} %" for share in shares["mean"]]
    spreads = [
        f"{low:.2f} to {high:.2f} %" for low, high in zip(shares["p5"], shares["p95"], strict=True)
    ]
    source = ColumnDataSource(
        data={
            "y": np.arange(len(drawn)),
            **shares,
            "what": names,
            "text": texts,
            "spread": spreads,
            "time": [duration_text(seconds) for seconds in drawn["mean_s"]],
            "color": [days.LOOKS[days.row_of(loss)][0] for loss in drawn["loss"]],
        }
    )
    bars = plot.hbar(
        y="y", left=0, right="mean", height=0.6, source=source, fill_color="color",
        line_color=None,
    )  # fmt: skip
    if several:
        spread = plot.segment("p5", "y", "p95", "y", source=source, line_width=2)
        charts.follow(spread.glyph, line_color="ink")
    entries = [("", "@what"), ("mean", "@text"), ("time", "@time")]
    plot.add_tools(
        charts.hover([*entries, *([("5 to 95 %", "@spread")] if several else [])], renderers=[bars])
    )
    return plot


# ---- over seeds ----


def distribution(result: Result) -> Figure:
    """Draw how the seeds' goodputs are spread."""
    assert result.campaign is not None
    values = 100 * result.campaign_seeds()["goodput"].to_numpy(float)
    spread = result.campaign["goodput"]
    bins = int(np.clip(np.sqrt(len(values)) * 2, 5, 40))
    low, high = values.min(), values.max()
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    counts, edges = np.histogram(values, bins, (low, high))
    plot = charts.new_figure(
        "goodput-bars",
        x_label="goodput (%)",
        y_label="seeds",
        height=260,
        y_range=DataRange1d(start=0),
    )
    texts = [f"{a:.2f} to {b:.2f} %" for a, b in pairwise(edges)]
    source = ColumnDataSource(
        data={"left": edges[:-1], "right": edges[1:], "top": counts, "text": texts}
    )
    bars = plot.quad(
        left="left", right="right", bottom=0, top="top", source=source, fill_color=style.COLORS[0],
        line_width=1,
    )  # fmt: skip
    charts.follow(bars.glyph, line_color="paper")
    plot.add_tools(charts.hover([("goodput", "@text"), ("seeds", "@top")], renderers=[bars]))
    keys = [charts.area_key("seeds", style.COLORS[0])]
    for name, label, dash in (
        ("mean", "mean", []),
        ("p5", "5 % and 95 %", [4, 3]),
        ("p95", "", [4, 3]),
    ):
        span = Span(location=100 * spread[name], dimension="height", line_dash=dash, line_width=2)
        charts.follow(span, line_color="ink")
        plot.add_layout(span)
        if label:
            keys.append(charts.line_key(label, "var(--ink)", dash=dash))
    table = pd.DataFrame({"from (%)": edges[:-1], "to (%)": edges[1:], "seeds": counts})
    return Figure(
        name="goodputs",
        title="Goodput over the seeds",
        caption=f"Of {len(values):,} seeds, which differ in when what fails: mean "
        f"{100 * spread['mean']:.2f} %, 5 % below {100 * spread['p5']:.2f} %, 5 % above "
        f"{100 * spread['p95']:.2f} %.",
        plot=plot,
        table=table,
        formats={"from (%)": ",.3f", "to (%)": ",.3f"},
        keys=keys,
    )


def _failures(result: Result) -> Part:
    assert result.campaign is not None
    kinds = result.campaign["failures"]["by_kind"]
    names = ["mean", "p5", "p95"]
    rows = [(kind, *(spread[name] for name in names)) for kind, spread in kinds.items()]
    rows.sort(key=lambda row: -row[1])
    heads = ["what fails", "mean", "5 % of seeds at most", "95 % of seeds at most"]
    frame = pd.DataFrame(rows, columns=heads)
    return Details(
        f"Failures by kind: {len(rows):,}",
        [Rows(frame, {heads[1]: ",.2f", heads[2]: ",.0f", heads[3]: ",.0f"}, "failures by kind")],
    )


def _levers(result: Result) -> list[Part]:
    assert result.campaign is not None
    levers = result.campaign["levers"]
    if not levers:
        return []
    now = result.campaign["goodput"]["mean"]
    rows = [
        (each["lever"], 100 * each["goodput"], 100 * (each["goodput"] - now)) for each in levers
    ]
    frame = pd.DataFrame(rows, columns=["what if", "goodput (%)", "points more"])
    frame = frame.sort_values("points more", ascending=False, kind="stable")
    return [
        Rows(frame, {"goodput (%)": ",.2f", "points more": "+.2f"}, "what would change goodput")
    ]


def _seeds(result: Result) -> list[Part]:
    frame = result.campaign_seeds()
    shown = pd.DataFrame(
        {
            "seed": frame["seed"],
            "ended": frame["end"].str.replace("_", " "),
            "goodput (%)": 100 * frame["goodput"],
            **{name: frame[name] for name in ("steps", "samples", "failures", "restarts")},
        }
    )
    return [Details(f"The {len(shown):,} seeds", [Rows(shown, {"goodput (%)": ",.3f"}, "seeds")])]
