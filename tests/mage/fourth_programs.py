"""Four more programs, for a fourth set of replies: unlike those of the sets before, and trained by no check so far.

``TILES`` teaches a small residual network what a larger one knows, ``PROSE`` is a recurrent model of text, ``HOMES``
stacks estimators of scikit-learn and XGBoost for a table, and ``FILMS`` recommends by factors of users and films. Each
is run as ``python train.py --seed N``, draws its own data, and writes ``metrics.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from unseen_programs import ENTRY, Program

__all__ = ["ENTRY", "FILMS", "HOMES", "PROGRAMS", "PROSE", "TILES"]

TILES: Final = "tiles"
PROSE: Final = "prose"
HOMES: Final = "homes"
FILMS: Final = "films"

TILES_NETS: Final = '''\
"""Residual networks, and a copy of one that follows it slowly."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

DROPPED = 0.2


class DropPath(nn.Module):
    """Leaves out what comes along one path, for some images of a batch; the others get more of it."""

    def forward(self, x):
        if not self.training:
            return x
        kept = (torch.rand(len(x), 1, 1, 1) >= DROPPED).float()
        return x * kept / (1 - DROPPED)


class Block(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.drop = DropPath()  # ABLATABLE_COMPONENT

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        y = self.drop(y)
        return F.relu(x + y)


class Net(nn.Module):
    """A stem, blocks, and a classifier of means over places."""

    def __init__(self, channels, blocks, classes):
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Block(channels) for _ in range(blocks))
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class Follower:
    """Weights that are a mean over those of the last steps."""

    def __init__(self, model, decay):
        self.model = copy.deepcopy(model)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for mine, yours in zip(self.model.parameters(), model.parameters()):
            mine.lerp_(yours, 1 - self.decay)
        for mine, yours in zip(self.model.buffers(), model.buffers()):
            mine.copy_(yours)
'''

TILES_TRAIN: Final = '''\
"""Tells patterns of tiles, by a small network that learns from a larger one; writes accuracy into metrics.json."""

import argparse
import json

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

from nets import Follower, Net

# ABLATION_HINT_START
# - set `WARMUP` to 0
# ABLATION_HINT_END
SIZE, CLASSES = 12, 5
EPOCHS = 6
TEACHER_EPOCHS = 3
BATCH_SIZE = 32
LEARNING_RATE = 0.06
WARMUP = 20
DECAY = 0.9
SHARE = 0.7
SOFTNESS = 3.0


def make_tiles(count, draws):
    """Return noisy tiles of five patterns, of any phase and of some width, and the pattern of each."""
    labels = torch.randint(CLASSES, (count,), generator=draws)
    phases = torch.rand(2, count, 1, 1, generator=draws) * 6.3
    width = 1.2 + 0.8 * torch.rand(count, 1, 1, generator=draws)
    places = torch.arange(SIZE).float()
    rows, columns = places.view(1, -1, 1), places.view(1, 1, -1)
    across = torch.sin(width * columns + phases[0]) + 0 * rows
    down = torch.sin(width * rows + phases[1]) + 0 * columns
    rising = torch.sin(0.7 * width * (rows + columns) + phases[0])
    falling = torch.sin(0.7 * width * (rows - columns) + phases[1])
    patterns = torch.stack([across, down, rising, falling, across * down])
    tiles = patterns[labels, torch.arange(count)]
    return TensorDataset((tiles + 1.1 * torch.randn(count, SIZE, SIZE, generator=draws)).unsqueeze(1), labels)


def roll(images):
    """Return images moved round by up to two pixels, all of a batch alike."""
    down, across = torch.randint(-2, 3, (2,)).tolist()
    return images.roll((down, across), dims=(2, 3))


def distil(outputs, wanted):
    """Return how far softened chances are from those of the teacher."""
    chances = F.log_softmax(outputs / SOFTNESS, dim=1)
    return SOFTNESS**2 * F.kl_div(chances, F.softmax(wanted / SOFTNESS, dim=1), reduction="batchmean")


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9, weight_decay=5e-4, nesterov=True)


