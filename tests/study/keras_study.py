"""A user's script with a Keras model: a search and an ablation in real processes, on the backend of its environment."""

from __future__ import annotations

SCRIPT = """
    import sys

    import keras
    import numpy as np

    import etude

    def data():
        x = np.random.default_rng(0).random((32, 8, 8, 1)).astype("float32")
        return etude.Data((x, (x.mean((1, 2, 3)) > 0.5).astype("float32")))

    def model(width: int = 4):
        i = keras.Input((8, 8, 1), name="image")
        x = keras.layers.Conv2D(width, 3, padding="same", activation="relu", name="stem")(i)
        y = keras.layers.Conv2D(width, 3, padding="same", name="inner")(x)
        x = keras.layers.Add(name="mixed0")([x, y])
        x = keras.layers.Conv2D(6, 3, padding="same", activation="relu", name="conv")(x)
        x = keras.layers.Dropout(0.2, name="drop")(x)
        x = keras.layers.GlobalAveragePooling2D(name="pooled")(x)
        made = keras.Model(i, keras.layers.Dense(1, name="head")(keras.layers.Dense(8, name="dense")(x)))
        made.compile("adam", "mse")
        return made

    def train(model, data, run, lr: float = 0.01, epochs: int = 1):
        net, (x, y) = model(), data().train
        run.log("layers: " + " ".join(layer.name for layer in net.layers))
        net.optimizer.learning_rate = lr
        history = net.fit(x, y, batch_size=16, epochs=epochs, verbose=0, callbacks=[etude.callback("keras", run)])
        run.log(f"trained: {size(net):.4f}")
        return history.history["loss"][-1]

    def size(net):
        return sum(float(np.abs(weight).sum()) for weight in net.get_weights())

    def said(trial, what):
        told = [line for line in trial.log.read_text().splitlines() if f"{what}: " in line]
        return told[0].partition(f"{what}: ")[2]

    experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")

    if __name__ == "__main__":
        print(keras.config.backend(), "torch" in sys.modules)
        if keras.config.backend() != "torch":
            try:
                experiment.tune({"lr": etude.uniform(0.001, 0.1)}, trials=2, ranks=2, workers=1)
            except etude.ConfigError as refused:
                print(refused)
        search = experiment.tune(
            {"lr": etude.uniform(0.001, 0.1)}, trials=2, workers=2, sampler="random", name="search", seed=1
        )
        print(search.counts(), said(search.best, "trained") == f"{size(search.best.model()):.4f}")
        print(" ".join(layer.path for layer in experiment.components().layers))
        taken = ["layer:inner", "between:mixed0..drop"]
        ablation = experiment.ablate(taken, seeds=1, workers=2, name="ablation", force=True)
        print(ablation.complete, [arm.name for arm in ablation.arms])
        for arm in taken:
            [pair] = ablation.pairing(arm).values()
            print(arm, pair.is_pair, pair.shared)
        for trial in ablation.trials:
            print(trial.arm, said(trial, "layers"), said(trial, "trained") == f"{size(trial.model()):.4f}")
"""

REFUSED = (
    "ranks=2 was given, and Keras runs on its backend '{}', whose gradients are not averaged: each rank would train "
    "a model of its own. Leave ranks= out, or set KERAS_BACKEND=torch before Keras is imported."
)

TOLD = (
    "{'finished': 2} True",
    "stem inner mixed0 conv drop pooled dense head",
    "True ['base', 'layer:inner', 'between:mixed0..drop']",
    "layer:inner True 8",
    "between:mixed0..drop True 7",
    "base image stem inner mixed0 conv drop pooled dense head True",
    "layer:inner image stem conv drop pooled dense head True",
    "between:mixed0..drop image stem inner mixed0 pooled dense head True",
)
