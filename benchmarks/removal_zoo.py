"""Every part of more than 250 families of models is taken out, one at a time, and oracles judge what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Measured, Quantity, Result, Target, changed, commit, probe
from benchmarks.zoo.contact import digest, first_contact
from benchmarks.zoo.page import HEAD, families
from benchmarks.zoo.running import COMPARED, Lines, Task, run

MANY_PAIRS: Final = 20
"""A family with so many live pairs has to reach a share of its own."""
NOBODY: Final = 100.0
"""The least share of a family with many pairs, where none has many."""

FEW: Final = 3
RUNGS: Final = range(1, 7)
NO_ANSWER: Final = ("raised", "late", "died")


def cells(small: bool, sample: int, jobs: int, into: str) -> Sequence[Cell]:
    from benchmarks.zoo.families import SPLIT

    most = FEW if small else sample
    how = {"most": most, "sample": most, "jobs": jobs, "into": into}
    names = ["cnn"] if small else list(SPLIT)
    compared = [Cell(f"étude {what}", {"name": what, **how, "most": most if small else 1_000_000}) for what in COMPARED]
    return [*(Cell(f"étude {SPLIT[name]} {name}", {"name": name, **how}) for name in names), *compared]


class Zoo(Benchmark):
    """A benchmark whose cells are forked, several at a time, and can be gone on with."""

    def measure(self, cells: Sequence[Cell], runs: int, place: Path, kept: Measured) -> dict[str, list[Result]]:
        """Return what was found of each family, once: the same pairs give the same outcomes. Each is kept."""
        how = cells[0].args
        into = Path(how["into"]) if how["into"] else place / "pairs.jsonl"
        now, unseen = commit(), digest()
        met = first_contact(unseen, now)
        head = {"commit": now, "changed": changed(), "unseen": unseen, "first contact": met, "sample": how["sample"]}
        lines = Lines(into, head)
        before = probe()
        run([Task(cell.args["name"], cell.args["most"]) for cell in cells], lines, jobs=how["jobs"])
        noise = (before + probe()) / 2
        found = {cell.name: gathered(cell.args["name"], lines.found(cell.args["name"])) for cell in cells}
        rows = {**totals(found), **found}
        for name, result in rows.items():
            if "pairs" in result.get("details", {}):  # thousands of them: they are in the file
                rows[name] = {"details": told_shortly(result["details"]["pairs"])}
        rows[next(iter(rows))].setdefault("details", {}).update({"unseen families": unseen, "first contact": met})
        return {name: [{"probe": noise, **result}] for name, result in rows.items()}


def gathered(name: str, found: Sequence[Mapping[str, Any]]) -> Result:
    """Return what was found of a family or of what is compared."""
    if name not in COMPARED:
        return {"details": {"pairs": found}}
    outcomes = Counter(one["outcome"] for one in found)
    return {
        "compared": len(found),
        "equal": outcomes["equal"],
        "deeper": outcomes["deeper"],
        "refused": outcomes["refused"],
        "differs": outcomes["differs"],
        "details": {one["name"]: [one["outcome"], one["rung"], one["wanted"], one["told"]] for one in found},
    }


def shares(pairs: Sequence[Mapping[str, Any]]) -> Result:
    """Return shares of pairs that run, strictly counted, and how often each rung did it."""
    live = [pair for pair in pairs if pair["part"] != "dead"]
    must = [pair for pair in live if pair["part"] == "must run"]
    outcomes = Counter(pair["outcome"] for pair in live)
    rungs = Counter(pair["rung"] for pair in live if pair["outcome"] == "ran")
    found: Result = {"live": len(live), "wrong": outcomes["wrong"]}
    some = {
        "all": live,
        "must run": must,
        "hard": [pair for pair in must if pair["hard"]],
        "edge": [pair for pair in live if pair["part"] == "edge"],
    }
    for name, those in some.items():
        if those:
            found[f"{name} %"] = 100 * sum(pair["outcome"] == "ran" for pair in those) / len(those)
    if live:
        found["refused %"] = 100 * outcomes["refused"] / len(live)
        found["no answer %"] = 100 * sum(outcomes[what] for what in NO_ANSWER) / len(live)
        blind = Counter(pair["blind"] for pair in live)
        found["identity runs %"] = 100 * (blind["runs"] + blind["doubled"]) / len(live)
        found["identity doubles %"] = 100 * blind["doubled"] / len(live)
    return found | {f"rung {rung}": rungs[rung] for rung in RUNGS if rungs[rung]}


def totals(found: Mapping[str, Result]) -> Mapping[str, Result]:
    """Return the rows of all families of a kind."""
    of: dict[str, list[list[Any]]] = {}
    for name, result in found.items():
        if "pairs" in result.get("details", {}):
            who, split, _ = name.split(" ", 2)
            of.setdefault(f"{who} {split}", []).append(result["details"]["pairs"])
            of.setdefault(f"{who} everywhere", []).append(result["details"]["pairs"])
    rows = {}
    for name, lists in of.items():
        pairs = [pair for family in lists for pair in family]
        each = [shares(family) for family in lists]
        many = [family for family in each if family["live"] >= MANY_PAIRS]
        rows[f"{name}: all families"] = {
            **shares(pairs),
            "families": len(lists),
            "least of a family %": min((family["all %"] for family in many), default=NOBODY),
            "seconds": sum(pair["seconds"] for pair in pairs) / max(1, len(pairs)),
            "judged_s": sum(pair["judged_s"] for pair in pairs) / max(1, len(pairs)),
            "details": told(pairs),
        }
    return rows


def told(pairs: Sequence[Mapping[str, Any]]) -> Result:
    """Name what is wrong, and count codes of refusals."""
    live = [pair for pair in pairs if pair["part"] != "dead"]
    return {
        "codes": dict(Counter(pair["code"] for pair in live if pair["outcome"] == "refused").most_common()),
        "wrong": [
            f"{pair['family']} {pair['path']}: {pair['told'][0]}" for pair in pairs if pair["outcome"] == "wrong"
        ],
        "no answer": [
            f"{pair['family']} {pair['path']}: {pair['code']}" for pair in pairs if pair["outcome"] in NO_ANSWER
        ],
    }


def told_shortly(pairs: Sequence[Mapping[str, Any]]) -> Result:
    """Return a family's counts: what the table shows of it."""
    live = [pair for pair in pairs if pair["part"] != "dead"]
    must = [pair for pair in live if pair["part"] == "must run"]
    hard = [pair for pair in must if pair["hard"]]
    outcomes = Counter(pair["outcome"] for pair in live)
    ran = [pair for pair in live if pair["outcome"] == "ran"]
    return {
        "live": len(live),
        "ran": len(ran),
        "must run": f"{sum(pair in ran for pair in must)}/{len(must)}",
        "hard": f"{sum(pair in ran for pair in hard)}/{len(hard)}",
        "refused": outcomes["refused"],
        "wrong": outcomes["wrong"],
        "no answer": sum(outcomes[what] for what in NO_ANSWER),
        **{str(rung): count for rung in RUNGS if (count := sum(pair["rung"] == rung for pair in ran))},
    }


