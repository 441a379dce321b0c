"""What of a function reaches the workers."""

from __future__ import annotations

import dataclasses
import pickle
import traceback
from enum import Enum
from typing import Any

import pytest

import etude
from etude.core.signature import Kind, Signature
from etude.launching.shipping import packed


class Activation(Enum):
    """Named in annotations alone."""

    RELU = "relu"


@dataclasses.dataclass
class Optimizer:
    """Named in annotations alone."""

    lr: float = 0.1


def on_a_worker(**functions: Any) -> Signature:
    return Signature.read(pickle.loads(packed(functions)))


def test_annotations_that_are_texts_mean_the_same_on_a_worker() -> None:
    def model(n_features: etude.Derived[int], activation: Activation, optimizer: Optimizer) -> None: ...

    def data(folder: etude.Stateless[str]) -> None: ...

    assert isinstance(model.__annotations__["n_features"], str)
    found = on_a_worker(model=model, data=data)
    kinds = {name: parameter.kind for name, parameter in found.parameters.items()}
    assert kinds == {
        "n_features": Kind.DERIVED,
        "activation": Kind.STATEFUL,
        "optimizer.lr": Kind.STATEFUL,
        "folder": Kind.STATELESS,
    }
    assert found.arguments("model", {"activation": "relu"})["activation"].value == "relu"


def test_an_annotation_that_nobody_can_read_spoils_nothing() -> None:
    def train(lr: float, schedule: Unknown, odd: int) -> None: ...  # type: ignore[name-defined] # noqa: F821

    train.__annotations__["odd"] = "no type"
    assert set(on_a_worker(train=train).parameters) == {"lr", "schedule", "odd"}


def test_tracebacks_of_what_was_sent_show_its_lines() -> None:
    def train(lr: float) -> float:
        return next(1 / lr for _ in "a")  # a code object within another

    sent = pickle.loads(packed({"train": train}))["train"]
    with pytest.raises(ZeroDivisionError) as raised:
        sent(0)
    frames = traceback.extract_tb(raised.value.__traceback__)[1:]
    assert [(frame.filename, "1 / lr" in (frame.line or "")) for frame in frames] == [(__file__, True)] * 2
