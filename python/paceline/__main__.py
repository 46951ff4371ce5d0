"""``python -m paceline``: pictures and reports from the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from . import plot
from .errors import InputError
from .page import report
from .page.view import MOST_SLICES
from .plot.data import GPUS, table
from .results import Result
from .sources import PROFILE, RESULT, SWEEP, TRACE, read

INPUT_FAULT = 2
PORT = 8765

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
    """Draw or report; return the exit status: 0 done, 2 the input is wrong."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, OSError, ImportError) as error:  # InputError is a ValueError
        print(f"paceline: {error}", file=sys.stderr)
        return INPUT_FAULT
    return 0


def _plot(options: argparse.Namespace) -> None:
    source, kind_of_source = _read(options.source)
    draws = _DRAW.get(kind_of_source)
    if draws is None:
        expected = "expected a result, a profile, a trace or the folder of a sweep"
        raise InputError(f"{expected}, found a {kind_of_source}", file=str(options.source[0]))
    kind = options.kind or _fitting(source, kind_of_source)
    if kind not in draws:
        known = ", ".join(draws)
        raise InputError(f"expected {known} of a {kind_of_source}, found {kind}", "--kind")
    figure, _ = draws[kind](source)
    plot.save(figure, options.out)


def _report(options: argparse.Namespace) -> None:
    if options.serve is not None:
        from .page import live

        live.serve(options.source, options.serve)
    elif options.out is None:
        raise InputError("expected -o FILE, or --serve", "--out")
    else:
        report(
            options.source,
            options.out,
            step=options.step,
            ranks=options.ranks,
            slices=options.slices,
            profile=options.profile,
            allow_other_machine=options.allow_other_machine,
            explain=not options.no_explain,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("paceline", description="Paceline's pictures and reports.")
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
    command.set_defaults(run=_plot)
    command = commands.add_parser(
        "report",
        help="Write a page for a browser: of a run, a sweep, a validation or a profile.",
        description="Write one file of HTML, which loads nothing from anywhere: of a scenario or a "
        "result.json, the folder of a sweep, what `paceline validate --json` wrote, or a profile.",
    )
    command.add_argument("source", metavar="DIR|FILE", type=Path)
    command.add_argument("-o", "--out", metavar="FILE", help="The page")
    command.add_argument("--step", type=int, metavar="N", help="Of a run: the timeline's step")
    command.add_argument("--ranks", metavar="0,37,100-107", help="Of a run: these ranks too")
    command.add_argument(
        "--slices",
        type=int,
        default=MOST_SLICES,
        metavar="N",
        help="Of a run: at most in the timeline",
    )
    command.add_argument("--profile", metavar="FILE", help="Of a run: for intervals")
    command.add_argument(
        "--allow-other-machine", action="store_true", help="The profile may be of another machine"
    )
    command.add_argument(
        "--no-explain", action="store_true", help="Of a run: without what would change the step"
    )
    command.add_argument(
        "--serve",
        type=int,
        nargs="?",
        const=PORT,
        metavar="PORT",
        help=f"Show a sweep that runs, on this machine alone; {PORT} if left out",
    )
    command.set_defaults(run=_report)
    return parser


def _read(paths: list[Path]) -> tuple[Any, str]:
    return read(paths[0]) if len(paths) == 1 else ([_result(path) for path in paths], SWEEP)


def _result(path: Path) -> Result:
    source, kind = read(path)
    if kind != RESULT:
        raise InputError(f"expected a result, found a {kind}", file=str(path))
    return source


def _fitting(source: Any, kind_of_source: str) -> str:
    if kind_of_source == SWEEP:
        return "scaling" if table(source, None).main_axis() == GPUS else "step"
    return next(iter(_DRAW[kind_of_source]))


if __name__ == "__main__":
    sys.exit(main())
