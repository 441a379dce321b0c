"""``tune``, ``resume``, ``stop`` and ``logs -f``: exit codes, messages, and studies that really run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import etude as library

if TYPE_CHECKING:
    from .conftest import Etude

UNIFORM = "lr=uniform(0, 1)"


def test_a_search_from_the_command_line_is_the_search_of_the_script(tuned: Etude) -> None:
    from etude.files.scripts import load

    cold = tuned("trials", "one", "--json").out
    experiment, _ = load("script.py:experiment")
    again = experiment.tune({"lr": library.uniform(0, 1)}, trials=6, workers=2, name="one")  # the same study, done
    assert [t["params"] for t in json.loads(cold)] == [t.params for t in again.trials]


def test_failed_trials_have_an_exit_code_of_their_own(etude: Etude) -> None:
    done = etude("tune", "script.py:failing", UNIFORM, "--trials", "5", "--workers", "1", "--stopper", "none")
    assert done.code == 3
    assert "failed" in done.out.splitlines()[0]
    assert "too large" in done.out


def test_a_limit_has_an_exit_code_of_its_own_and_a_larger_one_goes_on(etude: Etude) -> None:
    call = ["tune", "script.py:failing", UNIFORM, "--trials", "8", "--workers", "1", "--stopper", "none"]
    done = etude(*call, "--name", "bad", "--max-failures", "0")
    assert done.code == 4
    assert "Not complete: max_failures=0 is reached: 1 trial failed" in done.out
    assert etude("resume", "bad").code == 4  # the limits are the study's, until others are given
    assert json.loads(etude("resume", "bad", "--json").out)["why"].startswith("max_failures=0 is reached")
    priced = ["--max-cost", "100", "--price-per-hour", "0.5", "--deadline", "600", "--max-failures", "8"]
    assert etude("resume", "bad", *priced).code == 3
    assert etude("resume", "bad", "--trials", "9", "--no-limits").code == 3
    assert sum(library.open("bad").counts().values()) == 9


def test_a_study_whose_journal_is_kept_elsewhere_goes_on_by_its_name_and_is_listed(
    etude: Etude, monkeypatch: pytest.MonkeyPatch
) -> None:
    from etude.store import shared

    studies = (etude.folder / "studies").resolve()
    monkeypatch.setattr(shared, "network_kind", lambda path: "nfs" if path.is_relative_to(studies) else "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(etude.folder / "cache"))
    assert etude("tune", "script.py:experiment", UNIFORM, "--trials", "3", "--workers", "1", "--name", "far").code == 0
    assert not (studies / "far" / "journal.sqlite").exists()
    assert [row["study"] for row in json.loads(etude("ls", "--json").out)] == ["far"]
    done = etude("resume", "far", "--trials", "4", "--mirror", f"{etude.folder}/mirrors")
    assert done.code == 0, done.err
    search = library.open("far")
    assert (len(search.trials), search.name) == (4, "far")
    assert search.meta["run 2"]["call"]["mirror"] == f"{etude.folder}/mirrors"
    assert (etude.folder / "mirrors" / "far" / "segments").is_dir()  # both mirrors are kept


def test_a_name_is_that_of_a_study_also_beside_a_mirror_that_is_called_so(tuned: Etude) -> None:
    assert tuned("resume", "one", "--trials", "7", "--mirror", ".").code == 0
    assert (tuned.folder / "one" / "segments").is_dir()
    for segment in (tuned.folder / "one" / "segments").iterdir():
        segment.unlink()  # whoever went by the mirror would find nothing there
    done = tuned("resume", "one", "--trials", "8", "-q")
    assert done.code == 0, done.err
    assert len(library.open("one").trials) == 8


def test_options_reach_the_search(etude: Etude) -> None:
    options = ["--sampler", "tpe(startup=3)", "--stopper", "median(first_after=9)", "--seed", "7", "--timeout", "50"]
    rest = ["--reuse-child", "--constraint", "small", "-q", "--name", "opts", "--trials", "4", "--workers", "1"]
    more = ["--retries", "1", "--grace", "3", "--start", "lr=0.25", "--start", "lr=0.125 epochs=2"]
    more += ["--resources", "cpus=0.5, gpus=0"]
    assert etude("tune", "script.py:experiment", UNIFORM, "epochs=2", *options, *rest, *more).code == 0
    search = library.open("opts")
    call = search.meta["call"]
    assert {name: call[name] for name in WANTED} == WANTED
    assert call["constraint"] == "script.py:small"
    assert [t.params["lr"] for t in search.trials[:2]] == [0.25, 0.125]
    assert all(t.state == ("invalid" if t.params["lr"] > 0.5 else "finished") for t in search.trials)


WANTED = {
    "sampler": {"name": "tpe", "startup": 3, "newest": 1000},
    "stopper": {"name": "median", "first_after": 9, "best_so_far": False, "metric": None},
    "seed": 7,
    "timeout_s": 50.0,
    "grace_s": 3.0,
    "retries": 1,
    "reuse_child": True,
    "resources": "cpus=0.5,gpus=0",
    "start": [{"lr": 0.25, "epochs": 2}, {"lr": 0.125, "epochs": 2}],
}


def test_options_that_were_not_given_are_not_passed_on(etude: Etude, monkeypatch: pytest.MonkeyPatch) -> None:
    class Called(BaseException):
        pass

    def tune(self: object, space: object, **given: object) -> None:
        raise Called(given)

    monkeypatch.setattr(library.Experiment, "tune", tune)

    def given(*options: str) -> dict[str, object]:
        with pytest.raises(Called) as called:
            etude("tune", "script.py:experiment", UNIFORM, *options)
        found: dict[str, object] = called.value.args[0]
        return found

    assert given().keys().isdisjoint({"sampler", "stopper", "fidelity", "budget", "eta"})
    assert given()["trials"] is None
    assert given("--wait-for-workers", "2")["workers"] == (2, None)
    found = given("--fidelity", "epochs", "--budget", "1,27", "--eta", "3", "--stopper", "none", "--stopper", "median")
    assert (found["fidelity"], found["budget"], found["eta"]) == ("epochs", (1, 27), 3)
    assert found["stopper"] == [library.NeverStop(), library.MedianRule()]


def test_a_search_without_a_number_of_trials_comes_to_the_end_of_its_space(etude: Etude) -> None:
    assert etude("tune", "script.py:experiment", "lr=[0.1, 0.2, 0.3]", "--name", "all").code == 0
    assert len(library.open("all").trials) == 3
    done = etude("tune", "script.py:experiment", UNIFORM)
    assert (done.code, done.err[:17]) == (2, "trials is missing")


def test_programs_get_one_document_and_nothing_else(etude: Etude) -> None:
    path = etude.folder / "talks.py"
    path.write_text("import os\nprint('hello')\nos.write(1, b'there\\n')\n" + (etude.folder / "script.py").read_text())
    options = ["--trials", "3", "--workers", "1", "--name", "said", "--json"]
    for args in (["tune", "talks.py:failing", UNIFORM, *options], ["resume", "said", "--trials", "5", "--json"]):
        with etude.start(*args) as process:
            out, err = process.communicate(timeout=60)
        told = json.loads(out)
        assert (told["study"], told["standing"]) == ("said", "complete")
        assert process.returncode == (3 if "failed" in told["counts"] else 0)
        assert "hello" in err
        assert "there" in err
    assert sum(told["counts"].values()) == 5
    assert told["started"]
    shown = json.loads(etude("show", "said", "--json").out)
    assert {**shown, "folder": told["folder"]} == told
    done = etude("tune", "talks.py:nothing", UNIFORM, *options)
    assert (done.code, json.loads(done.out)) == (2, {"error": done.err.removeprefix("hello\n").strip()})


def test_going_on_restores_the_whole_call(etude: Etude) -> None:
    options = ["--sampler", "tpe(startup=3)", "--stopper", "median(first_after=9)", "--seed", "7", "--timeout", "50"]
    rest = ["--reuse-child", "--name", "opts", "--trials", "4", "--workers", "1", "--retries", "1", "--grace", "3"]
    start = ["--start", "lr=0.25", "--start", "lr=0.125 epochs=2", "--resources", "gpus=0,cpus=0.5"]
    assert etude("tune", "script.py:experiment", UNIFORM, "epochs=2", *options, *rest, *start).code == 0
    before = library.open("opts").meta
    done = etude("resume", "opts", "--trials", "6")
    assert done.code == 0, done.err
    after = library.open("opts").meta["run 2"]["call"]
    assert after == {**before["run 1"]["call"], "trials": 6}
    assert {name: after[name] for name in WANTED} == WANTED
    assert etude("resume", "opts", "--trials", "7", "--resources", "cpus=1").code == 0
    assert library.open("opts").meta["run 3"]["call"] == {**after, "trials": 7, "resources": "cpus=1"}


def test_resources_that_cannot_be_are_refused_in_the_words_of_the_command_line(
    etude: Etude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    call = ["tune", "script.py:experiment", UNIFORM, "--trials", "3", "--name", "none"]
    done = etude(*call, "--workers", "4", "--resources", "gpus=1")
    assert (done.code, done.err.strip()) == (
        2,
        "--workers 4 with gpus=1 need 4 GPUs, and this machine has 2 (0, 1). Pass --workers 2, or gpus=0.5.",
    )
    done = etude(*call, "--resources", "gpu=1")
    assert (done.code, done.err.partition(". ")[0]) == (2, "--resources gpu=1 asks for 'gpu', which is not known")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["script.py:experimnt", UNIFORM],
            "script.py has no experiment 'experimnt'. Did you mean 'experiment'? It has: ",
        ),
        (
            ["script.py", UNIFORM],
            "script.py has 3 experiments, and none was named. It has: experiment, failing, waiting.",
        ),
        (["scrpt.py:experiment", UNIFORM], "There is no file scrpt.py. Did you mean script.py?"),
        (
            ["script:experiment", UNIFORM],
            "'script:experiment' names no experiment. Give the script and the name in it: ",
        ),
        (["script.py:experiment", "lrr=1"], "No function takes 'lrr'. Did you mean 'lr'?"),
        (["script.py:experiment", "lr=unifrm(0, 1)"], "lr: There is no domain 'unifrm'. Did you mean 'uniform'?"),
        (["script.py:experiment", UNIFORM, "--sampler", "tpee"], "--sampler tpee is not known."),
        (["script.py:experiment", UNIFORM, "--constraint", "smal"], "script.py has no 'smal'. Did you mean 'small'?"),
    ],
)
def test_a_call_that_cannot_be_is_one_message(etude: Etude, args: list[str], message: str) -> None:
    done = etude("tune", *args, "--trials", "2")
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err
    assert not Path("studies").exists()


@pytest.fixture
def eager(etude: Etude) -> Iterator[Path]:
    """Give a script that calls tune() where everybody hears it, and defines more below."""
    path = etude.folder / "eager.py"
    path.write_text(EAGER)
    yield path
    sys.modules.pop("eager", None)


EAGER = """
import etude

