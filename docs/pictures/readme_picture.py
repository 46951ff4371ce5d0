#!/usr/bin/env python3
"""Draws docs/pictures/readme.png from runs of build/release/paceline.

Needs matplotlib (python3 -m venv build/venv && build/venv/bin/pip install matplotlib). Run from the repository's root.
"""

import csv
import json
import pathlib
import subprocess
import tempfile

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = [
    ("compute", "compute", "#4878a8"),
    ("exposed_communication", "exposed communication", "#d1605e"),
    ("straggler_wait", "waiting for stragglers", "#e7a03c"),
    ("input_wait", "waiting for input", "#7aa874"),
    ("other", "other", "#b0b0b0"),
]
EXAMPLES = [
    ("network_400g", "BERT large, 64 H100,\n400 Gb/s per 4 GPUs"),
    ("network_200g", "the same,\n200 Gb/s per 4 GPUs"),
    ("slow_gpu_64", "GPT-2, 64 A100,\none GPU 15 % slow"),
    ("degraded_nic", "BERT large, 64 A100,\none NIC at a quarter"),
    ("gpus_16384", "Llama 3 8B,\n16,384 H100"),
]


def run(scenario):
    with tempfile.TemporaryDirectory() as folder:
        source, result = pathlib.Path(folder, "scenario.json"), pathlib.Path(folder, "result.json")
        source.write_text(json.dumps(scenario))
        subprocess.run([ROOT / "build/release/paceline", "run", source, "--quiet", "--out", result], check=True)
        return json.loads(result.read_text())


def load(name):
    return json.loads((ROOT / "scenarios" / f"{name}.json").read_text())


def scaling(axes):
    scenario, predicted = load("resnet50_v100_4x8"), []
    for nodes in range(1, 9):
        scenario["cluster"]["nodes"] = nodes
        result = run(scenario)
        predicted.append((result["gpus"], result["throughput_samples_per_s"]))
    with open(ROOT / "tests/validation/dlperf_v100.csv", encoding="utf-8") as rows:
        measured = [(int(r["gpus"]), float(r["images_per_s"])) for r in csv.DictReader(rows)]
    one = dict(measured)[1]
    axes.plot([1, 64], [one, 64 * one], color="#c0c0c0", lw=1, label="64 times one GPU")
    axes.plot(*zip(*predicted), "-o", ms=4, color="#4878a8", label="predicted, nothing fitted but one GPU")
    axes.plot(*zip(*measured), "D", ms=6, color="#d1605e", label="measured (DLPerf, 2020)")
    axes.set_xlabel("GPUs (8 V100 per node, one 100 Gb/s NIC per node)")
    axes.set_ylabel("images/s")
    axes.set_title("ResNet-50, FP32, PyTorch DDP", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8)
    axes.set_xlim(0, 66)
    axes.set_ylim(0, 25000)


def breakdowns(axes):
    results = [run(load(name)) for name, _ in EXAMPLES]
    left = [0.0] * len(results)
    for key, label, colour in PARTS:
        width = [100 * r["breakdown_s"][key] / r["step_time_s"]["mean"] for r in results]
        axes.barh(range(len(results)), width, left=left, color=colour, label=label, height=0.6)
        left = [a + b for a, b in zip(left, width)]
    axes.set_yticks(range(len(results)), [label for _, label in EXAMPLES], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of a step")
    axes.set_title("Where a step goes", loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=7, ncol=3, loc="upper center", bbox_to_anchor=(0.4, -0.15))


def main():
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), gridspec_kw={"width_ratios": [1, 1.15]})
    scaling(left)
    breakdowns(right)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(ROOT / "docs/pictures/readme.png", dpi=130)


if __name__ == "__main__":
    main()
