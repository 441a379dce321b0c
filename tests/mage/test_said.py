"""What was said of a study holds: what a plan is made of is said once, what carries it out is what was said last."""

from __future__ import annotations

import pytest

from etude.core.errors import ConfigError
from etude.mage.asking.budget import Budget, Limits
from etude.mage.asking.prices import Price, Prices
from etude.mage.loop.book import STEPS, Setup, Whom
from etude.mage.loop.said import heeded, plan_said

FIRST = Setup(
    root="/here",
    entry="python train.py",
    metric="m.json:a",
    mode="min",
    tier="limits",
    tag="t4g",
    docs={"paper.txt": "words"},
    columns=("a", "b"),
    steps=8,
    choices={"conv2": "pool"},
    planner=Whom(name="openai:p", base_url="http://127.0.0.1:1"),
    writer=Whom(name="openai:w"),
    local_only=True,
    budget=Budget(study=Limits(calls=3, output=100), prices=Prices(date="2026-11-24", currency="EUR", models={})),
    repairs=0,
    most_bytes=1_000,
)


def test_what_nobody_says_again_stays_as_it_was() -> None:
    assert heeded(FIRST, Setup(root="/here", entry=""), study="s") == FIRST
    assert heeded(None, FIRST, study="s") == FIRST
    assert heeded(FIRST, FIRST, study="s") == FIRST


def test_what_carries_a_plan_out_is_what_was_said_last() -> None:
    models = {"*": Price(input=1.0, output=2.0)}
    now = Setup(
        root="/there",
        entry="",
        tier="bwrap",
        columns=("b", "a"),  # the same ones
        choices={"fc1": "none"},
        writer=Whom(name="anthropic:w"),
        budget=Budget(study=Limits(calls=0), prices=Prices(date="2026-11-25", currency="EUR", models=models)),
        repairs=2,
    )
    found = heeded(FIRST, now, study="s")
    assert (found.root, found.tier, found.repairs, found.most_bytes) == ("/there", "bwrap", 2, 1_000)
    assert (found.writer, found.planner) == (Whom(name="anthropic:w"), FIRST.planner)
    assert found.budget.study == Limits(calls=0, output=100)  # none is a number as any other
    assert found.budget.prices is not None
    assert found.budget.prices.date == "2026-11-25"
    assert found.choices == {"conv2": "pool", "fc1": "none"}
    assert (found.tag, found.local_only) == ("t4g", True)


def test_another_metric_is_refused_with_both_and_the_ways_on() -> None:
    with pytest.raises(ConfigError) as refused:
        heeded(FIRST, Setup(root="/here", entry="", metric="m.json:b"), study="s")
    assert str(refused.value) == (
        "--metric is 'm.json:b' now, and was 'm.json:a' before in study s. What was planned and judged there would be "
        "of something else. Leave --metric out to go on with what was said, or begin another study with --name."
    )


def test_as_many_steps_are_watched_as_was_said_first_or_as_usual() -> None:
    with pytest.raises(ConfigError, match=r"--steps is 3 now, and was 8 before in study s\."):
        heeded(FIRST, Setup(root="/here", entry="", steps=3), study="s")
    usual = heeded(None, Setup(root="/here", entry="python train.py"), study="s")
    assert usual.steps == STEPS
    with pytest.raises(ConfigError, match=r"--steps is 9 now, and was 3 before in study s\."):
        heeded(usual, Setup(root="/here", entry="", steps=9), study="s")


def test_a_plan_is_told_by_what_it_is_made_with() -> None:
    plain = Setup(root="/here", entry="python train.py", docs={"paper.txt": "words"})
    assert plan_said(plain) == ""  # rules read no documents
    read = Setup(root="/here", entry="python train.py", planner=Whom(name="openai:p"))
    other = Setup(root="/here", entry="python train.py", planner=Whom(name="openai:p"), docs={"paper.txt": "words"})
    chosen = Setup(root="/here", entry="python train.py", choices={"conv2": "pool"})
    assert len({plan_said(one) for one in (plain, read, other, chosen)}) == 4
