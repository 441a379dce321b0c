"""Which probe is taken."""

from __future__ import annotations

import math

import pytest

from etude.fit.choosing import Instead, Probed, choose, judge_of

MAX = {"accuracy": "max"}


def probe(name: str, **reported: float) -> Probed:
    return Probed(name, reported, 0.25)


def test_the_best_is_taken_and_the_reason_has_all_numbers() -> None:
    choice = choose(
        [
            probe("random", accuracy=0.1, loss=2.3),
            probe("a", accuracy=0.8, loss=0.9),
            probe("b", accuracy=0.7, loss=0.4),
        ],
        MAX,
        watched="accuracy",
    )
    assert choice.nth == 2
    assert choice.why == "b: best of 3 by loss after 0.25 of an epoch (random 2.3, a 0.9, b 0.4)"


@pytest.mark.parametrize("loss", [2.3, 2.4, math.nan, math.inf])
def test_random_weights_are_taken_unless_others_do_better(loss: float) -> None:
    probes = [probe("random", loss=2.3), probe("a", loss=loss), probe("b", loss=9.0)]
    assert choose(probes, MAX, watched="accuracy").nth == 0


def test_a_metric_of_the_experiment_has_its_own_direction() -> None:
    probes = [probe("random", accuracy=0.1), probe("a", accuracy=0.8)]
    assert choose(probes, MAX, watched="accuracy").nth == 1
    assert choose(probes, {"accuracy": "min"}, watched="accuracy").nth == 0
    assert (
        choose(
            [probe("r", f1=0.1, loss=1.0), probe("a", f1=0.2, loss=2.0)], {"f1": "max"}, watched="f1", wanted="f1"
        ).nth
        == 1
    )


def test_a_probe_that_failed_is_not_taken() -> None:
    assert choose([probe("random", loss=2.3), Probed("a", None)], MAX, watched="accuracy").nth == 0
    choice = choose([Probed("random", None), probe("a", loss=2.3)], MAX, watched="accuracy")
    assert choice == (0, "random: its probe failed, so that no other can be said to be better")


def test_what_not_all_reported_judges_nobody() -> None:
    probes = [probe("random", accuracy=0.1), probe("a", accuracy=0.2, loss=9.0)]
    assert choose(probes, MAX, watched="accuracy").nth == 1


@pytest.mark.parametrize(
    ("reported", "judge"),
    [
        (["accuracy"], "accuracy"),
        (["accuracy", "train_loss"], "accuracy"),
        (["accuracy", "loss", "val_loss"], "val_loss"),
        (["accuracy", "train_loss", "Loss"], "Loss"),
    ],
)
def test_a_validation_loss_is_the_judge_if_there_is_one(reported: list[str], judge: str) -> None:
    assert judge_of(reported, MAX, watched="accuracy") == judge


def test_a_loss_among_the_metrics_comes_first() -> None:
    modes = {"accuracy": "max", "my_loss": "min"}
    assert judge_of(["val_loss", "my_loss"], modes, watched="accuracy") == "my_loss"
    assert judge_of(["val_loss", "my_loss"], modes, watched="accuracy", wanted="accuracy") == "accuracy"


def test_what_has_memorised_gives_way_to_what_is_taken_instead() -> None:
    probes = [probe("random", loss=2.3), probe("a", loss=0.5), probe("a, shrunk", loss=1.0)]
    choice = choose(probes, MAX, watched="accuracy", instead={1: Instead(2, "train_loss 0.1, loss 0.5")})
    assert choice.nth == 2
    assert choice.why == (
        "a, shrunk: a is the best of 3 by loss after 0.25 of an epoch (random 2.3, a 0.5, a, shrunk 1), and has "
        "memorised its examples (train_loss 0.1, loss 0.5)"
    )
    better = [probe("random", loss=0.9), *probes[1:]]
    assert choose(better, MAX, watched="accuracy", instead={1: Instead(2, "")}).nth == 0, (
        "shrunk it is worse than random"
    )
    worse = [probe("random", loss=0.4), *probes[1:]]
    assert choose(worse, MAX, watched="accuracy", instead={1: Instead(2, "")}).nth == 0
