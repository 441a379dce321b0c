"""``etude mage``: what each command does, with which code it leaves, and what it refuses before money is spent."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import stand_ins
from stand_ins import BROKEN, CONV2, EVALUATION, GOOD, TRAIN, removing
from typer.testing import CliRunner

import etude
from etude.cli import app
from etude.cli import mage_studies as studies
from etude.cli.mage_told import MageCode, code_of
from etude.core.errors import SandboxMissing
from etude.mage.annotations import Mark
from etude.mage.judge.completion import Completion
from etude.mage.loop import at_hand
from etude.mage.loop.book import Approval, Did
from etude.mage.loop.session import read
from etude.mage.loop.standing import Standing
from etude.mage.loop.states import Stage
from etude.mage.sandbox.protocol import Limits, Sandbox
from etude.mage.variants import Plan, Route
from etude.mage.verdicts import Outcome
from etude.store.journal import Journal

ENTRY = ("--entry", stand_ins.ENTRY)
NAME = "without-conv2"


def planned(tree: Any, entry: str, annotations: Any, *, columns: Any = (), choices: Any = None, **_: Any) -> Plan:
    """Plan a variant for each component that is marked."""
    names = []
    for one in annotations:
        if one.mark is Mark.COMPONENT:
            line = tree.text(one.file).splitlines()[one.lines[0] - 1]
            names.append(f"without-{line.split(chr(34))[1].partition('.')[0]}")
    plan = stand_ins.plan(*names, route=Route.RULE if (choices or {}).get("conv2") == "rule" else Route.MODEL)
    return Plan(base=tree.digest, entry=entry, variants=plan.variants)


HERE = {
    "read_reply": stand_ins.read_reply,
    "make_patch": stand_ins.make_patch,
    "patched": stand_ins.patched,
    "check": stand_ins.check,
    "write": stand_ins.no_rule,
    "GRAMMAR": "Write JSON.",
    "find_sandbox": lambda tier: None,
}
"""What stands in for the tools that are at hand: replies are JSON, and the program tells its own layers."""
ELSEWHERE = {
    "etude.mage.patch.making.make_patch_of_trees": stand_ins.patch_of_trees,
    "etude.mage.patch.making.patched": stand_ins.patched,
    "etude.mage.plan.planning.plan": planned,
    "etude.mage.plan.planning.told": lambda plan: "Planned: " + ", ".join(variant.name for variant in plan.variants),
    "etude.mage.patch.rendering.GRAMMAR": "Write JSON.",
    "etude.mage.static.checking.check": stand_ins.check,
}


class Mage:
    """The commands, called in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *args: str, typed: str | None = None) -> SimpleNamespace:
        done = CliRunner().invoke(app, ["mage", *args], input=typed)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return SimpleNamespace(code=done.exit_code, out=done.stdout, err=done.stderr)

    def replies(self, *texts: str) -> str:
        """Put answers into a folder, and return the backend that gives them."""
        folder = self.folder / "replies"
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        for n, text in enumerate(texts, start=1):
            (folder / f"{n}.md").write_text(text)
        return f"scripted:{folder}"

    def written(self, *more: str, replies: tuple[str, ...] = (GOOD,)) -> SimpleNamespace:
        """Write the one variant."""
        return self("write", "project", *ENTRY, "--yes", "--backend", self.replies(*replies), *more)


