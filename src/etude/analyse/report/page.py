"""The page: one file of HTML that needs no network, no server, and no scripts to be read.

Its policy (CSP) lets it load nothing and run no script but its own, by digest: what a study is called, or a parameter,
is escaped, and could do nothing if it were not.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from etude.analyse.report.facts import Facts, Ran
from etude.analyse.report.figure import Figure
from etude.analyse.report.palette import DARK, FONT, LIGHT, classes, variables
from etude.analyse.report.tables import Table, trials
from etude.analyse.report.words import safe, shown
from etude.core.text import count

MOST_ROWS: Final = 1000
MOST_COLUMNS: Final = 24
"""Parameters that the page's table of trials has; the others are in its file."""

MOST_CARDS: Final = 7
"""Labels and texts in a row."""

LONG: Final = 30
"""Letters of a cell that is one line."""

VERBS: Final = {"tune": "Search", "ablate": "Ablation", "fit": "Final training", "compare": "Comparison"}


@dataclass(frozen=True)
class Section:
    """A part of a page: its title, what it is linked by, and its HTML."""

    title: str
    key: str
    body: str


@dataclass(frozen=True)
class Dress:
    """What a page wears and does.

    Attributes:
        css: Its rules, beside those for colours.
        script: Its script.
        policy: What its policy (CSP) allows beside that script.
    """

    css: str
    script: str
    policy: str = ""


def dress() -> Dress:
    """Return that of a report."""
    return Dress(asset("page.css"), asset("theme.js") + asset("page.js"))


