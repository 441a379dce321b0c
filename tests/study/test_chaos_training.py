"""Networks that are trained under kills, stops and full disks come out as they do undisturbed, bit by bit."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from support import run_script, write_script

import etude
from etude.core.events import BEST, LAST, Checkpointed, Fact, Reported, Resumed
from etude.core.history import History
from etude.core.metrics import Metrics
from etude.frameworks import state_file
from etude.frameworks.trees import digest_of
from etude.store.journal import Journal
from etude.testing import chaos

pytest.importorskip("torch")  # and loaded: with it arrays are read as tensors, which is what was written

SCRIPT = """
    import errno, os, sys
    import torch
    from torch import nn, optim
    import etude
    from etude.frameworks import state_file
    from etude.frameworks.trees import digest_of

    EPOCHS = 5
    write = state_file.write

    def write_or_find_the_disk_full(*given, **options):
        if os.environ.get("FULL") and os.urandom(1)[0] < 40:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(*given, **options)

    state_file.write = write_or_find_the_disk_full

    class Loader:
        def __init__(self):
            self.x = torch.linspace(-1, 1, 320 * 64).reshape(320, 1, 8, 8)
            self.order = []

        def __iter__(self):
            self.order = self.order or torch.randperm(320).split(8)
            while self.order:
                chosen, *self.order = self.order
                yield self.x[chosen] + 0.1 * torch.randn(8, 1, 8, 8), chosen % 3

        def __len__(self):
            return 40

        def state_dict(self):
            return {"order": list(self.order)}

        def load_state_dict(self, state):
            self.order = state["order"]

    def model():
        return nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(288, 3)
        )

    def train(model, run, lr: float):
        net, loader = model(), Loader()
        optimizer = optim.SGD(net.parameters(), lr=lr, momentum=0.9)
        scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
        kept = run.keep(net=net, optimizer=optimizer, scheduler=scheduler, total=0.0, batches=0)
        for epoch in run.epochs(EPOCHS):
            kept.total = 0.0
            for x, y in run.steps(loader, every=15):
                loss = nn.functional.cross_entropy(net(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                kept.total += loss.item()
                kept.batches += 1
            scheduler.step()
            digest = float(int(digest_of({"net": net.state_dict()})[:12], 16))
            run.report(loss=kept.total, digest=digest)
        return {"loss": kept.total, "batches": kept.batches}

    experiment = etude.Experiment(train, model=model, metric="loss", mode="min")

    if __name__ == "__main__":
        experiment.tune(
            {"lr": etude.loguniform(1e-3, 1e-1)},
            trials=int(sys.argv[1]), workers=2, sampler="random", stopper="none", name="study",
        )
"""
EPOCHS = 5
TRIALS = 4
FAULTS = 12


def table(folder: Path) -> list[object]:
    """Return the study's table, without what depends on time and place."""
    return [(t.number, t.params, t.value, sorted(t.metrics.items()), list(t.curve)) for t in etude.open(folder).trials]


@pytest.mark.thorough
def test_networks_trained_under_faults_are_those_of_an_undisturbed_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = write_script(tmp_path, SCRIPT)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("FULL", "1")
    report = chaos(script, str(TRIALS), studies=tmp_path / "disturbed", faults=FAULTS, every=5, seed=1)
    monkeypatch.delenv("FULL")
    print(f"\n{report}")
    assert report.returncode == 0, report.errors
    assert (report.finished, report.unfinished) == (TRIALS, 0)
    assert sum(n for kind, n in report.faults.items() if kind.startswith("kill")) > 0
    assert (report.broken, report.left) == ([], [])

    plain = run_script(script, str(TRIALS))
    assert plain.returncode == 0, plain.stderr
    rows = table(report.folder)
    assert rows == table(tmp_path / "studies" / "study")
    search = etude.open(report.folder)
    assert [len(t.curve) for t in search.trials] == [EPOCHS] * TRIALS
    assert [t.metrics["batches"] for t in search.trials] == [40 * EPOCHS] * TRIALS, (
        "no batch was lost, and none done twice"
    )

    with contextlib.closing(Journal.read(report.folder)) as journal:
        facts = list(journal.facts())
    history = History(Metrics({"loss": "min"}))
    for fact in facts:
        history.apply(fact)
    saved = [fact.checkpoint for fact in facts if isinstance(fact, Checkpointed)]
    assert {point.batch for point in saved} <= {0, 15, 30}
    assert any(point.batch for point in saved)
    check_where_attempts_began(facts)
    digests = {(f.trial, f.step): f.metrics["digest"] for f in facts if isinstance(f, Reported)}
    check_what_is_left(report.folder, history, digests)


def check_where_attempts_began(facts: Sequence[Fact]) -> None:
    """Check that no attempt began anew where the journal had a state of its trial already."""
    saved_by: dict[int, int] = {}
    went_on = {(fact.trial, fact.attempt) for fact in facts if isinstance(fact, Resumed) and fact.origin.key}
    for fact in facts:
        if isinstance(fact, Reported) and saved_by.get(fact.trial, fact.attempt) != fact.attempt:
            assert (fact.trial, fact.attempt) in went_on
        if isinstance(fact, Checkpointed):
            saved_by.setdefault(fact.trial, fact.checkpoint.attempt)


def check_what_is_left(folder: Path, history: History, digests: Mapping[tuple[int, int], float]) -> None:
    """Check that what lies there is what the shelf has, within its bound, and that weights are those of their epoch."""
    trials = folder / "trials"
    files = set(trials.glob("*/attempt-*/checkpoints/*"))
    assert {path.relative_to(trials) for path in files} == {
        Path(f"{trial:05d}", name) for trial, name in history.shelf.files
    }
    assert 0 < len(files) <= 2 * history.shelf.keep.trials
    compared = 0
    for trial in history.trials:
        kept = history.shelf.weights(trial.number)
        assert kept.keys() <= {LAST, BEST}
        for point in kept.values():
            weights = state_file.read(trials / f"{trial.number:05d}" / point.name("weights"), point.digests[0])
            found = float(int(digest_of({"net": weights["net"]})[:12], 16))
            assert point.whole
            assert found == digests[trial.number, point.step]
            compared += 1
    assert compared > 0
