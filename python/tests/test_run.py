"""Python and the command line are one program."""

from __future__ import annotations

import builtins
import json
import math
import os
import pickle
import pkgutil
import signal
import tempfile
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT, TABLE, Program

import paceline
from paceline import _core, scenarios

EXAMPLES = ["slow_gpu_64", "first_node", "bucket_5mib", "neighbour_traffic", "spine_striped"]


@pytest.mark.parametrize(
    ("value", "found"),
    [(math.nan, "nan"), (np.float32("inf"), "inf"), ([1, np.array([2, -math.inf])], "-inf")],
)
def test_a_number_that_json_cant_say_is_told_with_its_key(value: Any, found: str) -> None:
    scenario = {"cluster": {"node": "dgx-a100"}, "model": "resnet18", "training": {"a/b~c": value}}
    with pytest.raises(paceline.InputError) as told:
        paceline.run(scenario)
    inner = "/1/1" if isinstance(value, list) else ""
    assert str(told.value) == f"/training/a~1b~0c{inner}: expected a finite number, found {found}"


def test_what_is_loaded_has_each_key_once(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('\ufeff{"cluster": "dgx-a100", "run": {"seed": 1}}', encoding="utf-8")
    assert scenarios.load(file) == {"cluster": "dgx-a100", "run": {"seed": 1}}
    file.write_text('{"cluster": "dgx-a100", "run": {"seed": 1, "seed": 2}}', encoding="utf-8")
    with pytest.raises(
        paceline.InputError, match=r's\.json: expected each key once, found "seed" twice'
    ):
        scenarios.load(file)


@pytest.mark.parametrize("name", EXAMPLES)
def test_result_has_the_programs_bytes(name: str, program: Program, tmp_path: Path) -> None:
    path = ROOT / "scenarios" / f"{name}.json"
    out = tmp_path / "result.json"
    done = program("run", path, "--iterations", "4", "--seed", "7", "--out", out, "--no-explain")
    assert done.returncode == 0, done.stderr
    result = paceline.run(path, iterations=4, seed=7)
    assert result.text.encode() == out.read_bytes()
    assert paceline.run(scenarios.load(path), iterations=4, seed=7).text == result.text
    saved = tmp_path / "saved.json"
    result.save(saved)
    assert saved.read_bytes() == out.read_bytes()
    assert paceline.run(saved).text == result.text  # a result is run again


def test_explanation_has_the_programs_bytes(program: Program, tmp_path: Path) -> None:
    path, out = ROOT / "scenarios/first_node.json", tmp_path / "result.json"
    done = program("run", path, "--iterations", "2", "--out", out)
    assert done.returncode == 0, done.stderr
    result = paceline.run(path, iterations=2, explain=True)
    assert result.text.encode() == out.read_bytes()
    assert {"critical_path", "sensitivities", "best_levers"} <= set(result.data)


@pytest.mark.parametrize("name", ["first_node", "slow_gpu_64"])
def test_trace_has_the_programs_bytes(name: str, program: Program, tmp_path: Path) -> None:
    path, out = ROOT / f"scenarios/{name}.json", tmp_path / "result.json"
    result = paceline.run(path, trace=True, explain=True)
    for file, words in (("trace.json", []), ("trace.json.gz", ["--no-explain"])):
        done = program("run", path, "--quiet", "--out", out, "--trace", tmp_path / file, *words)
        assert done.returncode == 0, done.stderr
        if not words:
            assert result.text.encode() == out.read_bytes()
        result.save_trace(tmp_path / f"our_{file}")
        assert (tmp_path / f"our_{file}").read_bytes() == (tmp_path / file).read_bytes()
    assert result.trace_text is not None
    assert result.trace_text.encode() == (tmp_path / "trace.json").read_bytes()


def test_trace_folder_has_the_programs_bytes(program: Program, tmp_path: Path) -> None:
    path, out = ROOT / "scenarios/slow_gpu_64.json", tmp_path / "result.json"
    words = ["--trace", tmp_path / "theirs", "--trace-ranks", "0,5,37", "--trace-steps", "1-2"]
    done = program("run", path, "--quiet", "--no-explain", "--out", out, *words)
    assert done.returncode == 0, done.stderr
    result = paceline.run(path, trace=[37, 0, 5], trace_steps=(1, 2))
    assert result.text.encode() == out.read_bytes()
    for _ in range(2):  # the second replaces the first
        result.save_trace(tmp_path / "ours")
    files = sorted(file.name for file in (tmp_path / "ours").iterdir())
    assert files == [f"rank_{rank}.json.gz" for rank in (0, 37, 5)]
    for name in files:
        ours, theirs = (tmp_path / side / name for side in ("ours", "theirs"))
        assert ours.read_bytes() == theirs.read_bytes()
    assert list(result.overlap()["rank"]) == [0, 5, 37]
    assert set(result.overlap()["first_step"]) == {1}
    paceline.run(path, trace=[1], trace_steps=(1, 1)).save_trace(tmp_path / "ours")
    assert [file.name for file in (tmp_path / "ours").iterdir()] == ["rank_1.json.gz"]


def test_a_result_travels(tmp_path: Path) -> None:
    result = paceline.run(ROOT / "scenarios/first_node.json", iterations=2, trace=[0])
    again = pickle.loads(pickle.dumps(result))
    assert again.text == result.text
    assert again.trace == result.trace
    with pytest.raises(ValueError, match="trace of this process"):
        again.save_trace(tmp_path / "trace.json")
    assert paceline.run(result, iterations=2, trace=[0]).text == result.text


def test_profile_changes_the_result_as_the_programs(
    program: Program, profile: paceline.Profile, tmp_path: Path
) -> None:
    path, out, file = ROOT / "scenarios/first_node.json", tmp_path / "r.json", tmp_path / "p.json"
    profile.save(file)
    done = program("run", path, "--profile", file, "--out", out, "--no-explain")
    assert done.returncode == 0, done.stderr
    given = [paceline.run(path, profile=p) for p in (profile, file, dict(profile))]
    for result in given:
        assert result.text.encode() == out.read_bytes()
        assert result.interval is not None
        assert 0 < result.interval.low_s < result.step_time_s < result.interval.high_s
    assert paceline.run(path).interval is None


def test_collective_is_the_programs_table(program: Program, profile: paceline.Profile) -> None:
    words = ["--cluster", "dgx-a100", "--nodes", "2", "-b", "1M", "-e", "64M", "--json"]
    told = json.loads(program("collective", "all_reduce", *words).stdout)
    frame = paceline.collective("all_reduce", cluster="dgx-a100", nodes=2, first="1M", last="64M")
    assert list(frame["time_us"]) == [row["out_of_place"]["time"] for row in told["results"]]
    assert list(frame["busbw_gb_per_s"]) == [r["out_of_place"]["bus_bw"] for r in told["results"]]
    assert list(frame["size_bytes"]) == [2**i for i in range(20, 27)]
    assert set(frame["gpus"]) == {16}
    chosen = paceline.collective(
        "all_reduce", cluster="dgx-a100", sizes=[2**20, "64M"], explain=True, profile=profile
    )
    assert list(chosen["size_bytes"]) == [2**20, 2**26]
    assert (chosen["low_us"] < chosen["time_us"]).all()
    assert (chosen["time_us"] < chosen["high_us"]).all()
    parts = ["launch_us", "latency_us", "fill_us", "bandwidth_us"]
    assert (chosen[parts].sum(axis=1) > 0).all()


def test_collective_settings() -> None:
    def chosen(**settings: object) -> tuple[str, int]:
        rows = paceline.collective(
            "all_reduce", cluster="dgx-h100", sizes="64M", settings=settings or None
        )
        return rows["algorithm"][0], int(rows["channels"][0])

    assert chosen() == ("nvls", 16)
    assert chosen(nvls=False) == ("ring", 24)
    assert chosen(nvls=False, max_channels=8) == ("ring", 8)
    with pytest.raises(paceline.InputError, match='unknown key "nvsl"; did you mean "nvls"'):
        chosen(nvsl=False)


def test_what_a_table_of_collectives_is_asked_for() -> None:
    def sizes(**keys: Any) -> list[int]:
        return list(paceline.collective("all_reduce", cluster="dgx-a100", **keys)["size_bytes"])

    assert sizes(sizes=np.int64(2**20)) == sizes(sizes=[np.int64(2**20)]) == [2**20]
    assert sizes(first=1024, last="4K", settings={"max_channels": np.int64(8)}) == [
        2**10,
        2**11,
        2**12,
    ]
    refused: list[tuple[dict[str, Any], str]] = [
        ({"sizes": []}, "sizes: expected at least one size"),
        ({"sizes": 1e6}, "sizes: expected a size such as"),
        ({"sizes": "1M", "last": "64M"}, "sizes: expected sizes, or first, last and factor"),
        ({"settings": {"nvsl": False}}, "settings: unknown key"),
        ({"settings": {"algorithm": "ring"}}, "settings: expected the argument algorithm"),
        ({"settings": {"costs": {"a": math.nan}}}, "/costs/a: expected a finite number, found nan"),
    ]
    for keys, told in refused:
        with pytest.raises(paceline.InputError, match=f"^{told}"):
            sizes(**keys)
    with pytest.raises(paceline.InputError, match=r'^kind: unknown collective "allreduce"'):
        paceline.collective("allreduce", cluster="dgx-a100")
    with pytest.raises(paceline.InputError, match=r"^kind: expected a collective"):
        paceline.collectives.bus_factor("allreduce", 8)
    assert paceline.collectives.bus_factor("broadcast", 8) == 1


def test_collectives_of_a_scenario_that_is_a_dictionary() -> None:
    path = ROOT / "scenarios/slow_gpu_64.json"
    scenario = scenarios.edit(path, "/training/collective", {"algorithm": "tree"})
    frame = paceline.collective("all_reduce", cluster=scenario, sizes="1M")
    assert (frame["algorithm"][0], frame["gpus"][0]) == ("tree", 64)
    plain = scenarios.load(path)
    named, given = (
        paceline.collective("all_reduce", cluster=each, sizes="1M") for each in (path, plain)
    )
    pd.testing.assert_frame_equal(named, given)
    del plain["cluster"]["node"]
    with pytest.raises(paceline.InputError) as caught:
        paceline.collective("all_reduce", cluster=plain)
    assert str(Path(tempfile.gettempdir())) not in str(caught.value)


def test_a_result_of_another_model_version_is_run_with_a_warning(result: paceline.Result) -> None:
    old = result.data | {"model_version": 12}
    with pytest.warns(UserWarning, match="scenario: a result of model version 12, this is"):
        again = paceline.run(old, iterations=3)
    assert again.step_time_s == result.step_time_s
    with pytest.warns(UserWarning, match="a result of model version 12"):
        paceline.compare(old, ["ddp", "zero1"], iterations=1)
    with pytest.warns(UserWarning, match="1: a result of model version 12"):
        paceline.compare([old, result], iterations=1)


def test_choices_and_other_machines(profile: paceline.Profile) -> None:
    every = paceline.collective(
        "all_reduce", cluster="dgx-h100", nodes=2, sizes=["1M", "64M"], all_choices=True
    )
    assert (every["low_us"] < every["time_us"]).all()
    assert (every["time_us"] < every["high_us"]).all()
    for others in every["others"]:
        assert {"algorithm", "protocol", "time", "beside_choice"} <= others[0].keys()
        assert len(others) > 3

    def time_of_8_bytes(gpus_per_process: int) -> float:
        frame = paceline.collective(
            "all_reduce", cluster="dgx-h100", sizes=["8"], gpus_per_process=gpus_per_process
        )
        return float(frame["time_us"].iloc[0])

    assert time_of_8_bytes(1) < time_of_8_bytes(8)
    with pytest.raises(paceline.InputError, match="of another"):
        paceline.collective("all_reduce", cluster="dgx-h100", profile=profile)
    scenario = {"cluster": "dgx-h100", "model": "resnet18", "training": {"batch_per_gpu": 64}}
    with pytest.raises(paceline.InputError, match="of another"):
        paceline.run(scenario, profile=profile)
    allowed = paceline.run(scenario, profile=profile, allow_other_machine=True)
    assert allowed.step_time_s > 0


def test_fit_is_the_programs(program: Program, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    done = program("calibrate", "fit", TABLE, "--cluster", "dgx-a100", "-o", out)
    assert done.returncode == 0, done.stderr
    profile = paceline.fit(TABLE, cluster="dgx-a100")
    assert profile.text == out.read_text()
    assert done.stdout == f"{profile.page}Wrote {out}.\n"
    assert profile["cluster"] == "dgx-a100"
    assert dict(profile) == json.loads(profile.text)
    assert profile.parameters()["fitted"].any()


def without_files(profile: paceline.Profile) -> dict[str, Any]:
    return {key: value for key, value in profile.items() if key not in ("sources", "points")}


def test_measurements_are_fitted_as_a_frame_too() -> None:
    frame = paceline.read_measurements(TABLE)
    whole = paceline.fit(TABLE, cluster="dgx-a100")
    framed = paceline.fit(frame, cluster="dgx-a100")
    assert without_files(framed) == without_files(whole)
    assert framed["points"] == whole["points"]
    assert framed["sources"][0]["file"] == "DataFrame" and framed.page.startswith(
        "DataFrame: CSV, "
    )
    large = frame[frame["size_bytes"] >= 2**20]
    assert len(paceline.fit(large, cluster="dgx-a100")["points"]) < len(framed["points"])
    compared, known = (
        paceline.compare_measurements(each, cluster="dgx-a100", nodes=2) for each in (frame, TABLE)
    )
    assert compared["verdict"] == known["verdict"]
    assert [row["measured_us"] for row in compared["rows"]] == [
        row["measured_us"] for row in known["rows"]
    ]
    assert {row["file"] for row in compared["rows"]} == {"DataFrame"}
    diagnoses = [paceline.diagnose(each, cluster="dgx-a100", nodes=2) for each in (frame, TABLE)]
    assert diagnoses[0]["ranked"] == diagnoses[1]["ranked"]
    beside = frame.assign(condition=["gemm", *[""] * (len(frame) - 1)])
    rows = paceline.compare_measurements(beside, cluster="dgx-a100", nodes=2)["rows"]
    assert len(rows) == len(known["rows"]) - 1
    with pytest.raises(paceline.InputError, match=r"^DataFrame: line 1: missing column"):
        paceline.fit(pd.DataFrame({"gpus": [1], "rate": [1]}), cluster="dgx-a100")


def test_rates_are_fitted_as_a_frame_and_a_dictionary(tmp_path: Path) -> None:
    rates, scenario = tmp_path / "rates.csv", ROOT / "scenarios/resnet50_v100_4x8.json"
    rates.write_text("gpus,nodes,throughput\n1,1,367.29\n8,1,2887.65\n")
    known = paceline.fit(rates, cluster="dgx1-v100", scenario=scenario)
    frame = paceline.read_measurements(rates, "training")
    given = paceline.fit(frame, cluster="dgx1-v100", scenario=scenarios.load(scenario))
    assert without_files(given) == without_files(known)
    with pytest.raises(paceline.InputError, match=r"^scenario: /model: ") as caught:
        paceline.fit(rates, cluster="dgx1-v100", scenario=scenarios.load(scenario) | {"model": "x"})
    assert caught.value.file == "scenario"


def test_what_is_no_result_and_no_profile_is_not_loaded() -> None:
    scenario = ROOT / "scenarios/first_node.json"
    for load, what in ((paceline.Result.load, "result"), (paceline.Profile.load, "profile")):
        with pytest.raises(paceline.InputError, match=rf"first_node\.json: expected a {what}"):
            load(scenario)
        with pytest.raises(paceline.InputError, match=rf"{TABLE.name}: line 1, .* expected JSON"):
            load(TABLE)


def test_judging_a_log_is_the_programs(program: Program) -> None:
    stated = ("--cluster", "dgx-a100", "--nodes", 2)
    choices: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        ((), {}),
        (("--algo", "tree", "--proto", "simple"), {"algorithm": "tree", "protocol": "simple"}),
        (("--library", "gloo"), {"library": "gloo"}),
    ]
    for options, arguments in choices:
        done = program("calibrate", "compare", TABLE, *stated, *options, "--json")
        assert done.returncode == 0, done.stderr
        compared = paceline.compare_measurements(TABLE, cluster="dgx-a100", nodes=2, **arguments)
        assert compared == json.loads(done.stdout)
    assert compared["verdict"]
    assert all(row["low_us"] < row["predicted_us"] < row["high_us"] for row in compared["rows"])
    done = program("calibrate", "diagnose", TABLE, *stated, "--json")
    diagnosis = paceline.diagnose(TABLE, cluster="dgx-a100", nodes=2)
    assert diagnosis == json.loads(done.stdout)
    assert diagnosis["healthy"] == (diagnosis["ranked"][0]["faults"] == [])


def bad_scenarios() -> list[dict[str, object]]:
    cluster = {"node": "dgx-a100"}
    return [
        {"cluster": {"nod": "dgx-a100"}, "model": "resnet50"},
        {"cluster": cluster, "model": "resnet5O"},
        {"cluster": cluster, "model": "resnet50", "training": {"batch_per_gpu": "many"}},
        {"cluster": {"node": "dgx-a100", "nodes": 0}, "model": "resnet50"},
        {"cluster": "nowhere.json", "model": "resnet50"},
    ]


@pytest.mark.parametrize("bad", bad_scenarios(), ids=range(5))
def test_errors_are_the_programs(bad: dict[str, object], program: Program, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(bad))
    with pytest.raises(paceline.InputError) as caught:
        paceline.run(file)
    assert program("run", file).stderr == f"paceline: {caught.value}\n"
    assert caught.value.file == str(file)
    assert caught.value.place
    assert str(caught.value) == f"{file}: {caught.value.place}: {caught.value.message}"


def test_errors_of_arguments_and_files(program: Program, tmp_path: Path) -> None:
    path = ROOT / "scenarios/first_node.json"
    trace = ["run", path, "--trace", tmp_path / "t.json"]
    table = ["collective", "all_reduce", "--cluster", "dgx-a100"]
    fit = ["calibrate", "fit", TABLE, "-o", tmp_path / "p.json"]

    def collective(**keys: Any) -> Any:
        return paceline.collective("all_reduce", **{"cluster": "dgx-a100"} | keys)

    cases: list[tuple[list[Any], str, Callable[[], object]]] = [
        (["run", path, "--engine", "evnt"], "engine", lambda: paceline.run(path, engine="evnt")),
        (["run", path, "--seed", "-1"], "seed", lambda: paceline.run(path, seed=-1)),
        (
            ["run", path, "--iterations", "0"],
            "iterations",
            lambda: paceline.run(path, iterations=0),
        ),
        (["run", tmp_path / "none.json"], "", lambda: paceline.run(tmp_path / "none.json")),
        (["run", path, "--profile", path], "", lambda: paceline.run(path, profile=path)),
        ([*trace, "--trace-ranks", "8"], "trace", lambda: paceline.run(path, trace=[8])),
        (
            [*trace, "--trace-steps", "3-1"],
            "trace_steps",
            lambda: paceline.run(path, trace=True, trace_steps=(3, 1)),
        ),
        (["topology", "dgx-z100"], "", lambda: scenarios.topology("dgx-z100")),
        ([*table, "--nodes", "0"], "nodes", lambda: collective(nodes=0)),
        (
            [*table, "--gpus-per-node", "9999"],
            "gpus_per_node",
            lambda: collective(gpus_per_node=9999),
        ),
        ([*table, "-e", "1X"], "last", lambda: collective(last="1X")),
        ([*table, "--algo", "rign"], "algorithm", lambda: collective(algorithm="rign")),
        ([*table, "--proto", "ll12"], "protocol", lambda: collective(protocol="ll12")),
        ([*table, "--nccl", "9"], "nccl", lambda: collective(nccl="9")),
        (
            [*fit, "--cluster", "dgx-a100", "--nccl", "9"],
            "nccl",
            lambda: paceline.fit(TABLE, cluster="dgx-a100", nccl="9"),
        ),
        (
            [*fit, "--cluster", "dgx-a100", "--set", "threads=2"],
            "settings",
            lambda: paceline.fit(TABLE, cluster="dgx-a100", settings={"threads": 2}),
        ),
    ]
    for words, argument, call in cases:
        with pytest.raises(paceline.InputError) as caught:
            call()
        told = program(*words).stderr
        assert "--" not in str(caught.value)
        if argument:  # the same but for the option's name
            assert caught.value.place == argument
            assert ": -" in told
            assert told.endswith(f": {caught.value.message}\n")
        else:
            assert told == f"paceline: {caught.value}\n"
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, paceline.InputError)
    assert isinstance(again, ValueError)
    assert (str(again), again.place) == (str(caught.value), caught.value.place)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"trace_steps": (1, 2)}, "trace_steps"),
        ({"jobs": 0}, "jobs"),
    ]
    for keys, place in wrong:
        with pytest.raises(paceline.InputError) as caught:
            paceline.run(path, **keys)
        assert caught.value.place == place
    with pytest.raises(TypeError):
        paceline.run({"model": object()})


