"""Every part of more than 70 families of models is taken out, one at a time, and oracles judge what is left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

FAMILY_LIMIT_S: Final = 1_800
MANY_PAIRS: Final = 20
"""A family with so many pairs has to reach a share of its own."""
NOBODY: Final = 100.0
"""The least share of a family with many pairs, where none has many."""

FEW: Final = 3
RUNGS: Final = range(1, 7)


def cells(small: bool, sample: int) -> Sequence[Cell]:
    from benchmarks.zoo.families import SPLIT

    names = ["cnn"] if small else list(SPLIT)
    pairs = FEW if small else sample
    limit_s = FAMILY_LIMIT_S + 60
    known = [
        Cell(f"étude {SPLIT[name]} {name}", {"family": name, "pairs": pairs, "remover": "étude"}, limit_s=limit_s)
        for name in names
    ]
    compared = [
        Cell(f"étude {what}", {"compared": what, "few": small}, limit_s=limit_s) for what in ("twins", "depths")
    ]
    blind = [
        Cell(f"identity {SPLIT[name]} {name}", {"family": name, "pairs": pairs, "remover": "identity"}, limit_s=limit_s)
        for name in names
    ]
    return [*known, *compared, *blind]


def work(args: Mapping[str, Any], place: Path) -> Result:
    return compare(args["compared"], few=args["few"]) if "compared" in args else count(args, place)


def count(args: Mapping[str, Any], place: Path) -> Result:
    """Let a process of its own take a family's parts out; what it has written counts, even if it ends early."""
    file = place / "pairs.jsonl"
    file.touch()
    command = [sys.executable, "-m", "benchmarks.zoo.counting", args["family"], args["remover"], str(args["pairs"])]
    try:
        code = subprocess.run([*command, str(file)], check=False, timeout=FAMILY_LIMIT_S).returncode
        ended = "" if code == 0 else f"ended with code {code}"
    except subprocess.TimeoutExpired:
        ended = f"took more than {FAMILY_LIMIT_S} s"
    found = [json.loads(line) for line in file.read_text().splitlines()]
    return {**shares(found), "details": {"pairs": found, "ended": ended}}


def compare(what: str, *, few: bool) -> Result:
    """Compare repaired models with their twins, or with models that have a layer fewer by configuration."""
    from benchmarks.zoo.counting import quiet
    from benchmarks.zoo.depths import DEPTHS, compare_depth
    from benchmarks.zoo.removers import etude_remove
    from benchmarks.zoo.twins import TWINS, compare

    quiet()
    most = FEW if few else None
    found = (
        [compare(twin, etude_remove) for twin in TWINS[:most]]
        if what == "twins"
        else [compare_depth(depth, etude_remove) for depth in DEPTHS[:most]]
    )
    outcomes = Counter(one.outcome for one in found)
    return {
        "compared": len(found),
        "equal": outcomes["equal"],
        "differs": outcomes["differs"],
        "details": {one.name: [one.outcome, one.rung, one.wanted, one.told] for one in found},
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
        found["no answer %"] = 100 * (outcomes["raised"] + outcomes["late"]) / len(live)
    return found | {f"rung {rung}": rungs[rung] for rung in RUNGS if rungs[rung]}


def totals(found: Mapping[str, Result]) -> Mapping[str, Result]:
    """Return the rows of all families of a kind."""
    gathered: dict[str, list[list[Any]]] = {}
    for name, result in found.items():
        if "pairs" in result.get("details", {}):
            who, split, _ = name.split(" ", 2)
            gathered.setdefault(f"{who} {split}", []).append(result["details"]["pairs"])
            gathered.setdefault(f"{who} everywhere", []).append(result["details"]["pairs"])
    rows = {}
    for name, families in gathered.items():
        pairs = [pair for family in families for pair in family]
        many = [shares(family) for family in families if len(family) >= MANY_PAIRS]
        rows[f"{name}: all families"] = {
            **shares(pairs),
            "families": len(families),
            "least of a family %": min((family.get("all %", NOBODY) for family in many), default=NOBODY),
            "details": told(pairs),
        }
    return rows


def told(pairs: Sequence[Mapping[str, Any]]) -> Result:
    """Name what is wrong, and count codes of refusals."""
    return {
        "codes": dict(Counter(pair["code"] for pair in pairs if pair["outcome"] == "refused")),
        "wrong": [
            f"{pair['family']} {pair['path']}: {pair['told'][0]}" for pair in pairs if pair["outcome"] == "wrong"
        ],
        "no answer": [
            f"{pair['family']} {pair['path']}: {pair['code']}"
            for pair in pairs
            if pair["outcome"] in ("raised", "late")
        ],
    }


BENCHMARK = Benchmark(
    name="removal_zoo",
    cells=cells,
    work=work,
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
        Quantity("compared", "", 0),
        Quantity("equal", "", 0),
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
    ),
    note=(
        "A pair: a model and a part of it, any leaf or block. must run: all live pairs but edges, which turn whole\n"
        "numbers into others, are the head, or hold more than 90 % of the parameters. hard: those that must run where\n"
        "nn.Identity in the part's place raises, changes a shape, or adds something to itself. A pair runs if it was\n"
        "accepted and no oracle finds a fault; accepted with a fault is wrong. identity: nn.Identity put blindly in\n"
        "the part's place, judged by the same oracles. twins: small models, and what a person wrote without the part.\n"
        "depths: a layer taken out, and the model that the configuration makes with one layer fewer."
    ),
    numbers={"sample": (1_000_000, "of each family so many pairs at most")},
    totals=totals,
)

if __name__ == "__main__":
    BENCHMARK.main()
