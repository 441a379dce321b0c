"""Trials that keep their state: killed and lost, they go on from their last epoch, and nothing else is left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

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
    began = [fact.key[2] if fact.key else 0 for fact in resumed if fact.trial == 0]
    assert ran == [*map(str, range(kill_at + 1)), *map(str, range(*(began or [0]), EPOCHS))]


def test_what_has_ended_keeps_the_weights_of_the_best_and_nothing_else(tmp_path: Path) -> None:
    search = tune(make_train(tmp_path, kill_at=1), trials=6, workers=2)
    kept = files(search)
    assert len({name.split("/")[0] for name in kept}) == 3
    assert all(name.endswith(".weights.safetensors") for name in kept)
    saved = facts(search, Checkpointed)
    assert len(saved) >= 6
