"""Samplers: a proposal depends on the seed, its number and what was told, here and in a process of its own."""

import asyncio
import math
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etude.core.errors import ConfigError, StudyError
from etude.core.events import Assigned, How, Joined, Outcome, Params, Queued, Reported, Settled
from etude.core.history import History, identity
from etude.core.lifecycle import Turn
from etude.testing import check_sampler
from etude.tune import sampling
from etude.tune.domains import integers, loguniform, ordered, uniform
from etude.tune.sampler_link import SamplerLink, as_told
from etude.tune.samplers import TPE, Random, Sampler, Told, make_sampler
from etude.tune.sampling import Answer, Ask, SetUp, Tell
from etude.tune.spaces import Space, choice
from etude.wire.channel import Channel

SPACE = Space.of(
    {
        "lr": loguniform(1e-4, 1.0),
        "drop": uniform(0, 1),
        "third": uniform(0, 1, step=1 / 3),
        "n": integers(1, 100, log=True),
        "every": integers(0, 10, step=5),
        "size": ordered([(1, (2, None)), (3,), None, "s"]),
        "optimizer": choice(
            {
                "sgd": {"momentum": uniform(0, 1), "nesterov": [True, False, 1, 1.0]},
                "adam": {"beta": choice({(0.9, (0.99,)): {"eps": loguniform(1e-9, 1e-3)}, None: {}})},
            }
        ),
        "fixed": 5,
    }
)


def same(one: Params, other: Params) -> bool:
    return identity(one) == identity(other)


def ending(trial: int, params: Params, state: str, loss: float | None = None) -> Told:
    return Told(trial, params, state, loss, 0 if loss is None else 3)


# --- random ---------------------------------------------------------------------------------------


@given(st.integers(), st.lists(st.tuples(st.integers(0, 50), st.integers(0, 8)), max_size=20))
def test_a_random_proposal_depends_on_seed_and_number_alone(seed: int, asked: list[tuple[int, int]]) -> None:
    sampler = Random(SPACE, seed=seed)
    for k, redraw in asked:
        assert same(sampler.suggest(k, redraw), Random(SPACE, seed=seed).suggest(k, redraw))
        assert SPACE.contains(sampler.suggest(k, redraw))


def test_redraws_and_numbers_give_other_proposals() -> None:
    sampler = Random(SPACE, seed=0)
    drawn = {repr(identity(sampler.suggest(k, redraw))) for k in range(20) for redraw in range(9)}
    assert len(drawn) == 180
    assert not same(Random(SPACE, seed=1).suggest(0, 0), sampler.suggest(0, 0))


def test_random_proposals_are_equal_in_every_process() -> None:
    code = (
        "from etude import Space, uniform, choice; from etude.tune.samplers import Random; "
        "s = Random(Space.of({'a': uniform(0, 1), 'b': choice(['x', 'y', 'z'])}), seed=3); "
        "print([s.suggest(k, 0) for k in range(5)])"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
        ).stdout
        for hash_seed in ("0", "1")
    }
    space = Space.of({"a": uniform(0, 1), "b": choice(["x", "y", "z"])})
    sampler = Random(space, seed=3)
    assert printed == {f"{[sampler.suggest(k, 0) for k in range(5)]}\n"}


# --- what every sampler promises ------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [Random, TPE])
@pytest.mark.parametrize("seed", [0, 2**70, -1])
def test_ours_keep_what_every_sampler_promises(sampler: Any, seed: int) -> None:
    made = check_sampler(lambda: sampler(SPACE, seed=seed), SPACE, proposals=16)
    assert len(made) == 16


