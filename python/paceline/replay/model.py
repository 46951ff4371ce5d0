"""The plan's layers as modules whose passes take the stated time, wrapped as the plan says."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import inspect
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .plan import Ddp, Fsdp, InputError, Plan

MIB = 1 << 20
DEFAULT_CAP = 25 * MIB
_OWN_FIRST_BUCKET = (2, 4)  # from here on a cap that is given is also the first bucket's
_FSDP2 = (2, 6)
DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "uint8": torch.uint8,
}


class HostClock:
    """A wait sleeps until shortly before its end, so that ranks share cores."""

    _LAST_S = 100e-6  # by so much a sleep may be late

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        torch.set_num_threads(1)
        if sys.platform == "linux":
            set_timer_slack = 29
            ctypes.CDLL(None).prctl(set_timer_slack, 1, 0, 0, 0)

    def mark(self) -> Any:
        return time.monotonic()

    def seconds(self, mark: Any) -> float:
        return float(mark)

    def wait(self, seconds: float, since: float | None) -> float:
        """Return when the wait has ended; it began when the last one had, where that is told."""
        until = (time.monotonic() if since is None else since) + seconds
        if (left := until - time.monotonic()) > self._LAST_S:
            time.sleep(left - self._LAST_S)
        while time.monotonic() < until:
            time.sleep(0)  # others may run
        return until

    def synchronise(self) -> None:
        pass


class DeviceClock:
    """A wait is a kernel that spins; marks are events on the stream that runs."""

    _CYCLES = 20_000_000

    def __init__(self, local_rank: int) -> None:
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
        self.device = torch.device("cuda", torch.cuda.current_device())
        torch.cuda._sleep(self._CYCLES)
        first, last = self.mark(), None
        torch.cuda._sleep(self._CYCLES)
        last = self.mark()
        self.synchronise()
        self._rate = self._CYCLES / (first.elapsed_time(last) * 1e-3)
        self._origin = self.mark()
        self.synchronise()
        self._origin_s = time.monotonic()

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, mark: Any) -> float:
        return float(self._origin_s + self._origin.elapsed_time(mark) * 1e-3)

    def wait(self, seconds: float, since: float | None) -> float | None:
        """Let the stream spin, which takes up one wait where it ended the last."""
        torch.cuda._sleep(round(seconds * self._rate))
        return since

    def synchronise(self) -> None:
        torch.cuda.synchronize()


Clock = HostClock | DeviceClock


def real_work(clock: Clock) -> Callable[[float], None]:
    """Return what multiplies matrices for about so long as it is told."""
    size = 256 if clock.device.type == "cpu" else 1024
    matrix = torch.zeros(size, size, device=clock.device)
    out = torch.empty_like(matrix)

    def multiply(times: int) -> None:
        for _ in range(times):
            torch.mm(matrix, matrix, out=out)

    multiply(10)
    clock.synchronise()
    begin, trials = time.monotonic(), 100
    multiply(trials)
    clock.synchronise()
    once = (time.monotonic() - begin) / trials
    return lambda seconds: multiply(round(seconds / once))


class Waits:
    """The waits of a rank in program order, each as long as the plan says.

    One begins where the last one ended, as kernels on a stream do, so that what the host does in
    between costs no time: but not after the host waited for other ranks.
    """

    def __init__(
        self, plan: Plan, rank: int, clock: Clock, progress: Callable[[], None], *, real: bool
    ) -> None:
        self._plan, self._rank, self._clock, self._progress = plan, rank, clock, progress
        self._work = real_work(clock) if real else None
        self._iteration, self._next = 0, 0
        self._since: float | None = None
        self.ended: Any = clock.mark()

    def begin_step(self, iteration: int) -> None:
        self._iteration, self._next = iteration, 0
        self.others_waited()

    def others_waited(self) -> None:
        self._since = None

    def __call__(self, seconds: float) -> None:
        factor = self._plan.factor(self._iteration, self._rank, self._next)
        self._next += 1
        if self._work:
            self._work(seconds * factor)
        else:
            until = self._clock.wait(seconds * factor, self._since)
            self._since = None if self._plan.fsdp else until  # whose units wait for each other
        self.ended = self._clock.mark()
        self._progress()


class _Gradient(torch.autograd.Function):
    """Backward makes one parameter's gradient ready: the tensor that it is given, not a copy."""

    @staticmethod
    def forward(ctx: Any, x: Any, parameter: Any, gradient: Any) -> Any:  # noqa: ARG004
        ctx.gradient = gradient
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], ctx.gradient.detach(), None


class _Pass(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, waits: Waits, forward_s: float, backward_s: float) -> Any:
        ctx.waits, ctx.backward_s = waits, backward_s
        waits(forward_s)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.waits(ctx.backward_s)
        return gradients[0], None, None, None


