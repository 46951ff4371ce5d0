"""Models as a scenario describes them: layers with their parameters and their work.

>>> model = paceline.models.from_torch(torchvision.models.resnet50(), input_shape=(3, 224, 224))
>>> paceline.run({"cluster": "dgx-a100", "model": model, "training": {"batch_per_gpu": 256}})
>>> pathlib.Path("my_resnet50.json").write_text(json.dumps(model))  # "model": {"file": ...}
"""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from .errors import InputError, warn

if TYPE_CHECKING:
    from torch import Tensor, nn

_SAMPLES = 2  # of a batch that is made up: batch norms refuse one sample of one pixel
_NAMED = 5  # names that a message lists
_PRODUCTS = {
    *("mm", "addmm", "addbmm", "bmm", "linear", "matmul", "conv", "attention", "lstm", "gru"),
}


def from_torch(
    module: nn.Module,
    *inputs: Any,
    input_shape: Iterable[SupportsIndex] | None = None,
    tokens: SupportsIndex | None = None,
    name: str | None = None,
    **named_inputs: Any,
) -> dict[str, Any]:
    """Describe a ``torch.nn.Module``: what a scenario's ``"model"`` holds, for ``run`` or a file.

    Layers stand in the order in which their parameters are registered, as ``parameters()`` gives
    them; a tensor that is shared counts once. Work is what one forward pass in training mode does,
    on the meta device: nothing is computed, and the module stays as it is, wherever it is.

    Parameters
    ----------
    module
        With all its parameters trained.
    inputs, named_inputs
        What its ``forward`` takes, on any device; dimension 0 of the first tensor counts samples.
    input_shape
        In their place: the shape of one sample of floating-point numbers, such as (3, 224, 224).
    tokens
        In their place: the length of one sample of token numbers.
    name
        What to call it; left out: the module's class.

    Raises
    ------
    InputError
        Parameters are frozen, as no description says which; or the forward pass can't run without
        values, or its work can't be counted, or it has samples in another dimension (place: the
        module in which it ended); or there are more tokens than positions.
    """
    torch = _torch()
    _require_trained(torch, module)
    if not inputs and not named_inputs:
        inputs = (_made_up(torch, input_shape, tokens),)
    elif input_shape is not None or tokens is not None:
        raise InputError("expected inputs, input_shape or tokens, found more than one of them")
    if name is not None and not isinstance(name, str):
        raise InputError(f"expected a text, found {name!r}", "name")
    inputs, named_inputs = _on_meta(torch, (inputs, named_inputs))
    first = next(_tensors((inputs, named_inputs)), None)
    if first is None or first.dim() == 0:
        raise InputError("expected a tensor whose dimension 0 counts samples", "inputs")
    meta = _copy_on_meta(torch, module)
    layers = _Layers(meta)
    counter = _Counter(meta, layers, first.shape[0])
    _run(torch, meta, counter, inputs, named_inputs)
    _warn_of_unread(layers)
    _warn_of_uneven(counter)

    kind = type(module)
    of_tokens = first.dim() == 2 and not first.is_floating_point()
    model: dict[str, Any] = {
        "name": name or kind.__name__,
        "input": f"{first.shape[1]} tokens" if of_tokens else "x".join(map(str, first.shape[1:])),
        "source": f"{kind.__module__}.{kind.__qualname__}, read by PyTorch {torch.__version__}",
    }
    if of_tokens:
        model["tokens"] = first.shape[1]
        longest = getattr(getattr(module, "config", None), "max_position_embeddings", None)
        if isinstance(longest, int) and longest >= first.shape[1]:
            model["most_tokens"] = longest
        elif isinstance(longest, int) and _learns_positions(torch, module, longest):
            raise InputError(
                f"expected at most {longest} tokens, for which it has positions "
                f"(max_position_embeddings), found {first.shape[1]}"
            )
    return {**model, "layers": layers.described()}


def _learns_positions(torch: Any, module: nn.Module, longest: int) -> bool:
    """Say whether there is a table of them; some begin with two rows for no position."""
    tables = (part for part in module.modules() if isinstance(part, torch.nn.Embedding))
    return any(longest <= table.num_embeddings <= longest + 2 for table in tables)


