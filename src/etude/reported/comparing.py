"""Two studies side by side: what of them compares, what does not, and what came of each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from etude.analyse.report import page as html
from etude.analyse.report.compared import beside
from etude.analyse.report.facts import Facts, as_json
from etude.analyse.report.tables import Table
from etude.analyse.report.writer import painter, put
from etude.core.errors import ConfigError
from etude.core.text import count, seconds, show
from etude.reported.arms_beside import result_of_arms, rows_of_arms
from etude.reported.at_hand import Study
from etude.reported.gathering import facts_of
from etude.store.provenance import runs_of

UNKNOWN: Final = "unknown"
OF_CODE: Final = ("function ", "class ", "global ", "default ", "closure value ", "module ", "package ")
"""How the parts of a definition begin that are code, or what code uses."""


@dataclass(frozen=True)
class Aspect:
    """One thing in which two studies agree or not.

    Attributes:
        name: What it is.
        one: How it is in the first study.
        other: How it is in the second.
        same: Whether they agree; None if that is not known.
        means: What follows if they do not.
    """

    name: str
    one: str
    other: str
    same: bool | None
    means: str = ""


@dataclass(frozen=True)
class Compared:
    """Two studies side by side: print it, or write its report.

    Attributes:
        one: What is known of the first.
        other: What is known of the second.
        aspects: In what they agree.
    """

    one: Facts
    other: Facts
    aspects: tuple[Aspect, ...]

    @property
    def comparable(self) -> bool:
        """Whether their values can stand beside each other: same metric, same direction."""
        return all(one.same is not False for one in self.aspects if one.name in ("metric", "direction"))

    @property
    def result(self) -> str:
        """What came of it, in a sentence."""
        a, b = self.one, self.other
        if not self.comparable:
            return f"{a.name} and {b.name} do not compare: their metrics, or the directions of these, are not the same."
        off = [one.name for one in self.aspects if one.same is False and one.means]
        unless = f" They differ in {', '.join(off)}, so this says nothing of why." if off else ""
        if a.groups or b.groups:
            return f"{result_of_arms(a, b)}{unless}"
        told = [_best(facts) for facts in (a, b)]
        if None in told or a.mode is None:
            return f"Nothing can be said of which is better: {a.name} {_says(a)}, {b.name} {_says(b)}."
        if told[0] == told[1]:
            return f"Both found {a.metric} {show(told[0])}.{unless}"
        first = (told[0] > told[1]) == (a.mode == "max")  # type: ignore[operator]
        best, rest = (a, b) if first else (b, a)
        return f"{best.name} found the better {a.metric}: {_says(best)}, beside {_says(rest)} in {rest.name}.{unless}"

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return what they are and what came of them: what, in the first, in the second, and what to say of it."""
        aspects = [(one.name, one.one, one.other, _word(one)) for one in self.aspects]
        return [*aspects, *((name, a, b, "") for name, a, b in _came(self.one, self.other))]

    def write(self, folder: Path, *, png: bool = False) -> Path:
        """Write a report of both, and return its page.

        Raises:
            ConfigError: The folder cannot be written, or what ``png`` needs is missing.
        """
        painted = painter() if png else None
        figures = beside(self.one, self.other) if self.comparable else []
        columns = ("what", self.one.name, self.other.name, "")
        table = Table("compared", "Side by side", columns, tuple(self.rows()))
        whole = msgspec.structs.replace(
            self.one, name=f"{self.one.name} and {self.other.name}", verb="compare", says=[]
        )
        whole = msgspec.structs.replace(whole, result=self.result, first=[], standing="", simulated=False)
        sections = [
            html.Section("Side by side", "table", html.table(table, caption=False)),
            html.Section("Figures", "figures", html.figures(figures) or "<p>Nothing of them compares in a figure.</p>"),
        ]
        page = html.page(
            f"{whole.name} · Étude", html.heading(whole), sections, foot=f"Written by Étude {whole.version}."
        )
        both = {"one": json.loads(as_json(self.one)), "other": json.loads(as_json(self.other)), "rows": self.rows()}
        put(folder, page, json.dumps(both, indent=1, ensure_ascii=False).encode(), figures, [table], painted)
        return folder / "index.html"

    def __str__(self) -> str:
        from etude.analyse.table import aligned

        head = ["", self.one.name, self.other.name, ""]
        return "\n".join([self.result, *aligned([head, *(list(row) for row in self.rows())])])


def compared(one: Study, other: Study) -> Compared:
    """Return two studies side by side.

    Raises:
        ConfigError: They are the same one.
    """
    if one.folder.absolute() == other.folder.absolute():
        raise ConfigError(f"{one.name} cannot be compared with itself. Name two studies.")
    a, b = facts_of(one), facts_of(other)
    return Compared(a, b, tuple(_aspects(one, other, a, b)))


