"""Sweeps with Dask's workers: the bytes of one thread, whatever dies meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import Program, program_path
from dask_processes import Cluster, kill, wait_until

import paceline
from paceline import _core, workers
from paceline.workers import caller, chunks

Start = Callable[..., Cluster]
# A point takes 10 ms more, in which its worker sleeps.
SLOW = """
import time
from paceline.workers import worker

worker.lines_before = getattr(worker, "lines_before", worker.lines)

def lines(points, study, asked):
    answer = worker.lines_before(points, study, asked)
    time.sleep(0.01 * len(points))
    return answer._replace(seconds=answer.seconds + 0.01 * len(points))

worker.lines = lines
"""


@contextmanager
def starting(factory: pytest.TempPathFactory) -> Iterator[Start]:
    clusters: list[Cluster] = []

    def with_workers(count: int, preload: str = "", **environment: str) -> Cluster:
        cluster = Cluster(factory.mktemp("dask"), environment)
        clusters.append(cluster)
        for _ in range(count):
            cluster.worker(preload=preload, nanny=False)
        if count:
            cluster.wait_for(count)
        return cluster

    yield with_workers
    for cluster in clusters:
        cluster.stop()


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start a scheduler with so many workers; `environment`: the scheduler's."""
    with starting(tmp_path_factory) as with_workers:
        yield with_workers


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a scheduler with a slow worker, for tests that let both live."""
    with starting(tmp_path_factory) as with_workers:
        yield with_workers(1, SLOW).address


def study_of(axes: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "scenario": {
            "cluster": {"node": "dgx-a100", "nodes": 2},
            "model": "resnet18",
            "training": {"batch_per_gpu": 32},
            "variability": {"per_iteration": {"distribution": "lognormal", "cv": 0.05}},
            "run": {"iterations": 3},
        },
        "axes": axes,
        **more,
    }


def seeds(count: int) -> dict[str, Any]:
    return {"key": "/run/seed", "from": 1, "to": count, "step": 1}


def many(points: int) -> dict[str, Any]:
    """A study whose points take some milliseconds each."""
    study = study_of([{"key": "gpus", "values": [1, 8, 64, 128]}, seeds(points // 4)])
    study["scenario"]["variability"] = {"per_operation": {"distribution": "lognormal", "cv": 0.05}}
    study["scenario"]["run"] = {"iterations": 12}
    return study


def light(points: int) -> dict[str, Any]:
    """A study whose points take a millisecond each; where one has to take longer, see SLOW."""
    return study_of([{"key": "gpus", "values": [1, 8, 16, 32]}, seeds(points // 4)])


MIXED = study_of(
    [
        {"key": "gpus", "from": 1, "to": 32, "factor": 2},
        {"key": "/variability/per_iteration/cv", "values": [0.01, 0.03]},
        {"key": "/training/ddp/bucket_cap", "values": ["25 MiB", "100 MiB"]},
        seeds(21),
    ],
    scaling="weak",
)
# 17 GPUs are no whole nodes, a batch of none isn't one; of both names the scenarios are equal.
WRONG = study_of(
    [
        {"key": "gpus", "values": [8, 17, 16]},
        {"key": "/training/batch_per_gpu", "values": [8, 0, 16]},
        {"key": "/description", "values": ["one", "two"]},
        seeds(3),
    ]
)
STRONG = study_of(
    [{"key": "gpus", "from": 1, "to": 64, "factor": 2}, seeds(4)],
    scaling="strong",
    global_batch=2048,
)


def lines_of(folder: Path, name: str = "results.jsonl") -> list[str]:
    lines = (folder / name).read_text().splitlines(keepends=True)
    assert all(line.endswith("\n") for line in lines)
    assert not any(_core.line_was_changed(line.rstrip("\n")) for line in lines)
    return sorted(lines)


def sweep(study: Any, out: Path, **how: Any) -> paceline.Sweep:
    return paceline.sweep(study, out, **({"progress": False} | how))


STUDIES = {"mixed": (MIXED, 504), "wrong": (WRONG, 54), "strong": (STRONG, 28)}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long) if n == "mixed" else n for n in STUDIES]
)
def test_bytes(name: str, tmp_path: Path) -> None:
    study, points = STUDIES[name]
    sweep(study, tmp_path / "thread", jobs=1)
    expected = lines_of(tmp_path / "thread")
    assert len(expected) == points == len({json.dumps(json.loads(e)["point"]) for e in expected})
    sweep(study, tmp_path / "threads", jobs=2)
    assert lines_of(tmp_path / "threads") == expected
    for count in (1, 3, 16):
        out = tmp_path / f"shards{count}"
        for index in random.sample(range(count), count):
            sweep(study, out, jobs=1, shard=(index, count))
        sweep(study, out, jobs=1)
        assert lines_of(out) == expected, count


def test_bytes_of_workers(start: Start, tmp_path: Path) -> None:
    """Of one, and of it with two that came after it had swept the same studies."""
    cluster = start(1)
    for name, (study, _) in STUDIES.items():
        sweep(study, tmp_path / name / "thread", jobs=1)
        sweep(study, tmp_path / name / "worker", client=cluster.address)
        assert lines_of(tmp_path / name / "worker") == lines_of(tmp_path / name / "thread"), name
    for _ in range(2):
        cluster.worker(nanny=False)
    cluster.wait_for(3)
    for name, (study, points) in STUDIES.items():
        done = sweep(study, tmp_path / name / "workers", client=cluster.address)
        expected = lines_of(tmp_path / name / "thread")
        assert lines_of(tmp_path / name / "workers") == expected, name
        rates = done.workers
        assert rates is not None
        equal = len({line.split('"key": ')[1][:34] for line in expected if '"key": ' in line})
        assert equal <= rates["points"].sum() <= points  # equal scenarios are computed once
        assert (rates["points_per_s"] > 0).all()
        assert rates["worker"].is_unique


def test_files_travel(healthy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are in another folder, where none of these names means a file."""
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "cluster.json").write_text('{"node": "dgx-a100", "nodes": 2}')
    scenario = STRONG["scenario"] | {"cluster": "./cluster.json"}
    (folder / "scenario.json").write_text(json.dumps(scenario))
    axes = [{"key": "/cluster", "values": ["./cluster.json", "./none.json"]}, seeds(2)]
    study = {"scenario": "scenario.json", "axes": axes}
    (folder / "study.json").write_text(json.dumps(study))
    monkeypatch.chdir(tmp_path)
    sweep("study/study.json", tmp_path / "here", jobs=1)
    sweep("study/study.json", tmp_path / "there", client=healthy)
    found = lines_of(tmp_path / "there")
    assert found == lines_of(tmp_path / "here")
    assert sum('"error"' in line for line in found) == 2
    assert str(tmp_path) not in "".join(found)


