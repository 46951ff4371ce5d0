"""What is timed: training steps, and collectives alone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from .model import Clock, Model, Waits, wrapped_ddp, wrapped_fsdp
from .plan import ELEMENT_BYTES, Bucket, InputError, Plan
from .records import BucketTimes, Step

UNTIMED = 3  # DDP's first, the one that rebuilds the buckets, one to settle
LEAST_REPEATS = 5
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
_IN_PARTS = ("all_gather", "reduce_scatter")
_ELEMENT_BYTES = 4


@dataclass
class _Marks:
    bytes: int
    ready: Any
    end: Any = None


def _all_reduce(_: Any, bucket: Any) -> Any:
    """Reduce as DDP itself does.

    DDP divides by the ranks while it copies gradients into a bucket, and not with a hook; here
    nobody does, as the gradients are zeros: the same passes over memory.
    """
    future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return future.then(lambda done: done.value()[0])


_HOOKS: dict[str, Callable[[Any, Any], Any]] = {
    "none": _all_reduce,
    "fp16": default_hooks.fp16_compress_hook,
    "bf16": default_hooks.bf16_compress_hook,
}


class _Observer:
    """A communication hook, or DDP's own all-reduce, that looks at the clock."""

    def __init__(self, hook: str, clock: Clock, progress: Callable[[], None]) -> None:
        self._hook, self._clock, self._progress = _HOOKS[hook], clock, progress
        self._element_bytes = ELEMENT_BYTES.get(hook)
        self.marks: list[_Marks] = []

    def reduce(self, bucket: Any) -> Any:
        tensor = bucket.buffer()
        element = self._element_bytes or tensor.element_size()
        marks = _Marks(tensor.numel() * element, self._clock.mark())
        self.marks.append(marks)

        def end(future: Any) -> Any:
            marks.end = self._clock.mark()
            self._progress()
            return future.value()

        return self._hook(None, bucket).then(end)


def train(
    plan: Plan,
    waits: Waits,
    clock: Clock,
    *,
    observe: bool,
    progress: Callable[[], None],
) -> list[Step]:
    """Run the untimed steps, then the plan's; return these."""
    model = Model(plan, waits, clock.device)
    observer = _Observer(plan.ddp.hook if plan.ddp else "none", clock, progress)
    if plan.ddp is None:
        wrapped = wrapped_fsdp(plan, model, clock.device)
    else:
        wrapped = wrapped_ddp(plan, model)
        if observe:
            wrapped.register_comm_hook(None, lambda _, bucket: observer.reduce(bucket))
        elif plan.ddp.hook != "none":
            wrapped.register_comm_hook(None, _HOOKS[plan.ddp.hook])
    x = torch.zeros(1, device=clock.device, requires_grad=True)
    dist.barrier()
    marks = []
    for iteration in range(-UNTIMED, plan.iterations):
        if iteration == 0 and plan.ddp and plan.ranks > 1:
            _require_buckets(plan, wrapped)
        observer.marks = []
        waits.begin_step(iteration)
        begin = clock.mark()
        # As this version does by default: to zeros in 1.x, away in 2.x.
        wrapped.zero_grad()
        backward_end = begin
        for micro in range(plan.accumulation):
            with _synchronised(plan, wrapped, last=micro == plan.accumulation - 1):
                wrapped(x).backward()
            backward_end = waits.ended
        gradients = clock.mark()
        waits.others_waited()
        waits(plan.optimizer_s)
        marks.append((begin, backward_end, gradients, clock.mark(), observer.marks))
    clock.synchronise()
    at = clock.seconds
    return [
        Step(
            begin=at(begin),
            backward_end=at(backward_end),
            gradients=at(gradients),
            end=at(end),
            buckets=tuple(BucketTimes(m.bytes, at(m.ready), at(m.end)) for m in buckets),
        )
        for begin, backward_end, gradients, end, buckets in marks[UNTIMED:]
    ]


def _synchronised(plan: Plan, wrapped: Any, *, last: bool) -> Any:
    if plan.fsdp:
        wrapped.set_requires_gradient_sync(last)
        return contextlib.nullcontext()
    return contextlib.nullcontext() if last else wrapped.no_sync()


