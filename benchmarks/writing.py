"""Paragraphs and tables of Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

WIDTH: Final = 118


def paragraph(*sentences: str) -> str:
    """Return sentences as lines of one width, with an empty line after them."""
    return _filled(" ".join(sentences)) + "\n"


def points(*told: str) -> str:
    """Return a list, with an empty line after it."""
    return "\n".join(_filled(f"- {each}", indent="  ") for each in told) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, with an empty line after it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def listed(names: Sequence[str]) -> str:
    """Return names as people list them; "none" if there are none."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part) or "none"


def commit(line: Mapping[str, Any]) -> str:
    """Return which commit a benchmark printed its line at."""
    return f"{line['commit']}{', with changes' if line['changed'] else ''}"


def _filled(text: str, *, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
