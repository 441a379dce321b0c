"""Digests of the first rows: the same for the same rows, whatever holds them, and none where nobody can tell."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from etude.core.data import Data
from etude.data.first_rows import ROWS, first_rows
from etude.worker.beginnings import Beginning

COLUMNS = {"age": [31, 45, 28], "port": ["s", "c", None], "fare": [7.5, 71.25, 8.0]}


def arrays(change: bool = False) -> Any:
    x = np.arange(12.0).reshape(6, 2)
    return (x + change, np.arange(6) % 2)


def tables(make: Any) -> Any:
    def table(change: bool = False) -> Any:
        return make({**COLUMNS, "fare": [7.5, 71.25, 9.0 if change else 8.0]})

    return table


def fields(change: bool = False) -> Any:
    return {"x": torch.arange(6.0) + change, "names": ["a", "b"], "y": np.array(["b", "c"], dtype=object)}


@pytest.mark.parametrize(
    ("data", "where", "changed"),
    [
        (arrays, {"0", "1"}, {"0"}),
        (tables(pd.DataFrame), {*COLUMNS}, {"fare"}),
        (tables(pl.DataFrame), {*COLUMNS}, {"fare"}),
        (tables(pa.table), {*COLUMNS}, {"fare"}),
        (fields, {"x", "names", "y"}, {"x"}),
        (lambda change=False: pd.Series([1, 2 + change]), {""}, {""}),
    ],
)
def test_what_differs_is_told_by_its_place(data: Any, where: set[str], changed: set[str]) -> None:
    one, same, other = first_rows(data()), first_rows(data()), first_rows(data(True))
    assert one == same
    assert set(one) == where
    assert {place for place in one if one[place] != other[place]} == changed


def test_only_the_first_rows_count() -> None:
    rows = np.zeros(ROWS + 1)
    later, sooner = rows.copy(), rows.copy()
    later[ROWS], sooner[ROWS - 1] = 1.0, 1.0
    assert first_rows(rows) == first_rows(later) != first_rows(sooner)


@pytest.mark.parametrize(
    "data", [object(), lambda: 1, [object()], [[np.ones(3)], 5], np.array([object()]), 5, None, iter([1])]
)
def test_of_what_is_not_plain_nothing_is_told(data: Any) -> None:
    assert first_rows(data) == {}


def test_a_beginning_has_the_rows_of_the_training_part_where_no_loader_gives_batches() -> None:
    x, y = arrays()
    took, other = Beginning(), Beginning()
    took.data(Data({"x": x, "y": y}, {"x": x}))
    other.data(Data({"x": x, "y": y}, {"x": x + 1}))
    assert set(took.found) == {"data", "tensors"}
    assert took.found == other.found


def test_no_torch_is_loaded_for_it() -> None:
    code = (
        "import sys, numpy; from etude.worker.beginnings import Beginning; took = Beginning(); "
        "took.data((numpy.ones((3, 2)), numpy.ones(3))); took.model(object()); "
        "assert set(took.found['tensors']) == {'0', '1'}; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
