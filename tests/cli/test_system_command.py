"""``etude system``: what can be tuned here, and what is remembered of it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from etude.cli import app
from etude.core.clock import VirtualClock
from etude.system.applied.host import Places
from etude.system.applied.restoring import restore
from etude.system.budget import Amount, Want
from etude.system.entries import Entry, Hardware, Probed
from etude.system.history import History
from etude.system.history_file import default_path
from etude.system.knobs import NAMES
from etude.system.ledger import Ledger
from etude.system.sources.source import Rung

if TYPE_CHECKING:
    from .conftest import Etude

HERE = Hardware("the processor of this test", 8)
OTHER = Hardware("another processor", 4)


@pytest.fixture
def remembered(etude: Etude, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the user's history, with three entries: two of this machine, of different days."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(Hardware, "here", lambda gpus=(): HERE)
    with History.open() as history:
        for machine, objective, day in ((HERE, "time", 1), (HERE, "energy", 9), (OTHER, "time", 1)):
            at_s = datetime(2026, 3, day).timestamp()
            seen = {"rates": {"user s": 1.0}, "rung": "/proc", "seconds": 3.0, "best": {}, "costs": (Probed({}, 2.0),)}
            history.add(Entry(machine, history.digest("work"), objective, at_s=at_s, **seen))  # type: ignore[arg-type]
    return default_path()


@pytest.fixture(autouse=True)
def _a_home_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_every_knob_is_shown_with_its_values_or_what_it_lacks(etude: Etude) -> None:
    told = etude("system", "show").out
    lines = told.splitlines()
    knobs = json.loads(etude("system", "show", "--json").out)["knobs"]
    assert [knob["name"] for knob in knobs] == list(NAMES)
    for knob in knobs:
        if knob["needs"]:
            assert f"no {knob['name']}: {knob['needs']}" in lines
        else:
            (row,) = [line for line in lines if line.strip().startswith(f"{knob['name']} ")]
            assert knob["effect"] in row
            assert ("off unless named" in row) == knob["if_named"]
    document = json.loads(etude("system", "show", "--json").out)
    rungs = document["profiles"]["rung"], document["profiles"]["missing"]
    assert f"profiles from {rungs[0]}" in lines
    assert all(f"no {name}: {why}" in lines for name, why in rungs[1].items())
    assert rungs[0] in {rung.value for rung in Rung} - {Rung.NONE}  # /proc at the least, on Linux
    assert document["machine"]["cores"] <= document["hardware"]["cores"]
    assert any(line.startswith("energy is ") for line in lines)
    assert lines[-1] == f"history: none yet; it would be {default_path()}"
    assert not default_path().exists()  # looking makes nothing


def test_knobs_are_those_of_the_framework(etude: Etude) -> None:
    told = etude("system", "show", "--framework", "none").out
    assert "no compile: the training function uses a loop of its own" in told
    done = etude("system", "show", "--framework", "tensorflow")
    assert (done.code, done.err) == (2, "--framework tensorflow is not known. Pass torch, keras or none.\n")


def test_what_is_remembered_is_counted_for_this_machine_and_others(etude: Etude, remembered: Path) -> None:
    told = etude("system", "show").out.splitlines()[-1]
    assert told == f"history: {remembered}: 1 for energy, 1 for time of this machine, 1 of others"
    history = json.loads(etude("system", "show", "--json").out)["history"]
    assert (history["here"], history["elsewhere"], history["trouble"]) == ({"time": 1, "energy": 1}, 1, "")


def test_a_history_goes_to_another_machine_and_is_not_added_twice(etude: Etude, remembered: Path) -> None:
    assert etude("system", "export", "all.jsonl").out == "3 entries were written to all.jsonl.\n"
    done = etude("system", "export", "all.jsonl")
    assert (done.code, done.err) == (2, "all.jsonl exists, and is not overwritten. Name a new file.\n")
    into = ("import", "all.jsonl", "--history", "other.sqlite")
    assert etude("system", *into).out == "3 new entries were added to other.sqlite.\n"
    assert json.loads(etude("system", *into, "--json").out) == {"entries": 0}
    Path("none.jsonl").write_text("something else\n")
    done = etude("system", "import", "none.jsonl", "--json")
    assert done.code == 2
    assert "is no export of a system history" in json.loads(done.out)["error"]


def answered(answer: str, *args: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["system", *args], input=answer)
    return done.exit_code, done.output


def left(path: Path) -> dict[tuple[str, str], int]:
    with History.open(path) as history:
        return history.counts()


def test_forgetting_asks_first_and_forgets_no_more_than_was_said(etude: Etude, remembered: Path) -> None:
    options = ("forget", "--machine", "--before", "2026-03-05")
    code, said = answered("n\n", *options)
    assert code == 1
    assert f"Forget what was learned on this machine before 2026-03-05 in {remembered}?" in said
    assert sum(left(remembered).values()) == 3
    assert answered("y\n", *options)[1].endswith("1 entry was forgotten.\n")
    assert left(remembered) == {(HERE.digest, "energy"): 1, (OTHER.digest, "time"): 1}
    assert json.loads(etude("system", "forget", "--machine", "--yes", "--json").out) == {"entries": 1}
    assert etude("system", "forget", "--yes").out == "1 entry was forgotten.\n"
    assert left(remembered) == {}


def test_a_program_that_forgets_says_so(etude: Etude, remembered: Path) -> None:
    done = etude("system", "forget", "--json")
    assert done.code == 2
    assert json.loads(done.out)["error"] == "--json asks nothing, and forgetting cannot be undone. Add --yes."
    assert sum(left(remembered).values()) == 3


@pytest.mark.parametrize("command", [("export", "all.jsonl"), ("forget", "--yes")])
def test_a_history_that_is_not_there_is_not_made(etude: Etude, command: tuple[str, ...]) -> None:
    done = etude("system", *command)
    assert (done.code, done.err) == (
        2,
        f"There is no system history yet: {default_path()} is not there. Tune the machine, or import one.\n",
    )
    assert not default_path().exists()


@pytest.mark.parametrize("command", [("export", "all.jsonl"), ("forget", "--yes"), ("import", "some.jsonl")])
def test_a_foreign_history_is_told_of_and_left_alone(etude: Etude, command: tuple[str, ...]) -> None:
    with History.open(Path("own.sqlite")) as own:
        own.export_to(Path("some.jsonl"))
    foreign = Path("foreign.sqlite")
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE theirs (n)")
    connection.close()
    before = foreign.read_bytes()
    done = etude("system", *command, "--history", str(foreign))
    assert done.code == 2
    assert "is an SQLite file of another program. It was not touched" in done.err
    assert not Path("all.jsonl").exists()
    assert foreign.read_bytes() == before
    assert "is an SQLite file of another program" in etude("system", "show", "--history", str(foreign)).out


SETS_AND_DIES = """
import os, signal, sys
from pathlib import Path
from etude.system.applied.clock import Clock

