"""An ablation as a plan: every arm with every seed, and further arms when results decide on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from etude.ablate.arms import BASE, Results
from etude.ablate.pairing import compare
from etude.ablate.plan import AblationPlan
from etude.ablate.policies import LeaveOneOut, Path, Policy
from etude.core.errors import ConfigError
from etude.core.events import How, Outcome, Queued, Settled, Usage
from etude.core.history import History, Trial
from etude.core.lifecycle import Turn
from etude.core.metrics import Metrics
from etude.core.plan import Done, Halt, Propose, Wait
from etude.core.removal import Arm, Layers, Whole

ARMS = (BASE, Arm("no a", settings={"a": 0}), Arm("no b", settings={"b": 0}))


@dataclass
class Stand:
    """A study in which trials end as they are told."""

    history: History = field(default_factory=lambda: History(Metrics({"score": "max"})))

    @property
    def trials(self) -> Sequence[Trial]:
        return self.history.trials

    @property
    def finished(self) -> Sequence[Trial]:
        return self.history.finished

    @property
    def metrics(self) -> Metrics:
        return self.history.metrics

    def add(self, asked: Propose) -> int:
        """Queue a trial."""
        number = len(self.trials)
        assert asked.params is not None
        self.history.apply(Queued(at=0.0, trial=number, params=asked.params, seed=asked.seed, arm=asked.arm))
        return number

    def end(self, number: int, value: float, took_s: float = 0.0, **extra: object) -> None:
        """Have a trial's outcome taken from elsewhere, which needs no worker."""
        used = Usage(wall_s=took_s)
        outcome = Outcome(How.FINISHED, value=value, extra=dict(extra), usage=used)
        self.history.apply(
            Settled(at=1.0, trial=number, turn=Turn.REUSED, outcome=outcome, taken_from=("another", number))
        )


def plan(policy: Policy | None = None, seeds: tuple[int, ...] = (5, 6)) -> AblationPlan:
    arms = ARMS if policy is None else tuple(policy.arms(ARMS[1:]))
    return AblationPlan(arms, seeds, {"a": 1, "b": 2}, policy or LeaveOneOut(), ARMS[1:])


def carried_out(plan: AblationPlan, values: dict[str, float]) -> list[tuple[int, str]]:
    """Carry a plan out, and return the seeds and arms of its trials."""
    stand = Stand()
    while isinstance(asked := plan.ask(stand, pending=[]), Propose):
        assert asked.arm is not None
        assert asked.seed is not None
        stand.end(stand.add(asked), values[asked.arm.name] + asked.seed / 100)  # nothing is decided without variation
    assert isinstance(asked, Done), asked
    return [(trial.seed, trial.arm.name) for trial in stand.trials if trial.arm is not None]


def test_all_arms_of_a_seed_come_before_those_of_the_next_one() -> None:
    said = carried_out(plan(), {arm.name: 1.0 for arm in ARMS})
    assert said == [(seed, name) for seed in (5, 6) for name in ("base", "no a", "no b")]
    assert plan().trials == len(said)


def test_the_longest_arms_of_a_seed_go_first_and_before_they_are_known_the_larger_ones() -> None:
    took = {"base": 2.0, "no a": 1.0, "no b": 3.0}
    way, stand = dataclasses.replace(plan(seeds=(5, 6, 7, 8)), sizes={"base": 9, "no a": 2, "no b": 5}), Stand()
    while isinstance(asked := way.ask(stand, pending=[]), Propose):
        assert asked.arm is not None
        stand.end(stand.add(asked), float(len(stand.trials)), took[asked.arm.name], fingerprints={})
    said = [(trial.seed, trial.arm.name) for trial in stand.trials if trial.arm is not None]
    assert said[:6] == [(5, "base"), (5, "no b"), (5, "no a"), (6, "no b"), (6, "base"), (6, "no a")]
    last = [(seed, name) for name in ("no b", "base", "no a") for seed in (7, 8)]
    assert said[6:] == last, "the last seeds go together"


def test_settings_of_an_arm_are_in_its_configuration() -> None:
    stand = Stand()
    for expected in ({"a": 1, "b": 2}, {"a": 0, "b": 2}, {"a": 1, "b": 0}):
        asked = plan().ask(stand, pending=[])
        assert isinstance(asked, Propose)
        assert asked.params == expected
        stand.add(asked)


def test_what_is_pending_counts() -> None:
    asked = plan().ask(Stand(), pending=[Propose(5, {}, arm=ARMS[0])])
    assert isinstance(asked, Propose)
    assert asked.arm == ARMS[1]


def test_a_policy_that_goes_by_results_waits_for_them_and_goes_on() -> None:
    way = plan(Path())
    stand = Stand()
    for _ in range(way.trials):
        asked = way.ask(stand, pending=[])
        assert isinstance(asked, Propose)
        stand.add(asked)
    assert way.ask(stand, pending=[]) == Wait()
    values = {"base": 3.0, "no a": 2.0, "no b": 1.0, "no a & no b": 0.0}
    said = carried_out(way, values)
    assert [name for seed, name in said if seed == 5] == list(values)
    assert len(said) == 8


