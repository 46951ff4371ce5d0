"""Paceline predicts how data-parallel training scales.

>>> import paceline
>>> scenario = {
...     "cluster": {"node": "dgx-a100", "nodes": 4},
...     "model": "resnet50",
...     "training": {"batch_per_gpu": 256, "precision": "fp16"},
... }
>>> result = paceline.run(scenario)
>>> result.step_time_s, result.breakdown()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from ._core import MODEL_VERSION, VERSION
except ImportError as error:
    from ._not_built import explained

    raise explained(error) from error
from . import calibrate, collectives, models, scenarios, studies
from .calibrate import (
    Profile,
    compare_measurements,
    diagnose,
    fit,
    read_measurements,
    validate,
)
from .collectives import collective
from .comparison import Comparison, compare
from .errors import InputError
from .results import Interval, Result, explain, run
from .scenarios import load
from .studies import Sweep, sweep

if TYPE_CHECKING:
    from .page import report

__version__ = VERSION

__all__ = [
    "MODEL_VERSION",
    "Comparison",
    "InputError",
    "Interval",
    "Profile",
    "Result",
    "Sweep",
    "calibrate",
    "collective",
    "collectives",
    "compare",
    "compare_measurements",
    "diagnose",
    "explain",
    "fit",
    "load",
    "models",
    "plot",
    "read_measurements",
    "report",
    "run",
    "scenarios",
    "studies",
    "sweep",
    "validate",
]


def __getattr__(name: str) -> object:
    if name == "plot":  # matplotlib is loaded when it is wanted
        import importlib

        return importlib.import_module(".plot", __name__)
    if name == "report":
        from .page import report as loaded

        return loaded
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
