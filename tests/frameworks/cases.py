"""Training steps that PyTorch runs for real: layers of unequal size, on hosts with slow links.

The cases are drawn once and for all: what a case is depends on its number alone.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))

import hosts

RATE = 50.0  # Mbit/s
CAPS_MIB = (0.25, 0.5, 1, 2, 4, 8)
HOSTS = (2, 4, 6, 8)
ACCUMULATION = (1, 1, 2, 1, 4)


@dataclass(frozen=True)
class Layer:
    forward_ms: int
    backward_ms: int
    elements: tuple[int, ...]  # of each tensor


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
    iterations: int = 10

    def cluster(self) -> dict[str, Any]:
        return hosts.cluster(self.hosts, RATE, slow=self.slow_link)

    def scenario(self, pytorch: str) -> dict[str, Any]:
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
                        "name": f"layer{i}",
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
                "ddp": {
                    "bucket_cap": f"{self.cap_mib} MiB",
                    "gradient_as_bucket_view": self.views,
                    "broadcast_buffers": False,
                },
                "host": {"kernel_launch": "0 s", "collective_launch": "0 s"},
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
