"""The page of a sweep: curves, breakdown, measured points, and every point in a table."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from ..plot.data import axis_label, named, table
from ..quantities import value_text
from ..studies import Sweep
from . import breakdown, curves, differences, measured
from . import document as page
from .measured import GOODPUT, RATE, SHARE, STEP

POINTS = "points"  # the name of the table


def title(sweep: Sweep) -> str:
    """Return what the study goes along."""
    return "Sweep over " + ", ".join(axis_label(axis.name) for axis in sweep.axes)


def sections(sweep: Sweep) -> list[page.Section]:
    """Return the chapters of a sweep's page."""
    frame = sweep.frame
    failed = frame[frame["error"].notna()] if len(frame) else frame
    if len(failed) == len(frame):
        chapters = [page.Section("summary", "", _summary(sweep, failed, pd.DataFrame()))]
    else:
        points = table(sweep, None)
        x = points.main_axis()
        compared = measured.comparison(points, x)
        chapters = [page.Section("summary", "", _summary(sweep, failed, compared))]
        chapters.append(page.Section("scaling", "Curves", curves.curves(points, x, opens=POINTS)))
        if curves.has(frame, STEP):
            parts: list[page.Part] = [breakdown.along(points, x)]
            chapters.append(page.Section("breakdown", "Where a step goes", parts))
        if len(compared):
            chapters.append(page.Section("measured", "Measured points", measured.parts(compared)))
    if len(failed):
        chapters.append(page.Section("failed", "Failed points", [_failed(sweep, failed)]))
    if len(frame):
        chapters.append(page.Section("all", "All points", [_points(sweep)]))
    chapters.append(page.Section("study", "The study", _study(sweep)))
    return chapters


def _summary(sweep: Sweep, failed: pd.DataFrame, compared: pd.DataFrame) -> list[page.Part]:
    frame = sweep.frame
    if frame.empty:
        return [page.Notice("The sweep has no point yet: `paceline sweep` goes on where it was.")]
    good = frame[frame["error"].isna()]
    entries = [page.Number("points", f"{len(frame):,}", note=f"{len(failed):,} failed")]
    if len(good):
        entries += _headlines(sweep, good, compared)
    parts: list[page.Part] = [page.Numbers(entries)]
    if good.empty:
        parts.append(page.Notice("No point has a result. What each of them says is below."))
    return parts


def _headlines(sweep: Sweep, good: pd.DataFrame, compared: pd.DataFrame) -> list[page.Number]:
    entries = []
    if curves.has(good, GOODPUT):
        known = good.dropna(subset=[GOODPUT.column])
        for label, at in (("highest goodput", "argmax"), ("lowest goodput", "argmin")):
            row = known.iloc[int(getattr(known[GOODPUT.column], at)())]
            share = f"{100 * row[GOODPUT.column]:.1f}"
            entries.append(page.Number(label, share, "%", _where(sweep, row)))
    if curves.has(good, STEP):
        known = good.dropna(subset=[STEP.column])
        fastest = known.iloc[int(known[RATE.column].argmax())]
        shortest = known.iloc[int(known[STEP.column].argmin())]
        rate, step = page.rounded(fastest[RATE.column]), page.rounded(1e3 * shortest[STEP.column])
        lowest = known.iloc[int(known[SHARE.column].argmin())]
        share = f"{100 * lowest[SHARE.column]:.1f}"
        entries += [
            page.Number("highest throughput", rate, "samples/s", _where(sweep, fastest)),
            page.Number("shortest mean step", step, "ms", _where(sweep, shortest)),
            page.Number("lowest efficiency", share, "%", _where(sweep, lowest)),
        ]
    errors = measured.errors(compared)
    if len(errors):
        entries += [
            page.Number("mean error", f"{errors.mean():.1f}", "%", f"of {len(errors)} measured"),
            page.Number("worst error", f"{errors.max():.1f}", "%", "of one of them"),
        ]
    return entries


def _where(sweep: Sweep, row: pd.Series) -> str:
    return ", ".join(named(axis.name, row[axis.name]) for axis in sweep.axes)


def _points(sweep: Sweep) -> page.Table:
    frame = sweep.frame
    shown: dict[str, Any] = {}
    for axis in sweep.axes:
        plain = pd.to_numeric(frame[axis.name], errors="coerce")
        shown[axis_label(axis.name)] = (
            plain if plain.notna().all() else frame[axis.name].map(value_text)
        )
    forms = {}
    for head, column, scale in (
        *((each.head, each.column, each.scale) for each in (GOODPUT, RATE, SHARE, STEP)),
        ("5 % of seeds below (%)", "goodput_p5", 100.0),
        ("95 % of seeds below (%)", "goodput_p95", 100.0),
        ("interval (s)", "campaign_interval_s", 1.0),
        ("between failures (s)", "campaign_system_mtbf_s", 1.0),
        ("wall time (h)", "campaign_wall_s", 1 / 3600),
        ("interval low (ms)", "interval_low_s", 1e3),
        ("interval high (ms)", "interval_high_s", 1e3),
        ("95 % of steps below (ms)", "step_time_p95_s", 1e3),
    ):
        if column in frame and frame[column].notna().any():
            shown[head] = scale * frame[column].astype(float)
            forms[head] = page.decimals(shown[head])
    if frame["error"].notna().any():
        shown["error"] = frame["error"].fillna("")
    return page.Table(
        POINTS, pd.DataFrame(shown), forms, "all points", differences.details(sweep), "Difference"
    )


def _failed(sweep: Sweep, failed: pd.DataFrame) -> page.Rows:
    columns = {axis_label(axis.name): failed[axis.name].map(value_text) for axis in sweep.axes}
    return page.Rows(pd.DataFrame({**columns, "message": failed["error"]}), label="failed points")


def _study(sweep: Sweep) -> list[page.Part]:
    axes = pd.DataFrame(
        [
            (axis.name, axis.key, ", ".join(map(value_text, values)))
            for axis in sweep.axes
            for values in [_values(sweep, axis.name)]
        ],
        columns=["axis", "key", "values"],
    )
    scenario = json.dumps(sweep.study.get("scenario", {}), indent=2, ensure_ascii=False)
    return [
        page.Rows(axes, label="axes"),
        page.Details(
            "The scenario",
            [
                page.Text("Saved as scenario.json it is what a point's command changes."),
                page.Code(scenario, "scenario"),
            ],
        ),
    ]


def _values(sweep: Sweep, axis: str) -> list[Any]:
    if sweep.frame.empty:
        return []
    return list({str(value): value for value in sweep.frame[axis]}.values())
