"""Trains a small network on sequences of bytes: a stem, blocks of attention, a gate over channels, and a head.

It is the program of the benchmark ``mage_tokens``: as long as the middle one of 64 research and library files. Its data
is drawn: sequences whose class is the byte that repeats the most. It knows nothing of the benchmark, and it runs by
itself: `python train.py --quick`.
"""

import argparse
import copy
import json
import math
import random
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sequences(Dataset):
    """Sequences of bytes, and the byte that each repeats the most."""

    def __init__(self, n, length, classes, seed):
        draw = np.random.default_rng(seed)
        self.labels = draw.integers(0, classes, n)
        self.values = draw.integers(0, 256, (n, length))
        repeated = draw.random((n, length)) < 0.3
        self.values[repeated] = np.broadcast_to(self.labels[:, None], self.values.shape)[repeated]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return torch.from_numpy(self.values[index].astype("int64")), int(self.labels[index])


class Shifted(Dataset):
    """Moves sequences by a few places, as an augmentation."""

    def __init__(self, inner, most):
        self.inner = inner
        self.most = most

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        values, label = self.inner[index]
        places = int(torch.randint(0, self.most + 1, ()))
        return torch.roll(values, places), label


class Stem(nn.Module):
    """Looks at neighbouring places before any attention does."""

    def __init__(self, width, kernel=5):
        super().__init__()
        self.depth = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.point = nn.Conv1d(width, width, 1)

    def forward(self, x):
        y = F.gelu(self.depth(x.transpose(1, 2)))
        return x + self.point(y).transpose(1, 2)


class Positions(nn.Module):
    """Adds a learned vector to each place."""

    def __init__(self, length, width):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(1, length, width))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, x):
        return x + self.table[:, : x.shape[1]]


class Attention(nn.Module):
    """Attention of several heads."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        if width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))


class Block(nn.Module):
    """Attention and two dense layers, each after a norm and beside a shortcut."""

    def __init__(self, width, heads, dropout, ratio=2):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.norm2 = nn.LayerNorm(width)
        self.dense1 = nn.Linear(width, ratio * width)
        self.dense2 = nn.Linear(ratio * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.dense2(self.dropout(F.gelu(self.dense1(self.norm2(x)))))
        return x + self.dropout(y)


class Gate(nn.Module):
    """Weighs channels by what the whole sequence holds."""

    def __init__(self, width, squeeze=4):
        super().__init__()
        self.down = nn.Linear(width, width // squeeze)
        self.up = nn.Linear(width // squeeze, width)

    def forward(self, x):
        weight = torch.sigmoid(self.up(F.relu(self.down(x.mean(1)))))
        return x * weight.unsqueeze(1)


class Classifier(nn.Module):
    """All of it."""

    def __init__(self, classes, length, width=48, heads=4, dropout=0.1):
        super().__init__()
        self.embed = nn.Embedding(256, width)
        self.positions = Positions(length, width)
        self.stem = Stem(width)
        self.block1 = Block(width, heads, dropout)
        self.block2 = Block(width, heads, dropout)
        self.block3 = Block(width, heads, dropout)
        self.gate = Gate(width)
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, 2 * width)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, values):
        x = self.positions(self.embed(values))
        x = self.stem(x)
        x = self.block1(x)
        x = self.block2(x)
        x = self.block3(x)
        x = self.gate(x)
        x = self.norm(x).mean(1)
        x = F.gelu(self.hidden(x))
        return self.head(x)


class Averaged:
    """Keeps a moving average of a model's weights."""

    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).eval()
        self.decay = decay
        self.steps = 0

    @torch.no_grad()
    def update(self, model):
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for mine, theirs in zip(self.model.parameters(), model.parameters()):
            mine.mul_(decay).add_(theirs, alpha=1 - decay)
        for mine, theirs in zip(self.model.buffers(), model.buffers()):
            mine.copy_(theirs)


def groups_of(model, weight_decay):
    """Return parameter groups: matrices decay, vectors and embeddings do not."""
    decayed, others = [], []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim >= 2 and not name.startswith(("embed", "positions"))
        (decayed if is_matrix else others).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


def rate_at(step, steps, warmup):
    """Return the share of the learning rate: up in a line, down as a cosine."""
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return 0.5 * (1 + math.cos(math.pi * done))


def loss_of(scores, labels, smoothing):
    """Return the loss of a batch."""
    return F.cross_entropy(scores, labels, label_smoothing=smoothing)