def train_teacher(data):
    """Return a larger network that was trained with labels alone; it is the same one for all seeds."""
    torch.manual_seed(1234)
    teacher = Net(16, 2, CLASSES)
    optimizer = make_optimizer(teacher)
    for _ in range(TEACHER_EPOCHS):
        for images, labels in DataLoader(data, batch_size=BATCH_SIZE, shuffle=True):
            loss = F.cross_entropy(teacher(roll(images)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return teacher.eval()


def warm_up(optimizer, step):
    """Let the learning rate climb in the first steps."""
    rate = LEARNING_RATE * min(1.0, (step + 1) / WARMUP) if WARMUP else LEARNING_RATE
    for group in optimizer.param_groups:
        group["lr"] = rate


def train(student, teacher, data):
    """Train the student; return the network that is to be used."""
    loader = DataLoader(data, batch_size=BATCH_SIZE, shuffle=True)
    optimizer = make_optimizer(student)
    follower = Follower(student, DECAY)  # ABLATABLE_COMPONENT
    step = 0
    for epoch in range(EPOCHS):
        student.train()
        for images, labels in loader:
            images = roll(images)
            outputs = student(images)
            loss = F.cross_entropy(outputs, labels)
            with torch.no_grad():
                wanted = teacher(images)
            loss = loss + SHARE * distil(outputs, wanted)  # ABLATABLE_COMPONENT(name=distil)
            warm_up(optimizer, step)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            follower.update(student)
            step += 1
        print(f"epoch {epoch}: loss {loss.item():.4f}")
    return follower.model


@torch.no_grad()
def accuracy(model, data):
    """Return the share of tiles whose pattern was found."""
    model.eval()
    images, labels = data.tensors
    return (model(images).argmax(1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)

    draws = torch.Generator().manual_seed(41)
    training, test = make_tiles(480, draws), make_tiles(400, draws)
    teacher = train_teacher(training)
    print(f"teacher: {accuracy(teacher, test):.4f}")
    torch.manual_seed(args.seed)
    student = Net(8, 1, CLASSES)
    model = train(student, teacher, training)

    found = accuracy(model, test)
    print(f"accuracy {found:.4f}")
    with open("metrics.json", "w") as file:
        json.dump({"accuracy": found}, file)


if __name__ == "__main__":
    main()
'''

PROSE_TRAIN: Final = '''\
"""A recurrent model of text, symbol by symbol; writes its perplexity for other text into metrics.json."""

import argparse
import json
import math

import torch
import torch.nn.functional as F
from torch import nn

# ABLATION_HINT_START
# - set `CARRIED` to False
# ABLATION_HINT_END
SYMBOLS = 18
WIDTH = 40
STREAMS, STRETCH = 16, 12
EPOCHS = 3
LEARNING_RATE = 8e-3
DROPPED = 0.15
SLOW = 0.5
LARGEST = 0.5
CARRIED = True


class LockedDropout(nn.Module):
    """Leaves out the same numbers at each place of a stretch."""

    def forward(self, x):
        if not self.training:
            return x
        kept = torch.rand(len(x), 1, x.shape[2]) >= DROPPED
        return x * kept / (1 - DROPPED)


class Writer(nn.Module):
    """Reads a stretch of text, and says at each place what comes next."""

    def __init__(self):
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, WIDTH)
        nn.init.normal_(self.symbols.weight, std=0.2)
        self.locked = LockedDropout()  # ABLATABLE_COMPONENT
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.output = nn.Linear(WIDTH, SYMBOLS)
        self.output.weight = self.symbols.weight  # ABLATABLE_COMPONENT(name=tying)

    def forward(self, text, state=None):
        hidden = self.symbols(text)
        hidden = self.locked(hidden)
        hidden, state = self.rnn(hidden, state)
        return self.output(hidden), hidden, state


def make_text(count, draws):
    """Return text: words of a small lexicon, each of which prefers some words behind it; symbol 0 is a space."""
    lexicon = [torch.randint(1, SYMBOLS, (length,), generator=draws) for length in (2, 3, 3, 4, 4, 5, 6, 6)]
    follows = torch.softmax(2.5 * torch.randn(len(lexicon), len(lexicon), generator=draws), dim=1)
    word, text = 0, []
    while len(text) < count:
        text += [*lexicon[word].tolist(), 0]
        word = torch.multinomial(follows[word], 1, generator=draws).item()
    text = torch.tensor(text[:count])
    typos = torch.rand(count, generator=draws) < 0.04
    return torch.where(typos, torch.randint(SYMBOLS, (count,), generator=draws), text)


def stretches(text):
    """Go through streams of a text, a stretch at a time, side by side; yield what is read and what follows."""
    length = (len(text) - 1) // STREAMS
    read = text[: STREAMS * length].view(STREAMS, length)
    next_ones = text[1 : STREAMS * length + 1].view(STREAMS, length)
    for start in range(0, length, STRETCH):
        yield read[:, start : start + STRETCH], next_ones[:, start : start + STRETCH]


def slowness(hidden):
    """Return how much the state changes from place to place."""
    return (hidden[:, 1:] - hidden[:, :-1]).square().mean()


def parameter_groups(model):
    """Return parameters: those of the recurrent layer decay, others do not."""
    recurrent = list(model.rnn.parameters())
    others = [one for name, one in model.named_parameters() if not name.startswith("rnn")]
    return [{"params": recurrent, "weight_decay": 1e-2}, {"params": others, "weight_decay": 0.0}]


def train(model, text, optimizer):
    """Go through the text once; return the mean loss for a symbol."""
    model.train()
    losses, state = [], None
    for read, wanted in stretches(text):
        if not CARRIED:
            state = None
        outputs, hidden, state = model(read, state)
        state = state.detach()
        loss = F.cross_entropy(outputs.flatten(0, 1), wanted.flatten())
        losses.append(loss.item())
        loss = loss + SLOW * slowness(hidden)  # ABLATABLE_COMPONENT(name=slowness)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST)
        optimizer.step()
    return sum(losses) / len(losses)


@torch.no_grad()
def perplexity(model, text):
    """Return among how many symbols the model hesitates, on average; it reads each stream from its beginning on."""
    model.eval()
    total, count, state = 0.0, 0, None
    for read, wanted in stretches(text):
        outputs, _, state = model(read, state)
        total += F.cross_entropy(outputs.flatten(0, 1), wanted.flatten(), reduction="sum").item()
        count += wanted.numel()
    return math.exp(total / count)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)

    text = make_text(14000, torch.Generator().manual_seed(53))
    training, test = text[:10000], text[10000:]
    torch.manual_seed(args.seed)
    model = Writer()
    optimizer = torch.optim.AdamW(parameter_groups(model), lr=LEARNING_RATE)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.6)
    for epoch in range(EPOCHS):
        print(f"epoch {epoch}: loss {train(model, training, optimizer):.4f}")
        scheduler.step()

    found = perplexity(model, test)
    print(f"perplexity {found:.4f}")
    with open("metrics.json", "w") as file:
        json.dump({"perplexity": found}, file)


