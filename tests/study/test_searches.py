"""Searches by each sampler in real studies: the same for any number of workers, and after any interruption."""

from __future__ import annotations

import math
import signal
from pathlib import Path
from typing import Any

import pytest
from support import run_script, wait_for, write_script
from threadpoolctl import threadpool_limits

import etude
from etude.core.events import AnyFact, Queued, Settled
from etude.core.history import identity
from etude.core.plan import GO_ON, Act, Decision
from etude.store.journal import Journal
from etude.testing.replay import check_proposals
from etude.tune.sampler import Request, Sampler, Told

SPACE: dict[str, Any] = {"x": etude.integers(0, 7), "y": etude.integers(0, 7)}


def bowl(x: float, y: float) -> float:
    return (x - 5) ** 2 + (y - 2) ** 2


def bent(x: float, y: float) -> dict[str, float]:
    return {"loss": (x - 5) ** 2 + (y - 2) ** 2, "cost": x + y}


ONE = etude.Experiment(bowl, metric="loss", mode="min")
TWO = etude.Experiment(bent, metric={"loss": "min", "cost": "min"})


def configurations(search: etude.Search) -> list[object]:
    return [identity(trial.params) for trial in search.trials]


def facts_of(folder: Path) -> list[AnyFact]:
    journal = Journal.read(folder)
    try:
        return list(journal.facts())
    finally:
        journal.close()


def check_journal(search: etude.Search, sampler: Any, *, space: dict[str, Any] = SPACE, seed: int = 0) -> int:
    """Check that another sampler, told and asked the same, proposes the same."""
    given, n = etude.Space.of(space), len(search.metrics.names)
    with threadpool_limits(1):  # as in the sampler's process
        return check_proposals(
            facts_of(search.folder),
            lambda: sampler() if callable(sampler) else sampler,
            lambda k, redraw: Request(k, redraw, given, seed, n),
            metrics=search.metrics,
        )


# --- the same for any number of workers -----------------------------------------------------------


@pytest.mark.parametrize("sampler", [etude.Random(), etude.Grid(points=3), etude.QMC()])
def test_numbered_configurations_do_not_depend_on_the_number_of_workers(sampler: Sampler) -> None:
    space = {
        "x": etude.uniform(0, 1),
        "y": etude.integers(0, 2),
        "kind": etude.choice({"a": {"z": etude.uniform(0, 1)}, "b": {}}),
    }

    def train(x: float, y: int, kind: str, z: float = 0.0) -> float:
        return x + y + z

    experiment = etude.Experiment(train, metric="score", mode="max")
    rows = [
        experiment.tune(space, trials=16, workers=n, sampler=sampler, stopper="none", name=f"n{n}", seed=3).rows()
        for n in (1, 2, 3)
    ]
    assert rows[0] == rows[1] == rows[2]
    assert len(rows[0]) == 16


# --- the same after any interruption --------------------------------------------------------------

KILLED = """
import os, signal, sys, time
from pathlib import Path
import etude

NAME, KILL_AT = sys.argv[1], [int(n) for n in sys.argv[2].split(",") if n]
SAMPLER = {sampler}
TRIALS = {trials}


def train(x, y, run):
    markers = [run.folder.parents[3] / f"killed at {{n}}" for n in KILL_AT if n <= run.trial]
    if any(not marker.exists() for marker in markers):
        next(marker for marker in markers if not marker.exists()).touch()
        os.kill(int(os.environ["{mark}"].split("-")[0]), signal.SIGKILL)
        time.sleep(60)
    return {{"loss": (x - 5) ** 2 + (y - 2) ** 2, "cost": x + y}}


experiment = etude.Experiment(train, metric={metric})
space = {{"x": etude.integers(0, 7), "y": etude.integers(0, 7)}}
search = experiment.tune(space, trials=TRIALS, workers=1, sampler=SAMPLER, stopper="none", name=NAME, seed=5)
assert search.complete
assert not {{"optuna", "torch", "scipy", "cmaes"}} & set(sys.modules), "the driver thinks of nothing"
"""


