"""Measures: what was seen of an example, as one number, its importance. The higher it is, the harder the example.

A measure is taken over the epochs in which the example was seen. Each goes along the epochs with an array of N numbers
at a time, so that no table of N times E doubles is ever made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from etude.core.errors import ConfigError, ResultError
from etude.core.numbers import is_number
from etude.core.text import brief, count
from etude.fit.importance.records import FIELDS, Bools, Floats, Records
from etude.frameworks.aspects import CORRECT, LOSS, PROBABILITY
from etude.frameworks.aspects import EL2N as NORM

Doubles = npt.NDArray[np.float64]

SHOWN: Final = 5
"""So many ids stand in a note."""


@runtime_checkable
class Measure(Protocol):
    """Says how important examples are."""

    @property
    def needs(self) -> frozenset[str]:
        """The aspects that it must have, and without which it is refused."""
        ...

    @property
    def wants(self) -> frozenset[str]:
        """Those that it also sees where the loss is one of classes."""
        ...

    def importance(self, records: Records) -> Doubles:
        """Return how important each example is.

        Args:
            records: What was seen of N examples in E epochs: tables of shape ``(N, E)``, with NaN where an example was
                not seen. Those of ``needs`` are there, those of ``wants`` may be None.

        Returns:
            A number for each example, shape ``(N,)``: the higher, the harder. NaN for one that was never seen.
        """
        ...


class Scored(NamedTuple):
    """How important each example is.

    Attributes:
        importance: Shape ``(N,)``; NaN for an example that gave a NaN, which is then the hardest.
        notes: What its user should know.
    """

    importance: Doubles
    notes: tuple[str, ...] = ()


def score(measure: Measure, records: Records) -> Scored:
    """Return the importance of each example.

    An example that gave a NaN in one of these epochs is the hardest, whatever the measure says. One that was not seen
    has the median of the others: nothing is known of it.

    Raises:
        ResultError: A user's measure gave no number for each example.
    """
    notes = []
    if isinstance(measure, Variance | Variability) and _most_seen(measure, records) < 2:  # noqa: PLR2004
        notes.append(
            f"No example was seen in two epochs, so that there is no {type(measure).__name__.lower()}: the mean of "
            f"the {measure.of} is taken instead."
        )
    with np.errstate(invalid="ignore", over="ignore"):  # infinite losses
        given = measure.importance(records)
    try:
        importance = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ResultError(f"The measure {brief(measure)} gave {brief(given)}, which is no array of numbers.") from error
    if importance.shape != (records.n,):
        raise ResultError(
            f"The measure {brief(measure)} gave an array of the shape {importance.shape} for {records.n} examples. "
            f"Return one number for each, in the order of their ids: the shape is ({records.n},)."
        )
    unseen = ~_seen(records)
    if unseen.any():
        known = importance[~unseen & np.isfinite(importance)]
        importance[unseen] = np.median(known) if known.size else 0.0
        notes.append(f"{_some(unseen)} not seen: the median of the others stands for what is not known.")
    if records.nan.any():
        importance[records.nan] = np.nan
        notes.append(f"{_some(records.nan)} seen with NaN: taken to be the hardest.")
    return Scored(importance, tuple(notes))


def measure_of(given: object) -> Measure:
    """Return the measure that a user means: by its name, as a value, or as a function of ``Records``.

    Raises:
        ConfigError: It is none of these.

    Example:
        >>> measure_of("ema")
        EMA(decay=0.9)
    """
    if isinstance(given, str) and given in BY_NAME:
        return BY_NAME[given]()
    if isinstance(given, Measure) and not isinstance(given, type):
        return given
    if callable(given) and not isinstance(given, type):
        return ByFunction(given)
    raise ConfigError(
        f"measure={brief(given)} is no measure. Pass one of {', '.join(map(repr, BY_NAME))}, a value such as "
        "etude.measures.EMA(decay=0.5), or a function of records that returns an array."
    )


class _Of:
    """What a measure of one aspect has in common."""

    of: str = LOSS

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.of})

    @property
    def wants(self) -> frozenset[str]:
        return frozenset()


@dataclass(frozen=True)
class Mean(_Of):
    """The mean loss.

    Source: Sheikholeslami et al. 2023, DAIS, pages 74-89, "average loss".
    """

    def importance(self, records: Records) -> Doubles:
        """Return it."""
        return _mean(records, self.of)


@dataclass(frozen=True)
class Variance(_Of):
    """The variance of the loss over the epochs (divided by their number), or the mean loss if no example has two.

    Source: Sheikholeslami et al. 2023, DAIS, pages 74-89, "loss variance". That the mean stands in is how
    its authors' program has it.
    """

    def importance(self, records: Records) -> Doubles:
        """Return it."""
        return _mean(records, self.of) if _most_seen(self, records) < 2 else _variance(records, self.of)  # noqa: PLR2004


@dataclass(frozen=True)
class Last(_Of):
    """The loss when the example was seen last."""

    def importance(self, records: Records) -> Doubles:
        """Return it."""
        last = np.full(records.n, np.nan)
        for seen, values in _epochs(records, self.of):
            np.copyto(last, values, where=seen)
        return last


@dataclass(frozen=True)
class EMA(_Of):
    """The exponential moving average of the loss. It begins with the first loss that was seen.

    Args:
        decay: What part of the average so far remains with each further loss, from 0 to below 1.

    Raises:
        ConfigError: It is no such part.
    """

    decay: float = 0.9

    def __post_init__(self) -> None:
        if not is_number(self.decay) or not 0 <= self.decay < 1:
            raise ConfigError(f"EMA(decay={brief(self.decay)}) is no part. Pass a number from 0 to below 1.")

    def importance(self, records: Records) -> Doubles:
        """Return it."""
        average = np.full(records.n, np.nan)
        for seen, values in _epochs(records, self.of):
            moved = np.where(np.isnan(average), values, self.decay * average + (1 - self.decay) * values)
            np.copyto(average, moved, where=seen)
        return average


@dataclass(frozen=True)
class Forgetting(_Of):
    """How often the example was wrong after it had been right; infinite if it was never right.

    Source: Toneva et al. 2019, "An Empirical Study of Example Forgetting during Deep Neural Network Learning",
    arXiv:1812.05159. There the events of the whole training are counted; here those of the epochs that count. Of
    several predictions for an example more than half have to be right.
    """

    of = CORRECT

    def importance(self, records: Records) -> Doubles:
        """Return it."""
        events, known = np.zeros(records.n), np.zeros(records.n, dtype=bool)
        ever, been = np.zeros(records.n, dtype=bool), np.zeros(records.n, dtype=bool)
        for seen, values in _epochs(records, self.of):
            right = seen & (values > 0.5)  # noqa: PLR2004
            events += been & seen & ~right
            been = np.where(seen, right, been)
            ever |= right
            known |= seen
        return np.where(known, np.where(ever, events, np.inf), np.nan)


@dataclass(frozen=True)
class EL2N(_Of):
    """The mean of the Euclidean norm of the probabilities minus the target.

    Source: Paul et al. 2021, "Deep Learning on a Data Diet", arXiv:2107.07075. There the mean is over several trainings
    at one early epoch; here it is over the epochs of this one.
    """

    of = NORM

    def importance(self, records: Records) -> Doubles:
        """Return it."""
        return _mean(records, self.of)


@dataclass(frozen=True)
class Confidence(_Of):
    """1 minus the mean probability of the true class, so that the examples of the least confidence are the hardest.

    Source: Swayamdipta et al. 2020, "Dataset Cartography", arXiv:2009.10795: confidence, turned round.
    """

    of = PROBABILITY

    def importance(self, records: Records) -> Doubles:
        """Return it."""
        return 1.0 - _mean(records, self.of)


@dataclass(frozen=True)
class Variability(_Of):
    """The standard deviation of the probability of the true class; 1 minus its mean if no example has two epochs.

    Source: Swayamdipta et al. 2020, "Dataset Cartography", arXiv:2009.10795, which divides by the number of epochs too.
    """

    of = PROBABILITY

    def importance(self, records: Records) -> Doubles:
        """Return it."""
        if _most_seen(self, records) < 2:  # noqa: PLR2004
            return 1.0 - _mean(records, self.of)
        deviation: Doubles = np.sqrt(_variance(records, self.of))
        return deviation


@dataclass(frozen=True)
class ByFunction:
    """A measure of the user's own.

    Args:
        function: Given ``Records``, returns a number for each example; the higher, the harder.
    """

    function: Callable[[Records], npt.ArrayLike]

    @property
    def needs(self) -> frozenset[str]:
        """Losses."""
        return frozenset({LOSS})

    @property
    def wants(self) -> frozenset[str]:
        """Correctness, and the probabilities of the true class."""
        return frozenset({CORRECT, PROBABILITY})

    def importance(self, records: Records) -> Doubles:
        """Return what the function gives."""
        return self.function(records)  # type: ignore[return-value] # score() looks at it


BY_NAME: Final[dict[str, Callable[[], Measure]]] = {
    "mean": Mean,
    "variance": Variance,
    "last": Last,
    "ema": EMA,
    "forgetting": Forgetting,
    "el2n": EL2N,
    "confidence": Confidence,
    "variability": Variability,
}


# --- along the epochs -----------------------------------------------------------------------------


def _table(records: Records, of: str) -> Floats:
    found: Floats | None = getattr(records, FIELDS[of])
    return np.empty((records.n, 0), dtype=np.float32) if found is None else found


def _epochs(records: Records, of: str) -> Iterator[tuple[Bools, Doubles]]:
    """Yield for each epoch which examples were seen, and their values."""
    for column in _table(records, of).T:
        yield ~np.isnan(column), column.astype(np.float64)


def _seen(records: Records) -> Bools:
    """Return which examples were seen at all."""
    found = np.zeros(records.n, dtype=bool)
    for of in FIELDS:
        for column in _table(records, of).T:
            found |= ~np.isnan(column)
    return found


def _most_seen(measure: _Of, records: Records) -> int:
    """Return in how many epochs the example was seen that was seen in most."""
    times = np.zeros(records.n, dtype=np.int32)
    for column in _table(records, measure.of).T:
        times += ~np.isnan(column)
    return int(times.max(initial=0))


def _mean(records: Records, of: str) -> Doubles:
    total, times = np.zeros(records.n), np.zeros(records.n)
    for seen, values in _epochs(records, of):
        np.add(total, values, out=total, where=seen)
        times += seen
    return _divided(total, times)


def _variance(records: Records, of: str) -> Doubles:
    mean = _mean(records, of)
    total, times = np.zeros(records.n), np.zeros(records.n)
    for seen, values in _epochs(records, of):
        np.add(total, (values - mean) ** 2, out=total, where=seen)
        times += seen
    return _divided(total, times)


def _divided(total: Doubles, times: Doubles) -> Doubles:
    """Return a mean; NaN where nothing was seen."""
    found = np.full(len(total), np.nan)
    np.divide(total, times, out=found, where=times > 0)
    return found


def _some(which: Bools) -> str:
    """Return how many examples, and the first ids of them: ``2 examples (3, 7) were``."""
    ids = np.flatnonzero(which)
    more = ", ..." if len(ids) > SHOWN else ""
    told = f"{count(len(ids), 'example')} ({', '.join(map(str, ids[:SHOWN]))}{more})"
    return f"{told} {'was' if len(ids) == 1 else 'were'}"
