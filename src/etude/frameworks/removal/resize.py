"""Layers of another width: the table of what they have, and what is done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import nn

from etude.core.streams import stream_seed
from etude.frameworks.removal.edits import Resize

Side: TypeAlias = Literal["in", "out", "through", "hidden"]

CONVOLUTIONS: Final = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED: Final = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
BATCH_NORMS: Final = (nn.modules.batchnorm._NormBase,)
RECURRENT: Final = (nn.RNN, nn.LSTM, nn.GRU)
CELLS: Final = (nn.RNNCell, nn.LSTMCell, nn.GRUCell)


class Unresizable(Exception):  # noqa: N818 - the ladder goes on with the next rung
    """A layer cannot have this width."""


def depthwise(module: nn.Module) -> bool:
    """Say whether a convolution treats each channel by itself."""
    return isinstance(module, CONVOLUTIONS) and 1 < module.groups == module.in_channels == module.out_channels


def is_conv1d_of_transformers(module: nn.Module) -> bool:
    """Say whether it is the dense layer of GPT-2, whose weight lies the other way round."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf") and hasattr(module, "weight")


def is_norm(module: nn.Module) -> bool:
    """Say whether all that a module has are vectors of one length, one number a channel."""
    found = list(module.parameters(recurse=False))
    vectors = bool(found) and all(p.ndim == 1 and p.shape == found[0].shape for p in found)
    return vectors and not list(module.children()) and "norm" in type(module).__name__.lower()


def sides(module: nn.Module) -> dict[Side, int]:
    """Return the widths of a layer that can be changed; empty if it has none."""
    if hasattr(type(module), "stands_for"):  # of the class of a layer that is gone
        return {}
    layer: Any = module
    for kinds, found in _SIDES:
        if isinstance(module, kinds):
            widths: dict[Side, int] = found(layer)
            return widths
    if is_conv1d_of_transformers(module):
        return {"in": layer.weight.shape[0], "out": layer.weight.shape[1]}
    if is_norm(module):
        return {"through": next(module.parameters(recurse=False)).shape[0]}
    return {}


def _of_convolution(layer: Any) -> dict[Side, int]:
    if depthwise(layer):
        return {"through": layer.in_channels}
    return {"in": layer.in_channels, "out": layer.out_channels}


_SIDES: Final[tuple[tuple[tuple[type[nn.Module], ...], Callable[[Any], dict[Side, int]]], ...]] = (
    ((nn.Linear,), lambda layer: {"in": layer.in_features, "out": layer.out_features}),
    (CONVOLUTIONS + TRANSPOSED, _of_convolution),
    ((nn.Embedding, nn.EmbeddingBag), lambda layer: {"out": layer.embedding_dim}),
    (RECURRENT + CELLS, lambda layer: {"in": layer.input_size}),
    (BATCH_NORMS, lambda layer: {"through": layer.num_features}),
    ((nn.GroupNorm,), lambda layer: {"through": layer.num_channels}),
    ((nn.PReLU,), lambda layer: {"through": layer.num_parameters} if layer.num_parameters > 1 else {}),
    (
        (nn.LayerNorm, nn.RMSNorm),
        lambda layer: {"through": layer.normalized_shape[0]} if len(layer.normalized_shape) == 1 else {},
    ),
)
"""Kinds of layers -> their widths."""


def width_axis(module: nn.Module) -> int:
    """Return which axis of a layer's input and output has its channels."""
    spatial = (*CONVOLUTIONS, *TRANSPOSED, *BATCH_NORMS, nn.GroupNorm, nn.PReLU)
    return 1 if isinstance(module, spatial) else -1


def resized_tensors(module: nn.Module, edit: Resize) -> dict[str, int]:
    """Return which tensors of a layer have another size then -> along which axis."""
    side = edit.side
    if side == "hidden":
        return {name: 0 for name, _ in module.named_parameters(recurse=False)}
    if side == "out" and isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return {"weight": 1}
    if side == "through" and isinstance(module, CONVOLUTIONS):
        return {"weight": 0, "bias": 0}
    if isinstance(module, RECURRENT + CELLS):
        return {name: 1 for name in ("weight_ih", "weight_ih_l0", "weight_ih_l0_reverse") if hasattr(module, name)}
    if side != "through":
        turned = isinstance(module, TRANSPOSED) or is_conv1d_of_transformers(module)  # their inputs come first
        first = 1 if turned else 0
        return {"weight": 1 - first} if side == "in" else {"weight": first, "bias": 0}
    vectors = [name for name, p in module.named_parameters(recurse=False) if p.ndim == 1]
    vectors += [name for name, b in module.named_buffers(recurse=False) if b.ndim == 1]
    return dict.fromkeys(vectors, 0)


