"""Pictures: every function on real small data, nothing overlaps, everything has a unit."""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT, TABLE, program_path
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import paceline
from paceline import plot
from paceline.__main__ import _fitting, main
from paceline.plot import data, traces
from paceline.sources import SWEEP

SMALLEST_FONT = 9  # pt
STRAGGLER = "rank 37 (node4/gpu5)"


def touch(figure: Figure, one: Text, a: Bbox, other: Text, b: Bbox) -> bool:
    """Whether two texts do; turned names are side by side, so that their boxes cross anyway."""
    if 0 < one.get_rotation() < 90 and one.get_rotation() == other.get_rotation():
        apart = abs(a.x1 - b.x1) * math.sin(math.radians(one.get_rotation()))
        return apart < float(one.get_fontsize()) * figure.dpi / 72
    return bool(a.shrunk(0.98, 0.9).overlaps(b.shrunk(0.98, 0.9)))


def ticks_of(axes: Axes) -> list[Text]:
    sides = [(axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())]
    kept = []
    for axis, limits in sides:
        low, high = sorted(limits)
        kept += [
            tick.label1
            for tick in axis.get_major_ticks()
            if tick.label1.get_visible() and low <= tick.get_loc() <= high
        ]
    return kept


def check(figure: Figure) -> None:
    """No text touches another, or leaves the picture; no legend lies on data; axes have units."""
    figure.draw_without_rendering()
    texts = list(figure.texts)
    above = vars(figure)["_suptitle"]
    assert above is None or above in texts
    drawn = [axes for axes in figure.axes if axes.get_visible()]
    for axes in drawn:
        texts += [*ticks_of(axes), *axes.texts, axes.xaxis.label, axes.yaxis.label]
        texts += [axes.title, *(vars(axes)[f"_{side}_title"] for side in ("left", "right"))]
    for legend in figure.legends:
        texts += legend.get_texts()
        box = legend.get_window_extent()
        for axes in drawn:
            assert not box.overlaps(axes.get_window_extent())
    shown = [text for text in texts if text.get_visible() and text.get_text().strip()]
    assert shown
    placed = [(text, text.get_window_extent()) for text in shown]
    for one, other in itertools.combinations(placed, 2):
        assert not touch(figure, *one, *other), (one[0].get_text(), other[0].get_text())
    picture = figure.bbox.padded(1.0)
    for text, box in placed:
        assert picture.x0 <= box.x0 and box.x1 <= picture.x1, text
        assert picture.y0 <= box.y0 and box.y1 <= picture.y1, text
        assert float(text.get_fontsize()) >= SMALLEST_FONT, text.get_text()


