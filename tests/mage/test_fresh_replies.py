"""Replies of somebody who did not know the judge climb all rungs: none that is bad passes, none that is right fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from bases import write_cnn
from benchmarks.mage_written import ENTRY, copied
from climbing import Project, climbed, untouched
from fresh_replies import BAD, CNN, GOOD, Fresh

from etude.mage.loop.ladder import worst
from etude.mage.verdicts import Outcome, Rung

pytestmark = pytest.mark.skipif(
    os.environ.get("ETUDE_FRESH") != "full", reason="fifteen minutes of programs that are run and watched: make fresh"
)

GETS_THROUGH: dict[str, str] = {}
"""Bad replies that pass, and what of them is not seen."""


class GotThrough(AssertionError):
    """A bad reply passed at every rung."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Project]]:
    folder = tmp_path_factory.mktemp("fresh")

    @cache
    def of(name: str) -> Project:
        if name == CNN:
            root = write_cnn(folder / name)
            return untouched(root, "python train.py --seed {seed}", choices={"conv2": "none", "fc1": "none"})
        return untouched(copied(name, folder), ENTRY)

    yield of
    of.cache_clear()


def shown(reply: Fresh) -> str:
    return f"{reply.base}: {reply.name}"


def bad_ones() -> Iterator[Any]:
    for reply in BAD:
        why = GETS_THROUGH.get(reply.name)
        marks = (pytest.mark.xfail(raises=GotThrough, strict=True, reason=why),) if why else ()
        yield pytest.param(reply, id=shown(reply), marks=marks)


@pytest.mark.parametrize("reply", list(bad_ones()))
def test_a_bad_reply_is_turned_away_at_a_rung_with_a_reason(reply: Fresh, project: Callable[[str], Project]) -> None:
    verdicts = climbed(project(reply.base), reply)
    if worst(verdicts) is Outcome.PASSED:
        raise GotThrough(f"{reply.name}: {reply.wrong}")
    told = next(verdict for verdict in verdicts if verdict.outcome is not Outcome.PASSED)
    assert told.rung in set(Rung)
    assert told.reasons
    assert all(reason.text and reason.claim and (reason.expected or reason.found) for reason in told.reasons)


@pytest.mark.parametrize("reply", [pytest.param(one, id=shown(one)) for one in GOOD])
def test_a_correct_reply_does_not_fail(reply: Fresh, project: Callable[[str], Project]) -> None:
    verdicts = climbed(project(reply.base), reply)
    assert worst(verdicts) is not Outcome.FAILED, verdicts


def test_no_two_replies_are_alike_and_each_bad_one_says_what_is_wrong() -> None:
    every = (*BAD, *GOOD)
    assert len({reply.name for reply in every}) == len({reply.text for reply in every}) == len(every)
    assert all(reply.wrong for reply in BAD)
    assert not any(reply.wrong for reply in GOOD)
    assert GETS_THROUGH.keys() <= {reply.name for reply in BAD}