if __name__ == "__main__":
    main()
'''

HOMES_TABLES: Final = '''\
"""The table of homes, and what is done to it before anything is fitted."""

import numpy as np
import pandas as pd

PRICE = "price"


def make_table(count=700):
    """Return a table of homes; it is always the same one."""
    draw = np.random.default_rng(2024)
    table = pd.DataFrame(
        {
            "area": draw.gamma(9, 11, count) + 15,
            "rooms": draw.integers(1, 7, count).astype(float),
            "floor": draw.integers(0, 12, count).astype(float),
            "age": draw.exponential(35, count),
            "latitude": draw.normal(0, 1, count),
            "longitude": draw.normal(0, 1, count),
            "noise": draw.normal(55, 8, count),
        }
    )
    centre = np.exp(-(table["latitude"] ** 2) - (table["longitude"] - 0.3) ** 2)
    value = 4 + 0.8 * np.log(table["area"]) + 0.7 * centre + 0.03 * table["rooms"] - 0.004 * table["age"]
    value += 0.15 * np.sin(2 * table["latitude"]) - 0.004 * table["noise"] + draw.normal(0, 0.12, count)
    value += np.where(draw.uniform(size=count) < 0.03, draw.normal(0.4, 1.3, count), 0)
    table[PRICE] = np.exp(value)
    return table


