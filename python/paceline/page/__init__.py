"""Reports that open in a browser: one file of HTML, which loads nothing."""

from __future__ import annotations

import os

from ..studies import Sweep
from . import document, sweep


def report(source: Sweep, out: str | os.PathLike[str]) -> None:
    """Write a page."""
    document.write(out, sweep.title(source), source.description, sweep.sections(source))
