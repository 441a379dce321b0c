"""Trials that agree up to an epoch, in real studies: what they come to is what each comes to by itself, bit by bit."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import facts_of, run_script, running, start_script, wait_for, write_script

import etude
from etude.core.events import Checkpointed, Resumed, Shared

SCRIPT = """
    import hashlib, os, random, signal, sys, time
    from pathlib import Path
    import torch
    from torch import nn, optim
    from torch.utils.data import DataLoader, TensorDataset
    import etude

    PLACE = Path(__file__).parent
    NAME = sys.argv[1]

    def model():
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))

    def data():
        x = torch.linspace(-1, 1, 192).reshape(32, 6)
        return DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=8, shuffle=True)

    def train(model, data, run, lr, epochs):
        net, loader = model(), data()
        optimizer = optim.SGD(net.parameters(), lr=etude.value_at(lr, 0), momentum=0.9)
        run.keep(net=net, optimizer=optimizer)
        chaos = random.Random(os.getpid())
        for epoch in run.epochs(epochs):
            with (PLACE / f"epochs-{NAME}").open("a") as log:
                print([held for start, held in lr if start <= epoch], epoch, file=log)
            for group in optimizer.param_groups:
                group["lr"] = etude.value_at(lr, epoch)
            total = 0.0
            for x, y in loader:
                if os.environ.get("KILLS") and len(list(PLACE.glob("kill-*"))) < 6 and chaos.random() < 0.1:
                    (PLACE / f"kill-{os.getpid()}").touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                optimizer.zero_grad()
                loss = (net(x) - y).square().mean()
                loss.backward()
                optimizer.step()
                total += loss.item()
            while os.environ.get("HOLDS") and epoch == 3 and not (PLACE / "go").exists():
                time.sleep(0.01)
            run.report(loss=total)
        digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters()))
        return {"loss": total, "weights": digest.hexdigest()}

    experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")
    merged = etude.piecewise([0.1, 0.01], starts=(0, 2, 4))
    apart = etude.choice(list(merged.grid(2)))

    if __name__ == "__main__":
        space = {"lr": apart, "epochs": [5, 6]} if "apart" in NAME else {"lr": merged, "epochs": etude.upto([5, 6])}
        search = experiment.tune(
            space, workers=int(sys.argv[2]), retries=20, sampler="grid", stopper="none", name=NAME
        )
        for trial in sorted(search.trials, key=lambda trial: repr(trial.params)):
            print(trial.params, trial.value, trial.curve, trial.metrics)
        print(search.saved_epochs, file=sys.stderr)
"""

TREE = 2 * 2 + 4 * 2 + 8 * 2
"""Epochs of the tree: two for each of the beginnings of one, two and three stages."""

ALL = 8 * (5 + 6)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What all trials come to, each of which was trained by itself."""
    script = write_script(tmp_path_factory.mktemp("apart"), SCRIPT)
    done = run_script(script, "apart", "2")
    assert done.returncode == 0, done.stderr
    assert len(trained(script, "apart")) == ALL
    return done.stdout


def trained(script: Path, name: str) -> list[str]:
    return (script.parent / f"epochs-{name}").read_text().splitlines()


def left_of_states(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("trials/*/attempt-*/checkpoints/*") if ".weights." not in path.name]


@pytest.mark.parametrize("workers", ["1", "3"])
@pytest.mark.thorough
def test_no_epoch_is_trained_twice_and_all_comes_to_the_same(workers: str, apart: str, tmp_path: Path) -> None:
    script = write_script(tmp_path, SCRIPT)
    done = run_script(script, "merged", workers)
    assert done.returncode == 0, done.stderr
    assert done.stdout == apart
    assert max(Counter(trained(script, "merged")).values()) == 1
    assert len(trained(script, "merged")) == TREE
    search = etude.open(tmp_path / "studies" / "merged")
    assert search.saved_epochs == ALL - TREE
    assert f"Prefixes: {ALL - TREE} of {ALL} epochs were not trained twice." in search.summary()
    assert left_of_states(search.folder) == []


@pytest.mark.thorough
def test_trials_that_are_killed_come_to_the_same(apart: str, tmp_path: Path) -> None:
    script = write_script(tmp_path, SCRIPT)
    done = run_script(script, "killed", "3", KILLS="1")
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("kill-*"))) > 0
    assert done.stdout == apart
    assert left_of_states(tmp_path / "studies" / "killed") == []


