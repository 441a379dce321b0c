"""The fidelity and its budgets as they are given to us; what a search with one tells sampler and ranking."""

from __future__ import annotations

import math
from typing import Any

import pytest
from board import Board
from hypothesis import given
from hypothesis import strategies as st

import etude
from etude.core.errors import ConfigError
from etude.core.events import How, Outcome, Queued, Settled
from etude.core.lifecycle import Turn
from etude.core.metrics import Fidelity
from etude.core.ranking import best_of, front, ranked
from etude.core.signature import Signature
from etude.tune.fidelity import read_fidelity, split
from etude.tune.halving import ASHA, Hyperband
from etude.tune.rules import Divergence
from etude.tune.sampler import Told
from etude.tune.spaces import Space
from etude.tune.stop import FirstOf, NeverStop
from etude.tune.story import as_news, as_told


def train(lr: float, epochs: int, share: float = 1.0, path: etude.Stateless[str] = "", anything=None):
    return lr


SIGNATURE = Signature.read({"train": train})
SPACE = Space.of({"lr": etude.uniform(0, 1)})


def read(name: Any = "epochs", budget: Any = (1, 27), eta: int | None = None) -> Fidelity | None:
    return read_fidelity(name, budget, eta, signature=SIGNATURE, space=SPACE)


@pytest.mark.parametrize(
    ("name", "budget", "eta", "rungs"),
    [
        ("epochs", (1, 27), 3, (1, 3, 9, 27)),
        ("epochs", [1, 27], None, (1, 3, 9, 27)),
        ("epochs", (2, 27), 3, (3, 9, 27)),  # from the largest down
        ("epochs", (1, 100), 3, (1, 4, 11, 33, 100)),  # whole numbers stay whole
        ("epochs", (1, 2), 2, (1, 2)),
        ("share", (0.1, 0.9), 3, (0.1, 0.3, 0.9)),
        ("share", (0.1, 1.0), 3, (0.111111111111, 0.333333333333, 1.0)),
        ("share", (0.25, 1), 2, (0.25, 0.5, 1.0)),
        ("anything", (10, 40), 4, (10, 40)),
    ],
)
def test_budgets_go_from_the_largest_down(name: str, budget: Any, eta: int | None, rungs: tuple[float, ...]) -> None:
    found = read(name, budget, eta)
    assert found == Fidelity(name, rungs)
    assert [type(rung) for rung in found.rungs] == [type(rung) for rung in rungs]


@given(st.integers(1, 1000), st.integers(2, 6), st.integers(1, 10_000))
def test_budgets_rise_and_stay_between_the_limits(low: int, eta: int, more: int) -> None:
    high = low * eta + more
    found = read("epochs", (low, high), eta)
    assert found is not None
    assert list(found.rungs) == sorted(set(found.rungs))
    assert found.rungs[-1] == high
    assert found.rungs[0] >= low
    assert len(found.rungs) >= 2


def test_without_a_fidelity_there_are_no_budgets() -> None:
    assert read(None, None) is None


