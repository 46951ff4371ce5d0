"""The hosts as Paceline's cluster files, and a training step as a scenario."""

from __future__ import annotations

from typing import Any

# One rank a host. What is behind the NIC costs nothing next to links of megabits.
NODE = {
    "name": "host",
    "gpus": 1,
    "wiring": "none",
    "pcie_bandwidth": "100 GB/s",
    "pcie_latency": "0 s",
    "pcie_switches": 1,
    "sockets": 1,
    "nics": 1,
    "nic_latency": "0 s",
}
RANK = {
    "name": "rank",
    "peak": {"fp32": "1 TFLOP/s"},
    "memory_bandwidth": "1000 TB/s",
    "memory": "1 GiB",
}


def cluster(
    hosts: int,
    megabits: float,
    slow: tuple[int, float] | None = None,  # a host, share of its rate
    racks: tuple[int, float] | None = None,  # hosts of one, rate of the trunk
) -> dict[str, Any]:
    """Return the cluster of so many hosts, as a file has it."""
    described: dict[str, Any] = {
        "node": {**NODE, "nic_bandwidth": f"{megabits} Mb/s"},
        "nodes": hosts,
        "gpu": RANK,
    }
    if slow:
        described["degraded_links"] = [{"from": f"node{slow[0]}/nic0", "bandwidth_factor": slow[1]}]
    if racks:
        # So much oversubscription leaves each rack's switch one link upwards, of the trunk's rate.
        described["fabric"] = {
            "kind": "leaf_spine",
            "nodes_per_leaf": racks[0],
            "switch_latency": "0 s",
            "oversubscription": racks[0] * megabits / racks[1],
        }
    return described


# A step: layers with the times of their passes in ms and the elements of their one tensor. On
# healthy links the exchange of two buckets hides behind backward, on slow ones it is longer than
# the step else is.
LAYERS = [
    (30, 60, 24_000),
    (40, 80, 28_000),
    (40, 80, 32_000),
    (40, 80, 28_000),
    (30, 60, 24_000),
    (20, 40, 16_000),
]
BUCKET = 160_000  # bytes


def scenario(described_cluster: dict[str, Any]) -> dict[str, Any]:
    layers = [
        {
            "name": f"layer{i}",
            "kind": "linear",
            "parameters": [elements],
            "forward_macs": 0,
            "output_elements": 1,
        }
        for i, (_, _, elements) in enumerate(LAYERS)
    ]
    times = [
        {"forward": f"{forward} ms", "backward": f"{backward} ms"}
        for forward, backward, _ in LAYERS
    ]
    return {
        "description": "Data-parallel training on hosts with slow links.",
        "cluster": described_cluster,
        "model": {"name": "six layers", "input": "nothing", "layers": layers},
        "training": {
            "batch_per_gpu": 1,
            "layer_times": times,
            "ddp": {
                "bucket_cap": f"{BUCKET} B",
                "first_bucket": f"{BUCKET} B",
                "gradient_as_bucket_view": True,
                "broadcast_buffers": False,
            },
            "host": {"kernel_launch": "0 s", "collective_launch": "0 s"},
            "collective": {"library": "mpi"},
        },
        "run": {"iterations": 5},
    }
