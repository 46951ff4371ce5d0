"""Pictures: every function on real small data, nothing overlaps, everything has a unit."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import TABLE
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

import paceline
from paceline import plot
from paceline.__main__ import main

SMALLEST_FONT = 9  # pt


def boxes(figure: Figure, texts: list[Text]) -> list[tuple[str, Bbox]]:
    shown = [text for text in texts if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent()) for text in shown]


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
    found = boxes(figure, texts)
    assert found
    for (one, a), (other, b) in itertools.combinations(found, 2):
        rotated = a.height > 40 and b.height > 40  # turned names: their boxes cross, they don't
        assert rotated or not a.shrunk(0.98, 0.9).overlaps(b.shrunk(0.98, 0.9)), (one, other)
    picture = figure.bbox.padded(1.0)
    for text, box in found:
        assert picture.x0 <= box.x0 and box.x1 <= picture.x1, text
        assert picture.y0 <= box.y0 and box.y1 <= picture.y1, text
    for text in texts:
        if text.get_visible() and text.get_text():
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
    for draw in (plot.breakdown, plot.stragglers, plot.timeline):
        figure, axes = draw(result)
        check(figure)
        assert "ms" in axes.get_xlabel()
    scenario = {"cluster": {"node": "dgx-a100"}, "model": "resnet18"}
    one_node = paceline.run({**scenario, "training": {"batch_per_gpu": 8}}, iterations=2)
    figure, _ = plot.scaling([result, one_node])
    check(figure)


def test_timeline_rows(result: paceline.Result) -> None:
    _, axes = plot.timeline(result, ranks=3, iteration=2)
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        f"rank {rank} (node0/gpu{rank})" for rank in range(3)
    ]
    with pytest.raises(ValueError, match="expected a step"):
        plot.timeline(result, iteration=99)
    with pytest.raises(ValueError, match="trace=True"):
        plot.timeline(paceline.Result(result.text))


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
    result.save_trace(tmp_path / "trace.json")
    profile.save(tmp_path / "profile.json")
    for name, options in [
        ("sweep", []),
        ("sweep", ["--kind", "breakdown"]),
        ("result.json", []),
        ("result.json", ["--kind", "stragglers"]),
        ("trace.json", []),
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
    assert "expected breakdown, stragglers of a result" in capsys.readouterr().err
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


def test_style_stays_inside(sweeps: dict[str, paceline.Sweep]) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    plot.scaling(sweeps["two points"])
    assert dict(mpl.rcParams) == before