def test_killed_worker(start: Start, tmp_path: Path) -> None:
    study = many(240)
    sweep(study, tmp_path / "thread")
    cluster = start(1)
    victim = cluster.worker()
    cluster.wait_for(2)

    def tell(done: int, points: int, _failed: int) -> None:
        if done == points // 3:
            kill(victim)

    sweep(study, tmp_path / "out", client=cluster.address, progress=tell)
    assert victim.returncode is not None
    assert lines_of(tmp_path / "out") == lines_of(tmp_path / "thread")


@pytest.mark.long
def test_twenty_kills(start: Start, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    dice = random.Random(seed)
    study = many(1600)
    sweep(study, tmp_path / "thread")
    cluster = start(0)
    alive = [cluster.worker() for _ in range(3)]
    killed = 0
    ended = threading.Event()

    def kill_some() -> None:
        nonlocal killed
        while killed < 20 and not ended.wait(dice.uniform(0.2, 1.5)):
            kill(alive.pop(dice.randrange(len(alive))))
            alive.append(cluster.worker())
            killed += 1

    thread = threading.Thread(target=kill_some)
    thread.start()
    try:
        sweep(study, tmp_path / "out", client=cluster.address)
    finally:
        ended.set()
        thread.join()
    print("killed", killed)
    assert killed == 20
    assert lines_of(tmp_path / "out") == lines_of(tmp_path / "thread")


def command(*words: str | Path, **how: Any) -> subprocess.Popen[str]:
    line = [program_path(), "sweep", *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, **how)


def count_lines(out: Path) -> int:
    file = out / "results.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.mark.long
def test_lost_scheduler(start: Start, program: Program, tmp_path: Path) -> None:
    study = tmp_path / "study.json"
    study.write_text(json.dumps(light(800)))
    cluster = start(2, SLOW)
    out = tmp_path / "out"
    running = command(study, "--out", out, "--dask", cluster.address)
    wait_until(lambda: count_lines(out) > 20, "lines")
    kill(cluster.scheduler)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 1, told
    kept = len(lines_of(out))
    assert 20 < kept < 800
    lost = f"paceline: {cluster.address}: the scheduler is lost; {kept} of 800 points are in {out}:"
    assert told.splitlines()[-1] == f"{lost} the same sweep goes on from there"
    again = start(1)
    done = program("sweep", study, "--out", out, "--dask", again.address)
    assert done.returncode == 0, done.stderr
    assert f"results.jsonl: 800 points, {kept} found, {800 - kept} computed\n" in done.stdout
    assert again_is_nothing(program, study, out, 800)
    sweep(study, tmp_path / "thread")
    assert lines_of(out) == lines_of(tmp_path / "thread")


def again_is_nothing(program: Program, study: Path, out: Path, points: int) -> bool:
    done = program("sweep", study, "--out", out)
    return done.returncode == 0 and f"{points} found, 0 computed" in done.stdout


def test_interrupt(healthy: str, program: Program, tmp_path: Path) -> None:
    study = tmp_path / "study.json"
    study.write_text(json.dumps(light(400)))
    out = tmp_path / "out"
    running = command(study, "--out", out, "--dask", healthy)
    wait_until(lambda: count_lines(out) > 20, "lines")
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=60)
    assert running.returncode == 130, told
    assert told.splitlines()[-1] == f"paceline: {out}: stopped; the same sweep goes on from there"
    assert 20 < len(lines_of(out)) < 400
    done = program("sweep", study, "--out", out, "--dask", healthy)  # nothing is left over
    assert done.returncode == 0, done.stderr
    assert again_is_nothing(program, study, out, 400)


