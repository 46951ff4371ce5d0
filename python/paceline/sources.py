"""What a file or a folder holds, told by what is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from . import _core, studies
from .calibrate import Profile
from .errors import InputError
from .plot import traces
from .results import Result

SWEEP, RESULT, PROFILE, TRACE = "sweep", "result", "profile", "trace"
SCENARIO, STUDY, VALIDATION = "scenario", "study", "validation"


def read(path: Path) -> tuple[Any, str]:
    """Read a file or the folder of a sweep; return what it holds, and what that is.

    Raises
    ------
    InputError
        It can't be read, or it is none of Paceline's.
    """
    if path.is_dir():
        if traces.trace_files(path):
            return path, TRACE
        if not (path / "study.json").exists():
            message = "expected the folder of a sweep, which has study.json and results.jsonl"
            raise InputError(message, file=str(path))
        return studies.load(path), SWEEP
    if path.suffix == ".gz":
        return path, TRACE
    if path.name == "results.jsonl":
        raise InputError("expected the folder that this file of a sweep is in", file=str(path))
    text = _core.read_file(str(path))
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        why = error.msg[:1].lower() + error.msg[1:]
        raise InputError(f"expected a file of JSON, found none: {why}", place, str(path)) from error
    kind = kind_of(data)
    if kind == PROFILE:
        return Profile(text), kind
    if kind == RESULT:
        return Result(text), kind
    if kind:
        return data, kind
    raise InputError(
        "expected a scenario, a result, a profile, a validation, a trace or the folder of a sweep",
        file=str(path),
    )


def kind_of(data: Any) -> str:
    """Say what a JSON document is; nothing if it is none of Paceline's."""
    keys = data.keys() if isinstance(data, dict) else set()
    for kind, wanted in (
        (TRACE, {"traceEvents"}),
        (PROFILE, {"parameters"}),
        (RESULT, {"step_time_s"}),
        (RESULT, {"campaign", "fingerprint"}),
        (VALIDATION, {"sets", "holds"}),
        (STUDY, {"axes"}),
        (SCENARIO, {"cluster", "model"}),
    ):
        if wanted <= keys:
            return kind
    return ""
