"""States of sharded models and optimizers: each rank has its shards written, and gets them back.

Nothing is gathered, so no rank ever needs room for more than its share. Who wants all of it joins the files
(``frameworks.shards``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from etude.core.errors import StateError
from etude.frameworks.shards import DIM, SHAPE, SHARD, has_shards, is_shard


def shards_of(state: Any) -> Any:
    """Return a state with this rank's shards in place of sharded tensors; what is none stays as it is.

    Raises:
        StateError: A tensor is sharded in more than one way.
    """
    if isinstance(state, DTensor):
        return _shard(state)
    if isinstance(state, Mapping):
        return {key: shards_of(item) for key, item in state.items()}
    if isinstance(state, list | tuple):
        items = [shards_of(item) for item in state]
        return items if isinstance(state, list) else tuple(items)
    return state


def _shard(tensor: DTensor) -> dict[str, Any]:
    if len(tensor.placements) != 1 or tensor.placements[0].is_partial():
        raise StateError(
            f"A tensor of shape {tuple(tensor.shape)} lies on the ranks as {tensor.placements}, and what is kept may "
            "be sharded over all ranks in one way alone. Keep what etude.FSDP(...) shards, or whole tensors."
        )
    [placement] = tensor.placements
    dim = placement.dim if isinstance(placement, Shard) else None
    return {SHARD: tensor.to_local().detach(), DIM: dim, SHAPE: list(tensor.shape)}


def put_back(state: Any, thing: Any) -> Any:
    """Return a state with sharded tensors in place of this rank's shards.

    Args:
        state: As it was read.
        thing: What it is for: sharded as that was whose state it is.

    Raises:
        StateError: It is not sharded.
    """
    if not has_shards(state):
        return state
    mesh = next((tensor.device_mesh for tensor in _tensors_of(thing) if isinstance(tensor, DTensor)), None)
    if mesh is None:
        raise StateError(f"The saved state of {type(thing).__name__} is sharded, and it is not. Keep the same things.")
    return _put_back(state, mesh)


def _tensors_of(thing: Any) -> Iterator[Any]:
    # An optimizer has no moments before its first step, and has its parameters.
    return _leaves(thing.param_groups if isinstance(thing, torch.optim.Optimizer) else thing.state_dict())


def _leaves(state: Any) -> Iterator[Any]:
    if isinstance(state, Mapping | list | tuple):
        for item in state.values() if isinstance(state, Mapping) else state:
            yield from _leaves(item)
    else:
        yield state


def _put_back(state: Any, mesh: DeviceMesh) -> Any:
    if is_shard(state):
        shape = torch.Size(state[SHAPE])
        stride = torch.empty(shape, device="meta").stride()
        placements = [Replicate() if state[DIM] is None else Shard(state[DIM])]
        local = state[SHARD].to(mesh.device_type)
        return DTensor.from_local(local, mesh, placements, run_check=False, shape=shape, stride=stride)
    if isinstance(state, Mapping):
        return {key: _put_back(item, mesh) for key, item in state.items()}
    if isinstance(state, list | tuple):
        items = [_put_back(item, mesh) for item in state]
        return items if isinstance(state, list) else tuple(items)
    return state


def distribute(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return this rank's part of a whole state of an optimizer; moments are sharded as their parameters are."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    of = dict(zip(numbers, parameters, strict=False))  # where there are more or less, load_state_dict says so
    moments = {
        number: {name: _distributed(value, of.get(number)) for name, value in found.items()}
        for number, found in state["state"].items()
    }
    return {**state, "state": moments}


def _distributed(value: Any, like: Any) -> Any:
    """Return a tensor sharded as a parameter is, if that is and has its shape."""
    if not isinstance(like, DTensor) or not torch.is_tensor(value) or value.shape != like.shape:
        return value
    value = value.to(like.device)
    # Each rank has the whole, so nothing travels.
    return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None)
