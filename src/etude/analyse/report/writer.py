"""Writes a report: a folder with a page, and its figures, tables and facts as files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from etude.analyse.report import page as html
from etude.analyse.report.courses import curves, progress
from etude.analyse.report.facts import Facts, as_json
from etude.analyse.report.figure import Figure
from etude.analyse.report.forest import forest
from etude.analyse.report.front import fronts
from etude.analyse.report.judged import controls, verdict_table
from etude.analyse.report.machines import machine_figures, machine_section, machine_tables
from etude.analyse.report.own import Own, own_section
from etude.analyse.report.page import Section
from etude.analyse.report.parallel import parallel
from etude.analyse.report.parameters import groups, scatter, violins
from etude.analyse.report.tables import Table, as_csv, as_latex, as_markdown, tables
from etude.analyse.report.timeline import timeline
from etude.analyse.report.varied import Varied, varied
from etude.analyse.report.words import safe
from etude.core.errors import ConfigError
from etude.core.text import count

MOST_PARAMETERS: Final = 12
"""Parameters that have a figure."""

MOST_ROWS_OF_PAPERS: Final = 200
"""A longer table is written as CSV alone: nobody prints it."""

FORMS: Final = {"csv": as_csv, "md": as_markdown, "tex": as_latex}
OURS: Final = ("index.html", "report.json", "figures", "tables")
"""What a report's folder holds: a report that is written there again takes the place of these."""


@dataclass(frozen=True)
class Drawn:
    """The figures and tables of a study."""

    effects: list[Figure]
    learning: list[Figure]
    parameters: list[Figure]
    whole: list[Figure]
    fronts: list[Figure]
    machines: list[Figure]
    workers: list[Figure]
    tables: list[Table]
    found: list[Varied]
    held: dict[str, Any]

    @property
    def figures(self) -> list[Figure]:
        """All figures."""
        first = [*self.effects, *self.fronts, *self.learning, *self.whole, *self.parameters]
        return [*first, *self.machines, *self.workers]


def drawn(facts: Facts) -> Drawn:
    """Return the figures and tables of a study."""
    found, held = varied(facts)
    if facts.groups:  # arms differ in what they say they do; over their parameters nothing was sampled
        held = {name: value for name, value in held.items() if all(name in one.params for one in facts.trials)}
    told = [one for one in found if len({repr(value) for _, value, _ in one.points}) > 1][:MOST_PARAMETERS]
    told = [] if facts.groups else told
    return Drawn(
        effects=_there(forest(facts), groups(facts)),
        learning=_there(progress(facts), curves(facts)),
        parameters=[
            (scatter if one.numeric else violins)(facts, one, _file(nth, one.name)) for nth, one in enumerate(told)
        ],
        whole=[] if facts.groups else _there(parallel(facts, found)),
        fronts=fronts(facts),
        machines=machine_figures(facts),
        workers=_there(timeline(facts)),
        tables=[*tables(facts, [one.name for one in found]), *machine_tables(facts)],
        found=found,
        held=held,
    )


def _there(*found: Figure | None) -> list[Figure]:
    return [one for one in found if one is not None]