def page(title: str, head: str, sections: Sequence[Section], *, foot: str, wears: Dress | None = None) -> str:
    """Return the whole page; it wears what reports do, unless something else is given."""
    wears = wears or dress()
    css, script = wears.css, wears.script
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'{wears.policy}"
    links = "".join(f'<li><a href="#{one.key}">{safe(one.title)}</a></li>' for one in sections)
    body = "".join(f'<section id="{one.key}"><h2>{safe(one.title)}</h2>{one.body}</section>\n' for one in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{safe(title)}</title>\n<style>{_colours()}\n{css}</style>\n</head>\n<body>\n"
        f'<header class="top">{head}</header>\n<nav aria-label="Parts"><ul>{links}</ul></nav>\n'
        f'<main>\n{body}</main>\n<footer>{foot}</footer>\n<div id="tip" hidden></div>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def asset(name: str) -> str:
    """Return a file of those that reports are made with."""
    return resources.files("etude.analyse.report").joinpath("assets", name).read_text(encoding="utf-8")


def _colours() -> str:
    dark = f"color-scheme:dark;{variables(DARK)}"
    return (
        f":root{{color-scheme:light;{variables(LIGHT)}}}body{{font-family:{FONT}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f"@media screen{{:root[data-theme=dark]{{{dark}}}}}{classes()}"
    )


def heading(facts: Facts) -> str:
    """Return what stands on top: what it is, and what came of it."""
    warn = "" if facts.standing == "complete" else " warn"
    badge = f'<span class="badge{warn}">{safe(facts.standing)}</span>' if facts.standing else ""
    simulated = '<span class="badge warn">simulated: nothing was trained</span>' if facts.simulated else ""
    said = "".join(f"<li>{safe(one)}</li>" for one in facts.says)
    says = f'<ul class="says">{said}</ul>' if said else ""
    return (
        f'<div class="eyebrow"><span>{VERBS.get(facts.verb, "Study")}</span>'
        f"{badge}{simulated}"
        '<span class="tools"><button id="theme" type="button" hidden>Dark</button></span></div>'
        f"<h1>{safe(facts.name)}</h1>{first(facts)}"
        f'<p class="result">{safe(facts.result)}</p>'
        f"{says}"
    )


def cards(pairs: Sequence[tuple[str, str]]) -> str:
    """Return labels and texts, side by side: in one row, or in two of the same length where they are many."""
    columns = len(pairs) if len(pairs) <= MOST_CARDS else math.ceil(len(pairs) / 2)
    inner = "".join(f"<div><dt>{safe(label)}</dt><dd>{safe(text)}</dd></div>" for label, text in pairs)
    return f'<dl class="cards" style="--n:{columns}">{inner}</dl>' if inner else ""


def record(pairs: Sequence[tuple[str, str]]) -> str:
    """Return labels and texts, one below the other."""
    inner = "".join(f"<dt>{safe(label)}</dt><dd>{safe(text)}</dd>" for label, text in pairs)
    return f'<dl class="record">{inner}</dl>' if inner else ""


def figures(found: Sequence[Figure]) -> str:
    """Return figures side by side, where there is room."""
    inner = "".join(map(_figure, found))
    few = " few" if sum(one.narrow is None for one in found) < 3 else ""  # noqa: PLR2004 - then they may be larger
    return f'<div class="figures{few}">{inner}</div>' if inner else ""


def first(facts: Facts) -> str:
    """Return what has to be read before the result."""
    return "".join(f'<p class="first">{safe(said)}</p>' for said in facts.first)


def _figure(one: Figure) -> str:
    kind = ' class="full"' if one.narrow is not None else ""
    drawn = one.drawing.inline() if one.narrow is None else one.narrow.inline("narrow") + one.drawing.inline("wide")
    said = f"<figcaption>{safe(one.caption)}</figcaption>" if one.caption else ""
    return f'<figure id="figure-{safe(one.name)}"{kind}><h3>{safe(one.title)}</h3>{drawn}{said}</figure>'


def table(one: Table, *, caption: bool = True) -> str:
    """Return a table that can be sorted."""
    numeric = [one.is_numeric(nth) for nth in range(len(one.columns))]
    heads = "".join(head(name, n) for name, n in zip(one.columns, numeric, strict=True))
    rows = ("".join(cell(text, n) for text, n in zip(row, numeric, strict=True)) for row in one.texts())
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    titled = f"<h3>{safe(one.title)}</h3>" if caption else ""
    note = f'<p class="note">{safe(one.note)}</p>' if one.note else ""
    inner = f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>"
    return f"{titled}{scrolled(f'<table data-sort>{inner}</table>', one.title)}{note}"


def scrolled(inner: str, label: str, *, tall: bool = False) -> str:
    """Return a table that is scrolled where it does not fit, with a keyboard as well."""
    kind = "scroll tall" if tall else "scroll"
    return f'<div class="{kind}" tabindex="0" role="region" aria-label="{safe(label)}">{inner}</div>'


def head(name: str, numeric: bool) -> str:
    """Return a cell of a table's head."""
    kind = " class=n" if numeric else ""
    return f'<th scope="col"{kind} title="{safe(name)}">{safe(name)}</th>'


def cell(text: str, numeric: bool) -> str:
    """Return a cell."""
    kind = " class=n" if numeric else " class=w" if len(text) > LONG else ""
    return f"<td{kind}>{safe(text)}</td>"


def threats(facts: Facts) -> str:
    """Return what speaks against the conclusions, the most serious first."""
    order = {"serious": 0, "caution": 1, "note": 2}
    ordered = sorted(facts.threats, key=lambda one: order[one.seriousness])
    inner = "".join(
        f'<li class="t-{one.seriousness}"><b>{safe(one.name)}</b><span class="how">{one.seriousness}</span>'
        f"<br>{safe(one.finding)}</li>"
        for one in ordered
    )
    found = f'<ul class="threats">{inner}</ul>' if inner else ""
    clear = f'<p class="note">Nothing found of: {safe(", ".join(facts.clear))}.</p>' if facts.clear else ""
    return found + clear


def trial_table(facts: Facts, order: Sequence[str]) -> str:
    """Return the trials, best first, to be sorted and filtered."""
    if not facts.trials:
        return '<p class="lead">There are no trials yet.</p>'
    place = {number: nth for nth, number in enumerate(facts.best)}
    rows = sorted(facts.trials, key=lambda one: (place.get(one.trial, len(place)), one.state != "finished", one.trial))
    rows, columns = rows[:MOST_ROWS], list(order)[:MOST_COLUMNS]
    whole = trials(facts, columns, rows)
    keep = [nth for nth in range(len(whole.columns)) if any(row[nth] is not None for row in whole.rows)]
    numeric = {nth: whole.is_numeric(nth) for nth in keep}
    heads = "".join(head(whole.columns[nth], numeric[nth]) for nth in keep)

    def cells(texts: Sequence[str]) -> str:
        return "".join(_trial_cell(texts[nth], numeric[nth]) for nth in keep)

    body = "".join(
        f'<tr data-t="{one.trial}" data-s="{safe(one.state)}">{cells(texts)}</tr>\n'
        for one, texts in zip(rows, whole.texts(), strict=True)
    )
    notes = "".join(_trial_notes(facts, rows, columns, order))
    inner = f'<table id="trials" data-sort><thead><tr>{heads}</tr></thead><tbody>\n{body}</tbody></table>'
    return (
        f"{notes}{_filters(facts)}{scrolled(inner, 'Trials', tall=True)}"
        '<p class="note">All digits, and all trials: <a href="tables/trials.csv">tables/trials.csv</a>.</p>'
    )


def _trial_cell(text: str, numeric: bool) -> str:
    if numeric:
        return f"<td class=n>{safe(text)}</td>"
    return f'<td class=t title="{safe(text)}">{safe(text)}</td>' if len(text) > LONG else f"<td>{safe(text)}</td>"


def _trial_notes(facts: Facts, rows: Sequence[Ran], columns: Sequence[str], order: Sequence[str]) -> Iterator[str]:
    parts = []
    if len(rows) < len(facts.trials):
        parts.append(f"The first {len(rows):,} of {len(facts.trials):,} trials, the best first.")
    if len(columns) < len(order):
        parts.append(f"{len(columns)} of {len(order)} parameters that varied have a column.")
    if parts:
        yield f'<p class="lead">{safe(" ".join(parts))}</p>'
    if len(rows) > 25:  # noqa: PLR2004
        yield '<p class="lead paper-only">On paper: the first 25.</p>'


def _filters(facts: Facts) -> str:
    states = "".join(f"<option>{safe(state)}</option>" for state in dict.fromkeys(one.state for one in facts.trials))
    return (
        '<div class="filters" hidden><input type="search" aria-label="Filter trials" '
        'placeholder="Words, or conditions such as lr&lt;0.01" autocomplete="off">'
        f'<select aria-label="State"><option value="">all states</option>{states}</select><output></output></div>'
    )


def reproduction(facts: Facts) -> str:
    """Return how to run it again, and whether the code is what it was."""
    standing = {"same": "as recorded", "changed": "has changed", "not found": "not found now"}
    rows = "".join(
        f"<tr><td><code>{safe(one.name)}</code></td><td>{standing[one.standing]}</td></tr>" for one in facts.code
    )
    head = "<tr><th>code</th><th>now, beside what was recorded</th></tr>"
    code = scrolled(f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>", "Code") if rows else ""
    diffs = "".join(
        f"<details><summary>What has changed in {safe(one.name)}</summary><pre>{safe(one.diff)}</pre></details>"
        for one in facts.code
        if one.diff
    )
    if facts.diff:
        told = "Changes to the commit, as they were recorded"
        diffs += f"<details><summary>{told}</summary><pre>{safe(facts.diff)}</pre></details>"
    if facts.packages:
        listed = "\n".join(f"{name}=={version}" for name, version in facts.packages.items())
        diffs += (
            f"<details><summary>{count(len(facts.packages), 'package')}</summary><pre>{safe(listed)}</pre></details>"
        )
    return record(facts.record) + code + diffs


def held(values: dict[str, Any]) -> str:
    """Return the parameters that were the same in all trials."""
    if not values:
        return ""
    told = ", ".join(f"{name}={shown(value)}" for name, value in list(values.items())[:60])
    more = f", and {len(values) - 60} more" if len(values) > 60 else ""  # noqa: PLR2004
    return f'<p class="note">Held fixed: {safe(told + more)}.</p>'
