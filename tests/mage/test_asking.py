"""Asking: how many requests are really sent, how long is waited, what is charged, and what is never asked again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from llm_server import QUOTA_OPENAI, SPEND_LIMIT_ANTHROPIC, LLMServer, Step
from test_backends import KEY, REQUEST, SERVICES, ask_sdk, backend_at, sdk_at

from etude.core.clock import VirtualClock
from etude.core.errors import BackendError, BudgetSpent
from etude.mage.asking.asker import SMALL, Asker
from etude.mage.asking.budget import Budget, Limits, Spending
from etude.mage.backends.caching import InMemory, NoCache, digest_of_question
from etude.mage.backends.naming import backend_of
from etude.mage.backends.protocol import Backend, Reply, Request, StopReason

OVERLOADED = Step(status=529, error={"type": "overloaded_error", "message": "Overloaded"})
SPENT = {"anthropic": SPEND_LIMIT_ANTHROPIC, "openai": QUOTA_OPENAI}


class Waits:
    """A clock that moves by what is slept, and all that was said."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.slept: list[float] = []
        self.said: list[str] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)


def asker_of(backend: Backend, waits: Waits, budget: Budget | None = None, **options: Any) -> Asker:
    how = {
        "cache": NoCache(),
        "clock": waits.clock,
        "sleep": waits.sleep,
        "draw": lambda: 0.5,
        "say": waits.said.append,
    }
    return Asker(backend, budget or Budget(), **{**how, **options})


@pytest.mark.parametrize("service", SERVICES)
def test_529_529_200_is_three_requests(service: str) -> None:
    waits = Waits()
    with LLMServer(OVERLOADED, OVERLOADED, Step()) as server:
        answered = asker_of(backend_at(server, service), waits).ask(REQUEST)
    assert len(server.seen) == 3
    assert (answered.reply.text, answered.attempts, answered.waited_s) == ("ready", 3, 0.75 + 1.5)
    assert waits.slept == [0.75, 1.5]
    assert waits.said[0] == (
        "Provider is overloaded (529, overloaded_error): Overloaded. Asking again in 0.8 s (attempt 2)."
    )
    assert server.seen[0].raw == server.seen[1].raw == server.seen[2].raw


@pytest.mark.parametrize("service", SERVICES)
def test_a_wait_of_one_second_is_one_second(service: str) -> None:
    waits = Waits()
    limited = Step(status=429, error={"type": "rate_limit_error", "message": "No."}, headers={"retry-after": "1"})
    with LLMServer(limited, Step()) as server:
        asker_of(backend_at(server, service), waits).ask(REQUEST)
    assert waits.slept == [1.0]


@pytest.mark.parametrize("service", SERVICES)
def test_a_spend_limit_is_one_request_from_us_and_three_from_the_sdk_by_itself(service: str) -> None:
    spent, waits = Step(status=429, error=SPENT[service]), Waits()
    with LLMServer(spent) as server:
        with pytest.raises(BackendError) as failed:
            asker_of(backend_at(server, service), waits).ask(REQUEST)
        ours = len(server.seen)
    with LLMServer(*[spent] * 9) as server:
        with sdk_at(server, service) as client, pytest.raises(Exception, match="429"):
            ask_sdk(client, service, streamed=False)
        theirs = len(server.seen)
    assert failed.value.code == "spend limit"
    assert (ours, theirs) == (1, 3)
    assert not waits.slept


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413])
def test_what_asking_again_does_not_change_is_one_request(status: int) -> None:
    with LLMServer(Step(status=status, error={"type": "some_error", "message": "No."})) as server:
        with pytest.raises(BackendError):
            asker_of(backend_at(server, "anthropic"), Waits()).ask(REQUEST)
        assert len(server.seen) == 1


def test_after_five_attempts_it_is_given_up() -> None:
    with LLMServer(*[OVERLOADED] * 9) as server:
        with pytest.raises(BackendError, match="overloaded"):
            asker_of(backend_at(server, "openai"), Waits()).ask(REQUEST)
        assert len(server.seen) == 5


# --- what is charged ------------------------------------------------------------------------------


def test_what_was_turned_down_costs_a_call_and_no_tokens() -> None:
    waits = Waits()
    with LLMServer(OVERLOADED, Step(usage=(70, 7, 0, 0))) as server:
        asker = asker_of(backend_at(server, "anthropic"), waits)
        answered = asker.ask(REQUEST, variant="a")
    assert asker.spent.of("a") == answered.spending
    assert (answered.spending.calls, answered.spending.input, answered.spending.output) == (2, 70, 7)
    assert answered.spending.wall_s == 0.0  # it waited, and that is no work


def test_what_was_lost_on_its_way_settles_at_what_was_reserved() -> None:
    with LLMServer(Step(text="x" * 900, cut=400), Step(usage=(70, 7, 0, 0))) as server:
        asker = asker_of(backend_at(server, "openai"), Waits())
        asker.ask(REQUEST)
    reserved = Budget().reserve(REQUEST, spent=asker.spent, backend="x")
    assert asker.spent.total.output == 100 + 7
    assert asker.spent.total.input == reserved.input + 70


def test_the_budget_holds_before_every_attempt() -> None:
    with LLMServer(OVERLOADED, OVERLOADED, Step()) as server:
        asker = asker_of(backend_at(server, "anthropic"), Waits(), Budget(study=Limits(calls=2)))
        with pytest.raises(BudgetSpent, match=r"^Stopped before call 3: 2 are allowed\.$"):
            asker.ask(REQUEST)
        assert len(server.seen) == 2


