"""The way from one configuration to another, one parameter at a time: which steps make it better, as a forest says.

At each step that parameter changes whose change promises most. Nothing is trained: what stands at each step is what a
forest, which has learned from a search's trials, expects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from etude.analyse.columns import Column
from etude.analyse.forest import Forest, unit
from etude.analyse.table import aligned
from etude.core.errors import ConfigError
from etude.core.text import count, show

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

FEWEST: Final = 10


@dataclass(frozen=True)
class Step:
    """One parameter that changes.

    Attributes:
        parameter: Its name.
        before: Its value before.
        after: Its value from here on.
        expected: What the forest expects after this step, in the metric's unit.
        gain: How much better that is than before it, in the metric's direction.
        along: Parameters that come with this value and were not there before, with their values.
    """

    parameter: str
    before: Any
    after: Any
    expected: float
    gain: float
    along: tuple[tuple[str, Any], ...] = ()


class Steps(Sequence[Step]):
    """The way from one configuration to another: print it.

    Args:
        found: The steps.
        start: What the forest expects at the start.
        metric: Of which metric.
        says: What should be said with it.
    """

    def __init__(self, found: Sequence[Step], *, start: float, metric: str, says: Sequence[str] = ()) -> None:
        self._found = list(found)
        self.start = start
        self.metric = metric
        self.says = tuple(says)

    def __getitem__(self, which: Any) -> Any:
        return self._found[which]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Step]:
        return iter(self._found)

    def __str__(self) -> str:
        rows = [["start", "", f"{self.start:.4g}", ""]]
        rows += [
            [one.parameter, f"{show(one.before)} to {_after(one)}", f"{one.expected:.4g}", f"{one.gain:+.4g}"]
            for one in self
        ]
        head = ["step", "", f"expected {self.metric}", "gain"]
        return "\n".join([*self.says, *aligned([head, *rows])])


def steps(
    columns: Sequence[Column], values: Array, *, mode: str = "max", metric: str = "value", seed: int = 0
) -> Steps:
    """Return the greedy way from one configuration to another.

    Args:
        columns: What was varied, with two rows more than trials: where the way starts, and where it ends. What exists
            under a value of a choice only comes with that value, and goes with it.
        values: What the trials came to, finite.
        mode: In which direction values are better.
        metric: What they are called.
        seed: Of the forest.

    Raises:
        ConfigError: There are too few trials, the ends are the same, or scikit-learn is missing.

    Source:
        Biedenkapp et al. 2017, "Efficient Parameter Importance Analysis via Ablation with Surrogates", after Fawcett
        and Hoos 2016.
    """
    import numpy as np

    if not columns:
        raise ConfigError("Nothing was varied, so there is no way from one configuration to another.")
    absent = np.stack([np.isnan(one.places) for one in columns])
    known = np.flatnonzero(~absent[:, :-2].all(axis=0))  # configurations of this space
    if len(known) < FEWEST:
        raise ConfigError(f"{count(len(known), 'trial')} with a value are too few for a forest; it takes {FEWEST}.")
    sign = 1.0 if mode == "max" else -1.0
    forest = Forest([one.taken(known) for one in map(_filled, columns)], values[known], seed=seed)
    *_, here, end = unit(list(map(_filled, columns)))
    there = [not np.isnan(one.places[-2:]).any() for one in columns]
    open_ = [nth for nth in range(len(columns)) if there[nth] and here[nth] != end[nth]]
    if not open_:
        raise ConfigError("The way ends where it starts: both configurations are the same. Pass start={...}.")
    goes = {nth: [nth, *_under(columns, nth)] for nth in open_}
    start = before = float(forest.predict(here[None])[0])
    found = []
    while open_:
        tried = np.repeat(here[None], len(open_), axis=0)
        for row, nth in enumerate(open_):
            tried[row, goes[nth]] = end[goes[nth]]
        said = forest.predict(tried)
        row = int(np.argmax(sign * said))
        nth, here = open_.pop(row), tried[row]
        now = float(said[row])
        was, is_ = columns[nth].values[-2:]
        new = [columns[one] for one in goes[nth][1:] if not np.isnan(columns[one].places[-1])]
        along = tuple((one.name.rpartition("/")[2], one.values[-1]) for one in new)
        found.append(Step(columns[nth].name, was, is_, expected=now, gain=sign * (now - before), along=along))
        before = now
    return Steps(found, start=start, metric=metric, says=["Expected by a forest, and not run."])


def _under(columns: Sequence[Column], nth: int) -> list[int]:
    """Return the parameters that exist under a value of this one only."""
    return [place for place, one in enumerate(columns) if one.name.startswith(f"{columns[nth].name}=")]


def _filled(column: Column) -> Column:
    """Return a parameter with a place in every row: where it does not exist any will do, since the choice tells."""
    import numpy as np

    middle = 0.0 if column.is_choice else 0.5
    return replace(column, places=np.where(np.isnan(column.places), middle, column.places))


def _after(step: Step) -> str:
    """Return to what a step goes, with what comes with it."""
    along = ", ".join(f"{name}={show(value)}" for name, value in step.along)
    return f"{show(step.after)}{f' with {along}' if along else ''}"
