"""Type checkers read ``_core.pyi``: has it each name and argument of the module, and no others?"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import paceline

STUB = Path(paceline.__file__).with_name("_core.pyi")


def told(text: str) -> str:
    """What a stub says, but for the values of constants and how it is laid out."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            node.value = None
    return ast.unparse(tree)


def test_the_stub_is_the_modules(tmp_path: Path) -> None:
    """Else: ``python -m nanobind.stubgen -m paceline._core -o python/paceline/_core.pyi``."""
    fresh = tmp_path / "_core.pyi"
    line = [sys.executable, "-m", "nanobind.stubgen", "-m", "paceline._core", "-o", str(fresh)]
    subprocess.run(line, check=True, capture_output=True, text=True)
    assert told(STUB.read_text()) == told(fresh.read_text())
    assert STUB.with_name("py.typed").exists()