Clock(Path(sys.argv[1]), Path(sys.argv[2])).put("cpu_frequency", 1000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def a_clock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Places]:
    """Return the file of a clock that was made up, and where `etude system restore` looks for it."""
    file = folder / "cpu" / "cpu0" / "cpufreq" / "scaling_max_freq"
    file.parent.mkdir(parents=True)
    file.write_text("3600000")
    places = Places(cpus=folder / "cpu", locks=folder / "locks")
    monkeypatch.setattr("etude.system.applied.restoring.restore", lambda: restore(places))
    return file, places


def test_a_clock_that_a_killed_study_left_low_is_put_back(
    etude: Etude, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, places = a_clock(tmp_path, monkeypatch)
    nothing = "No study has changed the clock or a power limit since this machine was started.\n"
    assert etude("system", "restore").out == nothing
    subprocess.run([sys.executable, "-c", SETS_AND_DIES, str(places.cpus), str(places.locks)], check=False)
    assert file.read_text() == "1000000"
    done = etude("system", "restore")
    assert (done.code, done.out.startswith("clock of the cores: What process ")) == (0, True)
    assert file.read_text() == "3600000"
    assert json.loads(etude("system", "restore", "--json").out) == {
        "found": [{"what": "clock of the cores", "told": "it is as it was found.", "failed": False}]
    }


def test_a_clock_that_cannot_be_put_back_is_an_error(
    etude: Etude, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, places = a_clock(tmp_path, monkeypatch)
    subprocess.run([sys.executable, "-c", SETS_AND_DIES, str(places.cpus), str(places.locks)], check=False)
    file.unlink()
    file.mkdir()  # nothing can be written into it
    done = etude("system", "restore")
    assert done.code == 1
    assert done.out.startswith("clock of the cores: it cannot be put back: [Errno 21] Is a directory")


SCRIPT = """
import torch

import etude


def train(run, epochs: int = 5):
    for _ in run.epochs(epochs):
        torch.ones(64, 64) @ torch.ones(64, 64)
    return 1.0


experiment = etude.Experiment(train, metric="score", mode="max")
"""


def test_a_campaign_fills_the_history_of_a_script(etude: Etude, tmp_path: Path) -> None:
    (tmp_path / "some_work.py").write_text(SCRIPT)
    told = etude("system", "campaign", str(tmp_path / "some_work.py"), "--knob", "threads", "--repeats", "1", "--json")
    said = json.loads(told.out)
    assert (told.code, said["settings"]) == (0, 2)
    with History.open() as history:
        entries = _all(history, tmp_path)
    assert len(entries) == said["trainings"] >= 1
    assert {json.dumps(dict(one.best)) for one in entries} == {json.dumps(said["best"])}
    assert all({"threads": 1} in [dict(one.setting) for one in entry.costs] for entry in entries)
    assert all(entry.rates for entry in entries)


def test_a_campaign_of_too_few_epochs_says_so(etude: Etude, tmp_path: Path) -> None:
    (tmp_path / "short_work.py").write_text(SCRIPT)
    told = etude("system", "campaign", str(tmp_path / "short_work.py"), "epochs=1")
    assert told.code == 2
    assert "it has fewer than two epochs. Pass more: epochs=20." in told.err


def test_of_a_campaign_that_ends_early_what_was_measured_is_remembered(etude: Etude, tmp_path: Path) -> None:
    fails = SCRIPT.replace("return 1.0", "runs.append(1)\n    if len(runs) == 3:\n        raise KeyboardInterrupt")
    script = tmp_path / "work_that_ends.py"
    script.write_text(f"runs = []\n{fails}")
    told = etude("system", "campaign", str(script), "--knob", "threads", "--repeats", "9")
    assert told.code == 130
    assert "The campaign ends early. What 12 of 19 epochs have shown is remembered; the best is " in told.err
    with History.open() as history:
        entries = _all(history, tmp_path)
    assert len(entries) == 3
    assert all({"threads": 1} in [dict(one.setting) for one in entry.costs] for entry in entries)


def test_a_campaign_with_nothing_to_try_says_what_is_lacking(etude: Etude, tmp_path: Path) -> None:
    (tmp_path / "loaderless_work.py").write_text(SCRIPT)
    told = etude("system", "campaign", str(tmp_path / "loaderless_work.py"), "--knob", "loader_workers")
    assert told.code == 2
    assert "have no other value to try" in told.err
    assert "No loader_workers: data() gave no DataLoader of torch." in told.err
    assert not default_path().exists()


def _all(history: History, folder: Path) -> list[Entry]:
    import msgspec

    history.export_to(folder / "all.jsonl")
    return [msgspec.json.decode(line, type=Entry) for line in (folder / "all.jsonl").read_text().splitlines()[1:]]


def test_who_shares_the_machine_is_shown_and_how_long_studies_took(etude: Etude, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    assert f"No study shares this machine now ({path})." in etude("system", "tenants", "--ledger", str(path)).out
    assert not path.exists()  # looking makes none
    machine, clock = Amount.of(cores=4), VirtualClock(1.8e9)
    with Ledger.open(machine, path, clock=clock) as gone:
        gone.join("digits", Want.of_trials(Amount(2), most=2))
        clock.advance(5.0)
        assert gone.hold(0, Amount(2))
        clock.advance(55.0)
    with Ledger.open(machine, path) as here:
        here.join("faces", Want.of_trials(Amount(1), most=3))
        assert here.hold(0, Amount(1))
        told = json.loads(etude("system", "tenants", "--ledger", str(path), "--json").out)
        said = etude("system", "tenants", "--ledger", str(path)).out
    (tenant,), (ended,) = told["tenants"], told["ended"]
    assert (tenant["study"], tenant["cores"], tenant["wants_cores"]) == ("faces", 1, 3)
    assert (ended["study"], ended["waited_s"], ended["response_s"], ended["died"]) == ("digits", 5.0, 60.0, False)
    assert "faces" in said
    assert (
        "One study has ended here: at the median they began 5 s after they came, and had ended after 1 min 0 s." in said
    )


def test_a_ledger_that_is_none_is_told_of_and_left_alone(etude: Etude, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("this is no ledger")
    done = etude("system", "tenants", "--ledger", str(path))
    assert (done.code, "notes.txt" in done.err) == (2, True)
    assert path.read_text() == "this is no ledger"
