"""Traces of a run, as ``save_trace`` and ``paceline run --trace`` write them: file or folder."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError

COMPUTE, COMMUNICATION, WAIT, SERVERS = "compute", "communication", "wait", "servers"
_WAITS = {"wait": WAIT, "pull": SERVERS}  # by the annotation's first word
_STREAM = {7: COMPUTE, 20: COMMUNICATION}


class Slice(NamedTuple):
    """What a stream did; in microseconds."""

    rank: int
    step: int
    kind: str
    name: str  # of a collective: which one
    start: float
    end: float


class Trace(NamedTuple):
    """The streams of some ranks."""

    slices: list[Slice]
    names: dict[int, str]  # "rank 37 (node4/gpu5)"


def read(source: Mapping[str, Any] | str | os.PathLike[str]) -> Trace:
    """Read a trace: its dictionary, a .json or .json.gz file, or a folder of rank_N.json.gz.

    Raises
    ------
    InputError
        It is no trace.
    """
    if isinstance(source, Mapping):
        return _of_files([source])
    path = Path(source)
    files = trace_files(path) if path.is_dir() else [path]
    if not files:
        raise InputError("expected rank_N.json.gz in the folder, found none", file=str(path))
    return _of_files([load(file) for file in files])


def trace_files(folder: Path) -> list[Path]:
    """Return the files of a folder that are traces of ranks."""
    return sorted(p for p in folder.iterdir() if re.fullmatch(r"rank_\d+\.json(\.gz)?", p.name))


def load(path: Path) -> dict[str, Any]:
    """Read a JSON file, compressed or not."""
    try:
        content = path.read_bytes()
        text = gzip.decompress(content) if path.suffix == ".gz" else content
        data = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(error.msg, place, str(path)) from error
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"can't be read: {reason}", file=str(path)) from error
    return data


def _of_files(files: Iterable[Mapping[str, Any]]) -> Trace:
    slices: list[Slice] = []
    names: dict[int, str] = {}
    for file in files:
        if not isinstance(file.get("traceEvents"), list):
            raise InputError('expected "traceEvents", found none')
        own = _ranks(file)
        for event in file["traceEvents"]:
            rank = own.get(event["pid"])
            if rank is None:
                continue
            if event["name"] == "process_name":
                names[rank] = event["args"]["name"]
            elif event["ph"] == "X" and (kind := _kind(event)):
                slices.append(_slice(rank, kind, event))
    return Trace(slices, names)


def _ranks(file: Mapping[str, Any]) -> dict[int, int]:
    """Return whose each process is; in the file of one rank they are its host and its device."""
    processes = {event["pid"] for event in file["traceEvents"]}
    labels = {
        event["pid"]: event["args"]["labels"]
        for event in file["traceEvents"]
        if event["name"] == "process_labels"
    }
    if "CPU" in labels.values():
        return dict.fromkeys(processes, file["distributedInfo"]["rank"])
    return {process: process for process in processes}


def _kind(event: Mapping[str, Any]) -> str | None:
    stream = _STREAM.get(event["tid"])
    if stream is None or "iteration" not in event["args"]:
        return None
    if event["cat"] == "gpu_user_annotation":
        return _WAITS.get(event["name"].partition(" ")[0])
    return stream


def _slice(rank: int, kind: str, event: Mapping[str, Any]) -> Slice:
    arguments = event["args"]
    name = arguments.get("label", event["name"])
    return Slice(rank, arguments["iteration"], kind, name, event["ts"], event["ts"] + event["dur"])


def last_starts(slices: Iterable[Slice]) -> dict[Slice, float]:
    """Return, for each collective of a rank, when the last of the traced ranks began it."""
    same: dict[tuple[int, str, int], list[Slice]] = defaultdict(list)
    count: dict[tuple[int, int, str], int] = defaultdict(int)
    for each in sorted(slices, key=lambda s: s.start):
        if each.kind == COMMUNICATION:
            so_far = count[each.rank, each.step, each.name]
            count[each.rank, each.step, each.name] += 1
            same[each.step, each.name, so_far].append(each)
    return {each: max(other.start for other in group) for group in same.values() for each in group}


def waited_for(slices: Iterable[Slice]) -> dict[int, float]:
    """Return for how long (us) the traced ranks waited in collectives for each of them."""
    lasts = last_starts(slices)
    begun_last: dict[tuple[int, str, float], int] = {}
    for each, last in lasts.items():
        key = (each.step, each.name, last)
        if each.start == last:
            begun_last[key] = min(each.rank, begun_last.get(key, each.rank))
    waited: dict[int, float] = defaultdict(float)
    for each, last in lasts.items():
        waited[begun_last[each.step, each.name, last]] += last - each.start
    return dict(waited)
