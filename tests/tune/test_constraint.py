"""The user's constraint: what it is given, what its answers mean, and what is refused before anything starts."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from etude.core.errors import ConfigError, Invalid
from etude.core.streams import stream
from etude.tune.constraint import TRIED, Constraint
from etude.tune.domains import integers, uniform
from etude.tune.sampler import Request
from etude.tune.samplers import Random
from etude.tune.spaces import Space, choice

KNOWN = ("width", "heads", "optimizer.lr")
SPACE = Space.of({"kind": choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}}), "x": integers(0, 99)})


def constraint(function: Callable[..., Any], **defaults: Any) -> Constraint:
    return Constraint(function, known=KNOWN, defaults=defaults)


def raises(error: Exception) -> Any:
    raise error


# What it is given.


def test_it_gets_what_it_asks_for_and_no_more() -> None:
    assert constraint(lambda width: f"{width}").why_not({"width": 64, "heads": 3}) == "64"


def test_what_a_configuration_leaves_out_has_the_experiments_default_or_is_none() -> None:
    told = constraint(lambda width, heads: f"{width} {heads}", heads=4)
    assert told.why_not({"width": 64}) == "64 4"
    assert told.why_not({}) == "None 4"


def test_a_parameter_of_its_own_keeps_its_default() -> None:
    assert constraint(lambda width, limit=7: f"{width} {limit}").why_not({"width": 64}) == "64 7"
    assert constraint(lambda width=8, heads=9: f"{width} {heads}").why_not({"width": 64}) == "64 9"


def test_the_fidelity_is_not_for_a_constraint() -> None:
    with pytest.raises(ConfigError) as caught:
        Constraint(lambda x, epochs: x < epochs, known=["x", "epochs"], defaults={"epochs": 9}, budgeted="epochs")
    assert str(caught.value) == (
        "constraint asks for 'epochs', which is the fidelity: a configuration runs with one value of it after the "
        "other, and a constraint says which configurations cannot be at all. Leave it out, or raise etude.Invalid in "
        "the function."
    )
    seen = Constraint(lambda **params: str(params), known=["x"], defaults={"epochs": 9, "y": 1}, budgeted="epochs")
    assert seen.why_not({"x": 2}) == "{'y': 1, 'x': 2}"


def test_two_stars_get_the_whole_configuration_with_defaults_filled_in() -> None:
    params = {"width": 64, "optimizer.lr": 0.1}
    assert constraint(lambda **p: repr(p), heads=4).why_not(params) == "{'heads': 4, 'width': 64, 'optimizer.lr': 0.1}"
    named = constraint(lambda width, limit=7, **rest: f"{width} {limit} {rest}")
    assert named.why_not(params) == "64 7 {'optimizer.lr': 0.1}"


# What its answers mean.


@pytest.mark.parametrize(
    ("answer", "why_not"),
    [
        (True, None),
        (None, None),
        ("", None),
        (np.bool_(True), None),
        (False, "ruled out by the constraint"),
        (np.bool_(False), "ruled out by the constraint"),
        ("too wide", "too wide"),
    ],
)
def test_answers(answer: object, why_not: str | None) -> None:
    assert constraint(lambda: answer).why_not({}) == why_not


def test_invalid_is_an_answer_and_no_failure() -> None:
    assert constraint(lambda: raises(Invalid("too wide"))).why_not({}) == "too wide"
    assert constraint(lambda: raises(Invalid())).why_not({}) == "ruled out by the constraint"


@pytest.mark.parametrize("answer", [0, 1, 0.0, [], np.int64(1), np.array([True])])
def test_any_other_answer_means_nothing(answer: object) -> None:
    with pytest.raises(ConfigError, match=r"^constraint answered .* which says neither"):
        constraint(lambda: answer).why_not({})


# What is refused before anything starts.


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda *both: True,
            "constraint takes *both, and parameters are given by name alone. "
            "Name those that it compares, or write **both for all of them.",
        ),
        (
            lambda width, /: True,
            "constraint takes 'width' by position alone, and parameters are given by name. "
            "Leave the / out of its signature.",
        ),
        (
            lambda layers: True,
            "constraint asks for 'layers', which is no parameter of this experiment. "
            "There are: heads, optimizer.lr, width.",
        ),
    ],
)
def test_what_cannot_be_called_by_name_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        constraint(function)
    assert str(refused.value) == message


def test_a_function_that_hides_its_parameters_is_refused() -> None:
    class Hides:
        __signature__ = "a secret"

        def __call__(self) -> bool:
            return True

    with pytest.raises(ConfigError, match=r"does not tell its parameters, so none can be given by name. Wrap it"):
        constraint(Hides())


def on_space(function: Callable[..., Any]) -> Constraint:
    return Constraint(function, known=SPACE.names)


def test_one_that_raises_on_some_configuration_is_refused_with_the_configuration() -> None:
    with pytest.raises(ConfigError) as refused:
        on_space(lambda momentum: momentum < 0.5).try_on(SPACE, seed=0)
    first = next(p for k in range(TRIED) if (p := SPACE.sample(stream(0, "constraint", k)))["kind"] == "adam")
    assert str(refused.value) == (
        "constraint raised TypeError: '<' not supported between instances of 'NoneType' and 'float', when it was "
        f"asked about {first}. What it raises for could never be run. Let it answer for every configuration of the "
        "space; parameters that are not part of a configuration come as None."
    )
    assert isinstance(refused.value.__cause__, TypeError)


def test_one_that_answers_with_a_number_is_refused_with_the_configuration() -> None:
    with pytest.raises(ConfigError) as refused:
        on_space(lambda x: x % 2).try_on(SPACE, seed=0)
    assert str(refused.value).startswith("constraint answered ")
    assert str(refused.value).endswith(
        "(int), which says neither that the configuration can be nor that it cannot. Return True or False, or a str "
        f"that says why not. It was asked about {SPACE.sample(stream(0, 'constraint', 0))}."
    )


def test_one_that_answers_is_tried_on_other_draws_than_the_searchs() -> None:
    seen: list[dict[str, Any]] = []
    before = random.getstate()
    on_space(lambda **params: seen.append(params)).try_on(SPACE, seed=0)
    assert len(seen) == TRIED
    assert random.getstate() == before
    assert seen != [Random().suggest(Request(k, 0, SPACE, 0)) for k in range(TRIED)]
