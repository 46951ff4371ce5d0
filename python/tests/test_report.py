"""Reports of runs, from Python and the program: what they are of, and what they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Program

import paceline
from paceline.__main__ import main

SCENARIO = ROOT / "scenarios/first_node.json"


@pytest.fixture(scope="module")
def result() -> paceline.Result:
    return paceline.run(SCENARIO, iterations=4, explain=True)


def saved(path: Path, data: dict[str, Any]) -> Path:
    path.write_text(json.dumps(data))
    return path


def headings(page: Path) -> list[str]:
    return re.findall(r"<h2 id=[^>]*>([^<]*)</h2>", page.read_text())


def test_the_program_and_python_write_a_page_of_the_run(
    result: paceline.Result, program: Program, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours.html", tmp_path / "theirs.html"
    file = saved(tmp_path / "result.json", result.data)
    paceline.report(file, ours)
    done = program("report", file, "-o", theirs)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for page in (ours, theirs):
        assert result.data["fingerprint"] in page.read_text()
        assert headings(page) == headings(ours)
        assert {"One step", "What would change it", "Network"} <= set(headings(page))


def test_what_a_result_lacks_is_simulated(result: paceline.Result, tmp_path: Path) -> None:
    without = {k: v for k, v in result.data.items() if k not in ("sensitivities", "best_levers")}
    paceline.report(saved(tmp_path / "result.json", without), tmp_path / "page.html")
    assert "What would change it" in headings(tmp_path / "page.html")
    paceline.report(saved(tmp_path / "result.json", without), tmp_path / "page.html", explain=False)
    assert "What would change it" not in headings(tmp_path / "page.html")


def test_a_result_of_something_else_is_refused(result: paceline.Result, tmp_path: Path) -> None:
    other = saved(tmp_path / "other.json", result.data | {"fingerprint": "0123456789abcdef"})
    with pytest.raises(paceline.InputError, match="0123456789abcdef: make it anew"):
        paceline.report(other, tmp_path / "page.html")
    changes: dict[str, Any] = {"fingerprint": "0123456789abcdef", "model_version": 1}
    older = saved(tmp_path / "older.json", result.data | changes)
    with pytest.raises(paceline.InputError, match="it was made with model version 1, this is"):
        paceline.report(older, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_what_is_no_page_and_what_is_no_json_is_refused(
    result: paceline.Result, program: Program, tmp_path: Path
) -> None:
    for name, cure in (
        ("p.pdf", "; a picture is paceline plot's"),
        ("p.PNG", "; a pic"),
        ("p.json", ""),
    ):
        with pytest.raises(
            paceline.InputError, match="expected a page for a browser, such as"
        ) as told:
            paceline.report(result, tmp_path / name)
        assert cure in told.value.message and not (tmp_path / name).exists()
    paceline.report(result, tmp_path / "v1.2")  # an ending that says nothing else
    (tmp_path / "w.py").write_text("import paceline\n")
    done = program("report", tmp_path / "w.py", "-o", tmp_path / "w.html")
    expected = "line 1, column 1: expected a file of JSON, found none: expecting value"
    assert done.returncode == 2 and expected in done.stderr


def test_a_profile_gives_an_interval(profile: paceline.Profile, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    paceline.report(SCENARIO, page, profile=profile, explain=False)
    assert "90 % interval" in page.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--step", "0"], "step: expected a step from 1 to 20, found 0"),
        (["--step", "21"], "step: expected a step from 1 to 20, found 21"),
        (["--ranks", "0,8"], "ranks: expected numbers up to 7, found 8"),
        (["--ranks", "x"], "ranks: expected ranks such as 0,37,100-107, found"),
        (["--slices", "0"], "slices: expected at least "),
        (["--slices", "-1"], "slices: expected at least "),
    ],
)
def test_what_a_run_lacks_is_refused(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(SCENARIO), "--no-explain", "-o", str(page), *words]) == 2
    assert capsys.readouterr().err.startswith(f"paceline: {SCENARIO}: {told}")
    assert not page.exists()


def test_what_is_asked_of_a_page_is_in_it(program: Program, tmp_path: Path) -> None:
    """The program hands it on; slices that are too many are left out."""
    ours, theirs = tmp_path / "ours.html", tmp_path / "theirs.html"
    paceline.report(SCENARIO, ours, step=3, ranks="5", slices=2_000, explain=False)
    asked = ["--step", "3", "--ranks", "5", "--slices", "2000", "--no-explain"]
    done = program("report", SCENARIO, *asked, "-o", theirs)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for page in (ours, theirs):
        assert "Step 3 as it ran" in page.read_text()
        assert re.search(r"[1-7] of 8 ranks are shown", page.read_text())
        assert "asked for" in page.read_text()
        assert "What would change it" not in headings(page)
    with pytest.raises(paceline.InputError, match=r"^ranks: expected ranks such as .*found 5$"):
        paceline.report(SCENARIO, ours, ranks=5, explain=False)  # type: ignore[arg-type]


def test_only_a_sweep_can_be_served(program: Program) -> None:
    done = program("report", SCENARIO, "--serve")
    assert done.returncode == 2
    assert "expected the folder of a sweep" in done.stderr