class Broken:
    """A sampler that breaks the promise that it is told to break."""

    def __init__(self, promise: str) -> None:
        self.promise = promise
        self.asked = 0
        self.told: list[Told] = []

    def needs_history(self, k: int) -> bool:
        return cast("bool", None) if self.promise == "says True or False" else self.promise != "needs no history"

    def tell(self, told: Told) -> None:
        self.told.append(told)

    def suggest(self, k: int, redraw: int) -> Params:
        self.asked += 1
        match self.promise:
            case "lies in the space":
                return {"x": 2.0}
            case "plain values":
                return {"x": Half()}
            case "asked again":
                return {"x": 1 / self.asked}
            case "needs no history":
                return {"x": 1 / (1 + len(self.told))}
            case "ended in another order":
                return {"x": 1 / (1 + sum(n * told.trial for n, told in enumerate(self.told)))}
        return {"x": 0.5}


class Half(float):
    """A number that is more than a number."""

    def __new__(cls) -> "Half":
        return super().__new__(cls, 0.5)


@pytest.mark.parametrize(
    "promise",
    [
        "says True or False",
        "lies in the space",
        "asked again",
        "needs no history",
        "ended in another order",
    ],
)
def test_the_check_finds_a_sampler_that_breaks_a_promise(promise: str) -> None:
    space = Space.of({"x": uniform(0, 1)})
    with pytest.raises(AssertionError, match=promise):
        check_sampler(lambda: Broken(promise), space)
    check_sampler(lambda: Broken("none"), space)


def test_the_check_finds_a_proposal_that_cannot_be_sent() -> None:
    with pytest.raises(TypeError, match="Half"):
        check_sampler(lambda: Broken("plain values"), Space.of({"x": uniform(0, 1)}))


# --- TPE ------------------------------------------------------------------------------------------


def uninterrupted(seed: int, n: int, *, at_once: int = 4) -> Iterator[tuple[int, Params, list[Params], list[Told]]]:
    """Run a search with ends of every kind in any order; yield proposal k and all that had been told."""
    sampler, draw = TPE(SPACE, seed=seed), random.Random(seed)
    made: list[Params] = []
    ends: list[Told] = []
    running: list[int] = []
    for k in range(n):
        params = sampler.suggest(k, 0)
        yield k, params, list(made), list(ends)
        if k % 5 == 0:
            sampler.suggest(k, 1)  # whoever asks for another one moves nothing
        made.append(params)
        sampler.tell(Told(k, params))
        running.append(k)
        if len(running) >= at_once:
            trial = running.pop(draw.randrange(len(running)))
            state = draw.choice(["finished", "finished", "finished", "stopped", "failed"])
            losses = [draw.random(), draw.random(), math.nan, math.inf, -math.inf]
            ends.append(ending(trial, made[trial], state, None if state == "failed" else draw.choice(losses)))
            sampler.tell(ends[-1])


def resumed(seed: int, made: list[Params], ends: list[Told], *, order: random.Random) -> TPE:
    sampler = TPE(SPACE, seed=seed)
    for number, params in enumerate(made):
        sampler.tell(Told(number, params))
    for told in order.sample(ends, len(ends)):
        sampler.tell(told)
    return sampler


@pytest.mark.filterwarnings("error")
def test_a_resumed_search_proposes_exactly_what_the_uninterrupted_one_does(capfd: pytest.CaptureFixture[str]) -> None:
    for k, params, made, ends in uninterrupted(seed=1, n=40):
        assert SPACE.why_not(params) is None
        if k >= 12 and k % 4 == 0:
            assert same(resumed(1, made, ends, order=random.Random(k)).suggest(k, 0), params)
    assert capfd.readouterr() == ("", "")


def test_redraws_are_other_proposals_that_depend_on_the_same_history() -> None:
    (*_, (k, params, made, ends)) = uninterrupted(seed=2, n=25)
    sampler = resumed(2, made, ends, order=random.Random(0))
    redrawn = [sampler.suggest(k, redraw) for redraw in range(1, 5)]
    assert all(SPACE.contains(other) and not same(other, params) for other in redrawn)
    again = resumed(2, made, ends, order=random.Random(1))
    assert [identity(again.suggest(k, redraw)) for redraw in (4, 3, 2, 1)] == list(map(identity, reversed(redrawn)))


