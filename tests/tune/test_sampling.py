"""The sampler's process and the driver's end of it: what goes over the wire, and in which order."""

import asyncio
import math
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from etude.core.errors import StudyError
from etude.core.events import Assigned, How, Joined, Outcome, Params, Queued, Reported, Settled
from etude.core.history import History, identity
from etude.core.lifecycle import State, Turn
from etude.core.metrics import Metrics
from etude.tune import sampling
from etude.tune.by_optuna import TPE
from etude.tune.domains import integers, loguniform
from etude.tune.sampler import Request, Told
from etude.tune.sampler_link import SamplerLink
from etude.tune.samplers import Random
from etude.tune.sampling import Answer, Ask, SetUp, Tell
from etude.tune.spaces import Space
from etude.tune.story import Story, as_told
from etude.wire.channel import Channel

SPACE = Space.of({"lr": loguniform(1e-4, 1.0), "n": integers(1, 100), "c": [(1, (2, None)), True, 1, 1.0]})
METRICS = Metrics({"m": "max"})


def same(one: Params, other: Params) -> bool:
    return identity(one) == identity(other)


def asked(sampler: Any, k: int, redraw: int = 0, *, seed: int = 4) -> Params:
    params: Params = sampler.suggest(Request(k, redraw, SPACE, seed))
    return params


# --- in a process of its own ----------------------------------------------------------------------

SET_UP = SetUp.of(TPE(), SPACE, seed=4, metrics=1)


class Nonsense:
    """Returns whatever it was made with; raises it if that can be raised."""

    def __init__(self, what: Any) -> None:
        self.what = what

    def tell(self, told: Told) -> None:
        pass

    def suggest(self, request: Request) -> Any:
        if isinstance(self.what, Exception):
            raise self.what
        return self.what


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
    k, made = 14, [asked(Random(), number) for number in range(14)]
    ends = [Told(number, made[number], "finished", (float(number),)) for number in range(12)]
    here = TPE()
    for told in [*(Told(number, params) for number, params in enumerate(made)), *ends]:
        here.tell(told)
    params = asked(here, k)
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
    assert "has no attribute 'seed'" in failed.problem
    assert (again.k, again.problem) == (4, failed.problem)


