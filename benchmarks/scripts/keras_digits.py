"""The same in Keras, on whichever backend it has."""

import keras
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import etude


def model(width: int = 16):
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(shape=(64,)),
            layers.Dense(width, name="hidden"),
            layers.Activation("relu", name="relu"),
            layers.Dense(10, name="head"),
        ]
    )


def data(batch_size: int = 50):
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    return DataLoader(TensorDataset(x[:400], y[:400]), batch_size, shuffle=True), (
        x[400:600].numpy(),
        y[400:600].numpy(),
    )


def train(model, data, run, *, lr: float, momentum: float = 0.9, epochs: int = 2):
    net, (batches, valid) = model(), data()
    net.compile(
        optimizer=keras.optimizers.SGD(lr, momentum=momentum),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    reporter = etude.callback("keras", run, names={"val_accuracy": "accuracy", "accuracy": "train_accuracy"})
    net.fit(batches, validation_data=valid, epochs=epochs, verbose=0, callbacks=[reporter])
