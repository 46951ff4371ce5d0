"""The page of a sweep, as a browser shows it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browser
import pandas as pd
import pytest
from browser import LOOKS, NAMES, PHONE, WIDE, Watched, opened
from example_studies import make_sweep
from playwright.sync_api import Browser

import paceline
from paceline.__main__ import main

SEED = random.randrange(10**6)
WEDGED = "</script><script>alert(1)</script>\"><img src=x onerror=alert(2)> '\u202eevil\u202c "
POINTS = 10_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.a_browser() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, sweeps: dict[str, paceline.Sweep]) -> Path:
    """A page of each sweep."""
    folder = tmp_path_factory.mktemp("pages")
    for name, sweep in sweeps.items():
        paceline.report(sweep, folder / f"{name}.html")
    return folder


def table_of(watched: Watched, figure: str) -> pd.DataFrame:
    """Read the table under a figure, as texts."""
    page = watched.page
    heads = page.locator(f"#{figure} .data th").all_text_contents()
    cells = page.locator(f"#{figure} .data td").all_text_contents()
    rows = [cells[i : i + len(heads)] for i in range(0, len(cells), len(heads))]
    return pd.DataFrame([[text.strip() for text in row] for row in rows], columns=heads)


@pytest.mark.parametrize(("size", "scheme"), LOOKS, ids=NAMES)
@pytest.mark.parametrize("name", ["seeds", "failing", "nine lines", "long names", "long values"])
def test_looks(
    name: str, size: dict[str, int], scheme: str, pages: Path, chromium: Browser
) -> None:
    with opened(chromium, pages / f"{name}.html", size, scheme) as watched:
        browser.check_looks(watched, scheme)


@pytest.mark.parametrize(
    "name",
    [
        "two points",
        "twelve points",
        "many lines",
        "quantity",
        "nodes",
        "shapes",
        "rates",
        "servers",
    ],
)
def test_other_sweeps_on_a_phone(name: str, pages: Path, chromium: Browser) -> None:
    with opened(chromium, pages / f"{name}.html", {"width": 360, "height": 740}) as watched:
        browser.check_look(watched)


def test_by_keys_alone(pages: Path, chromium: Browser) -> None:
    with opened(chromium, pages / "seeds.html") as watched:
        browser.check_keys(watched)
        page = watched.page
        page.locator("#points td button").first.focus()
        page.keyboard.press("Enter")
        assert "/run/seed" in page.locator("dialog").inner_text()
        page.keyboard.press("Escape")
        assert not page.locator("dialog").is_visible()


def test_tooltips_are_the_data(
    pages: Path, chromium: Browser, sweeps: dict[str, paceline.Sweep]
) -> None:
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    bands = sweeps["seeds"].bands()
    with opened(chromium, pages / "seeds.html") as watched:
        shown = table_of(watched, "throughput")
        for row in draw.sample(range(len(bands)), 3):
            point = bands.iloc[row]
            where, predicted, band = browser.tooltip(
                watched, "throughput", "throughput-points", row
            )[:3]
            assert where == f"{int(point['gpus'])} GPUs"
            assert browser.says(predicted, point["mean"])
            low, high = band.split(" to ")
            assert browser.says(low, point["low"])
            assert browser.says(high, point["high"])
            gpus, mean = where.removesuffix(" GPUs"), predicted.removesuffix(" samples/s")
            assert list(shown.iloc[row]) == [gpus, mean, low, high]
        bars = browser.data(
            watched, "bars", "part", "value", "ms_text", "share_text", "top", "bottom"
        )
        tall = [i for i, top in enumerate(bars["top"]) if top - bars["bottom"][i] > 0.5]
        parts = table_of(watched, "parts")
        frame = sweeps["seeds"].frame
        for row in draw.sample(tall, 3):
            where, part, time, share = browser.tooltip(watched, "parts", "bars", row)[:4]
            assert where == f"{bars['value'][row]} GPUs"
            assert list(parts.iloc[row]) == [
                bars["value"][row], part, time.removesuffix(" ms"), share.removesuffix(" %")
            ]  # fmt: skip
            if part == "compute":
                known = frame[frame["gpus"] == int(bars["value"][row])]["breakdown_compute_s"]
                assert browser.says(time, 1e3 * known.mean())


def test_measured_points(pages: Path, chromium: Browser, sweeps: dict[str, paceline.Sweep]) -> None:
    with opened(chromium, pages / "seeds.html") as watched:
        where, measured, off = browser.tooltip(watched, "throughput", "throughput-measured", 0)[-3:]
        predicted = sweeps["seeds"].bands().set_index("gpus")["mean"][8]
        assert (where, measured) == ("8 GPUs", "11,000 samples/s")
        assert off == f"{100 * (predicted / 11000 - 1):+.2f} %"
        assert off.removesuffix(" %") in watched.page.locator("#measured").inner_text()


def test_a_click_shows_the_difference(pages: Path, chromium: Browser) -> None:
    with opened(chromium, pages / "many lines.html") as watched:
        x, y = browser.point_at(watched, "efficiency", "efficiency-points", 2)
        watched.page.mouse.click(x, y)
        dialog = watched.page.locator("dialog")
        dialog.wait_for()
        told = dialog.inner_text()
        assert "/cluster/nodes" in told
        assert "/training/ddp/bucket_cap" in told
        assert "paceline run scenario.json --set" in told


def test_the_difference_is_the_scenario(sweeps: dict[str, paceline.Sweep]) -> None:
    """What a row's command sets, the study's point has."""
    from paceline.page import differences

    for name in ("seeds", "many lines", "shapes"):
        sweep = sweeps[name]
        made = {json.dumps(p["axes"]): p["scenario"] for p in paceline.studies.points(sweep.study)}
        for row, detail in zip(
            sweep.frame.to_dict("records"), differences.details(sweep), strict=True
        ):
            scenario: dict[str, Any] = sweep.study["scenario"]
            for pointer, _, value in detail.rows:
                scenario = paceline.scenarios.edit(scenario, pointer, json.loads(value))
            point = {axis.name: row[axis.name] for axis in sweep.axes}
            assert scenario == made[json.dumps(point)]


def test_a_command_runs_the_point(tmp_path: Path) -> None:
    """Also where a column of whole numbers and fractions makes 0.0 of 0."""
    from paceline.page import differences

    cv = "/variability/per_operation/cv"
    folder = make_sweep(tmp_path / "sweep", {"gpus": ("gpus", [8]), "cv": (cv, [0, 0.5])})
    sweep = paceline.studies.load(folder)
    sweep.study |= {"profile": "a profile.json", "allow_other_machine": True}
    told = [detail.code for detail in differences.details(sweep)]
    sets = [f"--set {cv}={value} --set /cluster/nodes=1" for value in (0, 0.5)]
    options = "--profile 'a profile.json' --allow-other-machine"
    assert told == [f"paceline run scenario.json {each} {options}" for each in sets]


def test_quantities_sort_by_their_size() -> None:
    from paceline.page.document import Table

    for column, ranks in (
        (["100 MiB", "5 MiB", "1 GiB", "5 MiB"], [2, 1, 3, 1]),
        (["10 ms", "9 MiB", "B"], [1, 2, 3]),
        (["b", "A", "10 ms"], [3, 2, 1]),
    ):
        frame = pd.DataFrame({"cap": column})
        assert Table("table", frame).payload["ranks"] == [ranks]


def test_numbers_have_no_exponents() -> None:
    from paceline.page.document import rounded, time_text

    values = (0.012346, 1.2, 999.96, 1234.5, 9999.6, 123456)
    assert list(map(rounded, values)) == ["0.01235", "1.2", "1,000", "1,234", "10,000", "123,456"]
    assert [time_text(value) for value in (0.0123456, 2, 12345)] == ["12.35 ms", "2 s", "12,345 s"]


def test_the_table_sorts_and_filters(
    pages: Path, chromium: Browser, sweeps: dict[str, paceline.Sweep]
) -> None:
    with opened(chromium, pages / "many lines.html") as watched:
        page = watched.page
        rows = page.locator("#points tbody tr")
        column = page.locator("#points th button").all_text_contents().index("efficiency (%)")
        head = page.locator("#points th").nth(column)
        for order, reverse in (("ascending", False), ("descending", True)):
            head.locator("button").click()
            assert head.get_attribute("aria-sort") == order
            shown = [float(row.locator("td").nth(column).inner_text()) for row in rows.all()]
            assert shown == sorted(shown, reverse=reverse)
        page.locator("#points input").fill("DGX1 v100")
        frame = sweeps["many lines"].frame
        wanted = frame[frame["node"] == "dgx1-v100"]
        assert rows.count() == len(wanted)
        assert page.locator("#points .count").inner_text() == f"{len(wanted)} of {len(frame)} rows"


def test_lines_hide_and_combinations_change(pages: Path, chromium: Browser) -> None:
    with opened(chromium, pages / "many lines.html") as watched:
        page = watched.page
        before = page.locator("#efficiency .plot").screenshot()
        button = page.locator("#efficiency .keys button").first
        button.click()
        browser.settled(page)
        assert button.get_attribute("aria-pressed") == "false"
        assert page.locator("#efficiency .plot").screenshot() != before
        before = page.locator("#parts .plot").screenshot()
        page.locator("#parts select").select_option(index=5)
        browser.settled(page)
        assert page.locator("#parts .plot").screenshot() != before


def test_the_theme_follows_the_reader(pages: Path, chromium: Browser) -> None:
    with opened(chromium, pages / "seeds.html") as watched:
        watched.page.emulate_media(color_scheme="dark")
        browser.settled(watched.page)
        browser.check_look(watched)
        watched.page.emulate_media(media="print")
        browser.settled(watched.page)
        browser.check_look(watched)
        ground = watched.page.evaluate(
            "getComputedStyle(document.querySelector('figure')).backgroundColor"
        )
        assert ground == "rgb(255, 255, 255)"


def test_failed_points_say_why(pages: Path, chromium: Browser) -> None:
    with opened(chromium, pages / "failing.html") as watched:
        told = watched.page.locator("#failed").inner_text()
        assert "/variability/per_operation/cv" in told
        assert watched.page.locator("#failed tbody tr").count() == 2


@pytest.mark.parametrize("values", [[-1, -2], [0.1], []], ids=["all failed", "one", "none"])
def test_few_points(values: list[float], chromium: Browser, tmp_path: Path) -> None:
    axes = {"cv": ("/variability/per_operation/cv", values)}
    folder = make_sweep(tmp_path / "sweep", axes, description="Few")
    paceline.report(folder, tmp_path / "page.html")
    with opened(chromium, tmp_path / "page.html", PHONE) as watched:
        browser.check_look(watched)
        browser.check_keys(watched)


def test_data_are_text(chromium: Browser, tmp_path: Path) -> None:
    """What names and descriptions say is shown and does nothing, however long it is."""
    name = WEDGED + "x" * 10_000
    folder = make_sweep(
        tmp_path / "sweep",
        {name: ("/training/batch_per_gpu", [16, 32]), "b": ("/run/seed", [1])},
        description=name,
    )
    study = json.loads((folder / "study.json").read_text())
    study["scenario"]["description"] = WEDGED + "\ud800"
    (folder / "study.json").write_text(json.dumps(study))
    line = {"message": WEDGED, "place": WEDGED, "file": name}
    with (folder / "results.jsonl").open("a") as file:
        file.write(json.dumps({"point": {name: WEDGED, "b": 1}, "error": line}) + "\n")
    paceline.report(folder, tmp_path / "page.html")
    for size in (WIDE, {"width": 360, "height": 740}):
        with opened(chromium, tmp_path / "page.html", size) as watched:
            browser.check_look(watched)
            assert name in watched.page.locator("header").text_content().replace("\n", "")  # type: ignore[union-attr]
            assert watched.page.locator("img").count() == 0
            watched.page.locator("#points td button").first.click()
            assert WEDGED.strip()[:20] in watched.page.locator("dialog").text_content()  # type: ignore[operator]


def test_ten_thousand_points(chromium: Browser, tmp_path: Path) -> None:
    folder = make_sweep(tmp_path / "sweep", {"gpus": ("gpus", [8])})
    (line,) = (folder / "results.jsonl").read_text().splitlines()
    study = json.loads((folder / "study.json").read_text())
    study["axes"].append(
        {"name": "batch", "key": "/training/batch_per_gpu", "from": 1, "to": POINTS}
    )
    known = json.loads(line)
    lines = [known | {"point": {"gpus": 8, "batch": i + 1}} for i in range(POINTS)]
    (folder / "study.json").write_text(json.dumps(study))
    (folder / "results.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    paceline.report(folder, tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 20e6
    with opened(chromium, tmp_path / "page.html") as watched:
        page = watched.page
        assert "10,000 rows" in page.locator("#points .count").inner_text()
        page.locator("#points input").fill("9999")
        assert page.locator("#points tbody tr").count() == 1
        page.locator("#points td button").click()
        assert "batch_per_gpu=9999" in page.locator("dialog").inner_text()


BAD: dict[str, tuple[Callable[[Path], Any], str]] = {
    "nothing": (lambda _: "nowhere.json", "nowhere.json"),
    "empty folder": (lambda folder: folder, "study.json and results.jsonl"),
    "trace": (lambda folder: folder / "trace.json", "`paceline plot` draws it"),
    "study": (lambda folder: folder / "study.json", "`paceline sweep`"),
    "something": (lambda folder: folder / "else.json", "expected a scenario"),
    "no JSON": (lambda folder: folder / "text.json", "line 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_sources(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, told = BAD[name]
    if name != "empty folder":
        (tmp_path / "trace.json").write_text('{"traceEvents": []}')
        (tmp_path / "study.json").write_text('{"axes": [], "scenario": {}}')
        (tmp_path / "else.json").write_text("[1]")
        (tmp_path / "text.json").write_text("text")
    assert main(["report", str(source(tmp_path)), "-o", str(tmp_path / "page.html")]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_bad_outputs(sweeps: dict[str, paceline.Sweep], tmp_path: Path) -> None:
    for out in (tmp_path, tmp_path / "no" / "page.html"):
        with pytest.raises(paceline.InputError, match="can be written"):
            paceline.report(sweeps["two points"], out)
    folder = make_sweep(tmp_path / "sweep", {"gpus": ("gpus", [8])})
    before = (folder / "results.jsonl").read_bytes()
    for out in (folder, folder / "results.jsonl", folder / "study.json"):
        with pytest.raises(paceline.InputError):
            paceline.report(folder, out)
    assert (folder / "results.jsonl").read_bytes() == before
    with pytest.raises(paceline.InputError, match="timeline"):
        paceline.report(sweeps["two points"], tmp_path / "page.html", step=3)
    with pytest.raises(TypeError, match="expected a scenario"):
        paceline.report(3, tmp_path / "page.html")  # type: ignore[arg-type]
