"""Keras layers of which nothing is lost if they are taken out, and others that only look like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from etude.core.removal import Layers, Whole

keras = pytest.importorskip("keras")
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
L = keras.layers

X = np.random.default_rng(0).standard_normal((6, 5)).astype("float32")


def chain(part: Callable[[Any], Any]) -> Any:
    """A part between two layers, and a dropout behind it that draws."""
    i = keras.Input((5,), name="row")
    x = L.Dropout(0.5, name="drop")(part(L.Dense(8, name="first")(i)))
    return keras.Model(i, L.Dense(3, name="last")(x))


def without(net: Any, path: str) -> bool:
    from etude.frameworks.keras_removal.plan import plan
    from etude.frameworks.keras_removal.without_effect import changes_nothing

    return changes_nothing(net, plan(net, Layers((Whole(path),))), X, seed=0)


def frozen() -> Any:
    part = L.Rescaling(0.0, name="zeros")
    return lambda x: L.Add(name="add")([x, part(L.Dense(8, name="part")(x))])


@pytest.mark.parametrize(
    "part",
    [
        lambda: L.Dropout(0.0, name="part"),
        lambda: L.Activation("linear", name="part"),
        lambda: L.Identity(name="part"),
        lambda: L.GaussianNoise(0.0, name="part"),
        lambda: lambda x: L.ReLU(name="part")(L.Activation("relu")(x)),
        frozen,
    ],
)
def test_a_layer_that_does_nothing_changes_nothing_when_it_goes(part: Callable[[], Any]) -> None:
    net = chain(part())
    before = [np.array(weight) for weight in net.get_weights()]
    layers = [layer.name for layer in net.layers]
    assert without(net, "part")
    assert all(map(np.array_equal, net.get_weights(), before))
    assert [layer.name for layer in net.layers] == layers


@pytest.mark.parametrize(
    "part",
    [
        lambda: L.Dropout(0.1, name="part"),
        lambda: L.GaussianNoise(0.1, name="part"),
        lambda: L.ReLU(name="part"),
        lambda: lambda x: L.ReLU(4.0, name="part")(L.ReLU()(x)),
        lambda: L.ActivityRegularization(0.01, name="part"),
        lambda: L.BatchNormalization(center=False, scale=False, name="part"),
        lambda: lambda x: L.Add()([x, L.BatchNormalization(gamma_initializer="zeros", name="part")(x)]),
    ],
)
def test_a_layer_that_will_do_something_or_only_in_training_is_not_dead(part: Callable[[], Any]) -> None:
    assert not without(chain(part()), "part")
