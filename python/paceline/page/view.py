"""What a run looked like: columns that the core records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..errors import InputError
from ..results import Result, ranks_text, run_options
from ..scenarios import Source, as_text
from ..sources import RESULT, kind_of

MOST_SLICES = 100_000
KINDS = (
    *("forward", "backward", "accumulate", "copies", "optimizer", "other"),
    *("collective", "cast", "wait", "input", "synchronize", "compress"),
)
DEVICE_KINDS = ("gpu", "nvswitch", "pcie", "cpu", "nic", "leaf", "spine", "core")
LINK_CLASSES = (
    *("nvlink", "nvlink_up", "nvlink_down", "pcie", "pcie_up", "pcie_down", "socket", "c2c"),
    *("nic_out", "nic_in", "leaf_up", "leaf_down", "spine_up", "spine_down"),
)


@dataclass(frozen=True)
class Slices:
    """Operations of one step of the ranks that are shown: arrays of equal length."""

    rank: NDArray[np.uint32]
    stream: NDArray[np.uint16]  # 0 the host, 1 compute, from 2 on communication queues
    kind: NDArray[np.uint8]  # in KINDS
    label: NDArray[np.uint16]  # in the view's labels
    start_ms: NDArray[np.float32]  # from the step's begin
    duration_ms: NDArray[np.float32]
    waiting_ms: NDArray[np.float32]  # of a collective: till its last rank launched it


@dataclass(frozen=True)
class RunView:
    """What is drawn of a run beside its result; ``studies/run_view.h`` defines each."""

    step: int
    began_s: float
    duration_ms: float
    critical_path: dict[str, Any] | None  # of the step, as result.json has that of a median one
    labels: list[str]
    slices: Slices
    shown: list[int]  # ranks with slices, those that matter first
    reasons: dict[int, str]
    ranks: int
    gpus_in_use: list[int]  # of a node
    steps: list[int]  # of the heat map
    compute_ms: NDArray[np.float32]  # [steps, ranks]
    waiting_ms: NDArray[np.float32]
    waited_for_ms: NDArray[np.float32]
    device_kind: NDArray[np.uint8]  # in DEVICE_KINDS
    device_node: NDArray[np.int32]  # -1: of the fabric
    device_number: NDArray[np.uint32]
    link_from: NDArray[np.uint32]  # a device
    link_to: NDArray[np.uint32]
    link_class: NDArray[np.uint8]  # in LINK_CLASSES
    link_bandwidth: NDArray[np.float32]  # bytes/s
    link_bytes: NDArray[np.float32]  # of a step
    link_neighbours: NDArray[np.float32]  # bytes/s of other jobs
    links_left_out: int


@dataclass(frozen=True)
class CampaignView:
    """What happened when in a campaign; ``studies/campaign_view.h`` defines each."""

    seed: int
    wall_s: float
    whats: list[str]
    labels: list[str]
    kinds: list[str]  # of failures
    from_s: NDArray[np.float64]  # from here on a row for each event
    to_s: NDArray[np.float64]
    undone_s: NDArray[np.float64]  # of steps: so much of their end
    useful_s: NDArray[np.float64]  # of steps that survive
    what: NDArray[np.uint8]
    label: NDArray[np.uint32]
    kind: NDArray[np.uint16]
    steps: NDArray[np.int64]


class Seen(NamedTuple):
    """A result, and what is drawn beside it: of a step, and of a campaign, where there are any."""

    result: Result
    step: RunView | None
    campaign: CampaignView | None


def look(
    source: Source | Result,
    *,
    profile: Source | None = None,
    allow_other_machine: bool = False,
    explain: bool = True,
    step: int | None = None,
    ranks: str | Sequence[int] | None = None,
    slices: int = MOST_SLICES,
) -> Seen:
    """Run a scenario, or what a result lacks once more, and return both.

    Parameters as of :func:`paceline.report`.

    Raises
    ------
    InputError
        The scenario is wrong; or a result isn't what its scenario gives today.
    """
    text, file_name = as_text(source)
    given = _result_of(source, text)
    wanted = ("links", *(["sensitivities"] if explain else []))
    lacks = [key for key in wanted if not _has(given, key)]
    asked = {
        "step": step,
        "ranks": None if ranks is None else ranks_text(ranks, "ranks", "ranks"),
        "slices": slices,
    }
    options = run_options(
        profile=profile,
        allow_other_machine=allow_other_machine,
        seed=None,
        iterations=None,
        engine=None,
        jobs=None,
        explain="sensitivities" in lacks,
        view={key: value for key, value in asked.items() if value is not None},
    )
    fresh_text, _, interval, step_view, campaign = _core.run(text, file_name, options)
    fresh = Result(fresh_text, interval_text=interval)
    if given is not None and profile is None:
        _require_same(given, fresh, file_name)
    return Seen(
        fresh if lacks or given is None or profile is not None else given,
        None if step_view is None else _of_core(step_view),
        None if campaign is None else _campaign_of_core(campaign),
    )


def _result_of(source: Source | Result, text: str) -> Result | None:
    if isinstance(source, Result):
        return source
    result = Result(text)
    return result if kind_of(result.data) == RESULT else None


def _has(result: Result | None, key: str) -> bool:
    return result is not None and key in result.data


def _require_same(given: Result, fresh: Result, file_name: str) -> None:
    """A page shows what the result says, so both must be of the same run."""
    if given.data["fingerprint"] == fresh.data["fingerprint"]:
        return
    versions = [f"model version {r.data['model_version']}" for r in (given, fresh)]
    made = (
        f"it was made with {versions[0]}, this is {versions[1]}; " if len(set(versions)) > 1 else ""
    )
    raise InputError(
        f"expected the run that its scenario gives, fingerprint {fresh.data['fingerprint']}, found "
        f"{given.data['fingerprint']}: {made}make it anew with `paceline run FILE --out FILE`",
        "/fingerprint",
        file_name,
    )


def _campaign_of_core(view: _core.View) -> CampaignView:
    about = json.loads(view.about())
    columns: dict[str, Any] = {
        name.removeprefix("event_"): np.frombuffer(data, kind)
        for name, (kind, data) in view.columns().items()
    }
    return CampaignView(**about, **columns)


def _require_names(about: dict[str, Any]) -> None:
    """Columns hold numbers, which mean what the core's enums and the tuples above agree on."""
    own = {"kinds": KINDS, "device_kinds": DEVICE_KINDS, "link_classes": LINK_CLASSES}
    for key, names in own.items():
        if tuple(about[key]) != names:
            raise RuntimeError(f"view.py's {key} are {names}, the core's {tuple(about[key])}")


def _of_core(view: _core.View) -> RunView:
    about = json.loads(view.about())
    _require_names(about)
    columns: dict[str, Any] = {
        name: np.frombuffer(data, kind) for name, (kind, data) in view.columns().items()
    }
    steps = list(range(1, about["steps"] + 1))
    fields: dict[str, Any] = {
        key: about[key]
        for key in (
            *("step", "began_s", "duration_ms", "critical_path", "labels", "shown", "ranks"),
            *("gpus_in_use", "links_left_out"),
        )
    }
    for name in ("compute_ms", "waiting_ms", "waited_for_ms"):
        fields[name] = columns[f"step_{name}"].reshape(len(steps), about["ranks"])
    fields |= {n: data for n, data in columns.items() if n.startswith(("device_", "link_"))}
    names = ("rank", "stream", "kind", "label", "start_ms", "duration_ms", "waiting_ms")
    return RunView(
        slices=Slices(*(columns[f"slice_{name}"] for name in names)),
        reasons={int(rank): why for rank, why in about["reasons"].items()},
        steps=steps,
        **fields,
    )
