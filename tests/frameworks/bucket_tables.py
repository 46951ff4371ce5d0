"""DDP's bucket tables: PyTorch's own beside Paceline's.

    python tests/frameworks/bucket_tables.py PACELINE [--lists 1000] [--runs 60] [--brief]

Runs under any Python that has torch with gloo (tried: 1.13 and 2.15). PyTorch tells its buckets in
two ways. Real DistributedDataParallel makes, reduces and rebuilds them over loopback. The function
that its reducer calls for that is cheap enough for all lists; what the real runs show is that
constructor and rebuilding call it with the limits that `limits` has.

Prints a line for each kind of case, and each disagreement; ends with 1 where there was any.
"""
# ruff: noqa: SLF001 - DDP tells its buckets through private members alone

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ImportError:
    print("skipped: this Python has no torch (Debian: python3-torch)")
    sys.exit(77)

MIB = 1 << 20
BYTES = {torch.float32: 4, torch.float16: 2}
CAPS = [0.25, 1, 4, 25, 100]  # MiB
FIRST = MIB
MODELS = [
    "resnet50",
    "resnet101",
    "vgg16",
    "inception_v3",
    "bert_base",
    "bert_large",
    "gpt2_small",
    "vit_l_16",
]
LARGEST_RUN = 64 * MIB  # elements of a real run in fp32; larger ones in fp16, at the default cap


# ---- Paceline's buckets ----


class Paceline:
    """The program, asked for the plan of a model with a layer for each tensor."""

    def __init__(self, program: str, folder: str, pytorch: str) -> None:
        self.program, self.pytorch = program, pytorch
        self.scenario, self.plan = Path(folder, "scenario.json"), Path(folder, "plan.json")

    def buckets(
        self, elements: list[int], cap_mib: float | None, unused: bool, precision: str
    ) -> list[list[int]]:
        layers = [
            {
                "name": f"layer{i}",
                "kind": "linear",
                "parameters": [count],
                "forward_macs": 0,
                "output_elements": 1,
            }
            for i, count in enumerate(elements)
        ]
        ddp: dict[str, object] = {"find_unused_parameters": unused, "broadcast_buffers": False}
        if cap_mib is not None:
            ddp["bucket_cap"] = f"{cap_mib} MiB"
        scenario = {
            "cluster": {"node": "dgx-a100", "nodes": 1, "gpus_per_node": 2},
            "model": {"name": "tensors", "input": "nothing", "layers": layers},
            "training": {
                "batch_per_gpu": 1,
                **dict.fromkeys(("precision", "gradients", "parameters"), precision),
                "pytorch": self.pytorch,
                "ddp": ddp,
            },
        }
        self.scenario.write_text(json.dumps(scenario))
        asked = [str(self.scenario), "--with", "torch", "--steps", str(self.plan)]
        words = [self.program, "calibrate", "replay", *asked]
        told = subprocess.run(words, capture_output=True, text=True, check=False)
        if told.returncode != 0:
            raise RuntimeError(told.stderr.strip())
        return [bucket["tensors"] for bucket in json.loads(self.plan.read_text())["buckets"]]


# ---- What PyTorch is asked with: bucket_limits of sim/strategy/ddp.cpp, once more ----


def limits(cap_mib: float | None, version: tuple[int, int]) -> list[int]:
    cap = int((25 if cap_mib is None else cap_mib) * MIB)
    return [cap if cap_mib is not None and version >= (2, 4) else FIRST, cap]


# ---- PyTorch's buckets ----


class Tensors(torch.nn.Module):  # type: ignore[misc]
    """Parameters whose gradients become ready from the last to the first, whatever their sizes."""

    def __init__(self, sizes: list[int], dtype: torch.dtype) -> None:
        super().__init__()
        self.tensors = torch.nn.ParameterList(
            [torch.nn.Parameter(torch.zeros(n, dtype=dtype)) for n in sizes]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for tensor in self.tensors:
            x = x + tensor[0]
        return x


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.replace(",", " ").split()]


def of_ddp(
    elements: list[int], cap_mib: float | None, unused: bool, dtype: torch.dtype
) -> list[list[int]]:
    """Train until the buckets stand; read them from the reducer and from what DDP logs."""
    options = {} if cap_mib is None else {"bucket_cap_mb": cap_mib}
    model = Tensors(elements, dtype)
    ddp = DistributedDataParallel(model, find_unused_parameters=unused, **options)
    of_tensor = {id(p): i for i, p in enumerate(model.parameters())}
    x = torch.zeros((), dtype=dtype)
    constructed = numbers(str(ddp._get_ddp_logging_data()["bucket_sizes"]))
    for _ in range(2):  # the second forward pass rebuilds,
        ddp(x).backward()
    ddp(x)  # and the third logs it
    held = [
        [of_tensor[id(p)] for p in bucket.parameters()]
        for bucket in ddp.reducer._get_zeros_like_grad_buckets()
    ]
    bytes_ = [sum(elements[i] for i in bucket) * BYTES[dtype] for bucket in held]
    logged = ddp._get_ddp_logging_data()
    if unused:
        assert (logged["has_rebuilt_buckets"], constructed) == (0, bytes_), logged
        return held
    indices = logged["rebuilt_per_bucket_param_indices"].split(",")
    told = (
        logged["has_rebuilt_buckets"],
        constructed,
        numbers(logged["rebuilt_bucket_sizes"]),
        [numbers(bucket) for bucket in indices],
    )
    assert told == (1, [sum(bytes_)], bytes_, held), told
    return held


