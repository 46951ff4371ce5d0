"""The page of a sweep that runs: it grows, and serves nobody and nothing else."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import browser
import pytest
from example_studies import make_sweep

import paceline
from paceline.__main__ import main
from paceline.page import live

POINTS = 200


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of many points, of which every tenth failed."""
    folder = make_sweep(
        tmp_path_factory.mktemp("finished") / "sweep", {"gpus": ("gpus", [8, 16, 32, 64])}
    )
    known = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    study = json.loads((folder / "study.json").read_text())
    seeds = list(range(1, POINTS // len(known) + 1))
    study["axes"].append({"name": "seed", "key": "/run/seed", "values": seeds})
    (folder / "study.json").write_text(json.dumps(study))
    lines = [
        each
        | {"point": {**each["point"], "seed": seed}}
        | {"scaling_efficiency": each["scaling_efficiency"] * (1 - seed / 500)}
        for seed in seeds
        for each in known
    ]
    fault = {"message": "a <b>fault</b>", "place": "/run", "file": ""}
    lines[5::10] = [{"point": line["point"], "key": "00", "error": fault} for line in lines[5::10]]
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture
def growing(finished: Path, tmp_path: Path) -> Path:
    """The same sweep, before its first point."""
    shutil.copy(finished / "study.json", tmp_path / "study.json")
    return tmp_path


@pytest.fixture
def port(growing: Path) -> Iterator[int]:
    """A server of the sweep that grows."""
    with live.server(growing, 0) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running.server_port
        running.shutdown()
        thread.join()


def ask(
    port: int, path: str = "/", method: str = "GET", host: str | None = None
) -> tuple[int, bytes, dict[str, str]]:
    """Ask as who says that it asks for a host."""
    connection = http.client.HTTPConnection(live.ADDRESS, port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    if host != "":
        connection.putheader("Host", host or f"{live.ADDRESS}:{port}")
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def test_a_sweep_is_seen_growing(finished: Path, growing: Path, port: int) -> None:
    lines = (finished / "results.jsonl").read_bytes().splitlines(keepends=True)
    source = f"http://{live.ADDRESS}:{port}/"
    with browser.a_browser() as chromium:
        context = chromium.new_context(viewport={"width": 1440, "height": 900})
        context.add_init_script(browser.CHECKS)
        watched = browser.Watched(context.new_page(), source)
        page = watched.page
        page.evaluate("globalThis.same = true")  # until the page is loaded again

        def see(count: int) -> None:
            page.wait_for_function(
                "(n) => Number(document.querySelector('.value')?.textContent) === n", arg=count
            )

        with (growing / "results.jsonl").open("wb", buffering=0) as file:
            for first in range(0, POINTS, POINTS // 4):
                last = first + POINTS // 4
                *most, end = lines[first:last]
                file.write(b"".join(most) + end[:20])  # half a line is no fault
                see(last - 1)
                file.write(end[20:])
                see(last)
                if first == 0:
                    page.locator("#efficiency .data summary").click()
        page.wait_for_function("checks.idle()")
        assert page.evaluate("globalThis.same")
        assert f"of {POINTS}" in page.locator("#summary").inner_text()
        assert "a <b>fault</b>" in page.locator("#summary").inner_text()
        assert page.locator("#efficiency .data table").is_visible()
        mean = paceline.studies.load(finished).bands("scaling_efficiency")["mean"][0]
        page.wait_for_function(  # the last point moves it: nothing is left to be drawn
            "(text) => document.querySelectorAll('#efficiency td')[1].textContent.trim() === text",
            arg=f"{100 * mean:.2f}",
        )
        browser.settled(page)
        assert int(page.locator("html").get_attribute("data-version") or 0) > 1
        browser.check_look(watched)
        browser.check_keys(watched)
        assert watched.said == []
        assert set(watched.asked) - {"data:,"} == {source, source + "state.json"}
        context.close()


def test_only_two_paths(port: int, growing: Path) -> None:
    assert ask(port)[0] == 200
    status, text, headers = ask(port, "/state.json")
    assert status == 200
    assert json.loads(text)["version"] == 1
    assert headers["Cache-Control"] == "no-store"
    status, text, headers = ask(port, "/", "HEAD")
    assert (status, text) == (200, b"")
    assert int(headers["Content-Length"]) > 10**6
    for path in (
        *("/..", "/../study.json", "/study.json", "/results.jsonl", "/%2e%2e/study.json", "/..//"),
        *("/state.json/", "/state.json?x", "/favicon.ico", f"/{growing}", "http://else/", "*"),
    ):
        assert ask(port, path)[0] == 404, path


def test_only_this_host(port: int) -> None:
    for host in (f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert ask(port, host=host)[0] == 200, host
    for host in (
        *("", "example.org", f"example.org:{port}", "127.0.0.1", "localhost", f"127.0.0.2:{port}"),
        *(f"localhost.example.org:{port}", f"127.0.0.1:{port + 1}", f"localhost:{port}, x"),
    ):
        for path in ("/", "/state.json"):
            assert ask(port, path, host=host)[0] == 403, host


def test_only_reading(port: int) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"):
        for path in ("/", "/state.json", "/else"):
            status, _, headers = ask(port, path, method)
            assert (status, headers["Allow"]) == (405, "GET, HEAD"), method


def test_only_this_machine(port: int) -> None:
    if shutil.which("ss"):
        listening = subprocess.run(["ss", "-ltn"], capture_output=True, text=True, check=True)
        found = [line.split()[3] for line in listening.stdout.splitlines() if f":{port} " in line]
        assert found == [f"127.0.0.1:{port}"]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", port), timeout=5)


def test_lines_are_read_once(finished: Path, growing: Path) -> None:
    watch = live.Watch(growing)
    results = growing / "results.jsonl"
    lines = (finished / "results.jsonl").read_bytes().splitlines(keepends=True)
    taken: list[bytes] = []
    take = watch._take  # noqa: SLF001

    def counted(line: bytes) -> None:
        taken.append(line)
        take(line)

    watch._take = counted  # type: ignore[method-assign]  # noqa: SLF001
    with results.open("ab", buffering=0) as file:
        for line in lines:
            file.write(line[:30])
            watch.state()
            file.write(line[30:])
            watch.state()
    assert len(taken) == len(lines)
    assert f'<bdi class="value">{POINTS}</bdi>' in watch.state()["summary"]
    results.unlink()  # a sweep of another version begins anew
    results.write_bytes(lines[0] + b'{"no": "point"}\n')
    told = watch.state()["summary"]
    assert '<bdi class="value">1</bdi>' in told
    assert "1 lines can&#39;t be read" in told


def test_a_port_that_is_taken(growing: Path, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(growing), "--serve", str(port)]) == 2
    assert f"{port} is in use" in capsys.readouterr().err
    assert main(["report", str(growing), "--serve", "70000"]) == 2
    assert main(["report", str(growing / "none"), "--serve", "0"]) == 2
    assert "study.json" in capsys.readouterr().err


def test_ctrl_c_ends_it(growing: Path) -> None:
    line = [sys.executable, "-m", "paceline", "report", str(growing), "--serve", "0"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=os.environ) as running:
        assert running.stdout is not None
        told = running.stdout.readline()
        assert told.startswith("http://127.0.0.1:")
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 0
