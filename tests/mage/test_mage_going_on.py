"""``etude mage`` from one call to the next: what was said holds, whoever is asked is asked once, nothing is lost.

Services are a server on this machine, asked over real sockets; what it answers was authored.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import stand_ins
import test_mage_command as commands
from llm_server import LLMServer, Step
from stand_ins import BROKEN, CONV2, GOOD, TRAIN
from test_exporting import clean, run_lines
from test_mage_command import ENTRY, NAME, TRAINED, Mage, stage
from typer.testing import CliRunner

import etude
from etude.cli import app
from etude.cli import mage_planning as planning
from etude.cli.mage_told import MageCode
from etude.cli.shell import Code
from etude.core.errors import SandboxMissing
from etude.mage.loop import at_hand
from etude.mage.loop.book import Record
from etude.mage.loop.session import read
from etude.mage.loop.states import Stage
from etude.mage.patch.rendering import WHOLE_FIRST
from etude.mage.plan.planning import plan, told

mage = commands.mage
KEY = "sk-a-secret-of-the-tests-0123456789"
OVERLOADED = Step(status=529, error={"type": "overloaded_error", "message": "Overloaded"})
UNKNOWN = Step(status=404, error={"type": "not_found_error", "message": "model: claude-opus-55"})
SERVICES = ("anthropic", "openai")
HINT = "# ABLATION_HINT_START\n# - look at what the second layer is worth\n# ABLATION_HINT_END\n"
NET = f"""\
from torch import nn

{HINT}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Linear(4, 4)
        self.conv2 = nn.Linear(4, 4)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        x = self.conv1(x)
        x = self.conv2(x)
        return self.fc(x)
"""


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the waits that were asked for, which nobody sits out, and a key for services on this machine."""
    slept: list[float] = []
    monkeypatch.setattr(at_hand, "sleep", slept.append)
    monkeypatch.setenv("ETUDE_API_KEY", KEY)
    return slept


@pytest.fixture
def hinted(mage: Mage, monkeypatch: pytest.MonkeyPatch) -> Mage:
    """Give the commands with the real planning, beside a project with one hint that rules cannot read."""
    monkeypatch.setattr("etude.mage.plan.planning.plan", plan)
    monkeypatch.setattr("etude.mage.plan.planning.told", told)
    Path("project/train.py").write_text(TRAIN.replace("  # ABLATABLE_COMPONENT", ""))
    Path("project/net.py").write_text(NET)
    return mage


def record(study: str = "project") -> Record:
    return read(Path("studies") / study)


def at(server: LLMServer, service: str = "openai") -> str:
    return f"{service}:some-model@{server.url}"


def item(quote: str = "- look at what the second layer is worth", name: str = "conv2") -> dict[str, Any]:
    return {"quote": quote, "wish": "remove", "names": [name], "sizes": [], "values": [], "each": False}


def proposing(*items: dict[str, Any]) -> Step:
    return Step(text=json.dumps({"items": items}))


# --- what was said holds --------------------------------------------------------------------------


def test_what_a_plan_was_made_with_holds_when_it_is_written_and_trained(mage: Mage) -> None:
    Path("project/train.py").write_text(TRAIN + TRAINED)
    Path("paper.txt").write_text("conv2 matters")
    Path("policy.toml").write_text("most_lines = 40\n")
    said = ("--metric", "metrics.json:accuracy", "--mode", "min", "--doc", "paper.txt", "--column", "a", "--steps", "5")
    assert mage("plan", "project", *ENTRY, *said, "--choose", "conv2=none", "--yes").code == MageCode.OK
    Path("paper.txt").unlink()
    done = mage("write", "project", "--backend", mage.replies(GOOD), "--approve", "policy.toml")
    assert done.code == 0, done.err
    setup = record().setup
    assert setup is not None
    assert (setup.metric, setup.mode, setup.columns, setup.steps) == ("metrics.json:accuracy", "min", ("a",), 5)
    assert (dict(setup.docs), dict(setup.choices)) == ({"paper.txt": "conv2 matters"}, {"conv2": "none"})
    assert mage("run", "project", "--seeds", "6", "--workers", "1").code == 0
    assert CliRunner().invoke(app, ["report", "project"]).exit_code == 0
    asked = json.loads(Path("studies/project/report/report.json").read_text())["asked"]
    assert "accuracy (smaller is better)" in json.dumps(asked)


