"""A rank that waits says so after a while, and rank 0 ends what can never go on; in good times nobody says anything."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from etude.core.errors import RanksError
from etude.frameworks.standstill import Awaited, Waiting
from etude.frameworks.torch_waits import Waits

LOOK_S = 30.0
"""Nobody waits for so long: works of tests tell at once that they did not come in time."""


class Texts:
    """A store of this process that counts what it is asked."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.asked = 0

    def set(self, key: str, value: str) -> None:
        self.asked += 1
        self.texts[key] = value

    def check(self, keys: list[str]) -> bool:
        self.asked += 1
        return all(key in self.texts for key in keys)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        return [self.texts[key].encode() for key in keys]


class Late:
    """Something under way that does not come in time, so often, while others do something; then it comes, or fails."""

    def __init__(self, times: int, meanwhile: Callable[[], object] = lambda: None, *, fails: str = "") -> None:
        self._left = times
        self._meanwhile = meanwhile
        self._fails = fails
        self._over = False

    def wait(self, timeout: timedelta | None = None) -> bool:
        if self._left:
            self._left -= 1
            self._meanwhile()
            raise RuntimeError("Operation timed out!")
        self._over = True
        if self._fails:
            raise RuntimeError(self._fails)
        return True

    def is_completed(self) -> bool:
        return self._over


class Other:
    """Another rank, as far as this one hears of it."""

    def __init__(self, store: Texts, rank: int, awaited: Awaited, **begun: int) -> None:
        self._store, self._key = store, f"wait of rank {rank}"
        self.waiting = Waiting(awaited, "train.py:40", 3, 0, {awaited.kind: awaited.number, **begun})

    def say(self) -> None:
        self.waiting = Waiting(
            self.waiting.awaited, self.waiting.line, self.waiting.nth, self.waiting.said + 1, self.waiting.begun
        )
        self._store.set(self._key, self.waiting.packed())


REPORT = Awaited("report", 1, "report 1")


def test_a_wait_that_ends_in_time_costs_no_message_and_no_thread() -> None:
    store = Texts()
    waits, threads = Waits(0, 2, store, look_s=LOOK_S), threading.active_count()
    waits.wait(Late(0), waits.begin("backward"))
    assert (store.asked, threading.active_count()) == (0, threads)
    assert waits.last_heard() == ""


def test_ranks_that_wait_for_each_other_are_told_from_one_another() -> None:
    store = Texts()
    waits, other = Waits(0, 2, store, look_s=LOOK_S), Other(store, 1, REPORT)
    with pytest.raises(
        RanksError, match=r"rank 0 waits at backward 1 \(test_torch_waits\.py:\d+\); rank 1 waits at rep"
    ):
        waits.wait(Late(100, other.say), waits.begin("backward"))
    assert other.waiting.said <= 4, "it is certain after a few looks"


def test_who_is_slow_is_waited_for_however_long() -> None:
    store = Texts()
    waits = Waits(0, 3, store, look_s=LOOK_S)
    waits.wait(Late(20, Other(store, 1, REPORT).say), waits.begin("backward"))  # rank 2 computes
    one_by_one = [Other(store, rank, Awaited("backward", 2, ""), report=1) for rank in (1, 2)]
    waits.wait(Late(20, lambda: [one.say() for one in one_by_one]), waits.begin("backward"))  # all are there


def test_what_others_said_before_is_no_proof() -> None:
    """They said it once, went on, and the store has it still."""
    store = Texts()
    other = Other(store, 1, REPORT)
    other.say()
    waits = Waits(0, 2, store, look_s=LOOK_S)
    waits.wait(Late(20), waits.begin("backward"))


def test_a_wait_that_is_over_is_taken_back() -> None:
    store = Texts()
    waits = Waits(1, 2, store, look_s=LOOK_S)
    waits.wait(Late(1), waits.begin("backward"))
    assert waits._thread is not None
    waits._thread.join()
    assert store.texts == {"wait of rank 1": ""}


def test_what_fails_raises_its_own_error() -> None:
    waits = Waits(1, 2, Texts(), look_s=LOOK_S)
    with pytest.raises(RuntimeError, match="Connection closed by peer"):
        waits.wait(Late(1, fails="Connection closed by peer"), waits.begin("backward"))


def test_where_ranks_were_is_known_after_the_timeout() -> None:
    store = Texts()
    waits = Waits(0, 3, store, look_s=LOOK_S)
    Other(store, 1, REPORT).say()
    with pytest.raises(RuntimeError, match="timed out by gloo"):
        waits.wait(Late(1, fails="timed out by gloo"), waits.begin("backward"))
    told = waits.last_heard()
    assert "rank 0 waits at backward 1 (test_torch_waits.py:" in told
    assert "; rank 1 waits at report 1 (train.py:40); rank 2 waits for nobody: a rank computes then, " in told


def test_a_store_that_does_not_answer_holds_nobody_up() -> None:
    """As when the process that serves it stands still; the wait goes on, and so does its own timeout."""
    goes_on = threading.Event()

    class Silent(Texts):
        def set(self, key: str, value: str) -> None:
            goes_on.wait()
            super().set(key, value)

    store = Silent()
    waits = Waits(1, 2, store, look_s=0.01)
    waits.wait(Late(20), waits.begin("backward"))
    assert store.texts == {}
    goes_on.set()
    assert waits._thread is not None
    waits._thread.join()


def test_a_store_that_is_gone_costs_nothing_either() -> None:
    class Gone(Texts):
        def set(self, key: str, value: str) -> Any:
            raise RuntimeError("Broken pipe")

    waits = Waits(1, 2, Gone(), look_s=LOOK_S)
    waits.wait(Late(3), waits.begin("backward"))
    assert waits.last_heard() == ""
