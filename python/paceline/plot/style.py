"""One style for all pictures: colours of Okabe and Ito; markers and lines that differ in print."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from ..errors import InputError
from ..quantities import number_text, parse, size_text, value_text

# Okabe and Ito, "Color Universal Design", 2008, without the yellow: it is pale on white.
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "<", ">", "*"]
DASHES: list[Any] = ["-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (9, 2))]
GREY = "#666666"

# Parts of a step: a colour and a hatch each, wherever they appear.
PARTS: dict[str, tuple[str, str, str]] = {
    "compute": ("compute", "#0072B2", ""),
    "exposed_communication": ("exposed communication", "#E69F00", "//"),
    "straggler_wait": ("waiting for stragglers", "#D55E00", "xx"),
    "server_wait": ("waiting for servers", "#009E73", "oo"),
    "input_wait": ("waiting for input", "#CC79A7", ".."),
    "other": ("other", "#BBBBBB", "--"),
}

WIDTH, HEIGHT = 7.0, 4.5  # in
MOST_LINES = 3  # of a name at a tick
MOST_TICKS = 8  # of which each counts
_RC: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "DejaVu Sans",  # matplotlib's own: the same everywhere
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.7,
    "lines.markersize": 5.5,
    "hatch.linewidth": 0.5,
    "hatch.color": "white",
    "svg.hashsalt": "paceline",
    "figure.dpi": 100,
    "savefig.dpi": 150,
}


@contextmanager
def style() -> Iterator[None]:
    """What is drawn inside has Paceline's style; nothing outside changes."""
    with mpl.rc_context(_RC):
        yield


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = WIDTH, height: float = HEIGHT, **keys: Any
) -> tuple[Figure, np.ndarray]:
    """Return a figure without pyplot's global state, and its axes as a two-dimensional array."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **keys)
    return figure, axes


def line_of(index: int) -> dict[str, Any]:
    """Colour, marker and dashes of the n-th line; no two of the first 35 are alike."""
    return {
        "color": COLORS[index % len(COLORS)],
        "marker": MARKERS[index % len(MARKERS)],
        "linestyle": DASHES[(index + index // len(COLORS)) % len(DASHES)],
    }


def thousands(axis: Any) -> None:
    """Plain numbers with separators on an axis, where it is linear or logarithmic."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))


def numeric_axis(axes: Axes, values: Sequence[Any], label: str) -> np.ndarray:
    """Set up the x axis for an axis of a study, and return where its values lie.

    GPUs, and whatever grows by factors, are on a logarithmic axis with ticks at the values;
    what is no number stands side by side.
    """
    known = list(dict.fromkeys(map(_hashable, values)))
    parsed = [parse(value) for value in known]
    units = {quantity.unit for quantity in parsed if quantity is not None}
    texts, unit = tick_texts(known)
    axes.set_xlabel(f"{label} ({unit})" if unit else label)
    if None in parsed or len(units) > 1:
        axes.set_xticks(range(len(known)), texts)
        axes.set_xlim(-0.5, len(known) - 0.5)
        return np.array([known.index(_hashable(value)) for value in values], float)
    numbers = [quantity.value for quantity in parsed if quantity is not None]
    positions = np.array([parse(value).value for value in values])  # type: ignore[union-attr]
    if min(numbers) > 0 and max(numbers) >= 4 * min(numbers):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
    order = np.argsort(numbers)
    axes.set_xticks([numbers[i] for i in order], [texts[i] for i in order])
    return positions


def tick_texts(values: Sequence[Any]) -> tuple[list[str], str]:
    """Write values for ticks; the unit apart where all quantities have the same one."""
    parsed = [parse(value) for value in values]
    if all(quantity and quantity.unit for quantity in parsed):
        pairs = [str(value).split(maxsplit=1) for value in values]
        units = {pair[-1] for pair in pairs}
        if len(units) == 1 and all(len(pair) == 2 for pair in pairs):
            return [number for number, _ in pairs], units.pop()
    return [value_text(value) for value in values], ""


def _hashable(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, (int, float, str, bool)) else value_text(value)