def test_no_call_lasts_longer_than_what_is_left_of_the_time() -> None:
    class Ticking(VirtualClock):
        def now_s(self) -> float:
            self.advance(1.0)
            return super().now_s()

    waits = Waits()
    waits.clock = Ticking()
    with LLMServer(Step(breathes=True)) as server:
        backend = backend_at(server, "openai", timeout_s=600.0)
        asker = asker_of(backend, waits, Budget(study=Limits(wall_s=0.3)))
        with pytest.raises(BudgetSpent, match=r"^Stopped before call 2: all of 0\.3 s were used\.$"):
            asker.ask(REQUEST)
    assert "within 0.3 s; the connection was shut." in waits.said[0]
    assert backend.timeout_s == 600.0  # it is the call that has less time, and not the backend
    assert len(server.seen) <= 1


# --- what is known already ------------------------------------------------------------------------


def test_what_was_answered_once_is_not_asked_again_even_when_the_budget_is_spent() -> None:
    cache = InMemory()
    with LLMServer(Step(text="first"), Step(text="second")) as server:
        backend = backend_at(server, "anthropic")
        first = asker_of(backend, Waits(), cache=cache).ask(REQUEST, variant="a")
        asker = asker_of(backend, Waits(), Budget(study=Limits(calls=0)), cache=cache)
        again = asker.ask(REQUEST, variant="a")
        other = asker_of(backend, Waits(), cache=cache).ask(REQUEST, variant="a", nth=1)
    assert (again.reply, again.from_cache, again.attempts) == (first.reply, True, 0)
    assert asker.spent.total == Spending()
    assert other.reply.text == "second"  # a draft that begins anew does not get the old one back
    assert len(server.seen) == 2


def test_a_question_is_told_from_any_other_one() -> None:
    def backend(name: str) -> Backend:
        return backend_of(name, environment={})

    def request(**changed: Any) -> Request:
        fields = {"system": "a", "messages": REQUEST.messages, "most_tokens": 9}
        return Request(**{**fields, **changed})

    here = backend("openai:x@http://127.0.0.1:1/v1")
    digests = [
        digest_of_question(here, request()),
        digest_of_question(backend("openai:x@http://127.0.0.1:2/v1"), request()),
        digest_of_question(backend("openai:y@http://127.0.0.1:1/v1"), request()),
        digest_of_question(here, request(most_tokens=10)),
        digest_of_question(here, request(system="b")),
        digest_of_question(here, request(messages=REQUEST.messages * 2)),
        digest_of_question(here, request(sampling={"temperature": 0.0})),
        digest_of_question(here, request(schema={})),
        digest_of_question(here, request(), nth=1),
        digest_of_question(here, request(), variant="a"),
    ]
    assert len(set(digests)) == len(digests)
    assert digests[0] == digest_of_question(backend("openai:x@http://127.0.0.1:1/v1"), request())


def test_a_failure_is_not_kept() -> None:
    cache = InMemory()
    refused = Step(status=400, error={"type": "invalid_request_error", "message": "No."})
    with LLMServer(refused, Step(text="ready")) as server:
        asker = asker_of(backend_at(server, "openai"), Waits(), cache=cache)
        with pytest.raises(BackendError):
            asker.ask(REQUEST)
        assert asker.ask(REQUEST).reply.text == "ready"
    assert KEY not in repr(vars(cache))


def test_whoever_interrupts_a_call_has_made_it() -> None:
    class Interrupted:
        name, host = "interrupted", "this machine"

        def ask(self, request: Request) -> Reply:
            raise KeyboardInterrupt

    asker = asker_of(Interrupted(), Waits())
    with pytest.raises(KeyboardInterrupt):
        asker.ask(REQUEST)
    assert (asker.spent.total.calls, asker.spent.total.output) == (1, REQUEST.most_tokens)


def test_a_backend_that_knows_variants_is_asked_for_one(tmp_path: Path) -> None:
    for variant in ("a", "b"):
        (tmp_path / variant).mkdir()
        (tmp_path / variant / "1.md").write_text(f"for {variant}")
        (tmp_path / variant / "2.md").write_text(f"again for {variant}")
    asker = asker_of(backend_of(f"scripted:{tmp_path}", environment={}), Waits())
    assert [asker.ask(REQUEST, variant=one).reply.text for one in ("b", "a", "b")] == ["for b", "for a", "for b"]
    assert asker.ask(REQUEST, variant="a", nth=1).reply.text == "again for a"


# --- before anything long -------------------------------------------------------------------------


@pytest.mark.parametrize("service", SERVICES)
def test_the_smallest_question_shows_that_a_model_answers(service: str) -> None:
    words = {"anthropic": "max_tokens", "openai": "length"}
    with LLMServer(Step(text="", stop=words[service]), Step(), Step(status=401)) as server:
        backend = backend_at(server, service)
        asker = asker_of(backend, Waits())
        assert asker.ask(SMALL).reply.stop is StopReason.CUT_OFF  # it thought, and said nothing; but it is there
        asker.ask(SMALL)
        with pytest.raises(BackendError) as refused:
            asker.ask(SMALL)
    assert refused.value.code == "key"
    assert asker.spent.total.calls == len(server.seen) == 3
    assert all(len(seen.raw) < 400 for seen in server.seen)
