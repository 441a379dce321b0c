"""The journal of what was prepared: going on is reading it, and no key is ever in it."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import etude
from etude.cli import app
from etude.core.clock import VirtualClock
from etude.core.errors import ConfigError, StudyInUseError
from etude.mage.backends.protocol import Reply, Request, StopReason, Usage
from etude.mage.facts import Ended, Facts, ModelFacts, ParameterFacts
from etude.mage.loop import events as loop
from etude.mage.loop.book import (
    Answers,
    Approval,
    Book,
    Did,
    Record,
    Setup,
    digest_of_variant,
    digest_of_verdicts,
    told_usage,
)
from etude.mage.loop.machine import Machine
from etude.mage.loop.session import read, writing
from etude.mage.loop.states import Stage
from etude.mage.patch.blocks import Author, Patch, Symbol
from etude.mage.scrubbing import secrets_of
from etude.mage.tree import Tree
from etude.mage.variants import Plan, Route, Thing, Variant, What
from etude.mage.verdicts import Outcome, Reason, Rung, Verdict
from etude.mage.witnesses import ModuleGone
from etude.store.journal import FILE, Journal

KEY = "sk-very-secret-0123456789"
TREE = Tree({"train.py": b"print('caf\xc3\xa9')\r\n", "sub/config.toml": b"lr = 0.1\n"})
VARIANT = Variant(
    name="without-conv2",
    intent="conv2 is removed",
    things=(Thing(name="conv2", what=What.MODULE, declared=("train.py", 1)),),
    files=("train.py",),
    witnesses=(ModuleGone(path="conv2", resized={"conv3.weight": (128, 32, 3, 3), "fc1.weight": None}),),
)
PLAN = Plan(base=TREE.digest, entry="python train.py --seed {seed}", variants=(VARIANT,))
PATCH = Patch(
    base=TREE.digest,
    result="r",
    diff="--- a/train.py\n",
    digest="p1",
    author=Author(name="scripted", request="req_1"),
    blocks=(Symbol(file="train.py", name="Net.forward", text="def forward(self): ...\n"),),
)
FACTS = Facts(
    ended=Ended(code=0, why="enough seen"),
    steps=3,
    models=(ModelFacts(type="Net", parameters={"conv1.weight": ParameterFacts(shape=(8, 1, 3, 3))}),),
    losses=(2.3, float("inf")),
)
PASSED = Verdict(rung=Rung.GONE, outcome=Outcome.PASSED, reasons=(Reason(text="gone"),), patch="p1")


def through(book: Book) -> Machine:
    """Write the whole course of a variant into a book, up to its review."""
    machine = Machine()
    name = VARIANT.name

    def happened(event: loop.Event, did: Did, **body: Any) -> None:
        machine.handle(event)
        book.write(did, name, standings=[machine.standings[name]], **body)

    book.write(Did.BEGUN, setup=Setup(root=".", entry=PLAN.entry, tag="t1"))
    book.write(Did.SCANNED, files=TREE.files, left_out={".env": "holds secrets"})
    book.write(Did.PLANNED, plan=PLAN)
    happened(loop.Planned(variant=name, digest=digest_of_variant(VARIANT, TREE.digest)), Did.PLANNED, plan=PLAN)
    happened(loop.PlanApproved(variant=name), Did.PLAN_APPROVED, by="me")
    machine.handle(loop.BaselineHeld())
    book.write(Did.MEASURED, runs=[FACTS, FACTS], standings=list(machine.standings.values()))
    happened(loop.Asked(variant=name), Did.ASKED, digest="q1")
    book.write(Did.ANSWERED, name, digest="q1", reply=Reply(text="...", usage=Usage(input=10, output=2)))
    happened(loop.Patched(variant=name, patch="p1"), Did.PATCHED, patch=PATCH)
    happened(loop.Checked(variant=name), Did.CHECKED)
    happened(loop.Probed(variant=name), Did.PROBED, patch="p1", facts=FACTS)
    digest = digest_of_verdicts([PASSED])
    judged = loop.Judged(variant=name, patch="p1", verdict=digest, outcome=Outcome.PASSED)
    happened(judged, Did.JUDGED, digest=digest, verdicts=[PASSED])
    completed = loop.Completed(variant=name, patch="p1", verdict=digest, outcome=Outcome.PASSED)
    happened(completed, Did.COMPLETED, digest=digest, verdicts=[PASSED])
    return machine


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    with writing(tmp_path / "one", clock=VirtualClock(5.0)) as book:
        machine = through(book)
        kept = book.record
    again = read(tmp_path / "one")
    assert again == kept
    assert again.tree == TREE
    assert again.tree.digest == TREE.digest
    assert again.plan == PLAN
    assert again.variant("without-conv2") == VARIANT
    assert again.runs == (FACTS, FACTS)
    assert again.patch_of("without-conv2") == PATCH
    assert again.verdicts_of("without-conv2") == (PASSED,)
    assert again.facts == {"p1": FACTS}
    assert (again.usage, again.requests, again.unpriced) == ((10, 2), 1, 0)
    assert again.standings == machine.standings
    assert again.accepted() == {}


def test_a_machine_that_is_read_goes_on_where_the_other_one_ended(tmp_path: Path) -> None:
    with writing(tmp_path / "one") as book:
        through(book)
    standings = read(tmp_path / "one").standings
    machine = Machine(standings.values(), has_baseline=True)
    assert machine.resume() == [loop.Review(variant="without-conv2")]


@pytest.mark.parametrize("kept", range(1, 13))
def test_a_journal_that_ends_anywhere_can_be_gone_on_with(tmp_path: Path, kept: int) -> None:
    with writing(tmp_path / "one") as book:
        through(book)
    with contextlib.closing(Journal.read(tmp_path / "one")) as journal:
        facts = list(itertools.islice(journal.facts(), kept))
    record = Record.of(facts)
    machine = Machine(record.standings.values(), has_baseline=bool(record.runs))
    commands = machine.resume()
    assert len(commands) == (1 if kept >= 5 else 0)


def test_an_approval_makes_a_variant_accepted(tmp_path: Path) -> None:
    with writing(tmp_path / "one") as book:
        machine = through(book)
        standing = machine.standings["without-conv2"]
        machine.handle(loop.Accepted(variant="without-conv2", patch="p1", verdict=standing.verdict))
        approval = Approval(by="me", patch="p1", verdict=standing.verdict)
        accepted = machine.standings["without-conv2"]
        book.write(Did.REVIEWED, "without-conv2", approval=approval, standings=[accepted])
    again = read(tmp_path / "one")
    assert again.accepted() == {"without-conv2": PATCH}
    assert again.approvals == {"without-conv2": approval}
    assert again.standings["without-conv2"].stage is Stage.ACCEPTED


def test_another_tree_forgets_how_the_old_one_ran(tmp_path: Path) -> None:
    with writing(tmp_path / "one") as book:
        through(book)
        book.write(Did.SCANNED, files=TREE.files)
        assert book.record.runs == (FACTS, FACTS)
        book.write(Did.SCANNED, files={"train.py": b"another"})
        assert book.record.runs == ()


def test_a_variant_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    record = Record(plan=PLAN)
    with pytest.raises(ConfigError) as refused:
        record.variant("without-conv3")
    assert str(refused.value) == "There is no variant 'without-conv3' in the plan. There are: without-conv2."


def test_an_answer_is_found_again_by_its_question(tmp_path: Path) -> None:
    digest = "of the question"
    with writing(tmp_path / "one") as book:
        answers = Answers(book)
        answers.variant = "without-conv2"
        assert answers.get(digest) is None
        reply = Reply(text="an answer", stop=StopReason.CUT_OFF, usage=Usage(output=3), model="m", raw=b"headers")
        answers.put(digest, reply)
    with writing(tmp_path / "one") as book:
        found = Answers(book).get(digest)
        assert found is not None
        assert (found.text, found.stop, found.usage, found.raw) == ("an answer", StopReason.CUT_OFF, reply.usage, None)
        assert book.record.answers == {"without-conv2": "an answer"}


def test_tokens_that_nobody_told_are_unknown_and_not_none() -> None:
    assert told_usage(Usage()) == "tokens unknown"
    assert told_usage(Usage(input=1200, output=30, cached=1000)) == "tokens: 1,200 in, 1,000 of them cached, 30 out"


# --- secrets --------------------------------------------------------------------------------------


def test_no_key_of_the_environment_is_ever_in_the_journal(tmp_path: Path) -> None:
    environment = {"OPENAI_API_KEY": KEY, "HOME": "/home/me", "SHORT_KEY": "abc"}
    assert secrets_of(environment) == (KEY,)
    with writing(tmp_path / "one", environment=environment) as book:
        book.write(
            Did.ASKED, "a", request=Request(system=f"key {KEY}", messages=(), most_tokens=1), nested={KEY: [KEY]}
        )
        answers = Answers(book)
        answers.put("q", Reply(text=f"your key is {KEY}", raw=f"authorization: {KEY}".encode()))
        ended = Ended(code=1, why="raised", message=f"no {KEY}", traceback=f"no {KEY}")
        book.write(Did.PROBED, "a", patch="p", facts=Facts(ended=ended))
    found = b"".join(path.read_bytes() for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert KEY.encode() not in found
    assert b"your key is (removed)" in found


def test_files_that_hold_a_key_are_refused_before_they_are_written_or_sent(tmp_path: Path) -> None:
    with (
        writing(tmp_path / "one", environment={"WANDB_API_KEY": KEY}) as book,
        pytest.raises(ConfigError) as refused,
    ):
        book.refuse_secrets({"train.py": f"wandb.login(key='{KEY}')".encode()})
    assert str(refused.value) == (
        "train.py contains the value of an environment variable that looks like a key. It would be written into the "
        "journal, and sent. Take it out of the file, and read it from the environment."
    )


# --- one writer -----------------------------------------------------------------------------------


def test_readers_see_what_is_written_while_somebody_writes(tmp_path: Path) -> None:
    with writing(tmp_path / "one") as book:
        book.write(Did.PLANNED, plan=PLAN)
        assert read(tmp_path / "one").plan == PLAN


def test_the_lease_is_kept_alive_by_itself_so_that_a_second_writer_is_refused(tmp_path: Path) -> None:
    with (
        writing(tmp_path / "one", beat_s=0.02),
        pytest.raises(StudyInUseError, match="Another driver works on this study"),
        writing(tmp_path / "one"),
    ):
        pass
    with writing(tmp_path / "one") as book:  # after a goodbye nobody waits
        book.write(Did.BEGUN, setup=Setup(root=".", entry="e"))


def test_who_was_taken_over_writes_nothing_more(tmp_path: Path) -> None:
    with writing(tmp_path / "one") as book:
        with contextlib.closing(sqlite3.connect(tmp_path / "one" / FILE)) as other, other:
            other.execute("UPDATE lease SET epoch = epoch + 1")
        with pytest.raises(StudyInUseError):
            book.write(Did.PLANNED, plan=PLAN)
    assert read(tmp_path / "one").plan is None


# --- beside trials --------------------------------------------------------------------------------

SCRIPT = """
import etude

