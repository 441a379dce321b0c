"""What two configurations have in common, told pair by pair, and by keys that are equal for all that agree."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.core.events import Start
from etude.core.prefixes import Prefixes, value_at

BOTH = Prefixes(frozenset({"lr", "drop"}), budget="epochs", budgets=(10, 20, 40))
LR = ((0, 0.1), (10, 0.01), (20, 0.001))
ONE = {"lr": LR, "drop": ((0, 0.5), (15, 0.2)), "epochs": 40, "width": 64}


@pytest.mark.parametrize(("epoch", "held"), [(0, 0.1), (9, 0.1), (10, 0.01), (19, 0.01), (20, 0.001), (1000, 0.001)])
def test_a_step_holds_from_its_epoch_until_the_next(epoch: int, held: float) -> None:
    assert value_at(LR, epoch) == held


@pytest.mark.parametrize("plain", [0.1, None, "sgd", (1, 2), ((1, 0.1),), ()])
def test_a_plain_value_holds_always(plain: Any) -> None:
    assert value_at(plain, 7) == plain


@pytest.mark.parametrize(
    ("other", "epochs"),
    [
        ({}, math.inf),
        ({"lr": ((0, 0.1), (10, 0.01), (20, 0.5))}, 20),
        ({"lr": ((0, 0.1), (10, 0.5), (20, 0.001))}, 10),
        ({"lr": ((0, 0.5), (10, 0.01), (20, 0.001))}, 0),
        ({"drop": ((0, 0.5), (15, 0.3)), "lr": ((0, 0.1), (10, 0.01), (20, 0.5))}, 15),
        ({"epochs": 20}, 20),
        ({"epochs": 10, "lr": ((0, 0.1), (10, 0.01), (20, 0.5))}, 10),
        ({"width": 32}, 0),
        ({"width": 64.0}, 0),
        ({"lr": ((0, 0.1), (10, 0.01), (20, 1))}, 20),
        ({"lr": 0.1}, 0),
        ({"lr": ((0, 0.1), (10, 0.01))}, 0),
    ],
)
def test_two_configurations_agree_up_to_the_first_difference(other: dict[str, Any], epochs: float) -> None:
    there = {**ONE, **other}
    assert BOTH.agree(ONE, there) == BOTH.agree(there, ONE) == epochs


def test_what_is_not_declared_may_not_differ() -> None:
    assert Prefixes(frozenset({"lr"})).agree(ONE, {**ONE, "epochs": 20}) == 0


steps = st.tuples(*(st.sampled_from([0.1, 0.01]) for _ in range(3))).map(
    lambda values: tuple(zip((0, 2, 5), values, strict=True))
)
configurations = st.fixed_dictionaries(
    {"lr": steps, "epochs": st.sampled_from([1, 2, 4, 6]), "width": st.sampled_from([1, 1.0, True])}
)
SMALL = Prefixes(frozenset({"lr"}), budget="epochs", budgets=(1, 2, 4, 6))


@given(configurations, configurations)
def test_keys_are_equal_as_far_as_two_agree(one: dict[str, Any], other: dict[str, Any]) -> None:
    agreed = SMALL.agree(one, other)
    mine, theirs = SMALL.path(one, 7), SMALL.path(other, 7)
    for epoch, key in mine.boundaries:
        common = dict(theirs.boundaries).get(epoch)
        if epoch <= min(one["epochs"], other["epochs"]):
            assert (key == common) == (agreed >= epoch)
    until = min(one["epochs"], other["epochs"])
    assert (mine.whole == theirs.whole) == (one["epochs"] == other["epochs"] and agreed >= until)


@given(configurations)
def test_a_trial_goes_on_only_where_something_is_left_to_do(params: dict[str, Any]) -> None:
    path = SMALL.path(params, 7)
    epochs = [epoch for epoch, _ in path.usable]
    assert epochs == sorted(epochs, reverse=True)
    assert all(0 < epoch < params["epochs"] for epoch in epochs)
    assert {epoch for epoch, _ in path.usable} <= {epoch for epoch, _ in path.boundaries}
    if params["epochs"] > 1:
        assert params["epochs"] - 1 in epochs, "the same training by a longer trial, but for its last epoch"


def test_seed_and_weights_to_begin_with_have_to_be_equal() -> None:
    starts = [None, Start("one", "a"), Start("other", "b"), Start("one", "a", shrink=0.5)]
    wholes = {BOTH.path(ONE, seed, start).whole for seed in (1, 2) for start in starts}
    assert len(wholes) == 8
    assert BOTH.path(ONE, 1, Start("another name", "a")).whole == BOTH.path(ONE, 1, Start("one", "a")).whole


def test_steps_after_the_end_make_no_difference() -> None:
    short = {**ONE, "epochs": 10}
    assert BOTH.path(short, 1).whole == BOTH.path({**short, "lr": ((0, 0.1), (10, 0.5), (20, 0.5))}, 1).whole
    assert BOTH.path(ONE, 1).whole != BOTH.path({**ONE, "lr": ((0, 0.1), (10, 0.01), (20, 0.5))}, 1).whole
