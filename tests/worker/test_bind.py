"""Putting a trial together: what draws where, and that nothing else moves it."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from etude.core.data import Data
from etude.core.errors import ResultError
from etude.core.signature import Derived, Signature
from etude.experiment import Experiment
from etude.worker.bind import Bound
from etude.worker.run import Run, Stop
from etude.worker.seeds import seeded

Draws = tuple[float, float, float]


def draw() -> Draws:
    """Draw once from every global generator."""
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def bound(
    train: Callable[..., Any],
    *,
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    **functions: Callable[..., Any],
) -> Bound:
    roles = {"train": train, **functions}
    signature = Signature.read(roles)
    given = dict(params or {})
    return Bound(roles, signature, given, Run(metrics=["m"], params=given, seed=seed))


def net() -> torch.nn.Linear:
    return torch.nn.Linear(3, 2)


def loaders() -> tuple[DataLoader[Any], DataLoader[Any]]:
    examples = TensorDataset(torch.randn(12, 3))
    return DataLoader(examples, batch_size=4, shuffle=True), DataLoader(examples, batch_size=4)


def weights(module: torch.nn.Linear) -> list[float]:
    return module.weight.flatten().tolist()


def epoch(loader: DataLoader[Any]) -> list[float]:
    return torch.cat([x for (x,) in loader]).flatten().tolist()


def test_the_order_of_the_calls_moves_neither_weights_nor_batches() -> None:
    def model_first(model: Any, data: Any) -> Any:
        module = model()
        draw()
        first, second = data()
        return weights(module), epoch(first), epoch(second), epoch(first)

    def data_first(model: Any, data: Any) -> Any:
        first, second = data()
        draw()
        one, two = epoch(first), epoch(second)
        return weights(model()), one, two, epoch(first)

    def both_late(model: Any, data: Any) -> Any:
        draw()
        first, second = data()
        module = model()
        draw()
        return weights(module), epoch(first), epoch(second), epoch(first)

    results = [bound(train, model=net, data=loaders).train() for train in (model_first, data_first, both_late)]
    assert results[0] == results[1] == results[2]
    assert results[0][1] != results[0][3]  # epochs differ


def test_equal_seeds_give_equal_weights_whatever_the_data_draws() -> None:
    def train(model: Any, data: Any) -> Any:
        data()
        return weights(model())

    def greedy() -> None:
        for _ in range(100):
            draw()

    def seeding() -> None:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)

    results = [bound(train, model=net, data=data).train() for data in (greedy, seeding, lambda: None)]
    assert results[0] == results[1] == results[2]
    assert bound(train, seed=1, model=net, data=greedy).train() != results[0]


def test_every_function_draws_from_a_stream_of_its_own_and_training_goes_on_where_it_was() -> None:
    drawn: dict[str, Draws] = {}

    def model() -> None:
        drawn["model"] = draw()

    def data() -> None:
        drawn["data"] = draw()

    def interrupted(model: Any, data: Any) -> list[Draws]:
        first = draw()
        data()
        model()
        return [first, draw()]

    def alone() -> list[Draws]:
        return [draw(), draw()]

    in_training = bound(interrupted, model=model, data=data).train()
    assert in_training == bound(alone).train()
    assert len({*in_training, *drawn.values()}) == 4


@pytest.mark.parametrize("end", [ValueError, Stop, KeyboardInterrupt])
def test_a_plain_call_puts_the_global_generators_back_whatever_happens(end: type[BaseException]) -> None:
    def train() -> None:
        draw()
        raise end

    def seed_all() -> None:
        random.seed(3)
        np.random.seed(3)
        torch.manual_seed(3)

    seed_all()
    expected = draw()
    seed_all()
    with pytest.raises(end):
        Experiment(train, metric="m", mode="max").run()
    assert draw() == expected


def test_a_second_model_is_another_one_and_still_the_same_for_equal_seeds() -> None:
    def train(model: Any) -> Any:
        return [weights(model()) for _ in range(3)]

    first = bound(train, model=net).train()
    assert first[0] != first[1] != first[2] != first[0]
    assert bound(train, model=net).train() == first

    def one(model: Any) -> Any:
        return weights(model())

    assert bound(one, model=net).train() == first[0]


def test_data_is_loaded_once_and_is_one_object() -> None:
    calls: list[int] = []

    def data(size: int = 2) -> list[int]:
        calls.append(size)
        return [size]

    def train(data: Any) -> Any:
        assert data() is data()
        return data()

    assert bound(train, data=data, params={"size": 5}).train() == [5]
    assert calls == [5]


def test_data_that_fails_is_tried_again_when_it_is_asked_for_again() -> None:
    calls: list[int] = []

    def data() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("not yet")
        return "data"

    def train(data: Any) -> Any:
        with pytest.raises(OSError, match="not yet"):
            data()
        return data()

    assert bound(train, data=data).train() == "data"


def test_parameters_and_the_seed_reach_whoever_asks_for_them() -> None:
    def model(width: int, seed: int) -> Any:
        return ("model", width, seed)

    def data(batch: int) -> Any:
        return ("data", batch)

    def train(model: Any, data: Any, run: Run, seed: int, lr: float, width: int) -> Any:
        return model(), data(), run.seed, seed, lr, width

    trial = bound(train, seed=9, params={"lr": 0.1, "width": 3, "batch": 2}, model=model, data=data)
    assert trial.train() == (("model", 3, 9), ("data", 2), 9, 9, 0.1, 3)
    assert trial.data_params == {"batch": 2}


def described() -> Data:
    return Data("train", "valid", n_features=30, classes=("a", "b"))


def test_derived_values_reach_model_and_training_before_anybody_asked_for_the_data() -> None:
    def model(n_features: Derived[int]) -> Any:
        return n_features

    def train(model: Any, classes: Derived[tuple[str, ...]]) -> Any:
        return model(), classes

    trial = bound(train, model=model, data=described)
    assert trial.derived == {}
    assert trial.train() == (30, ("a", "b"))
    assert trial.derived == {"n_features": 30, "classes": ("a", "b")}


def test_a_derived_value_that_data_did_not_give_is_named() -> None:
    def train(model: Any) -> Any:
        return model()

    def model(n_classes: Derived[int]) -> Any:
        return n_classes

    for data in (described, lambda: ("train", "valid")):
        with pytest.raises(ResultError) as refused:
            bound(train, model=model, data=data).train()
        assert str(refused.value) == (
            "'n_classes' is Derived, and data() gave no value for it. Return etude.Data(train, valid, n_classes=...) "
            "from the data function."
        )


def test_a_model_that_is_built_before_training_asked_for_data_does_not_move_its_draws() -> None:
    """Derived values make data() run first; that must not show anywhere."""

    def plain_model() -> Any:
        return weights(torch.nn.Linear(30, 1))

    def derived_model(n_features: Derived[int]) -> Any:
        return weights(torch.nn.Linear(n_features, 1))

    def train(model: Any, data: Any) -> Any:
        return model(), draw()

    assert bound(train, model=plain_model, data=described).train() == (
        bound(train, model=derived_model, data=described).train()
    )


def test_loaders_that_are_older_than_the_run_shuffle_by_its_seed_all_the_same() -> None:
    shared = loaders()

    def train(data: Any) -> Any:
        return epoch(data()[0]), epoch(data()[0])

    first = bound(train, seed=1, data=lambda: shared).train()
    assert bound(train, seed=2, data=lambda: shared).train() != first
    assert bound(train, seed=1, data=lambda: shared).train() == first


def test_models_and_batches_are_on_the_runs_device() -> None:
    def train(model: Any, data: Any) -> Any:
        (x,) = next(iter(data()[0]))
        return model()(x).device.type, x.shape

    roles = {"train": train, "model": net, "data": loaders}
    run = Run(metrics=["m"], params={}, seed=0, device="meta")
    assert Bound(roles, Signature.read(roles), {}, run).train() == ("meta", (4, 3))


def test_a_stream_has_its_seed_inside_and_leaves_no_trace_outside() -> None:
    with seeded(0, "init"):
        first = draw()
        with seeded(0, "data"):
            inner = draw()
        second = draw()
    with seeded(0, "init"):
        assert (draw(), draw()) == (first, second)
    with seeded(0, "data"):
        assert draw() == inner
    assert len({first, second, inner}) == 3
