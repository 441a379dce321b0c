"""Final trainings: from random weights, and from those of a search."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from torch import nn

import etude
from etude.core.errors import ConfigError, StateError

WIDTH = {"width": [8], "lr": etude.loguniform(0.01, 0.2)}


def model(width: int = 8) -> nn.Module:
    return nn.Sequential(nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 2))


def data() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    return x, (x.sum(1) > 0).long()


def train(model, data, run, lr: float, epochs: int = 3, fresh: bool = False):
    net, (x, y) = model(), data()
    run.log(f"begins with {net[0].weight.sum().item():.6f}")
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    run.keep(net=net, optimizer=optimizer)
    for _ in run.epochs(epochs):
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.report(loss=float(loss))


def make(of: Any = model) -> etude.Experiment:
    return etude.Experiment(train, model=of, data=data, metric="loss", mode="min")


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> etude.Search:
    """One for all tests, which read it alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ETUDE_STUDIES", str(tmp_path_factory.mktemp("searched")))
        return make().tune(
            WIDTH, trials=3, workers=1, sampler="random", stopper="none", keep=etude.Keep(epochs=("last", 2))
        )


def begun_with(trial: Any) -> float:
    return float(trial.log.read_text().split()[2])


def test_without_weights_it_is_a_trial_like_any_other() -> None:
    final = make().fit(at={"lr": 0.1}, seed=4)
    assert final.complete
    assert final.trials[0].params == {"lr": 0.1}
    assert final.trials[0].start is None
    run = make().fit(at={"lr": 0.1}, seed=4, name="again")
    assert run.value == final.value
    assert make().fit(at={"lr": 0.1}, seed=5).value != final.value


def test_a_final_training_begins_with_the_weights_of_the_winner(search: etude.Search) -> None:
    best = search.best
    there = best.weights.load()["net"]
    final = make().fit(at=best, weights=best.weights)
    assert begun_with(final.trials[0]) == pytest.approx(float(there["0.weight"].sum()), abs=1e-5)
    assert final.trials[0].start == f"epoch 3 of trial {best.number} of {search.name}"
    assert final.trials[0].curve[0] < best.curve[0], "it goes on where the other was"


def test_other_epochs_can_be_named(search: etude.Search) -> None:
    weights = search.best.weights
    assert (weights.at(2).epoch, weights.at("last").epoch, weights.at(3).epoch) == (2, 3, 3)
    assert not torch.equal(weights.at(2).load()["net"]["0.weight"], weights.load()["net"]["0.weight"])
    with pytest.raises(
        ConfigError, match=r"kept no weights of epoch 1\. There are 2 \(epoch 2\), 'last' \(epoch 3\)\."
    ):
        weights.at(1)


def test_shrunk_weights_are_between_those_and_random_ones(search: etude.Search) -> None:
    best = search.best
    random = make().fit(at=best, seed=9, name="random")
    shrunk = make().fit(at=best, seed=9, weights=best.weights.shrunk(0.4, 0.1), name="shrunk")
    there = float(best.weights.load()["net"]["0.weight"].sum())
    expected = 0.4 * there + 0.1 * begun_with(random.trials[0])
    assert begun_with(shrunk.trials[0]) == pytest.approx(expected, abs=1e-4)
    assert "shrunk to 0.4 and perturbed by 0.1" in str(shrunk.trials[0].start)


@pytest.mark.parametrize(("shrink", "perturb"), [(1.1, 0.1), (math.nan, 0.1), (0.5, -1), ("half", 0)])
def test_shares_that_cannot_be_are_refused(shrink: Any, perturb: Any, search: etude.Search) -> None:
    with pytest.raises(ConfigError):
        search.best.weights.shrunk(shrink, perturb)


def test_a_soup_is_the_mean_and_whole_numbers_are_the_first_ones(search: etude.Search) -> None:
    top = search.top(3)
    mean = etude.soup(top).load()["net"]
    each = [trial.weights.load()["net"] for trial in top]
    assert torch.allclose(mean["0.weight"], sum(one["0.weight"] for one in each) / 3)
    assert mean["1.num_batches_tracked"] == each[0]["1.num_batches_tracked"]
    final = make().fit(at=top[0], weights=etude.soup(top))
    assert begun_with(final.trials[0]) == pytest.approx(float(mean["0.weight"].sum()), abs=1e-5)


