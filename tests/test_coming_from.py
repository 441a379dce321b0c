"""The pages for those who come from another tool are true: scripts of tools that are here, our own, and commands."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from tests.pages import FENCE, ROOT, as_script, check_command, etude_command, marked, run

import etude

FOLDER = ROOT / "docs" / "coming-from"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.stem != "README")
PARTS = ["Side by side", "Bringing old results along", "What you gain", "What you lose"]
NAMED = re.compile(r"\betude\.([A-Za-z_]\w*(?:\.[a-z_]\w*)?)")
CALLED = re.compile(r"^\$ (etude .*?)(?: +#.*)?$", re.MULTILINE)
NO_CHILD = {"cli"}
"""What stands behind `etude.` on a page and is no name of the window: a module that is run."""


def blocks(page: str, language: str) -> list[str]:
    """Return what the blocks of one language hold, in the order of the page."""
    return [found[2] for found in FENCE.finditer((FOLDER / page).read_text()) if found[1] == language]


def name_of(page: Path) -> str:
    return page.stem


def test_every_page_is_in_the_index_and_in_no_other_order() -> None:
    listed = re.findall(r"\]\((\w[\w-]*\.md)\) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == [path.name for path in PAGES]
    assert len(PAGES) == 9


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_has_its_words_both_scripts_and_what_is_lost(page: Path) -> None:
    text = page.read_text()
    assert re.findall(r"^## (.+)$", FENCE.sub("", text), re.MULTILINE) == PARTS
    title, words, *_ = text.split("\n| ", 1)
    assert re.match(r"# Coming from .+\n\nFor people (who|whose) ", title)
    assert words.splitlines()[0].endswith(" | Étude |")
    assert as_script(text) or "<!-- run by tests/test_coming_from.py::" in text, "nothing of ours is run"
    lost = text.partition("## What you lose")[2]
    assert lost.count("\n- **") >= 3


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_name_of_ours_is_there(page: Path) -> None:
    missing = []
    for name in NAMED.findall(page.read_text()):
        first, _, rest = name.partition(".")
        if first in NO_CHILD:
            continue
        there = getattr(etude, first, None)
        if there is None or (rest and not hasattr(there, rest)):
            missing.append(name)
    assert not missing, f"{page.name} has names that Étude has not: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_command_and_option_of_ours_is_there(page: Path) -> None:
    told = CALLED.findall(page.read_text())
    told += re.findall(r"`(etude [a-z][^`]*)`", page.read_text())
    for line in told:
        check_command(line)


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem != "pipetune"], ids=name_of)
def test_their_script_is_there_beside_ours(page: Path) -> None:
    """Of PipeTune there is a file alone. Theirs is run where it can be, and else says why not."""
    assert marked(page.read_text())


def test_the_script_of_optuna_runs_and_its_study_comes_along(tmp_path: Path) -> None:
    theirs, *ours = blocks("optuna.md", "python")
    (tmp_path / "theirs.py").write_text(theirs)
    done = run(sys.executable, "-W", "error", "theirs.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "old.db").is_file()

    (tmp_path / "ours.py").write_text("\n".join(ours) + "\nprint(len(old.trials), [t.params for t in best])\n")
    done = run(sys.executable, "-W", "error", "ours.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()[-1]
    assert told.startswith("20 ")
    best = ast.literal_eval(told.partition(" ")[2])
    assert len(best) == 5, "some of the study came along"


def test_what_lies_outside_of_the_space_does_not_come_along() -> None:
    start = [{"lr": 5.0, "width": 64}]
    experiment = etude.Experiment(lambda lr, width: lr * width, metric="score", mode="max")
    with pytest.raises(etude.ConfigError, match="lr"):
        experiment.tune({"lr": etude.loguniform(1e-3, 1.0), "width": [16, 64]}, trials=2, start=start)


@pytest.mark.thorough
def test_the_page_about_keras_tuner_runs(tmp_path: Path) -> None:
    pytest.importorskip("keras")
    _, *ours = blocks("keras-tuner.md", "python")
    (tmp_path / "ours.py").write_text("\n".join(ours))
    done = run(sys.executable, "ours.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "'units': " in done.stdout


def test_the_file_of_the_page_about_hydra_runs_by_its_commands(tmp_path: Path) -> None:
    _, script, *_ = blocks("hydra.md", "python")
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "study.yaml").write_text(blocks("hydra.md", "yaml")[0])
    plain, four, more = CALLED.findall((FOLDER / "hydra.md").read_text())
    done = etude_command(plain, tmp_path)
    assert (done.returncode, done.stdout) == (0, "score = 0.802083\n"), done.stderr
    for command, trials in ((four, 4), (more, 6)):
        done = etude_command(command, tmp_path)
        assert done.returncode == 0, done.stderr
        assert f": {trials} trials (" in done.stdout


@pytest.mark.thorough
def test_the_marked_program_of_the_mage_is_planned_and_nobody_would_be_asked(tmp_path: Path) -> None:
    root = tmp_path / "mine"
    root.mkdir()
    (root / "train.py").write_text(blocks("ablationmage.md", "python")[0])
    scan, plan, preview, write, *_ = CALLED.findall((FOLDER / "ablationmage.md").read_text())
    done = etude_command(scan, root)
    assert done.returncode == 0, done.stderr
    assert "component  drop" in done.stdout
    done = etude_command(plan + " --yes", root)
    if "Not running generated code" in done.stderr:
        pytest.skip("this kernel does not permit sandboxes, or bubblewrap is not installed")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "a rule, without any model" in done.stdout
    done = etude_command(preview, root)
    assert done.returncode == 0, done.stderr
    assert "Nobody would be asked anything." in done.stdout
    done = etude_command(write, root)
    assert done.returncode == 3, "it waits for a person: " + done.stderr + done.stdout
    assert "awaiting review" in done.stdout
