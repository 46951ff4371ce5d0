"""The page of a sweep: curves, breakdown, measured points, and every point with its difference."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, DataRange1d, Range1d
from bokeh.models.annotations import Span

from .. import studies
from ..errors import InputError
from ..plot import style
from ..plot.data import GPUS, Series, Table, axis_label, matching, named, series, table
from ..plot.parts import COLUMNS, NEGLIGIBLE
from ..plot.scaling import EFFICIENCY, THROUGHPUT, alone_rates, different_rates
from ..quantities import value_text
from ..studies import Sweep
from . import charts
from . import document as page

STEP = "step_time_mean_s"
POINTS = "points"  # the name of the table
MOST_BREAKDOWNS = 100  # combinations that one may choose from
MOST_BARS = 300  # of a breakdown


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
        compared = comparison(points, x)
        chapters = [page.Section("summary", "", _summary(sweep, failed, compared))]
        chapters += [
            page.Section("scaling", "Curves", curves(points, x)),
            page.Section("breakdown", "Where a step goes", [breakdown(points, x)]),
        ]
        if len(compared):
            chapters.append(page.Section("measured", "Measured points", _measured(compared)))
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
    fastest = good.iloc[int(good[THROUGHPUT].argmax())]
    shortest = good.iloc[int(good[STEP].argmin())]
    rate, step = fastest[THROUGHPUT], 1e3 * shortest[STEP]
    entries = [
        page.Number("highest throughput", page.rounded(rate), "samples/s", _where(sweep, fastest)),
        page.Number("shortest mean step", page.rounded(step), "ms", _where(sweep, shortest)),
    ]
    if EFFICIENCY in good:
        lowest = good.iloc[int(good[EFFICIENCY].argmin())]
        share = f"{100 * lowest[EFFICIENCY]:.1f}"
        entries.append(page.Number("lowest efficiency", share, "%", _where(sweep, lowest)))
    errors = compared["off by (%)"].abs().dropna() if len(compared) else pd.Series(dtype=float)
    if len(errors):
        entries += [
            page.Number("mean error", f"{errors.mean():.1f}", "%", f"of {len(errors)} measured"),
            page.Number("worst error", f"{errors.max():.1f}", "%", "of one of them"),
        ]
    return entries


def _where(sweep: Sweep, row: pd.Series) -> str:
    return ", ".join(named(axis.name, row[axis.name]) for axis in sweep.axes)


# Curves


def curves(points: Table, x: str, *, opens: str = POINTS) -> list[page.Part]:
    """Return throughput, efficiency and the mean step; a click opens a row of a table."""
    parts: list[page.Part] = []
    count = len(points.combinations(x))
    if count > charts.MOST_LINES:
        parts.append(
            page.Notice(
                f"The charts have the first {charts.MOST_LINES} of {count:,} lines; the tables "
                "below have all points."
            )
        )
    over_gpus = x == GPUS and points.frame[GPUS].nunique() > 1
    band = _band_text(points, x)
    hint = " A click on a point shows how its scenario differs from the study's." if opens else ""
    if THROUGHPUT in points.frame:
        against = " The dotted line is what as many GPUs alone would do." if over_gpus else ""
        parts.append(
            curve(
                points,
                x,
                THROUGHPUT,
                name="throughput",
                title="Throughput",
                opens=opens,
                unit="samples/s",
                log=over_gpus,
                caption=f"Samples per second of all GPUs.{against}{band}{hint}",
            )
        )
    if EFFICIENCY in points.frame:
        parts.append(
            curve(
                points,
                x,
                EFFICIENCY,
                name="efficiency",
                title="Scaling efficiency",
                opens=opens,
                unit="%",
                scale=100.0,
                caption="What is left of the throughput that as many GPUs alone would have: "
                f"100 % is perfect.{band}{hint}",
            )
        )
    parts.append(
        curve(
            points,
            x,
            STEP,
            name="step",
            title="Mean step",
            opens=opens,
            unit="ms",
            scale=1e3,
            caption=f"Mean time of a step.{band}{hint}",
        )
    )
    return parts


def curve(
    points: Table,
    x: str,
    column: str,
    *,
    name: str,
    title: str,
    unit: str,
    caption: str,
    opens: str,
    scale: float = 1.0,
    log: bool = False,
) -> page.Figure:
    """Draw a column along an axis: a line, with its band, for each combination of the others."""
    lines = series(points, x, column, scale)
    drawn = lines[: charts.MOST_LINES]
    along = charts.places([value for line in lines for value in line.frame[x]], axis_label(x))
    shown = _curve_table(lines, x, f"{column_name(column)} ({unit})")
    value = shown.columns[-3] if any(line.banded for line in lines) else shown.columns[-1]
    forms = {str(c): page.decimals(shown[value]) for c in shown.columns[-3:] if c != x}
    plot = charts.new_figure(
        name,
        y_label=f"{title.lower()} ({unit})",
        y_axis_type="log" if log else "linear",
        y_range=DataRange1d(range_padding=0.08),
        tools=[charts.tap()] if opens else [],
    )
    charts.place_ticks(plot, along)
    charts.plain_numbers(plot.yaxis[0])
    if log:
        charts.log_ticks(plot.yaxis[0], shown[value])
    keys = [*_ideal(plot, points, drawn, x, column, along)]
    marks = _marks(points, drawn, x, along, forms[value], unit)
    _draw_lines(plot, drawn, marks, along)
    many = len(drawn) > 1
    keys = [
        charts.line_key(
            line.name or "predicted",
            charts.line_look(i)["color"],
            marker=charts.line_look(i)["marker"],
            dash=charts.line_look(i)["dash"] if along.numbers else None,
            line=line.name if many else "",
        )
        for i, line in enumerate(drawn)
    ] + keys
    if any(line.banded for line in drawn):
        keys.append(charts.area_key(_band_name(drawn), style.GREY, opacity=0.3))
    if _draw_measured(plot, points, drawn, x, column, scale, along, forms[value], unit):
        keys.append(charts.line_key("measured", "var(--ink)", marker="circle", hollow=True))
    return page.Figure(
        name,
        title,
        caption,
        plot,
        shown,
        forms,
        keys=keys if len(keys) > 1 else (),
        opens=opens,
    )


def column_name(column: str) -> str:
    """Name a column of results in a table's head."""
    return {THROUGHPUT: "throughput", EFFICIENCY: "efficiency", STEP: "mean step"}[column]