@pytest.mark.parametrize(
    ("sampler", "trials", "metrics"),
    [
        (etude.TPE(startup=4), 16, 1),
        (etude.GP(startup=3), 8, 1),
        (etude.CMAES(), 24, 1),
        (etude.NSGA2(population=4), 16, 2),
    ],
    ids=["tpe", "gp", "cmaes", "nsga2"],
)
@pytest.mark.thorough
def test_a_search_whose_driver_is_killed_goes_on_with_the_very_sequence(
    sampler: Any, trials: int, metrics: int, tmp_path: Path
) -> None:
    from etude.engines.local import DRIVER_MARK

    metric = {"loss": "min", "cost": "min"} if metrics > 1 else {"loss": "min"}
    call = f"etude.{sampler!r}"
    text = KILLED.format(sampler=call, trials=trials, metric=metric, mark=DRIVER_MARK)
    script = write_script(tmp_path, text)
    done = run_script(script, "whole", "")
    assert done.returncode == 0, done.stderr
    kills = [trials // 2, trials // 2 + 2][: 1 if isinstance(sampler, etude.GP) else 2]  # torch is slow to start
    codes = [run_script(script, "killed", ",".join(map(str, kills))).returncode for _ in [*kills, None]]
    assert codes == [*(-signal.SIGKILL for _ in kills), 0]
    whole, killed = (etude.open(tmp_path / "studies" / name) for name in ("whole", "killed"))
    assert configurations(killed) == configurations(whole)
    assert len(whole.trials) == trials
    assert check_journal(killed, lambda: type(sampler)(**vars_of(sampler)), seed=5) >= trials // 2
    facts = facts_of(whole.folder)
    settled = {fact.trial: seq for seq, fact in enumerate(facts, 1) if isinstance(fact, Settled)}
    for fact in facts:
        if isinstance(fact, Queued) and fact.upto is not None and fact.trial > 0:
            assert settled[fact.trial - 1] <= fact.upto, "with one worker each proposal knows all results"


def vars_of(sampler: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(sampler).items() if not name.startswith("_")}


@pytest.mark.parametrize("sampler", [etude.TPE(startup=4), etude.CMAES(), etude.NSGA2(population=4)])
def test_a_search_that_is_stopped_by_hand_goes_on_and_its_journal_explains_each_proposal(sampler: Any) -> None:
    experiment = TWO if isinstance(sampler, etude.NSGA2) else ONE
    call: dict[str, Any] = {"trials": 30, "workers": 3, "sampler": sampler, "stopper": "none", "name": "mine"}
    for n in (8, 16):
        search = experiment.tune(SPACE, **call, wait=False)
        wait_for(lambda search=search, n=n: len(search.trials) >= n or not search.running)
        search.stop()
    search = experiment.tune(SPACE, **call)
    assert search.complete
    assert len(search.trials) == 30
    assert check_journal(search, lambda: type(sampler)(**vars_of(sampler))) > 20


def test_a_resumed_study_adds_nothing_and_four_more_trials_are_four_more() -> None:
    call: dict[str, Any] = {"workers": 2, "sampler": etude.TPE(startup=3), "stopper": "none", "name": "more"}
    first = ONE.tune(SPACE, trials=8, **call)
    again = ONE.tune(SPACE, trials=8, **call)
    assert again.rows() == first.rows()
    more = ONE.tune(SPACE, trials=8 + 4, **call)
    assert len(more.trials) == 12
    assert more.rows()[:8] == first.rows()
    assert [trial.attempts for trial in more.trials if trial.same_as is None] == [1] * (
        more.trials[-1].number + 1 - len([t for t in more.trials if t.same_as is not None])
    )


# --- grid -----------------------------------------------------------------------------------------


def test_a_grid_says_how_many_points_it_has_and_ends_there() -> None:
    space = {"x": etude.integers(0, 2), "y": etude.uniform(0, 1)}
    search = ONE.tune(space, workers=2, sampler=etude.Grid(points=3), stopper="none")
    assert len(search.trials) == 9
    assert len(set(configurations(search))) == 9
    assert {trial.params["y"] for trial in search.trials} == {0.0, 0.5, 1.0}
    assert search.complete
    assert search.why == "the sampler has come to its end: 9 points, all of them tried"
    assert "\nThe sampler has come to its end: 9 points, all of them tried." in search.summary()
    assert search.meta["question"]["trials"] == 9
    again = ONE.tune(space, trials=100, workers=2, sampler=etude.Grid(points=3), stopper="none")
    assert again.rows() == search.rows()


def test_fewer_trials_run_the_first_points_and_more_go_on_with_the_next() -> None:
    call: dict[str, Any] = {"workers": 2, "sampler": "grid", "stopper": "none", "name": "part"}
    first = ONE.tune(SPACE, trials=10, **call)
    assert len(first.trials) == 10
    whole = ONE.tune(SPACE, **call)
    assert len(whole.trials) == 64
    assert whole.rows()[:10] == first.rows()
    assert len(set(configurations(whole))) == 64
    assert whole.best.params == {"x": 5, "y": 2}


def test_points_of_a_grid_that_the_constraint_rules_out_are_listed_and_not_run() -> None:
    space = {"x": etude.integers(0, 3), "y": etude.integers(0, 3)}
    search = ONE.tune(
        space, workers=2, sampler="grid", stopper="none", constraint=lambda x, y: None if x != y else "x is y"
    )
    assert search.counts() == {"finished": 12, "invalid": 4}
    for trial in search.trials:
        assert (trial.state == "invalid") == (trial.params["x"] == trial.params["y"])
        assert trial.attempts == (trial.state == "finished")


def test_what_is_tried_first_takes_nothing_from_a_grid() -> None:
    space = {"x": etude.integers(0, 2), "y": etude.uniform(0, 1)}
    aside = ONE.tune(space, workers=2, sampler=etude.Grid(points=2), stopper="none", start=[{"x": 0, "y": 0.3}])
    assert len(aside.trials) == 1 + 4
    assert len(set(configurations(aside))) == 5
    on_it = ONE.tune(space, workers=2, sampler=etude.Grid(points=2), stopper="none", start=[{"x": 0, "y": 1.0}])
    assert len(set(configurations(on_it))) == 4
    assert [trial.same_as for trial in on_it.trials if trial.same_as is not None] == [0]


# --- a sampler of the user's own ------------------------------------------------------------------


def counting(step: int) -> Sampler:
    """Return a sampler that goes on from what it proposed and was told."""

    class Counting:
        def __init__(self) -> None:
            self.last = 0
            self.best = math.inf

        def tell(self, told: Told) -> None:
            if told.state == "finished":
                self.best = min(self.best, told.losses[0])

        def suggest(self, request: Request) -> dict[str, Any]:
            self.last = (self.last + step + (self.best < 5)) % 64
            return {"x": self.last // 8, "y": self.last % 8}

    return Counting()


def test_a_sampler_of_ones_own_works_from_a_closure_and_goes_on_where_it_was() -> None:
    call: dict[str, Any] = {"workers": 2, "stopper": "none", "name": "own"}
    first = ONE.tune(SPACE, trials=8, sampler=counting(7), **call)
    search = ONE.tune(SPACE, trials=20, sampler=counting(7), **call)
    assert search.complete
    assert search.rows()[:8] == first.rows()
    assert check_journal(search, lambda: counting(7)) == 20


def test_a_sampler_that_raises_ends_the_study_and_shows_where() -> None:
    class Tired:
        def tell(self, told: Told) -> None:
            pass

        def suggest(self, request: Request) -> dict[str, Any]:
            if request.k < 2:
                return request.space.sample(request.stream())
            raise ValueError("no idea left")

    with pytest.raises(etude.StudyError) as failed:
        ONE.tune(SPACE, trials=5, workers=1, sampler=Tired(), stopper="none")
    assert str(failed.value).startswith("The sampler failed on proposal 2:\nTraceback (most recent call last):")
    assert "in suggest" in str(failed.value)
    assert str(failed.value).rstrip().endswith("ValueError: no idea left")
    assert ONE.last is not None
    assert len(ONE.last.trials) == 2


@pytest.mark.parametrize("process", [True, False])
def test_nonsense_of_a_sampler_ends_the_study_and_names_it(process: bool) -> None:
    class Lost:
        def needs_process(self, k: int) -> bool:
            return process

        def tell(self, told: Told) -> None:
            pass

        def suggest(self, request: Request) -> dict[str, Any]:
            return {"x": 99, "y": 1}

    with pytest.raises(etude.ConfigError) as failed:
        ONE.tune(SPACE, trials=5, workers=1, sampler=Lost(), stopper="none")
    assert str(failed.value) == (
        f"The sampler {Lost.__module__}.Lost returned {{'x': 99, 'y': 1}} (dict) as proposal 0: x=99 is "
        "above 7. Return a dict with a value of its domain for every parameter, as "
        "request.space.sample(request.stream()) does."
    )


class Leaning:
    """A sampler and a stopper of somebody's own, with an option."""

    def __init__(self, by: int) -> None:
        self.by = by

    def tell(self, told: Told) -> None:
        pass

    def suggest(self, request: Request) -> dict[str, Any]:
        return request.space.sample(request.stream())

    def decide(self, report: Any, standing: Any) -> Any:
        raise AssertionError("nobody reports")


class Counter:
    """A sampler and a stopper of somebody's own that remember what they saw, and ask for all there is to remember."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def needs_process(self, k: int) -> bool:
        return False

    def tell(self, told: Told) -> None:
        self.seen.append(told)
        if told.state != "running":
            assert len(told.losses) in (0, 2)

    def suggest(self, request: Request) -> dict[str, Any]:
        self.seen.append(request)
        return request.space.sample(request.stream())

    def decide(self, report: Any, standing: Any) -> Decision:
        self.seen.append(report)
        return Decision(Act.STOP, "enough seen") if report.trial % 2 else GO_ON

    metric = "loss"


def reporting(x: float, y: float, run: etude.Run) -> dict[str, float]:
    for _ in range(2):
        run.report(loss=x)
    return {"loss": x, "cost": y}


@pytest.mark.parametrize("kind", ["sampler", "stopper"])
def test_what_ones_own_remembers_stays_in_its_study(kind: str) -> None:
    experiment = etude.Experiment(reporting, metric={"loss": "min", "cost": "min"})
    one = Counter()
    call: dict[str, Any] = {"sampler": "random", "stopper": "none", "name": f"mine-{kind}", "trials": 4, "workers": 1}
    search = experiment.tune(SPACE, **{**call, kind: one})
    assert one.seen == []
    assert experiment.tune(SPACE, **{**call, kind: one}).rows() == search.rows()


def test_a_trial_that_was_stopped_is_told_with_a_loss_for_each_metric() -> None:
    class Both(Counter):
        def needs_process(self, k: int) -> bool:
            return True

    experiment = etude.Experiment(slow, metric={"loss": "min", "cost": "min"})
    search = experiment.tune(SPACE, trials=4, workers=1, sampler=Both(), stopper=Counter())
    assert search.counts() == {"finished": 2, "stopped": 2}


def slow(x: float, y: float, run: etude.Run) -> dict[str, float]:
    run.report(loss=x)
    while run.trial % 2:  # until it is stopped
        run.report(loss=x)
    return {"loss": x, "cost": y}


def test_what_cannot_be_copied_is_refused() -> None:
    class Held(Leaning):
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("a lock")

    with pytest.raises(etude.ConfigError) as refused:
        ONE.tune(SPACE, trials=1, sampler=Held(1))
    assert str(refused.value).endswith(
        "(Held) cannot be copied (TypeError: a lock), and each study works with a copy of its own. Open what cannot be "
        "copied when it is first used, or give it a __deepcopy__."
    )


def test_a_proposal_that_the_constraint_rules_out_is_drawn_anew() -> None:
    search = ONE.tune(SPACE, trials=20, workers=2, sampler="random", stopper="none", constraint=lambda x: x < 6)
    assert search.counts() == {"finished": 20}
    assert all(trial.params["x"] < 6 for trial in search.trials)
    assert any(fact.redraw for fact in facts_of(search.folder) if isinstance(fact, Queued))


def test_equal_configurations_to_start_with_are_one_trial_and_numbers_have_their_types() -> None:
    space = {"x": etude.uniform(0, 7), "y": etude.choice({"a": {"z": etude.uniform(0, 1)}, "b": {}})}

    def train(x: float, y: str, z: float = 0.25) -> float:
        return x

    experiment = etude.Experiment(train, metric="loss", mode="min")
    start = [{"x": 3, "y": "a"}, {"x": 3.0, "y": "a", "z": 0.25}, {"x": 5.0, "y": "b"}]
    search = experiment.tune(space, trials=3, workers=1, start=start, sampler="random")
    assert [repr(trial.params) for trial in search.trials[:2]] == [
        "{'x': 3.0, 'y': 'a', 'z': 0.25}",
        "{'x': 5.0, 'y': 'b'}",
    ]
    assert search.trials[2].params["x"] not in (3.0, 5.0)


@pytest.mark.parametrize("kind", ["sampler", "stopper"])
def test_the_options_of_ones_own_are_part_of_the_definition(kind: str) -> None:
    given: dict[str, Any] = {"sampler": "random", "stopper": "none", "name": f"own-{kind}", "trials": 1}
    ONE.tune(SPACE, **{**given, kind: Leaning(1)})
    ONE.tune(SPACE, **{**given, kind: Leaning(1)})
    with pytest.raises(etude.DefinitionChangedError, match=r"'by': 1\}.* -> .*'by': 2\}"):
        ONE.tune(SPACE, **{**given, kind: Leaning(2)})
