"""One after the other, the studies that a forecast is made of."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.events import Params
from etude.core.metrics import Metrics
from etude.core.text import brief
from etude.engines.curves import CurveSource, Record, RecordedCurves, Step
from etude.engines.simulated import Simulated
from etude.forecasting.measured import Evidence, Failing
from etude.forecasting.replay import Replayed, replay
from etude.forecasting.resample import Resample
from etude.tune import stop
from etude.tune.plan import SearchPlan
from etude.tune.question import Question
from etude.tune.sampler import Sampler
from etude.tune.samplers import SAMPLERS, make_sampler
from etude.tune.sampling import SetUp
from etude.tune.spaces import Space
from etude.tune.stop import NeverStop, make_stopper
from etude.tune.unit import placed

LONGER_S: Final = 1e9
"""Longer than anybody lets a trial run: nobody knows how long one would have gone on that was ended for its time."""


@dataclass(frozen=True)
class Drawn:
    """One way in which the study to come could go.

    Attributes:
        trials: Its trials, by number.
        source: What a sampler's proposals go by, if one proposes; else empty.
        seed: The seed of all else that is drawn in it.
    """

    trials: list[Record]
    source: list[Record]
    seed: int


class Tries:
    """Runs the studies that a forecast is made of.

    Args:
        evidence: What was measured.
        trials: How many trials each has.
        sampler: What proposes them; None if they are drawn from those measured.
        startup_s: Seconds until workers are there.
        failures: Share of the attempts that is lost.
        grace_s: Seconds that a trial has to see a stop.
    """

    def __init__(
        self,
        evidence: Evidence,
        trials: int,
        sampler: str | Sampler | None,
        *,
        startup_s: float,
        failures: float,
        grace_s: float,
    ) -> None:
        self._evidence = evidence
        self._trials = trials
        self._grace_s = grace_s
        self._space, self._sampler = _proposer(sampler, evidence)
        self.called = SAMPLERS.describe(self._sampler) if self._sampler is not None else ""
        self._engine = Simulated(curves=_no_curve, startup_s=startup_s, failures=failures)

    def draw(self, seed: int) -> Drawn:
        """Return one way in which the study could go."""
        found = Resample.of(self._evidence, seed=seed)
        return Drawn(found.trials(self._trials), found.measured_again() if self._sampler is not None else [], seed)

    def run(self, drawn: Drawn, workers: int, judge: stop.Stopper | None) -> Replayed:
        """Simulate one study; without a stopper only how long trials take counts, so they report nothing."""
        metrics = self._evidence.metrics
        fresh: stop.Stopper = NeverStop()
        if judge is not None:
            fresh = make_stopper(copy.deepcopy(list(stop.members(judge))), metrics)
            metrics = metrics.watching(stop.watched_by(fresh))
        engine = dataclasses.replace(self._engine, seed=drawn.seed)
        question, curves = self._asked(drawn, metrics, fresh, reports=judge is not None)
        timeout_s = self._evidence.timeout_s
        return replay(question, engine, curves, workers=workers, grace_s=self._grace_s, timeout_s=timeout_s)

    def _asked(
        self, drawn: Drawn, metrics: Metrics, judge: stop.Stopper, *, reports: bool
    ) -> tuple[Question, CurveSource]:
        seed = drawn.seed
        if self._sampler is None or self._space is None:
            start: tuple[Params, ...] = tuple({"trial": nth} for nth in range(self._trials))
            plan = SearchPlan(self._trials, seed=seed, stopper=judge, start=start)
            return Question(plan, metrics, self._trials, seed=seed), in_order(drawn.trials, reports=reports)
        sampler, space = SAMPLERS.fresh(self._sampler), self._space
        set_up = SetUp.of(sampler, space, seed=seed, metrics=len(metrics.names))
        plan = SearchPlan(self._trials, seed=seed, stopper=judge, size=space.size)
        nearest = RecordedCurves(drawn.source).within(lambda params: placed(space, params), metrics)
        question = Question(plan, metrics, self._trials, sampler=sampler, space=space, seed=seed, set_up=set_up)
        return question, nearest


def in_order(records: Sequence[Record], *, reports: bool) -> CurveSource:
    """Return the source in which trial ``k`` goes as the ``k``-th record."""

    def course(params: Params, seed: int) -> Generator[Step, None, Any]:
        nth = params["trial"]
        assert isinstance(nth, int)
        record = records[nth]
        if reports:
            yield from record.steps
        else:
            yield sum(seconds for seconds, _ in record.steps), {}
        if isinstance(record, Failing):
            if record.timed_out:
                yield LONGER_S, {}
            raise RuntimeError("it fails like one that was measured")
        return record.returned

    return course


def _no_curve(params: Params, seed: int) -> Iterator[Step]:
    raise AssertionError("each resample brings a source of its own")


def lost_best(ran: Replayed, trials: Sequence[Record], metrics: Metrics) -> float:
    """Return the chance that the best trial of a study was stopped.

    Of several that are equally good, each may be the one.

    Args:
        ran: What came of the study.
        trials: How its trials would have gone to their end, by number.
        metrics: What it measures; by the main one a trial is the best.
    """
    values = [(record.returned or {}).get(metrics.main) for record in trials]
    losses = [metrics.loss(value, metrics.main) if isinstance(value, float) else math.inf for value in values]
    best = [nth for nth, loss in enumerate(losses) if loss == min(losses)]
    return sum(nth in ran.stopped for nth in best) / len(best)


def _proposer(given: str | Sampler | None, evidence: Evidence) -> tuple[Space | None, Sampler | None]:
    if given is None:
        return None, None
    space = ((evidence.meta or {}).get("question") or {}).get("space")
    if space is None:
        raise ConfigError(
            f"sampler={brief(given)} needs a space to propose from, and the study has none. Leave it out."
        )
    read_space = Space.from_dict(space)
    made = make_sampler(given, read_space, metrics=len(evidence.metrics.names))
    if not SAMPLERS.has(made):
        raise ConfigError(
            f"sampler={brief(given)} is one of your own, and a forecast needs a new one for each simulated study. Pass "
            f"one of {SAMPLERS.names}, or leave it out."
        )
    return read_space, made
