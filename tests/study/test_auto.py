"""Final trainings that probes choose the weights of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude
from etude.core.errors import ConfigError, StudyError

BATCHES = 12


def model() -> nn.Module:
    return nn.Linear(3, 1)


def data() -> etude.Data:
    x = torch.randn(BATCHES * 4, 3, generator=torch.Generator().manual_seed(0))
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]])
    examples = TensorDataset(x, y)
    return etude.Data(DataLoader(examples, batch_size=4, shuffle=True), DataLoader(examples, batch_size=16))


def train(model, data, run, lr: float = 0.05, epochs: int = 3, wrong: float = 0.0, reports: bool = True):
    net, (train, valid) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    run.keep(net=net, optimizer=optimizer)
    run.log("length", len(train))
    for _ in run.epochs(epochs):
        seen = 0
        for x, y in train:
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
            seen += 1
        run.log("batches", seen)
        with torch.no_grad():
            loss = float(torch.cat([(net(x) - y) ** 2 for x, y in valid]).mean())
        if reports:
            run.report(score=-loss + wrong, val_loss=loss)
    return {"score": -loss}


def make(function: Callable[..., Any] = train) -> etude.Experiment:
    return etude.Experiment(function, model=model, data=data, metric="score", mode="max")


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> etude.Search:
    folder = tmp_path_factory.mktemp("searched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ETUDE_STUDIES", str(folder))
        return make().tune({"lr": [0.003, 0.05]}, trials=2, workers=1, sampler="grid", stopper="none")


def batches(trial: etude.TrialResult) -> list[int]:
    return [int(line.split()[1]) for line in trial.log.read_text().splitlines() if line.startswith("batches")]


def test_the_best_probe_says_what_a_training_begins_with(search: etude.Search) -> None:
    final = make().fit(at=search.best, weights="auto", seed=5)
    assert [trial.start for trial in final.probes] == [
        None,
        f"epoch 3 of trial {search.best.number} of {search.name}",
        f"epoch 3 of trial {search.best.number} of {search.name}, shrunk to 0.4 and perturbed by 0.1",
        final.probes[3].start,
    ]
    assert str(final.probes[3].start).startswith("the mean of ")
    (trained,) = [trial for trial in final.trials if trial.probe is None]
    said = [probe.probe["reported"]["val_loss"] for probe in final.probes if probe.probe is not None]
    chosen = final.probes[said.index(min(said))]
    assert trained.start == chosen.start
    assert final.chosen == trained.because
    assert final.chosen.startswith(f"{chosen.start}: best of 4 by val_loss after 0.083 of an epoch (")
    assert f"Begins with {final.chosen}" in final.summary()
    assert final.best.number == trained.number
    weights = {1: search.best.weights, 2: search.best.weights.shrunk(), 3: etude.soup(search.top(2))}[chosen.number]
    by_hand = make().fit(at=search.best, weights=weights, seed=5)
    assert by_hand.best.curve == trained.curve, "a training that probes chose for is like any other"


def test_probes_take_a_batch_at_least_and_leave_no_states(search: etude.Search) -> None:
    final = make().fit(at=search.best, weights="auto")
    assert [batches(probe) for probe in final.probes] == [[1], [1], [1], [1]]
    assert all(probe.log.read_text().startswith(f"length {BATCHES}") for probe in final.probes)
    assert [probe.state for probe in final.probes] == ["stopped"] * 4
    assert batches(final.best) == [BATCHES] * 3
    kept = {int(path.parts[-4]) for path in final.folder.glob("trials/*/attempt-[1-9]*/checkpoints/*")}
    assert kept == {final.best.number}


@pytest.mark.parametrize(("share", "portion"), [(0.05, 0.5), (1.0, 1.0)])
def test_probes_share_a_part_of_the_training(search: etude.Search, share: float, portion: float) -> None:
    final = make().fit(at={"epochs": 20}, weights=etude.Auto(candidates=[search.best.weights], share=share))
    assert [batches(probe) for probe in final.probes] == [[BATCHES * portion]] * 2
    assert [probe.probe and probe.probe["portion"] for probe in final.probes] == [portion] * 2
    assert len(batches(final.best)) == 20


def test_harmful_weights_are_not_taken(search: etude.Search, tmp_path: Path) -> None:
    import safetensors.torch

    bad = tmp_path / "bad.safetensors"
    safetensors.torch.save_file({"weight": torch.full((1, 3), 50.0), "bias": torch.tensor([50.0])}, bad)
    final = make().fit(at=search.best, weights=etude.Auto(candidates=[bad]))
    assert final.best.start is None
    assert final.chosen.startswith("random: best of 2 by val_loss after 0.083 of an epoch (random ")


def test_weights_that_have_memorised_are_taken_shrunk(search: etude.Search) -> None:
    """They do best in their probe; but they go on badly from there, if their training loss says so."""

    def searched(train_loss: float) -> etude.Search:
        return make(memorising).tune({"train_loss": [train_loss]}, workers=1, sampler="grid", stopper="none")

    for train_loss, taken in ((0.0, 2), (1e6, 1)):
        best = searched(train_loss).best
        final = make(memorising).fit(
            at=best, weights=etude.Auto(candidates=[best.weights, best.weights.shrunk(0.9, 0.0)])
        )
        assert final.best.start == final.probes[taken].start
        assert ("has memorised its examples (train_loss 0, val_loss" in final.chosen) == (taken == 2)


def memorising(model, data, run, train_loss: float = 0.0):
    net, (train, valid) = model(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    run.keep(net=net)
    for _ in run.epochs(3):
        for x, y in train:
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            loss = float(torch.cat([(net(x) - y) ** 2 for x, y in valid]).mean())
        run.report(train_loss=train_loss)
        run.report(score=-loss, val_loss=loss)


def test_each_seed_begins_with_what_the_probes_of_the_first_chose(search: etude.Search) -> None:
    final = make().fit(at=search.best, weights=etude.Auto(candidates=[search.best.weights]), seeds=2, workers=2)
    trained = [trial for trial in final.trials if trial.probe is None]
    assert [trial.seed for trial in trained] == [0, 1]
    assert len({trial.start for trial in trained}) == 1
    assert {trial.seed for trial in final.probes} == {0}
    files = [path.relative_to(final.folder) for path in final.folder.rglob("attempt-0/*")]
    assert files == [Path("trials/00001/attempt-0/weights.safetensors")], "one file, for all that begin with it"


def test_the_same_call_goes_on_and_another_candidate_is_another_study(search: etude.Search) -> None:
    def fit(*candidates: object) -> etude.Fit:
        return make().fit(at=search.best, weights=etude.Auto(candidates=candidates))

    first = fit(search.best.weights)
    assert fit(search.best.weights).folder == first.folder
    assert len(fit(search.best.weights).trials) == 3
    assert fit(search.best.weights.shrunk()).folder != first.folder
    assert isinstance(etude.open(first.folder), etude.Fit)
    assert etude.open(first.folder).chosen == first.chosen  # type: ignore[attr-defined] # as was asserted


def test_what_reports_nothing_cannot_be_probed(search: etude.Search) -> None:
    with pytest.raises(StudyError, match="goes by what is reported after the first epoch, and 'score' was not"):
        make().fit(at={"reports": False}, weights=etude.Auto(candidates=[search.best.weights]))


def own_loop(model, data, run):
    train, _ = data()
    for _ in range(3):
        run.log("batches", sum(1 for _ in train))
        run.report(score=0.0)
    return 0.0


def test_a_loop_of_ones_own_is_cut_short_as_well(search: etude.Search) -> None:
    final = make(own_loop).fit(weights=etude.Auto(candidates=[search.best.weights], share=1))
    assert [batches(probe) for probe in final.probes] == [[6], [6]]
    assert batches(final.best) == [BATCHES] * 3


def no_loader() -> etude.Data:
    return etude.Data(torch.zeros(4, 3), torch.zeros(4, 3))


def on_arrays(model, data, run, epochs: int = 3):
    net, (train, _) = model(), data()
    for _ in run.epochs(epochs):
        run.report(score=float(net(train).sum()))


def over_tensors(model, data, run):
    for _ in range(3):
        run.log("batches", 1)
        run.report(score=0.0)
    return 0.0


def test_a_loop_of_ones_own_without_loaders_is_probed_for_an_epoch(search: etude.Search) -> None:
    experiment = etude.Experiment(over_tensors, model=model, data=no_loader, metric="score", mode="max")
    final = experiment.fit(weights=etude.Auto([search.best.weights]))
    assert [batches(probe) for probe in final.probes] == [[1], [1]]
    assert [probe.probe and probe.probe["portion"] for probe in final.probes] == [1.0, 1.0]
    assert batches(final.best) == [1, 1, 1]


def peeking(model, data, run, epochs: int = 2):
    net, (train, valid) = model(), data()
    next(iter(train))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in run.epochs(epochs):
        for x, y in run.steps(train):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            seen = [float(nn.functional.mse_loss(net(x), y)) for x, y in train]  # once more, before the report
            run.log("batches", len(seen))
            for x, y in valid:
                run.report(score=-float(nn.functional.mse_loss(net(x), y)))  # several times in an epoch


def test_a_loader_may_be_looked_at_and_gone_through_again_before_the_report(search: etude.Search) -> None:
    final = make(peeking).fit(weights=etude.Auto([search.best.weights]))
    assert [batches(probe) for probe in final.probes] == [[1], [1]]
    assert [len(probe.curve) for probe in final.probes] == [3, 3]
    assert [probe.attempts for probe in final.probes] == [1, 1]


def test_a_judge_that_nobody_reported_is_refused(search: etude.Search) -> None:
    with pytest.raises(
        StudyError, match=r"judge='valid_loss'\) is not among what the probes reported: score, val_loss"
    ):
        make().fit(at=search.best, weights=etude.Auto(judge="valid_loss"))


def test_arrays_cannot_be_cut_short(search: etude.Search) -> None:
    experiment = etude.Experiment(on_arrays, model=model, data=no_loader, metric="score", mode="max")
    with pytest.raises(StudyError, match=r"0\.015 of the first epoch of 3.*no PyTorch loader.*Auto\(share=0\.67\)"):
        experiment.fit(weights=etude.Auto(candidates=[search.best.weights]))
    assert experiment.fit(weights=etude.Auto(candidates=[search.best.weights], share=0.67)).complete


def test_calls_that_cannot_be(search: etude.Search) -> None:
    with pytest.raises(ConfigError, match="chooses between weights of the trial at=, and at= is none"):
        make().fit(at={"lr": 0.1}, weights="auto")
    assert make().fit(at={"lr": 0.1}, weights=etude.Auto(search.best)).best.params == {"lr": 0.1}
    with pytest.raises(ConfigError, match="probes would choose the weights by the test part"):
        make().fit(at=search.best, weights="auto", on="train+valid")
    with pytest.raises(ConfigError, match="is no share of a run"):
        make().fit(at=search.best, weights=etude.Auto(share=0))
    with pytest.raises(ConfigError, match="is no list of weights"):
        make().fit(at=search.best, weights=etude.Auto(candidates=[]))
    with pytest.raises(ConfigError, match=r"none of the metrics \(score\) and no loss"):
        make().fit(at=search.best, weights=etude.Auto(judge="f1"))


def test_a_fit_says_how_soon_it_reached_a_target_on_three_clocks(search: etude.Search) -> None:
    final = make().fit(at=search.best, weights=etude.Auto([search.best.weights]), seeds=2)
    first, second = (trial for trial in final.trials if trial.probe is None)
    assert first.start == f"epoch 3 of trial {search.best.number} of {search.name}"
    aim = first.curve[1]
    times = final.times_to(aim, share=0.5, validated=0.3, steps_per_epoch=BATCHES)
    assert (times.runs, times.missed) == (2, 0)
    reached = [1 + next(n for n, value in enumerate(trial.curve) if value >= aim) for trial in (first, second)]
    sunk = sum(reached) / 2
    probes = 2 / BATCHES
    paid = 3 * (0.5 + 0.3 / 3)
    assert times.on["sunk", "epochs"].mean == sunk
    assert times.on["sunk", "steps"].mean == BATCHES * sunk
    assert times.on["marginal", "epochs"].mean == pytest.approx(sunk + probes)
    assert times.on["charged", "steps"].mean == pytest.approx(BATCHES * (sunk + probes + paid))
    assert 0 < times.on["sunk", "seconds"].mean < 60
    assert str(times).splitlines()[0].startswith(f"{aim:g} was reached by 2 of 2")
    assert [line.split()[0] for line in str(times).splitlines()[1:]] == ["sunk", "marginal", "charged"]
    assert str(times).splitlines()[3].split()[-1] == "-", "nobody knows what the inherited epochs took"
    missed = final.times_to(1.0)
    assert (missed.missed, missed.on["sunk", "epochs"].mean) == (2, 3.0)
