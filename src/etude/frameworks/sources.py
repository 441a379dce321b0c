"""What is random, whatever draws from it; and what of that is global to a process, on the CPU."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class Source(NamedTuple):
    """Something random: how its state is read, and set."""

    get: Callable[[], Any]
    set: Callable[[Any], Any]


def cpu_sources() -> dict[str, Source]:
    """Return those that a sampler may draw from: of the CPU alone, since they are read and set for every few draws."""
    sources = {"random": Source(random.getstate, random.setstate)}
    if numpy := sys.modules.get("numpy"):
        sources["numpy"] = Source(lambda: numpy.random.get_state(legacy=False), numpy.random.set_state)
    if torch := sys.modules.get("torch"):
        sources["torch"] = Source(torch.get_rng_state, torch.set_rng_state)
    return sources