@pytest.mark.parametrize(
    ("option", "before", "now", "told"),
    [
        ("--mode", "min", "max", "--mode is max now, and was min before in study project."),
        ("--metric", "m.json:a", "m.json:b", "--metric is 'm.json:b' now, and was 'm.json:a' before in study project."),
        ("--steps", "4", "9", "--steps is 9 now, and was 4 before in study project."),
        ("--column", "a", "b", "--column is `b` now, and was `a` before in study project."),
        ("--choose", "conv2=a", "conv2=b", "--choose is conv2=b now, and was conv2=a before in study project."),
        ("--entry", stand_ins.ENTRY, "python train.py", f"now, and was '{stand_ins.ENTRY}' before in study project."),
        ("--doc", "one/a.txt", "other/a.txt", "--doc is a.txt (5 bytes, "),
    ],
)
@pytest.mark.parametrize("command", ["plan", "write", "preview"])
def test_saying_something_else_later_is_refused_with_both(
    mage: Mage, command: str, option: str, before: str, now: str, told: str
) -> None:
    for folder in ("one", "other"):
        Path(folder).mkdir()
        Path(folder, "a.txt").write_text(folder)
    entry = () if option == "--entry" else ENTRY
    assert mage("plan", "project", *entry, option, before, "--yes").code == MageCode.OK
    events = len(list(facts()))
    done = mage(command, "project", option, now)
    assert done.code == Code.USAGE
    assert told in done.err
    assert f"Leave {option} out to go on with what was said, or begin another study with --name." in done.err
    assert len(list(facts())) == events  # nothing was written down
    assert mage(command, "project", option, before).code in (0, MageCode.AWAITING)  # the same again is nothing else


def facts(study: str = "project") -> list[Any]:
    from etude.store.journal import Journal

    journal = Journal.read(Path("studies") / study)
    found = list(journal.facts())
    journal.close()
    return found


def test_a_preview_knows_what_was_said_and_an_edit_of_the_project_takes_none_of_it_back(mage: Mage) -> None:
    Path("paper.txt").write_text("conv2 matters much")
    assert mage("plan", "project", *ENTRY, "--doc", "paper.txt", "--column", "a", "--yes").code == MageCode.OK
    mage("write", "project", "--backend", mage.replies(GOOD))
    Path("project/evaluate.py").write_text("METRIC = 'f1'\n")
    shown = json.loads(mage("preview", "project", "--json").out)
    assert shown["backend"].startswith("scripted:")  # whoever wrote
    assert "conv2 matters much" in shown["requests"][NAME]["messages"][0]["text"]
    assert not shown["is_whole"]  # the edited program has not run


def test_a_choice_for_another_component_is_no_other_choice_and_plans_anew(mage: Mage) -> None:
    assert mage("plan", "project", *ENTRY, "--yes").code == MageCode.OK
    first = record().plan
    assert mage("plan", "project", "--choose", "conv2=rule", "--yes").code == MageCode.OK
    second = record().plan
    assert first is not None
    assert second is not None
    assert [one.variants[0].route.value for one in (first, second)] == ["model", "rule"]
    mage("plan", "project", "--yes")
    assert record().plan == second


def test_that_nothing_may_leave_this_machine_holds_once_it_was_said(mage: Mage) -> None:
    assert mage.written("--local-only").code == MageCode.AWAITING
    done = mage("write", "project", "--backend", "openai:m@http://192.0.2.1/v1")
    assert done.code == MageCode.BACKEND
    assert "--local-only was asked for. Nothing was sent there." in done.err


# --- a plan that a model drafts -------------------------------------------------------------------


@pytest.mark.parametrize("service", SERVICES)
def test_a_drafted_plan_is_shown_approved_and_then_written(hinted: Mage, service: str) -> None:
    with LLMServer(proposing(item())) as server:
        shown = hinted("suggest", "project", *ENTRY, "--planner", at(server, service))
        assert shown.code == MageCode.AWAITING, shown.err
        assert "without-conv2: " in shown.out
        assert "asked for by   look at what the second layer is worth" in shown.out
        assert "The plan is not approved, so nothing is written." in shown.err
        assert stage() is Stage.PLANNED
        yes = hinted("suggest", "project", "--planner", at(server, service), "--yes")
        assert yes.code == MageCode.OK, yes.err
        assert len(server.seen) == 1  # the answer is in the journal
    [body] = server.bodies
    assert "second layer is worth" in json.dumps(body)
    assert stage() is Stage.DRAFTING
    good = stand_ins.removing('layers["conv2.weight"] = [4, 4]\n')
    done = hinted("write", "project", "--backend", hinted.replies(good))
    assert done.code == MageCode.AWAITING, done.err
    assert stage() is Stage.AWAITING_REVIEW
    known = record()
    assert known.patch_of(NAME) is not None
    assert known.requests == 2
    assert known.spent["variants"][""]["calls"] == 1


def test_enter_alone_approves_no_drafted_plan(hinted: Mage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "at_a_terminal", lambda: True)
    with LLMServer(proposing(item())) as server:
        done = hinted("suggest", "project", *ENTRY, "--planner", at(server), typed="\n")
        assert (done.code, stage()) == (MageCode.AWAITING, Stage.PLANNED)
        assert "Is that what is wanted? [y/N]" in done.out
        hinted("plan", "project", typed="y\n")
    assert stage() is Stage.DRAFTING


