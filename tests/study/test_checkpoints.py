"""Trials that keep their state: killed and lost, they go on from their last epoch, and nothing else is left behind."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import run_script, running, start_script, wait_for, write_script

import etude
from etude.core.events import Checkpointed, Resumed
from etude.store.journal import Journal

EPOCHS = 4


def facts(search: Any, kind: type[Any]) -> list[Any]:
    journal = Journal.read(search.folder)
    try:
        return [fact for fact in journal.facts() if isinstance(fact, kind)]
    finally:
        journal.close()


def tune(train: Any, **kwargs: Any) -> Any:
    experiment = etude.Experiment(train, metric="score", mode="max")
    given = {"trials": 2, "workers": 1, "sampler": "random", "stopper": "none", **kwargs}
    return experiment.tune({"lr": etude.uniform(0, 1)}, **given)


def files(search: Any) -> set[str]:
    found = search.folder.glob("trials/*/attempt-*/checkpoints/*")
    return {str(path.relative_to(search.folder / "trials")) for path in found}


def make_train(place: Path, *, kill_at: int | None) -> Any:
    """Return a training function that counts its epochs, and is killed once at the end of one."""

    def train(run, lr: float):
        import random

        kept = run.keep(total=0.0, history=[])
        for epoch in run.epochs(EPOCHS):
            with (place / f"epochs-{run.trial}").open("a") as log:
                print(epoch, file=log)
            kept.total += lr * random.random()
            kept.history = [*kept.history, epoch]
            run.report(score=kept.total)
            if epoch == kill_at and not (place / f"killed-{run.trial}").exists():
                (place / f"killed-{run.trial}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return {"score": kept.total, "epochs": len(kept.history)}

    return train


@pytest.mark.parametrize("kill_at", range(EPOCHS))
def test_a_trial_that_is_killed_comes_to_the_same_end_as_one_that_is_not(kill_at: int, tmp_path: Path) -> None:
    (tmp_path / "quiet").mkdir()
    (tmp_path / "killed").mkdir()
    quiet = tune(make_train(tmp_path / "quiet", kill_at=None), name="quiet")
    assert quiet.counts() == {"finished": 2}, quiet.summary()
    search = tune(make_train(tmp_path / "killed", kill_at=kill_at), name="killed")
    assert search.counts() == {"finished": 2}
    for one, other in zip(quiet.trials, search.trials, strict=True):
        assert (one.value, one.metrics, one.curve) == (other.value, other.metrics, other.curve)
        assert (one.attempts, other.attempts) == (1, 2)
    resumed = facts(search, Resumed)
    ran = (tmp_path / "killed" / "epochs-0").read_text().split()
    began = [fact.origin.key[2] if fact.origin.key else 0 for fact in resumed if fact.trial == 0]
    assert ran == [*map(str, range(kill_at + 1)), *map(str, range(*(began or [0]), EPOCHS))]


def test_what_has_ended_keeps_the_weights_of_the_best_and_nothing_else(tmp_path: Path) -> None:
    search = tune(make_train(tmp_path, kill_at=1), trials=6, workers=2)
    kept = files(search)
    assert len({name.split("/")[0] for name in kept}) == 3
    assert all(name.endswith(".weights.safetensors") for name in kept)
    saved = facts(search, Checkpointed)
    assert len(saved) >= 6


SCRIPT = """
    import os, random, signal, sys
    from pathlib import Path
    import numpy as np
    import torch
    from torch import nn, optim
    from torch.utils.data import DataLoader, Dataset
    import etude

    PLACE = Path(__file__).parent

    class Noisy(Dataset):
        def __len__(self):
            return 48

        def __getitem__(self, index):
            x = torch.linspace(-1, 1, 48 * 64).reshape(48, 1, 8, 8)[index]
            x = x.flip(-1) if torch.rand(()) < 0.5 else x
            return x.roll(int(np.random.randint(0, 3)), -1) * random.uniform(0.9, 1.1), index % 3

    def model():
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(144, 3))

    def data():
        return DataLoader(Noisy(), batch_size=8, shuffle=True)

    def train(model, data, run, lr: float, epochs: int = 5):
        net, loader = model(), data()
        optimizer = optim.SGD(net.parameters(), lr=lr, momentum=0.9)
        scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
        run.keep(net=net, optimizer=optimizer, scheduler=scheduler)
        chaos = random.Random(os.getpid())
        for epoch in run.epochs(epochs):
            total = 0.0
            for x, y in loader:
                if os.environ.get("KILLS") and len(list(PLACE.glob("kill-*"))) < 8 and chaos.random() < 0.1:
                    (PLACE / f"kill-{os.getpid()}").touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
            scheduler.step()
            run.report(loss=total)
        return {"loss": total, "weights": [float(p.double().sum()) for p in net.parameters()]}

    experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")

    if __name__ == "__main__":
        search = experiment.tune(
            {"lr": etude.loguniform(1e-3, 1e-1)}, trials=3, workers=2, retries=20, sampler="random", stopper="none",
            name=sys.argv[1],
        )
        for trial in search.trials:
            print(trial.number, trial.value, trial.curve, trial.metrics)
