"""``etude machines``, and machines that are tuned from the command line, by files, and when a study goes on."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import etude as library
from etude.core.system import Joules, Order, Phase, Setting, Taken
from etude.testing.written import Tuning, Written, write_study

if TYPE_CHECKING:
    from .conftest import Etude

MODELLED = Joules("modelled", "CPU seconds x 15 W", 10.0, 6.0, 14.0)
UNAVAILABLE = Joules("unavailable", "no meter")
TWO: Setting = {"threads": 2}


def epochs(joules: Joules) -> list[Tuning]:
    probe = Order(TWO, Phase.PROBE, "probe 1 of 5 at most", {"best so far": 1.0})
    keep = Order(TWO, Phase.KEEP, "the best of what was tried", {"of the default": 0.5})
    return [
        Tuning(Taken(0, 3, 9.0, 10, joules), Order({}, Phase.BASELINE, "a second one")),
        Tuning(Taken(1, 3, 2.0, 10, joules, phase=Phase.BASELINE), probe),
        Tuning(
            Taken(2, 3, 1.0, 10, joules, setting=TWO, phase=Phase.PROBE, why=probe.why, evidence=probe.evidence), keep
        ),
        Tuning(Taken(3, 3, 1.0, 10, joules, setting=TWO, phase=Phase.KEEP, why=keep.why, evidence=keep.evidence), keep),
    ]


@pytest.fixture
def written(etude: Etude) -> Etude:
    """Give the command line, with a study whose machines were tuned, and one whose were not."""
    Path("studies").mkdir()
    first = Written({"lr": 0.1}, 0.9, tuned=epochs(MODELLED))
    second = replace(first, value=0.8, tuned=epochs(UNAVAILABLE))
    write_study("studies/tuned", [first, second, Written({"lr": 0.3}, 0.1)])
    write_study("studies/plain", [Written({"lr": 0.1}, 0.9)])
    return etude


def test_machines_are_printed_with_what_was_saved(written: Etude) -> None:
    done = written("machines", "tuned")
    assert done.code == 0
    assert "8 epochs of 2 trials took 26 s and energy unavailable: no meter." in done.out
    assert "What was found saved 2 s; trying it saved another 2 s in 2 epochs." in done.out
    assert "40 J modelled" in done.out
    rows = json.loads(written("machines", "tuned", "--json").out)
    assert [(row["trial"], row["joules"], row["energy"]) for row in rows] == [
        (0, 40.0, "modelled"),
        (1, None, "unavailable"),
    ]


def test_every_decision_is_printed_with_its_evidence(written: Etude) -> None:
    done = written("machines", "tuned", "--decisions")
    assert "probe 1 of 5 at most" in done.out
    assert "of the default 0.5" in done.out
    rows = json.loads(written("machines", "tuned", "--decisions", "--json").out)
    assert len(rows) == 8
    assert rows[2]["setting"] == {"threads": 2}
    assert rows[2]["evidence"] == {"best so far": 1.0}
    assert (rows[2]["joules"], rows[2]["energy"]) == (10.0, "modelled")
    assert {row["trial"] for row in json.loads(written("machines", "tuned", "1", "--json").out)} == {1}


def test_where_no_machine_was_tuned_that_is_said(written: Etude) -> None:
    assert "No machine was tuned in this study: pass system=True." in written("machines", "plain").out
    assert json.loads(written("machines", "plain", "--json").out) == []
    assert (
        "Study plain has no decisions on the machine of any trial." in written("machines", "plain", "--decisions").out
    )
    assert "no decisions on the machine of trial 2." in written("machines", "tuned", "2").out
    done = written("machines", "tuned", "7")
    assert (done.code, "Study tuned has no trial 7" in done.err) == (2, True)


def test_trials_are_listed_with_energy_and_setting_where_machines_were_tuned(written: Etude) -> None:
    done = written("trials", "tuned")
    head = next(line for line in done.out.splitlines() if line.split()[:1] == ["trial"])
    assert head.split()[-3:] == ["energy", "setting", "reason"]
    assert "40 J modelled" in done.out
    assert "threads=2" in done.out
    first, _, third = json.loads(written("trials", "tuned", "--json").out)
    assert (first["train_s"], first["joules"], first["energy"]) == (13.0, 40.0, "modelled")
    assert first["setting"] == {"threads": 2}
    assert "energy" not in third
    assert "energy" not in written("trials", "plain").out
    assert "energy" not in json.loads(written("trials", "plain", "--json").out)[0]


def test_a_table_with_times_has_them_and_one_without_is_as_it_was(written: Etude) -> None:
    rows = list(csv.DictReader(io.StringIO(written("export", "tuned", "--times").out)))
    assert [(row["train_s"], row["joules"], row["energy"]) for row in rows] == [
        ("13.0", "40.0", "modelled"),
        ("13.0", "", "unavailable"),
        ("", "", ""),
    ]
    assert rows[0]["setting"] == '{"threads": 2}'
    assert "joules" not in written("export", "tuned").out
    assert "joules" not in written("export", "plain", "--times").out


def test_a_summary_says_what_was_saved(written: Etude) -> None:
    told = written("show", "tuned").out
    assert (
        "Machines: what was found saved 2 s; trying it saved another 2 s in 2 epochs; trial 0 ended with threads=2."
        in told
    )
    assert "Machines:" not in written("show", "plain").out


# --- studies that really run ----------------------------------------------------------------------


def test_a_search_is_tuned_from_the_command_line_and_resume_tunes_it_as_before(etude: Etude) -> None:
    call = ["tune", "script.py:experiment", "lr=[0.1, 0.2, 0.4]", "--sampler", "grid", "--workers", "1"]
    options = "best='score, then time' history=False knobs=['checkpoint_every']"
    done = etude(*call, "--name", "one", "--trials", "2", "--system-options", options, "-q")
    assert done.code == 0, done.err
    one = library.open("one")
    assert one.meta["call"]["system"] == {"best": "score, then time", "history": False, "knobs": ["checkpoint_every"]}
    assert [use.epochs for use in one.machines.uses] == [3, 3]
    assert etude("resume", "one", "--trials", "3", "-q").code == 0
    again = library.open("one")
    assert [use.epochs for use in again.machines.uses] == [3, 3, 3]
    assert again.meta["run 2"]["call"]["system"] == one.meta["call"]["system"]
    assert etude("machines", "one").code == 0


def test_the_one_word_is_enough(etude: Etude) -> None:
    done = etude("tune", "script.py:experiment", "lr=[0.1]", "--sampler", "grid", "--name", "one", "--system", "-q")
    assert done.code == 0, done.err
    assert library.open("one").meta["call"]["system"] == {}
    done = etude("tune", "script.py:experiment", "lr=[0.1]", "--system-options", "objective=speed")
    assert (done.code, "objective='speed'" in done.err) == (2, True)


FILE = """\
experiment: script.py:experiment
verb: tune
parameters: {epochs: 4}
space: {lr: [0.1, 0.2]}
sampler: grid
workers: 1
name: filed
system: {history: false, knobs: [checkpoint_every]}
"""


def test_a_file_tunes_machines_in_every_verb_and_is_written_again(etude: Etude) -> None:
    Path("study.yaml").write_text(FILE)
    assert etude("run", "study.yaml", "-q").code == 0
    assert [use.epochs for use in library.open("filed").machines.uses] == [4, 4]
    done = etude("run", "study.yaml", "verb=fit", "parameters.lr=0.1", "name=final", "-q")
    assert done.code == 0, done.err
    assert [use.epochs for use in library.open("final").machines.uses] == [4]
    assert etude("resume", "final", "-q").code == 0
    done = etude("run", "study.yaml", "verb=run", "parameters.lr=0.1", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["verb"] == "run"
    assert etude("export", "filed", "-o", "again.yaml").code == 0
    assert "system:\n  knobs: [checkpoint_every]\n  history: false\n" in Path("again.yaml").read_text()
    before = library.open("filed").rows()
    shutil.rmtree("studies")
    assert etude("run", "again.yaml", "-q").code == 0
    assert library.open("filed").rows() == before


def test_an_ablation_goes_on_with_machines_that_are_tuned(etude: Etude) -> None:
    file = """
