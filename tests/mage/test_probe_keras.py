"""The probe on Keras: its steps are seen on PyTorch, and nothing is computed differently because of it."""

from __future__ import annotations

from pathlib import Path

from watched_programs import needs, seen, seen_and_alone

needs("keras", "torch")

TRAIN = """
import keras, numpy as np
keras.utils.set_random_seed(4)
x = np.random.rand(64, 5).astype("float32")
y = (x.sum(1) > 2.5).astype("float32")
model = keras.Sequential([
    keras.layers.Input((5,)),
    keras.layers.Dense(8, activation="relu", name="hidden"),
    keras.layers.Dropout(0.2, name="drop"),
    keras.layers.Dense(1, activation="sigmoid", name="out"),
])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(x, y, epochs=2, batch_size=16, verbose=0).history
print([value.hex() for value in history["loss"]], history["accuracy"])
print([float(weight.sum()).hex() for weight in model.get_weights()], np.random.rand().hex())
"""


def test_a_model_of_keras_is_seen_and_three_steps_are_enough(tmp_path: Path) -> None:
    facts = seen(tmp_path, TRAIN)
    assert (facts.ended.code, facts.ended.why, facts.steps) == (0, "enough seen", 3)
    (model,) = facts.models
    assert model.type == "Sequential"
    assert {name: (row.shape, row.got_gradient) for name, row in model.parameters.items()} == {
        "hidden.kernel": ((5, 8), True),
        "hidden.bias": ((8,), True),
        "out.kernel": ((8, 1), True),
        "out.bias": ((1,), True),
    }
    assert {path: model.modules[path].calls for path in ("", "hidden", "drop", "out")} == {
        "": 4, "hidden": 4, "drop": 4, "out": 4,
    }  # fmt: skip # one call more than there are steps: Keras builds the model by calling it
    assert model.modules["drop"].values["rate"] == 0.2
    assert model.modules["hidden"].values["units"] == 8
    (group,) = facts.optimizers[0]
    assert (group["type"], round(group["learning_rate"], 6), group["beta_1"]) == ("Adam", 0.01, 0.9)
    assert len(facts.losses) == 3
    (fit,) = facts.fits
    assert (fit.type, fit.rows, fit.columns) == ("Sequential", 64, ("0", "1", "2", "3", "4"))
    assert fit.values == {"epochs": 2, "batch_size": 16}
    assert ((16, 5), (16,)) in facts.batches
    assert facts.seeds == ("random 4", "numpy 4", "torch 4")


def test_keras_computes_and_prints_the_same(tmp_path: Path) -> None:
    facts, ran, alone = seen_and_alone(tmp_path, TRAIN)
    assert ran.out == alone.out
    assert (facts.ended.why, facts.steps) == ("finished", 8)
