# ruff: noqa: D102 - what `forward` does, its class says
"""Small models, each with a part, and the model as a person would write it without that part.

A twin is a formula over the weights of the repaired model, by their names in it. So it says two things: what is
computed, and which weights compute it. It is written down from the ladder of repairs as it is documented, for rungs
2 to 5; it holds in float64 up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import BATCH, SEED
from benchmarks.zoo.oracles import Repaired, state
from benchmarks.zoo.removers import Refused, Remover

Weights = Mapping[str, Tensor]
ROUNDING: Final = 1e-10


@dataclass(frozen=True)
class Twin:
    """A part of a small model, and the model without it.

    Attributes:
        name: What it is called.
        rung: Where the ladder has its repair.
        make: Makes the model.
        part: What is taken out.
        inputs: Makes inputs.
        without: The model without the part, from weights by name.
        columns: For a weight that lost some of its inputs, which of its former inputs it keeps.
    """

    name: str
    rung: int
    make: Callable[[], nn.Module]
    part: str
    inputs: Callable[[], tuple[Tensor, ...]]
    without: Callable[..., Tensor]
    columns: Mapping[str, Any] | None = None


class Net(nn.Module):
    """Submodules by name, and a function that calls them."""

    def __init__(self, forward: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)
        self._run = forward

    def forward(self, *inputs: Any) -> Any:
        return self._run(self, *inputs)


class Attention(nn.Module):
    """Self-attention with one head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out(F.scaled_dot_product_attention(q, k, v))


