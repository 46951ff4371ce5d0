"""The page of a validation: predicted against measured, by set and case; known gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import DataRange1d, Range1d

from ..plot import style
from ..quantities import size_text
from . import charts
from . import document as page

_FIGURES = {
    "mean": "mean error (%)",
    "worst": "worst error (%)",
    "bias": "bias (%)",
    "perfect_scaling": "perfect scaling (%)",
    "log_log": "log-log line (%)",
    "interpolation": "interpolation (%)",
}
_TRIVIAL = ("perfect_scaling", "log_log", "interpolation")
_KINDS = (("samples_per_s", "samples/s", "Training"), ("us", "µs", "Collectives"))
_UNITS = {suffix: unit for suffix, unit, _ in _KINDS}
_ENTRIES = [
    ("", "@where"),
    ("measured", "@measured_text"),
    ("predicted", "@text"),
    ("90 % interval", "@band"),
    ("off by", "@off"),
]


def title() -> str:
    """Name a validation's page."""
    return "Predicted against measured"


def sections(report: Mapping[str, Any]) -> list[page.Section]:
    """Return the chapters of a validation's page."""
    rows = _rows(report)
    chapters = [page.Section("summary", "", _summary(report, rows))]
    for unit, name, title in _KINDS:
        of_kind = rows[rows["unit"] == name] if len(rows) else rows
        if len(of_kind):
            chapters.append(
                page.Section(
                    f"rows-{unit}", title, [_against(of_kind, unit), _errors(of_kind, unit)]
                )
            )
    if report["sets"]:
        chapters.append(page.Section("sets", "Sets, beside simpler predictions", _sets(report)))
    chapters.append(page.Section("gaps", "Known gaps", _gaps(report)))
    if len(rows):
        chapters.append(page.Section("all", "All rows", [_all_rows(rows)]))
    return chapters


def _rows(report: Mapping[str, Any]) -> pd.DataFrame:
    """Return the compared rows, whichever unit they are in."""
    found = []
    for each in report["sets"]:
        for case in each["cases"]:
            for row in case["rows"]:
                unit = next(unit for unit, _, _ in _KINDS if f"measured_{unit}" in row)
                found.append(
                    {
                        "set": _set_name(each),
                        "case": case["name"],
                        "GPUs": row["gpus"],
                        "nodes": row["nodes"],
                        "size": size_text(row["size"]) if "size" in row else "",
                        "measured": row[f"measured_{unit}"],
                        "predicted": row[f"predicted_{unit}"],
                        "low": row[f"low_{unit}"],
                        "high": row[f"high_{unit}"],
                        "unit": _UNITS[unit],
                        "error": 100 * row["error"],
                        "excluded": row.get("excluded") or case.get("excluded") or "",
                    }
                )
    return pd.DataFrame(found)


def _set_name(each: Mapping[str, Any]) -> str:
    return str(each["file"]).rsplit("/", 1)[-1].removesuffix(".json")


def _summary(report: Mapping[str, Any], rows: pd.DataFrame) -> list[page.Part]:
    sets = report["sets"]
    if not sets:
        return [page.Notice("The report has no set.")]
    broken = [
        f"{_set_name(each)}: {check['which']}"
        for each in sets
        for check in each["checks"]
        if check["verdict"] not in ("holds", "known_gap")
    ]
    share = report["inside_interval"] / max(report["rows"], 1)
    inside = f"{report['inside_interval']:,} of {report['rows']:,}; 90 % are meant to be"
    entries = [
        page.Number("rows", f"{len(rows):,}", note=f"in {len(sets):,} sets"),
        page.Number("inside their interval", f"{100 * share:.1f}", "%", inside),
    ]
    means = [each["figures"]["mean"] for each in sets if "mean" in each["figures"]]
    if means:
        mean = float(np.expm1(np.log1p(means).mean()))
        entries.append(page.Number("mean error", page.percent(mean), "%", "geometric, of the sets"))
    known = [each for each in sets if "worst" in each["figures"]]
    if known:
        worst = max(known, key=lambda each: each["figures"]["worst"])
        value = page.percent(worst["figures"]["worst"])
        entries.append(page.Number("worst error", value, "%", _set_name(worst)))
    perfect = [s["figures"]["perfect_scaling"] for s in sets if "perfect_scaling" in s["figures"]]
    if perfect:
        mean = float(np.expm1(np.log1p(perfect).mean()))
        note = "mean error of one GPU's rate times their number"
        entries.append(page.Number("perfect scaling", page.percent(mean), "%", note))
    parts: list[page.Part] = [page.Numbers(entries)]
    if report["holds"]:
        parts.append(page.Text("Every tolerance holds, but for the known gaps below."))
    else:
        parts.append(page.Notice(f"Tolerances that don't hold: {'; '.join(broken)}."))
    return parts


