"""Features that are dropped, in real processes: all first weights but theirs are those of the whole model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

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
