"""Stoppers: after each report they say whether a trial is worth going on with. What one promises, and those there are.

The rules themselves are in ``tune/median.py``, ``tune/halving.py`` and ``tune/rules.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, final

from etude.core.errors import ConfigError
from etude.core.metrics import Metrics
from etude.core.plan import GO_ON, Act, Decision, Report, Standing
from etude.core.text import brief
from etude.tune.halving import ASHA, Hyperband
from etude.tune.median import MedianRule
from etude.tune.registry import Registry
from etude.tune.rules import Divergence, Plateau, WallTime


class Stopper(Protocol):
    """Decides, after each report, whether a running trial goes on.

    It is asked once per report, in order of arrival, from one thread. It sees values and never live
    trials, answers without waiting, and gives equal answers to equal reports and histories. It may
    keep what it has computed from ``standing.finished``, which only grows.
    """

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return what becomes of the trial that sent ``report``.

        Args:
            report: What has just come of the metric that is watched, in the user's unit and direction, and at which
                step.
            standing: The study as it stands, this report included: ``standing.trials[report.trial].curve`` ends with
                it. ``standing.metrics.loss`` makes of a value one of which less is better.

        Returns:
            ``etude.GO_ON``; or an act with a reason, which the journal and the summary show:
            ``etude.Decision(etude.Act.STOP, "no better than the median")``.
        """
        ...


@final
@dataclass
class NeverStop:
    """Let every trial run to its end."""

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return that it goes on."""
        return GO_ON


@final
class FirstOf:
    """Several stoppers: the first that does not let the trial go on decides.

    Args:
        stoppers: In the order in which they are asked.
    """

    def __init__(self, stoppers: Sequence[Stopper]) -> None:
        self.stoppers = tuple(stoppers)

    def decide(self, report: Report, standing: Standing) -> Decision:
        """Return the first decision that is not to go on."""
        for stopper in self.stoppers:
            decision = stopper.decide(report, standing)
            if getattr(decision, "act", None) is not Act.GO_ON:  # what is no decision at all is the plan's to refuse
                return decision
        return GO_ON


STOPPERS: Final[Registry[Stopper]] = Registry(
    "stopper",
    {
        "median": MedianRule,
        "asha": ASHA,
        "hyperband": Hyperband,
        "plateau": Plateau,
        "divergence": Divergence,
        "walltime": WallTime,
        "none": NeverStop,
    },
    presets={"median-best": lambda: MedianRule(best_so_far=True)},
)

Given = str | Stopper | Sequence[str | Stopper] | None
"""What ``tune`` takes as ``stopper``: a name, an object, several of them, or nothing for the default."""

WATCH_NOTHING: Final = (NeverStop, WallTime)
"""These go by no metric."""


def make_stopper(stopper: Given, metrics: Metrics) -> Stopper:
    """Return the stopper of that name, or the object itself; None is the median rule where there is one metric.

    Raises:
        ConfigError: There is no stopper of that name, the object is none, or which metric it watches is not said.
    """
    if stopper is None:
        return NeverStop() if len(metrics.names) > 1 else MedianRule()
    if isinstance(stopper, str) or not isinstance(stopper, Sequence):
        return _one(stopper, metrics)
    if not stopper:
        raise ConfigError("stopper=[] is no stopper. Pass stopper='none' if every trial is to run to its end.")
    made = [_one(one, metrics) for one in stopper]
    watched = {getattr(one, "metric", None) or metrics.main for one in made if not isinstance(one, WATCH_NOTHING)}
    if len(watched) > 1:
        raise ConfigError(
            f"stopper={describe(FirstOf(made))} watches {' and '.join(map(repr, sorted(watched)))}, and steps can be "
            "counted by the reports of one metric alone. Let all of them watch the same."
        )
    return FirstOf(made)


def _one(stopper: str | Stopper, metrics: Metrics) -> Stopper:
    made = STOPPERS.make(stopper) if isinstance(stopper, str) else stopper
    if isinstance(made, type) and callable(getattr(made, "decide", None)):
        raise STOPPERS.uncalled(made)
    if not callable(getattr(made, "decide", None)):
        raise ConfigError(
            f"stopper={brief(stopper)} is no stopper. Pass one of {STOPPERS.names}, or an object with a "
            "decide(report, standing) method."
        )
    several = len(metrics.names) > 1
    watched = getattr(made, "metric", None)
    if several and watched is None and not isinstance(made, WATCH_NOTHING):
        raise ConfigError(
            f"stopper={STOPPERS.describe(made)} watches one metric, and there are {len(metrics.names)}: "
            f"{', '.join(map(repr, metrics.names))}. Say which: {_watching(made, metrics.main)}, or pass "
            "stopper='none'."
        )
    if watched is not None and watched not in metrics.names:
        raise ConfigError(
            f"stopper={STOPPERS.describe(made)} watches {watched!r}, which is no metric of this experiment. "
            f"There are: {', '.join(map(repr, metrics.names))}."
        )
    return STOPPERS.fresh(made) if STOPPERS.has(made) else made


def _watching(stopper: Stopper, metric: str) -> str:
    """Return how a stopper is told which metric it watches."""
    if not STOPPERS.has(stopper):
        return f"give it an attribute, metric = {metric!r}"
    return f"stopper=etude.{STOPPERS.describe(STOPPERS.fresh(stopper, metric=metric))}"


def members(stopper: Stopper) -> tuple[Stopper, ...]:
    """Return the stoppers that one is made of: those of a list, else itself."""
    return stopper.stoppers if isinstance(stopper, FirstOf) else (stopper,)


def watched_by(stopper: Stopper) -> str | None:
    """Return the metric that a stopper was told to watch, if it was."""
    return next((metric for one in members(stopper) if (metric := getattr(one, "metric", None)) is not None), None)


def describe(stopper: Stopper) -> str:
    """Return the call that makes a stopper; of those of the user the name of the class."""
    said = [STOPPERS.describe(one) for one in members(stopper)]
    return f"[{', '.join(said)}]" if isinstance(stopper, FirstOf) else said[0]


def to_plain(stopper: Stopper) -> list[dict[str, Any]] | dict[str, Any] | None:
    """Return a stopper as plain data; None if not all of it is ours."""
    plain = [STOPPERS.to_plain(one) for one in members(stopper)]
    known = [one for one in plain if one is not None]
    if len(known) < len(plain):
        return None
    return known if isinstance(stopper, FirstOf) else known[0]


def from_plain(data: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None) -> Given:
    """Return what ``to_plain`` made ``data`` of, or the default, as ``tune`` takes it."""
    if data is None:
        return None
    return STOPPERS.from_plain(data) if isinstance(data, Mapping) else [STOPPERS.from_plain(one) for one in data]
