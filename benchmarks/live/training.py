"""The training function that all workloads share, and their loaders."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import etude
from benchmarks.live.workload import Workload

LOOKS: Final = (0.0, 0.125, 0.25, 0.5)
"""Parts of the first epoch after which a pilot looks at the network."""

Batch = tuple[torch.Tensor, torch.Tensor]


class Rows(Dataset[Batch]):
    """Examples, given out by the batch: one at a time would take longer than small networks take to train."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x = x
        self.y = y

    def __len__(self) -> int:
        return len(self.y)

    def __getitems__(self, picked: list[int]) -> Batch:
        return self.x[picked], self.y[picked]


def _as_it_is(batch: Any) -> Any:
    return batch


def loaders(x: torch.Tensor, y: torch.Tensor, *, valid: Batch, test: Batch, part: float, batch_size: int) -> etude.Data:
    """Return the loaders of a final run, or of a trial of the search.

    Args:
        x: What is trained with.
        y: Its classes.
        valid: What final runs are validated with.
        test: What is tested with.
        part: How much of ``x`` is trained with. If that is not all of it, the rest takes the place of ``valid``.
        batch_size: Of the training loader.
    """
    many = round(part * len(y))
    if many < len(y):
        valid = x[many:], y[many:]
    return etude.Data(
        DataLoader(Rows(x[:many], y[:many]), batch_size=batch_size, shuffle=True, collate_fn=_as_it_is),
        *(DataLoader(Rows(*rows), batch_size=1000, collate_fn=_as_it_is) for rows in (valid, test)),
    )


def train(
    model: Any,
    data: Any,
    run: Any,
    *,
    lr: float,
    weight_decay: float,
    epochs: int,
    optimizer: str = "sgd",
    looks: etude.Stateless[bool] = False,
) -> None:
    """Train, and report after each epoch the accuracy and the loss of validation, and what test and training say.

    With ``looks``, the first epoch is interrupted a few times to validate, which changes nothing in it.
    """
    torch.set_num_threads(1)
    net, (train_loader, valid_loader, test_loader) = model(), data()
    steps = {math.ceil(part * len(train_loader)): part for part in LOOKS} if looks else {}
    chosen: torch.optim.Optimizer = (
        torch.optim.Adam(net.parameters(), lr=lr, weight_decay=weight_decay)
        if optimizer == "adam"
        else torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=weight_decay)
    )
    run.keep(net=net, optimizer=chosen)
    for epoch in run.epochs(epochs):
        total = 0.0
        if epoch == 0 and 0 in steps:
            _look(net, valid_loader, run, at=0.0)
        net.train()
        for step, (x, y) in enumerate(train_loader, start=1):
            chosen.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            chosen.step()
            total += loss.item() * len(y)
            if epoch == 0 and step in steps:
                _look(net, valid_loader, run, at=steps[step], train_loss=total / (step * train_loader.batch_size))
                net.train()
        accuracy, valid_loss = judged(net, valid_loader)
        test, _ = judged(net, test_loader)
        run.report(accuracy=accuracy, loss=valid_loss, test=test, train_loss=total / len(train_loader.dataset))


def _look(net: nn.Module, loader: DataLoader[Batch], run: Any, *, at: float, train_loss: float = math.nan) -> None:
    """Report how a network does within an epoch, by other names than after one."""
    accuracy, loss = judged(net, loader)
    run.report(look=at, look_accuracy=accuracy, look_loss=loss, look_train_loss=train_loss)


@torch.no_grad()
def judged(net: nn.Module, loader: DataLoader[Batch]) -> tuple[float, float]:
    """Return a network's accuracy and its mean loss."""
    net.eval()
    many, right, loss = 0, 0, 0.0
    for x, y in loader:
        told = net(x)
        many += len(y)
        right += int((told.argmax(1) == y).sum())
        loss += float(nn.functional.cross_entropy(told, y, reduction="sum"))
    return right / many, loss / many


def experiment(workload: Workload) -> etude.Experiment:
    """Return a workload as an experiment."""
    return etude.Experiment(train, model=workload.model, data=workload.data, metric="accuracy", mode="max")
