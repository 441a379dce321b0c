"""Parameters that change at some epochs, and numbers of epochs: as domains, and as samplers see them."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import etude
from etude.core.errors import SpaceError
from etude.tune.flat import boundaries, flat, folded, prefixes_of, unfolded
from etude.tune.sampler import Request, checked, plainly, size
from etude.tune.spaces import Space
from etude.tune.unit import placed

LR = etude.piecewise(etude.loguniform(1e-3, 1.0), starts=(0, 10))
SPACE = Space.of(
    {
        "lr": LR,
        "optimizer": etude.choice({"sgd": {"momentum": etude.piecewise([0.0, 0.9], starts=(0, 5, 20))}, "adam": {}}),
        "epochs": etude.upto([10, 20, 40]),
        "width": [32, 64],
    }
)


def refusal(make: Any) -> str:
    with pytest.raises(SpaceError) as refused:
        make()
    return str(refused.value)


def test_a_value_has_a_pair_for_each_stage() -> None:
    assert LR.contains(((0, 0.1), (10, 0.01)))
    assert LR.why_not(0.1) == (
        "is no tuple of (epoch, value) pairs that begins with epoch 0, such as ((0, 0.1), (10, 0.01))"
    )
    assert LR.why_not(((0, 0.1), (20, 0.01))) == "changes at the epochs (0, 20), and not at (0, 10)"
    assert LR.why_not(((0, 0.1), (10, 2.0))) == "has 2.0 from epoch 10 on, which is above 1.0"
    assert LR.size is None
    assert etude.piecewise([1, 2, 3], starts=(0, 1)).size == 9
    assert LR.grid(2)[1] == ((0, 0.001), (10, 1.0))


def test_equally_spread_draws_give_the_distribution_of_each_stage() -> None:
    domain = etude.piecewise(etude.uniform(0, 1), starts=(0, 1, 2))
    drawn: list[Any] = [domain.from_unit((n + 0.5) / 2000) for n in range(2000)]
    stages = list(zip(*([held for _, held in value] for value in drawn), strict=True))
    for stage in stages:
        assert math.isclose(sum(stage) / 2000, 0.5, abs_tol=0.03)
    product = sum(one * other for one, other in zip(stages[0], stages[2], strict=True)) / 2000
    assert math.isclose(product, 0.25, abs_tol=0.02), "they hang together in no way"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: etude.piecewise([1, 2], starts=(5, 10)), "says nothing of the epochs before 5. Begin with 0."),
        (lambda: etude.piecewise([1, 2], starts=(0, 10, 10)), "takes epochs that rise. Write [0, 10]."),
        (lambda: etude.piecewise([1, 2], starts=(0, 1.5)), "takes a list of whole numbers of epochs"),  # type: ignore[list-item]
        (lambda: etude.piecewise(0.1, starts=(0, 10)), "is given what no stage can be"),
        (lambda: etude.piecewise(LR, starts=(0, 10)), "is given what no stage can be"),
        (lambda: etude.piecewise(etude.choice({"a": {"x": [1]}}), starts=(0, 10)), "is given what no stage can be"),
        (lambda: etude.upto([]), "takes a list of whole numbers of epochs"),
        (lambda: etude.upto([0, 10]), "has 0 epochs, which is no training"),
        (lambda: etude.upto([20, 10]), "takes epochs that rise. Write [10, 20]."),
        (lambda: prefixes_of(Space.of({"a": etude.upto([1]), "b": etude.upto([2])})), "'a' and 'b' are both said"),
        (lambda: flat(Space.of({"lr": LR, "lr.from10": [1]})), "'lr.from10' is what samplers call a stage of 'lr'"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, said: str) -> None:
    assert said in refusal(make)


def test_they_survive_the_journal() -> None:
    read = Space.from_dict(json.loads(json.dumps(SPACE.to_dict())))
    assert read == SPACE
    assert repr(LR) == "piecewise(loguniform(0.001, 1.0), starts=(0, 10))"
    assert repr(SPACE["epochs"]) == "upto([10, 20, 40])"


def test_samplers_see_a_plain_parameter_for_each_stage() -> None:
    seen = flat(SPACE)
    assert seen.names == (
        "lr.from0", "lr.from10", "optimizer", "momentum.from0", "momentum.from5", "momentum.from20", "epochs", "width"
    )  # fmt: skip
    assert repr(seen["epochs"]) == "ordered([10, 20, 40])"
    plain = Space.of({"width": [32, 64]})
    assert flat(plain) is plain
    params = {"lr": ((0, 0.1), (10, 0.01)), "optimizer": "adam", "epochs": 20, "width": 32, "seen": True}
    assert set(placed(SPACE, params)) >= {"lr.from0", "lr.from10", "epochs"}


@given(st.integers(0, 10_000))
def test_a_configuration_is_the_same_after_it_was_flat(seed: int) -> None:
    params = SPACE.sample(random.Random(seed))
    assert SPACE.why_not(params) is None
    apart = unfolded(SPACE, params)
    assert flat(SPACE).why_not(apart) is None
    assert folded(SPACE, apart) == params


@pytest.mark.parametrize("sampler", [etude.Random(), etude.QMC(), etude.TPE(startup=1), etude.Grid(points=2)])
def test_samplers_propose_values_of_steps(sampler: Any) -> None:
    found = set()
    for k in range(8):
        request = Request(k, 0, SPACE, 3)
        params = checked(sampler.suggest(plainly(request)), sampler, request)
        assert SPACE.why_not(params) is None
        found.add(repr(params))
    assert len(found) > 4
    if isinstance(sampler, etude.Grid):
        assert size(sampler, SPACE) == 4 * (8 + 1) * 3 * 2


def test_the_space_says_where_ways_may_part() -> None:
    assert boundaries(SPACE) == {5, 9, 10, 19, 20, 39, 40}
    prefixes = prefixes_of(SPACE)
    assert prefixes is not None
    assert (prefixes.stepped, prefixes.budget, prefixes.budgets) == (
        frozenset({"lr", "momentum"}), "epochs", (10, 20, 40)
    )  # fmt: skip
    assert not prefixes.recur, "of a continuum no value comes twice"
    assert prefixes_of(Space.of({"width": [32, 64]})) is None