def _require_buckets(plan: Plan, wrapped: Any) -> None:
    """DDP's buckets are the plan's: what the program is for."""
    found = ddp_buckets(wrapped._get_ddp_logging_data())
    predicted = plan.buckets
    if not all(bucket.tensors for bucket in found):  # these versions don't tell
        predicted = tuple(Bucket(bucket.bytes, ()) for bucket in predicted)
    if found != predicted:
        raise InputError(
            f"DDP's buckets aren't the plan's: DDP has {_shown(found)}, "
            f"the plan {_shown(predicted)}"
        )


def ddp_buckets(data: dict[str, Any]) -> tuple[Bucket, ...]:
    """Return the buckets in order of reduction, from what DDP logs of itself."""

    def wholes(text: str) -> tuple[int, ...]:
        return tuple(int(word) for word in text.replace(",", " ").split())

    rebuilt = data.get("rebuilt_bucket_sizes")
    sizes = wholes(rebuilt or data["bucket_sizes"])
    tensors = data.get("rebuilt_per_bucket_param_indices", "") if rebuilt else ""
    groups = [wholes(group) for group in tensors.split(",")] if tensors else [()] * len(sizes)
    return tuple(Bucket(size, group) for size, group in zip(sizes, groups, strict=True))


def _shown(buckets: Sequence[Bucket]) -> str:
    shown = []
    for bucket in buckets[:20]:
        tensors = f" of tensors {' '.join(map(str, bucket.tensors))}" if bucket.tensors else ""
        shown.append(f"{bucket.bytes:,} B{tensors}")
    rest = f"; and {len(buckets) - 20} more" if len(buckets) > 20 else ""
    return f"{len(buckets)} ({'; '.join(shown)}{rest})"


def whole_size(kind: str, size: int, ranks: int) -> int:
    """Return the size as it is run: whole elements, for each rank alike."""
    part = _ELEMENT_BYTES * (ranks if kind in _IN_PARTS else 1)
    return max(1, size // part) * part


def time_collective(
    kind: str, size: int, clock: Clock, repeats: int, budget_s: float, progress: Callable[[], None]
) -> list[float]:
    """Return this rank's time of each repeat: from a barrier to the result."""
    once, result, expected = _collective(kind, size, clock)
    try:
        once()
    except RuntimeError as error:
        if "not support" not in str(error):
            raise
        raise InputError(f"{kind}: not in PyTorch {torch.__version__}: {error}") from error
    clock.synchronise()
    if not bool((result == expected).all()):
        raise InputError(f"{kind} {size} B: the result is wrong")
    result.zero_()  # sums of sums would grow

    def timed() -> float:
        dist.barrier()
        clock.synchronise()
        begin = time.monotonic()
        once()
        clock.synchronise()
        progress()
        return time.monotonic() - begin

    timed()
    slowest = torch.tensor([timed()], device=clock.device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    affordable = int(budget_s / max(float(slowest), 1e-9))
    return [timed() for _ in range(min(repeats, max(min(LEAST_REPEATS, repeats), affordable)))]


def _collective(kind: str, size: int, clock: Clock) -> tuple[Callable[[], Any], Any, float]:
    """Return what runs it, the tensor of its result, and what each element is the first time."""
    ranks = dist.get_world_size()
    elements = size // _ELEMENT_BYTES
    whole = torch.ones(elements, device=clock.device)
    part = torch.ones(max(1, elements // ranks), device=clock.device)
    if kind == "all_reduce":
        return (lambda: dist.all_reduce(whole)), whole, float(ranks)
    if kind == "broadcast":
        whole.fill_(float(dist.get_rank() + 1))
        return (lambda: dist.broadcast(whole, 0)), whole, 1.0
    if kind == "all_gather":
        whole.zero_()
        parts = list(whole.chunk(ranks))
        return (lambda: dist.all_gather(parts, part)), whole, 1.0
    if not hasattr(dist, "reduce_scatter_tensor"):
        raise InputError(f"{kind}: not in PyTorch {torch.__version__}")
    return (lambda: dist.reduce_scatter_tensor(part, whole)), part, float(ranks)