KILLED_BY_POINT_77 = f"""{SLOW}
import os, signal

worker.slow = worker.lines

def lines(points, study, asked):
    if 77 in points:
        os.kill(os.getpid(), signal.SIGKILL)
    return worker.slow(points, study, asked)

worker.lines = lines
"""


@pytest.mark.long
def test_point_that_kills(start: Start, tmp_path: Path) -> None:
    study = light(240)
    sweep(study, tmp_path / "thread")
    cluster = start(0, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="1")
    for _ in range(2):
        cluster.worker(preload=KILLED_BY_POINT_77)
    cluster.wait_for(2)
    with pytest.raises(RuntimeError) as caught:
        sweep(study, tmp_path / "out", client=cluster.address)
    why = "each worker that computed it died (of memory?)"
    assert str(caught.value) == f"1 points have no result: gpus 8, seed 18: {why}"
    found, expected = lines_of(tmp_path / "out"), lines_of(tmp_path / "thread")
    assert len(found) == 239
    assert set(found) < set(expected)


OTHER_BUILD = "from paceline.workers import worker\nworker.build = lambda: 'paceline 0.0'\n"
NO_PACKAGE = "import sys\nsys.modules['paceline'] = None\n"


@pytest.mark.parametrize(
    ("preload", "found"),
    [(OTHER_BUILD, "found paceline 0.0"), (NO_PACKAGE, "found one without: ModuleNotFoundError")],
)
def test_other_build(preload: str, found: str, start: Start, tmp_path: Path) -> None:
    cluster = start(1)
    cluster.worker("--name", "other", preload=preload, nanny=False)
    cluster.wait_for(2)
    with pytest.raises(paceline.InputError, match=found) as caught:
        sweep(many(40), tmp_path / "out", client=cluster.address)
    assert caught.value.file.startswith("tcp://127.0.0.1:")
    assert f"expected a worker with paceline {paceline.__version__}, model" in caught.value.message
    assert not (tmp_path / "out").exists()


@pytest.mark.long
@pytest.mark.parametrize("preload", [OTHER_BUILD, NO_PACKAGE])
def test_other_build_later(preload: str, start: Start, tmp_path: Path) -> None:
    cluster = start(1, SLOW)
    came = threading.Event()

    def tell(_done: int, _points: int, _failed: int) -> None:
        if not came.is_set():
            came.set()
            cluster.worker(preload=preload, nanny=False)

    with pytest.raises(paceline.InputError, match="expected a worker with paceline"):
        sweep(light(4000), tmp_path / "out", client=cluster.address, progress=tell)
    assert 0 < len(lines_of(tmp_path / "out")) < 4000


def test_workers_may_come_later(start: Start, tmp_path: Path) -> None:
    study = many(40)
    cluster = start(0)
    timer = threading.Timer(1.0, cluster.worker)
    timer.start()
    with pytest.warns(UserWarning, match="no workers; waiting for some"):
        sweep(study, tmp_path / "out", client=cluster.address)
    timer.join()
    sweep(study, tmp_path / "thread")
    assert lines_of(tmp_path / "out") == lines_of(tmp_path / "thread")


