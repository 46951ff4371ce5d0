"""What the tests share: the program, the examples, and small sweeps."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from example_studies import make_sweep

import paceline

ROOT = Path(__file__).resolve().parents[2]
# A shell's job in the background ignores Ctrl-C, and so would all that is started here.
signal.signal(signal.SIGINT, signal.default_int_handler)
Program = Callable[..., subprocess.CompletedProcess[str]]


def program_path() -> str:
    """Return the program that the package installed."""
    beside = Path(sys.executable).parent / "paceline"
    found = str(beside) if beside.exists() else shutil.which("paceline")
    assert found, "the wheel installs the program beside the interpreter"
    return found


@pytest.fixture(scope="session")
def program() -> Program:
    """Run the program that the package installed, from the root of the tree."""
    found = program_path()

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        line = [found, *map(str, words)]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="session")
def result() -> paceline.Result:
    """A prediction with a straggler, a trace and an explanation."""
    path = ROOT / "scenarios/slow_gpu_64.json"
    return paceline.run(path, iterations=3, trace=True, explain=True)


TABLE = ROOT / "scenarios/validation/collectives/a100_40_sxm_1node_superbench.csv"


@pytest.fixture(scope="session")
def profile() -> paceline.Profile:
    """A profile of one node, from a published table."""
    return paceline.fit(TABLE, cluster="dgx-a100")


@pytest.fixture(scope="session")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, paceline.Sweep]:
    """Return sweeps by what is hard about drawing them."""
    gpus = "gpus"
    seeds = ("/run/seed", [1, 2, 3])
    caps = ("/training/ddp/bucket_cap", ["1 MiB", "5 MiB", "25 MiB", "100 MiB"])
    nodes = ("/cluster/node", ["dgx-a100", "dgx-h100", "dgx1-v100"])
    measured = [{"point": {"gpus": 8}, "throughput": "11000 samples/s"}]
    at_nodes = [{"point": {"nodes": 2}, "throughput": "30000 samples/s"}]
    wanted: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str]] = {
        "seeds": (
            {gpus: (gpus, [1, 8, 16, 32]), "seed": seeds},
            measured,
            "What does jitter cost?",
        ),
        "two points": ({gpus: (gpus, [8, 16])}, [], ""),
        "twelve points": ({gpus: (gpus, [8 * 2**i for i in range(12)])}, [], ""),
        "many lines": ({gpus: (gpus, [8, 16, 32]), "node": nodes, "bucket_cap": caps}, [], ""),
        "quantity": ({"bucket_cap": caps}, [], "Which bucket size? " * 9),
        "long names": (
            {
                "what the scenario's model is called": (
                    "/model",
                    [
                        "resnet18",
                        "resnet101",
                        "inception_v3",
                        "bert_large",
                        "vit_l_16",
                        "gpt2_small",
                    ],
                )
            },
            [],
            "",
        ),
        "nodes": ({"nodes": ("/cluster/nodes", [1, 2, 4, 8])}, at_nodes, ""),
        "nine lines": (
            {
                "nodes": ("/cluster/nodes", [1, 2, 4]),
                "batch_per_gpu": ("/training/batch_per_gpu", [8 * i for i in range(1, 10)]),
            },
            [],
            "",
        ),
        "shapes": (
            {
                "nodes": ("/cluster/nodes", [1, 2, 4]),
                "gpus_per_node": ("/cluster/gpus_per_node", [4, 8]),
            },
            [],
            "",
        ),
        "rates": (
            {
                "NIC": ("/cluster/node/nic_bandwidth", [f"{50 * 2**i} Gb/s" for i in range(5)]),
                "accumulation": ("/training/accumulation", [1, 8]),
                "batch_per_gpu": ("/training/batch_per_gpu", [16, 32, 64]),
            },
            [],
            "",
        ),
        "long values": (
            {
                gpus: (gpus, [8, 16]),
                "fabric": (
                    "/cluster/fabric",
                    [
                        {"kind": "leaf_spine", "nodes_per_leaf": n, "placement": "striped"}
                        for n in (4, 8, 16)
                    ],
                ),
            },
            [],
            "",
        ),
        "servers": (
            {
                "strategy": ("/training/strategy", ["parameter_server"]),
                "consistency": (
                    "/training/parameter_server/consistency",
                    ["sync", "async", {"stale": 1}],
                ),
                "memory_bandwidth": (
                    "/training/parameter_server/servers/memory_bandwidth",
                    ["38.4 GB/s", "76.8 GB/s"],
                ),
            },
            [],
            "",
        ),
        "failing": (
            {gpus: (gpus, [8, 16]), "cv": ("/variability/per_operation/cv", [0.1, -1])},
            [],
            "",
        ),
    }
    folder = tmp_path_factory.mktemp("sweeps")
    return {
        name: paceline.studies.load(make_sweep(folder / name, axes, points, description))
        for name, (axes, points, description) in wanted.items()
    }
