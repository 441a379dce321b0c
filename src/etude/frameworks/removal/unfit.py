"""Models that cannot be changed as they are: wrapped, compiled, quantised. Each is refused with the mend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import is_lazy

from etude.core.errors import RefusalCode, RemovalRefused
from etude.frameworks.removal.nested import tensors
from etude.frameworks.removal.unrun import unrun

WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "module",
    "OptimizedModule": "_orig_mod",
}
"""Classes that hold a model, by their names -> where."""


def refuse_unfit(model: nn.Module, example: Any) -> None:
    """Refuse a model that cannot be changed as it is.

    Args:
        model: The model.
        example: What it is called with. For a model on the meta device it has to be there too.

    Raises:
        RemovalRefused: With what to do first.
    """
    for path, module in model.named_modules():
        for why, mend in (*_covers(module), *_weights(module)):
            raise RemovalRefused(RefusalCode.UNTRACEABLE, path or "the model", f"{why}. {mend}")
    held = (*model.named_parameters(), *model.named_buffers())
    away = [name for name, t in held if t.device.type == "meta" and not isinstance(t, FakeTensor)]
    if away and not any(t.device.type == "meta" for _, t in tensors(example)):
        raise RemovalRefused(
            RefusalCode.UNTRACEABLE,
            "the model",
            f"{away[0]} is on the meta device, and the example is not. Build the model on the CPU; or pass an example "
            "that is on the meta device, too: then the model is changed, and nothing is computed or checked.",
        )


def _covers(module: nn.Module) -> Iterator[tuple[str, str]]:
    """Go through what a model is hidden by, with what is to be done about it."""
    kind = type(module)
    name = kind.__name__
    if name in WRAPPERS and kind.__module__.startswith("torch."):
        what = "it is compiled" if name == "OptimizedModule" else f"it is wrapped in {name}"
        done = "compile" if name == "OptimizedModule" else "wrap"
        yield what, f"Take the component out of its .{WRAPPERS[name]}, and {done} it afterwards."
    if getattr(module, "_compiled_call_impl", None) is not None:
        yield "it is compiled", "Take the component out first, and call .compile() afterwards."
    if isinstance(module, torch.jit.ScriptModule):
        yield "it is a script of torch.jit", "Take the component out of the module that it was made of."
    if any(base.__name__ == "FSDPModule" for base in kind.__mro__):
        yield "it is sharded by fully_shard", "Take the component out first, and shard it afterwards."
    if "quantized" in kind.__module__.split(".") or kind.__module__.startswith("bitsandbytes"):
        yield f"a {name} is quantised", "Take the component out first, and quantise the model afterwards."


def _weights(module: nn.Module) -> Iterator[tuple[str, str]]:
    """Go through what is odd about the weights of a layer, with what is to be done about it."""
    name = type(module).__name__
    for hook in module._forward_pre_hooks.values():
        if type(hook).__name__ in ("WeightNorm", "SpectralNorm") and type(hook).__module__.startswith("torch.nn.utils"):
            old = "weight_norm" if type(hook).__name__ == "WeightNorm" else "spectral_norm"
            mend = f"Use torch.nn.utils.parametrizations.{old} instead, or torch.nn.utils.remove_{old} before."
            yield f"torch.nn.utils.{old} makes its weight by a hook, and no copy can be made of it", mend
    held = (*module._parameters.values(), *module._buffers.values())
    for tensor in (t for t in held if t is not None):
        if is_lazy(tensor):
            yield f"a {name} has no sizes yet", "Call the model once with an example before."


def materialised(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Let lazy layers take their sizes from an example; return whether there were any.

    They draw their weights from torch's generator, as they do when the model is called for the first time.

    Raises:
        RemovalRefused: The model does not run with the example.
    """
    if not any(is_lazy(t) for t in (*model.parameters(), *model.buffers())):
        return False
    training = {module: module.training for module in model.modules()}
    try:
        with torch.no_grad():
            model.eval()(*args, **kwargs)
    except Exception as broken:
        raise unrun(broken, (args, kwargs)) from broken
    finally:
        for module, was in training.items():
            module.training = was
    return True
