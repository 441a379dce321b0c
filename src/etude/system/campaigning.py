"""A first history on purpose, at work: every epoch has the setting that a campaign has written down for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from etude.core.errors import ConfigError
from etude.core.system import Choices, Order, Phase, Setting, Taken
from etude.system.asked import System
from etude.system.campaign import MOST, REPEATS, campaign, learned
from etude.system.conductor import FIRST
from etude.system.energy import as_energy
from etude.system.entries import Entry, Hardware, Probed
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
    """

    def __init__(self, system: System, *, most: int = MOST, repeats: int = REPEATS, seed: int = 0) -> None:
        self._system, self._most, self._repeats, self._seed = system, most, repeats, seed
        self._plan: tuple[Setting, ...] = ()
        self._choices: Choices | None = None
        self._first: Taken | None = None
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
        """Return the setting of the next epoch.

        Raises:
            ConfigError: There is nothing to measure, since no knob has another value.
        """
        if taken.choices is not None and self._choices is None:
            self._choices, self._first = taken.choices, taken
            self._plan = tuple(
                _but_for_defaults(one, self._choices)
                for one in campaign(
                    [_knob(name, values) for name, values in self._choices.knobs.items()],
                    most=self._most,
                    repeats=self._repeats,
                    seed=self._seed,
                )
            )
        if taken.phase is Phase.PROBE and self.done < self.epochs and taken.setting == self._plan[self.done]:
            cost = self._system.objective.of(Cost(taken.seconds, taken.steps, as_energy(taken.joules)))
            if cost is not None:
                self._measured.append((taken.setting, cost))
        if self.done >= self.epochs:
            return Order({}, Phase.DEFAULT, "all settings are measured")
        return Order(
            dict(self._plan[self.done]), Phase.PROBE, f"epoch {self.done + 1} of {self.epochs} of the campaign"
        )

    def ended(self, trial: int) -> None:
        """Nothing is to be forgotten: the next training goes on."""

    def entry(self, digest: Callable[[str], str], workload: str, *, at_s: float) -> Entry:
        """Return what was learned.

        Args:
            digest: Returns the digest of a workload.
            workload: What tells this one from others.
            at_s: When it was learned, in seconds since 1970.

        Raises:
            ConfigError: No epoch was measured.
        """
        if self._choices is None or self._first is None:
            raise ConfigError("No epoch was measured: the training function asked run.epochs for none. Train in them.")
        best, costs = learned(self._measured)
        return Entry(
            hardware=Hardware(self._choices.cpu, self._choices.cores, self._choices.gpus),
            workload=digest(workload),
            objective=str(self._system.objective),
            rates=self._first.rates,
            rung=self._first.rung,
            seconds=self._first.seconds,
            best=best,
            costs=tuple(Probed(one.setting, one.cost) for one in costs),
            at_s=at_s,
        )


def _knob(name: str, values: tuple[object, ...]) -> Knob:
    assert name in NAMES
    return Knob(name, Effect.SAME, values, values[0])  # type: ignore[arg-type] # they came as values of knobs


def _but_for_defaults(setting: Mapping[str, object], choices: Choices) -> Setting:
    """Return a setting without what the training function has anyway, as the tuner spells it."""
    return {name: value for name, value in setting.items() if value != choices.knobs[name][0]}  # type: ignore[misc]