def add_columns(table):
    """Return the table with two columns more, which are computed from others."""
    table = table.copy()
    table["area_of_room"] = table["area"] / table["rooms"]
    table["old"] = (table["age"] > 60).astype(float)
    return table


def drop_strange(table):
    """Return the table without homes whose price for a square metre is far from what is usual."""
    square = np.log(table[PRICE] / table["area"])
    low, high = square.quantile([0.03, 0.97])
    return table[square.between(low, high)]
'''

HOMES_TRAIN: Final = '''\
"""Estimates prices of homes by several regressors at once; writes the mean error, in percent, into metrics.json."""

import argparse
import json

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_percentage_error
from sklearn.model_selection import KFold, train_test_split
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler
from xgboost import XGBRegressor

from tables import PRICE, add_columns, drop_strange, make_table

TREES = 40
FOLDS = 3
KNOTS = 5
NEAREST = 9
HELD_OUT = 0.3
RISING = {"area": 1, "age": -1}


def make_regressors(seed):
    """Return what is stacked: a name and a regressor each."""
    regressors = [
        ("line", make_pipeline(StandardScaler(), SplineTransformer(KNOTS, extrapolation="linear"), Ridge(1.0))),
        (
            "trees",
            XGBRegressor(
                n_estimators=TREES,
                learning_rate=0.15,
                max_depth=3,
                subsample=0.8,
                monotone_constraints=RISING,
                n_jobs=1,
                random_state=seed,
            ),
        ),
    ]
    nearest = KNeighborsRegressor(NEAREST, weights="distance")
    regressors.append(("nearest", make_pipeline(StandardScaler(), nearest)))  # ABLATABLE_COMPONENT(name=nearest)
    return regressors


def make_model(seed):
    """Return a stack of regressors, and a line on top that weighs them."""
    folds = KFold(FOLDS, shuffle=True, random_state=seed)
    model = StackingRegressor(make_regressors(seed), final_estimator=Ridge(0.1), cv=folds)
    model = TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp)  # ABLATABLE_COMPONENT(name=logarithm)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    table = add_columns(make_table())
    # ABLATION_HINT_START
    # Features:
    # - remove 'latitude' and 'longitude'
    # - set `RISING` to None
    # ABLATION_HINT_END
    features = [name for name in table.columns if name != PRICE]
    train, test = train_test_split(table, test_size=HELD_OUT, random_state=args.seed)
    train = drop_strange(train)  # ABLATABLE_COMPONENT(name=strange)
    model = make_model(args.seed)
    model.fit(train[features], train[PRICE])
    found = 100 * float(mean_absolute_percentage_error(test[PRICE], model.predict(test[features])))
    print(f"{len(features)} columns, {len(train)} homes: error {found:.4f} %")
    with open("metrics.json", "w") as file:
        json.dump({"error": found}, file)


if __name__ == "__main__":
    main()
'''

FILMS_DATA: Final = '''\
"""Who watched which film."""

import torch

USERS, FILMS = 240, 150
WATCHED = 14


def make_views(draws):
    """Return for each user the films that were watched, and one more film that is kept for the test."""
    people = torch.randn(USERS, 4, generator=draws)
    films = torch.randn(FILMS, 4, generator=draws)
    fame = 1.3 * torch.randn(FILMS, generator=draws)
    chances = torch.softmax(0.9 * people @ films.T + fame, dim=1)
    drawn = torch.multinomial(chances, WATCHED + 1, generator=draws)
    return drawn[:, 1:], drawn[:, 0]


def histories(watched):
    """Return a row for each user, with a share for each film that was watched."""
    rows = torch.zeros(USERS, FILMS)
    return rows.scatter_(1, watched, 1 / watched.shape[1] ** 0.5)


def draw_others(count, watched, popular):
    """Return films to compare with: films that many have watched are drawn more often, the more so by `popular`."""
    counts = torch.bincount(watched.flatten(), minlength=FILMS).float() + 1
    return torch.multinomial(counts**popular, count, replacement=True)
'''

FILMS_TRAIN: Final = '''\
"""Recommends films to those who have watched some; writes how often the right one is among ten into metrics.json."""

import argparse
import json

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from data import FILMS, USERS, draw_others, histories, make_views

