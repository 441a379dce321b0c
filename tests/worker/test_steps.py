"""States within an epoch: a run that was killed between two batches goes on after them, bit by bit."""

from __future__ import annotations

import gc
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from paper import KilledError, Paper, state_in
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

from etude.core.data import Data
from etude.core.errors import ConfigError, StateError
from etude.core.signature import Signature
from etude.worker.bind import Bound
from etude.worker.run import NoLine, Run, State, Stop

EPOCHS = 3


class Numbers(Dataset[Any]):
    """Numbers with noise on them, drawn where the loader runs: from torch, numpy and Python, or from nothing."""

    def __init__(self, n: int, *, noisy: bool = True) -> None:
        self.n = n
        self.noisy = noisy

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> torch.Tensor:
        x = torch.linspace(-1, 1, 4) * index / self.n
        return x + torch.rand(()) + np.random.rand() + random.random() if self.noisy else x


class Ahead:
    """A loader with a state that has always fetched a few batches more than it has given, as those with workers have.

    Each time it is gone through, it draws an order from torch's global generator. It does not tell its length.
    """

    def __init__(self, n: int, batch: int) -> None:
        self.data = Numbers(n)
        self.batch = batch
        self.order: list[int] = []
        self.given = 0
        self.over = True
        self.turns = 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        if self.over:
            self.order, self.given, self.turns = torch.randperm(len(self.data)).tolist(), 0, self.turns + 1
        self.over = False
        return self._batches(self.order[self.given * self.batch :])

    def _batches(self, order: list[int]) -> Iterator[torch.Tensor]:
        ahead = [order[n : n + self.batch] for n in range(0, len(order), self.batch)]
        while ahead:
            self.given += 1
            yield torch.stack([self.data[index] for index in ahead.pop(0)]) + self.turns
        self.over = True

    def state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("data", "batch")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def stateful(n: int, batch: int, **options: Any) -> Any:
    loaders = pytest.importorskip("torchdata.stateful_dataloader")
    noisy = not options.get("num_workers")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "'set_vital' is deprecated")  # torchdata 0.11 still calls it in torch 2.13
        return loaders.StatefulDataLoader(Numbers(n, noisy=noisy), batch, shuffle=True, **options)


class Made:
    """Data whose loaders the training function makes, so that they draw from the global generators when they begin."""

    def __iter__(self) -> Iterator[Any]:
        yield stateful(12, 2)
        yield stateful(8, 2)


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))


def train(model: Any, run: Run, data: Any, epochs: int = EPOCHS, keep_loaders: bool = False) -> dict[str, float]:
    net, loaders = model(), list(data())
    optimizer = optim.SGD(net.parameters(), lr=0.001, momentum=0.9)
    noise = run.random("noise")
    kept = run.keep(net=net, optimizer=optimizer, total=0.0, seen=[{"all": 0}])
    if keep_loaders:
        run.keep(first=loaders[0], second=loaders[1])
    for epoch in run.epochs(epochs):
        kept.total = 0.0
        kept.seen[0]["all"] += 100  # these are done again, and undone
        optimizer.param_groups[0]["lr"] *= 0.9
        run.report(begun=epoch, loss=float(torch.rand(())) + noise.random())
        of_epoch = run.random("of epoch")
        for nth, loader in enumerate(loaders):
            for x in run.steps(loader, every=2 + nth):
                optimizer.zero_grad()
                loss = (net(x) - x.sum(1, keepdim=True)).square().mean() * (1 + of_epoch.random())
                loss.backward()
                optimizer.step()
                kept.total += loss.item()
                kept.seen[0]["all"] += 1
                noise.random()
            run.report(loss=kept.total)
    digest = sum(float(p.detach().double().sum()) for p in net.parameters())
    return {"loss": kept.total, "weights": digest, "lr": optimizer.param_groups[0]["lr"], "seen": kept.seen[0]["all"]}


LOADERS = {
    "own": lambda: Data(Ahead(12, 2), Ahead(8, 2)),
    "torchdata": lambda: Data(stateful(12, 2), stateful(8, 2)),
    "torchdata of the training function": Made,
    "torchdata with workers": lambda: Data(stateful(12, 2, num_workers=2), stateful(8, 2, num_workers=1)),
}


def played(line: Paper, loaders: str, *, keep_loaders: bool = False) -> Any:
    functions = {"train": train, "model": model, "data": LOADERS[loaders]}
    signature = Signature.read(functions)
    run = Run(metrics=("loss",), params={}, seed=7, trial=0, folder=lambda: line.folder, line=line)
    params = {**signature.defaults(), "keep_loaders": keep_loaders}
    return Bound(functions, signature, params, run).train()


