"""What saved states and weights take on the disk at every instant, under kills, and how much less that is than all."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

WORKERS: Final = 4
BEST: Final = 3
"""Trials that keep their weights."""

NAMED: Final = 2
"""Epochs of each of them: its last, and its best."""

POINTS: Final = 2
IN_FLIGHT: Final = 2
"""States that are written at a time, on one machine."""

LAYERS: Final = 60
LOOK_S: Final = 0.002
NAME: Final = "storage"


def cells(small: bool) -> Sequence[Cell]:
    large = {"trials": 10, "epochs": 80, "parameters": 60_000_000, "driver_kills": 2}
    tiny = {"trials": 3, "epochs": 4, "parameters": 6_000, "driver_kills": 1}
    return [Cell("étude", tiny if small else large, limit_s=3600.0)]


def study(trials: int, epochs: int, parameters: int) -> None:
    """Run the study; it is started again by this same call when its driver was killed."""
    import torch

    import etude

    place = Path.cwd()

    def train(number: int, run: etude.Run) -> float:
        import random

        torch.manual_seed(number)
        net = torch.nn.ParameterList([torch.randn(parameters // LAYERS) for _ in range(LAYERS)])
        net.requires_grad_(False)
        run.keep(net=net)
        score = 0.0
        for epoch in run.epochs(epochs):
            for layer in net:
                layer.add_(0.001)
            score = epoch / epochs + random.Random(1000 * number + epoch).random()  # its best is seldom its last
            run.report(score=score)
            with open(place / "trained", "a") as log:
                log.write(f"{number} {epoch}\n")
            killed = place / f"killed-{number}"
            if epoch == (7 * number + epochs // 2) % epochs and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return score

    etude.Experiment(train, metric="score", mode="max").tune(
        {"number": etude.choice(list(range(trials)))},
        trials=trials,
        workers=WORKERS,
        sampler="grid",
        stopper="none",
        name=NAME,
    )


class Watch:
    """Looks at a study's checkpoints over and over, from outside, and keeps what was the most.

    A look takes some microseconds for each file, so a file that is renamed meanwhile may be met twice; it is counted
    once, by its inode.

    Args:
        trials: The folder of all attempts.
    """

    def __init__(self, trials: Path) -> None:
        self._trials = trials
        self._over = threading.Event()
        self.peak_b = 0
        self.most_points = 0
        self.looks = 0
        self.longest_gap_s = 0.0
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        last = time.perf_counter()
        while not self._over.wait(LOOK_S):
            self._look()
            now = time.perf_counter()
            self.longest_gap_s, last = max(self.longest_gap_s, now - last), now

    def _look(self) -> None:
        sizes: dict[int, int] = {}
        points = set()
        for path in self._trials.glob("*/attempt-*/checkpoints/*"):
            with contextlib.suppress(OSError):
                found = path.stat()
                sizes[found.st_ino] = found.st_size
                if path.name.endswith(".rest.safetensors") and not path.name.startswith("."):
                    points.add(found.st_ino)
        self.looks += 1
        self.peak_b = max(self.peak_b, sum(sizes.values()))
        self.most_points = max(self.most_points, len(points))


def work(args: Mapping[str, Any], place: Path) -> Result:
    import etude
    from etude.core.events import Checkpointed
    from etude.results.housekeeping import usage
    from etude.store.journal import Journal

    trials, epochs = args["trials"], args["epochs"]
    folder = Path(os.environ["ETUDE_STUDIES"]) / NAME
    call = json.dumps([trials, epochs, args["parameters"]])
    command = [sys.executable, "-c", f"from benchmarks.weights_storage import study; study(*{call})"]
    began = time.perf_counter()
    with Watch(folder / "trials") as watch:
        for nth in range(args["driver_kills"]):
            driver = subprocess.Popen(command, cwd=place)
            goal = trials * epochs * (nth + 1) // (args["driver_kills"] + 1)
            while driver.poll() is None and _trained(place) < goal:
                time.sleep(0.01)
            driver.kill()
            driver.wait()
        subprocess.run(command, cwd=place, check=True)
    took_s = time.perf_counter() - began
    search = etude.open(folder)
    assert search.counts() == {"finished": trials}, search.counts()
    with contextlib.closing(Journal.read(folder)) as journal:
        saved = [fact.checkpoint.sizes for fact in journal.facts() if isinstance(fact, Checkpointed)]
    weights_b, rest_b = (max(sizes) for sizes in zip(*saved, strict=True))
    bound_b = BEST * NAMED * weights_b + (POINTS * WORKERS + IN_FLIGHT) * (weights_b + rest_b)
    everything_b = trials * epochs * (weights_b + rest_b)
    left = usage(folder)
    return {
        "peak_mb": watch.peak_b / 2**20,
        "bound_mb": bound_b / 2**20,
        "over_bound_mb": max(0.0, (watch.peak_b - bound_b) / 2**20),
        "most_points": watch.most_points,
        "times_less": everything_b / watch.peak_b,
        "kept_models": left.weights / weights_b,
        "surplus_mb": left.surplus / 2**20,
        "kills": len(list(place.glob("killed-*"))) + args["driver_kills"],
        "saved": len(saved),
        "looks": watch.looks,
        "longest_gap_ms": 1000 * watch.longest_gap_s,
        "wall_s": took_s,
        "details": {"weights_b": weights_b, "rest_b": rest_b, "trained_epochs": _trained(place)},
    }


def _trained(place: Path) -> int:
    """Return how many epochs were trained, those included that were lost."""
    with contextlib.suppress(FileNotFoundError):
        return len((place / "trained").read_bytes().splitlines())
    return 0


BENCHMARK = Benchmark(
    name="weights_storage",
    cells=cells,
    work=work,
    quantities=(
        Quantity("peak_mb", "MB", 1),
        Quantity("bound_mb", "MB", 1),
        Quantity("over_bound_mb", "MB", 1),
        Quantity("most_points", "", 0),
        Quantity("times_less", "", 1),
        Quantity("kept_models", "", 2),
        Quantity("surplus_mb", "MB", 1),
        Quantity("kills", "", 0),
        Quantity("saved", "", 0),
        Quantity("looks", "", 0),
        Quantity("longest_gap_ms", "ms", 1),
        Quantity("wall_s", "s", 1),
    ),
    targets=(
        Target("over the bound, at any look", "étude: over_bound_mb", 0, "MB", at_least=False, worst=True),
        Target("states to go on from, and in flight", "étude: most_points", 10, "", at_least=False, worst=True),
        Target("less than all epochs of all trials", "étude: times_less", 50, "", worst=True),
        Target("surplus at the end", "étude: surplus_mb", 0, "MB", at_least=False, worst=True),
    ),
    note=(
        "bound: 3 trials x 2 epochs x the weights, and 2 states of each of the 4 trials that run and 2 in flight,\n"
        "all at their measured sizes. peak: the most that a thread beside the study found on the disk; it looked\n"
        "every few milliseconds, and never later than longest_gap_ms. Each trial is killed once, the driver twice.\n"
        "Weights are random tensors; there is no optimizer, whose state would be part of the states."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