def test_a_plan_may_rest_on_documents_and_code_and_marks_keep_their_place(hinted: Mage) -> None:
    Path("project/net.py").write_text(NET.replace("Linear(4, 2)", "Linear(4, 2)  # ABLATABLE_COMPONENT"))
    Path("paper.txt").write_text("1 Results\n\nWe leave out the first linear layer.\n")
    items = (
        item("We leave out the first linear layer.", "conv1"),
        item("        self.conv2 = nn.Linear(4, 4)", "conv2"),
    )
    with LLMServer(proposing(*items)) as server:
        done = hinted("suggest", "project", *ENTRY, "--planner", at(server), "--doc", "paper.txt", "--json", "--yes")
    assert done.code == MageCode.OK, done.err
    document = json.loads(done.out)
    found = {one["name"]: one.get("quote", "") for one in document["plan"]["variants"]}
    assert found == {
        "without-fc": "",
        "without-conv1": "We leave out the first linear layer.  (document paper.txt)",
        "without-conv2": "self.conv2 = nn.Linear(4, 4)  (net.py)",
    }
    assert {one["variant"] for one in document["variants"]} == set(found)
    assert all(one["files"] == ["net.py"] for one in document["plan"]["variants"])


def test_a_plan_that_names_what_is_not_there_is_refused_and_asked_for_anew_the_next_time(hinted: Mage) -> None:
    with LLMServer(proposing(item(name="conv9")), proposing(item())) as server:
        done = hinted("suggest", "project", *ENTRY, "--planner", at(server), "--yes")
        assert done.code == Code.USAGE
        assert "The plan that came back cannot be taken: " in done.err
        assert "conv9" in done.err
        assert record().plan is None
        assert hinted("suggest", "project", "--planner", at(server), "--yes").code == MageCode.OK
        assert len(server.seen) == 2


def test_a_planner_whose_plan_was_not_taken_is_no_part_of_the_study(mage: Mage) -> None:
    with LLMServer(proposing(item(name="conv9"))) as server:
        assert mage("suggest", "project", *ENTRY, "--planner", at(server), "--yes").code == Code.USAGE
        assert mage("plan", "project", "--yes").code == MageCode.OK
        assert mage.written().code == MageCode.AWAITING  # by its marks
        assert len(server.seen) == 1
    setup = record().setup
    assert setup is not None
    assert setup.planner.name == ""


def test_nobody_but_suggest_asks_a_planner_and_marks_are_enough_once_nobody_is_to_read_hints(hinted: Mage) -> None:
    Path("project/net.py").write_text(NET.replace("Linear(4, 2)", "Linear(4, 2)  # ABLATABLE_COMPONENT"))
    with LLMServer(proposing(item())) as server:
        planner = at(server)
        assert hinted("suggest", "project", *ENTRY, "--planner", planner, "--yes").code == MageCode.OK
        Path("project/evaluate.py").write_text("METRIC = 'f1'\n")
        again = f"etude mage suggest {Path('project').resolve()} --name project --planner"
        for call in (("plan", "project"), ("write", "project", "--backend", hinted.replies(GOOD))):
            done = hinted(*call)
            assert done.code == Code.USAGE
            assert done.err.splitlines()[-1].endswith(
                "has not been asked with these files and words; here nobody is asked. Have it read them first: "
                f"{again} {planner}; or go on with marks alone: {again} none."
            )
        shown = json.loads(hinted("preview", "project", "--planner", "none", "--json").out)
        assert list(shown["requests"]) == ["without-fc"]
        assert hinted("suggest", "project", "--planner", "none", "--yes").code == MageCode.OK
        setup = record().setup
        assert setup is not None
        assert setup.planner.name == ""
        assert hinted("plan", "project").code == MageCode.OK
        assert len(server.seen) == 1


@pytest.mark.parametrize("alone", [False, True], ids=["asked again", "marks alone"])
def test_the_commands_by_which_a_plan_goes_on_work_as_they_are_printed(hinted: Mage, alone: bool) -> None:
    """The study has a name of its own, the folder a blank in it, and the planner an address."""
    Path("project").rename("my project")
    Path("my project/net.py").write_text(NET.replace("Linear(4, 2)", "Linear(4, 2)  # ABLATABLE_COMPONENT"))
    with LLMServer(proposing(item()), proposing(item())) as server:
        asked = ("--planner", "openai:some", "--base-url", server.url)
        begun = hinted("suggest", "my project", *ENTRY, "--name", "exp", *asked, "--yes")
        assert begun.code == MageCode.OK, begun.err
        Path("my project/evaluate.py").write_text("METRIC = 'f1'\n")
        refused = hinted("plan", "my project", "--name", "exp").err.strip().splitlines()[-1]
        first, _, second = refused.partition("Have it read them first: ")[2].partition("; or go on with marks alone: ")
        command = shlex.split((second if alone else first).removesuffix("."))
        assert command[:2] == ["etude", "mage"]
        done = hinted(*command[2:], "--yes")
        assert done.code == MageCode.OK, done.err
        assert hinted("plan", "my project", "--name", "exp").code == MageCode.OK
        assert len(server.seen) == (1 if alone else 2)
    assert not Path("studies/my project").exists()


