"""Small words for messages, and the data that a data function may return."""

import math

import pytest

from etude.core.data import Data
from etude.core.text import brief, count, few, p_value, seconds, shortened, show, span, times, visible, visible_lines


def test_a_value_is_shown_with_its_type_and_cut() -> None:
    assert brief([1, 2]) == "[1, 2] (list)"
    assert brief("x" * 100, limit=10) == "'xxxxxx... (str)"


def test_a_number_goes_with_its_noun() -> None:
    assert [count(n, "trial") for n in (0, 1, 2, 1234)] == ["0 trials", "1 trial", "2 trials", "1,234 trials"]


def test_of_many_names_the_first_are_said_and_how_many_there_are_beside() -> None:
    assert [few(names, most=2) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "none",
        "a",
        "a, b",
        "a, b and 1 more",
    ]


def test_once_and_never_are_said_in_words() -> None:
    assert [times(n) for n in (0, 1, 2, 1234)] == ["not at all", "once", "2 times", "1,234 times"]


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    assert [shortened("a_very_long_name", most) for most in (16, 9, 2, 1)] == [
        "a_very_long_name",
        "a_ver…ame",
        "a…",
        "…",
    ]


def test_what_cannot_be_seen_is_spelled_out() -> None:
    assert visible("a\x1b[31m\u202eé\n") == "a\\x1b[31m\\u202eé\\n"
    assert visible_lines("a\tb\n\x00") == "a\tb\n\\x00"


def test_a_value_of_a_table_is_short_and_what_is_not_there_is_empty() -> None:
    assert [show(value) for value in (0.123456789, 3, None, "adam", False)] == ["0.123457", "3", "", "adam", "False"]


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.345, "0.34 s"), (9.5, "9.5 s"), (12.4, "12 s"), (200.0, "3 min 20 s"), (7500.0, "2 h 5 min")],
)
def test_a_duration_is_said_as_people_say_it(value: float, said: str) -> None:
    assert seconds(value) == said


def test_an_end_of_an_interval_has_no_digits_that_its_width_has_not() -> None:
    assert span(-1.21e-06, 0.0566666) == (0.0, 0.05667)
    assert span(-1234567.0, 12.0) == (-1235000.0, 0.0)
    assert span(0.0, 0.0) == (0.0, 0.0)
    assert span(-math.inf, math.inf) == (-math.inf, math.inf)


def test_no_p_value_is_zero() -> None:
    assert [p_value(p) for p in (0.8123, 0.05, 0.0012, 0.0009, 1e-300)] == [
        "p = 0.81",
        "p = 0.05",
        "p = 0.0012",
        "p < 0.001",
        "p < 0.001",
    ]


def test_data_unpacks_into_the_parts_that_were_given() -> None:
    assert list(Data([1], [2])) == [[1], [2]]
    assert list(Data([1], test=[3])) == [[1], [3]]


def test_data_keeps_what_only_it_can_know() -> None:
    data = Data([1], n_features=30)
    assert data.derived == {"n_features": 30}
    assert repr(data) == "Data(train=..., n_features=30)"