def served(*messages: Any) -> Answer:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for message in messages:
            Channel(ours).send(sampling.encode(message))
        ours.shutdown(socket.SHUT_WR)
        sampling.serve(Channel(theirs))
        return answer(Channel(ours))


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([SetUp({"no": "space"}, 0, sampler={"name": "tpe"})], "SpaceError: {'no': 'space'} cannot be read as a space"),
        ([SET_UP, *(Tell(Told(k, {"lr": 0.1})) for k in range(10)), Ask(10, 0)], "KeyError: 'n'"),
        ([SetUp.of(Nonsense(ValueError("no idea")), SPACE, seed=0, metrics=1)], "ValueError: no idea"),
    ],
)
def test_what_goes_wrong_before_a_question_is_its_answer(messages: list[Any], problem: str) -> None:
    got = served(*messages, Ask(0, 0))
    assert got.params is None
    assert not got.refused
    assert got.problem.startswith("Traceback (most recent call last):")
    assert problem in got.problem


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (None, "None (NoneType) as proposal 3: that is no dict"),
        ({}, "{} (dict) as proposal 3: lr is missing"),
        ({"lr": 5.0, "n": 1, "c": 1}, "{'lr': 5.0, 'n': 1, 'c': 1} (dict) as proposal 3: lr=5.0 is above 1.0"),
        (
            {"lr": 0.5, "n": 1, "c": 1, "more": 2},
            "{'lr': 0.5, 'n': 1, 'c': 1, 'more': 2} (dict) as proposal 3: more is not in the space, which has lr, n, c",
        ),
        (
            {"lr": 0.5, "n": 1, "c": [1, 2]},
            "{'lr': 0.5, 'n': 1, 'c': [1, 2]} (dict) as proposal 3: The value [1, 2] is of type 'list', which is not "
            "plain (None, bool, int, float, str, or a tuple of those). Write a tuple",
        ),
        ({1: 2}, "{1: 2} (dict) as proposal 3: lr is missing"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_the_sampler(what: Any, why: str) -> None:
    got = served(SetUp.of(Nonsense(what), SPACE, seed=0, metrics=1), Ask(3, 0))
    assert got.refused
    assert got.problem == (
        f"The sampler {__name__}.Nonsense returned {why}. Return a dict with a value of its domain for every "
        "parameter, as request.space.sample(request.stream()) does."
    )


def test_numbers_of_numpy_are_the_numbers_that_they_stand_for() -> None:
    given = {"lr": np.float64(0.5), "n": np.int64(3), "c": 1.0}
    got = served(SetUp.of(Nonsense(given), SPACE, seed=0, metrics=1), Ask(3, 0))
    assert got.params is not None
    assert same(got.params, {"lr": 0.5, "n": 3, "c": 1.0})


# --- the driver's end -----------------------------------------------------------------------------


class Shell:
    """What a study is to the link: a history, and two ears."""

    def __init__(self) -> None:
        self.history = History(METRICS)
        self.facts: list[Any] = []
        self.answers: list[tuple[Answer, int]] = []
        self.errors: list[BaseException] = []
        self._changed = asyncio.Event()

    def link(self, set_up: SetUp = SET_UP, *, recalls: bool = False) -> SamplerLink:
        link = SamplerLink(set_up, self.history, recalls=recalls, answered=self._on_answer, failed=self._on_error)
        link.tell(self.facts)
        return link

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
            self.facts.append(fact)
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
    sampler = TPE()
    for trial in history.trials:
        sampler.tell(Told(trial.number, trial.params))
    for trial in history.trials:
        if trial.outcome is not None:
            sampler.tell(as_told(trial, METRICS))
    return asked(sampler, k)


@in_loop
async def test_the_link_tells_all_that_was_and_all_that_comes_and_asks_one_thing_at_a_time() -> None:
    shell = Shell()
    for number in range(12):
        shell.queue(asked(Random(), number))
        shell.finish(number, 0.1 * number)
    link = shell.link()
    try:
        seq = shell.history.seq
        link.ask([(12, 0)])
        link.ask([(13, 0)])
        await shell.heard(1)
        answered, upto = shell.answers[0]
        assert upto == seq
        assert answered.params is not None
        assert same(answered.params, expected(shell.history, 12))
        shell.queue(answered.params, link=link)
        shell.finish(12, math.nan, link=link)
        assert len(shell.answers) == 1  # the next question waits for what became of the last one
        link.ask()
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
    link.ask([(0, 0)])
    await shell.heard(1)
    link._process.kill()
    await shell.heard(2)
    link.close()
    assert [str(error) for error in shell.errors] == [
        "The sampler's process ended with code -9. What has ended is kept, and the same call goes on."
    ]
    assert isinstance(shell.errors[0], StudyError)


@in_loop
async def test_a_problem_arrives_as_an_answer() -> None:
    shell = Shell()
    link = shell.link(SetUp({}, 0, sampler={"name": "tpe"}))
    link.ask([(0, 0)])
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
    for number in range(4):
        shell.queue({"n": number})
    shell.finish(0, 0.25)
    worker = [Joined(at=0.0, worker="w"), Assigned(at=0.0, trial=1, attempt=1, worker="w")]
    reports = [Reported(at=0.0, trial=1, attempt=1, step=n, metrics={"m": 0.1 * n}) for n in (1, 2)]
    for fact in (*worker, *reports):
        shell.history.apply(fact)
    shell.history.trials[1].state = State.STOPPED
    shell.history.trials[2].state = State.FAILED
    shell.history.trials[3].state = State.INVALID
    assert [as_told(trial, METRICS) for trial in shell.history.trials] == [
        Told(0, {"n": 0}, "finished", (-0.25,), 0),
        Told(1, {"n": 1}, "stopped", (-0.2,), 2),
        Told(2, {"n": 2}, "failed", (), 0),
        Told(3, {"n": 3}, "invalid", (math.inf,), 0),
    ]
    assert as_told(shell.history.trials[0], Metrics({"m": "min"})).losses == (0.25,)


@in_loop
async def test_a_proposal_that_was_taken_is_asked_for_again_before_anything_else_and_nothing_is_told_between() -> None:
    shell = Shell()
    shell.queue(asked(Random(), 0))
    link = shell.link(SetUp.of(Diary(), SPACE, seed=4, metrics=1), recalls=True)
    try:
        link.ask([(1, 0), (2, 0)])
        await shell.heard(1)
        shell.finish(0, 1.0, link=link)  # it happens while the first proposal turns out to be taken
        link.ask([(3, 0), (1, 1)])
        await shell.heard(2)
        (_, known), (again, then) = shell.answers
        assert (again.k, again.redraw) == (1, 1)
        assert then == known  # so the journal says rightly what it knew both times
        assert again.params is not None
        shell.queue(again.params, link=link)
        link.ask()
        await shell.heard(3)
        (_, _, (other, upto), *_) = shell.answers
        assert (other.k, other.redraw, upto) == (2, 0, shell.history.seq)
        assert other.params is not None
    finally:
        link.close()
    assert [answer.params["n"] for answer, _ in shell.answers[:3] if answer.params] == [1, 2, 5]


class Diary:
    """A sampler that counts what was said to it, and proposes the number."""

    def __init__(self) -> None:
        self.said = 0

    def tell(self, told: Told) -> None:
        self.said += 1

    def suggest(self, request: Request) -> Params:
        self.said += 1
        return {"lr": 0.5, "n": self.said - 1, "c": True}


def test_what_was_said_is_told_again_in_its_order_with_the_questions_if_the_sampler_recalls() -> None:
    history = History(METRICS)
    facts: list[Any] = []
    stories = {recalls: Story(history, recalls=recalls) for recalls in (True, False)}

    def add(fact: Any) -> None:
        facts.append(fact)
        history.apply(fact)
        for story in stories.values():
            story.add(fact)

    add(Joined(at=0.0, worker="w"))
    add(Queued(at=0.0, trial=0, params={"n": 0}, seed=0))
    add(Assigned(at=0.0, trial=0, attempt=1, worker="w"))
    add(Settled(at=0.0, trial=0, turn=Turn.FINISHED, attempt=1, outcome=Outcome(How.FINISHED, value=0.5)))
    add(Queued(at=0.0, trial=1, params={"n": 1}, seed=0, upto=2, redraw=1))  # asked before the first one had ended
    add(Queued(at=0.0, trial=2, params={"n": 2}, seed=0, upto=5))
    running = [Tell(Told(number, {"n": number})) for number in range(3)]
    end = Tell(Told(0, {"n": 0}, "finished", (-0.5,)))
    first, redraw, second = Ask(1, 0, again=True), Ask(1, 1, again=True), Ask(2, 0, again=True)
    assert stories[True].tell() == [running[0], first, redraw, end, running[1], second, running[2]]
    assert stories[False].tell() == [running[0], end, running[1], running[2]]


@in_loop
async def test_its_process_has_one_thread_for_libraries_that_would_take_all_cores() -> None:
    shell = Shell()
    link = shell.link(SetUp.of(Threads(), SPACE, seed=4, metrics=1))
    try:
        link.ask([(0, 0)])
        await shell.heard(1)
    finally:
        link.close()
    params = shell.answers[0][0].params
    assert params is not None
    assert params["n"] == 1


class Threads:
    """A sampler that proposes as many as numpy's library has threads."""

    def tell(self, told: Told) -> None:
        pass

    def suggest(self, request: Request) -> Params:
        import numpy  # noqa: F401 - its library makes its threads when it is imported
        import threadpoolctl

        return {"lr": 0.5, "n": max(pool["num_threads"] for pool in threadpoolctl.threadpool_info()), "c": True}
