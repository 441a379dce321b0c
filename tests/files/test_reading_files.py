"""What a file asks for: the arguments of the verbs, and the space."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import etude
from etude.files.keys import NOT_IN_FILES, OWN, VERBS, arguments_of, keys
from etude.files.values import READERS
from etude.tune.samplers import TPE
from etude.tune.stop import ASHA, MedianRule

if TYPE_CHECKING:
    from .conftest import Files

ALL = """
experiment: script.py:experiment
verb: tune
parameters:
  optimizer:
    lr: 0.1
    betas: [0.5, 0.9]
  width: 32
space:
  width: [32, 64]
  optimizer.name: [sgd, adam]
  bias: true
trials: 6
workers: [1, 2]
sampler: tpe(startup=3)
stopper: [asha, "median(first_after=8, metric='score')"]
start:
  - {width: 64}
constraint: narrow
resources: {cpus: 1, memory_gb: 2}
budget: null
mirror: mirrors
keep: 3,last
timeout_s: 5
name: all
"""


def test_a_file_is_a_call(files: Files) -> None:
    asked = files.ask(ALL)
    space = asked.arguments.pop("space")
    constraint = asked.arguments.pop("constraint")
    assert asked.verb == "tune"
    assert asked.notes == []
    assert dict(space) == dict(
        etude.tune.spaces.Space.of(
            {
                "width": [32, 64],
                "optimizer.name": ["sgd", "adam"],
                "bias": True,
                "optimizer.lr": 0.1,
                "optimizer.betas": (0.5, 0.9),
            }
        )
    )
    assert list(space) == ["width", "optimizer.name", "bias", "optimizer.lr", "optimizer.betas"]
    assert constraint.__name__ == "narrow"
    assert asked.arguments == {
        "trials": 6,
        "workers": (1, 2),
        "sampler": TPE(startup=3),
        "stopper": [ASHA(), MedianRule(first_after=8, metric="score")],
        "start": [{"width": 64}],
        "resources": "cpus=1,memory_gb=2",
        "mirror": "mirrors",
        "keep": "3,last",
        "timeout_s": 5,
        "name": "all",
    }


def test_one_word_makes_a_prototype_a_study(files: Files) -> None:
    asked = files.ask(ALL.replace("verb: tune", "verb: run"))
    assert asked.arguments == {"optimizer.lr": 0.1, "optimizer.betas": [0.5, 0.9], "width": 32}
    assert asked.notes == [
        "run leaves aside what is for other verbs: space, trials, workers, sampler, stopper, start, constraint, "
        "resources, budget, mirror, keep, timeout_s, name."
    ]
    asked = files.ask(ALL.replace("verb: tune", "verb: fit"))
    assert asked.arguments["at"] == {"optimizer.lr": 0.1, "optimizer.betas": [0.5, 0.9], "width": 32}
    assert (asked.arguments["workers"], asked.arguments["name"]) == ((1, 2), "all")
    # What another verb would be given is checked all the same.
    assert "sampler: tpee is not known" in files.refused(
        ALL.replace("verb: tune", "verb: run").replace("tpe(", "tpee(")
    )


SPACES = {
    "uniform(0, 1)": etude.uniform(0, 1),
    "etude.loguniform(1e-4, 1)": etude.loguniform(1e-4, 1),
    "'uniform(0, 1)'": etude.uniform(0, 1),
    "{uniform: [0, 1]}": etude.uniform(0, 1),
    "{uniform: {low: 0, high: 1, step: 0.5}}": etude.uniform(0, 1, step=0.5),
    "[0.5, 1.0]": [0.5, 1.0],
    "{choice: [0.5, 1.0]}": etude.choice([0.5, 1.0]),
    "{ordered: [0.5, 1.0]}": etude.ordered([0.5, 1.0]),
    "0.5": 0.5,
    "'piecewise(loguniform(1e-4, 1), starts=(0, 10))'": etude.piecewise(etude.loguniform(1e-4, 1), starts=(0, 10)),
    "{piecewise: {domain: [0.1, 0.01], starts: [0, 10]}}": etude.piecewise([0.1, 0.01], starts=(0, 10)),
    "{piecewise: {domain: 'uniform(0, 1)', starts: [0, 10]}}": etude.piecewise(etude.uniform(0, 1), starts=(0, 10)),
    "[[1, 2], [3]]": [(1, 2), (3,)],
    "['uniform(0, 1)', 'a)']": ["uniform(0, 1)", "a)"],
    "{choice: {sgd: {momentum: 'uniform(0, 1)'}, adam: , null: {}}}": etude.choice(
        {"sgd": {"momentum": etude.uniform(0, 1)}, "adam": {}, None: {}}
    ),
    "{upto: [5, 10]}": etude.upto([5, 10]),
}


@pytest.mark.parametrize("text", SPACES)
def test_a_space_in_yaml(text: str) -> None:
    from etude.files.composing import read_text
    from etude.files.source import Problems, Source
    from etude.files.spaces import read_domain_of

    problems = Problems()
    found = read_domain_of("lr", read_text(Source("it", text, Path()), problems, {}))
    problems.check()
    assert found == SPACES[text]


def test_what_the_command_line_says_counts(files: Files) -> None:
    asked = files.ask(ALL, "verb=run", "width=8", "optimizer.lr=${LR}", "seed=3", LR="0.5")
    assert asked.arguments == {"optimizer.lr": 0.5, "optimizer.betas": [0.5, 0.9], "width": 8, "seed": 3}
    asked = files.ask(ALL, "width=8", "space.optimizer.lr=loguniform(1e-3, 1)", "trials=2", "stopper=", "x-note=1")
    assert dict(asked.arguments["space"])["optimizer.lr"] == etude.loguniform(1e-3, 1)
    assert dict(asked.arguments["space"])["width"] == etude.choice([8])
    assert (asked.arguments["trials"], "stopper" in asked.arguments) == (2, False)
    assert asked.notes == ["width is fixed by the command line, and not searched."]


def test_a_script_is_a_file_that_says_nothing_else(files: Files) -> None:
    asked = files.of("script.py:experiment", "width=3", "seed=7")
    assert (asked.verb, asked.arguments) == ("run", {"width": 3, "seed": 7})
    asked = files.of("script.py:experiment", "verb=tune", "space.width=[3, 4]", "trials=2")
    assert (asked.verb, asked.arguments["trials"]) == ("tune", 2)


def test_paths_are_relative_to_their_file(files: Files) -> None:
    files.write(
        "experiment: ../script.py:experiment\nverb: tune\nspace: {width: [3]}\nmirror: ../mirrors\nstates: s3://bucket/x\n",
        "configs/study.yaml",
    )
    asked = files.of("configs/study.yaml")
    assert asked.arguments["mirror"] == "configs/../mirrors"
    assert asked.arguments["states"] == "s3://bucket/x"
    assert files.of("configs/study.yaml", "mirror=here").arguments["mirror"] == "here"  # where it was written
    files.write("experiment: script.py:experiment\nverb: run\n", "configs/wrong.yaml")
    with pytest.raises(
        etude.ConfigError, match=r"There is script\.py in the working folder, but paths are relative to"
    ):
        files.of("configs/wrong.yaml")


def test_what_the_script_has_goes_by_its_name(files: Files) -> None:
    head = "experiment: script.py:experiment\n"
    asked = files.ask(f"{head}verb: tune\nspace: {{width: [3]}}\nsampler: Middle(0.25)\npartition: Blocks()\n")
    assert asked.arguments["sampler"].lr == 0.25
    assert asked.arguments["partition"] == etude.partitions.Blocks()
    asked = files.ask(f"{head}verb: ablate\ncomponents: [no_bias, optimizer.lr=0]\npolicy: Pairs()\n")
    assert list(map(str, asked.arguments["components"])) == ["bias=False", "optimizer.lr=0"]
    assert asked.arguments["policy"] == etude.policies.Pairs()
    asked = files.ask(f"{head}verb: fit\nparallel: FSDP(block='Layer')\nweights: auto\nengine: narrow\n")
    assert asked.arguments["parallel"] == etude.FSDP(block="Layer")
    assert asked.arguments["weights"] == "auto"


def test_arms_are_tuned_by_a_file_that_says_so_and_what_is_there_for_a_search_is_left_aside_else(files: Files) -> None:
    text = "experiment: script.py:experiment\nverb: ablate\ncomponents: bias\nspace: {width: [3, 4]}\nsampler: random\n"
    asked = files.ask(text)
    assert asked.arguments.keys() == {"components"}
    assert "ablate leaves aside what is for other verbs: space, sampler." in asked.notes
    asked = files.ask(f"{text}retune: 4\nparameters: {{width: 3}}\n")
    assert asked.arguments["retune"] == 4
    assert asked.arguments["space"] == etude.tune.spaces.Space.of({"width": [3, 4]})
    assert asked.arguments["at"] == {"width": 3}
    assert not asked.notes


def test_every_argument_of_a_verb_can_stand_in_a_file() -> None:
    for verb in VERBS:
        arguments = {*inspect.signature(getattr(etude.Experiment, verb)).parameters} - NOT_IN_FILES
        assert arguments == set(arguments_of(verb))
        for name, key in arguments_of(verb).items():
            assert key.says, f"{verb}(..., {name}=...) is not told of in its docstring"
            told = name in READERS or name in OWN or name == "space"
            assert told or key.type is not Any, (
                f"the type of {verb}(..., {name}=...) cannot be read: write a reader in files/values.py"
            )
            assert told or "Sampler" not in str(key.type)
    assert set(keys()) >= set(READERS) | set(OWN)


def test_machines_are_tuned_by_a_word_or_by_options(files: Files) -> None:
    head = "experiment: script.py:experiment\nspace: {width: [3]}\n"
    for verb in ("tune", "fit", "run"):
        asked = files.ask(f"{head}verb: {verb}\nsystem: true\n")
        assert asked.arguments["system"].as_call == {}
    assert files.ask(f"{head}verb: tune\nsystem: false\n").arguments["system"] is None
    text = f"""{head}verb: ablate
