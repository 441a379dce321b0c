"""The shell of the loop: it writes before it acts, sends what explains, spends nothing twice, stops where it must."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from stand_ins import (
    BROKEN,
    CONV2,
    CONV3,
    EVALUATION,
    GOOD,
    KEPT,
    TREE,
    Backend,
    Refused,
    bench,
    cut_off,
    make_patch,
    no_rule,
    patch_of_trees,
    probe,
    removing,
    spend_limit,
)

from etude.core.errors import BackendError, ConfigError
from etude.mage.asking.budget import Budget, Limits
from etude.mage.asking.evidence import Evidence, head_and_tail, in_order, masked, of_verdict
from etude.mage.backends.protocol import Reply, Request, StopReason
from etude.mage.facts import Ended, Facts
from etude.mage.loop.book import Approval, Book
from etude.mage.loop.machine import Tries
from etude.mage.loop.replaying import rejudge
from etude.mage.loop.session import read
from etude.mage.loop.states import Stage
from etude.mage.patch.blocks import Author, Block, Search
from etude.mage.review.approving import Policy, decide
from etude.mage.tree import Tree
from etude.mage.variants import Route, Variant
from etude.mage.verdicts import Outcome, Reason, Rung, Verdict

NAME = "without-conv2"


def stages(folder: Path) -> dict[str, Stage]:
    return {name: standing.stage for name, standing in read(folder).standings.items()}


# --- the course -----------------------------------------------------------------------------------


def test_a_good_answer_waits_for_a_person_with_a_verdict_that_passed(tmp_path: Path) -> None:
    backend = Backend([GOOD])
    with bench(tmp_path / "s", backend) as at:
        at.work.run()
    record = read(tmp_path / "s")
    standing = record.standings[NAME]
    assert (standing.stage, standing.outcome, standing.calls) == (Stage.AWAITING_REVIEW, Outcome.PASSED, 1)
    patch = record.patch_of(NAME)
    assert patch is not None
    assert patch.author == Author(name="m-1", request="req_1")
    rungs = [verdict.rung for verdict in record.verdicts_of(NAME)]
    assert rungs == [Rung.PARSE, Rung.POLICY, Rung.FIRST_STEP, Rung.GONE, Rung.SHORT_RUN]
    assert len(record.runs) == 2
    assert record.usage == (100, 10)


def test_what_raises_is_repaired_with_the_evidence_and_nothing_else(tmp_path: Path) -> None:
    backend = Backend([BROKEN, GOOD])
    with bench(tmp_path / "s", backend) as at:
        at.work.run()
    assert stages(tmp_path / "s") == {NAME: Stage.AWAITING_REVIEW}
    assert read(tmp_path / "s").standings[NAME].why == ""  # what was mended is no reason any more
    draft, repair = backend.asked
    assert draft.messages == repair.messages[: len(draft.messages)]
    assert [m.role for m in repair.messages] == ["user", "user", "assistant", "user"]
    assert repair.messages[2].text == BROKEN
    told = repair.messages[3].text
    assert "first step" in told
    assert "NameError: conv2 of size 512 is missing" in told
    assert CONV2.strip() in told  # the untouched text of what was changed
    assert "fc.weight" in told or len(told) < 2000


def test_a_component_that_is_still_there_is_sent_back_with_the_fact(tmp_path: Path) -> None:
    backend = Backend([KEPT, GOOD])
    with bench(tmp_path / "s", backend) as at:
        at.work.run()
    assert "conv2" in backend.asked[1].messages[3].text
    assert "gone" in backend.asked[1].messages[3].text
    assert read(tmp_path / "s").standings[NAME].calls == 2


def test_an_answer_that_was_cut_off_is_never_a_patch(tmp_path: Path) -> None:
    backend = Backend([cut_off(), GOOD])
    with bench(tmp_path / "s", backend) as at:
        at.work.run()
    message = "Reply cut off at 8,192 output tokens; nothing applied. Asking for fewer blocks."
    assert message in backend.asked[1].messages[3].text
    assert f"{NAME}: {message}" in at.said


def test_who_never_gets_it_right_is_asked_eight_times_and_no_more(tmp_path: Path) -> None:
    wrong = [removing(CONV2, f"raise Error{chr(65 + n)}\n") for n in range(9)]
    backend = Backend(list(wrong))
    with bench(tmp_path / "s", backend) as at:
        at.work.run()
    standing = read(tmp_path / "s").standings[NAME]
    assert (standing.stage, standing.calls, len(backend.asked)) == (Stage.GAVE_UP, 8, 8)
    assert "ErrorH" in standing.why
    fresh = backend.asked[4]
    assert fresh.messages == backend.asked[0].messages  # without the failed history


def test_a_fresh_draft_is_a_question_of_its_own_though_its_words_are_the_same(tmp_path: Path) -> None:
    backend = Backend([BROKEN, BROKEN, GOOD])
    with bench(tmp_path / "s", backend) as at:
        at.work.run()
    assert stages(tmp_path / "s") == {NAME: Stage.AWAITING_REVIEW}
    assert backend.asked[2].messages == backend.asked[0].messages
    assert len(backend.asked) == 3


def test_variants_take_turns_and_share_the_beginning_of_their_questions(tmp_path: Path) -> None:
    backend = Backend([BROKEN, removing(CONV3), GOOD])
    with bench(tmp_path / "s", backend, names=("without-conv2", "without-conv3")) as at:
        at.work.run()
    asked = ["conv2" if "Variant without-conv2" in request.messages[1].text else "conv3" for request in backend.asked]
    assert asked == ["conv2", "conv3", "conv2"]
    assert len({request.messages[0].text for request in backend.asked}) == 1
    assert all(request.messages[0].shared for request in backend.asked)
    assert set(stages(tmp_path / "s").values()) == {Stage.AWAITING_REVIEW}


def test_a_rule_writes_without_anybody_being_asked(tmp_path: Path) -> None:
    def rule(wanted: Variant, tree: Tree, facts: Facts | None) -> tuple[Block, ...] | None:
        assert facts is not None
        return (Search(file="train.py", search=CONV2, text=""),)

    backend = Backend([])
    with bench(tmp_path / "s", backend, route=Route.RULE, write_by_rule=rule) as at:
        at.work.run()
    record = read(tmp_path / "s")
    assert (record.standings[NAME].stage, record.standings[NAME].calls) == (Stage.AWAITING_REVIEW, 0)
    patch = record.patch_of(NAME)
    assert patch is not None
    assert patch.author.name == "rule"


def test_where_nobody_can_be_asked_a_variant_waits_for_whoever_brings_somebody(tmp_path: Path) -> None:
    with bench(tmp_path / "s", None, route=Route.RULE, write_by_rule=no_rule) as at:
        at.work.run()
    standing = read(tmp_path / "s").standings[NAME]
    assert (standing.stage, standing.calls) == (Stage.DRAFTING, 0)
    assert standing.why == "nobody was there who could be asked; name somebody with --backend"
    with bench(tmp_path / "s", Backend([GOOD])) as at:
        at.work.run()
    assert stages(tmp_path / "s") == {NAME: Stage.AWAITING_REVIEW}


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("CANNOT: conv2 is the only layer", "Not written: conv2 is the only layer"),
        (Reply(text="", stop=StopReason.REFUSED), "standing-in refused to answer."),
    ],
)
def test_who_says_no_is_believed(tmp_path: Path, reply: str | Reply, why: str) -> None:
    with bench(tmp_path / "s", Backend([reply])) as at:
        at.work.run()
    standing = read(tmp_path / "s").standings[NAME]
    assert (standing.stage, standing.why, standing.calls) == (Stage.GAVE_UP, why, 1)


# --- before money is spent ------------------------------------------------------------------------


def test_a_program_that_does_not_run_by_itself_is_the_users_and_nobody_is_asked(tmp_path: Path) -> None:
    broken = TREE.with_files({"train.py": b"import there_is_no_such_module\n"})
    backend = Backend([GOOD])
    with bench(tmp_path / "s", backend, tree=broken) as at:
        at.work.run()
    standing = read(tmp_path / "s").standings[NAME]
    assert (standing.stage, standing.calls, backend.asked) == (Stage.BASELINE_BROKEN, 0, [])
    assert "That is your code, not the patch" in standing.why
    assert "there_is_no_such_module" in standing.why


def test_a_program_that_differs_from_itself_is_run_five_times_and_it_is_said(tmp_path: Path) -> None:
    noisy = TREE.with_files(
        {"train.py": TREE.files["train.py"].replace(b"0.0", b"__import__('time').time_ns() % 99 / 1e4")}
    )
    runs: list[int] = []

    def counted(tree: Tree) -> Facts:
        facts = probe(tree)
        runs.append(1)
        return msgspec.structs.replace(facts, losses=(2.3048 + len(runs) * 1e-4,) * 3)

    with bench(tmp_path / "s", Backend(["CANNOT: no"]), tree=noisy, probe=counted) as at:
        at.work.run()
    assert len(read(tmp_path / "s").runs) == 5
    assert any(
        "Baseline differs from itself (step 1: " in said and "using the spread of 5 runs" in said for said in at.said
    )


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    runs: list[Tree] = []

    def counted(tree: Tree) -> Facts:
        runs.append(tree)
        return probe(tree)

    with bench(tmp_path / "s", Backend(["CANNOT: no"]), probe=counted) as at:
        at.work.run()
    with bench(tmp_path / "s", Backend([]), probe=counted) as at:
        at.work.run()
    assert len(runs) == 2


# --- going on -------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


def test_a_study_that_is_killed_goes_on_and_asks_for_no_answer_twice(tmp_path: Path) -> None:
    backend, kills = Backend([BROKEN, GOOD]), [3, 1]

    def deadly(tree: Tree, arguments: Sequence[str] = ()) -> Facts:
        if kills:
            kills[0] -= 1
            if not kills[0]:
                kills.pop(0)
                raise Killed
        return probe(tree, arguments)

    for _ in range(2):
        with pytest.raises(Killed), bench(tmp_path / "s", backend, probe=deadly) as at:
            at.work.run()
    with bench(tmp_path / "s", backend, probe=deadly) as at:
        at.work.run()
    assert stages(tmp_path / "s") == {NAME: Stage.AWAITING_REVIEW}
    assert len(backend.asked) == 2


def test_what_is_asked_is_written_before_it_is_asked_and_answers_before_they_are_used(tmp_path: Path) -> None:
    seen: list[Any] = []

    class Looking(Backend):
        def ask(self, request: Request) -> Reply:
            record = read(tmp_path / "s")
            seen.append((record.standings[NAME].calls, len(record.replies)))
            return super().ask(request)

    def looking(text: str, **options: Any) -> Any:
        seen.append(len(read(tmp_path / "s").replies))
        raise Refused("The reply has no block.")

    backend = Looking([GOOD, GOOD, GOOD, GOOD])
    with bench(tmp_path / "s", backend, read_reply=looking, tries=Tries(repairs=0, drafts=1)) as at:
        at.work.run()
    assert seen[:2] == [(1, 0), 1]


def test_an_answer_that_was_written_before_the_kill_is_not_asked_for_again(tmp_path: Path) -> None:
    backend = Backend([GOOD])

    def deadly(*given: Any, **options: Any) -> Any:
        raise Killed

    with pytest.raises(Killed), bench(tmp_path / "s", backend, make_patch=deadly) as at:
        at.work.run()
    with bench(tmp_path / "s", backend) as at:
        at.work.run()
    assert len(backend.asked) == 1
    assert stages(tmp_path / "s") == {NAME: Stage.AWAITING_REVIEW}


# --- limits ---------------------------------------------------------------------------------------


def test_a_spend_limit_is_one_request_and_the_study_can_be_gone_on_with(tmp_path: Path) -> None:
    names = ("without-conv2", "without-conv3", "without-fc")
    backend = Backend([GOOD, spend_limit()])
    with bench(tmp_path / "s", backend, names=names) as at:
        at.work.run()
    assert len(backend.asked) == 2
    assert stages(tmp_path / "s") == dict(
        zip(names, (Stage.AWAITING_REVIEW, Stage.BACKEND_DOWN, Stage.BACKEND_DOWN), strict=True)
    )
    assert (
        "Provider says the monthly spend limit is reached (429, no retry-after). Not retried. 1 variant done, 2 wait; "
        "`resume` continues."
    ) in at.said
    backend.replies = [removing(CONV3), "CANNOT: no"]
    with bench(tmp_path / "s", backend, names=names) as at:
        at.work.run()
    assert list(stages(tmp_path / "s").values()) == [Stage.AWAITING_REVIEW, Stage.AWAITING_REVIEW, Stage.GAVE_UP]


def test_a_question_that_is_too_large_ends_one_variant_alone(tmp_path: Path) -> None:
    backend = Backend([BackendError("too many tokens", code="too large", status=413), removing(CONV3)])
    with bench(tmp_path / "s", backend, names=("without-conv2", "without-conv3")) as at:
        at.work.run()
    assert list(stages(tmp_path / "s").values()) == [Stage.BACKEND_DOWN, Stage.AWAITING_REVIEW]


def test_a_budget_of_calls_holds_and_counts_what_earlier_runs_spent(tmp_path: Path) -> None:
    budget = Budget(study=Limits(calls=2))
    backend = Backend([BROKEN, KEPT, GOOD])
    with bench(tmp_path / "s", backend, budget=budget) as at:
        at.work.run()
    assert stages(tmp_path / "s") == {NAME: Stage.BUDGET_SPENT}
    assert "Stopped before call 3: 2 are allowed." in at.said
    with bench(tmp_path / "s", backend, budget=budget) as at:
        at.work.run()
    assert len(backend.asked) == 2
    with bench(tmp_path / "s", backend, budget=Budget(study=Limits(calls=3))) as at:
        at.work.run()
    assert stages(tmp_path / "s") == {NAME: Stage.AWAITING_REVIEW}


# --- people and policies --------------------------------------------------------------------------


def by_policy(policy: Policy) -> Any:
    def make(book: Book) -> Any:
        return lambda name: decide(policy, book.record, name)

    return make


def test_a_policy_approves_what_is_small_and_passed(tmp_path: Path) -> None:
    policy = Policy(name="policy p.toml 123", most_lines=40)
    with bench(tmp_path / "s", Backend([GOOD]), approve=by_policy(policy)) as at:
        at.work.run()
    record = read(tmp_path / "s")
    assert record.standings[NAME].stage is Stage.ACCEPTED
    assert record.approvals[NAME].by == "policy p.toml 123"
    assert list(record.accepted()) == [NAME]


def test_what_changes_a_file_beyond_the_plan_goes_to_a_person_and_not_to_the_model(tmp_path: Path) -> None:
    both = json.dumps(json.loads(GOOD) + json.loads(EVALUATION))
    backend = Backend([both])
    policy = Policy(name="p", most_lines=40)
    with bench(tmp_path / "s", backend, approve=by_policy(policy)) as at:
        at.work.run()
    record = read(tmp_path / "s")
    assert (record.standings[NAME].stage, len(backend.asked)) == (Stage.AWAITING_REVIEW, 1)
    assert record.standings[NAME].outcome is Outcome.FOR_A_PERSON
    assert record.verdicts_of(NAME)[1].reasons[0].text == (
        "This patch changes evaluate.py, which the plan does not allow. Sent to you, not to the model."
    )
    assert f"{NAME}: waits for a person: policy is for a person" in at.said


def test_what_is_doubtful_is_not_run_where_the_sandbox_keeps_little_apart(tmp_path: Path) -> None:
    both, ran = json.dumps(json.loads(GOOD) + json.loads(EVALUATION)), list[Tree]()

    def counted(tree: Tree) -> Facts:
        ran.append(tree)
        return probe(tree)

    with bench(tmp_path / "s", Backend([both]), apart=False, probe=counted) as at:
        at.work.run()
    assert ran == [TREE, TREE]
    record = read(tmp_path / "s")
    assert record.verdicts_of(NAME)[-1].outcome is Outcome.NOT_RUN
    assert record.standings[NAME].stage is Stage.AWAITING_REVIEW


def test_a_persons_own_patch_goes_through_the_same_rungs(tmp_path: Path) -> None:
    def by_hand(old: str, new: str) -> Any:
        edited = TREE.with_files({"train.py": TREE.files["train.py"].replace(old.encode(), new.encode())})
        return patch_of_trees(TREE, edited, Author(name="me"))

    with bench(tmp_path / "s", None, route=Route.PERSON) as at:
        at.work.run()
        assert at.work.standings[NAME].stage is Stage.PLAN_APPROVED
        at.work.hand_in(NAME, by_hand(CONV2, "# still there\n" + CONV2))
        at.work.run()
        assert at.work.standings[NAME].stage is Stage.GAVE_UP
        assert "conv2" in at.work.standings[NAME].why
        at.work.hand_in(NAME, by_hand(CONV2, ""))
        at.work.run()
    record = read(tmp_path / "s")
    assert record.standings[NAME].outcome is Outcome.PASSED
    patch = record.patch_of(NAME)
    assert patch is not None
    assert patch.author.name == "me"


def test_a_note_comes_back_as_the_next_repair(tmp_path: Path) -> None:
    other = removing(CONV2, "# conv2 is gone\n")
    backend = Backend([GOOD, other])
    with bench(tmp_path / "s", backend) as at:
        at.work.run()
        at.work.reject(NAME, "leave a comment where it was", by="me")
        at.work.run()
        assert at.work.standings[NAME].stage is Stage.AWAITING_REVIEW
    assert "leave a comment where it was" in backend.asked[1].messages[3].text


def test_today_s_judge_judges_an_old_study_anew_and_nobody_is_asked(tmp_path: Path) -> None:
    with bench(tmp_path / "s", Backend([GOOD])) as at:
        at.work.run()
        standing = at.work.standings[NAME]
        at.work.accept(NAME, Approval(by="me", patch=standing.patch, verdict=standing.verdict))
    tools = at.work.tools
    record = read(tmp_path / "s")
    known = {"compare": tools.compare, "check": tools.check, "judge_first_step": tools.judge_first_step}
    [same] = rejudge(record, judge=tools.judge, **known)
    assert (same.before, same.now, same.differs) == (Outcome.PASSED, Outcome.PASSED, False)

    def stricter(*given: Any, **options: Any) -> Verdict:
        return Verdict(rung=Rung.GONE, outcome=Outcome.FAILED, reasons=(Reason(text="stricter"),))

    [other] = rejudge(record, judge=stricter, **known)
    assert other.differs
    with bench(tmp_path / "s", None) as at:
        at.work.judge_anew(NAME, other.verdicts)
    assert stages(tmp_path / "s") == {NAME: Stage.AWAITING_REVIEW}  # the approval was of another verdict
    assert read(tmp_path / "s").accepted() == {}


def test_planning_anew_keeps_what_is_done(tmp_path: Path) -> None:
    with bench(tmp_path / "s", Backend([GOOD])) as at:
        at.work.run()
        assert at.book.record.plan is not None
        at.work.plan(at.book.record.plan)
    assert stages(tmp_path / "s") == {NAME: Stage.AWAITING_REVIEW}


def test_files_that_hold_a_key_are_refused(tmp_path: Path) -> None:
    with bench(tmp_path / "s", None) as at:
        at.book._secrets = ["sk-0123456789"]
        with pytest.raises(ConfigError, match="looks like a key"):
            at.book.refuse_secrets({"a.py": b"key = 'sk-0123456789'"})


# --- evidence -------------------------------------------------------------------------------------


def test_two_errors_with_other_numbers_are_the_same_error() -> None:
    def of(message: str, frame: str = "train.py, line 4, forward") -> Evidence:
        ended = Ended(code=1, why="raised", error="RuntimeError", message=message, frame=frame, traceback="")
        return of_verdict(Verdict(rung=Rung.FIRST_STEP, outcome=Outcome.FAILED), ended=ended)

    one, other = of("shapes 8x512 and 128x10 at 0x7f01"), of("shapes 8x256 and 64x10 at 0x7f02")
    assert one.signature == other.signature
    assert of("another").signature != one.signature
    assert of("shapes 8x512 and 128x10 at 0x7f01", "model.py, line 4, forward").signature != one.signature


def test_long_outputs_are_told_by_head_and_tail() -> None:
    text = "\n".join(f"line {n}" for n in range(200))
    told = head_and_tail(text).splitlines()
    assert len(told) == 60
    assert (told[0], told[30], told[-1]) == ("line 0", "[141 lines left out]", "line 199")
    assert head_and_tail("one\ntwo") == "one\ntwo"


def test_frames_of_the_project_come_first() -> None:
    traceback = (
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.11/site-packages/torch/nn/linear.py", line 9, in forward\n    return F.linear(x)\n'
        '  File "train.py", line 4, in forward\n    return self.fc1(x)\n'
        "RuntimeError: shapes\n"
    )
    lines = in_order(traceback).splitlines()
    assert lines[1] == '  File "train.py", line 4, in forward'
    assert lines[-1] == "RuntimeError: shapes"
    assert len(lines) == len(traceback.splitlines())


def test_masking_leaves_words() -> None:
    assert masked("layer conv2 has 1.5e-3 at 0x7fff") == "layer conv2 has # at #"
    assert masked("mat1 (8x512 and 128x10x3), line 41") == "mat1 (#x# and #x#x#), line #"


def test_a_patch_that_was_refused_tells_all_its_reasons(tmp_path: Path) -> None:
    backend = Backend([removing("there is no such line"), GOOD])
    with bench(tmp_path / "s", backend, make_patch=make_patch) as at:
        at.work.run()
    assert "Search text found 0 times in train.py; nothing applied." in backend.asked[1].messages[3].text