@pytest.fixture
def mage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mage:
    """Give the commands, beside a project with one component that is marked."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("ETUDE_STUDIES", "studies")
    monkeypatch.setenv("USER", "ada")
    for name in [name for name in os.environ if name.endswith(("_KEY", "_TOKEN"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(TRAIN)
    (project / "evaluate.py").write_text("METRIC = 'accuracy'\n")
    (project / ".env").write_text("SECRET=1\n")

    def prober(setup: Any, sandbox: Callable[[], Sandbox], limits: Limits) -> Any:
        return stand_ins.probe

    for name, stand_in in {**HERE, "prober": prober, "completer": lambda *_: None}.items():
        monkeypatch.setattr(at_hand, name, stand_in)
    for name, stand_in in ELSEWHERE.items():
        monkeypatch.setattr(name, stand_in)
    return Mage(tmp_path)


def stage(study: str = "project") -> Stage:
    return read(Path("studies") / study).standings[NAME].stage


# --- looking --------------------------------------------------------------------------------------


def test_scan_shows_marks_and_what_is_left_out(mage: Mage) -> None:
    done = mage("scan", "project")
    assert done.code == 0
    assert "train.py:4  component" in done.out
    assert done.out.startswith("2 files of ")
    assert mage("scan", "project/train.py").out.startswith("1 file of ")
    assert any(line.strip().startswith(".env: ") for line in done.out.splitlines())
    plain = json.loads(mage("scan", "project", "--json").out)
    assert plain["files"] == ["evaluate.py", "train.py"]
    assert not Path("studies").exists()  # looking writes nothing


def test_suggest_prints_a_diff(mage: Mage) -> None:
    Path("project/net.py").write_text(
        "from torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv2 = nn.Conv2d(8, 8, 3)\n"
    )
    done = mage("suggest", "project")
    assert "+        self.conv2 = nn.Conv2d(8, 8, 3)  # ABLATABLE_COMPONENT" in done.out.splitlines()


def test_preview_prints_exactly_what_would_be_sent_and_sends_nothing(mage: Mage) -> None:
    done = mage("preview", "project", *ENTRY, "--backend", mage.replies(GOOD))
    assert done.code == 0
    assert "at this machine," in done.out.splitlines()[0]
    assert CONV2.rstrip() in done.out
    plain = json.loads(mage("preview", "project", *ENTRY, "--backend", mage.replies(GOOD), "--json").out)
    [asked] = plain["requests"].values()
    texts = [asked["system"], *(message["text"] for message in asked["messages"])]
    assert plain["bytes"] == {NAME: sum(len(text.encode()) for text in texts)}
    assert ".env" in plain["left_out"]
    assert "SECRET" not in "".join(texts)
    assert not Path("studies").exists()


def test_what_a_preview_shows_is_what_is_sent_once_the_program_has_run(mage: Mage) -> None:
    early = mage("preview", "project", *ENTRY, "--backend", mage.replies(GOOD))
    assert "comes on top, once it has run." in early.out
    assert mage("plan", "project", *ENTRY, "--yes").code == MageCode.OK
    plain = json.loads(mage("preview", "project", *ENTRY, "--backend", mage.replies(GOOD), "--json").out)
    assert plain["is_whole"]
    mage.written()
    from etude.store.journal import Journal

    journal = Journal.read(Path("studies/project"))
    [sent] = [fact.body["request"] for fact in journal.facts() if getattr(fact, "what", "") == "asked"]  # type: ignore[union-attr]
    journal.close()
    shown = plain["requests"][NAME]
    assert sent["system"] == shown["system"]
    assert [message["text"] for message in sent["messages"]] == [message["text"] for message in shown["messages"]]
    assert "parameter conv2.weight [4, 4]" in shown["messages"][0]["text"]


# --- the whole way --------------------------------------------------------------------------------


def test_a_plan_that_nobody_approves_writes_nothing(mage: Mage) -> None:
    done = mage("write", "project", *ENTRY, "--backend", mage.replies(GOOD))
    assert done.code == MageCode.AWAITING
    assert "Planned: without-conv2" in done.out
    assert "The plan is not approved" in done.err
    assert stage() is Stage.PLANNED
    assert mage("plan", "project", *ENTRY, "--yes").code == MageCode.OK
    assert stage() is Stage.DRAFTING  # it waits for whoever brings somebody who can be asked
    assert mage.written().code == MageCode.AWAITING
    assert stage() is Stage.AWAITING_REVIEW


def test_written_variants_wait_for_a_person_and_the_code_says_so(mage: Mage) -> None:
    done = mage.written()
    assert done.code == MageCode.AWAITING
    assert "awaiting review" in done.out
    assert stage() is Stage.AWAITING_REVIEW
    shown = mage("review", "project")
    assert shown.code == MageCode.AWAITING
    assert "-" + CONV2.rstrip() in shown.out.splitlines()  # without a terminal it is shown, and nothing is decided


def test_a_policy_accepts_and_then_the_code_is_0(mage: Mage) -> None:
    Path("policy.toml").write_text("most_lines = 40\n")
    done = mage.written("--approve", "policy.toml")
    assert (done.code, stage()) == (0, Stage.ACCEPTED)
    assert json.loads(mage("review", "project", "--json").out)["variants"][0]["stage"] == "accepted"


def test_what_waits_can_be_approved_later_by_a_policy(mage: Mage) -> None:
    mage.written()
    Path("policy.toml").write_text("most_lines = 40\n")
    assert mage("review", "project", "--approve", "policy.toml").code == 0
    assert read(Path("studies/project")).approvals[NAME].by.startswith("policy policy.toml ")


def test_how_programs_are_run_to_their_end_is_kept_and_why_they_were_not_is_told(mage: Mage) -> None:
    done = mage.written("--short", "--epochs 1", "--short-limit", "60")
    assert f"Not run to its end: {NAME}. It was not run to its end." in done.err
    setup = read(Path("studies/project")).setup
    assert setup is not None
    assert (setup.short, setup.short_s, setup.to_its_end) == ("--epochs 1", 60.0, f"{stand_ins.ENTRY} --epochs 1")
    assert mage.written("--short-limit", "0").code == MageCode.AWAITING
    setup = read(Path("studies/project")).setup
    assert setup is not None
    assert (setup.short, setup.short_s) == ("--epochs 1", 0.0)


def test_writing_again_asks_nobody_again(mage: Mage) -> None:
    mage.written(replies=(BROKEN, GOOD))
    calls = read(Path("studies/project")).requests
    assert mage("write", "project", "--backend", mage.replies(BROKEN, GOOD), "--yes").code == MageCode.AWAITING
    assert read(Path("studies/project")).requests == calls == 2


def test_an_edit_of_the_project_begins_anew(mage: Mage) -> None:
    mage.written()
    Path("project/evaluate.py").write_text("METRIC = 'f1'\n")
    mage.written()
    record = read(Path("studies/project"))
    assert record.plan is not None
    assert record.plan.base == record.tree.digest
    assert record.tree.files["evaluate.py"] == b"METRIC = 'f1'\n"
    patch = record.patch_of(NAME)
    assert patch is not None
    assert patch.base == record.tree.digest


def test_who_gives_up_who_is_broken_and_what_is_spent_have_codes_of_their_own(mage: Mage) -> None:
    assert mage.written("--name", "gave-up", replies=("CANNOT: no",)).code == MageCode.GAVE_UP
    assert mage.written("--name", "spent", "--max-calls", "1", replies=(BROKEN, GOOD)).code == MageCode.BUDGET
    assert mage.written("--name", "down", replies=(BROKEN,)).code == MageCode.BACKEND  # it has no second answer
    Path("project/train.py").write_text("raise RuntimeError('no data')\n" + TRAIN)
    done = mage.written("--name", "broken")
    assert done.code == MageCode.BASELINE
    assert done.err.count("your code, not the patch") == 1
    assert read(Path("studies/broken")).requests == 0
    planned = mage("plan", "project", *ENTRY, "--name", "broken-plan", "--yes")
    assert (planned.code, planned.err.count("your code, not the patch")) == (MageCode.BASELINE, 1)
    Path("project/train.py").write_text(TRAIN)
    assert mage.written("--name", "broken").code == MageCode.AWAITING


def test_a_persons_own_copy_is_checked_as_any_other_patch(mage: Mage) -> None:
    own = mage.folder / "own"
    own.mkdir()
    (own / "train.py").write_text(TRAIN.replace(CONV2, ""))
    (own / "evaluate.py").write_text("METRIC = 'accuracy'\n")
    done = mage("write", "project", *ENTRY, "--yes", "--from", str(own))
    assert done.code == MageCode.AWAITING, done.err
    record = read(Path("studies/project"))
    patch = record.patch_of(NAME)
    assert patch is not None
    assert patch.author.name == "ada"
    assert [verdict.outcome.value for verdict in record.verdicts_of(NAME)] == [*["passed"] * 4, "not run"]


def test_replay_judges_anew_without_asking(mage: Mage, monkeypatch: pytest.MonkeyPatch) -> None:
    mage.written()
    done = mage("replay", "project")
    assert done.code == 0
    assert done.out.split()[-3:] == [NAME, "passed", "passed"]
    stricter = stand_ins.Verdict(rung=stand_ins.Rung.POLICY, outcome=stand_ins.Outcome.FAILED)
    monkeypatch.setattr("etude.mage.static.checking.check", lambda *given: (stricter,))
    done = mage("replay", "project", "--json")
    assert done.code == MageCode.GAVE_UP
    assert json.loads(done.out)[0]["now"] == "failed"
    assert stage() is Stage.AWAITING_REVIEW
    assert read(Path("studies/project")).standings[NAME].outcome is stand_ins.Outcome.PASSED
    mage("replay", "project", "--write")
    assert read(Path("studies/project")).standings[NAME].outcome is stand_ins.Outcome.FAILED


TRAINED = """
import sys

seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
with open("metrics.json", "w") as file:
    json.dump({"accuracy": 0.5 + 0.1 * len(layers) + 0.001 * (seed * 7919 % 13)}, file)
"""


def test_accepted_variants_are_trained_in_the_same_study_and_written_out(
    mage: Mage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETUDE_PROGRESS", "1")
    Path("policy.toml").write_text("most_lines = 40\n")
    Path("project/train.py").write_text(TRAIN + TRAINED)
    assert mage.written("--approve", "policy.toml", "--metric", "metrics.json:accuracy").code == 0
    done = mage("run", "project", "--seeds", "2")
    assert (done.code, done.out) == (2, "")
    assert "Nothing was started. Pass --seeds 11, or fewer components; or --force to run it all the same." in done.err
    assert "force=" not in done.err
    assert etude.open("project").counts() == {}
    done = mage("run", "project", "--seeds", "6", "--workers", "1")
    assert done.code == 0, done.err
    assert "custom:without-conv2" in done.out
    assert "All arms are paired." in done.out  # as the probe has seen it
    assert done.err.count("2 arms x 6 seeds = 12 trials") == 1
    assert "Nothing can be decided" not in done.err
    assert "can decide nothing" not in done.out
    record = read(Path("studies/project"))
    assert record.standings[NAME].stage is Stage.HANDED_OVER
    with closing(Journal.read(Path("studies/project"))) as journal:
        [fact] = [fact for fact in journal.facts_but_reports() if getattr(fact, "what", "") == Did.HANDED_OVER]
    assert fact.body["pairing"]["paired"] is True
    assert fact.body["verdict"] == record.standings[NAME].verdict
    assert fact.body["approval"]["by"].startswith("policy policy.toml")
    opened = etude.open("project")
    assert opened.counts() == {"finished": 12}
    effect = {arm.name: arm.mean for arm in opened.arms}  # type: ignore[attr-defined]
    assert effect["base"] - effect["custom:without-conv2"] == pytest.approx(0.1)
    again = mage("run", "project", "--seeds", "6", "--workers", "1")  # its first trials are 2 of 12 that there are
    assert (again.code, again.out) == (0, done.out), again.err
    assert etude.open("project").counts() == {"finished": 12}
    done = mage("export", "project", "out", "--json")
    assert json.loads(done.out)["variants"] == [NAME]
    assert CONV2 not in Path("out/variants", NAME, "train.py").read_text()
    Path("project/evaluate.py").write_text("METRIC = 'f1'\n")
    done = mage("run", "project")
    assert done.code == 2
    assert "was edited since its variants were checked" in done.err


# --- refused before money is spent ----------------------------------------------------------------


def test_without_a_sandbox_nothing_is_written_or_asked(mage: Mage, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "bubblewrap cannot create a user namespace. Not running generated code. Options: ..."

    def missing(tier: str) -> None:
        raise SandboxMissing(said)

    monkeypatch.setattr(at_hand, "find_sandbox", missing)
    done = mage.written()
    assert (done.code, done.err.strip()) == (MageCode.SANDBOX, said)
    assert not Path("studies").exists()
    done = mage.written("--json")
    assert (done.code, json.loads(done.out)) == (MageCode.SANDBOX, {"error": said})


def test_without_a_key_or_off_this_machine_nothing_is_written_or_asked(mage: Mage) -> None:
    done = mage("write", "project", *ENTRY, "--yes", "--backend", "anthropic:claude-sonnet-4-5")
    assert done.code == MageCode.BACKEND
    assert "ANTHROPIC_API_KEY" in done.err
    done = mage("write", "project", *ENTRY, "--yes", "--backend", "openai:m@http://192.0.2.1/v1", "--local-only")
    assert done.code == MageCode.BACKEND
    assert "--local-only was asked for. Nothing was sent there." in done.err
    assert not Path("studies").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--backend", "gpt"), "'gpt' names no backend."),
        (("--entry", ""), "Nothing says how the program is run."),
        (("--entry", "python nothing.py"), "which is not among the project's files"),
        (("--mode", "most"), "--mode most is no direction. Pass max or min."),
        (("--choose", "conv2"), "--choose conv2 is no choice. Write it as conv2=pool."),
        (("--doc", "none.txt"), "--doc none.txt cannot be read"),
        (("--most-bytes", "10"), "may be sent"),
        (("--max-cost", "1"), "--max-cost=1 cannot be kept"),
        (("--approve", "none.toml"), "The policy none.toml cannot be read"),
        (("--prices", "none.toml"), "--prices none.toml cannot be read"),
    ],
)
def test_a_call_that_cannot_be_is_refused_with_the_mend(mage: Mage, more: tuple[str, ...], said: str) -> None:
    backend = () if more[0] == "--backend" else ("--backend", mage.replies(GOOD))
    entry = () if more[0] == "--entry" else ENTRY
    done = mage("write", "project", *entry, "--yes", *backend, *more)
    assert done.code == 2
    assert said in done.err
    studies = list(Path().glob("studies/*"))
    assert not studies or read(studies[0]).requests == 0


def test_a_document_that_is_no_text_is_refused_with_the_way_to_make_one(mage: Mage) -> None:
    Path("paper.pdf").write_bytes(b"%PDF-1.7\xff\xfe")
    done = mage.written("--doc", "paper.pdf")
    assert done.code == 2
    assert "`pdftotext paper.pdf` makes one." in done.err


def test_a_key_in_a_source_is_refused(mage: Mage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "wandb-0123456789")
    Path("project/train.py").write_text(TRAIN + "# wandb-0123456789\n")
    done = mage.written()
    assert done.code == 2
    assert "train.py contains the value of an environment variable that looks like a key." in done.err
    found = b"".join(path.read_bytes() for path in Path("studies").rglob("*") if path.is_file())
    assert b"wandb-0123456789" not in found


def test_where_nothing_is_marked_it_is_said_how_marks_are_made(mage: Mage) -> None:
    Path("project/train.py").write_text(TRAIN.replace("  # ABLATABLE_COMPONENT", ""))
    done = mage.written()
    assert done.code == 2
    assert "`etude mage suggest` proposes marks." in done.err


def test_a_question_that_is_too_large_is_refused(mage: Mage, monkeypatch: pytest.MonkeyPatch) -> None:
    from etude.mage.backends import naming

    small = naming.Capability(context=500, most_output=100)
    monkeypatch.setattr(naming, "capability_for", lambda backend: small)
    done = mage.written()
    assert done.code == 2
    assert "takes 500." in done.err
    assert read(Path("studies/project")).requests == 0


def test_without_accepted_variants_there_is_nothing_to_run(mage: Mage) -> None:
    mage.written()
    done = mage("run", "project")
    assert done.code == 2
    assert "No variant of project is accepted. Review them first: etude mage review project" in done.err


def test_explaining_needs_somebody_and_a_report(mage: Mage) -> None:
    mage.written()
    assert "Nobody is there who could explain." in mage("explain", "project").err
    assert "has no report yet" in mage("explain", "project", "--backend", mage.replies(GOOD)).err


def test_a_study_without_variants_is_told_how_they_come(mage: Mage) -> None:
    from etude.mage.loop.session import writing

    with writing(Path("studies/empty")):
        pass
    done = mage("review", "empty")
    assert done.code == 2
    assert "Begin with: etude mage write PATH --name empty" in done.err


def test_the_code_is_that_of_what_most_needs_somebody() -> None:
    def code(*stages: Stage) -> MageCode:
        return code_of({str(n): Standing(variant=str(n), stage=one) for n, one in enumerate(stages)})

    assert code(Stage.ACCEPTED, Stage.HANDED_OVER) is MageCode.OK
    assert code(Stage.ACCEPTED, Stage.AWAITING_REVIEW) is MageCode.AWAITING
    assert code(Stage.AWAITING_REVIEW, Stage.GAVE_UP) is MageCode.GAVE_UP
    assert code(Stage.GAVE_UP, Stage.BUDGET_SPENT) is MageCode.BUDGET
    assert code(Stage.BUDGET_SPENT, Stage.BACKEND_DOWN) is MageCode.BACKEND
    assert code(Stage.BASELINE_BROKEN, Stage.ACCEPTED) is MageCode.BASELINE
    assert code(Stage.REJECTED) is MageCode.GAVE_UP
    assert code(Stage.UNCLEAR, Stage.ACCEPTED) is MageCode.GAVE_UP


def test_of_a_plan_nobody_is_waited_for_once_it_is_approved() -> None:
    def code(*stages: Stage) -> MageCode:
        return code_of({str(n): Standing(variant=str(n), stage=one) for n, one in enumerate(stages)}, is_plan=True)

    assert code(Stage.DRAFTING, Stage.PLAN_APPROVED, Stage.ACCEPTED) is MageCode.OK
    assert code(Stage.DRAFTING, Stage.PLANNED) is MageCode.AWAITING
    assert code(Stage.DRAFTING, Stage.AWAITING_REVIEW) is MageCode.AWAITING
    assert code(Stage.DRAFTING, Stage.UNCLEAR) is MageCode.GAVE_UP


def test_help_loads_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from etude.cli import app; from typer.testing import CliRunner;"
        "assert CliRunner().invoke(app, ['mage', '--help']).exit_code == 0;"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "anthropic", "openai", "torch", "sqlite3"} & set(done.stdout.split())


def test_evaluation_changes_reach_a_person_and_not_a_policy(mage: Mage) -> None:
    Path("policy.toml").write_text("most_lines = 40\n")
    both = GOOD[:-1] + ", " + EVALUATION[1:]
    done = mage.written("--approve", "policy.toml", replies=(both,))
    assert (done.code, stage()) == (MageCode.AWAITING, Stage.AWAITING_REVIEW)
    assert "waits for a person: policy is for a person" in done.err


# --- what fails in its trials ---------------------------------------------------------------------

FAILING = """
import sys

