"""A broken file for each kind of mistake: the message begins with the place, and says the mend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from etude.core.errors import FileError
from etude.files.document import read_document

if TYPE_CHECKING:
    from .conftest import Files

HEAD = "experiment: script.py:experiment\nverb: run\n"
TUNE = "experiment: script.py:experiment\nverb: tune\n"

BROKEN = {
    "a tab": (f"{HEAD}parameters:\n\twidth: 3\n", "study.yaml:4:1: A tab cannot indent. Write spaces."),
    "a colon in a text": (
        f"{HEAD}parameters:\n  folder: a: b\n",
        "study.yaml:4:12: A second ': ' on one line. Put a text that has one in quotes; or indent by spaces "
        "below its key.",
    ),
    "too far in": (
        f"{HEAD} parameters:\n  width: 3\n",
        "study.yaml:3:12: This line is indented below one that has a value already. Lines that belong "
        "together begin in "
        "one column.",
    ),
    "not as far in as the line above": (
        f"{TUNE}space:\n    width: [3]\n  bias: true\n",
        "study.yaml:5:3: This is indented differently than what stands above it. Lines that belong together "
        "begin in one "
        "column. It began at study.yaml:1:1.",
    ),
    "no colon": (
        "experiment: script.py:experiment\nverb run\ntrials: 3\n",
        "study.yaml:3:1: A key has to end in ':' on its own line. Write 'key: value', with a space. It began at "
        "study.yaml:2:1.",
    ),
    "an open list": (
        f"{TUNE}space:\n  width: [3, 4\ntrials: 3\n",
        "study.yaml:5:7: A list in [...] is not closed, or lacks a comma. Put a text with brackets or commas "
        "in quotes, "
        "and ${...} on a line of its own. It began at study.yaml:4:10.",
    ),
    "an open mapping": (
        f"{HEAD}parameters: {{width: ${{WIDTH}}}}\n",
        "study.yaml:3:22: A mapping in {...} is not closed, or lacks a comma. Put a text with brackets or commas in "
        "quotes, and ${...} on a line of its own. It began at study.yaml:3:13.",
    ),
    "an open quote": (
        f'{HEAD}name: "one\n',
        "study.yaml:4:1: A quotation mark is not closed before the end of the file. It began at study.yaml:3:7.",
    ),
    "an at sign": (
        f"{HEAD}name: @one\n",
        "study.yaml:3:7: No text without quotes may begin so. Put it in quotes.",
    ),
    "no such anchor": (
        f"{HEAD}x-a: &width {{width: 3}}\nparameters: *widht\n",
        "study.yaml:4:13: *widht stands for nothing: no &widht ends before it. Did you mean 'width'?",
    ),
    "an anchor in itself": (
        f"{HEAD}parameters: &p [*p]\n",
        "study.yaml:3:17: *p stands for nothing: no &p ends before it.",
    ),
    "a tag that makes objects": (
        'experiment: script.py:experiment\nverb: !!python/object/apply:os.system ["ls"]\n',
        "study.yaml:2:7: The tag !!python/object/apply:os.system is not known here: nothing is made by a tag but "
        "!include other.yaml. Drop it.",
    ),
    "a tag that lies": (
        f"{HEAD}seed: !!int four\n",
        "study.yaml:3:7: 'four' is not what its tag !!int says. Drop the tag.",
    ),
    "two documents": (
        "experiment: script.py:experiment\n---\nverb: run\n",
        "study.yaml:2:1: A second document begins here, and a study is one. Put each in its own file.",
    ),
    "nothing": ("# nothing\n", "study.yaml:1:1: study.yaml is empty. Write as in:"),
    "a list": (
        "- verb: run\n",
        "study.yaml:1:1: Here is a list, where an experiment file has keys. Write experiment: script.py:experiment.",
    ),
    "a key twice": (
        f"{HEAD}parameters:\n  width: 3\n  width: 4\n",
        "study.yaml:5:3: 'width' stands here a second time; the first is at study.yaml:4:3. Leave one.",
    ),
    "a key that is none": (
        f"{HEAD}[a, b]: 3\n",
        "study.yaml:3:1: A key has to be a name, and here it is none. Put a text with { or [ in it in quotes.",
    ),
    "a merge of nothing": (
        f"{HEAD}parameters:\n  <<: 3\n",
        "study.yaml:4:3: << takes in the keys of mappings, and here is the number 3. Write <<: *name of a mapping.",
    ),
    "a bell": (f"{HEAD}name: a\x07b\n", "study.yaml:3:8: The character U+0007 may not stand in YAML. Remove it."),
    "a switch of YAML 1.1": (
        f"{HEAD}parameters:\n  bias: no\n",
        "study.yaml:4:9: no is false in YAML 1.1 and a text in YAML 1.2. Write false, or 'no' quoted.",
    ),
    "too deep": (
        f"{HEAD}parameters: {'[' * 60}{']' * 60}\n",
        "study.yaml:3:63: This is more than 50 levels deep, which no study is.",
    ),
    "an unknown key": (
        f"{HEAD}trails: 3\n",
        "study.yaml:3:1: 'trails' is no key. Did you mean 'trials'? Hyperparameters stand under parameters, or space.",
    ),
    "a key that is no matter of a file": (
        f"{TUNE}space: {{width: [3]}}\nwait: false\n",
        "study.yaml:4:1: 'wait' is no matter of a file: the command line waits, and shows progress unless --quiet is "
        "given.",
    ),
    "an unknown verb": (
        "experiment: script.py:experiment\nverb: tuen\n",
        "study.yaml:2:7: verb is the text 'tuen', which is none. Did you mean 'tune'? There are: run, check, tune, "
        "ablate, fit.",
    ),
    "no verb": (
        "experiment: script.py:experiment\n",
        "study.yaml:1:1: The key verb is missing. Write verb: run, or another one of run, check, tune, ablate, fit.",
    ),
    "no experiment": (
        "verb: run\n",
        "study.yaml:1:1: The key experiment is missing. Write experiment: script.py:experiment.",
    ),
    "an experiment that is no script": (
        "experiment: experiment\nverb: run\n",
        "study.yaml:1:13: experiment is the text 'experiment'. Name the script, and the experiment in it: "
        "script.py:experiment.",
    ),
    "no such script": (
        "experiment: scirpt.py:experiment\nverb: run\n",
        "study.yaml:1:13: There is no file scirpt.py. Did you mean 'script.py'?",
    ),
    "no such experiment": (
        "experiment: script.py:experimnet\nverb: run\n",
        "study.yaml:1:13: script.py has no experiment 'experimnet'. Did you mean 'experiment'? It has: experiment.",
    ),
    "a study to reuse that is none": (
        f"{TUNE}space: {{width: [3]}}\nreuse: [nothing]\n",
        "study.yaml:4:9: There is no study nothing.",
    ),
    "a text for a number": (
        f'{TUNE}space: {{width: [3]}}\ntrials: "10"\n',
        "study.yaml:4:9: trials is the text '10', and has to be a whole number.",
    ),
    "a fraction for a whole number": (
        f"{HEAD}seed: 1.5\n",
        "study.yaml:3:7: seed is the number 1.5, and has to be a whole number.",
    ),
    "a number for a switch": (
        f"{HEAD}reuse_child: 1\n",
        "study.yaml:3:14: reuse_child is the number 1, and has to be true or false.",
    ),
    "a text for one of a few": (
        f"{HEAD}on: test\n",
        "study.yaml:3:5: on is the text 'test', and has to be train or train+valid.",
    ),
    "an unknown hyperparameter": (
        f"{HEAD}parameters:\n  optimizer:\n    lrr: 0.1\n",
        "study.yaml:5:5: No function takes 'optimizer.lrr'. Did you mean 'optimizer.lr'? They take: bias, folder, "
        "optimizer.betas, optimizer.lr, optimizer.name, width.",
    ),
    "a hyperparameter of another type": (
        f"{HEAD}parameters:\n  width: 2.5\n",
        "study.yaml:4:10: width=2.5 does not fit train(), which asks for width: int (expected `int`, got "
        "`float`). Give a "
        "value of that type, or change the annotation.",
    ),
    "a domain where one value stands": (
        f"{HEAD}parameters:\n  width: integers(1, 8)\n",
        "study.yaml:4:10: width='integers(1, 8)' does not fit train(), which asks for width: int (expected `int`, got "
        "`str`). Give a value of that type, or change the annotation. What is searched stands under space.",
    ),
    "a list where one value stands": (
        f"{HEAD}parameters:\n  width: [2, 3]\n",
        "study.yaml:4:10: width=[2, 3] does not fit train(), which asks for width: int (expected `int`, got `array`). "
        "Give a value of that type, or change the annotation. What is searched stands under space.",
    ),
    "a hyperparameter twice": (
        f"{HEAD}parameters:\n  optimizer.lr: 1\n  optimizer: {{lr: 2}}\n",
        "study.yaml:5:15: optimizer.lr stands here a second time, besides study.yaml:4:3. Leave one.",
    ),
    "a value for a group": (
        f"{HEAD}parameters:\n  optimizer: sgd\n",
        "study.yaml:4:14: optimizer is a group of parameters, and here is the text 'sgd'. Write its fields below it, "
        "each with its value.",
    ),
    "no space": (f"{TUNE}trials: 3\n", "study.yaml:2:7: tune needs the key space, which is missing: What each"),
    "no components": (
        "experiment: script.py:experiment\nverb: ablate\n",
        "study.yaml:2:7: ablate needs the key components, which is missing: What is taken away",
    ),
    "a domain that is none": (
        f"{TUNE}space:\n  optimizer.lr: logunifrom(1e-4, 1)\n",
        "study.yaml:4:17: optimizer.lr: There is no domain 'logunifrom'. Did you mean 'loguniform'? A text "
        "that is meant "
        "as it stands is a list of one: ['logunifrom(1e-4, 1)'].",
    ),
    "a domain that cannot be": (
        f"{TUNE}space:\n  optimizer.lr: loguniform(0, 1)\n",
        "study.yaml:4:17: optimizer.lr: loguniform(0, 1) has low=0, which has no logarithm. Pass a low above 0.",
    ),
    "a domain without values": (
        f"{TUNE}space:\n  width: integers\n",
        "study.yaml:4:10: width: integers does not say which values. Write it with brackets, as in uniform(0, 1).",
    ),
    "a domain that was cut at its comma": (
        f"{TUNE}space: {{optimizer.lr: uniform(0, 1), width: [3]}}\n",
        "study.yaml:3:34: '1)' cannot be the name of a parameter. In {...} and [...] a comma ends a value: put it in "
        "quotes, or on a line of its own.",
    ),
    "a mapping that is no domain": (
        f"{TUNE}space:\n  width: {{integer: [1, 8]}}\n",
        "study.yaml:4:10: width is a mapping with integer, where one of uniform, loguniform, integers, "
        "choice, ordered, "
        "piecewise, upto stands alone. Did you mean 'integers'? Write width: {uniform: [0, 1]}, or width: "
        "uniform(0, 1).",
    ),
    "an option that a domain has not": (
        f"{TUNE}space:\n  width: {{integers: {{low: 1, hgih: 8}}}}\n",
        "study.yaml:4:30: width: integers has no option 'hgih'. Did you mean 'high'? It has: low, high, log, step.",
    ),
    "a domain of another type": (
        f"{TUNE}space:\n  optimizer:\n    name: [sgd, rmsprop]\n",
        "study.yaml:5:11: optimizer.name='rmsprop' does not fit train(), which asks for optimizer.name: "
        "Literal['sgd', 'adam'] (invalid enum value 'rmsprop'). Give a value of that type, or change the annotation.",
    ),
    "a stateless parameter that is searched": (
        f"{TUNE}space:\n  folder: [a, b]\n",
        "study.yaml:4:11: folder is Stateless in train(): it is said not to change the numbers, so it cannot "
        "be searched. "
        "Give it one value, or drop Stateless.",
    ),
    "a sampler that is none": (
        f"{TUNE}space: {{width: [3]}}\nsampler: tpee\n",
        "study.yaml:4:10: sampler: tpee is not known. Did you mean 'tpe'? There are: ",
    ),
    "an option that a stopper has not": (
        f"{TUNE}space: {{width: [3]}}\nstopper: [asha, median(first=3)]\n",
        "study.yaml:4:17: stopper: 'median(first=3)': median has no option 'first'. Did you mean "
        "'first_after'? It has: ",
    ),
    "a constraint that is none": (
        f"{TUNE}space: {{width: [3]}}\nconstraint: narow\n",
        "study.yaml:4:13: script.py has no 'narow'. Did you mean 'narrow'?",
    ),
    "a partition that is none": (
        f"{TUNE}space: {{width: [3]}}\npartition: Stripe(warmup=3)\n",
        "study.yaml:4:12: partition: there is no 'Stripe', neither in etude.partitions nor in script.py. Did you mean "
        "'Stripes'?",
    ),
    "a component that is none": (
        "experiment: script.py:experiment\nverb: ablate\ncomponents:\n  - bias\n  - 'layers:'\n",
        "study.yaml:5:5: 'layers:' is no component: it lacks a name.",
    ),
    "resources that are none": (
        f"{TUNE}space: {{width: [3]}}\nresources: {{cpu: 2}}\n",
        "study.yaml:4:12: resources: 'cpu=2' asks for 'cpu', which is not known. Did you mean 'cpus'?",
    ),
    "workers that are none": (
        f"{TUNE}space: {{width: [3]}}\nworkers: [1, 2, 3]\n",
        "study.yaml:4:10: workers is a list, and has to be a whole number, or a list of the least and the "
        "most: [2, 8].",
    ),
    "machines that are tuned by no options": (
        f"{TUNE}space: {{width: [3]}}\nsystem: fast\n",
        "study.yaml:4:9: system is the text 'fast', and has to be true, or options of etude.System: system: "
        "{objective: energy}.",
    ),
    "an option of machines that is none": (
        f"{TUNE}space: {{width: [3]}}\nsystem:\n  objektive: time\n",
        "study.yaml:5:3: 'objektive' is no key here. Did you mean 'objective'? There are: knobs, objective, ",
    ),
    "a knob that is none": (
        f"{TUNE}space: {{width: [3]}}\nsystem: {{objective: time, knobs: [thread]}}\n",
        "study.yaml:4:34: There is no knob 'thread'.",
    ),
    "an objective that is none": (
        f"{TUNE}space: {{width: [3]}}\nsystem:\n  probes: 3\n  objective: speed\n",
        "study.yaml:6:14: objective='speed' ",
    ),
    "machines that are to be tuned and not": (
        f"{TUNE}space: {{width: [3]}}\nsystem: {{knobs: [threads], setting: {{threads: 1}}}}\n",
        "study.yaml:4:9: System(knobs=, setting=) asks for two things: to tune, and not to. Pass one of them.",
    ),
    "a study that is none": (
        "experiment: script.py:experiment\nverb: fit\nat: {study: nothing}\n",
        "study.yaml:3:5: There is no study nothing.",
    ),
    "weights that are not there": (
        "experiment: script.py:experiment\nverb: fit\nweights: nothing.safetensors\n",
        "study.yaml:3:10: weights: there is no file nothing.safetensors.",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_refused_with_its_place(files: Files, kind: str) -> None:
    text, why = BROKEN[kind]
    told = files.refused(text)
    assert told.startswith(why), told
    line = int(why.split(":")[1])
    shown = [*text.replace("\t", " ").splitlines(), ""][line - 1]
    assert any(got.startswith(f"  {line} | ") and got[6:].strip() in shown for got in told.splitlines())


def test_all_that_is_wrong_is_told_at_once_in_its_order(files: Files) -> None:
    told = files.refused("experiment: script.py\nverb: tuen\nseed: no\ntrails: 3\n")
    places = [line.partition(": ")[0] for line in told.splitlines() if line.startswith("study.yaml")]
    assert places == ["study.yaml:2:7", "study.yaml:3:7", "study.yaml:4:1"]


def test_the_line_is_shown_with_a_mark_below(files: Files) -> None:
    told = files.refused(f"{HEAD}trails: 3\n")
    assert told.splitlines()[1:] == ["  3 | trails: 3", "    | ^^^^^^"]
    long = files.refused(f"{HEAD}parameters: {{folder: {'x' * 300}, widht: 3}}\n").splitlines()
    assert len(long[1]) < 130
    assert long[1][long[2].index("^") :].startswith("widht")


def test_an_alias_bomb_is_refused(files: Files) -> None:
    lines = ["x-0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    told = files.refused("\n".join(lines) + f"\n{HEAD}")
    assert told.startswith("study.yaml:5:")
    assert "With each alias written out, this has more than 50,000 values, which no study has." in told


def test_a_file_that_is_not_there_or_no_text(files: Files, tmp_path: Path) -> None:
    files.write(HEAD)
    with pytest.raises(FileError, match=r"^The file studdy.yaml is not there. Did you mean 'study.yaml'\?$"):
        read_document("studdy.yaml")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(FileError, match=r"^The file folder.yaml is a folder\."):
        read_document("folder.yaml")
    (tmp_path / "study.yaml").write_bytes(b"verb: r\xffn\n")
    with pytest.raises(FileError, match=r"^study.yaml:1:8: study.yaml is no UTF-8 here. Save it with that encoding."):
        read_document("study.yaml")
    (tmp_path / "study.yaml").write_bytes(b"#" * 1_000_001)
    with pytest.raises(FileError, match=r"^The file study.yaml has 1,000,001 bytes, and 1,000,000 are the most"):
        read_document("study.yaml")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["trials"], "argument 1, column 1: 'trials' gives nothing a value. Write NAME=VALUE, as in lr=0.1, "),
        (["verb=run", "space.width=[8, 16"], "argument 2, column 19: A list in [...] is not closed, or lacks a comma."),
        (["seed=1", "seed=2"], "argument 2, column 1: seed is given a second time. Leave one."),
        (["trails=3"], "argument 1, column 1: No function takes 'trails'. They take: "),
        (["width=wide"], "argument 1, column 7: width='wide' does not fit train(), which asks for width: int"),
        (["space.width=[8, wide]"], "argument 1, column 13: width='wide' does not fit train()"),
        (["seed=no"], "argument 1, column 6: no is false in YAML 1.1 and a text in YAML 1.2."),
        (["seed=${SEEDS}"], "argument 1, column 6: The environment variable SEEDS is not set."),
        (
            ["seed.lr=3"],
            "argument 1, column 1: seed.lr leads into what is no mapping in study.yaml:3:7. Give all of it.",
        ),
    ],
)
def test_what_the_command_line_says_is_as_strict(files: Files, given: list[str], why: str) -> None:
    told = files.refused(f"{HEAD}seed: 3\n", *given)
    assert told.startswith(why), told
    number = int(why.split(",", maxsplit=1)[0].split()[1])
    assert told.splitlines()[1] == f"   | {given[number - 1]}"


def test_a_key_of_the_command_line_that_is_nearly_one(files: Files) -> None:
    assert "Or did you mean the key 'trials'?" in files.refused(HEAD, "trails=3")


def test_what_a_verb_refuses_has_the_place_of_what_it_is_about(files: Files) -> None:
    from etude.files import scripts

    asked = files.ask(f"{TUNE}space:\n  width: [3, 4]\ntrials: 0\n")
    experiment, _ = scripts.load("script.py:experiment")
    with pytest.raises(FileError) as refused:
        asked.call(experiment)
    told = str(refused.value)
    assert told.startswith("study.yaml:5:1: trials: 0 cannot be: nothing would be run. Pass trials: 1 or more.")
    asked = files.ask(f"{TUNE}space:\n  width: [3, 4]\ntrials: 3\nsampler: grid\nbudget: [1, 9]\n")
    with pytest.raises(FileError, match=r"^study.yaml:7:1: budget"):
        asked.call(experiment)
    asked = files.ask(f"{TUNE}space:\n  width: [3, 4]\nfidelity: depht\nbudget: [1, 9]\nstopper: asha\n")
    with pytest.raises(FileError, match=r"^study.yaml:5:11: No function takes 'depht'"):
        asked.call(experiment)
    asked = files.ask(f"{TUNE}space:\n  width: [3, 4]\nstart:\n  - {{width: 5}}\ntrials: 2\n")
    with pytest.raises(FileError, match=r"^study.yaml:5:1: start has"):
        asked.call(experiment)
    asked = files.ask(f"{TUNE}space: {{width: [3]}}\nsystem:\n  knobs: [gpu_power_limit]\n")
    with pytest.raises(FileError, match=r"^study.yaml:5:3: knobs=\['gpu_power_limit'\]: 'gpu_power_limit' cannot be"):
        asked.call(experiment)
