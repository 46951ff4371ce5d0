"""A view of a run that nobody ran, of any size."""

from __future__ import annotations

from typing import Any

import numpy as np

from paceline.page.view import DEVICE_KINDS, KINDS, LINK_CLASSES, RunView, Slices

SLOW = 37
_PER_NODE = 8


def view(
    gpus: int = 64,
    *,
    shown: int = 12,
    operations: int = 40,
    steps: int = 20,
    step_ms: float = 72.3,
    labels: tuple[str, ...] = (),
    seed: int = 1,
) -> RunView:
    """Return a view whose rank 37, where there is one, is slow.

    Parameters
    ----------
    operations
        Of the compute stream, in each direction, of each rank that is shown.
    labels
        Names of the first operations.
    """
    random = np.random.default_rng(seed)
    slow = min(SLOW, gpus - 1)
    others = [rank for rank in range(gpus) if rank != slow]
    ranks = [slow, *others[: shown - 1]]
    names = [*labels, *(f"layer {i}" for i in range(operations))][:operations]
    names += [f"all_reduce bucket {i}" for i in range(operations // 4)]
    compute = (0.85 * step_ms * random.normal(1, 0.01, (steps, gpus))).astype(np.float32)
    compute[:, slow] *= 1.15
    waiting = compute.max(axis=1, keepdims=True) - compute
    waited = np.zeros_like(waiting)
    last = compute.argmax(axis=1)
    waited[np.arange(steps), last] = waiting.mean(axis=1)
    first = [slow, ranks[-1]] if len(ranks) > 1 else [slow]
    return RunView(
        step=10,
        began_s=0.7,
        duration_ms=step_ms,
        critical_path=_path(first, step_ms),
        labels=names,
        slices=_slices(ranks, slow, operations, step_ms, random),
        shown=ranks,
        reasons=dict(zip(first, ["critical path", "fastest"], strict=False)),
        ranks=gpus,
        gpus_in_use=list(range(min(gpus, _PER_NODE))),
        steps=list(range(1, steps + 1)),
        compute_ms=compute,
        waiting_ms=waiting,
        waited_for_ms=waited,
        links_left_out=0,
        **_network(-(-gpus // _PER_NODE), step_ms, random),
    )


def _path(ranks: list[int], step_ms: float) -> dict[str, Any]:
    """Make a path that goes on at the next rank each time, in pieces of equal length."""
    length = round(step_ms * 1e9 / 8)
    return {
        "step": 10,
        "step_ps": 8 * length,
        "segments": [
            {
                "kind": "compute" if i % 2 == 0 else "communication",
                "rank": ranks[i // 2 % len(ranks)],
                "gpu": f"node{ranks[i // 2 % len(ranks)] // _PER_NODE}/gpu0",
                "what": f"piece {i}",
                "start_ps": i * length,
                "duration_ps": length,
            }
            for i in range(8)
        ],
    }


def _slices(
    ranks: list[int], slow: int, operations: int, step_ms: float, random: np.random.Generator
) -> Slices:
    kind = {name: i for i, name in enumerate(KINDS)}
    rows: list[tuple[Any, ...]] = []
    buckets = operations // 4
    length = 0.8 * step_ms / (2 * operations)
    for rank in ranks:
        pace = 1.15 if rank == slow else 1.0
        lasts = pace * length * random.uniform(0.6, 1.4, 2 * operations)
        starts = np.cumsum(lasts) - lasts
        late = 0.0 if rank == slow else 0.15
        for i in range(2 * operations):
            which = "forward" if i < operations else "backward"
            layer = i if i < operations else 2 * operations - 1 - i
            rows.append((rank, 1, kind[which], layer, starts[i], lasts[i], 0))
        end = starts[-1] + lasts[-1]
        for i in range(buckets):
            start = starts[operations + 4 * i + 3] if 4 * i + 3 < operations else end
            duration = 3 * length
            rows.append((rank, 2, 6, operations + i, start, duration, late * duration))
        done = max(end, start + duration)
        wait, optimizer = kind["wait"], kind["optimizer"]
        rows.append((rank, 1, wait, operations + buckets - 1, end, done - end, 0))
        rows.append((rank, 1, optimizer, 0, done, max(step_ms - done, 0.1), 0))
        if rank == slow:
            rows.append((rank, 0, kind["input"], 0, 0, 0.05 * step_ms, 0))
    columns = list(zip(*rows, strict=True))
    types = (np.uint32, np.uint16, np.uint8, np.uint16, np.float32, np.float32, np.float32)
    arrays: list[Any] = [np.array(c, t) for c, t in zip(columns, types, strict=True)]
    return Slices(*arrays)


def _network(nodes: int, step_ms: float, random: np.random.Generator) -> dict[str, Any]:
    """Make 8 GPUs, 4 PCIe switches, 2 CPUs, 8 NICs and an NVSwitch of each node; leaves; spines."""
    kind = {name: i for i, name in enumerate(DEVICE_KINDS)}
    of_node = [("gpu", 8), ("nvswitch", 1), ("pcie", 4), ("cpu", 2), ("nic", 8)]
    kinds = np.array([kind[name] for name, count in of_node for _ in range(count)], np.uint8)
    numbers = np.array([i for _, count in of_node for i in range(count)], np.uint32)
    size = len(kinds)
    leaves = -(-nodes // 16)
    spines = 0 if leaves == 1 else 8
    gpu, nvswitch, pcie, cpu, nic = np.cumsum([0, 8, 1, 4, 2])
    up: list[tuple[Any, Any, str, str, float]] = []  # from, to, class, class of the other way
    base = size * np.arange(nodes)
    leaf = size * nodes + np.arange(nodes) // 16
    for i in range(8):
        up.append((base + gpu + i, base + nvswitch, "nvlink_up", "nvlink_down", 240e9))
        up.append((base + gpu + i, base + pcie + i // 2, "pcie_up", "pcie_down", 24e9))
        up.append((base + nic + i, base + pcie + i // 2, "pcie_up", "pcie_down", 24e9))
        up.append((base + nic + i, leaf, "nic_out", "nic_in", 25e9))
    up += [(base + pcie + i, base + cpu + i // 2, "pcie_up", "pcie_down", 24e9) for i in range(4)]
    up.append((base + cpu, base + cpu + 1, "socket", "socket", 16e9))
    for i in range(spines):
        each = size * nodes + np.arange(leaves)
        up.append((each, np.full(leaves, size * nodes + leaves + i), "leaf_up", "leaf_down", 400e9))
    number = {name: i for i, name in enumerate(LINK_CLASSES)}
    ways = [(a, b, number[one], rate) for a, b, one, _, rate in up]
    ways += [(b, a, number[other], rate) for a, b, _, other, rate in up]
    source = np.concatenate([a for a, *_ in ways]).astype(np.uint32)
    classes = np.concatenate([np.full(len(a), c, np.uint8) for a, _, c, _ in ways])
    bandwidth = np.concatenate([np.full(len(a), rate, np.float32) for a, *_, rate in ways])
    share = random.uniform(0, 0.25, len(source))
    share[np.isin(classes, [number["socket"]])] = 0
    share[random.integers(len(source))] = 0.8
    others = np.where(classes == number["nic_out"], 0.3 * bandwidth, 0).astype(np.float32)
    others[random.random(len(source)) < 0.9] = 0
    return {
        "device_kind": np.concatenate(
            [np.tile(kinds, nodes), np.repeat([kind["leaf"], kind["spine"]], [leaves, spines])]
        ).astype(np.uint8),
        "device_node": np.concatenate(
            [np.repeat(np.arange(nodes), size), np.full(leaves + spines, -1)]
        ).astype(np.int32),
        "device_number": np.concatenate(
            [np.tile(numbers, nodes), np.arange(leaves), np.arange(spines)]
        ).astype(np.uint32),
        "link_from": source,
        "link_to": np.concatenate([b for _, b, *_ in ways]).astype(np.uint32),
        "link_class": classes,
        "link_bandwidth": bandwidth,
        "link_bytes": (share * bandwidth * step_ms * 1e-3).astype(np.float32),
        "link_neighbours": others,
    }
