"""Features that are dropped, in real processes: all first weights but theirs are those of the whole model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

import etude
from etude.core.errors import ConfigError
from etude.frameworks.cutting import Kept
from etude.frameworks.torch_readers import cuts_for
from etude.results.rebuilt import build

NAMES = ["age", "fare", "port", "port", "sex", "name"]


def fixed() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))


def counted(n_features: etude.Derived[int]) -> nn.Module:
    return nn.Sequential(nn.Linear(n_features, 12), nn.ReLU(), nn.Linear(12, 2))


class WideAndDeep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.BatchNorm1d(6)
        self.deep = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
        self.out = nn.Linear(10, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.scale(x)
        return self.out(torch.cat([x, self.deep(x)], dim=1))


class ByPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(2, 2), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x[:, :2]) + self.two(x[:, 2:])


def table() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(48, 6, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0).long()


def loaders(x: torch.Tensor, y: torch.Tensor, names: list[str]) -> etude.Data:
    examples = TensorDataset(x, y)
    return etude.Data(
        DataLoader(examples, batch_size=8, shuffle=True), DataLoader(examples, batch_size=24), features=names
    )


def data() -> etude.Data:
    return loaders(*table(), NAMES)


def by_hand(without: frozenset[str] = frozenset()) -> etude.Data:
    x, y = table()
    left = [nth for nth, name in enumerate(NAMES) if name not in without]
    return loaders(x[:, left], y, [NAMES[nth] for nth in left])


def train(model, data, run, lr: float = 0.1):
    net, (loader, valid) = model(), data()
    torch.save(net.state_dict(), run.folder / "first.pt")
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in run.epochs(1):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
    with torch.no_grad():
        return sum(F.cross_entropy(net(x), y).item() for x, y in valid)


def of(model: Any, data: Any = data) -> etude.Experiment:
    return etude.Experiment(train, model=model, data=data, metric="loss", mode="min")


def first_weights(trial: Any) -> dict[str, torch.Tensor]:
    return torch.load(next(trial.folder.rglob("first.pt")))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("model", "how"), [(fixed, data), (counted, data), (counted, by_hand)])
def test_columns_of_the_features_that_are_left_are_those_of_the_whole_model(model: Any, how: Any) -> None:
    experiment = of(model, how)
    ablation = experiment.ablate(["feature:age", "feature:port"], seeds=1, workers=2, force=True)
    assert isinstance(ablation, etude.Ablation)
    assert ablation.counts() == {"finished": 3}
    base = {trial.seed: first_weights(trial) for trial in ablation.of("base")}
    for arm, left in (("feature:age", [1, 2, 3, 4, 5]), ("feature:port", [0, 1, 4, 5])):
        for trial in ablation.of(arm):
            here, whole = first_weights(trial), base[trial.seed]
            assert here.keys() == whole.keys()
            assert here["0.weight"].equal(whole["0.weight"][:, left])
            assert all(here[name].equal(whole[name]) for name in whole if name != "0.weight")
            again = build(experiment, trial.params, trial.seed, trial.goes_without).state_dict()
            assert all(again[name].equal(here[name]) for name in here)
        assert all(str(pair) == "paired: 4 parameters in common begin alike" for pair in ablation.pairing(arm).values())
        assert all(pair.batches for pair in ablation.pairing(arm).values()), "the labels come in the same order"
    [_, age, port] = ablation.arms
    assert (age.changes, age.parameters) == (("0 6->5 inputs",), 5 * 12 + 12 + 26)
    assert port.changes == ("0 6->4 inputs",)


def test_all_readers_of_a_feature_are_cut() -> None:
    draft = of(WideAndDeep).ablate("feature:sex", seeds=2, dry_run=True)
    [_, sex] = draft.arms
    assert sex.changes == ("scale 6->5 inputs", "deep.0 6->5 inputs", "out 10->9 inputs")


class HardlyEverOn(nn.Module):
    """Its hidden units are off for nearly all that it is given, and on only for what is high in all features."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(6, 12), nn.Linear(12, 8), nn.Linear(8, 2)
        with torch.no_grad():
            self.first.weight.fill_(1.0)
            self.first.bias.copy_(-torch.linspace(0, 9, 12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.second(self.first(x).relu()).relu())


class Words(HardlyEverOn):
    """It reads numbers that stand for words, and none of these can be missing."""

    def __init__(self) -> None:
        super().__init__()
        self.word = nn.Embedding(9, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(self.word(x).squeeze(-1))


def test_units_that_are_off_for_what_was_tried_are_not_taken_for_those_of_a_feature() -> None:
    for dropped in ("age", "fare", "sex", "name"):
        [_, arm] = of(HardlyEverOn).ablate(f"feature:{dropped}", seeds=2, dry_run=True).arms
        assert arm.changes == ("first 6->5 inputs",), dropped
    words = torch.randint(0, 9, (24, 6), generator=torch.Generator().manual_seed(0))
    for nth in range(6):
        left = tuple(other for other in range(6) if other != nth)
        found = cuts_for(Words(), words, words[:, list(left)], [Kept(6, left)])
        assert found.changes == ("first 6->5 inputs",), nth


def train_with_noise(model, data, run, lr: float = 0.1):
    net, (loader, _) = model(), data()
    torch.save(net.state_dict(), run.folder / "first.pt")
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for x, y in loader:
        noise = 0.01 * torch.randn_like(x)
        optimizer.zero_grad()
        F.cross_entropy(net(x - x.mean(1, keepdim=True) + noise), y).backward()
        optimizer.step()
    return lr


def test_a_feature_goes_where_training_adds_noise_and_takes_off_the_mean_of_all_features() -> None:
    experiment = etude.Experiment(train_with_noise, model=fixed, data=data, metric="loss", mode="min")
    ablation = experiment.ablate(["feature:fare"], seeds=1, workers=2, force=True)
    assert isinstance(ablation, etude.Ablation)
    assert ablation.counts() == {"finished": 2}
    [_, fare] = ablation.arms
    assert fare.changes == ("0 6->5 inputs",)
    [whole], [rest] = map(ablation.of, ("base", "feature:fare"))
    assert first_weights(rest)["0.weight"].equal(first_weights(whole)["0.weight"][:, [0, 2, 3, 4, 5]])


class Patients(Dataset[dict[str, torch.Tensor]]):
    """An image, a text and some numbers of each."""

    def __init__(self) -> None:
        drawn = torch.Generator().manual_seed(0)
        self.fields = {
            "image": torch.randn(24, 3, 6, 6, generator=drawn),
            "text": torch.randint(0, 30, (24, 7), generator=drawn),
            "bio": torch.randn(24, 4, generator=drawn),
        }

    def __len__(self) -> int:
        return 24

    def __getitem__(self, nth: int) -> dict[str, torch.Tensor]:
        return {name: values[nth] for name, values in self.fields.items()} | {"y": torch.tensor(nth % 2)}


class Towers(nn.Module):
    """It reads what there is."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.text, self.bio, self.out = nn.Embedding(30, 6), nn.Linear(4, 7), nn.Linear(18, 2)

    def forward(self, fields: dict[str, torch.Tensor]) -> torch.Tensor:
        read = {"image": self.image, "text": lambda ids: self.text(ids).mean(1), "bio": self.bio}
        return self.out(torch.cat([read[name](values) for name, values in fields.items()], dim=1))


def patients() -> etude.Data:
    loader = DataLoader(Patients(), batch_size=8, shuffle=True)
    columns = {"bio": ["height", "weight", "age", "pulse"]}
    valid = DataLoader(Patients(), batch_size=12)
    return etude.Data(loader, valid, target="y", features=columns, modalities={"body": ["height", "weight"]})


def train_towers(model, data, run, lr: float = 0.1):
    net, (loader, _) = model(), data()
    torch.save(net.state_dict(), run.folder / "first.pt")
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for batch in loader:
        y = batch.pop("y")
        optimizer.zero_grad()
        F.cross_entropy(net(batch), y).backward()
        optimizer.step()
    return lr


def test_a_modality_a_channel_and_a_sequence_are_dropped_from_a_model_of_several_inputs() -> None:
    experiment = etude.Experiment(train_towers, model=Towers, data=patients, metric="loss", mode="min")
    left = {
        "modality:image": ("out 18->13 inputs", "out.weight", slice(5, None)),
        "feature:text": ("out 18->12 inputs", "out.weight", [*range(5), *range(11, 18)]),
        "modality:body": ("bio 4->2 inputs", "bio.weight", slice(2, None)),
        "channel:0": ("image.0 3->2 inputs", "image.0.weight", slice(1, None)),
    }
    ablation = experiment.ablate(list(left), seeds=1, workers=2, force=True)
    assert isinstance(ablation, etude.Ablation)
    assert ablation.counts() == {"finished": 5}
    [whole] = map(first_weights, ablation.of("base"))
    for arm in ablation.arms[1:]:
        change, cut, inputs = left[arm.name]
        assert arm.changes[0] == change
        [here] = map(first_weights, ablation.of(arm.name))
        assert here[cut].equal(whole[cut][:, inputs])
        assert all(here[name].equal(whole[name]) for name in whole if name != cut)


def test_layers_and_features_go_together() -> None:
    ablation = of(WideAndDeep).ablate(["layer:deep.1", "feature:sex"], policy="pairs", seeds=1, workers=2, force=True)
    assert ablation.counts() == {"finished": 4}
    assert len(ablation.arms[-1].changes) == 4


def test_what_reads_features_by_their_place_is_refused_with_what_can_be_done() -> None:
    with pytest.raises(ConfigError) as refused:
        of(ByPlace).ablate(["feature:age"], seeds=2, force=True)
    assert "1 arm cannot be, so nothing was started" in str(refused.value)
    assert "'age' cannot be dropped from what the model reads, with all other first weights as they" in str(
        refused.value
    )
    assert "Pass how='permute', or how='constant' and value=, which keep" in str(refused.value)
    draft = of(ByPlace).ablate(["feature:age how=permute"], seeds=2, dry_run=True)
    assert len(draft.arms) == 2


def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(12), nn.ReLU(), nn.Linear(12, 2))


def test_layers_that_are_made_when_they_are_called_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'0\.weight' is made when the model is first called.* Call the model once"):
        of(lazy).ablate(["feature:age"], seeds=2, force=True)
