"""What a training function keeps: taken up again, a run goes on bit by bit as if nothing had happened."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from paper import KilledError, Paper, state_in
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

from etude.core.data import Data
from etude.core.signature import Signature
from etude.worker.bind import Bound
from etude.worker.run import Run, State

EPOCHS = 4


class Noisy(Dataset[Any]):
    """Images that are flipped and shifted at random, as augmentation does: with torch, numpy and Python's generator."""

    def __init__(self, n: int) -> None:
        self.x = torch.linspace(-1, 1, n * 64).reshape(n, 1, 8, 8)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        x = self.x[index]
        x = x.flip(-1) if torch.rand(()) < 0.5 else x
        x = x.roll(int(np.random.randint(0, 3)), -1) * random.uniform(0.9, 1.1)
        return x, index % 3


def model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(144, 3)
    )


def data(workers: int = 0) -> Data:
    train_loader = DataLoader(Noisy(48), batch_size=8, shuffle=True, num_workers=workers)
    return Data(train_loader, DataLoader(Noisy(24), batch_size=24))


def train(model: Any, data: Any, run: Run, epochs: int = EPOCHS) -> dict[str, float]:
    net, (train_loader, valid_loader) = model(), data()
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    noise = run.generator("noise")
    kept = run.keep(net=net, optimizer=optimizer, scheduler=scheduler, best=float("inf"), seen=[])
    for epoch in run.epochs(epochs):
        net.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x + float(noise.normal(0, 0.01))), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
        net.eval()
        with torch.no_grad():
            value = float(sum(nn.functional.cross_entropy(net(x), y) for x, y in valid_loader))
        kept.best = min(kept.best, value)
        kept.seen = [*kept.seen, epoch]
        run.report(loss=value, lr=optimizer.param_groups[0]["lr"])
    torch.save(net.state_dict(), run.folder / "weights.pt")
    return {"loss": kept.best, "seen": len(kept.seen), "drawn": float(noise.normal())}


def played(line: Paper, **params: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """Run the training function as a worker does; return what came of it, and the last weights."""
    functions = {"train": train, "model": model, "data": data}
    signature = Signature.read(functions)
    run = Run(metrics=("loss",), params=params, seed=7, trial=0, folder=lambda: line.folder, line=line)
    found = Bound(functions, signature, {**signature.defaults(), **params}, run).train()
    return found, torch.load(line.folder / "weights.pt")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Paper, Any, dict[str, torch.Tensor]]:
    line = Paper(tmp_path_factory.mktemp("undisturbed"))
    found, weights = played(line)
    return line, found, weights


@pytest.fixture(autouse=True)
def _generators() -> None:
    """Leave the global generators elsewhere than a run would."""
    torch.manual_seed(99)
    np.random.seed(99)
    random.seed(99)


@pytest.mark.parametrize("after", range(1, EPOCHS + 1))
def test_a_run_that_was_killed_goes_on_as_if_nothing_had_happened(
    after: int, undisturbed: tuple[Paper, Any, dict[str, torch.Tensor]], tmp_path: Path
) -> None:
    whole, expected, weights = undisturbed
    killed = Paper(tmp_path, dies_after=after)
    with pytest.raises(KilledError):
        played(killed)
    states = [state_in(path) for path in reversed(killed.saved[-2:])]
    second = Paper(tmp_path / "second", states=states)
    second.folder.mkdir()
    found, theirs = played(second)
    assert found == expected
    done = min(after, EPOCHS - 1)  # one that had done all does the last epoch again, for what comes after the loop
    assert killed.reports[:done] + second.reports == whole.reports
    assert weights.keys() == theirs.keys()
    assert all(torch.equal(weights[name], theirs[name]) for name in weights)


@pytest.mark.parametrize(("before", "after"), [(2, 0), (0, 2)])
def test_a_run_that_goes_on_with_other_loader_workers_is_the_same_too(
    before: int, after: int, undisturbed: tuple[Paper, Any, dict[str, torch.Tensor]], tmp_path: Path
) -> None:
    _, expected, weights = undisturbed
    killed = Paper(tmp_path, dies_after=2)
    with pytest.raises(KilledError):
        played(killed, workers=before)
    second = Paper(tmp_path / "second", states=[state_in(killed.saved[-1])])
    second.folder.mkdir()
    found, theirs = played(second, workers=after)
    assert found == expected
    assert all(torch.equal(weights[name], theirs[name]) for name in weights)


def test_killed_again_and_again_it_still_does(
    undisturbed: tuple[Paper, Any, dict[str, torch.Tensor]], tmp_path: Path
) -> None:
    whole, expected, weights = undisturbed
    states: list[State] = []
    reports = []
    for attempt in range(EPOCHS - 1):
        line = Paper(tmp_path / str(attempt), dies_after=1, states=states[-1:])
        line.folder.mkdir()
        with pytest.raises(KilledError):
            played(line)
        states.append(state_in(line.saved[0]))
        reports += line.reports
    last = Paper(tmp_path, states=states[-1:])
    found, theirs = played(last)
    assert (found, reports + last.reports) == (expected, whole.reports)
    assert all(torch.equal(weights[name], theirs[name]) for name in weights)


CHAIN = """
import sys
{imports}
from pathlib import Path
from etude.frameworks import state_file
from etude.frameworks.trees import take_apart
from etude.worker.kept import Keeper

keeper = Keeper()
keeper.keep({{}})
{before}
state_file.write(Path(sys.argv[2]), *take_apart(keeper.rest(), path=""))
{after}
"""
GOES_ON = "keeper.bring_back({}, state_file.read(Path(sys.argv[1])))"


def test_what_torch_would_draw_comes_through_a_process_that_has_not_loaded_torch(tmp_path: Path) -> None:
    """Workers of one study may differ in what they have loaded, and a trial goes on in any of them."""

    def run(nth: int, imports: str, before: str, after: str) -> str:
        script = CHAIN.format(imports=imports, before=before, after=after)
        command = [sys.executable, "-c", script, f"{tmp_path}/{nth - 1}", f"{tmp_path}/{nth}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    draw = "print(torch.rand(3).tolist())"
    first = run(1, "import torch", "torch.manual_seed(3)", draw)
    assert run(2, "", GOES_ON, "print('torch' in sys.modules)") == "False\n"
    assert run(3, "import torch", GOES_ON, draw) == first
