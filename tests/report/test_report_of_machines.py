"""What a report says of machines that were tuned: time and energy, never without its label, and why what was set."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import etude
from etude.analyse.report.facts import Facts, Ran
from etude.analyse.report.machines import machine_figures
from etude.analyse.report.used import Decision, Machines, Used
from etude.analyse.report.writer import write
from etude.core.system import Joules, Order, Phase, Setting, Taken
from etude.testing.written import Tuning, Written, write_study

FIRST = "the first epoch shows what kind of work it is"
MODELLED = Joules("modelled", "CPU seconds x 15 W", 10.0, 6.0, 14.0)
MEASURED = Joules("measured", "RAPL", 10.0, 10.0, 10.0)
UNAVAILABLE = Joules("unavailable", "the power meter does not answer")


def epochs(*told: tuple[Phase, Setting, float], joules: Joules = MODELLED) -> list[Tuning]:
    """Return epochs of ten steps each: what each was for, its setting, how many seconds it took."""
    found = []
    for nth, (phase, setting, seconds) in enumerate(told):
        after, then, _ = told[min(nth + 1, len(told) - 1)]
        order = Order(then, after, f"reason {nth + 1}", {"best so far": 0.5}, work="work 1", best={"threads": 2})
        reason = {"why": f"reason {nth}", "evidence": {"best so far": 0.5}} if nth else {"why": FIRST}
        taken = Taken(nth, len(told), seconds, 10, joules, setting=setting, phase=phase, **reason)
        found.append(Tuning(taken, order))
    return found


def tuned(value: float, took: float = 1.0, joules: Joules = MODELLED) -> Written:
    """A trial whose default takes 2 s an epoch, and whose best setting half of that."""
    two: Setting = {"threads": 2}
    told: list[tuple[Phase, Setting, float]] = [
        (Phase.PROFILE, {}, 9.0 * took),
        (Phase.BASELINE, {}, 2.0 * took),
        (Phase.PROBE, two, 1.0 * took),
        (Phase.PROBE, {"threads": 1}, 5.0 * took),
        (Phase.KEEP, two, 1.0 * took),
    ]
    return Written({"lr": value}, value, tuned=epochs(*told, joules=joules))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    trials = [tuned(0.9), tuned(0.8, 0.5), tuned(0.7, 2.0)]
    return etude.open(write_study(tmp_path / "tuned", trials)).report(tmp_path / "out")


def section(page: Path) -> str:
    found = re.search(r'<section id="machines">.*?</section>', page.read_text(), re.DOTALL)
    assert found is not None
    return found[0]


def table(page: Path, name: str) -> list[dict[str, str]]:
    with (page.parent / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_part_on_machines_says_what_was_saved_and_what_probing_cost(page: Path) -> None:
    told = section(page)
    assert "15 epochs of 3 trials took 63 s and about 150 J modelled (90 to 210), CPU seconds x 15 W." in told
    assert "What was found saved 3.5 s; trying it cost 7 s in 6 epochs." in told
    assert 'href="#machines"' in page.read_text()


def test_each_trial_has_a_row_and_the_front_is_marked(page: Path) -> None:
    rows = table(page, "machines")
    assert [row["front"] for row in rows] == ["yes", "yes", ""]
    assert [float(row["seconds"]) for row in rows] == [18.0, 9.0, 36.0]
    assert [float(row["saved s"]) for row in rows] == [1.0, 0.5, 2.0]
    assert [float(row["probing s"]) for row in rows] == [2.0, 1.0, 4.0]
    assert {row["setting"] for row in rows} == {"threads=2"}
    assert (page.parent / "tables" / "machines.tex").exists()


def test_decisions_are_in_a_file_with_their_evidence_and_those_of_the_best_trial_on_the_page(page: Path) -> None:
    rows = table(page, "decisions")
    assert len(rows) == 15
    assert [row["why"] for row in rows[:3]] == ["the first epoch shows what kind of work it is", "reason 1", "reason 2"]
    assert rows[2]["phase"] == "probe"
    assert rows[2]["setting"] == "threads=2"
    assert float(rows[2]["s a step"]) == 0.1
    assert rows[2]["evidence"] == "best so far 0.5"
    told = section(page)
    assert "Decisions on trial 0" in told
    assert told.count("<td>probe</td>") == 2


def test_the_facts_have_the_same(page: Path) -> None:
    facts = msgspec.convert(json.loads((page.parent / "report.json").read_bytes()), Facts)
    assert facts.machines is not None
    assert facts.machines.used[0].energy == Joules("modelled", "CPU seconds x 15 W", 50.0, 30.0, 70.0)
    assert facts.machines.decisions[2].evidence == {"best so far": 0.5}
    assert facts.machines.front_of == ["accuracy", "time", "energy"]


@pytest.mark.parametrize("joules", [MODELLED, MEASURED], ids=lambda one: str(one.label))
def test_no_figure_of_energy_stands_without_its_label(joules: Joules, tmp_path: Path) -> None:
    trials = [tuned(0.9, joules=joules), tuned(0.8, 0.5, joules)]
    out = etude.open(write_study(tmp_path / "tuned", trials)).report(tmp_path / "out")
    told = re.sub(r"<svg.*?</svg>", "", section(out), flags=re.DOTALL)
    figures = re.findall(r"\d J\b[^<]*", told)
    assert len(figures) == 1 + 2 + 5  # the sentence, each trial, each epoch of one
    assert all(said[3:].strip().startswith(joules.label) for said in figures)
    assert f"{joules.label} energy in J" in (out.parent / "figures" / "machine-energy.svg").read_text()
    for name in ("machines", "decisions"):
        assert all(row["energy"] == joules.label for row in table(out, name))


def test_where_energy_is_unavailable_there_is_no_figure_of_it_and_no_joule(tmp_path: Path) -> None:
    trials = [tuned(0.9), tuned(0.8, joules=UNAVAILABLE)]
    out = etude.open(write_study(tmp_path / "tuned", trials)).report(tmp_path / "out")
    assert not (out.parent / "figures" / "machine-energy.svg").exists()
    assert (out.parent / "figures" / "machine-time.svg").exists()
    assert "energy unavailable: the power meter does not answer" in section(out)
    rows = table(out, "machines")
    assert [(row["joules"], row["energy"]) for row in rows] == [("50.0", "modelled"), ("", "unavailable")]


def test_a_study_whose_machines_were_left_alone_has_no_part_on_them(tmp_path: Path) -> None:
    out = etude.open(write_study(tmp_path / "plain", [Written({"lr": 0.1}, 0.5)])).report(tmp_path / "out")
    assert 'id="machines"' not in out.read_text()
    assert not (out.parent / "tables" / "machines.csv").exists()
    assert json.loads((out.parent / "report.json").read_bytes())["machines"] is None


def test_a_study_none_of_whose_trials_finished_still_says_what_they_took(tmp_path: Path) -> None:
    trials = [replace(tuned(0.9), state="failed"), replace(tuned(0.8), state="running")]
    out = etude.open(write_study(tmp_path / "tuned", trials, complete=False)).report(tmp_path / "out")
    assert "10 epochs of 2 trials took" in section(out)
    assert "Decisions on trial 0" in section(out)
    assert not (out.parent / "figures" / "machine-time.svg").exists()


def test_where_the_best_goes_by_time_as_well_that_is_said(tmp_path: Path) -> None:
    trials = [tuned(0.9), tuned(0.899, 0.5)]
    meta = {"call": {"system": {"best": "accuracy, then time"}}}
    search = etude.open(write_study(tmp_path / "tuned", trials, meta=meta))
    assert search.best.number == 1
    told = section(search.report(tmp_path / "out"))
    assert "By &#x27;accuracy, then time&#x27; trial 1 is the best." in told
    assert "Decisions on trial 1" in told
    assert "Best by 'accuracy, then time': trial 1 with lr=0.899." in search.summary()


def facts(values: Sequence[float], mode: str | None = "max", used: Any = None) -> Facts:
    all_used = used or [
        Used(
            trial=nth,
            value=value,
            seconds=float(nth + 1),
            energy=MEASURED,
            epochs=1,
            probes=0,
            saved_s=None,
            probing_s=None,
            setting={},
            on_front=False,
        )
        for nth, value in enumerate(values)
    ]
    decision = Decision(
        trial=0, attempt=1, epoch=0, phase="keep", setting={}, step_s=1.0, energy=MEASURED, why="", evidence={}
    )
    machines = Machines(says=["It <b>took</b> long."], used=all_used, front_of=["x"], decisions=[decision], shown=0)
    trials = [Ran(trial=nth, state="finished", values={"m": value}) for nth, value in enumerate(values)]
    return Facts(name="s", modes={"m": mode}, trials=trials, machines=machines)


@pytest.mark.parametrize(
    ("values", "mode", "diamonds"),
    [
        ([0.5, 0.6, 0.4, 0.7], "max", [0, 1, 3]),
        ([0.5, 0.6, 0.4, 0.7], "min", [0, 2]),
        ([0.5, 0.5], "max", [0]),
        ([0.5, math.nan, math.inf], "max", [0]),
        ([0.5, 0.6], None, []),
    ],
)
def test_the_front_of_metric_and_time_is_drawn(values: list[float], mode: str | None, diamonds: list[int]) -> None:
    time = machine_figures(facts(values, mode))[0]
    marks = [part for part in time.drawing.parts if part.startswith('<path class="f-best"')]
    assert [int(re.findall(r'data-t="(\d+)"', one)[0]) for one in marks] == diamonds


def test_what_is_said_is_escaped_and_long_tables_are_cut_on_the_page_alone(tmp_path: Path) -> None:
    out = write(tmp_path / "out", facts([nth / 1000 for nth in range(300)]))
    told = section(out)
    assert "It &lt;b&gt;took&lt;/b&gt; long." in told
    assert "The first 200 of 300 trials." in told
    assert len(table(out, "machines")) == 300
