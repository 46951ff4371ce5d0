"""What PyTorch says of a module, and the models that are shipped beside the real ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import paceline
from paceline import InputError
from paceline.models import from_torch

torch = pytest.importorskip("torch", reason="PyTorch isn't installed")
nn = torch.nn

Model = dict[str, Any]


def in_full(model: Any) -> Model:
    """Its layers, also where it is said by its dimensions."""
    training = {"strategy": "fsdp", "batch_per_gpu": 1, "precision": "bf16"}
    run = paceline.run({"cluster": "dgx-h100", "model": model, "training": training}, iterations=1)
    return run.data["scenario"]["model"]


def shipped(name: str) -> Model:
    return in_full(name)


def tensors(model: Model) -> list[int]:
    return [elements for layer in model["layers"] for elements in layer["parameters"]]


def by_name(model: Model) -> dict[str, Model]:
    return {layer["name"]: layer for layer in model["layers"]}


def check_equal(name: str, module: Any, but_for: tuple[str, ...] = (), **inputs: Any) -> None:
    """Compare all but names, and but the work of layers whose shipped name starts so."""
    made, known = from_torch(module, name=name, **inputs), shipped(name)
    assert tensors(made) == [parameter.numel() for parameter in module.parameters()]
    assert tensors(made) == tensors(known)
    assert made.get("tokens") == known.get("tokens")
    assert len(made["layers"]) == len(known["layers"])
    for mine, theirs in zip(made["layers"], known["layers"], strict=True):
        work = ("forward_macs", "output_elements") * (not theirs["name"].startswith(but_for or "/"))
        for field in ("kind", "parameters", *work):
            assert mine[field] == theirs[field], (mine, theirs)


IMAGES = [
    "alexnet",
    "resnet18",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "resnext101_32x8d",
    "vgg16",
]


@pytest.mark.parametrize("name", IMAGES)
def test_models_of_images_are_those_of_torchvision(name: str) -> None:
    models = pytest.importorskip("torchvision.models")
    with torch.device("meta"):
        module = getattr(models, name)()
    check_equal(name, module, input_shape=(3, 224, 224))


def test_vit_is_that_of_torchvision_but_for_what_the_class_token_writes() -> None:
    models = pytest.importorskip("torchvision.models")
    with torch.device("meta"):
        module = models.vit_l_16()
    check_equal("vit_l_16", module, ("class_token",), input_shape=(3, 224, 224))


def test_inception_is_that_of_torchvision_but_for_the_work_of_its_auxiliary_classifier() -> None:
    models = pytest.importorskip("torchvision.models")
    with torch.device("meta"):
        module = models.inception_v3(init_weights=False)
    check_equal("inception_v3", module, ("AuxLogits",), input_shape=(3, 299, 299))


BERT_LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}


def sizes(
    layers: int,
    hidden: int,
    heads: int,
    key_value_heads: int,
    inner: int,
    vocabulary: int,
    **more: Any,
) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": key_value_heads,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        **more,
    }


LLAMA_3_8B = sizes(32, 4096, 32, 8, 14336, 128256)
STACKS = [
    ("gpt2_small", "GPT2LMHeadModel", {}),
    ("gpt2_medium", "GPT2LMHeadModel", {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
    ("gpt2_large", "GPT2LMHeadModel", {"n_embd": 1280, "n_layer": 36, "n_head": 20}),
    ("gpt2_xl", "GPT2LMHeadModel", {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
    ("llama2_7b", "LlamaForCausalLM", {}),
    ("llama2_13b", "LlamaForCausalLM", sizes(40, 5120, 40, 40, 13824, 32000)),
    ("llama2_70b", "LlamaForCausalLM", sizes(80, 8192, 64, 8, 28672, 32000)),
    ("llama3_8b", "LlamaForCausalLM", LLAMA_3_8B),
    ("llama3_1_8b", "LlamaForCausalLM", LLAMA_3_8B),
    ("llama3_70b", "LlamaForCausalLM", sizes(80, 8192, 64, 8, 28672, 128256)),
    ("llama3_1_405b", "LlamaForCausalLM", sizes(126, 16384, 128, 8, 53248, 128256)),
    (
        "llama3_2_1b",
        "LlamaForCausalLM",
        sizes(16, 2048, 32, 8, 8192, 128256, tie_word_embeddings=True),
    ),
    (
        "llama3_2_3b",
        "LlamaForCausalLM",
        sizes(28, 3072, 24, 8, 8192, 128256, tie_word_embeddings=True),
    ),
    ("mistral_7b", "MistralForCausalLM", {}),
    ("qwen2_5_7b", "Qwen2ForCausalLM", sizes(28, 3584, 28, 4, 18944, 152064)),
    ("qwen2_5_72b", "Qwen2ForCausalLM", sizes(80, 8192, 64, 8, 29568, 152064)),
    ("qwen3_8b", "Qwen3ForCausalLM", sizes(36, 4096, 32, 8, 12288, 151936)),
    ("qwen3_32b", "Qwen3ForCausalLM", sizes(64, 5120, 64, 8, 25600, 151936)),
]


def of_transformers(kind: str, dimensions: dict[str, Any]) -> Any:
    transformers = pytest.importorskip("transformers")
    model = getattr(transformers, kind)
    with torch.device("meta"):
        return model(model.config_class(**dimensions))


@pytest.mark.parametrize(
    ("name", "kind", "dimensions"),
    [
        ("bert_base", "BertForPreTraining", {}),
        ("bert_large", "BertForPreTraining", BERT_LARGE),
        *STACKS,
    ],
)
def test_models_of_tokens_are_those_of_transformers(
    name: str, kind: str, dimensions: dict[str, Any]
) -> None:
    module = of_transformers(kind, dimensions)
    check_equal(name, module, tokens=shipped(name)["tokens"])


@pytest.mark.parametrize(
    ("kind", "dimensions"),
    [
        *[
            (kind, dimensions)
            for name, kind, dimensions in STACKS
            if name.endswith(("m", "7b", "8b"))
        ],
        ("GemmaForCausalLM", {}),
        ("GemmaForCausalLM", sizes(18, 2048, 8, 1, 16384, 256000)),
        ("Qwen2ForCausalLM", sizes(24, 896, 14, 2, 4864, 151936, tie_word_embeddings=True)),
    ],
)
def test_a_configuration_of_transformers_is_the_model_that_they_build(
    tmp_path: Path, kind: str, dimensions: dict[str, Any]
) -> None:
    module = of_transformers(kind, dimensions)
    module.config.save_pretrained(tmp_path)
    known = in_full({"file": str(tmp_path / "config.json"), "sequence": 512})
    made = from_torch(module, tokens=512)
    for mine, theirs in zip(made["layers"], known["layers"], strict=True):
        # Gemma multiplies by 1 + weight: nothing that from_torch sees writes a norm's output.
        writes = ("output_elements",) * (kind != "GemmaForCausalLM" or mine["kind"] != "norm")
        for field in ("kind", "parameters", "forward_macs", *writes):
            assert mine[field] == theirs[field], (mine, theirs)


def work(model: Model) -> int:
    return sum(layer["forward_macs"] for layer in model["layers"])


def test_samples_stand_in_dimension_0() -> None:
    inputs = torch.zeros(50, 2, 8)  # 50 steps of 2 samples
    for module, kind in (
        (nn.LSTM(8, 16), "LSTM"),
        (nn.TransformerEncoderLayer(8, 2, 16), "MultiheadAttention"),
    ):
        with pytest.raises(InputError, match=f"^0.* {kind}, .*1 of 50x2x8: .*batch_first=True"):
            from_torch(nn.Sequential(module), inputs)
        with pytest.raises(InputError, match=f"{kind}, .* dimension 1 of 2x50x8"):
            from_torch(module, input_shape=(50, 8))
    lstm = nn.LSTM(8, 16, batch_first=True)
    assert work(from_torch(lstm, input_shape=(50, 8))) == 50 * 4 * 16 * (8 + 16)

    class Turned(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(8, 16)

        def forward(self, x: Any) -> Any:
            return self.lstm(x.transpose(0, 1))

    assert work(from_torch(Turned(), input_shape=(50, 8))) == 50 * 4 * 16 * (8 + 16)


def test_work_that_samples_do_not_share_evenly_is_told() -> None:
    class First(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 5)

        def forward(self, x: Any) -> Any:
            return self.inner(x[:2])

    with pytest.warns(UserWarning, match=r"work of inner isn't .* 4 samples .*batch_first=True"):
        from_torch(First(), torch.zeros(4, 3))


def test_products_that_pytorch_does_not_count() -> None:
    model = from_torch(nn.Bilinear(4, 5, 6), torch.zeros(3, 4), torch.zeros(3, 5))
    assert [(layer["kind"], layer["forward_macs"]) for layer in model["layers"]] == [
        ("linear", 4 * 5 * 6)
    ]

    class Pooled(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.query = nn.Parameter(torch.ones(8))

        def forward(self, x: Any) -> Any:
            return ((x @ self.query).softmax(-1)[..., None] * x).sum(1)

    assert work(from_torch(Pooled(), input_shape=(5, 8))) == 5 * 8


def test_experts_work_for_the_tokens_that_are_sent_to_them() -> None:
    chosen = {"num_local_experts": 4, "num_experts_per_tok": 3}
    module = of_transformers("MixtralForCausalLM", sizes(1, 32, 4, 2, 64, 100, **chosen))
    if not any(name.endswith("experts.gate_up_proj") for name, _ in module.named_parameters()):
        pytest.skip("experts are modules of their own before transformers 5")
    model = from_torch(module, tokens=16)
    experts = next(v for k, v in by_name(model).items() if ".experts." in k)
    assert (experts["kind"], experts["forward_macs"]) == ("linear", 16 * 3 * 3 * 32 * 64)


def test_positions_bound_tokens() -> None:
    small = {"n_embd": 32, "n_head": 4, "n_layer": 1, "n_positions": 64}
    module = of_transformers("GPT2LMHeadModel", small)
    assert from_torch(module, tokens=64)["most_tokens"] == 64
    with pytest.raises(InputError, match=r"at most 64 tokens.*max_position_embeddings\), found 65"):
        from_torch(module, tokens=65)
    turned = sizes(1, 32, 4, 4, 64, 100, max_position_embeddings=64)
    assert from_torch(of_transformers("LlamaForCausalLM", turned), tokens=65)["tokens"] == 65


def test_shapes_of_numpy_are_welcome() -> None:
    made = from_torch(nn.Linear(4, 5), input_shape=np.array([3, 4]))
    assert made == from_torch(nn.Linear(4, 5), input_shape=(3, 4))
    assert from_torch(nn.Embedding(9, 2), tokens=np.int64(7))["tokens"] == 7


class Twice(nn.Module):  # type: ignore[misc, name-defined]
    """A linear layer that runs twice, another that shares its matrix, and a scale of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)
        self.b.weight = self.a.weight
        self.scale = nn.Parameter(torch.ones(8))
        self.unread = nn.Linear(3, 5)

    def forward(self, x: Any) -> Any:
        return self.b(self.a(self.a(x))) * self.scale


