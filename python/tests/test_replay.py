"""What ``paceline.replay`` makes of a plan: values without torch, and ranks with it."""

from __future__ import annotations

import copy
import csv
import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from paceline.replay.place import Place, first_node, place_of
from paceline.replay.plan import InputError, parse_plan, read_plan
from paceline.replay.records import (
    COLUMNS,
    BucketTimes,
    Facts,
    RankRecord,
    Step,
    job_steps,
    row,
    step_rows,
    table,
    waiting,
    worker_starts,
    write_rows,
)

PACKAGE = Path(importlib.util.find_spec("paceline.replay").origin).parent  # type: ignore[union-attr, arg-type]
LAYER_BYTES = 4 * 30_000


def plan_document(version: str = "2.15", **changes: Any) -> dict[str, Any]:
    """Return four layers of one tensor each, two to a bucket."""
    layer = {"kind": "linear", "parameters": [30_000], "buffers": []}
    times = {"forward_us": 2000.0, "backward_us": 4000.0}
    cap = 2 * LAYER_BYTES
    document: dict[str, Any] = {
        "replay": 1,
        "scenario": "00112233aabbccdd",
        "description": "",
        "pytorch": version,
        "strategy": "ddp",
        "ranks": 2,
        "ranks_per_node": 2,
        "iterations": 4,
        "accumulation": 1,
        "precision": "fp32",
        "layers": [{"name": f"layer{i}", **layer, **times} for i in range(4)],
        "optimizer_us": 1000.0,
        "ddp": {
            "bucket_cap_bytes": cap,
            "first_bucket_bytes": cap,
            "gradient_as_bucket_view": True,
            "broadcast_buffers": False,
            "find_unused_parameters": False,
            "hook": "none",
        },
        "buckets": [{"bytes": cap, "tensors": [3, 2]}, {"bytes": cap, "tensors": [1, 0]}],
        "fsdp": None,
        "slowness": [[1.0, 1.0]] * 4,
        "operation_factors": None,
    }
    return {**document, **changes}


def test_a_plan_is_read() -> None:
    plan = parse_plan(plan_document(), "plan.json")
    assert plan.pytorch == (2, 15)
    assert plan.layers[3].backward_s == pytest.approx(0.004)
    assert plan.parameter_bytes == 4 * LAYER_BYTES
    assert plan.host_bytes() == 3 * 4 * LAYER_BYTES
    assert plan.buckets[0].tensors == (3, 2)


def test_factors_are_of_the_iteration_the_rank_and_the_wait() -> None:
    factors = [[[1.0] * 9, [1.0] * 8 + [3.0]]] + [[[1.0] * 9] * 2] * 3
    slowness = [[1.0, 2.0], [1.0, 1.5], [1.0, 1.0], [1.0, 1.0]]
    document = plan_document(slowness=slowness, operation_factors=factors)
    plan = parse_plan(document, "plan.json")
    assert plan.factor(0, 1, 8) == 6.0
    assert plan.factor(-3, 1, 0) == 2.0  # untimed: as the first
    assert plan.factor(1, 1, 8) == 1.5
    assert plan.factor(4, 1, 0) == 2.0  # more steps than rows: from the first again
    assert plan.longest_wait_s() == pytest.approx(0.004 * 2 * 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replay": 2}, "plan.json: /replay: format 2, and this program reads format 1"),
        ({"strategy": "zero"}, '/strategy: "zero" can\'t be replayed with torch'),
        ({"ranks": 0}, "/ranks: expected a whole number from 1, found 0"),
        ({"layers": []}, "/layers: expected a layer at least"),
        ({"slowness": [[1.0]]}, "/slowness/0: expected 2 ranks' factors"),
        ({"operation_factors": [[[1.0], [1.0]]] * 4}, "/operation_factors/0: expected 9 factors"),
        ({"pytorch": "new"}, '/pytorch: expected a version such as "2.15"'),
        ({"precision": "int4"}, '/precision: "int4" can\'t be replayed'),
        ({"ddp": 3}, "/ddp: expected an object"),
        (
            {"ddp": plan_document()["ddp"] | {"hook": "powersgd"}},
            '/ddp/hook: "powersgd" can\'t be replayed with torch, which does none, fp16 and bf16',
        ),
        (
            {
                "strategy": "fsdp",
                "fsdp": {"units": [[0, 1], [1, 2, 3]], "reshard_after_forward": True}
                | {"shard_group": 2},
            },
            "/fsdp/units: expected each layer in one unit at most",
        ),
    ],
)
def test_a_wrong_plan_is_named_with_its_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_plan(plan_document(**changes), "plan.json")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "key",
    [key for key in plan_document() if key not in {"description", "fsdp", "operation_factors"}],
)
def test_a_missing_key_is_named(key: str) -> None:
    document = plan_document()
    del document[key]
    with pytest.raises(InputError, match=f"/{key}: is missing" if key != "replay" else "a plan of"):
        parse_plan(document, "plan.json")


