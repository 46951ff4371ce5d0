"""Sweeps through Python are the program's, and can be stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import ROOT, Program, program_path

import paceline
from paceline import quantities, studies


def small_study() -> dict[str, Any]:
    return {
        "description": "A small one",
        "scenario": {
            "cluster": {"node": "dgx-a100", "nodes": 2},
            "model": "resnet18",
            "training": {"batch_per_gpu": 32},
            "variability": {"per_operation": {"distribution": "lognormal", "cv": 0.05}},
            "run": {"iterations": 3},
        },
        "axes": [
            {"key": "gpus", "values": [8, 1, 17]},
            {"key": "/training/ddp/bucket_cap", "values": ["25 MiB", "5 MiB"], "name": "cap"},
            {"key": "/run/seed", "from": 1, "to": 3, "step": 1},
        ],
        "measured": [{"point": {"gpus": 8}, "step_time": "25 ms"}],
    }


def lines_of(folder: Path) -> list[str]:
    return sorted((folder / "results.jsonl").read_text().splitlines())


def test_sweep_is_the_programs(program: Program, tmp_path: Path) -> None:
    study = tmp_path / "study.json"
    study.write_text(json.dumps(small_study()))
    done = program("sweep", study, "--out", tmp_path / "program", "--jobs", "2")
    assert done.returncode == 2, done.stderr  # 17 GPUs can't be
    sweep = paceline.sweep(study, tmp_path / "python", jobs=2, progress=False)
    assert lines_of(tmp_path / "python") == lines_of(tmp_path / "program")
    assert len(sweep.lines) == 18
    in_memory = paceline.sweep(small_study(), jobs=1, progress=False)
    told = ["error"]  # with the study's file, where there is one
    pd.testing.assert_frame_equal(
        in_memory.frame.drop(columns=told), sweep.frame.drop(columns=told)
    )
    assert (
        ("study.json: " + in_memory.frame["error"]).dropna().equals(sweep.frame["error"].dropna())
    )


def test_frame() -> None:
    sweep = paceline.sweep(small_study(), progress=False)
    frame = sweep.frame
    assert list(frame)[:3] == ["gpus", "cap", "seed"]
    # in the study's order, whatever ended first
    assert list(frame["gpus"]) == [8] * 6 + [1] * 6 + [17] * 6
    assert list(frame["cap"])[:6] == ["25 MiB"] * 3 + ["5 MiB"] * 3
    assert list(frame["seed"])[:3] == [1, 2, 3]
    good = frame[frame["gpus"] != 17]
    numbers = ["step_time_mean_s", "breakdown_compute_s", "breakdown_other_s", "scaling_efficiency"]
    assert good[numbers].notna().all().all()
    assert good["error"].isna().all()
    assert frame[frame["gpus"] == 17]["error"].str.contains("17").all()
    parts = [c for c in frame if str(c).startswith("breakdown_")]
    assert good[parts].sum(axis=1).tolist() == pytest.approx(good["step_time_mean_s"].tolist())


def made_up(parts: list[dict[str, Any]], points: list[dict[str, Any]]) -> list[dict[Any, Any]]:
    """Return a frame's points, whichever of them ended first."""
    study = {"axes": [{"key": f"/{name}", **part} for part in parts for name in [part["name"]]]}
    orders = [points, points[::-1], points[1:] + points[:1]]
    frames = [studies.Sweep(study, [{"point": p} for p in order]).frame for order in orders]
    for frame in frames[1:]:
        pd.testing.assert_frame_equal(frame, frames[0])
    return frames[0].drop(columns="error").to_dict("records")


