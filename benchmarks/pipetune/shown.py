"""What the page beside the PipeTune paper shows, from the lines of the benchmarks: numbers by name, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmarks.pipetune import figures
from benchmarks.pipetune.compared import APPROACHES
from benchmarks.pipetune.workloads import KINDS

TITLES: Final = {"v1": "V1", "v2": "V2", "fair v2": "fair V2", "pipetune": "PipeTune", "best": "best setting"}
CONVERGING: Final = "cnn news"
FINAL_EPOCHS: Final = 9
MEASURES: Final = {
    "final_percent": "accuracy of the final training, %",
    "training_s": "training time, seconds",
    "tuning_s": "tuning time, seconds",
    "joules_modelled": "energy of the search, joules (modelled)",
}

Rows = Mapping[str, float]


def rows_of(line: Mapping[str, Any]) -> Rows:
    """Return the medians of a line by the names of its rows, without whose they are."""
    return {row["name"].removeprefix("étude, "): row["median"] for row in line["rows"]}


def came(line: Mapping[str, Any], workload: str) -> dict[str, dict[str, float]]:
    """Return what came of the live searches on a workload: approach -> quantity -> value."""
    rows = rows_of(line)
    found = {}
    for approach in APPROACHES:
        start = f"{approach}, {workload}: "
        told = {name.removeprefix(start): value for name, value in rows.items() if name.startswith(start)}
        if told:
            found[approach] = {**told, "training_s": FINAL_EPOCHS * told["epoch_s"]}
    return found


def less(one: float, other: float) -> float:
    """Return by how many per cent one number is more than another; less is negative."""
    return 100 * (one / other - 1) if other else 0.0


# --- figures; empty where nothing was measured ---------------------------------------------------------


def repeated(sizes: Mapping[str, Any]) -> str:
    rates = sizes["details"].get("étude, epochs", {}).get("rates", {})
    return figures.heat("share of the most, per step", rates) if rates else ""


def sized(sizes: Mapping[str, Any]) -> str:
    found = {name.rpartition(" ")[2]: told["threads"] for name, told in sizes["details"].items() if "threads" in told}
    if not found:
        return ""
    most = max(next(iter(found.values())), key=int)
    first = next(iter(found.values()))[most]
    panels: dict[str, figures.Groups] = {
        "(a) % more than with the smallest batches": {
            size: {
                "accuracy": less(by[most]["accuracy_percent"], first["accuracy_percent"]),
                "duration": less(by[most]["epoch_s"], first["epoch_s"]),
                "energy": less(by[most]["joules"], first["joules"]),
            }
            for size, by in list(found.items())[1:]
        }
    }
    for title, of in (("(b) duration", "epoch_s"), ("(c) energy", "joules")):
        panels[f"{title}: % more than with one thread"] = {
            size: {f"{n} threads": less(told[of], by["1"][of]) for n, told in by.items() if n != "1"}
            for size, by in found.items()
        }
    return figures.bars({title: groups for title, groups in panels.items() if any(groups.values())})


def clustered(recognise: Mapping[str, Any]) -> str:
    found = recognise["details"].get("k-means as in the paper", {}).get("clusters", {})
    shares = {name: {"first": 100 * one / (one + other)} for name, (one, other) in found.items() if one + other}
    panels: dict[str, figures.Groups] = {}
    for kind in dict.fromkeys(KINDS.values()):
        of = {name: share for name, share in shares.items() if KINDS.get(name) == kind}
        if of:
            panels[f"{'type ' if kind.startswith('I') else ''}{kind}: % of runs in the first cluster"] = of
    return figures.bars(panels) if panels else ""


def converging(live: Mapping[str, Any]) -> str:
    paths = {
        TITLES[approach]: path
        for approach in APPROACHES
        if (path := live["details"].get(f"{approach}, {CONVERGING}", {}).get("path"))
    }
    if not paths:
        return ""
    accuracy = {name: [(at, 100 * right) for at, right, _ in path] for name, path in paths.items()}
    epochs = {name: [(at, epoch_s) for at, _, epoch_s in path] for name, path in paths.items()}
    return figures.steps(
        {"accuracy of the best so far, %, by seconds": accuracy, "seconds of its epochs, by seconds": epochs}
    )


def single(live: Mapping[str, Any], kinds: Sequence[str]) -> str:
    found = {name: came(live, name) for name, kind in KINDS.items() if kind in kinds}
    there = {name: of for name, of in found.items() if of}
    if not there:
        return ""
    return figures.bars(
        {
            title: {
                name: {TITLES[approach]: told[measure] for approach, told in of.items()} for name, of in there.items()
            }
            for measure, title in MEASURES.items()
        }
    )


def response(tenants: Mapping[str, Any], mixes: Sequence[str]) -> str:
    rows = rows_of(tenants)
    shown = {
        mix: {TITLES[one]: rows[f"{mix}: {one}_s"] for one in ("v1", "v2", "pipetune", "best")}
        for mix in mixes
        if f"{mix}: v1_s" in rows
    }
    return figures.bars({"mean response time, seconds": shown}) if shown else ""
