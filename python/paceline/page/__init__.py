"""Reports that open in a browser: one file of HTML, which loads nothing."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..calibrate import Profile
from ..errors import InputError
from ..plot.data import wrong_kind
from ..results import Result
from ..scenarios import Source
from ..sources import PROFILE, RESULT, SCENARIO, STUDY, SWEEP, TRACE, VALIDATION, kind_of, read
from ..studies import Sweep
from .view import MOST_SLICES, look

if TYPE_CHECKING:
    from .document import Section

_PICTURES = {".pdf", ".png", ".svg", ".jpg", ".jpeg"}
_NO_PAGES = {*_PICTURES, ".json", ".csv"}

Reported: TypeAlias = Sweep | Profile | Result | Mapping[str, Any] | str | os.PathLike[str]


def report(
    source: Reported,
    out: str | os.PathLike[str],
    *,
    step: int | None = None,
    ranks: str | Sequence[int] | None = None,
    slices: int = MOST_SLICES,
    profile: Source | None = None,
    allow_other_machine: bool = False,
    explain: bool = True,
) -> None:
    """Write a report: one file of HTML for a browser, which loads nothing from anywhere.

    Parameters
    ----------
    source
        A scenario, a result, a sweep, a validation's report (``validate(...)[1]``) or a profile; or
        the name of its file, of a sweep that of its folder.
    out
        The file.
    step
        Of a run: the step of the timeline; left out: one that is as long as most.
    ranks
        Of a run: these in the timeline too, also as a text such as "0,37,100-107".
    slices
        Of a run: at most so many operations in the timeline.
    profile
        Of a run: what calibration knows of the machine, for intervals.
    allow_other_machine
        Take the costs of a profile of another machine, too.
    explain
        Of a run: also show what would change the step, by simulating again for each.

    Raises
    ------
    InputError
        The source can't be read or reported, or the file can't be written.
    """
    _need_bokeh()
    from . import document

    data, kind, file = _opened(source)
    if file is not None and Path(out).exists() and any(map(Path(out).samefile, _files(file))):
        raise InputError("expected another file than the source", "out", str(out))
    if (ending := Path(out).suffix.lower()) in _NO_PAGES:
        cure = "; a picture is paceline plot's" if ending in _PICTURES else ""
        raise InputError(
            f"expected a page for a browser, such as run.html, found {ending}{cure}",
            "out",
            str(out),
        )
    if kind != SCENARIO and kind != RESULT:
        _check_free(step=step, ranks=ranks, profile=profile)
        title, description, chapters = _chapters(data, kind, file)
    else:
        title, description, chapters = _of_run(
            data if file is None else file,
            step=step,
            ranks=ranks,
            slices=slices,
            profile=profile,
            allow_other_machine=allow_other_machine,
            explain=explain,
        )
    document.write(out, title, description, chapters)


def _need_bokeh() -> None:
    if find_spec("bokeh") is None:
        raise ImportError("a report needs Bokeh: pip install 'paceline[report]'")


def _opened(source: Reported) -> tuple[Any, str, Path | None]:
    """Return what is to be reported, what it is, and its file or folder."""
    for known, kind in ((Sweep, SWEEP), (Profile, PROFILE), (Result, RESULT)):
        if isinstance(source, known):
            return source, kind, None
    if isinstance(source, Mapping):
        kind = kind_of(source)
        if kind not in (SCENARIO, VALIDATION):
            message = "expected a scenario or a validation's report"
            raise InputError(f"{message}, found {f'a {kind}' if kind else 'something else'}")
        return source, kind, None
    if not isinstance(source, (str, os.PathLike)):
        raise wrong_kind("a scenario, a result, a sweep, a validation or a profile", source)
    path = Path(source)
    data, kind = read(path)
    cures = {
        TRACE: "a trace: `paceline plot` draws it",
        STUDY: "a study: `paceline sweep` makes the folder that is reported",
    }
    if kind in cures:
        message = "expected a scenario, a result, the folder of a sweep, a validation or a profile"
        raise InputError(f"{message}, found {cures[kind]}", file=str(path))
    return data, kind, path


def _files(source: Path) -> list[Path]:
    """Return a source's files, which a report must not overwrite."""
    return [source, *(source.iterdir() if source.is_dir() else ())]


def _check_free(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError("expected a scenario or a result, which alone have a timeline", name)


def _chapters(data: Any, kind: str, file: Path | None) -> tuple[str, str, list[Section]]:
    from . import profile, sweep, validation

    if kind == SWEEP:
        return sweep.title(data), data.description, sweep.sections(data)
    if kind == PROFILE:
        return profile.title(data), "", profile.sections(data)
    try:
        return validation.title(), "", validation.sections(data)
    except (KeyError, TypeError, StopIteration) as error:
        name = "" if file is None else str(file)
        message = "expected what `paceline validate --json` writes, found another form"
        raise InputError(message, file=name) from error


def _of_run(source: Any, **options: Any) -> tuple[str, str, list[Section]]:
    from . import run

    seen = look(source, **options)
    result = seen.result
    words = ["paceline", "run", str(source) if isinstance(source, Path) else "scenario.json"]
    profile = options["profile"]
    if profile is not None:
        words += ["--profile", "profile.json" if isinstance(profile, Mapping) else str(profile)]
        if options["allow_other_machine"]:
            words.append("--allow-other-machine")
    chapters = run.sections(
        result,
        seen.step,
        command=shlex.join(words),
        happened=seen.campaign,
        slices=options["slices"],
    )
    scenario = result.data["scenario"]
    return run.title(result), scenario.get("description", ""), chapters
