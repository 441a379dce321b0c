"""What the pages about a paper's raw runs share: how they begin, and tables of printed numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.common import Result
from benchmarks.writing import commit, paragraph, table


def head(line: Mapping[str, Any], headline: str, *, paper: int, source: str) -> Iterator[str]:
    """Yield the first line of a page, and where its numbers come from.

    Args:
        line: What the benchmark printed.
        headline: What came of it.
        paper: Which paper of the thesis it is about.
        source: Where its raw runs are published.
    """
    name = line["benchmark"]
    yield f"# {headline}\n"
    yield paragraph(
        f"Made by `python -m benchmarks.page` from the [last line](lines/{name}.json) that `make bench",
        f"NAME={name} ARGS='--runs 1'` printed, commit {commit(line)}. It is about Paper {paper} of",
        f"Sheikholeslami's thesis (2025), and computed from its [raw runs]({source}); nothing was trained.",
    )


def not_rounded(numbers: Sequence[Result]) -> str:
    """Return the table of numbers that are not simply rounded."""
    return table(("not simply rounded", *COLUMNS), map(_told, numbers))


def in_the_text(numbers: Sequence[Result], title: str) -> str:
    """Return the table of numbers that are in no table of the paper."""
    return table((title, *COLUMNS), [_told(number) for number in numbers if not number["where"].startswith("table")])


def absent(numbers: Sequence[Result]) -> str:
    """Return the table of numbers that the raw runs do not hold."""
    return table(("where", "what", "printed"), [(n["where"], n["what"], n["printed"]) for n in numbers])


COLUMNS: Final = ("where", "printed", "from the runs", "")


def _told(number: Result) -> tuple[str, ...]:
    return number["what"], number["where"], number["printed"], f"{number['found']:.7g}", number["how"]
