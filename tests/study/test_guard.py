"""Weights that know what a training is judged by are refused, and both parts can be trained on: whole studies."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude
from etude.core.errors import ConfigError
from etude.frameworks import state_file
from etude.results.finding import studies_folder

ROWS = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
ROWS[150:] = ROWS[:50]  # as real data sets have, there are rows that stand twice


def model(width: int = 4) -> nn.Module:
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))


def labelled(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return rows, (rows.sum(1) > 0).long()


def by_seed(seed: int) -> etude.Data:
    """Split at random, so that each seed has another split."""
    order = torch.randperm(200, generator=torch.Generator().manual_seed(seed))
    train, valid, test = (labelled(ROWS[order[part]]) for part in (slice(120), slice(120, 160), slice(160, 200)))
    return etude.Data(train, valid, test)


def fixed() -> etude.Data:
    return by_seed(7)


def train(model, data, run, lr: float = 0.1, epochs: int = 2):
    net, parts = model(), data()
    (x, y), judged = parts.train, parts.valid if parts.valid is not None else parts.test
    run.log(f"trains on {len(x)} rows, and has {'no valid' if parts.valid is None else 'valid'}")
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    run.keep(net=net, optimizer=optimizer)
    for _ in run.epochs(epochs):
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            run.report(loss=float(nn.functional.cross_entropy(net(judged[0]), judged[1])))


def make(data: Any = by_seed, train: Any = train) -> etude.Experiment:
    return etude.Experiment(train, model=model, data=data, metric="loss", mode="min")


def find(experiment: etude.Experiment, **options: Any) -> etude.Search:
    given = {"workers": 1, "sampler": "grid", "stopper": "none", "name": "found", **options}
    return experiment.tune({"lr": [0.1]}, **given)


def about_rows(study: etude.Search) -> list[str]:
    return [note for note in study.notes if "rows" in note]


# --- the guard ------------------------------------------------------------------------------------


def test_a_split_that_hangs_on_the_seed_is_seen_before_anything_starts(capfd: pytest.CaptureFixture[str]) -> None:
    best = find(make(), seed=3).best
    with pytest.raises(ConfigError) as refused:
        make().fit(at=best, weights=best.weights, seed=1, name="refused")
    said = str(refused.value)
    assert " different rows of valid were used to train epoch 2 of trial 0 of found, or what it grew from: " in said
    assert said.endswith("Or begin with weights='random'.")
    assert not (best.folder.parents[3] / "refused").exists()
    allowed = make().fit(at=best, weights=best.weights, seed=3, name="allowed")
    assert allowed.complete
    assert about_rows(allowed) == []
    random = make().fit(at=best, seed=1, name="random")
    assert random.complete


def test_each_trial_looks_at_the_split_that_its_own_seed_makes() -> None:
    best = find(make()).best
    final = make().fit(at=best, weights=best.weights, seeds=[0, 1], name="two", workers=1)
    first, second = final.trials
    assert first.state == "finished"
    assert (second.state, second.how, second.attempts) == ("failed", "unusable", 1)
    assert "different rows of valid were used to train epoch 2 of trial 0 of found" in second.reason
    with pytest.raises(etude.StudyError, match=r"Of 4 runs, \[3\] did not come to their end"):
        etude.compare_starts(make(), at=best, starts=[best.weights], seeds=2, workers=1)
    with pytest.raises(ConfigError, match="different rows of valid were used to train"):
        etude.compare_starts(make(), at=best, starts=[best.weights], seeds=[1], workers=1)


def test_a_few_rows_in_common_are_noted_once() -> None:
    many = torch.randn(3000, 4, generator=torch.Generator().manual_seed(1))

    def before() -> etude.Data:
        return etude.Data(labelled(many[:1003]), labelled(many[1003:1100]))

    def now() -> etude.Data:
        return etude.Data(labelled(many[1100:2000]), labelled(many[1000:1003]), labelled(many[2000:]))

    def later() -> etude.Data:
        return etude.Data(labelled(many[1100:2000]), None, labelled(torch.cat([many[:5], many[2000:]])))

    best = find(make(before)).best
    with pytest.raises(ConfigError, match=r"^100 % of the 3 different rows of valid were"):
        make(now).fit(at=best, weights=best.weights, name="refused")
    final = make(later).fit(at=best, weights=best.weights, seeds=2, name="noted")
    assert final.complete
    assert about_rows(final) == [
        "0.5 % of the 1,005 different rows of test were used to train or to choose epoch 2 of trial 0 of found, or "
        "what it grew from; up to 1 % is let pass."
    ]


def test_what_weights_have_seen_goes_on_to_all_that_grow_from_them(tmp_path: Path) -> None:
    best = find(make()).best
    first = make().fit(at=best, weights=best.weights, name="first")
    path = first.save(tmp_path / "first.safetensors")
    assert json.loads(state_file.metadata_of(path)["ancestors"])

    def elsewhere() -> etude.Data:
        return etude.Data(labelled(ROWS[:1] + 1), labelled(by_seed(0).train[0][:10]))

    for n, weights in enumerate(
        (path, first.best.weights.shrunk(), etude.soup([first.best, best]), first.best.weights.at("last"))
    ):
        with pytest.raises(ConfigError, match="100 % of the 10 different rows of valid"):
            make(elsewhere).fit(at=best, weights=weights, name=f"refused-{n}")
    other = make(lambda: etude.Data(labelled(ROWS + 1), labelled(ROWS - 1))).fit(
        at=best, weights=path.rename(tmp_path / "moved.safetensors"), name="second"
    )
    assert about_rows(other) == []
    with pytest.raises(ConfigError, match=r"were used to train epoch \d of trial 0 of second, or what it grew"):
        make(elsewhere).fit(at=best, weights=other.weights, name="third")


class Changing(torch.utils.data.Dataset[Any]):
    """A data set with another row each time."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, n: int) -> torch.Tensor:
        return torch.rand(4)


