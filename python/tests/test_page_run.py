"""The page of a run, as a browser shows it."""

from __future__ import annotations

import json
import random
import shlex
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import browser
import made_up_view
import numpy as np
import pytest
from browser import LOOKS, NAMES, Watched, opened
from conftest import ROOT, Program
from playwright.sync_api import Browser

import paceline
from paceline.page import document, heat, levers, network, run, timeline
from paceline.page.view import KINDS, LINK_CLASSES, RunView, look

SEED = random.randrange(10**6)
EVIL = "</script><script>alert(1)</script>\"><img src=x onerror=alert(2)> '\u202eevil\u202c "
KINDS_OF_RUN = ["slow_gpu_64", "stragglers_64", "one_gpu"]
AT = """
([name, x, y]) => {
  const element = document.getElementById(name);
  element.querySelector(".plot").scrollIntoView({block: "center"});
  const roots = Bokeh.documents.flatMap((each) => each.roots());
  const views = roots.map((root) => Bokeh.index.find_one(root));
  const {el, frame} = views.find(({el}) => element.contains(el));
  const area = el.getBoundingClientRect();
  return [area.x + frame.x_scale.compute(x), area.y + frame.y_scale.compute(y)];
}
"""
RANGES = """
(name) => {
  const element = document.getElementById(name);
  const roots = Bokeh.documents.flatMap((each) => each.roots());
  const root = roots.find((root) => element.contains(Bokeh.index.find_one(root).el));
  const {x_range: x, y_range: y} = root;
  return [x.start, x.end, y.start, y.end];
}
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.a_browser() as found:
        yield found


def looked(source: Any, **options: Any) -> tuple[paceline.Result, RunView]:
    seen = look(source, **options)
    assert seen.step is not None and seen.campaign is None
    return seen.result, seen.step


@pytest.fixture(scope="module")
def runs() -> dict[str, tuple[paceline.Result, RunView]]:
    cluster = {"node": "dgx-a100", "nodes": 1, "gpus_per_node": 1}
    one = paceline.scenarios.load(ROOT / "scenarios/first_node.json") | {"cluster": cluster}
    return {
        "slow_gpu_64": looked(ROOT / "scenarios/slow_gpu_64.json"),
        "stragglers_64": looked(ROOT / "scenarios/stragglers_64.json", explain=False),
        "one_gpu": looked(one),
    }


def write(path: Path, result: paceline.Result, view: RunView | None) -> Path:
    sections = run.sections(result, view, command="paceline run scenario.json")
    document.write(path, run.title(result), result.data["description"], sections)
    return path


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory, runs: dict[str, tuple[paceline.Result, RunView]]
) -> Path:
    """A page of each run."""
    folder = tmp_path_factory.mktemp("pages")
    for name, (result, view) in runs.items():
        write(folder / f"{name}.html", result, view)
    return folder


@pytest.fixture(scope="module")
def slow(runs: dict[str, tuple[paceline.Result, RunView]]) -> tuple[paceline.Result, RunView]:
    return runs["slow_gpu_64"]


@pytest.fixture
def page_of_slow(chromium: Browser, pages: Path) -> Iterator[Watched]:
    with opened(chromium, pages / "slow_gpu_64.html") as watched:
        yield watched


@pytest.fixture(scope="module")
def opened_once(chromium: Browser, pages: Path) -> Iterator[Watched]:
    with opened(chromium, pages / "slow_gpu_64.html") as watched:
        yield watched


@pytest.fixture
def read_page(opened_once: Watched) -> Iterator[Watched]:
    """The same page, for tests that only read it and hold the pointer over it."""
    opened_once.page.mouse.move(0, 0)
    browser.settled(opened_once.page)
    yield opened_once
    opened_once.check_quiet()


def tooltip(watched: Watched, figure: str, x: float, y: float) -> list[str]:
    """Hold the pointer over a place of a chart; return the texts that it shows."""
    at = watched.page.evaluate(AT, [figure, float(x), float(y)])
    watched.page.mouse.move(at[0] - 3, at[1] - 3)
    watched.page.mouse.move(*at, steps=3)
    watched.page.wait_for_function("checks.tooltips().length > 0")
    return watched.page.evaluate("checks.tooltips()")


def ranges(watched: Watched, figure: str) -> list[float]:
    browser.settled(watched.page)
    return watched.page.evaluate(RANGES, figure)


@pytest.mark.parametrize(("size", "scheme"), LOOKS, ids=NAMES)
@pytest.mark.parametrize("name", KINDS_OF_RUN)
def test_looks(
    name: str, size: dict[str, int], scheme: str, pages: Path, chromium: Browser
) -> None:
    with opened(chromium, pages / f"{name}.html", size, scheme) as watched:
        browser.check_looks(watched, scheme)


def test_smallest_phone(pages: Path, chromium: Browser) -> None:
    with opened(chromium, pages / "slow_gpu_64.html", {"width": 360, "height": 740}) as watched:
        for summary in watched.page.locator("details:not(.long) > summary").all():
            summary.click()
        browser.check_look(watched)


def test_keys_reach_every_control(page_of_slow: Watched) -> None:
    browser.check_keys(page_of_slow)


def test_a_page_without_a_view(
    slow: tuple[paceline.Result, RunView], tmp_path: Path, chromium: Browser
) -> None:
    with opened(chromium, write(tmp_path / "page.html", slow[0], None)) as watched:
        assert watched.page.locator("#timeline, #nodes, #network").count() == 0
        browser.check_look(watched)


def test_tooltips_of_the_breakdown(
    read_page: Watched, slow: tuple[paceline.Result, RunView]
) -> None:
    frame = slow[0].breakdown()
    for row, column in enumerate(("time_s", "worst_rank_time_s")):
        times = 1e3 * frame[column].to_numpy()
        ends = times.cumsum()
        seen = np.flatnonzero(times > 0.02 * ends[-1])
        for part in seen:
            said = tooltip(read_page, "parts", ends[part] - times[part] / 2, row)
            assert said[2:4] == [f"{times[part]:,.3f} ms", f"{100 * times[part] / ends[-1]:.1f} %"]


def test_tooltips_of_slices(read_page: Watched, slow: tuple[paceline.Result, RunView]) -> None:
    print("seed", SEED)
    view = slow[1]
    slices = view.slices
    lanes = timeline.lanes_of(view)
    tops = timeline.bars(view, lanes)["top"]
    bottom = ranges(read_page, "timeline")[2]
    wide = (slices.duration_ms > 0.01 * view.duration_ms) & (tops < bottom - timeline.ROW)
    wide &= (slices.start_ms > 0) & (slices.start_ms + slices.duration_ms < view.duration_ms)
    for each in random.Random(SEED).sample(np.flatnonzero(wide).tolist(), 6):
        middle = slices.start_ms[each] + slices.duration_ms[each] / 2
        said = tooltip(read_page, "timeline", middle, tops[each] + timeline.BAR / 3)
        rank, kind = int(slices.rank[each]), KINDS[slices.kind[each]]
        assert said == [
            f"rank {rank:,}, node{rank // 8}/gpu{rank % 8}, "
            + timeline.stream_name(int(slices.stream[each])),
            view.labels[slices.label[each]],
            "communication" if kind == "collective" else kind,
            f"{slices.start_ms[each]:,.3f} ms",
            f"{slices.duration_ms[each]:,.3f} ms",
            f"{slices.waiting_ms[each]:,.3f} ms",
        ]


@pytest.mark.parametrize("measure", heat.MEASURES)
def test_tooltips_of_heat_maps(
    measure: str, read_page: Watched, slow: tuple[paceline.Result, RunView]
) -> None:
    print("seed", SEED)
    page, view = read_page.page, slow[1]
    values = getattr(view, measure)
    for figure in ("nodes", "steps"):
        page.select_option(f"#{figure} select", measure)
    for rank in random.Random(SEED).sample(range(view.ranks), 3):
        where = f"rank {rank}, node{rank // 8}/gpu{rank % 8}"
        mean = values[1:].mean(axis=0)[rank]
        assert tooltip(read_page, "nodes", rank // 8, rank % 8) == [where, f"{mean:,.3f} ms"]
        step = random.Random(SEED + rank).randrange(len(view.steps))
        said = tooltip(read_page, "steps", rank, step)
        assert said == [where, f"{view.steps[step]}", f"{values[step, rank]:,.3f} ms"]


def test_tooltips_of_links(read_page: Watched, slow: tuple[paceline.Result, RunView]) -> None:
    print("seed", SEED)
    view = slow[1]
    used = network.utilisation(view)
    drawn = network.segments(view, network.Layout(view), used)
    left, right, *_ = ranges(read_page, "network")
    x = np.array([drawn["x0"], drawn["x1"]])
    seen = np.flatnonzero(((x > left) & (x < right)).all(axis=0))
    for link in random.Random(SEED).sample(seen.tolist(), 6):
        place = [0.4 * drawn[f"{axis}1"][link] + 0.6 * drawn[f"{axis}0"][link] for axis in "xy"]
        said = tooltip(read_page, "network", *place)
        ends = network.link_name(view, link).split(" - ")
        wanted = [
            *ends,
            LINK_CLASSES[view.link_class[link]].replace("_", " "),
            f"{drawn['megabytes'][link]:,.3f} MB",
            f"{drawn['bandwidth'][link]:,.3f} GB/s",
            f"{100 * used[link]:.1f} %",
            f"{drawn['neighbours'][link]:,.3f} GB/s",
        ]
        found = [said[i : i + len(wanted)] for i in range(0, len(said), len(wanted))]
        assert wanted in found  # of links that cross there


def test_tooltips_of_levers_and_buckets(
    read_page: Watched, slow: tuple[paceline.Result, RunView]
) -> None:
    result = slow[0]
    levers = result.sensitivities()
    for row in range(3):
        change = 100 * levers["time_per_sample_change"][row]
        said = tooltip(read_page, "levers-figure", change / 2, row)
        assert said[::2] == [levers["change"][row], f"{change:+.1f} %"]
        assert said[1] == levers["kind"][row]
    buckets = 1e3 * result.buckets()
    for row in (0, len(buckets) // 2, len(buckets) - 1):
        start, end = buckets["start_s"][row], buckets["end_s"][row]
        said = tooltip(read_page, "buckets", (start + end) / 2, row)
        assert said[2:] == [f"{start:,.3f} ms", f"{end:,.3f} ms"]


def test_every_slice_is_drawn_and_summed(
    read_page: Watched, slow: tuple[paceline.Result, RunView]
) -> None:
    view = slow[1]
    drawn = browser.data(read_page, "slices", "duration", "waiting")
    assert len(drawn["duration"]) == len(view.slices.rank)
    sums = timeline.sums(view)
    columns = [f"{name} (ms)" for name in KINDS if f"{name} (ms)" in sums]
    total = sums[[*columns, "communication (ms)"]].to_numpy().sum()
    assert total == pytest.approx(view.slices.duration_ms.sum(dtype=float))
    assert sums["of it waiting (ms)"].sum() == pytest.approx(sum(drawn["waiting"]))


def test_the_critical_path_is_the_step(slow: tuple[paceline.Result, RunView]) -> None:
    view = slow[1]
    assert view.critical_path is not None
    pieces = timeline.path_table(view.critical_path)
    assert pieces["duration (ms)"].sum() == pytest.approx(view.duration_ms)
    line = timeline.path_line(view.critical_path, timeline.lanes_of(view))
    assert line["x"][0] == 0 and line["x"][-1] == pytest.approx(view.duration_ms)
    assert np.all(np.diff(line["x"]) >= 0)


def test_the_critical_path_can_be_hidden(page_of_slow: Watched) -> None:
    plot = page_of_slow.page.locator("#timeline .plot")
    plot.scroll_into_view_if_needed()
    browser.settled(page_of_slow.page)
    shown = plot.screenshot()
    page_of_slow.page.get_by_role("checkbox", name="Critical path").uncheck()
    browser.settled(page_of_slow.page)
    assert plot.screenshot() != shown
    page_of_slow.page.get_by_role("checkbox", name="Critical path").check()
    page_of_slow.page.mouse.move(0, 0)
    browser.settled(page_of_slow.page)
    assert plot.screenshot() == shown


def test_zoom_and_pan(page_of_slow: Watched, slow: tuple[paceline.Result, RunView]) -> None:
    page = page_of_slow.page
    left, right, bottom, top = ranges(page_of_slow, "timeline")
    width, height = right - left, bottom - top
    half = pytest.approx([left + width / 4, right - width / 4, bottom, top])

    page.locator("#timeline .plot").focus()
    page.keyboard.press("+")
    assert ranges(page_of_slow, "timeline") == half
    page.keyboard.press("ArrowRight")
    moved = [left + 3 * width / 8, right - width / 8, bottom, top]
    assert ranges(page_of_slow, "timeline") == pytest.approx(moved)
    page.keyboard.press("ArrowDown")
    moved[2:] = [bottom + height / 4, top + height / 4]
    assert ranges(page_of_slow, "timeline") == pytest.approx(moved)
    page.keyboard.press("Home")
    assert ranges(page_of_slow, "timeline") == pytest.approx([left, right, bottom, top])

    page.click("#timeline [data-move=in]")
    assert ranges(page_of_slow, "timeline") == half
    page.click("#timeline [data-move=down]")
    page.click("#timeline [data-move=up]")
    assert ranges(page_of_slow, "timeline") == half
    page.click("#timeline [data-move=reset]")

    page.locator("#timeline .plot").focus()
    end = timeline.lanes_of(slow[1]).end
    for _ in range(2 * end):
        page.keyboard.press("ArrowDown")
    assert ranges(page_of_slow, "timeline")[2] == end


def test_the_wheel_zooms_with_ctrl_alone(page_of_slow: Watched) -> None:
    page = page_of_slow.page
    before = ranges(page_of_slow, "timeline")
    middle = (before[0] + before[1]) / 2
    page.mouse.move(*page.evaluate(AT, ["timeline", middle, 1.0]))
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    page.wait_for_timeout(300)
    zoomed = ranges(page_of_slow, "timeline")
    assert zoomed[1] - zoomed[0] < 0.9 * (before[1] - before[0])
    assert (zoomed[0] + zoomed[1]) / 2 == pytest.approx(middle, rel=0.02)
    scrolled = page.evaluate("scrollY")
    page.mouse.wheel(0, 200)
    page.wait_for_timeout(300)
    assert ranges(page_of_slow, "timeline") == zoomed
    assert page.evaluate("scrollY") > scrolled


def test_tables_hold_the_numbers(read_page: Watched, slow: tuple[paceline.Result, RunView]) -> None:
    result, view = slow
    text = read_page.page.locator("#parts .data tbody tr").all_text_contents()
    assert len(text) == len(result.breakdown())
    for row, time in zip(text, result.breakdown()["time_s"], strict=True):
        assert f"{1e3 * time:,.3f}" in row
    rows = read_page.page.locator("#timeline .data tbody tr").all_text_contents()
    assert len(rows) == len(view.shown)
    assert f"{timeline.sums(view)['forward (ms)'].tolist()[3]:,.3f}" in rows[3]
    rows = read_page.page.locator("#network .data tbody tr").all_text_contents()
    table = network.by_class(view, network.utilisation(view))
    for row, link, size in zip(rows, table["busiest"], table["its bytes (MB)"], strict=True):
        assert str(link) in row and format(float(size), ",.3f") in row


def test_commands_of_levers_do_what_they_say(
    slow: tuple[paceline.Result, RunView], tmp_path: Path, program: Program
) -> None:
    result = slow[0]
    frame = result.sensitivities()
    scenario, out = tmp_path / "a scenario.json", tmp_path / "result.json"
    scenario.write_text(json.dumps(result.data["scenario"]))
    table = levers.table(frame, f"paceline run {shlex.quote(str(scenario))}").parts[0]
    assert isinstance(table, document.Table)
    for edits, row in zip(frame["edits"], table.frame["edits"], strict=True):
        assert json.loads(row) == {edit["key"]: edit["value"] for edit in edits}
    for row in random.Random(SEED).sample(range(len(frame)), 3):
        words = shlex.split(table.frame["command"][row])[1:]
        ran = program(*words, "--no-explain", "--out", out)
        assert ran.returncode == 0, ran.stderr
        step = paceline.Result.load(out).step_time_s
        assert step == pytest.approx(frame["step_time_s"][row], rel=1e-9)


def test_what_does_not_fit_is_said_first() -> None:
    scenario = paceline.scenarios.load(ROOT / "scenarios/fsdp_llama3_8b.json")
    result = paceline.run(paceline.scenarios.edit(scenario, "/training/strategy", "ddp"))
    first, *_ = run.summary(result)
    assert isinstance(first, document.Notice) and first.text.startswith("This does not fit")
    assert " It would fit with /training/strategy=zero and /training/zero/stage=1 (" in first.text


def test_the_interval_of_a_profile_is_in_the_headline(profile: paceline.Profile) -> None:
    result = paceline.run(
        ROOT / "scenarios/first_node.json", profile=profile, allow_other_machine=True
    )
    numbers = run.summary(result)[-1]
    assert isinstance(numbers, document.Numbers) and result.interval is not None
    assert numbers.entries[0].note.startswith("90 % interval")
    assert f"{1e3 * result.interval.high_s:,.4g} ms" in numbers.entries[0].note


def test_the_command_has_the_profile(tmp_path: Path, profile: paceline.Profile) -> None:
    file, page = tmp_path / "a profile.json", tmp_path / "page.html"
    file.write_text(json.dumps({**profile}))
    scenario = ROOT / "scenarios/first_node.json"
    for source, known, words in (
        (scenario, file, f"{scenario} --profile '{file}'"),
        (scenario, None, f"{scenario}"),
        (paceline.scenarios.load(scenario), profile, "scenario.json --profile profile.json"),
    ):
        paceline.report(source, page, profile=known, allow_other_machine=True, explain=False)
        more = " --allow-other-machine" if known else ""
        assert f"<bdi>paceline run {words}{more}</bdi>" in unescape(page.read_text())
    assert ">1 node of 8<" in page.read_text()


def test_what_a_scenario_says_stays_text(
    slow: tuple[paceline.Result, RunView], tmp_path: Path, chromium: Browser
) -> None:
    data = json.loads(slow[0].text)
    data["description"] = EVIL + 10_000 * "x"
    data["engine_reason"] = data["fingerprint"] = EVIL
    data["scenario"]["model"]["name"] = EVIL + 300 * "y"
    data["stragglers"][0]["gpu"] = data["worst_rank"]["gpu"] = EVIL
    data["best_levers"] = [EVIL]
    for lever in data["sensitivities"]:
        lever["change"] = EVIL
        lever["edits"] = [{"key": EVIL, "value": EVIL}]
    view = made_up_view.view(64, labels=(EVIL,) * 40)
    path = write(tmp_path / "page.html", paceline.Result(json.dumps(data)), view)
    for size, scheme in LOOKS:
        with opened(chromium, path, size, scheme) as watched:
            browser.check_looks(watched, scheme)
            assert watched.page.locator("img").count() == 0
            assert EVIL.strip()[:40] in watched.page.locator("h1").inner_text()
            said = tooltip(watched, "timeline", 0.6, timeline.ROW + 0.6)
            assert said[1] == EVIL


def test_a_hundred_thousand_slices_fit(tmp_path: Path, chromium: Browser) -> None:
    view = made_up_view.view(64, shown=64, operations=700)
    assert len(view.slices.rank) >= 100_000
    path = tmp_path / "page.html"
    document.write(path, "", "", [document.Section("step", "Step", timeline.timeline(view))])
    assert path.stat().st_size < 6e6
    with opened(chromium, path) as watched:
        browser.check_look(watched)


def test_sixteen_thousand_gpus_fit(
    slow: tuple[paceline.Result, RunView], tmp_path: Path, chromium: Browser
) -> None:
    view = made_up_view.view(16_384, shown=64, operations=700, steps=24)
    path = write(tmp_path / "page.html", slow[0], view)
    assert path.stat().st_size < 20e6
    with opened(chromium, path) as watched:
        browser.check_look(watched)
        rank = made_up_view.SLOW
        picture = watched.page.evaluate(
            """() => {
              const roots = Bokeh.documents.flatMap((each) => each.roots());
              const models = roots.flatMap((root) => [...root.references()]);
              const shown = models.filter((m) => m.data?.rank && m.data.dw)[0].data;
              return [...shown.rank[0]];
            }"""
        )
        assert picture.count(rank) == 24  # of the ranks of its column it is seen, in each step


def test_bands_and_groups_lose_nothing() -> None:
    ranks = np.arange(2048 * 8, dtype=np.float32)
    picture = heat.in_bands(ranks, 8)
    assert picture.shape == (16 * 9 - 1, 128)
    assert picture[9 + 3, 5] == (128 + 5) * 8 + 3
    assert sorted(picture[~np.isnan(picture)]) == sorted(ranks)
    steps: Any = np.zeros((100, 16_384), np.float32)
    steps[57, 4711] = 1
    grouped, names = heat.grouped_steps(steps, list(range(1, 101)))
    assert grouped.size <= heat.MOST_CELLS and grouped[:, 4711].max() == 1
    assert names[0].startswith("1 to ") and names[-1].endswith("100")
