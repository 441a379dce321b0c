"""Joins of branches in Keras models: what is left is what was meant, or the answer is a refusal that says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import etude
from etude.core.errors import RefusalCode, RemovalRefused

keras = pytest.importorskip("keras")
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
L, ops = keras.layers, keras.ops

X = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
Join = Callable[[Any, Any], Any]


class Summed(L.Layer):  # type: ignore[misc]
    """A layer of one's own with several inputs, and a weight."""

    def build(self, shapes: Any) -> None:
        self.scale = self.add_weight(shape=(), initializer="ones")

    def call(self, one: Any, two: Any) -> Any:
        return self.scale * (one + two)


class Add(L.Layer):  # type: ignore[misc]
    """It is called as one of Keras, and does something else."""

    def call(self, given: Any) -> Any:
        return given[0] - given[1]


def joined(join: Join) -> Any:
    """``join`` of the branches ``h`` and ``f(h)``, in front of a head."""
    i = keras.Input((6,))
    h = L.Dense(8, name="stem")(i)
    return keras.Model(i, L.Dense(3, name="head")(join(h, L.Dense(8, name="f")(h))))


def numbers(model: Any, x: Any = X) -> Any:
    return np.asarray(keras.ops.convert_to_numpy(model(x, training=False)))


def without(net: Any) -> Any:
    """What the head gives of what the stem gives."""
    (a, b), (c, d) = net.get_layer("stem").get_weights(), net.get_layer("head").get_weights()
    return (X @ a + b) @ c + d


def refusal(net: Any, component: str, x: Any = X) -> RemovalRefused:
    before = [np.array(v) for v in net.get_weights()]
    untouched = numbers(net)
    with pytest.raises(RemovalRefused) as refused:
        etude.remove(net, component, x)
    assert all(np.array_equal(a, b) for a, b in zip(before, net.get_weights(), strict=True))
    np.testing.assert_array_equal(numbers(net), untouched)
    return refused.value


@pytest.mark.parametrize(
    "join",
    [
        lambda h, f: L.Add()([h, f]),
        lambda h, f: h + f,
        lambda h, f: L.Subtract()([h, f]),
        lambda h, f: h - f,
        ops.subtract,
        lambda h, f: L.Multiply()([h, f]),
        lambda h, f: h * f,
        lambda h, f: L.Average()([h, f]),
        lambda h, f: L.Maximum()([h, f]),
        ops.minimum,
        lambda h, f: h + ops.relu(f),
        lambda h, f: h - L.Activation("tanh")(f),
        lambda h, f: h + 2 * f / 3,
        lambda h, f: h * L.ReLU()(f),
        lambda h, f: L.Maximum()([h, ops.sigmoid(f)]),
        lambda h, f: h + L.Reshape((8,))(L.Dropout(0.5)(f)),
    ],
)
def test_of_a_known_join_the_others_are_left(join: Join) -> None:
    net = joined(join)
    want = without(net)
    assert etude.remove(net, "layer:f", X).rung.name == "NEUTRAL"
    np.testing.assert_allclose(numbers(net), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("join", "kind"),
    [
        (lambda h, f: ops.sum(ops.stack([h, f]), 0), "Stack"),
        (lambda h, f: ops.prod(ops.stack([h, f], -1), -1), "Stack"),
        (lambda h, f: ops.einsum("bi,bi->bi", h, f), "Einsum"),
        (lambda h, f: ops.where(h > 0, h, f), "Where"),
        (lambda h, f: L.Dot(axes=1)([h, f]), "Dot"),
        (lambda h, f: L.Lambda(lambda z: z[0] + z[1])([h, f]), "Lambda"),
        (lambda h, f: L.Lambda(lambda z: z[0] + z[1])([ops.tanh(h), ops.sigmoid(f)]), "Lambda"),
        (lambda h, f: h / f, "TrueDivide"),
        (lambda h, f: Summed()(h, two=f), "Summed"),
        (lambda h, f: Add()([h, f]), "Add"),
        (lambda h, f: L.Lambda(lambda z: z[0] - z[1])([L.Dense(8)(h), f]), "Lambda"),
    ],
)
def test_a_join_that_nobody_knows_is_refused_by_name(join: Join, kind: str) -> None:
    refused = refusal(joined(join), "layer:f")
    assert refused.code is RefusalCode.UNTRACEABLE
    assert f", a {kind}, and it is not known what that does without one of them. Join branches with" in refused.why


