"""A space with conditions: parameters that exist only with some choices, and configurations that cannot be.

python examples/conditional.py
"""

from __future__ import annotations

from typing import Any

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import etude

SPACE = {
    "method": etude.choice(
        {
            "neighbours": {"k": etude.integers(1, 15), "weights": ["uniform", "distance"]},
            "svm": {"c": etude.loguniform(0.1, 100.0), "kernel": ["linear", "rbf", "poly"], "degree": [2, 3]},
            "logistic": {"c": etude.loguniform(0.001, 1.0)},
        }
    ),
    "pixels": etude.ordered([16, 32, 64]),
}


def sensible(method: str, k: int, weights: str, kernel: str, degree: int) -> str | None:
    """Rule out, before it is run, what would be run twice under two names."""
    if method == "neighbours" and k == 1 and weights == "distance":
        return "one neighbour weighs the same at any distance"
    if method == "svm" and kernel != "poly" and degree == 3:
        return f"the {kernel} kernel has no degree"
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
    return SVC(C=c, kernel=kernel, degree=degree) if method == "svm" else LogisticRegression(C=c, max_iter=2000)


def data(pixels: int = 64) -> tuple[Any, Any]:
    x, y = load_digits(return_X_y=True)
    x = x[:, x.std(axis=0).argsort()[-pixels:]] / 16  # those that differ most between images
    if not x.std(axis=0).all():
        raise etude.Invalid(f"pixels={pixels} takes in some that are the same in every image")
    return x[:600], y[:600]


def train(model: Any, data: Any) -> float:
    x, y = data()
    return float(cross_val_score(model(), x, y, cv=3).mean())


experiment = etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")

if __name__ == "__main__":
    search = experiment.tune(SPACE, trials=30, workers=2, constraint=sensible)
    print(search.summary())
