"""The page of first failures says what the tests see, and nothing else."""

from __future__ import annotations

import pytest
from mistakes import ALL, Mistake

from page import PAGE, written

EVERY = [one for mistakes in ALL.values() for one in mistakes]


def test_the_page_has_what_the_tests_show() -> None:
    assert PAGE.read_text(encoding="utf-8") == written(), "PYTHONPATH=src python tests/first_failures/page.py"


@pytest.mark.parametrize("mistake", EVERY, ids=lambda one: one.does)
def test_what_the_page_says_you_see_is_in_the_message(mistake: Mistake) -> None:
    assert mistake.see in mistake.shown


def test_no_two_rows_begin_alike() -> None:
    assert len({one.see for one in EVERY}) == len({one.does for one in EVERY}) == len(EVERY)
