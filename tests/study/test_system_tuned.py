"""Machines are tuned while studies run: real processes, a real journal, a real history."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from support import facts_of, run_script, running, start_script, wait_for, write_script

import etude
from etude.core.errors import ConfigError
from etude.core.events import Tuned
from etude.core.system import Phase
from etude.system.history import History
from etude.system.meters import best

SCRIPT = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    import etude

    def model(width: int = 16):
        return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))

    def data():
        x = torch.linspace(-1, 1, 8 * 4096).reshape(4096, 8)
        return DataLoader(TensorDataset(x, torch.arange(4096) % 3), batch_size=64, shuffle=True)

    def train(model, data, run, *, lr: float = 0.1, epochs: int = 12):
        net, loader = model(), data()
        optimizer = torch.optim.SGD(net.parameters(), lr=lr)
        run.keep(net=net, optimizer=optimizer)
        for _ in run.epochs(epochs):
            total = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item()
            run.report(loss=total)

    experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")
"""


@pytest.fixture
def experiment(beside_script: Any) -> etude.Experiment:
    """Return the experiment of a script."""
    beside_script(textwrap.dedent(SCRIPT))
    sys.path.insert(0, os.getcwd())
    import script  # type: ignore[import-not-found] # written by the fixture

    found: etude.Experiment = script.experiment
    return found


LOSSLESS = ["loader_workers", "prefetch", "checkpoint_every"]
SPACE = {"lr": [0.1, 0.05]}


@pytest.mark.thorough
def test_a_tuned_study_has_the_values_of_one_that_is_not(experiment: etude.Experiment) -> None:
    plain = experiment.tune(SPACE, sampler="grid", workers=1)
    tuned = experiment.tune(SPACE, sampler="grid", workers=1, name="tuned", system=etude.System(knobs=LOSSLESS))
    assert [trial.curve for trial in tuned.trials] == [trial.curve for trial in plain.trials]
    facts = tuned._history.tuned
    assert [len(facts[n]) for n in (0, 1)] == [12, 12]
    assert any(fact.taken.phase is Phase.PROBE and fact.taken.setting for fact in facts[0])
    assert all(fact.taken.steps == 64 for told in facts.values() for fact in told)
    assert plain._history.tuned == {}


@pytest.mark.thorough
def test_every_decision_is_in_the_journal_with_its_evidence(experiment: etude.Experiment) -> None:
    study = experiment.tune(SPACE, sampler="grid", workers=1, system=True)
    read = etude.open(study.folder)
    assert read._history.tuned == study._history.tuned
    told = [fact.order for fact in read._history.tuned[0]]
    assert all(order.why for order in told)
    assert any("best so far" in order.evidence for order in told if order.phase is Phase.PROBE)
    assert {fact.taken.joules.label for fact in read._history.tuned[0]} <= {"measured", "modelled", "unavailable"}
    assert read.meta["call"]["system"] == {}


def test_the_machines_of_a_study_are_told_beside_what_it_was_for(experiment: etude.Experiment) -> None:
    study = experiment.tune(SPACE, sampler="grid", workers=1, system=True)
    machines = study.machines
    assert [row["trial"] for row in machines.rows()] == [0, 1]
    assert machines.rows()[0]["loss"] == study.trials[0].value
    assert machines.seconds == pytest.approx(sum(row["seconds"] for row in machines.rows()))
    assert set(machines.front) <= {0, 1}
    assert "24 epochs of 2 trials took" in str(machines)
    assert "modelled" in str(machines) or "measured" in str(machines) or "unavailable" in str(machines)


def test_what_a_search_found_is_set_for_the_final_training(experiment: etude.Experiment) -> None:
    study = experiment.tune(SPACE, sampler="grid", workers=1, system=True)
    best = study.best
    facts = study._history.tuned
    assert best.system == facts[1][-1].order.best
    final = experiment.fit(at=best)
    said = (final.meta["call"].get("system") or {}).get("setting", {})
    assert said == best.system


@pytest.mark.thorough
def test_a_setting_may_be_given_and_is_not_tuned(experiment: etude.Experiment) -> None:
    given = etude.System(setting={"loader_workers": 1})
    final = experiment.fit(at={"lr": 0.1}, system=given)
    plain = experiment.fit(at={"lr": 0.1}, name="plain")
    assert final._history.tuned == {}
    assert [t.curve for t in final.trials] == [t.curve for t in plain.trials]