def place(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).mkdir()
    return tmp_path / name


@pytest.fixture(autouse=True)
def _generators() -> None:
    """Leave the global generators elsewhere than a run would."""
    torch.manual_seed(99)
    np.random.seed(99)
    random.seed(99)


def check_killed(after: int, tmp_path: Path, loaders: str, *, expected: Any, reports: Any, **options: Any) -> None:
    killed = Paper(place(tmp_path, f"killed-{after}"), dies_after=after)
    with pytest.raises(KilledError):
        played(killed, loaders, **options)
    gc.collect()  # the frames of what was killed still hold a loader, and that its workers
    states = [state_in(path) for path in reversed(killed.saved[-2:])]
    if states[0].epoch == EPOCHS:  # all was done: it goes on from the one before, for what comes after the loop
        del states[0]
    second = Paper(place(tmp_path, f"second-{after}"), states=states)
    assert played(second, loaders, **options) == expected
    assert [row for row in killed.reports if row[0] <= states[0].step] + second.reports == reports


@pytest.mark.parametrize("loaders", ["own", "torchdata"])
def test_killed_after_any_state_it_goes_on_as_if_nothing_had_happened(loaders: str, tmp_path: Path) -> None:
    whole = Paper(place(tmp_path, "whole"))
    expected = played(whole, loaders, keep_loaders=loaders == "own")
    assert expected["seen"] == EPOCHS * 110
    states = [state_in(path) for path in whole.saved]
    batches = (2, 4, 6, 9) if loaders == "own" else (2, 4, 9)  # one that knows its length has none after the last
    assert [(s.epoch, s.batch) for s in states] == [
        place for n in range(EPOCHS) for place in [*((n, batch) for batch in batches), (n + 1, 0)]
    ]
    for after in range(1, len(states) + 1):
        check_killed(after, tmp_path, loaders, expected=expected, reports=whole.reports, keep_loaders=loaders == "own")
    assert whole.told == []


def test_loaders_of_torchdata_that_the_training_function_makes_go_on_where_they_are_kept(tmp_path: Path) -> None:
    loaders = "torchdata of the training function"
    whole = Paper(place(tmp_path, "whole"))
    expected = played(whole, loaders, keep_loaders=True)
    for after in (1, 3, 4, 5, 8, 4 * EPOCHS):
        check_killed(after, tmp_path, loaders, expected=expected, reports=whole.reports, keep_loaders=True)


def test_batches_that_workers_of_the_loader_had_ready_are_not_lost(tmp_path: Path) -> None:
    whole = Paper(place(tmp_path, "whole"))
    expected = played(whole, "torchdata with workers")
    check_killed(5, tmp_path, "torchdata with workers", expected=expected, reports=whole.reports)


def test_killed_again_and_again_it_still_does(tmp_path: Path) -> None:
    whole = Paper(place(tmp_path, "whole"))
    expected = played(whole, "own", keep_loaders=True)
    states: list[State] = []
    reports = []
    for attempt in range(len(whole.saved) - 1):
        line = Paper(place(tmp_path, f"{attempt}"), dies_after=1, states=states[-1:])
        with pytest.raises(KilledError):
            played(line, "own", keep_loaders=True)
        states.append(state_in(line.saved[0]))
        reports += line.reports
    last = Paper(place(tmp_path, "last"), states=states[-1:])
    assert (played(last, "own", keep_loaders=True), reports + last.reports) == (expected, whole.reports)


# --- what has no state, and what cannot go on ------------------------------------------------------


def run_with(line: Any) -> Run:
    return Run(metrics=("loss",), params={}, seed=7, trial=0, folder=Path, line=line)


def test_a_loader_without_a_state_is_gone_through_all_the_same_and_that_is_said(tmp_path: Path) -> None:
    line = Paper(tmp_path)
    run = run_with(line)
    run.keep(total=0.0)
    seen = [list(map(int, run.steps(DataLoader([0, 1, 2]), every=1))) for _ in run.epochs(2)]
    assert seen == [[0, 1, 2]] * 2
    assert [state_in(path).batch for path in line.saved] == [0, 0]
    assert set(line.told) == {
        "run.steps goes through a DataLoader without state_dict and load_state_dict, so nothing is saved within its "
        "epochs: a trial that is lost goes on from the end of one. The StatefulDataLoader of torchdata has both."
    }


