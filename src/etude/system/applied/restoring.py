"""Puts back what studies that were killed have left changed of a machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from etude.system.applied import clock, power
from etude.system.applied.hold import Found, Hold
from etude.system.applied.host import Places
from etude.system.applied.part import Refused


def restore(places: Places | None = None, *, library: Any = None) -> list[str]:
    """Put back clocks and power limits whose holder is dead, and return what was found of each, in sentences.

    What a living study holds is left alone. It never raises.

    Args:
        places: Where the knobs are.
        library: What stands for NVIDIA's.
    """
    at = places or Places()
    said = []
    for file in sorted(at.locks.glob(f"{clock.LOCK}")) + sorted(at.locks.glob(f"{power.LOCK}*")):
        if file.name == clock.LOCK:
            said.append(f"Clock of the cores: {_mended(file, partial(clock.put_back, cpus=at.cpus))}")
        else:
            gpu = file.name.removeprefix(power.LOCK)
            said.append(f"Power limit of {gpu}: {_mended(file, partial(power.put_back, library=library))}")
    return said


def _mended(file: Path, put_back: Callable[[Found], None]) -> str:
    try:
        hold = Hold.take(file, put_back)
    except (Refused, OSError) as error:
        return str(error)
    told = hold.mended or "as it was found."
    hold.release()
    return told
