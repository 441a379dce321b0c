"""What a finished model makes of each class, on data that nobody trained on; and where that cannot be told, why."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

from etude.core.data import Data
from etude.frameworks.torch_classes import judged, labels_of
from etude.frameworks.torch_shard import shard

CLASSES = 3


class Says(nn.Module):
    """Takes the class that it is told; half of the classes 2 are taken for 0. Says only 1 while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Dropout()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        told = torch.where((x[:, 0] == 2) & (x[:, 1] > 0), 0, x[:, 0].long())
        return nn.functional.one_hot(torch.ones_like(told) if self.training else told, CLASSES).float()


def rows(*classes: int) -> TensorDataset:
    y = torch.tensor(classes)
    return TensorDataset(torch.stack([y.float(), torch.arange(len(y)) % 2.0], dim=1), y)


def loader(*classes: int, **options: Any) -> DataLoader[Any]:
    return DataLoader(rows(*classes), 4, **options)


TRAIN = (0, 0, 0, 0)
TEST = (0, 1, 2, 2, 2, 2)


def test_accuracy_is_told_overall_and_class_by_class_and_the_model_stays_as_it_was() -> None:
    net = Says()
    net.inner.eval()
    found = judged([net], Data(loader(*TRAIN, shuffle=True), loader(1), loader(*TEST)))
    assert found == {
        "test_accuracy": 4 / 6,
        "worst_class_accuracy": 0.5,
        "worst_class": 2,
        "class_accuracies": {"0": 1.0, "1": 1.0, "2": 0.5},
        "judged_on": "test",
    }
    assert (net.training, net.inner.training) == (True, False)


def test_without_a_test_part_it_is_the_last_loader_that_does_not_train() -> None:
    for data in ((loader(*TRAIN), loader(0), loader(1, 1)), {"train": loader(*TRAIN), "valid": loader(1, 1)}):
        found = judged([Says()], data)
        assert (found["judged_on"], found["class_accuracies"]) == ("the last loader", {"1": 1.0})
    assert judged([Says()], {"train": loader(*TRAIN), "test": loader(1), "more": loader(0)})["judged_on"] == "test"


def test_all_of_the_test_data_count_however_ranks_have_shared_them() -> None:
    for shuffle in (False, True):
        data = Data(loader(*TRAIN, shuffle=True), test=loader(*TEST, shuffle=shuffle))
        shard(data, rank=0, ranks=2, evaluation="divided")
        assert judged([Says()], data)["test_accuracy"] == 4 / 6


class Pairs(Dataset[Any]):
    def __init__(self, *given: Any) -> None:
        self.given = given

    def __len__(self) -> int:
        return len(self.given)

    def __getitem__(self, nth: int) -> Any:
        return self.given[nth]


X = torch.zeros(2)


@pytest.mark.parametrize(
    ("models", "test", "why"),
    [
        ([], loader(*TEST), "the training function made 0 modules, and nobody can tell which counts"),
        ([Says(), Says()], loader(*TEST), "the training function made 2 modules, and nobody can tell which counts"),
        ([Says()], None, "there is 0 loaders of test data. Return etude.Data(train, valid, test)"),
        ([Says()], DataLoader(Pairs(X, X)), "a batch of the test data is no pair of inputs and classes"),
        ([Says()], DataLoader(Pairs((X, 1.0))), "targets are float64 of 1 dimensions, and no classes"),
        ([Says()], DataLoader(Pairs((X, 3))), "there are targets from 3 to 3, and scores for 3 classes"),
        ([nn.Linear(2, 1)], loader(0), "the model does not give a score for each class of each example"),
        ([nn.Identity()], DataLoader(Pairs()), "there are no test data"),
    ],
)
def test_what_cannot_be_told_is_said_with_the_reason(models: Any, test: Any, why: str) -> None:
    assert judged(models, Data(loader(*TRAIN), test=test)) == {"not_judged": why}


def test_what_the_model_raises_is_told_and_ends_nothing() -> None:
    found = judged([nn.Linear(5, 3)], Data(loader(*TRAIN), test=loader(0)))
    assert found["not_judged"].startswith("the model, called with a batch's inputs, raised RuntimeError: ")


def test_the_class_of_each_example_is_read_where_the_data_set_has_it() -> None:
    whole = rows(*TEST)
    found = labels_of(ConcatDataset([Subset(whole, [2, 0]), whole]))
    assert found is not None
    assert found.tolist() == [2, 0, *TEST]
    as_torchvision = Pairs((X, 1), (X, 0))
    assert labels_of(as_torchvision) is None
    as_torchvision.targets = [1, 0]  # type: ignore[attr-defined]
    assert labels_of(as_torchvision).tolist() == [1, 0]  # type: ignore[union-attr]
    assert labels_of(TensorDataset(torch.zeros(3, 2), torch.zeros(3))) is None
