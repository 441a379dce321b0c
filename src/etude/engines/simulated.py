"""The simulated engine: what a study would do on other workers, in virtual time and without running anything."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from etude.core.errors import ConfigError
from etude.core.numbers import amount, is_finite, seed_of, share, whole
from etude.core.streams import stream
from etude.core.text import brief
from etude.engines.curves import CurveSource, NeedsSpace, RecordedCurves, SyntheticCurves
from etude.engines.steps import LONGEST_S

OURS: Final = (RecordedCurves, SyntheticCurves)
"""Curve sources that say by themselves what they are."""

FASTEST: Final = 1e9
"""How many times as fast, or as slow, as the curves say a worker may be."""

SPEEDS: Final = f"numbers from {1 / FASTEST:g} to {FASTEST:g}"


@final
@dataclass(frozen=True, kw_only=True)
class Simulated:
    """Simulate a study: the same driver, plan, sampler and stopper, on workers that exist in virtual time only.

    The training function is not called. What a trial would report, and when, comes from ``curves``. Everything that is
    drawn at random comes from named streams of ``seed``, so equal calls give equal journals. Times of such a study are
    virtual: seconds since it began.

    Args:
        curves: A function ``curve(params, seed)`` that yields ``(seconds, {metric: value})`` for each step of a trial,
            or ``etude.RecordedCurves``, or ``etude.SyntheticCurves``.
        workers: How many there are; or a schedule, ``[(0, 8), (3600, 32)]``: from that second on so many. Where there
            are to be fewer, idle workers leave first, and then the newest, with what they hold. By default what
            ``tune`` is given as ``workers``.
        startup_s: Seconds from a worker's start until it can work.
        handout_s: Seconds from the driver's decision to hand out a trial until its first statement.
        report_s: Seconds that a report, an outcome or a stop is on its way.
        stragglers: Share of the workers that are slow.
        slowdown: How many times as long these take: drawn for each between the two, evenly by order of magnitude.
        speed: How fast the n-th worker is, from 0: a list, which is gone through again and again, or a function. 1 is
            as fast as the curves say, 0.5 half as fast. Instead of ``stragglers``.
        failures: Share of the attempts whose process dies, each at a moment drawn evenly from its length.
        preemptions_per_hour: How often a worker is taken away with what it holds, on average, in an hour of its life.
            Another one is started in its place.
        checkpoint_s: Seconds that a trial takes to save its state when it is paused.
        seed: The seed of all that is drawn here; the search has a seed of its own.

    Raises:
        ConfigError: An option cannot be.

    Example:
        >>> def curve(params, seed):
        ...     for step in range(1, 4):
        ...         yield 60.0, {"loss": params["lr"] / step}
        >>> Simulated(curves=curve, workers=500).most_workers
        500
    """

    curves: CurveSource | NeedsSpace
    workers: int | Sequence[tuple[float, int]] | None = None
    startup_s: float = 0.0
    handout_s: float = 0.0
    report_s: float = 0.0
    stragglers: float = 0.0
    slowdown: tuple[float, float] = (2.0, 10.0)
    speed: Sequence[float] | Callable[[int], float] | None = None
    failures: float = 0.0
    preemptions_per_hour: float = 0.0
    checkpoint_s: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.curves, type) or not (callable(self.curves) or hasattr(self.curves, "within")):
            raise ConfigError(
                f"curves={brief(self.curves)} is no curve source. Pass a function curve(params, seed) that yields "
                "(seconds, {metric: value}) for each step, etude.RecordedCurves(...) or etude.SyntheticCurves(...)."
            )
        for name in ("startup_s", "handout_s", "report_s", "preemptions_per_hour", "checkpoint_s"):
            amount(name, getattr(self, name), most=LONGEST_S)
        for name in ("stragglers", "failures"):
            share(name, getattr(self, name))
        seed_of(self.seed)
        self._check_workers()
        self._check_speed()

    def _check_workers(self) -> None:
        if self.workers is None:
            return
        if isinstance(self.workers, int):
            whole("workers", self.workers, 1, "nobody would run the trials")
            return
        try:
            schedule = [(at, n) for at, n in self.workers]
        except (TypeError, ValueError):
            raise ConfigError(
                f"workers={brief(self.workers)} is neither a number nor a schedule. Pass workers=8, or "
                "workers=[(0, 8), (3600, 32)]: from second 0 on 8, from second 3600 on 32."
            ) from None
        times = [at for at, _ in schedule]
        for _, n in schedule:
            whole("workers", n, 0, "there cannot be fewer than none")
        rises = all(is_finite(at) and at <= LONGEST_S for at in times) and times == sorted(set(times))
        if not rises or times[:1] != [0] or schedule[-1][1] < 1:
            raise ConfigError(
                f"workers={brief(self.workers)} is no schedule: it begins at second 0, its times rise, and at its end "
                "there is at least one worker, or some trials would wait for ever. Write [(0, 8), (3600, 32)]."
            )

    def _check_speed(self) -> None:
        try:
            low, high = self.slowdown
        except (TypeError, ValueError):
            low = high = 0.0
        if not (is_finite(low) and is_finite(high) and 1 <= low <= high <= FASTEST):
            raise ConfigError(
                f"slowdown={brief(self.slowdown)} is no pair of factors from 1 to {FASTEST:g}, the smaller one first. "
                "Write (2, 10)."
            )
        if self.speed is None:
            return
        if self.stragglers:
            raise ConfigError(
                f"speed and stragglers={self.stragglers:g} both say how fast workers are. Pass one of them."
            )
        listed = isinstance(self.speed, Sequence) and len(self.speed) > 0 and all(map(_is_speed, self.speed))
        if not callable(self.speed) and not listed:
            raise ConfigError(f"speed={brief(self.speed)} has to be a list of {SPEEDS}, at least one, or a function.")

    @property
    def most_workers(self) -> int | None:
        """How many workers there are at most; None if ``tune`` says so."""
        if self.workers is None or isinstance(self.workers, int):
            return self.workers
        return max(n for _, n in self.workers)

    def schedule(self, workers: int) -> list[tuple[float, int]]:
        """Return from which second on there are how many workers.

        Args:
            workers: How many there are if this engine does not say.
        """
        if self.workers is None or isinstance(self.workers, int):
            return [(0.0, self.workers or workers)]
        return [(float(at), n) for at, n in self.workers]

    def slowness(self, nth: int) -> float:
        """Return how many times as long as the curves say a worker takes.

        Args:
            nth: Which worker, from 0.

        Raises:
            ConfigError: ``speed`` gave what is no speed.
        """
        if self.speed is not None:
            speed = self.speed(nth) if callable(self.speed) else self.speed[nth % len(self.speed)]
            if not _is_speed(speed):
                raise ConfigError(f"speed({nth}) returned {brief(speed)}, which is no speed. Pass {SPEEDS}.")
            return 1.0 / speed
        if not self.stragglers:
            return 1.0
        draws = stream(self.seed, "speed", nth)
        low, high = map(math.log, self.slowdown)
        return math.exp(draws.uniform(low, high)) if draws.random() < self.stragglers else 1.0

    # --- what makes it the same simulation --------------------------------------------------------

    @property
    def parts(self) -> Mapping[str, str]:
        """All of it that can change a study's numbers, as text; the code of functions is read besides."""
        said = {f"engine {name}": text for name, text in self._said().items()}
        return {"engine": "simulated", **said}

    @property
    def functions(self) -> Mapping[str, Any]:
        """What users wrote for it, by role."""
        own = {} if isinstance(self.curves, OURS) else {"curve": self.curves}
        return {**own, **({"speed": self.speed} if callable(self.speed) else {})}

    @property
    def meta(self) -> Mapping[str, Any]:
        """What a journal says of it."""
        return {"name": "simulated", **self._said()}

    def _said(self) -> dict[str, str]:
        said = {}
        for option in dataclasses.fields(self):
            value = getattr(self, option.name)
            if option.name in self.functions or (option.name == "curves" and "curve" in self.functions):
                said[option.name] = "a function of its own"
            elif option.name == "curves" or value != option.default:
                said[option.name] = repr(value)
        return said


def _is_speed(value: object) -> bool:
    return is_finite(value) and 1 / FASTEST <= value <= FASTEST  # type: ignore[operator]
