"""The memory that a trial will need, from what earlier ones took."""

from __future__ import annotations

import numpy as np
import pytest

from etude.core.events import Assigned, How, Joined, Opened, Outcome, Params, Queued, Settled, Usage
from etude.core.history import History, Trial
from etude.core.lifecycle import Turn
from etude.core.metrics import Metrics
from etude.tune.domains import Integers, LogUniform
from etude.tune.memory import NEWEST, MemoryModel
from etude.tune.spaces import Space

SPACE = Space(
    {"batch": Integers(8, 512, log=True), "width": LogUniform(16, 1024), "lr": LogUniform(1e-4, 1.0), "opt": ["a", "b"]}
)


def drawn(generator: np.random.Generator) -> Params:
    return {
        "batch": int(2 ** generator.uniform(3, 9)),
        "width": float(2 ** generator.uniform(4, 10)),
        "lr": float(10 ** generator.uniform(-4, 0)),
        "opt": str(generator.choice(["a", "b"])),
    }


def took_mb(params: Params, generator: np.random.Generator) -> float:
    """What a network would take that keeps its activations: a product, times what differs from run to run."""
    batch, width = params["batch"], params["width"]
    assert isinstance(batch, int)
    assert isinstance(width, float)
    return (
        10.0 * batch**0.8 * width**0.6 * (1.3 if params["opt"] == "b" else 1.0) * float(generator.uniform(0.95, 1.05))
    )


class Past:
    """A history in which trials end one after the other."""

    def __init__(self) -> None:
        self.history = History(Metrics({"m": "max"}))
        self.history.apply(Opened(at=0.0, driver="d", epoch=1))
        self.history.apply(Joined(at=0.0, worker="w"))

    def queue(self, params: Params) -> Trial:
        number = len(self.history.trials)
        self.history.apply(Queued(at=0.0, trial=number, params=params, seed=0))
        return self.history.trials[number]

    def end(
        self,
        params: Params,
        memory_mb: float,
        how: How = How.FINISHED,
        turn: Turn = Turn.FINISHED,
        gpu_mb: float | None = None,
    ) -> None:
        number = self.queue(params).number
        self.history.apply(Assigned(at=0.0, trial=number, attempt=1, worker="w"))
        outcome = Outcome(how, 1.0, usage=Usage(memory_mb=memory_mb, gpu_memory_mb=gpu_mb))
        self.history.apply(Settled(at=0.0, trial=number, turn=turn, attempt=1, outcome=outcome))


def predicted_over_taken(generator: np.random.Generator, *, learned: int, predicted: int) -> list[float]:
    """Let some trials end, and return the ratio of what is predicted to what is taken for others."""
    past = Past()
    model = MemoryModel(SPACE, past.history)
    for _ in range(learned):
        params = drawn(generator)
        past.end(params, took_mb(params, generator))
    ratios = []
    for _ in range(predicted):
        params = drawn(generator)
        found = model(past.queue(params)).main_mb
        assert found is not None
        ratios.append(found / took_mb(params, generator))
    return ratios


def test_nothing_is_said_before_two_trials_have_shown_what_they_take() -> None:
    past = Past()
    model = MemoryModel(SPACE, past.history)
    params = {"batch": 32, "width": 64.0, "lr": 0.1, "opt": "a"}
    assert model(past.queue(params)) == (None, 0.0)
    past.end(params, 100.0)
    past.end({**params, "lr": 0.2}, 90.0, How.RAISED, Turn.GIVEN_UP)  # it may have raised before it took much
    past.end({**params, "lr": 0.3}, 0.0)  # a worker that cannot tell
    assert model(past.queue({**params, "lr": 0.4})) == (None, 0.0)
    past.end({**params, "lr": 0.5}, 100.0)
    predicted = model(past.queue({**params, "lr": 0.6})).main_mb
    assert predicted == pytest.approx(110.0)


def test_where_hardly_any_ends_well_those_that_raised_are_learned_from() -> None:
    past = Past()
    model = MemoryModel(SPACE, past.history)
    params = {"batch": 32, "width": 64.0, "lr": 0.1, "opt": "a"}
    for lr in (0.01, 0.02, 0.03, 0.04):
        past.end({**params, "lr": lr}, 90.0, How.RAISED, Turn.GIVEN_UP)
    assert model(past.queue({**params, "lr": 0.4})) == (None, 0.0)
    past.end({**params, "lr": 0.05}, 90.0, How.RAISED, Turn.GIVEN_UP)
    assert model(past.queue({**params, "lr": 0.4})).main_mb == pytest.approx(99.0)
    for lr in (0.5, 0.6):
        past.end({**params, "lr": lr}, 200.0)
    assert model(past.queue({**params, "lr": 0.7})).main_mb == pytest.approx(220.0), "what ended well says more"


@pytest.mark.parametrize("seed", range(5))
def test_few_trials_exceed_what_is_predicted_and_most_come_near_it(seed: int) -> None:
    """Peaks go from 0.1 to 15 GB in this space; what is added must neither be too little nor waste machines."""
    generator = np.random.default_rng(seed)
    ratios = predicted_over_taken(generator, learned=40, predicted=200)
    assert np.mean(np.array(ratios) < 1.0) <= 0.05
    assert np.median(ratios) < 1.25


def test_little_is_trusted_while_little_is_known() -> None:
    generator = np.random.default_rng(1)
    margins = []
    for n in (3, 10, 40):
        ratios = predicted_over_taken(generator, learned=n, predicted=100)
        margins.append(float(np.median(ratios)))
    assert margins[0] > margins[1] > margins[2]


def test_a_parameter_that_only_some_have_and_one_of_one_value_do_no_harm() -> None:
    space = Space({"kind": ["a", "b"], "depth": Integers(1, 4), "fixed": [7]})
    past = Past()
    model = MemoryModel(space, past.history)
    for depth in (1, 2, 3, 4):
        past.end({"kind": "a", "depth": depth, "fixed": 7}, 100.0 * depth)
    past.end({"kind": "b", "fixed": 7}, 50.0)
    predicted = model(past.queue({"kind": "b", "fixed": 7})).main_mb
    assert predicted is not None
    assert predicted >= 50.0


def test_what_it_learns_from_is_bounded() -> None:
    past = Past()
    model = MemoryModel(SPACE, past.history)
    generator = np.random.default_rng(0)
    for n in range(NEWEST + 50):
        past.end({**drawn(generator), "lr": 1e-4 + n * 1e-6}, 10.0 if n < 50 else 1000.0)
    predicted = model(past.queue(drawn(generator))).main_mb
    assert predicted == pytest.approx(1100.0)


def test_the_memory_of_gpus_is_learned_beside_and_from_those_that_used_one() -> None:
    past = Past()
    model = MemoryModel(SPACE, past.history)
    params: Params = {"batch": 32, "width": 64.0, "lr": 0.1, "opt": "a"}
    past.end({**params, "lr": 0.2}, 100.0)
    past.end({**params, "lr": 0.3}, 100.0, gpu_mb=0.0)
    needed = model(past.queue({**params, "lr": 0.4}))
    assert (needed.main_mb, needed.gpu_mb) == (pytest.approx(110.0), 0.0), "nobody used one"
    past.end({**params, "lr": 0.5}, 100.0, gpu_mb=3000.0)
    assert model(past.queue({**params, "lr": 0.6})).gpu_mb is None, "one did, and one says little"
    past.end({**params, "lr": 0.7}, 100.0, gpu_mb=3000.0)
    assert model(past.queue({**params, "lr": 0.8})).gpu_mb == pytest.approx(3300.0)
