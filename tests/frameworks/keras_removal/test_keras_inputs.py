"""Features that are dropped of a Keras model: first layers lose their columns, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from etude.frameworks.cutting import CannotCutError, Kept

keras = pytest.importorskip("keras")
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
L = keras.layers

X = np.random.default_rng(0).standard_normal((8, 5)).astype("float32")
LEFT = (0, 1, 3)


def parted(model: Any, whole: Any, rest: Any, *kept: Kept) -> Any:
    from etude.frameworks.keras_removal.inputs import without_inputs

    return without_inputs(model, whole, rest, kept)


def weights(model: Any) -> dict[str, Any]:
    """By layer and name: a sequential model puts its own in front."""
    return {"/".join(v.path.split("/")[-2:]): np.array(keras.ops.convert_to_numpy(v.value)) for v in model.variables}


def numbers(model: Any, x: Any) -> Any:
    return np.asarray(keras.ops.convert_to_numpy(model(x, training=False)))


def functional() -> Any:
    i = keras.Input((5,), name="row")
    x = L.Dense(4, activation="relu", name="deep")(i)
    return keras.Model(i, L.Dense(2, name="out")(L.Concatenate()([i, x])))


def normed() -> Any:
    scale = L.Normalization(name="scale")
    scale.adapt(X)
    return keras.Sequential([keras.Input((5,)), scale, L.BatchNormalization(name="norm"), L.Dense(2, name="out")])


def given() -> Any:
    scale = L.Normalization(mean=[1.0, 2.0, 3.0, 4.0, 5.0], variance=[1.0, 4.0, 9.0, 16.0, 25.0], name="scale")
    return keras.Sequential([keras.Input((5,)), scale, L.Dense(2, name="out")])


@pytest.mark.parametrize(
    ("make", "changes", "cut"),
    [
        (functional, ("deep 5->3 inputs", "out 9->7 inputs"), {"deep/kernel", "out/kernel"}),
        (normed, ("scale 5->3 inputs", "norm 5->3 inputs", "out 5->3 inputs"), None),
        (given, ("out 5->3 inputs",), {"out/kernel"}),
    ],
)
def test_columns_of_what_is_left_stay_bit_for_bit(
    make: Callable[[], Any], changes: tuple[str, ...], cut: set[str] | None
) -> None:
    net = make()
    before, want = weights(net), numbers(_silenced(make(), net), X)
    step = parted(net, (X, X[:, 0]), (X[:, LEFT], X[:, 0]), Kept(5, LEFT))
    assert step.changes == changes
    after = weights(net)
    assert after.keys() == before.keys()
    changed = {path for path in after if after[path].shape != before[path].shape}
    assert cut is None or changed == cut
    assert all(np.array_equal(after[path], before[path]) for path in before if path not in changed)
    kernel = "deep/kernel" if make is functional else "out/kernel"
    assert np.array_equal(after[kernel], before[kernel][list(LEFT)])
    assert net.input_shape == (None, 3)
    np.testing.assert_allclose(numbers(net, X[:, LEFT]), want, rtol=1e-5, atol=1e-6)
    net.compile("sgd", "mse")
    net.fit(X[:, LEFT], np.zeros((8, 2)), verbose=0)


def _silenced(twin: Any, net: Any) -> Any:
    """Another model with the same weights, in which the columns that go count for nothing."""
    twin.set_weights(net.get_weights())
    for layer in twin.layers:
        if isinstance(layer, L.Dense):
            kernel, bias = layer.get_weights()
            kernel[[2, 4]] = 0
            layer.set_weights([kernel, bias])
        if isinstance(layer, L.Normalization):
            layer.finalize_state()
    return twin


def test_what_was_planned_is_done_again_to_a_fresh_model() -> None:
    from etude.frameworks.keras_removal.inputs import replay_cuts

    one, two = functional(), functional()
    step = parted(one, (X, X[:, 0]), (X[:, LEFT], X[:, 0]), Kept(5, LEFT))
    two.get_layer("deep").set_weights([np.arange(20.0).reshape(5, 4), np.zeros(4)])
    replay_cuts(two, msgspec.to_builtins(step))
    assert two.get_layer("deep").get_weights()[0].tolist() == np.arange(20.0).reshape(5, 4)[list(LEFT)].tolist()
    narrow = keras.Sequential([keras.Input((4,)), L.Dense(4), L.Dense(2), L.Dense(2)])
    with pytest.raises(CannotCutError, match="has another width than the ablation was planned for"):
        replay_cuts(narrow, msgspec.to_builtins(step))


def test_channels_of_images_and_steps_of_time() -> None:
    picture = np.random.default_rng(1).random((4, 6, 6, 3)).astype("float32")
    net = keras.Sequential([keras.Input((6, 6, 3)), L.Conv2D(2, 3, name="conv"), L.Flatten(), L.Dense(1)])
    kernel = net.get_layer("conv").get_weights()[0]
    assert parted(net, (picture, None), (picture[..., 1:], None), Kept(3, (1, 2))).changes == ("conv 3->2 inputs",)
    assert np.array_equal(net.get_layer("conv").get_weights()[0], kernel[:, :, 1:])
    times = picture[:, 0]
    net = keras.Sequential([keras.Input((6, 3)), L.LSTM(2, name="lstm"), L.Dense(1)])
    assert parted(net, (times, None), (times[..., 1:], None), Kept(3, (1, 2))).changes == ("lstm 3->2 inputs",)


def by_name() -> Any:
    age, port = keras.Input((1,), name="age"), keras.Input((1,), dtype="int32", name="port")
    fare = keras.Input((1,), name="fare")
    known = L.Flatten(name="flat")(L.Embedding(4, 3, name="ports")(port))
    x = L.Dense(6, name="first")(L.Concatenate(name="all")([age, known, fare]))
    return keras.Model({"age": age, "port": port, "fare": fare}, L.Dense(1, name="head")(x))


def test_an_input_of_its_own_goes_with_its_embedding() -> None:
    rows = {"age": X[:, :1], "port": np.arange(8).reshape(8, 1) % 4, "fare": X[:, 1:2]}
    rest = {"age": rows["age"], "fare": rows["fare"]}
    net = by_name()
    kernel = net.get_layer("first").get_weights()[0]
    assert parted(net, rows, rest).changes == ("ports goes with it", "first 5->2 inputs")
    assert np.array_equal(net.get_layer("first").get_weights()[0], kernel[[0, 4]])
    assert numbers(net, rest).shape == (8, 1)
    assert sorted(layer.name for layer in net.layers) == ["age", "all", "fare", "first", "head"]


def by_place() -> Any:
    i = keras.Input((5,))
    return keras.Model(i, L.Dense(2)(L.Dense(2)(i[:, :2]) + L.Dense(2)(i[:, 3:])))


def embedded() -> Any:
    i = keras.Input((5,))
    return keras.Model(i, L.Dense(2)(L.Flatten()(L.Embedding(9, 2, name="words")(i))))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (by_place, "they are read by their place: nobody knows what another width means to get_item"),
        (embedded, "they are read by their place: nobody knows what another width means to words, a Embedding"),
    ],
)
def test_what_reads_features_in_another_way_is_told(make: Callable[[], Any], why: str) -> None:
    with pytest.raises(CannotCutError) as told:
        parted(make(), (X, X[:, 0]), (X[:, LEFT], X[:, 0]), Kept(5, LEFT))
    assert str(told.value).startswith(why)


def test_columns_without_names_are_told() -> None:
    with pytest.raises(CannotCutError, match="no names tell which of these are left"):
        parted(functional(), (X, X[:, 0]), (X[:, LEFT], X[:, 0]))