experiment: script.py:experiment
verb: ablate
parameters: {lr: 0.1}
components: [epochs=2]
seeds: 2
force: true
name: arms
system: {history: false, knobs: [checkpoint_every]}
"""
    Path("study.yaml").write_text(file)
    done = etude("run", "study.yaml", "-q")
    assert done.code in (0, 3), done.err + done.out
    arms = library.open("arms")
    assert arms.machines.uses
    assert etude("resume", "arms", "-q").code == done.code
    assert library.open("arms").meta["call"]["system"] == {"knobs": ["checkpoint_every"], "history": False}


def test_a_similarity_of_ones_own_is_in_no_journal(etude: Etude) -> None:
    text = Path("script.py").read_text().replace("middle = Middle()", "middle = Middle()\n\n\n" + ALIKE)
    Path("script.py").write_text(text)
    Path("study.yaml").write_text(FILE.replace("knobs: [checkpoint_every]", "similarity: alike"))
    done = etude("run", "study.yaml", "-q")
    assert done.code == 0, done.err
    done = etude("resume", "filed", "-q")
    assert done.code == 2
    assert "a similarity of its own (Alike)" in done.err
    assert "a similarity of its own (Alike)" in etude("export", "filed", "-o", "again.yaml").err


ALIKE = """\
class Alike:
    def fit(self, past, groups):
        return self


alike = Alike()
"""
