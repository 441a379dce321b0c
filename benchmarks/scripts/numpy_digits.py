"""The same in numpy alone."""

import numpy as np
from sklearn.datasets import load_digits


def model(seed, scale: float = 0.01):
    return np.random.default_rng(seed).normal(0, scale, (64, 10))


def data():
    digits = load_digits()
    return (digits.data[:400] / 16, digits.target[:400]), (digits.data[400:600] / 16, digits.target[400:600])


def train(model, data, run, *, lr: float, centred: bool = True, epochs: int = 2):
    kept = run.keep(weights=model())
    (x, y), (x_valid, y_valid) = data()
    for _ in run.epochs(epochs):
        for rows in np.array_split(run.generator("order").permutation(len(x)), 8):
            scores = x[rows] @ kept.weights
            share = np.exp(scores - scores.max(1, keepdims=True) * centred)
            share /= share.sum(1, keepdims=True)
            share[np.arange(len(rows)), y[rows]] -= 1
            kept.weights = kept.weights - lr * x[rows].T @ share / len(rows)
        run.report(accuracy=float(((x_valid @ kept.weights).argmax(1) == y_valid).mean()))