"""


@pytest.mark.thorough
def test_a_network_that_is_killed_at_random_steps_is_trained_bit_by_bit_as_one_that_is_not(tmp_path: Path) -> None:
    script = write_script(tmp_path, SCRIPT)
    quiet = run_script(script, "quiet")
    chaotic = run_script(script, "chaotic", KILLS="1")
    assert (quiet.returncode, chaotic.returncode) == (0, 0), quiet.stderr + chaotic.stderr
    assert len(list(tmp_path.glob("kill-*"))) > 0
    assert chaotic.stdout == quiet.stdout


STEPS = """
    import os, random, signal, sys
    from pathlib import Path
    import etude
    from etude.core.events import Checkpointed
    from etude.store.journal import Journal

    PLACE = Path(__file__).parent

    class Loader:
        def __init__(self, n):
            self.n, self.order = n, []

        def __iter__(self):
            self.order = self.order or random.sample(range(self.n), self.n)
            while self.order:
                yield self.order.pop()

        def __len__(self):
            return self.n

        def state_dict(self):
            return {"order": list(self.order)}

        def load_state_dict(self, state):
            self.order = list(state["order"])

    def kills(run):  # once the journal has a state that this attempt saved
        while not any(
            isinstance(fact, Checkpointed) and fact.trial == run.trial and fact.checkpoint.name("rest") == name
            for name in [f"{path.parents[1].name}/checkpoints/{path.name}" for path in run.folder.rglob("*.rest.*")]
            for fact in Journal.read(run.folder.parents[2]).facts()
        ):
            pass
        (PLACE / f"kill-{os.getpid()}").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    def train(run, lr: float, epochs: int = 3):
        kept = run.keep(total=0.0, batches=0)
        chaos = random.Random(os.getpid())
        done = 0
        for epoch in run.epochs(epochs):
            kept.total = 0.0
            for x in run.steps(Loader(60), every=7):
                kept.total += lr * x * random.random()
                kept.batches += 1
                done += 1
                if kept.batches % 25 == 0:
                    run.report(loss=kept.total)
                may = os.environ.get("KILLS") and done > 7 and len(list(PLACE.glob("kill-*"))) < 6
                if may and chaos.random() < 0.1:
                    kills(run)
            run.report(loss=kept.total)
        return {"loss": kept.total, "batches": kept.batches, "next": random.random()}

    if __name__ == "__main__":
        search = etude.Experiment(train, metric="loss", mode="min").tune(
            {"lr": etude.uniform(0, 1)}, trials=3, workers=2, retries=20, sampler="random", stopper="none",
            name=sys.argv[1],
        )
        for trial in search.trials:
            print(trial.number, trial.value, trial.curve, trial.metrics, trial.attempts == 1)