@pytest.mark.thorough
def test_a_study_whose_driver_is_killed_goes_on_with_the_states_that_are_shared(apart: str, tmp_path: Path) -> None:
    script = write_script(tmp_path, SCRIPT)
    folder = tmp_path / "studies" / "taken-up"

    def has_come_so_far() -> bool:
        shared = {fact.epoch for fact in facts_of(folder, Shared)}
        return 2 in shared and any(fact.checkpoint.epoch == 3 for fact in facts_of(folder, Checkpointed))

    with running(start_script(script, "taken-up", "2", HOLDS="1")) as process:
        wait_for((folder / "trials").is_dir)
        wait_for(has_come_so_far)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    (tmp_path / "go").touch()
    done = run_script(script, "taken-up", "2", HOLDS="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == apart
    again = Counter(trained(script, "taken-up")) - Counter(set(trained(script, "taken-up")))
    held = {fact.trial for fact in facts_of(folder, Resumed) if fact.origin.source is None}
    assert held
    assert len(again) <= 2 * EPOCHS_AT_RISK
    assert left_of_states(folder) == []


EPOCHS_AT_RISK = 4
"""Who is held in its fourth epoch has these to train again, if nothing of it has reached the journal."""


# --- smaller things -------------------------------------------------------------------------------


def make_train(place: Path, *, horizon: bool = False, keeps: bool = True, kill_at: int | None = None) -> Any:
    """Return a training function whose epochs are counted."""

    def train(run, lr, epochs: int = 6):
        kept = run.keep(total=0.0, **({"horizon": epochs} if horizon else {})) if keeps else Plain()
        for epoch in run.epochs(epochs):
            with (place / "epochs").open("a") as log:
                print(run.trial, epoch, file=log)
            kept.total = kept.total / 2 + etude.value_at(lr, epoch) * random.random()
            run.report(score=kept.total)
            if epoch == kill_at and not (place / f"killed-{run.trial}").exists():
                (place / f"killed-{run.trial}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return kept.total

    return train


class Plain:
    total = 0.0


def tune(train: Any, space: dict[str, Any], **kwargs: Any) -> Any:
    experiment = etude.Experiment(train, metric="score", mode="max")
    return experiment.tune(space, **{"workers": 1, "sampler": "grid", "stopper": "none", **kwargs})


def epochs_of(place: Path) -> int:
    return len((place / "epochs").read_text().splitlines())


def test_where_what_is_kept_hangs_on_the_epochs_it_starts_over_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search = tune(make_train(tmp_path, horizon=True), {"lr": [0.5], "epochs": etude.upto([2, 4, 6])})
    assert sorted(len(trial.curve) for trial in search.trials) == [2, 4, 6]
    assert {fact.origin.key for fact in facts_of(search.folder, Resumed)} == {None}
    assert epochs_of(tmp_path) == 2 + 4 + 6
    assert search.saved_epochs == 0
    said = capsys.readouterr().err
    assert "could not use what trial" in said
    assert "what is kept began otherwise there" in said


def test_a_plain_list_of_epochs_shares_nothing(tmp_path: Path) -> None:
    tune(make_train(tmp_path), {"lr": [0.5], "epochs": [2, 4, 6]})
    assert epochs_of(tmp_path) == 2 + 4 + 6


def test_a_function_that_keeps_nothing_is_trained_from_the_start_every_time(tmp_path: Path) -> None:
    search = tune(make_train(tmp_path, keeps=False), {"lr": etude.piecewise([0.1, 0.2], starts=(0, 3))}, workers=2)
    assert search.counts() == {"finished": 4}
    assert epochs_of(tmp_path) == 4 * 6


@pytest.mark.parametrize("sampler", ["random", "qmc", "tpe"])
def test_samplers_propose_stages_and_trials_share_what_comes_twice(sampler: str, tmp_path: Path) -> None:
    space = {"lr": etude.piecewise([0.1, 0.2], starts=(0, 3)), "epochs": etude.upto([4, 6])}
    search = tune(make_train(tmp_path), space, sampler=sampler, trials=8)
    assert all(trial.params["lr"] in space["lr"].grid(2) for trial in search.trials)
    first = {trial.params["lr"][0] for trial in search.trials if trial.same_as is None}
    ran = [line.split() for line in (tmp_path / "epochs").read_text().splitlines()]
    assert sum(epoch == "0" for _, epoch in ran) == len(first)
    for trial in search.trials:
        if trial.same_as is None:
            assert len(trial.curve) == trial.params["epochs"]
    assert left_of_states(search.folder) == []
