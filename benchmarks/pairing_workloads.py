"""What ``ablate_pairing`` trains: small networks on three data sets; where their files are not, on sklearn's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude

BATCH: Final = 50
TESTED: Final = 2_000
Rows = tuple[torch.Tensor, torch.Tensor]


class Net(nn.Module):
    """A network with two hidden layers, or with one."""

    def __init__(self, inputs: int, width: int, classes: int, dropout: float, *, hidden: bool = True) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.hidden = nn.Linear(width, width) if hidden else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what it says of each class."""
        x = torch.relu(self.hidden(torch.relu(self.first(x))))
        said: torch.Tensor = self.last(self.dropout(x))
        return said


@dataclass(frozen=True)
class Workload:
    """Data, and how long is trained on it.

    Attributes:
        name: What it is called, with where it is from.
        train: Examples and their classes.
        test: Likewise.
        names: Of the columns; a feature with several has its name once for each.
        taken: What the arms take away: a layer, and a feature or dropout.
        short: Epochs after which a short training is judged.
        long: Epochs after which a long one is.
        width: Of the hidden layers.
    """

    name: str
    train: Rows
    test: Rows
    names: Sequence[str]
    taken: tuple[str, str]
    short: int
    long: int
    width: int = 32

    @property
    def classes(self) -> int:
        """How many there are."""
        return int(self.train[1].max()) + 1

    def epochs(self, *, small: bool) -> tuple[int, int]:
        """Return after how many epochs it is judged."""
        return (1, 2) if small else (self.short, self.long)


def table() -> Workload:
    """Return Adult, some rows of it; without its file, sklearn's tumours."""
    from benchmarks.live import adult
    from benchmarks.live.workload import FOLDER

    if (FOLDER / "adult").is_dir():
        parts = adult.data()
        (x, y), (tx, ty) = ((part.dataset.x, part.dataset.y) for part in (parts.train, parts.test))
        rows = adult.read("adult.data.gz") + adult.read("adult.test.gz")
        words = [n for n in range(14) if n not in adult.NUMBERS]
        names = [f"column {n}" for n in adult.NUMBERS]
        names += [f"column {n}" for n in words for _ in {row[n] for row in rows}]
        # Column 4 is the years of education.
        return _workload("adult", (x, y), (tx, ty), names, ("layer:hidden", "feature:column 4"), 800, (2, 10))
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer()
    x = torch.tensor((found.data - found.data.mean(0)) / found.data.std(0), dtype=torch.float32)
    y, order = torch.tensor(found.target), torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    names = [str(name) for name in found.feature_names]
    taken = ("layer:hidden", f"feature:{names[0]}")
    return _workload("tumours", (x[:300], y[:300]), (x[300:], y[300:]), names, taken, 300, (2, 20))


def images() -> Workload:
    """Return Fashion-MNIST, some images of it; without its files, digits of which a fifth have wrong labels."""
    from benchmarks.live import digits, fashion
    from benchmarks.live.workload import FOLDER

    if (FOLDER / "fashion-mnist").is_dir():
        return _flat("fashion", fashion.images("train", 800), fashion.images("t10k", TESTED), 800, (2, 10))
    parts = digits.data(noise=0.2)
    train, test = ((part.dataset.x, part.dataset.y) for part in (parts.train, parts.test))
    return _flat("wrong digits", train, test, 800, (2, 10))


def small_images() -> Workload:
    """Return sklearn's digits, trained until nothing changes any more."""
    from benchmarks.live import digits

    parts = digits.data()
    train, test = ((part.dataset.x, part.dataset.y) for part in (parts.train, parts.test))
    return _flat("digits", train, test, 600, (2, 15))


WORKLOADS: Final[dict[str, Callable[[], Workload]]] = {"table": table, "images": images, "digits": small_images}


def _flat(name: str, train: Rows, test: Rows, rows: int, epochs: tuple[int, int]) -> Workload:
    x, tested = train[0].flatten(1), test[0].flatten(1)
    names = [f"pixel {n}" for n in range(x.shape[1])]
    return _workload(name, (x, train[1]), (tested, test[1]), names, ("layer:hidden", "dropout"), rows, epochs)


def _workload(
    name: str, train: Rows, test: Rows, names: Sequence[str], taken: tuple[str, str], rows: int, epochs: tuple[int, int]
) -> Workload:
    x, y = train
    tx, ty = test
    return Workload(name, (x[:rows], y[:rows]), (tx[:TESTED], ty[:TESTED]), names, taken, *epochs)


def experiment(of: Workload, *, small: bool) -> etude.Experiment:
    """Return the experiment of a workload: its functions draw from whatever generators they are called under."""

    def model(dropout: float = 0.2) -> nn.Module:
        return Net(len(of.names), of.width, of.classes, dropout)

    def data() -> etude.Data:
        loader = DataLoader(TensorDataset(*of.train), BATCH, shuffle=True)
        test = DataLoader(TensorDataset(*of.test), len(of.test[0]))
        return etude.Data(loader, None, test, features=list(of.names))

    def train(model: Any, data: Any, run: Any) -> dict[str, float]:
        net, parts = model(), data()
        [test] = list(parts.test)
        return trained(net, parts.train, test, of.epochs(small=small), run.epochs)

    return etude.Experiment(train, model=model, data=data, metric="long loss", mode="min")


def by_one_generator(of: Workload, arm: str, seed: int, *, small: bool) -> dict[str, float]:
    """Train an arm as one would by hand: the model is built without the component, and all draws are from one seed."""
    torch.manual_seed(seed)
    gone = arm.removeprefix("feature:") if arm.startswith("feature:") else None
    left = [nth for nth, name in enumerate(of.names) if name != gone]
    dropout = 0.0 if arm == "dropout" else 0.2
    net = Net(len(left), of.width, of.classes, dropout, hidden=arm != "layer:hidden")
    loader = DataLoader(TensorDataset(of.train[0][:, left], of.train[1]), BATCH, shuffle=True)
    return trained(net, loader, (of.test[0][:, left], of.test[1]), of.epochs(small=small), range)


def trained(
    net: nn.Module, loader: Any, test: Any, epochs: tuple[int, int], turns: Callable[[int], Any]
) -> dict[str, float]:
    """Train, and return the test loss and accuracy after a short and after a long training."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
    short, long = epochs
    found: dict[str, float] = {}
    for epoch in turns(long):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        if epoch + 1 in (short, long):
            net.eval()
            with torch.no_grad():
                said = net(test[0])
            budget = "short" if epoch + 1 == short else "long"
            found[f"{budget} loss"] = nn.functional.cross_entropy(said, test[1]).item()
            found[f"{budget} accuracy"] = 100 * (said.argmax(1) == test[1]).float().mean().item()
    return found
