"""Keras layers that change shapes, taken out: positions may be averaged, channels are never made up."""

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

X = np.random.default_rng(0).random((4, 8, 8, 3)).astype("float32")
ROWS = np.random.default_rng(1).standard_normal((4, 6)).astype("float32")


def numbers(model: Any, x: Any = X) -> Any:
    return np.asarray(keras.ops.convert_to_numpy(model(x, training=False)))


def same_as(model: Any, twin: Any, x: Any = X) -> None:
    """The weights of layers of the same names are handed over; then both give the same."""
    for layer in twin.layers:
        layer.set_weights(model.get_layer(layer.name).get_weights() if layer.weights else [])
    np.testing.assert_allclose(numbers(model, x), numbers(twin, x), rtol=1e-4, atol=1e-6)


def refusal(net: Any, component: str, x: Any = X) -> RemovalRefused:
    untouched = numbers(net, x)
    with pytest.raises(RemovalRefused) as refused:
        etude.remove(net, component, x)
    np.testing.assert_array_equal(numbers(net, x), untouched)
    return refused.value


def pictures(*layers: Any, i: Any = None) -> Any:
    i = keras.Input((8, 8, 3)) if i is None else i
    x = i
    for layer in layers:
        x = layer(x)
    return keras.Model(i, x)


def conv(filters: int, name: str, **options: Any) -> Any:
    return L.Conv2D(filters, 3, padding="same", name=name, **options)


def test_without_a_pooling_layers_go_along_more_pixels() -> None:
    def tail() -> list[Any]:
        return [conv(6, "two"), L.GlobalAveragePooling2D(name="pooled"), L.Dense(2, name="head")]

    net = pictures(conv(5, "one"), L.MaxPooling2D(name="pool"), *tail())
    removed = etude.remove(net, "layer:pool", X)
    assert str(removed) == "pool removed; as many parameters (rung 1, identity)"
    assert "re-execution" in removed.checks
    same_as(net, pictures(conv(5, "one"), *tail()))


def test_what_reads_flattened_pixels_is_rebuilt_for_more_of_them() -> None:
    def made(*pool: Any) -> Any:
        return pictures(conv(4, "one"), *pool, conv(2, "two"), L.Flatten(), L.Dense(2, name="small"),
                        L.Dense(200, name="wide"), L.Dense(9, name="head"))  # fmt: skip

    net = made(L.AveragePooling2D(2, name="pool"))
    removed = etude.remove(net, "layer:pool", X)
    assert removed.rung.name == "SPLICE"
    assert removed.changes[:2] == ("pool removed", "small rebuilt 32->128 inputs")
    same_as(net, made())


def test_where_that_is_too_much_pixels_are_averaged() -> None:
    def made(pool: Any) -> Any:
        return pictures(conv(4, "one"), pool, conv(8, "two"), L.Flatten(), L.Dense(50, name="head"))

    net = made(L.MaxPooling2D(name="pool"))
    removed = etude.remove(net, "layer:pool", X)
    assert removed.rung.name == "ADAPTER"
    assert removed.changes[0] == "pool removed (what went in is brought into shape by averaging its positions)"
    same_as(net, made(L.AveragePooling2D(2, name="other")))


def test_pixels_are_averaged_and_what_reads_the_channels_is_rebuilt() -> None:
    def made(front: list[Any], inputs: str) -> Any:
        return pictures(conv(4, "one"), *front, conv(8, inputs), L.Flatten(), L.Dense(50, name="head"))

    net = made([L.Conv2D(6, 3, strides=2, padding="same", name="down")], "two")
    removed = etude.remove(net, "layer:down", X)
    assert removed.rung.name == "ADAPTER"
    assert "two rebuilt 6->4 inputs" in removed.changes
    same_as(net, made([L.AveragePooling2D(2)], "two"))


def residual(last: Any, join: Any, *, size: int = 9, narrow: int = 3) -> Any:
    """A bottleneck: three channels, and twenty in the shortcut, which a wide stem makes; a wider one is dear."""
    i = keras.Input((8, 8, 3))
    x = conv(40, "wide")(i)
    x = conv(20, "stem")(x)
    y = L.Conv2D(narrow, size, name="narrow", padding="same", activation="relu")(x)
    x = join([x, last(y)])
    return keras.Model(i, L.Dense(2, name="head")(L.GlobalAveragePooling2D(name="pooled")(x)))


