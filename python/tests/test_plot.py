"""Pictures: every function on real small data, nothing overlaps, everything has a unit."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import ROOT, TABLE
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

import paceline
from paceline import plot
from paceline.__main__ import main
from paceline.plot import traces

SMALLEST_FONT = 9  # pt
STRAGGLER = "rank 37 (node4/gpu5)"


def touch(one: Text, other: Text) -> bool:
    """Whether two texts do; turned names are side by side, so that their boxes cross anyway."""
    a, b = one.get_window_extent(), other.get_window_extent()
    if 0 < one.get_rotation() < 90 and one.get_rotation() == other.get_rotation():
        apart = abs(a.x1 - b.x1) * math.sin(math.radians(one.get_rotation()))
        return apart < one.get_fontsize() * one.get_figure().dpi / 72
    return bool(a.shrunk(0.98, 0.9).overlaps(b.shrunk(0.98, 0.9)))


def ticks_of(axes: Axes) -> list[Text]:
    sides = [(axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())]
    kept = []
    for axis, limits in sides:
        low, high = sorted(limits)
        for tick in axis.get_major_ticks():
            if tick.label1.get_visible() and low <= tick.get_loc() <= high:
                kept.append(tick.label1)
    return kept


def check(figure: Figure) -> None:
    """No text touches another, or leaves the picture; no legend lies on data; axes have units."""
    figure.draw_without_rendering()
    texts = list(figure.texts)
    if figure._suptitle is not None:
        assert figure._suptitle in texts
    drawn = [axes for axes in figure.axes if axes.get_visible()]
    for axes in drawn:
        texts += [*ticks_of(axes), *axes.texts, axes.xaxis.label, axes.yaxis.label]
        texts += [axes.title, axes._left_title, axes._right_title]
    for legend in figure.legends:
        texts += legend.get_texts()
        box = legend.get_window_extent()
        for axes in drawn:
            assert not box.overlaps(axes.get_window_extent())
    shown = [text for text in texts if text.get_visible() and text.get_text().strip()]
    assert shown
    for one, other in itertools.combinations(shown, 2):
        assert not touch(one, other), (one.get_text(), other.get_text())
    picture = figure.bbox.padded(1.0)
    for text in shown:
        box = text.get_window_extent()
        assert picture.x0 <= box.x0 and box.x1 <= picture.x1, text
        assert picture.y0 <= box.y0 and box.y1 <= picture.y1, text
        assert text.get_fontsize() >= SMALLEST_FONT, text.get_text()


SWEEPS: list[tuple[str, Callable[..., tuple[Figure, Any]]]] = [
    *itertools.product(
        ["seeds", "two points", "twelve points", "many lines", "failing"],
        [plot.scaling, plot.efficiency, plot.scaling_and_efficiency, plot.stragglers],
    ),
    *itertools.product(
        ["seeds", "two points", "twelve points", "quantity", "long names", "failing"],
        [plot.breakdown, plot.step_time_and_breakdown],
    ),
]


@pytest.mark.parametrize(("name", "draw"), SWEEPS, ids=lambda v: getattr(v, "__name__", v))
def test_sweeps(
    name: str, draw: Callable[..., tuple[Figure, Any]], sweeps: dict[str, paceline.Sweep]
) -> None:
    figure, _ = draw(sweeps[name])
    check(figure)
    figure.set_dpi(50)  # half size
    check(figure)


def test_scaling_shows_what_it_should(sweeps: dict[str, paceline.Sweep]) -> None:
    figure, axes = plot.scaling(sweeps["seeds"])
    (line,) = [line for line in axes.lines if line.get_marker() == "o"]
    bands = sweeps["seeds"].bands()
    assert list(line.get_ydata()) == pytest.approx(list(bands["mean"]))
    assert list(line.get_xdata()) == [1, 8, 16, 32]
    (ideal,) = [line for line in axes.lines if line.get_marker() == "None"]
    one = bands["mean"].iloc[0]
    assert list(ideal.get_ydata()) == pytest.approx([one, 32 * one], rel=1e-3)
    assert axes.get_ylabel() == "throughput (samples/s)"
    assert axes.get_xlabel() == "GPUs"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "8", "16", "32"]
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["predicted", "ideal: GPUs times one alone", "measured", "5 % to 95 % of seeds"]


def test_lines_differ_in_print_and_colour(sweeps: dict[str, paceline.Sweep]) -> None:
    _, axes = plot.efficiency(sweeps["many lines"])
    looks = [
        (line.get_color(), line.get_marker()) for line in axes.lines if line.get_marker() != "None"
    ]
    assert len(looks) == len(set(looks)) == 12
    grey = [
        (line.get_marker(), str(line._dash_pattern))
        for line in axes.lines
        if line.get_marker() != "None"
    ]
    assert len(set(grey)) == 12  # without colour


def test_ticks(sweeps: dict[str, paceline.Sweep]) -> None:
    _, axes = plot.scaling(sweeps["twelve points"])
    labels = [label.get_text() for label in axes.get_xticklabels() if label.get_text()]
    assert labels[-1] == "16,384"
    _, both = plot.step_time_and_breakdown(sweeps["quantity"])
    assert [t.get_text() for t in both[1].get_xticklabels()] == [
        "1 MiB",
        "5 MiB",
        "25 MiB",
        "100 MiB",
    ]
    assert both[0].get_ylabel() == "mean step (ms)"


def test_results(result: paceline.Result) -> None:
    for draw in (plot.breakdown, plot.stragglers, plot.timeline, plot.critical_path):
        figure, axes = draw(result)
        check(figure)
        assert "ms" in axes.get_xlabel()
    scenario = {"cluster": {"node": "dgx-a100"}, "model": "resnet18"}
    one_node = paceline.run({**scenario, "training": {"batch_per_gpu": 8}}, iterations=2)
    figure, _ = plot.scaling([result, one_node])
    check(figure)
    with pytest.raises(ValueError, match="explain=True"):
        plot.sensitivities(one_node)


def test_nobody_waits() -> None:
    scenario = {"cluster": {"node": "dgx-a100"}, "model": "resnet18"}
    scenario |= {"training": {"batch_per_gpu": 8}}
    alone = paceline.scenarios.set(scenario, "/cluster/gpus_per_node", 1)
    figure, axes = plot.stragglers(paceline.run(alone, iterations=2))
    check(figure)
    assert axes.get_title(loc="left") == "No GPU made others wait"


def lengths(axes: Axes) -> list[float]:
    return [bar.get_width() for bar in axes.patches]


def test_stragglers_add_up() -> None:
    scenario = paceline.load(ROOT / "scenarios/slow_gpu_64.json")
    scenario["variability"]["per_operation"]["cv"] = 0.1
    del scenario["variability"]["slow_gpus"]
    jittery = paceline.run(scenario)
    wait = jittery.data["breakdown_s"]["straggler_wait"] * 1e3
    for most in (4, 12, 64):
        figure, axes = plot.stragglers(jittery, most=most)
        check(figure)
        assert sum(lengths(axes)) == pytest.approx(wait)
    assert len(jittery.stragglers()) > 12


def test_sensitivities(result: paceline.Result) -> None:
    figure, axes = plot.sensitivities(result)
    check(figure)
    changes = result.sensitivities()
    assert lengths(axes) == pytest.approx(list(100 * changes["time_per_sample_change"]))
    names = [label.get_text().replace("\n", " ") for label in axes.get_yticklabels()]
    assert names == list(changes["change"])
    _, axes = plot.sensitivities(result, most=3)
    strongest = changes["time_per_sample_change"].abs().nlargest(3)
    assert sorted(map(abs, lengths(axes))) == pytest.approx(sorted(100 * strongest))


def test_critical_path(result: paceline.Result) -> None:
    for most in (1, 12):
        figure, axes = plot.critical_path(result, most=most)
        check(figure)
        step = result.data["critical_path"]["step_ps"] * 1e-9
        assert sum(lengths(axes)) == pytest.approx(step)


def row_names(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_timeline_rows(result: paceline.Result) -> None:
    """The straggler is there, whoever else is."""
    _, axes = plot.timeline(result)
    assert row_names(axes) == [f"rank {r} (node0/gpu{r})" for r in range(7)] + [STRAGGLER]
    figure, axes = plot.timeline(result, ranks=1, iteration=2)
    check(figure)
    assert row_names(axes) == [STRAGGLER]
    _, axes = plot.timeline(result, ranks=[37, 2])
    assert row_names(axes) == [STRAGGLER, "rank 2 (node0/gpu2)"]
    assert axes.get_yticklabels()[0].get_fontweight() == "bold"
    with pytest.raises(ValueError, match="expected ranks of the trace, 0, 1.* found 36"):
        plot.timeline(result, ranks=[36])
    with pytest.raises(ValueError, match="expected a step"):
        plot.timeline(result, iteration=99)
    with pytest.raises(ValueError, match="trace=True"):
        plot.timeline(paceline.Result(result.text))


def test_timeline_is_the_results_numbers(result: paceline.Result) -> None:
    """What is drawn of communication is what the result has: of steps 1 to 3, the warm-up left."""
    overlap = result.overlap().set_index("rank")
    drawn = traces.read(result.trace or {})
    first, last = overlap["first_step"].iloc[0], overlap["last_step"].iloc[0]
    for rank in overlap.index:
        spans = [
            (each.start, each.end)
            for each in drawn.slices
            if each.rank == rank and each.kind == traces.COMMUNICATION
            if first <= each.step <= last
        ]
        seconds = 1e-6 * sum(end - start for start, end in spans)
        assert seconds == pytest.approx(overlap["communication_s"][rank], rel=1e-4)
    waited = traces.waited_for(drawn.slices)
    assert max(waited, key=lambda rank: waited[rank]) == 37


def test_timeline_reads_all_forms(result: paceline.Result, tmp_path: Path) -> None:
    written = [tmp_path / name for name in ("trace.json", "trace.json.gz", "traces")]
    plot.save(plot.timeline(result)[0], tmp_path / "a.svg")
    for path in written:
        result.save_trace(path)
        plot.save(plot.timeline(path)[0], tmp_path / "b.svg")
        assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    (tmp_path / "cut.json.gz").write_bytes(written[1].read_bytes()[:1000])
    (tmp_path / "text.json.gz").write_text("{}")
    (tmp_path / "other.json").write_text("{}")
    for wrong in ("cut.json.gz", "text.json.gz", "other.json", "none.json", "."):
        with pytest.raises(paceline.InputError):
            plot.timeline(tmp_path / wrong)


def test_timeline_of_mpi() -> None:
    """There communication is the host's, not a kernel."""
    scenario = paceline.load(ROOT / "scenarios/first_node.json")
    scenario["training"]["collective"] = {"library": "mpi"}
    figure, _ = plot.timeline(paceline.run(scenario, iterations=2, trace=True))
    check(figure)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "communication" in names


