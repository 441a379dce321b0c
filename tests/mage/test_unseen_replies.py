"""Replies to programs that no check was made with climb all rungs: the second set of fresh eyes, the third, the fourth.

What passes and should not, and what fails and should not, is named here: each is a fault of a rung that is known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import fourth_programs
import fourth_replies
import pytest
import third_programs
import third_replies
import unseen_programs
import unseen_replies
from climbing import Project, climbed, untouched
from fresh_replies import Fresh

from etude.mage.loop.ladder import worst
from etude.mage.verdicts import Outcome

climbs = pytest.mark.skipif(
    os.environ.get("ETUDE_FRESH") != "full", reason="half an hour of programs that are run and watched: make fresh"
)

BAD: Final = (*unseen_replies.BAD, *third_replies.BAD, *fourth_replies.BAD)
CORRECT: Final = (*unseen_replies.CORRECT, *third_replies.CORRECT, *fourth_replies.CORRECT)

DEBATABLE: Final = (*unseen_replies.DEBATABLE, *third_replies.DEBATABLE, *fourth_replies.DEBATABLE)
IDENTITIES: Final = ("an identity that is called", "an identity that weighs nothing", "an identity for a head")
PROGRAMS: Final = {**unseen_programs.PROGRAMS, **third_programs.PROGRAMS, **fourth_programs.PROGRAMS}

GETS_THROUGH: Final[Mapping[str, str]] = {}
"""Bad replies that pass, and what of them is not seen."""

LATER: Final = "a setting that acts after the watched steps does nothing in them; the message says to watch more"

IS_REJECTED: Final[Mapping[str, str]] = {
    "there is no teacher": "a network that is trained for the component alone, and goes along, is not licensed to",
    "warm from the start": LATER,
    "the file, warm from the start": LATER,
}
"""Correct replies that fail, and why."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Project]]:
    folder = tmp_path_factory.mktemp("unseen")

    @cache
    def of(name: str) -> Project:
        program = PROGRAMS[name]
        written = unseen_programs.write_program(program, folder / name)
        found = untouched(written, unseen_programs.ENTRY, metric=program.metric)
        assert set(found.variants) == set(program.variants)
        return found

    yield of
    of.cache_clear()


def each(replies: Sequence[Fresh], known: Mapping[str, str]) -> Iterator[Any]:
    for reply in replies:
        why = known.get(reply.name)
        marks = (pytest.mark.xfail(raises=AssertionError, strict=True, reason=why),) if why else ()
        yield pytest.param(reply, id=f"{reply.base}: {reply.name}", marks=marks)


@climbs
@pytest.mark.parametrize("reply", list(each(BAD, GETS_THROUGH)))
def test_a_bad_reply_does_not_pass(reply: Fresh, project: Callable[[str], Project]) -> None:
    assert worst(climbed(project(reply.base), reply)) is not Outcome.PASSED, reply.wrong


@climbs
@pytest.mark.parametrize("reply", list(each(CORRECT, IS_REJECTED)))
def test_a_correct_reply_does_not_fail(reply: Fresh, project: Callable[[str], Project]) -> None:
    verdicts = climbed(project(reply.base), reply)
    assert worst(verdicts) is not Outcome.FAILED, verdicts


@climbs
@pytest.mark.parametrize("reply", list(each(DEBATABLE, {})))
def test_an_identity_is_as_good_as_nothing_and_what_else_can_be_debated_does_not_pass_by_itself(
    reply: Fresh, project: Callable[[str], Project]
) -> None:
    passes = worst(climbed(project(reply.base), reply)) is Outcome.PASSED
    assert passes == (reply.name in IDENTITIES)


def test_what_is_known_to_go_wrong_is_there() -> None:
    assert GETS_THROUGH.keys() <= {reply.name for reply in BAD}
    assert IS_REJECTED.keys() <= {reply.name for reply in CORRECT}
    names = [reply.name for reply in (*BAD, *CORRECT)]
    assert len(names) == len(set(names))