def test_a_plain_call_is_tuned_as_well_and_remembers(
    experiment: etude.Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.run(epochs=12, system=etude.System(history=tmp_path / "history.sqlite"))
    assert "The machine was tuned: " in capsys.readouterr().err
    with History.open(tmp_path / "history.sqlite") as history:
        assert history.export_to(tmp_path / "all.jsonl") == 1


def test_what_a_study_found_is_remembered_and_not_twice(experiment: etude.Experiment, tmp_path: Path) -> None:
    asked = etude.System(history=tmp_path / "history.sqlite")

    def entries() -> int:
        with History.open(tmp_path / "history.sqlite") as history:
            out = tmp_path / "all.jsonl"
            out.unlink(missing_ok=True)
            return history.export_to(out)

    experiment.tune(SPACE, sampler="grid", workers=1, name="one", system=asked)
    first = entries()
    assert 1 <= first <= 2
    experiment.tune(SPACE, sampler="grid", workers=1, name="one", system=asked)  # it is complete
    assert entries() == first


def test_a_history_that_cannot_be_used_is_said_and_stops_nothing(experiment: etude.Experiment, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("this is no history")
    study = experiment.tune(SPACE, sampler="grid", workers=1, system=etude.System(history=tmp_path / "notes.txt"))
    assert study.complete
    assert any("notes.txt" in note for note in study.notes)
    assert (tmp_path / "notes.txt").read_text() == "this is no history"


@pytest.mark.thorough
def test_a_knob_that_changes_training_is_part_of_what_the_study_is(experiment: etude.Experiment) -> None:
    experiment.tune(SPACE, sampler="grid", workers=1, name="one", system=etude.System(knobs=["batch_size"]))
    with pytest.raises(etude.DefinitionChangedError):
        experiment.tune(SPACE, sampler="grid", workers=1, name="one")


def test_what_a_stopped_trial_took_counts_as_well(experiment: etude.Experiment) -> None:
    study = experiment.tune(
        {"lr": etude.uniform(0, 1)},
        trials=5,
        workers=1,
        start=[{"lr": lr} for lr in (0.5, 0.4, 0.3, 0.2, 0.0)],
        stopper=etude.MedianRule(first_after=1),
        system=etude.System(history=False),
    )
    stopped = [trial for trial in study.trials if trial.state == "stopped"]
    assert stopped
    for trial in stopped:
        facts = study._history.tuned[trial.number]
        assert len(facts) == len(trial.reports)  # an epoch a report, the last one among them


def test_energy_that_nothing_tells_is_refused_before_anything_starts(
    experiment: etude.Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = best.first_that_measures([])
    monkeypatch.setattr(best, "best_meter", lambda **_: gone)
    with pytest.raises(ConfigError) as refused:
        experiment.tune(SPACE, sampler="grid", workers=1, system=etude.System(objective="energy"), name="refused")
    assert str(refused.value) == (
        "objective='energy' cannot be made small here, since nothing tells the energy: there is no meter. "
        "Pass objective='time', or the address of a power meter."
    )
    assert not Path("studies/refused").exists()
    with pytest.raises(ConfigError):
        experiment.run(epochs=1, system=etude.System(objective="energy"))


@pytest.mark.thorough
def test_an_ablation_tunes_nothing_that_changes_numbers_by_rounding(experiment: etude.Experiment) -> None:
    study = experiment.ablate(["layer:0"], seeds=2, workers=1, system=True, force=True, controls=False)
    knobs = {
        name
        for told in study._history.tuned.values()
        for f in told
        if f.taken.choices
        for name in f.taken.choices.knobs
    }
    assert knobs
    assert not knobs & {"threads", "cores", "channels_last", "compile"}


def test_several_ranks_are_set_alike_and_come_to_the_same(experiment: etude.Experiment) -> None:
    tuned = experiment.fit(at={"lr": 0.1, "epochs": 8}, ranks=2, system=etude.System(knobs=LOSSLESS, ledger=False))
    plain = experiment.fit(at={"lr": 0.1, "epochs": 8}, ranks=2, name="plain")
    assert [t.curve for t in tuned.trials] == [t.curve for t in plain.trials]
    assert len(tuned._history.tuned[0]) == 8  # one rank speaks for both
    assert any(fact.taken.setting for fact in tuned._history.tuned[0])


@pytest.mark.thorough
def test_a_study_whose_driver_is_killed_goes_on_with_what_it_had_found(tmp_path: Path) -> None:
    ending = """
    if __name__ == "__main__":
        experiment.tune(
            {"lr": [0.1, 0.05]}, sampler="grid", workers=1, name="killed",
            system=etude.System(knobs=["loader_workers", "prefetch"], history="h.sqlite", probes=3),
        )
    """
    path = write_script(tmp_path, textwrap.dedent(SCRIPT) + textwrap.dedent(ending))
    folder = tmp_path / "studies" / "killed"

    def facts() -> list[Tuned]:
        return facts_of(folder, Tuned) if (folder / "journal.sqlite").exists() else []

    with running(start_script(path)) as process:
        wait_for(lambda: len(facts()) >= 6)
        process.kill()
    before = facts()
    run_script(path)
    after = facts()
    assert after[: len(before)] == before
    assert len(after) > len(before)
    last = before[-1]
    again = [fact for fact in after if (fact.trial, fact.attempt) == (last.trial, last.attempt + 1)]
    assert again[0].taken.phase is last.order.phase  # it goes on with what was ordered, and profiles nothing anew
    assert again[0].taken.setting == last.order.setting
    assert etude.open(folder).complete


@pytest.mark.parametrize(
    ("system", "said"),
    [
        (3, "system=3 (int) cannot be. Pass True, or etude.System"),
        ({"knob": ["threads"]}, "system= got 'knob', which etude.System does not know."),
        ({"best": "accuracy, then time"}, "best='accuracy, then time' names 'accuracy', and the metric is 'loss'."),
        ({"knobs": ["pin_memory"]}, "'pin_memory' cannot be tuned here: no GPU is in use."),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_anything_starts(
    experiment: etude.Experiment, system: Any, said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        experiment.tune(SPACE, sampler="grid", workers=1, system=system, name="refused")
    assert said in str(refused.value)
    assert not Path("studies/refused").exists()


def test_a_simulated_study_has_no_machine_to_tune(experiment: etude.Experiment) -> None:
    with pytest.raises(ConfigError, match="whose trials run on no machine"):
        experiment.tune(
            SPACE,
            trials=2,
            system=True,
            engine=etude.Simulated(curves=lambda params, seed: iter([(1.0, {"loss": 1.0})])),
        )
