"""How many bad replies of fresh eyes pass all rungs of the mage, and how many correct ones are turned away.

The replies were written by hand, by people and programs who had not read the judge, to programs that no check was made
with. Once the judge is mended by what a set has shown, that set says how far the mend goes, and no longer how new
replies fare: for that there is what each set met at first, kept with it.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, Benchmark, Cell, Quantity, Result, Target

REPLIES: Final = ROOT / "tests" / "mage"
SETS: Final[Mapping[str, str]] = {"second": "unseen", "third": "third", "fourth": "fourth"}
FIRST_CONTACT: Final = ROOT / "benchmarks" / "data" / "mage_first_contact.json"
"""What each set met when it was new: written down from that run, since no later judge can give it again."""
FEW: Final = ("two digits", "one name more is left out")
OUTCOMES: Final[Mapping[str, str]] = {
    "passed": "passed",
    "failed": "turned_away",
    "for a person": "for_a_person",
    "inconclusive": "inconclusive",
}


def cells(small: bool) -> Sequence[Cell]:
    if small:
        return [Cell("étude, loans", {"set": "third", "program": "loans", "only": FEW})]
    first = [Cell(f"étude, first contact: {name}", {"set": name}) for name in json.loads(FIRST_CONTACT.read_text())]
    return [*first, *(_cell(name, program) for name in SETS for program in programs(name))]


def _cell(name: str, program: str) -> Cell:
    return Cell(f"étude, now, {name}: {program}", {"set": name, "program": program}, limit_s=3600.0)


def programs(name: str) -> Sequence[str]:
    """Return the programs of a set, by name."""
    return list(_module(f"{SETS[name]}_programs").PROGRAMS)


def _module(name: str) -> Any:
    if str(REPLIES) not in sys.path:
        sys.path.insert(0, str(REPLIES))
    return __import__(name)


def work(args: Mapping[str, Any], place: Path) -> Result:
    if "program" not in args:
        return dict(json.loads(FIRST_CONTACT.read_text())[args["set"]])
    return counted(judged(args["set"], args["program"], place, only=args.get("only")))


def judged(
    name: str, program: str, place: Path, *, only: Sequence[str] | None = None
) -> Mapping[str, Mapping[str, int]]:
    """Return how many of a program's replies came to what, bad ones and correct ones."""
    from etude.mage.loop.ladder import worst

    climbing, replies = _module("climbing"), _module(f"{SETS[name]}_replies")
    known, written = _module(f"{SETS[name]}_programs").PROGRAMS[program], _module("unseen_programs")
    root = written.write_program(known, place / program)
    project = climbing.untouched(root, written.ENTRY, metric=known.metric)
    found: dict[str, Counter[str]] = {"bad": Counter(), "correct": Counter()}
    for reply in (*replies.BAD, *replies.CORRECT):
        if reply.base == program and (only is None or reply.name in only):
            outcome = worst(climbing.climbed(project, reply)).value
            found["bad" if reply.wrong else "correct"][outcome] += 1
    return found


def counted(found: Mapping[str, Mapping[str, int]]) -> Result:
    """Return the numbers of a row: what passed of the bad ones and what was turned away of the correct ones first."""
    row: Result = {}
    for kind, outcomes in found.items():
        row[kind] = sum(outcomes.values())
        row |= {f"{kind}_{told}": outcomes.get(outcome, 0) for outcome, told in OUTCOMES.items()}
    return row


BENCHMARK = Benchmark(
    name="mage_judged",
    cells=cells,
    work=work,
    quantities=tuple(
        Quantity(name, "", 0)
        for kind in ("bad", "correct")
        for name in (kind, *(f"{kind}_{told}" for told in OUTCOMES.values()))
    ),
    targets=tuple(
        Target(what, f"étude, first contact: {name}: {row}", 0, "", at_least=False)
        for name in ("first", *SETS)
        for what, row in (
            (f"bad ones that pass, {name} set", "bad_passed"),
            (f"correct ones that are turned away, {name} set", "correct_turned_away"),
        )
    ),
    note=(
        "First contact: what each set met when it was new, and the judge had not been mended by it; it was mended "
        "after each. What is for a person, or what nobody can tell, is no pass, and is not turned away. Now: what the "
        "same replies meet today, which says how far mending goes, and nothing of replies that are new. One run is "
        "enough."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
