"""Trials that several ranks train: the function is unedited, and what comes of it is what one rank finds."""

from __future__ import annotations

import dataclasses
import importlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from support import facts_of, wait_for
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Sampler, TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

import etude
from etude.core.errors import ConfigError, DefinitionChangedError
from etude.core.events import How, Joined, Resumed, Settled
from etude.launching.launch import OF_SHARDED_RANKS
from etude.worker import processes
from etude.worker.run import Stop

BOUND_S = 60.0
"""A test that waits longer for something has failed."""


def model(width: int = 16) -> nn.Module:
    return nn.Sequential(nn.Linear(8, width), nn.Tanh(), nn.Linear(width, 2)).double()


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(72, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x, (x.sum(1) > 0).long()


def data(batch_size: int = 16) -> tuple[Any, Any]:
    x, y = rows()
    return StatefulDataLoader(TensorDataset(x, y), batch_size=batch_size, shuffle=True), DataLoader(
        TensorDataset(x, y), 9
    )


def evaluate(net: nn.Module, loader: Any) -> float:
    with torch.no_grad():
        losses = [F.cross_entropy(net(x), y, reduction="sum").item() for x, y in loader]
    return sum(losses) / len(loader.dataset)


def train(model, data, run, lr: float = 0.1, epochs: int = 4, drawn: float = 0.0, trouble: str = "", at: int = 2):
    net, (loader, valid) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    kept = run.keep(net=net, optimizer=optimizer, seen=0)
    run.log(f"rank {run.rank} of {run.ranks} is process {os.getpid()}")
    for epoch in run.epochs(epochs):
        for nth, (x, y) in enumerate(run.steps(loader, every=2)):
            optimizer.zero_grad()
            noise = drawn * torch.randn(len(x), 2, dtype=torch.float64)
            F.cross_entropy(net(x) + noise, y).backward()
            optimizer.step()
            kept.seen += len(x)
            if (epoch, nth, run.rank) == (at, 3, 1):
                get_into(trouble, net, Path(run.folder))
        run.report(loss=evaluate(net, valid), rank=run.rank, once=run.rank, all=1.0)
    run.log(f"saw {kept.seen}")


def get_into(trouble: str, net: nn.Module, folder: Path) -> None:
    """Do what goes wrong on rank 1, the first time."""
    if trouble == "raises":
        raise ValueError("rank one gives up")
    if trouble == "drifts":
        net[0].weight.data[0, 0] += 0.5  # type: ignore[union-attr, operator]
    happened = folder.parents[1] / f"{trouble}-happened"
    if happened.exists():
        return
    if trouble in ("killed", "stands still"):
        happened.touch()
        wait_for_a_state(folder.parent / "checkpoints")
        os.kill(os.getpid(), signal.SIGKILL if trouble == "killed" else signal.SIGSTOP)
    if trouble == "waits":
        wait_for_a_state(folder.parent / "checkpoints")
        happened.touch()
        signal.pause()


def wait_for_a_state(folder: Path) -> None:
    """Wait until the journal has a state: one is written when it has the one before."""
    seen: set[str] = set()
    until = time.monotonic() + BOUND_S
    while len(seen) < 2 and time.monotonic() < until:
        seen.update(path.name for path in folder.glob("*.weights.safetensors"))


def made() -> etude.Experiment:
    return etude.Experiment(train, model=model, data=data, metric="loss", mode="min")


REDUCED = etude.DDP(reduce={"once": "rank 0", "all": "sum"})


@pytest.fixture
def experiment() -> etude.Experiment:
    return made()


@pytest.fixture(scope="module")
def undisturbed() -> etude.Fit:
    """A trial in which nothing is lost, for those in which something is."""
    return made().fit(at={"drawn": 0.1}, ranks=2)


def log_of(study: etude.Search, *, rank: int = 0, trial: int = 0, attempt: int = 1) -> str:
    folder = study.folder / "trials" / f"{trial:05d}" / f"attempt-{attempt}"
    return (folder / (f"rank-{rank}" if rank else "") / "log.txt").read_text()


@pytest.mark.thorough
def test_more_ranks_come_to_the_same_result(experiment: etude.Experiment) -> None:
    alone = experiment.fit(at={}, seed=3, resources="cpus=1")
    for ranks in (2, 4):
        together = experiment.fit(at={}, seed=3, ranks=ranks)
        assert together.trials[0].curve == pytest.approx(alone.trials[0].curve, rel=1e-12)
        weights = together.best.weights.load()["net"]
        assert all(torch.allclose(weights[k], v, rtol=1e-10) for k, v in alone.best.weights.load()["net"].items())
    assert sum("saw" in line for line in log_of(alone).splitlines()) == 1
    seen = [int(log_of(together, rank=rank).split()[-1]) for rank in range(4)]
    assert sum(seen) == int(log_of(alone).split()[-1]) == 4 * 72


BUILT: list[nn.Module] = []
"""What ``model_to_look_at`` gave in this process."""


def model_to_look_at(width: int = 16) -> nn.Module:
    BUILT.append(model(width))
    return BUILT[-1]


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # of torchdata
def test_a_plain_call_a_trial_of_one_worker_and_one_rank_are_the_same_bit_for_bit() -> None:
    """Losses, and all weights at the end; noise shows that random numbers are the same ones, too."""
    experiment = etude.Experiment(train, model=model_to_look_at, data=data, metric="loss", mode="min")
    [tuned] = experiment.tune({"drawn": [0.1]}, sampler="grid", workers=1, resources="cpus=1").trials
    [fitted] = experiment.fit(at=tuned, seed=tuned.seed, resources="cpus=1", ranks=1).trials
    BUILT.clear()
    with pytest.MonkeyPatch.context() as patch:
        reported: list[float] = []
        patch.setattr("etude.worker.run.NoLine.report", lambda self, step, metrics: reported.append(metrics["loss"]))
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        experiment.run(seed=tuned.seed, drawn=0.1)
        torch.set_num_threads(threads)
    assert tuned.curve == fitted.curve == reported
    [net] = BUILT
    for trial in (tuned, fitted):
        weights = trial.weights.at("last").load()["net"]
        assert list(weights) == list(net.state_dict())
        assert all(torch.equal(weights[name], value) for name, value in net.state_dict().items())


def test_only_rank_0_is_heard_and_the_others_have_logs_of_their_own(experiment: etude.Experiment) -> None:
    final = experiment.fit(at={"epochs": 1}, ranks=2)
    assert "rank 0 of 2" in log_of(final)
    assert "rank 1" not in log_of(final)
    assert "rank 1 of 2" in log_of(final, rank=1)
    assert "rank 0 of 2" in final.best.log.read_text()


def test_metrics_are_means_of_all_ranks_unless_something_else_is_said(experiment: etude.Experiment) -> None:
    final = etude.Experiment(
        train, model=model, data=data, metric={"loss": "min", "rank": "min", "once": "min", "all": "max"}
    ).fit(at={"epochs": 1}, ranks=2, parallel=REDUCED)
    values = final.trials[0].values
    assert {name: values[name] for name in ("rank", "once", "all")} == {"rank": 0.5, "once": 0.0, "all": 2.0}


def test_what_a_rank_raises_ends_all_and_is_told_first(experiment: etude.Experiment) -> None:
    final = experiment.fit(at={"trouble": "raises"}, ranks=2)
    [trial] = final.trials
    assert trial.state == "failed"
    assert trial.reason == "rank 1: ValueError: rank one gives up"
    assert trial.traceback.startswith("Rank 1:\nTraceback")
    assert "ValueError: rank one gives up" in trial.traceback
    assert "RankLostError" not in trial.traceback, "what the others say of it is no cause"
    [end] = facts_of(final.folder, Settled)
    assert (end.outcome.how, trial.attempts) == (How.RAISED, 1)
    lost = log_of(final)
    assert lost.index("RankLostError") > lost.index("rank 0 of 2"), "it has said so, in its log"
    for rank in range(2):
        pid = int(log_of(final, rank=rank).split("process ")[1].split()[0])
        wait_for(lambda pid=pid: processes.parent(pid) is None)


@pytest.mark.parametrize("trouble", ["killed", "stands still"])
def test_a_lost_rank_costs_what_came_after_the_last_state_and_changes_nothing(
    experiment: etude.Experiment, undisturbed: etude.Fit, trouble: str
) -> None:
    """Noise is drawn by each rank for itself, so that it would show if a rank went on from other generators."""
    short = etude.DDP(timeout_s=4.0) if trouble == "stands still" else "ddp"
    disturbed = experiment.fit(at={"drawn": 0.1, "trouble": trouble}, ranks=2, parallel=short)
    assert disturbed.trials[0].attempts == 2
    assert disturbed.trials[0].curve == undisturbed.trials[0].curve
    [resumed] = facts_of(disturbed.folder, Resumed)
    assert resumed.origin.key is not None
    lost = facts_of(disturbed.folder, Settled)[0].outcome
    assert lost.how is (How.KILLED if trouble == "killed" else How.LOST)
    assert ("rank 1: killed by SIGKILL" if trouble == "killed" else "nothing came within 4 s") in lost.reason


def test_ranks_that_part_are_told_which_parameter_differs(experiment: etude.Experiment) -> None:
    final = experiment.fit(at={"trouble": "drifts"}, ranks=2)
    assert final.trials[0].state == "failed"
    assert "DriftError" in final.trials[0].reason
    assert "0.weight" in final.trials[0].reason


def train_by_passes(model, data, run):
    net, (loader, _) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        if run.rank:
            net[2].bias.data += 1.0  # type: ignore[union-attr, operator]
        run.log(f"epoch {epoch}")
    return 0.0


def test_without_run_epochs_parameters_are_compared_when_a_pass_begins() -> None:
    final = etude.Experiment(train_by_passes, model=model, data=data, metric="loss", mode="min").fit(at={}, ranks=2)
    assert "DriftError" in final.trials[0].reason
    assert "2.bias" in final.trials[0].reason
    assert log_of(final).split("Traceback")[0].strip().splitlines()[-1] == "epoch 0"


@dataclasses.dataclass
class Pair:
    """Two models in a container of the user's own."""

    student: nn.Module
    teacher: nn.Module


def model_pair() -> Pair:
    return Pair(model(4), model(8))


def parts() -> etude.Data:
    """Loaders whose samplers are the user's: those of a split."""
    examples = TensorDataset(*rows())
    train, valid = (
        DataLoader(examples, 8, sampler=torch.utils.data.SubsetRandomSampler(range(*ends)))
        for ends in ((0, 48), (48, 72))
    )
    return etude.Data(train, valid)


def train_two(model, data, run, epochs: int = 2):
    pair, found = model(), data()
    more = model().student  # a model function may be called again
    both = [*pair.student.parameters(), *pair.teacher.parameters(), *more.parameters()]
    optimizer = torch.optim.SGD(both, lr=0.1)
    losses = []
    for _ in run.epochs(epochs):
        for x, y in found.train:
            optimizer.zero_grad()
            loss = sum(F.cross_entropy(net(x), y) for net in (pair.student, pair.teacher, more))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    right = sum((pair.student(x).argmax(1) == y).sum().item() for x, y in found.valid)
    run.log("valid", sum(len(x) for x, _ in found.valid))
    return {"loss": losses[-1], "right": right}


class Unmeasured(Sampler[int]):
    """A sampler without a length, which PyTorch allows."""

    def __init__(self, data: object) -> None:
        """Take what every sampler takes."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(16))


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()


def unmeasured() -> Any:
    examples = TensorDataset(*rows())
    return DataLoader(examples, batch_size=8, sampler=Unmeasured(examples)), DataLoader(examples, 9)


def train_briefly(model, data, run):
    net, (loader, _) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in run.epochs(1):
        for x, y in loader:
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        run.report(loss=0.0)


def test_what_a_step_has_and_what_differs_from_one_rank_is_stated() -> None:
    experiment = etude.Experiment(train_briefly, model=normalised, data=unmeasured, metric="loss", mode="min")
    stated = experiment.fit(at={}, ranks=2)
    assert stated.complete
    assert (
        "2 ranks train each trial: the batch of 8 examples that data() asks for is that of all ranks together, and is "
        "divided over them. The learning rate is the function's own, and is not scaled."
    ) in stated.notes
    assert any(note.startswith("1 layer of BatchNorm see") for note in stated.notes)
    each = experiment.fit(at={}, ranks=2, batch="per_rank")
    assert (
        "2 ranks train each trial, with batches of 8 examples on each of them, so that a step has 16. The learning "
        "rate is the function's own, and is not scaled."
    ) in each.notes


def test_models_in_a_dataclass_and_of_two_calls_are_averaged_and_named_parts_say_what_trains() -> None:
    experiment = etude.Experiment(train_two, model=model_pair, data=parts, metric={"loss": "min", "right": "max"})
    alone, together = (experiment.fit(at={}, seed=1, ranks=ranks).trials[0] for ranks in (1, 2))
    assert together.value == pytest.approx(alone.value, rel=1e-9), "what is returned is of all ranks"
    assert together.metrics["right"] == alone.metrics["right"], "each rank has all that is for validation"
    assert together.metrics["right"] > 0


def train_in_stages(run):
    drawn = [torch.rand(1).item() for _ in range(2) for _ in run.epochs(2)]
    torch.nn.Linear(1, 1)
    run.log(len(set(drawn)))
    return 0.0


def test_a_rank_draws_otherwise_in_each_loop_of_epochs() -> None:
    final = etude.Experiment(train_in_stages, metric="loss", mode="min").fit(at={}, ranks=2)
    assert [log_of(final, rank=rank).split()[-1] for rank in (0, 1)] == ["4", "4"]


def train_and_linger(model, data, run, lr: float):
    model()
    try:
        while True:
            run.report(loss=lr)
    finally:
        if run.rank:
            while True:
                pass


def test_a_rank_that_does_not_end_after_a_stop_is_ended() -> None:
    experiment = etude.Experiment(train_and_linger, model=model, data=data, metric="loss", mode="min")
    search = experiment.tune(
        {"lr": [0.1]}, sampler="grid", stopper=AfterTwo(), workers=1, ranks=2, grace_s=1.0, retries=0
    )
    assert search.counts() == {"stopped": 1}


class AfterTwo:
    """Stops every trial at its second report."""

    def decide(self, report: etude.Report, standing: etude.Standing) -> etude.Decision:
        return etude.Decision(etude.Act.STOP, "enough") if report.step == 2 else etude.GO_ON


def train_on(model, data, run, lr: float):
    net, (loader, valid) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    told = 0
    try:
        while True:
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
            told += 1
            run.report(loss=evaluate(net, valid))
    except Stop:
        run.log(f"stopped after {told}")
        raise


def test_a_stop_is_seen_by_all_ranks_at_the_same_report() -> None:
    experiment = etude.Experiment(train_on, model=model, data=data, metric="loss", mode="min")
    search = experiment.tune(
        {"lr": [0.05, 0.1]}, sampler="grid", stopper=AfterTwo(), workers=2, ranks=2, timeout_s=BOUND_S, retries=0
    )
    assert search.counts() == {"stopped": 2}
    for trial in range(2):
        first, second = (log_of(search, rank=rank, trial=trial).split("stopped after ")[1] for rank in (0, 1))
        assert first == second
    assert all(len(trial.curve) >= 2 for trial in search.trials)


def train_otherwise(model, data, run):
    model()
    run.report({"loss": 1.0} if run.rank == 0 else {"loss": 1.0, "more": 2.0})
    run.report(loss=1.0)


def test_ranks_that_report_other_metrics_are_told_so() -> None:
    final = etude.Experiment(train_otherwise, model=model, data=data, metric="loss", mode="min").fit(at={}, ranks=2)
    assert "rank 1 has the metrics [loss, more], and that of rank 0 has [loss]" in final.trials[0].reason


def train_and_report_alone(model, data, run):
    model()
    for _ in run.epochs(2):
        if run.rank == 0:
            run.report(loss=1.0)
    return 1.0


def test_a_report_of_rank_0_alone_is_told_with_both_places() -> None:
    alone = etude.Experiment(train_and_report_alone, model=model, data=data, metric="loss", mode="min")
    [trial] = alone.fit(at={}, ranks=2, retries=0).trials
    assert "came to the end of an epoch, and rank 0 to a report of [loss]" in trial.reason


def hurry(run: Any) -> None:
    """Have this rank look after the others more often than is of use elsewhere."""
    waits = run.together.all._groups._waits
    waits._look_s, waits._look = 0.1, timedelta(seconds=0.1)


def train_apart(model, data, run, trouble: str = ""):
    hurry(run)
    net, (loader, _) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    for _ in run.epochs(3):
        for nth, (x, y) in enumerate(loader):
            if run.rank == 1 and nth == 2 and trouble == "skips a batch":
                continue
            if run.rank == 1 and nth == 2 and trouble == "leaves early":
                return 1.0
            step(x, y)
        if run.rank == 0 and trouble == "trains alone":
            step(x, y)
        run.report(loss=1.0)
    return 1.0


@pytest.mark.parametrize(
    ("trouble", "parallel", "first", "second"),
    [
        (
            "skips a batch",
            "ddp",
            "backward 5 of Sequential (test_ranks_of_a_trial.py:",
            "report 1 (test_ranks_of_a_trial.py:",
        ),
        (
            "trains alone",
            "ddp",
            "backward 6 of Sequential (test_ranks_of_a_trial.py:",
            "report 1 (test_ranks_of_a_trial.py:",
        ),
        ("leaves early", "ddp", "backward 3 of Sequential (test_ranks_of_a_trial.py:", "the end of the training"),
        ("trains alone", "fsdp", "the parameters of Sequential (test_ranks_of_a_trial.py:", "report 1 (test_ranks"),
    ],
)
def test_ranks_that_wait_for_each_other_are_told_where_each_of_them_is(
    trouble: str, parallel: str, first: str, second: str
) -> None:
    """The timeout is ten minutes away, and none of it is tried again."""
    apart = etude.Experiment(train_apart, model=model, data=data, metric="loss", mode="min")
    [trial] = apart.fit(at={"trouble": trouble}, ranks=2, parallel=parallel).trials
    assert (trial.state, trial.attempts) == ("failed", 1)
    assert trial.reason.startswith("rank 0: RanksError: The ranks wait for each other at different places")
    assert f"rank 0 waits at {first}" in trial.reason
    assert f"rank 1 waits at {second}" in trial.reason
    assert "in train_apart" in trial.traceback


def train_and_return_alone(model, data, run):
    model()
    run.report(loss=1.0)
    return 1.0 if run.rank == 0 else None


def test_a_result_of_rank_0_alone_is_told_so() -> None:
    alone = etude.Experiment(train_and_return_alone, model=model, data=data, metric="loss", mode="min")
    [trial] = alone.fit(at={}, ranks=2, retries=0).trials
    assert "came to an end without a result, and rank 0 to an end with a result" in trial.reason


def train_ahead(model, data, run, batches: str = "all"):
    net, (loader, _) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in run.epochs(2):
        right = sum(
            (net(x).argmax(1) == y).sum().item() for x, y in loader
        )  # of no gradient, so it may draw as it likes
        for x, y in list(loader) if batches == "all" else loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        run.report(loss=float(right))


def uneven() -> Any:
    return DataLoader(TensorDataset(*rows()), batch_size=10, shuffle=True), None  # 7 batches of 10, and one of 2


def odd() -> Any:
    x, y = rows()
    return DataLoader(TensorDataset(x[:71], y[:71]), batch_size=10, shuffle=True), None  # and one of 1


def test_batches_that_are_drawn_ahead_are_refused_where_they_count_differently() -> None:
    experiment = etude.Experiment(train_ahead, model=model, data=odd, metric="loss", mode="min")
    [trial] = experiment.fit(at={}, ranks=2, retries=0).trials
    assert "A loader gave two batches before a backward" in trial.reason
    assert experiment.fit(at={"batches": "one by one"}, ranks=2).complete
    assert (
        etude.Experiment(train_ahead, model=model, data=uneven, metric="loss", mode="min").fit(at={}, ranks=2).complete
    )


def train_on_pairs(model, data, run):
    net, (first, second) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in run.epochs(1):
        for (x, y), (u, v) in zip(first, second, strict=True):
            optimizer.zero_grad()
            (F.cross_entropy(net(x), y) + F.cross_entropy(net(u), v)).backward()
            optimizer.step()
        run.report(loss=0.0)


def pairs() -> Any:
    x, y = rows()
    return tuple(DataLoader(TensorDataset(x[:n], y[:n]), batch_size=10, shuffle=True) for n in (61, 70))


def test_batches_of_two_loaders_are_refused_where_they_count_differently_in_one_backward() -> None:
    experiment = etude.Experiment(train_on_pairs, model=model, data=pairs, metric="loss", mode="min")
    [trial] = experiment.fit(at={}, ranks=2, retries=0).trials
    assert "Gradients are of batches of two loaders that count otherwise on this rank" in trial.reason
    whole = etude.Experiment(train_on_pairs, model=model, data=dropping, metric="loss", mode="min")
    assert whole.fit(at={}, ranks=2).complete


def dropping() -> Any:
    x, y = rows()
    return tuple(DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True, drop_last=True) for _ in range(2))


def train_by_own_loss(model, data, run, epochs: int = 50):
    net, (loader, _) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for epoch in run.epochs(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
        losses.append(run.mean(loss.item()))
        if epoch and losses[-1] > 0.9 * losses[-2]:
            break
    run.log(f"left after {len(losses)} with {losses[-1]!r}")
    return losses[-1]


def test_ranks_that_decide_by_a_mean_decide_alike() -> None:
    final = etude.Experiment(train_by_own_loss, model=model, data=data, metric="loss", mode="min").fit(at={}, ranks=2)
    first, second = (log_of(final, rank=rank).split("left after ")[1] for rank in (0, 1))
    assert first == second
    assert final.best.attempts == 1


THERE = frozenset(name for name in sys.modules if name.startswith("etude."))
"""What of Étude was loaded when this file was: in workers, before a rank was forked."""


def train_and_tell(model, data, run):
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    run.log(" ".join(os.environ[name] for name in names), "MASTER_PORT" in os.environ)
    run.log(f"{run.rank} draws {torch.rand(1).item():.6f} and {run.generator('own').random():.6f}")
    run.log(f"begins with {model()[0].weight.sum().item():.6f}")
    run.log("loaded", sorted(name for name in sys.modules if name.startswith("etude.") and name not in THERE))
    return 1.0


@pytest.fixture(scope="module")
def told() -> list[list[str]]:
    """What ranks have to tell of themselves."""
    final = etude.Experiment(train_and_tell, model=model, data=data, metric="loss", mode="min").fit(at={}, ranks=2)
    return [log_of(final, rank=rank).splitlines() for rank in (0, 1)]


def test_ranks_load_nothing_that_was_not_there_before_they_were_forked(told: list[list[str]]) -> None:
    assert [lines[3] for lines in told] == ["loaded []"] * 2
    for name in OF_SHARDED_RANKS:  # a worker is silent about names that it cannot import ahead
        importlib.import_module(name)


def test_ranks_have_the_environment_of_torchrun_streams_of_their_own_and_the_same_weights(
    told: list[list[str]],
) -> None:
    first, second = told
    assert (first[0], second[0]) == ("0 2 0 2 127.0.0.1 True", "1 2 1 2 127.0.0.1 True")
    assert first[1].split()[2] != second[1].split()[2]
    assert first[1].split()[4] != second[1].split()[4]
    assert first[2] == second[2]


def test_a_worker_that_dies_takes_the_attempt_along_and_another_joins_the_gang(
    experiment: etude.Experiment, undisturbed: etude.Fit
) -> None:
    final = experiment.fit(at={"drawn": 0.1, "trouble": "waits"}, ranks=2, wait=False)
    try:
        wait_for((final.folder / "trials" / "00000" / "waits-happened").exists)
        pid = int(log_of(final, rank=1).split("process ")[1].split()[0])
        for _ in ("template", "warm", "supervisor"):
            pid = processes.parent(pid)
        processes.kill(pid)
        final.wait()
    finally:
        final.stop()
    assert len({fact.worker for fact in facts_of(final.folder, Joined)}) == 2
    assert final.best.attempts == 2
    assert final.best.curve == undisturbed.trials[0].curve


def test_a_study_of_a_name_has_its_ranks_for_good(experiment: etude.Experiment) -> None:
    experiment.fit(at={"epochs": 1}, ranks=2, name="two")
    with pytest.raises(DefinitionChangedError, match="ranks"):
        experiment.fit(at={"epochs": 1}, name="two")
    assert etude.open("two").meta["call"]["ranks"] == 2


def test_ranks_that_cannot_be_are_refused_before_anything_is_launched(experiment: etude.Experiment) -> None:
    with pytest.raises(ConfigError, match=r"ranks=0 cannot be: nobody would train"):
        experiment.fit(at={}, ranks=0)
    with pytest.raises(ConfigError, match=r"simulated study, whose trials nobody trains"):
        experiment.tune({"lr": [0.1]}, trials=1, ranks=2, engine=etude.Simulated(curves=etude.SyntheticCurves()))
    with pytest.raises(ConfigError, match=r"learns what memory trials need, and with ranks=2"):
        experiment.fit(at={}, ranks=2, resources="auto")
    with pytest.raises(ConfigError, match=r"The ranks of one trial start together, so it could never start\."):
        experiment.fit(at={}, ranks=64, resources="cpus=1")
    with pytest.raises(ConfigError, match="parallel='horovod'"):
        experiment.fit(at={}, ranks=2, parallel="horovod")
    with pytest.raises(ConfigError, match="batch='each'"):
        experiment.fit(at={}, ranks=2, batch="each")


def test_functions_without_torch_are_refused_by_name() -> None:
    import subprocess
    import sys

    script = (
        "import etude\n"
        "def train(): return 1.0\n"
        "experiment = etude.Experiment(train, metric='loss', mode='min')\n"
        "if __name__ == '__main__':\n"
        "    experiment.fit(at={}, ranks=2)\n"
    )
    path = Path(os.environ["ETUDE_STUDIES"]).parent / "script.py"
    path.write_text(script)
    ended = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=BOUND_S, check=False)
    assert "its functions use no torch: gradients of torch alone are averaged" in ended.stderr
