"""Measurements, and profiles fitted to them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import pandas as pd

from . import _core
from .scenarios import Source, as_text, cluster_text, options_text, write_text

Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_COLUMNS = {
    "collectives": [
        *("collective", "size_bytes", "time_s", "gpus", "nodes", "nccl", "algorithm", "protocol"),
        *("condition", "table", "file", "line"),
    ],
    "kernels": [
        *("kernel", "kind", "precision", "m", "n", "k", "work_flop", "traffic_bytes", "time_s"),
        *("device", "condition", "file", "line"),
    ],
    "layers": [
        *("layer", "forward_s", "backward_s", "update_s", "host_bound", "file", "line"),
    ],
    "training": ["gpus", "nodes", "throughput_samples_per_s", "table", "file", "line"],
    "remarks": ["text", "file", "line"],
}


class Profile(Mapping[str, Any]):
    """What calibration knows of a machine: fitted parameters, and how far predictions may be off.

    Reads like the dictionary that its file holds.
    """

    def __init__(self, text: str, *, page: str = "", cluster: str | None = None) -> None:
        self.text = text
        """The bytes that ``paceline calibrate fit`` writes."""
        self.page = page
        """What ``paceline calibrate fit`` prints: what was found, fitted and left out."""
        self._data: dict[str, Any] = json.loads(text)
        self.cluster = cluster if cluster is not None else self._data.get("cluster", "")
        """What was fitted: a preset's name, a file, or the JSON of a cluster."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Profile:
        """Read a profile's file."""
        return cls(_core.read_file(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file that ``--profile`` takes."""
        write_text(path, self.text)

    def parameters(self) -> pd.DataFrame:
        """A row per parameter: ``name``, ``value``, ``initial``, ``fitted``, ``deviation``.

        Values have their units; the deviation is the standard one, of the logarithm.
        """
        rows = [
            {"name": name, **(entry if isinstance(entry, dict) else {"value": entry})}
            for name, entry in self._data["parameters"].items()
        ]
        return pd.DataFrame(rows, columns=["name", "value", "initial", "fitted", "deviation"])

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"<Profile of {self.cluster}: {len(self._data.get('points', []))} points>"


def read_measurements(paths: Paths, what: str = "collectives") -> pd.DataFrame:
    """Read nccl-tests' output or JSON, CSV, and profilers' traces.

    Parameters
    ----------
    paths
        Files, or folders of them.
    what
        "collectives", "kernels", "layers", "training", or "remarks": rows that could not be used
        as they stand.

    Returns
    -------
    DataFrame
        A row per measurement, with ``file`` and ``line`` that it comes from. Times are in seconds,
        of the slowest rank; 0 GPUs or nodes: the file doesn't say.

    Raises
    ------
    InputError
        A file that can't be read, or that holds no measurement.
    """
    if what not in _COLUMNS:
        raise ValueError(f"expected one of {', '.join(_COLUMNS)}, found {what!r}")
    data = json.loads(_core.import_files(_list(paths)))
    return pd.DataFrame(data[what], columns=_COLUMNS[what])


def fit(
    paths: Paths,
    *,
    cluster: Source,
    nccl: str | None = None,
    library: str = "nccl",
    scenario: str | os.PathLike[str] | None = None,
    overlap: str = "stated",
) -> Profile:
    """Fit the model's parameters to measurements, as ``paceline calibrate fit`` does.

    Parameters
    ----------
    paths
        Files or folders, as :func:`read_measurements` reads them.
    cluster
        What was measured: a node preset, a built-in cluster, a file, or a dictionary.
    nccl
        NCCL version of the measurements, where the files don't say.
    library
        "nccl" or "mpi".
    scenario
        A file: whose throughput rows these are, and on whose GPU the kernels ran.
    overlap
        "stated": gradients are reduced as the scenario says; "unknown": perhaps after backward.

    Raises
    ------
    InputError
        Names the file, or the argument, that is wrong.
    """
    name = cluster_text(cluster)
    options = options_text(
        paths=_list(paths),
        cluster=name,
        nccl=nccl,
        library=library,
        scenario=None if scenario is None else os.fspath(scenario),
        overlap=overlap,
    )
    text, page = _core.fit(options)
    return Profile(text, page=page, cluster=name)


def as_profile(profile: Source) -> Profile:
    """Return a profile from a file or a dictionary."""
    if isinstance(profile, Profile):
        return profile
    text, _ = as_text(profile)
    return Profile(text)


def validate(paths: Paths = "scenarios/validation") -> tuple[bool, dict[str, Any]]:
    """Compare predictions with measurements that were not fitted.

    Returns whether every tolerance holds, and the report of ``paceline validate --json``.
    """
    holds, text = _core.validate(_list(paths))
    return holds, json.loads(text)


def _list(paths: Paths) -> list[str]:
    if isinstance(paths, (str, os.PathLike)):
        return [os.fspath(paths)]
    return [os.fspath(path) for path in paths]
