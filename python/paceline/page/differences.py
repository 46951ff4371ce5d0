"""How the scenario of a sweep's point differs from its study's, and how to run it alone."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import studies
from ..errors import InputError
from ..plot.data import named
from ..studies import Sweep
from . import charts
from . import document as page


def details(sweep: Sweep) -> list[page.Detail]:
    """Say of each row of the sweep's frame how its scenario differs from the study's."""
    made = {_key(point["axes"]): point for point in study_points(sweep.study) or []}
    base = sweep.study.get("scenario", {})
    found = []
    for row in sweep.frame.to_dict("records"):
        point = {axis.name: _plain(row[axis.name]) for axis in sweep.axes}
        known = made.get(_key(point), {})
        point = known.get("axes", point)
        edits = {axis.key: point[axis.name] for axis in sweep.axes if axis.key.startswith("/")}
        if known.get("scenario") is not None:
            edits |= _others(base, known["scenario"], edits)
        before = {pointer: _at(base, pointer) for pointer in edits}
        changed = {p: value for p, value in edits.items() if before[p] != value}
        found.append(
            page.Detail(
                title=", ".join(named(name, value) for name, value in point.items()),
                heads=("key", "in the study's scenario", "here"),
                rows=[(p, _json(before[p]), _json(value)) for p, value in changed.items()],
                text=row["error"] if isinstance(row["error"], str) else "",
                code=_command(changed, sweep.study),
            )
        )
    return found


class _Nothing:
    """What a scenario doesn't say."""


def study_points(study: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return a study's points; None where files that its scenario names are gone.

    Its profile, whose name is relative to a folder that may be another one, changes no scenario.
    """
    try:
        return studies.points({**study, "profile": None})
    except (InputError, TypeError):  # half a character is no argument of the core
        return None


def _key(point: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what tells points apart: of 0 and 0.5 a column of results makes 0.0 and 0.5."""
    return tuple(map(charts.key, point.values()))


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
        if isinstance(scenario, dict) and key in scenario:
            scenario = scenario[key]
        elif isinstance(scenario, list) and key.isdecimal() and int(key) < len(scenario):
            scenario = scenario[int(key)]
        else:
            return _Nothing
    return scenario


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _json(value: Any) -> str:
    return "not stated" if value is _Nothing else json.dumps(value, ensure_ascii=False)


def _command(edits: Mapping[str, Any], study: Mapping[str, Any]) -> str:
    words = ["paceline", "run", "scenario.json"]
    for pointer, value in edits.items():
        words += ["--set", f"{pointer}={json.dumps(value, ensure_ascii=False)}"]
    if isinstance(study.get("profile"), str):
        words += ["--profile", study["profile"]]
        if study.get("allow_other_machine"):
            words.append("--allow-other-machine")
    return shlex.join(words)
