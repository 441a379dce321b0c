"""Four more programs, for a third set of replies: nobody who wrote a check has trained them before.

``RINGS`` is a convolutional network that cleans images, ``WORDS`` a recurrent encoder and decoder, ``WAVES`` learns
codes of signals from contrasts alone, and ``LOANS`` fits a calibrated classifier of scikit-learn. Each is run as
``python train.py --seed N``, draws its own data, and writes ``metrics.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from unseen_programs import ENTRY, Program

__all__ = ["ENTRY", "LOANS", "PROGRAMS", "RINGS", "WAVES", "WORDS"]

RINGS: Final = "rings"
WORDS: Final = "words"
WAVES: Final = "waves"
LOANS: Final = "loans"

RINGS_MODEL: Final = '''\
"""A network that cleans images, and a way to compare what it makes of them."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH = 8


class Weigher(nn.Module):
    """Weighs channels by what the whole image looks like."""

    def __init__(self, channels):
        super().__init__()
        self.shrink = nn.Linear(channels, channels // 4)
        self.grow = nn.Linear(channels // 4, channels)

    def forward(self, x):
        weights = torch.sigmoid(self.grow(F.relu(self.shrink(x.mean((2, 3))))))
        return x * weights[:, :, None, None]


class Cleaner(nn.Module):
    """Goes down to a quarter of the size and up again; `skip` is a way around the narrowest part, for details."""

    def __init__(self):
        super().__init__()
        self.down1 = nn.Conv2d(1, WIDTH, 3, stride=2, padding=1)
        self.down2 = nn.Conv2d(WIDTH, 2 * WIDTH, 3, stride=2, padding=1)
        self.weigh = Weigher(2 * WIDTH)  # ABLATABLE_COMPONENT
        self.up1 = nn.ConvTranspose2d(2 * WIDTH, WIDTH, 4, stride=2, padding=1)
        self.skip = nn.Conv2d(WIDTH, WIDTH, 1)  # ABLATABLE_COMPONENT
        self.up2 = nn.ConvTranspose2d(WIDTH, 1, 4, stride=2, padding=1)

    def forward(self, x):
        first = F.relu(self.down1(x))
        second = F.relu(self.down2(first))
        second = self.weigh(second)
        third = F.relu(self.up1(second) + self.skip(first))
        return self.up2(third)


def slopes(images):
    """Return differences between neighbouring pixels, across and down."""
    return images[..., :, 1:] - images[..., :, :-1], images[..., 1:, :] - images[..., :-1, :]


def edge_error(images, others):
    """Return how far the edges of images are from the edges of others."""
    return sum(F.l1_loss(mine, yours) for mine, yours in zip(slopes(images), slopes(others)))
'''

RINGS_TRAIN: Final = '''\
"""Removes noise from images of rings; writes the ratio of signal to noise, in decibels, into metrics.json."""

import argparse
import json
import math

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from model import Cleaner, edge_error

# ABLATION_HINT_START
# - set `HOLES` to 0
# ABLATION_HINT_END
SIZE = 16
NOISE = 0.3
HOLES = 2
EDGES = 0.3
EPOCHS = 6
BATCH_SIZE = 32
LEARNING_RATE = 6e-3


def make_rings(count, draws):
    """Return images of one ring each, somewhere and of some radius."""
    places = torch.arange(SIZE).float()
    centres = 5 + 6 * torch.rand(count, 2, 1, generator=draws)
    radii = 2 + 3 * torch.rand(count, 1, 1, generator=draws)
    across, down = (places - centres[:, 0]) ** 2, (places - centres[:, 1]) ** 2
    distances = (across.unsqueeze(1) + down.unsqueeze(2)).sqrt()
    return torch.exp(-((distances - radii) ** 2)).unsqueeze(1)


def smudge(images, draws=None):
    """Return images with noise on every pixel."""
    return images + NOISE * torch.randn(images.shape, generator=draws)


def punch(images, holes):
    """Return images with that many blank squares, at other places in each image."""
    images = images.clone()
    for image in images:
        for row, column in torch.randint(SIZE - 3, (holes, 2)).tolist():
            image[:, row : row + 4, column : column + 4] = 0
    return images


def groups(model):
    """Return the parameters of the way down, which learn at half the rate, and all others."""
    named = list(model.named_parameters())
    down = [one for name, one in named if name.startswith("down")]
    others = [one for name, one in named if not name.startswith("down")]
    return [{"params": down, "lr": LEARNING_RATE / 2}, {"params": others}]


def train(model, loader, optimizer):
    """Go through the images once; return the loss of the last batch."""
    model.train()
    for (clean,) in loader:
        noisy = smudge(clean)
        noisy = punch(noisy, HOLES)
        cleaned = model(noisy)
        loss = F.mse_loss(cleaned, clean)
        loss = loss + EDGES * edge_error(cleaned, clean)  # ABLATABLE_COMPONENT(name=edges)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def ratio(model, clean, noisy):
    """Return how much stronger the signal is than what is wrong in cleaned images, in decibels."""
    model.eval()
    wrong = F.mse_loss(model(noisy).clamp(0, 1), clean)
    return 10 * math.log10(1 / wrong.item())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)

    draws = torch.Generator().manual_seed(17)
    training, test = make_rings(320, draws), make_rings(160, draws)
    noisy = smudge(test, draws)
    torch.manual_seed(args.seed)
    loader = DataLoader(TensorDataset(training), batch_size=BATCH_SIZE, shuffle=True)
    model = Cleaner()
    optimizer = torch.optim.Adam(groups(model), lr=LEARNING_RATE)
    for epoch in range(EPOCHS):
        print(f"epoch {epoch}: loss {train(model, loader, optimizer):.4f}")

    found = ratio(model, test, noisy)
    print(f"ratio {found:.3f} dB")
    with open("metrics.json", "w") as file:
        json.dump({"ratio": found}, file)


if __name__ == "__main__":
    main()
'''

WORDS_TRAIN: Final = '''\
"""Writes words backwards in another alphabet, letter by letter; writes the share of right letters into metrics.json."""

import argparse
import json
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# ABLATION_HINT_START
# - set `REVERSED` to False
# ABLATION_HINT_END
LETTERS, LENGTH = 8, 5
START, UNREADABLE = LETTERS, LETTERS + 1
WIDTH = 32
EPOCHS = 7
BATCH_SIZE = 40
LEARNING_RATE = 1e-2
TAUGHT = 0.6
BLANKED = 0.08
LARGEST = 0.3
REVERSED = True


class Attention(nn.Module):
    """Looks up what was read, by how well each place fits the state of the writer."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)

    def forward(self, state, memory):
        scores = (memory @ self.query(state).unsqueeze(2)).squeeze(2) / math.sqrt(WIDTH)
        return (scores.softmax(1).unsqueeze(1) @ memory).squeeze(1)


class Translator(nn.Module):
    """Reads one word, and then writes another that has as many letters."""

    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(LETTERS + 2, WIDTH)
        self.reader = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.writer = nn.GRUCell(WIDTH, WIDTH)
        self.attention = Attention()  # ABLATABLE_COMPONENT
        self.output = nn.Linear(2 * WIDTH, LETTERS)

    def forward(self, source, target):
        memory, last = self.reader(self.letters(source))
        state = last[0]
        letter = torch.full((len(source),), START)
        written = []
        for place in range(LENGTH):
            state = self.writer(self.letters(letter), state)
            context = self.attention(state, memory)
            written.append(self.output(torch.cat([state, context], dim=1)))
            letter = written[-1].argmax(1)
            if self.training:
                letter = teach(letter, target[:, place])  # ABLATABLE_COMPONENT(name=teach)
        return torch.stack(written, dim=1)


def teach(letters, right):
    """Return the letters that were written, some of them put right."""
    return torch.where(torch.rand(len(letters)) < TAUGHT, right, letters)


def blank(words):
    """Return words in which some letters cannot be read."""
    return words.masked_fill(torch.rand(words.shape) < BLANKED, UNREADABLE)


def arrange(words):
    """Return words in the order in which they are read."""
    return words.flip(1) if REVERSED else words


def make_words(count, draws):
    """Return words, and what should be written for each: its letters backwards, each of them three further."""
    words = torch.randint(LETTERS, (count, LENGTH), generator=draws)
    return TensorDataset(words, (words.flip(1) + 3) % LETTERS)


def train(model, loader, optimizer):
    """Go through the words once; return the mean loss."""
    model.train()
    losses = []
    for words, target in loader:
        source = arrange(words)
        source = blank(source)  # ABLATABLE_COMPONENT(name=blank)
        written = model(source, target)
        loss = F.cross_entropy(written.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST)
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


@torch.no_grad()
def accuracy(model, data):
    """Return the share of letters that are right, of words that the model writes by itself."""
    model.eval()
    words, target = data.tensors
    return (model(arrange(words), target).argmax(2) == target).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)

    draws = torch.Generator().manual_seed(29)
    training, test = make_words(700, draws), make_words(300, draws)
    torch.manual_seed(args.seed)
    loader = DataLoader(training, batch_size=BATCH_SIZE, shuffle=True)
    model = Translator()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    for epoch in range(EPOCHS):
        print(f"epoch {epoch}: loss {train(model, loader, optimizer):.4f}")

    found = accuracy(model, test)
    print(f"accuracy {found:.4f}")
    with open("metrics.json", "w") as file:
        json.dump({"accuracy": found}, file)


if __name__ == "__main__":
    main()
'''

WAVES_VIEWS: Final = '''\
"""Ways to make another view of a signal."""

import torch


def stretch(signals):
    """Return signals that are louder or softer."""
    return signals * torch.empty(len(signals), 1, 1).uniform_(0.7, 1.4)


def jitter(signals):
    """Return signals with noise."""
    return signals + 0.3 * torch.randn_like(signals)


def mask(signals):
    """Return signals of which a quarter is silent, another one in each."""
    length = signals.shape[2]
    starts = torch.randint(length - length // 4 + 1, (len(signals), 1, 1))
    places = torch.arange(length)
    return signals.masked_fill((places >= starts) & (places < starts + length // 4), 0.0)


def view(signals):
    """Return signals as they could have been heard another time."""
    signals = stretch(signals)
    signals = jitter(signals)  # ABLATABLE_COMPONENT(name=jitter)
    signals = mask(signals)  # ABLATABLE_COMPONENT(name=mask)
    return signals
'''

WAVES_TRAIN: Final = '''\
"""Learns codes of waves without their labels; writes how well few labels do with these codes into metrics.json."""

import argparse
import json
import math

import torch
import torch.nn.functional as F
from torch import nn

from views import view

# ABLATION_HINT_START
# - set `TEMPERATURE` to 1.0
# ABLATION_HINT_END
CLASSES, LENGTH = 4, 48
CODE = 32
LABELLED = 48
EPOCHS = 5
BATCH_SIZE = 64
LEARNING_RATE = 3e-3
TEMPERATURE = 0.2


class Encoder(nn.Module):
    """Convolutions that give a code, and a head that is there for the contrast alone."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(1, 16, 5, padding=2)
        self.conv2 = nn.Conv1d(16, CODE, 5, stride=2, padding=2)
        self.projector = nn.Sequential(nn.Linear(CODE, CODE), nn.ReLU(), nn.Linear(CODE, 16))  # ABLATABLE_COMPONENT

    def encode(self, signals):
        hidden = F.relu(self.conv1(signals))
        hidden = F.relu(self.conv2(hidden))
        return hidden.mean(2)

    def forward(self, signals):
        code = self.encode(signals)
        return self.projector(code)


def make_waves(count, draws):
    """Return noisy waves of four shapes, of any phase and of some pitch, and the shape of each."""
    labels = torch.randint(CLASSES, (count,), generator=draws)
    phases = torch.rand(count, 1, generator=draws)
    pitches = 2 + 2 * torch.rand(count, 1, generator=draws)
    angles = (phases + pitches * torch.linspace(0, 1, LENGTH)) % 1
    sine, square = torch.sin(2 * math.pi * angles), 1 - 2 * (angles < 0.5).float()
    shapes = torch.stack([sine, square, 2 * angles - 1, 1 - 2 * (2 * angles - 1).abs()])
    waves = shapes[labels, torch.arange(count)] + 0.2 * torch.randn(count, LENGTH, generator=draws)
    return waves.unsqueeze(1), labels


def contrast(first, second):
    """Return how hard it is to find the other view of the same signal among all views of a batch."""
    codes = F.normalize(torch.cat([first, second]), dim=1)
    likeness = codes @ codes.T / TEMPERATURE
    likeness = likeness.masked_fill(torch.eye(len(codes), dtype=torch.bool), -1e9)
    partners = torch.arange(len(codes)).roll(len(first))
    return F.cross_entropy(likeness, partners)


def train(model, waves, optimizer):
    """Go through the waves once, in another order each time; return the mean loss."""
    model.train()
    losses = []
    for rows in torch.randperm(len(waves)).split(BATCH_SIZE):
        batch = waves[rows]
        first, second = model(view(batch)), model(view(batch))
        loss = contrast(first, second)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


@torch.no_grad()
def probe(model, waves, labels, others, answers):
    """Return the share of other waves whose code is next to the mean code of their own class."""
    model.eval()
    codes, unseen = model.encode(waves), model.encode(others)
    means = torch.stack([codes[labels == one].mean(0) for one in range(CLASSES)])
    return (torch.cdist(unseen, means).argmin(1) == answers).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)

    draws = torch.Generator().manual_seed(31)
    waves, labels = make_waves(512, draws)
    others, answers = make_waves(256, draws)
    torch.manual_seed(args.seed)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=1e-3)
    for epoch in range(EPOCHS):
        print(f"epoch {epoch}: loss {train(model, waves, optimizer):.4f}")

    found = probe(model, waves[:LABELLED], labels[:LABELLED], others, answers)
    print(f"accuracy {found:.4f}")
    with open("metrics.json", "w") as file:
        json.dump({"accuracy": found}, file)