@pytest.mark.parametrize(
    ("join", "why"),
    [
        (lambda h, f: f - h, "a Subtract, from which it is subtracted"),
        (lambda h, f: h + L.Activation("sigmoid", name="act")(f), 'to make 0 of 0. Take it along: with_=("act",)'),
        (lambda h, f: h - L.Softmax(name="act")(f), 'to make 0 of 0. Take it along: with_=("act",)'),
        (lambda h, f: h * L.Activation("tanh", name="act")(f), 'to make 1 of 1. Take it along: with_=("act",)'),
        (lambda h, f: h + L.Lambda(lambda z: z + 1, name="act")(f), 'to make 0 of 0. Take it along: with_=("act",)'),
        (lambda h, f: h + ops.exp(f), "to make 0 of 0. Write it as a layer with a name"),
        (lambda h, f: h + (f + 1.0), "to make 0 of 0. Write it as a layer with a name"),
        (lambda h, f: h + 1.0 / f, "to make 0 of 0. Write it as a layer with a name"),
        (lambda h, f: L.Concatenate()([h + f, L.Dense(4)(f)]), "a Add, and is used elsewhere too"),
    ],
)
def test_a_branch_of_which_the_rest_is_not_known_is_refused(join: Join, why: str) -> None:
    assert why in refusal(joined(join), "layer:f").why


def test_an_activation_that_is_taken_along_says_what_is_meant() -> None:
    net = joined(lambda h, f: h + L.Activation("sigmoid", name="act")(f))
    want = without(net)
    etude.remove(net, "layer:f", X, with_=("act",))
    np.testing.assert_allclose(numbers(net), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "join",
    [
        lambda h, f: L.Lambda(lambda z: z[0] - z[1])([h, L.Dense(8)(f)]),
        lambda h, f: L.Lambda(lambda z: z[0] * z[1])([ops.tanh(f), ops.sigmoid(f)]),
        lambda h, f: L.MultiHeadAttention(2, 4)(h[:, None], f[:, None])[:, 0],
    ],
)
def test_what_mixes_before_a_join_lets_identity_be(join: Join) -> None:
    assert etude.remove(joined(join), "layer:f", X).rung.name == "IDENTITY"


def test_branches_of_two_inputs_do_not_meet_themselves() -> None:
    i, j = keras.Input((6,)), keras.Input((6,))
    net = keras.Model([i, j], L.Dense(3)(L.Dense(6, name="f")(i) - L.Dense(6)(j)))
    assert etude.remove(net, "layer:f", [X, X + 1]).rung.name == "IDENTITY"


def test_a_nested_model_that_would_give_what_goes_in_meets_it_outside() -> None:
    i = keras.Input((8,))
    block = keras.Model(i, L.ReLU()(L.Dense(8, name="f")(i)), name="block")
    net = joined(lambda h, _: h + block(h))
    refused = refusal(net, "layer:block.f")
    assert "'block' would be left without a layer that mixes" in refused.why
    assert refused.instead == "block"
    want = without(net)
    etude.remove(net, "layer:block", X)
    np.testing.assert_allclose(numbers(net), want, rtol=1e-4, atol=1e-5)


def test_an_example_that_gives_nan_is_refused_before_anything_is_compared() -> None:
    refused = refusal(joined(lambda h, f: h + f), "layer:f", X * np.nan)
    assert refused.code is RefusalCode.UNTRACEABLE
    assert refused.why == (
        "with this example the untouched model gives NaN: its result. Give an example with which it does not."
    )


def test_an_example_that_the_model_does_not_take_is_not_the_repairs_fault() -> None:
    net = joined(lambda h, f: h + f)
    with pytest.raises(RemovalRefused, match=r"\(untraceable\): the model raises ValueError: .*found shape=\(4, 3\)"):
        etude.remove(net, "layer:f", X[:, :3])


@pytest.fixture
def unjoined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans as they would be if nobody looked at what meets."""
    monkeypatch.setattr("etude.frameworks.keras_removal.ladder.dropped", lambda *_: None)


@pytest.mark.usefixtures("unjoined")
def test_the_checks_find_a_result_that_does_not_depend_on_the_input_any_more() -> None:
    assert refusal(joined(lambda h, f: L.Lambda(lambda z: z[0] - z[1])([h, f])), "layer:f").why == (
        "its result does not depend on the input any more."
    )


@pytest.mark.usefixtures("unjoined")
def test_the_checks_find_gradients_that_are_zero_now() -> None:
    def join(h: Any, f: Any) -> Any:
        return L.Lambda(lambda z: (z[0] - z[1]) ** 2 + z[2])([h, f, L.Dense(8)(net_input[0])])

    net_input = [keras.Input((6,))]
    h = L.Dense(8, name="stem")(net_input[0])
    net = keras.Model(net_input[0], L.Dense(3, name="head")(join(h, L.Dense(8, name="f")(h))))
    assert refusal(net, "layer:f").why == "the gradient of stem/kernel is zero now."
