"""Verdicts as text, and as a table for notebooks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from etude.analyse.verdict import Verdict
from etude.core import markup
from etude.core.text import count, span


def as_text(found: Sequence[Verdict], *, base: str, level: float, margin: float | None, says: Sequence[str]) -> str:
    """Return verdicts as a table, with what is to be said above and below it."""
    if not found:
        return "\n".join(says)
    rows = _rows(found, level=level, margin=margin)
    return "\n".join([*says, _head(found, base, level, margin), *aligned(rows), *_notes(found)])


def as_html(found: Sequence[Verdict], *, base: str, level: float, margin: float | None, says: Sequence[str]) -> str:
    """Return the same for notebooks."""
    if not found:
        return markup.block(markup.lines(says))
    columns, *rows = _rows(found, level=level, margin=margin)
    above = markup.lines([*says, _head(found, base, level, margin)])
    return markup.block(above, markup.table(columns, rows), markup.lines(_notes(found)))


def _head(found: Sequence[Verdict], base: str, level: float, margin: float | None) -> str:
    tests = ", ".join(dict.fromkeys(one.test for one in found))
    little = "" if margin is None else f"; less than {margin:g} does not matter"
    return f"{count(len(found), 'component')} beside {base!r}: {tests}, corrected by Holm, level {level:g}{little}."


def _rows(found: Sequence[Verdict], *, level: float, margin: float | None) -> list[list[str]]:
    """Return the titles of columns, and a row for each verdict."""
    columns = ["component", "effect", f"{1 - level:.0%} interval", "p", "corrected"]
    columns += ["p same"] if margin is not None else []
    columns += ["better", "n", "verdict"]
    return [columns, *(_row(one, same=margin is not None) for one in found)]


def _notes(found: Sequence[Verdict]) -> list[str]:
    return [f"{one.component}: {'; '.join(one.says)}." for one in found if one.says]


def _row(one: Verdict, *, same: bool) -> list[str]:
    needed = "" if one.seeds_needed is None else f" ({one.seeds_needed:,} seeds would do)"
    low, high = span(one.low, one.high)
    return [
        one.component,
        _end(one.effect),
        f"{_end(low)} to {_end(high)}",
        f"{one.p:.3g}",
        f"{one.p_corrected:.3g}",
        *([f"{one.p_same_corrected:.3g}"] if same else []),
        str(one.better) if not math.isnan(one.better.p) else "-",
        str(one.n),
        f"{one.verdict.value}{needed}",
    ]


def _end(value: float) -> str:
    return f"{value:+.4g}" if math.isfinite(value) else "?"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of a table whose columns stand below each other."""
    widths = [max(len(row[nth]) for row in rows) for nth in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