def test_any_damaged_plan_is_refused_or_read() -> None:
    dice = random.Random(17)
    for _ in range(2000):
        document = copy.deepcopy(plan_document())
        place: Any = document
        while isinstance(place, dict | list) and place:
            key = dice.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if dice.random() < 0.4 or not isinstance(place[key], dict | list):
                place[key] = dice.choice([None, -1, 0, "", [], {}, [[]], 1e308, True, "fp32"])
                break
            place = place[key]
        try:
            parse_plan(document, "plan.json")
        except InputError as error:
            message = str(error)
        else:
            message = ""
        assert "\n" not in message


def test_files_that_are_no_plans(tmp_path: Path) -> None:
    for text, message in (
        (None, "No such file"),
        ("{", "line 1, column 2: not JSON"),
        ("[]", "expected a plan"),
    ):
        path = tmp_path / "plan.json"
        if text is not None:
            path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=message):
            read_plan(path)


def test_launchers() -> None:
    torchrun = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    meeting = {"MASTER_ADDR": "a", "MASTER_PORT": "7"}
    assert place_of(torchrun | meeting) == Place(3, 4, 1, "a", 7, hosts_store=False)
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}
    step = {"SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "gpu[03-04]", "SLURM_JOB_ID": "12"}
    assert place_of(slurm | step) == Place(0, 2, 0, "gpu03", 20012, hosts_store=True)
    assert place_of(slurm) == Place()  # in an allocation, not under srun
    mpirun = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    assert place_of({**mpirun, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}).address == "127.0.0.1"
    with pytest.raises(InputError, match="MASTER_ADDR is missing"):
        place_of(mpirun)
    with pytest.raises(InputError, match="WORLD_SIZE is missing"):
        place_of({"RANK": "0"})
    with pytest.raises(InputError, match='RANK: expected a whole number from 0, found "x"'):
        place_of({"RANK": "x", "WORLD_SIZE": "2"})


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("a", "a"), ("a,b", "a"), ("n[3,5]", "n3"), ("n[03-05],m1", "n03"), ("n[1-2]x", "n1x")],
)
def test_the_first_node_of_slurms_list(nodes: str, first: str) -> None:
    assert first_node(nodes) == first


def test_an_operation_starts_when_a_worker_is_free() -> None:
    # Two are under way until 8 and 10: the third waits for the first of them, the fourth for none.
    times = [(0, 10), (1, 8), (2, 12), (11, 15)]
    buckets = [BucketTimes(4, float(ready), float(end)) for ready, end in times]
    assert worker_starts(buckets, 2) == [0.0, 1.0, 8.0, 11.0]
    assert worker_starts(buckets, 1) == [0.0, 10.0, 8.0, 12.0]


def two_ranks(clocks: Sequence[str] = ("a", "a")) -> list[RankRecord]:
    """Rank 1 is 2 s late with its one bucket, whose sum is there at 9 s."""

    def step(at: float, backward: float) -> Step:
        bucket = BucketTimes(4, at + backward, at + 9)
        return Step(at, at + backward, at + 9, at + 10, (bucket,))

    return [
        RankRecord(0, clocks[0], (step(0, 5), step(10, 5))),
        RankRecord(1, clocks[1], (step(0, 7), step(10, 7))),
    ]


def test_a_rank_waits_for_a_slower_one_after_its_own_backward() -> None:
    assert waiting(two_ranks(), 0, 2) == [2.0, 0.0]


