"""Which parts of a transformer for tables matter, and which settings? Trials drawn at random, then an ablation.

    python examples/tablator.py path/to/data --table covertype
    python examples/tablator.py path/to/data --table adult --trials 200 --seeds 20

The questions are those of Fostiropoulos and Itti 2023, "ABLATOR: Robust Horizontal-Scaling of Machine Learning Ablation
Experiments"; the network is a small one of the kind of Gorishniy et al. 2021, "Revisiting Deep Learning Models for
Tabular Data": each column becomes a token. It has six switches, eight settings of its size and noise, three of its
training, and four of how the table is prepared. The folder holds `adult/adult.data.gz` and
`covertype/covtype-kaggle-train.csv.gz`, as UCI and Kaggle have them, and `california-housing/housing.csv.gz`.
"""

from __future__ import annotations

import argparse
import csv
import functools
import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import etude

FILES = {
    "adult": "adult/adult.data.gz",
    "california-housing": "california-housing/housing.csv.gz",
    "covertype": "covertype/covtype-kaggle-train.csv.gz",
}
SWITCHES = ("residual", "norm_first", "attention=random", "gated", "class_token", "token_bias")
OPTIMIZERS: dict[str, Any] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "sgd": functools.partial(torch.optim.SGD, momentum=0.9),
}
FIRST_WEIGHTS: dict[str, Any] = {
    "xavier": nn.init.xavier_uniform_,
    "kaiming": nn.init.kaiming_uniform_,
    "normal": functools.partial(nn.init.normal_, std=0.02),
}
SPACE = {
    "residual": [True, False],
    "norm_first": [True, False],
    "attention": ["full", "mixed", "global", "random"],
    "gated": [True, False],
    "class_token": [True, False],
    "token_bias": [True, False],
    "width": [8, 16, 32],
    "depth": etude.integers(1, 3),
    "heads": [1, 2, 4],
    "widening": etude.uniform(0.5, 3.0),
    "attention_dropout": etude.uniform(0.0, 0.5),
    "hidden_dropout": etude.uniform(0.0, 0.5),
    "residual_dropout": etude.uniform(0.0, 0.3),
    "first_weights": list(FIRST_WEIGHTS),
    "optimizer": list(OPTIMIZERS),
    "lr": etude.loguniform(1e-4, 1e-1),
    "weight_decay": etude.loguniform(1e-6, 1e-1),
    "scaling": ["standard", "quantile"],
    "missing": ["mean", "median"],
    "clip": [True, False],
    "rare": [True, False],
}


# --- the tables -------------------------------------------------------------------------------------


@functools.cache
def read(path: str, table: str) -> tuple[Any, Any, Any]:
    """Return the numbers, NaN where one is missing, the words as codes, and what is to be predicted."""
    with gzip.open(path, "rt") as lines:
        rows = [row for row in csv.reader(lines, skipinitialspace=True) if row]
    names = [str(n) for n in range(15)] if table == "adult" else rows.pop(0)
    columns = dict(
        zip(names, map(list, zip(*(row for row in rows if len(row) == len(names)), strict=True)), strict=True)
    )
    if table == "covertype":  # areas and soils are a column for each there
        for kind in ("Wilderness_Area", "Soil_Type"):
            each = [columns.pop(name) for name in names if name.startswith(kind)]
            columns[kind] = [f"{kind} {row.index('1')}" for row in zip(*each, strict=True)]
        del columns["Id"]
    label = columns.pop({"adult": "14", "california-housing": "median_house_value", "covertype": "Cover_Type"}[table])
    prices = table == "california-housing"
    target = np.array(label, np.float32) if prices else np.unique(label, return_inverse=True)[1]
    words = [values for values in columns.values() if not all(map(is_number, values))]
    numbers = [[float(value or "nan") for value in values] for values in columns.values() if values not in words]
    codes = [np.unique(values, return_inverse=True)[1] for values in words]
    return np.array(numbers, np.float32).T, np.array(codes).T, target


def is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value or 0))
    except ValueError:
        return False