def _torch() -> Any:
    cure = "from_torch needs PyTorch 2.2 or later: pip install torch (the one for CPUs will do)"
    try:
        import torch
    except ImportError as error:
        raise ImportError(cure) from error
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 2):
        raise ImportError(f"{cure}; found {torch.__version__}")
    return torch


def _require_trained(torch: Any, module: nn.Module) -> None:
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"expected a torch.nn.Module, found {type(module).__name__}", "module")
    lazy = [n for n, p in module.named_parameters() if torch.nn.parameter.is_lazy(p)]
    if lazy:
        raise InputError(
            f"expected parameters whose shape is known, found lazy ones ({_some(lazy)}): "
            "run its forward once"
        )
    frozen = [n for n, p in module.named_parameters() if not p.requires_grad]
    if frozen:
        raise InputError(
            "expected parameters that are trained, as a description can't say which are not, found "
            f"frozen ones ({_some(frozen)}): describe it after requires_grad_(True), and remove "
            "their tensors from the layers' parameters if their gradients aren't reduced"
        )


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _made_up(
    torch: Any, input_shape: Iterable[SupportsIndex] | None, tokens: SupportsIndex | None
) -> Tensor:
    if (input_shape is None) == (tokens is None):
        raise InputError("expected inputs, input_shape or tokens: what one forward pass takes")
    if tokens is not None:
        shape = (_SAMPLES, _size(tokens, "tokens"))
        return torch.zeros(shape, dtype=torch.long, device="meta")
    if not isinstance(input_shape, Iterable):
        raise InputError(
            f"expected the shape of one sample such as (3, 224, 224), found {input_shape!r}",
            "input_shape",
        )
    sizes = [_size(size, "input_shape") for size in input_shape]
    return torch.empty((_SAMPLES, *sizes), device="meta")


def _size(value: Any, argument: str) -> int:
    try:
        size = operator.index(value)
    except TypeError:
        size = 0
    if size < 1:
        raise InputError(f"expected a whole number of at least 1, found {value!r}", argument)
    return size


def _on_meta(torch: Any, values: Any) -> Any:
    from torch.utils import _pytree

    return _pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), values)


def _tensors(values: Any) -> Iterator[Tensor]:
    from torch import Tensor
    from torch.utils import _pytree

    return (value for value in _pytree.tree_leaves(values) if isinstance(value, Tensor))


