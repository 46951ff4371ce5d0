"""The page of one run: how long a step takes, where it goes, and what would change it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from ..results import Result
from . import breakdown, campaign, communication, heat, levers, network
from .document import (
    Code,
    Details,
    Facts,
    Notice,
    Number,
    Numbers,
    Part,
    Rows,
    Section,
    Table,
    Text,
    rounded,
    time_text,
)
from .timeline import timeline
from .view import MOST_SLICES, CampaignView, RunView


def title(result: Result) -> str:
    """Name a run: what is trained, and on how many GPUs."""
    if not result.has_steps:
        return f"Days of training on {result.gpus:,} GPU{'s' if result.gpus > 1 else ''}"
    model = result.data.get("scenario", {}).get("model", {}).get("name")
    gpus = f"{result.gpus:,} GPU{'s' if result.gpus > 1 else ''}"
    return f"{model} on {gpus}" if model else f"A training step on {gpus}"


def sections(
    result: Result,
    view: RunView | None,
    *,
    command: str,
    happened: CampaignView | None = None,
    slices: int = MOST_SLICES,
) -> list[Section]:
    """Return the page of a run.

    Parameters
    ----------
    view
        What the run looked like. Without it there is no timeline, no heat map and no network.
    command
        What ran it, as one would type it again.
    happened
        What happened when in its campaign, where it has one.
    slices
        At most so many pieces in the campaign's timeline.
    """
    days = Section("campaign", "Days of training", _campaign(result, happened, slices))
    if not result.has_steps:
        parts: list[Part] = [Numbers(campaign.headlines(result))]
        return [
            Section("summary", "", parts),
            days,
            Section("run", "The run", _run(result, command)),
        ]
    wanted = [
        Section("summary", "", summary(result)),
        days,
        Section("breakdown", "Where a step goes", [breakdown.of_run(result)]),
        Section("step", "One step", [] if view is None else timeline(view)),
        Section("ranks", "Ranks", _ranks(result, view)),
        Section("communication", "Communication", communication.collectives(result)),
        Section("links", "Network", _network(result, view)),
        Section("servers", "Parameter servers", communication.servers(result)),
        Section("levers", "What would change it", levers.parts(result, command)),
        Section("run", "The run", _run(result, command)),
    ]
    return [section for section in wanted if section.parts]


def summary(result: Result) -> list[Part]:
    """Return the headline numbers, and before them what a reader must not miss."""
    data = result.data
    value, unit = time_text(data["step_time_s"]["mean"]).split()
    entries = [
        Number("Mean step", value, unit, _step_note(result)),
        Number(
            "Throughput",
            rounded(result.throughput_samples_per_s),
            "samples/s",
            f"{rounded(data['tokens_per_s'])} tokens/s" if data.get("tokens_per_s") else "",
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
        return f"95 % of steps take at most {time_text(step['p95'])}"
    return (
        f"90 % interval {time_text(result.interval.low_s)} to {time_text(result.interval.high_s)}"
    )


def _places(scenario: Mapping[str, Any]) -> str:
    cluster = scenario.get("cluster", {})
    nodes, gpus = cluster.get("nodes"), cluster.get("gpus_per_node")
    if not isinstance(nodes, int) or not gpus:
        return ""
    return f"{nodes:,} node{'s' if nodes > 1 else ''} of {gpus:,}"


def _memory_number(memory: Mapping[str, Any]) -> list[Number]:
    if not memory.get("gpu_bytes"):
        return []
    value = f"{memory['total_bytes'] * 1e-9:,.1f}"
    fits = ""
    if memory.get("fits") is not None:
        fits = "fits, " if memory["fits"] else "does not fit, "
    return [
        Number("Memory of a GPU", value, "GB", f"{fits}it has {memory['gpu_bytes'] * 1e-9:,.1f} GB")
    ]


def _would_fit(data: Mapping[str, Any]) -> str:
    if "would_fit" not in data:  # a result of a version before
        return ""
    if not data["would_fit"]:
        return "It takes more or larger GPUs, or a smaller model."
    return f"It would fit with {'; '.join(data['would_fit'])}."


def _notices(result: Result) -> list[Part]:
    memory = result.data.get("memory", {})
    notices: list[Part] = []
    if memory.get("fits") is False:
        notices.append(
            Notice(
                f"This does not fit: a GPU needs {memory['total_bytes'] * 1e-9:,.1f} GB and has "
                f"{memory['gpu_bytes'] * 1e-9:,.1f} GB. {_would_fit(result.data)}"
            )
        )
    if result.local_step_s is not None and result.synchronising_step_s is not None:
        notices.append(
            Notice(
                f"Parameters are averaged every {result.data['period_steps']} steps: a step that "
                f"averages takes {time_text(result.synchronising_step_s)}, others "
                f"{time_text(result.local_step_s)}. That changes what is learned; this is about "
                "time alone."
            )
        )
    if result.compression is not None:
        kind = result.data["scenario"]["training"]["compression"]["kind"]
        ratio = result.compression["ratio"]
        sent = f"{ratio:,.1f} times less" if ratio >= 1 else f"{1 / ratio:,.1f} times more"
        notices.append(
            Notice(
                f"Gradients are compressed ({kind}): {sent} is sent, for "
                f"{time_text(result.compression['kernels_s'])} of kernels. That changes what is "
                "learned; this is about time alone."
            )
        )
    if result.interval is not None and result.interval.extrapolated:
        notices.append(Notice(f"Outside what the profile was fitted on: {result.interval.why}"))
    return notices


def _campaign(result: Result, happened: CampaignView | None, slices: int) -> list[Part]:
    if result.campaign is None:
        return []
    numbers: list[Part] = [Numbers(campaign.headlines(result))] if result.has_steps else []
    return [*numbers, *campaign.parts(result, happened, slices), campaign.facts(result)]


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


def _network(result: Result, view: RunView | None) -> list[Part]:
    drawn: list[Part] = []
    if view is not None and len(view.link_from):
        drawn.append(network.network(view))
    return [*drawn, *communication.links(result)]


def _run(result: Result, command: str) -> list[Part]:
    data = result.data
    sources = {"roofline": "from the roofline model", "measured": "from a measurement"}
    compute = data.get("compute_source", "")
    facts = [("Paceline", f"{data['paceline']}, model version {data['model_version']}")]
    if result.has_steps:
        facts += [
            ("Engine", f"{data['engine']}: {data.get('engine_reason', '')}"),
            ("Steps", f"{data['iterations']:,}, after one to warm up"),
            ("Samples of a step", f"{data['samples_per_step']:,}"),
            ("Compute times", sources.get(compute, compute)),
        ]
    facts += [("Seed", f"{data['seed']}"), ("Fingerprint", data["fingerprint"])]
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