def test_a_planner_is_asked_again_where_that_helps_and_within_the_budget(hinted: Mage, waits: list[float]) -> None:
    with LLMServer(OVERLOADED, proposing(item())) as server:
        refused = hinted("suggest", "project", *ENTRY, "--planner", at(server), "--max-calls", "0")
        assert refused.code == MageCode.BUDGET
        assert refused.err.strip().endswith(
            "Stopped before call 1: 0 are allowed. "
            "Raise that limit (--max-calls, --max-tokens, --max-input, --max-cost, --max-seconds or --per-variant), "
            "and say it again."
        )
        assert not server.seen
        done = hinted("suggest", "project", "--planner", at(server), "--max-calls", "2", "--yes")
        assert done.code == MageCode.OK, done.err
        assert (len(server.seen), len(waits)) == (2, 1)
    assert record().spent["variants"][""]["calls"] == 2
    done = hinted("write", "project", "--backend", hinted.replies(GOOD))
    assert done.code == MageCode.BUDGET  # what the planner took counts
    assert "--max-seconds or --per-variant), and it goes on: etude mage resume project" in done.err


def test_a_key_in_a_source_is_not_sent_to_a_planner(hinted: Mage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "wandb-0123456789")
    Path("project/train.py").write_text(TRAIN + "# wandb-0123456789\n")
    with LLMServer() as server:
        done = hinted("suggest", "project", *ENTRY, "--planner", at(server), "--yes")
    assert done.code == Code.USAGE
    assert "train.py contains the value of an environment variable that looks like a key." in done.err
    assert not server.seen


def test_what_a_planner_would_be_sent_can_be_seen_before(hinted: Mage) -> None:
    hinted("plan", "project", *ENTRY)
    with LLMServer(proposing(item())) as server:
        shown = json.loads(hinted("preview", "project", *ENTRY, "--planner", at(server), "--json").out)
        assert not server.seen
        hinted("suggest", "project", *ENTRY, "--planner", at(server))
    [sent] = [one.body["request"] for one in facts() if getattr(one, "what", "") == "asked"]
    assert [one["text"] for one in sent["messages"]] != []
    assert sent["system"] == shown["requests"]["the plan"]["system"]


# --- whoever cannot be asked ----------------------------------------------------------------------


@pytest.mark.parametrize("service", SERVICES)
def test_an_unknown_model_is_told_before_anything_long_and_nothing_is_lost(mage: Mage, service: str) -> None:
    with LLMServer(UNKNOWN, Step(), Step(text=GOOD)) as server:
        done = mage("write", "project", *ENTRY, "--yes", "--backend", at(server, service))
        assert done.code == MageCode.BACKEND
        assert done.err.strip().endswith(
            "Provider does not know the model, or the address is not its own (404, not_found_error): model: "
            "claude-opus-55. Check how it is spelled, and the base URL. "
            "Once it can be asked again, it goes on: etude mage resume project"
        )
        assert len(server.seen) == 1  # it does not help to ask again
        assert "baseline: run" not in done.err
        assert (record().runs, record().plan) == ((), None)
        done = mage("resume", "project", "--yes")
        assert done.code == MageCode.AWAITING, done.err
        assert len(server.seen) == 3  # that it answers is asked once
    assert stage() is Stage.AWAITING_REVIEW


def test_a_question_that_is_too_large_is_told_before_anything_is_run(mage: Mage) -> None:
    Path("project/train.py").write_text(TRAIN + "# a word of many\n" * 700)
    with LLMServer() as server:
        done = mage("write", "project", *ENTRY, "--yes", "--backend", at(server))
        assert (done.code, len(server.seen)) == (Code.USAGE, 0)
    assert "baseline: run" not in done.err
    assert not record().runs


def test_what_rules_write_asks_nobody_not_even_whether_they_answer(mage: Mage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_hand, "write", lambda *_: stand_ins.read_reply(GOOD).blocks)
    with LLMServer() as server:
        done = mage("write", "project", *ENTRY, "--yes", "--backend", at(server), "--choose", "conv2=rule")
        assert (done.code, stage()) == (MageCode.AWAITING, Stage.AWAITING_REVIEW), done.err
        assert not server.seen
    assert len(record().runs) == 2


def test_a_policy_that_cannot_be_read_is_refused_before_anything_is_run(mage: Mage) -> None:
    done = mage.written("--approve", "none.toml")
    assert done.code == Code.USAGE
    assert "The policy none.toml cannot be read" in done.err
    assert "baseline: run" not in done.err


def test_a_port_that_refuses_is_asked_again_and_then_told_and_nothing_is_lost(mage: Mage, waits: list[float]) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: whoever connects is refused
        port = nobody.getsockname()[1]
        done = mage("write", "project", *ENTRY, "--yes", "--backend", f"openai:m@http://127.0.0.1:{port}", "--json")
    assert done.code == MageCode.BACKEND
    assert str(port) in json.loads(done.out)["error"]
    assert len(waits) == 4
    assert json.loads(done.out)["error"].endswith("it goes on: etude mage resume project")
    assert record().spent["variants"][""]["calls"] == 5
    assert not record().runs
    with LLMServer(Step(), Step(text=GOOD)) as server:
        assert mage("resume", "project", "--yes", "--backend", at(server)).code == MageCode.AWAITING
    assert stage() is Stage.AWAITING_REVIEW