def train(lr: float):
    return lr

experiment = etude.Experiment(train, metric="score", mode="max")
try:
    experiment.tune({"lr": etude.uniform(0, 1)}, trials=3, workers=1, name="eager")
except Exception:
    print("went on")
print("below")

def small(lr):
    return lr < 0.5

later = etude.Experiment(train, metric="score", mode="min")
"""


def test_a_study_of_a_script_without_a_main_guard_goes_on(etude: Etude, eager: Path) -> None:
    subprocess.run([sys.executable, "eager.py"], check=True, capture_output=True)
    before = library.open("eager").rows()
    done = etude("resume", "eager", "--trials", "5")
    assert done.code == 0, done.err
    assert "below" not in done.out
    assert "went on" not in done.out
    assert library.open("eager").rows()[:3] == before
    assert len(library.open("eager").trials) == 5
    assert library.open("eager").complete


def test_a_script_without_a_main_guard_is_read_up_to_its_first_study(etude: Etude, eager: Path) -> None:
    assert etude("tune", "eager.py:experiment", UNIFORM, "--trials", "2", "--name", "other").code == 0
    assert not Path("studies/eager").exists()
    read = (
        " It was read up to its first call of tune(...), ablate(...) or fit(...), which starts a study; put it under "
        '`if __name__ == "__main__":` if what you want stands below it.\n'
    )
    done = etude("tune", "eager.py:later", UNIFORM, "--trials", "2")
    assert done.code == 2
    assert done.err == "eager.py has no experiment 'later'. It has: experiment." + read
    done = etude("tune", "eager.py", UNIFORM, "--trials", "2", "--constraint", "small")
    assert done.code == 2
    assert done.err == "eager.py has no 'small'." + read
    Path("fits.py").write_text(
        eager.read_text().replace("experiment.tune(", "experiment.fit(seeds=1) if 1 else print(")
    )
    done = etude("run", "fits.py:later")
    assert done.err.splitlines()[
        0
    ] == "fits.py:later: fits.py has no experiment 'later'. It has: experiment." + read.strip("\n")


def test_reading_a_script_leaves_the_verb_as_it_was(etude: Etude, eager: Path) -> None:
    from etude.files.scripts import load

    tune = library.Experiment.tune
    load("eager.py:experiment")
    assert library.Experiment.tune is tune


def test_a_script_that_exits_while_it_is_loaded_is_refused(etude: Etude) -> None:
    Path("quits.py").write_text("raise SystemExit(0)\n")
    done = etude("tune", "quits.py:experiment", UNIFORM, "--trials", "2")
    assert done.code == 2
    assert done.err.startswith("quits.py ended itself while it was loaded.")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "def half(n):\n    return n / 0\n\nhalf(3)\n",
            'Traceback (most recent call last):\n  File "{path}", line 4, in <module>\n',
        ),
        ("def half(n:\n", '  File "{path}", line 1\n'),
        (
            "try:\n    {}['lr']\nexcept KeyError as error:\n    raise ValueError('none') from error\n",
            'Traceback (most recent call last):\n  File "{path}", line 2, in <module>\n',
        ),
    ],
)
def test_a_script_that_raises_shows_its_own_traceback_alone(etude: Etude, text: str, told: str) -> None:
    path = etude.folder / "raises.py"
    path.write_text(text)
    done = etude("tune", "raises.py:experiment", UNIFORM, "--trials", "2", "--json")
    assert done.code == 1
    assert done.err.startswith(told.format(path=path))
    assert "typer" not in done.err
    assert str(Path(library.__file__).parent) not in done.err
    assert json.loads(done.out) == {"error": done.err.rstrip("\n")}
    assert "raises" not in sys.modules


def test_a_script_that_would_hide_a_module_is_refused(etude: Etude) -> None:
    shutil.copy("script.py", "random.py")
    done = etude("tune", "random.py:experiment", UNIFORM, "--trials", "2")
    assert done.code == 2
    assert "random.py has the name of another module, 'random', and would hide it. Rename the file." in done.err


def test_exit_codes_reach_the_shell(etude: Etude) -> None:
    def run(*args: str) -> tuple[int, str]:
        process = etude.start(*args)
        _, err = process.communicate(timeout=60)
        return process.returncode, err

    assert run("tune", "script.py:failing", UNIFORM, "--trials", "5", "--workers", "1")[0] == 3
    code, err = run("tune", "script.py:nothing", UNIFORM, "--trials", "5")
    assert (code, "Traceback" in err) == (2, False)
    assert run("show", "nothing")[0] == 1
    assert run("--version")[0] == 0


# Going on.


def test_a_study_goes_on_with_more_trials(tuned: Etude) -> None:
    before = library.open("one").rows()
    done = tuned("resume", "one", "--trials", "8", "--workers", "1")
    assert done.code == 0
    assert library.open("one").rows()[:6] == before
    assert len(library.open("one").trials) == 8
    assert tuned("resume", "studies/one").code == 0  # as before: that is eight by now
    assert len(library.open("one").trials) == 8


def test_a_study_that_waits_for_workers_has_as_many_as_before(tuned: Etude) -> None:
    assert tuned("resume", "one", "--trials", "7", "--wait-for-workers", "1").code == 0
    assert library.open("one").meta["run 2"]["call"]["workers"] == [1, 2]
    assert tuned("resume", "one", "--trials", "8", "--wait-for-workers", "2").code == 0
    assert library.open("one").meta["run 3"]["call"]["workers"] == [2, 2]
    assert tuned("resume", "one", "--trials", "9", "--wait-for-workers", "3").code == 0
    assert library.open("one").meta["run 4"]["call"]["workers"] == [3, 3]


def test_a_study_that_left_its_workers_open_goes_on_with_as_many_as_there_is_room_for(
    etude: Etude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    call = ["tune", "script.py:experiment", UNIFORM, "--trials", "2", "--sampler", "random", "--name", "open"]
    assert etude(*call, "--resources", "gpus=1").code == 0
    found = library.open("open").meta["call"]
    assert (found["workers"], found["at_a_time"], found["on_oom"]) == (None, 2, None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert etude("resume", "open", "--trials", "4").code == 0
    assert library.open("open").meta["run 2"]["call"]["at_a_time"] == 1


def test_a_study_goes_on_from_another_folder(tuned: Etude, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_STUDIES", "elsewhere")
    Path("inside").mkdir()
    monkeypatch.chdir("inside")
    assert tuned("resume", "../studies/one", "--trials", "7").code == 0
    monkeypatch.chdir("..")
    assert len(library.open("studies/one").trials) == 7
    assert not Path("elsewhere").exists()
    assert os.environ["ETUDE_STUDIES"] == "elsewhere"


def test_a_study_that_was_edited_does_not_go_on(tuned: Etude) -> None:
    Path("script.py").write_text(Path("script.py").read_text().replace("(lr - 0.3)", "(lr - 0.4)"))
    process = tuned.start("resume", "one", "--trials", "7")  # in a process that has not loaded it yet
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "began with another definition" in err
    assert "+        run.report(score=1 - (lr - 0.4)" in err


def test_a_study_with_a_stopper_of_its_own_wants_its_script(etude: Etude) -> None:
    subprocess.run([sys.executable, "script.py"], check=True)
    done = etude("resume", "ruled")
    assert done.code == 2
    assert done.err == (
        "Study ruled was started with a stopper of its own (Stubborn), which no journal can hold. "
        "Run the script again instead (script.py): the same call goes on.\n"
    )


def test_a_study_with_a_constraint_of_the_script_goes_on_with_it(etude: Etude) -> None:
    assert etude("tune", "script.py:experiment", UNIFORM, "--constraint", "small", *RULED, "--trials", "4").code == 0
    done = etude("resume", "ruled", "--trials", "8")
    assert done.code == 0, done.err
    trials = library.open("ruled").trials
    assert [trial.state for trial in trials] == ["finished"] * 8
    assert all(trial.params["lr"] <= 0.5 for trial in trials)


def test_a_search_with_a_part_of_its_own_wants_its_command(etude: Etude, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ["tune", "script.py:experiment", UNIFORM, "--sampler", "Middle(0.25)", "--trials", "2", "--name", "own"]
    monkeypatch.setattr(sys, "argv", ["/usr/bin/etude", *args])
    assert etude(*args).code == 0
    done = etude("resume", "own")
    assert done.code == 2
    assert done.err == (
        "Study own was started with a sampler of its own (Middle), which no journal can hold. Give the same command "
        "again instead, it goes on: etude tune script.py:experiment 'lr=uniform(0, 1)' --sampler 'Middle(0.25)' "
        "--trials 2 --name own\n"
    )


RULED = ("--name", "ruled", "--workers", "1", "--sampler", "random", "--stopper", "none")


@pytest.mark.parametrize(("text", "first"), [("middle", 0.5), ("Middle(0.25)", 0.25), ("script.py:Middle(lr=1)", 1.0)])
def test_a_sampler_and_a_stopper_of_the_script_go_by_their_names(etude: Etude, text: str, first: float) -> None:
    own = ["--sampler", text, "--stopper", "Stubborn(2)", "--trials", "2", "--workers", "1", "--name", "own"]
    done = etude("tune", "script.py:experiment", UNIFORM, *own)
    assert done.code == 0, done.err
    trials = library.open("own").trials
    assert [trial.params["lr"] for trial in trials] == [first, first / 2]
    assert {len(trial.curve) for trial in trials} <= {2, 3}


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        (
            "--sampler",
            "midle",
            "--sampler midle is not known. There are: 'random', 'grid', 'qmc', 'tpe', 'gp', 'cmaes', 'nsga2'. "
            "script.py has no 'midle' either.\n",
        ),
        ("--sampler", "Middle", "--sampler Middle is a class, and no sampler yet. Call it: --sampler 'Middle()'.\n"),
        ("--sampler", "Middle(x=1)", "--sampler 'Middle(x=1)': Middle of script.py raised TypeError: "),
        (
            "--stopper",
            "other.py:Stubborn(2)",
            "--stopper 'other.py:Stubborn(2)' is in other.py, and the experiment in script.py. "
            "Import it there, and write --stopper Stubborn(2).\n",
        ),
        (
            "--sampler",
            "grid",
            "--sampler 'Grid()' cannot be used here: 'lr' is a continuum; say how many of its values to ",
        ),
    ],
)
def test_what_neither_has_is_refused_with_both_places(etude: Etude, option: str, text: str, message: str) -> None:
    done = etude("tune", "script.py:experiment", UNIFORM, "--trials", "2", option, text)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(message)


def test_a_study_from_a_notebook_wants_its_notebook(etude: Etude) -> None:
    def train(lr: float) -> float:
        return lr

    library.Experiment(train, metric="m", mode="max").tune({"lr": [0.1, 0.2]}, trials=2, workers=1, name="cells")
    done = etude("resume", "cells")
    assert done.code == 2
    assert done.err.startswith("Study cells was started where no file holds its experiment, such as a notebook. ")


def test_a_study_whose_script_is_gone_says_where_it_was(tuned: Etude) -> None:
    Path("script.py").rename("other.py")
    done = tuned("resume", "one")
    assert done.code == 2
    assert "The experiment of study one was in script.py, which is neither here nor above" in done.err


# Studies at work.


@pytest.fixture
def at_work(etude: Etude) -> Iterator[subprocess.Popen[str]]:
    """Give a process whose study has one trial that waits for a file named go."""
    space = [f"folder='{etude.folder}'", "lr=[0.1, 0.2]"]
    process = etude.start("tune", "script.py:waiting", *space, "--trials", "1", "--workers", "1", "--name", "live")
    try:
        etude.wait_for(lambda: (etude.folder / "started").exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_a_study_at_work_is_shown_as_such(etude: Etude, at_work: subprocess.Popen[str]) -> None:
    shown = etude("show", "live").out
    assert f"driver:     process {at_work.pid} on " in shown
    assert "Not complete" not in shown
    assert json.loads(etude("ls", "--json").out)[0]["standing"] == "at work"


def test_stop_waits_until_the_study_has_wound_down(etude: Etude, at_work: subprocess.Popen[str]) -> None:
    done = etude("stop", "live")
    assert done.code == 0, done.out
    assert "Not complete: stopped by `etude stop`." in done.out
    assert not Path("studies/live/stop-requested").exists()
    out, _ = at_work.communicate(timeout=60)
    assert (at_work.returncode, "Not complete" in out) == (0, True)
    (etude.folder / "go").touch()
    assert etude("resume", "live").code == 0
    assert library.open("live").complete


def test_programs_are_told_what_was_stopped(etude: Etude, at_work: subprocess.Popen[str]) -> None:
    done = etude("stop", "live", "--json")
    told = json.loads(done.out)
    assert (done.code, told["asked"], told["stopped"], told["standing"]) == (0, True, True, "not complete")
    at_work.communicate(timeout=60)


def test_there_may_be_nothing_to_stop(tuned: Etude) -> None:
    done = tuned("stop", "one")
    assert (done.code, done.out) == (0, "Nobody works on study one, so there is nothing to stop.\n")
    told = json.loads(tuned("stop", "one", "--json").out)
    assert (told["study"], told["asked"], told["stopped"]) == ("one", False, True)
    assert not Path("studies/one/stop-requested").exists()


def test_a_log_is_followed_until_the_trial_has_ended(etude: Etude, at_work: subprocess.Popen[str]) -> None:
    follower = etude.start("logs", "live", "0", "-f")
    assert follower.stdout is not None
    assert follower.stdout.readline() == "first line\n"  # while the trial runs
    (etude.folder / "go").touch()
    out, err = follower.communicate(timeout=60)
    assert (follower.returncode, out, err) == (0, "last line\n", "")
    at_work.communicate(timeout=60)
    assert at_work.returncode == 0


def test_an_interruption_winds_down_and_says_how_to_go_on(etude: Etude, at_work: subprocess.Popen[str]) -> None:
    at_work.send_signal(signal.SIGINT)
    _, err = at_work.communicate(timeout=60)
    assert at_work.returncode == 130
    folder = etude.folder / "studies" / "live"
    assert err == f"interrupted: 0 trials finished; the same call goes on, or: etude resume {folder}\n"
    assert library.open("live").driver is None
