"""Synchronous waves: trials are handed out together, and the next ones only when all of these have ended.

That is how searches run on Spark as it comes, and on whatever else ends a stage before it begins the next. Étude does
not work like that, so the plan that does is here: it wraps another plan, and the driver, the sampler, the stopper and
the workers are those of any study.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from etude.core.plan import Answer, Decision, Plan, Propose, Report, Standing, Wait

RULE: Final = "median"
FORMS: Final[Mapping[str, tuple[bool, str]]] = {
    "waves": (True, "none"),
    "waves_median": (True, RULE),
    "async": (False, "none"),
    "async_median": (False, RULE),
}
"""The four forms of a study: whether it goes in waves, and its stopper."""


@dataclass(frozen=True)
class Waves:
    """Carry a plan out in waves of ``size`` trials. A rule may stop trials in a wave; their workers wait then.

    Attributes:
        plan: What is to be run.
        size: How many trials are in a wave: as many as there are workers.
    """

    plan: Plan
    size: int

    def ask(self, standing: Standing, *, pending: Sequence[Propose]) -> Answer:
        """Ask the plan for more, unless a wave is full and not over."""
        asked = len(standing.trials) + len(pending)
        if asked % self.size == 0 and len(standing.ended) < asked:
            return Wait()
        return self.plan.ask(standing, pending=pending)

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Let the plan decide."""
        return self.plan.decide(report, standing)

    @property
    def resumes(self) -> bool:
        """As the plan says."""
        return self.plan.resumes

    def never_promoted(self, standing: Standing) -> Sequence[int]:
        """Return what the plan does."""
        return self.plan.never_promoted(standing)


def tune(
    experiment: Any,
    space: Mapping[str, Any],
    *,
    trials: int,
    workers: int,
    name: str,
    waves: bool = False,
    stopper: str = "none",
    seed: int = 0,
    start: Sequence[Mapping[str, Any]] = (),
    engine: Any = "local",
) -> Any:
    """Run a study with random search, as ``experiment.tune`` does, or in waves; return it when it has ended."""
    from etude.launching.call import Call
    from etude.launching.launch import Launch
    from etude.tune.question import search
    from etude.tune.spaces import Space

    call = Call.read(
        workers=workers, name=name, retries=2, timeout_s=None, grace_s=10.0, reuse_child=False, engine=engine
    )
    question = search(
        experiment,
        Space.of(space),
        trials=trials,
        sampler="random",
        stopper=stopper,
        seed=seed,
        start=start,
        constraint=None,
    )
    if waves:
        question = dataclasses.replace(question, plan=Waves(question.plan, workers))
    live = Launch(experiment, question, call).start()
    live.wait(progress=False)
    assert live.search.complete
    return live.search


@dataclass(frozen=True)
class Went:
    """How one form of a study went.

    Attributes:
        makespan_s: From the first hand-out to the last end.
        best: The best final value.
        stopped: How many trials were stopped.
        path: Seconds from the first hand-out, and the final value, of each trial that was better than all before.
    """

    makespan_s: float
    best: float
    stopped: int
    path: tuple[tuple[float, float], ...]

    def best_at(self, seconds: float) -> float:
        """Return the best final value after so many seconds; NaN if there was none yet."""
        return next((value for at, value in reversed(self.path) if at <= seconds), math.nan)

    @classmethod
    def of(cls, study: Any) -> Went:
        """Read it from a study that has ended."""
        path = path_of(study.trials, larger_is_better=study.metrics.modes[study.metrics.main] == "max")
        return cls(float(study.makespan_s), float(study.best.value), study.counts().get("stopped", 0), path)


def path_of(trials: Sequence[Any], *, larger_is_better: bool) -> tuple[tuple[float, float], ...]:
    """Return when each trial that was better than all before had ended, and its value; see ``Went``."""
    began = min(trial.started_at for trial in trials)
    found: list[tuple[float, float]] = []
    for trial in sorted((one for one in trials if one.state == "finished"), key=lambda one: one.ended_at):
        if not found or (trial.value > found[-1][1] if larger_is_better else trial.value < found[-1][1]):
            found.append((trial.ended_at - began, trial.value))
    return tuple(found)


def best_so_far(studies: Sequence[Went]) -> list[tuple[float, float]]:
    """Return the mean of the best values so far: where it changes, from when all studies have one to the last end."""
    first_s, last_s = max(went.path[0][0] for went in studies), max(went.makespan_s for went in studies)
    times = {first_s, last_s, *(at for went in studies for at, _ in went.path if at > first_s)}
    return [(at, fmean(went.best_at(at) for went in studies)) for at in sorted(times)]


def four(run: Callable[..., Any]) -> dict[str, Went]:
    """Run all four forms of one study.

    Args:
        run: Runs a study and returns it: called with ``waves``, ``stopper`` and the form's name as ``name``.
    """
    return {
        form: Went.of(run(waves=waves, stopper=stopper, name=form.replace("_", "-")))
        for form, (waves, stopper) in FORMS.items()
    }
