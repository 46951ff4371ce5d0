"""The plan: what each rank does, as a checked value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMAT = 1
ELEMENT_BYTES = {"fp64": 8, "int64": 8, "fp32": 4, "int32": 4, "fp16": 2, "bf16": 2, "uint8": 1}
PRECISIONS = ("fp32", "fp16", "bf16", "fp64")
STRATEGIES = ("ddp", "fsdp", "hybrid")
HOOKS = ("none", "fp16", "bf16")  # PyTorch's communication hooks


class InputError(ValueError):
    """What was asked can't be run; the message says why, and what to do."""


@dataclass(frozen=True)
class Layer:
    name: str
    kind: str
    parameters: tuple[int, ...]  # elements of each tensor, in registration order
    buffers: tuple[tuple[str, int], ...]  # precision, elements
    forward_s: float
    backward_s: float


@dataclass(frozen=True)
class Bucket:
    bytes: int
    tensors: tuple[int, ...]  # numbered in registration order over the whole model


@dataclass(frozen=True)
class Ddp:
    bucket_cap_bytes: int
    first_bucket_bytes: int
    gradient_as_bucket_view: bool
    broadcast_buffers: bool
    find_unused_parameters: bool
    hook: str


@dataclass(frozen=True)
class Fsdp:
    units: tuple[tuple[int, ...], ...]  # layers
    reshard_after_forward: bool
    shard_group: int


@dataclass(frozen=True)
class Plan:
    scenario: str  # hash: alike on all ranks
    pytorch: tuple[int, int]
    strategy: str
    ranks: int
    ranks_per_node: int
    iterations: int
    accumulation: int
    precision: str
    layers: tuple[Layer, ...]
    optimizer_s: float
    ddp: Ddp | None
    buckets: tuple[Bucket, ...]
    fsdp: Fsdp | None
    slowness: tuple[tuple[float, ...], ...]  # [iteration][rank]
    operation_factors: tuple[tuple[tuple[float, ...], ...], ...] | None  # [iteration][rank][wait]

    @property
    def parameter_bytes(self) -> int:
        elements = sum(sum(layer.parameters) for layer in self.layers)
        return elements * ELEMENT_BYTES[self.precision]

    def host_bytes(self) -> int:
        """Return what a rank allocates: parameters, gradients, and buckets or shards of both."""
        shards = self.fsdp.shard_group if self.fsdp else 1
        copies = 2 + (2 / shards if self.fsdp else 1)
        buffers = sum(ELEMENT_BYTES[kind] * n for each in self.layers for kind, n in each.buffers)
        return math.ceil(copies * self.parameter_bytes) + buffers

    def waits_in_step(self) -> int:
        return 2 * len(self.layers) * self.accumulation + 1

    def longest_wait_s(self) -> float:
        """Return what no wait is longer than."""
        waits = [self.optimizer_s, *(max(x.forward_s, x.backward_s) for x in self.layers)]
        factors = [max(max(row) for row in self.slowness)]
        if self.operation_factors:
            factors.append(max(max(max(of) for of in row) for row in self.operation_factors))
        return max(waits) * math.prod(factors)

    def factor(self, iteration: int, rank: int, wait: int) -> float:
        """Return how much longer a wait is; untimed iterations, below 0, are as the first."""
        row = max(0, iteration) % len(self.slowness)
        of_operation = self.operation_factors[row][rank][wait] if self.operation_factors else 1.0
        return self.slowness[row][rank] * of_operation


def read_plan(path: Path) -> Plan:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"{path}: {place}: not JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not JSON: not UTF-8 at byte {error.start}") from error
    return parse_plan(data, str(path))


