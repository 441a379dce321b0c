"""The same in scikit-learn."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier


def model(alpha: float = 1e-4, average: bool = True):
    return SGDClassifier(loss="log_loss", alpha=alpha, average=average)


def data():
    digits = load_digits()
    return (digits.data[:400] / 16, digits.target[:400]), (digits.data[400:600] / 16, digits.target[400:600])


def train(model, data, run, seed, *, lr: float, epochs: int = 2):
    net, ((x, y), (x_valid, y_valid)) = model(), data()
    net.set_params(learning_rate="constant", eta0=lr, random_state=seed)
    run.keep(net=net)
    for _ in run.epochs(epochs):
        net.partial_fit(x, y, classes=np.arange(10))
        run.report(accuracy=float(net.score(x_valid, y_valid)))
