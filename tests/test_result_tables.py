"""What a notebook shows of a result that is the last line of a cell, and how a batch run is told that it went wrong."""

from __future__ import annotations

import random
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

import etude
from etude.core.errors import StudyError

HOSTILE = "<script>alert('1')</script>"


class Tables(HTMLParser):
    """Reads the tables of a page, row by row, and the names of all its elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.elements: set[str] = set()
        self._in_cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.elements.add(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._in_cell = True

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.tables[-1][-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = False


def noise(seed: int) -> float:
    return random.Random(seed).gauss(0, 1)


def helped(seed: int, helps: int = 1, idle: int = 1) -> float:
    return noise(seed) + helps + 0.01 * random.Random(f"{seed} {idle}").gauss(0, 1)


def test_an_ablation_is_a_table_of_its_arms_and_one_of_its_verdicts() -> None:
    pytest.importorskip("scipy")
    experiment = etude.Experiment(helped, metric="score", mode="max")
    parts = [etude.setting("helps", off=0), etude.setting("idle", off=0)]
    ablation = experiment.ablate(parts, seeds=7, workers=2, reuse_child=True, name="parts", margin=0.1)
    page = ablation._repr_html_()
    arms, verdicts = Tables(page).tables
    assert arms[0] == ["arm", "mean score", "seeds", "effect"]
    assert [row[0] for row in arms[1:]] == [arm.name for arm in ablation.arms]
    assert [row[2] for row in arms[1:]] == ["7", "7", "7"]
    assert arms[1][3] == "", "the base has no effect on itself"
    assert float(arms[2][3]) == pytest.approx(ablation.arms[1].effect, rel=1e-4)
    assert verdicts[0][0] == "component"
    assert {row[0]: row[-1] for row in verdicts[1:]} == {"helps=0": "matters", "idle=0": "does not matter"}
    assert page.startswith("<div>Study parts: 21 trials (21 finished).<table>")
    (alone,) = Tables(ablation.verdicts()._repr_html_()).tables
    assert alone == verdicts
    assert etude.open("parts")._repr_html_() == page


def test_arms_that_came_to_nothing_are_told_and_not_judged() -> None:
    def breaks(seed: int, helps: int = 1) -> float:
        raise RuntimeError("it broke")

    experiment = etude.Experiment(breaks, metric="score", mode="max")
    ablation = experiment.ablate(["helps"], seeds=2, workers=1, reuse_child=True, force=True, name="broken")
    page = ablation._repr_html_()
    (arms,) = Tables(page).tables
    assert [row[1:] for row in arms[1:]] == [["?", "0", ""], ["?", "0", "?"]]
    assert "Failed (4 trials, 0 the first): RuntimeError: it broke" in page


def test_a_final_training_is_a_table_of_its_seeds() -> None:
    experiment = etude.Experiment(helped, metric="score", mode="max")
    final = experiment.fit(at={"idle": 0}, seeds=3, workers=2, name="final")
    page = final._repr_html_()
    (table,) = Tables(page).tables
    assert table[0] == ["trial", "seed", "begins with", "state", "score"]
    assert [row[:4] for row in table[1:]] == [
        [str(trial.number), str(trial.seed), "random weights", "finished"] for trial in final.trials
    ]
    assert [float(row[4]) for row in table[1:]] == pytest.approx([t.value for t in final.trials], rel=1e-4)
    assert page.startswith("<div>Study final: 3 trials (3 finished).<br>Best score: ")


def test_of_many_seeds_the_first_are_shown_and_the_rest_counted() -> None:
    final = etude.Experiment(helped, metric="score", mode="max").fit(seeds=23, workers=2, name="many")
    page = final._repr_html_()
    (table,) = Tables(page).tables
    assert len(table) == 1 + 20
    assert page.endswith("</table>... and 3 trials more.</div>")


def test_what_people_wrote_is_text_in_every_table() -> None:
    def odd(seed: int, word: str = "good") -> dict[str, float]:
        return {HOSTILE: noise(seed)}

    experiment = etude.Experiment(odd, metric=HOSTILE, mode="max")
    search = experiment.tune({"word": ["good", HOSTILE]}, trials=2, workers=1, sampler="grid", name="odd")
    final = experiment.fit(at={"word": HOSTILE}, name="odd-final")
    parts = [etude.setting("word", off=HOSTILE)]
    ablation = experiment.ablate(parts, seeds=2, workers=1, reuse_child=True, force=True, name="odd-parts")
    for page in (search._repr_html_(), final._repr_html_(), ablation._repr_html_(), ablation.verdicts()._repr_html_()):
        found = Tables(page)
        assert "script" not in found.elements
        assert any(HOSTILE in cell for table in found.tables for row in table for cell in row), page


def test_a_study_that_went_well_raises_nothing() -> None:
    def judged(lr: float) -> float:
        if lr > 0.5:
            raise etude.Invalid("too large")
        return lr

    experiment = etude.Experiment(judged, metric="score", mode="max")
    search = experiment.tune({"lr": [0.1, 0.9]}, trials=2, workers=1, sampler="grid")
    assert search.counts() == {"finished": 1, "invalid": 1}
    search.raise_if_failed()


def test_a_study_with_failed_trials_raises_and_says_which(tmp_path: Path) -> None:
    def breaks(lr: float) -> float:
        if lr > 0.2:
            raise RuntimeError("it broke")
        return lr

    experiment = etude.Experiment(breaks, metric="score", mode="max")
    search = experiment.tune({"lr": [0.1, 0.5, 0.9]}, trials=3, workers=1, sampler="grid", name="broken")
    first = next(trial for trial in search.trials if trial.state == "failed")
    with pytest.raises(StudyError) as told:
        search.raise_if_failed()
    assert str(told.value) == (
        f"2 of the 3 trials of study 'broken' failed, {first.number} the first: {first.reason}. "
        f"See: etude logs {search.folder} {first.number}"
    )
    assert first.reason == "RuntimeError: it broke"


def test_a_study_that_is_still_at_work_raises_and_says_so(tmp_path: Path) -> None:
    go = tmp_path / "go"

    def waits(lr: float) -> float:
        while not go.exists():
            time.sleep(0.01)
        return lr

    experiment = etude.Experiment(waits, metric="score", mode="max")
    search = experiment.tune({"lr": [0.1]}, trials=1, workers=1, sampler="grid", name="waits", wait=False)
    try:
        with pytest.raises(StudyError) as told:
            search.raise_if_failed()
    finally:
        go.touch()
        search.wait()
    assert str(told.value) == (
        "Study 'waits' is still at work, so nobody knows how it ends. Wait for it first: search.wait()."
    )
    search.raise_if_failed()


def test_a_study_that_a_limit_ended_raises_and_says_how_it_goes_on() -> None:
    def breaks(lr: float) -> float:
        raise RuntimeError("it broke")

    experiment = etude.Experiment(breaks, metric="score", mode="max")
    search = experiment.tune(
        {"lr": etude.uniform(0, 1)}, trials=5, workers=1, sampler="random", max_failures=1, name="limited"
    )
    assert search.limit == "max_failures"
    with pytest.raises(StudyError) as told:
        search.raise_if_failed()
    failed, ended = str(told.value).splitlines()
    assert failed.startswith(f"{search.counts()['failed']} of the {len(search.trials)} trial")
    assert ended == f"Study 'limited' has not come to its end. Not complete: {search.why}."
