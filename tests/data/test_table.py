"""A table in a file as a data function."""

from __future__ import annotations

import contextlib
import gzip
import inspect
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import etude
from etude.core.errors import ConfigError
from etude.core.removal import Features
from etude.data.columns import read_columns
from etude.data.features import features_of, kept_without
from etude.data.without import without
from etude.definition import read_code

ROWS = 200


@pytest.fixture(scope="module", autouse=True)
def _readers_are_awake(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have what reads Parquet open what it keeps open for good, so that no test seems to have left it behind."""
    stored = tmp_path_factory.mktemp("awake") / "some.parquet"
    with contextlib.suppress(ImportError):
        pd.DataFrame({"a": [1.0, 2.0]}).to_parquet(stored)
        read_columns(str(stored))


def people() -> pd.DataFrame:
    draws = np.random.default_rng(0)
    age = draws.normal(40, 12, ROWS)
    age[::7] = np.nan
    port = draws.choice(["S", "C", "Q"], ROWS).astype(object)
    port[::9] = None
    return pd.DataFrame(
        {
            "no": range(ROWS),
            "age": age,
            "sex": draws.choice(["f", "m"], ROWS),
            "port": port,
            "died": draws.choice(["no", "yes"], ROWS),
        }
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    there = tmp_path / "people.csv"
    people().to_csv(there, index=False)
    return str(there)


def test_the_parts_are_arrays_with_named_columns(path: str) -> None:
    found = etude.table(path, label="died", ids=["no"])()
    assert [x.shape for x, _ in found] == [(140, 6), (20, 6), (40, 6)]
    assert {(x.dtype, y.dtype) for x, y in found} == {(np.dtype(np.float32), np.dtype(np.int64))}
    assert kept_without(found, {"port"})[0] == (6, (0, 1))
    assert kept_without(found, {"sex"})[0] == (6, (0, 2, 3, 4, 5))
    assert [feature.name for feature in features_of(found)] == ["age", "sex", "port"]
    assert found.derived == {"n_features": 6, "n_classes": 2}
    assert np.isfinite(found.train[0]).all()


def test_each_row_is_in_one_part_and_the_seed_says_in_which(path: str) -> None:
    def rows(**said: Any) -> list[list[float]]:
        found = etude.table(path, label="died", features=["no"], scale=False, **said)()
        return [x[:, 0].tolist() for x, _ in found]

    first = rows()
    assert sorted(itertools.chain(*first)) == list(range(ROWS))
    assert first == rows()
    assert first != rows(split_seed=1)
    assert first[0] == sorted(first[0])  # in the order of the file
    assert [len(part) for part in rows(test_share=0.5, valid_share=0)] == [100, 100]


def test_the_split_may_hang_on_the_seed_of_the_trial(path: str) -> None:
    fixed, own = (etude.table(path, label="died", ids="no", split_seed=seed) for seed in (3, None))
    assert set(inspect.signature(fixed).parameters) == {"without"}
    assert set(inspect.signature(own).parameters) == {"without", "seed"}
    assert (own(seed=3).train[0] == fixed().train[0]).all()
    assert (own(seed=4).train[1] != fixed().train[1]).any()


def test_all_is_learned_of_the_training_part_alone(tmp_path: Path) -> None:
    table = people()
    path = tmp_path / "people.csv"
    table.to_csv(path, index=False)
    train = etude.table(str(path), label="died", features=["no"], scale=False)().train[0][:, 0].astype(int)
    table.loc[~table.index.isin(train), "age"] = 1e6
    table.loc[~table.index.isin(train), "port"] = "elsewhere"
    other = tmp_path / "other.csv"
    table.to_csv(other, index=False)
    first, second = (etude.table(str(name), label="died", ids=["no"])() for name in (path, other))
    assert (first.train[0] == second.train[0]).all()
    assert (second.test[0][:, 2:] == 0).all()  # a category that is new is none of those known
    ages = first.train[0][:, 0]
    assert abs(ages.mean()) < 1e-6
    assert abs(ages.std() - 1) < 1e-6
    known = people()["age"][train]
    filled = (known.median() - known.fillna(known.median()).mean()) / known.fillna(known.median()).std(ddof=0)
    assert np.allclose(ages[known.isna()], filled, atol=1e-5)


def test_features_that_are_left_out_change_no_other_column(path: str) -> None:
    data = etude.table(path, label="died", ids=["no"])
    whole, rest = data(), data(without=frozenset({"port"}))
    assert [kept_without(rest, {name}) for name in ("age", "sex")] == [[(2, (1,))], [(2, (0,))]]
    assert all((x[:, :2] == y).all() for (x, _), (y, _) in zip(whole, rest, strict=True))
    assert rest.derived["n_features"] == 2
    assert (without(whole, Features(("port",)), seed=0).train[0] == rest.train[0]).all()
    with pytest.raises(ConfigError, match=r"No feature of .* is left"):
        data(without=frozenset({"age", "sex", "port"}))


def test_other_files_give_the_same(path: str, tmp_path: Path) -> None:
    packed = tmp_path / "people.csv.gz"
    packed.write_bytes(gzip.compress(Path(path).read_bytes()))
    tabs = tmp_path / "people.tsv"
    people().to_csv(tabs, index=False, sep="\t", na_rep="NA")
    first, *others = (etude.table(str(there), label="died", ids="no")() for there in (path, packed, tabs))
    assert all((first.train[0] == other.train[0]).all() for other in others)


def test_parquet_gives_what_csv_gives(path: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    stored = tmp_path / "people.parquet"
    people().to_parquet(stored)
    first, other = (etude.table(str(there), label="died", ids="no")() for there in (path, stored))
    assert np.allclose(first.train[0], other.train[0], atol=1e-6)
    assert (first.test[1] == other.test[1]).all()


def test_labels_are_classes_or_numbers(tmp_path: Path) -> None:
    def labels(values: list[Any], **said: Any) -> Any:
        path = tmp_path / "some.csv"
        pd.DataFrame({"x": range(len(values)), "y": values}).to_csv(path, index=False)
        found = etude.table(str(path), label="y", test_share=0, valid_share=0, **said)()
        return found.train[1].dtype, found.train[1].tolist(), found.derived.get("n_classes")

    assert labels([3, 5, 3]) == (np.int64, [0, 1, 0], 2)
    assert labels(["b", "a", "c"]) == (np.int64, [1, 0, 2], 3)
    assert labels([0.5, 1.0, 2.0]) == (np.float32, [0.5, 1.0, 2.0], None)
    assert labels([1, 2], task="numbers") == (np.float32, [1.0, 2.0], None)
    assert labels(list(range(30)))[0] == np.float32
    assert labels(list(range(30)), task="classes")[2] == 30


def test_a_study_notes_the_file_and_what_was_made_of_it(path: str) -> None:
    def parts(**said: Any) -> str:
        code = read_code({"data": etude.table(path, label="died", ids=["no"], **said)})
        assert not code.unseen
        return str(code.parts)

    first = parts()
    assert first == parts() != parts(split_seed=1)
    Path(path).write_text(Path(path).read_text() + "200,30,f,S,no\n")
    assert parts() != first


def test_a_file_that_changes_between_is_not_read(path: str) -> None:
    data = etude.table(path, label="died", ids=["no"])
    Path(path).write_text("no,age,sex,port,died\n1,2,f,S,no\n")
    with pytest.raises(ConfigError, match=r"has been changed since etude.table\(\) was called. Run the script again"):
        data()


def test_what_stands_in_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text('\ufeffname, size ,code\n"Smith, J.", 3 ,?\n"",NA,7\n\nLi,1e3,8\n')
    columns = read_columns(str(path))
    assert columns["name"] == ["Smith, J.", None, "Li"]
    assert np.array_equal(columns["size"], [3.0, np.nan, 1000.0], equal_nan=True)
    assert np.array_equal(columns["code"], [np.nan, 7.0, 8.0], equal_nan=True)
    assert read_columns(str(path), missing={"Li"})["size"] == ["3", "NA", "1e3"]


@pytest.mark.parametrize(
    ("content", "said", "says"),
    [
        (None, {}, "there.csv' cannot be read (FileNotFoundError). Pass the path of a table, absolute or from the fol"),
        ("a,b\n1,2\n", {"label": "c"}, "has no column 'c'. It has: a, b."),
        ("a,y\n1,2\n", {"features": ["a", "y"]}, "'y' is the label, and cannot be a feature as well. Leave it out of"),
        ("y\n1\n", {}, "has no feature but 'y', which is the label. Pass some features."),
        ("a,a,y\n1,1,2\n", {}, "has several columns called 'a'. Rename all but one."),
        ("a,y\n1,2\n", {"test_share": 0.6, "valid_share": 0.4}, "test_share=0.6 and valid_share=0.4 leave nothing to"),
    ],
)
def test_a_table_that_cannot_be_is_refused_at_once(
    content: str | None, said: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "there.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError) as refused:
        etude.table(str(path), **{"label": "y", **said})
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said", "says"),
    [
        ("a,y\n1,2\n3\n", {}, "has 2 names in its first row, and 1 value in row 3. Let each row have a value for each"),
        ("a,y\n1,\n3,4\n", {}, "'y' is missing in 1 row of"),
        ("a,y\n", {}, "has no rows. Pass a table with a line of names and a line for each example."),
        ("a,y\n1,p\n", {"task": "numbers"}, "task=\"numbers\", and 'y' has 'p' (str). Leave task= out."),
        (
            "a,y\n" + "".join(f"n{i},1\n" for i in range(99)),
            {},
            "'a' is a text with 69 different values among 69 rows, and no category. Pass features=[...] without it, or "
            "ids=['a'].",
        ),
    ],
)
def test_a_table_without_sense_is_refused_when_it_is_read(
    content: str, said: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "there.csv"
    path.write_text(content)
    data = etude.table(str(path), **{"label": "y", **said})
    with pytest.raises(ConfigError) as refused:
        data()
    assert says in str(refused.value)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'x\.xlsx' is no table that could be read. Pass a CSV"):
        etude.table("x.xlsx", label="y")


@pytest.mark.parametrize("library", ["sklearn.linear_model", "xgboost", "lightgbm"])
def test_trees_and_lines_are_fitted_to_the_parts_as_they_are(library: str, path: str) -> None:
    module = pytest.importorskip(library)
    made = {"sklearn.linear_model": "LogisticRegression", "xgboost": "XGBClassifier", "lightgbm": "LGBMClassifier"}
    said = {"xgboost": {"n_jobs": 1}, "lightgbm": {"n_jobs": 1, "verbose": -1}}.get(library, {})

    def train(data: Any) -> float:
        found = data()
        return float(getattr(module, made[library])(**said).fit(*found.train).score(*found.test))

    experiment = etude.Experiment(
        train, data=etude.table(path, label="died", ids=["no"]), metric="accuracy", mode="max"
    )
    assert 0 < experiment.run() < 1
