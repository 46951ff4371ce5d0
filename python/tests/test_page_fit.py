"""Pages of profiles and of validations, as a browser shows them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest
from browser import LOOKS, NAMES, PHONE, opened
from conftest import ROOT
from playwright.sync_api import Browser

import paceline
from paceline.__main__ import main
from paceline.plot.calibration import own_points

SEED = random.randrange(10**6)
SETS = ("tf_cnn_2017_alexnet", "tf_cnn_2017_parameter_server_p100", "nccl_tcp_2018")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.a_browser() as found:
        yield found


@pytest.fixture(scope="module")
def validation() -> dict[str, Any]:
    """Real sets: with known gaps, without, and with several cases."""
    return paceline.validate([ROOT / f"scenarios/validation/{name}.json" for name in SETS])[1]


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory, profile: paceline.Profile, validation: dict[str, Any]
) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    paceline.report(profile, folder / "profile.html")
    (folder / "validation.json").write_text(json.dumps(validation))
    page = str(folder / "validation.html")
    assert main(["report", str(folder / "validation.json"), "-o", page]) == 0
    return folder


@pytest.mark.parametrize(("size", "scheme"), LOOKS, ids=NAMES)
@pytest.mark.parametrize("name", ["profile", "validation"])
def test_looks(
    name: str, size: dict[str, int], scheme: str, pages: Path, chromium: Browser
) -> None:
    with opened(chromium, pages / f"{name}.html", size, scheme) as watched:
        browser.check_looks(watched, scheme)


@pytest.mark.parametrize("name", ["profile", "validation"])
def test_by_keys_alone(name: str, pages: Path, chromium: Browser) -> None:
    with opened(chromium, pages / f"{name}.html") as watched:
        browser.check_keys(watched)


def test_a_profile_s_tooltips_are_its_points(
    pages: Path, chromium: Browser, profile: paceline.Profile
) -> None:
    print(f"seed {SEED}")
    points = own_points(profile, profile.cluster)
    bandwidth = 2 * 7 / 8 * points["size_bytes"] / points["time_us"] * 1e-3  # of all_reduce, 8 GPUs
    off = 100 * (points["time_us"] / points["model_us"] - 1)
    with opened(chromium, pages / "profile.html") as watched:
        for row in random.Random(SEED).sample(range(len(points)), 3):
            told = browser.tooltip(watched, "bandwidth", "bandwidth-points", row)
            at = bandwidth[row]
            shown = [
                told[i : i + 3] for i in range(0, len(told), 3)
            ]  # small ones are one on another
            assert any(browser.says(each[1], at) for each in shown)
            told = browser.tooltip(watched, "residuals", "residual-points", row)
            assert browser.says(told[1], off[row])
        cells = watched.page.locator("#residuals .data td").all_text_contents()[2::3]
        assert all(
            browser.says(text.strip(), value) for text, value in zip(cells, off, strict=True)
        )


def rows_of(validation: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for each in validation["sets"] for case in each["cases"] for row in case["rows"]]


def test_a_validation_s_tooltips_are_its_rows(
    pages: Path, chromium: Browser, validation: dict[str, Any]
) -> None:
    print(f"seed {SEED}")
    rows = rows_of(validation)
    with opened(chromium, pages / "validation.html") as watched:
        for row in random.Random(SEED).sample(range(len(rows)), 3):
            for figure in ("against", "errors"):
                name = f"{figure}-samples_per_s"
                told = browser.tooltip(watched, name, f"{name}-points", row)
                known = rows[row]
                shown = [told[i : i + 5] for i in range(0, len(told), 5)]
                assert any(
                    browser.says(measured, known["measured_samples_per_s"])
                    and browser.says(predicted, known["predicted_samples_per_s"])
                    and browser.says(band, known["low_samples_per_s"])
                    and browser.says(off, 100 * known["error"])
                    for _, measured, predicted, band, off in shown
                )
        cells = watched.page.locator("#errors-samples_per_s .data td").all_text_contents()[3::4]
        assert len(cells) == len(rows)
        assert all(
            browser.says(text.strip(), 100 * row["error"])
            for text, row in zip(cells, rows, strict=True)
        )


def test_headlines_and_gaps(pages: Path, chromium: Browser, validation: dict[str, Any]) -> None:
    with opened(chromium, pages / "validation.html") as watched:
        page = watched.page
        told = page.locator("#summary").inner_text()
        sets = validation["sets"]
        mean = np.expm1(np.mean([np.log1p(each["figures"]["mean"]) for each in sets]))
        worst = max(each["figures"]["worst"] for each in sets)
        simpler = np.expm1(np.mean([np.log1p(s["figures"]["perfect_scaling"]) for s in sets]))
        for value in (mean, worst, simpler):
            text = f"{100 * value:,.0f}" if value >= 10 else f"{100 * value:,.4g}"
            assert (f"{100 * value:.1f}" if value < 1 else text) in told
        checks = [check for each in sets for check in each["checks"]]
        gaps = [check for check in checks if check["verdict"] == "known_gap"]
        assert page.locator("#gaps > .wide tbody tr").count() == len(gaps)
        for gap in gaps:
            assert gap["why"] in page.locator("#gaps").text_content()  # type: ignore[operator]


def test_a_set_and_a_case(pages: Path, chromium: Browser, validation: dict[str, Any]) -> None:
    """What the second list offers follows the first; the chart shows what is chosen."""
    with opened(chromium, pages / "validation.html") as watched:
        page = watched.page
        figure = page.locator("#against-samples_per_s")
        sets, cases = figure.locator("select").all()
        before = figure.locator(".plot").screenshot()
        sets.select_option(SETS[2])
        browser.settled(page)
        assert figure.locator(".plot").screenshot() != before
        offered = cases.locator("option:not([disabled])").all_text_contents()
        names = [case["name"] for case in validation["sets"][2]["cases"]]
        assert [text.strip() for text in offered] == ["all cases", *names]
        cases.select_option(names[-1])
        sets.select_option(SETS[0])
        assert cases.input_value() == ""


def test_what_does_not_hold(tmp_path: Path, chromium: Browser, validation: dict[str, Any]) -> None:
    """A broken tolerance, collectives, excluded rows, and names that are markup."""
    attack = '"><script>alert(1)</script>' + "x" * 300
    broken = json.loads(json.dumps(validation)) | {"holds": False}
    each = broken["sets"][0]
    each["file"], each["description"] = f"{attack}.json", attack
    each["checks"] = [{"which": "mean", "value": 0.2, "tolerance": 0.1, "verdict": "broken"}]
    each["cases"][0]["name"] = attack
    each["cases"][0]["rows"][0]["excluded"] = attack
    row = {"table": "t", "line": 2, "nodes": 1, "gpus": 8, "error": 0.1}
    sizes = [row | {"size": 2**i, "measured_us": 10.0, "predicted_us": 11.0} for i in (10, 20)]
    rows = [each | {"low_us": 9.0, "high_us": 12.0} for each in sizes]
    each["cases"].append(each["cases"][0] | {"name": "all_reduce", "rows": rows})
    paceline.report(broken, tmp_path / "page.html")
    with opened(chromium, tmp_path / "page.html", {"width": 360, "height": 740}) as watched:
        browser.check_look(watched)
        assert ": mean" in watched.page.locator("#summary .notice").inner_text()
        assert "1 KiB" in watched.page.locator("#against-us .data").text_content()  # type: ignore[operator]


def test_little_is_known(
    tmp_path: Path, chromium: Browser, profile: paceline.Profile, validation: dict[str, Any]
) -> None:
    """Profiles without points and of a machine that is gone; validations without sets, errors."""
    for name, changes in (("bare", {"points": []}), ("gone", {"cluster": "gone.json"})):
        (tmp_path / f"{name}.json").write_text(json.dumps({**profile, **changes}))
        paceline.report(tmp_path / f"{name}.json", tmp_path / f"{name}.html")
    empty = {"holds": True, "rows": 0, "inside_interval": 0, "sets": []}
    paceline.report(empty, tmp_path / "empty.html")
    for each in (none := json.loads(json.dumps(validation)))["sets"]:
        for of in (each, *each["cases"]):
            of["figures"] = {"rows": 0, "inside_interval": 0}
    paceline.report(none, tmp_path / "none.html")
    assert "mean error" not in (tmp_path / "none.html").read_text()
    for name in ("bare", "gone", "empty"):
        with opened(chromium, tmp_path / f"{name}.html", PHONE, "dark") as watched:
            browser.check_look(watched)
            assert watched.page.locator(".notice").count() == 1


def test_another_form_is_told(tmp_path: Path) -> None:
    (tmp_path / "else.json").write_text('{"holds": true, "sets": [{"file": "x"}]}')
    with pytest.raises(paceline.InputError, match=r"validate --json.*another form"):
        paceline.report(tmp_path / "else.json", tmp_path / "page.html")