@pytest.mark.parametrize(
    ("keys", "ranks", "first"),
    [
        ({"trace": "0,2-3", "trace_steps": "1-2"}, [0, 2, 3], 1),
        ({"trace": range(2), "trace_steps": np.array([1, 1])}, [0, 1], 1),
        ({"trace": np.True_}, [*range(8)], 0),
    ],
)
def test_which_ranks_and_steps_are_traced(
    keys: dict[str, Any], ranks: list[int], first: int
) -> None:
    overlap = paceline.run(ROOT / "scenarios/first_node.json", iterations=2, **keys).overlap()
    assert list(overlap["rank"]) == ranks
    assert set(overlap["first_step"]) == {first}


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"trace": 5}, r"^trace: expected True or ranks such as \[0, 37\], found 5$"),
        ({"trace": 0}, "^trace: .* found 0$"),
        ({"trace": None}, "^trace: .* found None$"),
        ({"trace": "12"}, "trace: expected numbers up to 7, found 12$"),
        ({"trace": [1.0]}, r"^trace: .* found \[1\.0\]$"),
        ({"trace": True, "trace_steps": 2}, r"^trace_steps: .* such as \(1, 3\), found 2$"),
        ({"trace": True, "trace_steps": (2,)}, r"^trace_steps: .* found \(2,\)$"),
        ({"trace": True, "trace_steps": range(3)}, r"^trace_steps: .* found range\(0, 3\)$"),
        ({"trace": np.False_, "trace_steps": (0, 1)}, "^trace_steps: expected trace=True as well"),
    ],
)
def test_what_cannot_be_traced_is_told(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(paceline.InputError, match=told):
        paceline.run(ROOT / "scenarios/first_node.json", iterations=1, **keys)


def test_what_is_asked_for_is_checked_by_its_description() -> None:
    for asked, told in [
        ('{"sed": "3"}', 'unknown key "sed"; did you mean "seed"'),
        ('{"jobs": 0}', "/jobs: expected "),
        ('{"trace": {"rank": "0"}}', "/trace: unknown key"),
        ("[]", "expected an object"),
    ]:
        with pytest.raises(paceline.InputError, match=told):
            _core.run("{}", "", asked)


def test_a_module_and_a_function_never_share_a_name() -> None:
    """`import paceline.run` would give the function."""
    modules = {each.name for each in pkgutil.iter_modules(paceline.__path__)}
    for name in modules & set(dir(paceline)):
        assert isinstance(getattr(paceline, name), types.ModuleType), name
    assert "run" not in modules
    for module in (paceline, paceline.calibrate, paceline.collectives, scenarios, paceline.studies):
        own = [
            n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__
        ]
        assert not [name for name in own if hasattr(builtins, name)]


def test_a_cluster_may_be_a_dictionary(tmp_path: Path) -> None:
    cluster = {"node": "dgx-a100", "nodes": 2}
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(cluster))
    keys: dict[str, Any] = {"first": "1M", "last": "4M"}
    named, given = (
        paceline.collective("all_reduce", cluster=each, **keys) for each in (file, cluster)
    )
    pd.testing.assert_frame_equal(named, given)
    assert scenarios.topology(cluster) == scenarios.topology(file)
    one = {"node": "dgx-a100"}
    profile = paceline.fit(TABLE, cluster=one)
    assert profile["parameters"] == paceline.fit(TABLE, cluster="dgx-a100")["parameters"]
    assert json.loads(profile.cluster) == one
    with pytest.raises(paceline.InputError, match="did you mean") as caught:
        scenarios.topology({"nod": "dgx-a100"})
    with pytest.raises(paceline.InputError) as caught:
        scenarios.topology({"node": "dgx-a100", "nodes": 0})
    assert caught.value.place == "/nodes"