@pytest.mark.thorough
def test_what_nobody_can_tell_is_noted_once_and_never_refused(tmp_path: Path) -> None:
    def changing() -> etude.Data:
        return etude.Data(DataLoader(Changing()), labelled(ROWS + 1))

    def plain(model, data, run, lr: float = 0.1):
        return train(model, lambda: etude.Data(labelled(ROWS), labelled(ROWS)), run, lr)

    def told(why: str) -> list[str]:
        known = f"Whether {name} saw rows that this training validates or tests on cannot be told"
        return [f"{known}: where they are from, {why}."]

    name = "epoch 2 of trial 0 of found"
    search = find(make(changing, lambda model, data, run, lr=0.1: (data(), plain(model, data, run, lr))[1]))
    final = make().fit(at={"lr": 0.1}, weights=search.best.weights, seeds=2, name="one")
    assert about_rows(final) == told(
        "of its train part, Changing is a data set whose rows may be others each time that they are asked for"
    )
    name, tuples = "epoch 2 of trial 0 of tuples", lambda: (labelled(ROWS), labelled(ROWS))
    search = find(make(tuples, plain), name="tuples")
    final = make().fit(at={"lr": 0.1}, weights=search.best.weights, name="two")
    assert about_rows(final) == told("the training function asked for no data()")
    name = str(tmp_path / "net.safetensors")
    safetensors.torch.save_file(model().state_dict(), name)
    final = make().fit(at={"lr": 0.1}, weights=name, name="three")
    assert about_rows(final) == told("their file does not say what rows they were trained on")


def test_the_data_function_is_called_here_only_if_there_is_something_to_compare() -> None:
    calls: list[int] = []

    def counted(seed: int) -> etude.Data:
        calls.append(seed)  # in this process; trials have lists of their own
        return by_seed(seed)

    best = find(make(counted)).best
    make(counted).fit(at=best, name="random")
    assert calls == []
    make(counted).fit(at=best, weights=best.weights, name="warm")
    assert calls == [0]


def test_data_that_this_process_cannot_have_is_left_to_the_trials() -> None:
    here = os.getpid()

    def only_there(seed: int) -> etude.Data:
        if os.getpid() == here:
            raise FileNotFoundError("/data is not mounted here")
        return by_seed(seed)

    best = find(make(only_there)).best
    final = make(only_there).fit(at=best, weights=best.weights, seeds=[0, 1], workers=1, name="elsewhere")
    assert [trial.state for trial in final.trials] == ["finished", "failed"]
    assert about_rows(final) == [
        "data() failed in this process (FileNotFoundError: /data is not mounted here), so its rows are looked at by "
        "each trial alone, when it runs."
    ]
    with pytest.raises(
        etude.StudyError, match="different rows of valid were used to train epoch 2 of trial 0 of found"
    ):
        make(only_there).fit(at=best, weights=best.weights, seed=1, name="alone")


def test_a_trial_that_takes_up_a_state_knows_what_those_saw_who_made_it() -> None:
    def budgeted(epochs: int) -> etude.Data:
        n = 10 * epochs
        return etude.Data(labelled(ROWS[100 : 100 + n]), labelled(ROWS[60:100]))

    def goes_on(model, data, run, lr: float = 0.1, epochs: int = 1):
        return train(model, data, run, lr, epochs)

    search = make(budgeted, goes_on).tune(
        {"lr": etude.loguniform(0.05, 0.2)},
        trials=4,
        workers=1,
        sampler="random",
        stopper="asha",
        fidelity="epochs",
        budget=(1, 3),
        keep=5,
        name="promoted",
    )
    promoted = next(trial for trial in search.trials if trial.promotes is not None)
    seen = promoted.weights.seen()
    assert seen.trained is not None
    assert len(seen.trained.least) == 30
    assert seen.unknown == ()


