"""A notebook, run without a head by a real kernel: cells define everything, and may be interrupted and edited.

One kernel runs all cells once; each test looks at what became of some of them.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import nbformat
import pytest
from nbclient import NotebookClient

PATIENCE_S = 60.0
REDRAWN = 3
"""So often is progress redrawn before a trial that is held may end."""

DEFINE = """
def train(model, run, lr: float):
    width = model()
    for epoch in run.epochs(3):
        run.report(score=width - (lr - BEST_LR) ** 2)

experiment = etude.Experiment(train, model=model, metric="score", mode="max")
"""

TUNE = "search = experiment.tune({'lr': etude.uniform(0, 1)}, trials=%d, workers=2)\n"
NAMED = "search = experiment.tune({'lr': etude.uniform(0, 1)}, trials=2, workers=1, name='named')\n"
WAITING = "waiting.tune({'lr': etude.uniform(0, 1)}, trials=3, workers=1, sampler='random')\n"

CELLS = {
    "kernel": "import os, pathlib\nprint(os.getpid())",
    "helpers": "import etude\nBEST_LR = 0.3\ndef model(width: int = 4):\n    return width",
    "define": DEFINE,
    "tune": TUNE % 4 + "search",
    "facts": "before = search.rows()\nprint(search.name, search.meta['experiment'], search.complete)",
    "again": TUNE % 6 + "print(search.name, search.rows()[:4] == before, {t.attempts for t in search.trials})",
    "named": NAMED + "print(search.name)",
    "edit a helper": "BEST_LR = 0.4",
    "edited": TUNE % 4 + "print(search.name)",
    "named and edited": NAMED,
    "define waiting": """
def waits(run, lr: float):
    if run.trial == 1:
        pathlib.Path("started").touch()
        while not pathlib.Path("go").exists():
            run.report(score=lr)
    return lr

waiting = etude.Experiment(waits, metric="score", mode="max")
""",
    "interrupted": WAITING,
    "after the interruption": "last = waiting.last\nprint(last.running, last.complete, last.trials[0].state)\nlast",
    "gone on": "pathlib.Path('go').touch()\nsearch = " + WAITING + "print([t.attempts for t in search.trials])",
    "train apart": "def apart(lr: float):\n    return lr",
    "experiment apart": "split = etude.Experiment(apart, metric='score', mode='max')\nprint(split.run(lr=0.5))",
    "train apart again": "def apart(lr: float):\n    return lr",
    "run as it was": "print(split.run(lr=0.5))",
    "train apart edited": "def apart(lr: float):\n    return 2 * lr",
    "run in spite of the edit": "print(split.run(lr=0.5))",
    "run once more": "print(split.run(lr=0.5))",
    "several metrics": """
two = etude.Experiment(lambda lr: {"up": lr, "down": lr}, metric={"up": "max", "down": "min"})
two.tune({"lr": [0.1, 0.5, 0.9]}, trials=3, workers=1, name="two")
""",
    "held until it was redrawn": """
import time
def held(lr: float):
    while not pathlib.Path("redrawn").exists():
        time.sleep(0.01)
    return lr

etude.Experiment(held, metric="score", mode="max").tune({"lr": [0.1]}, trials=1, workers=1)
""",
    "ablate": """
