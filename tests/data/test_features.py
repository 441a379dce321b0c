"""Which features data has, whatever it is made of."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import etude
from etude.data.features import Named, features_of, kept_without

FRAME = pd.DataFrame({"age": [31, 45], "sex": ["f", "m"], "y": [0, 1], "no": [7, 8]})


def names(found: object) -> list[str]:
    return [feature.name for feature in features_of(found) if not feature.role]


def test_the_columns_of_a_table_are_features_but_for_label_and_ids() -> None:
    found = etude.Data(FRAME, FRAME, target="y", ids=["no"])
    assert features_of(found) == (
        Named("age"),
        Named("sex"),
        Named("y", role="label"),
        Named("no", role="id"),
    )
    assert kept_without(found, {"age"})[0] == (2, (1,))
    assert names(etude.Data(FRAME, features=["age"], target="y")) == ["age"]


def test_a_table_beside_its_labels_and_parts_without_a_data() -> None:
    inputs, labels = FRAME[["age", "sex"]], FRAME["y"]
    assert names(etude.Data((inputs, labels))) == ["age", "sex"]
    assert names((inputs, labels, inputs, labels)) == ["age", "sex"]
    assert names({"train": inputs, "valid": inputs}) == ["age", "sex"]


def test_the_columns_of_an_array_are_named_along_its_last_axis_and_may_share_names() -> None:
    found = etude.Data((np.zeros((5, 3)), np.zeros(5)), features=["age", "sex", "sex"])
    assert features_of(found) == (Named("age"), Named("sex", columns=2))
    assert kept_without(found, {"age"})[0] == (3, (1, 2))
    assert kept_without(found, {"sex"})[0] == (3, (0,))
    series = torch.zeros(5, 20, 2)  # examples, times, features
    assert names(etude.Data((series, torch.zeros(5)), features=["load", "wind"])) == ["load", "wind"]
    assert names(etude.Data((np.zeros((5, 4)), np.zeros(5)), features=["age", "sex", "sex"])) == []
    record = np.zeros(4, dtype=[("age", "i4"), ("fare", "f8")])
    assert names(etude.Data(record)) == ["age", "fare"]


def test_fields_of_dicts_and_tuples_are_features_or_hold_some() -> None:
    images, ages, table = torch.zeros(4, 3, 8, 8), torch.zeros(4), torch.zeros(4, 2)
    part = {"image": images, "age": ages, "bio": table, "y": ages, "classes": 10}
    found = etude.Data(part, features={"bio": ["height", "weight"]}, target="y")
    assert features_of(found) == (
        Named("0", "channel"),
        Named("1", "channel"),
        Named("2", "channel"),
        Named("height", modality="bio"),
        Named("weight", modality="bio"),
        Named("image"),
        Named("age"),
        Named("y", role="label"),
    )
    assert names(etude.Data((images, ages, ages), fields=["image", "age", "y"], target="y"))[3:] == ["image", "age"]
    assert names(etude.Data({"x": {"a": ages, "b": ages}, "y": ages}, target="y")) == ["a", "b"]
    assert names(etude.Data({"a": ages, "b": ages, "w": ages}, features=["a", "b"])) == ["a", "b"]
    assert names(etude.Data({"x": table, "y": ages}, features=["a", "b"])) == ["a", "b"]
    given = etude.Data({"a": ages, "b": ages}, modalities={"lab": ["b"]})
    assert [feature.modality for feature in features_of(given)] == ["", "lab"]


def test_channels_are_found_along_the_axis_that_holds_them() -> None:
    def channels(array: object, **said: object) -> list[str]:
        found = features_of(etude.Data((array, np.zeros(2)), **said))
        assert all(feature.kind == "channel" for feature in found)
        return [feature.name for feature in found]

    assert channels(np.zeros((2, 8, 9, 3))) == ["0", "1", "2"]
    assert channels(torch.zeros(2, 3, 8, 4)) == ["0", "1", "2"]
    assert channels(torch.zeros(2, 8, 9, 4)) == ["0", "1", "2", "3"]
    assert channels(np.zeros((2, 7, 8, 9))) == []
    assert channels(np.zeros((2, 7, 8, 9)), channels=7) == list("0123456")
    assert channels(torch.zeros(2, 2, 8, 8), channels=["near", "far"]) == ["near", "far"]
    assert channels(torch.zeros(2, 8, 8)) == []


class Examples(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, object]:
        return {"image": torch.rand(3, 8, 8), "age": 30 + index, "y": index % 2}


def test_data_sets_loaders_and_lists_have_the_features_of_their_examples() -> None:
    tensors = TensorDataset(torch.zeros(4, 2), torch.zeros(4))
    assert names(etude.Data(DataLoader(tensors), features=["a", "b"])) == ["a", "b"]
    assert names((DataLoader(Examples()), DataLoader(Examples())))[-3:] == ["image", "age", "y"]
    assert names(etude.Data([{"a": 1, "y": 2}], target="y")) == ["a"]
    assert names(etude.Data([])) == names(etude.Data(TensorDataset(torch.zeros(0, 2)))) == []


def test_looking_at_an_example_draws_nothing() -> None:
    before = torch.get_rng_state()
    assert features_of(etude.Data(Examples()))
    assert torch.equal(before, torch.get_rng_state())


def test_nobody_knows_the_features_of_what_has_no_names() -> None:
    assert features_of((np.zeros((3, 2)), np.zeros(3))) == ()
    assert features_of(etude.Data((np.zeros((2, 2)), FRAME[["y"]]))) == ()  # what comes last is the label
    assert features_of(object()) == features_of(None) == features_of([1, 2]) == ()