def tables(results: Mapping[str, Sequence[Result]]) -> Sequence[Sequence[Sequence[str]]]:
    """Return what was found by family, and by the code of refusals, and what is wrong."""
    details = {name: found[-1].get("details", {}) for name, found in results.items()}
    codes, wrong = [], []
    for name, of in details.items():
        if "codes" in of:
            which = name.removeprefix("étude ").removesuffix(": all families")
            codes += [(f"{which}: {code}", str(count)) for code, count in of["codes"].items()]
            if which == "everywhere":
                wrong = [(one,) for one in (*of["wrong"], *of["no answer"])]
    rows = families(details)
    made = [[HEAD, *rows]] if rows else []
    if codes:
        made.append([("refused, by code", "pairs"), *codes])
    return [*made, [("wrong, or without an answer",), *wrong]] if wrong else made


BENCHMARK = Zoo(
    name="removal_zoo",
    cells=cells,
    work=lambda args, place: {},  # cells are forked
    quantities=(
        Quantity("families", "", 0),
        Quantity("live", "pairs", 0),
        Quantity("all %", "%", 1),
        Quantity("must run %", "%", 1),
        Quantity("hard %", "%", 1),
        Quantity("edge %", "%", 1),
        Quantity("least of a family %", "%", 1),
        Quantity("refused %", "%", 1),
        Quantity("no answer %", "%", 1),
        Quantity("wrong", "pairs", 0),
        *(Quantity(f"rung {rung}", "pairs", 0) for rung in RUNGS),
        Quantity("identity runs %", "%", 1),
        Quantity("identity doubles %", "%", 1),
        Quantity("seconds", "s", 2),
        Quantity("judged_s", "s", 2),
        Quantity("compared", "", 0),
        Quantity("equal", "", 0),
        Quantity("deeper", "", 0),
        Quantity("refused", "", 0),
        Quantity("differs", "", 0),
    ),
    targets=(
        Target("must run, developed", "étude developed: all families: must run %", 98, "%"),
        Target("must run, unseen", "étude unseen: all families: must run %", 95, "%"),
        Target("hard, developed", "étude developed: all families: hard %", 95, "%"),
        Target("hard, unseen", "étude unseen: all families: hard %", 88, "%"),
        Target("least family of 20 pairs", "étude everywhere: all families: least of a family %", 85, "%"),
        Target("refused", "étude everywhere: all families: refused %", 5, "%", at_least=False),
        Target("wrong", "étude everywhere: all families: wrong", 0, "pairs", at_least=False),
        Target("twins that differ", "étude twins: differs", 0, "", at_least=False),
        Target("models a layer smaller that differ", "étude depths: differs", 0, "", at_least=False),
        Target("families", "étude everywhere: all families: families", 60, ""),
        Target("unseen families", "étude unseen: all families: families", 20, ""),
    ),
    note=(
        "A pair: a model and a part of it, any leaf or block. must run: all live pairs but edges, which turn whole\n"
        "numbers into others, are the head, or hold more than 90 % of the parameters. hard: those that must run where\n"
        "nn.Identity in the part's place raises, changes a shape, or adds something to itself. A pair runs if it was\n"
        "accepted and no oracle finds a fault; accepted with a fault is wrong. identity runs: in so many live pairs\n"
        "nn.Identity put blindly in the part's place runs and keeps shapes; in some of those it doubles a summand.\n"
        "seconds: of the processor, that a removal takes; judged_s: that its oracles take. twins: small models, and\n"
        "what a person wrote without the part. depths: a layer taken out, and the model that the configuration makes\n"
        "with one layer fewer. deeper: another repair, of a later rung than what the person wrote.\n"
        "Beside it, by their own counts: Torch-Pruning prunes channels, and no layers, in 81 of 85 models; Tensfa\n"
        "repairs 54.8 % of programs with wrong shapes; a prototype of ours, strictly counted, ran 96.8 % of the pairs\n"
        "that must on families that it was developed on and 91.6 % on others (hard ones 91 and 75 %), and blind\n"
        "identity ran 60 % of its pairs."
    ),
    numbers={
        "sample": (1_000_000, "of each family so many pairs at most"),
        "jobs": (2, "so many families at a time"),
    },
    texts={"into": "a file of lines, one for each pair; a run that was broken off goes on from what is in it"},
    tables=tables,
)

if __name__ == "__main__":
    BENCHMARK.main()