def _file(nth: int, name: str) -> str:
    """Return a file's name for a parameter, whatever that is called."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()[:40]
    return f"parameter-{nth + 1:02d}{f'-{plain}' if plain else ''}"


def write(folder: Path, facts: Facts, study: Any = None, *, own: Sequence[Own] = (), png: bool = False) -> Path:
    """Write the report of a study, and return its page.

    Args:
        folder: Where; a report that lies there is replaced.
        facts: What is known of the study.
        study: What functions of the user's are given.
        own: These functions.
        png: Whether figures are written as PNG as well.

    Raises:
        ConfigError: The folder cannot be written, or holds other things; or there is nothing to make PNG with.
    """
    painted = painter() if png else None
    all_drawn = drawn(facts)
    sections = [*_sections(facts, all_drawn), *(own_section(one, study, f"own-{n}") for n, one in enumerate(own))]
    text = html.page(f"{facts.name} · Étude", html.heading(facts), sections, foot=_foot(facts))
    put(folder, text, as_json(facts), all_drawn.figures, all_drawn.tables, painted)
    return folder / "index.html"


def put(folder: Path, text: str, facts: bytes, figures: Sequence[Figure], found: Sequence[Table], painted: Any) -> None:
    """Write a page and what goes with it into a folder."""
    _make_room(folder)
    try:
        (folder / "index.html").write_text(text, encoding="utf-8", errors="replace")
        (folder / "report.json").write_bytes(facts)
        for name in ("figures", "tables"):
            (folder / name).mkdir(exist_ok=True)
        for one in figures:
            alone = one.drawing.alone()
            (folder / "figures" / f"{one.name}.svg").write_text(alone, encoding="utf-8", errors="replace")
            if painted is not None:
                (folder / "figures" / f"{one.name}.png").write_bytes(painted(alone))
        for table in found:
            short = len(table.rows) <= MOST_ROWS_OF_PAPERS
            for ending, form in FORMS.items() if short else [("csv", as_csv)]:
                (folder / "tables" / f"{table.name}.{ending}").write_text(
                    form(table), encoding="utf-8", errors="replace"
                )
    except OSError as error:
        raise ConfigError(f"The report cannot be written to {folder}: {error.strerror}. Name another folder.") from None


def _make_room(folder: Path) -> None:
    """Make the folder, and take away a report that lies there; nothing else."""
    try:
        if folder.is_dir() and any(folder.iterdir()):
            if not (folder / "report.json").exists():
                raise ConfigError(
                    f"{folder} holds other things than a report. Name a folder that is empty, or not there yet."
                )
            for name in OURS:
                path = folder / name
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"The report cannot be written to {folder}: {error.strerror}. Name another folder.") from None


def painter() -> Any:
    """Return what makes PNG of SVG, at twice the size.

    Raises:
        ConfigError: resvg is missing.
    """
    try:
        import resvg_py
    except ImportError as error:
        raise ConfigError(
            "png=True draws figures with resvg, which is missing. Install it: pip install 'etude[report]'."
        ) from error
    return lambda svg: bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=2))


def _sections(facts: Facts, all_drawn: Drawn) -> Iterator[Section]:
    figures = html.figures
    asked = html.record(facts.asked)
    best = next((one for one in all_drawn.tables if one.name == "best"), None)
    taken = next((one for one in all_drawn.tables if one.name == "taken"), None)
    arms = next((one for one in all_drawn.tables if one.name == "arms"), None)
    of = "component" if facts.verb == "ablate" else "start"
    result = verdict_table(facts.verdicts, of=of, key="verdicts")
    result += figures(all_drawn.effects) + figures(all_drawn.fronts) + controls(facts)
    result += html.table(best) if best is not None else ""
    result += html.table(taken) if taken is not None else ""
    result += html.table(arms) if arms is not None else ""
    yield Section("Result", "result", result or '<p class="lead">No trial has come to a result yet.</p>')
    yield Section("Question", "question", asked + html.held(all_drawn.held))
    if facts.threats or facts.clear:
        lead = (
            "What may make these conclusions wrong, or weaker than they look." if facts.threats else "None was found."
        )
        yield Section("Threats", "threats", f'<p class="lead">{lead}</p>' + html.threats(facts))
    learning = figures(all_drawn.learning)
    if not any(one.curve for one in facts.trials):
        learning += '<p class="lead">No trial reported while it ran, so there are no learning curves.</p>'
    yield Section("Learning", "learning", learning)
    if all_drawn.parameters or all_drawn.whole:
        yield Section(
            "Parameters", "parameters", _lead(facts, all_drawn) + figures([*all_drawn.parameters, *all_drawn.whole])
        )
    if facts.machines is not None:
        yield Section("Machines", "machines", machine_section(facts, all_drawn.machines))
    if facts.spans or facts.costs:
        yield Section("Work and cost", "cost", html.cards(facts.costs) + figures(all_drawn.workers))
    yield Section("Trials", "trials-all", html.trial_table(facts, [one.name for one in all_drawn.found]))
    yield Section("Run it again", "again", html.reproduction(facts))


def _lead(facts: Facts, all_drawn: Drawn) -> str:
    said = [
        "Each parameter by itself, first the one that goes along with the most of the trials' ranking.",
        "That is no effect: the trials also differ in all the others.",
    ]
    left = len(all_drawn.found) - len(all_drawn.parameters)
    if left:
        said.append(f"{count(len(all_drawn.found), 'parameter')} varied; {len(all_drawn.parameters)} are drawn.")
    return f'<p class="lead">{safe(" ".join(said))}</p>'


def _foot(facts: Facts) -> str:
    began = (
        f", a study that began {datetime.fromtimestamp(facts.began_at, UTC):%Y-%m-%d %H:%M} UTC"
        if facts.began_at
        else ""
    )
    return (
        f"Written by Étude {safe(facts.version)}{began}. Figures and tables are files beside this page, "
        "for papers: <code>figures/</code>, <code>tables/</code>; all of it is in "
        '<a href="report.json">report.json</a>.'
    )
