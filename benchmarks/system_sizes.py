"""What a batch size and a number of threads do to LeNet-5, and whether epochs repeat: PipeTune's figures 2 and 3."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result
from benchmarks.pipetune.workloads import missing

LENET: Final = "lenet5 mnist"
REPEATED: Final = "cnn news"
SIZES: Final = (32, 64, 256, 1024)
"""The paper's; the first one is what the others are compared with."""
SMALL: Final = (1024,)
EPOCHS: Final = 5
"""After the first one, which the paper calls the initiation."""
STEADY: Final = 0.1
"""A rate repeats if all these epochs are within so much of their mean, as a share."""


def cells(small: bool, rounds: int) -> Sequence[Cell]:
    found = []
    if not missing(LENET):
        told = {"rounds": 1 if small else rounds}
        found += [Cell(f"étude, batch size {size}", {**told, "size": size}) for size in (SMALL if small else SIZES)]
        found += [] if small else [Cell("étude, arbitrary", told)]
    if not missing(REPEATED):
        found.append(Cell("étude, epochs", {"epochs": 1 if small else EPOCHS}))
    if not found:
        print(f"Nothing is measured. {missing(LENET)}")
        found.append(Cell("étude, nothing", {}))
    return found


def work(args: Mapping[str, Any], place: Path) -> Result:
    if not args:
        return {"rates": 0, "details": {}}
    if "epochs" in args:
        return _repeated(args["epochs"])
    return _sized(args["size"], args["rounds"]) if "size" in args else _arbitrary(args["rounds"])


def _sized(size: int, rounds: int) -> Result:
    """Train with a batch size, once with each number of threads, in turn."""
    from benchmarks.pipetune import measured
    from benchmarks.pipetune.workloads import load

    counts = sorted({1 << k for k in range(measured.cores().bit_length())} | {measured.cores()})
    seats = {n: measured.seat(load(LENET), batch_size=size) for n in counts}
    found: dict[int, list[Any]] = {n: [] for n in counts}
    for _ in range(rounds + 1):
        for n, seat in seats.items():
            found[n].append(seat.epoch({"threads": n}))
    for seat in seats.values():
        seat.leave()
    by_threads = {
        str(n): {
            "epoch_s": statistics.median(one.seconds for one in later),
            "joules": statistics.median(one.joules or 0.0 for one in later),
            "accuracy_percent": 100 * later[-1].metrics["accuracy"],
        }
        for n, (_, *later) in found.items()
    }
    return {**by_threads[str(counts[-1])], "details": {"threads": by_threads}}


def _arbitrary(rounds: int) -> Result:
    """Train with the hyperparameters that the functions have by default: what somebody has written, untuned."""
    from benchmarks.pipetune import measured
    from benchmarks.pipetune.workloads import load

    seat = measured.seat(load(LENET))
    epochs = [seat.epoch({"threads": measured.cores()}) for _ in range(rounds + 1)]
    seat.leave()
    return {
        "epoch_s": statistics.median(one.seconds for one in epochs[1:]),
        "accuracy_percent": 100 * epochs[-1].metrics["accuracy"],
    }


def _repeated(epochs: int) -> Result:
    """Profile the first epoch and those after it, with the default setting."""
    from benchmarks.pipetune import measured
    from benchmarks.pipetune.workloads import load

    workload = load(REPEATED)
    seat = measured.seat(workload, profiled=lambda _: True)
    default, *_ = measured.settings_of(workload)
    profiles = [seat.epoch(default).profile for _ in range(epochs + 1)]
    seat.leave()
    told = [one.per_step() for one in profiles if one is not None]
    rates = {
        name: [float(f"{one[name]:.4g}") for one in told]
        for name in sorted(told[0])
        if all(name in one for one in told) and any(one[name] for one in told)
    }
    steady = [is_steady(each[1:]) for each in rates.values()]
    return {
        "rates": len(rates),
        "steady_percent": 100 * statistics.fmean(steady) if steady else 0.0,
        "details": {"rates": rates},
    }


def is_steady(of_epochs: Sequence[float]) -> bool:
    """Say whether all epochs are near their mean."""
    mean = statistics.fmean(of_epochs)
    return all(abs(one - mean) <= STEADY * abs(mean) for one in of_epochs)


BENCHMARK = Benchmark(
    name="system_sizes",
    cells=cells,
    work=work,
    quantities=(
        Quantity("epoch_s", "s", 3),
        Quantity("joules", "J", 1),
        Quantity("accuracy_percent", "%", 1),
        Quantity("rates", "", 0),
        Quantity("steady_percent", "%", 0),
    ),
    targets=(),
    note=(
        "LeNet-5 on MNIST with four batch sizes: medians of epochs after the first, the accuracy after the last one,\n"
        "and energy by the CPU's seconds, a model. The numbers of threads take turns. arbitrary: hyperparameters that\n"
        "nobody has tuned. epochs: the rates a step of profiles of a CNN on 20 Newsgroups, in its first epoch and the\n"
        "five after it; steady: of those rates, how many are within 10 % of their mean in all five."
    ),
    numbers={"rounds": (8, "epochs after the first one")},
)

if __name__ == "__main__":
    BENCHMARK.main()