def test_shared_tensors_count_once_and_what_runs_twice_works_twice() -> None:
    with pytest.warns(UserWarning, match=r"doesn't read \(unread.weight, unread.bias\)"):
        model = from_torch(Twice(), input_shape=(8,))
    assert model["layers"] == [
        {"name": n, "kind": k, "parameters": p, "forward_macs": macs, "output_elements": out}
        for n, k, p, macs, out in [
            ("scale", "embedding", [8], 0, 8),
            ("a", "linear", [64, 8], 128, 16),
            ("b", "linear", [8], 64, 8),
            ("unread", "embedding", [15, 5], 0, 0),
        ]
    ]


def test_the_work_of_a_sample_does_not_depend_on_the_batch() -> None:
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten())
    one, six = (from_torch(module, torch.zeros(n, 3, 10, 12)) for n in (1, 6))
    assert one == six
    assert [layer["kind"] for layer in one["layers"]] == ["conv", "batch_norm"]
    assert one["layers"][0]["forward_macs"] == 8 * 8 * 10 * 27


def test_attention_follows_what_projects_to_it() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = from_torch(layer, input_shape=(10, 16))
    kinds = {layer["name"]: layer["kind"] for layer in model["layers"]}
    assert list(kinds) == [
        "self_attn.in_proj_weight",
        "self_attn.core",
        "self_attn.out_proj",
        "linear1",
        "linear2",
        "norm1",
        "norm2",
    ]
    assert kinds["self_attn.core"] == "attention" and kinds["norm1"] == "norm"
    assert by_name(model)["self_attn.core"]["forward_macs"] == 2 * 10 * 10 * 16