def data(
    seed: int,
    folder: etude.Stateless[str],
    table: str = "covertype",
    rows: int = 1500,
    scaling: str = "standard",
    missing: str = "mean",
    clip: bool = False,
    rare: bool = False,
) -> etude.Data:
    """Return rows to train on and as many to validate with; a seed shares them out."""
    numbers, codes, target = read(str(Path(folder) / FILES[table]), table)
    order = np.random.default_rng(seed).permutation(len(target))
    rows = min(rows, len(order) // 2)
    train, valid = order[:rows], order[rows : 2 * rows]
    known: Any = numbers[train]
    usual = np.nanmean(known, axis=0) if missing == "mean" else np.nanmedian(known, axis=0)
    filled: Any = np.where(np.isnan(numbers), usual, numbers)
    if clip:
        filled = np.clip(filled, *np.nanquantile(known, [0.01, 0.99], axis=0))
    if scaling == "quantile":
        inner = np.sort(filled[train], axis=0)
        ranks = [np.searchsorted(*pair, side="right") / (rows + 1) for pair in zip(inner.T, filled.T, strict=True)]
        filled = np.stack(ranks, axis=1) * 2 - 1
    filled = (filled - filled[train].mean(0)) / (filled[train].std(0) + 1e-6)
    if rare:
        codes = np.stack([frequent(column, train) for column in codes.T], axis=1)
    classes = int(target.max()) + 1 if target.dtype.kind == "i" else 0
    if not classes:
        target = (target - target[train].mean()) / target[train].std()
    inputs = torch.tensor(filled, dtype=torch.float32), torch.tensor(codes), torch.tensor(target)
    return etude.Data(
        tuple(one[train] for one in inputs),
        tuple(one[valid] for one in inputs),
        n_numbers=numbers.shape[1],
        n_words=[int(n) + 1 for n in codes.max(0)],
        n_outputs=max(1, classes),
    )


def frequent(column: Any, train: Any) -> Any:
    """Return codes in which what fewer than one training row in a hundred has is one word, the first."""
    counts = np.bincount(column[train], minlength=column.max() + 1)
    return np.where(counts[column] < len(train) / 100, 0, column)


# --- the network ------------------------------------------------------------------------------------


class Block(nn.Module):
    """Attention among the tokens of a row, then a layer for each token.

    What is switched off is there all the same, so that networks with and without it begin alike.
    """

    def __init__(
        self, width: int, heads: int, hidden: int, drops: tuple[float, float, float], **switches: bool
    ) -> None:
        super().__init__()
        self.heads, self.switches = heads, switches
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.gate, self.down = nn.Linear(width, hidden), nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.drop_attention, self.drop_hidden, self.drop_residual = map(nn.Dropout, drops)

    def forward(self, x: Any, mask: Any) -> Any:
        """Return the tokens changed."""
        layers: tuple[Any, Any] = functools.partial(self.attend, mask=mask), self.feed
        for norm, layer in zip(self.norms, layers, strict=True):
            change = self.drop_residual(layer(norm(x) if self.switches["norm_first"] else x))
            x = x + change if self.switches["residual"] else change
            x = x if self.switches["norm_first"] else norm(x)
        return x

    def attend(self, x: Any, mask: Any) -> Any:
        """Return what tokens take from those that they see."""
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.mixed(x).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf)
        return self.out((self.drop_attention(scores.softmax(-1)) @ v).transpose(1, 2).flatten(-2))

    def feed(self, x: Any) -> Any:
        """Return what becomes of each token by itself."""
        hidden = self.up(x) * torch.relu(self.gate(x)) if self.switches["gated"] else torch.relu(self.up(x))
        return self.down(self.drop_hidden(hidden))


class Tablator(nn.Module):
    """A transformer whose tokens are the columns of a row."""

    def __init__(
        self, numbers: int, words: list[int], outputs: int, width: int, blocks: list[Block], **kinds: Any
    ) -> None:
        super().__init__()
        self.kinds = kinds
        self.scale = nn.Parameter(torch.randn(numbers, width) / math.sqrt(width))
        self.words = nn.ModuleList(nn.Embedding(n, width) for n in words)
        self.bias = nn.Parameter(torch.randn(numbers + len(words), width) / math.sqrt(width))
        self.token = nn.Parameter(torch.randn(1, 1, width) / math.sqrt(width))
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)
        self.register_buffer("mask", allowed(numbers + len(words) + kinds["class_token"], kinds["attention"]))

    def forward(self, numbers: Any, codes: Any) -> Any:
        """Return a number for each class, or one alone."""
        embedded = [words(codes[:, nth]) for nth, words in enumerate(self.words)]
        x = torch.cat([numbers.unsqueeze(-1) * self.scale, *(one.unsqueeze(1) for one in embedded)], dim=1)
        x = x + self.bias if self.kinds["token_bias"] else x
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) if self.kinds["class_token"] else x
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x[:, 0] if self.kinds["class_token"] else x.mean(1)))


