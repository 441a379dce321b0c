"""A search and an ablation of a Keras model in real processes, on torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras_study import SCRIPT, TOLD
from support import run_script, write_script

import etude

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own

NARROW = "The model is built for fewer inputs, so it begins with other weights than the base: no pairs."


@pytest.mark.thorough
def test_a_keras_model_is_tuned_and_taken_apart(tmp_path: Path) -> None:
    pytest.importorskip("keras")
    done = run_script(write_script(tmp_path, SCRIPT), patience_s=600.0)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["torch True", *TOLD]


def table() -> etude.Data:
    x = np.random.default_rng(0).random((8, 3)).astype("float32")
    return etude.Data((x, x.sum(1)), features=["age", "fare", "sex"])


def wide(n_features: etude.Derived[int]) -> Any:
    import keras

    i = keras.Input((n_features,), name="row")
    x = keras.layers.Dense(4, name="first")(i)
    return keras.Model(i, keras.layers.Dense(1, name="head")(keras.layers.Dense(4, name="middle")(x)))


def train(model: Any, data: Any, run: Any) -> float:
    net, (x, _) = model(), data().train
    assert net.input_shape == (None, x.shape[1])
    first = net.layers[1].get_weights()[0]
    np.save(run.folder / "first.npy", first)
    return 0.0


def by_place(n_features: etude.Derived[int]) -> Any:
    import keras

    i = keras.Input((n_features,), name="row")
    return keras.Model(i, keras.layers.Dense(1)(i[:, :2]))


def of(model: Any) -> etude.Experiment:
    return etude.Experiment(train, model=model, data=table, metric="loss", mode="min")


def test_columns_of_the_features_that_are_left_are_those_of_the_whole_keras_model() -> None:
    pytest.importorskip("keras")
    arms = ["feature:age", "feature:sex how=permute", "layer:middle"]
    ablation = of(wide).ablate(arms, policy="leave_one_out", seeds=1, workers=2, force=True)
    assert isinstance(ablation, etude.Ablation)
    assert ablation.counts() == {"finished": 4}
    first = {trial.arm: np.load(next(trial.folder.rglob("first.npy"))) for trial in ablation.trials}
    assert np.array_equal(first["feature:age"], first["base"][1:])
    assert np.array_equal(first["feature:sex how=permute"], first["base"])
    for arm in ablation.arms[1:]:
        [pair] = ablation.pairing(arm.name).values()
        assert pair.is_pair, arm.name
    assert ablation.arms[1].changes == ("first 3->2 inputs",)


def test_where_nobody_can_tell_a_keras_model_is_built_for_fewer_features_and_is_no_pair() -> None:
    pytest.importorskip("keras")
    draft = of(by_place).ablate(["feature:age"], seeds=1, dry_run=True)
    [says] = draft.arms[1].says
    assert says.startswith(f"{NARROW} Why: they are read by their place: nobody knows what another width means to get")
    assert draft.refused == ()


def test_a_feature_and_a_layer_of_a_keras_model_go_in_one_arm() -> None:
    pytest.importorskip("keras")
    draft = of(wide).ablate(["feature:age", "layer:middle"], policy="pairs", seeds=1, dry_run=True)
    assert draft.refused == ()
    assert draft.arms[-1].changes == ("middle removed", "first 3->2 inputs")
    assert draft.arms[-1].parameters == 2 * 4 + 4 + 5


def idle() -> Any:
    import keras

    i = keras.Input((3,), name="row")
    x = keras.layers.Activation("linear", name="linear")(keras.layers.Dense(4, name="first")(i))
    return keras.Model(i, keras.layers.Dense(1, name="head")(keras.layers.Dropout(0.5, name="drop")(x)))


def test_a_keras_layer_without_which_all_is_the_same_is_said_to_be_dead_before_anything_runs() -> None:
    pytest.importorskip("keras")
    draft = of(idle).ablate(["layer:linear", "layer:drop"], seeds=8, dry_run=True)
    says = {one.arm.name: one.says for one in draft.arms}
    assert says["layer:linear"] == (
        "the model gives and learns the same without 'linear': a dead component, whose removal changes nothing",
    )
    assert says["layer:drop"] == ()


def test_an_arm_of_a_keras_model_that_loses_loaded_weights_is_marked() -> None:
    keras = pytest.importorskip("keras")

    def new() -> Any:
        i = keras.Input((8, 8, 3))
        x = keras.layers.Conv2D(6, 3, padding="same", name="b")(keras.layers.Conv2D(8, 3, name="a")(i))
        x = keras.layers.Dense(300, name="c")(keras.layers.Flatten()(x))
        return keras.Model(i, keras.layers.Dense(2, name="head")(x))

    keras.utils.set_random_seed(3)
    weights = new().get_weights()

    def loaded() -> Any:
        net = new()
        net.set_weights(weights)
        return net

    def images() -> Any:
        return np.random.default_rng(0).random((8, 8, 8, 3)).astype("float32"), np.arange(8) % 2

    def arm(model: Any) -> str:
        experiment = etude.Experiment(lambda model, data: 0.0, model=model, data=images, metric="loss", mode="min")
        return str(experiment.ablate("layer:b", seeds=8, dry_run=True).arms[1])

    assert "1 layer drawn anew, without the trained weights" in arm(loaded)
    assert "1 layer drawn anew [" in arm(new)
