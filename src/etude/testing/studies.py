"""What every engine promises of whole studies: equal seeds give equal trials, on any of them, and any may go on."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from etude.core.plan import GO_ON, Act, Decision, Report, Standing
from etude.core.streams import stream_seed
from etude.engines import Engine
from etude.engines.local import LocalEngine
from etude.engines.simulated import Simulated
from etude.worker.processes import variable_set

TRIALS: Final = 10
FEWER: Final = 4
"""So many are run first; then the study goes on."""

WORKERS: Final = 2
REPORTS: Final = 3
FOR_EVER: Final = 1_000_000
BREATH_S: Final = 0.002
FAILS_BELOW: Final = 0.2
STOPPED_BELOW: Final = 0.4

Trials = list[Mapping[str, Any]]


def check_studies(make: Callable[[], Engine | Simulated], folder: Path) -> None:
    """Check that a study comes out on an engine as it does on this machine: what finishes, fails, and is stopped.

    It is run in two parts, each with an engine of its own. A simulated one runs it in one, since it is simulated anew
    whenever it is called; its curves are replaced by what the training function reports.

    Args:
        make: Returns a new engine.
        folder: Where studies may lie.

    Raises:
        AssertionError: It came out otherwise.
    """
    with variable_set("ETUDE_STUDIES", str(folder)):
        expected = _studied(LocalEngine(), "here", TRIALS)
        assert {trial["state"] for trial in expected} == {"finished", "failed", "stopped"}
        engine = make()
        if isinstance(engine, Simulated):
            found = _studied(dataclasses.replace(engine, curves=curve), "there", TRIALS)
            kind = type(engine).__name__
        else:
            begun, kind = _studied(engine, "there", FEWER), type(engine).__name__
            found = _studied(make(), "there", TRIALS)
            assert found[:FEWER] == begun, f"what has ended stays as it is when a study goes on with {kind}"
    for ours, theirs in zip(expected, found, strict=True):
        assert ours == theirs, (
            f"equal seeds give equal trials and values, whatever the engine. On this machine: {ours}. With {kind}: "
            f"{theirs}"
        )


def _studied(engine: Engine | Simulated, name: str, trials: int) -> Trials:
    """Run a study, and return what does not depend on who was how fast."""
    from etude import Experiment, uniform

    own = engine.most_workers if isinstance(engine, Simulated) else None
    search = Experiment(train, metric="score", mode="max").tune(
        {"x": uniform(0.0, 1.0)},
        trials=trials,
        workers=own or WORKERS,
        sampler="random",
        stopper=StopsTheLow(),
        seed=1,
        name=name,
        progress=False,
        engine=engine,
    )
    return [
        {
            "number": trial.number,
            "params": trial.params,
            "seed": trial.seed,
            "state": trial.state,
            "value": trial.value,
            "curve": trial.curve if trial.state == "finished" else [],
        }
        for trial in search.trials
    ]


@dataclasses.dataclass(frozen=True)
class StopsTheLow:
    """Stops the trials that would go on for ever."""

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Decide after a report."""
        x = standing.trials[report.trial].params["x"]
        assert isinstance(x, float)
        return Decision(Act.STOP, "it is low") if FAILS_BELOW <= x < STOPPED_BELOW else GO_ON


def train(x: float, run: Any) -> float:
    """Be the training function: the lowest fail, others are stopped, and the rest draw what they report."""
    score = 0.0
    for score in course(x, random.random):
        run.report(score=score)
        if x < STOPPED_BELOW:
            time.sleep(BREATH_S)
    return score


def curve(params: Mapping[str, Any], seed: int) -> Iterator[tuple[float, Mapping[str, float]]]:
    """Be what a trial reports, for simulated studies: random numbers are those of the training function."""
    for score in course(params["x"], random.Random(stream_seed(seed, "train")).random):
        yield 1.0, {"score": score}


def course(x: float, draw: Callable[[], float]) -> Iterator[float]:
    """Yield what a trial reports."""
    for step in range(FOR_EVER if x < STOPPED_BELOW else REPORTS):
        if x < FAILS_BELOW and step:
            raise ValueError("it is too low")
        yield x + draw() + step