def test_ranks_that_a_reduction_left_apart_wait_for_no_straggler() -> None:
    """Rank 1 is as fast, or 1 s slower, but its step began 2 s later."""

    def ranks(backward: float) -> list[RankRecord]:
        own = BucketTimes(4, 5, 9)
        late = BucketTimes(4, 2 + backward, 11)
        first, second = Step(0, 5, 9, 10, (own,)), Step(2, 2 + backward, 11, 12, (late,))
        return [RankRecord(0, "a", (first,)), RankRecord(1, "a", (second,))]

    assert waiting(ranks(5), 0, 2) == [0.0, 0.0]
    assert waiting(ranks(6), 0, 2) == [1.0, 0.0]


def test_one_step_in_three_that_takes_long_does_not_count() -> None:
    """As of the step, medians: a packet that was lost costs one step hundreds of milliseconds."""

    def step(at: float, lost: float) -> Step:
        bucket = BucketTimes(4, at + 5, at + 9 + lost)
        return Step(at, at + 5, at + 9 + lost, at + 10 + lost, (bucket,))

    steps = (step(0, 0), step(10, 30), step(50, 0))
    rows = step_rows([RankRecord(r, "a", steps) for r in (0, 1)], FACTS, 2)
    times = {r["name"]: float(r["time_us"]) / 1e6 for r in rows}
    assert (times["step_median"], times["exposed"]) == (10, 4)
    assert (times["ready"], times["start"], times["end"]) == (5, 5, 9)


def test_steps_of_one_clock_and_of_several() -> None:
    assert job_steps(two_ranks()) == [10.0, 10.0]
    shifted = two_ranks(("a", "b"))
    assert job_steps(shifted) == [10.0, 10.0]
    names = {found["name"] for found in step_rows(shifted, FACTS, 2)}
    assert "waiting" not in names  # two clocks don't tell


FACTS = Facts(2, 2, "gloo", "torch 2.15.0 gloo", "fp32", "x86_64", "host")


