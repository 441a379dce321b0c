"""Layers and blocks of families of keras.applications, taken out with ``etude.remove`` and judged by other means.

    KERAS_BACKEND=torch python -m benchmarks.zoo.keras_families --only VGG16,ResNet50 --each 6

The judges share no code with the remover. Accepted with a fault is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.common import commit, machine

SIZES: Final = {
    "VGG16": 32, "MobileNetV2": 32, "ResNet50": 32, "EfficientNetB0": 32, "DenseNet121": 32, "Xception": 75,
    "InceptionV3": 75, "ConvNeXtTiny": 32,
}  # fmt: skip
"""The families, and how large their pictures are."""

EACH: Final = 12
SPAN: Final = 3
"""A block ends at most so many waists behind its beginning."""


@dataclass
class Tally:
    """What became of one family's pairs.

    Attributes:
        layers: How many are single layers.
        blocks: How many are blocks.
        rungs: Accepted ones, by rung.
        refused: Refused ones, by code.
        why: What was said of them.
        wrong: Accepted ones with a fault, and which.
        exact: How many were accepted after their re-execution.
        took_s: How long that was.
    """

    layers: int = 0
    blocks: int = 0
    rungs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    why: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    exact: int = 0
    took_s: float = 0.0


def build(family: str) -> Any:
    """Return a model with random weights, the same ones each time."""
    import keras

    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    size = SIZES[family]
    model = getattr(keras.applications, family)(weights=None, input_shape=(size, size, 3), classes=10)
    rng = random.Random(2)
    for variable in model.variables:  # else scales are one and shifts zero, and a fault in them goes unseen
        if variable.name in ("gamma", "beta", "moving_mean", "bias"):
            variable.assign(variable.value + 0.1 * rng.uniform(-1, 1))
    return model


def pictures(family: str, count: int) -> Any:
    """Return so many examples."""
    import numpy as np

    size = SIZES[family]
    return np.random.default_rng(count).uniform(0, 255, (count, size, size, 3)).astype("float32") / (
        1 if family.startswith(("Efficient", "ConvNeXt")) else 255
    )


def components(model: Any, each: int, seed: str) -> list[str]:
    """Return layers and blocks to take out, drawn; the data and the head are left."""
    draw = random.Random(seed)
    layers = [layer.name for layer in model.layers if type(layer).__name__ != "InputLayer"][:-1]
    waists = [name for name in waists_of(model) if name != model.layers[-1].name]
    spans = []
    names = [layer.name for layer in model.layers]
    for first, last in (
        (waists[n], waists[m]) for n in range(len(waists)) for m in range(n + 1, min(n + 1 + SPAN, len(waists)))
    ):
        if names.index(last) - names.index(first) > 1:
            spans.append(f"between:{first}..{last}")
    mixed = [name for name in names if re.fullmatch(r"mixed\d+", name)]  # the blocks of Inception, as in the paper
    spans += [f"between:{first}..{last}" for n, first in enumerate(mixed) for last in mixed[n + 1 :]]
    spans = list(dict.fromkeys(spans))
    taken = [f"layer:{name}" for name in draw.sample(layers, min(each, len(layers)))]
    return [*taken, *draw.sample(spans, min(each, len(spans)))]


def waists_of(model: Any) -> list[str]:
    """Return the layers past which nothing leads: a block is what lies between two of them."""
    order = {layer.name: n for n, layer in enumerate(model.layers)}
    last = dict.fromkeys(order, 0)
    for layer in model.layers:
        for node in layer._inbound_nodes:
            for parent in node.parent_nodes:
                last[parent.operation.name] = max(last.get(parent.operation.name, 0), order[layer.name])
    found, reach = [], 0
    for layer in model.layers:
        if reach <= order[layer.name] and type(layer).__name__ != "InputLayer":
            found.append(layer.name)
        reach = max(reach, last[layer.name])
    return found


# --- judges ---------------------------------------------------------------------------------------


def values(model: Any) -> dict[str, Any]:
    """Return the numbers of all weights, by their paths."""
    import keras

    return {v.path: keras.ops.convert_to_numpy(v.value).copy() for v in model.variables}


def results(model: Any, x: Any, *, training: bool = False) -> Any:
    import torch

    with torch.no_grad():
        return model(torch.as_tensor(x), training=training).numpy()


def reached(model: Any, x: Any) -> set[str]:
    """Return the weights that a gradient reaches in training, by their paths."""
    import torch

    kept = {v.path: v.value.detach().clone() for v in model.non_trainable_variables}
    for parameter in model.parameters():
        parameter.grad = None
    out = model(torch.as_tensor(x), training=True)
    (out * torch.linspace(0.3, 2.1, out.numel()).reshape(out.shape).cos()).sum().backward()
    found = {v.path for v in model.trainable_variables if v.value.grad is not None and bool(v.value.grad.abs().sum())}
    for v in model.non_trainable_variables:
        v.assign(kept[v.path])
    return found


def fault(family: str, model: Any, removed: Any, component: str, before: Mapping[str, Any], had: set[str]) -> str:
    """Return what is wrong with a repaired model; empty if nothing is found."""
    if component.startswith("layer:") and component.partition(":")[2] in {layer.name for layer in model.layers}:
        return "it is still there"
    said = in_weights(model, removed, before) or in_results(family, model)
    if said:
        return said
    missed = (had & {v.path for v in model.trainable_variables}) - reached(model, pictures(family, 4))
    if missed:
        return f"no gradient reaches {min(missed)}"
    return by_hand(family, model, component) if removed.rung.name == "IDENTITY" else ""


def in_weights(model: Any, removed: Any, before: Mapping[str, Any]) -> str:
    """Return which weight is not what it was, though nobody is told."""
    import numpy as np

    told, named = set(removed.plan.rebuilt), {said.partition(" ")[0] for said in removed.changes}
    for path, value in values(model).items():
        if path not in before:
            if not path.split("/")[0].endswith(("_fit", "_learned")):
                return f"{path} is new"
        elif before[path].shape != value.shape:
            if path.split("/")[0] not in named:
                return f"{path} has another shape, and nobody is told"
        elif path not in told and not np.array_equal(before[path], value):
            return f"{path} has other values"
    counted = sum(int(np.prod(v.shape)) for v in model.weights)
    return "" if counted == removed.plan.after else f"{counted} parameters, and {removed.plan.after} were said"


def in_results(family: str, model: Any) -> str:
    """Return what is wrong with results for several numbers of pictures, and of pictures side by side."""
    import numpy as np

    for count in (1, 3, 5):
        out = results(model, pictures(family, count))
        if out.shape != (count, 10) or not np.isfinite(out).all():
            return f"with {count} pictures its results are {out.shape}"
    other = pictures(family, 4)
    other[3] = 0
    apart = np.allclose(results(model, pictures(family, 4))[:3], results(model, other)[:3], atol=1e-5)
    return "" if apart else "pictures depend on each other"


def by_hand(family: str, repaired: Any, component: str) -> str:
    """Compare with an untouched model in which single layers give one of their inputs."""
    import numpy as np

    if not component.startswith("layer:"):
        return ""
    have = results(repaired, pictures(family, 4))
    model = build(family)
    layer = model.get_layer(component.partition(":")[2])
    given = layer._inbound_nodes[0].input_tensors
    hopes = []
    for n in range(len(given)):
        vars(layer)["call"] = lambda inputs, *_, n=n, **__: inputs[n] if isinstance(inputs, list | tuple) else inputs
        try:
            hopes.append(results(model, pictures(family, 4)))
        except Exception:  # that input does not fit
            continue
    if hopes and not any(np.allclose(one, have, rtol=1e-3, atol=1e-5) for one in hopes):
        return "its results are not those of a model in which the layer does nothing"
    return ""


# --- running --------------------------------------------------------------------------------------


def judge(family: str, each: int) -> Tally:
    """Take layers and blocks of a family out, each from a model of its own."""
    import etude
    from etude.core.errors import RemovalRefused

    found, began = Tally(), time.perf_counter()
    first = build(family)
    asked = components(first, each, family)
    had, names = reached(first, pictures(family, 4)), {layer.name for layer in first.layers}
    for component in asked:
        is_layer = component.startswith("layer:")
        found.layers, found.blocks = found.layers + is_layer, found.blocks + (not is_layer)
        model = build(family)
        before = values(model)
        try:
            removed = etude.remove(model, component, pictures(family, 4))
        except RemovalRefused as refusal:
            found.refused[refusal.code.value] += 1
            found.why[component] = str(refusal)
            said = "refused"
            left = values(model)
            if left.keys() != before.keys() or any((left[path] != before[path]).any() for path in before):
                found.wrong[component] = "refused, and the model is another one"
        else:
            found.rungs[removed.rung.name.lower()] += 1
            found.exact += any("re-execution" in check for check in removed.checks)
            said = fault(family, model, removed, component, before, had) or untold(names, model, removed, component)
            if said:
                found.wrong[component] = said
            said = said or removed.rung.name.lower()
        print(f"{family} {component}: {said}", file=sys.stderr, flush=True)
    found.took_s = time.perf_counter() - began
    return found


def untold(names: set[str], model: Any, removed: Any, component: str) -> str:
    """Say which layer went though it was not asked for, and nobody is told."""
    gone = names - {layer.name for layer in model.layers}
    said = " ".join(removed.changes)
    told = ("{} removed", "{} joins", "no longer reached: {}")
    missed = [name for name in sorted(gone) if not any(one.format(name) in said for one in told)]
    return f"{missed[0]} is gone, and nobody is told" if missed else ""


HEAD: Final = ("family", "layers", "blocks", "accepted", "by re-execution", "refused", "wrong", "seconds")


def rows(found: Mapping[str, Tally]) -> list[tuple[str, ...]]:
    """Return the table."""
    table: list[tuple[str, ...]] = []
    for family, tally in found.items():
        accepted = ", ".join(f"{count} {rung}" for rung, count in sorted(tally.rungs.items()))
        refused = ", ".join(f"{count} {code}" for code, count in sorted(tally.refused.items()))
        numbers = (str(tally.layers), str(tally.blocks), accepted, str(tally.exact), refused or "none")
        table.append((family, *numbers, str(len(tally.wrong)), f"{tally.took_s:.0f}"))
    return table


def main() -> None:
    """Run as a command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.zoo.keras_families",
        description="Layers of keras.applications, taken out and judged.",
    )
    parser.add_argument("--only", default="", help="families, with commas between them (default: all)")
    parser.add_argument("--each", type=int, default=EACH, help=f"so many layers and blocks (default: {EACH})")
    options = parser.parse_args()
    os.environ.setdefault("KERAS_BACKEND", "torch")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if os.environ["KERAS_BACKEND"] != "torch":
        parser.error("the judges are for Keras on torch: leave KERAS_BACKEND out")
    wanted = [family for family in SIZES if not options.only or family in options.only.split(",")]
    found = {family: judge(family, options.each) for family in wanted}
    table = [HEAD, *rows(found)]
    widths = [max(len(row[n]) for row in table) for n in range(len(HEAD))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    details = {name: vars(tally) for name, tally in found.items()}
    print(json.dumps({"benchmark": "keras_families", "commit": commit(), "machine": machine(), "details": details}))


if __name__ == "__main__":
    main()
