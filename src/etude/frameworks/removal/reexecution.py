"""The untouched model, in which what was done is done by other means: what it gives, the repaired model must give.

- A component that is replaced still stands where it stood; its ``forward`` gives what the rules say.
- A layer that was resized is the old one, with its own stride, padding and epsilon, that computes with the new tensors.
- Where layers were only cut, the second judge shares nothing with that: the untouched layers, with zeros where
  something was lost, and the component running as ever.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from etude.frameworks.removal.constants import freeze_in_place
from etude.frameworks.removal.copies import copied
from etude.frameworks.removal.edits import (
    Attribute,
    Bare,
    Drop,
    Edit,
    FewerHeads,
    Fill,
    Freeze,
    Padded,
    Resize,
    ResizeTensor,
    Rule,
    StandIn,
)
from etude.frameworks.removal.nested import bound, mapped
from etude.frameworks.removal.parametrized import makers
from etude.frameworks.removal.resize import resized_tensors
from etude.frameworks.removal.standin import results
from etude.frameworks.removal.trace import kind_of

NUMBERS = (
    *("in_features", "out_features", "in_channels", "out_channels", "groups", "nx", "nf", "embedding_dim"),
    *(
        "input_size",
        "hidden_size",
        "num_features",
        "num_channels",
        "num_parameters",
        "normalized_shape",
        "_flat_weights",
    ),
)
"""What a layer keeps beside its tensors, and has to agree with them."""


def overridden(untouched: nn.Module, repaired: nn.Module, edits: tuple[Edit, ...]) -> nn.Module:
    """Return a copy of an untouched model that does what edits say, through hooks on what it has.

    Args:
        untouched: The model.
        repaired: What the edits made of it; weights that were drawn anew are taken from there.
        edits: What was done.
    """
    model = copied(untouched)
    for edit in edits:
        if isinstance(edit, StandIn):
            module = model.get_submodule(edit.path)
            owner = copied(repaired.get_submodule(edit.path)) if edit.learned else None
            vars(module)["forward"] = _by_rule(module, edit, owner)
        elif isinstance(edit, Resize):
            module = model.get_submodule(edit.path)
            new = copied(repaired.get_submodule(edit.path))
            module._parameters.clear()
            module._parameters.update(new._parameters)
            module._buffers.update(new._buffers)
            vars(module).update({name: value for name, value in vars(new).items() if name in NUMBERS})
        elif isinstance(edit, ResizeTensor):
            path, _, name = edit.name.rpartition(".")
            old, new = model.get_submodule(path), copied(repaired.get_submodule(path))
            held = old._parameters if name in old._parameters else old._buffers
            held[name] = getattr(new, name)
        elif isinstance(edit, Attribute):
            setattr(model.get_submodule(edit.path), edit.name, edit.value)
        elif isinstance(edit, FewerHeads | Padded):
            path, _, name = edit.path.rpartition(".")
            setattr(model.get_submodule(path), name, copied(repaired.get_submodule(edit.path)))
        elif isinstance(edit, Bare):
            layer = copied(repaired.get_submodule(edit.path))
            for path, name in zip(makers(edit), edit.names, strict=True):
                vars(model.get_submodule(path))["forward"] = functools.partial(getattr, layer, name)
        elif isinstance(edit, Freeze):
            freeze_in_place(model.get_submodule(edit.path), edit)
    return model


def masked(untouched: nn.Module, edits: tuple[Edit, ...]) -> nn.Module | None:
    """Return a copy of an untouched model with zeros where tensors were cut; None if zeros are something else.

    They are where something was drawn anew, and where a norm looks at all channels together.
    """
    if _cut_twice(edits):
        return None
    model = copied(untouched)
    return model if all(_blanked(model, edit) for edit in edits) else None


def _cut_twice(edits: tuple[Edit, ...]) -> bool:
    """Say whether something is cut again in what was cut: columns have other numbers by then."""
    cuts = [
        (e.path, e.side) if isinstance(e, Resize) else e.name for e in edits if isinstance(e, Resize | ResizeTensor)
    ]
    return len(set(cuts)) < len(cuts)


def _blanked(model: nn.Module, edit: Edit) -> bool:
    """Put zeros where an edit cuts; say whether that is the same."""
    if isinstance(edit, Attribute | Drop):
        return True
    if isinstance(edit, StandIn):
        empty = [_is_empty(rule) for call in edit.calls for rule in call.rules]
        if not any(empty):
            vars(model.get_submodule(edit.path))["forward"] = _by_rule(model.get_submodule(edit.path), edit, None)
        return not edit.learned and (all(empty) or not any(empty))
    if isinstance(edit, Freeze | FewerHeads | Padded | Bare) or edit.keep is None:
        return False
    lost = torch.tensor([n for n in range(edit.before) if n not in edit.keep])
    if isinstance(edit, ResizeTensor):
        path, _, name = edit.name.rpartition(".")
        _blank(model.get_submodule(path), name, edit.axis, lost)
        return True
    module: Any = model.get_submodule(edit.path)
    if not _is_plain_cut(module, edit):
        return False
    for name, axis in resized_tensors(module, edit).items():
        _blank(module, name, axis, lost)
    return True


def _is_plain_cut(module: Any, edit: Resize) -> bool:
    """Say whether what a cut loses can be told by zeros: not of gates, of groups, and of norms over all channels."""
    if edit.side == "hidden" or getattr(module, "groups", 1) not in (1, edit.before):
        return False
    apart = isinstance(module, nn.modules.batchnorm._BatchNorm | nn.modules.conv._ConvNd)
    return apart or edit.side != "through"


def kept(name: str, edits: tuple[Edit, ...], untouched: nn.Module) -> tuple[int, tuple[int, ...]] | None:
    """Return along which axis a tensor was cut and what was kept; None if it was not."""
    for edit in edits:
        if isinstance(edit, ResizeTensor) and edit.name == name and edit.keep is not None:
            return edit.axis, edit.keep
        if isinstance(edit, Resize) and edit.keep is not None and name.startswith(f"{edit.path}."):
            axis = resized_tensors(untouched.get_submodule(edit.path), edit).get(name.removeprefix(f"{edit.path}."))
            if axis is not None:
                return axis, edit.keep
    return None


def _is_empty(rule: Rule) -> bool:
    """Say whether a rule gives something without a width: then zeros in what reads it say the same."""
    return isinstance(rule, Fill) and (rule.unused or any(dim.path is None and dim.size == 0 for dim in rule.dims))


def _by_rule(module: nn.Module, edit: StandIn, owner: nn.Module | None) -> Any:
    """Return a ``forward`` that gives what the rules say.

    To run the component and override its results would be as good for one; of several, what one gives may be of a
    width that another one could not compute with.
    """
    like = next(module.parameters(), torch.empty(0, dtype=torch.float64)).detach()

    def forward(*args: Any, **kwargs: Any) -> Any:
        given, named = mapped((args, kwargs), lambda t: t.clone())
        inputs = bound(kind_of(module), given, named)
        return results(edit.calls, inputs, like, training=module.training, owner=owner)

    return forward


def _blank(module: nn.Module, name: str, axis: int, lost: torch.Tensor) -> None:
    tensor = getattr(module, name, None)
    if isinstance(tensor, torch.Tensor) and tensor.ndim:
        with torch.no_grad():
            tensor.index_fill_(axis, lost.to(tensor.device), 0)