if len(sys.argv) > 2 and "conv2.weight" not in layers and "fitted" not in globals():
    raise ValueError("mat1 and mat2 cannot be multiplied")
"""
MENDED = removing(CONV2, "fitted = True\n")
BY_POLICY = ("--approve", "policy.toml", "--metric", "metrics.json:accuracy")
TWO_SEEDS = ("--seeds", "2", "--force", "--workers", "1")


def test_what_fails_in_its_first_trial_goes_back_to_whoever_wrote_it_with_the_error(mage: Mage) -> None:
    Path("policy.toml").write_text("most_lines = 40\n")
    Path("project/train.py").write_text(
        TRAIN.replace("noise =", 'layers["fc2.weight"] = [2, 2]  # ABLATABLE_COMPONENT\nnoise =') + FAILING + TRAINED
    )
    sound = removing('layers["fc2.weight"] = [2, 2]  # ABLATABLE_COMPONENT\n')
    written = ("--approve", "policy.toml", "--metric", "metrics.json:accuracy")
    assert mage.written(*written, replies=(GOOD, sound)).code == 0
    seeds = ("--seeds", "2", "--force", "--workers", "1")
    done = mage("run", "project", *seeds)
    assert done.code == MageCode.GAVE_UP
    assert "without-conv2 was pulled: its first trial failed." in done.out
    assert "etude mage resume project --again without-conv2" in done.err
    record = read(Path("studies/project"))
    assert record.standings[NAME].stage is Stage.AWAITING_REVIEW
    assert record.standings["without-fc2"].stage is Stage.HANDED_OVER
    assert "mat1 and mat2 cannot be multiplied" in mage("review", "project").out

    kept = etude.open("project-kept").counts()
    again = json.loads(mage("run", "project", *seeds, "--json").out)
    assert (again["ablation"], again["variants"]) == ("project-kept", ["without-fc2"])
    assert etude.open("project-kept").counts() == kept  # nothing runs twice

    # Nobody approves it again by a rule, and replaying takes away nothing that a trial has shown.
    done = mage("review", "project", "--approve", "policy.toml")
    assert (done.code, stage()) == (MageCode.AWAITING, Stage.AWAITING_REVIEW)
    assert "trial is for a person" in done.err
    assert mage("replay", "project", "--write").code == 0
    assert stage() is Stage.AWAITING_REVIEW

    before = read(Path("studies/project")).requests
    done = mage(
        "resume", "project", "--again", NAME, "--backend", mage.replies(GOOD, MENDED), "--approve", "policy.toml"
    )
    assert done.code == 0, done.err
    record = read(Path("studies/project"))
    assert record.requests == before + 1
    asked = record.standings[NAME].notes[-1]
    assert asked.startswith("A trial of it failed. ")
    assert "mat1 and mat2 cannot be multiplied" in asked
    done = mage("run", "project", *seeds)
    assert done.code == 0, done.err
    assert {one.stage for one in read(Path("studies/project")).standings.values()} == {Stage.HANDED_OVER}
    assert "custom:without-conv2" in done.out
    assert "custom:without-fc2" in done.out
    [study] = [etude.open(path.name) for path in Path("studies").iterdir() if path.name == "project-2"]
    reused = {trial.arm for trial in study.trials if trial.reused_from}
    assert reused == {"base"}


@pytest.fixture
def pulled(mage: Mage) -> Mage:
    """Give the commands, and a study of which a trial has failed of a variant that a policy had approved."""
    Path("policy.toml").write_text("most_lines = 40\n")
    Path("project/train.py").write_text(TRAIN + FAILING + TRAINED)
    assert mage.written(*BY_POLICY, "--repairs", "0", replies=(BROKEN, GOOD)).code == 0
    assert mage("run", "project", *TWO_SEEDS).code == MageCode.GAVE_UP
    assert stage() is Stage.AWAITING_REVIEW
    return mage


def test_what_is_written_again_after_a_failed_trial_has_all_its_calls_anew(pulled: Mage) -> None:
    """Two calls were made of two that may be."""
    done = pulled("resume", "project", "--again", NAME, "--backend", pulled.replies(MENDED), *BY_POLICY[:2])
    assert (done.code, stage()) == (0, Stage.ACCEPTED), done.err
    assert read(Path("studies/project")).standings[NAME].calls == 1
    assert pulled("run", "project", *TWO_SEEDS).code == 0


def completed(setup: Any, sandbox: Callable[[], Sandbox], limits: Limits) -> Any:
    """Stand in for what runs programs to their end."""

    def run(tree: Any, arguments: Any = ()) -> Completion:
        facts = stand_ins.probe(tree, arguments)
        return Completion(entry=setup.to_its_end, limit_s=setup.end_s, facts=facts, name="accuracy", metric=0.5)

    return run if setup.end_s else None


@pytest.mark.parametrize("more", [("--short", "-x"), ("--short-limit", "50")], ids=["other arguments", "another limit"])
def test_a_failed_trial_stays_with_its_patch_where_that_is_run_to_its_end_anew(
    pulled: Mage, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.setattr(at_hand, "completer", completed)
    done = pulled("resume", "project", *more, *BY_POLICY[:2])
    assert (done.code, stage()) == (MageCode.AWAITING, Stage.AWAITING_REVIEW), done.err
    verdicts = read(Path("studies/project")).verdicts_of(NAME)
    assert [one.rung.name for one in verdicts][-2:] == ["SHORT_RUN", "TRIAL"]
    assert verdicts[-2].outcome is Outcome.PASSED
    assert "without-conv2: waits for a person: trial is for a person" in done.err


def test_a_failed_trial_stays_with_its_patch_whoever_hands_it_in(pulled: Mage) -> None:
    shutil.copytree("project", "mine")
    own = Path("mine/train.py")
    own.write_text(own.read_text().replace(CONV2, ""))
    handed = ("write", "project", "--from", "mine", "--variant", NAME, *BY_POLICY[:2])
    done = pulled(*handed)
    assert (done.code, stage()) == (MageCode.AWAITING, Stage.AWAITING_REVIEW), done.err
    assert "trial is for a person" in done.err
    assert "mat1 and mat2 cannot be multiplied" in pulled("review", "project").out
    own.write_text(own.read_text() + "fitted = True\n")  # another patch has a trial of its own to fail in
    assert (pulled(*handed).code, stage()) == (0, Stage.ACCEPTED)


def test_a_patch_that_is_to_be_written_again_has_no_failed_trial_any_more(pulled: Mage) -> None:
    pulled("resume", "project", "--again", NAME, "--backend", pulled.replies(BROKEN, BROKEN))
    assert stage() is Stage.GAVE_UP
    shutil.copytree("project", "mine")
    own = Path("mine/train.py")
    own.write_text(own.read_text().replace(CONV2, ""))
    done = pulled("write", "project", "--from", "mine", "--variant", NAME, *BY_POLICY[:2])
    assert (done.code, stage()) == (0, Stage.ACCEPTED), done.err
    done = pulled("run", "project", *TWO_SEEDS)  # and it has one anew
    assert (done.code, etude.open("project-2").counts()["failed"]) == (MageCode.GAVE_UP, 1), done.err
    assert stage() is Stage.AWAITING_REVIEW


def names_of_studies() -> set[str]:
    return {path.name for path in Path("studies").iterdir()}


AT_FIRST = """
import os
import sys

