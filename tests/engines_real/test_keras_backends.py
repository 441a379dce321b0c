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

    def take_away(component, fitted=False):
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
        for component in ("layer:a", "layer:after", "layer:head", "between:stem..add"):
            take_away(component)
"""

TAKEN = (
    "layer:inner NEUTRAL True True",
    "layer:a SPLICE True True",
    "layer:after SPLICE False True",
    "layer:head ADAPTER True True",
    "between:stem..add IDENTITY True True",
)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_studies_and_removal_run_on_another_backend_and_ranks_are_refused(backend: str, tmp_path: Path) -> None:
    pytest.importorskip("keras")
    pytest.importorskip(backend)
    done = run_script(write_script(tmp_path, SCRIPT + REMOVAL), patience_s=500.0, KERAS_BACKEND=backend)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"{backend} False", REFUSED.format(backend), *TOLD, *TAKEN]