@pytest.mark.filterwarnings("error")
def test_a_weight_that_is_computed_belongs_to_its_layer() -> None:
    module = nn.utils.parametrizations.weight_norm(nn.Linear(8, 4))
    layers = from_torch(module, input_shape=(8,))["layers"]
    assert sum(layer["forward_macs"] for layer in layers) == 32
    assert sum(sum(layer["parameters"]) for layer in layers) == 4 + 4 + 32
    assert "attention" not in {layer["kind"] for layer in layers}


def test_the_module_stays_as_it_is() -> None:
    module = Twice().eval()
    module.unread = nn.Identity()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    from_torch(module, x=torch.ones(2, 8))
    assert not module.training
    assert all(torch.equal(before[name], now) for name, now in module.state_dict().items())


def test_a_description_runs_and_can_be_kept(tmp_path: Path) -> None:
    model = from_torch(nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 10)), input_shape=(512,))
    scenario = {"cluster": "dgx-a100", "model": model, "training": {"batch_per_gpu": 64}}
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(model))
    kept = {**scenario, "model": {"file": str(file)}}
    assert paceline.run(scenario).step_time_s == paceline.run(kept).step_time_s > 0


def asks_for_values(module: Any) -> Any:
    class Asks(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    return nn.Sequential(module, Asks())


def adds_products() -> Any:
    class Adds(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return torch.addbmm(x, x[None], x[None])

    return nn.Sequential(nn.Linear(2, 2), Adds())


def lock() -> Any:
    module = nn.Linear(2, 2)
    module.generator = (value for value in range(1))
    return module


FREEZES: Callable[[], Any] = lambda: nn.Linear(2, 2).requires_grad_(False)  # noqa: E731


@pytest.mark.parametrize(
    ("make", "inputs", "message"),
    [
        (FREEZES, {"input_shape": (2,)}, r"frozen ones \(weight, bias\).*requires_grad_\(True\)"),
        (lambda: nn.LazyLinear(2), {"input_shape": (2,)}, r"lazy ones \(weight, bias\)"),
        (lambda: nn.Linear(2, 2), {}, "expected inputs, input_shape or tokens"),
        (lambda: nn.Linear(2, 2), {"tokens": 3, "input_shape": (2,)}, "expected inputs"),
        (lambda: nn.Linear(2, 2), {"input": torch.ones(2, 2), "tokens": 3}, "more than one"),
        (lambda: nn.Linear(2, 2), {"input": 3}, "dimension 0 counts samples"),
        (lambda: nn.Linear(2, 2), {"input_shape": (3,)}, "in Linear PyTorch said: "),
        (lambda: asks_for_values(nn.Linear(2, 2)), {"input_shape": (2,)}, "^1: .* in Asks "),
        (adds_products, {"input_shape": (2,)}, r"^1: .* found aten\.addbmm\.default: "),
        (lock, {"input_shape": (2,)}, "can be copied.*before it is wrapped"),
        (lambda: 3, {"input_shape": (2,)}, "expected a torch.nn.Module, found int"),
        (
            lambda: nn.Linear(2, 2),
            {"input_shape": 2},
            r"^input_shape: .* such as \(3, 224, 224\), ",
        ),
        (lambda: nn.Linear(2, 2), {"input_shape": (2.5,)}, r"^input_shape: .* found 2\.5"),
        (lambda: nn.Embedding(9, 2), {"tokens": "16"}, "^tokens: .* at least 1, found '16'"),
        (lambda: nn.Embedding(9, 2), {"tokens": -1}, "^tokens: .* at least 1, found -1"),
        (lambda: nn.Embedding(9, 2), {"tokens": 0}, "^tokens: .* at least 1, found 0"),
        (lambda: nn.Linear(2, 2), {"input_shape": (2,), "name": 5}, "^name: .* a text, found 5"),
    ],
)
def test_what_cannot_be_described_is_refused(
    make: Callable[[], Any], inputs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        from_torch(make(), **inputs)
