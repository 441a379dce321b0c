"""Layers taken out of Keras models: the ladder, its words, and hand-made models that must be the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import etude
from etude.core.errors import ConfigError, RefusalCode, RemovalRefused

keras = pytest.importorskip("keras")
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
L = keras.layers

X = np.random.default_rng(0).random((4, 8, 8, 3)).astype("float32")


def chain() -> Any:
    """Three convolutions in a row, and two dense layers."""
    i = keras.Input((8, 8, 3), name="image")
    x = L.Conv2D(16, 3, padding="same", name="conv1")(i)
    x = L.ReLU(name="relu1")(x)
    x = L.Conv2D(24, 3, padding="same", name="conv2")(x)
    x = L.ReLU(name="relu2")(x)
    x = L.MaxPooling2D(name="pool")(x)
    x = L.Conv2D(8, 3, padding="same", name="conv3")(x)
    x = L.Flatten(name="flatten")(x)
    x = L.Dense(150, name="dense")(x)
    return keras.Model(i, L.Dense(10, name="head")(x))


def residual() -> Any:
    """A residual block, and a gate."""
    i = keras.Input((8, 8, 3), name="image")
    x = L.Conv2D(8, 3, padding="same", name="stem")(i)
    y = L.Conv2D(8, 3, padding="same", name="inner")(x)
    y = L.BatchNormalization(name="norm")(y)
    x = L.Add(name="add")([x, y])
    g = L.GlobalAveragePooling2D(name="squeeze")(x)
    g = L.Dense(8, "sigmoid", name="gate")(g)
    g = L.Reshape((1, 1, 8), name="reshape")(g)
    x = L.Multiply(name="scale")([x, g])
    x = L.GlobalAveragePooling2D(name="pooled")(x)
    return keras.Model(i, L.Dense(10, name="head")(x))


def branches() -> Any:
    """Two branches of a concatenation, behind a stem."""
    i = keras.Input((8, 8, 3), name="image")
    x = L.Conv2D(8, 3, padding="same", name="stem")(i)
    a = L.Conv2D(4, 1, name="a")(x)
    b = L.Conv2D(6, 3, padding="same", name="b")(x)
    x = L.Concatenate(name="mixed")([a, b])
    x = L.BatchNormalization(name="norm")(x)
    x = L.Conv2D(12, 3, name="after")(x)
    x = L.GlobalAveragePooling2D(name="pooled")(x)
    return keras.Model(i, L.Dense(10, name="head")(x))


def numbers(model: Any, x: Any = X) -> Any:
    return np.asarray(keras.ops.convert_to_numpy(model(x, training=False)))


def same_as(model: Any, twin: Any) -> None:
    """The weights of layers of the same names are handed over; then both give the same."""
    for layer in twin.layers:
        layer.set_weights(model.get_layer(layer.name).get_weights() if layer.weights else [])
    np.testing.assert_allclose(numbers(model), numbers(twin), rtol=1e-5, atol=1e-6)


def test_a_layer_in_a_chain_goes_and_what_reads_it_is_rebuilt() -> None:
    net = chain()
    kept = {v.path: np.array(keras.ops.convert_to_numpy(v.value)) for v in net.variables}
    removed = etude.remove(net, "layer:conv2", X, with_=("relu2",))
    assert removed.model is net
    assert str(removed) == (
        "conv2 removed; relu2 after it removed; pool kept; conv3 rebuilt 24->16 inputs; 4,056 fewer parameters "
        "(rung 3, splice)"
    )
    assert removed.checks == ("parameters", "another batch", "examples apart", "inputs", "training step")
    left = {v.path: np.array(keras.ops.convert_to_numpy(v.value)) for v in net.variables}
    assert set(kept) - set(left) == {"conv2/kernel", "conv2/bias"}
    changed = {path for path, value in left.items() if not np.array_equal(value, kept[path])}
    assert changed == {"conv3/kernel"}
    assert [layer.name for layer in net.layers][1:5] == ["conv1", "relu1", "pool", "conv3"]
    i = keras.Input((8, 8, 3))
    x = L.ReLU(name="relu1")(L.Conv2D(16, 3, padding="same", name="conv1")(i))
    x = L.Conv2D(8, 3, padding="same", name="conv3")(L.MaxPooling2D(name="pool")(x))
    x = L.Dense(150, name="dense")(L.Flatten(name="flatten")(x))
    same_as(net, keras.Model(i, L.Dense(10, name="head")(x)))


def test_what_is_rebuilt_is_drawn_from_a_stream_of_its_own() -> None:
    def kernel(seed: int) -> Any:
        return etude.remove(chain(), "layer:conv2", X, seed=seed).model.get_layer("conv3").get_weights()[0]

    first, again, other = kernel(0), kernel(0), kernel(1)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_residual_branch_is_dropped_and_not_doubled() -> None:
    net = residual()
    removed = etude.remove(net, "layer:inner", X)
    assert removed.rung.name == "NEUTRAL"
    assert removed.changes[:2] == ("inner removed (add does without its branch)", "no longer reached: norm")
    assert "re-execution" in removed.checks
    i = keras.Input((8, 8, 3))
    x = L.Conv2D(8, 3, padding="same", name="stem")(i)
    g = L.Dense(8, "sigmoid", name="gate")(L.GlobalAveragePooling2D(name="squeeze")(x))
    x = L.Multiply(name="scale")([x, L.Reshape((1, 1, 8), name="reshape")(g)])
    same_as(net, keras.Model(i, L.Dense(10, name="head")(L.GlobalAveragePooling2D(name="pooled")(x))))


def test_a_gate_becomes_one() -> None:
    net = residual()
    etude.remove(net, "layer:gate", X)
    assert [layer.name for layer in net.layers][1:] == ["stem", "inner", "norm", "add", "pooled", "head"]
    i = keras.Input((8, 8, 3))
    x = L.Conv2D(8, 3, padding="same", name="stem")(i)
    y = L.BatchNormalization(name="norm")(L.Conv2D(8, 3, padding="same", name="inner")(x))
    x = L.GlobalAveragePooling2D(name="pooled")(L.Add(name="add")([x, y]))
    same_as(net, keras.Model(i, L.Dense(10, name="head")(x)))


def test_a_branch_of_a_concatenation_is_cut_out_of_what_reads_it() -> None:
    net = branches()
    kernel = net.get_layer("after").get_weights()[0]
    removed = etude.remove(net, "layer:a", X)
    assert removed.rung.name == "SPLICE"
    assert "masked re-execution" in removed.checks
    assert removed.plan.rebuilt == ()
    assert "norm cut 10->6 inputs" in removed.changes
    assert "after cut 10->6 inputs" in removed.changes
    assert np.array_equal(net.get_layer("after").get_weights()[0], kernel[:, :, 4:])


def test_a_skip_connection_goes_with_its_addition() -> None:
    net = residual()
    assert etude.remove(net, "layer:add", X).rung.name == "IDENTITY"
    i = keras.Input((8, 8, 3))
    y = L.Conv2D(8, 3, padding="same", name="inner")(L.Conv2D(8, 3, padding="same", name="stem")(i))
    x = L.BatchNormalization(name="norm")(y)
    g = L.Dense(8, "sigmoid", name="gate")(L.GlobalAveragePooling2D(name="squeeze")(x))
    x = L.Multiply(name="scale")([x, L.Reshape((1, 1, 8), name="reshape")(g)])
    same_as(net, keras.Model(i, L.Dense(10, name="head")(L.GlobalAveragePooling2D(name="pooled")(x))))


@pytest.mark.parametrize("name", ["pool", "flatten", "dense", "conv1", "relu1"])
def test_what_changes_shapes_is_adapted_and_trains(name: str) -> None:
    net = chain()
    removed = etude.remove(net, f"layer:{name}", X)
    assert numbers(net).shape == (4, 10)
    assert net.count_params() == removed.plan.after
    net.compile("sgd", "mse")
    net.fit(X, np.zeros((4, 10)), verbose=0)


def test_filters_go_through_coupled_layers() -> None:
    net = residual()
    kernel = net.get_layer("stem").get_weights()[0]
    removed = etude.remove(net, "filters:stem[0,3]", X)
    assert removed.rung.name == "WIDTH"
    assert numbers(net).shape == (4, 10)
    assert np.array_equal(net.get_layer("stem").get_weights()[0], kernel[..., [1, 2, 4, 5, 6, 7]])
    assert net.get_layer("reshape").output.shape == (None, 1, 1, 6)


def test_units_are_cut() -> None:
    net = chain()
    head = net.get_layer("head").get_weights()[0]
    removed = etude.remove(net, "units:dense[0:50]", X)
    assert removed.changes[:2] == ("dense cut 150->100 outputs", "head cut 150->100 inputs")
    assert np.array_equal(net.get_layer("head").get_weights()[0], head[50:])


def test_a_sequential_model_stays_one_and_its_optimizer_knows_what_is_left() -> None:
    net = keras.Sequential([
        keras.Input((6,)), L.Dense(8, "relu", name="first"), L.Dropout(0.5, name="drop"),
        L.Dense(8, "relu", name="middle"), L.Dense(1, name="last"),
    ])  # fmt: skip
    net.compile("adam", "mse")
    x, y = X[:, 0, :2].reshape(4, 6), np.zeros((4, 1))
    net.fit(x, y, verbose=0)
    etude.remove(net, "layers:[middle,drop]", x)
    assert type(net) is keras.Sequential
    assert [layer.name for layer in net.layers] == ["first", "last"]
    net.fit(x, y, verbose=0)
    assert len(net.optimizer.variables) == 2 + 2 * 4
    assert len(net.trainable_variables) == 4


def test_layers_of_a_nested_model_go_by_their_path() -> None:
    i = keras.Input((8, 8, 3))
    x = L.ReLU(name="relu")(L.Conv2D(5, 3, padding="same", name="conv")(i))
    encoder = keras.Model(i, L.Conv2D(5, 3, padding="same", name="conv2")(x), name="encoder")
    j = keras.Input((8, 8, 3))
    net = keras.Model(j, L.Dense(10, name="head")(L.GlobalAveragePooling2D(name="pooled")(encoder(j))))
    paths = [layer.path for layer in etude.removing.layers_of(net)]
    assert paths == ["encoder", "encoder.conv", "encoder.relu", "encoder.conv2", "pooled", "head"]
    assert [one.path for one in etude.removing.layers_of(net) if one.reads_data] == ["encoder.conv"]
    with pytest.raises(ConfigError, match=r"is an input of the model, and without it no data reaches what comes after"):
        etude.remove(net, "layer:input_layer", X)
    removed = etude.remove(net, "layer:encoder.conv2", X)
    assert removed.rung.name == "IDENTITY"
    assert [layer.name for layer in net.get_layer("encoder").layers][1:] == ["conv", "relu"]
    assert len(net.trainable_variables) == 4
    assert len(list(net.trainable_weights)) == 4


def test_a_layer_that_is_called_twice_goes_twice() -> None:
    i = keras.Input((6,))
    shared = L.Dense(6, name="shared")
    x = L.Dense(6, name="between")(shared(i))
    net = keras.Model(i, L.Dense(2, name="head")(shared(x)))
    etude.remove(net, "layer:shared", X[:, 0, :2].reshape(4, 6))
    j = keras.Input((6,))
    twin = keras.Model(j, L.Dense(2, name="head")(L.Dense(6, name="between")(j)))
    for layer in twin.layers:
        layer.set_weights(net.get_layer(layer.name).get_weights() if layer.weights else [])
    x = X[:, 0, :2].reshape(4, 6)
    np.testing.assert_allclose(numbers(net, x), numbers(twin, x), rtol=1e-5)


def tokens() -> Any:
    i = keras.Input((7,), dtype="int32")
    x = L.Embedding(20, 6, name="embedding")(i)
    return keras.Model(i, L.Dense(2, name="head")(L.GlobalAveragePooling1D(name="pooled")(x)))


def test_an_embedding_goes_only_on_request() -> None:
    ids = np.arange(28).reshape(4, 7) % 20
    net = tokens()
    before = net.get_weights()
    with pytest.raises(RemovalRefused) as refused:
        etude.remove(net, "layer:embedding", ids)
    assert refused.value.code is RefusalCode.NO_PATH
    assert all(np.array_equal(a, b) for a, b in zip(before, net.get_weights(), strict=True))
    removed = etude.remove(net, "layer:embedding", ids, repair="learned")
    assert removed.rung.name == "LEARNED"
    assert numbers(net, ids).shape == (4, 2)


class Subclassed(keras.Model):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.dense = L.Dense(2)

    def call(self, x: Any) -> Any:
        return self.dense(x)


class Written(keras.Model):  # type: ignore[misc]
    """A functional model with a class of its own."""

    def __init__(self) -> None:
        i = keras.Input((8, 8, 3))
        x = L.Conv2D(3, 3, padding="same", name="conv")(i)
        super().__init__(i, L.Dense(2, name="dense")(L.GlobalAveragePooling2D(name="pooled")(x)))


class Twice(Written):
    """It has a graph, and does something else."""

    def call(self, x: Any, training: bool | None = None, mask: Any = None) -> Any:
        return 2 * super().call(x, training=training, mask=mask)


class TwiceInARow(keras.Sequential):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__([keras.Input((8, 8, 3)), L.Flatten(name="flatten"), L.Dense(2, name="dense")])

    def call(self, x: Any, training: bool | None = None, mask: Any = None) -> Any:
        return 2 * super().call(x, training=training, mask=mask)


def test_a_functional_model_with_a_class_of_its_own_is_taken_apart() -> None:
    net = Written()
    assert etude.remove(net, "layer:conv", X).rung.name == "IDENTITY"
    assert type(net).__name__ == "Written"
    i = keras.Input((8, 8, 3))
    same_as(net, keras.Model(i, L.Dense(2, name="dense")(L.GlobalAveragePooling2D(name="pooled")(i))))


@pytest.mark.parametrize("make", [Subclassed, Twice, TwiceInARow])
def test_a_model_whose_layers_are_called_in_code_of_its_own_is_refused_with_the_way_out(make: Any) -> None:
    with pytest.raises(RemovalRefused) as refused:
        etude.remove(make(), "layer:dense", X)
    assert refused.value.code is RefusalCode.UNTRACEABLE
    assert "Write it with the functional API, keras.Model(inputs, outputs), or give variants" in str(refused.value)


def test_a_model_with_code_of_its_own_goes_as_a_whole_and_not_in_parts() -> None:
    def made() -> Any:
        i = keras.Input((6,))
        x = Subclassed()(L.Dense(2, name="first")(i))
        return keras.Model(i, L.Dense(3, name="head")(x))

    x, net = X[:, 0, :2].reshape(4, 6), made()
    inner = net.layers[2].name
    with pytest.raises(ConfigError):
        etude.remove(net, f"layer:{inner}.dense", x)
    assert etude.remove(net, f"layer:{inner}", x).rung.name == "IDENTITY"
    assert [layer.name for layer in net.layers[1:]] == ["first", "head"]


def test_what_lies_between_two_layers_goes_with_the_second() -> None:
    net = residual()
    removed = etude.remove(net, "between:stem..scale", X)
    assert removed.rung.name == "IDENTITY"
    assert [layer.name for layer in net.layers][1:] == ["stem", "pooled", "head"]
    i = keras.Input((8, 8, 3))
    x = L.Conv2D(8, 3, padding="same", name="stem")(i)
    same_as(net, keras.Model(i, L.Dense(10, name="head")(L.GlobalAveragePooling2D(name="pooled")(x))))


def test_a_model_that_was_fitted_goes_on_with_what_is_left() -> None:
    net = branches()
    net.compile("adam", "mse")
    net.fit(X, np.zeros((4, 10)), verbose=0)
    trained = net.get_layer("stem").get_weights()[0]
    etude.remove(net, "layer:a", X)
    assert np.array_equal(net.get_layer("stem").get_weights()[0], trained)
    net.fit(X, np.zeros((4, 10)), verbose=0)
    assert not np.array_equal(net.get_layer("stem").get_weights()[0], trained)
    assert len(net.optimizer._trainable_variables) == len(net.trainable_variables) == 10


@pytest.mark.parametrize(
    ("make", "component", "code"),
    [
        (chain, "layer:nothing", None),
        (chain, "heads:dense[0]", None),
        (Subclassed, "layer:dense", RefusalCode.UNTRACEABLE),
    ],
)
def test_what_cannot_go_is_refused(make: Callable[[], Any], component: str, code: RefusalCode | None) -> None:
    with pytest.raises(ConfigError) as refused:
        etude.remove(make(), component, X)
    assert getattr(refused.value, "code", None) is code


def test_the_only_layer_between_the_models_parts_and_its_projection_is_refused() -> None:
    i = keras.Input((8, 8, 3))
    one, two = L.Conv2D(4, 1, name="one")(i), L.Conv2D(4, 1, name="two")(i)
    net = keras.Model(i, L.GlobalAveragePooling2D(name="pooled")(L.Add(name="add")([one, two])))
    with pytest.raises(RemovalRefused) as refused:
        etude.remove(net, "layer:add", X)
    assert str(refused.value) == (
        "'add' cannot be taken out (no path): it joins branches, and without it layers would have no effect any more."
    )


def test_a_model_that_was_loaded_keeps_its_values_and_can_be_saved(tmp_path: Any) -> None:
    net = chain()
    etude.remove(net, "layer:pool", X)
    net.save(tmp_path / "net.keras")
    again = keras.models.load_model(tmp_path / "net.keras")
    np.testing.assert_allclose(numbers(net), numbers(again), rtol=1e-5)
