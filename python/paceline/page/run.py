"""The page of one run: how long a step takes, where it goes, and what would change it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import BasicTicker, ColumnDataSource, FixedTicker, Range1d
from bokeh.plotting import figure

from ..plot import style
from ..results import Result
from . import charts, heat, network
from .document import (
    Code,
    Details,
    Facts,
    Figure,
    Notice,
    Number,
    Numbers,
    Part,
    Rows,
    Section,
    Table,
    Text,
)
from .timeline import LOOKS, timeline
from .view import RunView

NEGLIGIBLE = 1e-3  # of a step: nobody could see it
MOST_LEVERS = 16  # that are drawn; the table has all
LETTERS_OF_CHANGE = 46  # in the picture; the table has all
FIRST_STRONG, POP = "\u2068", "\u2069"  # isolate a name whose letters may run the other way
LETTERS_OF_GPU = 18  # beside a bar
LEVERS = {"software": style.COLOURS[2], "hardware": style.COLOURS[0], "cannot be had": style.GREY}
PIXELS_OF_BUCKET, MOST_PIXELS = 14, 520


def title(result: Result) -> str:
    """Name a run: what is trained, and on how many GPUs."""
    model = result.data.get("scenario", {}).get("model", {}).get("name")
    gpus = f"{result.gpus:,} GPU{'s' if result.gpus > 1 else ''}"
    return f"{model} on {gpus}" if model else f"A training step on {gpus}"


def sections(result: Result, view: RunView | None, *, command: str) -> list[Section]:
    """Return the page of a run.

    Parameters
    ----------
    view
        What the run looked like. Without it there is no timeline, no heat map and no network.
    command
        What ran it, as one would type it again.
    """
    wanted = [
        Section("summary", "", summary(result)),
        Section("breakdown", "Where a step goes", [breakdown(result)]),
        Section("step", "One step", [] if view is None else timeline(view)),
        Section("ranks", "Ranks", _ranks(result, view)),
        Section("communication", "Communication", _communication(result)),
        Section("links", "Network", _links(result, view)),
        Section("servers", "Parameter servers", _servers(result)),
        Section("levers", "What would change it", _levers(result, command)),
        Section("run", "The run", _run(result, command)),
    ]
    return [section for section in wanted if section.parts]


def summary(result: Result) -> list[Part]:
    """Return the headline numbers, and before them what a reader must not miss."""
    data = result.data
    value, unit = _time(data["step_time_s"]["mean"]).split()
    entries = [
        Number("Mean step", value, unit, _step_note(result)),
        Number(
            "Throughput",
            _rate(result.throughput_samples_per_s),
            "samples/s",
            f"{_rate(data['tokens_per_s'])} tokens/s" if data.get("tokens_per_s") else "",
        ),
        Number(
            "Scaling efficiency",
            f"{100 * result.scaling_efficiency:.1f}",
            "%",
            f"of {result.gpus:,} times one GPU alone",
        ),
        Number("GPUs", f"{result.gpus:,}", note=_places(data.get("scenario", {}))),
    ]
    if "model_flops_utilisation" in data:
        used = f"{100 * data['model_flops_utilisation']:.1f}"
        entries.append(Number("Model FLOP/s utilisation", used, "%", "of the GPUs' peak"))
    return [*_notices(result), Numbers([*entries, *_memory_number(data.get("memory", {}))])]


def _step_note(result: Result) -> str:
    step = result.data["step_time_s"]
    if result.interval is None:
        return f"95 % of steps take at most {_time(step['p95'])}"
    return f"90 % interval {_time(result.interval.low_s)} to {_time(result.interval.high_s)}"


def _places(scenario: Mapping[str, Any]) -> str:
    cluster = scenario.get("cluster", {})
    nodes, gpus = cluster.get("nodes"), cluster.get("gpus_per_node")
    return f"{nodes:,} nodes of {gpus:,}" if isinstance(nodes, int) and gpus else ""


def _memory_number(memory: Mapping[str, Any]) -> list[Number]:
    if not memory.get("gpu_bytes"):
        return []
    value = f"{memory['total_bytes'] * 1e-9:,.1f}"
    known = {True: "fits, ", False: "does not fit, "}
    fits = known.get(memory["fits"], "") if "fits" in memory else ""
    return [
        Number("Memory of a GPU", value, "GB", f"{fits}it has {memory['gpu_bytes'] * 1e-9:,.1f} GB")
    ]


def _notices(result: Result) -> list[Part]:
    memory = result.data.get("memory", {})
    notices: list[Part] = []
    if memory.get("fits") is False:
        notices.append(
            Notice(
                f"This does not fit: a GPU needs {memory['total_bytes'] * 1e-9:,.1f} GB and has "
                f"{memory['gpu_bytes'] * 1e-9:,.1f} GB."
            )
        )
    if result.interval is not None and result.interval.extrapolated:
        notices.append(Notice(f"Outside what the profile was fitted on: {result.interval.why}"))
    return notices


def breakdown(result: Result) -> Figure:
    """Draw the parts of the mean step: of all GPUs, and of the one with the most compute."""
    frame = result.breakdown()
    worst = result.data["worst_rank"]
    gpu = style.shortened([worst["gpu"]], LETTERS_OF_GPU)[0]
    who = ["mean of all GPUs", f"most compute:\nrank {worst['rank']:,}\n{gpu}"]
    plot = charts.new_figure(
        "breakdown-bars",
        x_label="time of a step (ms)",
        height=210,
        x_range=Range1d(start=0, end=1.02e3 * frame[["time_s", "worst_rank_time_s"]].sum().max()),
        y_range=Range1d(start=1.5, end=-0.5),
    )
    plot.ygrid.visible = False
    plot.yaxis.ticker = FixedTicker(ticks=[0, 1])
    plot.yaxis.major_label_overrides = dict(enumerate(who))
    charts.plain_numbers(plot.xaxis[0])
    keys, ends = [], np.zeros(2)
    for part, mean, most in zip(
        frame["part"], frame["time_s"], frame["worst_rank_time_s"], strict=True
    ):
        times = 1e3 * np.array([mean, most])
        if times.max() < 1e3 * NEGLIGIBLE * result.step_time_s:
            continue
        name, colour, hatch = style.PARTS.get(part, (part, style.GREY, ""))
        shares = 100 * times / (1e3 * frame[["time_s", "worst_rank_time_s"]].sum().to_numpy())
        source = {
            "y": [0, 1],
            "left": ends,
            "right": ends + times,
            "who": [name.replace("\n", " ") for name in who],
            "part": [name, name],
            "time": [f"{time:,.3f} ms" for time in times],
            "share": [f"{share:.1f} %" for share in shares],
        }
        _bars(plot, source, colour, hatch)
        ends = ends + times
        keys.append(charts.area_key(name, colour, hatch=hatch))
    plot.add_tools(
        charts.hover([("", "@who"), ("part", "@part"), ("time", "@time"), ("share", "@share")])
    )
    table = pd.DataFrame(
        {
            "part": [style.PARTS.get(part, (part,))[0] for part in frame["part"]],
            "mean of all GPUs (ms)": 1e3 * frame["time_s"],
            "share (%)": 100 * frame["share"],
            f"rank {worst['rank']:,}, {worst['gpu']} (ms)": 1e3 * frame["worst_rank_time_s"],
        }
    )
    return Figure(
        name="parts",
        title="Parts of the mean step",
        caption="Means of all counted steps: of all GPUs, and of the GPU that computes longest. "
        "Communication that runs beside compute costs nothing and is in no part.",
        plot=plot,
        table=table,
        formats={table.columns[1]: ",.3f", table.columns[2]: ".1f", table.columns[3]: ",.3f"},
        keys=keys,
    )


def _bars(plot: figure, source: Mapping[str, Any], colour: str, hatch: str = "") -> None:
    drawn = plot.hbar(
        y="y",
        left="left",
        right="right",
        height=0.7,
        source=ColumnDataSource(data=dict(source)),
        fill_color=colour,
        line_color=None,
        hatch_pattern=charts.HATCHES[hatch][0],
        hatch_scale=8,
        hatch_alpha=0.6,
    )
    charts.follow(drawn.glyph, hatch_color="paper")


def _ranks(result: Result, view: RunView | None) -> list[Part]:
    parts: list[Part] = []
    if view is not None and view.ranks > 1:
        parts += [heat.node_map(view), heat.step_map(view)]
    stragglers = result.stragglers()
    if not stragglers.empty:
        table = pd.DataFrame(
            {
                "rank": stragglers["rank"],
                "GPU": stragglers["gpu"],
                "collectives": stragglers["collectives"],
                "later than the second last, in all (ms)": 1e3 * stragglers["delay_s"],
                "others waited, mean of a step (ms)": 1e3 * stragglers["waited_s"],
                "as late": [", ".join(map(str, ranks)) for ranks in stragglers["as_late"]],
            }
        )
        formats = dict.fromkeys(table.columns[3:5], ",.3f")
        parts.append(Text("Whom the others waited for in collectives:"))
        parts.append(Table("stragglers", table, formats, "whom the others waited for"))
    links = result.data.get("degraded_links", [])
    if links:
        rows = [(each["link"], 1e3 * each["step_delay_s"]) for each in links]
        frame = pd.DataFrame(rows, columns=["degraded link", "longer step (ms)"])
        parts.append(Rows(frame, {"longer step (ms)": ",.3f"}, "degraded links"))
    return parts


def _communication(result: Result) -> list[Part]:
    parts: list[Part] = []
    if not result.buckets().empty:
        parts.append(buckets(result))
    collectives = result.collectives()
    if not collectives.empty:
        table = pd.DataFrame(
            {
                "collective": collectives["collective"],
                "size (MB)": 1e-6 * collectives["bytes"],
                "algorithm": collectives["algorithm"],
                "protocol": collectives["protocol"],
                "waiting for stragglers (ms)": 1e3 * collectives["straggler_wait_s"],
                "exposed (ms)": 1e3 * collectives["exposed_communication_s"],
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
    communication, colour = LOOKS["collective"]
    _bars(plot, {**texts, "left": times[:, 1], "right": times[:, 2]}, colour)
    keys = [charts.area_key(communication, colour)]
    if np.any(times[:, 1] > times[:, 0]):
        _bars(plot, waits, style.PARTS["other"][1])
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


def _links(result: Result, view: RunView | None) -> list[Part]:
    parts: list[Part] = []
    if view is not None and len(view.link_from):
        parts.append(network.network(view))
    links = result.data.get("links")
    if links is None:
        return parts
    if links.get("communicating_s") is not None:
        parts.append(
            Text(f"Communication runs in {_time(links['communicating_s'])} of a mean step.")
        )
    classes = _link_table(links["classes"], _CLASS_COLUMNS)
    busiest = _link_table(links["busiest"], _BUSIEST_COLUMNS)
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


def _servers(result: Result) -> list[Part]:
    servers = result.servers
    if servers is None:
        return []
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
        fill_color=style.COLOURS[0],
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
    stale = f"mean {servers['mean_staleness']:,.4g}, 95 % at most {servers['p95_staleness']:,.4g}"
    facts = Facts(
        [
            ("Updates between", stale),
            ("Dropped gradients", f"{servers['dropped_share']:.3%}".replace("%", " %")),
            ("Updates in all", f"{servers['updates']:,}"),
            ("Sent to the busiest server", f"{servers['hottest_server_in_bytes'] * 1e-6:,.1f} MB"),
        ]
    )
    figure_of = Figure(
        name="staleness",
        title="How stale gradients are",
        caption="Gradients that servers took, by the updates that came between; dropped ones are "
        "not among them.",
        plot=plot,
        table=table,
        formats={"share (%)": ".3f"},
    )
    return [facts, figure_of]


def _levers(result: Result, command: str) -> list[Part]:
    if "sensitivities" not in result.data:
        return []
    parts: list[Part] = [Text(sentence) for sentence in result.best_levers]
    if not parts:
        parts = [Text("Nothing that was tried makes a sample cheaper.")]
    frame = result.sensitivities()
    if not frame.empty:
        parts.append(levers(result))
        parts.append(lever_table(frame, command))
    refused = result.data.get("not_possible", [])
    if refused:
        rows = [Text(reason) for reason in refused]
        parts.append(Details(f"{len(refused):,} changes that are not possible here", rows))
    return parts


def levers(result: Result) -> Figure:
    """Draw by how much each change would make a sample cheaper or dearer."""
    frame = result.sensitivities()
    change = 100 * frame["time_per_sample_change"]
    strongest = change.abs().sort_values(ascending=False, kind="stable")
    strongest = strongest[strongest >= 100 * NEGLIGIBLE].head(MOST_LEVERS)
    drawn = frame.loc[sorted(strongest.index)]
    percent = change[drawn.index].to_numpy()
    low, high = min(0.0, percent.min(initial=0)), max(0.0, percent.max(initial=0))
    room = max(0.03 * (high - low), 0.01)
    count = max(len(drawn), 1)
    plot = charts.new_figure(
        "lever-bars",
        x_label="change of the time per sample (%)",
        height=70 + 42 * count,
        x_range=Range1d(start=low - room, end=high + room),
        y_range=Range1d(start=count - 0.4, end=-0.7),
    )
    plot.ygrid.visible = False
    plot.yaxis.visible = False
    for grid in plot.xgrid:
        charts.follow(grid, grid_line_color="rule")
    steps = [_time(step) for step in drawn["step_time_s"]]
    texts = [f"{value:+.1f} %" for value in percent]
    names = style.shortened(list(drawn["change"]), LETTERS_OF_CHANGE)
    kinds = [kind if kind in LEVERS else "software" for kind in drawn["kind"]]
    source = ColumnDataSource(
        data={
            "y": np.arange(len(drawn)),
            "above": np.arange(len(drawn)) - 0.28,
            "right": percent,
            "colour": [LEVERS[kind] for kind in kinds],
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
        y="y", left=0, right="right", height=0.36, source=source, fill_color="colour",
        line_color=None,
    )  # fmt: skip
    labels = plot.text(
        x=low - room, y="above", text="label", source=source, text_font=charts.FONT,
        text_font_size="13px", text_baseline="bottom",
    )  # fmt: skip
    charts.follow(labels.glyph, text_color="ink")
    entries = [("change", "@change"), ("kind", "@kind"), ("time per sample", "@text")]
    plot.add_tools(charts.hover([*entries, ("step", "@step")], renderers=[plot.renderers[0]]))
    table = pd.DataFrame(
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
        plot=plot,
        table=table,
        formats={"time per sample (%)": "+.2f", "step (ms)": ",.3f"},
        keys=[charts.area_key(kind, LEVERS[kind]) for kind in LEVERS if kind in kinds],
    )  # fmt: skip


def lever_table(frame: pd.DataFrame, command: str) -> Details:
    """Return each change with its edits, as JSON and for the command line."""
    table = pd.DataFrame(
        {
            "change": frame["change"],
            "edits": [
                json.dumps({edit["key"]: edit["value"] for edit in edits}, ensure_ascii=False)
                for edits in frame["edits"]
            ],
            "command": [f"{command} {_settings(edits)}" for edits in frame["edits"]],
        }
    )
    return Details("How to try each change", [Table("edits", table, label="edits of each change")])


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


def _run(result: Result, command: str) -> list[Part]:
    data = result.data
    sources = {"roofline": "from the roofline model", "measured": "from a measurement"}
    compute = data.get("compute_source", "")
    facts = [
        ("Paceline", f"{data['paceline']}, model version {data['model_version']}"),
        ("Engine", f"{data['engine']}: {data.get('engine_reason', '')}"),
        ("Seed", f"{data['seed']}"),
        ("Steps", f"{data['iterations']:,}, after one to warm up"),
        ("Samples of a step", f"{data['samples_per_step']:,}"),
        ("Compute times", sources.get(compute, compute)),
        ("Fingerprint", data["fingerprint"]),
    ]
    parts: list[Part] = [
        Facts([(term, text) for term, text in facts if text]),
        Text("To run it again:"),
        Code(command, "the command that ran it"),
    ]
    if "scenario" not in data:
        return parts
    scenario = json.dumps(data["scenario"], indent=2, ensure_ascii=False)
    return [
        *parts,
        Details(
            "The scenario, with all that was left out",
            [
                Text("Saved as scenario.json, it gives the same result:"),
                Code("paceline run scenario.json", "how to run the scenario"),
                Code(scenario, "scenario"),
            ],
        ),
    ]


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}" if per_second >= 1000 else f"{per_second:,.4g}"


def _time(seconds: float) -> str:
    return f"{seconds:,.4g} s" if seconds >= 1 else f"{seconds * 1e3:,.4g} ms"
