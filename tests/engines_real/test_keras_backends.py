"""Keras on TensorFlow and on JAX: searches, ablations and removal; ranks are refused.

One script for each backend: to load it takes longer than most of what is tested.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from keras_study import REFUSED, SCRIPT, TOLD
from support import run_script, write_script

REMOVAL = """
    def net():
        i = keras.Input((8, 8, 3), name="image")
        x = keras.layers.Conv2D(8, 3, padding="same", name="stem")(i)
        y = keras.layers.Conv2D(8, 3, padding="same", name="inner")(x)
        x = keras.layers.Add(name="add")([x, keras.layers.BatchNormalization(name="norm")(y)])
        x = keras.layers.Dropout(0.2, name="drop")(x)
        a, b = keras.layers.Conv2D(4, 1, name="a")(x), keras.layers.Conv2D(6, 1, name="b")(x)
        x = keras.layers.Concatenate(name="mixed")([a, b])
        x = keras.layers.Conv2D(12, 3, padding="same", name="after")(x)
        x = keras.layers.GlobalAveragePooling2D(name="pooled")(x)
        return keras.Model(i, keras.layers.Dense(10, name="head")(x))

    def pooled():
        i = keras.Input((8, 8, 3), name="image")
        x = keras.layers.MaxPooling2D(name="pool")(keras.layers.Conv2D(4, 3, padding="same", name="one")(i))
        x = keras.layers.Flatten(name="flat")(keras.layers.Conv2D(8, 3, padding="same", name="two")(x))
        return keras.Model(i, keras.layers.Dense(50, name="head")(x))

    def wide():
        i = keras.Input((8, 8, 3), name="image")
        x = keras.layers.Dense(8, name="first")(keras.layers.GlobalAveragePooling2D(name="pooled")(i))
        x = keras.layers.Dense(100, name="wide")(keras.layers.Dense(16, name="middle")(x))
        return keras.Model(i, keras.layers.Dense(2, name="head")(x))

    def idle():
        i = keras.Input((8, 8, 1), name="image")
        x = keras.layers.Activation("linear", name="linear")(keras.layers.Flatten(name="flat")(i))
        x = keras.layers.Dropout(0.2, name="drop")(keras.layers.Dense(4, name="dense")(x))
        return keras.Model(i, keras.layers.Dense(1, name="head")(x))

    def take_away(component, net=net, fitted=False):
        x, net_ = np.random.default_rng(0).random((4, 8, 8, 3)).astype("float32"), net()
        net_.compile("adam", "mse")
        if fitted:
            net_.fit(x, np.zeros((4, 10)), verbose=0)
        removed = etude.remove(net_, component, x)
        if fitted:
            net_.fit(x, np.zeros((4, 10)), verbose=0)
        exact = any("re-execution" in check for check in removed.checks)
        print(component, removed.rung.name, exact, net_.count_params() == removed.plan.after)

    if __name__ == "__main__":
        take_away("layer:inner", fitted=True)
        for component in ("layer:a", "layer:after", "between:stem..add"):
            take_away(component)
        take_away("layer:pool", pooled)
        take_away("layer:middle", wide)
        try:
            take_away("layer:head")
        except etude.RemovalRefused as refused:
            print(refused.code.value)
        idles = etude.Experiment(train, model=idle, data=data, metric="loss", mode="min")
        draft = idles.ablate(["layer:linear", "layer:drop"], seeds=8, dry_run=True)
        print([arm.arm.name for arm in draft.arms if "a dead component" in " ".join(arm.says)])
"""

TAKEN = (
    "layer:inner NEUTRAL True True",
    "layer:a SPLICE True True",
    "layer:after SPLICE False True",
    "between:stem..add IDENTITY True True",
    "layer:pool ADAPTER True True",
    "layer:middle WIDTH False True",
    "does not fit",
    "['layer:linear']",
)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_studies_and_removal_run_on_another_backend_and_ranks_are_refused(backend: str, tmp_path: Path) -> None:
    pytest.importorskip("keras")
    pytest.importorskip(backend)
    done = run_script(write_script(tmp_path, SCRIPT + REMOVAL), patience_s=500.0, KERAS_BACKEND=backend)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{backend} False", REFUSED.format(backend), *TOLD, *TAKEN]