def test_a_soup_of_different_shapes_is_refused() -> None:
    search = make().tune({"width": [4, 8], "lr": [0.1]}, workers=1, sampler="grid", stopper="none")
    with pytest.raises(StateError, match="Mix trials of one architecture"):
        make().fit(at=search.best, weights=etude.soup(search.top(2)))


def test_a_greedy_soup_takes_what_makes_it_no_worse(search: etude.Search) -> None:
    """Models are scored by how near a weight is to a wanted one, which lies between those of two of the trials."""
    by_weight = sorted(search.trials, key=lambda trial: float(trial.weights.load()["net"]["0.weight"][0, 0]))
    first, second, third = (float(trial.weights.load()["net"]["0.weight"][0, 0]) for trial in by_weight)
    wanted, seen = (first + second) / 2, []

    def far(net: nn.Module) -> float:
        seen.append(net.training)
        return abs(float(net[0].weight[0, 0].detach()) - wanted)  # type: ignore[index] # it is a Sequential

    mixed = etude.soup(search.trials, score=far, mode="min")
    assert [one.name for one in mixed.of] in ([t.weights.name for t in p] for p in (by_weight[:2], by_weight[1::-1]))
    assert float(mixed.load()["net"]["0.weight"][0, 0]) == pytest.approx(wanted, abs=1e-6)
    assert seen == [False] * 5
    wanted = third + 10
    assert [one.name for one in etude.soup(search.trials, score=far, mode="min").of] == [by_weight[2].weights.name]
    assert len(etude.soup(search.trials, score=lambda net: math.nan).of) == 1, "nothing shows that mixing helps"


def test_scores_that_cannot_be(search: etude.Search) -> None:
    with pytest.raises(ConfigError, match="gave no number"):
        etude.soup(search.top(2), score=lambda net: "good")  # type: ignore[arg-type, return-value] # that is the point
    with pytest.raises(ConfigError, match="weights alone have none"):
        etude.soup([search.best.weights], score=lambda net: 1.0)
    with pytest.raises(ConfigError, match="says neither"):
        etude.soup(search.top(2), score=lambda net: 1.0, mode="best")  # type: ignore[arg-type] # that is the point


def test_weights_of_another_shape_are_loaded_in_part_and_that_is_said(
    search: etude.Search, capsys: pytest.CaptureFixture[str]
) -> None:
    final = make().fit(at={"lr": 0.1, "width": 16}, weights=search.best.weights)
    assert final.complete
    said = capsys.readouterr().err
    assert "The model begins with a part of epoch 3 of trial" in said
    assert "2 of 9 tensors loaded; of another shape: 0.weight" in said


def test_weights_that_do_not_fit_at_all_are_refused_before_anything_starts(
    search: etude.Search, tmp_path: Path
) -> None:
    def other() -> nn.Module:
        return nn.Conv2d(1, 1, 3)

    with pytest.raises(StateError, match="do not fit the model at all"):
        make(other).fit(at={"lr": 0.1}, weights=search.best.weights, name="refused")
    assert not (search.folder.parent / "refused").exists()


def test_weights_from_elsewhere(tmp_path: Path) -> None:
    torch.manual_seed(3)
    net = model()
    path = tmp_path / "net.safetensors"
    safetensors.torch.save_file(net.state_dict(), path)
    final = make().fit(at={"lr": 0.1}, weights=path)
    assert begun_with(final.trials[0]) == pytest.approx(net[0].weight.sum().item(), abs=1e-5)
    (tmp_path / "torch.pt").write_bytes(b"PK\x03\x04 something that torch pickled")
    with pytest.raises(StateError, match="is no safetensors file"):
        make().fit(at={"lr": 0.1}, weights=tmp_path / "torch.pt")
    with pytest.raises(ConfigError, match="there is no such file"):
        make().fit(at={"lr": 0.1}, weights=tmp_path / "nowhere.safetensors")
    with pytest.raises(ConfigError, match="is no weights"):
        make().fit(at={"lr": 0.1}, weights=3)


