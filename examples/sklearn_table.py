"""Tune a scikit-learn model on a table, and see which of its features matter: no PyTorch, no epochs.

A training function is one that returns a number. Nothing in this model is drawn at random, so it is the folds of its
cross-validation that a seed deals anew.

python examples/sklearn_table.py
"""

from __future__ import annotations

from typing import Any

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split

import etude


def data() -> etude.Data:
    found = load_breast_cancer()
    x, y = found.data, found.target
    train, test = train_test_split(range(len(y)), test_size=0.25, random_state=0, stratify=y)
    return etude.Data((x[train], y[train]), test=(x[test], y[test]), features=list(map(str, found.feature_names)))


def model(seed: int, learning_rate: float = 0.1, max_leaf_nodes: int = 31, l2: float = 0.0) -> Any:
    return HistGradientBoostingClassifier(
        learning_rate=learning_rate,
        max_leaf_nodes=max_leaf_nodes,
        l2_regularization=l2,
        max_iter=60,
        random_state=seed,
    )


def train(model: Any, data: Any, seed: int, final: etude.Stateless[bool] = False) -> dict[str, float]:
    parts = data()
    (x, y), (x_test, y_test) = parts.train, parts.test
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    result = {"accuracy": float(cross_val_score(model(), x, y, cv=folds).mean())}
    if final:  # once, after everything was chosen
        result["test_accuracy"] = model().fit(x, y).score(x_test, y_test)
    return result


experiment = etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")

if __name__ == "__main__":
    space = {
        "learning_rate": etude.loguniform(0.01, 1.0),
        "max_leaf_nodes": etude.integers(2, 64, log=True),
        "l2": etude.loguniform(1e-4, 10.0),
    }
    search = experiment.tune(space, trials=20, workers=2)
    print(search.summary())
    print(
        experiment.ablate(
            ["features:~^mean", "features:~ error$", "features:~^worst"], at=search.best, seeds=16, workers=2
        )
    )
    print("The winner once more:", experiment.run(**search.best.params, seed=search.best.seed, final=True))
