"""Small real studies for tests."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import paceline

_KEPT = (
    "gpus",
    "step_time_s",
    "throughput_samples_per_s",
    "scaling_efficiency",
    "breakdown_s",
    "servers",
)


def make_sweep(
    folder: Path,
    axes: dict[str, tuple[str, list[Any]]],
    measured: list[dict[str, Any]] | None = None,
    description: str = "",
    profile: Any = None,
) -> Path:
    """Write a sweep's folder with predictions of a small cluster; a point that can't be fails."""
    base = {
        "cluster": {"node": "dgx-a100", "nodes": 2},
        "model": "resnet18",
        "training": {"batch_per_gpu": 32, "precision": "fp32"},
        "variability": {"per_operation": {"distribution": "lognormal", "cv": 0.05}},
        "run": {"iterations": 3},
    }
    study = {
        "description": description,
        "scenario": base,
        "axes": [{"name": name, "key": key, "values": v} for name, (key, v) in axes.items()],
        "measured": measured or [],
    }
    lines = []
    for values in itertools.product(*(values for _, values in axes.values())):
        point = dict(zip(axes, values, strict=True))
        scenario: dict[str, Any] = json.loads(json.dumps(base))
        for (key, _), value in zip(axes.values(), values, strict=True):
            if key == "gpus":
                nodes, rest = divmod(value, 8)
                gpus = {"nodes": nodes} if rest == 0 else {"nodes": 1, "gpus_per_node": value}
                scenario["cluster"] |= gpus
            else:
                scenario = paceline.scenarios.edit(scenario, key, value)
        try:
            result = paceline.run(scenario, profile=profile)
        except paceline.InputError as error:
            told = {"message": error.message, "place": error.place, "file": error.file}
            lines.append({"point": point, "error": told, "scenario": scenario})
            continue
        kept = {key: result.data[key] for key in _KEPT if key in result.data}
        line = {"point": point, "key": "00"} | kept
        if result.interval is not None:
            low, high = result.interval.low_s, result.interval.high_s
            line["interval_s"] = {"low": low, "high": high, "extrapolated": False}
        lines.append(line)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.json").write_text(json.dumps(study))
    text = "".join(json.dumps(line) + "\n" for line in reversed(lines))  # as threads may end
    (folder / "results.jsonl").write_text(text)
    return folder
