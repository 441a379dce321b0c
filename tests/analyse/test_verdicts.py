"""Verdicts on plain numbers: what is said, and what is said when little can be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import etude
from etude.analyse.verdict import Word
from etude.analyse.verdicts import verdicts
from etude.core.errors import ConfigError

pytest.importorskip("scipy")

EFFECTS = {"conv2": 0.02, "dropout": 0.0, "aug": -0.02}


def arms(n: int = 20, **effects: float) -> dict[str, list[float]]:
    rng = np.random.default_rng(0)
    shared = 0.9 + 0.01 * rng.normal(size=n)
    found = {"base": 0.0, **(effects or EFFECTS)}
    return {name: list(shared - effect + 0.005 * rng.normal(size=n)) for name, effect in found.items()}


def test_there_are_four_verdicts():
    given = arms()
    given["open"] = [value - (0.03 if nth % 2 else -0.02) for nth, value in enumerate(given["base"])]
    found = verdicts(given, margin=0.0055)
    assert [one.verdict.value for one in found] == ["matters", "does not matter", "hurts", "undecided"]
    assert found.of("hurts") == ["aug"]
    conv2 = found["conv2"]
    assert conv2.low < 0.02 < conv2.high
    assert conv2.interval == (conv2.low, conv2.high)
    assert conv2.p <= conv2.p_corrected <= 0.05 < conv2.p_same_corrected
    assert conv2.better.p == 1.0
    assert 0.8 < conv2.better.low < conv2.better.high == 1.0
    assert conv2.test == "sign flips"
    assert conv2.seeds_needed is None
    assert found["open"].seeds_needed > 20
    assert etude.verdicts is verdicts


def test_what_surely_matters_little_does_not_matter():
    given = arms(little=0.006)
    assert verdicts(given)["little"].verdict == "matters"
    assert verdicts(given, margin=0.02)["little"].verdict == "does not matter"


def test_less_is_better_where_that_was_said():
    given = {name: [-value for value in values] for name, values in arms().items()}
    ours, turned = verdicts(arms()), verdicts(given, mode="min")
    assert [one.verdict for one in turned] == [one.verdict for one in ours]
    assert [one.effect for one in turned] == pytest.approx([one.effect for one in ours])


def test_seeds_make_pairs_and_not_places():
    given = arms(conv2=0.02)
    by_seed = {name: dict(zip(range(100, 120), values, strict=True)) for name, values in given.items()}
    turned = {**by_seed, "conv2": dict(reversed(by_seed["conv2"].items()))}
    assert verdicts(turned)["conv2"] == verdicts(by_seed)["conv2"]
    assert verdicts(turned)["conv2"].p == verdicts(given)["conv2"].p


def test_what_is_missing_is_told():
    given: dict[str, Any] = {name: dict(enumerate(values)) for name, values in arms(12, conv2=0.02).items()}
    given["conv2"][3] = math.nan
    given["conv2"][4] = None
    del given["base"][5]
    found = verdicts(given)["conv2"]
    assert found.missing == (3, 4, 5)
    assert found.n == 9
    assert found.says == (
        "3 seeds missing (3, 4, 5): came to no number: 2 of the arm; what failed may be what was worst, and the effect "
        "is of the others",
    )


def test_lists_of_other_lengths_are_no_pairs_and_that_is_said():
    given = arms(conv2=0.02)
    found = verdicts({**given, "conv2": given["conv2"][:9]})["conv2"]
    assert (found.test, found.n) == ("permuted Welch t", 9)
    assert found.says[0].startswith("9 runs beside 20 of the base, so places do not say which are pairs")


def test_arms_may_be_paired_or_not_each_by_itself():
    found = verdicts(arms(), paired={"aug": False})
    assert [one.test for one in found] == ["sign flips", "sign flips", "permuted Welch t"]
    assert {one.test for one in verdicts(arms(), paired=False)} == {"permuted Welch t"}


def test_a_test_may_be_asked_for_unless_it_cannot_hold():
    assert verdicts(arms(), test="signed ranks")[0].test == "signed ranks"
    assert verdicts(arms(), folds=5)[0].test == "corrected t"
    with pytest.raises(ConfigError) as refused:
        verdicts(arms(), test="signed ranks", folds=5)
    assert str(refused.value) == (
        "test='signed ranks' takes runs for independent, and with folds=5 their training parts overlap. "
        "Leave test= out, for the corrected t-test."
    )


def test_five_repeats_decide_nothing_and_that_comes_first():
    found = verdicts(arms(5))
    assert {one.verdict for one in found} == {Word.UNDECIDED}
    assert str(found).splitlines()[0] == (
        "Nothing can be decided: with 5 pairs no p-value can be below 0.188, corrected for 3 components, "
        "and the level is 0.05. It takes 7 seeds or more."
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"base": [1.0]}, "There is no arm beside 'base': nothing to compare it with."),
        ({"base": [1.0], "x": [2.0]}, "one run says nothing of how much runs differ: no test and no interval"),
        ({"base": [1.0, 2.0], "x": [math.nan, math.inf]}, "nothing can be said"),
        ({"base": [], "x": []}, "nothing can be said"),
        ({"base": [1.0] * 8, "x": [1.0] * 8}, "what is taken away may not be in use, or the seeds are none"),
        ({"base": [1.0] * 8, "x": [2.0] * 8}, "no run differs from others of its arm: the seeds are none"),
        (
            {"base": [1.0, 2.0, 3.0], "x": [2.0, 3.0, 4.0]},
            "the difference is the same with every seed: the seeds may be",
        ),
        ({"base": {1: 1.0, 2: 2.0}, "x": {3: 1.0, 4: 2.0}}, "only one of both was run: 4 seeds"),
        ({"base": [1.0, 2.0, 3.0], "x": [1.5, 1.0, 3.5]}, "3 runs are too few for an interval at 95%"),
    ],
)
def test_little_can_be_said_of_little(given: dict[str, Any], said: str):
    assert said in str(verdicts(given))


@pytest.mark.parametrize("more", [{}, {"margin": 5.0}, {"paired": False}, {"test": "t"}])
def test_runs_that_do_not_vary_decide_nothing_however_many_there_are(more: dict[str, Any]):
    [one] = verdicts({"base": [0.9] * 12, "x": [0.5] * 12}, **more)
    assert (one.verdict, one.seeds_needed) == (Word.UNDECIDED, None)
    assert verdicts({"base": [0.9] * 12, "x": [0.5] * 11 + [0.4]})[0].verdict is Word.MATTERS, "one of the two varies"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"arms": []}, "has no arms. Pass a mapping of names to runs"),
        ({"arms": {"a": 3, "b": "x"}}, "The runs of 'b' are 'x' (str). Pass a list of numbers"),
        ({"arms": {"a": ["x"]}}, "The run 0 of 'a' is 'x' (str), which is no number."),
        ({"arms": {"a": [1]}, "base": "b"}, "base='b' is no arm. These are: 'a'."),
        ({"arms": {"a": [1]}, "mode": "up"}, "mode='up' (str) is no direction."),
        ({"arms": {"a": [1]}, "margin": -1}, "margin=-1 (int) is no margin."),
        ({"arms": {"a": [1]}, "level": 5}, "level=5 is no level."),
        ({"arms": {"a": [1]}, "test": "anova"}, "test='anova' (str) is not known. Pass one of 'sign flips'"),
        ({"arms": {"a": [1]}, "folds": 1}, "folds=1"),
    ],
)
def test_what_cannot_be_read_is_refused(call: dict[str, Any], said: str):
    with pytest.raises(ConfigError) as refused:
        verdicts(**call)
    assert said in str(refused.value)


value = st.one_of(st.floats(), st.none(), st.integers(-2, 2).map(float))


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(value, max_size=7), min_size=1), st.booleans())
@settings(max_examples=60, deadline=None)
def test_whatever_the_runs_are_something_is_said(given: dict[str, Any], paired: bool):
    found = verdicts(given, paired=paired, margin=0.5)
    assert str(found)
    for one in found:
        assert 0 <= one.p <= one.p_corrected <= 1
        assert one.low <= one.high
        assert isinstance(one.verdict, Word)
