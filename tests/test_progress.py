"""Progress: what a snapshot holds, how long the rest will take, and who gets to see it where."""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

import etude
from etude.core.clock import WallClock
from etude.core.events import (
    AnyFact,
    Assigned,
    How,
    Joined,
    Judged,
    Opened,
    Outcome,
    Queued,
    Reported,
    Settled,
)
from etude.core.history import History
from etude.core.lifecycle import State, Turn
from etude.core.metrics import Metrics, Mode
from etude.launching import progress
from etude.launching.snapshot import AtWork, Best, Snapshot, line, render, snapshot, time_left
from etude.studies.notes import Notes


def told(*facts: AnyFact, mode: Mode = "max") -> History:
    history = History(Metrics({"accuracy": mode}))
    for fact in facts:
        history.apply(fact)
    return history


def begun(trial: int, worker: str, at: float, value: float | None = None) -> list[AnyFact]:
    facts: list[AnyFact] = [
        Queued(at=at, trial=trial, params={"lr": trial / 10}, seed=0),
        Assigned(at=at, trial=trial, attempt=1, worker=worker),
    ]
    if value is not None:
        facts.append(Reported(at=at + 1, trial=trial, attempt=1, step=1, metrics={"accuracy": value}))
    return facts


def ended(trial: int, at: float, turn: Turn, how: How, value: float | None = None) -> Settled:
    return Settled(at=at, trial=trial, turn=turn, attempt=1, outcome=Outcome(how, value=value))


def look(history: History, **given: Any) -> Snapshot:
    settings = {"name": "s", "trials": 20, "workers": 2, "since_s": 0.0, "now_s": 60.0}
    return snapshot(history, **{**settings, **given})


A_STUDY = (
    Opened(at=0.0, driver="d", epoch=1),
    Joined(at=0.0, worker="w1"),
    Joined(at=0.0, worker="w2"),
    *begun(0, "w1", 0.0, 0.5),
    ended(0, 10.0, Turn.FINISHED, How.FINISHED, 0.8),
    *begun(1, "w1", 10.0, 0.4),
    ended(1, 19.0, Turn.FINISHED, How.FINISHED, 0.9),
    *begun(2, "w1", 20.0, 0.4),
    ended(2, 31.0, Turn.GIVEN_UP, How.RAISED),
    *begun(3, "w1", 31.0),
    ended(3, 40.0, Turn.REFUSED, How.INVALID),
    *begun(4, "w2", 50.0, 0.25),
    *begun(5, "w1", 55.0),
)


def test_a_snapshot_counts_ranks_and_names_who_works_on_what() -> None:
    found = look(told(*A_STUDY))
    assert found.counts == {State.FINISHED: 2, State.FAILED: 1, State.INVALID: 1, State.RUNNING: 2}
    assert found.ended == 4
    assert found.best == Best(0.9, 1, {"lr": 0.1})
    assert found.at_work == (AtWork("w2", 4, 1, 0.25, 10.0), AtWork("w1", 5, 0, None, 5.0))
    assert found.elapsed_s == 60.0


def test_the_best_is_the_lowest_where_lower_is_better_and_never_nan() -> None:
    assert look(told(*A_STUDY, mode="min")).best == Best(0.8, 0, {"lr": 0.0})
    facts = [Opened(at=0.0, driver="d", epoch=1), Joined(at=0.0, worker="w1"), *begun(0, "w1", 0.0)]
    assert look(told(*facts, ended(0, 1.0, Turn.FINISHED, How.FINISHED, float("nan")))).best is None


def test_an_attempt_that_is_stopping_still_runs() -> None:
    judged = Judged(at=58.0, trial=4, attempt=1, turn=Turn.STOP_ASKED, reason="worse")
    assert look(told(*A_STUDY, judged)).counts[State.RUNNING] == 2


def test_a_line_says_it_all() -> None:
    assert line(look(told(*A_STUDY))) == (
        "s: 4 of 20 trials (2 finished, 1 failed, 1 invalid, 2 running); best accuracy 0.9 in trial 1; "
        "elapsed 1 min 0 s, time left 1 min 10 s - 1 min 20 s"
    )
    assert line(look(History(Metrics({"accuracy": "max"})), now_s=0.5)) == "s: 0 of 20 trials (none yet); elapsed 0.5 s"


