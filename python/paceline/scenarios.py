"""Scenarios as plain dictionaries, with the keys that ``docs/scenario.md`` lists."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

from . import _core
from .errors import InputError, warn

Source: TypeAlias = Mapping[str, Any] | str | os.PathLike[str]
"""A JSON document: as a dictionary, or as the name of a file."""


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a scenario, or any other JSON file of Paceline, without checking what it says.

    Relative names in it start from its folder when the file is run, and from the current folder
    when the dictionary is.

    Raises
    ------
    InputError
        The file can't be read, or says a key twice.
    json.JSONDecodeError
        It is no JSON.
    """

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise InputError(
                f"{os.fspath(path)}: expected each key once, found {to_json(twice)} twice"
            )
        return found

    text = _core.read_file(os.fspath(path)).removeprefix("\ufeff")
    return json.loads(text, object_pairs_hook=members)


def examples() -> Path:
    """Return the folder with the examples, studies and validation sets that the package came with.

    >>> paceline.run(paceline.scenarios.examples() / "slow_gpu_64.json")

    Raises
    ------
    InputError
        The package isn't installed as a whole.
    """
    try:
        files = metadata.files("paceline") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.match("share/paceline/scenarios/slow_gpu_64.json"):
            return Path(os.path.normpath(file.locate())).parent
    raise InputError("expected examples that were installed with the package paceline, found none")


def edit(scenario: Source, pointer: str, value: Any) -> dict[str, Any]:
    """Return the scenario with another value at a JSON pointer; the original stays as it is.

    Where the pointer goes into something that the scenario names (a cluster, a model, a node),
    the name is first written out, as in a study.

    Parameters
    ----------
    scenario
        A dictionary or a file.
    pointer
        Such as ``/training/ddp/bucket_cap`` (RFC 6901).
    value
        What JSON can say; quantities are texts with their unit, ``"25 MiB"``.

    Raises
    ------
    InputError
        The pointer is malformed, or leads through a number or a text.
    """
    text, file_name = as_text(scenario)
    folder = os.path.dirname(file_name)  # noqa: PTH120 - of no name it is none, not "."
    return json.loads(_core.set_at(text, pointer, to_json(value), folder))


def presets() -> dict[str, list[str]]:
    """Names that a scenario may use: lists under ``gpus``, ``nodes``, ``models``, ``clusters``."""
    return json.loads(_core.presets())


def model_names() -> list[str]:
    """Names of the built-in models."""
    return presets()["models"]


def cluster_names() -> list[str]:
    """What ``cluster`` may be called: node presets, and built-in clusters."""
    return presets()["nodes"] + presets()["clusters"]


def preset(name: str) -> dict[str, Any]:
    """Return a GPU, node, cluster or model in full, to be changed; a node as a cluster of one.

    >>> cluster = paceline.scenarios.preset("dgx-h100")
    >>> cluster["node"]["nics"] = 4

    Raises
    ------
    InputError
        There is none of that name; with the nearest.
    """
    return json.loads(_core.preset(name))


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a scenario."""
    return json.loads(_core.schema())


def topology(cluster: Source) -> str:
    """Describe the devices and links of a cluster, as ``paceline topology`` prints them.

    Parameters
    ----------
    cluster
        A node preset, a built-in cluster, a file, or a dictionary.
    """
    return _core.topology(cluster_text(cluster))


def cluster_text(cluster: Source) -> str:
    """Write a cluster as the core reads it: a name, a file's name, or JSON."""
    return to_json(cluster) if isinstance(cluster, Mapping) else os.fspath(cluster)


def profile_document(source: Any) -> dict[str, str] | None:
    """Return a profile as an option of the core; warn if another model version fitted it."""
    if source is None:
        return None
    text, name = as_text(source)
    if remark := _core.remark_on_profile(text, name):
        warn(f"{name or 'profile'}: {remark}")
    return {"text": text, "file": name}


def warn_of_version(text: str, name: str) -> None:
    """Warn where a result of another model version is to be run again."""
    if remark := _core.remark_on_version(text, name):
        warn(f"{name or 'scenario'}: {remark}")


def as_word(value: Any) -> str | None:
    """Write an argument as the command line would have it."""
    return None if value is None else str(value)


def options_text(**options: Any) -> str:
    """Write what a function of the core is asked for; None stands for its default."""
    return to_json({name: value for name, value in options.items() if value is not None})


def settings_text(settings: Mapping[str, object] | None) -> str | None:
    """Write keys of ``training.collective``, but for those that are arguments."""
    for name in ("library", "nccl", "algorithm", "protocol"):
        if settings is not None and name in settings:
            raise InputError(f"expected the argument {name}, found the key", "settings")
    return to_json(settings) if settings else None


def to_json(value: Any) -> str:
    """Write JSON; numbers of numpy and paths are welcome.

    Raises
    ------
    InputError
        A number in it is none that JSON can say: NaN, or infinite.
    """
    try:
        return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)
    except ValueError:
        found = _not_finite(value)
        if found is None:  # it contains itself
            raise
        place, number = found
        raise InputError(f"expected a finite number, found {number}", place) from None


def _not_finite(value: Any, place: str = "") -> tuple[str, float] | None:
    """Find the first number that JSON can't say: where it is, as a JSON pointer, and what."""
    if isinstance(value, float):
        return None if math.isfinite(value) else (place, value)
    if isinstance(value, Mapping):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    elif hasattr(value, "tolist"):
        return _not_finite(value.tolist(), place)
    else:
        return None
    parts = ((str(key).replace("~", "~0").replace("/", "~1"), part) for key, part in items)
    return next(filter(None, (_not_finite(part, f"{place}/{key}") for key, part in parts)), None)


def as_text(source: Any) -> tuple[str, str]:
    """Return a document's text and, where it is a file, the file's name; else ""."""
    text = getattr(source, "text", None)
    if isinstance(text, str):  # a Profile or a Result: its own bytes
        return text, ""
    if isinstance(source, Mapping):
        return to_json(source), ""
    name = os.fspath(source)
    return _core.read_file(name), name


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):  # numpy's
        return value.tolist()
    if isinstance(value, range):
        return list(value)
    raise TypeError(f"{type(value).__name__} is nothing that JSON can say: {value!r}")


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file whose bytes are the text's."""
    Path(path).write_bytes(text.encode())