def test_a_study_whose_budget_is_spent_goes_on_with_a_larger_one(mage: Mage) -> None:
    assert mage.written("--max-calls", "1", replies=(BROKEN, GOOD)).code == MageCode.BUDGET
    done = mage("resume", "project")
    assert done.code == MageCode.BUDGET  # the limit holds until another one is said
    assert mage("resume", "project", "--max-calls", "2").code == MageCode.AWAITING
    assert record().requests == 2
    done = mage("resume", "nothing")
    assert done.code == Code.STUDY


def test_a_study_without_a_plan_is_resumed_from_where_it_was(mage: Mage) -> None:
    Path("project/train.py").write_text("raise RuntimeError('no data')\n" + TRAIN)
    assert mage.written().code == MageCode.BASELINE
    Path("project/train.py").write_text(TRAIN)
    done = mage("resume", "project", "--yes")
    assert (done.code, stage()) == (MageCode.AWAITING, Stage.AWAITING_REVIEW), done.err


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "larger", "told"),
    [
        (("--max-input", "10"), ("--max-input", "9000"), "input tokens, 10 are left."),
        (("--max-seconds", "0"), ("--max-seconds", "900"), "Stopped before call 1: all of 0 s were used."),
        (("--per-variant", "calls=1"), ("--per-variant", "calls=2"), f"call 2 of {NAME}: 1 is allowed."),
        (("--per-variant", "tokens=100"), ("--per-variant", "tokens=99000"), "output tokens, 100 are left."),
        (("--per-variant", "seconds=0"), ("--per-variant", "seconds=9.5"), f"1 of {NAME}: all of 0 s were used."),
        (("--per-variant", "input=10"), ("--per-variant", "input=9000"), f"Stopped before call 1 of {NAME}: it could"),
    ],
)
def test_every_limit_can_be_said_is_kept_and_raised(
    mage: Mage, limit: tuple[str, str], larger: tuple[str, str], told: str
) -> None:
    done = mage.written(*limit, replies=(BROKEN, GOOD))
    assert done.code == MageCode.BUDGET, done.err
    assert told in done.err
    assert mage("resume", "project").code == MageCode.BUDGET  # it holds until another one is said
    assert mage("resume", "project", *larger).code == MageCode.AWAITING


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            ("calls",),
            "--per-variant calls is no limit. Write it as calls=4; what can be limited: calls, tokens, input, ",
        ),
        (("days=3",), "--per-variant days=3 is no limit."),
        (("calls=1.5",), "--per-variant calls=1.5 has no number of 0 or more, which has to be whole for calls and"),
        (("cost=nan",), "--per-variant cost=nan has no number of 0 or more"),
        (("calls=1", "calls=2"), "--per-variant says calls=1 and calls=2. Leave one of them out."),
        (("cost=1",), "--per-variant cost=1 cannot be kept: what "),
    ],
)
def test_a_limit_of_each_variant_that_is_none_is_refused(mage: Mage, said: tuple[str, ...], told: str) -> None:
    done = mage.written(*(word for one in said for word in ("--per-variant", one)))
    assert done.code == Code.USAGE
    assert told in done.err
    assert not Path("studies").exists()


# --- people ---------------------------------------------------------------------------------------


