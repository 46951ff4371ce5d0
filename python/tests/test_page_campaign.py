"""The page of a campaign, as a browser shows it, against the events that the program writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pandas as pd
import pytest
from browser import LOOKS, NAMES, Watched, opened
from conftest import ROOT, Program
from matplotlib.collections import PolyCollection
from playwright.sync_api import Browser

import paceline
from paceline.page import campaign, days
from paceline.page.view import look

GIVEN = ROOT / "scenarios/faults_16384.json"
ELASTIC = ROOT / "scenarios/faults_elastic.json"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.a_browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of a campaign whose step is given, of one whose steps are simulated, and of a sweep."""
    folder = tmp_path_factory.mktemp("pages")
    paceline.report(GIVEN, folder / "given.html")
    paceline.report(ELASTIC, folder / "simulated.html", explain=False)
    one = paceline.scenarios.edit(paceline.scenarios.load(GIVEN), "/faults/seeds", 1)
    paceline.report(one | {"faults": sound(one)}, folder / "sound.html")
    axes = [
        {"key": "/faults/checkpoint/interval", "values": ["10 min", "20 min", "40 min", "80 min"]},
        {"key": "/faults/spares", "values": [0, 8, 32]},
    ]
    few = paceline.scenarios.edit(paceline.scenarios.load(GIVEN), "/faults/seeds", 5)
    made = paceline.sweep({"scenario": few, "axes": axes}, progress=False)
    paceline.report(made, folder / "sweep.html")
    return folder


