"""Samplers: a proposal depends on the seed, its number and what came before: never on when or where it is made."""

import importlib.util
import math
import os
import random
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from etude.core.errors import ConfigError
from etude.core.events import Params
from etude.core.history import identity
from etude.testing import check_sampler
from etude.tune import sampler as protocol
from etude.tune.by_optuna import CMAES, GP, NSGA2, TPE
from etude.tune.domains import integers, loguniform, ordered, uniform
from etude.tune.grid import Grid
from etude.tune.qmc import QMC
from etude.tune.sampler import Request, Sampler, Told, needs_process, recalls, size, why_not
from etude.tune.samplers import SAMPLERS, Random, make_sampler
from etude.tune.spaces import Space, choice

FLAT = {
    "lr": loguniform(1e-4, 1.0),
    "drop": uniform(0, 1),
    "third": uniform(0, 1, step=1 / 3),
    "n": integers(1, 100, log=True),
    "every": integers(0, 10, step=5),
    "size": ordered([(1, (2, None)), (3,), None, "s"]),
    "fixed": 5,
}
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed, as where the core is tested alone"
)

SPACE = Space.of(
    {
        **FLAT,
        "optimizer": choice(
            {
                "sgd": {"momentum": uniform(0, 1), "nesterov": [True, False, 1, 1.0]},
                "adam": {"beta": choice({(0.9, (0.99,)): {"eps": loguniform(1e-9, 1e-3)}, None: {}})},
            }
        ),
    }
)
WITHOUT_BRANCHES = Space.of({**FLAT, "kind": ["a", None, (1, "b")]})
LINE = Space.of({"x": uniform(0, 1)})
FEW = Space.of({"a": integers(1, 3), "b": [True, 1], "c": choice({"x": {"d": [1, 2]}, "y": {}})})


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Have what the sampler's process has: more only get into each other's way."""
    with threadpool_limits(1):
        yield


def same(one: Params, other: Params) -> bool:
    return identity(one) == identity(other)


def asked(
    sampler: Sampler, k: int, redraw: int = 0, *, space: Space = SPACE, seed: int = 0, metrics: int = 1
) -> Params:
    return sampler.suggest(Request(k, redraw, space, seed, metrics))


def ended(trial: int, params: Params, state: str, loss: float | None = None) -> Told:
    return Told(trial, params, state, () if loss is None else (loss,), 0 if loss is None else 3)


# --- what every sampler promises ------------------------------------------------------------------

CASES: list[Any] = [
    pytest.param(Random, SPACE, 1, id="random"),
    pytest.param(lambda: Grid(points=2), SPACE, 1, id="grid"),
    pytest.param(QMC, SPACE, 2, id="qmc"),
    pytest.param(TPE, SPACE, 1, id="tpe"),
    pytest.param(lambda: TPE(startup=0), SPACE, 1, id="tpe from the start"),
    pytest.param(lambda: TPE(startup=3), SPACE, 2, id="tpe with two metrics"),
    pytest.param(
        lambda: GP(startup=2),
        Space.of({"x": uniform(0, 1), "n": integers(1, 9), "c": ["a", None]}),
        1,
        id="gp",
        marks=needs_torch,
    ),
    pytest.param(CMAES, WITHOUT_BRANCHES, 1, id="cmaes"),
    pytest.param(CMAES, LINE, 1, id="cmaes on a line"),
    pytest.param(lambda: NSGA2(population=3), SPACE, 1, id="nsga2 with one metric"),
    pytest.param(lambda: NSGA2(population=3), SPACE, 3, id="nsga2 with three metrics"),
]


@pytest.mark.parametrize(("make", "space", "metrics"), CASES)
@pytest.mark.parametrize("seed", [2**70, -1])
@pytest.mark.filterwarnings("error")
def test_ours_keep_what_every_sampler_promises(
    make: Any, space: Space, metrics: int, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    proposals = 6 if isinstance(make(), GP) else 22
    made = check_sampler(make, space, proposals=proposals, metrics=metrics, seed=seed)
    assert len(made) == proposals
    assert capfd.readouterr() == ("", "")


class Broken:
    """A sampler that breaks the promise that it is told to break."""

    def __init__(self, promise: str) -> None:
        self.promise = promise
        self.asked = 0
        self.told: list[Told] = []

    def needs_process(self, k: int) -> bool:
        return self.promise != "needs nothing"

    def recalls(self) -> bool:
        return self.promise != "unless it does not recall"

    def tell(self, told: Told) -> None:
        self.told.append(told)

    def suggest(self, request: Request) -> Params:
        self.asked += 1
        match self.promise:
            case "lies in the space":
                return {"x": 2.0}
            case "plain values":
                return {"x": Half()}
            case "the same proposal":
                return {"x": random.random()}
            case "needs nothing":
                return {"x": 1 / (1 + len(self.told))}
            case "unless it does not recall":
                return {"x": 1 / self.asked}
        return {"x": 1 / (len(self.told) + self.asked)}


class Half(float):
    """A number that is more than a number."""

    def __new__(cls) -> "Half":
        return super().__new__(cls, 0.5)


@pytest.mark.parametrize(
    "promise", ["lies in the space", "the same proposal", "needs nothing", "unless it does not recall"]
)
def test_the_check_finds_a_sampler_that_breaks_a_promise(promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        check_sampler(lambda: Broken(promise), LINE)
    check_sampler(lambda: Broken("none"), LINE)


def test_the_check_finds_a_proposal_that_cannot_be_sent() -> None:
    with pytest.raises(AssertionError, match=r"a proposal is made of plain values: The value 0\.5 is of type 'Half'"):
        check_sampler(lambda: Broken("plain values"), LINE)


class Nothing:
    def tell(self, told: Told) -> None:
        pass

    def suggest(self, request: Request) -> Params:
        return cast("Params", None)


def test_the_check_finds_a_proposal_that_is_none() -> None:
    with pytest.raises(AssertionError) as found:
        check_sampler(Nothing, LINE)
    assert str(found.value).startswith("a proposal is a dict, and this one is None (NoneType)")


def test_the_check_finds_a_sampler_without_one_of_its_methods() -> None:
    class Deaf:
        def suggest(self, request: Request) -> Params:
            return {"x": 0.5}

    with pytest.raises(AssertionError, match=r"^a sampler has tell and suggest, and .*Deaf has no tell$"):
        check_sampler(cast("Any", Deaf), LINE)


def test_the_check_takes_what_tune_takes() -> None:
    class Numpy(Plain):
        def suggest(self, request: Request) -> Params:
            drawn = request.space.sample(request.stream())
            return {"x": np.float64(drawn["x"]), "n": np.int64(drawn["n"])}

    made = check_sampler(Numpy, {"x": uniform(0, 1), "n": [1, 2, 3]})
    assert {type(value) for params in made for value in params.values()} == {float, int}


class Plain:
    """A sampler with the two methods that it has to have."""

    def tell(self, told: Told) -> None:
        pass

    def suggest(self, request: Request) -> Params:
        return request.space.sample(request.stream())


def test_two_methods_are_enough_and_what_is_left_out_is_the_careful_answer() -> None:
    sampler = make_sampler(Plain(), SPACE)
    assert needs_process(sampler, 0)
    assert recalls(sampler)
    assert protocol.why_not(sampler, SPACE, 3) is None
    assert size(sampler, FEW) is None
    assert len(check_sampler(Plain, SPACE)) == 25


# --- random and QMC -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Random, QMC, lambda: Grid(points=2)])
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(), ks=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 8)), max_size=20))
def test_such_a_proposal_depends_on_seed_and_number_alone(make: Any, seed: int, ks: list[tuple[int, int]]) -> None:
    sampler = make()
    for k, redraw in ks:
        params = asked(sampler, k, redraw, seed=seed)
        assert same(params, asked(make(), k, redraw, seed=seed))
        assert SPACE.contains(params)


@pytest.mark.parametrize("make", [Random, QMC])
def test_redraws_and_numbers_and_seeds_give_other_proposals(make: Any) -> None:
    sampler = make()
    drawn = {repr(identity(asked(sampler, k, redraw))) for k in range(20) for redraw in range(9)}
    assert len(drawn) == 180
    assert not same(asked(make(), 0, seed=1), asked(sampler, 0))


@pytest.mark.parametrize("sampler", ["random", "qmc", "grid"])
def test_such_proposals_are_equal_in_every_process_and_for_every_hash_seed(sampler: str) -> None:
    code = (
        "from etude import Request, Space, integers, choice; from etude.tune.samplers import SAMPLERS\n"
        f"s = SAMPLERS.make({sampler!r}); space = Space.of({{'a': integers(0, 9), 'b': choice(['x', 'y', 'z'])}})\n"
        "print([s.suggest(Request(k, 0, space, 3)) for k in range(5)])"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1")
    }
    space = Space.of({"a": integers(0, 9), "b": choice(["x", "y", "z"])})
    made = SAMPLERS.make(sampler)
    assert printed == {f"{[asked(made, k, space=space, seed=3) for k in range(5)]}\n"}


def test_a_power_of_two_of_qmc_draws_has_one_in_each_part_of_each_parameter() -> None:
    space = Space.of({"x": uniform(0, 1), "kind": choice({"a": {"y": uniform(0, 1)}, "b": {"y": uniform(0, 1)}})})
    sampler = QMC()
    made = [asked(sampler, k, space=space) for k in range(64)]
    assert {int(64 * cast("float", params["x"])) for params in made} == set(range(64))
    assert [params["kind"] for params in made].count("a") == 32


# --- TPE, and what it shares with the others by Optuna --------------------------------------------


def uninterrupted(seed: int, n: int, *, at_once: int = 4) -> Iterator[tuple[int, Params, list[Params], list[Told]]]:
    """Run a search with ends of every kind in any order; yield proposal k and all that had been told."""
    sampler, draw = TPE(), random.Random(seed)
    made: list[Params] = []
    ends: list[Told] = []
    running: list[int] = []
    for k in range(n):
        params = asked(sampler, k, seed=seed)
        yield k, params, list(made), list(ends)
        if k % 5 == 0:
            asked(sampler, k, 1, seed=seed)  # whoever asks for another one moves nothing
        made.append(params)
        sampler.tell(Told(k, params))
        running.append(k)
        if len(running) >= at_once:
            trial = running.pop(draw.randrange(len(running)))
            state = draw.choice(["finished", "finished", "finished", "stopped", "failed"])
            losses = [draw.random(), draw.random(), math.nan, math.inf, -math.inf]
            ends.append(ended(trial, made[trial], state, None if state == "failed" else draw.choice(losses)))
            sampler.tell(ends[-1])


def resumed(made: list[Params], ends: list[Told], *, order: random.Random) -> TPE:
    sampler = TPE()
    for number, params in enumerate(made):
        sampler.tell(Told(number, params))
    for told in order.sample(ends, len(ends)):
        sampler.tell(told)
    return sampler


def test_a_resumed_tpe_proposes_exactly_what_the_uninterrupted_one_does() -> None:
    for k, params, made, ends in uninterrupted(seed=1, n=40):
        assert SPACE.why_not(params) is None
        if k >= 12 and k % 4 == 0:
            assert same(asked(resumed(made, ends, order=random.Random(k)), k, seed=1), params)


def test_of_many_trials_tpe_models_the_best_and_the_newest() -> None:
    draw = random.Random(3)
    some, all_of_them = TPE(newest=250), TPE(newest=None)
    trials = [LINE.sample(Request(k, 0, LINE, 3).stream()) for k in range(900)]
    ends: list[Told] = []
    for k, params in enumerate(trials):
        state = draw.choice(["finished", "stopped", "stopped", "running"])
        losses = () if state == "running" else (draw.random(),)
        ends.append(Told(k, params, cast("Any", state), losses, draw.randrange(1, 4)))
    asked_for = []
    for sampler in (some, all_of_them):
        for told in ends[:250]:
            sampler.tell(told)
        asked_for.append(asked(sampler, 250, space=LINE))
        for told in ends[250:]:
            sampler.tell(told)
        asked(sampler, 900, space=LINE)
    assert same(*asked_for), "with no more than that, they are the same"

    def known(sampler: TPE) -> list[tuple[int, str]]:
        assert sampler._book is not None
        numbers = {trial: ours for ours, trial in sampler._book.ids.items()}
        found = sampler._book.study.get_trials(deepcopy=False)
        return [(numbers[trial._trial_id], trial.state.name) for trial in found if trial._trial_id in numbers]

    finished = sorted((told for told in ends if told.state == "finished"), key=lambda told: told.losses)
    stopped = sorted((told for told in ends if told.state == "stopped"), key=lambda told: (-told.step, told.losses))
    best = {told.trial for told in (*finished[:25], *stopped[:25])}
    shown = [number for number, _ in known(some)]
    assert len(known(all_of_them)) == 900
    assert shown == sorted(shown)
    first = min(set(shown) - best)
    assert set(shown) == best | set(range(first, 900))
    assert 240 < 900 - first <= 250


def test_redraws_are_other_proposals_that_depend_on_the_same_history() -> None:
    (*_, (k, params, made, ends)) = uninterrupted(seed=2, n=25)
    sampler = resumed(made, ends, order=random.Random(0))
    redrawn = [asked(sampler, k, redraw, seed=2) for redraw in range(1, 5)]
    assert all(SPACE.contains(other) and not same(other, params) for other in redrawn)
    again = resumed(made, ends, order=random.Random(1))
    assert [identity(asked(again, k, redraw, seed=2)) for redraw in (4, 3, 2, 1)] == [
        identity(other) for other in reversed(redrawn)
    ]


def test_an_end_that_is_told_twice_is_told_once() -> None:
    (*_, (k, params, made, ends)) = uninterrupted(seed=3, n=20)
    sampler = resumed(made, [*ends, *ends], order=random.Random(0))
    assert same(asked(sampler, k, seed=3), params)


def searched(sampler: Sampler, space: Space, n: int, loss: Callable[[Params], Any], *, seed: int = 0) -> list[Params]:
    """Run a search one trial at a time, and return what was tried."""
    made: list[Params] = []
    for k in range(n):
        params = asked(sampler, k, space=space, seed=seed)
        made.append(params)
        sampler.tell(Told(k, params))
        found = loss(params)
        sampler.tell(Told(k, params, "finished", found if isinstance(found, tuple) else (found,)))
    return made


@pytest.mark.parametrize(
    ("make", "n"), [(TPE, 40), pytest.param(lambda: GP(startup=5), 20, marks=needs_torch), (CMAES, 50)]
)
def test_it_learns_where_good_values_are(make: Any, n: int) -> None:
    made = searched(make(), LINE, n, lambda params: abs(cast("float", params["x"]) - 0.7))
    late = [cast("float", params["x"]) for params in made[n - n // 3 :]]
    assert sum(abs(x - 0.7) < 0.15 for x in late) > len(late) / 2


@pytest.mark.parametrize(("make", "n"), [(lambda: NSGA2(population=10), 100), (TPE, 60)])
def test_with_two_metrics_it_learns_what_lies_between_them(make: Any, n: int) -> None:
    space = Space.of({"x": uniform(0, 1), "y": uniform(0, 1)})

    def losses(params: Params) -> tuple[float, float]:
        x, y = cast("float", params["x"]), cast("float", params["y"])
        return x**2 + y, (1 - x) ** 2 + y

    sampler = make()
    made = []
    for k in range(n):
        params = asked(sampler, k, space=space, metrics=2)
        made.append(params)
        sampler.tell(Told(k, params))
        sampler.tell(Told(k, params, "finished", losses(params)))
    ys = [cast("float", params["y"]) for params in made]
    assert sum(ys[-20:]) < sum(ys[:20]) / 2


def test_cmaes_keeps_its_generations_only_if_its_proposals_become_trials() -> None:
    told_of_its_own = searched(CMAES(), LINE, 30, lambda params: abs(cast("float", params["x"]) - 0.7))
    strange = CMAES()
    for k, params in enumerate(told_of_its_own[:-1]):  # never asked, so none of them belongs to a generation
        strange.tell(Told(k, params))
        strange.tell(ended(k, params, "finished", abs(cast("float", params["x"]) - 0.7)))
    assert not same(asked(strange, 29, space=LINE), told_of_its_own[-1])


@pytest.mark.parametrize(
    ("make", "space", "metrics"),
    [(TPE, SPACE, 1), (TPE, SPACE, 2), (NSGA2, SPACE, 2)]
    + [(make, WITHOUT_BRANCHES, 1) for make in (TPE, CMAES, NSGA2)]
    + [pytest.param(GP, WITHOUT_BRANCHES, 1, marks=needs_torch)],
)
def test_what_it_is_told_to_choose_together_is_what_optuna_would_find(make: Any, space: Space, metrics: int) -> None:
    sampler = make(startup=0) if make is not NSGA2 else make()
    for k in range(12):
        params = space.sample(Request(k, 0, space, 3, metrics).stream())
        sampler.tell(Told(k, params, "finished", (float(k),) * metrics))
    sampler.suggest(Request(12, 0, space, 3, metrics))
    found = sampler._thinker(1).infer_relative_search_space(sampler._book.study, None)
    assert list(found.items()) == list(sampler._book._joint.items())


@pytest.mark.parametrize("make", [TPE, GP, CMAES, NSGA2])
@pytest.mark.parametrize("state", ["invalid", "failed"])
@pytest.mark.parametrize("metrics", [1, 2])
def test_it_turns_away_from_where_trials_are_ruled_out_or_fail(make: Any, state: str, metrics: int) -> None:
    sampler = make()
    if why_not(sampler, LINE, metrics) is not None:
        pytest.skip("it takes one metric")
    bad = 0
    for k in range(30):
        params = sampler.suggest(Request(k, 0, LINE, 3, metrics))
        x = cast("float", params["x"])
        sampler.tell(Told(k, params))
        if x > 0.6:  # the better, the closer to where none can be
            bad += k >= 20
            losses = (math.inf,) * metrics if state == "invalid" else ()
            sampler.tell(Told(k, params, state, losses))
        else:
            sampler.tell(Told(k, params, "finished", (-x,) * metrics))
    assert bad < 8


@pytest.mark.parametrize("make", [TPE, pytest.param(GP, marks=needs_torch), CMAES, NSGA2])
def test_where_nothing_can_be_it_goes_on_proposing(make: Any) -> None:
    sampler = make()
    for k in range(14):
        params = sampler.suggest(Request(k, 0, LINE, 3))
        sampler.tell(Told(k, params))
        sampler.tell(Told(k, params, "invalid", (math.inf,)))
    assert LINE.contains(params)


@pytest.mark.parametrize("make", [TPE, pytest.param(lambda: GP(startup=5), marks=needs_torch)])
def test_a_running_trial_is_known_to_it(make: Any) -> None:
    def proposal(*running: float) -> float:
        sampler = make()
        for k in range(12):
            x = asked(Random(), k, space=LINE)["x"]
            sampler.tell(Told(k, {"x": x}, "finished", (abs(cast("float", x) - 0.7),)))
        for number, x in enumerate(running):
            sampler.tell(Told(12 + number, {"x": x}))
        return cast("float", asked(sampler, 12 + 9, space=LINE)["x"])

    assert proposal() != proposal(0.68, 0.69, 0.7, 0.71, 0.72)


# --- spaces at the edge of what a library takes ---------------------------------------------------


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Return a space without branches of any domains, however far, fine or small."""
    found: dict[str, object] = {}
    for name in ("a", "b", "c"):
        kind = draw(
            st.sampled_from(["plain", "stepped", "log", "integers", "integers, log", "ordered", "choice", "one"])
        )
        low = draw(st.floats(-1e306, 1e306) | st.floats(-10, 10))
        width = draw(st.floats(1e-3, 1e6))
        tiny = draw(st.floats(1e-307, 1e3))
        whole = draw(st.integers(-(2**63), 2**63))
        steps = draw(st.integers(1, 2**63 - 1) | st.integers(1, 20))
        high = low + max(width, 8 * math.ulp(low))
        found[name] = {
            "plain": lambda low=low, high=high: uniform(low, high),
            "stepped": lambda low=low % 1, n=steps % 50 + 1: uniform(low, low + n, step=(low + n - low) / n),
            "log": lambda low=tiny, high=high: loguniform(low, max(2 * low, high)),
            "integers": lambda low=whole, n=steps: integers(low, low + n),
            "integers, log": lambda low=whole % 1000 + 1, n=steps: integers(low, low + n, log=True),
            "ordered": lambda: ordered([None, (1, "x"), True, 2**63]),
            "choice": lambda: choice([None, (1, "x"), True, 1, 1.0]),
            "one": lambda: choice(["only"]),
        }[kind]()
    return Space.of({**found, "x": uniform(0, 1)})


