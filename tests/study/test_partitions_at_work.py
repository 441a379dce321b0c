"""Partitions at work: what the criterion saw decides which examples are whose, and nothing else changes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

import etude
from etude.core.errors import ConfigError, DefinitionChangedError, StudyError

N = 48


class Numbered(Dataset[Any]):
    """Examples that say who they are."""

    def __init__(self) -> None:
        self.data = torch.randn(N, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> Any:
        x = self.data[index]
        return x, int(x.sum() > 0), index


def model() -> nn.Module:
    return nn.Linear(6, 2).double()


def data() -> Any:
    return DataLoader(Numbered(), batch_size=12, shuffle=True)


def train(model, data, run, epochs: int = 6, killed_in: int = -1, watched: bool = True):
    net, loader = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    kept = run.keep(net=net, optimizer=optimizer, seen=[])
    criterion = run.criterion(nn.CrossEntropyLoss()) if watched else nn.CrossEntropyLoss()
    for epoch in run.epochs(epochs):
        ids: list[int] = []
        for x, y, index in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
            ids += index.tolist()
        kept.seen = [*kept.seen, sorted(ids)]
        if epoch == killed_in and run.rank == 1 and "attempt-1" in str(run.folder):
            os.kill(os.getpid(), signal.SIGKILL)
        with torch.no_grad():
            run.report(loss=criterion(net(loader.dataset.data), (loader.dataset.data.sum(1) > 0).long()).item())
        run.log(json.dumps({"epoch": epoch, "ids": sorted(ids)}))


def seen_by(study: etude.Fit, rank: int, *, trial: int = 0, attempt: int = 1) -> list[list[int]]:
    """Return the examples that a rank had in each epoch."""
    folder = study.folder / "trials" / f"{trial:05d}" / f"attempt-{attempt}"
    log = (folder / (f"rank-{rank}" if rank else "") / "log.txt").read_text()
    return [json.loads(line)["ids"] for line in log.splitlines() if line.startswith("{")]


STRIPES = etude.partitions.Stripes(warmup=2, interval=2, ignore=0, measure="mean")


def made() -> etude.Experiment:
    return etude.Experiment(train, model=model, data=data, metric="loss", mode="min")


@pytest.fixture
def experiment() -> etude.Experiment:
    return made()


@pytest.fixture(scope="module")
def striped() -> etude.Fit:
    """A trial that goes well, which several tests look at."""
    return made().fit(at={}, ranks=2, partition=STRIPES)


def test_each_rank_keeps_its_examples_for_an_interval_and_all_are_somebodys(
    experiment: etude.Experiment, striped: etude.Fit
) -> None:
    first, second = seen_by(striped, 0), seen_by(striped, 1)
    assert [sorted(a + b) for a, b in zip(first, second, strict=True)] == [list(range(N))] * 6
    assert first[2] == first[3]
    assert first[4] == first[5]
    assert first[0] != first[1], "in the warm-up everybody has any"
    assert first[2] != first[4], "what is hard has changed"
    vanilla = experiment.fit(at={}, ranks=2)
    assert striped.trials[0].curve[:2] == vanilla.trials[0].curve[:2]
    assert striped.trials[0].curve[2:] != vanilla.trials[0].curve[2:]


def test_the_assignment_is_that_of_the_losses(experiment: etude.Experiment) -> None:
    """The losses of the warm-up, computed again from the weights of each step, give the same stripes."""
    final = experiment.fit(at={"epochs": 3}, ranks=2, partition=etude.partitions.Stripes(warmup=1, ignore=0))
    alone = etude.Experiment(tell_losses, model=model, data=data, metric="loss", mode="min").fit(at={}, ranks=1)
    losses = np.array(json.loads(alone.best.log.read_text().splitlines()[-1]), dtype=np.float32)
    expected = etude.partitions.Stripes().assign(losses, 2)
    assert [seen_by(final, rank)[1] for rank in range(2)] == [part.tolist() for part in expected]


def tell_losses(model, data, run):
    """Train an epoch on one rank, and tell the loss of each example."""
    net, loader = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    losses = [0.0] * N
    for _ in run.epochs(1):
        for x, y, index in loader:
            optimizer.zero_grad()
            each = nn.functional.cross_entropy(net(x), y, reduction="none")
            each.mean().backward()
            optimizer.step()
            for i, loss in zip(index.tolist(), each.tolist(), strict=True):
                losses[i] = loss
    run.log(json.dumps(losses))
    return 0.0


@pytest.mark.parametrize("killed_in", [1, 3])
def test_a_killed_rank_changes_nothing(experiment: etude.Experiment, striped: etude.Fit, killed_in: int) -> None:
    disturbed = experiment.fit(at={"killed_in": killed_in}, ranks=2, partition=STRIPES)
    assert disturbed.trials[0].attempts == 2
    assert disturbed.trials[0].curve == striped.trials[0].curve


def test_a_partition_may_be_a_function_of_hyperparameters(experiment: etude.Experiment) -> None:
    search = experiment.tune(
        {"interval": [1, 2]},
        sampler="grid",
        stopper="none",
        workers=1,
        ranks=2,
        partition=lambda interval: etude.partitions.Stripes(warmup=2, interval=interval, ignore=0, measure="mean"),
    )
    assert search.counts() == {"finished": 2}
    every_epoch, every_other = (
        seen_by(search, 0, trial=next(t.number for t in search.trials if t.params["interval"] == interval))  # type: ignore[arg-type]
        for interval in (1, 2)
    )
    assert every_epoch[2] != every_epoch[3]
    assert every_other[2] == every_other[3]


def test_what_was_moved_is_told(striped: etude.Fit) -> None:
    first = seen_by(striped, 0)
    moved = len(set(first[2]) ^ set(first[4]))
    outcome = striped.trials[0].metrics
    assert outcome["repartitions"] == 2
    assert outcome["examples_moved"] == moved
    assert outcome["bytes_moved"] == moved * 6 * 8


def test_a_partition_that_never_assigns_says_so_and_is_not_judged(experiment: etude.Experiment) -> None:
    never = etude.partitions.Stripes(warmup=2, ignore=0, measure="mean")
    final = experiment.fit(at={"epochs": 2}, ranks=2, partition=never)
    assert final.trials[0].metrics["repartitions"] == 0
    assert any("never assigns anything: the training has 2 epochs, and its warm-up" in note for note in final.notes)
    with pytest.raises(StudyError, match="never assigns anything"):
        etude.compare_partitions(experiment, at={"epochs": 2}, partitions={"never": never}, ranks=2, seeds=6, level=0.5)


class Hidden(Dataset[Any]):
    """Examples that nobody sees the size of from outside."""

    def __init__(self) -> None:
        self._all = Numbered()

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> Any:
        return self._all[index]


def test_what_was_moved_is_told_by_what_batches_hold_if_the_data_set_hides_it() -> None:
    data = lambda: DataLoader(Hidden(), batch_size=12, shuffle=True)  # noqa: E731
    final = etude.Experiment(train_hidden, model=model, data=data, metric="loss", mode="min").fit(
        at={}, ranks=2, partition=STRIPES
    )
    outcome = final.trials[0].metrics
    assert outcome["bytes_moved"] == outcome["examples_moved"] * (6 * 8 + 8 + 8) > 0, "inputs, class and index"


def train_hidden(model, data, run):
    net, loader = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    criterion = run.criterion(nn.CrossEntropyLoss())
    for _ in run.epochs(6):
        for x, y, _index in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
        run.report(loss=loss.item())


def train_ahead(model, data, run, ahead: int = 1):
    """Train as those do who load batches while the one before is trained on."""
    net, loader = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    criterion = run.criterion(nn.CrossEntropyLoss())
    for _ in run.epochs(4):  # what no assignment follows is not recorded
        drawn: list[Any] = []
        for batch in loader:
            drawn.append(batch)
            if len(drawn) > ahead:
                learn(net, optimizer, criterion, drawn.pop(0))
        for batch in drawn:
            learn(net, optimizer, criterion, batch)
        run.report(loss=0.0)


def learn(net: nn.Module, optimizer: Any, criterion: Any, batch: Any) -> None:
    x, y, _ = batch
    optimizer.zero_grad()
    criterion(net(x), y).backward()
    optimizer.step()


def smaller() -> Any:
    return DataLoader(Numbered(), batch_size=16, shuffle=True)  # a multiple of the ranks, and 8 for each


def test_batches_that_are_drawn_ahead_are_told_by_their_labels() -> None:
    experiment = etude.Experiment(train_ahead, model=model, data=smaller, metric="loss", mode="min")
    with pytest.raises(StudyError, match="targets of a batch before the one that the loader gave last"):
        experiment.fit(at={"ahead": 1}, ranks=2, retries=0, partition=STRIPES)
    assert experiment.fit(at={"ahead": 0}, ranks=2, partition=STRIPES).complete


def test_another_partition_is_another_study(experiment: etude.Experiment) -> None:
    experiment.fit(at={"epochs": 1}, ranks=2, partition=STRIPES, name="striped")
    with pytest.raises(DefinitionChangedError, match="Blocks"):
        experiment.fit(at={"epochs": 1}, ranks=2, partition=etude.partitions.Blocks(), name="striped")


class Endless(IterableDataset[Any]):
    """Has no indices."""

    def __iter__(self) -> Any:
        return iter((torch.zeros(6, dtype=torch.float64), 0, 0) for _ in range(N))


def streamed() -> Any:
    return DataLoader(Endless(), batch_size=12)


def two_loaders() -> Any:
    return DataLoader(Numbered(), batch_size=12, shuffle=True), DataLoader(Numbered(), batch_size=12, shuffle=True)


def sampled() -> Any:
    return DataLoader(Numbered(), batch_size=12, sampler=torch.utils.data.SubsetRandomSampler(range(24)))


def train_twice(model, data, run):
    model(), data()
    criterion = run.criterion(nn.CrossEntropyLoss())
    for _ in range(2):
        for _ in run.epochs(2):
            for x, y, _ in data():
                criterion(model()(x), y).backward()
            run.report(loss=0.0)


def test_what_cannot_be_partitioned_is_refused(experiment: etude.Experiment, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"assigns training examples to ranks, and ranks=1 has them all"):
        experiment.fit(at={}, partition=STRIPES)
    with pytest.raises(ConfigError, match=r"partition='stripes'.* assigns no examples"):
        experiment.fit(at={}, ranks=2, partition="stripes")
    for load, why in (
        (streamed, "Endless has none"),
        (two_loaders, "gives 2 loaders to train on"),
        (sampled, "draws by a SubsetRandomSampler"),
    ):
        other = etude.Experiment(train, model=model, data=load, metric="loss", mode="min")
        assert why in other.fit(at={}, ranks=2, partition=STRIPES).trials[0].reason
    twice = etude.Experiment(train_twice, model=model, data=data, metric="loss", mode="min")
    with pytest.raises(StudyError, match=r"several loops of run\.epochs"):
        twice.fit(at={}, ranks=2, partition=STRIPES)
    with pytest.raises(StudyError, match=r"run\.criterion was not called"):
        experiment.fit(at={"watched": False}, ranks=2, partition=STRIPES)
