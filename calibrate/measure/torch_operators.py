#!/usr/bin/env python3
"""Time the operators of training steps of PyTorch on one GPU.

    torch_operators.py FOLDER resnet50::channels_last:fp16:64 bert_base:128::bf16:32 ...

A step is MODEL:TOKENS:MEMORY_FORMAT:PRECISION:BATCH: a model of torchvision (no tokens; SGD with
momentum, cross entropy) or of transformers (AdamW, its own loss), synthetic data, fp16 and bf16 by
autocast; with :ddp behind it DistributedDataParallel of one process is around the model. Writes
FOLDER/steps.csv, a line for each step, and FOLDER/operators.csv, what each operator's kernels take
in it: those of more than 1 %, and the rest. Times are of the GPU alone (kernels_ms, us) but for
step_ms, which has the host's share.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

LEAST_SHARE = 0.01  # of a step's kernels, below which an operator is one of the rest
KEY = ["model", "tokens", "memory_format", "precision", "batch", "ddp"]
STEPS = [*KEY, "step_ms", "kernels_ms", "kernels", "peak_gib", "gpu", "torch"]
OPERATORS = [*KEY, "operator", "shapes", "calls", "us"]
MEMORY_FORMATS = ["", "channels_last", "channels_first"]
PRECISIONS = ["fp32", "tf32", "fp16", "bf16"]
PROFILED = 3  # steps
OF_PROFILER = {
    "Activity Buffer Request",
    "Buffer Flush",
    "Command Buffer Full",
    "Instrumentation",
    "Resource",
}  # its own delays, which it lists as operators


def transformer(name: str, tokens: int) -> torch.nn.Module:
    """The model of transformers with the sizes of Paceline's preset."""
    import transformers as tf

    if name.startswith("bert"):
        large = {
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
        }
        return tf.BertForPreTraining(tf.BertConfig(**(large if name == "bert_large" else {})))
    if name == "gpt2_small":
        return tf.GPT2LMHeadModel(tf.GPT2Config())
    if name == "llama3_2_1b":
        return tf.LlamaForCausalLM(
            tf.LlamaConfig(
                vocab_size=128256,
                hidden_size=2048,
                intermediate_size=8192,
                num_hidden_layers=16,
                num_attention_heads=32,
                num_key_value_heads=8,
                tie_word_embeddings=True,
                max_position_embeddings=tokens,
            )
        )
    raise ValueError("not a model of transformers that is known here")


def step_of(
    name: str, tokens: int, memory_format: str, precision: str, batch: int, ddp: str
) -> Callable[[], object]:
    """A function that runs one step, forward to optimizer."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
    device = torch.device("cuda")
    half = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
    scaler = torch.amp.GradScaler("cuda", enabled=precision == "fp16")
    data: dict[str, Any]
    with device:
        if tokens:
            model = transformer(name, tokens).train()
            words = torch.randint(0, 30000, (batch, tokens))
            data = {"input_ids": words, "labels": words}
            if name.startswith("bert"):
                data["next_sentence_label"] = torch.zeros(batch, dtype=torch.long)
        else:
            import torchvision

            options = {"aux_logits": False, "init_weights": False} if "incep" in name else {}
            model = getattr(torchvision.models, name)(**options).train()
            edge = 299 if "incep" in name else 224
            images = torch.randn(batch, 3, edge, edge)
            labels = torch.randint(0, 1000, (batch,))
            if memory_format == "channels_last":
                model = model.to(memory_format=torch.channels_last)
                images = images.to(memory_format=torch.channels_last)
    if ddp:
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group(
                "nccl", store=torch.distributed.HashStore(), rank=0, world_size=1
            )
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    optimizer = (
        torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
        if tokens
        else torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    )

    def step() -> None:
        with torch.autocast("cuda", dtype=half, enabled=half is not None):
            loss = (
                model(**data).loss
                if tokens
                else torch.nn.functional.cross_entropy(model(images), labels)
            )
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    return step


def timed(step: Callable[[], object]) -> float:
    """Median ms of a step, by the clock of the host."""
    torch.cuda.synchronize()
    times = []
    for _ in range(10):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def operators_of(step: Callable[[], object]) -> tuple[list[tuple[str, str, float, float]], float]:
    """Name, shapes, calls and us of each operator of a step that has kernels, and their number."""
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True
    ) as profiled:
        for _ in range(PROFILED):
            step()
        torch.cuda.synchronize()
    found, kernels = [], 0.0
    for event in profiled.key_averages(group_by_input_shape=True):
        if event.self_device_time_total <= 0 or event.key in OF_PROFILER:
            continue
        if event.device_type == torch.autograd.DeviceType.CPU:
            shapes = str([s for s in event.input_shapes if s]).replace(" ", "")
            found.append(
                (event.key, shapes, event.count / PROFILED, event.self_device_time_total / PROFILED)
            )
        else:
            kernels += event.count / PROFILED
    return sorted(found, key=lambda operator: -operator[3]), kernels


def measure(what: str, steps: Any, operators: Any) -> None:
    """Time one step and write its lines."""
    key = (what + ":" * (len(KEY) - 1 - what.count(":"))).split(":")
    name, tokens, memory_format, precision, batch, ddp = key
    for said, known in (
        (memory_format, MEMORY_FORMATS),
        (precision, PRECISIONS),
        (ddp, ["", "ddp"]),
    ):
        if said not in known:
            raise ValueError(f"expected one of {known}, found {said!r}")
    begin = time.monotonic()
    torch.cuda.reset_peak_memory_stats()
    step = step_of(name, int(tokens or 0), memory_format, precision, int(batch), ddp)
    for _ in range(3):
        step()
    step_ms = timed(step)
    found, kernels = operators_of(step)
    total = sum(us for _, _, _, us in found)
    peak = torch.cuda.max_memory_allocated() / 2**30
    steps.writerow(
        [
            *key,
            f"{step_ms:.2f}",
            f"{total / 1e3:.2f}",
            f"{kernels:.0f}",
            f"{peak:.2f}",
            torch.cuda.get_device_name(),
            torch.__version__,
        ]
    )
    rest = 0.0
    for operator, shapes, calls, us in found:
        if us >= LEAST_SHARE * total:
            operators.writerow([*key, operator, shapes, f"{calls:g}", f"{us:.1f}"])
        else:
            rest += us
    operators.writerow([*key, "the rest", "", "", f"{rest:.1f}"])
    print(
        f"{what} step {step_ms:.2f} ms, kernels {total / 1e3:.2f} ms"
        f" (took {time.monotonic() - begin:.1f} s)",
        flush=True,
    )


def main() -> None:
    """Measure the steps that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("step", nargs="+")
    asked = parser.parse_args()
    folder: Path = asked.folder
    folder.mkdir(parents=True, exist_ok=True)
    with (
        (folder / "steps.csv").open("w") as of_steps,
        (folder / "operators.csv").open("w") as of_operators,
    ):
        steps, operators = (
            csv.writer(file, lineterminator="\n") for file in (of_steps, of_operators)
        )
        steps.writerow(STEPS)
        operators.writerow(OPERATORS)
        failed = False
        for what in asked.step:
            try:
                measure(what, steps, operators)
            except (RuntimeError, ValueError, AttributeError) as error:  # the others go on
                print(f"{what}: {error}", file=sys.stderr, flush=True)
                failed = True
            torch.cuda.empty_cache()
            of_steps.flush()
            of_operators.flush()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
