"""What a page of a run costs: prints its size, the processor time to open it, and that of a zoom.

Made-up runs in headless Chromium, offline: a timeline of 100,000 operations by itself, and all of
16,384 GPUs. Processor time is that of the browser with all its processes, from an empty page on.

    python python/benchmarks/report_page.py [--opens N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import made_up_view
from browser import a_browser
from playwright.sync_api import Browser, Page

from paceline.page import document, heat, network, timeline
from paceline.page.view import RunView

TICKS = os.sysconf("SC_CLK_TCK")
PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def parts(name: str) -> list[document.Part]:
    """Make the parts of a page."""
    if name == "100,000 operations":
        return timeline.timeline(view(64, operations=700))
    large = view(16_384, operations=700)
    return [
        *timeline.timeline(large),
        heat.node_map(large),
        heat.step_map(large),
        network.network(large),
    ]


def view(gpus: int, operations: int) -> RunView:
    """Make a run, of 64 ranks of which there are operations."""
    return made_up_view.view(gpus, shown=64, operations=operations)


def processor_s() -> float:
    """Processor time of all processes that come from this one, without its own."""
    parents: dict[int, int] = {}
    times: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        parents[int(folder.name)] = int(fields[1])
        times[int(folder.name)] = (int(fields[11]) + int(fields[12])) / TICKS
    own = {os.getpid()}
    while True:
        more = {child for child, parent in parents.items() if parent in own} - own
        if not more:
            return sum(times[process] for process in own - {os.getpid()})
        own |= more


def open_page(browser: Browser, path: Path) -> tuple[float, float, float]:
    """Return the processor time to open a page, and that and the time of a zoom, in seconds."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    page = context.new_page()
    page.goto("about:blank")
    before = processor_s()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    page.wait_for_function("Bokeh.documents.every((each) => each.is_idle)")
    page.evaluate(PAINTED)
    opened = processor_s() - before
    page.locator("#timeline .plot").focus()
    before, started = processor_s(), time.perf_counter()
    zoom(page)
    took = time.perf_counter() - started
    zoomed = processor_s() - before
    context.close()
    return opened, zoomed, took


def zoom(page: Page) -> None:
    """Zoom in, and wait until it is painted."""
    page.keyboard.press("+")
    page.evaluate(PAINTED)


def main() -> None:
    """Print a line for each page."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--opens", type=int, default=5)
    opens = arguments.parse_args().opens
    with tempfile.TemporaryDirectory() as folder, a_browser() as browser:
        for name in ("100,000 operations", "16,384 GPUs"):
            path = Path(folder) / "page.html"
            document.write(path, name, "", [document.Section("run", "", parts(name))])
            costs = zip(*(open_page(browser, path) for _ in range(opens)), strict=True)
            opened, zoomed, took = map(statistics.median, costs)
            print(
                f"{name:20} {path.stat().st_size * 1e-6:5.2f} MB, opened in {opened:4.2f} s of "
                f"processor time, a zoom in {zoomed:4.2f} s, {took:4.2f} s on the clock"
            )


if __name__ == "__main__":
    main()
