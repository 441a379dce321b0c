"""Policies: they approve only what passed everything, and say why they do not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from etude.core.errors import ConfigError
from etude.mage.loop.book import Record, digest_of_verdicts
from etude.mage.loop.standing import Standing
from etude.mage.patch.blocks import Author, Patch
from etude.mage.review.approving import Policy, changed_lines, decide, read_policy, who, why_not
from etude.mage.variants import Plan, Variant
from etude.mage.verdicts import Outcome, Rung, Verdict

DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-one\n--- two\n+three\n same\n"
PATCH = Patch(base="b", result="r", diff=DIFF, digest="p", author=Author(name="anthropic:m"))
BY_RULE = msgspec.structs.replace(PATCH, author=Author(name="rule"))
ALL = tuple(
    Verdict(rung=rung, outcome=Outcome.PASSED) for rung in (Rung.PARSE, Rung.POLICY, Rung.FIRST_STEP, Rung.GONE)
)
POLICY = Policy(name="p", rules=True, most_lines=3)


def test_what_passed_everything_and_is_small_is_approved() -> None:
    assert why_not(POLICY, PATCH, ALL) == ""
    assert why_not(msgspec.structs.replace(POLICY, most_lines=2), PATCH, ALL) == (
        "3 lines changed, and the policy approves up to 2"
    )


def test_lines_that_look_like_headers_count_where_they_are_changes() -> None:
    assert changed_lines(DIFF) == 3
    assert changed_lines("") == 0


def test_a_policy_of_rules_approves_rules_alone() -> None:
    rules = Policy(name="p", rules=True)
    assert why_not(rules, BY_RULE, ALL) == ""
    assert why_not(rules, PATCH, ALL) == "written by anthropic:m, and the policy approves rules only"
    small = Policy(name="p", most_lines=2)
    assert why_not(small, BY_RULE, ALL) == "3 lines changed, and the policy approves up to 2"


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.PASSED])
def test_whatever_did_not_pass_waits_for_a_person(outcome: Outcome) -> None:
    for n, verdict in enumerate(ALL):
        other = (*ALL[:n], msgspec.structs.replace(verdict, outcome=outcome), *ALL[n + 1 :])
        assert outcome.value in why_not(POLICY, BY_RULE, other)


def test_what_was_not_run_or_is_odd_waits_for_a_person() -> None:
    assert why_not(POLICY, BY_RULE, ALL[:3]) == "not run: gone"
    left_out = (*ALL[:3], msgspec.structs.replace(ALL[3], not_run=("SHORT_RUN",)))
    assert why_not(POLICY, BY_RULE, left_out) == ""
    to_its_end = msgspec.structs.replace(POLICY, short_run=True)
    assert why_not(to_its_end, BY_RULE, left_out) == "not run: short run"
    not_run = Verdict(rung=Rung.SHORT_RUN, outcome=Outcome.NOT_RUN)
    assert why_not(POLICY, BY_RULE, (*ALL, not_run)) == ""
    assert why_not(to_its_end, BY_RULE, (*ALL, not_run)) == "not run: short run"
    ran = msgspec.structs.replace(not_run, outcome=Outcome.PASSED)
    assert why_not(to_its_end, BY_RULE, (*ALL, ran)) == ""
    assert why_not(POLICY, BY_RULE, (*ALL, msgspec.structs.replace(ran, outcome=Outcome.FOR_A_PERSON))) == (
        "short run is for a person"
    )
    odd = (*ALL[:3], msgspec.structs.replace(ALL[3], alarms=("3.7 times the baseline",)))
    assert why_not(POLICY, BY_RULE, odd) == "alarm: 3.7 times the baseline"


def test_an_approval_names_the_policy_and_binds_to_what_was_seen() -> None:
    digest = digest_of_verdicts(ALL)
    record = Record(
        plan=Plan(base="b", entry="e", variants=(Variant(name="a", intent="i"),)),
        standings={"a": Standing(variant="a", patch="p", verdict=digest)},
        patches={"p": PATCH},
        verdicts={digest: ALL},
    )
    approval = decide(POLICY, record, "a")
    assert not isinstance(approval, str)
    assert (approval.by, approval.patch, approval.verdict, approval.despite) == ("p", "p", digest, False)
    record.standings["a"] = Standing(variant="a")
    assert decide(POLICY, record, "a") == "it has no verdict"


def test_a_policy_is_read_and_named_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("rules = true\nmost_lines = 40\n")
    policy = read_policy(path)
    assert (policy.rules, policy.most_lines) == (True, 40)
    path.write_text("rules = true\nmost_lines = 41\n")
    assert read_policy(path).name != policy.name
    assert policy.name.startswith("policy policy.toml ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rule = true\n", "says 'rule', which no policy says. There are: rules, most_lines, short_run."),
        ("rules = 1\n", "says rules = 1. It is true or false."),
        ("most_lines = -1\n", "says most_lines = -1. It is a number from 0."),
        ("most_lines = true\n", "says most_lines = True. It is a number from 0."),
        ("rules = false\n", "approves nothing. Say rules = true, or most_lines = 40; or leave --approve out."),
        ("", "approves nothing."),
        ("rules = \n", "cannot be read:"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_policy(path)
    assert said in str(refused.value)


def test_a_policy_that_is_not_there_is_refused_with_what_one_looks_like(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rules = true\nmost_lines = 40"):
        read_policy(tmp_path / "none.toml")


def test_who_approves_is_who_sits_here() -> None:
    assert who({"USER": "ada"}) == "ada"
    assert who({}) == "a person"
