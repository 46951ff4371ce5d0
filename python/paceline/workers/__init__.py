"""Sweeps on Dask's workers: they compute the lines of points, and the caller alone writes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

    Workers: TypeAlias = Client | str


def sweep_with(
    client: Workers,
    text: str,
    file_name: str,
    out: str | os.PathLike[str],
    jobs: int,
    tell: Callable[[int, int, int], object] | None,
) -> tuple[str, pd.DataFrame]:
    """Sweep with the workers of a client, an address or "local" (``jobs`` processes here).

    Returns
    -------
    str, DataFrame
        What ``_core.sweep`` returns, and the rate of each worker.
    """
    if find_spec("distributed") is None:
        raise ImportError("workers need dask.distributed: pip install 'paceline[dask]'")
    from .caller import connected, sweep

    with connected(client, jobs) as known:
        return sweep(known, text, file_name, os.fspath(out), jobs, tell)
