"""The experiment of Maggy's paper: synchronous waves against Étude, each with and without the median rule.

100 trials of a convolutional network on Fashion-MNIST, random search, 4, 8, 16 and 32 workers. The networks were
trained once, on a part of the images (``benchmarks.paper2_curves``); here their curves are gone along in virtual time,
in many orders.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from benchmarks import paper2_curves, shares, waves
from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

PAPER: Final = {4: 0.41, 8: 0.33, 16: 0.47, 32: 0.58}
"""Time of Maggy with the median rule over that of Spark without, by workers: the paper's first table."""

ORDERS: Final = 40
WORSE: Final = -0.005
"""Half a point of accuracy: who loses no more than that, with the whole interval, is called not worse."""

COMPARED: Final = ("waves", "async_median")
"""The two forms of the paper's fifth figure: trials in waves, and Maggy with its rule."""


def cells(small: bool) -> Sequence[Cell]:
    size = {"trials": 12, "orders": 2} if small else {"trials": 100, "orders": ORDERS}
    counts = (4,) if small else PAPER
    return [
        Cell(f"étude {n} workers{told}", {**size, "workers": n, "equal": equal}, limit_s=3600.0)
        for equal, told in ((False, ""), (True, ", equal run times"))
        for n in counts
    ]


def work(args: Mapping[str, Any], place: Path) -> Result:
    import etude

    found = paper2_curves.records()
    if args["equal"]:
        epoch_s = fmean(seconds for record in found for seconds in record["seconds"])
        found = [{**record, "seconds": [epoch_s] * len(record["seconds"])} for record in found]
    engine = etude.Simulated(curves=etude.RecordedCurves(found), workers=args["workers"])
    experiment = etude.Experiment(train, metric=paper2_curves.METRIC, mode="max")
    studies = []
    for nth in range(args["orders"]):
        order = [record["params"] for record in found][: args["trials"]]
        random.Random(nth).shuffle(order)

        def run(*, name: str, order: Any = order, nth: int = nth, **form: Any) -> Any:
            return waves.tune(
                experiment,
                paper2_curves.space(),
                trials=len(order),
                start=order,
                workers=args["workers"],
                engine=engine,
                name=f"{name}-{nth}",
                **form,
            )

        studies.append(waves.four(run))
    seconds = sorted(sum(record["seconds"]) for record in found)
    told = shares.decomposed(studies, larger_is_better=True)
    told["details"]["best_so_far"] = {
        form: [[round(at, 3), round(best, 5)] for at, best in waves.best_so_far([forms[form] for forms in studies])]
        for form in COMPARED
    }
    return {
        **told,
        "waves_best_then": fmean(forms["waves"].best_at(forms["async_median"].makespan_s) for forms in studies),
        "shortest_s": seconds[0],
        "median_s": seconds[len(seconds) // 2],
        "longest_s": seconds[-1],
    }


def train(kernel: int, pool: int, dropout: float, learning_rate: float) -> float:
    raise AssertionError("nothing is trained: the curves are there")


def _note() -> str:
    made = paper2_curves.how()
    return (
        f"Curves of 100 networks that were trained here: {made['data']};\n"
        f"layers of {', '.join(map(str, made['widths']))} channels, {made['epochs']} epochs, batches of\n"
        f"{made['batch size']}, {made['optimizer']}; seconds are {made['seconds']}.\n"
        f"Schedules are simulated, none was run live: {ORDERS} orders of the same trials; hand-outs and reports cost\n"
        "nothing, to neither\n"
        "side. Times are over those of the waves without a rule, in the same order; low and high bound the mean over\n"
        "orders (bootstrap, 95 %). change: the best accuracy of async_median less that of waves. share_of_asynchrony:\n"
        "of the cut in time, on a logarithmic scale, averaged over which of the two comes first; the rest is the\n"
        "median rule's. The best accuracy so far is the mean over orders, of trials that have finished; a curve\n"
        "begins where each order has one, and its dot is where the last of them ends. waves_best_then: what the\n"
        "waves have by when async_median has ended.\n"
        "One run (--runs 1) is all there is to it. shortest, median, longest: how long a trial takes.\n"
        "equal run times: the same curves, if every epoch of every trial took the same time.\n"
        "The paper's ratios are from other machines, another network and longer training, with early stopping on one\n"
        "side only."
    )


BENCHMARK = Benchmark(
    name="paper2",
    cells=cells,
    work=work,
    quantities=(
        *shares.quantities(),
        Quantity("waves_best_then", "", 4),
        *(Quantity(f"{which}_s", "s", 2) for which in ("shortest", "median", "longest")),
    ),
    targets=tuple(
        target
        for n, ratio in PAPER.items()
        for target in (
            Target(f"{n} workers, time over that of waves", f"étude {n} workers: both", ratio, "", at_least=False),
            Target(f"{n} workers, change of accuracy", f"étude {n} workers: change_low", WORSE, ""),
        )
    ),
    note=_note() if paper2_curves.FILE.exists() else "",
)

if __name__ == "__main__":
    BENCHMARK.main()