def test_a_person_is_told_where_the_question_is_and_the_answer_is_taken(
    mage: Mage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etude.mage.backends.manual.LOOK_EVERY_S", 0.01)
    asked: list[Path] = []

    def answer() -> None:
        until = time.monotonic() + 60
        while not (found := list(Path("asked").glob("*.prompt.md"))):
            assert time.monotonic() < until
            time.sleep(0.01)
        asked.extend(found)
        found[0].with_name(found[0].name.replace(".prompt.", ".reply.")).write_text(GOOD)

    person = threading.Thread(target=answer)
    person.start()
    done = mage("write", "project", *ENTRY, "--yes", "--backend", "manual:asked")
    person.join()
    assert (done.code, stage()) == (MageCode.AWAITING, Stage.AWAITING_REVIEW), done.err
    [question] = asked
    assert re.fullmatch(rf"{NAME}-[0-9a-f]{{12}}\.prompt\.md", question.name)
    reply = question.with_name(question.name.replace(".prompt.", ".reply."))
    assert f"The question is in {question}. Put the answer into {reply}." in done.err.splitlines()


# --- what a model takes ---------------------------------------------------------------------------


def test_what_a_server_here_takes_is_said_once_and_then_known(mage: Mage) -> None:
    Path("project/train.py").write_text(TRAIN + "# a word of many\n" * 700)  # about 4,000 tokens
    with LLMServer(Step(), Step(text=BROKEN), Step(text=GOOD)) as server:
        refused = mage("write", "project", *ENTRY, "--yes", "--backend", at(server))
        assert refused.code == Code.USAGE
        assert "some-model takes 8,192. It has 1 file." in refused.err
        assert "say how many tokens it takes with --context if they are more" in refused.err
        assert not server.seen
        done = mage("resume", "project", "--yes", "--context", "32000", "--most-output", "9000", "--max-calls", "2")
        assert done.code == MageCode.BUDGET, done.err
        assert [body["max_tokens"] for body in server.bodies] == [64, 9_000]
        done = mage("write", "project", "--backend", at(server), "--max-calls", "3")  # the same one, and it is known
        assert done.code == MageCode.AWAITING, done.err
        assert server.bodies[-1]["max_tokens"] == 9_000
        setup = record().setup
        assert setup is not None
        assert (setup.writer.name, setup.writer.context) == (at(server), 32_000)
    mage("write", "project", "--backend", mage.replies(GOOD))
    setup = record().setup
    assert setup is not None
    assert setup.writer.context is None  # of somebody else nothing was said


def test_a_preview_says_what_would_be_refused_as_too_large(mage: Mage) -> None:
    Path("project/train.py").write_text(TRAIN + "# a word of many\n" * 700)
    asked = ("preview", "project", *ENTRY, "--backend", "openai:m@http://127.0.0.1:1")
    large = mage(*asked)
    assert large.code == 0
    assert "openai:m takes 8,192 tokens. The largest question, without-conv2, may have " in large.out
    assert "It would be refused, and nothing sent: too large for what may be used, 7,372 tokens: " in large.out
    assert "say how many tokens it takes with --context" in large.out
    small = mage(*asked, "--context", "32000")
    assert "openai:m takes 32,000 tokens." in small.out
    assert "refused" not in small.out
    assert WHOLE_FIRST.splitlines()[0] in small.out  # which is what such a model is told
    plain = json.loads(mage(*asked, "--json").out)
    assert (plain["context"], plain["too_large"]) == (8_192, [NAME])
    assert plain["tokens"][NAME] > 7_372


def test_what_a_model_takes_is_said_of_somebody(mage: Mage) -> None:
    done = mage("write", "project", *ENTRY, "--yes", "--context", "32000")
    assert done.code == Code.USAGE
    assert "--context and --most-output say what a model takes and gives, and none is named." in done.err
    assert not Path("studies").exists()


def test_a_plan_stays_when_it_is_said_what_its_planner_takes(hinted: Mage) -> None:
    with LLMServer(proposing(item())) as server:
        assert hinted("suggest", "project", *ENTRY, "--planner", at(server), "--yes").code == MageCode.OK
        before = record().plan
        done = hinted("suggest", "project", "--planner", at(server), "--context", "32000", "--yes")
        assert (done.code, len(server.seen)) == (MageCode.OK, 1), done.err
    assert record().plan == before


# --- reviews --------------------------------------------------------------------------------------


def test_a_review_looks_for_the_sandbox_before_it_asks_a_person(mage: Mage, monkeypatch: pytest.MonkeyPatch) -> None:
    mage.written()
    monkeypatch.setattr(planning, "at_a_terminal", lambda: True)

    def missing(tier: str) -> None:
        raise SandboxMissing(f"There is no {tier or 'bwrap'} here.")

    monkeypatch.setattr(at_hand, "find_sandbox", missing)
    done = mage("review", "project", typed="a\n")
    assert (done.code, done.err.strip()) == (MageCode.SANDBOX, "There is no bwrap here.")
    assert (done.out, stage()) == ("", Stage.AWAITING_REVIEW)
    done = mage("review", "project", "--sandbox", "limits")
    assert done.err.strip() == "There is no limits here."


def test_a_review_of_a_variant_that_is_none_says_which_there_are(mage: Mage) -> None:
    mage.written()
    done = mage("review", "project", "--variant", "without-conv9")
    assert done.code == Code.USAGE
    assert done.err.strip() == "There is no variant 'without-conv9' in the plan. There are: without-conv2."


# --- the two calls of the paper -------------------------------------------------------------------


def test_the_two_calls_of_the_paper_do_the_same(mage: Mage) -> None:
    Path("notes.txt").write_text("the data has two classes")
    given = ("-a", "openai", "-m", "some-model", "--local-only")
    again = stand_ins.removing(CONV2, "# conv2 is gone\n")
    with LLMServer(Step(), Step(text=GOOD), Step(text=again)) as server:
        where = ("--base-url", server.url)
        first = mage(
            "first-call", *given, *where, "-d", "project/train.py", "-d", "notes.txt", "--yes", "--metric", "m.json:a",
            "--choose", "conv2=none", "--max-calls", "9",
        )  # fmt: skip
        assert first.code == MageCode.AWAITING, first.err
        setup = record().setup
        assert setup is not None
        assert dict(setup.docs) == {"notes.txt": "the data has two classes"}
        assert (setup.entry, setup.metric, setup.choices) == (stand_ins.ENTRY, "m.json:a", {"conv2": "none"})
        assert (setup.local_only, setup.budget.study.calls) == (True, 9)
        Path("output_result.txt").write_text("leave a comment where it was")
        second = mage("followup-call", "project", *given, *where, "-d", "output_result.txt")
        assert second.code == MageCode.AWAITING, second.err
        assert len(server.seen) == 3
        assert "leave a comment where it was" in json.dumps(server.bodies[-1])
    patch = record().patch_of(NAME)
    assert patch is not None
    assert "+# conv2 is gone" in patch.diff


@pytest.mark.parametrize("call", [("first-call",), ("followup-call", "project")])
def test_the_two_calls_take_the_services_that_they_say(mage: Mage, call: tuple[str, ...]) -> None:
    mage.written()
    done = mage(*call, "-a", "gemini", "-m", "m", "-d", "project/train.py")
    assert done.code == Code.USAGE
    assert "--api gemini is none of anthropic, openai. A server that speaks the language of one of them is" in done.err


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (("project", "elsewhere/other.py"), "-d elsewhere/other.py is not in project, which would be the project."),
        (("project/train.py", "elsewhere/other.py"), "-d elsewhere/other.py is not in project"),
        (("project", "elsewhere"), "-d project, elsewhere: these are several folders."),
        (("notes.txt",), "-d notes.txt: these are no sources."),
        (("project/trian.py",), "-d project/trian.py: there is no such file."),
    ],
)
def test_sources_that_are_of_no_one_project_are_refused(mage: Mage, paths: tuple[str, ...], told: str) -> None:
    Path("elsewhere").mkdir()
    Path("elsewhere/other.py").write_text("")
    Path("notes.txt").write_text("notes")
    given = [word for path in paths for word in ("-d", path)]
    done = mage("first-call", "-a", "openai", "-m", "m", *given)
    assert done.code == Code.USAGE
    assert told in done.err
    assert not Path("studies").exists()