def test_a_trials_model_is_rebuilt_in_one_line(search: etude.Search) -> None:
    net = search.best.model()
    assert not net.training
    for name, tensor in search.best.weights.load()["net"].items():
        assert torch.equal(net.state_dict()[name], tensor)
    read = etude.open(search.folder).best
    with pytest.raises(ConfigError, match="Pass the experiment"):
        read.model()
    assert torch.equal(read.model(make())[0].weight, net[0].weight)


def test_a_model_that_was_edited_since_is_refused(search: etude.Search) -> None:
    def edited(width: int = 8) -> nn.Module:
        return nn.Sequential(*model(width), nn.Linear(2, 2))

    with pytest.raises(StateError, match="not the one that"):
        etude.open(search.folder).best.model(make(edited))


def test_a_trial_without_weights_says_how_to_have_some() -> None:
    search = make().tune(WIDTH, trials=2, workers=1, sampler="random", stopper="none", keep=1)
    assert search.best.weights.epoch == 3
    with pytest.raises(ConfigError, match=r"keep=5"):
        search.top(2)[1].weights  # noqa: B018 - asked for


def test_a_final_model_is_saved_with_where_it_is_from(search: etude.Search, tmp_path: Path) -> None:
    final = make().fit(at=search.best, weights=search.best.weights)
    path = final.save(tmp_path / "final.safetensors")
    with safetensors.safe_open(path, framework="pt") as file:
        said = file.metadata()
        assert torch.equal(file.get_tensor("net.0.weight"), final.model()[0].weight)
    assert json.loads(said["params"]) == final.best.params
    ancestors = json.loads(said["ancestors"])
    assert [one["study"] for one in ancestors] == [search.name, final.name]
    assert said["code"] == final.meta["code"]
    again = make().fit(at=search.best, weights=path, name="once-more")
    assert begun_with(again.trials[0]) == pytest.approx(final.model()[0].weight.sum().item(), abs=1e-5)


def test_several_seeds_are_trials_of_one_study_and_it_goes_on_where_it_was(search: etude.Search) -> None:
    final = make().fit(at=search.best, weights=search.best.weights, seeds=3, name="three")
    assert [trial.seed for trial in final.trials] == [0, 1, 2]
    assert final.value == min(trial.value for trial in final.trials if trial.value is not None)
    again = make().fit(at=search.best, weights=search.best.weights, seeds=3, name="three")
    assert [trial.started_at for trial in again.trials] == [trial.started_at for trial in final.trials]
    with pytest.raises(etude.DefinitionChangedError):
        make().fit(at=search.best, seeds=3, name="three")
    with pytest.raises(ConfigError, match="one twice"):
        make().fit(at=search.best, seeds=[1, 1])


def test_starts_are_compared_over_seeds_in_one_call(search: etude.Search) -> None:
    def compare() -> Any:
        starts = [search.best.weights, "random", search.best.weights.shrunk()]
        at = {**search.best.params, "epochs": 4}
        return etude.compare_starts(make(), at=at, starts=starts, seeds=3, target=0.69, workers=2, steps_per_epoch=1)

    found = compare()
    assert found.starts[0].name == "random"
    assert len(found.starts) == 3
    assert [trial.seed for trial in found.fit.trials] == [0, 1, 2] * 3
    warm = found.starts[1]
    bests = [[min(trial.curve) for trial in found.fit.trials[n : n + 3]] for n in (0, 3)]
    assert warm.better.difference == pytest.approx((sum(bests[1]) - sum(bests[0])) / 3)
    by_clock = {clock.value: units for clock, units in warm.times.items()}
    assert by_clock["charged"]["epochs"].mean == pytest.approx(by_clock["sunk"]["epochs"].mean + 3)
    assert by_clock["sunk"]["steps"].mean == by_clock["sunk"]["epochs"].mean
    assert by_clock["sunk"]["seconds"].mean > 0
    assert f"epoch 3 of trial {search.best.number}" in str(found)
    assert by_clock["sunk"]["epochs"].missed == 0
    (over,) = found.over([0.69])
    assert over[1]["random"] == found.starts[0].times[next(iter(found.starts[0].times))]["epochs"]
    again = compare()
    assert [t.started_at for t in again.fit.trials] == [t.started_at for t in found.fit.trials]