def interrupted(after: float, work: Callable[[], object]) -> float:
    """The process's own seconds until Ctrl-C, sent after so many seconds, has ended the work."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.process_time()  # whatever else the machine does
    sends = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    try:
        sends.start()
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        sends.cancel()
        signal.signal(signal.SIGINT, before)
    return time.process_time() - began


def test_interrupt_ends_a_run_and_an_explanation() -> None:
    scenario = ROOT / "scenarios/slow_gpu_64.json"  # more than ten changes are simulated
    began = time.process_time()
    paceline.run(scenario, iterations=200)
    one = time.process_time() - began
    assert (
        interrupted(one / 2, lambda: paceline.run(scenario, iterations=200, explain=True, jobs=1))
        < 8 * one
    )
    assert interrupted(one / 2, lambda: paceline.run(scenario, iterations=4000)) < 8 * one


def test_scenarios_side_by_side_are_the_programs(program: Program) -> None:
    files = [str(ROOT / f"scenarios/network_{rate}.json") for rate in ("200g", "400g")]
    compared = paceline.compare(files, iterations=3)
    done = program("compare", *files, "--iterations", "3", "--json")
    assert compared.data == json.loads(done.stdout)
    frame = compared.frame
    assert list(frame["scenario"]) == ["network_200g", "network_400g"]
    alone = paceline.run(files[0], iterations=3)
    assert frame["throughput_samples_per_s"][0] == alone.throughput_samples_per_s
    assert "network_400g is the fastest" in compared.verdict
    same = paceline.compare([scenarios.load(files[0]), alone], iterations=3)
    assert list(same.frame["scenario"]) == ["1", "2"]
    assert same.frame["step_time_s"].nunique() == 1
    with pytest.raises(TypeError, match="at least two scenarios, found 1"):
        paceline.compare(files[:1])
    with pytest.raises(TypeError, match="one scenario beside strategies"):
        paceline.compare(files, "ddp")
    with pytest.raises(TypeError, match="expected strategies, or a list"):
        paceline.compare(files[0])
    with pytest.raises(paceline.InputError, match="expected each scenario once"):
        paceline.compare([files[0], files[0]])


def test_interrupt_ends_a_comparison_of_campaigns() -> None:
    scenario = scenarios.load(ROOT / "scenarios/faults_opt_175b.json")
    one, many = (scenarios.edit(scenario, "/faults/seeds", seeds) for seeds in (400, 10000))
    began = time.process_time()
    paceline.compare(one, "ddp,fsdp", jobs=1)
    few = time.process_time() - began
    assert interrupted(few / 2, lambda: paceline.compare(many, "ddp,fsdp", jobs=1)) < 8 * few


def test_another_thread_goes_on() -> None:
    ticks = 0
    ended = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not ended.is_set():
            ticks += 1
            time.sleep(0.001)

    scenario = scenarios.load(ROOT / "scenarios/slow_gpu_64.json")
    thread = threading.Thread(target=tick)
    text = json.dumps(scenario)
    try:
        thread.start()
        before = ticks
        _core.run(text, "", '{"iterations": "4", "engine": "event"}')
        during = ticks - before
    finally:
        ended.set()
        thread.join()
    assert during > 5


def test_frames_of_a_result(result: paceline.Result) -> None:
    parts = result.breakdown()
    assert list(parts) == ["part", "time_s", "share", "worst_rank_time_s"]
    assert parts["time_s"].sum() == pytest.approx(result.step_time_s, rel=1e-6)
    assert parts["share"].sum() == pytest.approx(1)
    assert list(result.buckets()) == ["bytes", "ready_s", "start_s", "end_s"]
    assert (result.buckets()["ready_s"] <= result.buckets()["end_s"]).all()
    assert list(result.stragglers()) == [
        *("rank", "gpu", "collectives", "delay_s", "waited_s", "as_late"),
    ]
    assert result.stragglers()["rank"].iloc[0] == 37
    wait = parts.set_index("part")["time_s"]
    assert result.stragglers()["waited_s"].sum() == pytest.approx(wait["straggler_wait"])
    collectives = result.collectives()
    assert list(collectives) == [
        *("collective", "bytes", "algorithm", "protocol"),
        *("straggler_wait_s", "exposed_communication_s", "every_steps"),
    ]
    assert (collectives["every_steps"] == 1).all()
    assert result.local_step_s is None
    exposed = collectives["exposed_communication_s"].sum()
    assert exposed == pytest.approx(wait["exposed_communication"])
    assert 0 < collectives["straggler_wait_s"].sum() <= wait["straggler_wait"]
    overlap = result.overlap()
    assert list(overlap["rank"]) == [*range(8), 37]
    shares = overlap["overlapped_s"] / overlap["communication_s"]
    assert list(overlap["share"]) == pytest.approx(list(shares))
    assert result.gpus == 64
    assert result.throughput_samples_per_s == pytest.approx(64 * 16 / result.step_time_s, rel=1e-6)
    assert 0 < result.scaling_efficiency < 1
    assert "64 GPUs" in repr(result)


def test_links(result: paceline.Result) -> None:
    links, busiest = result.links().set_index("class"), result.busiest_links()
    out = links.loc["nic_out"]
    assert out["links"] == 64 and out["bytes"] == links.loc["nic_in"]["bytes"]
    sent = result.data["sent_bytes"]["nic"] * result.gpus
    assert out["bytes"] * out["links"] == pytest.approx(sent, abs=64)
    assert len(busiest) == 10 and busiest["utilisation"].is_monotonic_decreasing
    first = busiest.iloc[0]
    most = first["bandwidth_bytes_per_s"] * result.step_time_s
    assert first["utilisation"] == pytest.approx(first["bytes"] / most)
    assert first["while_communicating"] > first["utilisation"]
    assert links["busiest_utilisation"].max() == first["utilisation"]
    older = {key: value for key, value in result.data.items() if key != "links"}
    with pytest.raises(ValueError, match="run it again"):
        paceline.Result(json.dumps(older)).links()


def test_memory(result: paceline.Result) -> None:
    parameters = 124_439_808  # of gpt2_small; mixed precision, Adam
    outputs = 167_068_672  # of a sample
    logits = 1024 * 50_257
    assert result.memory == {
        "parameters_bytes": 2 * parameters,
        "gradients_bytes": 4 * parameters,
        "optimizer_bytes": 12 * parameters,
        "model_states_bytes": 18 * parameters,
        "gathered_bytes": 0,
        "buckets_bytes": 4 * parameters,
        "activations_bytes": 16 * 2 * outputs,
        "unfused_loss_bytes": 16 * 3 * 4 * logits,
        "total_bytes": 22 * parameters + 16 * 2 * outputs,
        "gpu_bytes": 80 << 30,
        "fits": True,
    }
    assert "does not fit" not in repr(result)
    llama = scenarios.edit(result.data["scenario"], "/model", "llama3_8b")
    large = paceline.run(scenarios.edit(llama, "/training/batch_per_gpu", 1), iterations=1)
    assert large.memory is not None and large.memory["fits"] is False
    assert repr(large).startswith("<Result: does not fit: 207.9 GB of 85.9 GB; 64 GPUs, step ")
    with pytest.raises(paceline.InputError, match="it would fit with /training/strategy=zero and "):
        paceline.run(large, iterations=1, require_fit=True)
    sharded = scenarios.edit(large.data["scenario"], "/training/strategy", "fsdp")
    fitting = paceline.explain(sharded, iterations=1, jobs=1, require_fit=True)
    assert fitting.memory is not None and fitting.memory["fits"] is True


def test_servers(result: paceline.Result) -> None:
    assert result.servers is None
    with pytest.raises(ValueError, match="no parameter servers"):
        result.staleness()
    waits = scenarios.load(ROOT / "scenarios/stragglers_64.json")
    waits = scenarios.edit(waits, "/cluster/nodes", 1)
    waits = scenarios.edit(waits, "/variability/slow_gpus", [{"ranks": [3], "factor": 1.5}])
    ahead = scenarios.edit(waits, "/training/parameter_server/consistency", "async")
    together, alone = (paceline.run(each, iterations=4) for each in (waits, ahead))
    assert together.servers is not None and alone.servers is not None
    (fresh,) = together.staleness().to_dict("records")
    assert (fresh["updates"], fresh["share"]) == (0, 1.0)
    assert 0 <= 4 * 8 * 161 - fresh["gradients"] < 161  # the last may be on their way at the end
    stale = alone.staleness()
    assert list(stale) == ["updates", "gradients", "share"]
    assert stale["share"].sum() == pytest.approx(1)
    mean = (stale["updates"] * stale["share"]).sum()
    assert mean == pytest.approx(alone.servers["mean_staleness"]) and 6 < mean < 8
    late = stale[stale["share"].cumsum() >= 0.95]["updates"].iloc[0]
    assert late == alone.servers["p95_staleness"]
    assert together.data["breakdown_s"]["server_wait"] > 0.2 * together.step_time_s


def test_workers_of_servers_share_no_step() -> None:
    scenario = scenarios.load(ROOT / "scenarios/stragglers_64.json")
    scenario = scenarios.edit(scenario, "/cluster/nodes", 1)
    explained = paceline.explain(
        scenarios.edit(scenario, "/variability/slow_gpus", []), iterations=1
    )
    assert len(explained.sensitivities())
    with pytest.raises(ValueError, match="no critical path: workers of servers share no step"):
        explained.critical_path()


def test_explanations(result: paceline.Result) -> None:
    path = result.critical_path()
    assert list(path) == ["kind", "rank", "gpu", "what", "start_s", "duration_s"]
    ends = path["start_s"] + path["duration_s"]
    assert list(ends[:-1]) == pytest.approx(list(path["start_s"][1:]))
    assert path["duration_s"].sum() == pytest.approx(
        result.data["critical_path"]["step_ps"] * 1e-12
    )
    changes = result.sensitivities()
    assert list(changes) == [
        *("change", "kind", "step_time_s", "time_per_sample_change", "edits"),
    ]
    assert set(changes["kind"]) == {"software", "hardware", "cannot be had"}
    assert changes["time_per_sample_change"].is_monotonic_increasing
    (spared,) = changes[changes["change"].str.contains("rank 37")].to_dict("records")
    scenario = result.data["scenario"]
    for edit in spared["edits"]:
        scenario = scenarios.edit(scenario, edit["key"], edit["value"])
    assert paceline.run(scenario).step_time_s == spared["step_time_s"]
    kinds = [sentence.split(":")[0] for sentence in result.best_levers]
    assert kinds == sorted(kinds, reverse=True) and set(kinds) <= {"Software", "Hardware"}
    assert "rank 37" in result.best_levers[kinds.index("Hardware")]
    assert paceline.explain(result).data["best_levers"] == result.best_levers


def test_what_was_not_asked_for_is_named(tmp_path: Path) -> None:
    plain = paceline.run(ROOT / "scenarios/first_node.json", iterations=2)
    for call, how in [
        (plain.critical_path, "explain=True"),
        (plain.sensitivities, "explain=True"),
        (lambda: plain.best_levers, "explain=True"),
        (plain.overlap, "trace=True"),
        (lambda: plain.save_trace(tmp_path / "t.json"), "trace=True"),
    ]:
        with pytest.raises(ValueError, match=how):
            call()
    assert plain.trace is None


def test_measurements(tmp_path: Path) -> None:
    frame = paceline.read_measurements(TABLE)
    assert {"collective", "size_bytes", "time_s", "gpus", "file", "line"} <= set(frame)
    stated = {"channels", "nvls", "gpu_name", "fullest_node", "wrong_values", "not_modelled"}
    assert stated | {"socket_threads", "sockets_per_thread"} <= set(frame)
    assert (frame["time_s"] > 0).all()
    assert len(paceline.read_measurements([TABLE, TABLE])) == 2 * len(frame)
    assert list(paceline.read_measurements(TABLE, "kernels")) == [
        *("kernel", "kind", "precision", "m", "n", "k", "work_flop", "traffic_bytes", "time_s"),
        *("device", "condition", "file", "line"),
    ]
    with pytest.raises(paceline.InputError):
        paceline.read_measurements(ROOT / "dev")
    rates = tmp_path / "rates.csv"
    rates.write_text("gpus,nodes,batch_per_gpu,tokens_per_s\n8,1,4,30000\n")
    [row] = paceline.read_measurements(rates, "training").to_dict("records")
    assert row["throughput_tokens_per_s"] == 30000 and math.isnan(row["throughput_samples_per_s"])
    assert (row["batch_per_gpu"], row["accumulation"]) == (4, 0)


def test_scenarios() -> None:
    given = {"cluster": "h100-512", "model": "resnet50"}
    assert paceline.load is scenarios.load
    changed = scenarios.edit(given, "/cluster/nodes", 4)
    assert changed["cluster"]["nodes"] == 4
    assert given == {"cluster": "h100-512", "model": "resnet50"}
    with pytest.raises(paceline.InputError) as caught:
        scenarios.edit(given, "cluster", 4)
    assert caught.value.place == "cluster"
    assert "resnet50" in scenarios.model_names()
    assert {"dgx-a100", "h100-512"} <= set(scenarios.cluster_names())
    assert scenarios.schema()["$schema"].startswith("https://json-schema.org/")
    assert "dgx-a100" in scenarios.presets()["nodes"]
    whole = scenarios.preset("dgx-a100")
    training = {"batch_per_gpu": 32}
    by_name, in_full = (
        paceline.run({"cluster": each, "model": "resnet18", "training": training})
        for each in ("dgx-a100", whole)
    )
    assert in_full.step_time_s == by_name.step_time_s
    with pytest.raises(paceline.InputError, match='did you mean "dgx-h100"'):
        scenarios.preset("dgx-h10")
    assert "GPU" in scenarios.topology("dgx-a100")


def test_relative_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/cluster.json").write_text('{"node": "dgx-a100", "nodes": 2}')
    scenario = {
        "cluster": "cluster.json",
        "model": "resnet18",
        "training": {"batch_per_gpu": 8},
        "run": {"iterations": 2},
    }
    (tmp_path / "there/scenario.json").write_text(json.dumps(scenario))
    monkeypatch.chdir(tmp_path)
    assert paceline.run("there/scenario.json").gpus == 16  # from its folder
    with pytest.raises(paceline.InputError):
        paceline.run(scenario)
    monkeypatch.chdir(tmp_path / "there")
    assert paceline.run(scenario).gpus == 16  # from the current folder


def test_version(program: Program) -> None:
    said = program("--version").stdout.strip()
    assert said.startswith(f"paceline {paceline.__version__}")
    assert said.endswith(f", model version {paceline.MODEL_VERSION}")
    assert paceline.__version__ == _core.VERSION


def test_strategies_side_by_side(program: Program) -> None:
    path = ROOT / "scenarios" / "fsdp_llama3_8b.json"
    names = ["zero1", "fsdp", "fsdp:shard_group=node"]
    options = ["--strategies", ",".join(names), "--iterations", "1", "--json"]
    with pytest.warns(UserWarning, match='"reduce_precision".*"zero1"'):
        compared = paceline.compare(path, names, iterations=1)
    done = program("compare", path, *options)
    assert json.loads(done.stdout) == compared.data
    assert "don't count" in done.stderr
    frame = compared.frame
    assert list(frame["strategy"]) == names and frame["fits"].all()
    fastest = str(frame.sort_values("step_time_s")["strategy"].iloc[0])
    assert compared.verdict.startswith(fastest + " is the fastest")
    assert compared.verdict in repr(compared)
    alone = paceline.run(path, iterations=1)
    assert alone.step_time_s == frame["step_time_s"].iloc[1]
    with pytest.raises(paceline.InputError, match='unknown strategy "fdsp"; did you mean "fsdp"'):
        paceline.compare(path, "ddp,fdsp")
    with pytest.raises(TypeError, match="expected strategies by name"):
        paceline.compare(path, ["ddp", {"strategy": "fsdp"}])  # type: ignore[list-item]
    with pytest.raises(paceline.InputError, match="divides the 64 ranks"):
        paceline.compare(path, "fsdp:shard_group=3")


def test_servers_beside_others() -> None:
    path = ROOT / "scenarios" / "stragglers_64.json"
    small = scenarios.edit(scenarios.load(path), "/cluster/nodes", 1)
    small = scenarios.edit(small, "/variability/slow_gpus", [{"ranks": [3], "factor": 1.5}])
    names = ["ddp", "parameter_server", "parameter_server:stale=3", "parameter_server:backup=2"]
    compared = paceline.compare(small, names, iterations=4)
    frame = compared.frame.set_index("strategy")
    columns = [
        *("server_wait_s", "mean_staleness", "p95_staleness", "dropped_share"),
        "hottest_server_in_bytes",
    ]
    assert list(frame)[-5:] == columns
    assert frame.loc["ddp", columns].isna().all()
    waits, ahead, drops = (frame.loc[name, columns] for name in names[1:])
    assert waits["server_wait_s"] > ahead["server_wait_s"] and waits["server_wait_s"] > 0.01
    assert waits["mean_staleness"] == waits["dropped_share"] == drops["mean_staleness"] == 0
    assert 0 < ahead["mean_staleness"] <= ahead["p95_staleness"]
    assert 0.1 < drops["dropped_share"] < 0.25
    assert (frame["hottest_server_in_bytes"].dropna() > 8 * 4 * 25.6e6 / 8).all()
    without = paceline.compare(small, ["ddp", "zero1"], iterations=1).frame
    assert list(without)[-5:] == columns and without[columns].isna().all(axis=None)


def test_horovods_fusions() -> None:
    done = paceline.run(ROOT / "scenarios/horovod_p100_16.json", iterations=3)
    fusions = done.data["fusions"]
    assert sum(each["tensors"] for each in fusions) == 161
    assert sum(each["bytes"] for each in fusions) == 4 * 25_557_032
    for each in fusions:
        assert each["queued_s"] <= each["agreed_s"] <= each["start_s"] < each["end_s"]
    assert len(done.data["buckets"]) >= len(fusions)


def test_campaigns() -> None:
    done = paceline.run(ROOT / "scenarios/faults_16384.json")
    campaign = done.campaign
    assert campaign is not None
    assert 0.9 < campaign["goodput"]["mean"] < 1
    losses, seeds = done.campaign_losses(), done.campaign_seeds()
    assert len(seeds) == 100
    share = 1 - campaign["goodput"]["mean"]
    assert losses["share"].sum() == pytest.approx(share, abs=1e-3)
    assert done.memory is None
    for table in (done.links, done.busiest_links, done.collectives, done.stragglers, done.overlap):
        with pytest.raises(ValueError, match="no step: its scenario gives one"):
            table()
    assert paceline.run(ROOT / "scenarios/first_node.json", iterations=2).campaign is None


def test_steps_that_have_not_settled_are_told(tmp_path: Path) -> None:
    """How far they drift, and that smaller changes say nothing."""
    result = paceline.run(
        {**paceline.load("scenarios/ring_of_nodes_8.json"), "model": "transformer_xl_base"},
        explain=True,
    )
    assert result.drift is not None
    assert result.drift["steps"] == 10
    assert abs(result.drift["change"]) > 0.01
    assert result.spread == abs(result.drift["change"])
    page = tmp_path / "page.html"
    paceline.report(result, page)
    assert "Changes within the spread of" in page.read_text()
    settled = paceline.run("scenarios/first_node.json")
    assert settled.drift is None
    assert settled.spread == 0


def test_hooks_and_averages_are_told(tmp_path: Path) -> None:
    """What changes what is learned says so, on the page, too."""
    slow = paceline.load("scenarios/slow_network_16.json")
    assert paceline.run(slow).compression is None
    slow["training"]["compression"] = {"kind": "top_k", "share": 0.02}
    hooked = paceline.run(slow)
    assert hooked.compression is not None
    assert hooked.compression["ratio"] == pytest.approx(2 / (2 * 16 * 0.02), rel=1e-3)
    step = hooked.compression["kernels_s"] / hooked.step_time_s
    assert hooked.compression["share_of_step"] == pytest.approx(step)
    averaged = paceline.run("scenarios/local_sgd_v100_4x8.json")
    assert averaged.compression is None
    assert averaged.local_step_s is not None
    assert averaged.synchronising_step_s is not None
    assert averaged.local_step_s < averaged.synchronising_step_s
    for result, told in (
        (hooked, "Gradients are compressed (top_k)"),
        (averaged, "averaged every"),
    ):
        page = tmp_path / "page.html"
        paceline.report(result, page)
        assert told in page.read_text(encoding="utf-8")


def test_compared_hooks() -> None:
    """Strategies without a hook have none of its columns."""
    strategies = ["ddp", "ddp:compression=sign", "local_sgd:period=4"]
    frame = paceline.compare("scenarios/slow_network_16.json", strategies).frame
    assert frame["compression_ratio"].isna().tolist() == [True, False, True]
    assert frame["compression_ratio"][1] == pytest.approx(2 * 32 / 16, rel=1e-3)
    assert frame["hook_kernels_s"][1] > 0
