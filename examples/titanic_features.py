"""Which features does a small network need to tell who survived the Titanic? Each of six is left out in turn.

    python examples/titanic_features.py path/to/train.csv

It is the first experiment of Sheikholeslami et al. 2021, "AutoAblation: Automated Parallel Ablation Studies for Deep
Learning". The table is `train.csv` of https://www.kaggle.com/c/titanic/data.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude

FEATURES = ["Pclass", "Fare", "SibSp", "Sex", "Parch", "Age"]


def model(n_features: etude.Derived[int]) -> nn.Module:
    return nn.Sequential(
        nn.Linear(n_features, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0)
    )


def train(model: Any, data: Any, epochs: int = 10, batch_size: int = 30) -> float:
    net, parts = model(), data()
    passengers = TensorDataset(*map(torch.as_tensor, parts.train))
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(epochs):
        for x, survived in DataLoader(passengers, batch_size, shuffle=True):
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(net(x), survived.float()).backward()
            optimizer.step()
    x, survived = map(torch.as_tensor, parts.test)
    with torch.no_grad():
        return float(((net(x) > 0) == survived).float().mean())


def study(path: str, *, seeds: int = 10, workers: int = 2, force: bool = False) -> Any:
    """Train with all features and without each; a seed decides how rows are shared out, first weights, and batches."""
    data = etude.table(path, label="Survived", features=FEATURES, test_share=0.2, valid_share=0, split_seed=None)
    experiment = etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")
    return experiment.ablate([f"feature:{name}" for name in FEATURES], seeds=seeds, workers=workers, force=force)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="train.csv of https://www.kaggle.com/c/titanic/data")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--force", action="store_true", help="train with so few seeds that nothing could be decided")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if not Path(args.path).is_file():
        parser.error(f"{args.path} is not there. Get train.csv from https://www.kaggle.com/c/titanic/data.")
    ablation = study(args.path, seeds=args.seeds, workers=args.workers, force=args.force)
    for arm in sorted(ablation.arms, key=lambda arm: arm.mean):
        print(f"{arm.name:16} accuracy {arm.mean:.3f}, effect {arm.effect:+.3f}")
