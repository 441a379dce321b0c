"""What is remembered of a run whose machine was tuned: plain values, without names of models or data."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from etude.core.errors import ConfigError
from etude.system.knobs import Setting, key

HEX: Final = frozenset("0123456789abcdef")
LEAST_DIGITS: Final = 8


@dataclass(frozen=True)
class Hardware:
    """The facts of a machine on which settings and rates depend.

    Attributes:
        cpu: Model of the processor, as the system calls it; empty if it does not say.
        cores: How many the machine has, logical ones.
        gpus: Model of each GPU.
    """

    cpu: str
    cores: int
    gpus: tuple[str, ...] = ()

    @classmethod
    def here(cls, gpus: tuple[str, ...] = ()) -> Hardware:
        """Return this machine's; of its GPUs others know."""
        try:
            lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return cls(next(models, ""), os.cpu_count() or 1, gpus)

    @property
    def digest(self) -> str:
        """Equal on machines of equal hardware, and on no others."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Probed:
    """What an epoch under a setting cost.

    Attributes:
        setting: The setting.
        cost: The number that the objective makes of it: the smaller, the better.
    """

    setting: Setting
    cost: float


@dataclass(frozen=True)
class Entry:
    """What a run taught.

    Attributes:
        hardware: The machine that it ran on.
        workload: Digest of what was trained; see ``History.digest``.
        objective: What costs are, such as ``time``. The best setting for one objective says nothing of another's.
        rates: The profile of an epoch with the default setting; best per step, and only what the process did itself.
            Rates per second, and those of the whole machine, change with what else it does.
        rung: The kind of source that the rates come from.
        seconds: How long that epoch took.
        best: The setting that was best.
        costs: Of each setting that was probed, the default's too.
        at_s: When it was learned, in seconds since 1970.

    Raises:
        ConfigError: ``workload`` is no digest, or a rate, a cost or a time is no finite number, or a cost not positive.
    """

    hardware: Hardware
    workload: str
    objective: str
    rates: Mapping[str, float]
    rung: str
    seconds: float
    best: Setting
    costs: tuple[Probed, ...]
    at_s: float

    def __post_init__(self) -> None:
        if len(self.workload) < LEAST_DIGITS or not set(self.workload) <= HEX:
            raise ConfigError(
                f"workload={self.workload!r} is no digest. Names are not remembered. Pass what History.digest gives."
            )
        numbers = {**self.rates, "seconds": self.seconds, "at_s": self.at_s}
        wrong = [f"{name}={value}" for name, value in numbers.items() if not math.isfinite(value)]
        wrong += [f"cost={one.cost}" for one in self.costs if not 0 < one.cost < math.inf]
        if wrong:
            raise ConfigError(
                f"{', '.join(wrong)}: nothing can be compared with that. Rates and times are finite numbers, and costs "
                "positive ones; leave out what was not measured."
            )

    def beyond_best(self) -> list[tuple[Setting, float]]:
        """Return for each setting that was probed by which share it cost more than the best one; at least 0."""
        costs = {key(one.setting): one.cost for one in self.costs}
        least = costs.get(key(self.best), min(costs.values(), default=1.0))
        others = [one for one in self.costs if key(one.setting) != key(self.best)]
        return [(self.best, 0.0), *((one.setting, max(0.0, one.cost / least - 1)) for one in others)]
