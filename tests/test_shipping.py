"""What of a function reaches the workers."""

from __future__ import annotations

import dataclasses
import pickle
from enum import Enum
from typing import Any

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