@pytest.mark.parametrize(
    ("make", "metrics"),
    [
        (lambda: TPE(startup=0), 1),
        (lambda: TPE(startup=0), 2),
        (lambda: CMAES(startup=0), 1),
        (lambda: NSGA2(population=2), 2),
        (QMC, 1),
    ],
)
@settings(deadline=None, max_examples=10)
@given(data=st.data())
def test_every_proposal_lies_in_its_space_with_all_its_ends_told(make: Any, metrics: int, data: st.DataObject) -> None:
    space = data.draw(spaces())
    sampler = make()
    for k in range(10):
        ends = {name: domain.grid(2)[-(k % 2)] for name, domain in space.items()}
        params = asked(sampler, k, space=space, metrics=metrics)
        assert space.why_not(params) is None
        sampler.tell(Told(k, params if k > 3 else ends))
        sampler.tell(Told(k, params if k > 3 else ends, "finished", (float(k % 2),) * metrics))


# --- by name, and which fit -----------------------------------------------------------------------


def test_samplers_are_found_by_name_and_described_by_their_calls() -> None:
    assert list(SAMPLERS.classes) == ["random", "grid", "qmc", "tpe", "gp", "cmaes", "nsga2"]
    assert {type(SAMPLERS.make(name)) for name in SAMPLERS.classes} == set(SAMPLERS.classes.values())
    options = [TPE(startup=20), GP(startup=0), CMAES(startup=3), NSGA2(population=7), Grid(points=4), QMC(), Random()]
    for sampler in options:
        again = SAMPLERS.from_plain(cast("dict[str, Any]", SAMPLERS.to_plain(sampler)))
        assert SAMPLERS.describe(again) == SAMPLERS.describe(sampler)
    assert [SAMPLERS.describe(sampler) for sampler in options[3:6]] == [
        "NSGA2(population=7)",
        "Grid(points=4)",
        "QMC()",
    ]
    with pytest.raises(ConfigError) as refused:
        make_sampler("gpp", SPACE)
    assert str(refused.value) == (
        "sampler='gpp' is not known. Did you mean 'gp'? There are: 'random', 'grid', 'qmc', 'tpe', 'gp', 'cmaes', "
        "'nsga2'."
    )


