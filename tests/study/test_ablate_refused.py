"""What an ablation refuses or warns of before anything runs: each case of what may be asked for and cannot be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude
from etude.core.errors import ConfigError


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4)
        self.one, self.two = Block(), Block()
        self.unused = nn.Linear(4, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.two(self.one(self.words(x).mean(1))))


def words() -> Any:
    examples = TensorDataset(torch.arange(30).reshape(6, 5) % 9, torch.arange(6) % 2)
    return DataLoader(examples, batch_size=3)


def table(rows: int = 12) -> dict[str, torch.Tensor]:
    return {
        "age": torch.rand(rows),
        "fare": torch.rand(rows),
        "who": torch.arange(rows),
        "died": torch.arange(rows) % 2,
    }


def named() -> etude.Data:
    return etude.Data(table(), table(), target="died", ids="who")


def uneven() -> etude.Data:
    short = table()
    del short["age"]
    return etude.Data(table(), short, target="died", ids="who")


def by_hand(without: frozenset[str] = frozenset()) -> etude.Data:
    return named()


def unnamed() -> Any:
    return torch.rand(12, 3), torch.arange(12)


def misnamed() -> etude.Data:
    return etude.Data((torch.rand(12, 3), torch.arange(12)), features=["age", "fare"])


def by_hand_without_names(without: frozenset[str] = frozenset()) -> Any:
    columns = [column for column, name in enumerate(("age", "fare", "port")) if name not in without]
    return torch.arange(36.0).reshape(12, 3)[:, columns], torch.arange(12)


def train(data: Any, run: Any, lr: float = 0.1) -> float:
    data()
    return lr


def train_net(model: Any, data: Any, lr: float = 0.1) -> float:
    for x, _ in data():
        model()(x)
    return lr


def of(data: Any) -> etude.Experiment:
    return etude.Experiment(train, data=data, metric="loss", mode="min")


def of_net() -> etude.Experiment:
    return etude.Experiment(train_net, model=Net, data=words, metric="loss", mode="min")


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ("layer:tow", "'layer:tow' matches no layer.* Did you mean 'two'"),
        ("layer:conv", "(?s)conv.*one.conv.*two.conv"),
        ("layer:words", "input"),
        ("layer:last", "output"),
        (["layers:~."], "input|output|every layer"),
        ("drop", "matches no hyperparameter"),
        ("lr=0.1", "is off already"),
    ],
)
def test_what_a_model_cannot_lose_is_refused(components: Any, message: str) -> None:
    experiment = of_net()
    with pytest.raises(ConfigError, match=message):
        experiment.ablate(components, seeds=2)
    assert experiment.last is None, "nothing was started"


def test_a_component_that_changes_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="is never used with this example, so nothing would change without it"):
        of_net().ablate("layer:unused", seeds=2)


@pytest.mark.parametrize(
    ("data", "components", "message"),
    [
        (named, "feature:aeg", "'feature:aeg' matches no feature. Did you mean 'age'"),
        (named, "feature:died", "'died' is the label, and without it nothing can be learned"),
        (named, "feature:who", "'who' tells examples apart and is not learned from"),
        (named, "features:[age,fare]", "takes away all 2 features, so that there is nothing to learn from"),
        (unnamed, "feature:age", "the data has no feature with a name. Return etude.Data with named features"),
        (uneven, "feature:age", "'age' cannot be taken out of the valid part of the data: it has "),
        (uneven, "feature:age how=permute", "'age' cannot be taken out of the valid part of the data: it has "),
        (by_hand, "feature:age", "was called with without=.*'age'.*, and what it returned has 'age'"),
        (misnamed, "feature:age", "features= has 2 names, and no array of the training part has 2 columns. Give one"),
        (by_hand_without_names, "feature:aeg", "'aeg' is no feature that .* it returned the same rows as with all"),
        (by_hand_without_names, "features:[age,aeg]", "'aeg' is no feature that data"),
        (by_hand_without_names, "features:a*", "is a pattern, and nothing names the features in what data.* returns"),
        (by_hand_without_names, "feature:age how=permute", "it alone can leave them out. Return etude.Data with named"),
    ],
)
def test_what_data_cannot_lose_is_refused(data: Any, components: Any, message: str) -> None:
    experiment = of(data)
    with pytest.raises(ConfigError, match=message):
        experiment.ablate(components, seeds=2)
    assert experiment.last is None, "nothing was started"


def test_a_data_function_that_leaves_features_out_needs_no_names_in_what_it_returns() -> None:
    experiment = of(by_hand_without_names)
    assert "those that data() knows by name" in str(experiment.components())
    draft = experiment.ablate(["feature:age", "features:[fare,port]"], seeds=8, dry_run=True)
    assert [one.taken for one in draft.arms[1:]] == [("age dropped",), ("fare, port dropped",)]


def test_what_is_called_like_a_label_or_an_id_is_warned_of_unless_the_data_says_what_it_is() -> None:
    def plain() -> Any:
        return {"label": torch.arange(12), "who_id": torch.arange(12), "age": torch.rand(12)}

    def said() -> etude.Data:
        return etude.Data({**plain(), "died": torch.arange(12)}, target="died")

    def notes(data: Any, component: str) -> str:
        return str(of(data).ablate(component, seeds=8, dry_run=True).arms[1])

    assert "'label' is called like a label, and counts as a feature: if it is one, etude.Data(target='label')" in notes(
        plain, "feature:label"
    )
    assert "'who_id' is called like an id, and counts as a feature" in notes(plain, "feature:who_id")
    assert "called like" not in notes(plain, "feature:age")
    assert "called like" not in notes(said, "feature:label")


def test_all_that_cannot_be_is_told_at_once_and_the_others_may_be_trained() -> None:
    with pytest.raises(ConfigError, match=r"(?s)2 arms cannot be, so nothing was started.*'age' cannot.*'age' cannot"):
        of(uneven).ablate(["feature:age", "feature:age how=permute", "feature:fare", "lr"], seeds=2)
    draft = of(uneven).ablate(["feature:age", "feature:fare", "lr"], seeds=2, on_refusal="skip", dry_run=True)
    assert [one.arm.name for one in draft.arms] == ["base", "feature:fare", "lr"]
    assert [one.arm.name for one in draft.refused] == ["feature:age"]
