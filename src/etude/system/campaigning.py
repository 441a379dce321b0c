"""A first history on purpose, at work: every epoch has the setting that a campaign has written down for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from etude.core.errors import ConfigError
from etude.core.system import Choices, Order, Phase, Setting, Taken
from etude.system.asked import System
from etude.system.campaign import MOST, REPEATS, campaign, learned
from etude.system.conductor import FIRST, MOST_ENTRIES
from etude.system.energy import as_energy
from etude.system.entries import Entry, Hardware
from etude.system.knobs import NAMES, Effect, Knob
from etude.system.objective import Cost


class Campaign:
    """Orders the settings of a campaign, one an epoch, for as many trainings of one kind as it takes.

    Args:
        system: What the call says: the objective, and which knobs.
        most: How many settings at most.
        repeats: How often each is measured.
        seed: Draws combinations and orders.

    Attributes:
        epochs: How many epochs it has, once the first one has shown what can be set; 0 before.
        trouble: Why nothing can be measured; empty if something can.
    """

    def __init__(self, system: System, *, most: int = MOST, repeats: int = REPEATS, seed: int = 0) -> None:
        self._system, self._most, self._repeats, self._seed = system, most, repeats, seed
        self._plan: tuple[Setting, ...] = ()
        self._choices: Choices | None = None
        self._firsts: list[Taken] = []
        self.trouble = ""
        self._measured: list[tuple[Setting, float]] = []

    @property
    def epochs(self) -> int:
        """How many settings are to be measured, those that come again among them."""
        return len(self._plan)

    @property
    def done(self) -> int:
        """How many are."""
        return len(self._measured)

    def begin(self, trial: int, machine: str, earlier: int | None = None) -> Order:
        """Return the setting of the first epoch of a training: the default, since it pays for what comes once."""
        return FIRST

    def next(self, trial: int, machine: str, taken: Taken) -> Order:
        """Return the setting of the next epoch."""
        if taken.choices is not None:
            self._firsts.append(taken)
            if self._choices is None:
                self._choices = taken.choices
                self._begin(taken.choices)
        if taken.phase is Phase.PROBE and self.done < self.epochs and taken.setting == self._plan[self.done]:
            cost = self._system.objective.of(Cost(taken.seconds, taken.steps, as_energy(taken.joules)))
            if cost is not None:
                self._measured.append((taken.setting, cost))
        if self.done >= self.epochs:
            return Order({}, Phase.DEFAULT, "all settings are measured")
        return Order(
            dict(self._plan[self.done]), Phase.PROBE, f"epoch {self.done + 1} of {self.epochs} of the campaign"
        )

    def _begin(self, choices: Choices) -> None:
        knobs = [_knob(name, values) for name, values in choices.knobs.items()]
        try:
            plan = campaign(knobs, most=self._most, repeats=self._repeats, seed=self._seed)
        except ConfigError as error:  # it is asked from within a training
            self.trouble = " ".join([str(error), *(f"No {name}: {why}" for name, why in choices.lacks.items())])
            return
        self._plan = tuple(_but_for_defaults(one, choices) for one in plan)

    def ended(self, trial: int) -> None:
        """Nothing is to be forgotten: the next training goes on."""

    @property
    def has_compared(self) -> bool:
        """Whether so much is measured that there is something to remember."""
        return {bool(setting) for setting, _ in self._measured} == {True, False}

    def entries(self, digest: Callable[[str], str], workload: str, *, at_s: float) -> list[Entry]:
        """Return what was learned: an entry of each training, whose first epochs show how far runs of it lie apart.

        Args:
            digest: Returns the digest of a workload.
            workload: What tells this one from others.
            at_s: When it was learned, in seconds since 1970.

        Raises:
            ConfigError: No epoch was measured.
        """
        if self._choices is None:
            raise ConfigError("No epoch was measured: the training function asked run.epochs for none. Train in them.")
        best, costs = learned(self._measured)
        return [
            Entry(
                hardware=Hardware(self._choices.cpu, self._choices.cores, self._choices.gpus),
                workload=digest(workload),
                objective=str(self._system.objective),
                rates=first.rates,
                rung=first.rung,
                seconds=first.seconds,
                best=best,
                costs=costs,
                at_s=at_s,
            )
            for first in self._firsts[:MOST_ENTRIES]
        ]


def _knob(name: str, values: tuple[object, ...]) -> Knob:
    assert name in NAMES
    return Knob(name, Effect.SAME, values, values[0])  # type: ignore[arg-type] # they came as values of knobs


def _but_for_defaults(setting: Mapping[str, object], choices: Choices) -> Setting:
    """Return a setting without what the training function has anyway, as the tuner spells it."""
    return {name: value for name, value in setting.items() if value != choices.knobs[name][0]}  # type: ignore[misc]
