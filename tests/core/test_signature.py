"""Matching hyperparameters by name: what is read, what is refused and in which words, and who is given what."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

from etude.core.errors import SignatureError
from etude.core.signature import MISSING, Derived, Kind, Signature, Stateless, misfit, plain

if TYPE_CHECKING:
    from nowhere import NameForTypeCheckers  # type: ignore[import-not-found]


class Rule(Enum):
    ADAM = "adam"
    SGD = "sgd"


@dataclass
class Schedule:
    warmup: int = 5
    shape: str = "cosine"


@dataclass
class Optimizer:
    lr: float
    rule: Rule = Rule.SGD
    betas: tuple[float, float] = (0.9, 0.99)
    schedule: Schedule = field(default_factory=Schedule)
    log: Stateless[str] = "quiet"
    groups: list[int] = field(default_factory=list)
    steps: int = field(init=False, default=0)


def read(train: Callable[..., Any], **functions: Callable[..., Any]) -> Signature:
    return Signature.read({"train": train, **functions})


def refusal(act: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(SignatureError) as refused:
        act(*arguments)
    return str(refused.value)


def given(signature: Signature, role: str, **params: Any) -> Mapping[str, Any]:
    """Return what a function is called with, for a configuration that was checked before."""
    flat = signature.flat(params)
    signature.check(flat)
    return signature.arguments(role, flat)


# --- by name --------------------------------------------------------------------------------------


def train(model, data, run, seed, *, lr: float, epochs: int = 10): ...  # type: ignore[no-untyped-def]


def model(width: int = 64, dropout: float = 0.1) -> None: ...


def data(batch_size: int = 128) -> None: ...


def test_each_function_gets_what_it_asks_for_by_name() -> None:
    signature = read(train, model=model, data=data)
    assert list(signature.parameters) == ["lr", "epochs", "width", "dropout", "batch_size"]
    assert signature.given == {
        "train": {"model", "data", "run", "seed"},
        "model": frozenset(),
        "data": frozenset(),
    }
    assert given(signature, "train", lr=0.1, width=8) == {"lr": 0.1}
    assert given(signature, "model", lr=0.1, width=8) == {"width": 8}
    assert given(signature, "data", lr=0.1, width=8) == {}


def test_a_parameter_says_where_it_belongs() -> None:
    lr, epochs = (read(train, model=model, data=data).parameters[name] for name in ("lr", "epochs"))
    assert (lr.roles, lr.kind, lr.annotation, lr.default, lr.required) == (
        ("train",),
        Kind.STATEFUL,
        float,
        MISSING,
        True,
    )
    assert (epochs.default, epochs.required) == (10, False)
    assert read(train, model=model, data=data).defaults() == {
        "epochs": 10,
        "width": 64,
        "dropout": 0.1,
        "batch_size": 128,
    }


def test_a_name_that_two_functions_ask_for_goes_to_both() -> None:
    signature = read(lambda width: width, model=lambda width=64: width)
    assert signature.parameters["width"].roles == ("train", "model")
    assert signature.parameters["width"].default == 64
    assert given(signature, "train", width=3) == given(signature, "model", width=3) == {"width": 3}


def test_one_function_may_write_the_type_and_another_the_default() -> None:
    def typed(width: int) -> None: ...

    signature = read(lambda width=64: width, model=typed)
    assert signature.parameters["width"].annotation is int
    assert signature.parameters["width"].default == 64


def test_two_defaults_for_one_name_are_refused() -> None:
    def other(width: int = 32) -> None: ...

    assert refusal(functools.partial(read, other, model=model)) == (
        "'width' has two defaults: 32 in train() and 64 in model(). One name is one hyperparameter. "
        "Give both the same default, or rename one."
    )


def test_equal_defaults_of_different_types_are_two_defaults() -> None:
    assert "has two defaults: 1 in train() and 1.0 in model()" in refusal(
        functools.partial(read, lambda x=1: x, model=lambda x=1.0: x)
    )


def test_whoever_takes_anything_gets_what_nobody_else_asked_for() -> None:
    def takes_anything(lr: float = 0.1, *args: Any, **params: Any) -> None: ...

    signature = read(takes_anything, model=model)
    assert signature.open == ("train",)
    assert given(signature, "train", width=3, colour="red") == {"colour": "red"}
    assert given(signature, "model", width=3, colour="red") == {"width": 3}


def test_a_dataclass_for_whoever_takes_anything_stays_whole() -> None:
    def takes_anything(**params: Any) -> None: ...

    assert given(read(takes_anything), "train", extra=Schedule()) == {"extra": Schedule()}


def test_parameters_by_position_only_are_refused() -> None:
    def by_position(lr: float, /) -> None: ...

    assert refusal(read, by_position) == (
        "train() takes 'lr' by position only, and parameters are given by name. Remove the '/' from its signature."
    )


@pytest.mark.parametrize("need", ["model", "data"])
def test_asking_for_what_the_experiment_does_not_have_is_refused(need: str) -> None:
    functions: dict[str, Callable[..., Any]] = {"model": lambda: None, "data": lambda: None}
    del functions[need]
    assert refusal(functools.partial(read, lambda model, data: None, **functions)) == (
        f"train() asks for {need!r}, and the experiment has no {need} function. "
        f"Pass Experiment(train, {need}=...), or call the parameter something else."
    )


# --- whatever can be called -------------------------------------------------------------------------


def test_what_a_partial_binds_by_keyword_is_a_default() -> None:
    signature = read(functools.partial(functools.partial(train, epochs=3), lr=0.5), model=model, data=data)
    assert signature.parameters["lr"].default == 0.5
    assert signature.parameters["epochs"].default == 3
    assert signature.parameters["lr"].annotation is float


def test_an_object_that_can_be_called_is_read_like_a_function() -> None:
    class Trainer:
        def __call__(self, lr: float, verbose: Stateless[bool] = False) -> None: ...

    signature = read(Trainer())
    assert signature.parameters["lr"].annotation is float
    assert signature.parameters["verbose"].kind is Kind.STATELESS
    assert list(read(Trainer().__call__).parameters) == ["lr", "verbose"]


def test_a_class_is_read_by_what_it_is_made_with() -> None:
    class Net:
        def __init__(self, n_features: Derived[int], width: int = 64) -> None: ...

    signature = read(lambda lr=0.1: lr, model=Net)
    assert signature.parameters["n_features"].kind is Kind.DERIVED
    assert signature.parameters["width"].annotation is int


def test_a_decorated_function_is_read_through_its_decorator() -> None:
    @functools.wraps(train)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    assert read(wrapped, model=model, data=data).parameters["lr"].annotation is float


def test_a_name_that_only_type_checkers_know_spoils_no_other() -> None:
    def checked(loader: NameForTypeCheckers, n: Derived[int], lr: float) -> None: ...

    parameters = read(checked).parameters
    assert parameters["loader"].annotation is Any
    assert (parameters["n"].kind, parameters["lr"].annotation) == (Kind.DERIVED, float)


def test_what_cannot_be_called_is_refused() -> None:
    assert refusal(read, 3) == (
        "train=3 (int) is no function. Pass a function, a functools.partial or an object that can be called; "
        "the function itself, without parentheses, since each trial calls it."
    )


def test_what_has_no_signature_is_refused() -> None:
    message = refusal(read, dict)
    assert message.startswith("The signature of train=<class 'dict'> cannot be read (")
    assert message.endswith("), so nothing can be given to it by name. Wrap it in a function with named parameters.")


# --- kinds ------------------------------------------------------------------------------------------


def kinds(
    n_features: Derived[int], folder: Stateless[str] = "here", lr: float = 0.1, n_classes: Derived[int] = 2
) -> None: ...


def test_what_is_stateless_or_derived_is_no_part_of_the_identity() -> None:
    signature = read(kinds)
    assert signature.stateful({"n_features": 3, "folder": "x", "lr": 0.1, "unknown": 1}) == {"lr": 0.1, "unknown": 1}


def test_a_derived_value_is_required_of_nobody() -> None:
    signature = read(kinds)
    assert not signature.parameters["n_features"].required
    signature.check({"lr": 0.1})
    assert signature.arguments("train", {"lr": 0.1, "n_features": 30}) == {"lr": 0.1, "n_features": 30}


def test_a_derived_value_cannot_be_given() -> None:
    assert refusal(read(kinds).check, {"n_features": 3}) == (
        "'n_features' is Derived in train(): its value comes from the data function, so it cannot be given. "
        "Leave it out, or drop the annotation."
    )


def test_the_stricter_kind_wins_where_two_functions_differ() -> None:
    signature = read(lambda n_features: n_features, model=kinds)
    assert signature.parameters["n_features"].kind is Kind.DERIVED


# --- what is refused --------------------------------------------------------------------------------


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    signature = read(train, model=model, data=data)
    assert refusal(signature.check, {"lr": 0.1, "widht": 3}) == (
        "No function takes 'widht'. Did you mean 'width'? They take: batch_size, dropout, epochs, lr, width."
    )
    assert refusal(signature.check, {"zzz": 1}) == (
        "No function takes 'zzz'. They take: batch_size, dropout, epochs, lr, width."
    )
    assert refusal(read(lambda: None).check, {"x": 1}) == "No function takes 'x'. They take: none at all."


def test_what_etude_gives_itself_is_no_hyperparameter() -> None:
    assert refusal(read(lambda **params: None).check, {"seed": 3}) == (
        "'seed' is not a hyperparameter: Étude gives it to the functions itself. "
        "Call the hyperparameter something else."
    )


def test_what_has_no_value_is_refused() -> None:
    assert refusal(read(train, model=model, data=data).check, {"width": 3}) == (
        "train() needs 'lr', and nothing gives it: it has no default and no value. "
        "Give it a value (lr=...), a default, or a place in the space."
    )


def test_a_value_of_another_type_is_refused() -> None:
    assert refusal(read(train, model=model, data=data).check, {"lr": "fast"}) == (
        "lr='fast' does not fit train(), which asks for lr: float (expected `float`, got `str`). "
        "Give a value of that type, or change the annotation."
    )


FITS: list[tuple[Any, Any]] = [
    (1, float),
    (1.5, float),
    (3, int),
    (True, bool),
    ("a", str),
    (None, int | None),
    (3, int | None),
    (1, float | None),
    ("sgd", Literal["sgd", "adam"]),
    ("adam", Rule),
    (Rule.ADAM, Rule),
    ([3, 3], tuple[int, int]),
    (Path("x"), Path),
    (object(), Any),
    (len, Callable[[], int]),
    (Optimizer(0.1), Optimizer | None),
    (object(), list[int] | tuple[int, ...]),  # msgspec cannot tell these apart, so neither can we
]
MISFITS: list[tuple[Any, Any, str]] = [
    ("0.1", float, "expected `float`, got `str`"),
    (True, int, "a bool is no number"),
    (True, float, "expected `float`, got `bool`"),
    (True, int | None, "expected `int | null`, got `bool`"),
    (1, bool, "expected `bool`, got `int`"),
    (1.0, int, "expected `int`, got `float`"),
    (None, int, "expected `int`, got `null`"),
    ("Lion", Literal["sgd", "adam"], "invalid enum value 'Lion'"),
    ("Lion", Rule, "invalid enum value 'Lion'"),
    ((3, 3, 3), tuple[int, int], "expected `array` of length 2, got 3"),
    ("x", Path, "expected `Path`, got `str`"),
]


@pytest.mark.parametrize(("value", "annotation"), FITS)
def test_a_value_fits_its_annotation(value: Any, annotation: Any) -> None:
    assert misfit(value, annotation) is None


@pytest.mark.parametrize(("value", "annotation", "why"), MISFITS)
def test_a_value_does_not_fit_its_annotation(value: Any, annotation: Any, why: str) -> None:
    assert misfit(value, annotation) == why


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.float64(0.5), 0.5), (np.int32(3), 3), (np.bool_(True), True), (np.array(2.0), 2.0), ("a", "a"), (None, None)],
)
def test_numpy_scalars_are_the_numbers_that_they_stand_for(value: Any, expected: Any) -> None:
    assert (plain(value), type(plain(value))) == (expected, type(expected))
    assert read(lambda x: x).flat({"x": value}) == {"x": expected}


def test_an_array_stays_an_array() -> None:
    array = np.zeros(3)
    assert plain(array) is array


# --- groups -----------------------------------------------------------------------------------------


def grouped(optimizer: Optimizer, epochs: int = 1) -> None: ...


def test_the_fields_of_a_dataclass_are_parameters_with_dots() -> None:
    signature = read(grouped)
    assert list(signature.parameters) == [
        "optimizer.lr",
        "optimizer.rule",
        "optimizer.betas",
        "optimizer.schedule.warmup",
        "optimizer.schedule.shape",
        "optimizer.log",
        "optimizer.groups",
        "epochs",
    ]
    assert signature.parameters["optimizer.lr"].required
    assert signature.parameters["optimizer.log"].kind is Kind.STATELESS
    assert signature.defaults()["optimizer.schedule.warmup"] == 5


def test_a_group_is_put_together_from_its_fields() -> None:
    asked = given(
        read(grouped), "train", **{"optimizer.lr": 1, "optimizer.rule": "adam", "optimizer.schedule.warmup": 9}
    )
    assert asked == {"optimizer": Optimizer(1.0, Rule.ADAM, schedule=Schedule(9))}
    assert type(asked["optimizer"].lr) is float


def test_a_whole_group_may_be_given() -> None:
    signature = read(grouped)
    whole = Optimizer(0.1, schedule=Schedule(warmup=1))
    assert signature.flat({"optimizer": whole})["optimizer.schedule.warmup"] == 1
    assert given(signature, "train", optimizer=whole, epochs=2) == {"optimizer": whole, "epochs": 2}
    inner = {"optimizer.lr": 0.1, "optimizer.schedule": Schedule(shape="flat")}
    assert given(signature, "train", **inner)["optimizer"].schedule == Schedule(shape="flat")


def test_a_group_of_another_class_is_refused() -> None:
    signature = read(grouped)
    assert refusal(signature.check, signature.flat({"optimizer": Schedule()})).startswith(
        "No function takes 'optimizer.warmup'. Did you mean 'optimizer.groups'?"
    )


def test_a_group_may_have_a_default_of_its_own() -> None:
    def with_default(optimizer: Optimizer = Optimizer(0.5, schedule=Schedule(7))) -> None: ...  # noqa: B008

    signature = read(with_default)
    assert signature.parameters["optimizer.lr"].default == 0.5
    assert given(signature, "train")["optimizer"] == Optimizer(0.5, schedule=Schedule(7))


def test_a_default_that_is_no_group_is_refused() -> None:
    def sloppy(schedule: Schedule = None) -> None: ...  # type: ignore[assignment]

    assert refusal(read, sloppy) == (
        "'schedule' is a group of parameters in train(), and its default None is no Schedule. "
        "Give it one, or none: the fields have defaults of their own."
    )


def test_a_group_that_may_be_none_is_one_value() -> None:
    def optional(schedule: Schedule | None = None) -> None: ...

    signature = read(optional)
    assert list(signature.parameters) == ["schedule"]
    assert given(signature, "train", schedule=Schedule(1)) == {"schedule": Schedule(1)}


def test_what_a_factory_makes_is_made_for_each_trial() -> None:
    signature = read(grouped)
    one, other = (given(signature, "train", **{"optimizer.lr": 0.1})["optimizer"] for _ in range(2))
    one.groups.append(1)
    assert other.groups == []


def test_a_stateless_group_has_stateless_fields() -> None:
    def quiet(schedule: Stateless[Schedule]) -> None: ...

    assert {parameter.kind for parameter in read(quiet).parameters.values()} == {Kind.STATELESS}


def test_a_group_in_two_functions_is_one_group() -> None:
    def other(optimizer: Optimizer) -> None: ...

    signature = read(grouped, model=other)
    assert signature.parameters["optimizer.lr"].roles == ("train", "model")
    assert given(signature, "model", **{"optimizer.lr": 0.1}) == {"optimizer": Optimizer(0.1)}
