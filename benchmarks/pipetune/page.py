"""The page that holds Étude beside the PipeTune paper: its table 2, and its figures 1 to 3 and 8 to 14."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.pipetune import figures, grid, shown, tables
from benchmarks.pipetune.grid import Grown
from benchmarks.pipetune.shown import FINAL_EPOCHS, TITLES, came, less, rows_of
from benchmarks.pipetune.workloads import KINDS
from benchmarks.writing import commit, listed, paragraph, points, table

NAME: Final = "pipetune"
NEEDED: Final = ("system_pipetune", "system_tenants", "system_sizes", "system_recognise")
"""The benchmarks whose lines it takes, in the order in which ``files`` has them."""

TABLE_2: Final = {
    "arbitrary": ("84.47", "445", "-"),
    "v1": ("91.54", "272", "4575"),
    "v2": ("81.76", "187", "4817"),
    "pipetune": ("92.70", "188", "3415"),
}
"""What the paper has in its table 2: accuracy, training time and tuning time."""
LENET: Final = "lenet5 mnist"
SEARCHES: Final = {"v1": 4, "v2": 6, "pipetune": 6}
"""How many of the six parameters each search tunes: V1 leaves threads and loader workers alone."""
MIXES: Final = {13: ("type I", "type II", "types I and II"), 14: ("type III",)}
UP_TO: Final = {13: 30, 14: 65}


Line = Mapping[str, Any]


def files(live: Line, tenants: Line, sizes: Line, recognise: Line) -> dict[str, str]:
    """Return the page and its figures: name of the file -> content. Figures without measurements are left out."""
    grids = grid.grown(sizes, next((one for one in tables.read() if one.name == LENET), None))
    drawn = {
        f"{NAME}-grid.svg": costing(grids, live),
        f"{NAME}-epochs.svg": shown.repeated(sizes),
        f"{NAME}-sizes.svg": shown.sized(sizes),
        f"{NAME}-clusters.svg": shown.clustered(recognise),
        f"{NAME}-path.svg": shown.converging(live),
        f"{NAME}-types-1-2.svg": shown.single(live, ("I", "II")),
        f"{NAME}-type-3.svg": shown.single(live, ("III",)),
        **{f"{NAME}-response-{nth}.svg": shown.response(tenants, mixes) for nth, mixes in MIXES.items()},
    }
    there = {name: text for name, text in drawn.items() if text}
    return {f"{NAME}.md": "\n".join(_page((live, tenants, sizes, recognise), there, grids)), **there}


# --- the page -----------------------------------------------------------------------------------------


def costing(grids: Sequence[Grown], live: Line) -> str:
    """Return figure 1: what grids cost, and what searches did; empty if nothing was measured."""
    if not grids:
        return ""
    searched = {TITLES[name]: [(SEARCHES[name], grid.cost(seconds))] for name, seconds in _searched(live).items()}
    told = {"whole grid": [(nth, one.cost) for nth, one in enumerate(grids, start=1)], **searched}
    return figures.growing("cost", "number of parameters", told)


def _searched(live: Line) -> dict[str, float]:
    found = came(live, LENET)
    return {name: found[name]["tuning_s"] for name in SEARCHES if name in found}


def _page(lines: Sequence[Mapping[str, Any]], drawn: Mapping[str, str], grids: Sequence[Grown]) -> Iterator[str]:
    live, tenants, sizes, recognise = lines
    yield "# PipeTune's table and figures, beside Étude's\n"
    yield paragraph(
        "Made by `python -m benchmarks.page` from the last lines of",
        f"{listed([f'`{name}` (commit {commit(line)})' for name, line in zip(NEEDED, lines, strict=True)])}.",
        "Numbers of the paper are those of Rocha et al. 2020 (doi:10.1145/3423211.3425692): BigDL and Tune on four",
        f"nodes, epochs of minutes. Here it is one machine with {live['machine']['cores']} cores",
        f"({live['machine']['cpu']}), and epochs of seconds: shapes may be compared, seconds may not.",
        "[Targets and all rows](system.md).",
    )
    yield points(
        "V1: hyperparameters alone. V2: threads and loader workers are hyperparameters, and the metric is accuracy "
        "over the seconds of an epoch. Fair V2 (not in the paper): the same, by accuracy, and then the quickest of "
        "those that are as good. PipeTune: Étude with `system=True`.",
        "What has no counterpart: more nodes; memory per job; events of the processor, which this machine does not "
        "show to its guests, so software events and the loader's own stand in for them; a power meter, so energy is "
        "CPU seconds times 15 W, a model.",
    )
    yield from _table_2(live, sizes)
    yield from _grid(live, grids, drawn)
    yield from _profiled(sizes, recognise, drawn)
    yield from _live(live, drawn)
    yield from _tenants(tenants, drawn)


def _table_2(live: Mapping[str, Any], sizes: Mapping[str, Any]) -> Iterator[str]:
    yield "## Table 2: LeNet-5 on MNIST\n"
    rows, found = rows_of(sizes), came(live, LENET)
    ours = {name: (one["final_percent"], one["training_s"], one["tuning_s"]) for name, one in found.items()}
    if "arbitrary: epoch_s" in rows:
        arbitrary = (rows["arbitrary: accuracy_percent"], FINAL_EPOCHS * rows["arbitrary: epoch_s"], 0.0)
        ours = {"arbitrary": arbitrary, **ours}
    yield table(
        ("", "accuracy, %", "training, s", "tuning, s", "the paper: accuracy, %", "training, s", "tuning, s"),
        [
            (
                TITLES.get(name, name),
                f"{accuracy:.1f}",
                f"{training_s:.1f}",
                f"{tuning_s:.1f}" if tuning_s else "-",
                *TABLE_2.get(name, ("", "", "")),
            )
            for name, (accuracy, training_s, tuning_s) in ours.items()
        ],
    )
    yield paragraph(
        f"Training: {FINAL_EPOCHS} epochs with what was found, at the pace of those after the first. Arbitrary: the",
        "hyperparameters that the functions have by default.",
    )


def _grid(live: Mapping[str, Any], grids: Sequence[Grown], drawn: Mapping[str, str]) -> Iterator[str]:
    yield "## Figure 1: what it costs to try everything\n"
    yield from _picture("cost of all combinations of one to six parameters", "grid", drawn)
    if not grids:
        return
    yield table(
        ("parameters", "the last of them", "values", "an epoch with these", "trainings", "seconds", "cost"),
        [
            (
                str(nth),
                one.parameter,
                str(one.values),
                grid.PARAMETERS[one.parameter],
                str(one.trainings),
                f"{one.seconds:,.0f}",
                f"{one.cost:.3f}",
            )
            for nth, one in enumerate(grids, start=1)
        ],
    )
    yield paragraph(
        f"LeNet-5 on MNIST, each parameter with up to {grid.VALUES} values, all combinations of the first of them one",
        f"after the other, at {grid.PRICE:g} an hour of this machine; another price is a factor. The paper pays three",
        "machines of a cloud for it, and its figure grows exponentially as well. Nobody ran these grids: epochs took",
        "what the table says, those of a training are taken to be alike, and what a training pays but once is left",
        f"out. A training has {FINAL_EPOCHS} epochs where they are not tuned, and else",
        f"{listed([str(n) for n in grid.EPOCHS])}.",
    )
    searched = [
        f"{TITLES[name]} tunes {SEARCHES[name]} in {seconds:.1f} s, for {grid.cost(seconds):.3f}"
        for name, seconds in _searched(live).items()
    ]
    if searched:
        yield paragraph(
            "A search costs what it is given. Those of table 2 ran, and are dots, with what it took to start their",
            f"trials: {listed(searched)}. What one would take, before it is begun, is told by a",
            "[forecast](../forecast.md).",
        )


def _profiled(sizes: Mapping[str, Any], recognise: Mapping[str, Any], drawn: Mapping[str, str]) -> Iterator[str]:
    rows, known = rows_of(sizes), {row["name"]: row["median"] for row in recognise["rows"]}
    yield "## Figure 2: do epochs repeat?\n"
    yield from _picture("what an epoch of a CNN on 20 Newsgroups takes of the machine", "epochs", drawn)
    if "epochs: rates" in rows:
        yield paragraph(
            f"{rows['epochs: rates']:.0f} numbers of a profile, per step, in the first epoch and the five after it,",
            "each as a share of its largest. The paper has 58 events of the processor, which cannot be counted here.",
            f"Of ours, {rows['epochs: steady_percent']:.0f} % are within 10 % of their mean in all five epochs.",
        )
    yield "## Figure 3: batch size and cores\n"
    yield from _picture("accuracy, duration and energy by batch size and threads", "sizes", drawn)
    yield paragraph(
        "LeNet-5 on MNIST. (a) is beside a batch size of 32, as in the paper; (b) and (c) are beside one thread. In",
        "the paper more cores made trainings with small batches slower, and those with large ones faster.",
    )
    yield "## Figure 8: clusters\n"
    yield from _picture("runs of each workload in two clusters", "clusters", drawn)
    yield paragraph(
        "Two clusters by k-means, as in the paper, where they are types I and II: of each workload, the share of its",
        f"runs in the first one. Looked up so, {known.get('k-means as in the paper: recognised_percent', 0):.0f} % of",
        f"repeated runs are recognised; by Étude's default {known.get('étude, nearest: recognised_percent', 0):.0f} %.",
    )


def _live(live: Mapping[str, Any], drawn: Mapping[str, str]) -> Iterator[str]:
    yield "## Figures 9 and 10: how searches converge\n"
    yield from _picture("accuracy and epochs of the best trial so far", "path", drawn)
    yield paragraph(
        "A CNN on 20 Newsgroups, live: the trial that was best so far by what its search goes by. The paper: as",
        "accurate as V1, 1.5 times as soon as V1 and twice as soon as V2.",
    )
    yield "## Figures 11 and 12: one job at a time\n"
    yield from _picture("types I and II", "types-1-2", drawn)
    yield from _picture("type III", "type-3", drawn)
    yield paragraph(
        "Live, one seed each. The paper, beside V1: PipeTune's tuning takes at least 18 % less, its energy is up to",
        "29 % less, and its accuracy is on par; V2's tuning takes up to 18 % more. Beside V2 its training is up to 1.7",
        "times as fast. Here:",
    )
    told = []
    for name in KINDS:
        found = came(live, name)
        if {"v1", "v2", "pipetune"} <= set(found):
            v1, v2, tuned = found["v1"], found["v2"], found["pipetune"]
            told.append(
                (
                    name,
                    KINDS[name],
                    f"{less(tuned['tuning_s'], v1['tuning_s']):+.1f} %",
                    f"{less(v2['tuning_s'], v1['tuning_s']):+.1f} %",
                    f"{less(tuned['joules_modelled'], v1['joules_modelled']):+.1f} %",
                    f"{v1['training_s'] / tuned['training_s']:.2f}",
                    f"{v2['training_s'] / tuned['training_s']:.2f}",
                    f"{tuned['final_percent'] - v1['final_percent']:+.1f}",
                )
            )
    head = ("beside V1", "type", "tuning", "V2's tuning", "energy", "training, times as fast", "beside V2", "accuracy")
    yield table(head, told)
    yield paragraph(
        "A search of this size has 78 epochs, few of one trial, and its best settings save little (but for one",
        "thread): what one seed shows lies within what epochs of one setting spread by. Jacobi's lie further apart.",
        "Each sweep makes new arrays, and whether the process keeps their memory or gives it back to the system in",
        "between is up to its allocator, by chance of what else is there. With the same setting, threads and all, its",
        "epochs take several times as long where it is given back, so this row tells of no approach. The targets are",
        "held on replay, by many seeds.",
    )


def _tenants(tenants: Mapping[str, Any], drawn: Mapping[str, str]) -> Iterator[str]:
    rows = rows_of(tenants)
    yield "## Figures 13 and 14: many jobs\n"
    for nth in MIXES:
        yield from _picture(f"mean response time, figure {nth}", f"response-{nth}", drawn)
    yield paragraph(
        "Simulated from the epochs that were measured: exponential arrivals, first in, first out, one job in five is",
        "unseen, and V1 would keep the machine busy for 80 % of the time.",
    )
    yield table(
        ("mean response time", "less than V1", "less than V2", "the paper: up to", "possible"),
        [
            (
                mix,
                *(f"{rows[f'{mix}: less_than_{other}']:.1f} %" for other in ("v1", "v2")),
                f"{UP_TO[nth]} %",
                f"{rows[f'{mix}: possible']:.1f} %",
            )
            for nth, mixes in MIXES.items()
            for mix in mixes
            if f"{mix}: possible" in rows
        ],
    )
    yield paragraph("Possible: what the best setting from the first epoch on would save of V1's.")


def _picture(told: str, name: str, drawn: Mapping[str, str]) -> Iterator[str]:
    file = f"{NAME}-{name}.svg"
    yield f"![{told}]({file})\n" if file in drawn else paragraph("Not measured yet.")