def test_the_frame_is_in_the_studys_order() -> None:
    """Of whole numbers among others, of null, of descending ranges; and what the study lacks."""
    for values in ([1, 1.1, 1.5, 2], [2, 1.5, 1], [0.5, 0.1, 0], [True, 1, 0.5], ["b", 3, "a"]):
        points = [{"f": value} for value in values]
        assert made_up([{"name": "f", "values": values}], points) == points
    ordered = made_up([{"name": "f", "values": [2, None, 1]}], [{"f": v} for v in (2, None, 1)])
    assert [str(point["f"]) for point in ordered] == ["2.0", "nan", "1.0"]
    parts = [
        {"name": "f", "from": "8 MiB", "to": "1 MiB", "factor": 0.5},
        {"name": "seed", "from": 1, "to": 11, "step": 5},
    ]
    points = [{"f": f"{f} MiB", "seed": s} for f in (8, 4, 2, 1) for s in (1, 6, 11)]
    assert made_up(parts, points) == points
    points = [{"f": value} for value in (2, 1, 3, 4)]  # of an earlier study
    assert made_up([{"name": "f", "values": [2, 1]}], points) == points


def test_an_axis_is_not_called_as_a_column_of_numbers(tmp_path: Path) -> None:
    frame = paceline.sweep(small_study(), jobs=1, progress=False).frame
    bands = studies.bands(frame, ["gpus", "cap", "seed"], ["seed"], "step_time_mean_s")
    assert len(frame.columns) > 40
    for column in {*frame.columns, *bands.columns} - {"cap", "seed"}:
        study = small_study()
        study["axes"][1]["name"] = column
        with pytest.raises(paceline.InputError, match="that no number of a result has"):
            paceline.sweep(study, tmp_path, progress=False)


def test_bands() -> None:
    sweep = paceline.sweep(small_study(), progress=False)
    bands = sweep.bands("step_time_mean_s")
    assert list(bands) == ["gpus", "cap", "mean", "low", "high", "points"]
    assert len(bands) == 4
    row = bands[(bands["gpus"] == 8) & (bands["cap"] == "5 MiB")].iloc[0]
    times = sweep.frame.query("gpus == 8 and cap == '5 MiB'")["step_time_mean_s"]
    assert row["mean"] == pytest.approx(times.mean())
    assert row["low"] == pytest.approx(times.quantile(0.05))
    assert row["high"] == pytest.approx(times.quantile(0.95))
    assert row["points"] == 3
    assert sweep.measured()["step_time_mean_s"].tolist() == [0.025]
    for wrong, hint in [
        ("step_time", r"; did you mean step_time_mean_s or .*\?$"),
        ("trouhput_samples_per_s", r"; did you mean throughput_samples_per_s\?$"),
        ("engine", "$"),
    ]:
        expected = "column: expected a column of numbers, such as throughput_samples_per_s, found "
        with pytest.raises(paceline.InputError, match=f"^{expected}'{wrong}'{hint}"):
            sweep.bands(wrong)
    failed = [line for line in sweep.lines if "error" in line]
    assert studies.Sweep(sweep.study, failed).bands().empty


