"""What a page is made of, and how it becomes one file of HTML that loads nothing."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from bokeh.document import Document
from bokeh.models.ui import UIElement
from bokeh.resources import Resources
from jinja2 import Environment, FunctionLoader, StrictUndefined

from .._core import VERSION
from ..errors import InputError
from ..quantities import parse

MOST_ROWS = 500  # of a plain table
MOST_LETTERS = 160  # of a text that is shown at once; the rest unfolds


class Number(NamedTuple):
    """One headline number: what it is, its value as it is printed, its unit, and a remark."""

    label: str
    value: str
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class Numbers:
    """Headline numbers side by side."""

    kind: ClassVar[str] = "numbers"
    entries: Sequence[Number]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Notice:
    """A paragraph that a reader must not miss."""

    kind: ClassVar[str] = "notice"
    text: str


@dataclass(frozen=True)
class Code:
    """Text to be copied: a command, a scenario."""

    kind: ClassVar[str] = "code"
    text: str
    label: str = "code"  # what it is, for who can't see it


@dataclass(frozen=True)
class Facts:
    """Terms with what they are: pairs of texts."""

    kind: ClassVar[str] = "facts"
    entries: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Details:
    """Parts that unfold."""

    kind: ClassVar[str] = "details"
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Rows:
    """A plain table. Columns' names are its headers; numbers are written by ``formats``."""

    kind: ClassVar[str] = "rows"
    frame: pd.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)
    label: str = "table"  # what it holds, for who can't see it

    @property
    def shown(self) -> Cells:
        """The rows that are printed."""
        return cells(self.frame.head(MOST_ROWS), self.formats)


@dataclass(frozen=True)
class Detail:
    """What a row says more in a window of its own."""

    title: str
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    text: str = ""
    code: str = ""


@dataclass(frozen=True)
class Table:
    """A table that sorts and filters, in pages; a row may open its ``details``."""

    kind: ClassVar[str] = "table"
    name: str
    frame: pd.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)
    label: str = "table"
    details: Sequence[Detail] = ()  # of each row, or none
    opens: str = ""  # what the button of a row is called: "Difference"

    @property
    def payload(self) -> dict[str, Any]:
        """What page.js reads."""
        written = cells(self.frame, self.formats)
        return {
            "columns": written.columns,
            "numeric": written.numeric,
            "rows": written.rows,
            "ranks": [_ranks(self.frame.iloc[:, i]) for i in range(self.frame.shape[1])],
            "details": [vars(detail) for detail in self.details],
            "opens": self.opens,
        }


@dataclass(frozen=True)
class Key:
    """An entry of a legend; ``svg`` is its sign. ``line``: what a click hides, if anything."""

    label: str
    svg: str
    line: str = ""


@dataclass(frozen=True)
class Select:
    """A choice: of all data of the figure whose source has the column, one value is shown.

    Renderers that follow have the view of ``charts.chosen``.
    """

    label: str
    column: str
    values: Sequence[str]
    all_of_them: str = ""  # the entry that shows all, if there is one


@dataclass(frozen=True)
class Choice:
    """What the chart hears of as an event: a list, or a checkbox where there are no values.

    The event's value is the key that was chosen; of a checkbox, whether it is set, as at first.
    """

    label: str
    event: str
    values: Mapping[str, str] = field(default_factory=dict)  # what one reads, by key


@dataclass(frozen=True)
class Figure:
    """A chart, what one sees in it, and its numbers as a table."""

    kind: ClassVar[str] = "figure"
    name: str  # in the page
    title: str
    caption: str
    plot: UIElement
    table: pd.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)
    keys: Sequence[Key] = ()
    selects: Sequence[Select] = ()
    choices: Sequence[Choice] = ()
    navigable: bool = False  # arrows pan, + and - zoom, Home resets; and buttons that do the same
    tall: bool = False  # and there is more above and below
    opens: str = ""  # the table whose details a click on a point opens: by its column "row"

    @property
    def rows(self) -> Rows:
        """The table under the chart."""
        return Rows(self.table, self.formats, f"{self.title}: numbers")


Part = Numbers | Text | Notice | Code | Facts | Details | Rows | Table | Figure


@dataclass(frozen=True)
class Section:
    """A chapter of the page."""

    name: str
    title: str
    parts: Sequence[Part]


