"""Programs to try replies on that no check was made with: each trains in a second or two on data that it draws.

``SEQUENCES`` is a small transformer, ``CUSTOMERS`` a network for tables, ``LEAVERS`` a pipeline of scikit-learn, and
``STROKES`` a variational autoencoder. All are run as ``python train.py --seed N`` and write ``metrics.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SEQUENCES: Final = "sequences"
CUSTOMERS: Final = "customers"
LEAVERS: Final = "leavers"
STROKES: Final = "strokes"

ENTRY: Final = "python train.py --seed {seed}"


@dataclass(frozen=True)
class Program:
    """A program that nobody parametrised.

    Attributes:
        files: Its files: name -> text.
        metric: Where its metric is found.
        variants: What its marks and hints ask for.
    """

    files: Mapping[str, str]
    metric: str
    variants: tuple[str, ...]


SEQUENCES_TRAIN: Final = '''\
"""Sorts sequences of symbols into classes by a small transformer; writes its accuracy into metrics.json."""

import argparse
import json
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, LENGTH, CLASSES = 16, 12, 4
WIDTH, HEADS, DEPTH = 32, 4, 2
EPOCHS = 4
BATCH_SIZE = 48
LEARNING_RATE = 3e-3
WARMUP = 10


class Block(nn.Module):
    """Attention and a small network, each with a normalisation before it and a way around it."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Classifier(nn.Module):
    """Symbols and their places go through blocks; their mean is sorted."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)  # ABLATABLE_COMPONENT
        self.dropout = nn.Dropout(0.1)
        self.blocks = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(WIDTH)  # ABLATABLE_COMPONENT
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, symbols):
        x = self.tokens(symbols) + self.positions(torch.arange(symbols.shape[1]))
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def make_sequences(count, draws):
    """Return sequences in which one symbol is announced by another: the one that follows tells the class."""
    symbols = torch.randint(CLASSES + 1, VOCABULARY, (count, LENGTH), generator=draws)
    labels = torch.randint(CLASSES, (count,), generator=draws)
    rows, places = torch.arange(count), torch.randint(LENGTH // 2, (count,), generator=draws)
    symbols[rows, places] = labels
    symbols[rows, LENGTH - 1 - places] = torch.randint(CLASSES, (count,), generator=draws)
    return TensorDataset(symbols, labels)


def parameter_groups(model):
    """Return matrices, which decay, and everything else, which does not."""
    matrices = [one for one in model.parameters() if one.ndim > 1]
    others = [one for one in model.parameters() if one.ndim <= 1]
    return [{"params": matrices, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]


def rate(step, steps):
    """Return the share of the learning rate: it climbs, and then falls like a cosine."""
    if step < WARMUP:
        return (step + 1) / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP)))


@torch.no_grad()
def accuracy(model, loader):
    """Return the share of sequences whose class was found."""
    model.eval()
    correct = sum((model(symbols).argmax(1) == labels).sum().item() for symbols, labels in loader)
    return correct / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    draws = torch.Generator().manual_seed(11)
    train_loader = DataLoader(make_sequences(500, draws), batch_size=BATCH_SIZE, shuffle=True)
    test_loader = DataLoader(make_sequences(300, draws), batch_size=BATCH_SIZE)

    model = Classifier()
    optimizer = torch.optim.AdamW(parameter_groups(model), lr=LEARNING_RATE)
    steps = EPOCHS * len(train_loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, steps))  # ABLATABLE_COMPONENT
    for epoch in range(EPOCHS):
        model.train()
        for symbols, labels in train_loader:
            loss = F.cross_entropy(model(symbols), labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # ABLATABLE_COMPONENT
            optimizer.step()
            scheduler.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")
    found = accuracy(model, test_loader)
    print(f"accuracy {found:.4f}")
    with open("metrics.json", "w") as file:
        json.dump({"accuracy": found}, file)


if __name__ == "__main__":
    main()
'''

CUSTOMERS_NETWORK: Final = '''\
"""The network, and the mean of its weights over time."""

import copy

import torch
import torch.nn.functional as F
from torch import nn


class Network(nn.Module):
    """Two hidden layers."""

    def __init__(self, features, classes, hidden=48):
        super().__init__()
        self.input = nn.Linear(features, hidden)
        self.norm1 = nn.BatchNorm1d(hidden)
        self.hidden = nn.Linear(hidden, hidden)
        self.norm2 = nn.BatchNorm1d(hidden)  # ABLATABLE_COMPONENT
        self.dropout = nn.Dropout(0.3)  # ABLATABLE_COMPONENT
        self.output = nn.Linear(hidden, classes)

    def forward(self, x):
        x = F.relu(self.norm1(self.input(x)))
        x = F.relu(self.norm2(self.hidden(x)))
        return self.output(self.dropout(x))


class Average:
    """A copy of a network whose weights follow it slowly."""

    def __init__(self, model, decay=0.95):
        self.model = copy.deepcopy(model)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for mine, yours in zip(self.model.parameters(), model.parameters()):
            mine.lerp_(yours, 1 - self.decay)
        for mine, yours in zip(self.model.buffers(), model.buffers()):
            mine.copy_(yours)


def mixup(x, y, alpha=0.3):
    """Return rows and targets mixed with others of the batch."""
    share = torch.distributions.Beta(alpha, alpha).sample((len(x), 1))
    other = torch.randperm(len(x))
    return share * x + (1 - share) * x[other], share * y + (1 - share) * y[other]
'''

CUSTOMERS_TRAIN: Final = '''\
"""Finds which of three offers a customer takes; writes the balanced accuracy into metrics.json."""

import argparse
import json

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from network import Average, Network, mixup

# ABLATION_HINT_START
# - set `SMOOTHING` to 0.0
# - set `BALANCED` to False
# ABLATION_HINT_END
EPOCHS = 12
PATIENCE = 4
SMOOTHING = 0.1
BALANCED = True
FEATURES, CLASSES = 10, 3


def make_table(count, draw):
    """Return rows of ten numbers, and which of three unequally frequent offers is taken."""
    labels = draw.choice(CLASSES, count, p=[0.6, 0.28, 0.12])
    centres = np.random.default_rng(5).normal(0, 0.8, (CLASSES, FEATURES))
    rows = centres[labels] + draw.normal(0, 1.2, (count, FEATURES))
    rows[:, 3] *= rows[:, 4]
    return rows * np.linspace(1, 30, FEATURES), labels


def split(rows, labels, draw):
    """Return training, validation and test rows, scaled by what the training rows are like."""
    order = draw.permutation(len(rows))
    parts = np.split(order, [len(rows) * 6 // 10, len(rows) * 8 // 10])
    mean, spread = rows[parts[0]].mean(0), rows[parts[0]].std(0)
    scaled = torch.tensor((rows - mean) / spread, dtype=torch.float32)
    return [TensorDataset(scaled[part], torch.tensor(labels[part])) for part in parts]


def class_weights(labels):
    """Return weights that make up for how often a class occurs; their mean over rows is 1."""
    counts = torch.bincount(labels, minlength=CLASSES).float()
    return len(labels) / (CLASSES * counts)


@torch.no_grad()
def balanced_accuracy(model, data):
    """Return the mean over classes of the share of rows that were found."""
    model.eval()
    rows, labels = data.tensors
    right = model(rows).argmax(1) == labels
    return torch.stack([right[labels == one].float().mean() for one in range(CLASSES)]).mean().item()


def train(model, data, validation, weights):
    """Train until the validation rows are sorted no better; return the mean of the weights over time, at its best."""
    loader = DataLoader(data, batch_size=32, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-2)
    average = Average(model)
    best, kept, waited = -1.0, None, 0
    for epoch in range(EPOCHS):
        model.train()
        for rows, labels in loader:
            targets = F.one_hot(labels, CLASSES).float()
            rows, targets = mixup(rows, targets)  # ABLATABLE_COMPONENT(name=mixup)
            loss = F.cross_entropy(model(rows), targets, weight=weights, label_smoothing=SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update(model)
        found = balanced_accuracy(average.model, validation)
        print(f"epoch {epoch}: loss {loss.item():.4f}, validation {found:.4f}")
        waited += 1
        if found > best:
            best, waited = found, 0
            kept = {name: value.clone() for name, value in average.model.state_dict().items()}
        if waited == PATIENCE:
            break
    average.model.load_state_dict(kept)
    return average.model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)

    torch.manual_seed(args.seed)
    rows, labels = make_table(900, np.random.default_rng(3))
    training, validation, test = split(rows, labels, np.random.default_rng(args.seed))
    weights = class_weights(training.tensors[1]) if BALANCED else None
    model = train(Network(FEATURES, CLASSES), training, validation, weights)

    found = balanced_accuracy(model, test)
    print(f"balanced accuracy {found:.4f}")
    with open("metrics.json", "w") as file:
        json.dump({"balanced_accuracy": found}, file)


if __name__ == "__main__":
    main()
'''

LEAVERS_TRAIN: Final = '''\
"""Finds customers who will leave, by boosted trees; writes the area under the ROC curve into metrics.json."""

import argparse
import json

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

SUBSAMPLE = 0.7
TREES = 40
KEPT = 9
FOLDS = 4
TARGET = "left"


def make_table(count=600):
    """Return a table of customers; it is always the same one."""
    draw = np.random.default_rng(42)
    data = pd.DataFrame(
        {
            "age": draw.integers(18, 80, count),
            "tenure": draw.exponential(30, count),
            "visits": draw.poisson(6, count),
            "income": draw.lognormal(10, 0.5, count),
            "calls": draw.poisson(2, count),
            "discount": draw.uniform(0, 0.4, count),
            "distance": draw.exponential(8, count),
            "rating": draw.normal(3.5, 1, count),
            "since_order": draw.exponential(20, count),
        }
    )
    pull = 0.5 * data["calls"] - 0.04 * data["tenure"] - 0.2 * data["visits"] - 0.6 * data["rating"]
    pull += 0.03 * data["since_order"] - 2 * data["discount"] + draw.logistic(0, 1, count)
    data[TARGET] = (pull > np.quantile(pull, 0.75)).astype(int)
    return data


def add_features(data):
    """Return the table with columns that are computed from others."""
    data = data.copy()
    data["visits_per_month"] = data["visits"] / (1 + data["tenure"])
    data["spending"] = np.log(data["income"]) * (1 - data["discount"])
    return data


def balance(labels):
    """Return a weight for each row, such that both classes weigh the same."""
    share = labels.mean()
    return np.where(labels == 1, 0.5 / share, 0.5 / (1 - share))


def select(train, labels, test):
    """Return the columns that tell most of the classes, of both tables."""
    chooser = SelectKBest(f_classif, k=min(KEPT, train.shape[1])).fit(train, labels)
    chosen = train.columns[chooser.get_support()]
    return train[chosen], test[chosen]


def scale(train, test):
    """Return both tables with a mean of 0 and a variance of 1, as the first one has them."""
    scaler = StandardScaler().set_output(transform="pandas").fit(train)
    return scaler.transform(train), scaler.transform(test)


def fold(train, test, features, seed):
    """Return the area under the curve for the rows of one fold."""
    rows, labels = train[features], train[TARGET]
    rows, others = scale(rows, test[features])
    rows, others = select(rows, labels, others)  # ABLATABLE_COMPONENT(name=select)
    weights = np.ones(len(labels))
    weights = weights * balance(labels)  # ABLATABLE_COMPONENT(name=balance)
    model = GradientBoostingClassifier(
        n_estimators=TREES, max_depth=3, learning_rate=0.1, subsample=SUBSAMPLE, random_state=seed
    )
    model.fit(rows, labels, sample_weight=weights)
    return roc_auc_score(test[TARGET], model.predict_proba(others)[:, 1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    data = add_features(make_table())
    # ABLATION_HINT_START
    # Features:
    # - remove 'rating'
    # - remove 'tenure' and 'visits_per_month'
    # - set `SUBSAMPLE` to 1.0
    # ABLATION_HINT_END
    features = [name for name in data.columns if name != TARGET]
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=args.seed)
    found = []
    for train, test in folds.split(data, data[TARGET]):
        found.append(fold(data.iloc[train], data.iloc[test], features, args.seed))
        print(f"fold {len(found)}: {found[-1]:.4f}")
    auc = float(np.mean(found))
    print(f"auc {auc:.4f} +- {np.std(found):.4f}")
    with open("metrics.json", "w") as file:
        json.dump({"auc": auc}, file)


if __name__ == "__main__":
    main()
'''

STROKES_TRAIN: Final = '''\
"""Trains a variational autoencoder on small drawings; writes how well others are rebuilt into metrics.json."""

import argparse
import json

import torch
import torch.nn.functional as F
from torch import nn

SIZE, LATENT = 12, 6
EPOCHS = 8
BATCH_SIZE = 40
BETA = 0.02
CONSISTENCY = 0.5


class VAE(nn.Module):
    """An encoder to a mean and a spread, and a decoder."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(SIZE * SIZE, 64), nn.ReLU())
        self.gate = nn.Linear(64, 64)  # ABLATABLE_COMPONENT
        self.mean = nn.Linear(64, LATENT)
        self.log_variance = nn.Linear(64, LATENT)
        self.decoder = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(), nn.Linear(64, SIZE * SIZE))

    def encode(self, images):
        hidden = self.encoder(images.flatten(1))
        hidden = hidden * torch.sigmoid(self.gate(hidden))
        return self.mean(hidden), self.log_variance(hidden)

    def decode(self, code):
        return self.decoder(code).view(-1, SIZE, SIZE)

    def forward(self, images):
        mean, log_variance = self.encode(images)
        code = mean
        if self.training:
            code = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decode(code), mean, log_variance


