"""Names of GPUs, devices and links, as the program prints them."""

from __future__ import annotations

import numpy as np

from .view import DEVICE_KINDS, RunView


def gpu_name(view: RunView, rank: int) -> str:
    """Return where a rank is: "node3/gpu5"."""
    node, place = divmod(rank, len(view.gpus_in_use))
    return f"node{node}/gpu{view.gpus_in_use[place]}"


def rank_name(view: RunView, rank: int) -> str:
    """Return "rank 29 (node3/gpu5)"."""
    return f"rank {rank:,} ({gpu_name(view, rank)})"


def device_name(view: RunView, device: int) -> str:
    """Return "node3/nic2", "leaf4"; an only NVSwitch of a node has no number."""
    kind = DEVICE_KINDS[view.device_kind[device]]
    node, number = view.device_node[device], view.device_number[device]
    if node < 0:
        return f"{kind}{number}"
    return f"node{node}/{kind}" + ("" if kind == "nvswitch" and one_switch(view) else f"{number}")


def one_switch(view: RunView) -> bool:
    """Whether no node has two NVSwitches."""
    switches = view.device_kind == DEVICE_KINDS.index("nvswitch")
    return not np.any(view.device_number[switches] > 0)
