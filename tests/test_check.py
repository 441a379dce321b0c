"""``experiment.check``: one batch through all three functions, and what it says about them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import etude
from etude.verbs.check import Piece, Setting

torch = pytest.importorskip("torch")


class Counted(torch.utils.data.Dataset):  # type: ignore[name-defined, misc]
    """Says how many of its examples were fetched."""

    fetched = 0

    def __len__(self) -> int:
        return 100

    def __getitem__(self, i: int) -> tuple[Any, int]:
        type(self).fetched += 1
        return torch.zeros(4), i % 2


def model(width: int = 8) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Linear(width, 2))


def data(batch_size: int = 16) -> etude.Data:
    def loader(**settings: Any) -> Any:
        return torch.utils.data.DataLoader(Counted(), batch_size=batch_size, **settings)

    return etude.Data(loader(shuffle=True), loader(), loader(), n_features=4)


def train(model: Any, data: Any, run: Any, *, lr: float, n_features: etude.Derived[int], epochs: int = 10) -> Any:
    net, (train_loader, valid_loader, _) = model(), data()
    for _ in run.epochs(epochs):
        for x, _ in train_loader:
            net(x)
        for x, _ in valid_loader:
            net(x)
        run.report(accuracy=0.25, loss=1.0)
    return {"accuracy": 0.5, "batches": len(train_loader)}


experiment = etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")


def test_one_batch_of_each_loader_goes_through_all_three_functions() -> None:
    Counted.fetched = 0
    found = experiment.check(lr=0.1, batch_size=10)
    assert Counted.fetched == 20
    assert found.data == (
        Piece("train", "DataLoader, 10 batches", "float32 (10, 4), int64 (10,)"),
        Piece("valid", "DataLoader, 10 batches", "float32 (10, 4), int64 (10,)"),
        Piece("test", "DataLoader, 10 batches, not read"),
    )
    assert found.model == (Piece("", "Sequential, 58 parameters"),)
    assert found.reported == {"accuracy": 1, "loss": 1}
    assert (found.value, found.problem) == (0.5, "")
    assert "'batches': 1" in found.returned
    assert set(found.seconds) == {"data", "model", "train"}
    assert all(seconds >= 0 for seconds in found.seconds.values())


def test_every_parameter_is_told_with_where_it_came_from() -> None:
    assert set(experiment.check(lr=0.1, batch_size=10).parameters) == {
        Setting("lr", "0.1 (float)", "given", "train()"),
        Setting("batch_size", "10 (int)", "given", "data()"),
        Setting("epochs", "10 (int)", "default", "train()"),
        Setting("width", "8 (int)", "default", "model()"),
        Setting("n_features", "4 (int)", "derived", "train()"),
    }


def test_what_is_printed_can_be_read() -> None:
    told = str(experiment.check(lr=0.1)).splitlines()
    assert told[-1].startswith("took ")
    assert [line.rstrip() for line in told[5:-1]] == [
        "data        train: DataLoader, 7 batches, the first: float32 (16, 4), int64 (16,)",
        "            valid: DataLoader, 7 batches, the first: float32 (16, 4), int64 (16,)",
        "            test: DataLoader, 7 batches, not read",
        "model       Sequential, 58 parameters",
        "reported    accuracy once, loss once",
        "returned    {'accuracy': 0.5, 'batches': 1} (dict): accuracy=0.5",
    ]


def test_the_same_seed_gives_the_same_batch_as_a_run() -> None:
    seen: list[list[float]] = []

    def look(data: Any, run: Any) -> float:
        for x, _ in data():
            seen.append(x.flatten().tolist())
            break
        return 0.0

    def numbers() -> Any:
        examples = [(torch.tensor([float(i)]), 0) for i in range(50)]
        return torch.utils.data.DataLoader(examples, batch_size=5, shuffle=True)

    both = etude.Experiment(look, data=numbers, metric="m", mode="max")
    both.check(seed=3)
    both.run(seed=3)
    assert seen[0] == seen[1]


def test_loader_workers_are_let_go() -> None:
    def spread() -> Any:
        return torch.utils.data.DataLoader(list(range(20)), batch_size=5, num_workers=1)

    def read(data: Any) -> float:
        return float(sum(len(batch) for batch in data()))

    assert etude.Experiment(read, data=spread, metric="m", mode="max").check().value == 5.0


def test_a_missing_metric_is_a_finding() -> None:
    def forgets() -> dict[str, float]:
        return {"loss": 1.0}

    found = etude.Experiment(forgets, metric="accuracy", mode="max").check()
    assert found.value is None
    assert found.problem.startswith(
        "The metric 'accuracy' never came: the training function returned a dict with 'loss'"
    )
    assert "returned    {'loss': 1.0} (dict): no accuracy\n" in str(found)
    assert "data        nobody asked for it\n" in str(found)


def test_what_cannot_be_part_of_the_identity_is_named() -> None:
    import threading

    lock = threading.Lock()

    def locked() -> float:
        with lock:
            return 1.0

    found = etude.Experiment(locked, metric="m", mode="max").check()
    (told,) = found.unseen
    assert told.startswith("closure value `lock` of function ")
    assert told.endswith(".locked (_thread.lock) is not part of the identity")
    assert str(found).endswith(f"\nunseen      {told}")


def test_arrays_and_objects_are_described_as_well() -> None:
    import numpy as np

    def arrays() -> Any:
        return {"x": np.zeros((3, 2)), "pair": (np.zeros(3, dtype=np.int64), [1, 2, 3] * 5)}

    def anything(data: Any) -> float:
        data()
        return 1.0

    found = etude.Experiment(anything, data=arrays, metric="m", mode="max").check()
    assert found.data == (
        Piece("x", "float64 (3, 2)"),
        Piece("pair[0]", "int64 (3,)"),
        Piece("pair[1]", "list, 15 items"),
    )


def test_data_that_raises_shows_its_own_traceback_first() -> None:
    def broken(path: str) -> Any:
        raise FileNotFoundError(path)

    def asks(data: Any) -> Any:
        return data()

    with pytest.raises(etude.ConfigError) as raised:
        etude.Experiment(asks, data=broken, metric="m", mode="max").check(path="x.csv")
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    assert str(raised.value) == (
        "data(path='x.csv' (str)) raised FileNotFoundError: x.csv. Its traceback stands above; every trial with "
        "these parameters would end there. Mend data(), or give it other parameters."
    )


def test_what_the_training_function_raises_passes_through() -> None:
    def breaks() -> None:
        raise ZeroDivisionError("here")

    with pytest.raises(ZeroDivisionError, match="here"):
        etude.Experiment(breaks, metric="m", mode="max").check()


def test_a_wrong_parameter_is_refused_before_anything_runs() -> None:
    with pytest.raises(etude.SignatureError, match="Did you mean 'lr'"):
        experiment.check(lrr=0.1)


def test_it_works_without_torch(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "import etude\n"
        "def train(data): return float(len(data()))\n"
        "def data(): return [1, 2, 3]\n"
        "print(etude.Experiment(train, data=data, metric='m', mode='max').check().value)\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "3.0\n"), done.stderr


def test_what_it_writes_into_the_folder_of_its_run_is_left_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    folders = []

    def train(run: Any) -> float:
        folders.append(run.folder)
        (run.folder / "weights.pt").write_text("")
        return 0.5

    etude.Experiment(train, metric="score", mode="max").check()
    assert len(folders) == 1
    assert not list(tmp_path.iterdir())
    assert not folders[0].exists()