"""


def test_one_that_is_killed_between_two_batches_goes_on_within_its_epoch(tmp_path: Path) -> None:
    script = write_script(tmp_path, STEPS)
    quiet = run_script(script, "quiet")
    chaotic = run_script(script, "chaotic", KILLS="1")
    assert (quiet.returncode, chaotic.returncode) == (0, 0), quiet.stderr + chaotic.stderr
    killed = len(list(tmp_path.glob("kill-*")))
    assert killed > 0
    rows = [[line.rpartition(" ")[0] for line in run.stdout.splitlines()] for run in (quiet, chaotic)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 3
    folder = tmp_path / "studies" / "chaotic"
    saved = [fact.checkpoint for fact in facts(etude.open(folder), Checkpointed)]
    assert {point.batch % 7 for point in saved} == {0}
    assert any(point.batch for point in saved)
    went_on = [fact.origin.key for fact in facts(etude.open(folder), Resumed) if fact.origin.key]
    assert went_on
    kept = {path.name for path in folder.glob("trials/*/attempt-*/checkpoints/*")}
    assert kept
    assert not [name for name in kept if name.count("-") > 1], "weights that are kept are those after epochs"


def test_a_loader_without_a_state_is_told_of_once_in_a_study(capsys: pytest.CaptureFixture[str]) -> None:
    def train(run, lr: float):
        kept = run.keep(total=0.0)
        for _ in run.epochs(2):
            for x in run.steps([1, 2, 3]):
                kept.total += lr * x
            run.report(score=kept.total)
        return kept.total

    search = tune(train, trials=3)
    assert search.counts() == {"finished": 3}
    assert capsys.readouterr().err.count("run.steps goes through a list without state_dict and load_state_dict") == 1


def test_what_cannot_be_saved_fails_the_trial_with_what_to_do() -> None:
    def train(run, lr: float):
        run.keep(schedule=lambda epoch: lr)
        return lr

    search = tune(train)
    assert search.counts() == {"failed": 2}
    assert search.trials[0].reason.startswith("StateError: kept.schedule is <function ")
    assert "or give its class state_dict() and load_state_dict()." in search.trials[0].reason


INTERRUPTED = """
    import os, time
    from pathlib import Path
    import etude

    def train(run, lr: float):
        kept = run.keep(total=0.0)
        for epoch in run.epochs(6):
            with open("epochs", "a") as log:
                print(run.trial, epoch, file=log)
            kept.total += lr
            run.report(score=kept.total)
            while epoch == 3 and not os.path.exists("go"):
                time.sleep(0.01)
        return kept.total

    if __name__ == "__main__":
        search = etude.Experiment(train, metric="score", mode="max").tune(
            {"lr": etude.uniform(0, 1)}, trials=2, workers=2, sampler="random", stopper="none", name="interrupted",
        )
        print([(trial.number, trial.curve) for trial in search.trials])
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_study_that_is_interrupted_goes_on_within_its_trials(how: signal.Signals, tmp_path: Path) -> None:
    script = write_script(tmp_path, INTERRUPTED)
    states = tmp_path / "studies" / "interrupted" / "trials"
    with running(start_script(script)) as process:
        wait_for(states.is_dir)
        wait_for(lambda: saved_at(states.parent, 3) == {0, 1})
        process.send_signal(how)
        process.wait(30)
        assert process.stderr is not None
        said = process.stderr.read()
    assert "Error" not in said.replace("KeyboardInterrupt", "")
    (tmp_path / "go").touch()
    done = run_script(script)
    assert done.returncode == 0, done.stderr
    trained = sorted((tmp_path / "epochs").read_text().splitlines())
    assert trained == sorted([f"{trial} {epoch}" for trial in range(2) for epoch in (0, 1, 2, 3, 3, 4, 5)])
    search = etude.open(states.parent)
    assert [len(trial.curve) for trial in search.trials] == [6, 6]
    assert {fact.origin.key[2] for fact in facts(search, Resumed)} == {3}
    assert not [name for name in files(search) if ".rest." in name]


def saved_at(folder: Path, epoch: int) -> set[int]:
    """Return the trials that have a checkpoint after an epoch."""
    found = facts(etude.open(folder), Checkpointed)
    return {fact.trial for fact in found if fact.checkpoint.epoch == epoch}


