"""States of sharded models and optimizers as whole ones, and back.

A state that a run keeps is the whole one, whatever the ranks hold: anybody can load its weights, and ranks of any
number can go on from it. All ranks put it together, a tensor at a time, and rank 0 alone holds what comes of it, on the
CPU; so one machine needs room for the model and its optimizer. Where there is none, ``torch_fsdp.save`` writes shards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, distribute_tensor


def whole(state: Any) -> Any:
    """Return a state with whole tensors in place of sharded ones; what was none stays as it is.

    All ranks call it. On others than rank 0 what was sharded is an empty tensor: only rank 0's state is written down.
    """
    if isinstance(state, DTensor):
        with torch.no_grad():
            full = state.full_tensor()
            return full.cpu() if dist.get_rank() == 0 else full.new_empty(0, device="cpu")
    if isinstance(state, Mapping):
        return {key: whole(item) for key, item in state.items()}
    if isinstance(state, list | tuple):
        items = [whole(item) for item in state]
        return items if isinstance(state, list) else tuple(items)
    return state


def parts_of_module(module: nn.Module, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return this rank's part of a whole state, sharded as the module is."""
    own = module.state_dict()
    return {name: _part(value, own.get(name)) for name, value in state.items()}


def parts_of_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return this rank's part of a whole state; moments are sharded as their parameters are."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    of = dict(zip(numbers, parameters, strict=False))  # where there are more or less, load_state_dict says so
    moments = {
        number: {name: _part(value, of.get(number)) for name, value in found.items()}
        for number, found in state["state"].items()
    }
    return {**state, "state": moments}


def _part(value: Any, like: Any) -> Any:
    """Return this rank's part of a tensor, if what it is for is sharded and of its shape."""
    if not isinstance(like, DTensor) or not torch.is_tensor(value) or value.shape != like.shape:
        return value
    value = value.to(like.device)
    # Each rank has the whole, so nothing travels.
    return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None)
