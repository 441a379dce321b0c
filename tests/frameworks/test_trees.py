"""States as plain data and arrays: what is taken apart comes together again, to the last bit and type."""

from __future__ import annotations

import json
import math
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from etude.core.errors import StateError
from etude.frameworks import state_file
from etude.frameworks.trees import put_together, take_apart

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
KEYS = st.text() | st.integers() | st.booleans() | st.none()
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner) | st.dictionaries(st.text(), inner)
    ),
    max_leaves=20,
)


def there_and_back(value: Any) -> Any:
    plain, arrays = take_apart(value, path="it")
    return put_together(json.loads(json.dumps(plain)), arrays)


@given(TREES)
def test_any_tree_of_plain_values_comes_back(tree: Any) -> None:
    found = there_and_back(tree)
    assert repr(found) == repr(tree), "NaN is itself, -0.0 is, and True is not 1"


def test_a_dict_that_looks_like_a_tag_comes_back() -> None:
    for tricky in ({"$": "tensor", "of": "x"}, {"$": 1}, {1: {"$": None}}):
        assert there_and_back(tricky) == tricky


def test_states_of_modules_and_optimizers_come_back(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    for state in (net.state_dict(), optimizer.state_dict()):
        state_file.write(tmp_path / "state.safetensors", *take_apart(state, path=""))
        found = state_file.read(tmp_path / "state.safetensors")
        assert repr(found) == repr(dict(state))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.float8_e4m3fn]
)
def test_tensors_of_any_type_and_shape_come_back(dtype: torch.dtype, tmp_path: Path) -> None:
    whole = torch.arange(24).reshape(2, 3, 4).to(dtype)
    given = {
        "whole": whole,
        "turned": whole.permute(2, 0, 1),
        "part": whole[:, 1],
        "none": whole[:0],
        "one": whole[0, 0, 1],
    }
    state_file.write(tmp_path / "state.safetensors", *take_apart(given, path=""))
    found = state_file.read(tmp_path / "state.safetensors")
    for name, tensor in given.items():
        assert found[name].dtype is dtype
        assert torch.equal(found[name].to(torch.float64), tensor.to(torch.float64))


def test_what_is_changed_afterwards_is_not_what_was_taken() -> None:
    tensor, array = torch.zeros(3), np.zeros(3)
    plain, arrays = take_apart({"t": tensor, "a": array}, path="it")
    tensor += 1
    array += 1
    found = put_together(plain, arrays)
    assert found["t"].sum() == 0
    assert found["a"].sum() == 0


def test_numbers_of_numpy_and_containers_of_other_classes_come_back_as_what_they_are() -> None:
    found = there_and_back({"n": np.float32(0.1), "o": OrderedDict(a=1), "d": defaultdict(int, {3: 4}), "s": {1}})
    assert found == {"n": np.float32(0.1), "o": {"a": 1}, "d": {3: 4}, "s": {1}}
    assert type(found["n"]) is np.float32
    assert math.isclose(found["n"], 0.1, rel_tol=1e-6)


@pytest.mark.parametrize("thing", [object(), len, np.array(["text"]), torch.nn.ReLU()])
def test_what_has_no_place_in_a_file_is_refused_with_where_it_is(thing: Any) -> None:
    with pytest.raises(StateError, match=r"^it\.inner\[1\] is "):
        there_and_back({"inner": [0, thing]})


def test_what_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(StateError, match="nested more than 100 deep, or holds itself"):
        there_and_back(loop)


@pytest.mark.parametrize("content", [b"", b"\0" * 7, b"no such thing at all", b"\2\0\0\0\0\0\0\0{}"])
def test_what_is_no_file_of_ours_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    path.write_bytes(content)
    with pytest.raises(StateError, match=r"is no saved state of ours"):
        state_file.read(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state.safetensors"]


@pytest.mark.parametrize("make", [torch.tensor, np.asarray])
def test_a_copy_goes_over_a_spare_one_where_that_fits(make: Any) -> None:
    before = {"same": make([1.0, 2.0]), "shape": make([1.0]), "kind": make([1, 2]), "gone": make([1.0])}
    _, spare = take_apart(before, path="it")
    after = {"same": make([3.0, 4.0]), "shape": make([5.0, 6.0]), "kind": make([7.0, 8.0]), "new": make([9.0])}
    plain, arrays = take_apart(after, path="it", spare=spare)
    assert arrays["it.same"] is spare["it.same"]
    assert not any(arrays[name] is spare.get(name) for name in ("it.shape", "it.kind", "it.new"))
    found = put_together(plain, arrays)
    assert {name: (value.tolist(), value.dtype) for name, value in found.items()} == {
        name: (value.tolist(), value.dtype) for name, value in after.items()
    }
    assert before["same"].tolist() == [1.0, 2.0], "what was copied stays as it is"


def test_a_tensor_in_another_order_goes_over_a_spare_one_as_it_is() -> None:
    _, spare = take_apart(torch.zeros(3, 4), path="it")
    turned = torch.arange(12.0).reshape(4, 3).t()
    _, arrays = take_apart(turned, path="it", spare=spare)
    assert arrays["it"] is spare["it"]
    assert arrays["it"].is_contiguous()
    assert torch.equal(arrays["it"], turned)
