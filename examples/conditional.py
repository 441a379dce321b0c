"""A space with conditions: parameters that exist only with some choices, and configurations that cannot be.

python examples/conditional.py
"""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import etude

SPACE = {
    "method": etude.choice(
        {
            "neighbours": {"k": etude.integers(1, 15), "weights": ["uniform", "distance"]},
            "svm": {
                "c": etude.loguniform(0.1, 100.0),
                "kernel": etude.choice({"linear": {}, "rbf": {}, "poly": {"degree": [2, 3]}}),
            },
            "logistic": {"c": etude.loguniform(0.001, 1.0)},
        }
    ),
    "pixels": etude.ordered([16, 24, 32, 48]),
}


def sensible(method: str, k: int, weights: str) -> str | None:
    """Rule out, before it is run, what would be the same under another name."""
    if method == "neighbours" and k == 1 and weights == "distance":
        return "one neighbour weighs the same at any distance"
    return None


def model(
    method: str,
    k: int = 5,
    weights: str = "uniform",
    c: float = 1.0,
    kernel: str = "rbf",
    degree: int = 3,
) -> Any:
    if method == "neighbours":
        return KNeighborsClassifier(k, weights=weights)
    return SVC(C=c, kernel=kernel, degree=degree) if method == "svm" else LogisticRegression(C=c, max_iter=30)


def data(pixels: int = 48) -> tuple[Any, Any]:
    x, y = load_digits(return_X_y=True)
    x = x[:, x.std(axis=0).argsort()[-pixels:]] / 16  # those that differ most between images
    return x[:600], y[:600]


def train(model: Any, data: Any) -> float:
    x, y = data()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            return float(cross_val_score(model(), x, y, cv=3, error_score="raise").mean())
        except ConvergenceWarning:  # what only a run can tell
            raise etude.Invalid("it does not converge in the iterations that it has") from None


experiment = etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")

if __name__ == "__main__":
    search = experiment.tune(SPACE, trials=30, workers=2, constraint=sensible)
    print(search.summary())