def make_drawings(count, draws):
    """Return drawings of one horizontal and one vertical stroke, with noise."""
    images = torch.zeros(count, SIZE, SIZE)
    for image in images:
        row, column = torch.randint(2, SIZE - 2, (2,), generator=draws).tolist()
        image[row, 2:-2] = 1
        image[2:-2, column] = 1
    return (images + 0.1 * torch.randn(count, SIZE, SIZE, generator=draws)).clamp(0, 1)


def shift(images):
    """Return images moved by up to a pixel."""
    rows, columns = torch.randint(-1, 2, (2,)).tolist()
    return torch.roll(images, (rows, columns), dims=(1, 2))


def divergence(mean, log_variance):
    """Return how far the codes are from a normal distribution, in nats for each image."""
    return -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()


def consistency(model, images, mean):
    """Return how far codes of noisy images are from those without noise."""
    noisy = images + 0.2 * torch.randn_like(images)
    return F.mse_loss(model.encode(noisy)[0], mean)


def train(model, images, optimizer):
    """Go through the drawings once, in another order each time; return the mean loss."""
    model.train()
    losses = []
    for rows in torch.randperm(len(images)).split(BATCH_SIZE):
        batch = images[rows]
        batch = shift(batch)  # ABLATABLE_COMPONENT(name=shift)
        rebuilt, mean, log_variance = model(batch)
        loss = F.mse_loss(rebuilt, batch, reduction="sum") / len(batch)
        loss = loss + BETA * divergence(mean, log_variance)  # ABLATABLE_COMPONENT(name=divergence)
        loss = loss + CONSISTENCY * consistency(model, batch, mean)  # ABLATABLE_COMPONENT(name=consistency)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


