"""Measured collectives beside a profile's predictions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..calibrate import Profile, as_profile
from ..collectives import bus_factor, collective
from ..quantities import parse
from ..scenarios import Source, cluster_text
from . import style
from .data import wrong_kind

MOST_PLACES = 4


class Place(NamedTuple):
    """A collective on so many GPUs."""

    kind: str
    nodes: int
    gpus_per_node: int

    def name(self) -> str:
        """Say which this is."""
        size = (
            f"{self.nodes:,} × {self.gpus_per_node}" if self.nodes > 1 else f"{self.gpus_per_node}"
        )
        return f"{self.kind}, {size} GPUs"

    def bus_factor(self) -> float:
        """Bus bandwidth (GB/s) over bytes per µs."""
        return bus_factor(self.kind, self.nodes * self.gpus_per_node) * 1e-3


def calibration(
    profile: Source,
    *,
    measurements: pd.DataFrame | None = None,
    cluster: Source | None = None,
    kind: str | None = None,
) -> tuple[Figure, np.ndarray]:
    """Draw bus bandwidth (GB/s) over sizes, measured and predicted; below, by how much it differs.

    At the profile's own points the prediction is the measurement: there both pictures also have the
    fitted model alone.

    Parameters
    ----------
    profile
        A profile, a dictionary or a file. Its predictions have a band, the interval of 90 %.
    measurements
        As ``read_measurements`` gives them, perhaps others than were fitted; left out: the
        profile's own points.
    cluster
        What the profile is of: a name, a file or a dictionary; left out: what it says.
    kind
        One collective; left out: all, at most the four places with the most points.
    """
    if not isinstance(profile, (Mapping, str, os.PathLike)):
        raise wrong_kind("a profile", profile)
    known = as_profile(profile)
    where = cluster_text(cluster) if cluster is not None else known.cluster
    points = own_points(known, where) if measurements is None else _rows(measurements, known)
    if kind is not None:
        points = points[points["kind"] == kind]
    if points.empty:
        raise ValueError("no measured collective to draw")
    places = points.groupby(["kind", "nodes", "gpus_per_node"], sort=False)
    largest: list[tuple[Any, pd.DataFrame]] = sorted(places, key=lambda group: -len(group[1]))[
        :MOST_PLACES
    ]
    with style.style():
        return _draw(known, where, [(Place(*key), frame) for key, frame in largest])


def _rows(measurements: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    rows = measurements[(measurements["time_s"] > 0) & (measurements["condition"] == "")]
    node = max((point["gpus_per_node"] for point in profile.get("points", [])), default=8)
    nodes = rows["nodes"].where(rows["nodes"] > 0, -(-rows["gpus"] // node))  # 0: not stated
    return pd.DataFrame(
        {
            "kind": rows["collective"],
            "nodes": nodes,
            "gpus_per_node": rows["gpus"] // nodes,
            "size_bytes": rows["size_bytes"],
            "time_us": rows["time_s"] * 1e6,
        }
    )


def own_points(profile: Profile, cluster: str) -> pd.DataFrame:
    """Return what was fitted: the profile keeps ln(measured / model) of each point.

    ``model_us``: the fitted model alone, which is the prediction where no point says more.
    """
    kept = profile.get("points", [])
    bare = {**profile, "points": [{**point, "log_ratio": 0} for point in kept]}
    rows: list[pd.DataFrame] = []
    points = pd.DataFrame(kept)
    if points.empty:
        return points
    points["size_bytes"] = [int(parse(size).value) for size in points["bytes"]]  # type: ignore[union-attr]
    settings = [c for c in ("algorithm", "protocol", "nccl") if c in points]
    for name in settings:
        points[name] = points[name].fillna("")
    grouped = points.groupby(["collective", "nodes", "gpus_per_node", *settings], sort=False)
    groups: list[tuple[Any, pd.DataFrame]] = list(grouped)
    for key, group in groups:
        place = Place(*key[:3])
        chosen = dict(zip(settings, key[3:], strict=True))
        bare_nccl = chosen.pop("nccl", "") or None
        simulated = _predict(
            bare, cluster, place, list(group["size_bytes"]), nccl=bare_nccl, **chosen
        )
        rows.append(
            pd.DataFrame(
                {
                    "kind": place.kind,
                    "nodes": place.nodes,
                    "gpus_per_node": place.gpus_per_node,
                    "size_bytes": group["size_bytes"].to_numpy(),
                    "model_us": simulated["time_us"].to_numpy(),
                    "time_us": simulated["time_us"].to_numpy()
                    * np.exp(group["log_ratio"].to_numpy()),
                }
            )
        )
    return pd.concat(rows, ignore_index=True)


def _predict(
    profile: Any, cluster: str, place: Place, sizes: list[int], **options: Any
) -> pd.DataFrame:
    """Predict a collective of several sizes."""
    return collective(
        place.kind,
        cluster=cluster,
        nodes=place.nodes,
        gpus_per_node=place.gpus_per_node,
        sizes=sizes,
        library=profile.get("library", "nccl"),
        profile=profile,
        **options,
    )


def curve_with_band(
    profile: Any, cluster: str, place: Place, measured_sizes: pd.Series
) -> pd.DataFrame:
    """Predict bus bandwidth over the measured sizes, with its interval: ``low``, ``high``."""
    sizes = _sizes_between(measured_sizes.min(), measured_sizes.max())
    curve = _predict(profile, cluster, place, sizes)
    rate = place.bus_factor() * curve["size_bytes"]
    return curve.assign(low=rate / curve["high_us"], high=rate / curve["low_us"])


def _draw(
    profile: Profile, cluster: str, places: list[tuple[Place, pd.DataFrame]]
) -> tuple[Figure, np.ndarray]:
    figure, grid = style.new_figure(
        2, 1, height=5.4, sharex=True, gridspec_kw={"height_ratios": [3, 1.3]}
    )
    above, below = grid[:, 0]
    handles: list[Any] = []
    names: list[str] = []
    alone = "model_us" in places[0][1]  # what was fitted is predicted as measured
    for index, (place, measured) in enumerate(places):
        look = style.line_of(index)
        color, marker = look["color"], look["marker"]
        sizes = measured["size_bytes"]
        factor = place.bus_factor()
        curve = curve_with_band(profile, cluster, place, sizes)
        x = curve["size_bytes"]
        above.fill_between(x, curve["low"], curve["high"], color=color, alpha=0.18, lw=0)
        above.plot(x, curve["busbw_gb_per_s"], color=color, ls=look["linestyle"])
        points = {"color": color, "marker": marker, "mfc": "white", "ls": "none"}
        (handle,) = above.plot(sizes, factor * sizes / measured["time_us"], mew=1.4, **points)
        handles.append(handle)
        names.append(place.name())
        if alone:
            times = measured["model_us"]
            above.plot(sizes, factor * sizes / times, color=color, **_ALONE)
        else:
            times = _predict(profile, cluster, place, list(sizes))["time_us"]
        more = 100 * (measured["time_us"].to_numpy() / times.to_numpy() - 1)  # bandwidth
        below.plot(sizes, more, mew=1.2, ms=4.5, **points)
    if alone:
        handles.append(Line2D([], [], color=style.GREY, **_ALONE))
        names.append("the fitted model alone")
    above.set_ylabel("bus bandwidth (GB/s)")
    above.set_ylim(bottom=0)
    style.thousands(above.yaxis)
    below.axhline(0, color=style.GREY, lw=1)
    below.margins(y=0.15)
    below.set_ylabel(f"{'model alone' if alone else 'predicted'},\noff by (%)")
    below.yaxis.set_major_formatter(lambda value, _: f"{value:+.4g}" if value else "0")
    style.size_axis(below, [size for _, frame in places for size in frame["size_bytes"]])
    below.set_xlabel("size")
    style.title(
        above, f"{cluster_name(cluster)}: measured (points), predicted with 90 % interval (lines)"
    )
    style.legend(figure, handles, names)
    style.finish(figure)
    return figure, grid[:, 0]


_ALONE: dict[str, Any] = {"lw": 1.1, "ls": (0, (1, 1.5))}


def cluster_name(cluster: str) -> str:
    """Name a cluster shortly."""
    if cluster.startswith("{"):
        return "cluster"
    return Path(cluster).stem if cluster.endswith(".json") else cluster


def _sizes_between(low: int, high: int) -> list[int]:
    """Return sizes of the curve: four for each doubling, of whole KiB where they are large."""
    count = max(2, int(4 * np.log2(max(2.0, high / low))) + 1)
    sizes = np.geomspace(low, high, min(count, 200))
    return [
        int(size // 1024 * 1024) if size >= 65536 else max(4, int(size // 4 * 4)) for size in sizes
    ]