def test_an_end_that_is_told_twice_is_told_once() -> None:
    (*_, (k, params, made, ends)) = uninterrupted(seed=3, n=20)
    sampler = resumed(3, made, [*ends, *ends], order=random.Random(0))
    assert same(sampler.suggest(k, 0), params)


def test_it_learns_where_good_values_are() -> None:
    space = Space.of({"x": uniform(0, 1)})
    sampler = TPE(space, seed=0)
    made: list[float] = []
    for k in range(40):
        params = sampler.suggest(k, 0)
        made.append(cast("float", params["x"]))
        sampler.tell(Told(k, params, "finished", abs(made[-1] - 0.7), 1))
    late = made[25:]
    assert sum(abs(x - 0.7) < 0.15 for x in late) > len(late) / 2


def test_a_running_trial_is_known_to_it() -> None:
    space = Space.of({"x": uniform(0, 1)})

    def proposal(*running: float) -> float:
        sampler = TPE(space, seed=0)
        for k in range(12):
            x = sampler.suggest(k, 0)["x"] if k < 10 else 0.5
            sampler.tell(Told(k, {"x": x}, "finished", abs(cast("float", x) - 0.7), 1))
        for number, x in enumerate(running):
            sampler.tell(Told(12 + number, {"x": x}))
        return cast("float", sampler.suggest(12 + 9, 0)["x"])

    assert proposal() != proposal(0.68, 0.69, 0.7, 0.71, 0.72)


@settings(deadline=None, max_examples=15)
@given(st.data())
def test_every_proposal_lies_in_its_space_at_the_ends_of_every_domain(data: st.DataObject) -> None:
    low = data.draw(st.floats(-1e6, 1e6))
    step = data.draw(st.floats(1e-3, 1e3))
    n = data.draw(st.integers(1, 50))
    high = low + n * step
    tiny = data.draw(st.floats(1e-300, 1.0))
    space = Space.of(
        {
            "stepped": uniform(low, high, step=(high - low) / n),
            "plain": uniform(low, high),
            "log": loguniform(tiny, tiny * 2),
            "big": integers(10**15, 10**15 + n),
            "one": ordered(["only"]),
        }
    )
    sampler = TPE(space, seed=0)
    ends = [min, max]
    for k in range(10):
        pick = ends[k % 2]
        params = {name: pick(domain.grid(2)) for name, domain in space.items()}  # type: ignore[type-var]
        sampler.tell(Told(k, params, "finished", float(k % 2), 1))
    for k in range(10, 14):
        assert space.why_not(sampler.suggest(k, 0)) is None


def test_a_sampler_is_found_by_name() -> None:
    assert isinstance(make_sampler("random", SPACE, seed=0), Random)
    assert isinstance(make_sampler("tpe", SPACE, seed=0), TPE)
    with pytest.raises(ConfigError) as refused:
        make_sampler("gp", SPACE, seed=0)
    assert str(refused.value) == "sampler='gp' is not known. There are: 'random', 'tpe'."


# --- in a process of its own ----------------------------------------------------------------------

SET_UP = SetUp("tpe", SPACE.to_dict(), 4)


