"""What a trial needs, and what a machine has: values, which somebody else finds out and sees to.

A worker runs one trial at a time, so what a trial needs is what its worker needs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.near import did_you_mean
from etude.core.numbers import amount
from etude.core.text import brief

VISIBLE_GPUS: Final = "CUDA_VISIBLE_DEVICES"
"""The variable that says which GPUs a process may use."""

NEARLY: Final = 1e-9
"""Floats that are so near to a whole number are meant to be one: 1 / 0.1 is ten parts of a GPU."""

AUTO: Final = "auto"
"""Stands for an amount that is learned."""

SMALLEST: Final = 0.001
LARGEST: Final = 1e6
"""What is counted lies between, whatever its unit."""

HOW: Final = "Write some of cpus, gpus and memory_gb, as in 'gpus=0.5,memory_gb=4'."


@dataclass(frozen=True)
class Resources:
    """What one trial needs; what is left out is not counted.

    Args:
        cpus: Cores, and with that the threads that it may use.
        gpus: GPUs, which its process sees and no other trial does. A part of one, as in 0.5, is shared with others:
            two trials at 0.5. With 0 it sees none. Left out, it sees those that the worker does.
        memory_gb: Main memory in GB (2**30 bytes). It decides how many trials run at a time, and is no limit that a
            trial would be held to. ``"auto"``: what each trial will need is learned from those that have ended.

    Raises:
        ConfigError: An amount cannot be.

    Example:
        >>> str(Resources(cpus=2, gpus=0.5))
        'cpus=2,gpus=0.5'
    """

    cpus: float | None = None
    gpus: float | None = None
    memory_gb: float | str | None = None

    def __post_init__(self) -> None:
        for name in FIELDS:
            given = getattr(self, name)
            if given is not None and (name, given) != ("memory_gb", AUTO):
                object.__setattr__(self, name, amount(name, given, above=name != "gpus", most=LARGEST))
                if 0 < given < SMALLEST:
                    raise ConfigError(f"{name}={given:g} is less than is counted. Pass {SMALLEST} or more.")
        if self.gpus is not None and self.gpus > 1 and not self.gpus.is_integer():
            raise ConfigError(
                f"gpus={self.gpus:g} cannot be: above 1, a trial gets whole ones. Pass a whole number, or a part of "
                "one as in 0.5."
            )

    @classmethod
    def read(cls, given: object) -> Resources | None:
        """Return what a call says of resources, as an object or as text; None if it says nothing.

        Args:
            given: Resources, or text: ``"auto"``, or ``"cpus=2,gpus=0.5,memory_gb=4"`` with what is needed of these.

        Raises:
            ConfigError: It cannot be read.

        Example:
            >>> Resources.read("gpus=0.5, memory_gb=4")
            Resources(cpus=None, gpus=0.5, memory_gb=4.0)
            >>> Resources.read("auto")
            Resources(cpus=None, gpus=None, memory_gb='auto')
        """
        if given is None or isinstance(given, cls):
            return given
        if given == AUTO:
            return cls(memory_gb=AUTO)
        if not isinstance(given, str):
            raise ConfigError(
                f"resources={brief(given)} says nothing of resources. Pass etude.Resources(gpus=1), or text as in "
                "'gpus=1,memory_gb=4'."
            )
        amounts: dict[str, Any] = {}
        for part in filter(None, (part.strip() for part in given.split(","))):
            name, _, value = (side.strip() for side in part.partition("="))
            if name not in FIELDS:
                meant = did_you_mean(name, FIELDS)
                raise ConfigError(f"resources={given!r} asks for {name!r}, which is not known. {meant}{HOW}")
            if name in amounts:
                raise ConfigError(f"resources={given!r} says {name} twice. Leave one.")
            try:
                amounts[name] = AUTO if (name, value) == ("memory_gb", AUTO) else float(value)
            except ValueError:
                raise ConfigError(f"resources={given!r}: {name}={value} is no number. {HOW}") from None
        return cls(**amounts)

    def __str__(self) -> str:
        """Return it as the text that ``read`` reads."""
        return ",".join(said(name, getattr(self, name)) for name in FIELDS if getattr(self, name) is not None)

    @property
    def packs(self) -> bool:
        """Whether the memory of trials is learned."""
        return self.memory_gb == AUTO

    @property
    def counted(self) -> Resources:
        """What can be counted before anything has run."""
        return dataclasses.replace(self, memory_gb=None) if self.packs else self

    @property
    def threads(self) -> int | None:
        """How many threads a trial may use; None if that is not said."""
        return max(1, int(self.cpus)) if self.cpus is not None else None


FIELDS: Final = tuple(field.name for field in dataclasses.fields(Resources))


@dataclass(frozen=True)
class Machine:
    """What a machine has for workers. What is None limits nothing: it cannot be told, or somebody else counts it.

    Attributes:
        cores: How many this process may use.
        gpus: The ids of its GPUs, as ``CUDA_VISIBLE_DEVICES`` takes them.
        memory_gb: Its main memory in GB.
    """

    cores: int | None
    gpus: tuple[str, ...] | None = ()
    memory_gb: float | None = None


def said(name: str, value: float | str) -> str:
    """Return an amount as a call says it.

    Example:
        >>> said("gpus", 1.0)
        'gpus=1'
    """
    return f"{name}={str(value).removesuffix('.0')}"


def sharers(gpus: float) -> int:
    """Return how many workers may have the same GPU, if each needs so much of one; 1 where each has its own.

    Example:
        >>> sharers(0.3)
        3
    """
    return int(1 / gpus + NEARLY) if 0 < gpus < 1 else 1