def test_in_an_addition_zeros_stand_beside_the_channels() -> None:
    net = residual(conv(20, "last"), L.Add(name="add"))
    removed = etude.remove(net, "layer:last", X)
    assert removed.rung.name == "ADAPTER"
    assert removed.changes[0] == "last removed (what went in is brought into shape by zeros beside its 3 channels)"
    same_as(net, residual(lambda y: ops.pad(y, [[0, 0], [0, 0], [0, 0], [0, 17]]), L.Add()))


@pytest.mark.parametrize("join", [L.Add, L.Maximum])
def test_rather_than_zeros_the_layer_in_front_gets_the_width_that_the_join_wants(join: Any) -> None:
    net = residual(conv(20, "last"), join(), size=1)
    stem = net.get_layer("stem").get_weights()[0].copy()
    removed = etude.remove(net, "layer:last", X)
    assert removed.rung.name == "WIDTH"
    assert removed.changes[:2] == ("last removed", "narrow rebuilt 3->20 outputs")
    assert set(removed.plan.rebuilt) == {"narrow/kernel", "narrow/bias"}
    np.testing.assert_array_equal(net.get_layer("stem").get_weights()[0], stem)
    same_as(net, residual(lambda y: y, join(), size=1, narrow=20))


def test_where_what_reads_it_would_be_too_much_the_layer_in_front_is_built_for_it() -> None:
    def made(first: int, *middle: Any) -> Any:
        return pictures(L.Dense(first, name="first"), L.BatchNormalization(name="norm"), *middle,
                        L.Dense(100, name="wide"), L.Dense(2, name="head"), i=keras.Input((6,)))  # fmt: skip

    net = made(8, L.Dense(16, name="middle"))
    wide = [np.array(weight) for weight in net.get_layer("wide").get_weights()]
    removed = etude.remove(net, "layer:middle", ROWS)
    assert removed.rung.name == "WIDTH"
    assert removed.changes[:2] == ("middle removed", "first rebuilt 8->16 outputs")
    for before, after in zip(wide, net.get_layer("wide").get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    same_as(net, made(16), ROWS)


def test_in_front_of_an_average_of_positions_a_layer_is_widened_too() -> None:
    def made(first: int, *middle: Any) -> Any:
        return pictures(conv(first, "first"), *middle, L.Flatten(), L.Dense(300, name="wide"), L.Dense(2, name="head"))

    net = made(4, conv(6, "down", strides=2))
    removed = etude.remove(net, "layer:down", X)
    assert removed.rung.name == "ADAPTER"
    assert removed.changes[0] == "down removed (what went in is brought into shape by averaging its positions)"
    assert "first rebuilt 4->6 outputs" in removed.changes
    same_as(net, made(6, L.AveragePooling2D(2)))


def test_what_has_no_layer_in_front_that_could_be_wider_is_refused_for_what_reads_it() -> None:
    net = pictures(L.Dense(16, name="middle"), L.Dense(100, name="wide"), L.Dense(2, name="head"), i=keras.Input((6,)))
    assert refusal(net, "layer:middle", ROWS).code is RefusalCode.TOO_MUCH


def test_nothing_else_gets_channels_of_zeros() -> None:
    refused = refusal(residual(conv(20, "last"), L.Maximum()), "layer:last")
    assert refused.code is RefusalCode.TOO_MUCH


def dense(width: int) -> Any:
    first, second = L.Dense(60, name="first"), L.Dense(width, name="second")
    return pictures(first, L.ReLU(name="relu"), second, L.ReLU(name="after"), L.Dense(2), i=keras.Input((6,)))


def test_weights_of_a_learned_adapter_are_counted() -> None:
    net = dense(24)
    removed = etude.remove(net, "layers:[first,relu,second]", ROWS, repair="learned")
    assert removed.rung.name == "LEARNED"
    assert removed.plan.after == net.count_params() == 7 * 24 + 25 * 2
    assert removed.changes[-1] == "1,716 fewer parameters"
    assert etude.remove(dense(24), "layer:second", ROWS, repair="learned").changes[-1] == "as many parameters"


def test_two_layers_go_beside_one_that_stays_whatever_width_lay_between() -> None:
    net = dense(6)
    removed = etude.remove(net, "layers:[first,second]", ROWS)
    assert removed.rung.name == "IDENTITY"
    assert "relu kept" in removed.changes
    assert "re-execution" in removed.checks
    assert net.count_params() == 14


@pytest.mark.parametrize("last", [L.Dense(9, name="head"), L.Dense(9, "softmax", name="head")])
def test_a_last_layer_goes_only_for_a_learned_one(last: Any) -> None:
    def made() -> Any:
        return pictures(conv(5, "one"), L.GlobalAveragePooling2D(), type(last).from_config(last.get_config()))

    refused = refusal(made(), "layer:head")
    assert refused.code is RefusalCode.DOES_NOT_FIT
    assert refused.why == (
        "it gives the model's result its width: nothing without parameters makes 9 numbers of 5. "
        'repair="learned" puts a small dense layer there.'
    )
    net = made()
    assert etude.remove(net, "layer:head", X, repair="learned").rung.name == "LEARNED"
    assert numbers(net).shape == (4, 9)


def test_a_mean_that_would_be_replaced_by_the_same_mean_stays() -> None:
    refused = refusal(pictures(conv(5, "one"), L.GlobalAveragePooling2D(name="mean"), L.Dense(5)), "layer:mean")
    assert refused.code is RefusalCode.DOES_NOT_FIT
    assert "does what it does, so that nothing would be taken away" in refused.why


def test_steps_of_time_are_averaged_and_a_set_is_not() -> None:
    def made(front: Callable[[Any], Any]) -> Any:
        i = keras.Input((8, 5))
        x = L.LayerNormalization()(L.EinsumDense("btc,ts->bsc", (3, 5), name="latents")(front(i)))
        return keras.Model(i, L.Dense(40)(L.Flatten()(x)))

    x = X[..., 0, :].repeat(2, -1)[..., :5]
    refused = refusal(made(L.Dense(5)), "layer:latents", x)
    assert refused.code is RefusalCode.TOO_MUCH
    net = made(L.Conv1D(5, 3, padding="same"))
    assert etude.remove(net, "layer:latents", x).rung.name == "ADAPTER"


# --- gates ----------------------------------------------------------------------------------------


def squeezed(gate: Callable[[Any], Any] | None) -> Any:
    i = keras.Input((8, 8, 3))
    x = conv(8, "one")(i)
    if gate is not None:
        s = L.Dense(2, "relu", name="squeeze")(L.GlobalAveragePooling2D(keepdims=True, name="mean")(x))
        x = L.Multiply(name="scale")([x, gate(s)])
    return keras.Model(i, L.Dense(2, name="head")(L.GlobalAveragePooling2D(name="pooled")(x)))


@pytest.mark.parametrize(
    "gate",
    [
        L.Dense(8, "sigmoid", name="gate"),
        L.Dense(8, "hard_sigmoid", name="gate"),
        lambda s: L.Activation("sigmoid")(L.Dense(8, name="gate")(s)),
        lambda s: ops.softmax(L.Dense(8, name="gate")(s)),
    ],
)
def test_without_the_layer_of_a_gate_the_factor_is_dropped_with_what_feeds_it(gate: Callable[[Any], Any]) -> None:
    net = squeezed(gate)
    removed = etude.remove(net, "layer:gate", X)
    assert removed.rung.name == "NEUTRAL"
    assert removed.changes[0] == "gate removed (scale does without its branch)"
    assert "no longer reached: squeeze" in removed.changes
    assert removed.plan.idle == ("squeeze/kernel", "squeeze/bias")
    same_as(net, squeezed(None))


def test_a_gate_of_the_same_width_stays_one() -> None:
    i = keras.Input((6,))
    h = L.Dense(6, name="two")(L.Dense(6, name="one")(i))
    net = keras.Model(i, L.Dense(2, name="head")(L.Multiply()([i, L.Activation("sigmoid")(h)])))
    assert etude.remove(net, "layer:two", ROWS).rung.name == "IDENTITY"


# --- what is said ---------------------------------------------------------------------------------


def test_layers_that_nothing_reaches_are_named_and_their_parameters_listed() -> None:
    i = keras.Input((6,))
    x = L.Dense(6, name="stem")(i)
    y = L.Dense(6, name="inner")(L.LayerNormalization(name="norm")(x))
    net = keras.Model(i, L.Dense(2, name="head")(L.Add(name="add")([x, y])))
    removed = etude.remove(net, "layer:inner", ROWS)
    assert removed.plan.idle == ("norm/gamma", "norm/beta")
    assert removed.changes[:2] == ("inner removed (add does without its branch)", "no longer reached: norm")
    assert [layer.name for layer in net.layers[1:]] == ["stem", "head"]


def nested(side: Any) -> Any:
    """A nested model with two results, of which one goes into a branch."""
    i = keras.Input((6,))
    x = L.Dense(6, name="body")(i)
    two = keras.Model(i, [x, side(x)], name="two")
    j = keras.Input((6,))
    main, other = two(j)
    y = L.Dense(6, name="from_side")(other)
    return keras.Model(j, L.Dense(2, name="head")(L.Add(name="add")([main, L.ReLU(name="relu")(y)])))


def test_parameters_inside_of_a_nested_model_stay_without_effect_and_are_named() -> None:
    net = nested(L.LayerNormalization(name="side"))
    removed = etude.remove(net, "layer:from_side", ROWS)
    assert "no longer reached: two.side" in removed.changes
    assert removed.plan.idle == ("side/gamma", "side/beta")
    refused = refusal(nested(L.Dense(6, name="side")), "layer:from_side", ROWS)
    assert refused.code is RefusalCode.NO_PATH
    assert refused.why == "two.side would have no effect any more."


def test_what_goes_inside_of_a_nested_model_is_named_by_its_path() -> None:
    i = keras.Input((6,))
    inner = keras.Model(i, L.ReLU(name="relu")(L.Dense(6, name="dense")(L.Dense(6)(i))), name="inner")
    net = pictures(inner, L.Dense(6, name="dense"), L.ReLU(name="relu"), L.Dense(2), i=keras.Input((6,)))
    removed = etude.remove(net, "layers:[inner.dense,relu]", ROWS)
    assert removed.changes[:-1] == ("inner.dense removed", "inner.relu kept", "relu removed")


def test_results_that_hardly_move_any_more_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etude.frameworks.keras_removal.ladder.dropped", lambda *_: None)
    i = keras.Input((6,))
    h = L.Dense(8, name="stem")(i)
    mixed = L.Lambda(lambda z: z[0] - 0.9999 * z[1] + 9.0)([h, L.Dense(8, name="f")(h)])
    refused = refusal(keras.Model(i, L.Dense(3, name="head")(mixed)), "layer:f", ROWS)
    assert refused.code is RefusalCode.NO_PATH
    assert refused.why.startswith("its result hardly depends on the input any more: another one moves it by ")


def inception(*, reduces: bool) -> Any:
    """Blocks as those of Inception, one of which halves the pixels in both of its branches."""
    i = keras.Input((8, 8, 3))
    x = L.Concatenate(name="mixed0")([L.Conv2D(3, 1, name="a")(i), conv(3, "b")(i)])
    if reduces:
        down = L.Conv2D(4, 3, strides=2, padding="same", name="down")(x)
        x = L.Concatenate(name="mixed1")([down, L.MaxPooling2D(2, name="pool")(x)])
    y = L.Concatenate(name="mixed2")([L.Conv2D(2, 1, name="c")(x), conv(2, "d")(x)])
    x = L.Dense(60, name="wide")(L.GlobalAveragePooling2D(name="pooled")(y))
    return keras.Model(i, L.Dense(9, name="head")(x))


def test_without_a_block_that_halves_the_pixels_the_others_go_along_all_of_them() -> None:
    net = inception(reduces=True)
    removed = etude.remove(net, "between:mixed0..mixed1", X)
    assert removed.rung.name == "SPLICE"
    assert removed.changes[:-1] == (
        "down removed", "pool removed", "mixed1 removed", "c rebuilt 10->6 inputs", "d rebuilt 10->6 inputs"
    )  # fmt: skip
    same_as(net, inception(reduces=False))
