"""A file that is edited while a study runs: no study is made of two codes, and nothing is lost."""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path

import pytest
from support import processes, wait_for

import etude
from etude.engines import local

THREAD = """
import os, threading
if "ETUDE_WORKER" in os.environ:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
"""A module that starts a thread has its study's attempts spawned."""


def told(file: str) -> str:
    return (
        f"{file} was changed since the study started. Attempts would run other code than those before, and their "
        "results would not compare. Go back to the earlier text and run the script again, and this study goes on; "
        "or run it again as it is now, which starts a new study if the change matters."
    )


def tune(train, workers=1, **kwargs):
    experiment = etude.Experiment(train, metric="score", mode="max")
    space = {"x": etude.integers(0, 10**6)}
    settings = {"trials": 4, "sampler": "random", "stopper": "none", "name": "study", "retries": 0}
    return experiment.tune(space, workers=workers, **{**settings, **kwargs})


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> Path:
    """Write a module of the user's that workers can import; the study works beside it."""
    file = folder / f"{name}.py"
    file.write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    return file


def test_a_worker_that_starts_after_an_edit_ends_the_study_and_nothing_is_lost(tmp_path, monkeypatch) -> None:
    file = module(tmp_path, monkeypatch, "edited_then_replaced", "def value(): return 1.0\n")
    mine = importlib.import_module("edited_then_replaced")

    def train(run, x: int):
        if run.trial >= 2 and not (tmp_path / "go").exists():
            (tmp_path / f"started-{run.trial}").touch()
            time.sleep(1000)
        return mine.value()

    live = tune(train, workers=2, retries=1, wait=False)
    wait_for(lambda: (tmp_path / "started-2").exists() and (tmp_path / "started-3").exists())
    file.write_text("def value(): return 2.0  # edited\n")
    holder = next(t.worker for t in live._handle.study.history.trials if t.number == 2)
    (supervisor,) = [p for p in processes.marked(local.WORKER_MARK, holder) if processes.parent(p) == os.getpid()]
    processes.kill(supervisor)
    with pytest.raises(etude.DefinitionChangedError) as ended:
        live.wait()
    assert str(ended.value) == told("edited_then_replaced.py")
    assert live.counts() == {"finished": 2, "queued": 2}
    assert told("edited_then_replaced.py") in live.summary()

    file.write_text("def value(): return 1.0\n")
    (tmp_path / "go").touch()
    search = tune(train, workers=2)
    assert [t.value for t in search.trials] == [1.0] * 4
    assert [t.attempts for t in search.trials] == [1, 1, 2, 2]


@pytest.mark.parametrize("how", ["forked", "spawned"])
@pytest.mark.parametrize("when", ["first", "later"])
@pytest.mark.parametrize("text", ["def value(): return 2.0  # edited\n", "nonsense :\n"], ids=["other", "broken"])
def test_an_attempt_that_imports_after_an_edit_is_not_run(how, when, text, tmp_path, monkeypatch) -> None:
    before = "def value(): return 1.0\n"
    name = f"edited_{when}_{how}_{len(text)}"
    starter = module(tmp_path, monkeypatch, f"starter_of_{name}", THREAD if how == "spawned" else "").stem
    file = module(tmp_path, monkeypatch, name, before)
    at_first, later = (f"import {name}", "pass") if when == "first" else ("", f"import {name}")
    cell = f"""
import {starter}
{at_first}
def train(run, x: int):
    {later}
    {starter}
    if run.trial == 1 and not done.exists():
        done.touch()
        file.write_text(text)
    return {name}.value()
"""
    scope = {"__name__": "__main__", "done": tmp_path / "done", "file": file, "text": text}
    exec(compile(cell, "<cell-of-edits>", "exec"), scope)
    if (how, when) == ("forked", "first"):  # what the template has imported stays as it is
        assert [t.value for t in tune(scope["train"]).trials] == [1.0] * 4
        return
    with pytest.raises(etude.DefinitionChangedError) as ended:
        tune(scope["train"])
    assert str(ended.value) == told(file.name)
    counts = etude.open(tmp_path / "studies" / "study").counts()
    assert counts.pop("finished") in {2, 3}
    assert set(counts) <= {"queued"}

    file.write_text(before)
    search = tune(scope["train"])
    assert [t.value for t in search.trials] == [1.0] * 4