def test_a_generator_that_nobody_saves_is_told_of(tmp_path: Path) -> None:
    line = Paper(tmp_path)
    run = run_with(line)
    loader = stateful(8, 2)
    run.keep(total=0.0)
    for _ in run.epochs(1):
        assert len(list(run.steps(loader))) == 4
    [told] = line.told
    assert told == (
        "run.steps goes through a StatefulDataLoader that shuffles with a generator of its own, which is not saved "
        "after epochs: a trial that is lost then may go on in another order. Make the loader in the data function; or "
        "keep it, run.keep(loader=loader), if it is made before the epochs."
    )


def test_without_anything_kept_batches_are_given_and_nothing_is_saved(tmp_path: Path) -> None:
    line = Paper(tmp_path)
    run = run_with(line)
    assert list(run.steps([1, 2])) == [1, 2]
    assert [list(run.steps([1, 2], every=1)) for _ in run.epochs(2)] == [[1, 2]] * 2
    assert (line.saved, line.told) == ([], [])
    assert list(Run(metrics=("loss",), params={}, seed=7).steps("ab")) == ["a", "b"]


def test_a_stop_ends_it_between_two_batches() -> None:
    line = NoLine()
    batches = run_with(line).steps(range(9))
    assert [next(batches), next(batches)] == [0, 1]
    line.halted = True
    with pytest.raises(Stop):
        next(batches)


def test_a_loader_within_the_batches_of_another_one_is_no_part_of_the_place(tmp_path: Path) -> None:
    def go(line: Paper) -> list[int]:
        run = run_with(line)
        kept = run.keep(seen=[])
        for _ in run.epochs(1):
            for n, _ in enumerate(run.steps(Ahead(8, 2), every=2)):
                kept.seen = [*kept.seen, len(list(run.steps([1, 2, 3])))] if n % 2 else kept.seen
            kept.seen = [*kept.seen, len(list(run.steps(Ahead(8, 2), every=3)))]
        return kept.seen

    whole = Paper(place(tmp_path, "whole"))
    assert go(whole) == [3, 3, 4]
    states = [state_in(path) for path in whole.saved]
    assert [state.batch for state in states] == [2, 4, 7, 0]
    for state in states[:2]:
        assert go(Paper(tmp_path, states=[state])) == [3, 3, 4]
    assert go(Paper(tmp_path, states=[states[2]])) == [3, 3, 1], "a length is a local value, and lost"


def test_loaders_side_by_side_are_not_saved_and_that_is_said(tmp_path: Path) -> None:
    line = Paper(tmp_path)
    run = run_with(line)
    run.keep(total=0.0)
    for _ in run.epochs(1):
        pairs = list(zip(run.steps(Ahead(4, 2), every=1), run.steps(Ahead(4, 2), every=1), strict=True))
    assert len(pairs) == 2
    assert [state_in(path).batch for path in line.saved] == [0]
    assert set(line.told) == {
        "run.steps goes through several loaders at the same time, so nothing is saved there. Make one loader of them "
        "that has state_dict and load_state_dict."
    }


def saved_within(folder: Path) -> State:
    line = Paper(folder, dies_after=1)
    with pytest.raises(KilledError):
        go_through(line, [Ahead(8, 2)])
    return state_in(line.saved[0])


def go_through(line: Paper, loaders: list[Any]) -> None:
    run = run_with(line)
    run.keep(total=0.0)
    for _ in run.epochs(2):
        for loader in loaders:
            list(run.steps(loader, every=3))


@pytest.mark.parametrize(
    ("loaders", "problem"),
    [
        (
            [],
            "The saved state is from within epoch 0, from call 1 of run.steps, which was called 0 times in that epoch "
            "now. An attempt has to go through the same loaders as the one before it.",
        ),
        (
            [[1, 2]],
            "The saved state is from within epoch 0, and run.steps goes through [1, 2] (list) there now, which has no "
            "load_state_dict. An attempt has to go through the same loaders as the one before it.",
        ),
    ],
)
def test_who_goes_through_other_loaders_cannot_go_on(loaders: list[Any], problem: str, tmp_path: Path) -> None:
    line = Paper(tmp_path, states=[saved_within(tmp_path)])
    with pytest.raises(StateError) as refused:
        go_through(line, loaders)
    assert str(refused.value) == problem


@pytest.mark.parametrize("every", [0, -1, 1.5, "all"])
def test_how_many_batches_lie_between_two_states_is_checked_when_it_is_said(every: Any) -> None:
    with pytest.raises(ConfigError, match=r"^every="):
        Run(metrics=("loss",), params={}, seed=7).steps([1], every=every)