def test_rows_are_the_measuring_programs(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = step_rows([RankRecord.from_json(r.to_json()) for r in two_ranks()], FACTS, 2)
    write_rows(path, rows)
    header = path.read_text(encoding="utf-8").splitlines()[0]
    source = Path(__file__).resolve().parents[2] / "calibrate/measure/result_file.h"
    assert header.split(",")[:12] == list(COLUMNS)[:12]
    assert all(name in source.read_text(encoding="utf-8") for name in header.split(","))
    with path.open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    step = found[0]
    assert (step["name"], step["time_us"], step["repeats"]) == ("step_median", "1e+07", "2")
    of_last = {r["name"]: r["time_us"] for r in found if r["kind"] == "bucket"}
    assert of_last == {"ready": "7e+06", "start": "7e+06", "end": "9e+06"}
    means = {r["name"]: r["time_us"] for r in found if r["name"] in ("exposed", "waiting")}
    assert means == {"exposed": "3e+06", "waiting": "1e+06"}  # 4 and 2 s, 2 and 0
    assert "step 10000.000 ms, median of 2" in table(rows)


def test_a_row_is_the_median_with_its_spread() -> None:
    made = row(FACTS, "collective", "all_reduce", [3e-6, 1e-6, 2e-6, 4e-6], size_bytes=8)
    assert (made["time_us"], made["min_us"], made["max_us"]) == ("2.5", "1", "4")
    assert (made["size_bytes"], made["repeats"], made["gpus_per_node"]) == ("8", "4", "1")


# --- with torch: ranks on the loopback ---


def _version_of(python: str) -> str | None:
    code = "import torch; print('.'.join(torch.__version__.split('.')[:2]))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


class Ranks:
    """Processes of one run, as a launcher would start them."""

    def __init__(self, python: str, folder: Path) -> None:
        self.python, self.folder = python, folder
        self.out = folder / "out.csv"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.processes: list[subprocess.Popen[str]] = []

    def write(self, document: dict[str, Any], name: str = "plan.json") -> Path:
        path = self.folder / name
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def start(self, rank: int, ranks: int, *words: str | Path, code: str | None = None) -> None:
        environment = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port),
            "PYTHONPATH": str(PACKAGE.parent),
            "PYTHONDONTWRITEBYTECODE": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }
        how = ["-c", code] if code else ["-m", "replay"]
        self.processes.append(
            subprocess.Popen(
                [self.python, *how, *map(str, words)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )

    def end(self, limit: float = 200) -> tuple[list[int], list[str]]:
        """Return statuses, and what each rank said of itself on stderr."""
        until = time.monotonic() + limit
        said = []
        try:
            for process in self.processes:
                _, errors = process.communicate(timeout=max(1, until - time.monotonic()))
                lines = [line for line in errors.splitlines() if line.startswith("paceline")]
                said.append("\n".join(lines))
        finally:
            for process in self.processes:
                process.kill()
        return [process.returncode for process in self.processes], said

    def run(self, plan: Path, *words: str) -> tuple[list[int], list[str]]:
        for rank in range(2):
            self.start(rank, 2, plan, "--out", self.out, "--timeout", "60", *words)
        return self.end()

    def rows(self) -> list[dict[str, str]]:
        with self.out.open(encoding="utf-8") as file:
            return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def torch() -> tuple[str, str]:
    """Return an interpreter that has torch, this one or Debian's, and torch's version."""
    for python in (sys.executable, "/usr/bin/python3"):
        version = _version_of(python)
        if version:
            return python, version
    pytest.skip("no torch: pip install torch, or apt install python3-torch")


@pytest.fixture
def ranks(torch: tuple[str, str], tmp_path: Path) -> Ranks:
    return Ranks(torch[0], tmp_path)


@pytest.mark.parametrize("views", [True, False])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_ddp_runs_as_planned(
    ranks: Ranks, torch: tuple[str, str], views: bool, accumulation: int
) -> None:
    document = plan_document(torch[1], accumulation=accumulation)
    document["ddp"]["gradient_as_bucket_view"] = views
    assert ranks.run(ranks.write(document)) == ([0, 0], ["", ""])
    rows = ranks.rows()
    step = next(float(r["time_us"]) for r in rows if r["name"] == "step_median")
    assert step >= accumulation * 4 * 6000 + 1000
    # A bucket is ready when its layers' waits are over: here the second after all of them.
    ready = [float(r["time_us"]) for r in rows if r["name"] == "ready"]
    assert len(ready) == 2
    assert ready[0] >= (accumulation - 1) * 24_000 + 16_000
    assert ready[1] >= accumulation * 24_000
    assert {r["size_bytes"] for r in rows if r["kind"] == "bucket"} == {"240000"}


def test_a_slow_rank_makes_the_other_wait(ranks: Ranks, torch: tuple[str, str]) -> None:
    plan = ranks.write(plan_document(torch[1], slowness=[[1.0, 3.0]] * 4))
    assert ranks.run(plan) == ([0, 0], ["", ""])
    rows = {r["name"]: r for r in ranks.rows() if r["kind"] == "step"}
    longest = float(rows["step_median"]["max_us"])
    assert 15_000 < float(rows["waiting"]["time_us"]) < longest / 2  # of 48 ms, one of two ranks


@pytest.mark.parametrize("observe", [True, False])
def test_a_hook_casts_what_is_reduced(ranks: Ranks, torch: tuple[str, str], observe: bool) -> None:
    document = plan_document(torch[1], iterations=2)
    document["ddp"]["hook"] = "fp16"
    words = () if observe else ("--observe", "none")
    assert ranks.run(ranks.write(document), *words) == ([0, 0], ["", ""])
    reduced = {int(r["size_bytes"]) for r in ranks.rows() if r["kind"] == "bucket"}
    assert reduced == ({LAYER_BYTES} if observe else set())  # two layers' gradients, halved


def test_ddps_own_buckets_are_required(ranks: Ranks, torch: tuple[str, str]) -> None:
    document = plan_document(torch[1])
    document["buckets"][0]["tensors"] = [2, 3]
    statuses, said = ranks.run(ranks.write(document))
    assert statuses == [2, 2]
    assert "DDP has 2 (240,000 B of tensors 3 2; 240,000 B of tensors 1 0)" in said[0]
    assert "the plan 2 (240,000 B of tensors 2 3;" in said[0]
    assert said[1] == ""


def test_a_rank_with_another_scenario_is_named(ranks: Ranks, torch: tuple[str, str]) -> None:
    ranks.start(0, 2, ranks.write(plan_document(torch[1])))
    ranks.start(1, 2, ranks.write(plan_document(torch[1], scenario="feed"), "other.json"))
    statuses, said = ranks.end()
    assert statuses == [2, 2]
    assert "rank 1: the plan is of scenario feed, that of rank 0 00112233aabbccdd" in said[0]
    assert said[1] == ""


def test_a_rank_that_does_not_come_is_named(ranks: Ranks, torch: tuple[str, str]) -> None:
    ranks.start(0, 2, ranks.write(plan_document(torch[1])), "--timeout", "1")
    statuses, said = ranks.end()
    assert statuses == [2]
    assert "rank 1 of 2 did not arrive within 1 s" in said[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"ranks": 3, "slowness": [[1.0] * 3]},
            "the plan is for 3 ranks, and here are 2: python -m",
        ),
        ({"pytorch": None}, "training.pytorch: the plan has the bucket rules of"),
        ({"strategy": "fsdp"}, "training.strategy: fully_shard needs PyTorch 2.6 or newer"),
        ({"layers": 10**14}, "parameters, gradients and buckets of 2 ranks take"),
    ],
)
def test_what_cannot_be_run_is_refused(
    ranks: Ranks, torch: tuple[str, str], changes: dict[str, Any], message: str
) -> None:
    document = plan_document(torch[1]) | changes
    newer = not torch[1].startswith("1.")
    if document["strategy"] == "fsdp":
        if newer:
            pytest.skip("this PyTorch has it")
        document["fsdp"] = {
            "units": [[0, 1, 2, 3]],
            "reshard_after_forward": True,
            "shard_group": 2,
        }
    if "pytorch" in changes:
        document["pytorch"] = "1.13" if newer else "2.15"
    if "layers" in changes:
        layers = plan_document()["layers"]
        document["layers"] = [{**layer, "parameters": [changes["layers"]]} for layer in layers]
    statuses, said = ranks.run(ranks.write(document))
    assert statuses == [2, 2]
    assert message in said[0]
    assert said[0].count("\n") == 0
    assert said[1] == ""


