"""The rung that runs a program to its end: what it finds, what it leaves to people, when it is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from stand_ins import GOOD, Backend, bench, probe, removing

from etude.core.errors import ConfigError
from etude.mage.facts import Ended, Facts, FitFacts
from etude.mage.judge.baseline import Baseline, compare_runs
from etude.mage.judge.completion import Completion, judge_completion, why_broken, why_not_run
from etude.mage.loop.at_hand import completer, find_sandbox, left_under
from etude.mage.loop.book import SHORT_S, Book, Did, Setup
from etude.mage.loop.ladder import left_out, needs_baseline_run, worst
from etude.mage.loop.session import read
from etude.mage.loop.states import Stage
from etude.mage.review.approving import Policy, decide
from etude.mage.sandbox.protocol import Limits
from etude.mage.static.leaving import stops_itself
from etude.mage.tree import Tree
from etude.mage.variants import Variant
from etude.mage.verdicts import Outcome, Rung, Verdict
from etude.mage.witnesses import CallGone, SettingValue

NAME = "without-conv2"
ENTRY = "python train.py --seed {seed}"
NO_CLIP = Variant(name="no-clip", intent="", witnesses=(CallGone(name="train.py:clip"),))
ENDED = Ended(code=0, why="finished")
USUAL = Facts(
    ended=ENDED,
    steps=12,
    losses=(0.5,) * 12,
    calls={"train.py:clip": 12, "train.py:evaluate": 2},
    metrics={"accuracy": 0.75},
    wall_s=3.0,
)
WITHOUT = msgspec.structs.replace(
    USUAL, losses=(0.5, *(0.4,) * 11), calls={"train.py:evaluate": 2}, metrics={"accuracy": 0.5}
)
NO_METRIC = msgspec.structs.replace(WITHOUT, metrics={})


def ended(facts: Facts, metric: float | None = 0.5, *, limit_s: float = 60.0) -> Completion:
    return Completion(entry=ENTRY, limit_s=limit_s, facts=facts, name="accuracy", metric=metric)


WHOLE = ended(USUAL, 0.75)


def base() -> Baseline:
    first = msgspec.structs.replace(USUAL, steps=3, losses=(0.5,) * 3, metrics={})
    return compare_runs([first, first])


def said(
    facts: Facts, metric: float | None = 0.5, *, variant: Variant = NO_CLIP, stops_itself: bool = False
) -> tuple[Outcome, str]:
    verdict = judge_completion(variant, base(), WHOLE, ended(facts, metric), stops_itself=stops_itself)
    assert verdict.rung is Rung.SHORT_RUN
    return verdict.outcome, "\n".join(reason.text for reason in verdict.reasons)


# --- what is found --------------------------------------------------------------------------------


def test_what_comes_to_its_end_as_the_baseline_passes_and_says_what_it_took() -> None:
    assert said(WITHOUT) == (
        Outcome.PASSED,
        "It came to its end: 3.0 s, 12 steps, accuracy 0.5 (baseline: 3.0 s, 12 steps, accuracy 0.75).",
    )


def of(**changes: Any) -> Facts:
    return msgspec.structs.replace(WITHOUT, **changes)


RAISED = Ended(
    code=1,
    why="raised",
    error="KeyError",
    message="'conv2.weight'",
    frame="train.py:41 in save",
    traceback="Traceback\nKeyError: 'conv2.weight'",
)


@pytest.mark.parametrize(
    ("facts", "metric", "outcome", "text"),
    [
        (
            of(ended=RAISED),
            None,
            Outcome.FAILED,
            "It does not come to its end, as the untouched program does. KeyError after 12 steps at train.py:41 in "
            "save: 'conv2.weight'.",
        ),
        (
            of(ended=Ended(code=3, why="exit code 3", traceback="no space\n")),
            None,
            Outcome.FAILED,
            "It does not come to its end, as the untouched program does: exit code 3 after 12 steps; no space.",
        ),
        (
            of(metrics={"loss": 0.3}),
            None,
            Outcome.FAILED,
            "It comes to its end and leaves no metric 'accuracy', where the untouched program does.",
        ),
        (
            WITHOUT,
            float("nan"),
            Outcome.FAILED,
            "Its metric 'accuracy' is nan, which is no finite number (0.75 in the baseline).",
        ),
        (
            of(steps=6, losses=WITHOUT.losses[:6]),
            0.5,
            Outcome.FAILED,
            "Until its end it takes 6 optimizer steps, 12 optimizer steps in the baseline: its training is shorter. No "
            "claim says so.",
        ),
        (
            of(losses=(0.5, *(float("nan"),) * 11)),
            0.5,
            Outcome.FOR_A_PERSON,
            "Its loss is nan from step 2 on, and never in the baseline. It may be what comes of the variant, or an "
            "error.",
        ),
        (
            of(calls={}),
            0.5,
            Outcome.FOR_A_PERSON,
            "Until its end: `train.py:evaluate` is called not at all, 2 times in the baseline, and no claim says so.",
        ),
        (
            of(ended=Ended(code=None, why="time limit")),
            None,
            Outcome.INCONCLUSIVE,
            "It did not come to its end within 60 s; the untouched program took 3.0 s. It hangs or is slower: nobody "
            "can tell. Give it more time with --short-limit.",
        ),
    ],
    ids=["raises", "exits", "no metric", "nan", "cut", "diverges", "not evaluated", "no time"],
)
def test_what_no_first_step_shows(facts: Facts, metric: float | None, outcome: Outcome, text: str) -> None:
    found, told = said(facts, metric)
    assert (found, told.splitlines()[0]) == (outcome, text)


def test_another_number_of_steps_is_for_a_person_where_it_may_follow_from_the_variant() -> None:
    fewer = of(steps=6, losses=WITHOUT.losses[:6])
    assert said(fewer, stops_itself=True)[0] is Outcome.FOR_A_PERSON
    epochs = msgspec.structs.replace(NO_CLIP, witnesses=(*NO_CLIP.witnesses, SettingValue(name="epochs", value=1)))
    assert said(fewer, variant=epochs)[0] is not Outcome.FAILED


def test_fits_are_counted_as_steps_are() -> None:
    fit = FitFacts(type="SVC", rows=9, columns=("a",))
    whole = ended(msgspec.structs.replace(USUAL, fits=(fit,)), 0.75)
    verdict = judge_completion(NO_CLIP, base(), whole, ended(of(fits=(fit, fit))))
    assert verdict.outcome is Outcome.FAILED
    assert verdict.reasons[0].text.startswith("Until its end it takes 2 fits, 1 fit in the baseline")


def test_fits_that_go_with_a_call_are_no_shorter_training() -> None:
    """Found by running replies of fresh eyes through the loop: a person is asked, and then nothing turns it away."""
    chosen, fit = (FitFacts(type=kind, rows=9, columns=("a",)) for kind in ("SelectKBest", "SVC"))
    without = Variant(name="all", intent="`chosen` is removed.", witnesses=(CallGone(name="train.py:chosen"),))
    calls = {"train.py:chosen": 2, "train.py:evaluate": 2}
    whole = ended(msgspec.structs.replace(USUAL, fits=(chosen, fit, chosen, fit), calls=calls), 0.75)
    along = judge_completion(without, base(), whole, ended(of(fits=(fit, fit))))
    assert along.outcome is Outcome.FOR_A_PERSON
    assert "its training is shorter. They are those of estimators that are called no more." in along.reasons[0].text
    cut = judge_completion(without, base(), whole, ended(of(fits=(fit,))))
    assert cut.outcome is Outcome.FAILED
    assert cut.reasons[0].text.startswith("Until its end it takes 1 fit, 4 fits in the baseline")


def test_numbers_that_are_told_no_more_are_for_a_person() -> None:
    whole = ended(msgspec.structs.replace(USUAL, metrics={"accuracy": 0.75, "auc": 0.7}), 0.75)
    verdict = judge_completion(NO_CLIP, base(), whole, ended(WITHOUT))
    assert verdict.outcome is Outcome.FOR_A_PERSON
    assert verdict.reasons[0].text.startswith("It tells no `auc` at its end")


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("for epoch in range(9):\n    step()\n    if loss < 0.1:\n        break\n", True),
        ("for x in loader:\n    loss.backward()\n    if done:\n        raise StopIteration\n", True),
        ("for x in loader:\n    loss.backward()\n    if bad:\n        continue\n", False),
        ("while not done:\n    loss.backward()\n", True),
        ("model.fit(x, y, callbacks=[EarlyStopping(patience=3)])\n", True),
        ("for epoch in range(9):\n    loss.backward()\n", False),
        ("for name in names:\n    if name:\n        break\n", False),
        ("def f(:\n", False),
    ],
)
def test_programs_that_may_stop_by_what_they_learn_are_known(text: str, does: bool) -> None:
    assert stops_itself(text) is does


# --- the untouched program ------------------------------------------------------------------------


def test_a_baseline_that_fails_at_its_end_is_told_as_the_users() -> None:
    assert why_broken(WHOLE) == ""
    assert why_broken(ended(USUAL, None)) == (
        "The program was run to its end as 'python train.py --seed {seed}'. It comes to its end, and was to leave the "
        "metric 'accuracy' there: it leaves none. That is your code, not the patch: no variant was written, and "
        "none of your code was sent. Make it come to its end there, or leave this rung out with --short-limit 0."
    )
    assert "KeyError after 12 steps at train.py:41 in save" in why_broken(ended(of(ended=RAISED), None))


def test_a_baseline_without_time_to_end_is_no_error_and_it_is_said_how_to_shorten_it() -> None:
    slow = ended(of(ended=Ended(code=None, why="time limit")), None)
    assert why_broken(slow) == ""
    assert why_not_run(slow) == (
        "The untouched program did not come to its end within 60 s, watched as it is, so no variant was run to its "
        "end. Shorten it for this rung, as with --short '--epochs 1', or give it more time with --short-limit."
    )
    assert why_not_run(WHOLE) == ""


def test_what_was_run_to_its_end_is_run_again_only_if_that_would_tell_more() -> None:
    slow = ended(of(ended=Ended(code=None, why="time limit")), None)
    assert WHOLE.holds_for(ENTRY, 10.0)
    assert not WHOLE.holds_for(f"{ENTRY} --epochs 1", 60.0)
    assert slow.holds_for(ENTRY, 60.0)
    assert not slow.holds_for(ENTRY, 90.0)


# --- in the loop ----------------------------------------------------------------------------------


class Ends:
    """Stands in for what runs a tree to its end: the first steps, as if they were all, and a metric."""

    def __init__(self, *metrics: float | None, timed_out: bool = False) -> None:
        self.metrics = list(metrics)
        self.timed_out = timed_out
        self.ran: list[Tree] = []

    def __call__(self, tree: Tree, arguments: Sequence[str] = ()) -> Completion:
        self.ran.append(tree)
        facts = msgspec.structs.replace(probe(tree, arguments), ended=ENDED)
        if self.timed_out:
            facts = msgspec.structs.replace(facts, ended=Ended(code=None, why="time limit"))
        return ended(facts, self.metrics.pop(0) if self.metrics else 0.5, limit_s=SHORT_S)


def rungs(folder: Path) -> dict[str, Outcome]:
    return {one.rung.name: one.outcome for one in read(folder).verdicts_of(NAME)}


def test_the_baseline_is_run_to_its_end_once_and_each_variant_once(tmp_path: Path) -> None:
    ends = Ends()
    names = (NAME, "without-conv3")
    with bench(
        tmp_path / "s", Backend([GOOD, removing('layers["conv3.weight"] = [4, 4]\n')]), names=names, complete=ends
    ) as at:
        at.work.run()
    assert len(ends.ran) == 3
    assert rungs(tmp_path / "s")["SHORT_RUN"] is Outcome.PASSED
    assert any(said.startswith("baseline: it came to its end in ") for said in at.said)
    with bench(tmp_path / "s", Backend([]), names=names, complete=ends) as at:
        at.work.run()
    assert len(ends.ran) == 3


def test_what_leaves_no_metric_is_sent_back_with_that_and_repaired(tmp_path: Path) -> None:
    backend, ends = Backend([GOOD, removing(CONV2, "# conv2 is gone\n")]), Ends(0.5, None, 0.4)
    with bench(tmp_path / "s", backend, complete=ends) as at:
        at.work.run()
    assert len(backend.asked) == 2
    told = backend.asked[1].messages[3].text
    assert "short run" in told
    assert "It comes to its end and leaves no metric 'accuracy'" in told
    record = read(tmp_path / "s")
    assert (record.standings[NAME].stage, record.standings[NAME].outcome) == (Stage.AWAITING_REVIEW, Outcome.PASSED)
    assert len(record.completions) == 2


CONV2 = 'layers["conv2.weight"] = [4, 4]  # ABLATABLE_COMPONENT\n'


class Killed(BaseException):
    """The process ends here."""


def test_a_study_that_is_killed_runs_nothing_to_its_end_twice(tmp_path: Path) -> None:
    ends = Ends()

    def deadly(tree: Tree, arguments: Sequence[str] = ()) -> Completion:
        if len(ends.ran) == 1:
            ends.ran.append(tree)
            raise Killed
        return ends(tree)

    with pytest.raises(Killed), bench(tmp_path / "s", Backend([GOOD]), complete=deadly) as at:
        at.work.run()
    assert read(tmp_path / "s").standings[NAME].stage is Stage.JUDGED
    with bench(tmp_path / "s", Backend([]), complete=deadly) as at:
        at.work.run()
    assert len(ends.ran) == 3  # the untouched one, that which was killed, and it once more
    assert rungs(tmp_path / "s")["SHORT_RUN"] is Outcome.PASSED


def test_a_run_that_was_written_before_the_kill_is_not_made_again(tmp_path: Path) -> None:
    ends, judged = Ends(), [0]

    def approve(book: Book) -> Callable[[str], str]:
        def never(name: str) -> str:
            judged[0] += 1
            if judged[0] == 1:
                raise Killed
            return "no"

        return never

    with pytest.raises(Killed), bench(tmp_path / "s", Backend([GOOD]), complete=ends, approve=approve) as at:
        at.work.run()
    with bench(tmp_path / "s", Backend([]), complete=ends, approve=approve) as at:
        at.work.run()
    assert len(ends.ran) == 2


def test_where_no_time_is_left_it_is_told_once_and_the_rest_stands(tmp_path: Path) -> None:
    with bench(tmp_path / "s", Backend([GOOD]), complete=Ends(timed_out=True)) as at:
        at.work.run()
        told = at.work.told()
    record = read(tmp_path / "s")
    assert (record.standings[NAME].stage, record.standings[NAME].outcome) == (Stage.AWAITING_REVIEW, Outcome.PASSED)
    assert rungs(tmp_path / "s")["SHORT_RUN"] is Outcome.NOT_RUN
    assert told.startswith(
        f"1 variant: 1 awaiting review. Not run to its end: {NAME}. The untouched program did not come to its end"
    )
    assert told.endswith("--short-limit.")
    assert record.ended == told


def test_what_waits_is_run_to_its_end_once_there_is_more_time(tmp_path: Path) -> None:
    slow, ends = Ends(timed_out=True), Ends()
    with bench(tmp_path / "s", Backend([GOOD]), complete=slow) as at:
        at.work.run()
    with bench(tmp_path / "s", Backend([]), complete=ends) as at:
        assert at.book.record.setup is not None
        at.work.run()
        assert not ends.ran  # no more time than before would tell no more
        at.book.write(Did.BEGUN, setup=msgspec.structs.replace(at.book.record.setup, short_s=900.0))
        assert needs_baseline_run(at.book.record)
        at.work.run()
    assert len(ends.ran) == 2
    assert rungs(tmp_path / "s")["SHORT_RUN"] is Outcome.PASSED
    assert read(tmp_path / "s").standings[NAME].stage is Stage.AWAITING_REVIEW


def test_a_baseline_that_leaves_no_metric_stops_before_anybody_is_asked(tmp_path: Path) -> None:
    backend = Backend([GOOD])
    with bench(tmp_path / "s", backend, complete=Ends(None)) as at:
        at.work.run()
    standing = read(tmp_path / "s").standings[NAME]
    assert (standing.stage, backend.asked) == (Stage.BASELINE_BROKEN, [])
    assert "was to leave the metric 'accuracy'" in standing.why
    with bench(tmp_path / "s", backend, complete=Ends()) as at:  # whoever goes on has mended it
        at.work.run()
    assert read(tmp_path / "s").standings[NAME].stage is Stage.AWAITING_REVIEW


def test_a_policy_may_demand_that_the_program_came_to_its_end(tmp_path: Path) -> None:
    strict = Policy(name="p", most_lines=40, short_run=True)
    with bench(tmp_path / "s", Backend([GOOD])) as at:
        at.work.run()
        assert decide(strict, at.book.record, NAME) == "not run: short run"
        assert not isinstance(decide(msgspec.structs.replace(strict, short_run=False), at.book.record, NAME), str)
    with bench(tmp_path / "t", Backend([GOOD]), complete=Ends()) as at:
        at.work.run()
        assert not isinstance(decide(strict, at.book.record, NAME), str)


def test_a_rung_that_may_be_left_out_spoils_no_pass_and_others_do() -> None:
    short = Verdict(rung=Rung.SHORT_RUN, outcome=Outcome.NOT_RUN)
    passed = Verdict(rung=Rung.GONE, outcome=Outcome.PASSED)
    assert worst([passed, short]) is Outcome.PASSED
    assert worst([passed, msgspec.structs.replace(short, rung=Rung.FIRST_STEP)]) is Outcome.INCONCLUSIVE
    assert left_out([passed]) == ""


# --- real programs, in real processes -------------------------------------------------------------

PLAIN = """\
import argparse, json, sys

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()