def _curve_table(lines: Sequence[Series], x: str, value: str) -> pd.DataFrame:
    """Write lines as rows: other axes, x, the mean, and where there is one the band."""
    banded = any(line.banded for line in lines)
    frames = []
    for line in lines:
        rows = {
            **{axis_label(axis) or axis: text for axis, text in line.where.items()},
            axis_label(x) or x: line.frame[x].map(value_text),
            value: line.frame["mean"],
        }
        if banded:
            rows |= {"low": line.frame["low"], "high": line.frame["high"]}
        frames.append(pd.DataFrame(rows))
    return pd.concat(frames, ignore_index=True)


def _marks(
    points: Table,
    lines: Sequence[Series],
    x: str,
    along: charts.Places,
    form: str,
    unit: str,
) -> pd.DataFrame:
    """Return what is drawn of the points of all lines, a row each."""
    frames = []
    for i, (line, (_, group)) in enumerate(zip(lines, points.combinations(x), strict=False)):
        look = charts.line_look(i)
        texts = line.frame[x].map(charts.key)
        first = dict(reversed([(charts.key(v), row) for row, v in group[x].items()]))
        written = {end: line.frame[end].map(lambda v: format(v, form)) for end in _ENDS}
        frames.append(
            pd.DataFrame(
                {
                    "line": line.name,
                    "x": texts.map(along.at),
                    "low": line.frame["low"],
                    "high": line.frame["high"],
                    "y": line.frame["mean"],
                    "color": look["color"],
                    "marker": look["marker"],
                    "row": texts.map(first),
                    "where": _point_names(line, x),
                    "text": written["mean"] + f" {unit}",
                    "band": written["low"] + " to " + written["high"] if line.banded else "",
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


_ENDS = ("mean", "low", "high")


def _point_names(line: Series, x: str) -> pd.Series:
    values = line.frame[x].map(lambda value: named(x, value))
    return values.map(lambda value: f"{value}, {line.name}" if line.name else value)


def _draw_lines(
    plot: Any, lines: Sequence[Series], marks: pd.DataFrame, along: charts.Places
) -> None:
    looks = [charts.line_look(i) for i in range(len(lines))]
    drawn = [marks[marks["line"] == line.name] for line in lines]
    names = [line.name for line in lines]
    colors = [look["color"] for look in looks]
    banded = [i for i, line in enumerate(lines) if line.banded]
    if along.numbers:
        ends = [drawn[i] for i in banded]
        bands = ColumnDataSource(
            {
                "xs": [np.concatenate([d["x"], d["x"][::-1]]) for d in ends],
                "ys": [np.concatenate([d["low"], d["high"][::-1]]) for d in ends],
                "color": [colors[i] for i in banded],
                "line": [names[i] for i in banded],
            }
        )
        plot.patches(
            "xs", "ys", source=bands, fill_color="color", fill_alpha=0.2, line_color=None,
            view=charts.chosen(),
        )  # fmt: skip
        source = ColumnDataSource(
            {
                "xs": [d["x"].to_numpy() for d in drawn],
                "ys": [d["y"].to_numpy() for d in drawn],
                "color": colors,
                "dash": [look["dash"] for look in looks],
                "line": names,
            }
        )
        plot.multi_line(
            "xs", "ys", source=source, line_color="color", line_dash="dash", line_width=2,
            view=charts.chosen(),
        )  # fmt: skip
    source = charts.source(marks)
    if banded:  # of one point alone, and of names, no area can be seen
        plot.segment(
            "x", "low", "x", "high", source=source, line_color="color", line_width=2,
            line_alpha=0.5, view=charts.chosen(),
        )  # fmt: skip
    points = plot.scatter(
        "x", "y", source=source, marker="marker", size=9, fill_color="color", line_color="color",
        view=charts.chosen(), name=f"{plot.name}-points", nonselection_alpha=1.0,
    )  # fmt: skip
    entries = [("", "@where"), ("predicted", "@text")]
    if banded:
        entries.append((_band_name(lines), "@band"))
    plot.add_tools(charts.hover(entries, renderers=[points]))


def _ideal(
    plot: Any, points: Table, lines: Sequence[Series], x: str, column: str, along: charts.Places
) -> list[page.Key]:
    """Draw what as many GPUs alone would do."""
    if column == EFFICIENCY:
        span = Span(location=100, dimension="width", line_dash=[2, 3])
        charts.follow(span, line_color="muted")
        plot.add_layout(span)
        return []
    rates = alone_rates(points) if x == GPUS and column == THROUGHPUT else {}
    if len(along.ticks) < 2:
        return []
    different = {i: rate for i, rate in different_rates(rates).items() if i < len(lines)}
    for index, rate in different.items():
        gpus = lines[index].frame[GPUS]
        ends = [gpus.min(), gpus.max()]
        ideal = plot.line(
            [along.at[charts.key(end)] for end in ends],
            [rate * float(end) for end in ends],
            line_dash=[2, 3],
            line_width=1.5,
        )
        if len(different) == 1:
            charts.follow(ideal.glyph, line_color="muted")
        else:
            ideal.glyph.line_color = charts.line_look(index)["color"]
    if not different:
        return []
    return [charts.line_key("ideal: GPUs times one alone", "var(--muted)", dash=[2, 3])]


def _band_name(lines: Sequence[Series]) -> str:
    seeds = any((line.frame["points"] > 1).any() for line in lines)
    return "5 % to 95 % of seeds" if seeds else "90 % interval"


def _band_text(points: Table, x: str) -> str:
    lines = series(points, x, STEP)
    if not any(line.banded for line in lines):
        return ""
    return f" Bands are {_band_name(lines).replace('90 %', 'the 90 %')}."


# Measured points


def comparison(points: Table, x: str) -> pd.DataFrame:
    """Put measured points beside what was predicted: a row each, also where nothing was."""
    rows = []
    for column, scale, unit in ((THROUGHPUT, 1.0, "samples/s"), (STEP, 1e3, "ms")):
        for line in series(points, x, column, scale):
            known = matching(points.measured, line.where, column)
            if x not in known:
                continue
            predicted = line.frame.set_index(line.frame[x].map(charts.key))
            for point in known.to_dict("records"):
                at = charts.key(point[x])
                found = predicted.loc[at] if at in predicted.index else None
                measured = point[column] * scale
                rows.append(
                    {
                        **{axis_label(axis) or axis: text for axis, text in line.where.items()},
                        axis_label(x) or x: value_text(point[x]),
                        "what": f"{column_name(column)} ({unit})",
                        "measured": measured,
                        "predicted": np.nan if found is None else found["mean"],
                        "low": np.nan if found is None or not line.banded else found["low"],
                        "high": np.nan if found is None or not line.banded else found["high"],
                        "off by (%)": np.nan
                        if found is None
                        else 100 * (found["mean"] / measured - 1),
                    }
                )
    return pd.DataFrame(rows)


def _measured(compared: pd.DataFrame) -> list[page.Part]:
    errors = compared["off by (%)"].abs().dropna()
    form = page.decimals(compared["measured"])
    text = "No measured point lies where the study has one."
    if len(errors):
        text = (
            f"The mean error is {errors.mean():.1f} %, the worst {errors.max():.1f} %. An error is "
            "predicted over measured, less one."
        )
    forms = dict.fromkeys(("measured", "predicted", "low", "high"), form)
    return [
        page.Text(text),
        page.Rows(compared, {**forms, "off by (%)": "+.2f"}, "measured points"),
    ]


def _draw_measured(
    plot: Any,
    points: Table,
    lines: Sequence[Series],
    x: str,
    column: str,
    scale: float,
    along: charts.Places,
    form: str,
    unit: str,
) -> bool:
    """Draw measured points of lines, if there are some; efficiencies are of the same ideal."""
    alone = alone_rates(points) if column == EFFICIENCY and x == GPUS else {}
    frames = []
    for index, line in enumerate(lines):
        known = matching(
            points.measured, line.where, THROUGHPUT if column == EFFICIENCY else column
        )
        if known.empty or x not in known or (column == EFFICIENCY and index not in alone):
            continue
        known = known[known[x].map(charts.key).isin(along.at)]
        if column == EFFICIENCY:
            y = 100 * known[THROUGHPUT] / known[GPUS].astype(float) / alone[index]
        else:
            y = known[column] * scale
        predicted = line.frame.set_index(line.frame[x].map(charts.key))["mean"]
        error = y / known[x].map(charts.key).map(predicted).astype(float)
        frames.append(
            pd.DataFrame(
                {
                    "x": known[x].map(charts.key).map(along.at),
                    "y": y,
                    "line": line.name,
                    "color": charts.line_look(index)["color"],
                    "where": [
                        ", ".join(filter(None, (named(x, value), line.name))) for value in known[x]
                    ],
                    "text": [f"{format(value, form)} {unit}" for value in y],
                    "off": [page.cell_text(100 * (1 / e - 1), "+.2f") + " %" for e in error],
                }
            )
        )
    if not frames:
        return False
    drawn = plot.scatter(
        "x",
        "y",
        source=charts.source(pd.concat(frames, ignore_index=True)),
        marker="circle",
        size=12,
        line_width=2,
        line_color="color",
        fill_color=None,
        view=charts.chosen(),
        name=f"{plot.name}-measured",
    )
    if len(lines) == 1:
        charts.follow(drawn.glyph, line_color="ink")
    entries = [("", "@where"), ("measured", "@text"), ("predicted is off by", "@off")]
    plot.add_tools(charts.hover(entries, renderers=[drawn]))
    return True


# Breakdown


def breakdown(points: Table, x: str) -> page.Figure:
    """Draw where the mean step goes, stacked, at each value of an axis."""
    groups = points.combinations(x)
    values = {charts.key(value): value for value in points.frame[x]}
    shown_values = dict(list(values.items())[:MOST_BARS])
    bars = _bars(groups[:MOST_BREAKDOWNS], x, shown_values)
    texts, unit = style.tick_texts(list(shown_values.values()))
    label = axis_label(x)
    along = charts.Places(
        {key: float(i) for i, key in enumerate(shown_values)},
        [float(i) for i in range(len(shown_values))],
        style.shortened(texts, charts.MOST_LETTERS),
        f"{label} ({unit})" if unit else label,
        numbers=False,
    )
    form = page.decimals(bars["ms"], 3)
    bars["x"] = bars["key"].map(along.at)
    bars["ms_text"] = [f"{value:{form}} ms" for value in bars["ms"]]
    bars["where"] = [
        ", ".join(filter(None, (named(x, value), name)))
        for value, name in zip(bars["value"], bars["combination"], strict=True)
    ]
    bars["share_text"] = [f"{value:.1f} %" for value in bars["share"]]
    plot = charts.new_figure(
        "breakdown-bars",
        y_label="mean step (ms)",
        x_range=Range1d(start=-0.6, end=len(shown_values) - 0.4),
        y_range=DataRange1d(start=0),
    )
    charts.place_ticks(plot, along)
    charts.plain_numbers(plot.yaxis[0])
    drawn = plot.vbar(
        x="x",
        bottom="bottom",
        top="top",
        width=0.72,
        source=charts.source(bars.drop(columns=["key", "ms", "share"])),
        fill_color="color",
        line_color=None,
        hatch_pattern="hatch",
        hatch_scale=8,
        hatch_alpha=0.6,
        view=charts.chosen(),
        name="bars",
    )
    charts.follow(drawn.glyph, hatch_color="paper")
    plot.add_tools(
        charts.hover(
            [
                ("", "@where"),
                ("part", "@part"),
                ("time", "@ms_text"),
                ("of the step", "@share_text"),
            ],
            renderers=[drawn],
        )
    )
    shown = bars[["combination", "value", "part", "ms", "share"]].set_axis(
        [" and ".join(map(axis_label, points.beside(x))), axis_label(x) or x, "part", "time (ms)",
         "of the step (%)"], axis=1,
    )  # fmt: skip
    names = list(dict.fromkeys(bars["combination"]))
    cut = ""
    if len(groups) > MOST_BREAKDOWNS:
        cut = f" Of {len(groups):,} combinations the first {MOST_BREAKDOWNS} can be chosen."
    if len(values) > MOST_BARS:
        cut += f" Of {len(values):,} values of {label} the first {MOST_BARS} are drawn."
    return page.Figure(
        "parts",
        "Parts of the mean step",
        "Means over all GPUs and steps, and over seeds where there are some; parts below "
        f"{100 * NEGLIGIBLE:g} % of a step are left out.{cut}",
        plot,
        shown if len(names) > 1 else shown.iloc[:, 1:],
        {"time (ms)": form, "of the step (%)": ".1f"},
        keys=[
            charts.area_key(name, color, hatch=hatch)
            for name, color, hatch in style.PARTS.values()
            if name in set(bars["part"])
        ],
        selects=[page.Select("Show", "combination", names)] if len(names) > 1 else (),
    )


def _bars(
    groups: Sequence[tuple[dict[str, str], pd.DataFrame]], x: str, values: Mapping[str, Any]
) -> pd.DataFrame:
    """Return the pieces of all bars, a row each."""
    rows = []
    for where, group in groups:
        columns = [column for column in COLUMNS if column in group]
        name = ", ".join(named(axis, text) for axis, text in where.items())
        means = group.groupby(group[x].map(charts.key), sort=False)[columns].mean() * 1e3
        for key, *times in means.itertuples(name=None):
            if key not in values:
                continue
            step, bottom = sum(times), 0.0
            for column, time in zip(columns, times, strict=True):
                text, color, hatch = style.PARTS[COLUMNS[column]]
                if time > NEGLIGIBLE * step:
                    rows.append(
                        {
                            "combination": name,
                            "key": key,
                            "value": value_text(values[key]),
                            "part": text,
                            "ms": time,
                            "share": 100 * time / step,
                            "bottom": bottom,
                            "top": bottom + time,
                            "color": color,
                            "hatch": charts.HATCHES[hatch][0],
                        }
                    )
                bottom += time
    return pd.DataFrame(rows)


# Points


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
        ("throughput (samples/s)", THROUGHPUT, 1.0),
        ("efficiency (%)", EFFICIENCY, 100.0),
        ("mean step (ms)", STEP, 1e3),
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
        POINTS, pd.DataFrame(shown), forms, "all points", details(sweep), "Difference"
    )


def _failed(sweep: Sweep, failed: pd.DataFrame) -> page.Rows:
    columns = {axis_label(axis.name): failed[axis.name].map(value_text) for axis in sweep.axes}
    return page.Rows(pd.DataFrame({**columns, "message": failed["error"]}), label="failed points")


def details(sweep: Sweep) -> list[page.Detail]:
    """Say of each row of the sweep's frame how its scenario differs from the study's."""
    made = _scenarios(sweep)
    base = sweep.study.get("scenario", {})
    found = []
    for row in sweep.frame.to_dict("records"):
        point = {axis.name: _plain(row[axis.name]) for axis in sweep.axes}
        edits = {axis.key: point[axis.name] for axis in sweep.axes if axis.key.startswith("/")}
        scenario = made.get(json.dumps(point))
        if scenario is not None:
            edits |= _others(base, scenario, edits)
        before = {pointer: _at(base, pointer) for pointer in edits}
        changed = {p: value for p, value in edits.items() if before[p] != value}
        profile = sweep.study.get("profile")
        found.append(
            page.Detail(
                title=", ".join(named(name, value) for name, value in point.items()),
                heads=("key", "in the study's scenario", "here"),
                rows=[(p, _json(before[p]), _json(value)) for p, value in changed.items()],
                text=row["error"] if isinstance(row["error"], str) else "",
                code=_command(changed, profile if isinstance(profile, str) else ""),
            )
        )
    return found


class _Nothing:
    """What a scenario doesn't say."""


def _scenarios(sweep: Sweep) -> Mapping[str, Any]:
    """Return the scenario of each point by its axes; none where files that it names are gone."""
    try:
        made = studies.points(sweep.study)
    except (InputError, TypeError):  # half a character is no argument of the core
        return {}
    return {json.dumps(point["axes"]): point.get("scenario") for point in made}


def _others(base: Any, scenario: Any, known: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """Return what else differs: how many nodes an axis over GPUs means, say."""
    if any(at == pointer or at.startswith(pointer + "/") for pointer in known):
        return {}
    if isinstance(base, dict) and isinstance(scenario, dict):
        found: dict[str, Any] = {}
        for key, value in scenario.items():
            word = key.replace("~", "~0").replace("/", "~1")
            found |= _others(base.get(key, _Nothing), value, known, f"{at}/{word}")
        return found
    within = any(pointer.startswith(at + "/") for pointer in known)
    return {} if within or base == scenario else {at: scenario}


def _at(scenario: Any, pointer: str) -> Any:
    for word in pointer.split("/")[1:]:
        key = word.replace("~1", "/").replace("~0", "~")
        if not isinstance(scenario, dict) or key not in scenario:
            return _Nothing
        scenario = scenario[key]
    return scenario


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _json(value: Any) -> str:
    return "not stated" if value is _Nothing else json.dumps(value, ensure_ascii=False)


def _command(edits: Mapping[str, Any], profile: str) -> str:
    words = ["paceline", "run", "scenario.json"]
    for pointer, value in edits.items():
        words += ["--set", f"{pointer}={json.dumps(value, ensure_ascii=False)}"]
    if profile:
        words += ["--profile", profile]
    return shlex.join(words)


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
