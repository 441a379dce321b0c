"""What trials save that share their beginnings: 64 learning-rate schedules of 3 stages, and a small network live."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target, has_torch

RATES: Final = (0.1, 0.03, 0.01, 0.003)
STARTS: Final = (0, 30, 60)
EPOCHS: Final = 90
EPOCH_S: Final = 60.0
WORKERS: Final = (1, 4, 16, 64)

LIVE_STARTS: Final = (0, 2, 4)
LIVE_EPOCHS: Final = 6


def cells(small: bool) -> Sequence[Cell]:
    rates = RATES[:2] if small else RATES
    simulated = [
        Cell(f"étude, {n} workers, {way}", {"rates": rates, "workers": n, "merged": way == "merged"})
        for n in (WORKERS[:2] if small else WORKERS)
        for way in ("merged", "apart")
    ]
    live = [Cell("étude, live", {"rates": rates[:2], "live": True})] if has_torch() else []
    return [*simulated, *live]


def least(rates: Sequence[float], starts: Sequence[int], epochs: int) -> int:
    """Return how many epochs there are if each common beginning is trained once."""
    ends = [*starts[1:], epochs]
    found = set()
    for schedule in itertools.product(rates, repeat=len(starts)):
        for nth, (start, end) in enumerate(zip(starts, ends, strict=True)):
            found |= {(schedule[: nth + 1], epoch) for epoch in range(start, end)}
    return len(found)


def curve(params: Mapping[str, Any], seed: int) -> Iterator[tuple[float, dict[str, float]]]:
    """Fall as the rates so far have it: schedules that agree until an epoch report the same until then."""
    import etude

    far, noise = 1.0, 0.0
    for epoch in range(EPOCHS):
        rate = etude.value_at(params["lr"], epoch)
        far *= 1.0 - rate / 2
        noise = 0.8 * noise + 0.2 * rate
        yield EPOCH_S, {"loss": far + noise}


def spaces(rates: Sequence[float], starts: Sequence[int], *, merged: bool) -> dict[str, Any]:
    """Return the space, or the same configurations without a word on what they share."""
    import etude

    changing = etude.piecewise(list(rates), starts=starts)
    return {"lr": changing if merged else etude.choice(list(changing.grid(len(rates))))}


def work(args: Mapping[str, Any], place: Path) -> Result:
    return live(args["rates"], place) if args.get("live") else simulated(**args)


def simulated(rates: Sequence[float], workers: int, merged: bool) -> Result:
    import etude

    def train(lr: object) -> float:
        raise AssertionError("nothing is trained")

    study = etude.Experiment(train, metric="loss", mode="min").tune(
        spaces(rates, STARTS, merged=merged),
        sampler="grid",
        stopper="none",
        name=f"{'merged' if merged else 'apart'}-{workers}",
        engine=etude.Simulated(curves=curve, workers=workers),
    )
    trained = sum(trial.duration_s or 0.0 for trial in study.trials) / EPOCH_S
    return {
        "trained": trained,
        "over_least": trained / least(rates, STARTS, EPOCHS),
        "makespan_h": (study.makespan_s or 0.0) / 3600.0,
        "worker_hours": trained * EPOCH_S / 3600.0,
    }


def live(rates: Sequence[float], place: Path) -> Result:
    """Train a small network merged and apart, and compare all that comes of it."""
    import torch
    from torch import nn, optim
    from torch.utils.data import DataLoader, TensorDataset

    import etude

    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))

    def data() -> Any:
        x = torch.linspace(-1, 1, 2048).reshape(128, 16)
        return DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), batch_size=16, shuffle=True)

    def train(model: Any, data: Any, run: Any, lr: Any, log: etude.Stateless[str]) -> dict[str, Any]:
        net, loader = model(), data()
        optimizer = optim.SGD(net.parameters(), lr=etude.value_at(lr, 0), momentum=0.9)
        run.keep(net=net, optimizer=optimizer)
        total = 0.0
        for epoch in run.epochs(LIVE_EPOCHS):
            with Path(log).open("a") as lines:
                lines.write("epoch\n")
            for group in optimizer.param_groups:
                group["lr"] = etude.value_at(lr, epoch)
            total = 0.0
            for x, y in loader:
                optimizer.zero_grad()
                loss = (net(x) - y).square().mean()
                loss.backward()
                optimizer.step()
                total += loss.item()
            run.report(loss=total)
        weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in net.parameters())).hexdigest()
        return {"loss": total, "weights": weights}

    experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")
    came: dict[bool, Any] = {}
    epochs: dict[bool, int] = {}
    for merged in (True, False):
        log = place / f"epochs-{merged}"
        given = {**spaces(rates, LIVE_STARTS, merged=merged), "log": str(log)}
        study = experiment.tune(
            given, sampler="grid", stopper="none", workers=os.cpu_count() or 1, name="merged" if merged else "apart"
        )
        came[merged] = {t.params["lr"]: (t.value, t.curve, t.metrics) for t in study.trials}
        epochs[merged] = len(log.read_text().splitlines())
    differ = sum(came[True][schedule] != came[False][schedule] for schedule in came[False])
    return {
        "live_trained": float(epochs[True]),
        "live_over_least": epochs[True] / least(rates, LIVE_STARTS, LIVE_EPOCHS),
        "live_apart": float(epochs[False]),
        "differ": float(differ),
    }


BENCHMARK = Benchmark(
    name="weights_prefix",
    cells=cells,
    work=work,
    quantities=(
        Quantity("trained", "epochs", 0),
        Quantity("over_least", "", 3),
        Quantity("makespan_h", "h", 2),
        Quantity("worker_hours", "h", 1),
        Quantity("live_trained", "epochs", 0),
        Quantity("live_over_least", "", 3),
        Quantity("live_apart", "epochs", 0),
        Quantity("differ", "trials", 0),
    ),
    targets=(
        *(
            Target(
                f"epochs over those of the tree, {n} workers",
                f"étude, {n} workers, merged: over_least",
                1.0,
                "",
                at_least=False,
            )
            for n in WORKERS
        ),
        Target("epochs over those of the tree, live", "étude, live: live_over_least", 1.0, "", at_least=False),
        Target("live trials that differ", "étude, live: differ", 0.0, "trials", at_least=False),
    ),
    note=(
        "64 schedules: each of 3 stages of 30 epochs has one of 4 learning rates; an epoch takes a minute.\n"
        "trained: by the time that trials took; over_least: that over the epochs of the tree of all common\n"
        "beginnings. Hippo reports 2.76 times less time and 4.81 times fewer GPU hours, on a space of its own. With a\n"
        "worker for each trial no time is won: the longest way through the tree is as long as a trial. live: 8\n"
        "schedules and a small network with momentum, dropout and shuffling; differ: trials whose value, reports or\n"
        "weights are not the same to the bit as when trained apart."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