def parse_plan(data: Any, file: str) -> Plan:
    root = _Place(data, "", file)
    found = root.data.get("replay") if isinstance(root.data, dict) else None
    if found is None:
        raise root.wrong('expected a plan of "paceline calibrate replay --with torch"', "")
    if found != FORMAT:
        raise InputError(
            f"{file}: /replay: format {found}, and this program reads format {FORMAT}: "
            "write the plan with the Paceline that this package belongs to"
        )
    sharded = root.choice("strategy", STRATEGIES, "training.strategy") != "ddp"
    plan = Plan(
        scenario=root.text("scenario"),
        pytorch=_version(root),
        strategy=root.text("strategy"),
        ranks=root.whole("ranks", 1),
        ranks_per_node=root.whole("ranks_per_node", 1),
        iterations=root.whole("iterations", 1),
        accumulation=root.whole("accumulation", 1),
        precision=root.choice("precision", PRECISIONS, "training.precision"),
        layers=tuple(_layer(place) for place in root.items("layers")),
        optimizer_s=root.number("optimizer_us") * 1e-6,
        ddp=None if sharded else _ddp(root.inner("ddp")),
        buckets=() if sharded else _buckets(root),
        fsdp=_fsdp(root.inner("fsdp")) if sharded else None,
        slowness=tuple(_factors(place) for place in root.items("slowness")),
        operation_factors=_operation_factors(root),
    )
    _check_shapes(plan, file)
    return plan


_CONTAINERS = {dict: "an object", list: "a list"}


class _Place:
    """A part of the document and where it stands, for messages."""

    def __init__(self, data: Any, pointer: str, file: str) -> None:
        self.data, self.pointer, self.file = data, pointer, file

    def wrong(self, message: str, key: str | int) -> InputError:
        pointer = f"{self.pointer}/{key}" if key != "" else self.pointer
        return InputError(": ".join(part for part in (self.file, pointer, message) if part))

    def value(self, key: str | int, kind: str, fits: Callable[[Any], bool]) -> Any:
        container = dict if isinstance(key, str) else list
        if not isinstance(self.data, container):
            raise self.wrong(f"expected {_CONTAINERS[container]}", "")
        whole: Any = self.data
        if container is dict and key not in whole:
            raise self.wrong("is missing", key)
        value = whole[key]
        if not fits(value):
            raise self.wrong(f"expected {kind}, found {json.dumps(value)[:60]}", key)
        return value

    def whole(self, key: str | int, least: int = 0) -> int:
        kind = f"a whole number from {least}"
        return self.value(key, kind, lambda v: type(v) is int and v >= least)

    def number(self, key: str | int) -> float:
        def fits(value: Any) -> bool:
            return type(value) in (int, float) and math.isfinite(value) and value >= 0

        return float(self.value(key, "a number from 0", fits))

    def truth(self, key: str) -> bool:
        return self.value(key, "true or false", lambda v: isinstance(v, bool))

    def text(self, key: str | int) -> str:
        return self.value(key, "a text", lambda v: isinstance(v, str))

    def choice(self, key: str | int, known: tuple[str, ...], option: str) -> str:
        value = self.text(key)
        if value not in known:
            names = ", ".join(known[:-1]) + " and " + known[-1]
            raise self.wrong(
                f'"{value}" can\'t be replayed with torch, which does {names}: change {option}, '
                "or replay without --with torch",
                key,
            )
        return value

    def inner(self, key: str | int) -> _Place:
        value = self.value(key, "an object or a list", lambda v: isinstance(v, dict | list))
        return _Place(value, f"{self.pointer}/{key}", self.file)

    def items(self, key: str | int) -> list[_Place]:
        values = self.value(key, "a list", lambda v: isinstance(v, list))
        pointer = f"{self.pointer}/{key}"
        return [_Place(value, f"{pointer}/{i}", self.file) for i, value in enumerate(values)]

    def wholes(self, key: str | int) -> tuple[int, ...]:
        place = self.inner(key)
        return tuple(place.whole(i) for i in range(len(place.data)))


def _version(root: _Place) -> tuple[int, int]:
    parts = root.text("pytorch").split(".")
    if len(parts) < 2 or not all(part.isdigit() for part in parts[:2]):
        raise root.wrong('expected a version such as "2.15"', "pytorch")
    return int(parts[0]), int(parts[1])


