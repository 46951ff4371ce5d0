"""Measurements, and profiles fitted to them."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import pandas as pd

from . import _core
from .errors import InputError
from .scenarios import (
    Source,
    as_text,
    as_word,
    cluster_text,
    options_text,
    profile_document,
    settings_text,
    write_text,
)

Paths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_COLUMNS = {
    "collectives": [
        *("collective", "size_bytes", "time_s", "gpus", "nodes", "nccl", "algorithm", "protocol"),
        *("channels", "nvls", "condition", "gpu_name", "fullest_node", "gpus_per_process"),
        *("wrong_values", "socket_threads", "sockets_per_thread", "not_modelled"),
        *("table", "file", "line"),
    ],
    "kernels": [
        *("kernel", "kind", "precision", "m", "n", "k", "work_flop", "traffic_bytes", "time_s"),
        *("device", "condition", "file", "line"),
    ],
    "layers": [
        *("layer", "forward_s", "backward_s", "update_s", "host_bound", "file", "line"),
    ],
    "training": [
        *("gpus", "nodes", "throughput_samples_per_s", "throughput_tokens_per_s"),
        *("batch_per_gpu", "accumulation", "table", "file", "line"),
    ],
    "remarks": ["text", "file", "line"],
}
_IN_A_CSV = {
    "kernel": "name",
    "throughput_samples_per_s": "throughput",
    "throughput_tokens_per_s": "tokens_per_s",
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
        """Read a profile's file; InputError where it is none."""
        name = os.fspath(path)
        text = _core.read_file(name)
        _core.remark_on_profile(text, name)  # refuses what is no profile
        return cls(text)

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
        of the slowest rank. What the file doesn't say is 0 or empty: GPUs, nodes, channels, a
        batch; or NaN: samples or tokens a second. ``fullest_node`` are the GPUs of the fullest node
        where nodes have unequal numbers, ``gpus_per_process`` those that one process drives,
        ``wrong_values`` 1 where the result was not what it should be (#wrong), ``socket_threads``
        and ``sockets_per_thread`` those of NCCL over TCP, ``not_modelled`` the settings and
        conditions that no prediction knows.

    Raises
    ------
    InputError
        A file that can't be read, or that holds no measurement.
    """
    if what not in _COLUMNS:
        raise ValueError(f"expected one of {', '.join(_COLUMNS)}, found {what!r}")
    data = json.loads(_core.import_files(_list(paths)))
    frame = pd.DataFrame(data[what], columns=_COLUMNS[what])
    rates = [column for column in _COLUMNS[what] if column.startswith("throughput")]
    return frame.astype(dict.fromkeys(rates, float))


def fit(
    paths: Paths | pd.DataFrame,
    *,
    cluster: Source,
    nccl: str | None = None,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    algorithm: str | None = None,
    protocol: str | None = None,
    settings: Mapping[str, object] | None = None,
    library: str = "nccl",
    scenario: Source | None = None,
    overlap: str = "stated",
) -> Profile:
    """Fit the model's parameters to measurements, as ``paceline calibrate fit`` does.

    Parameters
    ----------
    paths
        Files or folders, as :func:`read_measurements` reads them; or rows of what it returns.
    cluster
        What was measured: a node preset, a built-in cluster, a file, or a dictionary.
    nccl
        NCCL version of the measurements, where the files don't say.
    nodes, gpus_per_node
        That took part, where the files don't say.
    algorithm, protocol
        ``NCCL_ALGO`` and ``NCCL_PROTO`` as they were set, where the files don't say.
    settings
        Keys of ``training.collective`` as they were, likewise: ``{"socket_threads": 4}``.
    library
        "nccl", "mpi", "gloo" or "tensorflow".
    scenario
        Whose throughput rows these are, and on whose GPU the kernels ran: a file, or a dictionary,
        whose file names are absolute.
    overlap
        "stated": gradients are reduced as the scenario says; "unknown": perhaps after backward.

    Raises
    ------
    InputError
        Names the file, or the argument, that is wrong.
    """
    name = cluster_text(cluster)
    with _files(paths) as files, scenario_file(scenario) as scenario_name:
        options = options_text(
            paths=files,
            cluster=name,
            nccl=nccl,
            nodes=as_word(nodes),
            gpus_per_node=as_word(gpus_per_node),
            algorithm=algorithm,
            protocol=protocol,
            settings=settings_text(settings),
            library=library,
            scenario=scenario_name,
            overlap=overlap,
        )
        text, page = _core.fit(options)
    if isinstance(paths, pd.DataFrame):
        text, page = (_without_folder(part, files[0]) for part in (text, page))
    return Profile(text, page=page, cluster=name)


def as_profile(profile: Source) -> Profile:
    """Return a profile from a file or a dictionary."""
    if isinstance(profile, Profile):
        return profile
    if isinstance(profile, (str, os.PathLike)):
        return Profile.load(profile)
    text, _ = as_text(profile)
    return Profile(text)


def compare_measurements(
    paths: Paths | pd.DataFrame,
    *,
    cluster: Source,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    algorithm: str | None = None,
    protocol: str | None = None,
    settings: Mapping[str, object] | None = None,
    library: str = "nccl",
    nccl: str | None = None,
    profile: Source | None = None,
    allow_other_machine: bool = False,
) -> dict[str, Any]:
    """Put logs beside what the machine should take, as ``paceline calibrate compare`` does.

    Parameters
    ----------
    paths
        Files or folders, as :func:`read_measurements` reads them; or rows of what it returns.
    cluster
        What the machine should be: a node preset, a built-in cluster, a file, or a dictionary.
    nodes, gpus_per_node, nccl
        Where the logs don't say.
    algorithm, protocol
        ``NCCL_ALGO`` and ``NCCL_PROTO`` as they were set, where the logs don't say.
    settings
        Keys of ``training.collective`` as they were, likewise: ``{"socket_threads": 4}``.
    library
        What ran the collectives: "nccl", "mpi", "gloo" or "tensorflow".
    profile
        What calibration knows of such a machine.
    allow_other_machine
        Take the costs of a profile of another machine, instead of an error.

    Returns
    -------
    dict
        ``verdict`` in words, ``healthy``, the ``explanation`` if it isn't, and ``rows``:
        measured, predicted, the interval of 90 %, their ratio, and what it ran as.

    Raises
    ------
    InputError
        Names the file, or the argument, that is wrong.
    """
    return _judged(
        _core.compare_measurements, paths, cluster, nodes, gpus_per_node, algorithm, protocol,
        settings, library, nccl, profile, allow_other_machine,
    )  # fmt: skip


def diagnose(
    paths: Paths | pd.DataFrame,
    *,
    cluster: Source,
    nodes: int | None = None,
    gpus_per_node: int | None = None,
    algorithm: str | None = None,
    protocol: str | None = None,
    settings: Mapping[str, object] | None = None,
    library: str = "nccl",
    nccl: str | None = None,
    profile: Source | None = None,
    allow_other_machine: bool = False,
) -> dict[str, Any]:
    """Find the one fault or setting that explains logs best, as ``calibrate diagnose`` does.

    The arguments are those of :func:`compare_measurements`. ``ranked`` has the likeliest first,
    that nothing is wrong (no ``faults``) among them, each with ``log_odds`` against that.
    """
    return _judged(
        _core.diagnose, paths, cluster, nodes, gpus_per_node, algorithm, protocol,
        settings, library, nccl, profile, allow_other_machine,
    )  # fmt: skip


def _judged(
    judge: Callable[[str], str],
    paths: Paths | pd.DataFrame,
    cluster: Source,
    nodes: int | None,
    gpus_per_node: int | None,
    algorithm: str | None,
    protocol: str | None,
    settings: Mapping[str, object] | None,
    library: str,
    nccl: str | None,
    profile: Source | None,
    allow_other_machine: bool,
) -> dict[str, Any]:
    with _files(paths) as files:
        options = options_text(
            paths=files,
            cluster=cluster_text(cluster),
            nodes=as_word(nodes),
            gpus_per_node=as_word(gpus_per_node),
            algorithm=algorithm,
            protocol=protocol,
            settings=settings_text(settings),
            library=library,
            nccl=nccl,
            profile=profile_document(profile),
            allow_other_machine=allow_other_machine,
        )
        text = judge(options)
    return json.loads(_without_folder(text, files[0]) if isinstance(paths, pd.DataFrame) else text)


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


@contextlib.contextmanager
def _files(paths: Paths | pd.DataFrame) -> Iterator[list[str]]:
    """Name the files; a frame is one for as long as the core reads it."""
    if isinstance(paths, pd.DataFrame):
        with _written(_csv(paths), "DataFrame") as name:
            yield [name]
    else:
        yield _list(paths)


@contextlib.contextmanager
def scenario_file(scenario: Source | None) -> Iterator[str | None]:
    """Name a scenario's file; a dictionary is one for as long as the core reads it."""
    if scenario is None or isinstance(scenario, (str, os.PathLike)):
        yield None if scenario is None else os.fspath(scenario)
    else:
        with _written(as_text(scenario)[0], "scenario") as name:
            yield name


@contextlib.contextmanager
def _written(text: str, name: str) -> Iterator[str]:
    """Write a file that is soon removed: messages call it by its name alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)  # noqa: PTH118 - the core takes a text
        write_text(path, text)
        try:
            yield path
        except InputError as error:
            parts = (error.message, error.place, error.file)
            raise InputError(*(_without_folder(part, path) for part in parts)) from None


def _without_folder(text: str, path: str) -> str:
    return text.replace(path, os.path.basename(path))  # noqa: PTH119


def _csv(frame: pd.DataFrame) -> str:
    """Write rows of read_measurements under the names that a CSV's columns have."""
    named = frame.rename(columns=_IN_A_CSV)
    if "time_s" in named:
        named["time_us"] = [str(Decimal(repr(float(time))).scaleb(6)) for time in named["time_s"]]
    if "collective" in named and "condition" in named:  # no fit takes what ran beside others
        named = named[named["condition"].isna() | (named["condition"] == "")]
    return named.drop(columns=["file", "line"], errors="ignore").to_csv(index=False)