def test_nothing_is_left_when_all_trials_have_ended() -> None:
    assert line(look(told(*A_STUDY[:15]), trials=4)).endswith("elapsed 1 min 0 s")


@pytest.mark.parametrize("asked", [0, 1, 4, 6])
def test_a_run_that_asks_for_fewer_trials_than_there_are_counts_those_that_there_are(asked: int) -> None:
    found = look(told(*A_STUDY), trials=asked)
    assert (found.trials, found.ended) == (6, 4)
    assert found.left_s is not None
    assert line(look(told(*A_STUDY[:15]), trials=1)).startswith("s: 3 of 3 trials (2 finished, 1 failed); ")


def drawn(found: Snapshot) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(render(found))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_the_picture_has_a_line_for_each_worker() -> None:
    lines = [text.rstrip() for text in drawn(look(told(*A_STUDY))).splitlines()]
    assert lines[0].startswith("s  ")
    assert lines[0].endswith("4/20  2 finished  1 failed  1 invalid  2 running")
    assert lines[1:] == [
        "best accuracy 0.9 in trial 1: lr=0.1",
        "  w2  trial 4  step 1  0.25  10 s",
        "  w1  trial 5  step 0        5 s",
        "elapsed 1 min 0 s, time left 1 min 10 s - 1 min 20 s",
    ]


def test_many_workers_are_not_all_shown() -> None:
    at_work = tuple(AtWork(f"w{i}", i, 0, None, 1.0) for i in range(32))
    found = Snapshot("s", "accuracy", 100, {State.RUNNING: 32}, None, at_work, 1.0, None)
    assert "... 24 more" in drawn(found)
    assert "trial 8" not in drawn(found)


def test_markup_in_names_is_no_markup() -> None:
    best = Best(1.0, 0, {"path": "[red]x[/red]"})
    found = Snapshot("[bold]s", "accuracy", 1, {State.FINISHED: 1}, best, (), 1.0, None)
    assert "[bold]s" in drawn(found)
    assert "path=[red]x[/red]" in drawn(found)


@pytest.mark.parametrize(("ended", "known"), [(2, False), (3, True)])
def test_time_left_is_not_told_before_a_few_trials_have_ended(ended: int, known: bool) -> None:
    assert (time_left([10.0] * ended, [1.0], waiting=5, workers=1) is not None) == known


def test_trials_that_all_last_the_same_leave_no_doubt() -> None:
    assert time_left([10.0] * 4, [4.0], waiting=3, workers=1) == (36.0, 36.0)
    assert time_left([10.0] * 4, [4.0, 9.0], waiting=0, workers=2) == (6.0, 6.0)
    assert time_left([10.0] * 4, [25.0], waiting=0, workers=2) == (0.0, 0.0)


@pytest.mark.parametrize("workers", [1, 4])
def test_the_interval_holds_the_truth_about_four_times_in_five(workers: int) -> None:
    rng = random.Random(0)
    inside = 0
    for _ in range(300):
        durations = [rng.gammavariate(4.0, 2.0) for _ in range(60)]
        free = [0.0] * workers
        for duration in durations[20:]:  # what is still to come, handed to whoever is free first
            free[free.index(min(free))] += duration
        low, high = time_left(durations[:20], [], waiting=40, workers=workers) or (0.0, 0.0)
        inside += low <= max(free) <= high
    assert 0.7 <= inside / 300 <= 0.9


# Who gets to see it.


class FakeStudy:
    """A study that ends after a few looks, and says something in between."""

    def __init__(self, looks: int, *, interrupted: bool = False) -> None:
        self.history = told(*A_STUDY)
        self.notes = Notes()
        self.unsaid = self.notes.unsaid
        self.error = None
        self.folder = Path("etude-studies/s")
        self.trials, self.workers = 8, 2
        self.clock = WallClock()
        self._looks, self._interrupted = looks, interrupted
        self.asked: list[str] = []

    def stop(self, reason: str) -> None:
        self.asked.append(reason)

    def wait(self, timeout_s: float | None = None) -> bool:
        self._looks -= 1
        self.notes.add("the disk is full")
        if self._interrupted and self._looks == 0:
            raise KeyboardInterrupt
        return self._looks <= 0