def _copy_on_meta(torch: Any, module: nn.Module) -> nn.Module:
    made: dict[int, Any] = {}  # by the original's id, as deepcopy asks
    for parameter in module.parameters():
        made[id(parameter)] = torch.nn.Parameter(torch.empty_like(parameter, device="meta"))
    for buffer in module.buffers():
        made[id(buffer)] = torch.empty_like(buffer, device="meta")
    try:
        return copy.deepcopy(module, made).train()
    except Exception as error:  # whatever an attribute's own copy raises
        raise InputError(
            f"expected a module that can be copied, found {type(module).__name__} "
            f"({_first_line(error)}): describe it before it is wrapped, compiled or sharded"
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


@dataclasses.dataclass
class _Layer:
    name: str
    kind: str
    parameters: list[int] = dataclasses.field(default_factory=list)
    macs: int = 0
    written: int = 0
    cores: list[_Layer] = dataclasses.field(default_factory=list)  # attention that follows it

    def described(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "parameters": self.parameters,
            "forward_macs": self.macs,
            "output_elements": self.written,
        }


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata  # noqa: SLF001 - views share it


class _Layers:
    """A layer for each module that has parameters of its own, or normalizes without any."""

    def __init__(self, module: nn.Module) -> None:
        self.all: list[_Layer] = []
        self.names: dict[nn.Module, str] = {}
        self.of_module: dict[nn.Module, _Layer] = {}
        self.owner: dict[int, _Layer] = {}  # by the storage of what parameters hold
        self.first: dict[int, int] = {}  # id of a layer: storage of its module's first parameter
        self.unread: dict[int, str] = {}
        for name, part in module.named_modules():
            self.names[part] = name
            tensors = {n: p for n, p in part.named_parameters(recurse=False) if p.numel() > 0}
            if not tensors and not _normalizes(part):
                continue
            leaf = not any(True for _ in part.children())
            parts = [name] if leaf else [name, next(iter(tensors), "")]
            layer = _Layer(".".join(filter(None, parts)) or type(part).__name__, _kind(part))
            self.all.append(layer)
            self.of_module[part] = layer
            for n, tensor in tensors.items():
                storage = _storage(tensor)
                self.first.setdefault(id(layer), storage)
                if storage not in self.owner:  # else it is shared with an earlier layer
                    self.owner[storage] = layer
                    self.unread[storage] = f"{name}.{n}".lstrip(".")
                    layer.parameters.append(tensor.numel())

    def described(self) -> list[dict[str, Any]]:
        return [part.described() for layer in self.all for part in (layer, *layer.cores)]


def _normalizes(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower() and not any(True for _ in module.children())


def _kind(module: nn.Module) -> str:
    """Return what shows before the forward pass: products and convolutions show in it."""
    from torch.nn.modules.batchnorm import _BatchNorm

    if isinstance(module, _BatchNorm) and module.running_mean is not None:
        return "batch_norm"
    return "norm" if _normalizes(module) else "embedding"


class _Counter:
    """Adds to the layers what a forward pass does."""

    def __init__(self, module: nn.Module, layers: _Layers, samples: int) -> None:
        self.layers = layers
        self.samples = samples
        self.frames: list[nn.Module] = [module]  # whose forward runs, innermost last
        self.cores: dict[nn.Module, _Layer] = {}
        self.core_output: dict[nn.Module, int] = {}
        self.kept: list[Tensor] = []  # what storages belong to: none is made anew at its address
        self.last = layers.all[0] if layers.all else None
        self.uneven: dict[str, None] = {}  # layers whose work the samples don't divide, in order

    def of_sample(self, count: int, result: Tensor) -> int:
        # What is as large for any batch (positions' embeddings) is counted as a sample's.
        whole = result.dim() > 0 and result.shape[0] == 1
        return count if whole else count // self.samples

    def reader(self, storage: int) -> _Layer:
        part = self.frames[-1]
        own = (_storage(p) for p in part.parameters(recurse=False))
        return self.layers.of_module[part] if storage in own else self.layers.owner[storage]

    def multiplied(
        self, flops: Callable[..., int], func: Any, call: tuple[Any, Any], out: Any
    ) -> None:
        args, kwargs = call
        result = next(_tensors(out))
        named = {"out": out, "out_val": out}  # up to PyTorch 2.2; since
        whole = flops(*args, **(kwargs | named)) // 2
        macs = self.of_sample(whole, result)
        if whole not in (macs, macs * self.samples):
            part = self.frames[-1]
            self.uneven[self.layers.names[part] or type(part).__name__] = None
        read = [s for s in map(_storage, _tensors(call)) if s in self.layers.owner]
        for storage in read:
            self.layers.unread.pop(storage, None)
        if read:
            self.last = self.reader(read[-1])
            self.last.kind = "conv" if "conv" in func.__name__ else "linear"
            self.last.macs += macs
            self.last.written += self.of_sample(result.numel(), result)
        elif next(_tensors(args)).shape[-1] > 1:  # else it multiplies elements: rotary angles
            part = self.frames[-1]
            if part not in self.cores:
                self.cores[part] = self._core(part)
            self.cores[part].macs += macs
            self.core_output[part] = self.of_sample(result.numel(), result)

    def _core(self, part: nn.Module) -> _Layer:
        parts = filter(None, (self.layers.names[part], "core"))
        core = _Layer(".".join(parts), "attention")
        (self.last.cores if self.last else self.layers.all).append(core)
        return core

    def moved(self, args: Any, out: Any) -> None:
        layers = self.layers
        read = [_storage(tensor) for tensor in _tensors(args)]
        known = [storage for storage in read if storage in layers.owner]
        results = list(_tensors(out))
        if not known or not results:
            return
        if _storage(results[0]) in known:  # a view, or a parameter changed in place
            return
        for storage in known:
            layers.unread.pop(storage, None)
        if len(known) == len(read):  # made of parameters alone: stands for the first
            layers.owner[_storage(results[0])] = layers.owner[known[0]]
            self.kept.append(results[0])
            return
        for storage in known:
            layer = self.reader(storage)
            if layer.kind not in ("conv", "linear"):
                self.last = layer
                if layers.first[id(layer)] == storage:
                    layer.written += self.of_sample(results[0].numel(), results[0])

    def enter(self, part: nn.Module, inputs: Any, named: Any) -> None:
        self.frames.append(part)
        self.require_samples_first(part, next(iter((*inputs, *named.values())), None))

    def require_samples_first(self, part: nn.Module, given: Any) -> None:
        shape: Sequence[int] = getattr(given, "shape", ())
        if getattr(part, "batch_first", True) or len(shape) < 3:
            return
        if shape[0] == self.samples and shape[1] != self.samples:
            raise InputError(
                f"expected samples in dimension 0, found {type(part).__name__}, which has them "
                f"in dimension 1 of {'x'.join(map(str, shape))}: make it with batch_first=True",
                self.layers.names[part],
            )

    def leave(self, part: nn.Module, _inputs: Any, out: Any) -> None:
        self.frames.pop()
        if part in self.core_output:
            self.cores[part].written += self.core_output.pop(part)
        layer = self.layers.of_module.get(part)
        if layer and id(layer) not in self.layers.first:  # a norm without parameters
            result = next(_tensors(out))
            layer.written += self.of_sample(result.numel(), result)


def _vector_flops(matrix: Tensor, *_: Any, **__: Any) -> int:
    return 2 * matrix.numel()


def _bilinear_flops(rows: Tensor, weight: Tensor, *_: Any, **__: Any) -> int:
    return 2 * rows.shape[0] * weight.numel()


def _grouped_flops(rows: Tensor, matrices: Tensor, *_: Any, **__: Any) -> int:
    return 2 * rows.numel() * matrices.shape[-1]  # each row meets one matrix, whichever it is


_MORE_FLOPS: dict[str, Callable[..., int]] = {  # of what PyTorch's FlopCounterMode doesn't count
    "mv": _vector_flops,
    "addmv": lambda _added, *args, **kwargs: _vector_flops(*args, **kwargs),
    "_trilinear": _bilinear_flops,
    "_grouped_mm": _grouped_flops,
}


def _watching(counter: _Counter) -> Any:
    """Return a mode in which PyTorch tells the counter each operation."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class Watch(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            name = func.overloadpacket.__name__
            flops = flop_registry.get(func.overloadpacket, _MORE_FLOPS.get(name))
            if flops is None:
                with self:
                    parts = func.decompose(*args, **kwargs)
                if parts is not NotImplemented:
                    return parts
            out = func(*args, **kwargs)
            if flops is not None:
                counter.multiplied(flops, func, (args, kwargs), out)
            elif not _PRODUCTS.isdisjoint(name.split("_")):
                raise InputError(
                    f"expected operations that PyTorch's FlopCounterMode counts, found {func}: "
                    "describe the module without it, and add what it does",
                    counter.layers.names[counter.frames[-1]],
                )
            else:
                counter.moved((args, kwargs), out)
            return out

    return Watch()


def _run(
    torch: Any,
    module: nn.Module,
    counter: _Counter,
    inputs: Sequence[Any],
    named_inputs: Mapping[str, Any],
) -> None:
    """Run the forward pass, and count what it does."""
    for part in module.modules():
        part.register_forward_pre_hook(counter.enter, with_kwargs=True)
        part.register_forward_hook(counter.leave)
    watch = _watching(counter)
    try:
        with torch.no_grad(), watch:
            module(*inputs, **named_inputs)
    except InputError:
        raise
    except Exception as error:  # whatever a forward raises
        part = counter.frames[-1]
        raise InputError(
            f"expected a forward pass that runs without values, on the meta device; in "
            f"{type(part).__name__} PyTorch said: {_first_line(error)}; cure: inputs that fit, "
            "tensors kept as buffers, branches that ask no tensor for its value; else describe "
            "its parts one by one and join their layers",
            counter.layers.names[part],
        ) from error


def _warn_of_unread(layers: _Layers) -> None:
    if layers.unread:
        names = _some(list(layers.unread.values()))
        warn(
            f"parameters that this forward pass doesn't read ({names}) are described without work; "
            "DDP trains such a model with find_unused_parameters alone"
        )


def _warn_of_uneven(counter: _Counter) -> None:
    if counter.uneven:
        warn(
            f"the work of {_some(list(counter.uneven))} isn't the same for each of the "
            f"{counter.samples} samples that dimension 0 counts: their mean is described, rounded "
            "down; if that dimension is time, make the module with batch_first=True"
        )
