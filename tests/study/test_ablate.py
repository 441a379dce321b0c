"""Ablations in real processes: arms share what they have in common, and what was planned is what is trained."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import etude
from etude.core.errors import ConfigError, DefinitionChangedError, StudyError
from etude.core.removal import Arm
from etude.results.rebuilt import build


class Net(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(6, width)
        self.middle = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.middle(x))
        return self.last(self.dropout(x))


def model(width: int = 12, dropout: float = 0.25) -> nn.Module:
    return Net(width, dropout)


def plain(width: int = 12) -> nn.Module:
    return nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 2))


def data() -> Any:
    x = torch.randn(48, 6, generator=torch.Generator().manual_seed(0))
    examples = TensorDataset(x, (x.sum(1) > 0).long())
    return DataLoader(examples, batch_size=8, shuffle=True), DataLoader(examples, batch_size=24)


def train(model, data, run, lr: float = 0.1, epochs: int = 1):
    net, (loader, valid) = model(), data()
    run.keep(net=net)
    run.log(" ".join(name for name, _ in net.named_parameters()))
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in run.epochs(epochs):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            run.report(loss=sum(F.cross_entropy(net(x), y).item() for x, y in valid))


@pytest.fixture
def experiment() -> etude.Experiment:
    return etude.Experiment(train, model=model, data=data, metric="loss", mode="min")


COMPONENTS = ["layer:middle", "units:first[0:3]", "dropout", etude.custom("plain", model=plain)]


@pytest.fixture(scope="module")
def ablation(tmp_path_factory: pytest.TempPathFactory) -> etude.Ablation:
    place = tmp_path_factory.mktemp("ablation")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ETUDE_STUDIES", str(place))
        experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")
        return experiment.ablate(COMPONENTS, seeds=3, workers=2, force=True)  # type: ignore[return-value] # it is no dry run


def test_each_arm_is_trained_with_each_seed_without_its_component(ablation: etude.Ablation) -> None:
    assert ablation.complete
    assert [arm.name for arm in ablation.arms] == [
        "base",
        "layer:middle",
        "units:first[0:3]",
        "dropout",
        "custom:plain",
    ]
    assert all(len(arm.values) == 3 for arm in ablation.arms)
    whole = "first.weight first.bias middle.weight middle.bias last.weight last.bias"
    for trial in ablation.trials:
        names = {
            "base": whole,
            "units:first[0:3]": whole,
            "dropout": whole,
            "layer:middle": "first.weight first.bias last.weight last.bias",
            "custom:plain": "0.weight 0.bias 2.weight 2.bias",
        }[str(trial.arm)]
        assert names in trial.log.read_text()
        assert trial.params.get("dropout") == (0.0 if trial.arm == "dropout" else None)


def test_arms_of_a_seed_begin_with_the_same_weights_and_see_the_same_batches(ablation: etude.Ablation) -> None:
    for name, shared in (("layer:middle", 4), ("units:first[0:3]", 3), ("dropout", 6), ("custom:plain", 0)):
        pairings = ablation.pairing(name)
        assert len(pairings) == 3
        assert all(pair.is_pair and pair.batches and pair.shared == shared for pair in pairings.values()), pairings
    base = [trial.fingerprints for trial in ablation.of("base")]
    assert len({one["batches"] for one in base}) == 3, "other seeds, other orders"


def test_a_trial_gives_the_model_that_it_trained(ablation: etude.Ablation) -> None:
    [trial, *_] = [one for one in ablation.top(15) if one.arm == "layer:middle"]
    assert [name for name, _ in trial.model().named_parameters()] == [
        "first.weight", "first.bias", "last.weight", "last.bias",
    ]  # fmt: skip


def test_a_variant_whose_functions_are_not_there_is_never_taken_for_the_whole(experiment: etude.Experiment) -> None:
    with pytest.raises(ConfigError, match="functions of the variant 'plain' are in the call that began its study"):
        build(experiment, {}, 0, Arm("custom:plain", variant="plain"))


def test_effects_are_means_of_pairs_in_the_direction_of_the_metric(ablation: etude.Ablation) -> None:
    base, middle, *_ = ablation.arms
    differences = [middle.values[seed] - base.values[seed] for seed in base.values]
    assert middle.effect == pytest.approx(sum(differences) / 3), "a loss that grows says that the layer helps"
    assert (base.effect, middle.pairs) == (0.0, 3)
    assert middle.parameters == 6 * 12 + 12 + 12 * 2 + 2
    assert middle.changes[0].startswith("middle removed")


def test_the_same_call_goes_on_and_another_one_is_another_study(
    experiment: etude.Experiment, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path))
    first = experiment.ablate("dropout", seeds=2, name="one", force=True)
    again = experiment.ablate("dropout", seeds=2, name="one", force=True)
    assert [one.ended_at for one in first.trials] == [one.ended_at for one in again.trials]  # type: ignore[union-attr]
    with pytest.raises(DefinitionChangedError, match="layer:middle"):
        experiment.ablate("layer:middle", seeds=2, name="one", force=True)
    assert isinstance(etude.open(tmp_path / "one"), etude.Ablation)


def test_a_draft_says_what_would_be_done_and_starts_nothing(experiment: etude.Experiment) -> None:
    draft = experiment.ablate(["layer:middle", "dropout"], seeds=4, dry_run=True)
    assert experiment.last is None
    said = str(draft)
    assert "leave_one_out of 2 components: 3 arms x 4 seeds = 12 trials" in said
    assert "middle removed; relu() kept; dropout kept; 156 fewer parameters" in said
    assert "  dropout: 0.25 -> 0.0\n" in said + "\n"
    assert draft.trials == 12


def test_what_cannot_be_is_refused_before_anything_runs(experiment: etude.Experiment) -> None:
    for components, message in (
        ("layer:midle", "Did you mean 'middle'"),
        ("layer:last", "output"),
        ("layers:[first,middle,last]", "output"),
        ([], "There is nothing to take away"),
        ("lr=0.1", "is off already"),
        ("feature:age", "the data has no feature with a name"),
    ):
        with pytest.raises(ConfigError, match=message):
            experiment.ablate(components, seeds=2, force=True)
    assert experiment.last is None


def test_seeds_that_chose_the_configuration_are_refused(experiment: etude.Experiment) -> None:
    best = experiment.fit(at={}, seed=7).best
    with pytest.raises(ConfigError, match="has 7, with which the configuration at= was chosen"):
        experiment.ablate("dropout", at=best, seeds=[6, 7], force=True)


def seeded_model() -> nn.Module:
    torch.manual_seed(0)
    return Net(12, 0.0)


def in_order() -> Any:
    loader, valid = data()
    return DataLoader(loader.dataset, batch_size=8), valid


def test_seeds_that_are_none_end_the_study() -> None:
    same = etude.Experiment(train, model=seeded_model, data=in_order, metric="loss", mode="min")
    with pytest.raises(StudyError, match="its seeds are none: the functions seed generators themselves"):
        same.ablate("layer:middle", seeds=3, workers=1, force=True)


def test_everything_that_could_go_is_listed(experiment: etude.Experiment) -> None:
    listing = experiment.components(at={"width": 10})
    assert [(layer.path, layer.type, layer.role) for layer in listing.layers] == [
        ("first", "Linear", ""),
        ("middle", "Linear", ""),
        ("dropout", "Dropout", ""),
        ("last", "Linear", "output"),
    ]
    assert listing.layers[1].units == 10
    assert {setting.name: setting.value for setting in listing.settings}["width"] == 10


def named() -> Any:
    x = torch.randn(48, 6, generator=torch.Generator().manual_seed(0))
    examples = TensorDataset(x, (x[:, 0] > 0).long())
    train, valid = DataLoader(examples, batch_size=8, shuffle=True), DataLoader(examples, batch_size=24)
    return etude.Data(train, valid, fields=["x", "y"], target="y", features=list("abcdef"))


def test_features_are_taken_out_of_the_data() -> None:
    experiment = etude.Experiment(train, model=model, data=named, metric="loss", mode="min")
    assert [feature.name for feature in experiment.components().features if not feature.role] == list("abcdef")
    ablation = experiment.ablate(
        ["feature:a how=permute", "feature:b how=constant value=0"], seeds=2, workers=2, force=True
    )
    assert isinstance(ablation, etude.Ablation)
    assert ablation.counts() == {"finished": 6}
    base, a, b = ablation.arms
    assert a.effect > 0, "the label is its sign"
    assert base.values.keys() == a.values.keys() == b.values.keys()
    assert all(pair.is_pair and pair.shared == 6 for pair in ablation.pairing(a.name).values())
