"""The page of a profile: its collectives, its parameters, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import DataRange1d

from ..calibrate import Profile
from ..errors import InputError
from ..plot import style
from ..plot.calibration import Place, cluster_name, curve_with_band, own_points
from ..quantities import size_text
from . import charts
from . import document as page


def title(profile: Profile) -> str:
    """Name what a profile is of."""
    return f"Profile of {cluster_name(profile.cluster) or 'a machine'}"


def sections(profile: Profile) -> list[page.Section]:
    """Return the chapters of a profile's page."""
    why = ""
    points = pd.DataFrame()
    try:
        points = own_points(profile, profile.cluster)
    except InputError as error:
        why = f"What was measured can't be predicted again: {error}"
    summary: list[page.Part] = [page.Numbers(_numbers(profile))]
    if points.empty:
        summary.append(page.Notice(why or "The profile was fitted to no collective."))
    chapters = [page.Section("summary", "", summary)]
    if len(points):
        chapters.append(page.Section("collectives", "Collectives", _collectives(profile, points)))
    chapters.append(page.Section("parameters", "Parameters", _parameters(profile)))
    chapters.append(page.Section("origin", "Where it comes from", _origin(profile)))
    return chapters


def _numbers(profile: Profile) -> list[page.Number]:
    points = profile.get("points", [])
    fitted = int(profile.parameters()["fitted"].eq(True).sum())
    entries = [
        page.Number("measured points", f"{len(points):,}"),
        page.Number("parameters", f"{fitted}", "fitted", f"of {len(profile['parameters'])}"),
    ]
    off = np.abs([point["log_ratio"] for point in points])
    if len(off):
        entries += [
            page.Number(
                "model alone, mean", page.percent(np.expm1(off.mean())), "%", "off measured"
            ),
            page.Number(
                "model alone, worst", page.percent(np.expm1(off.max())), "%", "off measured"
            ),
        ]
    return entries


def _collectives(profile: Profile, points: pd.DataFrame) -> list[page.Part]:
    places: list[tuple[Any, pd.DataFrame]] = sorted(
        points.groupby(["kind", "nodes", "gpus_per_node"], sort=False),
        key=lambda group: -len(group[1]),
    )
    kept = [(Place(*key), frame) for key, frame in places[: charts.MOST_LINES]]
    marks = pd.concat(
        [_place_points(i, place, frame) for i, (place, frame) in enumerate(kept)],
        ignore_index=True,
    )
    parts: list[page.Part] = []
    if len(places) > len(kept):
        parts.append(
            page.Notice(f"The charts have the {len(kept)} of {len(places)} with the most points.")
        )
    along = _sizes(marks["size"])
    return [*parts, _bandwidth(profile, kept, marks, along), _residuals(marks, along)]


def _place_points(index: int, place: Place, frame: pd.DataFrame) -> pd.DataFrame:
    look = charts.line_look(index)
    factor = place.bus_factor()
    size = frame["size_bytes"]
    return pd.DataFrame(
        {
            "line": place.name(),
            "size": size,
            "x": np.log2(size.astype(float)),
            "measured": factor * size / frame["time_us"],
            "model": factor * size / frame["model_us"],
            "off": 100 * (frame["time_us"] / frame["model_us"] - 1),
            "color": look["color"],
            "marker": look["marker"],
            "where": [f"{place.name()}, {size_text(each)}" for each in size],
        }
    )