def sound(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return faults of a campaign in which nothing fails."""
    checkpoint = {**scenario["faults"]["checkpoint"], "interval": "30 min"}
    faults = {key: value for key, value in scenario["faults"].items() if key != "length"}
    return {**faults, "steps": 20_000, "failures": [], "checkpoint": checkpoint}


def table_of(watched: Watched, figure: str) -> pd.DataFrame:
    """Read the table under a figure, as texts."""
    page = watched.page
    heads = page.locator(f"#{figure} .data th").all_text_contents()
    cells = page.locator(f"#{figure} .data td").all_text_contents()
    rows = [cells[i : i + len(heads)] for i in range(0, len(cells), len(heads))]
    return pd.DataFrame([[text.strip() for text in row] for row in rows], columns=heads)


def numbers(column: pd.Series) -> pd.Series:
    return pd.to_numeric(column.str.replace(",", ""), errors="coerce")


def test_what_no_checkpoint_survives_is_a_fact() -> None:
    for nodes, lost in ((1, "node"), (2, None)):
        faults = {
            "length": "2 d",
            "step": "1 s",
            "failures": [{"of": "node", "mtbf": "5 d", "repair": "1 h"}],
            "checkpoint": {"kind": "in_memory"},
        }
        training = {"batch_per_gpu": 8}
        cluster = {"node": "dgx-a100", "nodes": nodes}
        result = paceline.run(
            {"cluster": cluster, "model": "resnet18", "training": training, "faults": faults}
        )
        assert dict(campaign.facts(result).entries).get("Begins anew after") == lost


@pytest.mark.parametrize(("size", "scheme"), LOOKS, ids=NAMES)
@pytest.mark.parametrize("name", ["given", "simulated", "sweep"])
def test_looks(
    name: str, size: dict[str, int], scheme: str, pages: Path, chromium: Browser
) -> None:
    with opened(chromium, pages / f"{name}.html", size, scheme) as watched:
        browser.check_looks(watched, scheme)


def test_one_seed_without_failures(pages: Path, chromium: Browser) -> None:
    with opened(chromium, pages / "sound.html", {"width": 360, "height": 740}) as watched:
        browser.check_look(watched)
        assert watched.page.locator("#goodputs").count() == 0
        rows = table_of(watched, "campaign-timeline")
        assert list(rows["what"]) == ["steps", "checkpoint"]


def test_keys_reach_every_control(pages: Path, chromium: Browser) -> None:
    with opened(chromium, pages / "given.html") as watched:
        browser.check_keys(watched)


@pytest.mark.parametrize("file", [GIVEN, ELASTIC], ids=["given", "simulated"])
def test_tables_are_the_events_of_the_program(
    file: Path, pages: Path, program: Program, tmp_path: Path, chromium: Browser
) -> None:
    done = program("run", file, "--no-explain", "--quiet", "--events", tmp_path / "events.csv")
    assert done.returncode == 0, done.stderr
    events = pd.read_csv(tmp_path / "events.csv", keep_default_na=False)
    wall = events["to_s"].max()
    events["length"] = events["to_s"] - events["from_s"]
    steps = events[events["what"] == "steps"]
    restart = events[events["what"].isin(["stop", "rendezvous", "start", "initialisation"])]
    name = "given" if file == GIVEN else "simulated"
    with opened(chromium, pages / f"{name}.html") as watched:
        rows = table_of(watched, "campaign-timeline").set_index("what")
        daily = table_of(watched, "days")
    hours = numbers(rows["in all (h)"])
    trained = sum(hours.get(name, 0.0) for name in ("steps", "slower steps"))
    late = events.loc[events["what"] == "slow_states", "length"].sum()
    survive = (steps["length"] - steps["undone_s"]).sum() + late
    assert trained == pytest.approx(survive / 3600, abs=2e-3)
    undone = steps["undone_s"].sum()
    assert hours["steps that were undone"] == pytest.approx(undone / 3600, abs=1e-3)
    assert hours["restart"] == pytest.approx(restart["length"].sum() / 3600, abs=1e-3)
    for what in ("checkpoint", "load", "detection"):
        length = events.loc[events["what"] == what, "length"].sum()
        assert hours[what] == pytest.approx(length / 3600, abs=1e-3)
    failures = events.loc[events["what"] == "failure", "which"].str.rsplit(" ", n=1).str[0]
    pieces = rows["pieces"].to_dict()
    for kind, count in failures.value_counts().items():
        assert pieces[kind] == f"{count:,}"
    starts = numbers(daily.iloc[:, 0]) * 86400
    lengths = np.diff(np.append(starts, wall))
    lost = daily.iloc[:, 1:].apply(numbers).sum(axis=1) / 100 * lengths
    goodput = 1 - lost.sum() / wall
    assert goodput == pytest.approx(steps["useful_s"].sum() / wall, abs=1e-4)


def test_a_result_is_reported_as_its_scenario_is(
    pages: Path, program: Program, tmp_path: Path
) -> None:
    result = tmp_path / "result.json"
    assert program("run", GIVEN, "--quiet", "--out", result).returncode == 0
    done = program("report", result, "-o", tmp_path / "page.html")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    fingerprint = json.loads(result.read_text())["fingerprint"]
    assert fingerprint in (tmp_path / "page.html").read_text()
    assert fingerprint in (pages / "given.html").read_text()
    data = json.loads(result.read_text()) | {"fingerprint": "0123456789abcdef"}
    result.write_text(json.dumps(data))
    with pytest.raises(paceline.InputError, match="0123456789abcdef: make it anew"):
        paceline.report(result, tmp_path / "page.html")


def test_there_is_no_step_to_look_into(tmp_path: Path) -> None:
    with pytest.raises(paceline.InputError, match="nothing to look into"):
        paceline.report(GIVEN, tmp_path / "page.html", step=3)


def test_pieces_that_are_too_many_are_joined() -> None:
    seen = look(GIVEN)
    assert seen.step is None and seen.campaign is not None
    pieces = days.Pieces(seen.campaign).of
    from_s, to_s = pieces["checkpoint"]
    assert len(from_s) > 1000
    few_from, few_to = days.joined(from_s, to_s, 3600.0)
    assert 0 < len(few_from) < len(from_s)
    assert few_from[0] == from_s[0] and few_to[-1] == to_s[-1]
    assert np.all(few_from[1:] - few_to[:-1] >= 3600.0)
    inside = np.searchsorted(few_from, from_s, side="right") - 1
    assert np.all(to_s <= few_to[inside])  # nothing is lost
    figure = days.timeline(seen.campaign, 500)
    assert "are drawn as one" in figure.caption
    assert "are drawn as one" not in days.timeline(seen.campaign, 100_000).caption


def test_pictures(tmp_path: Path, program: Program) -> None:
    study: dict[str, Any] = {
        "scenario": paceline.scenarios.edit(paceline.scenarios.load(GIVEN), "/faults/seeds", 3),
        "axes": [{"key": "/faults/checkpoint/interval", "values": ["10 min", "1 h", "2 h"]}],
    }
    (tmp_path / "study.json").write_text(json.dumps(study))
    done = program("sweep", tmp_path / "study.json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    made = paceline.studies.load(tmp_path / "out")
    assert {"goodput", "goodput_p5", "campaign_interval_s"} <= set(made.frame)
    _, axes = paceline.plot.goodput(made)
    assert axes.get_xlabel() == "interval" and axes.get_ylabel() == "goodput (%)"
    drawn = np.asarray(axes.lines[0].get_ydata())
    assert drawn.tolist() == pytest.approx(list(100 * made.frame["goodput"]))
    done = program("plot", tmp_path / "out", "-o", tmp_path / "goodput.svg")
    assert (done.returncode, done.stderr) == (0, "")
    with pytest.raises(ValueError, match="found no goodput"):
        paceline.plot.goodput(made.frame.drop(columns="goodput"))
    result = paceline.run(study["scenario"])
    assert "goodput" in repr(result)
    with pytest.raises(ValueError, match="has no step"):
        paceline.plot.breakdown(result)
    with pytest.raises(ValueError, match="found none: goodput draws days of training"):
        paceline.plot.scaling([result, result])
    assert result.campaign is not None
    figure, axes = paceline.plot.goodput([result, result])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2"]
    share = 100 * result.campaign["goodput"]["mean"]
    assert np.asarray(axes.lines[-1].get_ydata()).tolist() == pytest.approx([share, share])
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["predicted", "5 % to 95 % of seeds"]
    assert not any(isinstance(each, PolyCollection) for each in axes.collections)
    with pytest.raises(paceline.InputError, match=r"^x: expected an axis, interval, .* 'bogus'$"):
        paceline.plot.goodput(made, x="bogus")
    _, axes = paceline.plot.losses(result)
    bars: list[Any] = list(axes.patches)
    widths = sorted((bar.get_width() for bar in bars), reverse=True)
    shares = 100 * result.campaign_losses()["share"].sort_values(ascending=False)
    assert widths == pytest.approx(list(shares[: len(widths)]))
    (tmp_path / "result.json").write_text(result.text)
    done = program("plot", tmp_path / "result.json", "-o", tmp_path / "losses.svg")
    assert (done.returncode, done.stderr) == (0, "")


def test_strategies_by_their_checkpoints() -> None:
    compared = paceline.compare(GIVEN, ["fsdp", "zero1"])
    assert not compared.has_steps
    assert list(compared.frame["strategy"]) == ["fsdp", "zero1"]
    assert (compared.frame["goodput"] > 0.5).all()
    assert "keeps" in compared.verdict
