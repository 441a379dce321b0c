"""What a call says of how machines are tuned while models train."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.numbers import amount, whole
from etude.core.system import WITHIN, Setting, SettingValue, Watched
from etude.core.text import brief
from etude.system.clusterings import similarity as similarity_of
from etude.system.energy import Label
from etude.system.knobs import NAMES, ROWS, Effect, Knob, catalogue
from etude.system.machine import Machine
from etude.system.objective import OBJECTIVES, Weighted, objective_of
from etude.system.settings import check_setting, chosen, knob_of
from etude.system.similarity import Similarity

THEN: Final = ", then "

PROBING: Final = ("axes", "grid")
TRAINING: Final = frozenset(row.name for row in ROWS if row.effect is Effect.TRAINING)
"""Knobs that change what is trained."""


@dataclass(frozen=True, kw_only=True)
class System:
    """How the machine is tuned while a model trains: ``system=True`` is ``System()``.

    Args:
        knobs: Names of those that are tuned; all that are there and that nobody would have to want, if left out.
        objective: What is made small: ``"time"`` a step, ``"energy"`` a step, or ``Weighted(time=, energy=)``.
        probing: ``"axes"``: one knob after the other, those that interact together; ``"grid"``: every combination, as
            in PipeTune.
        probes: How many epochs of each kind of work may try something; if left out, one of twenty of the study's, and
            a few more of a short one's.
        similarity: How runs are compared with earlier ones: ``"nearest"``, ``"k-means"``, another clustering of
            scikit-learn's, or an object with ``fit``.
        history: The file in which it is remembered what was found; the user's, if left out, and none with ``False``.
        ledger: The file in which studies on a machine share its cores and memory; the user's, if left out. With
            ``False`` a study runs its trials as if it were alone.
        power_meter: The address of a power meter; without one, the best of what the machine has tells energies.
        setting: Knob -> value, if nothing is to be tuned but these are to be set.
        best: Which trial of a search is its best: ``"metric"``, that with the best value, or ``"metric, then time"``,
            the one that trained fastest of those that come near it, or likewise ``"metric, then energy"``. The name of
            the metric may stand for the word: ``"accuracy, then time"``.
        within: How near, as a share of the best value.

    Raises:
        ConfigError: A knob or another word is not known.

    Example:
        >>> System(knobs=["loader_workers"], objective="energy").objective
        Weighted(time=0.0, energy=1.0)
    """

    knobs: Sequence[str] | None = None
    objective: Any = "time"
    probing: str = "axes"
    probes: int | None = None
    similarity: Any = "nearest"
    history: str | os.PathLike[str] | bool | None = None
    ledger: str | os.PathLike[str] | bool | None = None
    power_meter: str = ""
    setting: Mapping[str, SettingValue] | None = None
    best: str = "metric"
    within: float = WITHIN

    def __post_init__(self) -> None:
        if self.knobs is not None:
            object.__setattr__(self, "knobs", _knobs(self.knobs))
        object.__setattr__(self, "objective", _objective(self.objective))
        if self.probing not in PROBING:
            raise ConfigError(
                f"probing={brief(self.probing)} is not known. Pass one of {', '.join(map(repr, PROBING))}."
            )
        if self.probes is not None:
            object.__setattr__(self, "probes", whole("probes", self.probes, 0, "so many epochs may try something"))
        for name in ("history", "ledger"):
            object.__setattr__(self, name, _file(name, getattr(self, name)))
        _similarity(self.similarity)
        _check_power_meter(self.power_meter)
        if not isinstance(self.best, str) or self.best.partition(THEN)[2] not in ("", "time", "energy"):
            raise ConfigError(
                f"best={brief(self.best)} is not known. Pass 'metric', 'metric, then time', or 'metric, then energy'."
            )
        object.__setattr__(self, "within", amount("within", self.within))
        if self.setting is not None:
            object.__setattr__(self, "setting", _setting(self.setting, self.knobs))

    @property
    def file(self) -> Path | None:
        """The file of the history; None for the user's."""
        return Path(self.history) if isinstance(self.history, str | os.PathLike) else None

    def check_metric(self, metric: str) -> None:
        """See to it that ``best`` names this metric, if it names any.

        Args:
            metric: The main metric of the experiment, by its name.

        Raises:
            ConfigError: It names another one.
        """
        if (named := self.best.partition(THEN)[0]) not in ("metric", metric):
            raise ConfigError(
                f"best={self.best!r} names {named!r}, and the metric is {metric!r}. Pass best='{metric}{THEN}time'."
            )

    @property
    def compares(self) -> Similarity:
        """What compares runs."""
        return _similarity(self.similarity)

    @property
    def changes_training(self) -> tuple[str, ...]:
        """The knobs among those that were named that change what is trained."""
        return tuple(name for name in (*(self.knobs or ()), *(self.setting or ())) if name in TRAINING)

    def watched(self, *, rounding: bool = True) -> Watched:
        """Return what workers are told.

        Args:
            rounding: Whether knobs are tuned that change numbers by rounding, where none is named.
        """
        setting: Setting | None = dict(self.setting) if self.setting is not None else None
        return Watched(
            knobs=tuple(self.knobs) if self.knobs is not None else None,
            rounding=rounding,
            setting=setting,
            power_meter=self.power_meter,
        )

    def check(self, machine: Machine, framework: str) -> None:
        """See to it that what was named can be set on a machine.

        Args:
            machine: What is known of the machine.
            framework: What the model is of: ``"torch"`` or ``"keras"``; empty if that is not known.

        Raises:
            ConfigError: It cannot; the message says what would enable it.
        """
        knobs = catalogue(machine, framework)
        if self.knobs is not None:
            chosen(knobs, self.knobs)
        check_setting(knobs, self.setting or {})

    def told_of_energy(self, gpus: Sequence[str] = ()) -> str:
        """Return what there is to be said of the energy that is to be made small on this machine; mostly nothing.

        Args:
            gpus: Those in use.

        Raises:
            ConfigError: Nothing tells it.
        """
        if self.setting is not None or not self.objective.energy:
            return ""
        from etude.system.meters.best import best_meter

        meter = best_meter(url=self.power_meter, gpus=gpus).meter
        said: str = self.objective.check(
            meter.label, meter.lacks() if meter.label is Label.UNAVAILABLE else meter.source
        )
        return said

    @property
    def as_call(self) -> dict[str, Any]:
        """It as plain data, without what is left out: ``read_system`` takes it as well."""
        weights = {"time": self.objective.time, "energy": self.objective.energy}
        named = {value: name for name, value in OBJECTIVES.items()}
        similarity = self.similarity if isinstance(self.similarity, str) else type(self.similarity).__name__
        said = {
            "knobs": list(self.knobs) if self.knobs is not None else None,
            "objective": named.get(self.objective, weights),
            "probing": self.probing,
            "probes": self.probes,
            "similarity": similarity,
            "history": self.history,
            "ledger": self.ledger,
            "power_meter": self.power_meter,
            "setting": self.setting,
            "best": self.best,
            "within": self.within,
        }
        usual = {
            "best": "metric",
            "within": WITHIN,
            "objective": "time",
            "probing": PROBING[0],
            "similarity": "nearest",
            "power_meter": "",
        }
        return {name: value for name, value in said.items() if value not in (None, usual.get(name))}