def of_function(
    elements: list[int], cap_mib: float | None, unused: bool, version: tuple[int, int]
) -> list[list[int]]:
    """Ask the reducer's own function, without data: all tensors are views of one element."""
    element = torch.zeros(())
    bounds = limits(cap_mib, version)
    bounds = bounds[1:] if bounds[0] == bounds[1] else bounds
    order = list(range(len(elements)))
    order = order if unused else order[::-1]
    tensors = [element.expand(elements[i]) for i in order]
    # Told where the tensors stand, it returns buckets as it fills them; else by their first tensor.
    indices = [] if unused else order
    buckets, _ = dist._compute_bucket_assignment_by_size(
        tensors, bounds, [False] * len(order), indices
    )
    return [list(bucket) for bucket in (reversed(buckets) if unused else buckets)]


# ---- cases ----


def random_list(seed: int, most: int) -> list[int]:
    """1 to 60 tensors of 1 to 4 Mi elements, evenly by logarithm; at most so many in all."""
    draw = random.Random(seed)
    count = draw.randint(1, 60)
    sizes = [round(math.exp(draw.uniform(0, math.log(4 * MIB)))) for _ in range(count)]
    while sum(sizes) > most:
        sizes.remove(max(sizes))
    return sizes


def shipped(folder: Path, name: str) -> list[int]:
    layers = json.loads((folder / f"{name}.json").read_text())["layers"]
    return [elements for layer in layers for elements in layer["parameters"]]


class Table:
    """Counts cases of a kind, and says which disagree."""

    def __init__(self, kind: str, paceline: Paceline) -> None:
        self.kind, self.paceline = kind, paceline
        self.cases = self.wrong = 0
        self.begin = time.monotonic()

    def compare(
        self,
        name: str,
        elements: list[int],
        cap: float | None,
        unused: bool,
        bytes_: int,
        found: list[list[int]],
    ) -> None:
        precision = {4: "fp32", 2: "fp16"}[bytes_]
        want = self.paceline.buckets(elements, cap, unused, precision)
        self.cases += 1
        # In a bucket that is assigned as registered, tensors stand the other way round.
        if [sorted(bucket) for bucket in found] != [sorted(bucket) for bucket in want]:
            self.wrong += 1
            print(f"DISAGREE {self.kind}: {name}, cap {cap} MiB, unused {unused}")
            print(f"  PyTorch {found}\n  Paceline {want}")

    def ended(self) -> int:
        seconds = time.monotonic() - self.begin
        print(
            f"{self.kind}: {self.cases} cases, {self.wrong} disagree, {seconds:.1f} s", flush=True
        )
        return self.wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paceline", help="the program")
    parser.add_argument(
        "--lists", type=int, default=1000, help="random lists, each at five caps, rebuilt or not"
    )
    parser.add_argument(
        "--runs", type=int, default=60, help="of these lists, how many real DDP trains"
    )
    parser.add_argument(
        "--brief",
        action="store_true",
        help="real DDP trains each model at one cap in turn, of those that train in fp32",
    )
    parser.add_argument(
        "--models", type=Path, default=Path(__file__).resolve().parents[2] / "scenarios/models"
    )
    asked = parser.parse_args()
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    version = major, minor
    print(f"PyTorch {torch.__version__}")
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=0, world_size=1)
        pytorch = f"{version[0]}.{version[1]}"
        wrong = compare_all(asked, version, Paceline(asked.paceline, folder, pytorch))
        dist.destroy_process_group()
    return 1 if wrong else 0


def compare_all(asked: argparse.Namespace, version: tuple[int, int], paceline: Paceline) -> int:
    wrong = 0
    table = Table("random lists, the reducer's function", paceline)
    for seed in range(asked.lists):
        sizes = random_list(seed, most=256 * MIB)
        for cap in [*CAPS, None]:
            for unused in (False, True):
                found = of_function(sizes, cap, unused, version)
                table.compare(f"list {seed}", sizes, cap, unused, 4, found)
    wrong += table.ended()

    table = Table("random lists, real DDP", paceline)
    for seed in range(asked.runs):
        sizes = random_list(seed, most=16 * MIB)
        cap = [*CAPS, None][seed % 6]
        for unused in (False, True):
            found = of_ddp(sizes, cap, unused, torch.float32)
            table.compare(f"list {seed}", sizes, cap, unused, 4, found)
    wrong += table.ended()

    table = Table("models, the reducer's function", paceline)
    lists = {name: shipped(asked.models, name) for name in MODELS}
    for name, sizes in lists.items():
        for cap in [*CAPS, None]:
            for unused in (False, True):
                table.compare(name, sizes, cap, unused, 4, of_function(sizes, cap, unused, version))
    wrong += table.ended()

    table = Table("models, real DDP", paceline)
    for number, (name, sizes) in enumerate(lists.items()):
        small = sum(sizes) <= LARGEST_RUN
        dtype = torch.float32 if small else torch.float16
        caps = [*CAPS, None] if small else [25, None]
        if asked.brief:
            caps = caps[number % 6 :][:1] if small else []
        for cap in caps:
            for unused in (False, True):
                table.compare(
                    name, sizes, cap, unused, BYTES[dtype], of_ddp(sizes, cap, unused, dtype)
                )
    return wrong + table.ended()


if __name__ == "__main__":
    sys.exit(main())