def _sizes(sizes: pd.Series) -> charts.Places:
    low, high = np.floor(np.log2(sizes.min())), np.ceil(np.log2(sizes.max()))
    ticks = np.arange(low, high + 1, max(1, (high - low) // 10)).tolist()
    return charts.Places({}, ticks, [size_text(2.0**tick) for tick in ticks], "size", True)


def _bandwidth(
    profile: Profile,
    places: Sequence[tuple[Place, pd.DataFrame]],
    marks: pd.DataFrame,
    along: charts.Places,
) -> page.Figure:
    plot = charts.new_figure(
        "bandwidth-plot", y_label="bus bandwidth (GB/s)", y_range=DataRange1d(start=0)
    )
    charts.place_ticks(plot, along)
    charts.plain_numbers(plot.yaxis[0])
    curves, bands = [], []
    for place, frame in places:
        curve = curve_with_band(profile, profile.cluster, place, frame["size_bytes"])
        x = np.log2(curve["size_bytes"].to_numpy(float))
        curves.append((x, curve["busbw_gb_per_s"]))
        bands.append((x, curve["low"], curve["high"]))
    names = [place.name() for place, _ in places]
    charts.draw_bands(plot, dict(enumerate(bands)), names)
    charts.draw_lines(plot, curves, names)
    form = page.decimals(marks["measured"])
    drawn = marks.assign(
        y=marks["measured"],
        text=[f"{value:{form}} GB/s" for value in marks["measured"]],
        model_text=[f"{value:{form}} GB/s" for value in marks["model"]],
    )
    _hollow(
        plot,
        "bandwidth-points",
        drawn,
        [("", "@where"), ("measured", "@text"), ("model alone", "@model_text")],
    )
    return page.Figure(
        "bandwidth",
        "Bus bandwidth",
        "Measured (hollow) and predicted with this profile (lines), with the interval of 90 %. "
        "Where something was measured, the profile predicts the measurement; the fitted model "
        "alone is in the table.",
        plot,
        _size_table(marks, {"measured (GB/s)": "measured", "model alone (GB/s)": "model"}),
        {"measured (GB/s)": form, "model alone (GB/s)": form},
        keys=[
            *charts.line_keys(names),
            charts.area_key("90 % interval", style.GREY, opacity=0.3),
            charts.line_key("measured", "var(--ink)", marker="circle", hollow=True),
        ],
    )


def _residuals(marks: pd.DataFrame, along: charts.Places) -> page.Figure:
    plot = charts.new_figure("residual-plot", y_label="off by (%)")
    charts.place_ticks(plot, along)
    charts.plain_numbers(plot.yaxis[0])
    charts.zero_line(plot)
    drawn = marks.assign(y=marks["off"], text=[f"{value:+.2f} %" for value in marks["off"]])
    _hollow(plot, "residual-points", drawn, [("", "@where"), ("off by", "@text")])
    return page.Figure(
        "residuals",
        "What the model alone leaves",
        "Measured time over that of the fitted model, less one. Above 0 the machine was slower "
        "than the model.",
        plot,
        _size_table(marks, {"off by (%)": "off"}),
        {"off by (%)": "+.2f"},
        keys=charts.line_keys(list(dict.fromkeys(marks["line"]))),
    )


def _hollow(plot: Any, name: str, marks: pd.DataFrame, entries: Sequence[tuple[str, str]]) -> None:
    """Draw measured points, with what they say."""
    points = plot.scatter(
        "x", "y", source=charts.source(marks), marker="marker", size=8, line_color="color",
        fill_color=None, line_width=1.6, view=charts.chosen(), name=name,
    )  # fmt: skip
    plot.add_tools(charts.hover(entries, renderers=[points]))


def _size_table(marks: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "collective": marks["line"],
            "size": marks["size"].map(size_text),
            **{head: marks[column] for head, column in columns.items()},
        }
    )


def _parameters(profile: Profile) -> list[page.Part]:
    known = profile.parameters()
    shown = pd.DataFrame(
        {
            "parameter": known["name"],
            "value": known["value"].map(_quantity),
            "initial": known["initial"].map(_quantity),
            "fitted": [value is True for value in known["fitted"]],
            "90 % within": [_within(value) for value in known["deviation"]],
        }
    )
    return [
        page.Text(
            "What is not fitted is kept as it was: these measurements don't determine it. The last "
            "column is the factor by which a parameter may be off."
        ),
        page.Table("table-parameters", shown, label="parameters"),
    ]


def _quantity(value: Any) -> str:
    """Write a quantity with the digits that mean something."""
    number, _, unit = str(value).partition(" ")
    try:
        return f"{float(number):,.5g} {unit}".strip()
    except ValueError:
        return str(value)


def _within(deviation: Any) -> str:
    known = isinstance(deviation, (int, float)) and not np.isnan(deviation)
    return f"×/ {np.exp(1.645 * deviation):.4g}" if known else "–"


def _origin(profile: Profile) -> list[page.Part]:
    named = ("machine", "network", "library", "nccl", "choose", "date", "tool", "model_version")
    facts = [(name, str(profile[name])) for name in named if profile.get(name) not in (None, "")]
    parts: list[page.Part] = [page.Facts([("cluster", profile.cluster), *facts])]
    if sources := profile.get("sources", []):
        parts.append(page.Rows(pd.DataFrame(sources), {"rows": ",d"}, "files"))
    return parts
