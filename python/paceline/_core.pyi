"""
Paceline's C++ core: JSON text in, JSON text out. Every function releases the interpreter's lock.
"""

from collections.abc import Callable, Sequence


VERSION: str

MODEL_VERSION: int

def read_file(path: str) -> str:
    """The text of a file of at most 64 MiB."""

class Trace:
    """The timeline of a run."""

    def text(self) -> str:
        """All ranks in one JSON file."""

    def save(self, path: str) -> None:
        """
        Writes what `paceline run --trace PATH` does: a file, or a folder with one for each rank.
        """

class View:
    """What a page shows of a run."""

    def about(self) -> str:
        """
        A JSON object: the step, which ranks are shown, names of what columns number.
        """

    def columns(self) -> dict[str, tuple[str, bytes]]:
        """
        Numbers by name: their type as numpy has it, and their bytes (studies/run_view.h).
        """

def run(scenario: str, file_name: str, options: str) -> tuple[str, Trace | None, str | None, View | None, View | None]:
    """
    result.json, with what `paceline explain` adds if asked for; the trace if asked for; with a profile the step's interval of 90 %; the views of a step and of a campaign if asked for. The options are a JSON object (python/options.h).
    """

def compare(scenario: str, file_name: str, strategies: str, options: str) -> str:
    """
    The JSON of `paceline compare --json`; strategies as its --strategies, options as of `run`.
    """

def compare_scenarios(scenarios: Sequence[str], file_names: Sequence[str], options: str) -> str:
    """
    The JSON of `paceline compare --json` of several scenarios; options as of `run`.
    """

def remark_on_version(scenario: str, file_name: str) -> str:
    """
    What the user of a result must know: that another model version wrote it; or nothing.
    """

def schema() -> str:
    """The JSON Schema of a scenario."""

def presets() -> str:
    """Names of gpus, nodes, models and clusters."""

def preset(name: str) -> str:
    """The JSON of `paceline presets NAME`."""

def topology(cluster: str) -> str:
    """Devices and links of a cluster, as `paceline topology` prints them."""

def collective(options: str) -> str:
    """
    The JSON of `paceline collective --json`; the options are a JSON object (python/options.h).
    """

def import_files(paths: Sequence[str]) -> str:
    """
    All measurements of files and folders: {"collectives", "kernels", "layers", "training", "remarks"}, a list of rows each.
    """

def remark_on_profile(text: str, name: str) -> str:
    """
    What the user of a profile must know: that another model version fitted it; or nothing.
    """

def fit(options: str) -> tuple[str, str]:
    """
    A profile, and the page that `paceline calibrate fit` prints; the options are a JSON object (python/options.h).
    """

def compare_measurements(options: str) -> str:
    """
    The JSON of `paceline calibrate compare --json`; the options are a JSON object (python/options.h).
    """

def diagnose(options: str) -> str:
    """
    The JSON of `paceline calibrate diagnose --json`; the options are a JSON object (python/options.h).
    """

def validate(paths: Sequence[str]) -> tuple[bool, str]:
    """Whether all holds, and the JSON of `paceline validate --json`."""

def set_at(scenario: str, pointer: str, value: str, folder: str) -> str:
    """
    The scenario with another value at a JSON pointer; `folder`: of relative paths in it.
    """

def study_schema() -> str:
    """The JSON Schema of a study."""

def study_points(study: str, file_name: str) -> str:
    """
    A list of {"axes", "scenario"}, and "error" where the scenario can't be made.
    """

def line_was_changed(line: str) -> bool:
    """Whether a line of results.jsonl has a check that isn't its own."""

def sweep(study: str, file_name: str, out: str, jobs: int, progress: Callable[[int, int, int], object] | None = None, shard: str | None = None) -> str:
    """
    Runs all points, or those of a shard; calls progress(done, points, failed) on this thread. What that raises, and KeyboardInterrupt, stop the sweep after the points in flight. {"file", "failed", "faults", "remarks", "summary"}.
    """

class Study:
    """
    A study for several processes: pickled, it carries the files that it named.
    """

    def __init__(self, study: str, file_name: str) -> None: ...

    def __getstate__(self) -> tuple[str, str, str, list[tuple[bytes, bytes, list[str]]]]: ...

    def __setstate__(self, arg: tuple[str, str, str, Sequence[tuple[bytes, bytes, Sequence[str]]]], /) -> None: ...

    def line(self, point: int) -> tuple[str, str]:
        """The line of a point as a sweep writes it, or else what went wrong."""

    def table(self, out: str) -> str:
        """What a sweep into this folder prints at its end."""

class OpenSweep:
    """
    The folder of a sweep whose lines are computed elsewhere (studies/open_sweep.h).
    """

    def __init__(self, study: Study, out: str, jobs: int) -> None: ...

    def left(self) -> list[tuple[int, int]]:
        """(point, its GPUs) of all that are to be computed."""

    def write_line(self, left: int, line: str) -> None:
        """Writes the line of left()[left], and of points with an equal scenario."""

    def fail(self, left: int, what: str) -> None:
        """left()[left] has no line: what went wrong is not the input's fault."""

    def progress(self) -> tuple[int, int, int]:
        """Points done, in all, failed."""

    def end(self) -> str:
        """What sweep() returns, when all lines are on the disk."""