META = {"experiment": "script.py:experiment", "call": {"constraint": False}}


def watched(study: FakeStudy, shown: bool | None = None, meta: dict[str, Any] = META) -> None:
    handle: Any = SimpleNamespace(over=False, notes=study.notes.texts, meta=meta)
    search = etude.Search(study.folder, study.history, handle=handle)
    progress.watch(study, search, shown=shown)  # type: ignore[arg-type]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ETUDE_PROGRESS")


END = "Study s: 6 trials (2 finished, 2 running, 1 failed, 1 invalid), 0"


def test_a_log_file_gets_notes_once_and_one_line_at_the_end(on: None, capsys: pytest.CaptureFixture[str]) -> None:
    watched(FakeStudy(looks=3))
    out, err = capsys.readouterr()
    note, last = err.splitlines()
    assert (out, note) == ("", "the disk is full")
    assert last.startswith(END)


def test_the_environment_turns_progress_off_and_notes_stay(capsys: pytest.CaptureFixture[str]) -> None:
    watched(FakeStudy(looks=3))
    assert capsys.readouterr() == ("", "the disk is full\n")


def test_without_progress_notes_are_said_and_nothing_else(on: None, capsys: pytest.CaptureFixture[str]) -> None:
    watched(FakeStudy(looks=3), shown=False)
    assert capsys.readouterr() == ("", "the disk is full\n")