def test_arrays_that_training_changes_are_known_as_data_gave_them() -> None:
    def scales(model, data, run, lr: float = 0.1):
        parts = data()
        parts.train[0].mul_(3)
        parts.valid[0].mul_(3)
        train(model, lambda: parts, run, lr)

    best = find(make(by_seed, scales)).best
    with pytest.raises(ConfigError, match="different rows of valid were used to train epoch"):
        make(by_seed, scales).fit(at=best, weights=best.weights, seed=1, name="refused")


# --- both parts -----------------------------------------------------------------------------------


def test_both_parts_are_trained_on_and_the_function_gets_no_validation_part() -> None:
    best = find(make(fixed)).best
    final = make(fixed).fit(at=best, on="train+valid", weights=best.weights, name="both")
    assert final.trials[0].log.read_text().startswith("trains on 160 rows, and has no valid")
    assert final.complete
    assert about_rows(final) == []
    assert list(final.weights.kept) == ["last"], "the best epoch would be the one that is best on test data"
    usual = make(fixed).fit(at=best, name="usual")
    assert sorted(usual.weights.kept) == ["best", "last"]
    assert usual.trials[0].log.read_text().startswith("trains on 120 rows, and has valid")
    assert (final.meta["question"]["on"], final.meta["definition"]["on"]) == ("train+valid", "train+valid")
    again = make(fixed).fit(at=best, on="train+valid", weights=best.weights, name="both")
    assert [t.started_at for t in again.trials] == [t.started_at for t in final.trials]
    with pytest.raises(etude.DefinitionChangedError):
        make(fixed).fit(at=best, on="train", weights=best.weights, name="both")
    seen = final.weights.seen()
    assert seen.trained is not None
    assert len(seen.trained.least) == len(torch.unique(torch.cat([fixed().train[0], fixed().valid[0]]), dim=0))


def test_the_test_part_is_guarded_as_well_when_both_are_trained_on() -> None:
    best = find(make()).best
    with pytest.raises(ConfigError, match="different rows of test were used to train or to choose epoch 2"):
        make().fit(at=best, on="train+valid", weights=best.weights, seed=5, name="refused")


def test_loaders_of_both_parts_go_through_a_trial() -> None:
    def loaders() -> etude.Data:
        parts = [TensorDataset(*labelled(ROWS[part])) for part in (slice(100), slice(100, 150), slice(150, 200))]
        return etude.Data(*(DataLoader(part, batch_size=32, shuffle=n == 0) for n, part in enumerate(parts)))

    def counts(model, data, run):
        found = data()
        rows = sum(len(x) for x, _ in found.train)
        return {
            "loss": 1.0,
            "rows": rows,
            "valid": found.valid is None,
            "first": float(next(iter(found.train))[0].sum()),
        }

    final = make(loaders, counts).fit(on="train+valid", name="loaders")
    assert (final.best.metrics["rows"], final.best.metrics["valid"]) == (150, True)
    again = make(loaders, counts).fit(on="train+valid", name="again")
    assert again.best.metrics["first"] == final.best.metrics["first"]
    other = make(loaders, counts).fit(on="train+valid", seed=1, name="other")
    assert other.best.metrics["first"] != final.best.metrics["first"]


def test_what_cannot_be_one_is_refused_before_anything_starts() -> None:
    def two() -> etude.Data:
        return etude.Data(labelled(ROWS[:100]), labelled(ROWS[100:]))

    def no_data(model, run, lr: float = 0.1):
        return 0.0

    with pytest.raises(ConfigError, match=r"without test: nothing would be left to judge the model by"):
        make(two).fit(on="train+valid", name="refused")
    with pytest.raises(ConfigError, match=r"got \(tensor"):
        make(lambda: labelled(ROWS)).fit(on="train+valid", name="refused")
    with pytest.raises(ConfigError, match="Join them yourself"):
        make(lambda: etude.Data(iter([1]), iter([2]), [3])).fit(on="train+valid", name="refused")
    with pytest.raises(ConfigError, match="the experiment has no data function"):
        etude.Experiment(no_data, model=model, metric="loss", mode="min").fit(on="train+valid", name="refused")
    with pytest.raises(ConfigError, match=r"on='all' \(str\) is no part of the data to train on"):
        make().fit(on="all", name="refused")  # type: ignore[arg-type]
    assert not (studies_folder() / "refused").exists()


def test_what_cannot_be_one_in_a_trial_alone_is_unusable_there_and_not_tried_again() -> None:
    def sometimes(seed: int) -> etude.Data:
        found = by_seed(seed)
        return etude.Data(found.train, found.valid, found.test if seed == 0 else None)

    final = make(sometimes).fit(on="train+valid", seeds=[0, 1], workers=1, name="sometimes")
    failed = final.trials[1]
    assert (failed.how, failed.attempts) == ("unusable", 1)
    assert failed.reason.startswith("on='train+valid' got Data(train=..., valid=...) from data(), without test")
