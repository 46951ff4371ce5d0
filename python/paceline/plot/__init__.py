"""Pictures of results, sweeps and profiles.

Every function returns matplotlib's figure and axes; :func:`save` writes files that are equal
wherever the picture is.
"""

from __future__ import annotations

from .calibration import calibration
from .campaigns import goodput, losses
from .parts import breakdown, step_time_and_breakdown
from .reasons import critical_path, sensitivities, stragglers
from .scaling import efficiency, scaling
from .style import save
from .timeline import timeline

__all__ = [
    "breakdown",
    "calibration",
    "critical_path",
    "efficiency",
    "goodput",
    "losses",
    "save",
    "scaling",
    "sensitivities",
    "step_time_and_breakdown",
    "stragglers",
    "timeline",
]