def make_budgeted(place: Path, *, kill: bool = False, scheduled: bool = False) -> Any:
    """Return a training function whose epochs are counted, for each configuration."""

    def train(run, lr: float, epochs: int):
        import random

        kept = run.keep(total=0.0, **({"horizon": epochs} if scheduled else {}))
        for epoch in run.epochs(epochs):
            with (place / f"{lr}").open("a") as log:
                print(epoch, file=log)
            if kill and epoch == 2 and not (place / f"killed-{lr}").exists():
                (place / f"killed-{lr}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            kept.total += lr * random.random()
            run.report(score=kept.total)
        return kept.total

    return train


def halve(train: Any, **kwargs: Any) -> Any:
    experiment = etude.Experiment(train, metric="score", mode="max")
    given = {"trials": 18, "workers": 2, "sampler": "random", "stopper": "asha", "eta": 3, **kwargs}
    return experiment.tune({"lr": etude.uniform(0, 1)}, fidelity="epochs", budget=(1, 9), **given)


def trained(place: Path) -> dict[float, list[int]]:
    """Return which epochs each configuration was trained for."""
    return {float(path.name): list(map(int, path.read_text().split())) for path in place.glob("0.*")}


@pytest.mark.parametrize("stopper", ["asha", "hyperband"])
def test_a_promoted_trial_goes_on_from_the_one_before_and_no_epoch_is_trained_twice(
    stopper: str, tmp_path: Path
) -> None:
    search = halve(make_budgeted(tmp_path), stopper=stopper)
    promoted = [trial for trial in search.trials if trial.promotes is not None]
    assert promoted
    most: dict[float, int] = {}
    for trial in search.trials:
        most[trial.params["lr"]] = max(most.get(trial.params["lr"], 0), trial.params["epochs"])
    told = [(t.number, t.state, t.reason, t.params, t.promotes, t.attempts, len(t.curve)) for t in search.trials]
    assert not [one for one in told if one[1] != "finished"]
    assert trained(tmp_path) == {lr: list(range(n)) for lr, n in most.items()}, told
    for trial in promoted:
        before = search.trials[trial.promotes]
        assert trial.curve[: len(before.curve)] == before.curve
        assert len(trial.curve) == trial.params["epochs"]
        assert trial.value == trial.curve[-1]
    assert not [name for name in files(search) if ".rest." in name]


def test_it_comes_to_the_same_as_one_that_starts_anew(tmp_path: Path) -> None:
    (tmp_path / "on").mkdir()
    (tmp_path / "anew").mkdir()
    on = halve(make_budgeted(tmp_path / "on"), workers=1, name="on")
    anew = halve(make_budgeted(tmp_path / "anew"), workers=1, name="anew", stopper=etude.ASHA(promote="anew"))
    assert [(t.params, t.value, t.curve) for t in on.trials] == [(t.params, t.value, t.curve) for t in anew.trials]
    assert sum(map(len, trained(tmp_path / "on").values())) < sum(map(len, trained(tmp_path / "anew").values()))
    assert [fact.origin.source for fact in facts(on, Resumed)] == [
        t.promotes for t in on.trials if t.promotes is not None
    ]
    assert facts(anew, Resumed) == []


def test_one_that_is_killed_goes_on_from_its_own_state_or_from_the_one_before(tmp_path: Path) -> None:
    search = halve(make_budgeted(tmp_path, kill=True))
    assert search.counts() == {"finished": 18}
    killed = [path.name.removeprefix("killed-") for path in tmp_path.glob("killed-*")]
    assert killed
    for lr, epochs in trained(tmp_path).items():
        assert set(epochs) == set(range(max(epochs) + 1))
        again = Counter(epochs) - Counter(set(epochs))
        assert again[2] == (str(lr) in killed)
        assert set(again) <= {1, 2}, "what it had from the trial before is not trained again"


def test_where_what_is_kept_hangs_on_the_budget_it_starts_anew_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search = halve(make_budgeted(tmp_path, scheduled=True), workers=1)
    for trial in search.trials:
        assert len(trial.curve) == trial.params["epochs"]
    resumed = facts(search, Resumed)
    assert {fact.origin.key for fact in resumed} == {None}
    assert len(resumed) == sum(trial.promotes is not None for trial in search.trials)
    assert "could not use what trial" in capsys.readouterr().err


def test_where_there_is_nothing_to_carry_on_it_starts_anew_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The budget is a share of the data, and all trials have as many epochs."""

    def train(run, lr: float, share: int):
        kept = run.keep(total=0.0)
        for _ in run.epochs(2):
            kept.total += lr * share
            run.report(score=kept.total)
        return kept.total

    experiment = etude.Experiment(train, metric="score", mode="max")
    search = experiment.tune(
        {"lr": etude.uniform(0, 1)}, fidelity="share", budget=(1, 9), trials=12, workers=1, stopper="asha"
    )
    assert any(trial.promotes is not None for trial in search.trials)
    for trial in search.trials:
        assert trial.value == pytest.approx(2 * trial.params["lr"] * trial.params["share"])
        assert len(trial.curve) == 2
    assert "could not use" not in capsys.readouterr().err