class Excite(nn.Module):
    """A number between 0 and 1 for each channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, 5), nn.Linear(5, width)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3))))))[:, :, None, None]


class Grow(nn.Module):
    """What comes in, and some channels more."""

    def __init__(self, width: int, more: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, more, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.conv(x)], 1)


def linear(p: Weights, name: str, x: Tensor) -> Tensor:
    return F.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))


def conv(p: Weights, name: str, x: Tensor, **how: Any) -> Tensor:
    return F.conv2d(x, p[f"{name}.weight"], p.get(f"{name}.bias"), **{"padding": 1, **how})


def norm(p: Weights, name: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, p[f"{name}.weight"].shape, p[f"{name}.weight"], p[f"{name}.bias"])


def batch_norm(p: Weights, name: str, x: Tensor) -> Tensor:
    return F.batch_norm(x, p[f"{name}.running_mean"], p[f"{name}.running_var"], p[f"{name}.weight"], p[f"{name}.bias"])


def numbers(*shape: int) -> Callable[[], tuple[Tensor, ...]]:
    return lambda: (torch.randn(BATCH, *shape, dtype=torch.float64),)


def some_words() -> tuple[Tensor, ...]:
    return (torch.randint(0, 30, (BATCH, 11)),)


def mlp(width: int, middle: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, middle), nn.GELU(), nn.Linear(middle, width))


def stem_head(forward: Callable[..., Any], **modules: nn.Module) -> Callable[[], nn.Module]:
    """Return a maker of a net that begins with a wide dense layer: what is rebuilt behind it is a small share."""
    return lambda: Net(forward, stem=nn.Linear(40, 12), **modules, head=nn.Linear(12, 4))


def lstm(p: Weights, name: str, x: Tensor) -> Tensor:
    """Write out an LSTM, step by step."""
    width = p[f"{name}.weight_hh_l0"].shape[1]
    hidden = cell = x.new_zeros(x.shape[0], width)
    given = []
    for step in x.unbind(1):
        gates = F.linear(step, p[f"{name}.weight_ih_l0"], p[f"{name}.bias_ih_l0"])
        gates = gates + F.linear(hidden, p[f"{name}.weight_hh_l0"], p[f"{name}.bias_hh_l0"])
        enter, forget, new, leave = gates.chunk(4, 1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
        hidden = leave.sigmoid() * cell.tanh()
        given.append(hidden)
    return torch.stack(given, 1)


TWINS: Final = (
    Twin("skip round an MLP", 2,
         stem_head(lambda m, x: m.head((y := m.stem(x)) + m.body(m.norm(y))), norm=nn.LayerNorm(12), body=mlp(12, 20)),
         "body", numbers(40), lambda p, x: linear(p, "head", linear(p, "stem", x))),
    Twin("skip round attention", 2,
         stem_head(lambda m, x: m.head((y := m.stem(x)) + m.attn(m.norm(y))), norm=nn.LayerNorm(12),
                   attn=Attention(12)),
         "attn", numbers(7, 40), lambda p, x: linear(p, "head", linear(p, "stem", x))),
    Twin("norm behind a skip", 2,
         stem_head(lambda m, x: m.head(m.norm((y := m.stem(x)) + m.body(y))), norm=nn.LayerNorm(12), body=mlp(12, 20)),
         "body", numbers(40), lambda p, x: linear(p, "head", norm(p, "norm", linear(p, "stem", x)))),
    Twin("skip with a scale and dropout", 2,
         stem_head(lambda m, x: m.head((y := m.stem(x)) + 0.5 * m.drop(m.body(m.norm(y)))), norm=nn.LayerNorm(12),
                   drop=nn.Dropout(0.2), body=mlp(12, 20)),
         "body", numbers(40), lambda p, x: linear(p, "head", linear(p, "stem", x))),
    Twin("a residual function of convolutions", 2,
         lambda: Net(lambda m, x: m.out(F.relu((y := m.conv(x)) + m.body(y))), conv=nn.Conv2d(2, 8, 3, padding=1),
                     body=nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                                        nn.Conv2d(8, 8, 3, padding=1)), out=nn.Conv2d(8, 4, 3, padding=1)),
         "body", numbers(2, 9, 9), lambda p, x: conv(p, "out", F.relu(conv(p, "conv", x)))),
    Twin("second of two skips", 2,
         stem_head(lambda m, x: m.head((z := (y := m.stem(x)) + m.one(y)) + m.two(m.norm(z))), norm=nn.LayerNorm(12),
                   one=nn.Linear(12, 12), two=mlp(12, 20)),
         "two", numbers(40),
         lambda p, x: linear(p, "head", (y := linear(p, "stem", x)) + linear(p, "one", y))),
    Twin("channels that are excited", 2,
         lambda: Net(lambda m, x: m.out((y := F.relu(m.conv(x))) * m.se(y)), conv=nn.Conv2d(2, 8, 3, padding=1),
                     se=Excite(8), out=nn.Conv2d(8, 4, 3, padding=1)),
         "se", numbers(2, 9, 9), lambda p, x: conv(p, "out", F.relu(conv(p, "conv", x)))),
    Twin("a gate", 2,
         stem_head(lambda m, x: m.head(m.value(y := m.stem(x)) * m.gate(y[..., :9])), value=nn.Linear(12, 12),
                   gate=nn.Sequential(nn.Linear(9, 12), nn.Sigmoid())),
         "gate", numbers(40), lambda p, x: linear(p, "head", linear(p, "value", linear(p, "stem", x)))),
    Twin("positions", 2,
         lambda: Net(lambda m, x: m.head(m.norm(m.words(x) + m.positions(torch.arange(x.shape[1])))),
                     words=nn.Embedding(30, 12), positions=nn.Embedding(20, 12), norm=nn.LayerNorm(12),
                     head=nn.Linear(12, 4)),
         "positions", some_words, lambda p, x: linear(p, "head", norm(p, "norm", p["words.weight"][x]))),
    Twin("types", 2,
         lambda: Net(lambda m, x: m.head(m.words(x) + m.types(torch.zeros_like(x))), words=nn.Embedding(30, 12),
                     types=nn.Embedding(2, 12), head=nn.Linear(12, 4)),
         "types", some_words, lambda p, x: linear(p, "head", p["words.weight"][x])),
    Twin("one of two summands", 2,
         lambda: Net(lambda m, x: m.head(F.relu(m.one(x) + m.two(x))), one=nn.Linear(9, 12), two=nn.Linear(9, 12),
                     head=nn.Linear(12, 4)),
         "one", numbers(9), lambda p, x: linear(p, "head", F.relu(linear(p, "two", x)))),
    Twin("the projection on a skip", 2,
         lambda: Net(lambda m, x: m.out(F.relu(m.conv(x) + m.short(x))), conv=nn.Conv2d(2, 8, 3, padding=1),
                     short=nn.Conv2d(2, 8, 1), out=nn.Conv2d(8, 4, 3, padding=1)),
         "short", numbers(2, 9, 9), lambda p, x: conv(p, "out", F.relu(conv(p, "conv", x)))),
    Twin("one of three branches side by side", 3,
         lambda: Net(lambda m, x: m.head(torch.cat([m.one(y := m.stem(x)), m.two(y), m.three(y)], -1)),
                     stem=nn.Linear(40, 12), one=nn.Linear(12, 5), two=nn.Linear(12, 6), three=nn.Linear(12, 4),
                     head=nn.Linear(15, 3)),
         "two", numbers(40),
         lambda p, x: linear(
             p, "head", torch.cat([linear(p, "one", y := linear(p, "stem", x)), linear(p, "three", y)], -1)),
         {"head.weight": [0, 1, 2, 3, 4, 11, 12, 13, 14]}),
    Twin("a layer in a chain", 3,
         lambda: Net(lambda m, x: m.three(F.relu(m.two(F.relu(m.one(x))))), one=nn.Linear(40, 12), two=nn.Linear(12, 9),
                     three=nn.Linear(9, 4)),
         "two", numbers(40), lambda p, x: linear(p, "three", F.relu(linear(p, "one", x)))),
    Twin("a convolution in a chain", 3,
         lambda: Net(lambda m, x: m.head(F.relu(m.three(F.relu(m.two(F.relu(m.one(x)))))).flatten(1)),
                     one=nn.Conv2d(2, 6, 3, padding=1), two=nn.Conv2d(6, 10, 3, padding=1),
                     three=nn.Conv2d(10, 4, 3, padding=1), head=nn.Linear(4 * 81, 6)),
         "two", numbers(2, 9, 9),
         lambda p, x: linear(p, "head", F.relu(conv(p, "three", F.relu(conv(p, "one", x)))).flatten(1))),
    Twin("a convolution before a norm", 3,
         lambda: Net(lambda m, x: m.head(F.relu(m.three(F.relu(m.norm(m.two(m.one(x)))))).flatten(1)),
                     one=nn.Conv2d(2, 6, 3, padding=1), two=nn.Conv2d(6, 10, 3, padding=1), norm=nn.BatchNorm2d(10),
                     three=nn.Conv2d(10, 4, 3, padding=1), head=nn.Linear(4 * 81, 6)),
         "two", numbers(2, 9, 9),
         lambda p, x: linear(
             p, "head", F.relu(conv(p, "three", F.relu(batch_norm(p, "norm", conv(p, "one", x))))).flatten(1))),
    Twin("what reads is an LSTM", 3,
         lambda: Net(lambda m, x: m.head(m.lstm(m.wider(m.words(x)))[0]), words=nn.Embedding(200, 8),
                     wider=nn.Linear(8, 14), lstm=nn.LSTM(14, 5, batch_first=True), head=nn.Linear(5, 4)),
         "wider", some_words, lambda p, x: linear(p, "head", lstm(p, "lstm", p["words.weight"][x]))),
    Twin("the first layer", 3,
         lambda: Net(lambda m, x: m.head(F.relu(m.two(F.relu(m.one(x))))), one=nn.Linear(5, 9), two=nn.Linear(9, 12),
                     head=mlp(12, 40)),
         "one", numbers(5),
         lambda p, x: linear(p, "head.2", F.gelu(linear(p, "head.0", F.relu(linear(p, "two", F.relu(x))))))),
    Twin("a layer that puts channels beside what it reads", 3,
         lambda: Net(lambda m, x: m.head(m.three(m.grow(m.one(x))).flatten(1)), one=nn.Conv2d(2, 6, 3, padding=1),
                     grow=Grow(6, 5), three=nn.Conv2d(11, 4, 3, padding=1), head=nn.Linear(4 * 81, 6)),
         "grow", numbers(2, 9, 9), lambda p, x: linear(p, "head", conv(p, "three", conv(p, "one", x)).flatten(1))),
    Twin("a width that channel-wise convolutions pass on", 4,
         lambda: Net(lambda m, x: m.head(m.narrow(F.relu(m.each(m.widen(m.one(x))))).flatten(1)),
                     one=nn.Conv2d(2, 6, 3, padding=1), widen=nn.Conv2d(6, 10, 1),
                     each=nn.Conv2d(10, 10, 3, padding=1, groups=10), narrow=nn.Conv2d(10, 4, 1),
                     head=nn.Linear(4 * 81, 6)),
         "widen", numbers(2, 9, 9),
         lambda p, x: linear(
             p, "head",
             conv(p, "narrow", F.relu(conv(p, "each", conv(p, "one", x), groups=6)), padding=0).flatten(1))),
    Twin("a width that a sum couples", 4,
         lambda: Net(lambda m, x: m.head((z := m.wider(m.stem(x))) + m.body(z)), stem=nn.Linear(90, 10),
                     wider=nn.Linear(10, 12), body=nn.Linear(12, 12), head=nn.Linear(12, 3)),
         "wider", numbers(90),
         lambda p, x: linear(p, "head", (y := linear(p, "stem", x)) + linear(p, "body", y))),
    Twin("a width that a product couples", 4,
         lambda: Net(lambda m, x: m.head(F.silu(m.gate(z := m.wider(m.stem(x)))) * z), stem=nn.Linear(90, 10),
                     wider=nn.Linear(10, 12), gate=nn.Linear(12, 12), head=nn.Linear(12, 3)),
         "wider", numbers(90),
         lambda p, x: linear(p, "head", F.silu(linear(p, "gate", y := linear(p, "stem", x))) * y)),
    Twin("a width of words that positions are added to", 4,
         lambda: Net(lambda m, x: m.head(m.wider(m.words(x)) + m.positions(torch.arange(x.shape[1]))),
                     words=nn.Embedding(200, 8), wider=nn.Linear(8, 12), positions=nn.Embedding(14, 12),
                     head=nn.Linear(12, 4)),
         "wider", some_words, lambda p, x: linear(p, "head", p["words.weight"][x] + p["positions.weight"][:11])),
    Twin("channels that a skip with a norm couples", 4,
         lambda: Net(lambda m, x: m.head(m.out((z := m.wider(m.one(x))) + m.body(F.relu(m.norm(z)))).flatten(1)),
                     one=nn.Conv2d(2, 6, 3, padding=1), wider=nn.Conv2d(6, 10, 1), norm=nn.BatchNorm2d(10),
                     body=nn.Conv2d(10, 10, 1), out=nn.Conv2d(10, 4, 3, padding=1), head=nn.Linear(4 * 81, 6)),
         "wider", numbers(2, 9, 9),
         lambda p, x: linear(p, "head", conv(p, "out", (y := conv(p, "one", x)) + conv(
             p, "body", F.relu(batch_norm(p, "norm", y)), padding=0)).flatten(1))),
    Twin("two summands side by side that read it", 4,
         lambda: Net(lambda m, x: m.head(F.relu(z := m.wider(m.stem(x))) + m.one(z) + m.two(z)),
                     stem=nn.Linear(120, 10), wider=nn.Linear(10, 7), one=nn.Linear(7, 7),
                     two=nn.Linear(7, 7, bias=False), head=nn.Linear(7, 3)),
         "wider", numbers(120),
         lambda p, x: linear(
             p, "head", F.relu(y := linear(p, "stem", x)) + linear(p, "one", y) + linear(p, "two", y))),
    Twin("a stride before a flattening", 5,
         lambda: Net(lambda m, x: m.head(m.smaller(F.relu(m.conv(x))).flatten(1)), conv=nn.Conv2d(2, 6, 3, padding=1),
                     smaller=nn.Conv2d(6, 6, 2, stride=2), head=nn.Linear(6 * 16, 7)),
         "smaller", numbers(2, 8, 8),
         lambda p, x: linear(p, "head", F.adaptive_avg_pool2d(F.relu(conv(p, "conv", x)), 4).flatten(1))),
    Twin("a stride in time", 5,
         lambda: Net(lambda m, x: m.head(m.smaller(F.relu(m.conv(x))).flatten(1)), conv=nn.Conv1d(2, 6, 3, padding=1),
                     smaller=nn.Conv1d(6, 6, 2, stride=2), head=nn.Linear(6 * 9, 7)),
         "smaller", numbers(2, 18),
         lambda p, x: linear(p, "head", F.adaptive_avg_pool1d(
             F.relu(F.conv1d(x, p["conv.weight"], p["conv.bias"], padding=1)), 9).flatten(1))),
    Twin("the head", 5,
         lambda: Net(lambda m, x: m.head(F.relu(m.stem(x))), stem=nn.Linear(9, 12), head=nn.Linear(12, 4)),
         "head", numbers(9), lambda p, x: F.adaptive_avg_pool1d(F.relu(linear(p, "stem", x)), 4)),
    Twin("a pool before a flattening", 5,
         lambda: Net(lambda m, x: m.head(m.pool(F.relu(m.conv(x))).flatten(1)), conv=nn.Conv2d(2, 6, 3, padding=1),
                     pool=nn.MaxPool2d(2), head=nn.Linear(6 * 16, 7)),
         "pool", numbers(2, 8, 8),
         lambda p, x: linear(p, "head", F.adaptive_avg_pool2d(F.relu(conv(p, "conv", x)), 4).flatten(1))),
    Twin("a picture that is made larger", 5,
         lambda: Net(lambda m, x: m.head(m.larger(F.relu(m.conv(x))).flatten(1)), conv=nn.Conv2d(2, 6, 3, padding=1),
                     larger=nn.ConvTranspose2d(6, 6, 2, 2), head=nn.Linear(6 * 64, 7)),
         "larger", numbers(2, 4, 4),
         lambda p, x: linear(p, "head", F.interpolate(F.relu(conv(p, "conv", x)), scale_factor=2).flatten(1))),
    Twin("a narrowing before most of the weights", 5,
         lambda: Net(lambda m, x: m.head(F.relu(m.narrow(m.stem(x)))), stem=nn.Linear(7, 12), narrow=nn.Linear(12, 6),
                     head=nn.Linear(6, 50)),
         "narrow", numbers(7),
         lambda p, x: linear(p, "head", F.relu(F.adaptive_avg_pool1d(linear(p, "stem", x), 6)))),
)  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """How a repaired model compares with its twin.

    Attributes:
        name: The twin's.
        outcome: ``equal``, ``differs``, ``deeper`` (another repair, honestly on a deeper rung) or ``refused``.
        rung: Where the remover found its repair; 0 if it refused.
        wanted: Where the ladder has it.
        told: What differs, or why it was refused.
    """

    name: str
    outcome: str
    rung: int
    wanted: int
    told: str = ""


def build(twin: Twin) -> nn.Module:
    """Return a twin's whole model in float64."""
    torch.manual_seed(SEED)
    model = twin.make().double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if "running" in name:
                buffer.mul_(1.5).add_(0.2 * torch.rand_like(buffer))
    return model