# --- several paths --------------------------------------------------------------------------------


def test_scan_takes_files_and_folders_of_one_project(mage: Mage) -> None:
    Path("project/parts").mkdir()
    Path("project/parts/net.py").write_text("x = f()  # ABLATABLE_COMPONENT\n")
    Path("project/parts/weights.bin").write_bytes(b"\0\1")
    both = json.loads(mage("scan", "project/train.py", "project/parts", "--json").out)
    assert both["files"] == ["parts/net.py", "train.py"]
    assert list(both["left_out"]) == ["parts/weights.bin"]
    assert Path(both["root"]) == Path("project").resolve()
    assert [one["file"] for one in both["annotations"]] == ["parts/net.py", "train.py"]
    one = json.loads(mage("scan", "project/train.py", *ENTRY, "--json").out)
    assert (one["files"], one["sent"]) == (["train.py"], ["train.py"])
    secret = json.loads(mage("scan", "project/.env", "project/train.py", "--json").out)
    assert (secret["files"], list(secret["left_out"])) == (["train.py"], [".env"])
    missing = mage("scan", "project", "nowhere.py")
    assert (missing.code, missing.err.strip()) == (
        2,
        "nowhere.py does not exist. Name files or folders that are there.",
    )


# --- afterwards -----------------------------------------------------------------------------------


@pytest.fixture
def trained(mage: Mage) -> Mage:
    """Give the commands, and a study whose one variant was accepted and trained."""
    Path("policy.toml").write_text("most_lines = 40\n")
    Path("project/train.py").write_text(TRAIN + TRAINED)
    done = mage.written("--approve", "policy.toml", "--metric", "metrics.json:accuracy")
    assert done.code == 0, done.err
    return mage


def test_a_real_report_is_explained_once_and_only_with_its_own_numbers(trained: Mage) -> None:
    assert trained("run", "project", "--seeds", "6", "--workers", "1").code == 0
    assert CliRunner().invoke(app, ["report", "project"]).exit_code == 0
    found = json.loads(Path("studies/project/report/report.json").read_text())["verdicts"]["found"][0]
    good = f"`{found['component']}` gives {found['effect']:.4f} over {found['n']} seeds."
    bad = good.replace("over 6", "over 60")
    with LLMServer(OVERLOADED, Step(text=bad), Step(text=good)) as server:
        done = trained("explain", "project", "--backend", at(server), "--json")
        assert (done.code, json.loads(done.out)["prose"]) == (0, good), done.err
        assert len(server.seen) == 3
        assert "1 number of the explanation does not occur in the report: 60." in json.dumps(server.bodies[-1])
        again = trained("explain", "project", "--explainer", at(server))
        assert (again.code, again.out.strip(), len(server.seen)) == (0, good, 3)  # it is in the journal
    known = record()
    assert known.spent["variants"][""]["calls"] == 3
    assert etude.open("project").counts() == {"finished": 12}
    with LLMServer(Step(text=bad), Step(text=bad)) as server:
        done = trained("explain", "project", "--backend", f"openai:another@{server.url}")
        assert done.code == Code.STUDY
        assert "Not shown: 1 number of the explanation does not occur in the report: 60." in done.err
        done = trained("explain", "project", "--backend", f"openai:third@{server.url}", "--max-calls", "5")
        assert (done.code, len(server.seen)) == (MageCode.BUDGET, 2)


