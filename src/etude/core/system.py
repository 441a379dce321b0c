"""What is said between a training whose machine is tuned and whoever decides on it: plain values.

    worker -> driver    Taken: what an epoch took, and under which setting; of an attempt's first one, what can be set
    driver -> worker    Order: the setting of the next epoch

Who decides (``system.conductor``) is pure, and tells nobody but the driver.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Protocol

import msgspec

SettingValue = bool | int | float | str | None
Setting = dict[str, SettingValue]
"""Knob -> value. A knob that is not named stays as the training function has it."""


WITHIN: Final = 0.005
"""How near a trial comes to the best value, as a share of it, where time or energy decides and no call says."""


class Phase(StrEnum):
    """What an epoch is for."""

    PROFILE = "profile"
    BASELINE = "baseline"
    REUSE = "reuse"
    PROBE = "probe"
    KEEP = "keep"
    DEFAULT = "default"


class Joules(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An energy as the journal has it; ``system.energy.Energy`` says what each means.

    Attributes:
        label: ``measured``, ``modelled`` or ``unavailable``.
        source: What told it, or why nothing could.
        joules: How much; None if nobody knows.
        low: The least that it may have been.
        high: The most.
    """

    label: str
    source: str
    joules: float | None = None
    low: float | None = None
    high: float | None = None


class Choices(msgspec.Struct, frozen=True, omit_defaults=True):
    """What can be set where an attempt runs.

    Attributes:
        cpu: Model of the processor.
        cores: How many the machine has, logical ones.
        gpus: Model of each GPU.
        knobs: Knob -> the values that are worth trying; the first is the one that the training function has.
        lacks: Knob that is wanted, and cannot be set -> why, and what would enable it.
        rung: How closely the kernel lets us look, in words.
        meter: What tells energies, and how they are known, in words.
    """

    cpu: str
    cores: int
    gpus: tuple[str, ...] = ()
    knobs: dict[str, tuple[SettingValue, ...]] = {}
    lacks: dict[str, str] = {}
    rung: str = ""
    meter: str = ""


class Taken(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an epoch took.

    Attributes:
        epoch: Which it was, from 0.
        epochs: How many the training has.
        seconds: How long it took.
        steps: How many steps of training it had; 1 if nobody counted them.
        joules: What it took of energy.
        rates: Its profile, per step: of what the process did itself.
        rung: The kind of source that these come from.
        setting: Under which setting it was.
        phase: What it was for, as was ordered.
        why: Why it was ordered, in a sentence for people.
        evidence: The numbers behind that, by name.
        begun_s: How long of that went to what begins with a setting and stays, such as workers: it comes only once.
        waited_s: How long of that the training waited for its loaders; None where nobody counted that.
        cut: Seconds and steps until it was cut short, since it was clearly worse; None if it was not. What came after
            was with the best setting that is known.
        choices: What can be set there; told with the first epoch of an attempt.
        whole: Whether it came to its end. If the trial was stopped in it, it says what was taken, and nothing is
            learned from it.
    """

    epoch: int
    epochs: int
    seconds: float
    steps: int
    joules: Joules
    rates: dict[str, float] = {}
    rung: str = ""
    setting: Setting = {}
    phase: Phase = Phase.PROFILE
    why: str = ""
    evidence: dict[str, float] = {}
    begun_s: float = 0.0
    waited_s: float | None = None
    cut: tuple[float, int] | None = None
    choices: Choices | None = None
    whole: bool = True


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """The setting of an attempt's next epoch.

    Attributes:
        setting: The setting.
        phase: What the epoch is for.
        why: A sentence for people.
        evidence: The numbers behind it, by name.
        cut_above_s: Seconds a step above which the epoch is clearly worse, and goes on with ``meanwhile``; None where
            there is no such limit.
        meanwhile: The best setting that is known.
        work: The kind of work that the trial is found to be; empty before that is known.
        best: The best setting that is known for that kind.
    """

    setting: Setting
    phase: Phase
    why: str
    evidence: dict[str, float] = {}
    cut_above_s: float | None = None
    meanwhile: Setting = {}
    work: str = ""
    best: Setting = {}


class Watched(msgspec.Struct, frozen=True, omit_defaults=True):
    """What workers are told of how machines are tuned.

    Attributes:
        knobs: Those that were named; None for all that are there and change nothing that anybody would have to want.
        rounding: Whether those are among all that change numbers by rounding.
        setting: One setting for all of each attempt, that nobody tunes; None if it is tuned.
        power_meter: The address of a power meter; empty if there is none.
    """

    knobs: tuple[str, ...] | None = None
    rounding: bool = True
    setting: Setting | None = None
    power_meter: str = ""


class Conductor(Protocol):
    """Who decides on settings. It never raises."""

    def begin(self, trial: int, machine: str, earlier: int | None = None) -> Order:
        """Return the setting of the first epoch of an attempt.

        Args:
            trial: The trial.
            machine: Where it runs.
            earlier: The trial that it carries on, if it does.
        """
        ...

    def next(self, trial: int, machine: str, taken: Taken) -> Order:
        """Return the setting of the next epoch."""
        ...

    def ended(self, trial: int) -> None:
        """Forget what an attempt was about to try; another one of the trial may follow."""
        ...
