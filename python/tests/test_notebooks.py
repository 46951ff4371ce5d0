"""Every notebook runs from top to bottom, says what it said, and its last assertions hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# What they say follows from simulations that golden fingerprints hold: a gate runs these.
IN_A_GATE = {"fsdp_or_hybrid_sharding", "strong_and_weak_scaling", "what_compression_costs"}
TIMEOUT_S = 300  # of a cell: a notebook that hangs, not a slow machine


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 5


def said(notebook: Any) -> list[list[str]]:
    """What its cells answer in words and numbers, however they are laid out."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.get("data", {}).get("text/plain", "").split() for output in outputs]


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[] if p.stem in IN_A_GATE else pytest.mark.long) for p in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_notebook_runs(path: Path) -> None:
    """It gives the numbers that it keeps; else ``./dev gallery --notebooks``."""
    notebook = read(path)
    client = nbclient.NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert said(notebook) == said(read(path))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_ready_to_read(path: Path) -> None:
    """It asks first, answers last from a cell that asserts, and holds nothing of a machine."""
    notebook = read(path)
    nbformat.validate(notebook)
    cells = notebook.cells
    assert cells[0].cell_type == cells[-1].cell_type == "markdown"
    assert "?" in cells[0].source and cells[-1].source.startswith("## Answer")
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert "assert " in code[-1].source
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any(cell.metadata for cell in cells)
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert "/home/" not in str(outputs) and "/tmp/" not in str(outputs)
    assert path.stat().st_size < 150_000