SWEEPS = [
    *itertools.product(
        [
            *("seeds", "two points", "twelve points", "many lines", "failing", "nodes"),
            *("nine lines", "shapes", "long values", "quantity", "long names", "servers"),
        ],
        [plot.scaling, plot.efficiency, plot.stragglers],
    ),
    *itertools.product(
        [
            *("seeds", "two points", "twelve points", "quantity", "long names", "failing"),
            *("nodes", "shapes", "rates", "long values", "servers"),
        ],
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


def lines_of(axes: Axes) -> list[Any]:
    """Lines of data: they have markers."""
    return [line for line in axes.lines if line.get_marker() != "None"]


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def tick_texts(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def test_an_ending_that_is_no_pictures_is_told_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(
        paceline.InputError, match=r"expected a picture, .*\.pdf.*\.svg.*, found \.xyz"
    ):
        plot.save(Figure(), tmp_path / "a.xyz")
    assert not (tmp_path / "a.xyz").exists()
    plot.save(Figure(), tmp_path / "a.xyz", format="svg")
    assert "<svg" in (tmp_path / "a.xyz").read_text()


def test_scaling_shows_what_it_should(sweeps: dict[str, paceline.Sweep]) -> None:
    figure, (axes, below) = plot.scaling(sweeps["seeds"])
    (line,) = lines_of(axes)
    bands = sweeps["seeds"].bands()
    assert list(line.get_ydata()) == pytest.approx(list(bands["mean"]))
    assert list(line.get_xdata()) == [1, 8, 16, 32]
    (ideal,) = [line for line in axes.lines if line.get_marker() == "None"]
    one = bands["mean"].iloc[0]
    assert list(ideal.get_ydata()) == pytest.approx([one, 32 * one], rel=1e-3)
    assert axes.get_ylabel() == "throughput (samples/s)"
    assert below.get_xlabel() == "GPUs"
    assert tick_texts(below) == ["1", "8", "16", "32"]
    names = ["predicted", "ideal: GPUs times one alone", "measured", "5 % to 95 % of seeds"]
    assert legend_of(figure) == names


def test_scaling_shows_a_few_percent(sweeps: dict[str, paceline.Sweep]) -> None:
    """A measured point 7 % below the prediction is so on the linear axis, of the same ideal."""
    for name, at in [("two points", {"gpus": 16}), ("nodes", {"nodes": 2})]:
        frame = sweeps[name].frame
        predicted = frame[frame["gpus"] == 16].iloc[0]
        rate = 0.93 * predicted["throughput_samples_per_s"]
        measured = pd.DataFrame([at | {"throughput_samples_per_s": rate}])
        figure, (above, below) = plot.scaling(sweeps[name], measured=measured)
        check(figure)
        assert (above.get_yscale(), below.get_yscale()) == ("log", "linear")
        ((gpus, share),) = below.collections[-1].get_offsets()
        assert gpus == 16
        assert share == pytest.approx(93 * predicted["scaling_efficiency"])
        assert below.get_ylim()[0] < share


def test_an_axis_that_decides_the_gpus_is_recognised(sweeps: dict[str, paceline.Sweep]) -> None:
    """Nodes are the obvious key; one connected line along the number of GPUs."""
    figure, (above, below) = plot.scaling(sweeps["nodes"])
    (line,) = lines_of(above)
    assert list(line.get_xdata()) == [8, 16, 32, 64]
    assert line.get_linestyle() != "None"
    assert legend_of(figure) == ["predicted", "ideal: GPUs times one alone", "measured"]
    assert below.get_xlabel() == "GPUs"
    figure, (above, _) = plot.scaling(sweeps["nine lines"])
    assert [list(line.get_xdata()) for line in lines_of(above)] == [[8, 16, 32]] * 9
    assert legend_of(figure)[:9] == [f"batch per gpu {8 * i}" for i in range(1, 10)]
    figure, axes = plot.efficiency(sweeps["shapes"])
    assert legend_of(figure) == ["gpus per node 4", "gpus per node 8"]
    assert list(lines_of(axes)[0].get_xdata()) == [4, 8, 16]
    for draw in (plot.stragglers, plot.breakdown):  # and of the frame alone
        assert draw(sweeps["nodes"].frame)[1].get_xlabel() == "GPUs"
    assert plot.stragglers(sweeps["nodes"], x="nodes")[1].get_xlabel() == "nodes"
    assert [_fitting(sweeps[name], SWEEP) for name in ("nodes", "rates")] == ["scaling", "step"]


def test_other_numbers_are_an_axis_too(sweeps: dict[str, paceline.Sweep]) -> None:
    figure, (above, below) = plot.scaling(sweeps["rates"])
    check(figure)
    assert len(lines_of(above)) == 6
    assert all(len(line.get_xdata()) == 5 for line in lines_of(above))
    assert below.get_xlabel() == "NIC (Gb/s)"
    assert not any("ideal" in name for name in legend_of(figure))


def test_zipped_axes_are_one(sweeps: dict[str, paceline.Sweep]) -> None:
    """An axis that x decides is no line of its own."""
    frame = sweeps["quantity"].frame.copy()  # the sweep is all tests'
    frame.insert(1, "first_bucket", frame["bucket_cap"])
    _, axes = plot.efficiency(frame, x="bucket_cap")
    (line,) = lines_of(axes)
    assert len(line.get_xdata()) == 4


def test_lines_differ_in_print_and_colour(sweeps: dict[str, paceline.Sweep]) -> None:
    _, axes = plot.efficiency(sweeps["many lines"])
    looks = [
        (line.get_color(), line.get_marker()) for line in axes.lines if line.get_marker() != "None"
    ]
    assert len(looks) == len(set(looks)) == 12
    grey = [
        (line.get_marker(), str(vars(line)["_dash_pattern"]))
        for line in axes.lines
        if line.get_marker() != "None"
    ]
    assert len(set(grey)) == 12  # without colour


def test_ticks(sweeps: dict[str, paceline.Sweep]) -> None:
    _, (_, axes) = plot.scaling(sweeps["twelve points"])
    assert [text for text in tick_texts(axes) if text][-1] == "16,384"
    _, both = plot.step_time_and_breakdown(sweeps["quantity"])
    for each in both:
        assert tick_texts(each) == ["1", "5", "25", "100"]
        assert each.get_xlabel() == "bucket cap (MiB)"
    assert both[0].get_ylabel() == "mean step (ms)"


def test_no_tick_vanishes_where_there_is_room(sweeps: dict[str, paceline.Sweep]) -> None:
    for draw in (plot.breakdown, plot.step_time_and_breakdown):
        _, axes = draw(sweeps["rates"])
        for each in axes.flat:
            if each.get_visible():
                assert tick_texts(each) == ["50", "100", "200", "400", "800"]
                assert each.get_xlabel() == "NIC (Gb/s)"


def test_different_names_look_different(sweeps: dict[str, paceline.Sweep]) -> None:
    figure, _ = plot.efficiency(sweeps["long values"])
    names = legend_of(figure)
    assert len(set(names)) == 3
    assert all(str(n) in name for n, name in zip((4, 8, 16), names, strict=True))
    frame = sweeps["two points"].frame.drop(columns="gpus").iloc[:1]
    long = "the_same_beginning_of_a_long_name_{}_and_the_same_end_of_it"
    clusters = [long.format(i) for i in range(9)]
    figure, axes = plot.breakdown(pd.concat([frame.assign(cluster=name) for name in clusters]))
    check(figure)
    assert len(set(tick_texts(axes))) == 9


def test_results(result: paceline.Result) -> None:
    for draw in (plot.breakdown, plot.stragglers, plot.timeline, plot.critical_path):
        figure, axes = draw(result)
        check(figure)
        assert "ms" in axes.get_xlabel()
    scenario = {"cluster": {"node": "dgx-a100"}, "model": "resnet18"}
    one_node = paceline.run({**scenario, "training": {"batch_per_gpu": 8}}, iterations=2)
    for draw in (plot.sensitivities, plot.critical_path):
        with pytest.raises(ValueError, match=r"explain=True\), or .* without --no-explain$"):
            draw(one_node)


def altered(result: paceline.Result, **values: Any) -> paceline.Result:
    return paceline.Result(json.dumps(result.data | values))


def test_lists_of_results(result: paceline.Result) -> None:
    """Along their GPUs; where these are the same, or of several models, by name or not at all."""
    more = altered(result, gpus=128, throughput_samples_per_s=2 * result.throughput_samples_per_s)
    figure, (_, below) = plot.scaling([result, more])
    check(figure)
    assert below.get_xlabel() == "GPUs" and tick_texts(below) == ["64", "128"]
    same = altered(result, throughput_samples_per_s=0.5 * result.throughput_samples_per_s)
    figure, (axes, below) = plot.scaling([result, same, more])
    check(figure)
    assert tick_texts(below) == ["1", "2", "3"]
    rates = [each.throughput_samples_per_s for each in (result, same, more)]
    assert list(lines_of(axes)[0].get_ydata()) == rates
    assert not figure.legends
    figure, axes = plot.breakdown([result, same])
    check(figure)
    assert tick_texts(axes) == ["1", "2"]
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(2e3 * result.step_time_s)
    model = {"name": "another", "layers": []}
    other = altered(more, scenario=result.data["scenario"] | {"model": model})
    with pytest.raises(ValueError, match="one model, found gpt2_small and another: a dictionary"):
        plot.scaling([result, other])
    _, axes = plot.breakdown({"a": result, "b": other})
    assert tick_texts(axes) == ["a", "b"]


def test_how_many_is_at_least_one(result: paceline.Result) -> None:
    pictures: list[Callable[..., Any]] = [plot.stragglers, plot.sensitivities, plot.critical_path]
    for draw in pictures:
        draw(result, most=np.int64(1))
        for wrong in (0, -1, 2.5, True, "3"):
            expected = f"^most: expected a whole number from 1 on, found {wrong}$"
            with pytest.raises(paceline.InputError, match=expected):
                draw(result, most=wrong)


def test_nobody_waits() -> None:
    scenario = {"cluster": {"node": "dgx-a100"}, "model": "resnet18"}
    scenario |= {"training": {"batch_per_gpu": 8}}
    alone = paceline.scenarios.edit(scenario, "/cluster/gpus_per_node", 1)
    figure, axes = plot.stragglers(paceline.run(alone, iterations=2))
    check(figure)
    assert axes.get_title(loc="left") == "No GPU made others wait"


def lengths(axes: Axes) -> list[float]:
    return [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]


def test_with_servers_nobody_waits_for_another_gpu() -> None:
    scenario = paceline.scenarios.load(ROOT / "scenarios/stragglers_64.json")
    scenario = paceline.scenarios.edit(scenario, "/cluster/nodes", 1)
    scenario = paceline.scenarios.edit(scenario, "/variability/slow_gpus", [])
    served = paceline.run(scenario, iterations=2, trace=True)
    figure, axes = plot.timeline(served)
    check(figure)
    assert legend_of(figure) == ["compute", "waiting for servers"]
    assert axes.get_xlim()[1] >= served.step_time_s * 1e3
    figure, axes = plot.stragglers(served)
    check(figure)
    title = axes.get_title(loc="left")
    assert title.startswith("GPUs wait for servers alone, ") and "0 ms of" not in title
    figure, _ = plot.breakdown({"servers": served})
    check(figure)
    assert "waiting for servers" in legend_of(figure)


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
    changes = changes[changes["time_per_sample_change"].abs() >= 1e-3]
    assert lengths(axes) == pytest.approx(list(100 * changes["time_per_sample_change"]))
    names = [label.get_text().replace("\n", " ") for label in axes.get_yticklabels()]
    assert names == list(changes["change"])
    assert axes.get_title(loc="left").startswith("What would change a step of ")
    _, axes = plot.sensitivities(result, most=3)
    strongest = changes["time_per_sample_change"].abs().nlargest(3)
    assert sorted(map(abs, lengths(axes))) == pytest.approx(sorted(100 * strongest))


def test_sensitivities_without_an_effect_are_counted(result: paceline.Result) -> None:
    """Empty bars say nothing; software differs from hardware in print, too."""
    changes = [("software", -0.1), ("hardware", -0.2), ("hardware", 0.0), ("software", 1e-5)]
    data = result.data | {
        "sensitivities": [
            {"change": f"{kind} {i}", "kind": kind, "edits": [], "step_time_s": 1.0}
            | {"time_per_sample_change": change}
            for i, (kind, change) in enumerate(changes)
        ]
    }
    figure, axes = plot.sensitivities(paceline.Result(json.dumps(data)))
    check(figure)
    assert lengths(axes) == pytest.approx([-10, -20])
    assert legend_of(figure) == ["software", "hardware"]
    assert [bar.get_hatch() for bar in axes.patches] == ["", "//"]
    assert axes.get_xlabel().endswith("\n2 other changes: by less than 0.1 %")
    data["sensitivities"] = data["sensitivities"][2:]
    figure, axes = plot.sensitivities(paceline.Result(json.dumps(data)))
    check(figure)
    assert "Nothing that was tried changes the step" in axes.get_title(loc="left")


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
    with pytest.raises(ValueError, match=r"expected ranks of the trace, 0, 1.* found 36"):
        plot.timeline(result, ranks=[36])
    assert len(row_names(plot.timeline(result, ranks=np.int64(3))[1])) == 3
    assert row_names(plot.timeline(result, ranks=np.array([37]))[1]) == [STRAGGLER]
    for wrong in (0, -3, np.int64(0)):
        with pytest.raises(paceline.InputError, match=f"^ranks: .* from 1 on, found {wrong}$"):
            plot.timeline(result, ranks=wrong)
    with pytest.raises(paceline.InputError, match=r"^ranks: expected ranks .*, found none$"):
        plot.timeline(result, ranks=[])
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
    figure, (above, below) = plot.calibration(profile)
    check(figure)
    measured = paceline.read_measurements(TABLE)
    (points,) = lines_of(above)
    (off,) = lines_of(below)
    (model,) = [line for line in above.lines if len(line.get_xdata()) == len(off.get_xdata())][1:]
    ratio = points.get_ydata() / model.get_ydata() - 1  # both pictures are of bandwidth
    assert list(off.get_ydata()) != pytest.approx(list(100 * ratio))
    assert list(off.get_ydata()) == pytest.approx(list(100 * (1 / (1 + ratio) - 1)))
    assert "the fitted model alone" in legend_of(figure)
    rate = {
        size: 2 * 7 / 8 * size / time * 1e-9
        for size, time in zip(measured["size_bytes"], measured["time_s"], strict=True)
    }
    drawn = dict(zip(points.get_xdata(), points.get_ydata(), strict=True))
    assert len(drawn) > 20
    assert [drawn[size] for size in drawn] == pytest.approx([rate[size] for size in drawn])
    assert "GB/s" in above.get_ylabel()
    figure, _ = plot.calibration(profile, measurements=measured)
    check(figure)
    assert "the fitted model alone" not in legend_of(figure)
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
    for names, options in [
        (["sweep"] * 2, []),
        (["sweep"] * 2, ["--kind", "breakdown"]),
        (["result.json"] * 2, []),
        (["result.json"] * 2, ["--kind", "stragglers"]),
        (["result.json"] * 2, ["--kind", "sensitivities"]),
        (["result.json"] * 2, ["--kind", "critical-path"]),
        (["trace.json", "trace.json.gz", "traces"], []),
        (["profile.json"] * 2, []),
    ]:
        drawn = set()
        for name in names:
            picture = tmp_path / "a.svg"
            assert main(["plot", str(tmp_path / name), "-o", str(picture), *options]) == 0
            drawn.add(picture.read_bytes())
            picture.unlink()
        (same,) = drawn
        assert b"<svg" in same
    two = [str(tmp_path / "result.json")] * 2
    assert main(["plot", *two, "-o", str(tmp_path / "c.png")]) == 0
    assert main(["plot", str(tmp_path / "result.json"), "-o", "x.svg", "--kind", "timeline"]) == 2
    assert (
        "expected breakdown, stragglers, sensitivities, critical-path, losses of a result"
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
    figure, (axes, _) = plot.scaling(frame, measured=sweeps["seeds"].measured())
    check(figure)
    assert axes.get_ylabel() == "throughput (samples/s)"
    figure, _ = plot.breakdown(frame)
    check(figure)
    figure, (alone,) = plot.scaling(frame.drop(columns="scaling_efficiency"))
    check(figure)
    assert alone.get_xlabel() == "GPUs"
    with pytest.raises(ValueError, match="throughput_samples_per_s"):
        plot.scaling(frame.drop(columns="throughput_samples_per_s"))


def test_a_wrong_axis_is_told_the_axes(sweeps: dict[str, paceline.Sweep]) -> None:
    draws: list[Callable[..., Any]] = [plot.scaling, plot.efficiency, plot.stragglers]
    for draw in [*draws, plot.breakdown, plot.step_time_and_breakdown]:
        for wrong, hint in [
            ("gpu", r"; did you mean gpus\?$"),
            ("/variability/per_operation/cv", r"; did you mean cv\?$"),
            ("bogus", "$"),
        ]:
            expected = f"^x: expected an axis, gpus, cv, found '{wrong}'{hint}"
            with pytest.raises(paceline.InputError, match=expected):
                draw(sweeps["failing"], x=wrong)


def test_frames_with_failed_points(sweeps: dict[str, paceline.Sweep], tmp_path: Path) -> None:
    failing = sweeps["failing"]
    assert failing.frame["error"].notna().any()
    draws: list[Callable[..., Any]] = [plot.scaling, plot.breakdown, plot.step_time_and_breakdown]
    for draw in draws:
        for i, source in enumerate((failing, failing.frame)):
            plot.save(draw(source)[0], tmp_path / f"{i}.svg")
        assert (tmp_path / "0.svg").read_bytes() == (tmp_path / "1.svg").read_bytes()
    none = failing.frame[failing.frame["error"].notna()]
    with pytest.raises(ValueError, match=r"no points to draw: .*cv"):
        plot.scaling(none)


def test_added_columns(sweeps: dict[str, paceline.Sweep]) -> None:
    """Numbers are no axis, names are; points that nothing tells apart are refused."""
    frame = sweeps["shapes"].frame
    rate = frame["throughput_samples_per_s"]
    figure, (axes, _) = plot.scaling(frame.assign(speedup=rate / rate.iloc[0], project="mine"))
    assert [len(line.get_xdata()) for line in lines_of(axes)] == [3, 3]
    assert legend_of(figure)[:2] == ["gpus per node 4", "gpus per node 8"]
    frame = sweeps["two points"].frame
    both = pd.concat([frame.assign(network=name) for name in ("old", "new")])
    assert legend_of(plot.scaling(both)[0])[:2] == ["network old", "network new"]
    for source in (pd.concat([frame, frame]), both[["gpus", "throughput_samples_per_s"]]):
        with pytest.raises(ValueError, match=r"one point with gpus 8, found 2: .* column of names"):
            plot.scaling(source)
    _, (above, _) = plot.scaling(frame.set_index("gpus"))
    assert list(lines_of(above)[0].get_xdata()) == [8, 16]
    with pytest.raises(ValueError, match="column that is an axis"):
        plot.scaling(frame[["throughput_samples_per_s"]])


def test_measured_columns(sweeps: dict[str, paceline.Sweep]) -> None:
    """Throughput as files of measurements call it; what has none is refused."""
    measured = pd.DataFrame({"gpus": [8], "throughput": [11000.0]})
    figure, _ = plot.scaling(sweeps["two points"], measured=measured)
    assert "measured" in legend_of(figure)
    wrong: Any
    for wrong, error, message in [
        (measured[["gpus"]], ValueError, "a column throughput_samples_per_s, found gpus"),
        ([(8, 11000.0)], TypeError, "measured points as a DataFrame, found a list"),
    ]:
        with pytest.raises(error, match=message):
            plot.scaling(sweeps["two points"], measured=wrong)


def test_what_a_run_says_is_no_axis(sweeps: dict[str, paceline.Sweep]) -> None:
    for sweep in sweeps.values():
        axes = {axis.name for axis in sweep.axes} | {"gpus"}
        assert set(data.table(sweep.frame, None).axes) <= axes


def test_consistency_is_an_axis(sweeps: dict[str, paceline.Sweep]) -> None:
    """So is ``memory_bandwidth``, though results have ``memory_total_bytes``."""
    for source in (sweeps["servers"], sweeps["servers"].frame):
        points = data.table(source, None)
        assert points.varying == ["consistency", "memory_bandwidth"]
        figure, axes = plot.efficiency(source, x="consistency")
        assert tick_texts(axes) == ["sync", "async", "stale 1"]
        assert legend_of(figure)[0] == "memory bandwidth 38.4 GB/s"


def test_results_with_names(result: paceline.Result) -> None:
    figure, axes = plot.breakdown({"as it is": result, "the same": result}, share=True)
    check(figure)
    assert tick_texts(axes) == ["as it is", "the same"]
    assert axes.get_ylabel() == "part of the mean step (%)"
    heights = [bar.get_height() for bar in axes.patches]
    assert sum(heights) == pytest.approx(200)


def test_a_wrong_kind_is_named(
    result: paceline.Result, profile: paceline.Profile, sweeps: dict[str, paceline.Sweep]
) -> None:
    draw: Any
    for draw, source, found in [
        (plot.scaling, result, "expected a sweep, .* found a Result: breakdown, "),
        (plot.efficiency, profile, "found a Profile: calibration"),
        (plot.breakdown, "strong", "found a str: paceline.studies.load"),
        (plot.step_time_and_breakdown, [], "found a list"),
        (plot.stragglers, None, "found a NoneType"),
        (plot.timeline, sweeps["nodes"], "found a Sweep: scaling"),
        (plot.sensitivities, sweeps["nodes"].frame, "expected a result, found a DataFrame"),
        (plot.critical_path, "result.json", "expected a result, found a str"),
        (plot.losses, [result, result], "expected a result, found a list"),
        (plot.calibration, result, "expected a profile, found a Result"),
    ]:
        with pytest.raises(TypeError, match=found):
            draw(source)


def test_every_picture_is_the_gallerys() -> None:
    """None is drawn by a script apart, and none is left over."""
    page = (ROOT / "docs/gallery.md").read_text()
    drawn = set(re.findall(r"\]\((pictures/[^)]+)\)", page))
    files = (ROOT / "docs/pictures").rglob("*.*")
    there = {str(file.relative_to(ROOT / "docs")) for file in files if file.suffix != ".py"}
    assert there == drawn
    for text in (ROOT / "README.md", ROOT / "docs/guide.md"):
        shown = re.findall(r"(pictures/[^)]+)\)", text.read_text())
        assert set(shown) <= drawn


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


def test_command_takes_nothing_from_the_current_folder(
    result: paceline.Result, tmp_path: Path
) -> None:
    """A json.py that lies there is not run."""
    result.save(tmp_path / "result.json")
    (tmp_path / "json.py").write_text("raise SystemExit('taken')")
    line = [program_path(), "plot", "result.json", "-o", "a.svg"]
    subprocess.run(line, cwd=tmp_path, check=True)
    assert (tmp_path / "a.svg").exists()