def read_system(given: object) -> System | None:
    """Return what a call said; None if nothing is to be tuned.

    Raises:
        ConfigError: It is nothing of the kind.
    """
    if given is None or given is False:
        return None
    if given is True:
        return System()
    if isinstance(given, System):
        return given
    if isinstance(given, Mapping):
        options = {str(name): value for name, value in given.items()}
        if unknown := sorted(options.keys() - {one.name for one in fields(System)}):
            raise ConfigError(f"system= got {unknown[0]!r}, which etude.System does not know.")
        return System(**options)
    raise ConfigError(
        f"system={brief(given)} cannot be. Pass True, or etude.System(knobs=[...], objective='time'). The knobs are "
        f"{', '.join(NAMES)}."
    )


def _file(name: str, given: object) -> str | bool | None:
    """Return the path of a file, whole, since a study may go on from another folder; False for none."""
    if isinstance(given, str | os.PathLike) and os.fspath(given):
        return os.path.abspath(given)
    if given is None or given is False:
        return given
    raise ConfigError(
        f"{name}={brief(given)} is no file. Pass a path, or False for none, or leave it out for the user's."
    )


def _knobs(given: object) -> tuple[str, ...]:
    if not isinstance(given, Iterable):
        raise ConfigError(f"knobs={brief(given)} are no names. Pass a list of them, such as ['threads'].")
    if not (found := chosen(_ANYWHERE, given)):
        raise ConfigError(
            "knobs=[] names none, so nothing could be tuned. Leave it out for all that are there; with probes=0 epochs "
            "are measured, and nothing is tried."
        )
    return tuple(knob.name for knob in found)


def _objective(given: object) -> Weighted:
    if not isinstance(given, Mapping):
        return objective_of(given)
    if unknown := [name for name in given if name not in ("time", "energy")]:
        raise ConfigError(f"objective={brief(given)} has {unknown[0]!r}. Pass {{'time': 1, 'energy': 1}}.")
    return objective_of(Weighted(**given))


def _check_power_meter(given: object) -> None:
    if given != "":
        from etude.system.meters.power_meter import PowerMeter

        PowerMeter(given)  # type: ignore[arg-type] # it refuses what is no address


def _setting(given: object, knobs: Sequence[str] | None) -> dict[str, SettingValue]:
    if knobs is not None:
        raise ConfigError("System(knobs=, setting=) asks for two things: to tune, and not to. Pass one of them.")
    if not isinstance(given, Mapping):
        raise ConfigError(f"setting={brief(given)} is no setting. Pass knobs and values, such as {{'threads': 1}}.")
    for name, value in given.items():
        knob_of(_ANYWHERE, name)
        if not isinstance(value, bool | int | float | str | None):
            raise ConfigError(
                f"setting={brief(given)}: {name}={brief(value)} cannot be. Pass one number, word or bool."
            )
    return dict(given)


def _similarity(given: object) -> Similarity:
    if isinstance(given, str):
        return similarity_of(given)
    if not callable(getattr(given, "fit", None)):
        raise ConfigError(
            f"similarity={brief(given)} has no fit. Pass 'nearest', 'k-means', or an object that has one."
        )
    return given  # type: ignore[return-value] # as far as can be seen


_ANYWHERE: Final = {row.name: Knob(row.name, row.effect, (), None) for row in ROWS}
"""Every knob, of a machine that nobody knows yet: what it may be is checked there."""
