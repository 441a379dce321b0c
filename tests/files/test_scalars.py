"""What plain words mean, and which are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etude.files.scalars import AmbiguousError, meaning
from etude.files.writing import as_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E3", 1000.0),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("+3", 3),
        ("-0", 0),
        ("0x1F", 31),
        ("0o17", 15),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("True", True),
        ("FALSE", False),
        ("", None),
        ("null", None),
        ("relu", "relu"),
        ("2020-01-01", "2020-01-01"),
        ("1.2.3", "1.2.3"),
        ("y", "y"),
        ("nOn", "nOn"),
        ("inf", "inf"),
        ("loguniform(1e-4, 1)", "loguniform(1e-4, 1)"),
        ("1e", "1e"),
        ("-", "-"),
        (".", "."),
    ],
)
def test_words_mean_what_yaml_1_2_says(text: str, value: Any) -> None:
    assert meaning(text) == value
    assert type(meaning(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no", "no is false in YAML 1.1 and a text in YAML 1.2. Write false, or 'no' quoted."),
        ("On", "On is true in YAML 1.1 and a text in YAML 1.2. Write true, or 'On' quoted."),
        ("010", "010 is octal in YAML 1.1 and 10 in YAML 1.2. Write 10, or '010' quoted."),
        ("1_000", "1_000 is a number in YAML 1.1 and a text in YAML 1.2. Write 1000, or '1_000' quoted."),
        ("12:30", "12:30 is a number in YAML 1.1 and a text in YAML 1.2. Write the number, or '12:30' quoted."),
        ("0b11", "0b11 is a number in YAML 1.1 and a text in YAML 1.2. Write the number, or '0b11' quoted."),
        ("None", "None is Python; in YAML it is a text. Write null, or 'None' quoted."),
        ("1e999", "1e999 is larger than any number with a point. Write .inf if infinity is meant."),
        ("9" * 500, "A number of 500 digits is more than can be computed with. Put a text in quotes."),
    ],
)
def test_what_others_read_otherwise_is_refused(text: str, why: str) -> None:
    with pytest.raises(AmbiguousError) as refused:
        meaning(text)
    assert str(refused.value) == why


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=6,
    )
)
def test_what_is_written_is_read_again(value: Any) -> None:
    from pathlib import Path

    from etude.files.composing import read_text
    from etude.files.nodes import plain
    from etude.files.source import Problems, Source

    problems = Problems()
    again = plain(read_text(Source("it", as_yaml({"it": value}), Path()), problems, {}))
    problems.check()
    assert repr(again) == repr({"it": value})
