"""The paper's three experiments go from marks to ablations with authored replies, and nobody mends anything by hand.

The replies were written by hand, with the paper's mistakes in them. They show that the loop closes. They say nothing of
how often any model answers so.

Whatever can be known without running a program is asserted of all variants. Of those that are alike, a few are run
here, and all of them by ``make fresh``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from benchmarks.mage_written import ENTRY, EXAMPLES, asked_for, copied, follow_ups_by_hand, written
from watched_programs import sandbox_of_tests

import etude
from etude.mage.backends.scripted import AUTHORED
from etude.mage.facts import Facts
from etude.mage.handover.components import Accepted, commands_of, hand_over
from etude.mage.loop import preparing
from etude.mage.loop.at_hand import prober
from etude.mage.loop.book import Record, Setup
from etude.mage.loop.states import Stage
from etude.mage.patch.blocks import Author
from etude.mage.patch.making import make_patch, patched
from etude.mage.patch.reply import read_reply
from etude.mage.plan import planning
from etude.mage.plan.sharing import NAME, columns_of, shared
from etude.mage.rules.writing import write
from etude.mage.sandbox.protocol import Limits
from etude.mage.static.checking import check
from etude.mage.tree import Tree
from etude.mage.variants import Plan, Route, Variant
from etude.mage.verdicts import Outcome, Rung, Verdict

LIMITS = Limits(wall_s=300.0)


FULL = os.environ.get("ETUDE_FRESH") == "full"


@dataclass(frozen=True)
class Measured:
    """A program whose untouched runs were watched once, for all tests.

    Attributes:
        root: Its folder.
        project: What was read of it.
        runs: What it did.
    """

    root: Path
    project: preparing.Project
    runs: tuple[Facts, ...]

    @property
    def tree(self) -> Tree:
        """Its files."""
        return self.project.reading.tree

    def plan(self, **choices: str) -> Plan:
        """Return what is wanted."""
        return planned(self.project, self.runs[0], **choices)

    def probe(self, tree: Tree, entry: str = ENTRY) -> Facts:
        """Run some files in its place."""
        return probed(self.root, tree, entry)


def planned(project: preparing.Project, facts: Facts | None = None, **choices: str) -> Plan:
    return planning.plan(project.reading.tree, ENTRY, project.annotations, facts=facts, choices=choices)


def probed(root: Path, tree: Tree, entry: str) -> Facts:
    setup = Setup(root=str(root), entry=entry, metric="metrics.json:accuracy")
    return prober(setup, sandbox_of_tests, LIMITS)(tree)


def measured(name: str, into: Path) -> Measured:
    root = copied(name, into)
    project = preparing.look(root, entry=ENTRY)
    return Measured(root, project, tuple(probed(root, project.reading.tree, ENTRY) for _ in range(2)))


@pytest.fixture(scope="module")
def cnn(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured("mage_cnn", tmp_path_factory.mktemp("cnn"))


@pytest.fixture(scope="module")
def higgs(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    return measured("mage_higgs", tmp_path_factory.mktemp("higgs"))


def accepted_of(record: Record) -> list[Accepted]:
    found = []
    for name in record.standings:
        patch = record.patch_of(name)
        assert patch is not None
        if record.variant(name).serves:
            continue
        found.append(Accepted(name, patch, patched(record.tree, patch)))
    return found


def ablated(record: Record, root: Path, name: str, seeds: int) -> Any:
    """Run what was written as an ordinary ablation."""
    train, components = commands_of(
        accepted_of(record), entry=ENTRY, metric="metrics.json:accuracy", base=record.tree, root=root, limit_s=300.0
    )
    experiment = etude.Experiment(train, metric="accuracy", mode="max")
    return hand_over(experiment, components, name=name, seeds=seeds, workers=1, force=True)


def test_the_network_loses_a_layer_each_and_the_forgotten_shape_is_mended(cnn: Measured, tmp_path: Path) -> None:
    replies = EXAMPLES / "mage_cnn" / "authored"
    record = written(
        tmp_path / "study",
        cnn.root,
        replies,
        sandbox=sandbox_of_tests,
        runs=cnn.runs,
        choices={"conv2": "none", "fc1": "none"},
    )
    assert {name: one.calls for name, one in record.standings.items()} == {"without-conv2": 2, "without-fc1": 2}
    assert follow_ups_by_hand(record) == 0
    trees = {one.name: one.tree.text("train.py") for one in accepted_of(record)}
    assert "conv2" not in trees["without-conv2"]
    assert "nn.Conv2d(32, 128" in trees["without-conv2"]
    done = ablated(record, cnn.root, "cnn", 1)
    assert done.pulled == {}
    assert {trial.state for trial in done.ablation.trials} == {"finished"}
    assert [arm.name for arm in done.ablation.arms] == ["base", "custom:without-conv2", "custom:without-fc1"]


def test_each_mark_has_to_be_chosen_where_its_removal_can_be_meant_in_two_ways(cnn: Measured) -> None:
    plan = cnn.plan()
    said = next(remark.text for remark in plan.remarks if "conv2" in remark.text)
    assert said.startswith(
        "`conv2` removed: the pooling after it can stay (1,092,106 parameters) or go (4,237,834; 3.7 times the "
        "baseline). Choose with `with=pool`."
    )
    assert next(one for one in plan.variants if one.name == "without-conv2").unclear


SAGE = {
    "without-sage2": True,
    "without-sage3": False,
    "without-sage4": False,
    "without-sage2-sage3-sage4-sage1-8": True,
    "without-sage2-sage3-sage4-sage1-64": False,
}
"""What the hint asks for, and whether it is run here."""


def test_the_graph_network_is_ablated_as_the_hint_says_and_the_forgotten_import_is_mended(tmp_path: Path) -> None:
    root, replies = copied("mage_graphsage", tmp_path), EXAMPLES / "mage_graphsage" / "authored"
    project = preparing.look(root, entry=ENTRY)
    plan = planned(project)
    assert [one.name for one in plan.variants] == list(SAGE)
    for variant in plan.variants:
        found = [statically(project.reading.tree, variant, replies / variant.name / f"{n}.md") for n in (1, 2)]
        assert [one.outcome for one in found] == [Outcome.FAILED, Outcome.PASSED]
        assert found[0].rung is Rung.PARSE

    run = [name for name, is_run in SAGE.items() if is_run or FULL]
    record = written(tmp_path / "study", root, replies, sandbox=sandbox_of_tests, only=run)
    assert list(record.standings) == run
    assert {one.calls for one in record.standings.values()} == {2}
    assert follow_ups_by_hand(record) == 0
    done = ablated(record, root, "sage", 1)
    assert done.pulled == {}
    assert len(done.ablation.trials) == 1 + len(run)
    assert {trial.state for trial in done.ablation.trials} == {"finished"}


def statically(tree: Tree, variant: Variant, reply: Path) -> Verdict:
    """Return what is said of a reply without running it: the first that is no pass, or the last."""
    patch = make_patch(tree, read_reply(reply.read_text()).blocks, author=Author(name=AUTHORED), allowed=variant.files)
    verdicts = check(tree, patch, variant)
    return next((one for one in verdicts if not one.passed), verdicts[-1])


def test_six_features_and_all_pairs_take_no_call_at_all(higgs: Measured, tmp_path: Path) -> None:
    plan = higgs.plan()
    assert [len(columns_of(one)) for one in plan.variants] == [1] * 6 + [2] * 15
    assert {one.route for one in plan.variants} == {Route.RULE}  # as the README tells
    assert shared(plan, higgs.tree) == plan  # so nobody is to be asked for them together either
    digests = set()
    for variant in plan.variants:
        blocks = write(variant, higgs.tree, higgs.runs[0])
        assert blocks is not None
        patch = make_patch(higgs.tree, blocks, author=Author(name="rule"), allowed=variant.files)
        assert all(one.passed for one in check(higgs.tree, patch, variant))
        digests.add(patch.digest)
    assert len(digests) == 21

    run = [one.name for one in (plan.variants if FULL else (plan.variants[0], plan.variants[-1]))]
    record = written(tmp_path / "study", higgs.root, None, sandbox=sandbox_of_tests, only=run, runs=higgs.runs)
    assert list(record.standings) == run
    assert {one.calls for one in record.standings.values()} == {0}
    assert follow_ups_by_hand(record) == 0
    base = record.runs[0].fits[0].columns
    assert len(base) == 30
    for name in run:
        patch_run = record.patch_of(name)
        assert patch_run is not None
        left = record.facts[patch_run.digest].fits[0].columns
        assert set(base) - set(left) == set(columns_of(record.variant(name)))
        assert not {"EventId", "Weight", "Label"} & {*base, *left}


AUTHORED_FOR_HIGGS = EXAMPLES / "mage_higgs" / "authored"


def test_six_features_and_all_pairs_come_of_one_reply_where_no_rule_is_sure(higgs: Measured, tmp_path: Path) -> None:
    plan = shared(asked_for(higgs.plan()), higgs.tree)
    assert len(plan.variants) == 1 + 21
    assert plan.variants[0].name == NAME
    assert plan.variants[0].intent.startswith("The program takes one more argument, `--without NAMES`")
    assert {one.route for one in plan.variants[1:]} == {Route.SHARED}
    trials = [one.name for one in plan.variants[1:]]
    run = trials if FULL else [trials[0], trials[-1]]
    record = written(
        tmp_path / "study",
        higgs.root,
        AUTHORED_FOR_HIGGS,
        sandbox=sandbox_of_tests,
        only=None if FULL else [NAME, *run],
        runs=higgs.runs,
        by_rule=False,
    )
    assert {name: one.calls for name, one in record.standings.items()} == {NAME: 1, **dict.fromkeys(run, 0)}
    assert record.requests == 1
    assert follow_ups_by_hand(record) == 0
    assert [one.rung for one in record.verdicts_of(NAME)][-2:] == [Rung.BASELINE, Rung.SHORT_RUN]
    base = record.runs[0].fits[0].columns
    for name in run:
        patch = record.patch_of(name)
        assert patch is not None
        assert set(base) - set(record.facts[patch.digest].fits[0].columns) == set(columns_of(record.variant(name)))
    done = ablated(record, higgs.root, "higgs", 1)
    assert [arm.name for arm in done.ablation.arms] == ["base", *(f"custom:{name}" for name in run)]
    assert {trial.state for trial in done.ablation.trials} == {"finished"}


def test_a_parametrised_program_that_does_something_else_without_its_argument_is_mended(
    higgs: Measured, tmp_path: Path
) -> None:
    good = (AUTHORED_FOR_HIGGS / NAME / "1.md").read_text()
    replies = tmp_path / "replies" / NAME
    replies.mkdir(parents=True)
    (replies / "1.md").write_text(
        good.replace("*without]).replace(-999.0, np.nan)", "*without]).replace(-999.0, 0.0)").replace(
            'default=""', 'default="PRI_met"'
        )
    )
    (replies / "2.md").write_text(good)
    trial = higgs.plan().variants[0].name
    record = written(
        tmp_path / "study",
        higgs.root,
        replies.parent,
        sandbox=sandbox_of_tests,
        only=[NAME, trial],
        runs=higgs.runs,
        by_rule=False,
    )
    assert (record.standings[NAME].stage, record.standings[NAME].calls) == (Stage.SHARED, 2)
    assert "baseline" in record.standings[NAME].signatures[0]
    assert (record.standings[trial].stage, record.standings[trial].calls) == (Stage.AWAITING_REVIEW, 0)
    assert len(record.standings[trial].patches) == 1  # it was not run with the change that was wrong


@pytest.mark.parametrize(("name", "data"), [("mage_cnn", "CIFAR10"), ("mage_graphsage", "CORA")])
def test_a_program_knows_nothing_of_etude_and_is_equal_for_equal_seeds(name: str, data: str, tmp_path: Path) -> None:
    root = copied(name, tmp_path)
    assert "etude" not in "".join(path.read_text().lower() for path in root.glob("*.py"))
    found = []
    for _ in range(2):
        environment = {key: value for key, value in os.environ.items() if key not in (data, "PYTHONPATH")}
        command = [sys.executable, "train.py", "--seed", "1", "--quick"]
        ran = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True, env=environment)
        found.append((ran.stdout, json.loads((root / "metrics.json").read_text())["accuracy"]))
    assert found[0] == found[1]
    assert "accuracy: " in found[0][0]


def commands_of_readme(example: str) -> list[str]:
    """Return the lines of the block that is for a real key, up to what would ask somebody."""
    text = (EXAMPLES / example / "README.md").read_text(encoding="utf-8")
    block = text.partition("## Run it with a real key")[2].partition("```sh\n")[2].partition("```")[0]
    lines = block.replace("\\\n", " ").splitlines()
    asks = next(n for n, line in enumerate(lines) if line.startswith("etude mage write"))
    return lines[:asks]


@pytest.mark.skipif(not FULL, reason="make fresh runs it: it takes some runs of each program")
@pytest.mark.parametrize(("example", "variants"), [("mage_cnn", 2), ("mage_graphsage", 5)])
def test_what_a_readme_says_up_to_its_preview_runs_as_it_stands(example: str, variants: int, tmp_path: Path) -> None:
    (copied(example, tmp_path) / "authored").mkdir(exist_ok=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    script = "\n".join(["set -eu", *commands_of_readme(example)]).replace("MODEL", "claude-opus-5")
    script = script.replace("etude mage plan .", "etude mage plan . --yes")
    environment = {**os.environ, "PATH": path, "ETUDE_STUDIES": str(tmp_path / "studies")}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{variants} questions to anthropic:claude-opus-5 at api.anthropic.com" in done.stdout
    assert "authored" not in done.stdout.partition("Sent:")[2].partition("══")[0]