def _aspects(one: Study, other: Study, a: Facts, b: Facts) -> Iterator[Aspect]:
    def aspect(name: str, first: Any, second: Any, means: str = "") -> Aspect:
        same = None if first is None or second is None else first == second
        return Aspect(name, _shown(first), _shown(second), same, means)

    yield aspect("metric", a.metric, b.metric, "their values do not compare")
    yield aspect("direction", a.mode, b.mode, "their values do not compare")
    yield aspect("verb", a.verb, b.verb)
    yield aspect("data", _data(one), _data(other), "a difference may be that of the data")
    yield aspect("code", _code(one.meta), _code(other.meta), "a difference may be that of the code")
    yield aspect("space", _space(one.meta), _space(other.meta), "they looked in different places")
    yield aspect("sampler", _named(one.meta, "sampler"), _named(other.meta, "sampler"))
    yield aspect("machine", _machine(one.meta), _machine(other.meta), "times do not compare")
    yield aspect("simulated", a.simulated, b.simulated, "times do not compare")


def _shown(value: Any) -> str:
    return UNKNOWN if value is None else show(value)


def _word(one: Aspect) -> str:
    return (
        "cannot be said"
        if one.same is None
        else "same"
        if one.same
        else f"differs{': ' if one.means else ''}{one.means}"
    )


def _code(meta: Mapping[str, Any]) -> str | None:
    """Return a digest of the functions and of what they use, without what a definition holds of the question."""
    parts = meta.get("definition") or {}
    own = sorted((name, text) for name, text in parts.items() if name.startswith(OF_CODE))
    return _digest(json.dumps(own), 12) if own else None


def _data(study: Study) -> str | None:
    """Return what is known of the data of the trial with the least seed: how many rows its parts have, and a digest."""
    known = []
    for trial in study.trials:
        found = trial.fingerprints if trial.arm in (None, "base") and not trial.tunes else None
        rows = found.get("rows") if isinstance(found, Mapping) else None
        if rows:
            known.append((trial.seed, json.dumps(rows, sort_keys=True), ", ".join(f"{n:,}" for n, *_ in rows.values())))
    if not known:
        return None
    _, text, told = min(known)
    return f"{told} rows, {_digest(text, 6)}"


def _space(meta: Mapping[str, Any]) -> str | None:
    space = (meta.get("question") or {}).get("space")
    if not space:
        return None
    names = ", ".join(str(one[0]) for one in space.get("parameters") or [])
    return f"{names} ({_digest(json.dumps(space, sort_keys=True), 6)})"


def _digest(text: str, digits: int) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _named(meta: Mapping[str, Any], key: str) -> str | None:
    value = (meta.get("question") or {}).get(key)
    return str(value.get("name")) if isinstance(value, Mapping) else str(value) if value is not None else None


def _machine(meta: Mapping[str, Any]) -> str | None:
    runs = runs_of(meta)
    hardware = runs[-1].get("hardware") if runs else None
    if not isinstance(hardware, Mapping):
        return None
    gpus = ", ".join(str(gpu.get("name")) for gpu in hardware.get("gpus") or [] if isinstance(gpu, Mapping))
    return f"{hardware.get('cpu')}, {hardware.get('cores_available')} cores{', ' if gpus else ''}{gpus}"


def _best(facts: Facts) -> float | None:
    values = [value for _, value in facts.numbers()]
    return (min(values) if facts.mode == "min" else max(values)) if values else None


def _says(facts: Facts) -> str:
    best = _best(facts)
    return "has no value yet" if best is None else f"{show(best)} of {count(len(facts.numbers()), 'trial')}"


def _came(a: Facts, b: Facts) -> Iterator[tuple[str, str, str]]:
    def row(name: str, read: Any) -> tuple[str, str, str]:
        return name, _number(read(a)), _number(read(b))

    yield row("standing", lambda f: f.standing)
    yield row("trials", lambda f: len(f.trials))
    yield row("finished", lambda f: len(f.finished))
    yield row("failed", lambda f: sum(one.state == "failed" for one in f.trials))
    yield row(f"best {a.metric}" if a.metric == b.metric else "best", _best)
    yield row("median", lambda f: _median([value for _, value in f.numbers()]))
    yield from rows_of_arms(a, b)
    costs = [dict(f.costs) for f in (a, b)]
    for name in dict.fromkeys([*costs[0], *costs[1]]):
        yield name, costs[0].get(name, ""), costs[1].get(name, "")
    yield "seconds a trial", _seconds_of(a), _seconds_of(b)


def _seconds_of(facts: Facts) -> str:
    known = [one.wall_s for one in facts.trials if one.wall_s is not None]
    return seconds(_median(known)) if known else ""  # type: ignore[arg-type]


def _median(values: Sequence[float]) -> float | None:
    from statistics import median

    return median(values) if values else None


def _number(value: Any) -> str:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else show(value)