@torch.no_grad()
def error(model, images):
    """Return the mean squared error of a pixel."""
    model.eval()
    return F.mse_loss(model(images)[0], images).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)

    draws = torch.Generator().manual_seed(23)
    training, test = make_drawings(420, draws), make_drawings(200, draws)
    torch.manual_seed(args.seed)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(EPOCHS):
        print(f"epoch {epoch}: loss {train(model, training, optimizer):.4f}")

    metrics = {"error": error(model, test)}
    print(f"error {metrics['error']:.5f}")
    with open("metrics.json", "w") as file:
        json.dump(metrics, file)


if __name__ == "__main__":
    main()
'''

PROGRAMS: Final[Mapping[str, Program]] = {
    SEQUENCES: Program(
        files={"train.py": SEQUENCES_TRAIN},
        metric="metrics.json:accuracy",
        variants=("without-positions", "without-norm", "without-scheduler", "without-clip_grad_norm"),
    ),
    CUSTOMERS: Program(
        files={"network.py": CUSTOMERS_NETWORK, "train.py": CUSTOMERS_TRAIN},
        metric="metrics.json:balanced_accuracy",
        variants=("without-norm2", "without-dropout", "with-SMOOTHING-0.0", "with-BALANCED-False", "without-mixup"),
    ),
    LEAVERS: Program(
        files={"train.py": LEAVERS_TRAIN},
        metric="metrics.json:auc",
        variants=(
            "without-select",
            "without-balance",
            "without-rating",
            "without-tenure-visits_per_month",
            "with-SUBSAMPLE-1.0",
        ),
    ),
    STROKES: Program(
        files={"train.py": STROKES_TRAIN},
        metric="metrics.json:error",
        variants=("without-gate", "without-shift", "without-divergence", "without-consistency"),
    ),
}
"""The programs, by their names."""


def write_program(program: Program, folder: Path) -> Path:
    """Write the files of a program into a folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in program.files.items():
        (folder / path).write_text(text, encoding="utf-8")
    return folder