@contextmanager
def process() -> Iterator[tuple[Channel, "subprocess.Popen[bytes]"]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-W", "error", "-m", "etude.tune.sampling", str(theirs.fileno())]
        child = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
        theirs.close()
        ours.settimeout(60)
        with child:
            try:
                yield Channel(ours), child
            finally:
                ours.close()


def answer(channel: Channel) -> Answer:
    content = channel.receive()
    assert content is not None
    return sampling.decode_answer(content)


def test_the_process_answers_as_the_sampler_would_with_every_type_intact_and_leaves_with_its_driver() -> None:
    (*_, (k, params, made, ends)) = uninterrupted(seed=4, n=18)
    with process() as (channel, child):
        channel.send(sampling.encode(SET_UP))
        for number, earlier in enumerate(made):
            channel.send(sampling.encode(Tell(Told(number, earlier))))
        for told in ends:
            channel.send(sampling.encode(Tell(told)))
        channel.send(sampling.encode(Ask(k, 0)))
        channel.send(sampling.encode(Ask(k, 1)))
        first, second = answer(channel), answer(channel)
    assert (first.k, first.redraw, first.problem) == (k, 0, "")
    assert first.params is not None
    assert second.params is not None
    assert same(first.params, params)
    assert not same(second.params, params)
    assert child.returncode == 0
    assert child.stderr is not None
    assert child.stderr.closed


def test_a_sampler_that_raises_answers_with_the_traceback() -> None:
    with process() as (channel, child):
        channel.send(sampling.encode(Ask(3, 1)))  # before it was set up
        failed = answer(channel)
        channel.send(sampling.encode(Ask(4, 0)))
        again = answer(channel)
        channel.sock.close()
        assert child.stderr is not None
        assert child.stderr.read() == b""
    assert (failed.k, failed.redraw, failed.params) == (3, 1, None)
    assert failed.problem.startswith("Traceback (most recent call last):")
    assert "has no attribute 'suggest'" in failed.problem
    assert (again.k, again.problem) == (4, failed.problem)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([SetUp("gp", SPACE.to_dict(), 0)], "ConfigError: sampler='gp' is not known."),
        ([SetUp("tpe", {"no": "space"}, 0)], "SpaceError: {'no': 'space'} cannot be read as a space"),
        ([SET_UP, Tell(Told(0, {"lr": 0.1}))], "KeyError: 'drop'"),
    ],
)
def test_what_goes_wrong_before_a_question_is_its_answer(messages: list[Any], problem: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for message in [*messages, Ask(0, 0)]:
            Channel(ours).send(sampling.encode(message))
        ours.shutdown(socket.SHUT_WR)
        sampling.serve(Channel(theirs))
        got = answer(Channel(ours))
    assert got.params is None
    assert problem in got.problem


# --- the driver's end -----------------------------------------------------------------------------


class Shell:
    """What a study is to the link: a history, and two ears."""

    def __init__(self) -> None:
        self.history = History("m")
        self.answers: list[tuple[Answer, int]] = []
        self.errors: list[BaseException] = []
        self._changed = asyncio.Event()

    def link(self, set_up: SetUp = SET_UP) -> SamplerLink:
        return SamplerLink(set_up, self.history, mode="max", answered=self._on_answer, failed=self._on_error)

    def _on_answer(self, answer: Answer, upto: int) -> None:
        self.answers.append((answer, upto))
        self._changed.set()

    def _on_error(self, error: BaseException) -> None:
        self.errors.append(error)
        self._changed.set()

    async def heard(self, n: int) -> None:
        async with asyncio.timeout(60):
            while len(self.answers) + len(self.errors) < n:
                self._changed.clear()
                await self._changed.wait()

    def queue(self, params: Params, *, link: SamplerLink | None = None) -> None:
        number = len(self.history.trials)
        self._fold(link, Queued(at=0.0, trial=number, params=params, seed=0))

    def finish(self, trial: int, value: float, *, link: SamplerLink | None = None) -> None:
        worker = f"{trial}"
        self._fold(link, Joined(at=0.0, worker=worker), Assigned(at=0.0, trial=trial, attempt=1, worker=worker))
        outcome = Outcome(How.FINISHED, value=value)
        self._fold(link, Settled(at=0.0, trial=trial, turn=Turn.FINISHED, attempt=1, outcome=outcome))

    def _fold(self, link: SamplerLink | None, *facts: Any) -> None:
        for fact in facts:
            self.history.apply(fact)
        if link is not None:
            link.tell(facts)


def in_loop(test: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        async def with_time_to_close() -> None:
            await test()
            for _ in range(3):
                await asyncio.sleep(0)

        asyncio.run(with_time_to_close())

    run.__name__ = test.__name__
    return run


def expected(history: History, k: int) -> Params:
    """Return what a sampler in this process proposes after this history."""
    sampler = TPE(SPACE, seed=SET_UP.seed)
    for trial in history.trials:
        sampler.tell(Told(trial.number, trial.params))
    for trial in history.trials:
        if trial.outcome is not None:
            sampler.tell(as_told(trial, mode="max"))
    return sampler.suggest(k, 0)


@in_loop
async def test_the_link_tells_all_that_was_and_all_that_comes_and_asks_one_thing_at_a_time() -> None:
    shell = Shell()
    first = Random(SPACE, seed=9)
    for number in range(12):
        shell.queue(first.suggest(number, 0))
        shell.finish(number, 0.1 * number)
    link = shell.link()
    try:
        seq = shell.history.seq
        link.ask(12, 0)
        link.ask(13, 0)
        await shell.heard(1)
        answered, upto = shell.answers[0]
        assert upto == seq
        assert answered.params is not None
        assert same(answered.params, expected(shell.history, 12))
        shell.queue(answered.params, link=link)
        shell.finish(12, math.nan, link=link)
        await shell.heard(2)
        answered, upto = shell.answers[1]
        assert (answered.k, upto) == (13, shell.history.seq)
        assert answered.params is not None
        assert same(answered.params, expected(shell.history, 13))
    finally:
        link.close()
    assert shell.errors == []


@in_loop
async def test_a_sampler_that_dies_is_told_once() -> None:
    shell = Shell()
    link = shell.link()
    link.ask(0, 0)
    await shell.heard(1)
    link._process.kill()
    await shell.heard(2)
    link.close()
    assert [str(error) for error in shell.errors] == ["The sampler's process ended with code -9."]
    assert isinstance(shell.errors[0], StudyError)


@in_loop
async def test_a_problem_arrives_as_an_answer() -> None:
    shell = Shell()
    link = shell.link(SetUp("gp", {}, 0))
    link.ask(0, 0)
    await shell.heard(1)
    link.close()
    assert shell.answers[0][0].params is None
    assert "cannot be read as a space" in shell.answers[0][0].problem


@in_loop
async def test_a_link_can_be_closed_before_it_was_open_and_again() -> None:
    shell = Shell()
    link = shell.link()
    link.close()
    link.close()
    assert shell.errors == []


def test_a_sampler_minimises_so_a_metric_to_be_maximised_is_turned_round() -> None:
    shell = Shell()
    for number in range(3):
        shell.queue({"n": number})
    shell.finish(0, 0.25)
    worker = [Joined(at=0.0, worker="w"), Assigned(at=0.0, trial=1, attempt=1, worker="w")]
    reports = [Reported(at=0.0, trial=1, attempt=1, step=n, metrics={"m": 0.1 * n}) for n in (1, 2)]
    for fact in (*worker, *reports):
        shell.history.apply(fact)
    shell.history.trials[1].state = type(shell.history.trials[1].state).STOPPED
    shell.history.trials[2].state = type(shell.history.trials[2].state).FAILED
    told = [as_told(trial, mode="max") for trial in shell.history.trials]
    assert told == [
        Told(0, {"n": 0}, "finished", -0.25, 0),
        Told(1, {"n": 1}, "stopped", -0.2, 2),
        Told(2, {"n": 2}, "failed", None, 0),
    ]
    assert as_told(shell.history.trials[0], mode="min").loss == 0.25


def test_the_protocol_is_what_ours_have() -> None:
    samplers: list[Sampler] = [Random(SPACE, seed=0), TPE(SPACE, seed=0)]
    assert [sampler.needs_history(9) for sampler in samplers] == [False, False]
    assert [sampler.needs_history(10) for sampler in samplers] == [False, True]
