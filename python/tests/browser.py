"""A real browser for tests of pages: offline, with everything watched that it says and asks for."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
# How a page is opened; then its reader changes the scheme.
LOOKS = [(WIDE, "light"), (PHONE, "dark")]
NAMES = ["1440, light then dark", "390, dark then light"]
# Without a browser's window a page costs half.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS)), None)
CHECKS = Path(__file__).with_name("browser.js").read_text(encoding="utf-8")
CONTRAST = 4.5  # WCAG 2.2, level AA, for text
LEAST_COLORS = 40  # of a picture that shows something


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Start Chromium: the system's, where there is one; else the one that Playwright has."""
    with sync_playwright() as playwright:
        if CHROMIUM is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no Chromium")
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


class Watched:
    """A page, and what it said and asked for."""

    def __init__(self, page: Page, source: str) -> None:
        self.page = page
        self.source = source
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(source)
        page.wait_for_selector("html[data-ready]", state="attached", timeout=30_000)
        settled(page)

    def check_quiet(self) -> None:
        """No message, and nothing asked for but the page itself."""
        assert self.said == []
        known = ("data:", "blob:")
        strange = [url for url in self.asked if url != self.source and not url.startswith(known)]
        assert strange == []


@contextmanager
def opened(
    browser: Browser, path: Path, size: Any = None, scheme: Any = "light", **keys: Any
) -> Iterator[Watched]:
    """Open a file as a reader does, without a network."""
    viewport: Any = size or WIDE
    context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True, **keys)
    context.add_init_script(CHECKS)
    try:
        watched = Watched(context.new_page(), path.resolve().as_uri())
        yield watched
        watched.check_quiet()
    finally:
        context.close()


def settled(page: Page) -> None:
    """Wait until what was asked for is painted."""
    page.wait_for_function("checks.idle()")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def check_look(watched: Watched) -> None:
    """No horizontal scroll bar; every figure painted; text inside of the window, and readable."""
    page = watched.page
    wide, room = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= room, "a horizontal scroll bar"
    for plot in page.locator("figure .plot").all():
        name = plot.get_attribute("aria-label")
        assert colors(plot.screenshot()) >= LEAST_COLORS, name
    assert page.evaluate("(least) => checks.low(least)", CONTRAST) == []
    assert page.evaluate("(least) => checks.low_in_charts(least)", CONTRAST) == []
    assert page.evaluate("checks.cut()") == []


def check_looks(watched: Watched, scheme: str) -> None:
    """Check its look as it was opened, and in the other scheme."""
    check_look(watched)
    watched.page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
    settled(watched.page)
    check_look(watched)


def colors(picture: bytes) -> int:
    """How many colours a picture has, counted as far as it shows something."""
    with Image.open(io.BytesIO(picture)) as image:
        found = image.convert("RGB").getcolors(LEAST_COLORS)
    return LEAST_COLORS if found is None else len(found)


def check_keys(watched: Watched) -> None:
    """Tab reaches every control, each of which has a name, and shows where it is."""
    page = watched.page
    wanted = page.evaluate("checks.stops()")
    assert page.evaluate("checks.unnamed()") == []
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    reached = set()
    for _ in range(wanted + 2):
        page.keyboard.press("Tab")
        stop, outline, strange = page.evaluate("checks.focus()")
        assert strange == "", "a stop that is no control"
        if stop is not None:
            assert outline != "none"
            reached.add(int(stop))
    assert reached == set(range(wanted))


def says(text: str, value: float) -> bool:
    """Whether a text is a value, to the digits that it has."""
    number = text.split(maxsplit=1)[0]
    places = len(number.partition(".")[2])
    sign = "+" if number[0] == "+" else ""
    return format(value, f"{sign},.{places}f") == number


def data(watched: Watched, renderer: str, *columns: str) -> dict[str, list[Any]]:
    """Return what a renderer of a chart draws."""
    return watched.page.evaluate(
        "([name, columns]) => checks.data(name, columns)", [renderer, list(columns)]
    )


def point_at(watched: Watched, figure: str, renderer: str, row: int) -> tuple[float, float]:
    """Hold the pointer over one point of a chart, or the middle of one bar; return where it is."""
    page = watched.page
    page.locator(f"#{figure} .plot").scroll_into_view_if_needed()
    x, y = page.evaluate("([name, row]) => checks.place(name, row)", [renderer, row])
    page.mouse.move(x - 40, y - 40)
    page.mouse.move(x, y, steps=3)
    settled(page)
    return x, y


def tooltip(watched: Watched, figure: str, renderer: str, row: int) -> list[str]:
    """Hold the pointer over one point of a chart; return the texts that it shows."""
    point_at(watched, figure, renderer, row)
    watched.page.wait_for_function("checks.tooltips().length > 0")
    return watched.page.evaluate("checks.tooltips()")
