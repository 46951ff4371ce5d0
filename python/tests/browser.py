"""A real browser for tests of pages: offline, with everything watched that it says and asks for."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

LOOKS = [
    (size, scheme)
    for size in ({"width": 1440, "height": 900}, {"width": 390, "height": 844})
    for scheme in ("light", "dark")
]
NAMES = [f"{size['width']} {scheme}" for size, scheme in LOOKS]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CONTRAST = 4.5  # WCAG 2.2, level AA, for text
SMALLEST_GRAPHIC = 40  # colours that a picture has at least


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Start Chromium: the system's, where there is one; else the one that Playwright has."""
    with sync_playwright() as playwright:
        if CHROMIUM is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no Chromium")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page, and what it said and asked for."""

    def __init__(self, page: Page, source: str) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(source)
        page.wait_for_selector("html[data-ready]", state="attached", timeout=30_000)
        settled(page)

    def quiet(self, source: str) -> None:
        """No message, and nothing asked for but the page itself."""
        assert self.said == []
        known = ("data:", "blob:")
        assert [url for url in self.asked if url != source and not url.startswith(known)] == []


@contextmanager
def opened(
    browser: Browser, path: Path, size: dict[str, int], scheme: Any = "light", **keys: Any
) -> Iterator[Watched]:
    """Open a file as a reader does, without a network."""
    source = path.resolve().as_uri()
    context = browser.new_context(viewport=size, color_scheme=scheme, offline=True, **keys)  # type: ignore[arg-type]
    try:
        watched = Watched(context.new_page(), source)
        yield watched
        watched.quiet(source)
    finally:
        context.close()


def settled(page: Page) -> None:
    """Wait until what was asked for is painted."""
    page.evaluate(
        """() => new Promise((done) => {
          const views = Bokeh.documents.flatMap((each) => each.roots());
          const still = () => Bokeh.documents.every((each) => each.is_idle);
          const look = () => still()
            ? requestAnimationFrame(() => requestAnimationFrame(done)) : setTimeout(look, 20);
          look(views);
        })"""
    )


def check_look(watched: Watched) -> None:
    """No horizontal scroll bar; every figure painted; text inside its box, and readable."""
    page = watched.page
    wide, room = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= room, "a horizontal scroll bar"
    for figure in page.query_selector_all("figure"):
        plot = figure.query_selector(".plot")
        assert plot is not None
        assert colours(plot.screenshot()) >= SMALLEST_GRAPHIC, figure.get_attribute("id")
    assert low_contrast(page) == []
    assert cut_off(page) == []


def colours(picture: bytes) -> int:
    """How many colours a picture has."""
    from matplotlib.image import imread

    pixels = (imread(io.BytesIO(picture), format="png")[..., :3] * 255).astype(np.uint32)
    return len(np.unique(pixels @ np.array([65536, 256, 1], dtype=np.uint32)))


def low_contrast(page: Page) -> list[str]:
    """Texts whose contrast with what is behind them is too low, from their computed colours."""
    return page.evaluate(
        """(least) => {
          const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
          const part = (v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
          const light = ([r, g, b]) => .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
          const over = ([r, g, b, a = 1], [R, G, B]) =>
            [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
          function behind(element) {
            const layers = [];
            for (let at = element; at; at = at.parentElement) {
              const layer = rgb(getComputedStyle(at).backgroundColor);
              layers.push(layer);
              if ((layer[3] ?? 1) === 1) break;
            }
            return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
          }
          const found = [];
          const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          for (let node; (node = walk.nextNode());) {
            const element = node.parentElement;
            if (!node.data.trim() || element.closest("script, style")) continue;
            if (!element.checkVisibility()) continue;
            const ground = behind(element);
            const [a, b] = [light(over(rgb(getComputedStyle(element).color), ground)), light(ground)];
            const contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
            if (contrast < least) found.push(`${contrast.toFixed(2)}: ${node.data.trim().slice(0, 40)}`);
          }
          return found;
        }""",
        CONTRAST,
    )


def cut_off(page: Page) -> list[str]:
    """Texts that reach outside of the window, where nothing scrolls them."""
    return page.evaluate(
        """() => {
          const found = [];
          const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          for (let node; (node = walk.nextNode());) {
            const element = node.parentElement;
            if (!node.data.trim() || element.closest("script, style, .wide, .hidden")) continue;
            if (!element.checkVisibility()) continue;
            const range = document.createRange();
            range.selectNodeContents(node);
            for (const box of range.getClientRects())
              if (box.left < -1 || box.right > innerWidth + 1) found.push(node.data.trim().slice(0, 40));
          }
          return found;
        }"""
    )


def check_keys(watched: Watched) -> None:
    """Tab reaches every control, each of which has a name, and shows where it is."""
    page = watched.page
    wanted = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
          .filter((each) => each.checkVisibility({ visibilityProperty: true }) && !each.disabled)
          .map((each, i) => (each.dataset.stop = i, i))"""
    )
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("[data-stop]")].filter((each) =>
          !(each.textContent.trim() || each.getAttribute("aria-label")
            || [...(each.labels ?? [])].some((label) => label.textContent.trim())))
          .map((each) => each.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    reached = set()
    for _ in range(len(wanted) + 20):
        page.keyboard.press("Tab")
        stop, outline, hidden = page.evaluate(
            """() => {
              const at = document.activeElement;
              const inner = at.shadowRoot?.activeElement;
              return [at.dataset.stop, getComputedStyle(at).outlineStyle,
                inner ? inner.outerHTML.slice(0, 80) : at === document.body ? "" :
                  "stop" in at.dataset ? "" : at.outerHTML.slice(0, 80)];
            }"""
        )
        assert hidden == "", "a control without a name"
        if stop is not None:
            assert outline != "none"
            reached.add(int(stop))
    assert reached == set(wanted)


def tooltip(watched: Watched, figure: str, renderer: str, row: int) -> list[str]:
    """Hold the pointer over one point of a chart; return the lines that it shows."""
    page = watched.page
    plot = page.locator(f"#{figure} .plot")
    plot.scroll_into_view_if_needed()
    x, y = page.evaluate(
        """([name, row]) => {
          const plots = Bokeh.documents.flatMap((each) => each.roots());
          for (const root of plots) {
            const found = [...root.references()].find((model) => model.name === name);
            if (!found) continue;
            const view = Bokeh.index.find_one(root);
            const data = found.data_source.data;
            const glyph = found.glyph;
            const at = (field) => data[glyph[field].field][row];
            const y = glyph.type === "VBar" ? (at("top") + at("bottom")) / 2 : at("y");
            const box = view.canvas_view.bbox, frame = view.frame;
            const area = view.el.getBoundingClientRect();
            return [area.x + frame.x_scale.compute(at("x")), area.y + frame.y_scale.compute(y)];
          }
          throw new Error("no renderer " + name);
        }""",
        [renderer, row],
    )
    page.mouse.move(x - 30, y - 30)
    page.mouse.move(x, y, steps=3)
    settled(page)
    page.wait_for_timeout(100)
    return page.evaluate(
        """() => {
          const found = [];
          const look = (root) => {
            for (const each of root.querySelectorAll("*")) {
              if (each.matches(".bk-Tooltip") && each.checkVisibility())
                for (const text of each.shadowRoot.querySelectorAll("bdi")) found.push(text.textContent);
              if (each.shadowRoot) look(each.shadowRoot);
            }
          };
          look(document);
          return found;
        }"""
    )