def test_what_comes_up_while_a_study_winds_down_is_said_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    study = FakeStudy(looks=1, interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        watched(study, shown=False)
    assert capsys.readouterr() == ("", "the disk is full\n")


def test_a_note_is_said_at_once_while_nobody_watches_and_once_in_all(capsys: pytest.CaptureFixture[str]) -> None:
    notes = Notes()
    notes.add("early")
    notes.add("early")
    assert capsys.readouterr() == ("", "early\n")
    assert notes.unsaid() == []
    notes.add("late")
    notes.add("early")
    assert capsys.readouterr() == ("", "")
    assert (notes.unsaid(), notes.unsaid(), notes.texts) == (["late"], [], ["early", "late"])


def test_a_note_that_cannot_be_said_ends_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    notes = Notes()
    with (tmp_path / "closed").open("w") as closed:
        pass
    monkeypatch.setattr(sys, "stderr", closed)
    notes.add("unheard")
    assert notes.texts == ["unheard"]


def test_an_interruption_winds_down_passes_through_and_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    study = FakeStudy(looks=2, interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        watched(study, shown=True)
    assert study.asked == ["interrupted"]
    assert capsys.readouterr().err.splitlines()[-1] == (
        "interrupted: 2 trials finished; the same call goes on, or: etude resume etude-studies/s"
    )


def test_an_interruption_names_no_command_that_would_not_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        watched(FakeStudy(looks=2, interrupted=True), shown=True, meta={**META, "experiment": None})
    assert capsys.readouterr().err.splitlines()[-1] == "interrupted: 2 trials finished; the same call goes on"


def test_lines_come_when_time_and_trials_went_by(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    lines = progress.Lines(lambda: now)

    def show(at: float, ended: int) -> int:
        nonlocal now
        now = at
        lines.show(lambda: Snapshot("s", "m", 20, {State.FINISHED: ended}, None, (), at, None))
        return len(capsys.readouterr().err.splitlines())

    assert show(0.0, 5) == 0
    assert show(29.0, 15) == 0  # too soon
    assert show(31.0, 6) == 0  # too little
    assert show(40.0, 7) == 1
    assert show(71.0, 8) == 0
    assert show(71.0, 9) == 1


def test_a_terminal_is_redrawn_and_left_clean() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        terminal = progress.Terminal(live)
        terminal.show(lambda: look(told(*A_STUDY)))
        terminal.say("a [note]")
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "4/20" in text
    assert "a [note]" in text
    assert "\x1b[2K" in text  # lines are erased


class FakeNotebook(ModuleType):
    """What IPython looks like from a notebook's kernel."""

    def __init__(self) -> None:
        super().__init__("IPython")
        self.shown: list[Any] = []
        self.display = SimpleNamespace(display=self._display)

    def get_ipython(self) -> Any:
        return SimpleNamespace(kernel=object())

    def _display(self, thing: Any, *, display_id: bool) -> Any:
        assert display_id
        self.shown.append(thing)
        return SimpleNamespace(update=self.shown.append)


def test_a_notebook_is_redrawn_in_place(
    on: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = FakeNotebook()
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    watched(FakeStudy(looks=2))
    assert len(notebook.shown) == 2
    assert "4/8" in notebook.shown[0]._repr_mimebundle_((), ())["text/plain"]
    assert capsys.readouterr() == ("", "the disk is full\n")  # no last line: the picture stays


class FakeTerminal(io.StringIO):
    """A terminal to write to."""

    def isatty(self) -> bool:
        return True


def counted(nth: int) -> progress.Counted:
    return progress.Counted(f"{nth} of 3", ended=nth, trials=3)


def test_a_computation_is_counted_in_a_terminal_and_leaves_it_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress.counting(True) as step:
        step(counted(1))
        assert "1 of 3" in terminal.getvalue()
    assert "\x1b[2K" in terminal.getvalue().rpartition("1 of 3")[2]  # the line is erased


def test_in_a_notebook_the_last_count_stays(on: None, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = FakeNotebook()
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    with progress.counting() as step:
        for nth in range(4):
            step(counted(nth))
    assert [str(shown) for shown in (notebook.shown[0], notebook.shown[-1])] == ["0 of 3", "3 of 3"]


def test_a_log_file_gets_a_count_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter((0.0, 1.0, 10.0, 31.0, 31.0, 32.0))  # made, and then looked at: twice where a line is due
    lines = progress.Lines(lambda: next(times))
    for nth in range(4):
        lines.show(lambda nth=nth: counted(nth))
    assert capsys.readouterr().err == "2 of 3\n"


@pytest.mark.parametrize("shown", [None, False])
def test_nothing_is_counted_where_no_progress_is_wanted(monkeypatch: pytest.MonkeyPatch, shown: bool | None) -> None:
    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.counting(shown) as step:  # in tests, ETUDE_PROGRESS is 0
        step(counted(1))
    assert terminal.getvalue() == ""


def test_ipython_in_a_terminal_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))
    assert not progress.in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not progress.in_notebook()


# A real study, seen from a real terminal.

SCRIPT = """
import etude

def train(run, lr: float):
    for epoch in run.epochs(3):
        run.report(score=lr)

experiment = etude.Experiment(train, metric="score", mode="max")

if __name__ == "__main__":
    print(experiment.tune({"lr": etude.uniform(0, 1)}, trials=6, workers=2, name="seen").best.number >= 0)
"""


@pytest.fixture
def terminal() -> Iterator[tuple[int, Callable[[], str]]]:
    """Give a terminal's slave end, and a function that reads what was written to it."""
    master, slave = os.openpty()

    def read() -> str:
        os.close(slave)
        found = b""
        try:
            while piece := os.read(master, 65536):
                found += piece
        except OSError:  # Linux says so when the last writer has gone
            pass
        return found.decode()

    yield slave, read
    os.close(master)


def test_a_real_terminal_shows_progress_and_standard_output_stays_the_scripts_own(
    tmp_path: Path, terminal: tuple[int, Callable[[], str]]
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    slave, read = terminal
    env = {**os.environ, "ETUDE_PROGRESS": "1", "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "script.py"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=slave, text=True
    )
    out, _ = process.communicate(timeout=60)
    text = read()
    assert (process.returncode, out) == (0, "True\n"), text
    assert "6/6" in text
    assert "Study seen: 6 trials (" in text.splitlines()[-1]