def compare(twin: Twin, remove: Remover) -> Compared:
    """Take a twin's part out, and compare what is left with the model that a person wrote without it."""
    torch.manual_seed(SEED + 1)
    inputs = twin.inputs()
    before = state(build(twin))
    try:
        repaired, rung = remove(build(twin), twin.part, inputs)
    except Refused as refusal:
        return Compared(twin.name, "refused", 0, twin.rung, f"{refusal.code}: {refusal}")
    except Exception as error:
        return Compared(twin.name, "refused", 0, twin.rung, f"{type(error).__name__}: {error}")
    told = differing(twin, repaired, inputs, before)
    outcome = "equal" if not told else "deeper" if rung > twin.rung else "differs"
    return Compared(twin.name, outcome, rung, twin.rung, told)


def differing(twin: Twin, repaired: Repaired, inputs: tuple[Tensor, ...], before: Weights) -> str:
    """Return what differs between a repaired model and its twin; empty if nothing does."""
    with torch.no_grad():
        after = state(repaired.model)
        try:
            found = repaired.model.eval()(*inputs)
            wanted = twin.without(after, *inputs)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:200]}; {'; '.join(repaired.changes)}"
    if found.shape != wanted.shape or not bool((found - wanted).abs().max() <= ROUNDING * (1 + wanted.abs().max())):
        return f"other numbers; {'; '.join(repaired.changes)}"
    for name, columns in (twin.columns or {}).items():
        if not torch.equal(after[name], before[name][:, columns]):
            return f"{name} does not keep its columns {columns}"
    return ""
