"""``python -m paceline``: pictures, reports and sweeps on workers from the command line."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from . import _core, plot
from .errors import InputError
from .page import report
from .page.view import MOST_SLICES
from .plot.data import GPUS, table
from .results import Result, thread_count
from .scenarios import as_text
from .sources import PROFILE, RESULT, SWEEP, TRACE, read
from .studies import progress_bar
from .workers import sweep_with

OUR_FAULT, INPUT_FAULT, INTERRUPTED = 1, 2, 130
PORT = 8765
MOST_FAULTS = 5
SECONDS = 5.0  # between lines of progress in a file

# What can be drawn of what: --kind.
_DRAW: dict[str, dict[str, Callable[[Any], tuple[Figure, Any]]]] = {
    SWEEP: {
        "scaling": plot.scaling,
        "efficiency": plot.efficiency,
        "breakdown": plot.breakdown,
        "step": plot.step_time_and_breakdown,
        "stragglers": plot.stragglers,
        "goodput": plot.goodput,
    },
    RESULT: {
        "breakdown": plot.breakdown,
        "stragglers": plot.stragglers,
        "sensitivities": plot.sensitivities,
        "critical-path": plot.critical_path,
        "losses": plot.losses,
    },
    PROFILE: {"calibration": plot.calibration},
    TRACE: {"timeline": plot.timeline},
}
KINDS = list(dict.fromkeys(kind for kinds in _DRAW.values() for kind in kinds))


def main(arguments: list[str] | None = None) -> int:
    """Do what is asked; return the exit status: 0 done, 2 the input is wrong, 1 our fault."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options) or 0
    except (ValueError, OSError, ImportError) as error:  # InputError is a ValueError
        _remark(error)
        return INPUT_FAULT


def _remark(what: object) -> None:
    print(f"paceline: {what}", file=sys.stderr)


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


def _sweep(options: argparse.Namespace) -> int:
    warnings.showwarning = lambda message, *_: _remark(message)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is raised
    try:
        text, name = as_text("/dev/stdin" if options.study == "-" else options.study)
        with progress_bar(True, 0.1 if sys.stderr.isatty() else SECONDS) as tell:
            outcome, rates = sweep_with(options.dask, text, name, options.out, options.jobs, tell)
        found = json.loads(outcome)
        print(_core.Study(text, name).table(options.out) + found["summary"], end="")
        if not rates.empty:
            print(rates.to_string(index=False, float_format="%.1f"))
        for remark in found["remarks"] + found["faults"][:MOST_FAULTS]:
            _remark(remark)
        return OUR_FAULT if found["faults"] else INPUT_FAULT if found["failed"] else 0
    except RuntimeError as error:
        _remark(error)
        return OUR_FAULT
    except KeyboardInterrupt:
        _remark(f"{options.out}: stopped; the same sweep goes on from there")
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("paceline", description="Paceline's pictures and reports.")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser(
        "plot",
        help="Draw a sweep, results, a profile or a trace.",
        description="Draw what fits: a sweep over GPUs as scaling, another sweep as "
        "step time and breakdown, a result as its breakdown, several as scaling, a profile as "
        "calibration, a trace (a file or a folder) as a timeline; of campaigns whose step is "
        "given a sweep's goodput, a result's losses.",
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
    _add_sweep(commands)
    return parser


def _add_sweep(commands: Any) -> None:
    command = commands.add_parser(
        "sweep", help="Predict every point of a study on Dask's workers; without them: the program."
    )
    command.add_argument("study", metavar="STUDY")
    command.add_argument("--out", required=True, metavar="DIR", help="The folder for the results")
    command.add_argument(
        "--dask", required=True, metavar="ADDRESS", help="The scheduler's, or local"
    )
    command.add_argument(
        "--jobs",
        type=int,
        default=thread_count(None),
        metavar="N",
        help="Threads; with local processes",
    )
    command.set_defaults(run=_sweep)


def _read(paths: list[Path]) -> tuple[Any, str]:
    return read(paths[0]) if len(paths) == 1 else ([_result(path) for path in paths], SWEEP)


def _result(path: Path) -> Result:
    source, kind = read(path)
    if kind != RESULT:
        raise InputError(f"expected a result, found a {kind}", file=str(path))
    return source


def _fitting(source: Any, kind_of_source: str) -> str:
    if kind_of_source == SWEEP:
        points = table(source, None)
        if "step_time_mean_s" not in points.frame:  # campaigns whose step is given
            return "goodput"
        return "scaling" if points.main_axis() == GPUS else "step"
    if kind_of_source == RESULT and not source.has_steps:
        return "losses"
    return next(iter(_DRAW[kind_of_source]))


if __name__ == "__main__":
    sys.exit(main())
