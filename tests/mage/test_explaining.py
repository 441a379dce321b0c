"""An explanation is shown only if its numbers and names are those of the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import etude
from etude.core.errors import UnfoundedError
from etude.mage.handover.explaining import explain, told
from etude.mage.handover.numbers import missing_names, missing_numbers, numbers_in

REPORT: dict[str, Any] = {
    "name": "cnn",
    "result": "Of 2 components, 1 matters (layer:conv2).",
    "asked": [["metric", "accuracy (larger is better)"]],
    "verdicts": {
        "level": 0.05,
        "found": [
            {"component": "layer:conv2", "effect": 0.03124, "low": 0.0211, "high": 0.0402, "p": 0.0156, "n": 12},
            {"component": "layer:fc1", "effect": -0.00171, "low": -0.0101, "high": 0.0083, "p": 0.71, "n": 12},
        ],
    },
    "trials": [{"trial": 17, "values": {"accuracy": 0.777}}],
    "packages": {"torch": "2.13.0"},
}


class Answers:
    """Gives prepared answers, and keeps what was asked."""

    def __init__(self, *answers: str) -> None:
        self.left, self.asked = list(answers), list[str]()

    def __call__(self, question: str) -> str:
        self.asked.append(question)
        return self.left.pop(0)


GOOD = (
    "Without `layer:conv2` the accuracy falls by 0.031 (3.1 percent; the 95 % interval goes from 2.1% to 4.0 %), over "
    "12 seeds, p = 0.016. Of `layer:fc1` nothing can be said: the effect is \u22120.0017."
)


def test_rounded_numbers_and_percentages_of_the_report_are_founded() -> None:
    ask = Answers(GOOD)
    assert explain(REPORT, ask=ask) == GOOD
    assert "layer:conv2" in ask.asked[0]
    assert "2.13.0" not in ask.asked[0]


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ("It loses 3.2 %.", ["3.2 %"]),
        ("It loses 0.0313.", ["0.0313"]),  # rounding 0.03124 gives 0.0312
        ("It loses 0.777.", ["0.777"]),  # stands in the report, but of a single trial
        ("In 17 trials.", ["17"]),
        ("It loses 0.9.", ["0.9"]),  # the level of 0.05 gives 95 %, and no rounding of it
        ("The 90 % interval.", ["90 %"]),
        ("It gains +0.0017.", ["+0.0017"]),
        ("Its effect is -0.031.", ["-0.031"]),
        ("That is 18 times the effect of the other.", ["18"]),
        ("That is 3x as much.", ["3x"]),
        ("An effect of 3.1e-3.", ["3.1e-3"]),
        ("It loses 3.1 × 10^-1.", ["3.1 × 10^-1"]),
        ("A 99 % interval.", ["99 %"]),
        ("Over 1,200 seeds.", ["1,200"]),
        ("All three seeds agree, and it halved.", ["three", "halved"]),
        ("It loses .05 of it, 5 % at most, and 0.", ["0"]),
    ],
)
def test_a_number_that_nobody_measured_is_found(said: str, missing: list[str]) -> None:
    assert missing_numbers(said, told(REPORT)) == missing


@pytest.mark.parametrize(
    "said",
    ["It falls by 0.0017.", "p<0.71", "(0.0211, 0.0402)", "2.1-4.0 %", "2.1 to 4.0 %", "Of 2 components 1 matters.",
     "0.03124", "3.124%", "1.56e-2", "1.56 × 10^{\u22122}", "12 seeds", "Twelve seeds."],
)  # fmt: skip
def test_a_number_of_the_report_is_found_there(said: str) -> None:
    assert missing_numbers(said, told(REPORT)) == []


def test_a_count_is_no_rounded_measurement() -> None:
    assert missing_numbers("An accuracy of 1.", {"accuracy": 0.97}) == ["1"]
    assert missing_numbers("It took 12 s.", {"wall": 12.3}) == []


@given(st.floats(0.001, 1e6), st.integers(1, 4))
def test_every_way_to_round_a_number_is_founded(value: float, digits: int) -> None:
    report = {"value": value}
    assert missing_numbers(f"It is {value:.{digits}f}, or {value:.{digits}e}, or {value:.{digits}%}.", report) in (
        [], [f"{value:.{digits}f}"] if float(f"{value:.{digits}f}") == 0 else [],
    )  # fmt: skip
    far = f"{value * 1.5 + 1:.6f}"
    assert missing_numbers(f"It is {far}.", report) == [far]


def test_digits_in_names_are_no_numbers_and_names_have_to_be_there() -> None:
    assert [one.text for one in numbers_in("conv2, fc1 and resnet50_v2")] == []
    assert missing_names("`layer:conv2`, fc1 and conv2", told(REPORT)) == []
    assert missing_names("Without `layer:conv3`, or conv9, or `dropout`", told(REPORT)) == [
        "layer:conv3",
        "dropout",
        "conv9",
    ]


def test_what_is_wrong_goes_back_once_and_is_mended() -> None:
    ask = Answers("Without `layer:conv9` it falls by 5.5 %.", GOOD)
    assert explain(REPORT, ask=ask) == GOOD
    assert "1 number of the explanation does not occur in the report: 5.5 %." in ask.asked[1]
    assert "There is nothing of the name `layer:conv9` in the report." in ask.asked[1]
    assert "falls by 5.5 %" in ask.asked[1]


def test_the_second_unfounded_answer_is_refused() -> None:
    ask = Answers("It falls by 5.5 %.", "It falls by 5.6 % and 77.", "never asked")
    with pytest.raises(UnfoundedError) as refused:
        explain(REPORT, ask=ask)
    assert str(refused.value) == (
        "Not shown: 2 numbers of the explanation do not occur in the report: 5.6 %, 77. That was so in two answers. "
        "Read the report itself, or ask another model."
    )
    assert refused.value.numbers == ("5.6 %", "77")
    assert ask.left == ["never asked"]
    with pytest.raises(UnfoundedError, match=r"Not shown: the answer is empty\."):
        explain(REPORT, ask=Answers("", " "))


def test_a_real_report_of_an_ablation_can_be_explained() -> None:
    def train(run: Any, seed: int, extra: float = 0.05) -> None:
        run.report(accuracy=0.8 + extra + (seed % 13) / 1000 + extra * (seed % 5) / 100)

    ablation = etude.Experiment(train, metric="accuracy", mode="max").ablate(["extra"], seeds=7, name="told", workers=1)
    report = json.loads((ablation.report().parent / "report.json").read_text())
    found = report["verdicts"]["found"][0]
    good = f"`extra` {found['verdict']}: it gives {found['effect']:.4f} over {found['n']} seeds (p={found['p']:.2g})."
    assert explain(report, ask=Answers(good)) == good
    bad: Callable[[str], str] = Answers(good.replace("over 7", "over 70"), good.replace("over 7", "over 70"))
    with pytest.raises(UnfoundedError, match="70"):
        explain(report, ask=bad)
