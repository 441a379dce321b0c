"""Verdicts as text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from etude.analyse.verdict import Verdict
from etude.core.text import count, span


def as_text(found: Sequence[Verdict], *, base: str, level: float, margin: float | None, says: Sequence[str]) -> str:
    """Return verdicts as a table, with what is to be said above and below it."""
    if not found:
        return "\n".join(says)
    tests = ", ".join(dict.fromkeys(one.test for one in found))
    little = "" if margin is None else f"; less than {margin:g} does not matter"
    head = f"{count(len(found), 'component')} beside {base!r}: {tests}, corrected by Holm, level {level:g}{little}."
    columns = ["component", "effect", f"{1 - level:.0%} interval", "p", "corrected"]
    columns += ["p same"] if margin is not None else []
    columns += ["better", "n", "verdict"]
    rows = [_row(one, same=margin is not None) for one in found]
    notes = [f"{one.component}: {'; '.join(one.says)}." for one in found if one.says]
    return "\n".join([*says, head, *aligned([columns, *rows]), *notes])


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
