"""Blocks that repeat are planned once, and never otherwise than anew."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from etude.core.errors import RemovalRefused
from etude.core.removal import Layers, Part, Target, Whole
from etude.frameworks.removal.plan import Planner
from etude.frameworks.removal.repeats import Repeats
from etude.frameworks.removal.tracing import Runs, arguments

VOCABULARY = 53
SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 44}
TOKENS = torch.randint(3, VOCABULARY, (4, 9), generator=torch.Generator().manual_seed(0))
PIXELS = torch.zeros(4, 3, 16, 16)


def of_transformers(model: str, config: str, **settings: Any) -> Any:
    transformers = pytest.importorskip("transformers")
    return getattr(transformers, model)(getattr(transformers, config)(**settings))


class Block(nn.Module):
    """A gate and what it opens, and a way round them; odd ones do something else with the same layers."""

    def __init__(self, inner: int, odd: str = "") -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.gate, self.up, self.down = nn.Linear(6, inner), nn.Linear(6, inner), nn.Linear(inner, 6)
        self.odd = odd

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        if self.odd == "reads the norm":
            y = y + self.norm.running_mean
        wide = torch.sigmoid(self.gate(y)) * self.up(y)
        if self.odd == "wants its width" and wide.shape[-1] != self.down.in_features:
            raise ValueError("this block wants what it had")
        if self.odd == "holds":
            self.held = wide
        return x + self.down(wide)


class Blocks(nn.Module):
    """Blocks one behind the other."""

    def __init__(self, *blocks: Block) -> None:
        super().__init__()
        self.stem = nn.Linear(6, 6)
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(6, 300)  # so that what a block draws anew is little of the whole

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        for block in self.blocks:
            if hasattr(block, "held"):
                x = x + block.held.sum(-1, keepdim=True).expand(x.shape) * torch.ones(8).expand(block.held.shape).sum()
        return self.head(x)


class Bottleneck(nn.Module):
    """As in a ResNet."""

    def __init__(self, n_in: int, n_out: int, inner: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(n_in, inner, 1), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, padding=1), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, n_out, 1), nn.BatchNorm2d(n_out)
        self.relu = nn.ReLU()
        self.downsample = nn.Conv2d(n_in, n_out, 1) if n_in != n_out else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


def resnet() -> nn.Module:
    first = [Bottleneck(3, 24, 8), Bottleneck(24, 24, 8), Bottleneck(24, 24, 8)]
    second = [Bottleneck(24, 36, 12), Bottleneck(36, 36, 12), Bottleneck(36, 36, 10)]
    return nn.Sequential(*first, *second, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(36, 5))


def of_blocks(*odd: str, inner: tuple[int, ...] = (8, 8, 8, 8), tied: bool = False) -> nn.Module:
    model = Blocks(*(Block(n, which) for n, which in zip(inner, odd or ("",) * len(inner), strict=True)))
    if tied:
        model.blocks[1].up.weight = model.blocks[2].up.weight  # type: ignore[union-attr]
    return model


ROWS = torch.zeros(4, 6)
MODELS: dict[str, tuple[Callable[[], nn.Module], Any]] = {
    "bert": (functools.partial(of_transformers, "BertModel", "BertConfig", vocab_size=VOCABULARY, **SIZES), TOKENS),
    "llama": (
        functools.partial(of_transformers, "LlamaForCausalLM", "LlamaConfig", vocab_size=VOCABULARY, **SIZES),
        {"input_ids": TOKENS},
    ),
    "vit": (
        functools.partial(of_transformers, "ViTModel", "ViTConfig", image_size=16, patch_size=8, **SIZES),
        {"pixel_values": PIXELS},
    ),
    "t5": (
        functools.partial(
            of_transformers,
            "T5EncoderModel",
            "T5Config",
            vocab_size=VOCABULARY,
            d_model=24,
            d_kv=8,
            d_ff=44,
            num_layers=2,
            num_heads=3,
            feed_forward_proj="gated-gelu",
        ),
        {"input_ids": TOKENS},
    ),
    "resnet of unequal blocks": (resnet, PIXELS),
    "one block is wider": (functools.partial(of_blocks, inner=(8, 8, 10, 8)), ROWS),
    "one block reads a buffer": (functools.partial(of_blocks, "", "", "reads the norm", ""), ROWS),
    "one block wants its width": (functools.partial(of_blocks, "", "", "wants its width", ""), ROWS),
    "what is inside of one is read": (functools.partial(of_blocks, "", "", "holds", ""), ROWS),
    "weights are tied": (functools.partial(of_blocks, tied=True), ROWS),
}


def targets(model: nn.Module) -> Iterator[Target]:
    """All modules, and some parts of all layers."""
    for path, module in model.named_modules():
        if path:
            yield Whole(path)
        if isinstance(module, nn.Linear | nn.Conv2d):
            yield Part(path, "units" if isinstance(module, nn.Linear) else "filters", (0, 2))
        if hasattr(module, "q_proj") or hasattr(module, "query"):
            yield Part(path, "heads", (1,))


def outcome(planner: Planner, target: Target) -> Any:
    try:
        return planner.plan(Layers((target,)))
    except RemovalRefused as refused:
        return refused.code, str(refused)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.thorough
def test_what_is_known_of_one_block_gives_no_other_plan_for_the_next(name: str) -> None:
    build, example = MODELS[name]
    model = build()
    runs = Runs(model, *arguments(example))
    planner = Planner(model, example, runs)
    for target in targets(model):
        assert outcome(planner, target) == outcome(Planner(model, example, runs), target)


@pytest.mark.parametrize("name", ["one block wants its width", "what is inside of one is read", "weights are tied"])
def test_the_last_block_first_gives_no_other_plan_either(name: str) -> None:
    build, example = MODELS[name]
    model = build()
    runs = Runs(model, *arguments(example))
    planner = Planner(model, example, runs)
    for target in reversed(list(targets(model))):
        if isinstance(target, Whole):
            assert outcome(planner, target) == outcome(Planner(model, example, runs), target)


class Counted(Runs):
    """Counts how often a copy is run to see what fits."""

    count = 0

    def run(self, *, train: bool) -> Any:
        self.count += 1
        return super().run(train=train)


@pytest.mark.parametrize(
    ("name", "path"),
    [("llama", "model.layers.{}.mlp.gate_proj"), ("one block is wider", "blocks.{}.gate")],
)
def test_a_width_that_one_block_takes_is_not_looked_for_again(name: str, path: str) -> None:
    build, example = MODELS[name]
    model = build()
    runs = Counted(model, *arguments(example))
    planner = Planner(model, example, runs)
    for which in range(2):
        planner.plan(Layers((Whole(path.format(which)),)))
        seen, runs.count = runs.count, 0
        assert (seen > 0) == (which == 0)


def test_a_block_that_is_wider_is_like_no_other() -> None:
    model = of_blocks(inner=(8, 8, 10, 8))
    alike = Repeats(Runs(model, (ROWS,), {}))
    assert alike.kind("blocks.0") == alike.kind("blocks.1") == alike.kind("blocks.3") != alike.kind("blocks.2")
    assert alike.kind("blocks.2") is not None


@pytest.mark.parametrize("name", ["weights are tied", "one block reads a buffer"])
def test_a_layer_that_others_look_into_stands_for_none(name: str) -> None:
    build, example = MODELS[name]
    alike = Repeats(Runs(build(), *arguments(example)))
    assert alike.kind("blocks.2.up" if "tied" in name else "blocks.2.norm") is None


def test_blocks_with_hooks_or_other_settings_are_not_alike() -> None:
    model: Any = of_blocks()
    model.blocks[1].register_forward_hook(lambda module, args, result: None)
    model.blocks[2].scale = 2
    alike = Repeats(Runs(model, (ROWS,), {}))
    assert alike.kind("blocks.1") is None
    assert alike.kind("blocks.0") == alike.kind("blocks.3") != alike.kind("blocks.2")


def test_the_number_of_a_block_sets_it_apart_from_none() -> None:
    model: Any = of_blocks()
    for which, block in enumerate(model.blocks):
        block.layer_idx = which
    model.blocks[3].layer_idx = 0
    alike = Repeats(Runs(model, (ROWS,), {}))
    assert alike.kind("blocks.0") == alike.kind("blocks.2") != alike.kind("blocks.3")
