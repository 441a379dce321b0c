"""Tables of a report: one value, and its forms as CSV, Markdown and LaTeX; the page has its own."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from etude.analyse.report.facts import Arm, Facts, Ran, Verdicts
from etude.analyse.report.words import decimals, shown

BEST: Final = 10


@dataclass(frozen=True)
class Table:
    """A table of a report.

    Attributes:
        name: The name of its files, without an ending.
        title: What it shows.
        columns: Its head.
        rows: What stands in it, as plain values; None where nothing stands.
        note: What is to be said of it.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""

    def texts(self) -> list[list[str]]:
        """Return the rows as people read them: numbers of a column have one number of decimals."""
        digits = [self._digits(nth) for nth in range(len(self.columns))]
        return [[_text(value, digits[nth]) for nth, value in enumerate(row)] for row in self.rows]

    def is_numeric(self, nth: int) -> bool:
        """Say whether a column holds numbers alone."""
        values = [row[nth] for row in self.rows if row[nth] is not None]
        return bool(values) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)

    def _digits(self, nth: int) -> int | None:
        """Return how many decimals a column has; None where each number is written by itself."""
        values = [row[nth] for row in self.rows if isinstance(row[nth], float) and math.isfinite(row[nth])]
        sizes = [abs(value) for value in values if value]
        if not sizes or max(sizes) / min(sizes) > 100 or max(sizes) >= 1e7:  # noqa: PLR2004 - one form would hide some
            return None
        return decimals(values)


def _text(value: Any, digits: int | None) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and digits is not None and math.isfinite(value):
        return f"{value:.{digits}f}".replace("-", "\u2212")
    return shown(value)


def as_csv(table: Table) -> str:
    """Return a table as CSV, numbers with all their digits."""
    text = io.StringIO(newline="")
    out = csv.writer(text, lineterminator="\n")
    out.writerow(table.columns)
    out.writerows([_plain(value) for value in row] for row in table.rows)
    return text.getvalue()


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, bool | list | tuple | Mapping) else value


def as_markdown(table: Table) -> str:
    """Return a table in Markdown."""
    rules = ["---:" if table.is_numeric(nth) else "---" for nth in range(len(table.columns))]
    rows = [[_markdown(cell) for cell in row] for row in [list(table.columns), *table.texts()]]
    lines = [rows[0], rules, *rows[1:]]
    note = f"\n{_markdown(table.note)}\n" if table.note else ""
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + note


def _markdown(text: str) -> str:
    return re.sub(r"([\\|`*_<>\[\]])", r"\\\1", text).replace("\n", " ")


def as_latex(table: Table) -> str:
    """Return a table in LaTeX, for the package booktabs."""
    kinds = "".join("r" if table.is_numeric(nth) else "l" for nth in range(len(table.columns)))
    head, *rows = (" & ".join(map(_latex, row)) for row in [list(table.columns), *table.texts()])
    body = "".join(f"{row} \\\\\n" for row in rows)
    note = f"% {_latex(table.note)}\n" if table.note else ""
    head = f"\\begin{{tabular}}{{{kinds}}}\n\\toprule\n{head}"
    return f"{note}{head} \\\\\n\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n"


_LATEX: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\u2212": "$-$",
    "∞": r"$\infty$",
    "…": r"\dots{}",
    "\n": " ",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)


def tables(facts: Facts, order: Sequence[str]) -> list[Table]:
    """Return the tables of a study.

    Args:
        facts: What is known of it.
        order: Its parameters, in the order of their columns.
    """
    found = [trials(facts, order)]
    if facts.costs:
        found.append(Table("cost", "What it cost", ("what", "how much"), tuple(facts.costs)))
    for judged, name, title in (
        (facts.verdicts, "verdicts", "Verdicts"),
        (facts.controls, "controls", "Is it the part, or the size?"),
    ):
        if judged is not None and judged.found:
            found.append(verdicts(judged, name, title))
    if facts.arms:
        found.append(taken(facts))
    if facts.groups:
        found.append(arms(facts))
    elif facts.best:
        by = {one.trial: one for one in facts.trials}
        rows = trials(facts, order, [by[number] for number in facts.best[:BEST]])
        title = "The Pareto front" if len(facts.modes) > 1 else "The best trials"
        found.append(without_empty(Table("best", title, rows.columns, rows.rows)))
    return found


