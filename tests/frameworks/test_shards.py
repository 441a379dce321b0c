"""Shards of states are joined: whole tensors, and all else as rank 0 has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from etude.core.errors import StateError
from etude.frameworks.shards import has_shards, join


def shard(array: Any, shape: list[int], dim: int | None = 0) -> dict[str, Any]:
    return {"etude.shard": array, "dim": dim, "shape": shape}


@pytest.mark.parametrize("make", [np.asarray, torch.tensor], ids=["numpy", "torch"])
def test_shards_are_joined_in_the_order_of_ranks(make: Any) -> None:
    whole = make([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
    rows = [shard(part, [3, 3]) for part in (whole[:2], whole[2:], whole[3:])]  # the last rank has nothing of it
    columns = [shard(part, [3, 3], dim=1) for part in (whole[:, :2], whole[:, 2:], whole[:, 3:])]
    for shards in (rows, columns):
        assert has_shards({"a": [(1, shards[0])]})
        joined = join([{"a": [(1, one)]} for one in shards])
        assert not has_shards(joined)
        assert joined["a"][0][0] == 1
        assert (joined["a"][0][1] == whole).all()


def test_what_is_no_shard_is_that_of_rank_0() -> None:
    copied = [shard(np.full(2, float(rank)), [2], dim=None) for rank in (0, 1)]
    states = [{"a": rank, "b": {f"only {rank}": 1}, "c": copied[rank]} for rank in (0, 1)]
    assert join(states)["a"] == 0
    assert join(states)["b"] == {"only 0": 1}, "ranks may have what others have not"
    assert join(states)["c"].tolist() == [0.0, 0.0]


def test_the_state_of_one_rank_is_as_it_is() -> None:
    state = {"a": np.ones(2)}
    assert join([state]) is state


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({}, "KeyError"),
        ({"a": [shard(np.ones((1, 2)), [3, 2]), 1]}, "ValueError"),
        ({"a": [shard(np.ones((2, 2)), [3, 2])]}, "[4, 2] in all, and not [3, 2]"),
        ({"a": [shard(np.ones((1, 3)), [3, 2])]}, "ValueError"),
        ({"a": [1.5]}, "TypeError"),
    ],
)
def test_shards_that_are_not_of_one_state_are_refused(second: Any, why: str) -> None:
    with pytest.raises(StateError, match=r"^The shards of 2 ranks are not of one state") as refused:
        join([{"a": [shard(np.ones((2, 2)), [3, 2])]}, second])
    assert why in str(refused.value)
