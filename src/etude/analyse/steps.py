"""The way from one configuration to another, one parameter at a time: which steps make it better, as a forest says.

At each step that parameter changes whose change promises most. Nothing is trained: what stands at each step is what a
forest, which has learned from a search's trials, expects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    """

    parameter: str
    before: Any
    after: Any
    expected: float
    gain: float


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
            [one.parameter, f"{show(one.before)} to {show(one.after)}", f"{one.expected:.4g}", f"{one.gain:+.4g}"]
            for one in self
        ]
        head = ["step", "", f"expected {self.metric}", "gain"]
        return "\n".join([*self.says, *aligned([head, *rows])])


def steps(
    columns: Sequence[Column], values: Array, *, mode: str = "max", metric: str = "value", seed: int = 0
) -> Steps:
    """Return the greedy way from one configuration to another.

    Args:
        columns: What was varied, with two rows more than trials: where the way starts, and where it ends. Parameters
            that not all of these have are left out.
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

    if len(values) < FEWEST:
        raise ConfigError(f"{count(len(values), 'trial')} with a value are too few for a forest; it takes {FEWEST}.")
    sign = 1.0 if mode == "max" else -1.0
    kept = [one for one in columns if one.always]
    left = [one.name for one in columns if not one.always]
    if not kept:
        raise ConfigError("No parameter is in all configurations, so there is no way from one to another.")
    forest = Forest([one.taken(np.arange(len(values))) for one in kept], values, seed=seed)
    *_, here, end = unit(kept)
    open_ = [nth for nth in range(len(kept)) if here[nth] != end[nth]]
    if not open_:
        raise ConfigError("The way ends where it starts: both configurations are the same. Pass start={...}.")
    start = before = float(forest.predict(here[None])[0])
    found = []
    while open_:
        tried = np.repeat(here[None], len(open_), axis=0)
        for row, nth in enumerate(open_):
            tried[row, nth] = end[nth]
        said = forest.predict(tried)
        row = int(np.argmax(sign * said))
        nth, here = open_.pop(row), tried[row]
        now = float(said[row])
        was, is_ = kept[nth].values[-2:]
        found.append(Step(kept[nth].name, was, is_, expected=now, gain=sign * (now - before)))
        before = now
    says = ["Expected by a forest, and not run."]
    says += [f"Left out, since not all configurations have them: {', '.join(left)}."] if left else []
    return Steps(found, start=start, metric=metric, says=says)
