"""What comes with the package, and what is said where it can't be loaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from conftest import ROOT, Program

import paceline

PACKAGE = Path(paceline.__file__).parent


def test_examples_come_with_the_package(program: Program) -> None:
    examples = paceline.scenarios.examples()
    assert ROOT not in examples.parents or ROOT / "build" in examples.parents
    mine, theirs = (
        paceline.run(folder / "slow_gpu_64.json") for folder in (examples, ROOT / "scenarios")
    )
    assert mine.text == theirs.text
    schema = "schema/scenario.schema.json"
    assert (examples / schema).read_text() == program("schema").stdout
    assert (examples / "studies/strong_resnet50.json").exists()


def test_manual_and_completion_come_with_the_package(program: Program) -> None:
    share = paceline.scenarios.examples().parents[1]
    assert (share / "man/man1/paceline.1").read_text() == program("help", "--man").stdout
    completion = share / "bash-completion/completions/paceline"
    assert completion.read_text() == program("completion", "bash").stdout


def test_what_needs_torch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs PyTorch 2\.2 or later: pip install torch"):
        paceline.models.from_torch(None)


@pytest.mark.parametrize(
    ("there", "message"),
    [
        (None, "paceline isn't built"),
        ("_core.cpython-399-x86_64-linux-gnu.so", "paceline was built for another Python"),
        (f"_core{EXTENSION_SUFFIXES[0]}", "Debian: apt install libgoogle-glog0v6"),
    ],
)
def test_a_package_that_cannot_be_loaded_says_why(
    there: str | None, message: str, tmp_path: Path
) -> None:
    shutil.copytree(PACKAGE, tmp_path / "paceline", ignore=shutil.ignore_patterns("_core*.so"))
    if there:
        (tmp_path / "paceline" / there).write_text("for another machine")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    line = [sys.executable, "-c", "import paceline"]
    done = subprocess.run(
        line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert message in last
    assert "pip install ." in last or "apt install" in last
