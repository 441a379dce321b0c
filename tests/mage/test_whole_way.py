"""The whole way through the real command, with real tools: only what a model would say was authored.

A server on this machine speaks the services' languages; everything else is what a user has: commands in processes of
their own, a sandbox, trainings, a terminal.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commanded import CLIP, ENTRY, FC2, FORGOTTEN, KEY, MENDED, METRIC, PROGRAM, READY, Held, Mage, until
from llm_server import LLMServer, Step

import etude
from etude.mage.backends.wording import JOINT
from etude.mage.loop.book import Did
from etude.mage.loop.states import Stage
from etude.mage.verdicts import Outcome

SECOND_LAYER = {
    "quote": "We do not know what the second layer is worth.",
    "wish": "remove",
    "names": ["fc2"],
    "sizes": [],
    "values": [],
    "each": False,
}
CLIP_MARK = "1.0)  # ABLATABLE_COMPONENT"
COMMENTED = Step(MENDED.texts[0].replace("    self.fc3", "    # here was fc2\n    self.fc3"))
"""The change once more, with what a person asked for."""


@pytest.fixture
def mage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mage:
    """Give the command, beside a project with two components that are marked."""
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "studies"))
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text(PROGRAM)
    return Mage(tmp_path)


def accuracy_of(folder: Path, seed: int) -> float:
    """Run a program as a person does, without any of this, and return what it found."""
    subprocess.run([sys.executable, "train.py", "--seed", str(seed)], cwd=folder, check=True)
    return float(json.loads((folder / "metrics.json").read_text())["accuracy"])


@pytest.mark.thorough
def test_from_marks_to_an_ablation_by_the_commands_alone(mage: Mage) -> None:
    project, policy = mage.folder / "project", mage.folder / "policy.toml"
    with LLMServer(READY, FORGOTTEN, MENDED) as server:
        writer = ("--backend", f"openai:authored@{server.url}/v1", "--local-only")

        found = mage("scan", "project")
        assert "train.py:17  component  fc2" in found
        assert "component  clip_grad_norm_" in found
        assert not (mage.folder / "studies").exists()

        planned = mage("plan", "project", *ENTRY, *METRIC, "--yes")
        assert "`fc2` has no parameter and no call; `fc3.weight` is 3x16; all other shapes stay" in planned
        assert {one.stage for one in mage.record.standings.values()} == {Stage.DRAFTING}
        assert len(mage.record.runs) == 2
        assert mage.record.runs[0].losses == mage.record.runs[1].losses  # it is equal to itself

        shown = json.loads(mage("preview", "project", *ENTRY, *writer, "--json"))
        assert list(shown["requests"]) == [FC2]
        assert shown["rules"] == [CLIP]
        assert shown["is_whole"]
        assert not server.seen

        accuracy_of(project, seed=0)  # run by hand, it leaves a file, and is the same program all the same
        out, told = mage.both("write", "project", *writer, "--yes", code=3)
        assert "baseline" not in told  # it ran when it was planned
        assert f"{FC2}: repair (call 2)" in told
        assert out.count("awaiting review") == 2
        _, draft, repair = server.bodies
        words = [message["content"] for message in draft["messages"] if message["role"] == "user"]
        assert [JOINT.join(message["text"] for message in shown["requests"][FC2]["messages"])] == words
        assert "mat1 and mat2 shapes cannot be multiplied (32x16 and 24x3)" in repair["messages"][-1]["content"]
        assert [one.variant for one in mage.did(Did.ANSWERED)] == ["", FC2, FC2]  # the first asks whether it answers
        assert mage.record.usage == (20 + 900 + 1100, 5 + 120 + 130)
        assert {name: one.calls for name, one in mage.record.standings.items()} == {FC2: 2, CLIP: 0}
        assert {one.outcome for one in mage.record.standings.values()} == {Outcome.PASSED}

    # From here on nobody listens at that address.
    with mage.on_a_terminal("review", "project", code=3) as terminal:
        screen = until(terminal, "\n> ")
        assert FC2 in screen
        assert "-        self.fc2 = nn.Linear(16, 24)  # ABLATABLE_COMPONENT(with=none)" in screen
        assert re.search(r"parameters +627 +195", screen)
        os.write(terminal, b"\n")
        until(terminal, "Nothing was chosen")
        assert mage.record.standings[FC2].stage is Stage.AWAITING_REVIEW
        os.write(terminal, b"a\n")
        until(terminal, "\n> ", after=CLIP)
        os.write(terminal, b"s\n")
    approval, patch = mage.record.approvals[FC2], mage.record.patch_of(FC2)
    assert patch is not None
    assert (approval.by, approval.patch) == ("ada", patch.digest)

    came = mage("run", "project", "--seeds", "6", "--workers", "2")
    assert f"custom:{FC2}" in came
    assert f"custom:{CLIP}" not in came  # it waits
    assert mage.record.standings[FC2].stage is Stage.HANDED_OVER
    study = etude.open("project")
    assert study.counts() == {"finished": 12}
    base, without = study.arms  # type: ignore[attr-defined]
    assert set(base.values) == set(without.values)
    seed = min(base.values)
    assert accuracy_of(project, seed) == base.values[seed]

    policy.write_text("rules = true\n")
    assert f"{CLIP}: approved by policy policy.toml" in mage.both("review", "project", "--approve", "policy.toml")[1]
    assert mage.record.approvals[CLIP].by.startswith("policy policy.toml ")

    mage("export", "project", "out")
    variants = mage.folder / "out" / "variants"
    assert {path.name for path in variants.iterdir()} == {FC2, CLIP}
    assert accuracy_of(variants / FC2, seed) == without.values[seed]  # what was trained is what is given away

    again = json.loads(mage("replay", "project", "--json"))
    assert {one["variant"]: (one["before"], one["now"]) for one in again} == dict.fromkeys(
        (FC2, CLIP), ("passed", "passed")
    )
    assert mage.record.requests == 3
    journal = b"".join(path.read_bytes() for path in (mage.folder / "studies").rglob("*") if path.is_file())
    assert KEY.encode() not in journal
    assert (project / "train.py").read_text() == PROGRAM


@pytest.mark.thorough
def test_killed_at_any_moment_it_goes_on_and_nothing_finished_is_asked_or_run_again(mage: Mage) -> None:
    """In the words of AblationMage, and on to what is sent back, to the report, and to what is told of it."""
    held = Held()
    with LLMServer(READY, Step(waits=held), FORGOTTEN, MENDED, COMMENTED) as server:
        whom = ("-a", "anthropic", "-m", "authored", "--base-url", server.url, "--local-only")
        call = ("first-call", *whom, "-d", "project", *ENTRY, *METRIC, "--yes")

        mage.killed(*call, at="baseline: run 2")  # what it has seen so far is half a baseline
        assert not mage.record.runs
        assert len(server.seen) == 1  # whether anybody answers, which is asked once

        mage.killed(*call, at=f"{FC2}: draft (call 1)", once=held.came)  # an answer is on its way, and lost
        held.set()
        assert len(server.seen) == 2
        assert len(mage.record.runs) == 2

        told = mage.killed(*call, at=f"{CLIP}: running it")  # the first answer has been run, and failed
        assert "baseline" not in told
        assert len(server.seen) == 3

        _, told = mage.both("resume", "project", code=3)
        assert [line for line in told.splitlines() if line.startswith("without-")] == [
            f"{FC2}: repair (call 3)",  # the one that was lost counts: nobody knows whether it was answered
            f"{CLIP}: running it",
            f"{FC2}: running it",
            f"{CLIP}: running it to its end",
            f"{FC2}: running it to its end",
        ]
        assert len(server.seen) == 4
        assert [one.stage for one in mage.record.standings.values()] == [Stage.AWAITING_REVIEW] * 2

        _, told = mage.both(*call, code=3)
        assert told == ""
        assert len(server.seen) == 4

        (mage.folder / "output.txt").write_text("Say in a comment where it was.\n")
        mage("followup-call", "project", *whom, "-d", "output.txt", "--variant", FC2, code=3)
        assert len(server.seen) == 5
        assert "Say in a comment where it was." in json.dumps(server.bodies[-1])
    assert [one.variant for one in mage.did(Did.ANSWERED)] == ["", FC2, FC2, FC2]  # the first: does it answer?
    assert len(mage.did(Did.MEASURED)) == 1
    patch = mage.record.patch_of(FC2)
    assert patch is not None
    assert "+        # here was fc2" in patch.diff

    (mage.folder / "policy.toml").write_text("most_lines = 40\n")
    mage("review", "project", "--variant", FC2, "--approve", "policy.toml")
    mage("run", "project", "--seeds", "1", "--workers", "2", "--force")
    mage.etude("report", "project")
    report = json.loads((mage.folder / "studies" / "project" / "report" / "report.json").read_text())
    effect = next(one["effect"] for one in report["verdicts"]["found"] if FC2 in one["component"])
    prose = f"Without `fc2` the accuracy is {effect:.3f} away: undecided."
    with LLMServer(Step(f"{prose} That is 31.41 % more."), Step(prose)) as server:
        assert mage("explain", "project", "--backend", f"openai:authored@{server.url}/v1").strip() == prose
        assert "31.41" in json.dumps(server.bodies[-1])  # it was told what nobody has measured


@pytest.mark.thorough
def test_a_plan_out_of_a_document_comes_with_the_marks_that_plan_it_without_anybody(mage: Mage) -> None:
    project = mage.folder / "project"
    (project / "train.py").write_text(re.sub(r"  # ABLATABLE_COMPONENT.*", "", PROGRAM))
    (mage.folder / "paper.txt").write_text("1 Method\n\nWe do not know what the second layer is worth.\n")
    with LLMServer(Step(json.dumps({"items": [SECOND_LAYER]}))) as server:
        planner = ("--planner", f"openai:authored@{server.url}/v1", "--choose", "fc2=none", "--local-only")
        document = json.loads(mage("suggest", "project", *ENTRY, *planner, "--doc", "paper.txt", "--json", "--yes"))
    [planned] = document["plan"]["variants"]
    assert planned["quote"] == "We do not know what the second layer is worth.  (document paper.txt)"
    subprocess.run(["git", "apply", "-"], cwd=project, input=document["diff"].encode(), check=True)
    assert (project / "train.py").read_text() == PROGRAM.replace("(with=none)", "").replace(CLIP_MARK, "1.0)")


@pytest.mark.thorough
def test_whoever_plans_writes_and_explains_may_be_three(mage: Mage) -> None:
    project = mage.folder / "project"
    (project / "train.py").write_text(re.sub(r"  # ABLATABLE_COMPONENT.*", "", PROGRAM))
    (mage.folder / "paper.txt").write_text("We do not know what the second layer is worth.\n")
    (mage.folder / "policy.toml").write_text("most_lines = 40\n")
    document, choice = ("--doc", "paper.txt"), ("--choose", "fc2=none")
    with LLMServer(Step(json.dumps({"items": [SECOND_LAYER]})), READY, MENDED) as server:
        planner = ("--planner", "anthropic:planner", "--base-url", server.url)
        mage("suggest", "project", *ENTRY, *METRIC, *planner, *document, *choice, "--local-only", "--yes")
        [variant] = mage.record.standings
        writer = ("--writer", f"openai:writer@{server.url}/v1", "--backend", "anthropic:nobody")
        mage("write", "project", *writer, "--yes", "--approve", "policy.toml")
        assert [one.path for one in server.seen] == ["/v1/messages", *["/v1/chat/completions"] * 2]
        assert [one["model"] for one in server.bodies] == ["planner", "writer", "writer"]
    assert mage.record.standings[variant].stage is Stage.ACCEPTED
    mage("run", "project", "--seeds", "1", "--workers", "2", "--force")
    mage.etude("report", "project")
    report = json.loads((mage.folder / "studies" / "project" / "report" / "report.json").read_text())
    [effect] = [one["effect"] for one in report["verdicts"]["found"]]
    prose = f"Without `fc2` the accuracy is {effect:.3f} away: undecided."
    with LLMServer(Step(prose)) as server:
        explainer = ("--explainer", "anthropic:explainer", "--base-url", server.url)
        assert mage("explain", "project", *explainer).strip() == prose
        assert [(one.path, one.body["model"]) for one in server.seen] == [("/v1/messages", "explainer")]
