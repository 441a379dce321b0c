"""Real searches that take trials of others: what is run is counted by a file in which each run leaves a line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import run_script, write_script

import etude
from etude.core.errors import ConfigError

QUIET: dict[str, Any] = {"sampler": "grid", "stopper": "none", "workers": 1, "reuse_child": True, "progress": False}


class Counted:
    """An experiment that notes each of its runs."""

    def __init__(self, folder: Path) -> None:
        self._log = log = folder / "runs.txt"

        def train(x: int, width: int = 2, *, seed: int) -> dict[str, float]:
            with open(log, "a") as lines:
                lines.write(f"{x}\n")
            return {"loss": float(x * width), "seen": float(seed)}

        self.experiment = etude.Experiment(train, metric="loss", mode="min")

    @property
    def runs(self) -> list[int]:
        return [int(line) for line in self._log.read_text().split()] if self._log.exists() else []


def origins(search: etude.Search) -> dict[Any, str | None]:
    """Return from which study each value of x was taken; a grid comes in an order of its own."""
    found = {t.params["x"]: t.reused_from[0] if t.reused_from is not None else None for t in search.trials}
    return dict(sorted(found.items()))


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counted:
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "studies"))
    return Counted(tmp_path)


def test_a_larger_grid_runs_only_what_the_smaller_one_has_not(counted: Counted) -> None:
    first = counted.experiment.tune({"x": [0, 1, 2]}, name="first", **QUIET)
    second = counted.experiment.tune({"x": [0, 1, 2, 3, 4]}, name="second", reuse=first, **QUIET)
    assert sorted(counted.runs) == [0, 1, 2, 3, 4]
    assert second.complete
    assert [trial.value for trial in second.trials] == [2.0 * trial.params["x"] for trial in second.trials]
    assert origins(second) == {0: "first", 1: "first", 2: "first", 3: None, 4: None}
    best = second.best
    assert (best.params, best.metrics, best.attempts) == ({"x": 0}, {"seen": 0.0}, 0)
    assert best.reused_from == ("first", first.best.number)
    assert best.usage == first.best.usage
    assert "Taken from other studies: 3 trials." in second.summary()
    marks = {row["x"]: row["reused_from"] for row in second.rows()}
    assert marks == {t.params["x"]: f"first:{t.number}" for t in first.trials} | {3: None, 4: None}
    assert "reused_from" not in first.rows()[0]
    assert second.meta["call"]["reuse"] == [str(first.folder.absolute())]
    assert "Study first can give 3 of its 3 trials, where this one comes to their configurations." in second.notes
    assert [t.reused_from for t in etude.open(second.folder).trials] == [t.reused_from for t in second.trials]


def test_the_same_call_needs_not_name_the_other_again_nor_have_it(counted: Counted) -> None:
    first = counted.experiment.tune({"x": [0, 1]}, **QUIET)
    space = {"x": [0, 1, 2, 3]}
    begun = counted.experiment.tune(space, reuse=first.name, **{**QUIET, "trials": 3})
    shutil.rmtree(first.folder)
    again = counted.experiment.tune(space, **QUIET)
    assert again.folder == begun.folder  # the definition has nothing of it
    assert again.complete
    taken = [trial.params["x"] for trial in begun.trials if trial.reused_from is not None]
    assert taken
    assert set(taken) <= {0, 1}
    ran_again = {0, 1} - set(taken)  # what was not taken while the other was there is run
    assert sorted(counted.runs) == sorted([0, 1, 2, 3, *ran_again])
    assert origins(again) == {x: first.name if x in taken else None for x in range(4)}


def test_it_goes_by_what_a_trial_is_and_not_by_how_it_is_written(counted: Counted) -> None:
    first = counted.experiment.tune({"x": [0, 1]}, name="first", **QUIET)  # with width=2, its default
    space = {"x": [0, 1], "width": [2, 3]}
    second = counted.experiment.tune(
        space, name="second", reuse=[first.folder], constraint=lambda x: True, **QUIET
    )  # a constraint changes no number of a trial
    taken = {(t.params["x"], t.params["width"]) for t in second.trials if t.reused_from is not None}
    assert taken == {(0, 2), (1, 2)}
    assert len(counted.runs) == 2 + 2


def test_a_study_that_is_handed_to_itself_goes_on_as_ever(counted: Counted) -> None:
    first = counted.experiment.tune({"x": [0, 1]}, name="first", **QUIET)
    again = counted.experiment.tune({"x": [0, 1]}, name="first", reuse=[first, first.folder], **QUIET)
    assert again.rows() == first.rows()
    assert (len(counted.runs), again.notes) == (2, [])


def test_what_was_taken_can_be_handed_on(counted: Counted) -> None:
    first = counted.experiment.tune({"x": [0]}, name="first", **QUIET)
    second = counted.experiment.tune({"x": [0, 1]}, name="second", reuse=first, **QUIET)
    third = counted.experiment.tune({"x": [0, 1, 2]}, name="third", reuse=second, **QUIET)
    assert sorted(counted.runs) == [0, 1, 2]
    assert origins(third) == {0: "first", 1: "second", 2: None}


def test_a_sampler_learns_from_what_was_taken(counted: Counted) -> None:
    first = counted.experiment.tune({"x": list(range(6))}, name="first", **QUIET)
    tpe = {**QUIET, "sampler": etude.TPE(startup=2), "trials": 6}
    second = counted.experiment.tune({"x": etude.integers(0, 5)}, name="second", reuse=first, **tpe)
    assert len(counted.runs) == 6
    assert all(trial.reused_from or trial.same_as is not None for trial in second.trials)
    with_upto = [trial for trial in second._history.trials if trial.upto]
    assert with_upto, "the sampler had seen facts"


def test_only_whole_plain_runs_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "studies"))

    def train(x: int) -> float:
        if x == 1:
            raise ValueError("no")
        return float(x)

    experiment = etude.Experiment(train, metric="loss", mode="min")
    first = experiment.tune({"x": [0, 1]}, name="first", **QUIET)
    assert sorted(trial.state for trial in first.trials) == ["failed", "finished"]
    second = experiment.tune({"x": [0, 1]}, name="second", reuse=first, **QUIET)
    assert origins(second) == {0: "first", 1: None}
    assert "Study first can give 1 of its 2 trials, where this one comes to their configurations." in second.notes


def test_a_final_training_gives_its_trials_too(counted: Counted) -> None:
    final = counted.experiment.fit(at={"x": 3}, name="final", workers=1, progress=False)
    search = counted.experiment.tune({"x": [3, 4]}, name="search", reuse=final, **QUIET)
    assert origins(search) == {3: "final", 4: None}


def test_forecasts_and_recorded_curves_leave_out_what_was_taken(counted: Counted) -> None:
    first = counted.experiment.tune({"x": [0, 1, 2]}, name="first", **QUIET)
    second = counted.experiment.tune({"x": [0, 1, 2]}, name="second", reuse=first, **QUIET)
    assert len(counted.runs) == 3
    with pytest.raises(ConfigError, match="has no trial that ran to its end"):
        etude.RecordedCurves.of(second)
    with pytest.raises(etude.StudyError, match="second has 0 trials that ran to the end"):
        etude.forecast(second)


# --- what is refused ------------------------------------------------------------------------------


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as error:
        call()
    return str(error.value)


def test_another_code_is_refused_with_the_difference(tmp_path: Path) -> None:
    script = """
        import etude

        RATE = 2

        def train(x: int):
            return float(x * RATE)

        experiment = etude.Experiment(train, metric="loss", mode="min")
        if __name__ == "__main__":
            experiment.tune({"x": [0, 1]}, sampler="grid", stopper="none", workers=1, name="NAME")
    """
    path = write_script(tmp_path, script.replace("NAME", "first"))
    assert run_script(path).returncode == 0
    edited = script.replace("NAME", "second").replace("RATE = 2", "RATE = 3").replace("name=", "reuse='first', name=")
    path = write_script(tmp_path, edited)
    result = run_script(path)
    assert result.returncode != 0
    assert "reuse= got study 'first', of which no trial can be taken. It ran another code:" in result.stderr
    assert "RATE: 2 -> 3" in result.stderr
    assert "Go back to that code, or leave it out of reuse=." in result.stderr
    assert not (tmp_path / "studies" / "second").exists()


def test_another_metric_is_refused(counted: Counted) -> None:
    first = counted.experiment.tune({"x": [0]}, name="first", **QUIET)
    other = etude.Experiment(counted.experiment.functions["train"], metric="loss", mode="max")
    assert refused(lambda: other.tune({"x": [0]}, reuse=first, **QUIET)) == (
        "reuse= got study 'first', of which no trial can be taken. It measured "
        f"{counted.experiment.metrics!r}, and this one measures {other.metrics!r}. Leave it out of reuse=."
    )


def test_another_seed_is_refused_with_the_one_that_it_had(counted: Counted) -> None:
    first = counted.experiment.tune({"x": [0]}, name="first", seed=3, **QUIET)
    assert refused(lambda: counted.experiment.tune({"x": [0]}, reuse=first, **QUIET)) == (
        "reuse= got study 'first', of which no trial can be taken. Its trials were trained with seed 3. Pass seed=3, "
        "or leave it out of reuse=."
    )


def test_a_simulated_study_neither_gives_nor_takes(counted: Counted) -> None:
    engine = etude.Simulated(curves=lambda params, seed: [(1.0, {"loss": 0.5})])
    quiet = {**QUIET, "engine": engine}
    del quiet["reuse_child"]
    first = counted.experiment.tune({"x": [0]}, name="real", **QUIET)
    assert refused(lambda: counted.experiment.tune({"x": [0]}, reuse=first, **quiet)) == (
        "reuse= was given for a simulated study, whose trials are what its curves say. Leave reuse= out."
    )
    simulated = counted.experiment.tune({"x": [0]}, name="simulated", **quiet)
    assert refused(lambda: counted.experiment.tune({"x": [0]}, reuse=simulated, **QUIET)) == (
        "reuse= got study 'simulated', of which no trial can be taken. It is simulated, and nothing was trained. Leave "
        "it out of reuse=."
    )


def test_what_is_no_study_is_refused(counted: Counted) -> None:
    assert refused(lambda: counted.experiment.tune({"x": [0]}, reuse=[3], **QUIET)) == (  # type: ignore[list-item]
        "reuse= got 3 (int), which is no study. Pass a search, a study's folder or name, or a list of these."
    )
