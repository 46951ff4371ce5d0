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
from . import document as page


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