def without_empty(table: Table) -> Table:
    """Return a table without columns in which nothing stands."""
    kept = [nth for nth in range(len(table.columns)) if any(row[nth] is not None for row in table.rows)]
    columns = tuple(table.columns[nth] for nth in kept)
    return Table(
        table.name, table.title, columns, tuple(tuple(row[nth] for nth in kept) for row in table.rows), table.note
    )


def trials(facts: Facts, order: Sequence[str], some: Sequence[Ran] | None = None) -> Table:
    """Return trials as a table, all of them if not told which."""
    metrics = list(facts.modes)
    grouped = ["arm"] if facts.groups else []
    columns = ("trial", "state", *grouped, *metrics, *order, "seed", "seconds", "reason")
    rows = tuple(
        (
            one.trial,
            one.state,
            *([one.group] if grouped else []),
            *(one.values.get(metric) for metric in metrics),
            *(one.params.get(name) for name in order),
            one.seed,
            one.wall_s,
            one.reason or None,
        )
        for one in (facts.trials if some is None else some)
    )
    return Table("trials", "All trials", _unique(columns), rows)


def _unique(columns: Sequence[str]) -> tuple[str, ...]:
    """Return column heads of which no two are the same."""
    found: list[str] = []
    for column in columns:
        found.append(column if column not in found else f"{column} ({len(found)})")
    return tuple(found)


def verdicts(judged: Verdicts, name: str, title: str) -> Table:
    """Return verdicts as a table."""
    columns = ("component", "verdict", "effect", "low", "high", "p", "p corrected", "P(better)", "n", "seeds needed")
    rows = tuple(
        (
            one.component,
            one.verdict,
            one.effect,
            one.low,
            one.high,
            one.p,
            one.p_corrected,
            one.better,
            one.n,
            one.seeds_needed,
        )
        for one in judged.found
    )
    return Table(name, title, columns, rows, how_judged(judged))


def how_judged(judged: Verdicts) -> str:
    """Return beside what verdicts were made, by which tests, and how sure they are to be."""
    tests = ", ".join(dict.fromkeys(one.test for one in judged.found))
    margin = f"; less than {judged.margin:g} does not matter" if judged.margin is not None else ""
    return f"Beside {judged.base}: {tests}, corrected by Holm, level {judged.level:g}{margin}."


def taken(facts: Facts) -> Table:
    """Return what each arm does without, how the rest still runs, and whether its runs are pairs with the base's."""
    rows = tuple(
        (
            one.name,
            "; ".join(one.taken) or ("nothing" if nth == 0 else None),
            one.rung or None,
            one.parameters,
            one.anew or None,
            None if nth == 0 else _paired(one),
            "; ".join(one.says) or None,
        )
        for nth, one in enumerate(facts.arms)
    )
    columns = ("arm", "taken away", "repair", "parameters", "drawn anew", "paired", "notes")
    note = (
        "Paired runs began with the same weights and data as the base's with the same seed, by their fingerprints; "
        "where nothing was seen of that, as was said."
    )
    return without_empty(Table("taken", "What each arm does without", columns, rows, note))


def _paired(one: Arm) -> str:
    if not one.runs:
        return "not run yet"
    return "not known" if one.pairs is None else f"{one.pairs} of {one.runs}"


def arms(facts: Facts) -> Table:
    """Return what came of each arm."""
    rows = []
    for name in facts.groups:
        own = [one for one in facts.trials if one.group == name]
        values = [value for one, value in facts.numbers() if one.group == name]
        mean = sum(values) / len(values) if values else None
        off = (
            (sum((v - mean) ** 2 for v in values) / (len(values) - 1)) ** 0.5
            if mean is not None and len(values) > 1
            else None
        )
        rows.append(
            (name, len(values), len(own) - len(values), mean, off, min(values, default=None), max(values, default=None))
        )
    columns = ("arm", "runs", "without a number", "mean", "std", "least", "most")
    return Table("arms", f"{facts.metric} of each arm", columns, tuple(rows))