def _marked(rows: pd.DataFrame, form: str) -> pd.DataFrame:
    """Add what is drawn of each row: a colour and a marker for each set, and texts."""
    looks = {name: charts.line_look(i) for i, name in enumerate(dict.fromkeys(rows["set"]))}
    unit = rows["unit"].iloc[0]
    where = [
        page.joined(case, f"{gpus:,} GPUs", size)
        for case, gpus, size in zip(rows["case"], rows["GPUs"], rows["size"], strict=True)
    ]
    return rows.assign(
        color=[looks[name]["color"] for name in rows["set"]],
        marker=[looks[name]["marker"] for name in rows["set"]],
        line=rows["set"],
        where=where,
        measured_text=[f"{value:{form}} {unit}" for value in rows["measured"]],
        text=[f"{value:{form}} {unit}" for value in rows["predicted"]],
        band=[
            f"{low:{form}} to {high:{form}}"
            for low, high in zip(rows["low"], rows["high"], strict=True)
        ],
        off=[f"{value:+.1f} %" for value in rows["error"]],
    )


def _against(rows: pd.DataFrame, unit: str) -> page.Figure:
    name = rows["unit"].iloc[0]
    form = page.decimals(rows["measured"])
    marks = _marked(rows, form)
    marks["x"], marks["y"] = marks["measured"], marks["predicted"]
    low, high = (
        float(pick([rows[column].pipe(pick) for column in ("measured", "low", "high")]))
        for pick in (min, max)
    )
    ends = (low / 1.3, high * 1.3)
    plot = charts.new_figure(
        f"against-{unit}-plot",
        x_label=f"measured ({name})",
        y_label=f"predicted ({name})",
        x_axis_type="log",
        y_axis_type="log",
        x_range=Range1d(start=ends[0], end=ends[1]),
        y_range=Range1d(start=ends[0], end=ends[1]),
        height=460,
    )
    for axis in plot.axis:
        charts.log_ticks(axis, ends)
        charts.plain_numbers(axis)
    diagonal = plot.line(ends, ends, line_dash=[2, 3])
    charts.follow(diagonal.glyph, line_color="muted")
    source = charts.source(marks)
    plot.segment(
        "x", "low", "x", "high", source=source, line_color="color", line_alpha=0.5, line_width=2,
        view=charts.chosen(),
    )  # fmt: skip
    points = plot.scatter(
        "x", "y", source=source, marker="marker", size=8, color="color", view=charts.chosen(),
        name=f"against-{unit}-points",
    )  # fmt: skip
    plot.add_tools(charts.hover(_ENTRIES, renderers=[points]))
    heads = {"measured": f"measured ({name})", "predicted": f"predicted ({name})"}
    shown = rows[_shown(rows, "measured", "predicted", "low", "high")].rename(columns=heads)
    return page.Figure(
        f"against-{unit}",
        "Predicted over measured",
        "A point on the dotted line is predicted as it was measured. The lines through points are "
        "intervals of 90 %: they should cross the dotted line nine times of ten.",
        plot,
        shown,
        dict.fromkeys([*heads.values(), "low", "high"], form),
        selects=_selects(rows),
        keys=[
            *_set_keys(marks),
            charts.line_key("predicted as measured", "var(--muted)", dash=[2, 3]),
        ],
    )