def allowed(tokens: int, attention: str) -> Any:
    """Return which token sees which: all of them, a quarter at random, all through the first one, or the last two."""
    seen = torch.eye(tokens, dtype=torch.bool)
    if attention in ("random", "mixed"):
        seen |= torch.rand(tokens, tokens, generator=torch.Generator().manual_seed(0)) < 0.25
    if attention in ("global", "mixed"):
        seen[0] = seen[:, 0] = True
    return seen if attention != "full" else torch.ones_like(seen)


def model(
    n_numbers: etude.Derived[int],
    n_words: etude.Derived[list[int]],
    n_outputs: etude.Derived[int],
    residual: bool = True,
    norm_first: bool = True,
    attention: str = "full",
    gated: bool = True,
    class_token: bool = True,
    token_bias: bool = True,
    width: int = 16,
    depth: int = 2,
    heads: int = 4,
    widening: float = 1.5,
    attention_dropout: float = 0.1,
    hidden_dropout: float = 0.1,
    residual_dropout: float = 0.0,
    first_weights: str = "xavier",
) -> nn.Module:
    drops, switches = (attention_dropout, hidden_dropout, residual_dropout), {"residual": residual, "gated": gated}
    hidden = max(1, round(widening * width))
    blocks = [Block(width, heads, hidden, drops, norm_first=norm_first, **switches) for _ in range(depth)]
    for layer in (layer for block in blocks for layer in block.modules() if isinstance(layer, nn.Linear)):
        FIRST_WEIGHTS[first_weights](layer.weight)
    kinds = {"attention": attention, "class_token": class_token, "token_bias": token_bias}
    return Tablator(n_numbers, n_words, n_outputs, width, blocks, **kinds)


# --- the training -----------------------------------------------------------------------------------


def train(
    model: Any,
    data: Any,
    run: Any,
    optimizer: str = "adamw",
    lr: float = 2e-3,
    weight_decay: float = 1e-4,
    epochs: int = 4,
) -> dict[str, float]:
    """Return the accuracy, or of prices the share of their variance that is explained."""
    net, parts = model(), data()
    numbers, codes, target = parts.train
    prices = target.is_floating_point()
    loss = nn.MSELoss() if prices else nn.CrossEntropyLoss()
    steps = OPTIMIZERS[optimizer](net.parameters(), lr=lr, weight_decay=weight_decay)
    size = sum(weights.numel() for weights in net.parameters())
    for _ in run.epochs(epochs):
        net.train()
        for rows in torch.randperm(len(target)).split(128):
            steps.zero_grad()
            told = net(numbers[rows], codes[rows])
            loss(told.squeeze(-1) if prices else told, target[rows]).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            steps.step()
    net.eval()
    numbers, codes, target = parts.valid
    with torch.no_grad():
        told = torch.cat([net(*batch) for batch in zip(numbers.split(500), codes.split(500), strict=True)])
    if prices:
        return {"score": 1.0 - float(((told.squeeze(-1) - target) ** 2).mean() / target.var()), "size": float(size)}
    return {"score": float((told.argmax(1) == target).float().mean()), "size": float(size)}


experiment = etude.Experiment(train, model=model, data=data, metric="score", mode="max")


def search(folder: str, table: str, *, rows: int = 1500, trials: int, sampler: str = "random", **more: Any) -> Any:
    """Try configurations of everything at once."""
    space = {**SPACE, "table": table, "folder": folder, "rows": rows}
    return experiment.tune(space, trials=trials, sampler=sampler, stopper="none", **more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the tables are, each in a folder of its own")
    parser.add_argument("--table", choices=FILES, default="covertype")
    parser.add_argument("--rows", type=int, default=1500, help="how many to train on, and how many to validate with")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--force", action="store_true", help="train with so few seeds that nothing could be decided")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if not (Path(args.folder) / FILES[args.table]).is_file():
        parser.error(f"{args.folder} has no {FILES[args.table]}.")
    tried = search(args.folder, args.table, rows=args.rows, trials=args.trials, workers=args.workers)
    print(tried.effects("optimizer"))
    print(tried.threats())
    at = {"folder": args.folder, "table": args.table, "rows": args.rows}
    print(experiment.ablate(SWITCHES, at=at, seeds=args.seeds, workers=args.workers, force=args.force).verdicts())


if __name__ == "__main__":
    main()
