"""What sets knobs where an attempt runs, and which knobs that makes.

Each applier knows some: those of the framework, those of the process and of the host, and how often states are saved,
which is the run's own. None of them ends a training: one that fails says so, and is left alone from then on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from etude.core.errors import ConfigError
from etude.core.system import Choices, Setting, SettingValue, Watched
from etude.frameworks import keras_adapter, torch_adapter, torch_knobs_adapter
from etude.frameworks.keras_knobs import KerasKnobs
from etude.frameworks.thread_knobs import ThreadKnobs
from etude.system import nvml
from etude.system.applied.host import host_knobs
from etude.system.entries import Hardware
from etude.system.knobs import Knob, catalogue
from etude.system.machine import Machine
from etude.system.settings import check_setting, chosen, knob_of

CHECKPOINTS: Final = "checkpoint_every"


class Applier(Protocol):
    """Sets some knobs."""

    @property
    def now(self) -> Mapping[str, SettingValue]:
        """Knob -> its value as the training function has it, of those that have something to act on."""
        ...

    @property
    def lacks(self) -> Mapping[str, str]:
        """Knob -> why it cannot be set here, and the mend."""
        ...

    def apply(self, setting: Mapping[str, SettingValue]) -> None:
        """Set knobs; those that are not named go back to ``now``."""
        ...

    def close(self) -> None:
        """Put everything back."""
        ...


class Saves:
    """How often states are saved, once there is anything to save."""

    def __init__(self) -> None:
        self.now: dict[str, SettingValue] = {}
        self.lacks: dict[str, str] = {}
        self.every = 1

    def kept(self) -> None:
        """Note that there is."""
        self.now = {CHECKPOINTS: 1}

    def apply(self, setting: Mapping[str, SettingValue]) -> None:
        """Set how many epochs lie between two states."""
        self.every = int(setting.get(CHECKPOINTS, 1) or 1)

    def close(self) -> None:
        """Save each again."""
        self.every = 1


class Appliers:
    """All that set knobs in this process.

    Args:
        stepped: Called after each step of training, with its seconds, and those that it waited for data.
        say: Tells users something.
        barred: Knob -> why it is not to be set here.
        cores: How many there are for this attempt.
    """

    def __init__(
        self,
        *,
        stepped: Callable[[float, float], None],
        say: Callable[[str], None],
        barred: Mapping[str, str],
        cores: int = 0,
    ) -> None:
        self._stepped, self._say, self._cores = stepped, say, cores
        self._saves = Saves()
        self._found: Any = None
        self._host: Applier | None = None
        self._failed = dict(barred)

    @property
    def checkpoint_every(self) -> int:
        """After how many epochs a state is saved."""
        return self._saves.every

    def of_the_host(self, names: Sequence[str], machine: Machine) -> None:
        """Have knobs of the host set as well, where some are named."""
        if names and self._host is None:
            self._host = host_knobs(names, machine=machine, say=self._say)

    # --- what knobs act on ------------------------------------------------------------------------

    def data(self, found: Any) -> Any:
        """Take loaders in hand."""
        return self._framework.data(found) if hasattr(self._framework, "data") else found

    def model(self, built: Any) -> Any:
        """Take a model in hand; one of Keras trains in a way of its own."""
        keras = keras_adapter()
        is_of_keras = keras is not None and keras.is_model(built)
        return built if is_of_keras or not hasattr(self._framework, "model") else self._framework.model(built)

    def kept(self, things: Mapping[str, Any]) -> None:
        """Take what is kept in hand."""
        self._saves.kept()
        if hasattr(self._framework, "kept"):
            self._framework.kept(things)

    # --- settings ---------------------------------------------------------------------------------

    @property
    def now(self) -> dict[str, SettingValue]:
        """Knob -> its value as the training function has it."""
        lacks = self.lacks
        return {name: value for one in self._all for name, value in one.now.items() if name not in lacks}

    @property
    def lacks(self) -> dict[str, str]:
        """Knob -> why it cannot be set here."""
        return {name: why for one in self._all for name, why in one.lacks.items()} | self._failed

    def apply(self, setting: Setting) -> None:
        """Set all knobs; one that fails is left alone from then on."""
        for one in self._all:
            try:
                one.apply({name: value for name, value in setting.items() if name in one.now})
            except Exception as error:  # whatever it is, training goes on
                said = f"{type(error).__name__} was raised when it was set: {error}"
                failed = [name for name in setting if name in one.now]
                self._failed |= dict.fromkeys(failed, said)
                self._say(f"{', '.join(failed) or 'A knob'}: {said}. The training goes on without.")
                with contextlib.suppress(Exception):
                    one.apply({})

    def close(self) -> None:
        """Put everything back."""
        for one in self._all:
            with contextlib.suppress(Exception):
                one.close()

    @property
    def _all(self) -> list[Applier]:
        return [self._saves, self._framework, *([self._host] if self._host is not None else [])]

    @property
    def _framework(self) -> Any:
        """What sets knobs of the framework that the user's code has loaded by now, threads and cores among them."""
        if self._found is None:
            if torch_adapter() is not None:
                self._found = torch_knobs_adapter()(say=self._say, stepped=self._stepped, share=self._cores)
            elif keras_adapter() is not None:
                self._found = KerasKnobs(say=self._say, share=self._cores)
            else:
                self._found = ThreadKnobs(say=self._say, share=self._cores)
        return self._found


def choices_of(watched: Watched, appliers: Appliers, *, machine: Machine, rung: str, meter: str) -> Choices:
    """Return what can be set where an attempt runs.

    Args:
        watched: What is wanted.
        appliers: What sets knobs here.
        machine: What there is for the attempt.
        rung: How closely the kernel lets us look.
        meter: What tells energies.
    """
    knobs = catalogue(machine, _framework())
    wanted = _wanted(watched, knobs)
    now, lacks = appliers.now, appliers.lacks
    lacking = {k.name: k.needs or lacks.get(k.name, NOTHING) for k in wanted if k.needs or k.name not in now}
    hardware = Hardware.here(nvml.models(machine.gpus))
    return Choices(
        hardware.cpu,
        hardware.cores,
        hardware.gpus,
        knobs={k.name: _values(k, now[k.name]) for k in wanted if k.name not in lacking},
        lacks=lacking,
        rung=rung,
        meter=meter,
    )


def fits_here(setting: Setting, *, machine: Machine) -> tuple[Setting, list[str]]:
    """Return what of a setting can be here, and why the rest cannot.

    Args:
        setting: Knob -> value.
        machine: What there is for the attempt.
    """
    knobs = catalogue(machine, _framework())
    found, whys = dict(setting), []
    for name, value in setting.items():
        try:
            check_setting(knobs, {name: value})
        except ConfigError as error:
            del found[name]
            whys.append(str(error))
    return found, whys


def _framework() -> str:
    return "torch" if torch_adapter() is not None else "keras" if keras_adapter() is not None else ""


NOTHING: Final = "the training function has nothing that it could be set on."


def _wanted(watched: Watched, knobs: Mapping[str, Knob]) -> tuple[Knob, ...]:
    if watched.knobs is not None:
        return tuple(knob_of(knobs, name) for name in watched.knobs)
    return chosen(knobs, rounding=watched.rounding)


def _values(knob: Knob, own: SettingValue) -> tuple[SettingValue, ...]:
    """Return what is worth trying of a knob, that which the training function has first."""
    return (own, *(value for value in knob.values if value != own or type(value) is not type(own)))
