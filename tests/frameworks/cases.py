"""Training steps that PyTorch runs for real: layers of unequal size, on hosts with slow links.

DDP's, and fully_shard's.

The cases are drawn once and for all: what a case is depends on its number alone.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))

import hosts

RATE = 50.0  # Mbit/s
CAPS_MIB = (0.25, 0.5, 1, 2, 4, 8)
HOSTS = (2, 4, 6, 8)
ACCUMULATION = (1, 1, 2, 1, 4)
# Of fully_shard's cases: how many ranks share a copy, and how many copies there are.
SHARDS = ((2, 1), (4, 1), (2, 2), (8, 1), (4, 2), (3, 1), (2, 4), (6, 1))


@dataclass(frozen=True)
class Layer:
    forward_ms: int
    backward_ms: int
    elements: tuple[int, ...]  # of each tensor
    name: str = ""


@dataclass(frozen=True)
class Sharding:
    """fully_shard's units are the blocks that layers' names tell: "block.1" of "block.1.0"."""

    shards: int  # ranks that share a copy
    reshards: bool  # after forward


@dataclass(frozen=True)
class Case:
    name: str
    hosts: int
    layers: tuple[Layer, ...]
    cap_mib: float
    accumulation: int = 1
    views: bool = False
    slow_host: tuple[int, float] | None = None  # which, and how many times as long it computes
    slow_link: tuple[int, float] | None = None  # whose, and the share of its rate
    jitter: str | None = None  # of kernels: per_iteration or per_operation
    hook: str = "none"  # PyTorch's communication hook
    sharding: Sharding | None = None  # with fully_shard; no bucket then
    iterations: int = 10

    def cluster(self) -> dict[str, Any]:
        return hosts.cluster(self.hosts, RATE, slow=self.slow_link)

    def strategy(self) -> dict[str, Any]:
        if self.sharding:
            fsdp: dict[str, Any] = {"reshard_after_forward": self.sharding.reshards}
            if self.sharding.shards < self.hosts:
                fsdp["shard_group"] = self.sharding.shards
            return {"strategy": "fsdp", "fsdp": fsdp}
        return {
            **({} if self.hook == "none" else {"compression": self.hook}),
            "ddp": {
                "bucket_cap": f"{self.cap_mib} MiB",
                "gradient_as_bucket_view": self.views,
                "broadcast_buffers": False,
            },
        }

    def scenario(self, pytorch: str, collective_launch_us: int = 0) -> dict[str, Any]:
        """Return what `paceline run` takes, as this version of PyTorch runs it."""
        variability: dict[str, Any] = {}
        if self.slow_host:
            host, factor = self.slow_host
            variability["slow_gpus"] = [{"ranks": [host], "factor": factor}]
        if self.jitter:
            variability[self.jitter] = {"distribution": "lognormal", "cv": 0.1}
        described = {
            "description": f"{self.name}: {self.hosts} hosts, {len(self.layers)} layers",
            "cluster": self.cluster(),
            "model": {
                "name": self.name,
                "input": "nothing",
                "layers": [
                    {
                        "name": layer.name or f"layer{i}",
                        "kind": "linear",
                        "parameters": list(layer.elements),
                        "forward_macs": 0,
                        "output_elements": 1,
                    }
                    for i, layer in enumerate(self.layers)
                ],
            },
            "training": {
                "batch_per_gpu": 1,
                "accumulation": self.accumulation,
                "pytorch": pytorch,
                "layer_times": [
                    {"forward": f"{layer.forward_ms} ms", "backward": f"{layer.backward_ms} ms"}
                    for layer in self.layers
                ],
                **self.strategy(),
                "host": {
                    "kernel_launch": "0 s",
                    "collective_launch": f"{collective_launch_us} us",
                },
                "collective": {"library": "gloo"},
            },
            "run": {"iterations": self.iterations},
        }
        return {**described, "variability": variability} if variability else described


def drawn(number: int) -> Case:
    """Return a case: every third one has a slow host, a slow link or jitter, in turn."""
    dice = random.Random(number)
    count = dice.choice((2, 3, 4, 6, 8, 12, 16, 20, 30))
    accumulation = ACCUMULATION[number % len(ACCUMULATION)]
    elements = dice.randint(200_000, 1_200_000)
    shares = [dice.expovariate(1) + 0.02 for _ in range(count)]
    pass_ms = dice.randint(150, 600) / accumulation
    times = [dice.expovariate(1) + 0.2 for _ in range(count)]
    layers = []
    for share, time in zip(shares, times, strict=True):
        tensor = max(64, int(elements * share / sum(shares)))
        span = pass_ms * time / sum(times)
        sizes = (tensor, max(1, tensor // 64)) if dice.random() < 0.5 else (tensor,)
        layers.append(Layer(max(1, round(span / 3)), max(1, round(2 * span / 3)), sizes))
    size = HOSTS[number % len(HOSTS)]
    kind = number // 3 % 3 if number % 3 == 2 else None
    return Case(
        name=f"case{number:02}",
        hosts=size,
        layers=tuple(layers),
        cap_mib=CAPS_MIB[number % len(CAPS_MIB)],
        accumulation=accumulation,
        views=dice.random() < 0.5,
        slow_host=(dice.randrange(size), 1.5) if kind == 0 else None,
        slow_link=(dice.randrange(size), 0.5) if kind == 1 else None,
        jitter=dice.choice(("per_iteration", "per_operation")) if kind == 2 else None,
    )


CASES = tuple(drawn(number) for number in range(40))
# With a hook: every tenth case, of 4, 8, 4 and 8 hosts.
HOOKED_CASES = tuple(
    replace(case, name=case.name.replace("case", "fp16_"), hook="fp16") for case in CASES[1::10]
)


def drawn_sharded(number: int) -> Case:
    """Return a case of fully_shard: of five, one has a slow host and one jitter."""
    dice = random.Random(1000 + number)
    shards, copies = SHARDS[number % len(SHARDS)]
    count = dice.choice((2, 3, 4, 6, 8, 12, 16, 20))
    accumulation = ACCUMULATION[dice.randrange(len(ACCUMULATION))] if number % 2 else 1
    elements = dice.randint(150_000, 700_000)
    shares = [dice.expovariate(1) + 0.02 for _ in range(count)]
    pass_ms = dice.randint(150, 600) / accumulation
    times = [dice.expovariate(1) + 0.2 for _ in range(count)]
    # Layers of the root at both ends, and in between blocks of one to three.
    blocks = dice.random() < 0.3
    names, block, left = [], -1, 0
    for i in range(count):
        if blocks and count > 3 and i in (0, count - 1):
            names.append("stem" if i == 0 else "head")
            continue
        if left == 0:
            block, left = block + 1, dice.randint(1, 3 if count > 6 else 1)
        left -= 1
        names.append(f"block.{block}.{left}")
    layers = []
    for share, time, name in zip(shares, times, names, strict=True):
        tensor = max(64, int(elements * share / sum(shares)))
        span = pass_ms * time / sum(times)
        sizes = (tensor, max(16, tensor // 64)) if dice.random() < 0.5 else (tensor,)
        layers.append(Layer(max(1, round(span / 3)), max(1, round(2 * span / 3)), sizes, name))
    hosts_in_use = shards * copies
    return Case(
        name=f"fsdp{number:02}",
        hosts=hosts_in_use,
        layers=tuple(layers),
        cap_mib=0,
        accumulation=accumulation,
        sharding=Sharding(shards, dice.random() < 0.6),
        slow_host=(dice.randrange(hosts_in_use), 1.5) if number % 5 == 3 else None,
        jitter=("per_operation", "per_iteration")[number // 5 % 2] if number % 5 == 4 else None,
        iterations=8,
    )


# What fully_shard itself takes: units of next to nothing. None of the cases that are compared.
NEXT_TO_NOTHING = Case(
    name="two_hosts_units",
    hosts=2,
    layers=tuple(Layer(2, 4, (64,), f"block.{i}.0") for i in range(8)),
    cap_mib=0,
    sharding=Sharding(shards=2, reshards=True),
    iterations=20,
)
COLLECTIVES_OF_NOTHING = 3 * len(NEXT_TO_NOTHING.layers)

SHARDED_CASES = tuple(drawn_sharded(number) for number in range(15))