components: bias
system:
  knobs: [threads, loader_workers]
  objective: {{time: 1, energy: 2}}
  history: here.sqlite
  best: score, then time
"""
    files.write(text.replace("script.py", "../script.py"), "configs/study.yaml")
    found = files.of("configs/study.yaml", "system.within=0.1").arguments["system"]
    assert found.knobs == ("threads", "loader_workers")
    assert (found.objective.time, found.objective.energy) == (1, 2)
    assert (found.history, found.within) == (os.path.abspath("configs/here.sqlite"), 0.1)
    assert files.ask(f"{head}verb: tune\nsystem: {{setting: {{threads: 1}}}}\n").arguments["system"].setting == {
        "threads": 1
    }


def test_a_similarity_may_be_one_of_the_script(files: Files) -> None:
    head = "experiment: script.py:experiment\nspace: {width: [3]}\nverb: tune\n"
    found = files.ask(f"{head}system: {{similarity: alike}}\n").arguments["system"].similarity
    assert type(found).__name__ == "Alike"
    assert files.ask(f"{head}system: {{similarity: k-means}}\n").arguments["system"].similarity == "k-means"


def test_dry_runs_and_switches(files: Files) -> None:
    text = "experiment: script.py:experiment\nverb: ablate\ncomponents: bias\nseeds: [3, 4]\n"
    asked = files.ask(text, "dry_run=true")
    assert asked.arguments["dry_run"] is True
    assert asked.arguments["seeds"] == [3, 4]