LOCAL = """
import sys
import paceline

if __name__ == "__main__":
    done = paceline.sweep(sys.argv[1], client="local", jobs=2, progress=False)
    print(len(done.lines), done.workers["points"].sum())
"""


def test_local_processes(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(LOCAL)
    (tmp_path / "study.json").write_text(json.dumps(STRONG))
    line = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "study.json")]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout == "28 28\n"


@pytest.mark.long
def test_bad_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Program) -> None:
    def error(**how: Any) -> str:
        with pytest.raises(paceline.InputError) as caught:
            sweep(STRONG, tmp_path / "out", **how)
        assert not (tmp_path / "out").exists()
        return str(caught.value)

    assert error(client=3).startswith("client: expected a dask.distributed Client, an address such")
    assert error(client=3).endswith("found int")
    monkeypatch.setattr(caller, "ANSWERS_WITHIN", 0.3)
    nobody = "tcp://127.0.0.1:1"
    assert error(client=nobody).startswith(f"{nobody}: expected a scheduler that answers within")
    assert "unknown address scheme 'none'" in error(client="none://here")
    assert "expected a shard or a client, found both" in error(client="local", shard="0/2")
    monkeypatch.setattr(workers, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install 'paceline\[dask\]'"):
        sweep(STRONG, tmp_path / "out", client="local")
    study = tmp_path / "study.json"
    study.write_text(json.dumps(STRONG))
    done = program("sweep", study, "--out", tmp_path / "out", "--dask", "none://here")
    assert done.returncode == 2
    assert done.stderr.startswith("paceline: none://here: expected a scheduler that answers within")
    study.write_text("{}")
    done = program("sweep", study, "--out", tmp_path / "out", "--dask", "local", "--jobs", "1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"paceline: {study}: ")


# In a mount of its own: a folder of 64 KiB, which later has room for all.
FULL_DISK = """
mount -t tmpfs -o size=64k none "$ROOM" || exit 99
"$@" --out "$ROOM/out"; echo $? > "$KEPT/status"
cp "$ROOM"/out/results*.jsonl "$KEPT/"
mount -o remount,size=8m none "$ROOM" && "$@" --out "$ROOM/out" && cp -r "$ROOM/out" "$KEPT/whole"
"""


@pytest.mark.parametrize("how", [pytest.param("dask", marks=pytest.mark.long), "shard", "thread"])
def test_full_disk(how: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    study = tmp_path / "study.json"
    study.write_text(json.dumps(light(400)))
    if how == "dask":
        words = ["--dask", request.getfixturevalue("healthy")]
    else:
        words = {"shard": ["--shard", "0/2"], "thread": ["--jobs", "1"]}[how]
    room, kept = tmp_path / "room", tmp_path / "kept"
    room.mkdir()
    kept.mkdir()
    isolated = ["unshare", "--map-root-user", "--mount", "sh", "-c", FULL_DISK, "sh"]
    done = subprocess.run(
        [*isolated, program_path(), "sweep", str(study), *words],
        env=os.environ | {"ROOM": str(room), "KEPT": str(kept)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    if not (kept / "status").exists():
        pytest.skip(f"no mount of one's own here: {done.stderr}")
    name = "results.0-2.jsonl" if how == "shard" else "results.jsonl"
    full = f"paceline: {room}/out/{name}: can't be written: no space left"
    assert (kept / "status").read_text() == "2\n"
    assert full.lower() in done.stderr.lower()
    before = lines_of(kept, name)
    assert 10 < len(before) < 400
    if how == "shard":
        sweep(study, kept / "whole")
    else:
        assert f"400 points, {len(before)} found, {400 - len(before)} computed" in done.stdout
    sweep(study, tmp_path / "thread")
    assert lines_of(kept / "whole") == lines_of(tmp_path / "thread")


def test_chunks() -> None:
    gpus = [random.choice([0, 1, 8, 512, 16_384]) for _ in range(500)]
    cut = chunks.Chunks(gpus)
    taken: list[list[int]] = []
    while cut:
        taken.append(cut.take(2))
        cut.took(taken[-1], 1e-3 * sum(gpus[i] for i in taken[-1]))
    assert sorted(i for chunk in taken for i in chunk) == list(range(500))
    largest = [max(gpus[i] for i in chunk) for chunk in taken]
    assert largest == sorted(largest, reverse=True)
    assert all(len(chunk) == 1 for chunk in taken if gpus[chunk[0]] == 16_384)  # 16 s each
    seconds = [1e-3 * sum(gpus[i] for i in chunk) for chunk in taken if len(chunk) > 1]
    assert max(seconds) <= 1.1
    assert len(taken[-2]) > 1