def log_y(axes: Axes) -> None:
    """Make y logarithmic with plain numbers; on a short one also 2 and 5 of each decade."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    short = high / low < 300
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if short else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    thousands(axes.yaxis)


def size_axis(axes: Axes, sizes: Sequence[float]) -> None:
    """A logarithmic x axis of sizes in bytes, with ticks at powers of two."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = np.floor(np.log2(min(sizes))), np.ceil(np.log2(max(sizes)))
    ticks = 2.0 ** np.arange(low, high + 1)
    axes.set_xticks(ticks, [size_text(tick) for tick in ticks])


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Cut names that are too long, so that no two different ones look alike."""
    longest = max(map(len, names), default=0)
    alike = len(os.path.commonprefix(list(names)))  # noqa: RUF071 - of letters, not of folders
    for width in range(most, longest):
        for begin in (0, max(0, alike - width // 4)):  # the ends; else where they begin to differ
            cut = [_cut(name, width, begin) for name in names]
            if len(set(cut)) == len(set(names)):
                return cut
    return list(names)


def _cut(name: str, most: int, begin: int) -> str:
    if len(name) <= most:
        return name
    if begin == 0:
        return name[: most // 2] + " … " + name[-(most // 2 - 3) :]
    kept = name[begin : begin + most - 4].strip()
    return "… " + kept + (" …" if begin + most - 4 < len(name) else "")


def legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Put a legend below the axes, where it hides nothing, in as many columns as fit."""
    if not handles:
        return
    room = figure.get_figwidth() - 0.15
    longest = int((room - 0.66) / _inches("m" * 10) * 13)  # characters of a line: most are narrower
    names = ["\n".join(textwrap.wrap(label, longest)) for label in shortened(labels, 3 * longest)]
    width = max(map(_inches, names)) + 0.66  # of an entry, with its handle
    columns = max(1, min(len(names), int(room / width)))
    rows = -(-sum(name.count("\n") + 1 for name in names) // columns)
    figure.set_figheight(figure.get_figheight() + 0.2 * max(0, rows - 2))
    figure.legend(
        list(handles),
        names,
        loc="outside lower center",
        ncols=columns,
        handlelength=2.8,
        columnspacing=1.4,
        borderpad=0.1,
    )


def _inches(text: str) -> float:
    size = mpl.rcParams["legend.fontsize"]
    return (
        max(TextPath((0, 0), line, size=size).get_extents().width for line in text.split("\n")) / 72
    )


def title(axes: Axes, text: str, *, inches: float = WIDTH) -> None:
    """Set a title, wrapped to the width of the picture."""
    axes.set_title("\n".join(textwrap.wrap(text, max(20, int((inches - 0.9) * 12.5)))))


def finish(figure: Figure) -> None:
    """Thin out tick labels until none touches its neighbour; break names, or else turn them."""
    for _ in range(2):  # what is thinned changes the layout
        figure.draw_without_rendering()
        for axes in figure.axes:
            _thin(figure, axes)


def _thin(figure: Figure, axes: Axes) -> None:
    axis = axes.xaxis
    labels = axes.get_xticklabels()
    if not isinstance(axis.get_major_locator(), FixedLocator) or not any(
        label.get_visible() for label in labels
    ):
        return
    ticks = list(axes.get_xticks())
    texts = [label.get_text() for label in labels]
    boxes = [label.get_window_extent() for label in labels]
    shown = [(t, s, b) for t, s, b in zip(ticks, texts, boxes, strict=True) if s]
    gap = 0.06 * figure.dpi
    numeric = axes.get_xscale() == "log" or all(parse(_plain(text)) for _, text, _ in shown)
    if not numeric:
        if any(a.x1 + gap > b.x0 for (*_, a), (*_, b) in pairwise(shown)):
            _make_room(axes, gap)
        return
    kept = _apart(sorted(shown, key=lambda entry: -entry[2].x0), gap)  # the largest stays
    named = {tick: text for tick, text, _ in kept}
    axes.set_xticks(ticks, [named.get(tick, "") for tick in ticks])


def _apart(entries: list[Any], gap: float) -> list[Any]:
    """Keep those, from the right, that don't touch: of few as many as fit, of many every n-th."""
    if len(entries) > MOST_TICKS:
        for stride in range(1, len(entries)):
            each = entries[::stride]
            if all(left[2].x1 + gap < right[2].x0 for right, left in pairwise(each)):
                return each
    kept = entries[:1]
    for entry in entries[1:]:
        if entry[2].x1 + gap < kept[-1][2].x0:
            kept.append(entry)
    return kept


def _make_room(axes: Axes, gap: float) -> None:
    """Break names at their separators if the pieces then fit; else cut and turn them."""
    labels = axes.get_xticklabels()
    if any(label.get_rotation() for label in labels):
        return
    names = [label.get_text().replace("\n", "") for label in labels]
    names = shortened(names, MOST_LINES * 24)
    width = max(
        label.get_window_extent().width / max(map(len, label.get_text().split("\n")))
        for label in labels
        if label.get_text()
    )
    most = int((axes.bbox.width / len(names) - gap) / width)  # characters side by side
    broken = [_broken(name, most) for name in names]
    fits = [max(len(line.rstrip()) for line in lines) <= most for lines in broken]
    if all(fits) and max(map(len, broken)) <= MOST_LINES:
        axes.set_xticks(axes.get_xticks(), ["\n".join(lines) for lines in broken])
        return
    axes.set_xticks(axes.get_xticks(), shortened(names, 24))
    for label in axes.get_xticklabels():
        label.set(rotation=30, ha="right", rotation_mode="anchor")


def _broken(name: str, most: int) -> list[str]:
    lines = [""]
    for piece in re.findall(r"[^ _/-]*[ _/-]?", name):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > most:
            lines.append("")
        lines[-1] += piece
    return lines


def _plain(text: str) -> Any:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return text


def save(figure: Figure, path: str | os.PathLike[str], **keys: Any) -> None:
    """Write a picture in any format of matplotlib's; equal pictures are equal files.

    Raises
    ------
    InputError
        The file's name ends in none of them.
    """
    formats = figure.canvas.get_supported_filetypes()
    ending = Path(path).suffix.lower().lstrip(".")
    if ending and ending not in formats and "format" not in keys:
        known = ", ".join(f".{name}" for name in sorted(formats))
        raise InputError(f"expected a picture, {known}, found .{ending}", file=os.fspath(path))
    dates = {".svg": "Date", ".svgz": "Date", ".pdf": "CreationDate", ".ps": "CreationDate"}
    name = dates.get(Path(path).suffix.lower())
    with style():
        figure.savefig(path, metadata={name: None} if name else None, **keys)