@pytest.mark.parametrize("one", [(), ("--one",)])
def test_what_is_exported_runs_by_itself_without_etude(trained: Mage, tmp_path: Path, one: tuple[str, ...]) -> None:
    done = trained("export", "project", "out", *one)
    assert done.code == 0, done.err
    place = Path("out").resolve()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "python"], check=True)
    python = str(tmp_path / "python" / "bin" / "python")
    assert subprocess.run([python, "-c", "import etude"], capture_output=True, check=False, env={}).returncode == 1
    for line in run_lines(place / "README.md", python):
        clean(line, place)
    found = {
        path.parent.name.removesuffix("-0"): json.loads(path.read_text())["accuracy"]
        for path in place.rglob("metrics.json")
    }
    assert found == {"base": pytest.approx(0.9), NAME: pytest.approx(0.8)}
    again = trained("export", "project", "out", *one)
    assert again.code == Code.USAGE
    assert "out is not empty, and nothing there is written over. Give a folder that is new." in again.err


# --- codes and refusals ---------------------------------------------------------------------------


def test_the_page_tells_each_exit_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "mage.md").read_text()
    rows = {int(code) for code in re.findall(r"^\| (\d+) \| .+ \|$", page, re.MULTILINE)}
    assert rows == {*(int(code) for code in MageCode), Code.STUDY, Code.USAGE, Code.INTERRUPTED}


def test_whoever_interrupts_loses_nothing_and_the_code_says_so(mage: Mage, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(at_hand, "check", interrupted)
    done = CliRunner().invoke(app, ["mage", "write", "project", *ENTRY, "--yes", "--backend", mage.replies(GOOD)])
    assert done.exit_code == Code.INTERRUPTED
    assert stage() is Stage.APPLIED
    monkeypatch.setattr(at_hand, "check", stand_ins.check)
    assert mage("resume", "project").code == MageCode.AWAITING
    assert record().requests == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ("write", "project", "--variant", NAME),
            f"--variant {NAME} says whose patch --from is, and there is no --from.",
        ),
        (
            ("write", "project", "--base-url", "http://127.0.0.1:1"),
            "says where somebody is asked, and nobody is named.",
        ),
        (
            ("write", "project", "--choose", "a=b", "--choose", "a=c"),
            "--choose says a=b and a=c. Leave one of them out.",
        ),
        (("write", "project", "--max-calls", "-1"), "Invalid value for '--max-calls'"),
        (("resume", "empty"), "No variants were written for empty. Begin with: etude mage write PATH --name empty"),
        (
            ("followup-call", "begun", "-a", "openai", "-m", "m@http://127.0.0.1:1", "-d", "paper.txt"),
            "No variant of begun waits for a person, so nothing is sent back. See how far all are: etude mage review",
        ),
        (("preview", "project", "--name", "drafted"), "has not been asked with these files and words; here nobody is"),
    ],
)
def test_a_call_that_cannot_be_is_refused_with_the_mend(mage: Mage, given: tuple[str, ...], told: str) -> None:
    from etude.mage.loop.book import Did, Setup, Whom
    from etude.mage.loop.session import writing

    setups = {
        "empty": None,
        "begun": Setup(root="project", entry=stand_ins.ENTRY),
        "drafted": Setup(root="project", entry=stand_ins.ENTRY, planner=Whom(name="openai:m@http://127.0.0.1:1")),
    }
    for name, setup in setups.items():
        with writing(Path("studies") / name) as book:
            if setup is not None:
                stand_ins.begin(book)
                book.write(Did.BEGUN, setup=setup)
    Path("paper.txt").write_text("words")
    done = mage(*given, *(ENTRY if given[1] == "project" else ()))
    assert done.code == Code.USAGE
    assert told in done.err.replace("\n", " ")
    assert not (Path("studies") / "project").exists()


def test_enter_alone_approves_nothing_at_a_real_terminal(mage: Mage) -> None:
    """The command in a process of its own, at a terminal of its own, with a program that rules write."""
    import pty

    Path("project/train.py").write_text("CLIP = True  # ABLATABLE_COMPONENT\nprint(CLIP)\n")
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-c",
        "from etude.cli import app; app()",
        "mage",
        "plan",
        "project",
        *ENTRY,
        "--sandbox",
        "limits",
    ]
    os.write(ours, b"\n")
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False, env=dict(os.environ))
    os.close(ours)
    os.close(theirs)
    assert done.returncode == MageCode.AWAITING, done.stderr
    assert "Is that what is wanted? [y/N]" in done.stdout
    assert "The plan is not approved, so nothing is written." in done.stderr
    standings = record().standings
    assert {one.stage for one in standings.values()} == {Stage.PLANNED}