parts = etude.Experiment(lambda seed, dropout=0.5: dropout + seed % 97, metric="score", mode="max")
parts.ablate("dropout", seeds=6, workers=1, name="parts").summary()
""",
    "an ablation": "parts.last",
    "a training": "experiment.fit(at={'lr': 0.3})",
}


class Listening(NotebookClient):
    """Runs a notebook, and keeps the displays that a cell shows and redraws, in order: message, id, picture."""

    shown: ClassVar[dict[str, list[tuple[str, str, str]]]] = {}

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        kind, content = msg["msg_type"], msg["content"]
        if kind in ("display_data", "update_display_data"):
            displays = self.shown.setdefault(cell.source, [])
            displays.append((kind, content["transient"]["display_id"], content["data"]["text/plain"]))
            if "held" in cell.source and len(displays) > REDRAWN:
                Path(self.resources["metadata"]["path"], "redrawn").touch()
        return super().process_message(msg, cell, cell_index)


class Outputs:
    """What stands below a cell."""

    def __init__(self, cell: Any) -> None:
        self._outputs = cell.outputs

    def stream(self, name: str) -> str:
        return "".join(o.text for o in self._outputs if o.output_type == "stream" and o.name == name)

    def data(self, kind: str, mime: str = "text/html") -> list[str]:
        return [o.data[mime] for o in self._outputs if o.output_type == kind]

    @property
    def error(self) -> tuple[str, str] | None:
        return next(((o.ename, o.evalue) for o in self._outputs if o.output_type == "error"), None)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outputs]:
    """Run all cells in a kernel of their own, which has ended afterwards; cell -> what stands below it."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS.values()])
    cells = dict(zip(CELLS, notebook.cells, strict=True))
    client = Listening(notebook, timeout=PATIENCE_S, allow_errors=True, resources={"metadata": {"path": str(folder)}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ETUDE_STUDIES", str(folder / "studies"))
        patch.delenv("ETUDE_PROGRESS", raising=False)
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(folder / name))
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        with client.setup_kernel():
            for i, (name, cell) in enumerate(cells.items()):
                if name == "interrupted":
                    pid = int(Outputs(cells["kernel"]).stream("stdout"))
                    threading.Thread(target=interrupt, args=(pid, folder / "started")).start()
                client.execute_cell(cell, i)
    return {name: Outputs(cell) for name, cell in cells.items()}


def interrupt(kernel: int, when: Path) -> None:
    """Do what the stop button does, once there is a file of that name."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not when.exists() and time.monotonic() < give_up_at:
        time.sleep(0.01)
    os.kill(kernel, signal.SIGINT)


def test_cells_define_everything(outputs: dict[str, Outputs]) -> None:
    failed = {name: found.error for name, found in outputs.items() if found.error is not None}
    assert set(failed) == {"named and edited", "interrupted"}, failed
    name, place, complete = outputs["facts"].stream("stdout").split()
    assert (name.startswith("train-"), place, complete) == (True, "None", "True")


def test_progress_is_one_output_that_is_redrawn(outputs: dict[str, Outputs]) -> None:
    (picture,) = outputs["tune"].data("display_data", "text/plain")
    assert "4/4" in picture
    assert "4 finished" in picture
    assert outputs["tune"].stream("stdout") + outputs["tune"].stream("stderr") == ""


def test_progress_is_one_display_for_the_front_end_that_is_updated(outputs: dict[str, Outputs]) -> None:
    first, *later = Listening.shown[CELLS["held until it was redrawn"]]
    assert first[0] == "display_data"
    assert len(later) >= REDRAWN
    assert {(kind, display) for kind, display, _ in later} == {("update_display_data", first[1])}
    assert "1/1" in later[-1][2]
    assert outputs["held until it was redrawn"].data("display_data", "text/plain") == [later[-1][2]]


def test_the_plan_of_an_ablation_is_shown_below_its_cell(outputs: dict[str, Outputs]) -> None:
    assert "  dropout: 0.5 -> 0.0\n" in outputs["ablate"].stream("stderr")


def test_the_result_is_a_table(outputs: dict[str, Outputs]) -> None:
    (table,) = outputs["tune"].data("execute_result")
    assert table.startswith("<div>Study train-")
    assert "<th>trial</th><th>score</th><th>lr</th>" in table
    (table,) = outputs["an ablation"].data("execute_result")
    assert "<th>arm</th><th>mean score</th>" in table
    (table,) = outputs["a training"].data("execute_result")
    assert "<th>trial</th><th>seed</th><th>begins with</th>" in table
    (table,) = outputs["several metrics"].data("execute_result")
    assert "Pareto front of up and down: 3 trials." in table
    assert table.count("<tr>") == 1 + 3


def test_the_same_cell_again_goes_on(outputs: dict[str, Outputs]) -> None:
    name = outputs["facts"].stream("stdout").split()[0]
    assert outputs["again"].stream("stdout") == f"{name} True {{1}}\n"
    assert outputs["again"].stream("stderr") == ""


def test_an_edit_starts_another_study_and_one_line_says_so(outputs: dict[str, Outputs]) -> None:
    before = outputs["facts"].stream("stdout").split()[0]
    after = outputs["edited"].stream("stdout").strip()
    assert after != before
    assert outputs["edited"].stream("stderr") == (
        f"The definition is not that of {before}: this is a new study, {after}.\n"
    )


def test_a_named_study_refuses_an_edit_and_shows_it(outputs: dict[str, Outputs]) -> None:
    assert outputs["named"].stream("stdout") == "named\n"
    kind, message = outputs["named and edited"].error or ("", "")
    assert kind == "DefinitionChangedError"
    assert message.startswith("The study 'named' began with another definition:\n\nglobal BEST_LR: 0.3 -> 0.4\n\n")


def test_an_interrupted_kernel_winds_the_study_down_and_keeps_it(outputs: dict[str, Outputs]) -> None:
    assert outputs["interrupted"].error == ("KeyboardInterrupt", "")
    assert outputs["interrupted"].stream("stderr") == "interrupted: 1 trial finished; the same call goes on\n"
    assert outputs["after the interruption"].stream("stdout") == "False False finished\n"
    (table,) = outputs["after the interruption"].data("execute_result")
    assert "Not complete: interrupted. The same call goes on." in table


def test_the_picture_that_an_interruption_leaves_shows_nothing_running(outputs: dict[str, Outputs]) -> None:
    (picture,) = outputs["interrupted"].data("display_data", "text/plain")
    assert "1 finished" in picture
    assert "running" not in picture
    assert "trial 1" not in picture


def test_a_function_that_was_edited_behind_the_experiments_back_is_told_once(outputs: dict[str, Outputs]) -> None:
    assert outputs["run as it was"].stream("stderr") == ""
    told = outputs["run in spite of the edit"]
    assert told.stream("stdout") == "0.5\n"
    assert (
        "UserWarning: apart was defined again, and this experiment still has the one before, which is what runs. "
        "Run the cell that makes the Experiment again." in told.stream("stderr")
    )
    assert outputs["run once more"].stream("stderr") == ""


def test_an_interrupted_study_goes_on_where_it_was(outputs: dict[str, Outputs]) -> None:
    assert outputs["gone on"].stream("stdout") == "[1, 2, 1]\n"