@pytest.mark.parametrize(
    ("name", "budget", "eta", "message"),
    [
        (
            None,
            (1, 27),
            3,
            "budget=(1, 27) and eta=3 without fidelity: nothing says what is to be budgeted. Name the parameter, "
            "fidelity='epochs'. Without one, the options are the stopper's: etude.ASHA(min_steps=1, eta=3).",
        ),
        (
            "lr",
            (1, 27),
            None,
            "fidelity='lr' is in the space as well. Its value is the budget, which is not the sampler's to choose. "
            "Take it out of the space.",
        ),
        (
            "epoch",
            (1, 27),
            None,
            "No function takes 'epoch'. Did you mean 'epochs'? They take: anything, epochs, lr, path, share.",
        ),
        (
            "path",
            (1, 27),
            None,
            "fidelity='path' is Stateless in train(): it is said not to change the numbers, and a budget does. "
            "Write path: T instead of path: etude.Stateless[T].",
        ),
        (
            "epochs",
            None,
            None,
            "fidelity='epochs' without budget: nothing says how little and how much of it a trial gets. "
            "Pass budget=(1, 27).",
        ),
        (
            "epochs",
            27,
            None,
            "budget=27 is no pair. Pass the smallest and the largest budget: budget=(1, 27).",
        ),
        (
            "epochs",
            (27, 1),
            None,
            "budget=(27, 1) cannot be: it takes two numbers above 0, the smaller one first. Pass budget=(1, 27).",
        ),
        (
            "epochs",
            (1, 2),
            None,
            "budget=(1, 2) has one rung with eta=3: a promoted trial gets 3 times as much, and 3 * 1 is more than 2. "
            "Pass budget=(1, 3) or more, or an eta of at most 2.",
        ),
        (
            "epochs",
            (2, 3),
            None,
            "budget=(2, 3) has one rung with eta=3: a promoted trial gets 3 times as much, and 3 * 2 is more than 3. "
            "Pass budget=(2, 6) or more.",
        ),
        (
            "epochs",
            (0.5, 27),
            None,
            "epochs=0.5 does not fit train(), which asks for epochs: int (expected `int`, got `float`). Give a value "
            "of that type, or change the annotation.",
        ),
        ("epochs", (1, 27), 1, "eta=1 cannot be: everybody would go on. Pass eta=2 or more."),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(name: Any, budget: Any, eta: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(name, budget, eta)
    assert str(refused.value) == message


def test_with_a_fidelity_halving_promotes_and_other_rules_go_by_reports() -> None:
    asha, divergence = ASHA(), Divergence()
    assert split(asha, eta=None, fidelity=False) == (None, asha)
    assert split(asha, eta=None, fidelity=True) == (asha, NeverStop())
    assert split(divergence, eta=None, fidelity=True) == (None, divergence)
    rule, rest = split(FirstOf([divergence, asha]), eta=None, fidelity=True)
    assert rule is asha
    assert isinstance(rest, FirstOf)
    assert rest.stoppers == (divergence,)


def test_where_nothing_is_promoted_one_budget_is_enough() -> None:
    found = read_fidelity("epochs", (1, 2), None, signature=SIGNATURE, space=SPACE, promotes=False)
    assert found == Fidelity("epochs", (2,))


@pytest.mark.parametrize(
    ("stopper", "eta", "fidelity", "message"),
    [
        (
            ASHA(promote="anew"),
            None,
            False,
            "ASHA(promote='anew') without fidelity: nothing says what a promoted trial has more of. Pass "
            "fidelity='epochs' and budget=(1, 27), or leave promote out: then ASHA stops trials on their reports.",
        ),
        (
            FirstOf([ASHA(), Hyperband()]),
            None,
            True,
            "stopper has ASHA and Hyperband, and a trial can be promoted by one of them alone. Drop the other.",
        ),
        (
            Hyperband(min_steps=2),
            None,
            True,
            "Hyperband(min_steps=2) counts reports, and with a fidelity the rungs are budgets. "
            "Leave it out; the smaller number in budget= is the first rung.",
        ),
        (
            Hyperband(brackets=1),
            None,
            True,
            "Hyperband(brackets=1) with a fidelity: there is one for each rung. Leave it out; a larger smallest budget "
            "makes fewer.",
        ),
        (ASHA(eta=4), 2, True, "eta=2, and ASHA(eta=4). Say it once."),
    ],
)
def test_options_that_do_not_go_together_are_refused(stopper: Any, eta: Any, fidelity: bool, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        split(stopper, eta=eta, fidelity=fidelity)
    assert str(refused.value) == message


# --- what it means for others ---------------------------------------------------------------------

EPOCHS = Fidelity("epochs", (1, 3, 9))


def ended(board: Board, epochs: int, value: float, *, turn: Turn = Turn.FINISHED, reports: int = 0) -> int:
    number = len(board.history.trials)
    board._fold(Queued(at=0.0, trial=number, params={"lr": 0.5, "epochs": epochs}, seed=0))
    board.join(number)
    for _ in range(reports):
        board.report(number, value)
    how = How.FINISHED if turn is Turn.FINISHED else How.STOPPED
    if turn is Turn.STOP_SEEN:
        board.ask_to_stop(number)
    board._fold(Settled(at=0.0, trial=number, turn=turn, outcome=Outcome(how, value=value)))
    return number


def test_the_sampler_is_told_of_small_budgets_as_stopped_on_their_rung() -> None:
    board = Board("min", fidelity=EPOCHS)
    metrics = board.history.metrics
    for epochs, state, step in ((1, "stopped", 1), (3, "stopped", 2), (9, "finished", 3)):
        trial = board.history.trials[ended(board, epochs, 0.5, reports=epochs)]
        assert as_told(trial, metrics) == Told(trial.number, {"lr": 0.5}, state, (0.5,), step)
    stopped = board.history.trials[ended(board, 9, 0.7, turn=Turn.STOP_SEEN, reports=4)]
    assert as_told(stopped, metrics) == Told(3, {"lr": 0.5}, "stopped", (0.7,), 2)
    queued = Queued(at=0.0, trial=4, params={"lr": 0.1, "epochs": 1}, seed=0)
    assert as_news(queued, board.history) == Told(4, {"lr": 0.1})


def test_only_the_largest_budget_that_finished_is_ranked() -> None:
    board = Board("max", fidelity=EPOCHS)
    metrics = board.history.metrics
    ended(board, 1, 0.9)
    low = board.history.finished[0]
    assert best_of(board.history.finished, metrics) is low
    for value in (0.5, math.nan, 0.6):
        ended(board, 3, value)
    assert [trial.number for trial in ranked(board.history.finished, metrics)] == [3, 1, 2]
    assert best_of(board.history.finished, metrics) is board.history.trials[3]
    assert 0 not in [trial.number for trial in front(board.history.finished, metrics)]


def test_bohb_is_refused_with_what_it_is_here() -> None:
    with pytest.raises(ConfigError) as refused:
        etude.Experiment(train, metric="m", mode="max").tune({"lr": 0.1, "epochs": 1}, trials=1, sampler="bohb")
    assert str(refused.value) == (
        "sampler='bohb' is two things: the sampler proposes, the stopper gives out budgets. "
        "Pass sampler='tpe', stopper='hyperband'."
    )