if __name__ == "__main__":
    main()
'''

LOANS_COLUMNS: Final = '''\
"""Columns of loans that are computed from other columns."""

TARGET = "failed"
DOUBT = 10


def add_crosses(table):
    """Return the table with three columns more, each of which crosses two others."""
    table = table.copy()
    table["debt_of_income"] = table["debt"] / table["income"]
    table["rate_on_debt"] = table["rate"] * table["debt"]
    table["late_per_year"] = table["late"] / table["years"]
    return table


def encode_regions(train, test):
    """Return both tables with the share of training loans that failed in a region in the place of its name."""
    overall = train[TARGET].mean()
    counted = train.groupby("region")[TARGET].agg(["sum", "count"])
    shares = (counted["sum"] + DOUBT * overall) / (counted["count"] + DOUBT)
    return [table.assign(region=table["region"].map(shares).fillna(overall)) for table in (train, test)]
'''

LOANS_TRAIN: Final = '''\
"""Says how likely loans are to fail; writes the mean squared error of these chances into metrics.json."""

import argparse
import json

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

from columns import TARGET, add_crosses, encode_regions

CLASS_WEIGHT = "balanced"
STRENGTH = 0.05
HELD_OUT = 0.3
FOLDS = 4


def make_table(count=800):
    """Return a table of loans; it is always the same one."""
    draw = np.random.default_rng(77)
    table = pd.DataFrame(
        {
            "income": draw.lognormal(3.4, 0.5, count),
            "debt": draw.gamma(2.0, 9.0, count),
            "rate": draw.uniform(1, 12, count),
            "years": draw.integers(1, 30, count),
            "late": draw.poisson(0.8, count),
            "region": draw.choice(list("CENSW"), count, p=[0.35, 0.25, 0.2, 0.15, 0.05]),
        }
    )
    pull = 1.5 * table["debt"] / table["income"] + 0.01 * table["rate"] * table["debt"] - 0.05 * table["years"]
    pull += 0.5 * table["late"] + table["region"].map({"C": 0, "E": 1.2, "N": -0.8, "S": 0.5, "W": 2})
    table[TARGET] = (pull + draw.logistic(0, 0.8, count) > pull.quantile(0.8)).astype(int)
    return table