def resize(module: nn.Module, edit: Resize, *, seed: int) -> list[str]:
    """Give a layer another width, in place; return the names of the tensors that were drawn anew.

    Raises:
        Unresizable: It cannot have it: its groups do not divide it, for instance.
    """
    if isinstance(module, nn.GroupNorm) and edit.size % module.num_groups:
        raise Unresizable(f"{edit.path} has {module.num_groups} groups, which do not divide {edit.size} channels")
    held = {**module._parameters, **module._buffers}
    made = [name for name in resized_tensors(module, edit) if hasattr(module, name) and name not in held]
    if made:
        raise Unresizable(
            f"{edit.path}.{made[0]} is made of other parameters. Take the parametrization off before, with "
            f"torch.nn.utils.parametrize.remove_parametrizations, and put it on again afterwards"
        )
    if edit.size < 1:
        raise Unresizable(f"{edit.path} would have no channels")
    drawn = []
    names = resized_tensors(module, edit)
    for name, axis in names.items():
        tensor = getattr(module, name, None)
        if isinstance(tensor, torch.Tensor) and tensor.ndim:
            if edit.keep is None and tensor.is_floating_point():
                drawn.append(name)
            put(module, name, taken(tensor, axis, edit.size, edit.keep))
    set_numbers(module, edit)
    if drawn:
        _draw(module, drawn, edit.path, seed)
    return drawn


def taken(tensor: torch.Tensor, axis: int, size: int, keep: tuple[int, ...] | None) -> torch.Tensor:
    """Return a tensor with another size along an axis: some of its entries, or room for new ones."""
    with torch.no_grad():
        if keep is not None:
            return tensor.detach().index_select(axis, torch.tensor(keep, device=tensor.device, dtype=torch.long))
        shape = [size if n == axis else each for n, each in enumerate(tensor.shape)]
        return tensor.new_zeros(shape) if not tensor.is_floating_point() else tensor.detach().new_empty(shape)


def put(module: nn.Module, name: str, value: torch.Tensor) -> None:
    """Give a layer another tensor: as a parameter if it was one."""
    old = getattr(module, name)
    if isinstance(old, nn.Parameter):
        module.register_parameter(name, nn.Parameter(value, requires_grad=old.requires_grad))
    else:
        module._buffers[name] = value


def set_numbers(module: nn.Module, edit: Resize) -> None:
    """Let the numbers that a layer keeps agree with its tensors."""
    names: tuple[str, ...]
    if isinstance(module, nn.Linear):
        names = (f"{edit.side}_features",)
    elif isinstance(module, CONVOLUTIONS + TRANSPOSED):
        names = ("in_channels", "out_channels", "groups") if edit.side == "through" else (f"{edit.side}_channels",)
    else:
        names = {"Conv1D": ("nx" if edit.side == "in" else "nf",)}.get(
            type(module).__name__, ("embedding_dim", "input_size", "num_features", "num_channels", "num_parameters")
        )
    for name in names:
        if hasattr(module, name):
            setattr(module, name, edit.size)
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        module.normalized_shape = (edit.size,)
    if isinstance(module, RECURRENT):
        module._flat_weights = [getattr(module, name, None) for name in module._flat_weights_names]


def _draw(module: nn.Module, names: list[str], path: str, seed: int) -> None:
    """Draw tensors of a layer as it draws its own, from a stream of its own name; keep its other tensors."""
    first = next(t for t in (*module.parameters(recurse=False), *module.buffers(recurse=False)))
    if first.device.type == "meta" or type(first).__name__ == "FakeTensor":
        return
    kept = {
        name: tensor.detach().clone()
        for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
        if name not in names
    }
    with torch.no_grad(), drawing(seed, path):
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()  # type: ignore[operator]
        else:
            for name in names:
                tensor = getattr(module, name)
                _ = tensor.fill_(1.0) if tensor.ndim == 1 else nn.init.normal_(tensor, std=0.02)
        for name, value in kept.items():
            getattr(module, name).copy_(value)


@contextmanager
def drawing(seed: int, path: str) -> Iterator[None]:
    """Let torch draw from the stream of a layer, and go on afterwards as if nothing had been drawn."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(stream_seed(seed, "init", path, bits=63))
        yield
