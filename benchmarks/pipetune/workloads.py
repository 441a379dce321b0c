"""The workloads by name, with their types as in PipeTune, and the hyperparameters that it tunes.

The functions of a workload are ordinary ones of an experiment. An epoch takes .2 to 2 s on two cores, with parts of the
data that are small enough for that.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import etude
from benchmarks.live.workload import lacking

BATCH_SIZE: Final = (32, 1024)
DROPOUT: Final = (0.0, 0.5)
EMBEDDING: Final = (50, 300)
LR: Final = (0.001, 0.1)
EPOCHS: Final = (10, 100)
"""The five hyperparameters of the paper, and their ranges (section 7.1.3); epochs are what Hyperband hands out."""

NAMES: Final = {
    "lenet5 mnist": "benchmarks.pipetune.pictures:MNIST",
    "lenet5 fashion": "benchmarks.pipetune.pictures:FASHION",
    "cnn news": "benchmarks.pipetune.texts:CNN",
    "lstm news": "benchmarks.pipetune.texts:LSTM",
    "jacobi": "benchmarks.pipetune.kernels:JACOBI",
    "bfs": "benchmarks.pipetune.kernels:BFS",
    "k-means": "benchmarks.pipetune.kernels:KMEANS",
    "decoding": "benchmarks.pipetune.headroom:DECODING",
    "augmented": "benchmarks.pipetune.headroom:AUGMENTED",
    "one thread": "benchmarks.pipetune.headroom:ONE_THREAD",
    "cnn cifar": "benchmarks.pipetune.further:CIFAR",
    "transformer news": "benchmarks.pipetune.further:TRANSFORMER",
    "autoencoder": "benchmarks.pipetune.further:AUTOENCODER",
    "table": "benchmarks.pipetune.further:TABLE",
}
"""Name of a workload -> where it is. The modules load torch, so they are loaded only where something is trained."""

KINDS: Final = {
    **dict.fromkeys(("lenet5 mnist", "lenet5 fashion"), "I"),
    **dict.fromkeys(("cnn news", "lstm news"), "II"),
    **dict.fromkeys(("jacobi", "bfs", "k-means"), "III"),
    **dict.fromkeys(("decoding", "augmented", "one thread"), "headroom"),
    **dict.fromkeys(("cnn cifar", "transformer news", "autoencoder", "table"), "further"),
}
"""Types I to III are those of the paper's table 3. Those with headroom are ours: there is something to save in them.
The others make recognition harder."""

TWINS: Final = {"lenet5 fashion": "lenet5 mnist"}
"""Work that does the same to a machine as other work: one network on pictures of one size, which no counter tells
apart, and which the paper puts into one type."""

FILES: Final = {
    "lenet5 mnist": "mnist/train-images-idx3-ubyte.gz",
    "lenet5 fashion": "fashion-mnist/train-images-idx3-ubyte.gz",
    "cnn news": "20newsgroups/train.jsonl.gz",
    "lstm news": "20newsgroups/train.jsonl.gz",
    "k-means": "fashion-mnist/train-images-idx3-ubyte.gz",
    "decoding": "cifar10/train-0.npz",
    "augmented": "cifar10/train-0.npz",
    "one thread": "fashion-mnist/train-images-idx3-ubyte.gz",
    "cnn cifar": "cifar10/train-0.npz",
    "transformer news": "ag-news/test.csv.gz",
    "autoencoder": "fashion-mnist/train-images-idx3-ubyte.gz",
    "table": "adult/adult.data.gz",
}
"""Name of a workload -> a file that it cannot do without; the others make their data up."""


def space(*names: str) -> dict[str, object]:
    """Return the space of some of the paper's hyperparameters; the epochs are a search's budget."""
    every = {
        "batch_size": etude.integers(*BATCH_SIZE, log=True),
        "dropout": etude.uniform(*DROPOUT),
        "embedding": etude.integers(*EMBEDDING),
        "lr": etude.loguniform(*LR),
    }
    return {name: every[name] for name in names}


@dataclass(frozen=True)
class Workload:
    """A workload.

    Attributes:
        name: Its name in the tables.
        train: Its training function; it reports ``accuracy`` after each epoch, which is to be large.
        model: Its model function, if it has one.
        data: Its data function, if it has one; the first loader that it returns is trained with.
        space: Its hyperparameters.
        fixed: What else its functions are called with.
        own_threads: How many threads it computes with by default; None for one on each core.
    """

    name: str
    train: Callable[..., Any]
    model: Callable[..., Any] | None = None
    data: Callable[..., Any] | None = None
    space: Mapping[str, object] = field(default_factory=dict)
    fixed: Mapping[str, object] = field(default_factory=dict)
    own_threads: int | None = None

    @property
    def experiment(self) -> etude.Experiment:
        """The workload as an experiment."""
        return etude.Experiment(self.train, model=self.model, data=self.data, metric="accuracy", mode="max")


def missing(name: str) -> str:
    """Return what a workload lacks here, in words; empty if nothing."""
    return lacking(FILES.get(name))


def load(name: str) -> Workload:
    """Return a workload by its name."""
    module, _, attribute = NAMES[name].partition(":")
    found: Workload = getattr(importlib.import_module(module), attribute)
    return found


def work_of(name: str) -> str:
    """Return what stands for a workload where only what it does to the machine counts."""
    return TWINS.get(name, name)
