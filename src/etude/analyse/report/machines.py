"""The part of a report on machines that were tuned: time and energy beside the metric, and why what was set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from etude.analyse.report import page as html
from etude.analyse.report.facts import Facts
from etude.analyse.report.figure import Figure, across, plot, thinned, upward
from etude.analyse.report.scales import window
from etude.analyse.report.tables import Table, without_empty
from etude.analyse.report.used import Decision, Used
from etude.analyse.report.words import number, safe
from etude.core.system import Joules
from etude.core.text import count

MOST_POINTS: Final = 1500
MOST_ROWS: Final = 200
"""Trials, and epochs of a trial, that the page has; the files have all."""

STRENGTH: Final = ("measured", "modelled", "unavailable")
"""How an energy may be known, from the best to the weakest."""


def machine_tables(facts: Facts) -> list[Table]:
    """Return what trials took, and what was decided on each epoch; nothing where no machine was tuned."""
    if facts.machines is None:
        return []
    return [_used(facts, facts.machines.used), _decisions(facts.machines.decisions, "All decisions")]


def machine_figures(facts: Facts) -> list[Figure]:
    """Return the metric over time, and over energy where that of every finished trial is known."""
    machines = facts.machines
    if machines is None:
        return []
    known = [(one, one.value) for one in machines.used if one.value is not None and math.isfinite(one.value)]
    if not known:
        return []
    found = [_over(facts, known, lambda one: one.seconds, "machine-time", "training time", "s")]
    if all(one.energy.joules is not None for one, _ in known):
        label = max((one.energy.label for one, _ in known), key=STRENGTH.index)
        found.append(
            _over(facts, known, lambda one: one.energy.joules or 0.0, "machine-energy", f"{label} energy", "J")
        )
    return found


def machine_section(facts: Facts, figures: Sequence[Figure]) -> str:
    """Return the part of the page on machines."""
    machines = facts.machines
    assert machines is not None
    paragraph = f'<p class="lead">{safe(" ".join(machines.says))}</p>'
    table = _used(facts, machines.used[:MOST_ROWS], on_page=True)
    own = [one for one in machines.decisions if one.trial == machines.shown]
    decided = without_empty(_decisions(own[:MOST_ROWS], f"Decisions on trial {machines.shown}", on_page=True))
    notes = [
        f"The first {MOST_ROWS} of {count(len(all_of), what)}."
        for all_of, what in ((machines.used, "trial"), (own, "epoch of that trial"))
        if len(all_of) > MOST_ROWS
    ]
    files = " and ".join(f'<a href="tables/{name}.csv">tables/{name}.csv</a>' for name in ("machines", "decisions"))
    return (
        f"{paragraph}{html.figures(figures)}{html.table(without_empty(table))}{html.table(decided)}"
        f'<p class="note">{safe(" ".join([*notes, ""]))}All trials, and all decisions: {files}.</p>'
    )


def _used(facts: Facts, used: Sequence[Used], *, on_page: bool = False) -> Table:
    machines = facts.machines
    assert machines is not None
    energy = _columns_of_energy(on_page=on_page)
    columns = (
        *("trial", facts.metric, "seconds", *energy, "epochs", "probes"),
        *("saved s", "probing s", *(() if on_page else ("saved joules", "probing joules")), "setting", "front"),
    )
    rows = tuple(
        (
            one.trial,
            one.value,
            one.seconds,
            *_cells_of_energy(one.energy, on_page=on_page),
            one.epochs,
            one.probes,
            one.saved_s,
            one.probing_s,
            *(() if on_page else (one.saved_j, one.probing_j)),
            _said(one.setting),
            "yes" if one.on_front else None,
        )
        for one in used
    )
    note = f"Front: no other trial is better by one of {', '.join(machines.front_of)}, and not worse by any."
    if any(one.energy.label == "modelled" for one in used):
        note += (
            " Modelled joules follow from something else that was measured, and are known only to lie between bounds."
        )
    return Table("machines", "Time and energy of each trial", columns, rows, note)


def _decisions(decisions: Sequence[Decision], title: str, *, on_page: bool = False) -> Table:
    """Return decisions as a table; on the page, of one trial, without what is the same in all its rows."""
    again = decisions[-1].attempt > 1
    columns = (
        *(() if on_page else ("trial",)),
        *("attempt", "epoch", "phase", "setting", "s a step", *_columns_of_energy(on_page=on_page), "why", "evidence"),
    )
    rows = tuple(
        (
            *(() if on_page else (one.trial,)),
            one.attempt if again or not on_page else None,
            one.epoch,
            one.phase,
            _said(one.setting),
            one.step_s,
            *_cells_of_energy(one.energy, on_page=on_page),
            one.why,
            ", ".join(f"{name} {number(value)}" for name, value in one.evidence.items()) or None,
        )
        for one in decisions
    )
    return Table("decisions", title, columns, rows)


def _columns_of_energy(*, on_page: bool) -> tuple[str, ...]:
    return ("energy",) if on_page else ("joules", "least joules", "most joules", "energy")


def _cells_of_energy(told: Joules, *, on_page: bool) -> tuple[Any, ...]:
    """Return an energy with its label: in one cell on the page, where columns may be out of sight."""
    if not on_page:
        return told.joules, told.low, told.high, told.label
    if told.joules is None or told.low is None or told.high is None:
        return (told.label,)
    bounds = f" ({told.low:.3g} to {told.high:.3g})" if told.low != told.high else ""
    return (f"{told.joules:.3g} J {told.label}{bounds}",)


def _said(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in setting.items()) or "as it was"


def _over(
    facts: Facts, known: Sequence[tuple[Used, float]], of: Callable[[Used], float], name: str, what: str, unit: str
) -> Figure:
    """Return the metric over something of which less is better, with the front of the two."""
    least, most, _ = window([of(one) for one, _ in known])
    low, high, _ = window([value for _, value in known])
    x, y = across(max(0.0, least), most), upward(low, high)
    way = {"max": "more is better", "min": "less is better"}.get(facts.mode or "", "no direction")
    drawing = plot(
        f"{facts.metric} over {what}, {count(len(known), 'trial')}",
        x,
        y,
        x_name=f"{what} in {unit}",
        y_name=f"{facts.metric} ({way})",
    )
    chosen = _front([(of(one), value, one.trial) for one, value in known], facts.mode)
    best = {trial for _, _, trial in chosen}
    dots = [(x(of(one)), y(value), one.trial) for one, value in known if one.trial not in best]
    drawing.dots(thinned(sorted(dots), MOST_POINTS), "mute", radius=2.8, faint=0.7)
    stairs: list[tuple[float, float]] = []
    for took, value, _ in chosen:
        stairs += [(took, stairs[-1][1]), (took, value)] if stairs else [(took, value)]
    if len(chosen) > 1:
        drawing.curve([(x(a), y(b)) for a, b in stairs], "best", width=1.4, faint=0.7)
    for took, value, trial in chosen:
        drawing.diamond(x(took), y(value), "best", trial=trial)
    caption = (
        f"Diamonds are the Pareto front of these two: {count(len(chosen), 'trial')} that no other is better than."
        if facts.mode is not None
        else "No direction is known of the metric, so there is no front."
    )
    if what.startswith("modelled"):
        caption += " Modelled figures are known only to lie between the bounds that the table has."
    return Figure(name, f"{facts.metric} against {what}", drawing, caption)


def _front(points: Sequence[tuple[float, float, int]], mode: str | None) -> list[tuple[float, float, int]]:
    """Return the points that none takes less than and is as good as, the one that took least first."""
    if mode is None:
        return []
    turned = -1.0 if mode == "max" else 1.0
    found: list[tuple[float, float, int]] = []
    for point in sorted(points, key=lambda one: (one[0], turned * one[1], one[2])):
        if not found or turned * point[1] < turned * found[-1][1]:
            found.append(point)
    return found
