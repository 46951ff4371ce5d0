"""Makes the pictures of docs/gallery.md, by running the code that the page shows.

Each picture of the page comes from the code block above it, which leaves it in ``figure``, or the
file of a report in ``page``, of which a browser makes one. Blocks share their names, from the top
of the page down, and run in the root of the tree. With --notebooks the notebooks are executed too,
and keep what they print and draw.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import re
import shutil
from pathlib import Path
from typing import Any

from paceline import plot

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/gallery.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"!\[[^]]*\]\(pictures/gallery/([^)]+)\)")


def main() -> None:
    """Draw all pictures into a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", default=ROOT / "docs/pictures/gallery")
    parser.add_argument("--format", default="svg", help="svg, png, pdf ...")
    parser.add_argument("--notebooks", action="store_true", help="execute these as well")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    names: dict[str, Any] = {}
    _, *parts = _BLOCK.split(PAGE.read_text(encoding="utf-8"))
    for code, text in zip(parts[::2], parts[1::2], strict=True):
        exec(compile(code, str(PAGE), "exec"), names)  # the page is ours
        for picture in map(Path, _PICTURE.findall(text)):
            if picture.suffix == ".png":
                path = out / picture
                path.write_bytes(photograph(Path(names["page"])))
            else:
                path = (out / picture).with_suffix(f".{options.format}")
                plot.save(names["figure"], path)
            print(path)
    if options.notebooks:
        for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
            execute(notebook)
            print(notebook)


def photograph(page: Path) -> bytes:
    """Return what a window shows of a report at first."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell"),
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        window = browser.new_page(viewport={"width": 1200, "height": 1500})
        window.goto(page.resolve().as_uri())
        window.wait_for_selector("html[data-ready]", state="attached")
        window.wait_for_timeout(1000)  # for all to be painted
        picture = window.screenshot()
        browser.close()
    return base64.b64decode(in_palette(base64.b64encode(picture).decode()))


def execute(path: Path) -> None:
    """Run a notebook from top to bottom; keep its outputs, and nothing of this machine."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(notebook, kernel_name="python3", resources=place).execute()
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = in_palette(output.data["image/png"])
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


def in_palette(png: str) -> str:
    """Return a picture in base64 with a table of 256 colours: much smaller, and looks the same."""
    from PIL import Image

    small = io.BytesIO()
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode() + "\n"


if __name__ == "__main__":
    main()
