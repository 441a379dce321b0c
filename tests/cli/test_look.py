"""``ls``, ``show``, ``trials`` and ``logs`` of studies that have ended; and what all commands have in common."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import etude as library
from etude import __version__

if TYPE_CHECKING:
    from .conftest import Etude


def test_without_a_command_there_is_help(etude: Etude) -> None:
    done = etude()
    assert done.code == 2
    for command in (
        *("ls", "show", "trials", "logs", "export", "debug", "du", "gc", "forecast"),
        *("tune", "resume", "stop", "demo", "doctor"),
    ):
        assert f"\n  {command} " in done.out + done.err


@pytest.mark.parametrize("group", [(), ("system",), ("mage",)])
def test_no_line_of_the_help_is_cut_off_on_eighty_columns(
    etude: Etude, monkeypatch: pytest.MonkeyPatch, group: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = etude(*group, "--help").out
    assert max(map(len, told.splitlines())) <= 80
    assert "..." not in told.replace("[ARGS]...", "")


def test_the_help_has_each_command_once_below_a_heading(etude: Etude) -> None:
    told = etude("--help").out
    headings = [line for line in told.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings[1:] == [
        "Run studies:",
        "Look at studies:",
        "Tell others:",
        "Before a study:",
        "Machines and disks:",
    ]
    listed = [line.split()[0] for line in told.partition("Run studies:")[2].splitlines() if line.startswith("  ")]
    assert len(listed) == len(set(listed)) == 24


@pytest.mark.parametrize(
    ("given", "mend"),
    [
        (
            ("ablate",),
            "Run it as etude run script.py:experiment verb=ablate 'components=[dropout]' seeds=7, or write "
            "experiment.ablate(['dropout'], seeds=7) in the script.",
        ),
        (
            ("fit", "script.py:experiment", "--ranks", "2"),
            "Run it as etude run script.py:experiment verb=fit 'at={study: NAME}', or write "
            "experiment.fit(at=search.best) in the script.",
        ),
        (
            ("check", "script.py:experiment", "lr=0.2", "--json"),
            "Run it as etude run script.py:experiment verb=check lr=0.2, or write experiment.check(lr=0.1) in the "
            "script.",
        ),
    ],
)
def test_a_verb_that_is_no_command_says_how_it_is_run(etude: Etude, given: tuple[str, ...], mend: str) -> None:
    done = etude(*given)
    told = f"There is no command `etude {given[0]}`. {mend}"
    assert (done.code, done.err) == (2, f"{told}\n")
    assert done.out == (f'{{\n  "error": "{told}"\n}}\n' if "--json" in given else "")


def test_what_a_verb_that_is_no_command_says_does_it(tuned: Etude) -> None:
    assert "returned" in tuned("run", "script.py:experiment", "verb=check", "lr=0.2").out
    assert tuned("run", "script.py:experiment", "verb=fit", "at={study: one}", "-q").code == 0
    done = tuned(
        "run", "script.py:experiment", "verb=ablate", "components=[epochs]", "seeds=7", "lr=0.1", "dry_run=true"
    )
    assert "base: nothing is taken away" in done.out, done.err


def test_the_version_is_told(etude: Etude) -> None:
    done = etude("--version")
    assert (done.code, done.out) == (0, f"etude {__version__}\n")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from etude.cli import app; from typer.testing import CliRunner;"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0;"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "optuna", "cloudpickle", "torch", "sklearn", "pandas", "sqlite3"} & set(done.stdout.split())


def test_studies_are_listed(tuned: Etude) -> None:
    done = tuned("ls")
    assert done.code == 0
    row = next(line for line in done.out.splitlines() if line.split()[:1] == ["one"])
    assert row.split()[1:3] == ["complete", "6"]
    assert row.split()[3:5] == ["score", "(max)"]
    listed = json.loads(tuned("ls", "studies", "--json").out)
    assert [(study["study"], study["standing"], study["trials"]) for study in listed] == [("one", "complete", 6)]
    assert json.loads(tuned("ls", "studies/one", "--json").out) == listed


def test_a_damaged_study_hides_no_other(tuned: Etude) -> None:
    broken = Path("studies/broken")
    broken.mkdir()
    (broken / "journal.sqlite").write_bytes(b"no database" * 100)
    listed = {study["study"]: study["standing"] for study in json.loads(tuned("ls", "--json").out)}
    assert listed["one"] == "complete"
    assert listed["broken"].startswith("unreadable: ")


@pytest.fixture
def mirrored(etude: Etude) -> Iterator[str]:
    """Give a place with the mirrors of two studies, and with something else."""
    place = f"memory://{secrets.token_hex(4)}"

    def train(lr: float) -> float:
        print("a log")
        return lr

    for name, trials in (("one", 3), ("two", 2)):
        library.Experiment(train, metric="score", mode="max").tune(
            {"lr": library.uniform(0, 1)}, trials=trials, workers=1, sampler="random", name=name, mirror=place
        )
    files = fsspec.filesystem("memory")
    files.pipe_file(f"{place}/note.txt", b"not a study")
    files.pipe_file(f"{place}/notes/more.txt", b"not a study either")
    yield place
    files.rm(place, recursive=True)


def test_the_studies_in_a_mirror_are_listed_without_their_logs(etude: Etude, mirrored: str, tmp_path: Path) -> None:
    here = {row["study"]: row for row in json.loads(etude("ls", "--json").out)}
    shutil.rmtree("studies")
    listed = json.loads(etude("ls", mirrored, "--json").out)
    assert listed == [{**here[name], "mirror": f"{mirrored}/{name}"} for name in ("one", "two")]
    assert json.loads(etude("ls", f"{mirrored}/two", "--json").out) == listed[1:]
    told = [line.split()[:3] for line in etude("ls", mirrored).out.splitlines()]
    assert [row for row in told if "complete" in row] == [["one", "complete", "3"], ["two", "complete", "2"]]
    assert not list((tmp_path / "cache").rglob("trials"))
    assert etude("show", f"{mirrored}/one").out.startswith("Study one: ")
    assert list((tmp_path / "cache").rglob("log.txt"))


def test_a_damaged_mirror_hides_no_other(etude: Etude, mirrored: str) -> None:
    files = fsspec.filesystem("memory")
    segment = min(files.ls(f"{mirrored}/one/segments", detail=False))
    files.pipe_file(segment, files.cat_file(segment)[:-1] + b"x")
    one, two = json.loads(etude("ls", mirrored, "--json").out)
    assert one["standing"].startswith(f"unreadable: The mirror {mirrored}/one is damaged: ")
    assert two["standing"] == "complete"


def test_a_place_without_mirrors_is_no_error_and_one_out_of_reach_is(
    etude: Etude, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (etude("ls", "memory://nothing").code, etude("ls", "memory://nothing").out) == (
        0,
        "There are no studies in memory://nothing.\n",
    )

    def ls(*args: object, **options: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(MemoryFileSystem, "ls", ls)
    done = etude("ls", "memory://nothing")
    assert (done.code, done.out, done.err) == (
        1,
        "",
        "The mirror memory://nothing cannot be reached: ConnectionError: no route to host. Look whether the address is "
        "right, and whether what it needs (credentials, an endpoint) is set here as it was there.\n",
    )
    done = etude("ls", "nothing://here")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("mirror='nothing://here' is no place that can be used: Protocol not known: nothing.")


def test_no_studies_are_no_error(etude: Etude) -> None:
    assert (etude("ls").code, etude("ls").out) == (0, "There are no studies in studies.\n")
    assert json.loads(etude("ls", "--json").out) == []


@pytest.mark.parametrize("given", ["one", "studies/one"])
def test_a_study_is_shown_by_name_and_by_folder(tuned: Etude, given: str) -> None:
    done = tuned("show", given)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("Study one: 6 trials (")
    assert lines[1].startswith("Best score: ")
    assert "folder:     studies/one" in lines
    assert "experiment: script.py:experiment" in lines
    assert any(line.startswith("machine: ") for line in lines)
    assert not any(line.startswith("driver: ") for line in lines)


def test_a_study_is_shown_to_programs(tuned: Etude) -> None:
    shown = json.loads(tuned("show", "one", "--json").out)
    assert (shown["study"], shown["standing"], shown["experiment"]) == ("one", "complete", "script.py:experiment")
    values = [trial["score"] for trial in shown["best"]]
    assert values == sorted(values, reverse=True)


def test_an_unknown_study_is_one_line_with_the_nearest_name(tuned: Etude) -> None:
    done = tuned("show", "onne")
    assert (done.code, done.out) == (1, "")
    assert done.err == ("There is no study onne. `etude ls` lists the studies that there are. Did you mean 'one'?\n")


def test_a_study_that_nothing_is_near_to_is_one_line_with_those_there_are(tuned: Etude) -> None:
    assert tuned("show", "digits").err == (
        "There is no study digits. `etude ls` lists the studies that there are. In studies there are: one.\n"
    )
    shutil.copytree("studies/one", "studies/ones")
    assert tuned("show", "onne").err.endswith(" Did you mean 'one' or 'ones'?\n")
    Path("digits").mkdir()
    assert tuned("show", "digits").err == (
        "digits is not a study: it has no journal.sqlite. `etude ls` lists the studies that there are.\n"
    )
    shutil.rmtree("studies")
    assert tuned("show", "one").err == "There is no study one. `etude ls` lists the studies that there are.\n"


def test_trials_are_sorted_filtered_and_cut(tuned: Etude) -> None:
    def numbers(*options: str) -> list[int]:
        return [trial["trial"] for trial in json.loads(tuned("trials", "one", "--json", *options).out)]

    everything = json.loads(tuned("trials", "one", "--json").out)
    assert numbers() == [0, 1, 2, 3, 4, 5]
    best = max((t for t in everything if t["score"] is not None), key=lambda t: t["score"])
    assert numbers("--sort", "value", "--limit", "1") == [best["trial"]]
    longest = max(everything, key=lambda t: t["duration_s"])
    assert numbers("--sort", "duration")[0] == longest["trial"]
    assert numbers("--state", "finished") == [t["trial"] for t in everything if t["state"] == "finished"]
    assert len(tuned("trials", "one").out.strip().splitlines()) == 2 + 6
    assert tuned("trials", "one", "--state", "failed").out == "Study one has no trials that are failed.\n"


def test_a_state_that_is_none_is_refused(tuned: Etude) -> None:
    done = tuned("trials", "one", "--state", "broken")
    assert done.code == 2
    assert done.err == (
        "--state broken is no state of a trial. There are: queued, running, stopping, paused, finished, stopped, "
        "failed, invalid.\n"
    )


def test_an_order_that_is_none_is_refused(tuned: Etude) -> None:
    done = tuned("trials", "one", "--sort", "scor")
    assert done.code == 2
    assert done.err == "--sort scor is no order. There are: trial, value, duration, score.\n"


@pytest.fixture
def two_metrics(etude: Etude) -> Etude:
    """Give the command line, with a study of two metrics whose first and last trials are its front."""

    def train(lr: float) -> dict[str, float]:
        return {"up": lr, "down": {0.1: 0.1, 0.5: 0.9, 0.9: 0.8}[lr]}

    experiment = library.Experiment(train, metric={"up": "max", "down": "min"})
    start = [{"lr": 0.1}, {"lr": 0.5}, {"lr": 0.9}]
    experiment.tune({"lr": [0.1, 0.5, 0.9]}, trials=3, workers=1, name="two", start=start)
    return etude


def test_several_metrics_have_a_front_and_no_best(two_metrics: Etude) -> None:
    row = next(line for line in two_metrics("ls").out.splitlines() if line.split()[:1] == ["two"])
    assert row.split() == ["two", "complete", "3", "up", "(max),", "down", "(min)", "front", "of", "2", "trials"]
    (listed,) = json.loads(two_metrics("ls", "--json").out)
    assert (listed["metrics"], listed["best"], listed["front"]) == ({"up": "max", "down": "min"}, None, [2, 0])
    shown = json.loads(two_metrics("show", "two", "--json").out)
    assert "best" not in shown
    assert [(trial["trial"], trial["up"], trial["down"]) for trial in shown["front"]] == [(2, 0.9, 0.8), (0, 0.1, 0.1)]
    assert "Pareto front of up and down: 2 trials." in two_metrics("show", "two").out


def test_a_front_is_marked_and_every_metric_sorts(two_metrics: Etude) -> None:
    rows = [line.split() for line in two_metrics("trials", "two").out.splitlines() if line.split()]
    assert rows[0] == ["trial", "state", "up", "down", "front", "lr", "took", "reason"]
    assert ["*" in row for row in rows[2:]] == [True, False, True]

    def numbers(*options: str) -> list[int]:
        return [trial["trial"] for trial in json.loads(two_metrics("trials", "two", "--json", *options).out)]

    assert numbers("--front") == [0, 2]
    assert numbers("--sort", "value") == [2, 1, 0]
    assert numbers("--sort", "down") == [0, 2, 1]


def test_a_log_and_the_doctors_findings_are_told_to_programs(tuned: Etude) -> None:
    trials = json.loads(tuned("trials", "one", "--state", "finished", "--json").out)
    talks = next(t for t in trials if t["params"]["lr"] < 0.5)
    for options in ([], ["-f"]):
        found = json.loads(tuned("logs", "one", str(talks["trial"]), "--json", *options).out)
        assert found.pop("text") == f"trained with {talks['params']['lr']}\n"
        assert found == {"study": "one", "trial": talks["trial"], "attempt": 1, "ended": True}
    found = json.loads(tuned("doctor", "--json").out)
    assert found["ok"] is True
    assert {"title": "Étude", "told": __version__, "problem": ""} in found["findings"]


def test_logs_are_printed_as_they_are(tuned: Etude) -> None:
    trials = json.loads(tuned("trials", "one", "--state", "finished", "--json").out)
    talks = next(t for t in trials if t["params"]["lr"] < 0.5)
    expected = f"trained with {talks['params']['lr']}\n"
    for options in ([], ["-f"], ["--attempt", "1"]):
        assert tuned("logs", "one", str(talks["trial"]), *options).out == expected
    done = tuned("logs", "one", str(talks["trial"]), "--attempt", "7")
    assert (done.code, done.out, done.err) == (0, "", f"attempt 7 of trial {talks['trial']} printed nothing.\n")


def test_a_trial_without_output_says_so(tuned: Etude) -> None:
    trials = json.loads(tuned("trials", "one", "--json").out)
    silent = next(t for t in trials if t["params"]["lr"] > 0.5)
    done = tuned("logs", "one", str(silent["trial"]))
    assert (done.code, done.out, done.err) == (0, "", f"trial {silent['trial']} printed nothing.\n")


def test_the_tail_of_a_long_log_is_printed_too(tuned: Etude) -> None:
    folder = Path("studies/one/trials/00000/attempt-1")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.txt").write_text("head\n")
    (folder / "log.tail.txt").write_text("tail\n")
    assert tuned("logs", "one", "0").out == "head\n\n...\ntail\n"


def test_a_trial_that_is_none_is_refused(tuned: Etude) -> None:
    done = tuned("logs", "one", "6")
    assert (done.code, done.err) == (2, "Study one has no trial 6: it has trials 0 to 5, 6 trials.\n")


def test_a_reader_that_leaves_is_no_error(tuned: Etude) -> None:
    process = tuned.start("trials", "one", "--json")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait() in (0, 120)  # 120: Python could not flush what nobody reads any more
    process.stderr.close()


def test_this_machine_passes_the_doctor(etude: Etude) -> None:
    done = etude("doctor")
    assert done.code == 0, done.out
    assert done.out.endswith("\nStudies can run here.\n")
    for title in (
        "Python",
        "Étude",
        "packages",
        "SQLite",
        "workers",
        "cores",
        "memory",
        "GPUs",
        "studies",
        "free disk",
    ):
        assert f"ok  {title} " in done.out


def test_the_doctor_finds_a_folder_that_cannot_be_written(etude: Etude, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.path.isdir("/proc/self"):
        monkeypatch.setenv("ETUDE_STUDIES", "/proc/self/studies")
    else:
        pytest.skip("needs a folder that nobody can write")
    done = etude("doctor")
    assert done.code == 1
    assert (
        "/proc/self/studies cannot be written. Free it, or name another place with ETUDE_STUDIES=<folder>." in done.out
    )
    assert "to mend: see above." in done.out


@pytest.mark.parametrize(
    ("code", "call", "error"),
    [
        (1, ["show", "nothing", "--json"], "There is no study nothing."),
        (2, ["logs", "one", "99", "--json"], "Study one has no trial 99: it has trials 0 to 5, 6 trials."),
        (2, ["logs", "one", "many", "--json"], "Invalid value for "),
        (2, ["show", "one", "--json", "--nothing"], "No such option: --nothing"),
        (2, ["shwo", "one", "--json"], "No such command 'shwo'."),
    ],
)
def test_a_program_is_told_the_error_in_a_document(tuned: Etude, code: int, call: list[str], error: str) -> None:
    done = tuned(*call)
    [(name, told)] = json.loads(done.out).items()
    assert (done.code, name) == (code, "error")
    assert error in told
    assert error in done.err, "people are told as before"
    people = tuned(*[word for word in call if word != "--json"])
    assert (people.code, people.out, people.err) == (code, "", done.err)