def test_calibration(profile: paceline.Profile) -> None:
    figure, (above, _) = plot.calibration(profile)
    check(figure)
    measured = paceline.read_measurements(TABLE)
    (points,) = [line for line in above.lines if line.get_marker() == "o"]
    rate = {
        size: 2 * 7 / 8 * size / time * 1e-9
        for size, time in zip(measured["size_bytes"], measured["time_s"])
    }
    drawn = dict(zip(points.get_xdata(), points.get_ydata()))
    assert len(drawn) > 20
    assert [drawn[size] for size in drawn] == pytest.approx([rate[size] for size in drawn])
    assert "GB/s" in above.get_ylabel()
    figure, _ = plot.calibration(profile, measurements=measured)
    check(figure)
    with pytest.raises(ValueError, match="no measured collective"):
        plot.calibration(profile, kind="broadcast")


def test_command(
    sweeps: dict[str, paceline.Sweep],
    result: paceline.Result,
    profile: paceline.Profile,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "sweep"
    paceline.sweep(sweeps["two points"].study, folder, progress=False)
    result.save(tmp_path / "result.json")
    for name in ("trace.json", "trace.json.gz", "traces"):
        result.save_trace(tmp_path / name)
    profile.save(tmp_path / "profile.json")
    for name, options in [
        ("sweep", []),
        ("sweep", ["--kind", "breakdown"]),
        ("result.json", []),
        ("result.json", ["--kind", "stragglers"]),
        ("result.json", ["--kind", "sensitivities"]),
        ("result.json", ["--kind", "critical-path"]),
        ("trace.json", []),
        ("trace.json.gz", []),
        ("traces", []),
        ("profile.json", []),
    ]:
        pictures = [tmp_path / "a.svg", tmp_path / "b.svg"]
        for picture in pictures:
            assert main(["plot", str(tmp_path / name), "-o", str(picture), *options]) == 0
        assert pictures[0].read_bytes() == pictures[1].read_bytes()
        assert b"<svg" in pictures[0].read_bytes()
    two = [str(tmp_path / "result.json")] * 2
    assert main(["plot", *two, "-o", str(tmp_path / "c.png")]) == 0
    assert main(["plot", str(tmp_path / "result.json"), "-o", "x.svg", "--kind", "timeline"]) == 2
    assert (
        "expected breakdown, stragglers, sensitivities, critical-path of a result"
        in capsys.readouterr().err
    )
    assert main(["plot", str(tmp_path / "none.json"), "-o", "x.svg"]) == 2
    assert main(["plot", str(tmp_path / "result.json"), "-o", str(tmp_path / "x.abc")]) == 2


def test_pictures_are_equal_in_another_process(result: paceline.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "result.json")
    for name in ("a", "b"):
        words = ["-m", "paceline", "plot", tmp_path / "result.json", "-o", tmp_path / f"{name}.svg"]
        subprocess.run([sys.executable, *map(str, words)], check=True)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_plain_frames(sweeps: dict[str, paceline.Sweep]) -> None:
    frame = sweeps["seeds"].frame
    figure, axes = plot.scaling(frame, measured=sweeps["seeds"].measured())
    check(figure)
    assert axes.get_ylabel() == "throughput (samples/s)"
    figure, _ = plot.breakdown(frame)
    check(figure)
    with pytest.raises(ValueError, match="gpus"):
        plot.scaling(frame.drop(columns="gpus"))


def test_names_at_ticks(sweeps: dict[str, paceline.Sweep]) -> None:
    """Broken where that makes room; turned where it doesn't."""
    _, axes = plot.step_time_and_breakdown(sweeps["long names"])
    for each in axes:
        texts = [label.get_text() for label in each.get_xticklabels()]
        assert "inception_\nv3" in texts
        assert "resnet18" in texts
        assert not any(label.get_rotation() for label in each.get_xticklabels())
    frame = sweeps["two points"].frame.drop(columns="gpus")
    frames = [frame.iloc[:1].assign(cluster=f"{i}_cluster_of_a_very_long_name") for i in range(9)]
    figure, drawn = plot.breakdown(pd.concat(frames))
    check(figure)
    (text, *_) = [label.get_text() for label in drawn.get_xticklabels()]
    assert text == "0_cluster_of … long_name"
    assert all(label.get_rotation() == 30 for label in drawn.get_xticklabels())


def test_style_stays_inside(sweeps: dict[str, paceline.Sweep]) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    plot.scaling(sweeps["two points"])
    assert dict(mpl.rcParams) == before
