"""A trial that does without some features of its data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import etude
from etude.core.errors import ConfigError, ResultError, SignatureError
from etude.core.removal import Arm, Features
from etude.core.signature import Derived, Signature
from etude.worker.bind import Bound
from etude.worker.run import Run


def bound(
    data: Callable[..., Any] | None,
    without: Features | None = None,
    *,
    train: Callable[..., Any] = lambda data: data(),
    look: Callable[[Any], Any] | None = None,
    **more: Callable[..., Any],
) -> Bound:
    roles = {"train": train, **({"data": data} if data else {}), **more}
    arm = Arm("without some", features=without) if without is not None else None
    return Bound(roles, Signature.read(roles), {}, Run(metrics=["m"], params={}, seed=0), look=look, arm=arm)


def frames() -> etude.Data:
    table = pd.DataFrame({"age": [1.0, 2.0, 3.0], "sex": ["f", "m", "f"], "y": [0, 1, 0]})
    return etude.Data(table, table, target="y")


def test_features_are_taken_out_of_what_the_data_function_returned() -> None:
    assert [list(part) for part in bound(frames, Features(("age",))).train()] == [["sex", "y"]] * 2
    assert [list(part) for part in bound(frames).train()] == [["age", "sex", "y"]] * 2


def test_a_function_that_takes_without_leaves_out_itself_and_is_given_none_otherwise() -> None:
    asked = []

    def data(without: frozenset[str]) -> etude.Data:
        asked.append(without)
        return etude.Data(frames().train.drop(columns=list(without)), target="y")

    assert [list(part) for part in bound(data, Features(("age",))).train()] == [["sex", "y"]]
    assert list(next(iter(bound(data).train()))) == ["age", "sex", "y"]
    constant = bound(data, Features(("age",), "constant", 7.0)).train()
    assert set(constant.train["age"]) == {7.0}
    assert asked == [frozenset({"age"}), frozenset(), frozenset()]


def test_a_function_that_was_asked_and_left_nothing_out_is_told() -> None:
    with pytest.raises(ResultError, match="what it returned has 'age'"):
        bound(lambda without: frames(), Features(("age",))).train()


def test_without_is_no_hyperparameter_of_the_data_function() -> None:
    signature = Signature.read({"train": lambda data: 0, "data": lambda without, size=3: None})
    assert set(signature.parameters) == {"size"}
    with pytest.raises(SignatureError, match="'without' is not a hyperparameter: Étude gives it"):
        signature.check({"without": frozenset()})


def test_derived_values_tell_what_is_left() -> None:
    def train(data: Any, n_features: Derived[int], features: Derived[Any] = None) -> Any:
        return n_features, features

    def arrays() -> etude.Data:
        return etude.Data((np.zeros((4, 3)), np.zeros(4)), features=["age", "sex", "sex"])

    assert bound(arrays, train=train).train() == (3, ("age", "sex", "sex"))
    assert bound(arrays, Features(("sex",)), train=train).train() == (1, ("age",))
    assert bound(arrays, Features(("sex",), "permute"), train=train).train() == (3, ("age", "sex", "sex"))


def test_what_derived_values_hang_on_tells_arms_apart() -> None:
    plain, dropped, mixed = (
        bound(frames, taken) for taken in (None, Features(("age",)), Features(("age",), "permute"))
    )
    assert [one.data_params for one in (plain, dropped, mixed)] == [
        {},
        {"without": "drop age"},
        {"without": "permute age"},
    ]


def test_it_is_looked_at_whole_and_joined_before_features_are_taken_out() -> None:
    looked = []

    def look(found: etude.Data) -> etude.Data:
        looked.append(list(found.train))
        return found.with_parts(pd.concat([found.train, found.valid]), None, found.train)

    found = bound(frames, Features(("age",), "permute"), look=look).train()
    assert looked == [["age", "sex", "y"]]
    assert len(found.train) == 6


class Drawing(Dataset[Any]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return {"x": torch.rand(2), "z": torch.rand(2), "y": index}


def test_arms_of_a_seed_draw_the_same_batches_and_weights() -> None:
    def data() -> etude.Data:
        return etude.Data(DataLoader(Drawing(), batch_size=3, shuffle=True), target="y")

    def train(model: Any, data: Any) -> Any:
        (loader,) = data()
        batches = [(batch["x"].tolist(), batch["y"].tolist()) for batch in loader]
        return batches, model().weight.tolist(), torch.rand(()).item()

    def model() -> Any:
        return torch.nn.Linear(2, 1)

    base = bound(data, train=train, model=model).train()
    assert base == bound(data, Features(("z",)), train=train, model=model).train()
    assert base == bound(data, Features(("z",), "permute"), train=train, model=model).train()


def test_data_that_cannot_do_without_is_refused_with_what_can_be_done() -> None:
    with pytest.raises(ConfigError, match=r"let data\(\) take without: frozenset\[str\] and leave them out itself"):
        bound(lambda: (np.zeros((3, 2)), np.zeros(3)), Features(("age",))).train()
    with pytest.raises(ConfigError) as refused:
        bound(None, Features(("age",)), train=lambda: 0.0)
    assert str(refused.value) == (
        "'age' cannot be taken out of the data: the experiment has no data function, so that the data is the training "
        "function's own. Pass Experiment(train, data=...)."
    )
