"""Forecasting: simulate the study that somebody is about to start, from what past studies have measured."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.numbers import amount, seed_of, whole
from etude.core.spending import HOUR_S, check_priced
from etude.core.streams import stream_seed
from etude.core.text import brief, count
from etude.forecasting.measured import Evidence, measured
from etude.forecasting.notes import notes_on
from etude.forecasting.replay import Replayed
from etude.forecasting.resample import from_few
from etude.forecasting.result import NEAR, Forecast, Interval, Row
from etude.forecasting.tries import Tries, lost_best
from etude.launching.progress import Counted, counting
from etude.results.reading import read
from etude.results.search import Search
from etude.tune import stop
from etude.tune.fidelity import split
from etude.tune.sampler import Sampler
from etude.tune.stop import Given, NeverStop, make_stopper

MOST_WORKERS: Final = 64
"""Where doubling the workers ends, if it has not stopped helping before."""

FEWEST_RESAMPLES: Final = 20
"""With fewer, the ends of an interval that holds nine in ten would be single studies."""


def forecast(
    *studies: Search | str | os.PathLike[str],
    trials: int | None = None,
    workers: int | Sequence[int] | None = None,
    stopper: Given = None,
    sampler: str | Sampler | None = None,
    price_per_hour: float | None = None,
    max_cost: float | None = None,
    deadline_s: float | None = None,
    startup_s: float | None = None,
    failures: float = 0.0,
    resamples: int = 100,
    seed: int = 0,
    progress: bool | None = None,
) -> Forecast:
    """Say what a study will take with 1, 2, 4, ... workers, before it is started.

    Goes by trials that were measured, in studies that are over or still run, and simulates the study to come many
    times: each time with another resample of those trials, and with another seed. At least 5 of them have to have
    run to their end; the fewer there are, the wider the intervals. What was stopped goes on as others did.

    Args:
        studies: Past or running studies: what ``tune`` or ``etude.open`` returned, a folder or a name.
        trials: How many trials the study will have; as many as the first of the studies if left out.
        workers: How many trials run at a time, one number or several. By default 1, 2, 4, ... until twice as many
            shorten the study by less than a tenth, at most 64.
        stopper: What will stop trials early, as ``tune`` takes it; that of the first study if left out.
        sampler: What will propose configurations: each trial then goes as the measured one that is nearest. By default
            configurations are not looked at: trials are like those measured.
        price_per_hour: What an hour of one worker costs, whether it has work or not.
        max_cost: What the workers may cost in all: the forecast says how likely that is exceeded.
        deadline_s: Seconds that the study may take; likewise.
        startup_s: Seconds until workers are there; as in the first study if left out.
        failures: Share of the attempts whose process dies.
        resamples: How many studies are simulated for each number of workers, at least 20.
        seed: The seed of all that is drawn.
        progress: Show how far it is; by default if ``ETUDE_PROGRESS`` is not ``0``.

    Returns:
        The forecast: ``.summary()``, ``.rows()``, ``.frame()``, ``.enough``.

    Raises:
        ConfigError: The call cannot be.
        StudyError: A study cannot be read, or too few of its trials ran to their end.
    """
    if not studies:
        raise ConfigError("forecast() was given no study to go by. Name one: etude.forecast('digits').")
    for one in studies:
        if not isinstance(one, Search | str | os.PathLike):
            raise ConfigError(
                f"forecast({brief(one)}) is given no study. Pass what tune or etude.open returned, a folder or a name; "
                "for the last study of an experiment: experiment.forecast(...)."
            )
    searches = [one if isinstance(one, Search) else read(one) for one in studies]
    found = measured(list({search.folder.resolve(): search for search in searches}.values()))  # each counts once
    asked: Mapping[str, Any] = (found.meta or {}).get("question") or {}
    if trials is None and not isinstance(asked.get("trials"), int):
        raise ConfigError("trials is missing, and the study does not say how many it has. Pass trials=...")
    judge = stopper if stopper is not None else _own_stopper(asked, found)
    grace_s = ((found.meta or {}).get("call") or {}).get("grace_s")
    with counting(progress) as step:
        return foretold(
            found,
            trials=whole("trials", asked.get("trials") if trials is None else trials, 1, "nothing would be run"),
            workers=_read_workers(workers),
            stopper=judge,
            sampler=sampler,
            prices=Prices.read(price_per_hour, max_cost, deadline_s),
            startup_s=found.startup_s if startup_s is None else amount("startup_s", startup_s),
            failures=failures,
            grace_s=10.0 if grace_s is None else float(grace_s),
            resamples=whole(
                "resamples", resamples, FEWEST_RESAMPLES, "the ends of an interval would be single studies"
            ),
            seed=seed_of(seed),
            step=step,
        )


@dataclass(frozen=True)
class Prices:
    """What a study may take, and what a worker costs.

    Attributes:
        per_hour: What an hour of one worker costs; None if nobody said.
        max_cost: What all of them may cost.
        deadline_s: What the study may take.
    """

    per_hour: float | None = None
    max_cost: float | None = None
    deadline_s: float | None = None

    @classmethod
    def read(cls, per_hour: float | None, max_cost: float | None, deadline_s: float | None) -> Prices:
        """Read what a user gave.

        Raises:
            ConfigError: It cannot be.
        """
        for name, value in (("price_per_hour", per_hour), ("max_cost", max_cost), ("deadline_s", deadline_s)):
            if value is not None:
                amount(name, value, above=True)
        check_priced(max_cost, per_hour)
        return cls(per_hour, max_cost, deadline_s)

    def missed_by(self, ran: Replayed) -> bool:
        """Say whether a study would take more than it may."""
        cost = ran.worker_s / HOUR_S * (self.per_hour or 0.0)
        return (self.max_cost is not None and cost > self.max_cost) or (
            self.deadline_s is not None and ran.time_s > self.deadline_s
        )


def foretold(
    evidence: Evidence,
    *,
    trials: int,
    workers: Sequence[int] | None,
    stopper: Given = "none",
    sampler: str | Sampler | None = None,
    prices: Prices = Prices(),
    startup_s: float = 0.0,
    failures: float = 0.0,
    grace_s: float = 10.0,
    resamples: int = 100,
    seed: int = 0,
    step: Callable[[Counted], None] = lambda counted: None,
) -> Forecast:
    """Return the forecast that evidence gives: the same for equal arguments; ``step`` is told how far it is."""
    judge = make_stopper(stopper, evidence.metrics)
    split(judge, eta=None, fidelity=False)  # which refuses promotion
    stops = any(not isinstance(one, NeverStop) for one in stop.members(judge)) and evidence.reports
    work = Tries(evidence, trials, sampler, startup_s=startup_s, failures=failures, grace_s=grace_s)
    drawn = [work.draw(stream_seed(seed, "forecast", nth, bits=63)) for nth in range(resamples)]
    rows: list[Row] = []
    for n in _numbers_of_workers(workers, trials, rows):
        alone, early = [], []
        for nth, each in enumerate(drawn):
            told = f"Forecasting: {count(n, 'worker')}, {nth} of {count(resamples, 'simulation')}"
            step(Counted(told, ended=len(rows) * resamples + nth, trials=resamples))
            alone.append(work.run(each, n, None))
            early.append(work.run(each, n, judge) if stops else alone[-1])
        lost = [lost_best(ran, each.trials, evidence.metrics) for ran, each in zip(early, drawn, strict=True)]
        rows.append(_row(n, early, alone, prices, lost=[] if work.called else lost, before=rows[-1] if rows else None))
    ended = len(rows) * resamples
    step(Counted(f"Forecast from {count(ended, 'simulation')}.", ended=ended, trials=resamples))
    return Forecast(
        studies=evidence.studies,
        measured=len(evidence.trials),
        begun=len(evidence.trials) - evidence.whole,
        trials=trials,
        stopper=stop.describe(judge) if stops else "",
        sampler=work.called,
        resamples=resamples,
        from_few=from_few([each.trials for each in drawn]),
        table=tuple(rows),
        notes=tuple(notes_on(evidence, judge, rows, failures=failures, sampler=work.called)),
    )


def _numbers_of_workers(given: Sequence[int] | None, trials: int, rows: Sequence[Row]) -> Iterator[int]:
    """Yield how many workers to simulate: what was asked for, or twice as many each time until that hardly helps."""
    if given is not None:
        yield from given
        return
    n = 1
    while True:
        yield n
        helped = len(rows) < 2 or rows[-2].time_s.median > NEAR * rows[-1].time_s.median  # noqa: PLR2004
        if not helped or n >= min(trials, MOST_WORKERS):
            return
        n = min(2 * n, trials, MOST_WORKERS)


def _row(
    workers: int,
    early: Sequence[Replayed],
    alone: Sequence[Replayed],
    prices: Prices,
    *,
    lost: Sequence[float],
    before: Row | None,
) -> Row:
    time_s = Interval.of([ran.time_s for ran in early])
    worker_s = [ran.worker_s for ran in early]
    limited = prices.max_cost is not None or prices.deadline_s is not None
    return Row(
        workers=workers,
        time_s=time_s,
        worker_hours=Interval.of(worker_s, times=1.0 / HOUR_S),
        cost=Interval.of(worker_s, times=prices.per_hour / HOUR_S) if prices.per_hour is not None else None,
        alone_s=Interval.of([ran.time_s for ran in alone]),
        saves=Interval.of([1.0 - a.time_s / b.time_s if b.time_s else 0.0 for a, b in zip(early, alone, strict=True)]),
        stopped=_mean([len(ran.stopped) / max(1, ran.trials) for ran in early]),
        loses_best=_mean(lost) if lost else None,
        gain_s=(before.time_s.median - time_s.median) / (workers - before.workers) if before is not None else None,
        misses=_mean([prices.missed_by(ran) for ran in early]) if limited else None,
        failed=_mean([ran.failed / max(1, ran.trials) for ran in early]),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _own_stopper(asked: Mapping[str, Any], evidence: Evidence) -> Given:
    """Return the stopper of the study that the evidence comes from."""
    given = asked.get("stopper")
    if isinstance(given, str):
        raise ConfigError(
            f"Study {evidence.studies[0]!r} has a stopper of its own ({given}), which no journal can hold. Pass "
            "stopper=..., or stopper='none'."
        )
    return stop.from_plain(given)


def _read_workers(given: int | Sequence[int] | None) -> list[int] | None:
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence):
        return [whole("workers", given, 1, "nobody would run the trials")]
    if not given:
        raise ConfigError("workers=[] asks for nothing. Pass numbers, or leave it out for 1, 2, 4, ...")
    return sorted({whole("workers", n, 1, "nobody would run the trials") for n in given})