def _layer(place: _Place) -> Layer:
    buffers = []
    for i, _ in enumerate(place.items("buffers")):
        pair = place.inner("buffers").inner(i)
        if len(pair.data) != 2:
            raise pair.wrong("expected a precision and its elements", "")
        buffers.append((pair.choice(0, tuple(ELEMENT_BYTES), "the model"), pair.whole(1)))
    return Layer(
        name=place.text("name"),
        kind=place.text("kind"),
        parameters=place.wholes("parameters"),
        buffers=tuple(buffers),
        forward_s=place.number("forward_us") * 1e-6,
        backward_s=place.number("backward_us") * 1e-6,
    )


def _buckets(root: _Place) -> tuple[Bucket, ...]:
    places = root.items("buckets")
    return tuple(Bucket(place.whole("bytes"), place.wholes("tensors")) for place in places)


def _ddp(place: _Place) -> Ddp:
    return Ddp(
        bucket_cap_bytes=place.whole("bucket_cap_bytes", 1),
        first_bucket_bytes=place.whole("first_bucket_bytes", 1),
        gradient_as_bucket_view=place.truth("gradient_as_bucket_view"),
        broadcast_buffers=place.truth("broadcast_buffers"),
        find_unused_parameters=place.truth("find_unused_parameters"),
        hook=place.choice("hook", HOOKS, "training.compression"),
    )


def _fsdp(place: _Place) -> Fsdp:
    count = len(place.items("units"))
    return Fsdp(
        units=tuple(place.inner("units").wholes(i) for i in range(count)),
        reshard_after_forward=place.truth("reshard_after_forward"),
        shard_group=place.whole("shard_group", 1),
    )


def _factors(place: _Place) -> tuple[float, ...]:
    if not isinstance(place.data, list):
        raise place.wrong("expected a list", "")
    return tuple(place.number(i) for i in range(len(place.data)))


def _operation_factors(root: _Place) -> tuple[tuple[tuple[float, ...], ...], ...] | None:
    if root.data.get("operation_factors") is None:
        return None
    rows = root.items("operation_factors")
    return tuple(
        tuple(_factors(of_rank) for of_rank in root.inner("operation_factors").items(i))
        for i in range(len(rows))
    )


def _check_shapes(plan: Plan, file: str) -> None:
    def expect(holds: bool, place: str, message: str) -> None:
        if not holds:
            raise InputError(f"{file}: {place}: {message}")

    full = all(0 not in layer.parameters for layer in plan.layers)
    expect(bool(plan.layers) and full, "/layers", "expected a layer at least, and no empty tensor")
    expect(bool(plan.slowness), "/slowness", "expected a row at least")
    for i, row in enumerate(plan.slowness):
        expect(len(row) == plan.ranks, f"/slowness/{i}", f"expected {plan.ranks} ranks' factors")
    if plan.operation_factors is not None:
        alike = len(plan.operation_factors) == len(plan.slowness)
        expect(alike, "/operation_factors", "expected as many rows as /slowness has")
        for i, ranks in enumerate(plan.operation_factors):
            place, waits = f"/operation_factors/{i}", plan.waits_in_step()
            expect(len(ranks) == plan.ranks, place, f"expected {plan.ranks} ranks")
            right = all(len(of_rank) == waits for of_rank in ranks)
            expect(right, place, f"expected {waits} factors for each rank")
    if plan.fsdp:
        layers = [layer for unit in plan.fsdp.units for layer in unit]
        once = len(set(layers)) == len(layers)  # the root has the others
        known = all(layer < len(plan.layers) for layer in layers)
        expect(once and known, "/fsdp/units", "expected each layer in one unit at most")
        whole = plan.ranks % plan.fsdp.shard_group == 0
        expect(whole, "/fsdp/shard_group", f"{plan.ranks} ranks aren't a multiple of it")