def _errors(rows: pd.DataFrame, unit: str) -> page.Figure:
    marks = _marked(rows, page.decimals(rows["measured"]))
    gpus = sorted(set(rows["GPUs"]))
    along = charts.places(gpus, "GPUs")
    marks["x"] = [along.at[charts.key(value)] for value in marks["GPUs"]]
    marks["y"] = marks["error"]
    plot = charts.new_figure(f"errors-{unit}-plot", y_label="off by (%)")
    charts.place_ticks(plot, along)
    charts.plain_numbers(plot.yaxis[0])
    charts.zero_line(plot)
    points = plot.scatter(
        "x", "y", source=charts.source(marks), marker="marker", size=8, color="color",
        alpha=0.85, view=charts.chosen(), name=f"errors-{unit}-points",
    )  # fmt: skip
    plot.add_tools(charts.hover(_ENTRIES, renderers=[points]))
    return page.Figure(
        f"errors-{unit}",
        "Errors by number of GPUs",
        "Predicted over measured, less one: "
        + ("above 0 the model is too fast." if unit != "us" else "above 0 the model is too slow."),
        plot,
        rows[_shown(rows, "error")].rename(columns={"error": "off by (%)"}),
        {"off by (%)": "+.1f"},
        selects=_selects(rows),
        keys=_set_keys(marks),
    )


def _set_keys(marks: pd.DataFrame) -> list[page.Key]:
    sets = marks.drop_duplicates("line")[["line", "color", "marker"]]
    return [
        charts.line_key(name, color, marker=marker, line=name)
        for name, color, marker in sets.to_numpy()
        if len(sets) > 1
    ]


def _shown(rows: pd.DataFrame, *columns: str) -> list[str]:
    sizes = ["size"] if rows["size"].any() else []
    return ["set", "case", "GPUs", *sizes, *columns]


def _selects(rows: pd.DataFrame) -> list[page.Select]:
    found = []
    for column, label, everything in (("set", "Set", "all sets"), ("case", "Case", "all cases")):
        values = list(dict.fromkeys(rows[column]))
        if len(values) > 1:
            found.append(page.Select(label, column, values, everything))
    return found


def _sets(report: Mapping[str, Any]) -> list[page.Part]:
    rows = []
    for each in report["sets"]:
        figures = each["figures"]
        rows.append(
            {
                "set": _set_name(each),
                **_percents(figures),
                "rows": figures["rows"],
                "inside interval": figures["inside_interval"],
                "what it is": each["description"],
            }
        )
    known = pd.DataFrame(rows).dropna(axis=1, how="all")
    forms = {head: "+.1f" if key == "bias" else ".1f" for key, head in _FIGURES.items()}
    cases = _cases(report, forms)
    heads = [_FIGURES[key] for key in ("mean", "worst", *_TRIVIAL) if _FIGURES[key] in known]
    drawn = [_predictors(known, heads)] if heads else []
    return [*drawn, page.Table("table-sets", known, forms, "sets"), cases]


def _percents(figures: Mapping[str, float]) -> dict[str, float]:
    return {
        head: 100 * figures[key] if key in figures else np.nan for key, head in _FIGURES.items()
    }


def _cases(report: Mapping[str, Any], forms: Mapping[str, str]) -> page.Details:
    rows = [
        {
            "set": _set_name(each),
            "case": case["name"],
            **_percents(case["figures"]),
            "fitted to": ", ".join(case["fitted"]),
            "source": case["source"],
            "excluded": case.get("excluded", ""),
        }
        for each in report["sets"]
        for case in each["cases"]
    ]
    known = pd.DataFrame(rows).dropna(axis=1, how="all")
    return page.Details(
        f"All {len(rows):,} cases", [page.Table("table-cases", known, forms, "cases")]
    )


