"""Calls that Python would refuse in words that do not help: what is said instead, and what is left to Python."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from etude.core.calling import by_name
from etude.core.errors import ConfigError


class Verbs:
    """Functions as those of an experiment."""

    @by_name
    def __init__(self, train: Any = None, *, metric: str, mode: str = "max") -> None:
        self.asked = (train, metric, mode)

    @by_name
    def tune(self, space: dict[str, Any], *, trials: int = 1, seed: int = 0) -> tuple[Any, ...]:
        """Say what was asked."""
        return (space, trials, seed)

    @by_name
    def run(self, *, seed: int = 0, **hyperparameters: Any) -> tuple[Any, ...]:
        return (seed, hyperparameters)


VERBS = Verbs(metric="accuracy")


def refusal(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(ConfigError) as told:
        call(*args, **kwargs)
    return str(told.value)


def test_a_call_that_can_be_is_made_as_it_is() -> None:
    assert VERBS.tune({"lr": [1]}, trials=3) == ({"lr": [1]}, 3, 0)
    assert VERBS.run(lr=0.1) == (0, {"lr": 0.1})
    assert Verbs(print, metric="loss", mode="min").asked == (print, "loss", "min")


def test_it_looks_like_the_function_that_it_is() -> None:
    assert list(inspect.signature(Verbs.tune).parameters) == ["self", "space", "trials", "seed"]
    assert Verbs.tune.__doc__ == "Say what was asked."


def test_a_name_of_another_library_is_said_as_it_is_called_here() -> None:
    assert refusal(VERBS.tune, {}, num_samples=3) == "tune() takes no num_samples=. It is called trials= here."
    assert refusal(Verbs, metric="a", direction="min") == "Verbs() takes no direction=. It is called mode= here."


def test_a_name_that_is_misspelt_is_asked_about() -> None:
    assert refusal(VERBS.tune, {}, trails=3) == "tune() takes no trails=. Did you mean trials=?"


def test_of_a_name_that_means_nothing_all_names_are_listed() -> None:
    # n_jobs is called workers= elsewhere, which this call has not
    assert refusal(VERBS.tune, {}, n_jobs=3) == "tune() takes no n_jobs=. It takes: space, trials, seed."


def test_a_verb_with_hyperparameters_takes_any_name() -> None:
    assert VERBS.run(num_samples=3) == (0, {"num_samples": 3})


def test_what_has_to_be_named_is_told_with_its_name() -> None:
    assert refusal(VERBS.tune, {}, 3) == (
        "tune() was given 2 arguments without a name, and takes only space. Name the others: "
        "tune(space, trials=..., seed=...)."
    )
    assert refusal(VERBS.run, {"lr": 0.1}) == (
        "run() was given 1 argument without a name, and takes none. Name them: run(**trial.params)."
    )


def test_what_is_missing_is_told_with_what_it_is_for() -> None:
    assert refusal(VERBS.tune) == (
        "tune() needs space=, and was called without. It says what is searched, by name: "
        "experiment.tune({'lr': etude.loguniform(1e-4, 1.0)}, trials=20)."
    )
    assert refusal(Verbs).startswith("Verbs() needs metric=, and was called without. It names the number")


def test_what_else_python_has_against_a_call_it_says_itself() -> None:
    with pytest.raises(TypeError, match="multiple values for argument 'space'"):
        VERBS.tune({}, space={})
