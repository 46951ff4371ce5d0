"""Every command and Python block of README and guide, and what they show of it; the gallery."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest
from conftest import ROOT, program_path

DOCUMENTS = ["README.md", pytest.param("docs/guide.md", marks=pytest.mark.long)]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
THIS_TEST = re.compile(r"^\./dev test\b.*\n", re.MULTILINE)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What git has of the tree, with what is built of it where the documents say that it is."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    (tmp_path / "build/release").mkdir(parents=True)
    (tmp_path / "build/release/paceline").symlink_to(program_path())
    (tmp_path / "build/python").symlink_to(sys.prefix)
    return tmp_path


def not_printed(shown: str, printed: str) -> list[str]:
    """Lines of ``shown`` that aren't in ``printed``: "..." is anything, all space is one."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    missing = []
    for line in shown.splitlines():
        pattern = r"\s*.*\s*".join(re.escape(" ".join(p.split())) for p in line.split("..."))
        if not any(re.fullmatch(pattern, whole) for whole in lines):
            missing.append(line)
    return missing


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_runs(document: str, clone: Path) -> None:
    blocks = BLOCK.findall((ROOT / document).read_text())
    ran, printed = 0, ""
    for language, text in blocks:
        if not language:  # what the command before it prints
            assert not not_printed(text, printed), document
        if language == "sh":
            line = ["bash", "-euo", "pipefail", "-c", THIS_TEST.sub("", text)]
        elif language == "python":
            line = [sys.executable, "-c", text]
        else:
            continue
        environment = {**os.environ, "PACELINE_BUILT": "1", "MPLBACKEND": "agg"}
        done = subprocess.run(
            line, cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
        said = done.stdout[-2000:] + done.stderr[-2000:]
        assert done.returncode == 0, f"{document}:\n{text}\n{said}"
        printed = done.stdout
        ran += 1
    assert ran >= 3


@pytest.mark.long
def test_the_gallery_is_what_its_page_draws(tmp_path: Path) -> None:
    """Else: ``./dev gallery``. Of another matplotlib's pictures only the texts are compared."""
    line = [sys.executable, str(ROOT / "docs/pictures/gallery.py"), str(tmp_path)]
    subprocess.run(line, env={**os.environ, "MPLBACKEND": "agg"}, check=True, capture_output=True)
    pictures = sorted((ROOT / "docs/pictures/gallery").glob("*.svg"))
    assert len(pictures) >= 10
    for picture in pictures:
        kept, drawn = picture.read_text(), (tmp_path / picture.name).read_text()
        if f"Matplotlib v{mpl.__version__}," not in kept:
            kept, drawn = ("\n".join(re.findall("<!-- .* -->", text)) for text in (kept, drawn))
        assert kept == drawn, picture.name