if len(sys.argv) > 2 and {condition} and os.path.exists({flag!r}):
    raise MemoryError("no space left")
"""


def test_what_failed_for_another_reason_is_run_again_in_an_ablation_of_its_own(mage: Mage) -> None:
    Path("policy.toml").write_text("most_lines = 40\n")
    flag = Path("full").absolute()
    flag.touch()
    condition = AT_FIRST.format(condition='"conv2.weight" not in layers', flag=str(flag))
    Path("project/train.py").write_text(TRAIN + condition + TRAINED)
    assert mage.written(*BY_POLICY).code == 0
    assert mage("run", "project", *TWO_SEEDS).code == MageCode.GAVE_UP
    flag.unlink()
    with studies.taken_up("project") as (setup, book):  # as a person does who types despite
        doing = studies.work(book, setup, None)
        standing = doing.standings[NAME]
        approval = Approval(by="ada", patch=standing.patch, verdict=standing.verdict, despite=True)
        doing.accept(NAME, approval)
    done = mage("run", "project", *TWO_SEEDS)
    assert done.code == 0, done.err
    assert (
        "custom:without-conv2: a trial failed in project, which stays as it is. All variants are run again in another "
        "ablation; what the untouched program came to is taken over."
    ) in done.err.splitlines()
    again = etude.open("project-2")
    assert again.counts() == {"finished": 4}
    assert [trial.arm for trial in again.trials if trial.reused_from] == ["base"]
    assert etude.open("project").counts() == {"finished": 1, "failed": 1}  # it stays as it was
    assert stage() is Stage.HANDED_OVER
    assert json.loads(mage("run", "project", *TWO_SEEDS, "--json").out)["ablation"] == "project-2"
    assert names_of_studies() == {"project", "project-2"}


def test_an_untouched_program_that_was_mended_is_run_again(mage: Mage) -> None:
    Path("policy.toml").write_text("most_lines = 40\n")
    flag = Path("full").absolute()
    flag.touch()
    condition = AT_FIRST.format(condition='"conv2.weight" in layers', flag=str(flag))
    Path("project/train.py").write_text(TRAIN + condition + TRAINED)
    assert mage.written(*BY_POLICY).code == 0
    done = mage("run", "project", *TWO_SEEDS)
    assert (done.code, "Your code, not the patch" in done.err) == (MageCode.BASELINE, True)
    assert stage() is Stage.ACCEPTED
    flag.unlink()
    done = mage("run", "project", *TWO_SEEDS)
    assert done.code == 0, done.err
    assert "base: a trial failed in project, which stays as it is. All variants are run again" in done.err
    assert etude.open("project-2").counts() == {"finished": 4}
    assert stage() is Stage.HANDED_OVER


def test_a_further_ablation_is_never_somebody_elses_study(pulled: Mage) -> None:
    other = ("write", "project", *ENTRY, "--yes", "--backend", pulled.replies(MENDED), *BY_POLICY)
    assert pulled(*other, "--name", "project-2").code == 0
    before = Path("studies/project-2/journal.sqlite").read_bytes()
    resumed = ("resume", "project", "--again", NAME, "--backend", pulled.replies(MENDED), *BY_POLICY[:2])
    assert pulled(*resumed).code == 0
    assert json.loads(pulled("run", "project", *TWO_SEEDS, "--json").out)["ablation"] == "project-3"
    assert Path("studies/project-2/journal.sqlite").read_bytes() == before
    assert pulled("run", "project-2", *TWO_SEEDS).code == 0
    assert names_of_studies() == {"project", "project-2", "project-3"}


def test_what_came_to_nothing_says_how_it_is_tried_again_and_is_by_somebody_else(mage: Mage) -> None:
    done = mage.written("--repairs", "0", replies=(BROKEN, BROKEN))
    assert done.code == MageCode.GAVE_UP
    assert done.err.splitlines()[-1] == (
        "What came to nothing can be written again, by somebody else, too: etude mage resume project --again "
        "without-conv2. Or hand in a copy of yours: etude mage write PATH --name project --from FOLDER --variant "
        "without-conv2"
    )
    assert mage("resume", "project").code == MageCode.GAVE_UP  # by itself it stays as it is
    done = mage("resume", "project", "--again", "without-conv9")
    assert (done.code, "There is no variant 'without-conv9' in the plan. There are: without-conv2." in done.err) == (
        2,
        True,
    )
    done = mage("resume", "project", "--again", NAME, "--backend", mage.replies(GOOD))
    assert (done.code, stage()) == (MageCode.AWAITING, Stage.AWAITING_REVIEW)
    done = mage("resume", "project", "--again", NAME)
    assert done.code == 2
    assert "without-conv2 is awaiting review: it did not come to nothing, and no trial of it failed." in done.err
