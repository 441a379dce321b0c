"""Data without some of its features: tables, arrays, dicts and tuples."""

from __future__ import annotations

import contextlib
import copy
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pandas as pd
import pytest

import etude
from etude.core.errors import ConfigError, ResultError
from etude.core.removal import Features
from etude.data.without import check_left_out, without

N = 40


@pytest.fixture(scope="module", autouse=True)
def _polars_is_awake() -> None:
    """Have polars open what it keeps open for good, so that no test seems to have left it behind."""
    with contextlib.suppress(ImportError):
        import polars

        table = polars.DataFrame({"a": [1, 2]})
        table[[1, 0]].with_columns(table["a"]).lazy().with_columns(polars.lit(1).alias("b")).collect()


def frame(n: int = N) -> pd.DataFrame:
    numbers = np.arange(n)
    return pd.DataFrame({"age": numbers + 0.5, "sex": list("fm" * (n // 2)), "y": numbers}, index=numbers * 3 % n)


def data(**said: Any) -> etude.Data:
    return etude.Data(frame(), frame(20), frame(10), target="y", **said)


def test_dropped_features_are_gone_from_every_part_and_nothing_else_changes() -> None:
    found = data()
    rest = without(found, Features(("age",)), seed=0)
    assert [list(part.columns) for part in rest] == [["sex", "y"]] * 3
    assert [len(part) for part in rest] == [N, 20, 10]
    assert rest.train.index.equals(found.train.index)
    assert list(found.train.columns) == ["age", "sex", "y"]


def test_permuted_features_keep_their_values_and_lose_their_link_alike_for_equal_seeds() -> None:
    found = data()
    first, again, other = (without(found, Features(("age", "sex"), "permute"), seed=seed) for seed in (0, 0, 1))
    for part, was in zip(first, found, strict=True):
        assert sorted(part["age"]) == sorted(was["age"])
        assert part["age"].tolist() != was["age"].tolist()
        assert part["y"].equals(was["y"])
        assert part.dtypes.equals(was.dtypes)
        sexes = dict(zip(was["age"], was["sex"], strict=True))
        assert part["sex"].tolist() == [sexes[age] for age in part["age"]]  # what goes together stays together
    assert first.train.equals(again.train)
    assert first.test.equals(again.test)
    assert not first.train.equals(other.train)
    both = without(etude.Data(frame(), frame(), target="y"), Features(("age",), "permute"), seed=0)
    assert both.train["age"].tolist() != both.valid["age"].tolist()  # each part has an order of its own


def test_shuffled_values_stay_under_the_labels_that_the_rows_have() -> None:
    table, labels = frame().set_index(pd.Index([7] * 20 + [3] * 20)), frame().index
    mixed = without(etude.Data(table, target="y"), Features(("age",), "permute"), seed=0).train
    assert mixed.index.equals(table.index)
    assert sorted(mixed["age"]) == sorted(table["age"])
    columns = without(etude.Data({"a": frame()["age"], "b": frame()["y"]}), Features(("a",), "permute"), seed=0).train
    assert columns["a"].index.equals(labels)
    assert columns["a"].tolist() != frame()["age"].tolist()
    assert columns["a"].name == "age"
    constant = without(etude.Data({"a": frame()["age"], "b": frame()["y"]}), Features(("a",), "constant"), seed=0)
    assert constant.train["a"].index.equals(labels)
    assert set(constant.train["a"]) == {0.0}


def test_a_constant_keeps_types_and_shapes() -> None:
    found = data()
    rest = without(found, Features(("age", "sex"), "constant"), seed=0)
    assert set(rest.train["age"]) == {0.0}
    assert set(rest.test["sex"]) == {""}
    assert rest.valid.dtypes.equals(found.valid.dtypes)
    assert set(without(found, Features(("age",), "constant", 2.5), seed=0).test["age"]) == {2.5}
    with pytest.raises(ConfigError) as refused:
        without(etude.Data(frame().astype({"age": int})), Features(("age",), "constant", 2.5), seed=0)
    assert str(refused.value).startswith("the train part of the data cannot be had with a constant for 'age': 'age' h")


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_tables_stay_what_they_are(library: str) -> None:
    module = pytest.importorskip(library)
    make = module.DataFrame if library == "polars" else module.table
    table = make(frame().to_dict("list"))
    found = etude.Data(table, table, target="y")
    rest = without(found, Features(("age",)), seed=0)
    assert (type(rest.train), rest.train.shape) == (type(table), (N, 2))
    mixed = without(found, Features(("age",), "permute"), seed=0).train
    assert sorted(mixed["age"].to_numpy()) == sorted(frame()["age"])
    assert mixed["age"].to_numpy().tolist() != frame()["age"].tolist()
    assert mixed["y"].to_numpy().tolist() == frame()["y"].tolist()
    assert set(without(found, Features(("sex",), "constant", "f"), seed=0).valid["sex"].to_numpy()) == {"f"}


def test_a_table_whose_columns_are_numbers() -> None:
    table = pd.DataFrame([[1, 2], [3, 4], [5, 6]])
    assert list(without(etude.Data(table, target="1"), Features(("0",)), seed=0).train.columns) == [1]
    mixed = without(etude.Data(table, target="1"), Features(("0",), "permute"), seed=1).train
    assert sorted(mixed[0]) == [1, 3, 5]


def test_columns_of_arrays_go_with_all_that_belong_to_a_feature() -> None:
    x, y = np.arange(3 * N, dtype=np.float32).reshape(N, 3), np.arange(N)
    found = etude.Data((x, y), (x[:5], y[:5]), features=["age", "sex", "sex"], n_features=3, n_classes=N)
    rest = without(found, Features(("sex",)), seed=0)
    assert rest.train[0].tolist() == x[:, :1].tolist()
    assert rest.train[0].dtype == np.float32
    assert rest.valid[0].shape == (5, 1)
    assert rest.train[1] is y
    assert rest.derived == {"n_features": 1, "n_classes": N}
    assert rest.features == ("age",)
    assert (found.derived["n_features"], x.shape) == (3, (N, 3))
    mixed = without(found, Features(("sex",), "permute"), seed=0).train[0]
    assert (mixed[:, 2] - mixed[:, 1] == 1).all()
    assert (mixed[:, 0] == x[:, 0]).all()
    assert sorted(mixed[:, 1]) == sorted(x[:, 1])
    assert (mixed[:, 1] != x[:, 1]).any()
    assert without(found, Features(("sex",), "constant", 1.0), seed=0).train[0][:, 1:].tolist() == [[1.0, 1.0]] * N


def test_sequences_are_shuffled_whole() -> None:
    x = np.arange(N * 4 * 2).reshape(N, 4, 2)
    mixed = without(etude.Data((x, x[:, 0, 0]), features=["a", "b"]), Features(("b",), "permute"), seed=0).train[0]
    assert (np.diff(mixed[:, :, 1], axis=1) == 2).all()
    assert (mixed[:, :, 0] == x[:, :, 0]).all()
    assert sorted(mixed[:, 0, 1]) == sorted(x[:, 0, 1])


def test_channels_keep_their_type() -> None:
    images = np.random.default_rng(0).integers(0, 256, (N, 4, 5, 3), dtype=np.uint8)
    found = etude.Data((images, np.zeros(N)), n_channels=3)
    rest = without(found, Features(("channel:1",)), seed=0)
    assert rest.train[0].dtype == np.uint8
    assert (rest.train[0] == images[..., [0, 2]]).all()
    assert rest.derived == {"n_channels": 2}
    filled = without(found, Features(("channel:1",), "constant", 7), seed=0).train[0]
    assert (filled[..., 1] == 7).all()
    assert (filled[..., 0] == images[..., 0]).all()
    with pytest.raises(ConfigError, match="uint8 has no 300"):
        without(found, Features(("channel:1",), "constant", 300), seed=0)


def test_records_dicts_and_tuples_lose_fields() -> None:
    record = np.array([(1, 2.0, 0), (3, 4.0, 1)], dtype=[("age", "i4"), ("fare", "f8"), ("y", "i4")])
    rest = without(etude.Data(record, target="y"), Features(("age",)), seed=0).train
    assert (rest.dtype.names, rest.dtype.itemsize) == (("fare", "y"), 12)
    filled = without(etude.Data(record, target="y"), Features(("fare",), "constant"), seed=0).train
    assert (filled["fare"].tolist(), filled["age"].tolist()) == ([0.0, 0.0], [1, 3])
    part = OrderedDict(a=np.arange(N), b=[f"{i}" for i in range(N)], y=np.arange(N), classes=3)
    found = etude.Data(part, target="y")
    assert dict(without(found, Features(("a",)), seed=0).train) == {name: part[name] for name in ("b", "y", "classes")}
    mixed = without(found, Features(("a", "b"), "permute"), seed=0).train
    assert type(mixed) is OrderedDict
    assert [int(text) for text in mixed["b"]] == mixed["a"].tolist() != part["a"].tolist()
    assert without(found, Features(("b",), "constant", "x"), seed=0).train["b"] == ["x"] * N
    fields = etude.Data((part["a"], part["y"], part["y"]), fields=["a", "b", "y"], target="y", n_features=2)
    rest = without(fields, Features(("a",)), seed=0)
    assert (len(rest.train), rest.fields, rest.derived) == (2, ("b", "y"), {"n_features": 1})


def test_lists_of_examples() -> None:
    rows = [{"a": i, "b": i, "y": i} for i in range(N)]
    found = etude.Data(rows, target="y")
    assert without(found, Features(("a",)), seed=0).train[3] == {"b": 3, "y": 3}
    mixed = without(found, Features(("a",), "permute"), seed=0).train
    assert sorted(row["a"] for row in mixed) == list(range(N))
    assert [row["a"] for row in mixed] != [row["b"] for row in mixed] == list(range(N))
    assert without(found, Features(("a",), "constant"), seed=0).train[3] == {"a": 0, "b": 3, "y": 3}


def test_parts_without_a_data_are_changed_where_they_have_names() -> None:
    inputs, labels = frame()[["age", "sex"]], frame()["y"]
    rest = without((inputs, labels, inputs, labels), Features(("sex",)), seed=0)
    assert isinstance(rest, tuple)
    assert [list(getattr(part, "columns", [])) for part in rest] == [["age"], [], ["age"], []]
    assert set(without({"train": inputs, "valid": inputs}, Features(("sex",)), seed=0)["valid"].columns) == {"age"}


def test_a_description_goes_on_to_hold() -> None:
    found = data(features=["age", "sex"], modalities={"body": ["age", "sex"]})
    rest = without(without(found, Features(("age",)), seed=0), Features(("sex",)), seed=0)
    assert (rest.features, rest.modalities, list(rest.train.columns)) == ((), {"body": ()}, ["y"])
    assert isinstance(copy.copy(rest), etude.Data)


Named = namedtuple("Named", ["a", "y"])


@pytest.mark.parametrize(
    ("found", "names", "says"),
    [
        (data(), ("agee",), "'agee' cannot be taken out of the train part of the data: it has 'age', 'sex', 'y'. Let"),
        (data(), ("y",), "'y' cannot be taken out: it is the label, by etude.Data. Take another feature."),
        (data(ids="sex"), ("sex",), "'sex' cannot be taken out: it is an id, by etude.Data."),
        (
            etude.Data(frame(), frame()[["sex", "y"]]),
            ("age",),
            "'age' cannot be taken out of the valid part of the data: it has 'sex', 'y'. Let each part have all feat",
        ),
        (
            etude.Data((np.zeros((4, 6)), np.zeros(4))),
            ("age",),
            "'age' cannot be taken out of the train part of the data: nothing names the features of what is there "
            "(tuple). Name them, etude.Data(train, valid, features=[...]), one name for each column of an array, or "
            "fields=[...] for the items of an example; or let data() take without: frozenset[str] and leave them out "
            "itself.",
        ),
        (
            (frame(), np.zeros((4, 3))),
            ("age",),
            "'age' cannot be taken out of item 1 of what data() returned: nothing names the features of what is there "
            "(ndarray of shape (4, 3)).",
        ),
        (
            etude.Data(frame(), target="y", n_features=7),
            ("age",),
            "n_features=7, as data() gave it, is not how many features are there (2), so nobody knows what it is "
            "without age. Leave n_features out of etude.Data, and it is counted; or let data() take without",
        ),
        (
            etude.Data(Named(np.zeros(3), np.zeros(3)), target="y"),
            ("a",),
            "the train part of the data cannot be had without 'a': Named is a named tuple, and would lose a field.",
        ),
    ],
)
def test_what_cannot_be_taken_out_is_refused_with_what_can_be_done(
    found: Any, names: tuple[str, ...], says: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        without(found, Features(names), seed=0)
    assert str(refused.value).startswith(says)


def test_a_function_that_was_to_leave_features_out_and_did_not_is_told_so() -> None:
    check_left_out(etude.Data(frame()[["sex"]]), Features(("age",)))
    check_left_out(np.zeros((3, 2)), Features(("age",)))
    with pytest.raises(ResultError) as refused:
        check_left_out(data(), Features(("age",)))
    assert str(refused.value) == (
        "data() was called with without={'age'}, and what it returned has 'age'. Leave these out of every part."
    )
