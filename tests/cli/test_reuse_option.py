"""``tune --reuse``: trials of other studies are taken, shown as such, and stay when those are gone."""

from __future__ import annotations

import csv
import json
import shutil
from typing import TYPE_CHECKING

import etude as library

if TYPE_CHECKING:
    from .conftest import Etude

COMMON = ("--stopper", "none", "--workers", "1", "-q")


def test_a_study_that_is_handed_over_is_taken_from_and_needed_no_more(etude: Etude) -> None:
    done = etude("tune", "script.py:experiment", "lr=[0.1,0.2]", "--name", "first", "--sampler", "grid", *COMMON)
    assert done.code == 0, done.err
    first = {trial.params["lr"]: trial.number for trial in library.open("first").trials}
    taken = [first[0.1], first[0.2]]

    started = ("--start", "lr=0.1", "--start", "lr=0.2", "--sampler", "random", "--trials", "3")
    space = "lr=[0.1,0.2,0.3,0.4]"
    done = etude("tune", "script.py:experiment", space, "--name", "second", "--reuse", "first", *started, *COMMON)
    assert done.code == 0, done.err
    assert "Taken from other studies: 2 trials." in done.out

    shown = json.loads(etude("debug", "second", "0", "--json").out)
    assert shown["agree"] is True  # what was taken is what comes of it here

    shutil.rmtree(etude.folder / "studies" / "first")
    done = etude("resume", "second", "--trials", "4", "-q")
    assert done.code == 0, done.err
    assert "Taken from other studies: 2 trials." in done.out

    assert etude("export", "second", "--output", "table.csv").code == 0
    with (etude.folder / "table.csv").open() as rows:
        marks = [row["reused_from"] for row in csv.DictReader(rows)]
    assert marks == [*(f"first:{number}" for number in taken), "", ""]
    told = json.loads(etude("trials", "second", "--json").out)
    found = told["trials"] if isinstance(told, dict) else told
    assert [trial["reused_from"] for trial in found] == [*(["first", number] for number in taken), None, None]


def test_a_study_that_is_not_there_is_refused(etude: Etude) -> None:
    done = etude("tune", "script.py:experiment", "lr=[0.1]", "--reuse", "nowhere", "--sampler", "grid", *COMMON)
    assert done.code != 0
    assert "nowhere" in done.err
    assert not (etude.folder / "studies").exists()
