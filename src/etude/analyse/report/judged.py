"""Verdicts on a page: a table with their intervals, and what is to be said of them."""

from __future__ import annotations

import math
from typing import Final

from etude.analyse.report.facts import Facts, Verdicts
from etude.analyse.report.page import cell, head, scrolled
from etude.analyse.report.tables import how_judged
from etude.analyse.report.words import number, safe
from etude.core.text import span

WORDS: Final = {
    "matters": "matters",
    "hurts": "hurts",
    "does not matter": "same",
    "undecided": "undecided",
    "better": "matters",
    "worse": "hurts",
    "as good": "same",
}
"""Verdict -> the class that paints it."""


def verdict_table(judged: Verdicts | None, *, of: str, key: str) -> str:
    """Return verdicts with their intervals, and what is to be said of them.

    Args:
        judged: The verdicts, if there are any.
        of: What is judged: "component".
        key: What the table is found by.
    """
    if judged is None:
        return ""
    if judged.why_not:
        return f'<p class="first">No verdicts: {safe(judged.why_not)}</p>'
    rows = []
    for one in judged.found:
        needed = f" · {one.seeds_needed:,} seeds would do" if one.seeds_needed is not None else ""
        low, high = span(one.low, one.high)
        told = f"{_signed(low)} to {_signed(high)}" if math.isfinite(low) else "none"
        rows.append(
            f"<tr>{cell(one.component, False)}"
            f'<td><span class="verdict v-{WORDS.get(one.verdict, "undecided")}">{safe(one.verdict)}</span>{needed}</td>'
            + "".join(
                f"<td class=n>{text}</td>"
                for text in (_signed(one.effect), told, _p(one.p), _p(one.p_corrected), _p(one.better), str(one.n))
            )
            + "</tr>"
        )
    columns = [
        of,
        "verdict",
        "effect",
        f"{1 - judged.level:.0%} interval",
        "p",
        "p corrected",
        "P(better)",
        "n",
    ]
    heads = "".join(head(name, nth > 1) for nth, name in enumerate(columns))
    notes = [f"{one.component}: {'; '.join(one.says)}." for one in judged.found if one.says]
    more = "".join(f"<li>{safe(note)}</li>" for note in notes[:40])
    body, said = "".join(rows), f'<ul class="says">{more}</ul>' if more else ""
    inner = f'<table id="{key}" data-sort><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
    return f'{scrolled(inner, key.capitalize())}<p class="note">{safe(how_judged(judged))}</p>{said}'


def controls(facts: Facts) -> str:
    """Return the verdicts beside wholes of the same size; nothing where there are none."""
    found = verdict_table(facts.controls, of="component", key="controls")
    return f"<h3>Is it the part, or the size?</h3>{found}" if found else ""


def _signed(value: float) -> str:
    return f"+{number(value)}" if value > 0 else number(value)


def _p(value: float) -> str:
    return number(value, 3) if math.isfinite(value) else "–"
