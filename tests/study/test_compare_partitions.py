"""Partitions compared in one call: real runs on two ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude
from etude.core.errors import ConfigError, StudyError
from etude.fit.verdict_partitions import Verdict
from etude.partitions import Blocks, Stripes

SEEDS = 4
EASY = {"level": 0.5}
"""With four seeds nothing can be told at .05, and that is refused."""


def rows(n: int, seed: int) -> TensorDataset:
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long())


def data() -> etude.Data:
    train = DataLoader(rows(48, 0), 16, shuffle=True)
    return etude.Data(train, DataLoader(rows(24, 1), 24), DataLoader(rows(60, 2), 30))


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def train(model, data, run, lr: float = 0.1, epochs: int = 3, trouble: str = ""):
    net, (loader, _, test) = model(), data()
    criterion = run.criterion(nn.CrossEntropyLoss())
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in run.epochs(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        run.report(accuracy=1.0)  # the best epoch does not count: what is returned does
    if trouble and run.seed == 1:
        raise ValueError(trouble)
    with torch.no_grad():
        return sum((net(x).argmax(1) == y).sum().item() for x, y in test) / 60


class Halves:
    """A partition of the user's own."""

    schedule = etude.partitions.Schedule(warmup=1, interval=1, ignore=0)
    measure = "last"

    def assign(self, importance, ranks, previous=None):
        return np.array_split(np.argsort(importance, kind="stable"), ranks)


@pytest.fixture
def experiment() -> etude.Experiment:
    return etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")


def test_partitions_are_compared_seed_by_seed_with_none_and_with_random_subsets(experiment: etude.Experiment) -> None:
    def compare() -> Any:
        blocks = Blocks(warmup=1, interval=1, ignore=0, measure="mean")
        return etude.compare_partitions(experiment, at={"lr": 0.2}, partitions=[blocks, Halves()], seeds=SEEDS, **EASY)

    found = compare()
    names = ["no partition", "random subsets", "Blocks(warmup=1, interval=1, ignore=0, measure='mean')", "Halves"]
    assert [arm.name for arm in found.arms] == names
    trials = found.fit.trials
    assert [(t.seed, t.params["partition"]) for t in trials] == [(s, name) for s in range(SEEDS) for name in names]
    assert [(claim.arm, claim.against) for claim in found.claims] == [(a, b) for a in names[2:] for b in names[:2]]

    for nth, arm in enumerate(found.arms):
        own = trials[nth :: len(names)]
        assert arm.values == tuple(trial.value for trial in own)
        assert arm.accuracy == pytest.approx(arm.values)  # the function and Étude looked at the same test data
        assert arm.worst == tuple(min(t.metrics["by_class"]["class_accuracies"].values()) for t in own)
        assert {t.metrics["by_class"]["judged_on"] for t in own} == {"test"}
    none, subsets, *others = found.arms
    assert (none.repartitions, none.moved_b) == (0, 0)
    assert subsets.repartitions == 3
    assert [arm.repartitions for arm in others] == [2, 2]
    assert all(arm.moved_b > 0 and 0 < arm.imbalance < 1 for arm in (subsets, *others))
    assert len({arm.values for arm in found.arms}) > 1
    assert set(found.verdicts.values()) <= set(Verdict)
    assert str(found).splitlines()[0].endswith("(accuracy, 4 seeds, 2 ranks, level 0.5).")

    again = compare()
    assert again.fit.folder == found.fit.folder
    assert [trial.ended_at for trial in again.fit.trials] == [trial.ended_at for trial in trials]
    assert str(again) == str(found)


def test_runs_that_failed_are_not_left_out_in_silence(experiment: etude.Experiment) -> None:
    with pytest.raises(
        StudyError, match=r"Of 9 runs, \[3, 4, 5\] did not come to their end.* Trial 3, with no partition, failed:"
    ):
        etude.compare_partitions(
            experiment, at={"trouble": "seed 1", "epochs": 2}, partitions={"a": Halves()}, seeds=3, **EASY
        )


def test_what_only_stands_elsewhere_is_part_of_what_a_study_is() -> None:
    from etude.verbs.partitioned import identity

    def by_last(records: Any) -> Any:
        return records.losses[:, -1]

    told = identity(Stripes(measure=by_last))
    assert told.text == "Stripes(warmup=10, interval=15, ignore=5, measure=by_last, window='interval')"
    assert told.own == {"measure": by_last}
    assert identity(Stripes()).own == {}
    assert identity(Halves()).text == ""


def test_resume_sends_one_to_the_script_which_has_the_partitions(tmp_path: Path) -> None:
    from etude.cli import work

    meta = {"question": {"verb": "compare"}}
    with pytest.raises(ConfigError, match=r"Run the script again instead \(try\.py\): the same call goes on"):
        work._refuse_what_no_journal_holds(meta, {}, "try.py:experiment", tmp_path)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as refused:
        call()
    return str(refused.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"partitions": []},
            "partitions= has none, so there is nothing to compare. Pass [etude.partitions.Stripes()].",
        ),
        (
            {"partitions": Stripes()},
            "is no list of partitions. Pass [etude.partitions.Stripes()].",
        ),
        ({"partitions": [5]}, "partition=5 (int) assigns no examples."),
        ({"partitions": {"no partition": Stripes()}}, "'no partition' is what is compared with."),
        ({"ranks": 1}, "ranks=1 was given, and partitions assign training examples to ranks"),
        ({"seeds": 1}, "seeds=1 can show nothing"),
        ({"seeds": 6}, "Pass seeds=7 or more."),
        ({"margin": 0}, "margin=0 (int) cannot be. Pass a number above 0, or leave it out."),
        ({"level": 1.5}, "level=1.5 (float) cannot be. Pass a share such as 0.05."),
        ({"parallel": "fsdp"}, "parallel='fsdp' divides the model over the ranks"),
    ],
)
def test_a_comparison_that_cannot_be_is_refused_before_anything_is_launched(
    experiment: etude.Experiment, given: dict[str, Any], message: str
) -> None:
    call: dict[str, Any] = {"at": {}, "partitions": [Stripes()], **given}
    assert message in refusal(lambda: etude.compare_partitions(experiment, **call))
    assert experiment.last is None


def test_a_parameter_of_the_same_name_is_refused() -> None:
    def train(partition: int = 1) -> float:
        return partition

    experiment = etude.Experiment(train, metric="accuracy", mode="max")
    assert "'partition' is a parameter of this experiment" in refusal(
        lambda: etude.compare_partitions(experiment, at={}, partitions=[Stripes()])
    )