@pytest.mark.parametrize("given", [5, None, int, object()])
def test_what_is_no_sampler_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        make_sampler(given, SPACE)
    assert "is no sampler. Pass one of 'random', 'grid', " in str(refused.value)
    assert str(refused.value).endswith("or an object with tell(told) and suggest(request).")


def test_a_class_is_no_sampler_yet() -> None:
    class Own:
        def tell(self, told: Told) -> None: ...

        def suggest(self, request: Request) -> Params:
            return {}

    for cls, name in ((TPE, "etude.TPE"), (Own, Own.__qualname__)):
        with pytest.raises(ConfigError) as refused:
            make_sampler(cast("Sampler", cls), SPACE)
        assert str(refused.value) == f"sampler={name} is a class, and no sampler yet. Call it: sampler={name}()."


@needs_torch  # without it, the sampler that wants it is not among those that can
@pytest.mark.parametrize(
    ("make", "space", "metrics", "message"),
    [
        (
            GP,
            SPACE,
            1,
            "sampler=GP() cannot be used here: it takes no conditional parameters, and the space has 4 such "
            "parameters: 'momentum', 'nesterov', 'beta', .... These can: 'random', 'qmc', 'tpe', 'nsga2'.",
        ),
        (
            CMAES,
            FEW,
            1,
            "sampler=CMAES() cannot be used here: it takes no conditional parameters, and the space has 1 such "
            "parameter: 'd'. These can: 'random', 'grid', 'qmc', 'tpe', 'nsga2'.",
        ),
        (
            CMAES,
            Space.of({"a": ["x", "y"], "b": [1, 2], "c": ordered([5])}),
            1,
            "sampler=CMAES() cannot be used here: it adapts numbers and ordered values, and the space has none. "
            "These can: 'random', 'grid', 'qmc', 'tpe', 'gp', 'nsga2'.",
        ),
        (
            CMAES,
            LINE,
            2,
            "sampler=CMAES() cannot be used here: it takes one metric, and there are 2. "
            "These can: 'random', 'qmc', 'tpe', 'gp', 'nsga2'.",
        ),
        (
            Grid,
            LINE,
            1,
            "sampler=Grid() cannot be used here: 'x' is a continuum; say how many of its values to try: "
            "sampler=etude.Grid(points=5). These can: 'random', 'qmc', 'tpe', 'gp', 'cmaes', 'nsga2'.",
        ),
        (
            Grid,
            Space.of({"a": integers(0, 2**63), "b": [1, 2]}),
            1,
            "sampler=Grid() cannot be used here: it would have 18,446,744,073,709,551,618 points, and 1,000,000 are "
            "the most; thin its numbers: sampler=etude.Grid(points=5). These can: 'random', 'qmc', 'tpe', 'gp', "
            "'cmaes', 'nsga2'.",
        ),
        (
            lambda: Grid(points=99),
            Space.of({name: integers(0, 100) for name in "abcd"}),
            1,
            "sampler=Grid(points=99) cannot be used here: it would have 96,059,601 points, and 1,000,000 are the most; "
            "thin its numbers: with fewer points than 99. These can: 'random', 'qmc', 'tpe', 'gp', 'cmaes', 'nsga2'.",
        ),
        (
            CMAES,
            Space.of({"kind": choice({"sgd": {"momentum": uniform(0, 1)}, "adam": {}})}),
            1,
            "sampler=CMAES() cannot be used here: it takes no conditional parameters, and the space has 1 such "
            "parameter: 'momentum'. These can: 'random', 'qmc', 'tpe', 'nsga2'.",
        ),
    ],
)
def test_a_sampler_that_cannot_handle_the_space_is_refused_with_those_that_can(
    make: Any, space: Space, metrics: int, message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        make_sampler(make(), space, metrics=metrics)
    assert str(refused.value) == message


def test_a_sampler_whose_packages_are_missing_is_refused_with_the_way_to_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = types.SimpleNamespace(util=types.SimpleNamespace(find_spec=lambda name: None))
    monkeypatch.setattr(protocol, "importlib", there)
    for call, told in (
        ("GP", "needs scipy and torch, which are not installed (pip install 'etude[gp]')"),
        ("CMAES", "needs cmaes, which is not installed (pip install 'etude[cmaes]')"),
        ("QMC", "needs scipy, which is not installed (pip install 'etude[qmc]')"),
    ):
        with pytest.raises(ConfigError) as refused:
            make_sampler(call.lower(), LINE)
        assert str(refused.value) == (
            f"sampler={call}() cannot be used here: it {told}. These can: 'random', 'tpe', 'nsga2'."
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TPE(startup=-1), "startup=-1 cannot be: it counts random draws. Pass startup=0 or more."),
        (
            lambda: TPE(newest=100),
            "newest=100 cannot be: with fewer it would take fewer trials for good ones. Pass newest=250 or more.",
        ),
        (lambda: GP(startup=cast("int", 1.5)), "startup=1.5 (float) is no whole number. Pass one."),
        (lambda: CMAES(startup=cast("int", True)), "startup=True (bool) is no whole number. Pass one."),
        (
            lambda: NSGA2(population=1),
            "population=1 cannot be: it takes two parents to have a child. Pass population=2 or more.",
        ),
        (lambda: Grid(points=0), "points=0 cannot be: it counts the values of each number. Pass points=1 or more."),
    ],
)
def test_options_that_cannot_be_are_refused_where_they_are_given(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert str(refused.value) == message


def test_a_sampler_that_is_given_twice_starts_anew_each_time() -> None:
    mine = TPE(startup=0)
    mine.tell(ended(0, {"x": 0.5}, "finished", 1.0))
    assert make_sampler(mine, LINE) is not mine
    assert same(asked(make_sampler(mine, LINE), 1, space=LINE), asked(TPE(startup=0), 1, space=LINE))
