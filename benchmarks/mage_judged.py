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
from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.common import ROOT, Benchmark, Cell, Quantity, Result, Target

REPLIES: Final = ROOT / "tests" / "mage"
SETS: Final[Mapping[str, str]] = {"second": "unseen", "third": "third", "fourth": "fourth"}
FIRST_CONTACT: Final = ROOT / "benchmarks" / "data" / "mage_first_contact.json"
"""What each set met when it was new: written down from that run, since no later judge can give it again."""
CATALOGUE: Final = "catalogue"
BEYOND: Final = "beyond"
"""What a person who tried to deceive the judge has found that facts of a run cannot show."""
ENOUGH: Final = 100
"""Steps: all programs of the catalogue end before."""
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
    catalogue = [
        Cell("étude, now, the catalogue", {"set": CATALOGUE}, limit_s=3600.0),
        Cell("étude, now, what no fact shows", {"set": BEYOND}, limit_s=3600.0),
    ]
    return [*first, *catalogue, *(_cell(name, program) for name in SETS for program in programs(name))]


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
    if args["set"] in (CATALOGUE, BEYOND):
        return counted(catalogued(args["set"]))
    if "program" not in args:
        return dict(json.loads(FIRST_CONTACT.read_text())[args["set"]])
    return counted(judged(args["set"], args["program"], place, only=args.get("only")))


def catalogued(which: str) -> Mapping[str, Mapping[str, int]]:
    """Return how many of the catalogue came to what.

    Texts climb up to the policy, where a bad one has to be caught. What was written out as programs is checked, watched
    to its end, and judged.
    """
    import msgspec

    from etude.mage.judge.baseline import compare_runs
    from etude.mage.judge.judging import judge
    from etude.mage.loop.ladder import worst
    from etude.mage.patch.blocks import Author
    from etude.mage.patch.making import make_patch_of_trees
    from etude.mage.static.checking import check
    from etude.mage.tree import Tree

    replies, sources, by_hand = _module("bad_replies"), _module("programs"), _module("variants_by_hand")
    read_and_checked, watch = _module("climbing").read_and_checked, _module("watching").watch
    sabotage = _module("variants_of_a_saboteur")
    found: dict[str, Counter[str]] = {"bad": Counter(), "correct": Counter()}
    if which == CATALOGUE:
        tree = Tree({path: text.encode() for path, text in replies.FILES.items()})
        for bad in replies.BAD:
            variant = msgspec.structs.replace(replies.WITHOUT_CONV2, files=bad.files)
            found["bad"][worst(read_and_checked(tree, bad.text, variant, cut_off=bad.cut_off)).value] += 1
        for text in replies.GOOD.values():
            found["correct"][worst(read_and_checked(tree, text, replies.WITHOUT_CONV2)).value] += 1
        cases = {"correct": by_hand.CORRECT, "bad": by_hand.WRONG + sabotage.SABOTAGE + sabotage.AGAIN}
    else:
        cases = {"bad": sabotage.BEYOND}

    @cache
    def base_of(program: str) -> Any:
        return compare_runs([watch(getattr(sources, program), steps=ENOUGH) for _ in range(2)])

    for kind, every in cases.items():
        for case in every:
            before = Tree({"train.py": getattr(sources, case.program).encode()})
            after = before.with_files({"train.py": case.source.encode()})
            patch = make_patch_of_trees(before, after, Author(name="authored"))
            verdicts = [*check(before, patch, case.variant, plan_files=["train.py"])]
            verdicts.append(judge(case.variant, base_of(case.program), watch(case.source, steps=ENOUGH)))
            found[kind][worst(verdicts).value] += 1
    return found


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
        Target(what, f"étude, {name}: {row}", 0, "", at_least=False)
        for name in ("now, the catalogue", *(f"first contact: {one}" for one in ("first", *SETS)))
        for what, row in (
            (f"bad ones that pass, {name}", "bad_passed"),
            (f"correct ones that are turned away, {name}", "correct_turned_away"),
        )
    ),
    note=(
        "First contact: what each set met when it was new, by the judge as it was then, which had not been mended by "
        "it; it was mended after each. What is for a person, or what nobody can tell, is no pass, and is not turned "
        "away. Now: what the replies of the second, third and fourth set, and of a catalogue of our own, met at the "
        "commit above, by a judge that these very replies have mended. That says how far mending goes, and nothing of "
        "replies that are new: no set was written after the last mend, and the first one is not among them. One run is "
        "enough."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