def mixed_up(values, labels, share):
    """Exchange a share of the places of each sequence with those of another one of the batch."""
    if share <= 0:
        return values, labels
    other = torch.randperm(len(values))
    taken = torch.rand(values.shape) < share
    return torch.where(taken, values[other], values), labels


@torch.no_grad()
def evaluate(model, loader):
    """Return accuracy and loss over a loader."""
    model.eval()
    right, total, loss = 0, 0, 0.0
    for values, labels in loader:
        scores = model(values)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        right += (scores.argmax(1) == labels).sum().item()
        total += len(labels)
    return {"accuracy": right / total, "loss": loss / total}


@torch.no_grad()
def by_class(model, loader, classes):
    """Return the accuracy within each class, and the class that it is taken for the most otherwise."""
    model.eval()
    counts = torch.zeros(classes, classes, dtype=torch.long)
    for values, labels in loader:
        found = model(values).argmax(1)
        counts += torch.bincount(labels * classes + found, minlength=classes * classes).view(classes, classes)
    right = counts.diag().float() / counts.sum(1).clamp(min=1)
    wrong = (counts - torch.diag(counts.diag())).argmax(1)
    return [(round(float(share), 4), int(other)) for share, other in zip(right, wrong)]


def train_epoch(model, loader, optimizer, schedule, averaged, args):
    """Train for an epoch, and return the mean loss."""
    model.train()
    losses = []
    for values, labels in loader:
        values, labels = mixed_up(values, labels, args.mix)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(values), labels, args.smoothing)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        schedule.step()
        averaged.update(model)
        losses.append(loss.item())
    return sum(losses) / len(losses)


def seed_everything(seed):
    """Seed all generators that are used here."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def loaders(args):
    """Return the loaders of both parts."""
    train = Shifted(Sequences(args.examples, args.length, args.classes, seed=0), args.shift)
    valid = Sequences(args.examples // 4, args.length, args.classes, seed=1)
    shuffled = torch.Generator().manual_seed(args.seed)
    return (
        DataLoader(train, batch_size=args.batch, shuffle=True, generator=shuffled),
        DataLoader(valid, batch_size=4 * args.batch),
    )


def save(path, model, averaged, epoch):
    """Write a checkpoint."""
    state = {"model": model.state_dict(), "averaged": averaged.model.state_dict(), "epoch": epoch}
    torch.save(state, path)


def options():
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--examples", type=int, default=8192)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--weight-decay", type=float, default=0.05)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--smoothing", type=float, default=0.05)
    parser.add_argument("--mix", type=float, default=0.05)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--shift", type=int, default=8)
    parser.add_argument("--average", type=float, default=0.99)
    parser.add_argument("--save", default="", help="where checkpoints go; nowhere if left out")
    parser.add_argument("--quick", action="store_true", help="few examples, one epoch")
    return parser


def main(words=None):
    """Train, and write what came of it into metrics.json."""
    args = options().parse_args(words)
    if args.quick:
        args.epochs, args.examples = 1, 256
    seed_everything(args.seed)
    train, valid = loaders(args)
    model = Classifier(args.classes, args.length)
    averaged = Averaged(model, args.average)
    optimizer = torch.optim.AdamW(groups_of(model, args.weight_decay), lr=args.lr)
    steps = args.epochs * len(train)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_at(step, steps, args.warmup))
    print(f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters")
    best, began = {"accuracy": 0.0}, time.perf_counter()
    for epoch in range(args.epochs):
        loss = train_epoch(model, train, optimizer, schedule, averaged, args)
        found = evaluate(averaged.model, valid)
        elapsed = time.perf_counter() - began
        print(f"epoch {epoch + 1}: loss {loss:.4f}, accuracy {found['accuracy']:.4f}, {elapsed:.1f} s", flush=True)
        if found["accuracy"] >= best["accuracy"]:
            best = found
            if args.save:
                save(args.save, model, averaged, epoch)
    shares = by_class(averaged.model, valid, args.classes)
    for label, (share, other) in enumerate(shares):
        print(f"class {label}: accuracy {share:.4f}, mostly taken for {other} otherwise")
    told = {"accuracy": found["accuracy"], "best": best["accuracy"], "classes": [share for share, _ in shares]}
    Path("metrics.json").write_text(json.dumps(told))
    return found


if __name__ == "__main__":
    main()
