"""Does HolisticTraceAnalysis read our traces, and count the overlap that we report?"""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import program_path

analysis = pytest.importorskip("hta.trace_analysis", reason="HolisticTraceAnalysis isn't installed")

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
RANKS = "0,1,5"


@pytest.fixture(autouse=True)
def nanoseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep HTA from cutting each kernel to whole microseconds."""
    monkeypatch.setenv("HTA_DISABLE_NS_ROUNDING", "1")


def _run(folder: Path, scenario: str, *options: str) -> dict[str, Any]:
    result = folder / "result.json"
    command = [
        program_path(),
        "run",
        str(SCENARIOS / f"{scenario}.json"),
        "--quiet",
        "--no-explain",
    ]
    if "--trace" not in options:
        command += ["--trace", str(folder / "traces")]
    subprocess.run([*command, "--out", str(result), *options], check=True)
    return json.loads(result.read_text())


@pytest.mark.parametrize(
    ("scenario", "options"),
    [
        ("slow_gpu_64", ("--trace-ranks", RANKS)),
        ("resnet50_v100_4x8", ("--trace-ranks", RANKS, "--trace-steps", "1-4")),
        ("input_bottleneck", ("--trace-ranks", RANKS, "--trace-steps", "2")),
        ("accumulation_8", ("--trace-ranks", "0", "--trace-steps", "1-2", "--iterations", "2")),
    ],
)
def test_overlap_is_htas(tmp_path: Path, scenario: str, options: tuple[str, ...]) -> None:
    """HTA gives percentages with two decimals."""
    result = _run(tmp_path, scenario, *options)
    ours = {entry["rank"]: 100 * entry["share"] for entry in result["communication_overlap"]}
    traces = analysis.TraceAnalysis(trace_dir=str(tmp_path / "traces"))
    table = traces.get_comm_comp_overlap(visualize=False)
    theirs = dict(zip(table["rank"], table["comp_comm_overlap_pctg"], strict=True))
    assert set(theirs) == set(ours)
    assert min(ours.values()) > 0
    for rank, share in ours.items():
        assert theirs[rank] == pytest.approx(share, abs=0.0051)


def test_breakdown_is_htas(tmp_path: Path) -> None:
    """Without jitter every step is alike: HTA's three steps are three of ours."""
    options = ("--trace-ranks", "0", "--trace-steps", "1-4", "--iterations", "4")
    result = _run(tmp_path, "first_node", "--set", "/variability={}", *options)
    traces = analysis.TraceAnalysis(trace_dir=str(tmp_path / "traces"))
    table = traces.get_temporal_breakdown(visualize=False).iloc[0]
    ours = result["breakdown_s"]
    assert table["compute_time(us)"] == pytest.approx(3e6 * ours["compute"], rel=1e-4)
    kinds, kernels = traces.get_gpu_kernel_breakdown(visualize=False)
    assert {"COMPUTATION", "COMMUNICATION"} <= set(kinds["kernel_type"])
    names = kernels[kernels["kernel_type"] == "COMMUNICATION"]["name"]
    assert all(name.startswith("ncclDevKernel_") for name in names)


def test_file_has_what_tools_ask_for(tmp_path: Path) -> None:
    """Each file says whose it is; launches, arrows and kernels meet."""
    _run(tmp_path, "slow_gpu_64", "--trace-ranks", RANKS)
    files = sorted((tmp_path / "traces").iterdir())
    assert [file.name for file in files] == [f"rank_{rank}.json.gz" for rank in RANKS.split(",")]
    trace = json.loads(gzip.decompress(files[-1].read_bytes()))
    assert trace["distributedInfo"] == {"backend": "nccl", "rank": 5, "world_size": 64}
    events = trace["traceEvents"]
    launches = {e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime"}
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert kernels
    assert all(kernel["args"]["correlation"] in launches for kernel in kernels)
    assert {kernel["args"]["device"] for kernel in kernels} == {5}


def test_folder_holds_one_run(tmp_path: Path) -> None:
    """Ranks of an earlier run would be read as this one's."""
    _run(tmp_path, "first_node", "--trace-ranks", "0-2")
    _run(tmp_path, "first_node", "--trace-ranks", "1")
    assert [file.name for file in (tmp_path / "traces").iterdir()] == ["rank_1.json.gz"]
    (tmp_path / "traces" / "mine.json").write_text("{}")
    with pytest.raises(subprocess.CalledProcessError):
        _run(tmp_path, "first_node")
    assert len(list((tmp_path / "traces").iterdir())) == 2


def test_one_file_has_all_ranks(tmp_path: Path) -> None:
    """The first eight ranks and the slow one, a process each; the same text if compressed."""
    texts = []
    for name in ("all.json", "all.json.gz"):
        _run(tmp_path, "slow_gpu_64", "--trace", str(tmp_path / name))
        content = (tmp_path / name).read_bytes()
        texts.append(gzip.decompress(content) if name.endswith(".gz") else content)
    assert texts[0] == texts[1]
    events = json.loads(texts[0])["traceEvents"]
    assert {e["pid"] for e in events if e.get("cat") == "kernel"} == {*range(8), 37}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--trace-ranks", "0,x"),
        ("--trace-ranks", "5-3"),
        ("--trace-ranks", "8"),
        ("--trace-ranks", "1,"),
        ("--trace-steps", "19-21"),
    ],
)
def test_bad_choices_are_named(tmp_path: Path, option: str, value: str) -> None:
    """Ranks and steps that the run hasn't."""
    command = [program_path(), "run", str(SCENARIOS / "first_node.json"), "--quiet", "--no-explain"]
    command += ["--trace", str(tmp_path / "traces"), option, value]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert f"{option}: expected" in ended.stderr
    assert not (tmp_path / "traces").exists()