def _predictors(known: pd.DataFrame, heads: Sequence[str]) -> page.Figure:
    """Draw the errors of each set, and those of predictors that know nothing of a machine."""
    looks = {head: charts.line_look(i) for i, head in enumerate(heads)}
    names = list(known["set"])
    at = {name: float(len(names) - 1 - i) for i, name in enumerate(names)}  # the first on top
    frames = [
        pd.DataFrame(
            {
                "x": known[head],
                "y": known["set"].map(at),
                "set": known["set"],
                "line": head,
                "color": looks[head]["color"],
                "marker": looks[head]["marker"],
                "text": [page.cell_text(value, ".1f") + " %" for value in known[head]],
            }
        ).dropna(subset="x")
        for head in heads
    ]
    marks = pd.concat(frames, ignore_index=True)
    plot = charts.new_figure(
        "predictors-plot",
        x_label="error (%)",
        height=90 + 26 * len(names),
        x_range=DataRange1d(start=0),
        y_range=Range1d(start=-0.7, end=len(names) - 0.3),
    )
    plot.yaxis.ticker = sorted(at.values())
    short = style.shortened(names, 20)
    plot.yaxis.major_label_overrides = dict(zip(at.values(), short, strict=True))
    points = plot.scatter(
        "x", "y", source=charts.source(marks), marker="marker", size=9, color="color",
        view=charts.chosen(), name="predictors-points",
    )  # fmt: skip
    plot.add_tools(
        charts.hover([("", "@set"), ("which", "@line"), ("error", "@text")], renderers=[points])
    )
    return page.Figure(
        "predictors",
        "Errors of each set",
        "The mean and the worst error of Paceline's predictions, and the mean error of simpler "
        "ones: perfect scaling is one GPU's rate times their number, the log-log line goes through "
        "the points that were fitted, interpolation through the measured neighbours.",
        plot,
        known[["set", *heads]],
        dict.fromkeys(heads, ".1f"),
        keys=[
            charts.line_key(head, look["color"], marker=look["marker"], line=head)
            for head, look in looks.items()
        ],
    )


def _gaps(report: Mapping[str, Any]) -> list[page.Part]:
    checks = [
        {
            "set": _set_name(each),
            "case": check.get("case", ""),
            "figure": check["which"].replace("_", " "),
            "value": check["value"],
            "tolerance": check["tolerance"],
            "verdict": check["verdict"].replace("_", " "),
            "why": check.get("why", ""),
        }
        for each in report["sets"]
        for check in each["checks"]
    ]
    gaps = [check for check in checks if check["verdict"] != "holds"]
    forms = {"value": ".4f", "tolerance": ".4f"}
    parts: list[page.Part] = [page.Text("Every check holds; no gap is known.")]
    if gaps:
        shown = pd.DataFrame(gaps)
        if not shown["case"].any():
            shown = shown.drop(columns="case")
        parts = [
            page.Text("Where predictions miss their tolerance, and why as far as is known."),
            page.Rows(shown, forms, "known gaps"),
        ]
    if checks:
        everything = page.Rows(pd.DataFrame(checks), forms, "checks")
        parts.append(page.Details(f"All {len(checks):,} checks", [everything]))
    return parts


def _all_rows(rows: pd.DataFrame) -> page.Table:
    shown = rows.rename(columns={"error": "off by (%)"})
    empty = [column for column in ("size", "excluded") if not shown[column].any()]
    forms = {
        column: page.decimals(rows[column]) for column in ("measured", "predicted", "low", "high")
    }
    return page.Table(
        "table-rows", shown.drop(columns=empty), {**forms, "off by (%)": "+.1f"}, "all rows"
    )
