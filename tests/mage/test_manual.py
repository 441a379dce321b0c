"""People and what was written beforehand: files in, files out, nothing asked twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.core.clock import VirtualClock
from etude.core.errors import BackendError, ConfigError
from etude.mage.backends.manual import Manual
from etude.mage.backends.naming import backend_of
from etude.mage.backends.protocol import Backend, Message, Request, StopReason
from etude.mage.backends.scripted import Scripted

REQUEST = Request(system="Rules.", messages=(Message(role="user", text="Take conv2 out."),), most_tokens=100)
OTHER = Request(system="Rules.", messages=(Message(role="user", text="Take fc1 out."),), most_tokens=100)
NEXT = Request(
    system="Rules.",
    messages=(*REQUEST.messages, Message(role="assistant", text="Done."), Message(role="user", text="Not quite.")),
    most_tokens=100,
)


class Person:
    """Writes an answer, a part of it at each look."""

    def __init__(self, clock: VirtualClock, *parts: str) -> None:
        self.clock = clock
        self.parts = list(parts)
        self.answer: Path | None = None
        self.looks = 0

    def sleep(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.looks += 1
        if self.answer is not None and self.parts:
            self.answer.write_text(self.parts.pop(0), encoding="utf-8")


def manual_of(folder: Path, *parts: str, timeout_s: float = 60.0) -> tuple[Manual, Person]:
    clock = VirtualClock()
    person = Person(clock, *parts)
    backend = Manual(folder, timeout_s=timeout_s, clock=clock, sleep=person.sleep)
    person.answer = backend.paths(REQUEST)[1]
    return backend, person


def test_an_answer_is_read_when_nobody_writes_it_any_more(tmp_path: Path) -> None:
    backend, person = manual_of(tmp_path / "new", "ha", "half", "whole Größe", "whole Größe")
    reply = backend.ask(REQUEST)
    assert (reply.text, reply.model) == ("whole Größe", "a person")
    assert person.looks == 4
    assert backend.paths(REQUEST)[0].read_text(encoding="utf-8") == "Rules.\n\nTake conv2 out.\n"


def test_without_an_answer_the_question_waits_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    backend, person = manual_of(tmp_path, timeout_s=3.0)
    person.answer = None
    question, answer = backend.paths(REQUEST)
    with pytest.raises(BackendError) as waiting:
        backend.ask(REQUEST)
    assert (waiting.value.code, waiting.value.may_retry) == ("timeout", False)
    assert str(waiting.value) == (
        f"There is no answer in {answer} yet. The question is in {question}; put the answer there and `resume`: "
        "nothing is asked twice."
    )
    asked = question.stat()
    answer.write_text("done")
    later, person = manual_of(tmp_path)
    assert later.ask(REQUEST).text == later.ask(REQUEST).text == "done"
    assert person.looks == 0
    assert question.stat().st_mtime_ns == asked.st_mtime_ns
    assert sorted(tmp_path.iterdir()) == [question, answer]


def test_each_variant_has_files_of_its_own_name(tmp_path: Path) -> None:
    backend, _ = manual_of(tmp_path)
    named = backend.for_variant("without-conv2")
    assert isinstance(named, Manual)
    assert named.paths(REQUEST)[0].name.startswith("without-conv2-")
    again = backend.for_variant("without-conv2", 1)
    assert isinstance(again, Manual)
    assert len({*named.paths(REQUEST), *named.paths(OTHER), *again.paths(REQUEST)}) == 6


# --- what was written beforehand ------------------------------------------------------------------


def scripted_of(folder: Path, **files: str) -> Scripted:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    found = backend_of(f"scripted:{folder}", environment={})
    assert isinstance(found, Scripted)
    return found


def asked(backend: Backend, request: Request) -> str:
    return backend.ask(request).text


def test_answers_come_in_their_order_and_the_same_question_gets_the_same_one(tmp_path: Path) -> None:
    backend = scripted_of(tmp_path, **{"9_md": "nine", "10_md": "ten"})
    assert [asked(backend, one) for one in (REQUEST, OTHER, REQUEST)] == ["nine", "ten", "nine"]
    reply = backend.ask(REQUEST)
    assert (reply.model, reply.request) == ("authored", "authored 9.md")


def test_a_variant_has_answers_of_its_own(tmp_path: Path) -> None:
    backend = scripted_of(tmp_path, **{"1_md": "for all", "conv2__1_md": "own one", "conv2__2_md": "own two"})
    assert asked(backend.for_variant("conv2"), REQUEST) == "own one"
    assert asked(backend.for_variant("fc1"), REQUEST) == "for all"
    assert asked(backend.for_variant("conv2"), NEXT) == "own two"


def test_a_conversation_that_goes_on_later_gets_the_answer_that_is_next(tmp_path: Path) -> None:
    scripted_of(tmp_path, **{"1_md": "one", "2_md": "two"})
    assert asked(Scripted(tmp_path), NEXT) == "two"


def test_the_name_of_an_answer_says_how_it_ended(tmp_path: Path) -> None:
    backend = scripted_of(tmp_path, **{"1_cut-off_md": "ha", "2_refused_md": "no", "3_md": "yes"})
    third = Request(system="", messages=NEXT.messages[:1], most_tokens=1)
    stops = [backend.ask(one).stop for one in (REQUEST, OTHER, third)]
    assert stops == [StopReason.CUT_OFF, StopReason.REFUSED, StopReason.COMPLETE]


def test_when_there_are_no_more_answers_that_is_told(tmp_path: Path) -> None:
    backend = scripted_of(tmp_path, **{"1_md": "one"})
    backend.ask(REQUEST)
    with pytest.raises(BackendError) as over:
        backend.ask(OTHER)
    assert over.value.code == "bad request"
    assert str(over.value) == (
        f"{tmp_path} has 1 answers, and number 2 was asked for. They are authored: write another one. "
        "The question ends with:\nRules.\n\nTake fc1 out.\n"
    )


def test_a_folder_without_answers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no answers"):
        backend_of(f"scripted:{tmp_path}", environment={})