def fit(rows, labels, seed):
    """Return a classifier whose chances are calibrated by rows that it was not fitted to."""
    scaler = RobustScaler()  # ABLATABLE_COMPONENT
    model = LogisticRegression(C=STRENGTH, class_weight=CLASS_WEIGHT, max_iter=800, random_state=seed)
    model = make_pipeline(scaler, model)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    model = CalibratedClassifierCV(model, method="isotonic", cv=folds)  # ABLATABLE_COMPONENT(name=calibration)
    model.fit(rows, labels)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    table = make_table()
    table = add_crosses(table)  # ABLATABLE_COMPONENT(name=crosses)
    # ABLATION_HINT_START
    # Features:
    # - remove 'region'
    # - set `CLASS_WEIGHT` to None
    # ABLATION_HINT_END
    features = [name for name in table.columns if name != TARGET]
    train, test = train_test_split(table, test_size=HELD_OUT, stratify=table[TARGET], random_state=args.seed)
    train, test = encode_regions(train, test)
    model = fit(train[features], train[TARGET], args.seed)
    chances = model.predict_proba(test[features])[:, 1]
    found = float(brier_score_loss(test[TARGET], chances))
    print(f"{len(features)} columns, {len(train)} loans: error {found:.5f}")
    with open("metrics.json", "w") as file:
        json.dump({"error": found}, file)


if __name__ == "__main__":
    main()
'''

PROGRAMS: Final[Mapping[str, Program]] = {
    RINGS: Program(
        files={"model.py": RINGS_MODEL, "train.py": RINGS_TRAIN},
        metric="metrics.json:ratio",
        variants=("without-weigh", "without-skip", "without-edges", "with-HOLES-0"),
    ),
    WORDS: Program(
        files={"train.py": WORDS_TRAIN},
        metric="metrics.json:accuracy",
        variants=("without-attention", "without-teach", "without-blank", "with-REVERSED-False"),
    ),
    WAVES: Program(
        files={"views.py": WAVES_VIEWS, "train.py": WAVES_TRAIN},
        metric="metrics.json:accuracy",
        variants=("without-jitter", "without-mask", "without-projector", "with-TEMPERATURE-1.0"),
    ),
    LOANS: Program(
        files={"columns.py": LOANS_COLUMNS, "train.py": LOANS_TRAIN},
        metric="metrics.json:error",
        variants=(
            "without-crosses",
            "without-scaler",
            "without-calibration",
            "without-region",
            "with-CLASS_WEIGHT-None",
        ),
    ),
}
"""The programs, by their names."""