# ABLATION_HINT_START
# - set `POPULAR` to 0.0
# ABLATION_HINT_END
FACTORS = 12
EPOCHS = 14
BATCH_SIZE = 128
LEARNING_RATE = 0.02
SHRINK = 0.02
POPULAR = 0.6
SHOWN = 10


class Recommender(nn.Module):
    """Scores films: by factors of a user and of a film, by what else was watched, and by the film alone."""

    def __init__(self, rows):
        super().__init__()
        self.register_buffer("rows", rows)
        self.users = nn.Embedding(USERS, FACTORS)
        self.films = nn.Embedding(FILMS, FACTORS)
        self.tastes = nn.Linear(FILMS, FACTORS, bias=False)  # ABLATABLE_COMPONENT
        self.appeal = nn.Embedding(FILMS, 1)  # ABLATABLE_COMPONENT
        for table in (self.users, self.films):
            nn.init.normal_(table.weight, std=0.1)
        nn.init.zeros_(self.appeal.weight)

    def of_user(self, user):
        return self.users(user) + self.tastes(self.rows[user])

    def forward(self, user, film):
        score = (self.of_user(user) * self.films(film)).sum(1)
        return score + self.appeal(film).squeeze(1)

    def all_scores(self):
        """Return the score of each film for each user."""
        users = self.of_user(torch.arange(USERS))
        return users @ self.films.weight.T + self.appeal.weight.T


def size(model, user, *films):
    """Return the mean square of the factors that took part."""
    parts = [model.users(user), *(model.films(film) for film in films)]
    return sum(part.square().sum(1).mean() for part in parts)


def train(model, loader, optimizer, watched):
    """Go through all views once, each of them compared with a film that is drawn; return the mean loss."""
    model.train()
    losses = []
    for user, film in loader:
        other = draw_others(len(film), watched, POPULAR)
        margin = model(user, film) - model(user, other)
        loss = -F.logsigmoid(margin).mean()
        loss = loss + SHRINK * size(model, user, film, other)  # ABLATABLE_COMPONENT(name=shrink)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


@torch.no_grad()
def hits(model, watched, kept):
    """Return the share of users to whom the film that was kept is shown, among films that they have not watched."""
    model.eval()
    scores = model.all_scores().scatter(1, watched, float("-inf"))
    shown = scores.topk(SHOWN, dim=1).indices
    return (shown == kept.unsqueeze(1)).any(1).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)

    watched, kept = make_views(torch.Generator().manual_seed(61))
    torch.manual_seed(args.seed)
    users = torch.arange(USERS).repeat_interleave(watched.shape[1])
    loader = DataLoader(TensorDataset(users, watched.flatten()), batch_size=BATCH_SIZE, shuffle=True)
    model = Recommender(histories(watched))
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    for epoch in range(EPOCHS):
        print(f"epoch {epoch}: loss {train(model, loader, optimizer, watched):.4f}")

    found = hits(model, watched, kept)
    print(f"hits {found:.4f}")
    with open("metrics.json", "w") as file:
        json.dump({"hits": found}, file)


if __name__ == "__main__":
    main()
'''

PROGRAMS: Final[Mapping[str, Program]] = {
    TILES: Program(
        files={"nets.py": TILES_NETS, "train.py": TILES_TRAIN},
        metric="metrics.json:accuracy",
        variants=("without-drop", "without-follower", "without-distil", "with-WARMUP-0"),
    ),
    PROSE: Program(
        files={"train.py": PROSE_TRAIN},
        metric="metrics.json:perplexity",
        variants=("without-locked", "without-tying", "without-slowness", "with-CARRIED-False"),
    ),
    HOMES: Program(
        files={"tables.py": HOMES_TABLES, "train.py": HOMES_TRAIN},
        metric="metrics.json:error",
        variants=(
            "without-nearest",
            "without-logarithm",
            "without-strange",
            "without-latitude-longitude",
            "with-RISING-None",
        ),
    ),
    FILMS: Program(
        files={"data.py": FILMS_DATA, "train.py": FILMS_TRAIN},
        metric="metrics.json:hits",
        variants=("without-tastes", "without-appeal", "without-shrink", "with-POPULAR-0.0"),
    ),
}
"""The programs, by their names."""
