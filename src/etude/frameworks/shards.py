"""Shards of states: what one rank has of a sharded tensor, as its file holds it, and how those of all ranks are joined.

    {"weight": a sharded tensor, "lr": 0.1}
    {"weight": {"etude.shard": what this rank has of it, "dim": 0, "shape": [6, 4]}, "lr": 0.1}

A file says by itself of what it has shards. Which files are one state, by rank, and the digest of each, stand in the
journal: that is the index.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from etude.core.errors import StateError

SHARD: Final = "etude.shard"
"""What marks a shard in a state, and has what this rank has of the tensor."""

DIM: Final = "dim"
"""Along which dimension the tensor is divided; None if each rank has all of it."""

SHAPE: Final = "shape"
"""That of the whole tensor."""


def is_shard(value: Any) -> bool:
    """Say whether something in a state is a shard."""
    return isinstance(value, Mapping) and SHARD in value


def has_shards(state: Any) -> bool:
    """Say whether there is a shard anywhere in a state."""
    if is_shard(state):
        return True
    items = state.values() if isinstance(state, Mapping) else state if isinstance(state, list | tuple) else ()
    return any(map(has_shards, items))


def join(states: Sequence[Any]) -> Any:
    """Return the state that ranks have together, by rank: shards are joined, and all else is rank 0's.

    Raises:
        StateError: They do not fit.
    """
    first = states[0]
    if len(states) == 1 or not has_shards(first):
        return first
    try:
        if is_shard(first):
            return _joined(states)
        if isinstance(first, Mapping):
            return {key: join([state[key] for state in states]) for key in first}
        return type(first)(join(items) for items in zip(*states, strict=True))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise StateError(f"The shards of {len(states)} ranks are not of one state ({error!r}).") from error


def _joined(shards: Sequence[Mapping[str, Any]]) -> Any:
    if shards[0][DIM] is None:
        return shards[0][SHARD]
    torch = sys.modules.get("torch")
    arrays = [shard[SHARD] for shard in shards]
    if torch is not None and torch.is_tensor(arrays[0]):
        whole = torch.cat(arrays, dim=shards[0][DIM])
    else:
        import numpy as np

        whole = np.concatenate(arrays, axis=shards[0][DIM])
    if list(whole.shape) != shards[0][SHAPE]:
        raise ValueError(f"{list(whole.shape)} in all, and not {shards[0][SHAPE]}")
    return whole
