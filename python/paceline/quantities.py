"""Quantities with units, as scenarios write them ("25 MiB", "400 Gb/s"), as numbers and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_BYTES = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0}
_BINARY = {"TiB": 2.0**40, "GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10}
_BITS = {"Tb": 1e12 / 8, "Gb": 1e9 / 8, "Mb": 1e6 / 8, "kb": 1e3 / 8, "b": 1 / 8}
_FLOP = {"EFLOP": 1e18, "PFLOP": 1e15, "TFLOP": 1e12, "GFLOP": 1e9, "MFLOP": 1e6, "FLOP": 1.0}
_LONG = {"y": 31557600.0, "d": 86400.0, "h": 3600.0, "min": 60.0}
_UNITS: dict[str, tuple[float, str]] = {
    **{unit: (factor, "B") for unit, factor in {**_BYTES, **_BINARY}.items()},
    **{f"{unit}/s": (factor, "B/s") for unit, factor in {**_BYTES, **_BINARY, **_BITS}.items()},
    **{unit: (factor, "FLOP") for unit, factor in _FLOP.items()},
    **{f"{unit}/s": (factor, "FLOP/s") for unit, factor in _FLOP.items()},
    "s": (1.0, "s"),
    "ms": (1e-3, "s"),
    "us": (1e-6, "s"),
    "ns": (1e-9, "s"),
    "ps": (1e-12, "s"),
    **{unit: (factor, "s") for unit, factor in _LONG.items()},
    "samples/s": (1.0, "samples/s"),
}
_QUANTITY = re.compile(r"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?) *([A-Za-z/]+)")


class Quantity(NamedTuple):
    """A number in the base unit of its dimension: B, B/s, s, FLOP, FLOP/s, samples/s, or ""."""

    value: float
    unit: str


def parse(value: Any) -> Quantity | None:
    """Return a number or a quantity's value; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return Quantity(float(value), "")
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in _UNITS:
        return None
    factor, unit = _UNITS[match[2]]
    return Quantity(float(match[1]) * factor, unit)


def number_text(value: float) -> str:
    """Write a number with thousands separators and at most four digits behind the point."""
    if value and (abs(value) < 1e-3 or abs(value) >= 1e15):
        return f"{value:.3g}"
    return f"{round(value, 4):,.10g}"


def size_text(size: float) -> str:
    """Write bytes as nccl-tests' users do: 8 B, 64 KiB, 1 GiB."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size >= _BINARY[unit]:
            return f"{size / _BINARY[unit]:.4g} {unit}"
    return f"{size:.4g} B"


def duration_text(seconds: float) -> str:
    """Write a time in the largest unit, up to days, that is no longer: "3.09 h", "54 d"."""
    units = {"d": _LONG["d"], "h": _LONG["h"], "min": _LONG["min"], "s": 1.0, "ms": 1e-3}
    for unit, size in units.items():
        if seconds >= size:
            return f"{seconds / size:,.4g} {unit}"
    return f"{seconds * 1e6:.4g} us" if seconds else "0 s"


def value_text(value: Any) -> str:
    """Write what an axis of a study may hold, any JSON, to be read by people."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {value_text(inner)}" for key, inner in value.items())
    return number_text(value) if isinstance(value, (int, float)) else str(value)