def test_a_comparison_of_what_went_well_alone_is_refused(search: etude.Search) -> None:
    def failing(model, data, run, lr: float, epochs: int = 3, fresh: bool = False):
        if run.seed == 1:
            raise etude.Invalid("not this one")
        return train(model, data, run, lr, epochs)

    experiment = etude.Experiment(failing, model=model, data=data, metric="loss", mode="min")
    with pytest.raises(etude.StudyError, match=r"Of 4 runs, \[1, 3\] did not come to their end"):
        etude.compare_starts(experiment, at={"lr": 0.1}, starts=[search.best.weights], seeds=2)


def keeps_more(model, data, run, lr: float, epochs: int = 2):
    """Keep a wrapped network, an average of it, and something else that has weights."""
    net, (x, y) = model(), data()
    wrapped = torch.nn.DataParallel(net)
    average = torch.optim.swa_utils.AveragedModel(net)
    judge = nn.CrossEntropyLoss(weight=torch.ones(2))
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    run.keep(net=wrapped, ema=average, judge=judge, optimizer=optimizer)
    for _ in run.epochs(epochs):
        loss = judge(wrapped(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(net)
        run.report(loss=loss.item())


def test_a_model_is_found_among_other_things_that_are_kept_and_behind_wrappers() -> None:
    experiment = etude.Experiment(keeps_more, model=model, data=data, metric="loss", mode="min")
    search = experiment.tune({"lr": [0.1]}, workers=1, sampler="grid", stopper="none")
    weights = search.best.weights.load()
    net = search.best.model()
    assert torch.equal(net[0].weight, weights["net"]["module.0.weight"])
    assert not torch.equal(net[0].weight, weights["ema"]["module.0.weight"])
    assert experiment.fit(at=search.best, weights=search.best.weights, name="warm").complete


def test_a_fit_of_a_fit_knows_all_whose_weights_it_has(search: etude.Search, tmp_path: Path) -> None:
    first = make().fit(at=search.best, weights=search.best.weights, name="first")
    second = make().fit(at=search.best, weights=first.save(tmp_path / "first.safetensors"), name="second")
    assert [study for study, _, _ in second.best.weights.ancestors] == [search.name, "first", "second"]


def test_the_same_weights_from_another_place_are_the_same_study(search: etude.Search, tmp_path: Path) -> None:
    path = search.best.weights.save(tmp_path / "one.safetensors")
    first = make().fit(at=search.best, weights=path)
    assert make().fit(at=search.best, weights=path.rename(tmp_path / "two.safetensors")).folder == first.folder


def test_what_is_no_configuration_is_refused(search: etude.Search) -> None:
    for given in (search, 3):
        with pytest.raises(ConfigError, match="which is no configuration"):
            make().fit(at=given)  # type: ignore[arg-type]


def test_a_fit_is_no_evidence_for_forecasts(search: etude.Search) -> None:
    experiment = make()
    experiment.fit(at=search.best)
    with pytest.raises(ConfigError, match=r"no study|Name one"):
        experiment.forecast(trials=5)


def with_adam(model, data, run, epochs: int = 3, lr: float = 0.05, kept_as: str = "optimizer", wide: bool = False):
    net, (x, y) = model(), data()
    optimizer = torch.optim.Adam(net.parameters() if not wide else [*net.parameters()][:2], lr=lr)
    run.keep(net=net, **{kept_as: optimizer})
    for _ in run.epochs(epochs):
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.report(loss=loss.item())


ADAM = etude.Experiment(with_adam, model=model, data=data, metric="loss", mode="min")


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> etude.TrialResult:
    """A trial that kept the state of its optimizer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ETUDE_STUDIES", str(tmp_path_factory.mktemp("moments")))
        keep = etude.Keep(1, ("last",), optimizers=True)
        return ADAM.tune({"lr": [0.05]}, workers=1, sampler="grid", stopper="none", keep=keep).best


def test_with_its_optimizer_a_training_goes_on_as_if_it_had_never_ended(moments: etude.TrialResult) -> None:
    whole = ADAM.fit(at={"epochs": 6}, name="whole").best.curve
    with_it = ADAM.fit(weights=moments.weights.with_optimizer(), name="with-it")
    assert [*moments.curve, *with_it.best.curve] == whole
    assert str(with_it.best.start).endswith(", with its optimizer")
    without = ADAM.fit(weights=moments.weights, name="without").best.curve
    assert (without[0], without[2]) == (whole[3], pytest.approx(whole[5], abs=0.5))
    assert without[2] != whole[5]


def test_settings_of_an_optimizer_stay_those_of_the_new_run(moments: etude.TrialResult) -> None:
    final = ADAM.fit(at={"lr": 1e-12}, weights=moments.weights.with_optimizer())
    assert max(final.best.curve) - min(final.best.curve) < 1e-6


def test_an_optimizers_state_that_cannot_be_taken(moments: etude.TrialResult, search: etude.Search) -> None:
    with pytest.raises(ConfigError, match=r"kept weights alone.*keep=etude\.Keep\(optimizers=True\)"):
        search.best.weights.with_optimizer()
    weights = moments.weights.with_optimizer()
    with pytest.raises(ConfigError, match="not both"):
        weights.shrunk()
    with pytest.raises(ConfigError, match="not both"):
        moments.weights.shrunk().with_optimizer()  # type: ignore[attr-defined] # it has it, being a trial's
    other_name = ADAM.fit(at={"kept_as": "adam"}, weights=weights)
    assert (
        "begin with the state of the optimizer 'optimizer', and keeps none of that name" in other_name.trials[0].reason
    )
    others = ADAM.fit(at={"wide": True}, weights=weights)
    assert "has other groups of parameters than the optimizer" in others.trials[0].reason


def test_a_bound_that_cannot_hold_one_model_is_refused_before_anything_starts() -> None:
    """The model takes 368 bytes: 90 numbers of 4 bytes, and a count of 8."""
    space = {"width": [8], "lr": [0.05, 0.1, 0.15]}
    call: dict[str, Any] = {"workers": 1, "sampler": "grid", "stopper": "none", "name": "bounded"}
    with pytest.raises(ConfigError, match=r"max_gb=3e-07, and the weights of one model take 3\.68e-07 GB"):
        make().tune(space, keep="3,last,best,max_gb=3e-7", **call)
    assert not Path("etude-studies/bounded").exists()
    search = make().tune(space, keep=etude.Keep(max_gb=2e-6), **call)  # files have names and shapes as well
    assert len(list(search.folder.glob("trials/*/attempt-1/checkpoints/*.weights.safetensors"))) == 1
    assert search.best.weights.load()
    with pytest.raises(ConfigError, match="is no room on a disk"):
        make().tune(space, keep="3,max_gb=much", **call)
    with pytest.raises(ConfigError, match="so none would ever be kept"):
        make().fit(at=search.best, keep=etude.Keep(max_gb=1e-9))


def test_the_state_of_an_optimizer_that_nobody_takes_or_of_another_kind_is_refused(moments: etude.TrialResult) -> None:
    weights = moments.weights.with_optimizer()
    unkept = etude.Experiment(keeps_none, model=model, data=data, metric="loss", mode="min").fit(weights=weights)
    assert "never asked for it" in unkept.trials[0].reason
    sgd = etude.Experiment(with_sgd, model=model, data=data, metric="loss", mode="min").fit(weights=weights)
    assert "is an optimizer of another kind than that whose state it is to begin with" in sgd.trials[0].reason
    with pytest.raises(ConfigError, match="A mean has no optimizer"):
        etude.soup([weights, weights])


def keeps_none(model, data, run):
    for _ in run.epochs(1):
        run.report(loss=0.0)


def with_sgd(model, data, run):
    net = model()
    run.keep(net=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1))
    for _ in run.epochs(1):
        run.report(loss=0.0)
