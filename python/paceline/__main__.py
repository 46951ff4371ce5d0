"""``python -m paceline plot``: pictures from the command line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from . import _core, plot, studies
from .calibrate import Profile
from .errors import InputError
from .plot import traces
from .plot.data import GPUS, table
from .results import Result

INPUT_FAULT = 2


SWEEP, RESULT, PROFILE, TRACE = "sweep", "result", "profile", "trace"  # what a source holds

# What can be drawn of what: --kind.
_DRAW: dict[str, dict[str, Callable[[Any], tuple[Figure, Any]]]] = {
    SWEEP: {
        "scaling": plot.scaling,
        "efficiency": plot.efficiency,
        "breakdown": plot.breakdown,
        "step": plot.step_time_and_breakdown,
        "stragglers": plot.stragglers,
    },
    RESULT: {
        "breakdown": plot.breakdown,
        "stragglers": plot.stragglers,
        "sensitivities": plot.sensitivities,
        "critical-path": plot.critical_path,
    },
    PROFILE: {"calibration": plot.calibration},
    TRACE: {"timeline": plot.timeline},
}
KINDS = list(dict.fromkeys(kind for kinds in _DRAW.values() for kind in kinds))


def main(arguments: list[str] | None = None) -> int:
    """Draw; return the exit status: 0 done, 2 the input is wrong."""
    options = _parser().parse_args(arguments)
    try:
        source, kind_of_source = _read(options.source)
        kind = options.kind or _fitting(source, kind_of_source)
        draw = _DRAW[kind_of_source].get(kind)
        if draw is None:
            known = ", ".join(_DRAW[kind_of_source])
            raise InputError(f"expected {known} of a {kind_of_source}, found {kind}", "--kind")
        figure, _ = draw(source)
        plot.save(figure, options.out)
    except (ValueError, OSError) as error:  # InputError is a ValueError
        print(f"paceline: {error}", file=sys.stderr)
        return INPUT_FAULT
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("paceline", description="Paceline's pictures.")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser(
        "plot",
        help="Draw a sweep, results, a profile or a trace.",
        description="Draw what fits: a sweep over GPUs as scaling, another sweep as "
        "step time and breakdown, a result as its breakdown, several as scaling, a profile as "
        "calibration, a trace (a file or a folder) as a timeline.",
    )
    command.add_argument("source", nargs="+", metavar="DIR|FILE", type=Path)
    command.add_argument(
        "-o", "--out", required=True, metavar="FILE", help="The picture: .svg, .png, .pdf ..."
    )
    command.add_argument("--kind", choices=KINDS, help="This picture instead of what fits")
    return parser


def _read(paths: list[Path]) -> tuple[Any, str]:
    if len(paths) > 1:
        return [_result(path) for path in paths], SWEEP
    path = paths[0]
    if path.is_dir():
        return (path, TRACE) if traces.trace_files(path) else (studies.load(path), SWEEP)
    if path.suffix == ".gz":
        return path, TRACE
    text = _core.read_file(str(path))
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(error.msg, place, str(path)) from error
    keys = data if isinstance(data, dict) else {}
    if "traceEvents" in keys:
        return data, TRACE
    if "parameters" in keys:
        return Profile(text), PROFILE
    if "step_time_s" in keys:
        return Result(text), RESULT
    raise InputError(
        "expected a result, a profile, a trace or the folder of a sweep", file=str(path)
    )


def _result(path: Path) -> Result:
    source, kind = _read([path])
    if kind != RESULT:
        raise InputError(f"expected a result, found a {kind}", file=str(path))
    return source


def _fitting(source: Any, kind_of_source: str) -> str:
    if kind_of_source == SWEEP:
        return "scaling" if table(source, None).main_axis() == GPUS else "step"
    return next(iter(_DRAW[kind_of_source]))


if __name__ == "__main__":
    sys.exit(main())
