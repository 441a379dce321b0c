"""Raw runs of a paper: a gzipped file that is no part of this repository, a row for each run."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks.common import Cell

T = TypeVar("T")


def read(file: Path, made: Callable[[Mapping[str, str]], T], *, source: str, variable: str) -> list[T]:
    """Return what is made of each row, in their order.

    Args:
        file: Where they are.
        made: Makes a run of a row.
        source: Where its files are published.
        variable: The environment variable that names another place.

    Raises:
        SystemExit: The file is not there, or holds something else.
    """
    try:
        with gzip.open(file, "rt", newline="") as lines:
            return [made(row) for row in csv.DictReader(lines)]
    except OSError as error:
        raise SystemExit(
            f"The paper's raw runs cannot be read: {error}. They are the files PaperCSVs/**/*.csv of {source}, put "
            f"together in one gzipped file, with a first column source_file. Name it with {variable}=..."
        ) from None
    except (KeyError, ValueError) as error:
        raise SystemExit(f"{file} does not hold the paper's raw runs: {error!r} is wrong with it.") from None


def cells(read_all: Callable[[], object]) -> Callable[[bool], Sequence[Cell]]:
    """Return what says which cells a benchmark of raw runs has: a single one, which says whether it is a small run.

    Args:
        read_all: Reads the runs: if they are not there, that is said before anything starts.
    """

    def found(small: bool) -> Sequence[Cell]:
        if not small:
            read_all()
        return [Cell("étude", {"small": small})]

    return found