def train(seed, fast: bool = True):
    return 0.5 + 0.1 * fast + 0.001 * ((seed * 7919) % 13)

experiment = etude.Experiment(train, metric="score", mode="max")
"""


def experiment_here() -> etude.Experiment:
    sys.path.insert(0, ".")
    return importlib.import_module("script").experiment  # type: ignore[no-any-return]


def test_a_study_that_is_only_prepared_can_be_listed_shown_and_opened(
    beside_script: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    beside_script(SCRIPT)
    with writing(Path("studies/prepared")) as book:
        through(book)
    search = etude.open("prepared")
    assert str(search) == (
        "Study prepared is being prepared: its variants are written, and it has no trials yet. "
        "See `etude mage review prepared`, and `etude mage run prepared` for the trials."
    )
    assert search.trials == []
    listed = CliRunner().invoke(app, ["ls"])
    assert "being prepared" in listed.stdout
    assert "metric (max)" not in listed.stdout
    for command in (["show", "prepared"], ["show", "prepared", "--json"], ["trials", "prepared"], ["du"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    assert '"standing": "being prepared"' in CliRunner().invoke(app, ["show", "prepared", "--json"]).stdout


def test_an_ablation_runs_in_the_folder_in_which_variants_were_written(beside_script: Callable[[str], Path]) -> None:
    beside_script(SCRIPT)
    with writing(Path("studies/both")) as book:
        through(book)
    experiment = experiment_here()

    ablation = experiment.ablate(["fast"], seeds=6, name="both", workers=1)
    assert ablation.complete
    assert ablation.counts() == {"finished": 12}
    assert read(Path("studies/both")).plan == PLAN  # nothing of what was prepared is gone
    again = experiment.ablate(["fast"], seeds=6, name="both", workers=1)
    assert again.counts() == {"finished": 12}
    with writing(Path("studies/both")) as book:  # and more can be prepared
        book.write(Did.ENDED, why="done")
    opened = etude.open("both")
    assert opened.complete
    assert opened.metrics.modes == {"score": "max"}


def test_a_study_of_trials_that_began_otherwise_is_refused_as_ever(beside_script: Callable[[str], Path]) -> None:
    beside_script(SCRIPT)
    with writing(Path("studies/both")) as book:
        through(book)
    experiment = experiment_here()

    experiment.ablate(["fast"], seeds=6, name="both", workers=1)
    with pytest.raises(etude.EtudeError, match="began with another definition"):
        experiment.tune({"fast": [True, False]}, trials=2, name="both", workers=1)


def test_nobody_begins_trials_while_variants_are_written(beside_script: Callable[[str], Path]) -> None:
    beside_script(SCRIPT)
    experiment = experiment_here()

    with writing(Path("studies/both"), beat_s=0.02) as book:
        through(book)
        with pytest.raises(StudyInUseError):
            experiment.ablate(["fast"], seeds=6, name="both", workers=1)


def test_the_route_of_a_variant_survives(tmp_path: Path) -> None:
    by_rule = Variant(name="a", intent="i", route=Route.RULE, settings={"lr": 0.1, "flag": False})
    with writing(tmp_path / "one") as book:
        book.write(Did.PLANNED, plan=Plan(base="b", entry="e", variants=(by_rule,)))
    assert read(tmp_path / "one").variant("a") == by_rule