def test_bands_are_the_programs(program: Program, tmp_path: Path) -> None:
    """The table at the end of a sweep and `bands` have the same percentiles."""
    study = small_study() | {"axes": small_study()["axes"][1:], "measured": []}
    (tmp_path / "study.json").write_text(json.dumps(study))
    done = program("sweep", tmp_path / "study.json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.endswith("5 % to 95 % of seeds (ms)")
    bands = studies.load(tmp_path / "out").bands("step_time_mean_s")
    of_table = rows[: len(bands)]  # then where the results are
    for row, least, most in zip(of_table, bands["low"], bands["high"], strict=True):
        *_, low, _, high = row.split()
        assert (low, high) == (f"{1e3 * least:.3f}", f"{1e3 * most:.3f}")
        assert low < high
    assert len(bands) == 2


def test_profile_may_be_a_dictionary(profile: paceline.Profile, tmp_path: Path) -> None:
    profile.save(tmp_path / "profile.json")
    study = small_study() | {"axes": small_study()["axes"][1:2], "measured": []}
    given = [str(tmp_path / "profile.json"), profile, dict(profile)]
    frames = [paceline.sweep(study | {"profile": each}, progress=False).frame for each in given]
    assert frames[0]["interval_low_s"].notna().all()
    for frame in frames[1:]:
        pd.testing.assert_frame_equal(frame, frames[0])
    with pytest.raises(paceline.InputError, match="expected the name of a file or a profile"):
        paceline.sweep(study | {"profile": 3}, progress=False)


def test_progress_and_resuming(tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    paceline.sweep(small_study(), tmp_path, jobs=2, progress=lambda *told: seen.append(told))
    assert seen[-1] == (18, 18, 6)
    assert seen == sorted(seen)
    before = (tmp_path / "results.jsonl").read_bytes()
    seen.clear()
    paceline.sweep(small_study(), tmp_path, progress=lambda *told: seen.append(told))
    assert seen == []  # nothing was left
    assert (tmp_path / "results.jsonl").read_bytes() == before


def long_study() -> dict[str, Any]:
    study = small_study()
    study["axes"][2]["to"] = 300
    return study


def test_exception_stops_and_the_rest_follows(tmp_path: Path) -> None:
    def fail(done: int, _points: int, _failed: int) -> None:
        if done >= 5:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        paceline.sweep(long_study(), tmp_path, jobs=1, progress=fail)
    assert 5 <= len(studies.load(tmp_path).lines) < 1800


def test_interrupt_stops(tmp_path: Path) -> None:
    sent = threading.Event()

    def interrupt(done: int, _points: int, _failed: int) -> None:
        if done >= 5 and not sent.is_set():
            sent.set()
            os.kill(os.getpid(), signal.SIGINT)

    # A job in the background ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            paceline.sweep(long_study(), tmp_path, jobs=1, progress=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(studies.load(tmp_path).lines) < 1800


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(paceline.InputError) as caught:
        paceline.sweep({"scenario": {}, "axes": [{"key": "gpu", "values": [1]}]}, progress=False)
    assert caught.value.place == "/axes/0/key"
    with pytest.raises(paceline.InputError):
        paceline.sweep(small_study(), jobs=0, progress=False)
    with pytest.raises(paceline.InputError):
        studies.load(tmp_path / "nowhere")
    paceline.sweep(small_study(), tmp_path, progress=False)
    whole = (tmp_path / "results.jsonl").read_text()
    (tmp_path / "results.jsonl").write_text(whole + '{"point": {"gp')  # being written
    assert len(studies.load(tmp_path).lines) == 18
    (tmp_path / "results.jsonl").write_text(whole + "nonsense\n")
    with pytest.raises(paceline.InputError, match="line 19"):
        studies.load(tmp_path)


def test_points() -> None:
    points = studies.points(small_study())
    assert len(points) == 18
    assert points[0]["axes"] == {"gpus": 8, "cap": "25 MiB", "seed": 1}
    assert points[0]["scenario"]["training"]["ddp"]["bucket_cap"] == "25 MiB"
    assert "17" in points[-1]["error"]
    assert studies.schema()["type"] == "object"


def test_quantities() -> None:
    known = {
        "25 MiB": (25 * 2**20, "B"),
        "400 Gb/s": (50e9, "B/s"),
        "5 us": (5e-6, "s"),
        "2 kB": (2000, "B"),
        "1e3 samples/s": (1000, "samples/s"),
        3: (3, ""),
        0.5: (0.5, ""),
    }
    for text, (value, unit) in known.items():
        quantity = quantities.parse(text)
        assert quantity is not None
        assert quantity.value == pytest.approx(value)
        assert quantity.unit == unit
    for text in ["dgx-a100", "5", "5 parsecs", True, None, ["5 us"]]:
        assert quantities.parse(text) is None
    assert quantities.number_text(16384) == "16,384"
    assert quantities.number_text(0.05) == "0.05"
    assert quantities.size_text(65536) == "64 KiB"


def test_lines_of_another_model_version_are_left_aside(tmp_path: Path) -> None:
    paceline.sweep(small_study(), tmp_path, progress=False)
    lines = lines_of(tmp_path)
    older = [  # as written before lines had a check
        line.replace('"model_version"', '"another"').partition(', "check"')[0] + "}"
        for line in lines
    ]
    (tmp_path / "results.jsonl").write_text("".join(line + "\n" for line in older))
    with pytest.warns(UserWarning, match="lines of another model version are left aside in"):
        again = paceline.sweep(small_study(), tmp_path, progress=False)
    assert lines_of(tmp_path) == lines
    assert len(again.lines) == 18
    assert list(tmp_path.glob("results.before-model-*.jsonl"))


def test_a_profile_of_another_model_version_is_remarked_on() -> None:
    profile = {"tool": "paceline 0.0", "parameters": {"nvlink.efficiency": 0.9}}
    with pytest.warns(UserWarning, match="fitted with an earlier one"):
        paceline.collective("all_reduce", cluster="dgx-a100", sizes=["1M"], profile=profile)


def test_the_guides_job_array_is_the_sweep(tmp_path: Path) -> None:
    """Its tasks as SLURM would start them, and the joining."""
    script, join, _ = re.findall(
        r"^```bash\n(.*?)^```$", (ROOT / "docs/guide.md").read_text(), re.MULTILINE | re.DOTALL
    )
    study, out = tmp_path / "scenarios/studies/stragglers.json", tmp_path / "jitter"
    smaller = json.loads((ROOT / "scenarios/studies/stragglers.json").read_text())
    smaller["scenario"] |= {"model": "resnet18", "run": {"iterations": 2}}
    study.parent.mkdir(parents=True)
    study.write_text(json.dumps(smaller))
    path = f"{Path(program_path()).parent}:{os.environ['PATH']}"
    for task in range(16):
        environment = os.environ | {"PATH": path, "SLURM_ARRAY_TASK_ID": str(task)}
        line = ["bash", "-eu", "-c", script]
        subprocess.run(line, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert len(list(out.glob("results.*-16.jsonl"))) == 16
    subprocess.run(["bash", "-eu", "-c", join], cwd=tmp_path, env=environment, check=True)
    joined = studies.load(out)
    assert [file.name for file in out.glob("results*")] == ["results.jsonl"]
    paceline.sweep(study, tmp_path / "one", progress=False)
    ours, theirs = ((folder / "results.jsonl").read_text() for folder in (out, tmp_path / "one"))
    assert sorted(ours.splitlines()) == sorted(theirs.splitlines())
    assert len(joined.lines) == len(ours.splitlines()) == 120


def test_a_shard_has_its_points(tmp_path: Path) -> None:
    study = ROOT / "scenarios/studies/bucket_size.json"
    parts = [paceline.sweep(study, tmp_path, shard=(i, 2), progress=False) for i in range(2)]
    with pytest.raises(paceline.InputError, match="found shards alone"):
        studies.load(tmp_path)
    whole = paceline.sweep(study, tmp_path, progress=False)
    assert sum(len(part.lines) for part in parts) == len(whole.lines)
    assert all(part.lines for part in parts)
    with pytest.raises(paceline.InputError, match="expected a shard from 0 to 1, found 2"):
        paceline.sweep(study, tmp_path, shard="2/2", progress=False)
    with pytest.raises(paceline.InputError, match="expected a folder"):
        paceline.sweep(study, shard="0/2", progress=False)
    with pytest.raises(paceline.InputError, match=r"shard.*found \"?0/2/5"):
        paceline.sweep(study, tmp_path, shard=(0, 2, 5), progress=False)  # type: ignore[arg-type]
    with pytest.raises(paceline.InputError, match=r"shard.*found 3$"):
        paceline.sweep(study, tmp_path, shard=3, progress=False)  # type: ignore[arg-type]
