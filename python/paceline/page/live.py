"""A page that shows a sweep while it runs, for this machine alone."""

from __future__ import annotations

import errno
import json
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .. import _core
from ..errors import InputError
from ..plot.data import table
from ..studies import Sweep
from . import document as page
from . import sweep as sweep_page
from .curves import curves
from .differences import study_points

ADDRESS = "127.0.0.1"
WINDOW_S = 60.0  # over which a rate is taken
SHARE = 0.25  # of the time may go into drawing
MOST_TOLD = 5  # messages of failed points


class Watch:
    """What is known of a sweep that runs: its folder's results.jsonl is read as it grows."""

    def __init__(self, folder: Path) -> None:
        study = folder / "study.json"
        if not study.is_file():
            message = "expected the folder of a sweep, which has study.json and results.jsonl"
            raise InputError(message, file=str(folder))
        self.study: dict[str, Any] = json.loads(_core.read_file(str(study)))
        made = study_points(self.study)
        self.points = None if made is None else len(made)
        self._results = folder / "results.jsonl"
        self._lock = threading.Lock()
        self._forget()
        self._seen: deque[tuple[float, int]] = deque()
        self._drawn: dict[str, Any] = {}
        self._version = 0
        self._draw_from = 0.0

    def _forget(self) -> None:
        self._offset, self._file = 0, 0
        self._lines: dict[str, dict[str, Any]] = {}
        self._unread = 0
        self._changed = True

    def state(self) -> dict[str, Any]:
        """Return what the page shows now, as page.js takes it."""
        with self._lock:
            self._read()
            now = time.monotonic()
            self._seen.append((now, len(self._lines)))
            while now - self._seen[0][0] > WINDOW_S:
                self._seen.popleft()
            if self._changed and now >= self._draw_from:
                self._draw()
                self._draw_from = time.monotonic() + (time.monotonic() - now) / SHARE
            return {"summary": page.fragment(self._summary()), **self._drawn}

    def _read(self) -> None:
        """Read what was added: lines that have an end."""
        try:
            about = self._results.stat()
        except FileNotFoundError:
            return
        if about.st_size < self._offset or about.st_ino != self._file:
            self._forget()
            self._file = about.st_ino
        if about.st_size == self._offset:
            return
        with self._results.open("rb") as file:
            file.seek(self._offset)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            text = line.decode()
            data = json.loads(text)
            known = json.dumps(data["point"])
        except (ValueError, KeyError, TypeError):
            self._unread += 1
            return
        if _core.line_was_changed(text):
            self._unread += 1
            return
        data.pop("check", None)
        data.pop("scenario", None)
        self._lines[known] = data  # of a point's lines the last counts
        self._changed = True

    def _draw(self) -> None:
        sweep = Sweep(self.study, list(self._lines.values()))
        parts: list[page.Part] = [page.Text("No point has a result yet.")]
        if any("error" not in line for line in self._lines.values()):
            points = table(sweep, None)
            parts = curves(points, points.main_axis())
        self._version += 1
        self._drawn = {
            "version": self._version,
            "curves": page.fragment(parts),
            "plots": page.plots(parts),
        }
        self._changed = False

    def _summary(self) -> list[page.Part]:
        done = len(self._lines)
        errors = [line["error"] for line in self._lines.values() if "error" in line]
        (begin, first), (end, last) = self._seen[0], self._seen[-1]
        rate = (last - first) / (end - begin) if end > begin else 0.0
        ended = done == self.points
        left = "–"
        if ended:
            left = "done"
        elif rate > 0 and self.points is not None:
            left = _duration((self.points - done) / rate)
        entries = [
            page.Number("points", f"{done:,}", note=f"of {self.points:,}" if self.points else ""),
            page.Number("failed", f"{len(errors):,}"),
            page.Number(
                "rate",
                f"{rate:,.3g}" if rate else "–",
                "points/s" if rate else "",
                "of the last minute",
            ),
            page.Number("left", left),
        ]
        parts: list[page.Part] = [page.Numbers(entries)]
        told = errors[-MOST_TOLD:]
        parts += [page.Notice(f"A point failed: {InputError(**error)}") for error in told]
        if self._unread:
            parts.append(page.Notice(f"{self._unread:,} lines can't be read: they were changed."))
        return parts

    def shell(self) -> str:
        """Return the page, which page.js fills."""
        sweep = Sweep(self.study, [])
        chapters = [page.Section("summary", "", []), page.Section("curves", "Curves", [])]
        return page.page(sweep_page.title(sweep), sweep.description, chapters, live=True)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of a sweep's page, bound to this machine alone; port 0 is any that is free.

    Raises
    ------
    InputError
        The folder holds no sweep, or the port can't be had.
    """
    if not 0 <= port < 2**16:
        raise InputError(f"expected a port up to 65535, found {port}", "--serve")
    watch = Watch(folder)

    class Bound(_Handler):
        state = watch

    try:
        made = ThreadingHTTPServer((ADDRESS, port), Bound)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            why = "in use" if error.errno == errno.EADDRINUSE else "not for everybody"
            message = f"expected a free port, found that {port} is {why}"
            raise InputError(f"{message}: --serve PORT takes another", "--serve") from error
        raise
    Bound.port = made.server_port
    return made


def serve(folder: Path, port: int) -> None:
    """Show a sweep that runs until Ctrl-C."""
    with server(folder, port) as running:
        where = f"http://{ADDRESS}:{running.server_port}/"
        try:
            print(f"{where} shows {folder}; Ctrl-C ends it", flush=True)
            running.serve_forever()
        except KeyboardInterrupt:
            print()


class _Handler(BaseHTTPRequestHandler):
    """Two paths, read alone. Who asks by another name is sent away: a page of another site, say."""

    state: Watch
    port: int
    timeout = 10  # seconds, for who says nothing

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what can't be understood, and any other method: the library calls that 501."""
        status = 405 if code == 501 else code
        self._send(status, "text/plain", f"{message or explain or ''}\n", {"Allow": "GET, HEAD"})

    def _answer(self, *, body: bool) -> None:
        hosts = [f"{name}:{self.port}" for name in (ADDRESS, "localhost", "[::1]")]
        if self.headers.get("Host", "").lower() not in hosts:
            self._send(403, "text/plain", "another host\n", body=body)
        elif self.path == "/":
            self._send(200, "text/html; charset=utf-8", self.state.shell(), body=body)
        elif self.path == "/state.json":
            text = json.dumps(self.state.state(), allow_nan=False)
            self._send(200, "application/json", text, body=body)
        else:
            self._send(404, "text/plain", "not here\n", body=body)

    def _send(
        self,
        status: int,
        kind: str,
        text: str,
        more: dict[str, str] | None = None,
        *,
        body: bool = True,
    ) -> None:
        content = text.encode("utf-8", "replace")
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        for name, value in (headers | (more or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing: a page asks each second."""