class Cells(NamedTuple):
    """A frame as texts."""

    columns: list[str]
    numeric: list[bool]
    rows: list[list[str]]


def cells(frame: pd.DataFrame, formats: Mapping[str, str]) -> Cells:
    """Write a frame's values, numbers by their column's format."""
    columns = [
        [cell_text(value, formats.get(str(name), "")) for value in frame.iloc[:, place]]
        for place, name in enumerate(frame.columns)
    ]
    return Cells(
        [str(name) for name in frame.columns],
        [_numeric(frame.iloc[:, place]) for place in range(frame.shape[1])],
        [list(row) for row in zip(*columns, strict=True)],
    )


def cell_text(value: Any, form: str = "") -> str:
    """Write one value; what is missing is a dash."""
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return format(value, form or (",.4g" if isinstance(value, float) else ",d"))


def joined(*texts: str) -> str:
    """Join those that say something."""
    return ", ".join(filter(None, texts))


def rounded(value: float) -> str:
    """Write a number with four digits, or all that stand before the point."""
    return f"{value:,.4g}" if abs(value) < 1e3 else f"{value:,.0f}"


def percent(share: float) -> str:
    """Write a share as percent: with a digit behind the point, where it is below 100."""
    return rounded(100 * share) if share >= 1 else f"{100 * share:.1f}"


def time_text(seconds: float) -> str:
    """Write a time in ms, or in s from one on."""
    return f"{rounded(seconds)} s" if seconds >= 1 else f"{rounded(seconds * 1e3)} ms"


def decimals(values: pd.Series, digits: int = 4) -> str:
    """Return the format that gives the smallest of a column's values as many digits."""
    sizes = values.astype(float).abs()
    least = sizes[sizes > 0].min()
    places = 0 if np.isnan(least) else int(np.clip(digits - 1 - np.floor(np.log10(least)), 0, 6))
    return f",.{places}f"


def page(title: str, description: str, sections: Sequence[Section], *, live: bool = False) -> str:
    """Write a page."""
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=title,
            description=description,
            sections=sections,
            version=VERSION,
            live=live,
            style=read("page.css"),
            script=read("page.js"),
            library=_library(),
            plots=for_script(plots([part for section in sections for part in section.parts])),
        )
    )


def fragment(parts: Sequence[Part]) -> str:
    """Write parts as they stand in a page."""
    module: Any = _environment().get_template("parts.html").module
    return "".join(str(module.draw(part)) for part in parts)


def plots(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the charts of parts as page.js takes them."""
    document = Document()
    shown = figures(parts)
    for figure in shown:
        document.add_root(figure.plot)
    return {
        "document": document.to_json(deferred=False),
        "figures": [figure.name for figure in shown],
    }


def write(
    path: str | os.PathLike[str], title: str, description: str, sections: Sequence[Section]
) -> None:
    """Write a page to a file."""
    text = page(title, description, sections)
    try:
        Path(path).write_bytes(text.encode("utf-8", "replace"))  # JSON may hold half a character
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(f"expected a file that can be written: {why}", file=str(path)) from error


def figures(parts: Sequence[Part]) -> list[Figure]:
    """Return the figures of parts, in order."""
    found: list[Figure] = []
    for part in parts:
        if isinstance(part, Figure):
            found.append(part)
        elif isinstance(part, Details):
            found += figures(part.parts)
    return found


def for_script(value: Any) -> str:
    """Write JSON that can stand in a script element: nothing in it ends the element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


@cache
def read(name: str) -> str:
    """Read a file of this package."""
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    return Resources(mode="inline", components=["bokeh"]).js_raw[0]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(read),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["for_script"] = for_script
    environment.globals["letters"] = MOST_LETTERS
    environment.globals["most_rows"] = MOST_ROWS
    return environment


def _numeric(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)


def _ranks(values: pd.Series) -> list[int]:
    """Where each value stands when the column is sorted; what is missing is last."""
    if not _numeric(values):
        quantities = [parse(value) for value in values]
        units = {quantity and quantity.unit for quantity in quantities}
        if None not in units and len(units) == 1:
            values = pd.Series([quantity.value for quantity in quantities if quantity])
        else:
            values = values.map(cell_text).str.casefold()
    return [int(rank) for rank in values.rank(method="dense", na_option="bottom")]
