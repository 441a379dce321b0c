"""What can be changed of a machine, or of how it is used, while a model trains.

A knob is for one machine and one framework: ``catalogue`` makes them, with the values worth trying there. One that
something is missing for is among them, and says what would enable it. A *setting* is names of knobs and values;
a knob that it does not name stays as the training function has it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from etude.core.errors import ConfigError
from etude.core.numbers import is_finite
from etude.core.text import brief
from etude.system import wants
from etude.system.machine import Machine
from etude.system.wants import Want, absent

Value = bool | int | float | str | None
Setting = Mapping[str, Value]
Key = str
"""A setting as something that can be looked up."""


def key(setting: Setting) -> Key:
    """Return the key of a setting: equal for equal settings, whatever their order, and for no others.

    ``True``, ``1`` and ``1.0`` are equal in Python, and in a dict one value; here they are three.

    Example:
        >>> key({"threads": 2, "cache": True})
        '{"cache": true, "threads": 2}'
        >>> key({"threads": 2, "cache": True}) == key({"cache": 1, "threads": 2})
        False
    """
    return json.dumps(setting, sort_keys=True, ensure_ascii=False, default=dict)


def setting_of(key: Key) -> Setting:
    """Return the setting that has this key."""
    setting: dict[str, Value] = json.loads(key)
    return setting


class Effect(StrEnum):
    """What a change does to the numbers of a training."""

    SAME = "same numbers"
    ROUNDING = "same up to rounding"
    TRAINING = "changes training"


@dataclass(frozen=True)
class Knob:
    """One thing that can be changed on this machine.

    Attributes:
        name: What it is called.
        effect: What a change does to the numbers.
        values: Those worth trying, in the order to try them; the default is the first.
        default: What it is, if nobody changes it.
        needs: What it lacks here, and what would enable it; empty if nothing.
        bounds: The least and the most that it may be, where values between those to try can be, too; empty where not.
        beside: Knobs on which its best value depends, so that they are tried together.
        only_with: The knob without which it means nothing: where that one is 0. Empty if there is none.
        if_named: Whether it is left alone unless it is named, as what changes training, or what others notice.
    """

    name: str
    effect: Effect
    values: tuple[Value, ...]
    default: Value
    needs: str = ""
    bounds: tuple[float, ...] = ()
    beside: tuple[str, ...] = ()
    only_with: str = ""
    if_named: bool = False

    def check(self, value: object) -> None:
        """See to it that it may be set to this.

        Raises:
            ConfigError: It may not.

        Example:
            >>> workers = Knob("loader_workers", Effect.SAME, (0, 2), 0, bounds=(0, 8))
            >>> workers.check(3)
            >>> workers.check(9)
            Traceback (most recent call last):
            ...
            etude.core.errors.ConfigError: loader_workers=9 (int) cannot be. Pass a whole number from 0 to 8.
        """
        if self.needs:
            raise ConfigError(f"{self.name}={brief(value)} cannot be set here: {self.needs}")
        if any(value == known and type(value) is type(known) for known in self.values):
            return
        if self.bounds:
            is_whole = all(isinstance(known, int) for known in self.values if known is not None)
            fits = is_finite(value) and self.bounds[0] <= value <= self.bounds[1]  # type: ignore[operator]
            if fits and (isinstance(value, int) or not is_whole):
                return
            kind = "a whole number" if is_whole else "a number"
            allowed = f"{kind} from {self.bounds[0]:g} to {self.bounds[1]:g}"
        else:
            allowed = " or ".join(map(repr, self.values))
        raise ConfigError(f"{self.name}={brief(value)} cannot be. Pass {allowed}.")


@dataclass(frozen=True)
class _Row:
    """A knob before the machine is known; ``values`` and ``bounds`` are worked out from it."""

    name: str
    effect: Effect
    values: Callable[[Machine], Iterable[Value]]
    bounds: Callable[[Machine], tuple[float, ...]] = lambda _: ()
    wants: tuple[Want, ...] = ()
    beside: tuple[str, ...] = ()
    only_with: str = ""
    if_named: bool = False

    def on(self, machine: Machine, framework: str) -> Knob:
        needs = absent(self.wants, machine, framework)
        values = tuple(dict.fromkeys(self.values(machine))) if not needs else ()
        return Knob(
            self.name,
            self.effect,
            values,
            values[0] if values else None,
            needs=needs,
            bounds=self.bounds(machine) if not needs else (),
            beside=self.beside,
            only_with=self.only_with,
            if_named=self.if_named,
        )


def _up_to(most: int) -> list[int]:
    """Return powers of two up to ``most``, and that itself."""
    return sorted({most, *itertools.takewhile(lambda n: n < most, (1 << k for k in range(most.bit_length())))})


def _down_from(machine: Machine) -> list[int]:
    return _up_to(machine.cores)[::-1]


def _off_on(_: Machine) -> tuple[bool, bool]:
    return False, True


def _frequencies(machine: Machine) -> list[int]:
    """Return the highest clock, and then lower ones in four steps, in MHz."""
    low, high = machine.frequencies_mhz
    return [round(high - (high - low) * step / 4) for step in range(5)]


def _power_limits(machine: Machine) -> list[int]:
    """Return the usual power limit, and then lower ones in steps of a tenth, in watts."""
    low, _, usual = machine.gpu_power_w
    return [round(usual * tenths / 10) for tenths in range(10, 0, -1) if usual * tenths / 10 >= low] or [round(usual)]


def _memory_limits(machine: Machine) -> list[float | None]:
    """Return no limit, and then halves of the memory, in GB."""
    return [None, *(machine.memory_gb / 2**k for k in (1, 2) if machine.memory_gb is not None)]


LOADER: Final = "loader_workers"
MOST_PREFETCHED: Final = 64
MOST_EPOCHS: Final = 1000
MOST_STEPS: Final = 1024

ROWS: Final = (
    _Row(
        LOADER,
        Effect.SAME,
        lambda m: [0, *_up_to(m.cores)],
        lambda m: (0, 2 * m.cores),
        wants=(wants.TORCH,),
        beside=("threads", "cores"),
    ),
    _Row(
        "prefetch",
        Effect.SAME,
        lambda _: [2, 4, 8],
        lambda _: (1, MOST_PREFETCHED),
        wants=(wants.TORCH,),
        beside=(LOADER,),
        only_with=LOADER,
    ),
    _Row("pin_memory", Effect.SAME, _off_on, wants=(wants.TORCH, wants.GPU)),
    _Row("persistent_workers", Effect.SAME, _off_on, wants=(wants.TORCH,), beside=(LOADER,), only_with=LOADER),
    _Row("cache", Effect.SAME, _off_on, wants=(wants.TORCH,)),
    _Row("cores", Effect.ROUNDING, _down_from, lambda m: (1, m.cores), wants=(wants.CORES,), beside=("threads",)),
    _Row("checkpoint_every", Effect.SAME, lambda _: [1, 2, 5, 10], lambda _: (1, MOST_EPOCHS), if_named=True),
    _Row("threads", Effect.ROUNDING, _down_from, lambda m: (1, m.cores), wants=(wants.CORES,)),
    _Row("channels_last", Effect.ROUNDING, _off_on, wants=(wants.TORCH,)),
    _Row("compile", Effect.ROUNDING, _off_on, wants=(wants.COMPILER,), if_named=True),
    _Row("cpu_governor", Effect.SAME, lambda m: m.governors, wants=(wants.GOVERNORS, wants.CLOCK), if_named=True),
    _Row(
        "cpu_frequency",
        Effect.SAME,
        _frequencies,
        lambda m: (m.frequencies_mhz[0], m.frequencies_mhz[-1]),
        wants=(wants.FREQUENCIES, wants.CLOCK),
        if_named=True,
    ),
    _Row(
        "gpu_power_limit",
        Effect.SAME,
        _power_limits,
        lambda m: (m.gpu_power_w[0], m.gpu_power_w[1]),
        wants=(wants.GPU, wants.GPU_POWER, wants.GPU_RIGHTS),
        if_named=True,
    ),
    _Row(
        "memory_limit",
        Effect.SAME,
        _memory_limits,
        lambda m: (0.1, m.memory_gb or 0.1),
        wants=(wants.MEMORY, wants.MEMORY_GROUP),
        if_named=True,
    ),
    _Row(
        "cpu_share",
        Effect.SAME,
        lambda _: [1.0, 0.75, 0.5, 0.25],
        lambda _: (0.01, 1.0),
        wants=(wants.CPU_GROUP,),
        if_named=True,
    ),
    _Row("amp", Effect.TRAINING, _off_on, wants=(wants.PRECISION,), beside=("channels_last",), if_named=True),
    _Row(
        "batch_size",
        Effect.TRAINING,
        lambda _: [None, 32, 64, 128, 256, 512],
        lambda _: (1, 1 << 20),
        wants=(wants.TORCH,),
        beside=("accumulation",),
        if_named=True,
    ),
    _Row(
        "accumulation", Effect.TRAINING, lambda _: [1, 2, 4], lambda _: (1, MOST_STEPS), (wants.TORCH,), if_named=True
    ),
)
"""Every knob there is. Units: clocks in MHz, power in watts, memory in GB, ``cpu_share`` of the cores, checkpoints in
epochs, ``prefetch`` in batches a worker. Fewer cores mean fewer threads, so they change what these do."""

NAMES: Final = tuple(row.name for row in ROWS)


def catalogue(machine: Machine, framework: str = "") -> dict[str, Knob]:
    """Return all knobs by name, as they are on a machine.

    Args:
        machine: What there is, as ``read_machine`` returns it.
        framework: What the training function trains with: ``torch``, ``keras``, or empty for a loop of its own.
    """
    return {row.name: row.on(machine, framework) for row in ROWS}