# Rank 1 makes its plan's first 60 waits, then this.
DISTURBED = """
import os, sys, time
import replay.model as model
from replay.__main__ import main
wait, count = model.HostClock.wait, 0
def disturbed(self, seconds, since):
    global count
    count += 1
    if count > 60:
        {what}
    return wait(self, seconds, since)
model.HostClock.wait = disturbed
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("os.kill(os.getpid(), 9)", "rank 1 ended"),
        pytest.param(
            "time.sleep(1000)", "rank 1 hung: nothing went on for", marks=pytest.mark.long
        ),
        ("os.kill(os.getpid(), 19)", "rank 1 did not answer for"),
        ("raise RuntimeError('a fault')", "rank 1: RuntimeError: a fault"),
    ],
)
def test_a_rank_that_dies_or_hangs_is_named(
    ranks: Ranks, torch: tuple[str, str], what: str, message: str
) -> None:
    plan = ranks.write(plan_document(torch[1], iterations=50, slowness=[[1.0, 1.0]]))
    ranks.start(0, 2, plan, "--timeout", "8")
    ranks.start(1, 2, plan, "--timeout", "8", code=DISTURBED.format(what=what))
    try:
        ranks.processes[0].wait(timeout=150)
    finally:
        ranks.processes[1].send_signal(signal.SIGCONT)
        if "19" in what:  # it was stopped: it doesn't see the end by itself
            ranks.processes[1].kill()
    statuses, said = ranks.end()
    assert statuses[0] == 1
    assert statuses[1] != 0
    assert message in said[0]
    assert said[0].count("\n") == 0


def test_a_collective_alone(ranks: Ranks) -> None:
    for rank in range(2):
        words = ["--measure", "all_reduce", "--sizes", "4,4096", "--repeats", "6"]
        ranks.start(rank, 2, *words, "--out", ranks.out, "--timeout", "60")
    assert ranks.end() == ([0, 0], ["", ""])
    rows = ranks.rows()
    assert [(r["kind"], r["name"], r["size_bytes"]) for r in rows] == [
        ("collective", "all_reduce", "4"),
        ("collective", "all_reduce", "4096"),
    ]
    assert all(r["repeats"] == "6" and float(r["time_us"]) > 0 for r in rows)
    assert rows[0]["library"].startswith("gloo ")


def test_without_torch_the_cure_is_said(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_document()), encoding="utf-8")
    (tmp_path / "torch.py").write_text("raise ImportError('none')", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{PACKAGE.parent}"}
    words = [sys.executable, "-m", "replay", str(plan)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "this Python has no torch" in done.stderr
    assert "pip install torch" in done.stderr
    assert done.stderr.count("\n") == 1