def test_further_arms_are_repaired_before_they_are_asked_for() -> None:
    taken = [Arm(name, layers=Layers((Whole(name),))) for name in "ab"]
    first = (BASE, *(Arm(one.name, layers=one.layers, repair="planned") for one in taken))
    way = AblationPlan(
        first, (5,), {}, Path(), tuple(taken), finish=lambda arm: Arm(arm.name, layers=arm.layers, repair="later")
    )
    stand = Stand()
    repairs = []
    while isinstance(asked := way.ask(stand, pending=[]), Propose):
        assert asked.arm is not None
        repairs.append(asked.arm.repair)
        stand.end(stand.add(asked), 1.0)
    assert repairs == [None, "planned", "planned", "later"]


def test_an_arm_that_results_lead_to_and_that_cannot_be_ends_the_study() -> None:
    def refuse(arm: Arm) -> Arm:
        raise ConfigError(f"{arm.name!r} cannot be.")

    way, stand = AblationPlan(ARMS, (5,), {}, Path(), ARMS[1:], finish=refuse), Stand()
    while isinstance(asked := way.ask(stand, pending=[]), Propose):
        stand.end(stand.add(asked), 1.0)
    assert asked == Halt("'no a & no b' cannot be.")


@pytest.mark.parametrize(("second", "value", "halts"), [("w", 1.0, True), ("v", 1.0, False), ("w", 2.0, False)])
def test_seeds_that_change_nothing_are_none(second: str, value: float, halts: bool) -> None:
    stand, way = Stand(), plan()
    for print_, found in (("w", 1.0), (second, value)):
        for _ in ARMS:
            asked = way.ask(stand, pending=[])
            if isinstance(asked, Propose):  # it ends when the second run of the base has shown it
                stand.end(stand.add(asked), found, fingerprints={"weights": {"p": print_}, "batches": "b"})
    answer = way.ask(stand, pending=[])
    assert isinstance(answer, Halt) == halts
    if isinstance(answer, Halt):
        assert "The base begins with the same weights and batches under the seeds 5 and 6" in answer.problem
        assert len(stand.trials) == 4


@pytest.mark.parametrize("prints", [{}, {"data": "d"}, {"weights": {"p": "seeded"}}])
def test_arms_none_of_which_varies_end_the_study(prints: dict[str, Any]) -> None:
    stand, way, values = Stand(), plan(seeds=(5, 6, 7, 8)), {"base": 0.9, "no a": 0.8, "no b": 0.9}
    while isinstance(asked := way.ask(stand, pending=[]), Propose):
        assert asked.arm is not None
        here = {"weights": {"p": asked.seed}} if "weights" in prints else prints
        stand.end(stand.add(asked), values[asked.arm.name], fingerprints=here)
    assert isinstance(asked, Halt)
    assert asked.problem.startswith(
        "Nothing varies with the seed: base, no a, no b came to the same value under 3 seeds, each to its own, so that "
        "each would be one run, counted many times. If nothing is drawn at random, let something be: pass seed=seed on "
        "to the model (random_state=seed), or let the data function draw other rows for each seed (a bootstrap), or "
        "take the folds of a cross-validation, folds=5, seeds=1."
    )
    assert len(stand.trials) == 7, "four that repeat an earlier one, and three to begin with"


@pytest.mark.parametrize("differs", [1, 3, 4, 5])
def test_one_run_that_differs_is_variation(differs: int) -> None:
    stand, way = Stand(), plan(seeds=(5, 6, 7, 8))
    while isinstance(asked := way.ask(stand, pending=[]), Propose):
        stand.end(stand.add(asked), 0.5 if len(stand.trials) == differs else 0.9, fingerprints={})
    assert isinstance(asked, Done), "a metric on few examples is the same for two seeds now and then"


def test_results_are_by_what_is_taken_away() -> None:
    results = Results([(ARMS[1], 2.0)])
    assert Arm("another name", settings={"a": 0}) in results


def test_pairs_are_told_by_how_they_began() -> None:
    base = {"weights": {"a": 1, "b": 2, "c": 3}, "batches": "x"}
    assert str(compare(base, {"weights": {"a": 1, "c": 3}, "batches": "x"})) == (
        "paired: 2 parameters in common begin alike"
    )
    assert str(compare(base, {"weights": {}, "batches": "x"})) == "paired: the first data is the same"
    unlike = compare(base, {"weights": {"a": 0, "b": 0, "c": 3}, "batches": "y"})
    assert str(unlike) == "not paired: a, b begin with other values; the first batches are other ones"
    assert compare(base, {"weights": {"a": 1}, "batches": "y"}, data_differ=True).is_pair
    assert compare(base, {}).batches is None
