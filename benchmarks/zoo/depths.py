"""Models with a layer fewer by their own configuration: what taking a whole layer out has to equal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from benchmarks.zoo.families import FAMILIES
from benchmarks.zoo.family import Inputs
from benchmarks.zoo.oracles import run, saved, state
from benchmarks.zoo.removers import Refused, Remover
from benchmarks.zoo.twins import Compared
from benchmarks.zoo.values import floats


@dataclass(frozen=True)
class Depth:
    """A list of layers in a family's model, one of which goes.

    Attributes:
        family: The family's name.
        layers: Dotted path of the list.
        which: The layer that goes.
        sizes: What the configuration says where there is one layer fewer.
    """

    family: str
    layers: str
    which: int
    sizes: dict[str, Any]


FEWER: Final = {"num_hidden_layers": 2}
DEPTHS: Final = (
    Depth("transformer", "encoder.layers", 1, {"depth": 2}),
    Depth("mixer", "blocks", 1, {"depth": 2}),
    Depth("resnet", "layer1", 1, {"depths": (1, 2, 1)}),
    Depth("bert", "bert.encoder.layer", 1, FEWER),
    Depth("roberta", "roberta.encoder.layer", 0, FEWER),
    Depth("electra", "electra.encoder.layer", 2, FEWER),
    Depth("distilbert", "distilbert.transformer.layer", 1, {"n_layers": 2}),
    Depth("gpt2", "transformer.h", 1, {"n_layer": 2}),
    Depth("opt", "model.decoder.layers", 1, FEWER),
    Depth("gpt_neox", "gpt_neox.layers", 0, FEWER),
    Depth("llama", "model.layers", 1, FEWER),
    Depth("mistral", "model.layers", 2, FEWER),
    Depth("qwen2", "model.layers", 0, FEWER),
    Depth("gemma", "model.layers", 1, FEWER),
    Depth("t5", "encoder.block", 1, {"num_layers": 2, "num_decoder_layers": 3}),
    Depth("t5", "decoder.block", 2, {"num_decoder_layers": 2}),
    Depth("vit", "vit.layers", 1, FEWER),
    Depth("deit", "deit.layers", 0, FEWER),
    Depth("whisper", "model.encoder.layers", 1, {"encoder_layers": 1}),
    Depth("dinov2", "dinov2.encoder.layer", 1, FEWER),
    Depth("beit", "beit.layers", 1, FEWER),
)


def compare_depth(depth: Depth, remove: Remover) -> Compared:
    """Take a layer out, and compare with the model that never had it."""
    family = FAMILIES[depth.family]
    path = f"{depth.layers}.{depth.which}"
    name = f"{depth.family}: {path}"
    inputs = in_float64(family.example())
    try:
        repaired, rung = remove(family.build().double(), path, inputs)
    except Refused as refusal:
        return Compared(name, "refused", 0, 1, f"{refusal.code}: {refusal}")
    except Exception as error:
        return Compared(name, "refused", 0, 1, f"{type(error).__name__}: {error}")
    smaller = family.resize(**depth.sizes).double()
    told = load(smaller, repaired.model, depth)
    if not told:
        wanted = floats(run(smaller, inputs))
        try:
            found = floats(run(repaired.model, inputs))
        except Exception as error:
            return Compared(name, "differs", rung, 1, f"{type(error).__name__}: {error}")
        most = max(
            (float((found[where] - wanted[where]).abs().max()) for where in found.keys() & wanted.keys()), default=1
        )
        told = f"differs by {most:.3g}" if most > 1e-12 else ""
    return Compared(name, "differs" if told else "equal", rung, 1, told)


def load(smaller: nn.Module, repaired: nn.Module, depth: Depth) -> str:
    """Copy what is left into the smaller model, its later layers one place further up; return what does not fit."""

    def moved(match: re.Match[str]) -> str:
        number = int(match[2])
        return f"{match[1]}{number - (number > depth.which)}."

    into, found = state(smaller), {}
    for name, tensor in state(repaired).items():
        if name not in saved(repaired) and name not in into:
            continue  # a helper of the remover's: neither a weight nor saved
        found[re.sub(rf"^({re.escape(depth.layers)}\.)(\d+)\.", moved, name)] = tensor
    odd = sorted(into.keys() ^ found.keys()) + [
        n for n in into.keys() & found.keys() if into[n].shape != found[n].shape
    ]
    if odd:
        return f"does not fit the smaller model: {', '.join(odd[:4])}"
    with torch.no_grad():
        for name, tensor in into.items():
            tensor.copy_(found[name])
    return ""


def in_float64(inputs: Inputs) -> Inputs:
    """Return inputs in float64."""

    def wider(value: Any) -> Any:
        return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value

    if isinstance(inputs, dict):
        return {name: wider(value) for name, value in inputs.items()}
    return tuple(wider(value) for value in inputs)
