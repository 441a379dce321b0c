"""The rule: which weights are refused, which are noted, and of which nothing can be told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import etude
from etude.data import leaks
from etude.data.leaks import Finding
from etude.data.seen import Seen, read_rows
from etude.data.seen import see as see_rows

ROWS = np.random.default_rng(0).standard_normal((1000, 4))


class Unreadable:
    """A part that raises when it is looked at."""

    @property
    def __class__(self) -> Any:
        raise OSError("the disk is gone")


def see(found: Any) -> Seen:
    return see_rows(read_rows(found))


def judge(found: Any, seen: Seen, *, name: str) -> Finding:
    return leaks.judge(read_rows(found), seen, name=name)


def data(train: Any, valid: Any = None, test: Any = None) -> etude.Data:
    return etude.Data(train, valid, test)


def test_the_same_split_is_no_leak_however_many_duplicates_it_has() -> None:
    rows = np.random.default_rng(1).integers(0, 3, (1000, 2))
    same = data(rows[:600], rows[600:800], rows[800:])
    assert judge(same, see(same), name="w") == Finding()


def test_weights_that_know_the_validation_part_are_refused() -> None:
    before, now = data(ROWS[:800], ROWS[800:]), data(ROWS[200:], ROWS[:200])
    assert judge(now, see(before), name="epoch 3 of trial 7 of search").refusal == (
        "100 % of the 200 different rows of valid were used to train epoch 3 of trial 7 of search, or what it grew "
        "from: what is measured on them would be too good. Give this training the split that those had: the seed of "
        "that trial, if the split hangs on the seed, or better one that does not. Or begin with weights='random'."
    )


def test_the_test_part_may_have_chosen_nothing() -> None:
    before = data(ROWS[:600], ROWS[600:800])
    finding = judge(data(ROWS[:600], None, ROWS[600:]), see(before), name="w")
    assert finding.refusal.startswith("50 % of the 400 different rows of test were used to train or to choose w, ")
    assert judge(data(ROWS[:600], ROWS[600:800], ROWS[800:]), see(before), name="w") == Finding()
    both = etude.core.data.Joined(ROWS[:800], None, ROWS[800:])
    assert judge(both, see(before), name="w") == Finding()


def test_validating_on_what_they_were_chosen_by_is_usual() -> None:
    before = data(ROWS[:600], ROWS[600:800])
    assert judge(data(ROWS[:500], ROWS[600:800]), see(before), name="w") == Finding()


def test_a_few_rows_are_noted_and_let_pass() -> None:
    before, now = data(ROWS[:501]), data(ROWS[700:], ROWS[500:700])
    assert judge(now, see(before), name="w") == Finding(
        notes=(
            "0.5 % of the 200 different rows of valid were used to train w, or what it grew from; up to 1 % is let "
            "pass.",
        )
    )


def test_of_many_rows_the_share_is_told_by_a_sample() -> None:
    many = np.arange(100_000)
    before, now = data(many[:80_000]), data(many[20_000:], many[:20_000])
    assert judge(now, see(before), name="w").refusal.startswith("About 100 % of the 20,000 different rows of valid ")
    few = judge(data(many[1:], many[:1]), see(before), name="w")
    assert few.refusal == ""
    assert len(few.notes) <= 1


def test_what_is_not_known_is_said_and_never_refused() -> None:
    now = data(ROWS[:800], ROWS[800:])
    tell = "Whether w saw rows that this training validates or tests on cannot be told: "
    theirs = f"{tell}where they are from, "
    for seen, why in (
        (Seen.read(None), "their file does not say what rows they were trained on."),
        (Seen.read({"trained": 3}), "what their file says of the rows that they were trained on cannot be read."),
        (see((ROWS, ROWS)), "what data() gave there was no etude.Data, so nothing tells what was trained on."),
        (see(data(iter([]))), "of its train part, nothing is known of the rows of <list_iterator"),
        (see(data(Unreadable())), "its train part cannot be read (OSError: the disk is gone)."),
    ):
        finding = judge(now, seen, name="w")
        assert finding.refusal == ""
        assert finding.notes[0].startswith(theirs + why)
    known = see(now)
    for found, why in (
        ((ROWS, ROWS), "data() gives no etude.Data, so nothing tells what it is judged by."),
        (data(ROWS[:800], iter([])), "here, of its valid part, nothing is known of the rows of <list_iterator"),
        (data(ROWS[:800], Unreadable()), "here, its valid part cannot be read (OSError: the disk is gone)."),
    ):
        finding = judge(found, known, name="w")
        assert finding.refusal == ""
        assert [note.startswith(tell + why) for note in finding.notes] == [True]
    assert judge(data(ROWS), known, name="w") == Finding(), "it is judged by nothing"


def test_what_was_seen_goes_through_a_file_and_adds_up() -> None:
    one, other = see(data(ROWS[:300], ROWS[300:400])), see(data(ROWS[400:600]))
    both = one | other
    assert Seen.read(both.plain()) == both
    assert judge(data(ROWS[800:], ROWS[:10]), both, name="w").refusal
    assert judge(data(ROWS[800:], ROWS[590:600]), both, name="w").refusal
    assert judge(data(ROWS[800:], ROWS[600:800]), both, name="w") == Finding()
    assert (both | Seen(unknown=("why",))).unknown == ("why",)
    assert Seen(unknown=("why",)).nothing
    assert not both.nothing


@pytest.mark.parametrize("known", [0.4, 0.8])
def test_rows_that_the_training_trains_on_itself_count_for_nothing(known: float) -> None:
    """A part that shares rows with the training part does so in any split of that data, and weights change nothing."""
    cut = int(1000 * known)
    assert judge(data(ROWS, ROWS[:500]), see(data(ROWS[:cut])), name="w") == Finding()