class LayerModule(nn.Module):
    """Backward waits, then the gradients become ready.

    In reversed order of registration those of a product, whose bias is added last; in that order
    those that one operation uses together.
    """

    def __init__(self, plan: Plan, number: int, waits: Waits, device: torch.device) -> None:
        super().__init__()
        layer = plan.layers[number]
        self.product = layer.kind == "linear"
        self.times = (waits, layer.forward_s, layer.backward_s)
        # Zeros: averaged or accumulated they stay what they are.
        dtype = DTYPES[plan.precision]
        self.gradients = [torch.zeros(n, dtype=dtype, device=device) for n in layer.parameters]
        for i, n in enumerate(layer.parameters):
            tensor = torch.zeros(n, dtype=dtype, device=device)
            self.register_parameter(f"parameter{i}", nn.Parameter(tensor))
        for i, (kind, n) in enumerate(layer.buffers):
            self.register_buffer(f"buffer{i}", torch.zeros(n, dtype=DTYPES[kind], device=device))

    def forward(self, x: Any) -> Any:
        pairs = list(zip(self.parameters(recurse=False), self.gradients, strict=True))
        for parameter, gradient in pairs if self.product else pairs[::-1]:
            x = _Gradient.apply(x, parameter, gradient)
        return _Pass.apply(x, *self.times)


class Model(nn.Module):
    def __init__(self, plan: Plan, waits: Waits, device: torch.device) -> None:
        super().__init__()
        layers = range(len(plan.layers))
        self.layers = nn.ModuleList([LayerModule(plan, i, waits, device) for i in layers])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x.sum()


def running_version() -> tuple[int, int]:
    parts = torch.__version__.split(".")
    return int(parts[0]), int(parts[1])


def load() -> None:
    """Load what DDP would load when it is first made: many seconds of a busy disk."""
    if running_version() >= (2, 0):
        with contextlib.suppress(ImportError):
            importlib.import_module("torch._dynamo")


def refusal(plan: Plan) -> str:
    """Return why this PyTorch can't do what the plan says; empty if it can."""
    version, running = running_version(), torch.__version__
    if plan.fsdp:
        if version < _FSDP2:
            needed = ".".join(map(str, _FSDP2))
            return (
                f"training.strategy: fully_shard needs PyTorch {needed} or newer, this is "
                f'{running}: use "ddp", or run the plan with a newer PyTorch'
            )
        return ""
    if (version >= _OWN_FIRST_BUCKET) != (plan.pytorch >= _OWN_FIRST_BUCKET):
        own = ".".join(map(str, version))
        return (
            f"training.pytorch: the plan has the bucket rules of {'.'.join(map(str, plan.pytorch))}"
            f' (a cap is the first bucket\'s too since 2.4), this is {running}: set it to "{own}"'
        )
    try:
        _bucket_options(_of(plan.ddp))
    except InputError as error:
        return str(error)
    return ""


def _of(options: Any) -> Any:
    assert options is not None
    return options


def _ddp_parameters() -> set[str]:
    return set(inspect.signature(nn.parallel.DistributedDataParallel.__init__).parameters)


def _bucket_options(ddp: Ddp) -> dict[str, Any]:
    """Set what decides the buckets, as a user of this version can."""
    cap, first = ddp.bucket_cap_bytes / MIB, ddp.first_bucket_bytes / MIB
    if running_version() < _OWN_FIRST_BUCKET:
        torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = ddp.first_bucket_bytes
        return {"bucket_cap_mb": cap}
    if ddp.first_bucket_bytes == ddp.bucket_cap_bytes:
        return {"bucket_cap_mb": cap}
    if ddp.bucket_cap_bytes == DEFAULT_CAP:
        torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = ddp.first_bucket_bytes
        return {"bucket_cap_mb": None}
    if "bucket_cap_mb_list" in _ddp_parameters():
        return {"bucket_cap_mb_list": [first, cap]}
    raise InputError(
        f"training.ddp.first_bucket: PyTorch {torch.__version__} takes one beside a bucket_cap of "
        "25 MiB only: leave one of the two out, or use a newer PyTorch"
    )


def wrapped_ddp(plan: Plan, model: nn.Module) -> Any:
    ddp: Ddp = _of(plan.ddp)
    known = _ddp_parameters()
    # The newer name of the same option.
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    return nn.parallel.DistributedDataParallel(
        model,
        gradient_as_bucket_view=ddp.gradient_as_bucket_view,
        find_unused_parameters=ddp.find_unused_parameters,
        **{buffers: ddp.broadcast_buffers},
        **_bucket_options(ddp),
    )


def wrapped_fsdp(plan: Plan, model: Model, device: torch.device) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    fsdp: Fsdp = _of(plan.fsdp)
    replicas = plan.ranks // fsdp.shard_group
    whole = replicas == 1
    shape = (plan.ranks,) if whole else (replicas, fsdp.shard_group)
    names = ("shard",) if whole else ("replicate", "shard")
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
    options = {"mesh": mesh, "reshard_after_forward": fsdp.reshard_after_forward}
    for unit in fsdp.units:
        fully_shard([model.layers[i] for i in unit], **options)
    # By default the root's parameters stay after forward, and others' don't.
    return fully_shard(model, **({"mesh": mesh} if fsdp.reshard_after_forward else options))
