"""Raw runs of a paper: a gzipped file that is no part of this repository, a row for each run.

python -m benchmarks.raw_runs PaperCSVs runs.csv.gz    # from the files that were published with the paper
"""

from __future__ import annotations

import argparse
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
            f"The paper's raw runs cannot be read: {error}. They are the files PaperCSVs/**/*.csv of {source}. Put "
            "them together with `python -m benchmarks.raw_runs PaperCSVs runs.csv.gz`, and name the file with "
            f"{variable}=..."
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


def put_together(folder: Path, file: Path) -> int:
    """Write the rows of all published files into one, each with the file that it is of, and return how many there are.

    Files may have columns that others lack; a cell is empty where its file has none.
    """
    found = []
    for path in sorted(folder.rglob("*.csv")):
        with path.open(newline="", encoding="utf-8") as lines:
            found += [{"source_file": path.relative_to(folder).as_posix(), **row} for row in csv.DictReader(lines)]
    with gzip.open(file, "wt", newline="", encoding="utf-8") as out:
        table = csv.DictWriter(out, dict.fromkeys(name for row in found for name in row), restval="")
        table.writeheader()
        table.writerows(found)
    return len(found)


def main() -> None:
    """Run as a command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.raw_runs")
    parser.add_argument("folder", type=Path, help="the folder PaperCSVs of what was published")
    parser.add_argument("file", type=Path, help="where to write: the benchmark is told its name")
    options = parser.parse_args()
    if not any(options.folder.rglob("*.csv")):
        parser.error(f"{options.folder} has no *.csv.")
    print(f"{options.file}: {put_together(options.folder, options.file)} runs")


if __name__ == "__main__":
    main()