def evaluate(weight):
    return 1.0 / (1.0 + weight)


def main():
    weight = 1.0
    for epoch in range(args.epochs):
        weight *= 0.5
    metrics = {"accuracy": evaluate(weight)}
    print(f"accuracy: {metrics['accuracy']}")
    with open("metrics.json", "w") as file:
        json.dump(metrics, file)


main()
"""


def run(tmp_path: Path, text: str, **changes: Any) -> Completion:
    root = tmp_path / "project"
    root.mkdir(exist_ok=True)
    setup = Setup(root=str(root), entry=ENTRY, metric="metrics.json:accuracy", **changes)
    complete = completer(setup, lambda: find_sandbox("limits"), Limits())
    assert complete is not None
    return complete(Tree({"train.py": text.encode()}))


def test_a_program_is_run_to_its_end_and_its_metric_is_read(tmp_path: Path) -> None:
    found = run(tmp_path, PLAIN)
    assert found.facts.ended == ENDED
    assert found.metric == pytest.approx(1 / 1.125)
    assert found.facts.calls["train.py:evaluate"] == 1
    assert found.entry == ENTRY


def test_its_own_short_settings_are_added_to_its_entry(tmp_path: Path) -> None:
    found = run(tmp_path, PLAIN, short="--epochs 1")
    assert found.metric == pytest.approx(1 / 1.5)
    assert found.entry == f"{ENTRY} --epochs 1"


@pytest.mark.parametrize(
    ("gone", "comes", "why", "metric"),
    [
        ("    with open(", "    raise ValueError('late')\n    with open(", "raised", None),
        ("    with open(", "    sys.exit(3)\n    with open(", "exit code 3", None),
        ('"metrics.json"', '"other.json"', "finished", None),  # what is printed does not stand for the file
        ("return 1.0 / (1.0 + weight)", 'return float("nan")', "finished", "nan"),
        ("    with open(", "    while True:\n        pass\n    with open(", "time limit", None),
    ],
    ids=["raises", "exits", "another file", "nan", "hangs"],
)
def test_what_goes_wrong_at_the_end_is_seen(
    tmp_path: Path, gone: str, comes: str, why: str, metric: str | None
) -> None:
    limit_s = 3.0 if why == "time limit" else 60.0
    found = run(tmp_path, PLAIN.replace(gone, comes, 1), short_s=limit_s)
    assert found.facts.ended.why == why
    assert (str(found.metric) if found.metric is not None else None) == metric


def test_with_no_time_at_all_nothing_is_run_to_its_end() -> None:
    setup = Setup(root=".", entry=ENTRY, short_s=0.0)
    assert completer(setup, lambda: find_sandbox("limits"), Limits()) is None


def test_a_metric_that_is_printed_is_found_by_its_last_words() -> None:
    assert left_under("accuracy", {"Test Accuracy": 0.9, "loss": 0.1}) == 0.9
    assert left_under("accuracy", {"inaccuracy": 0.9}) is None
    assert left_under("", {"accuracy": 0.9}) is None


def test_arguments_are_refused_for_what_takes_none() -> None:
    from etude.cli.mage_studies import refuse_short

    with pytest.raises(ConfigError) as refused:
        refuse_short(Setup(root=".", entry="train.py:experiment", short="--epochs 1"))
    assert str(refused.value) == (
        "--short '--epochs 1' is added to a command, and --entry train.py:experiment is none: an experiment takes no "
        "arguments. Give its training function smaller defaults, or a longer time with --short-limit."
    )
