"""Puts back what studies that were killed have left changed of a machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from etude.system.applied import clock, power
from etude.system.applied.hold import Found, Hold
from etude.system.applied.host import Places
from etude.system.applied.part import Refused


@dataclass(frozen=True)
class Restored:
    """What was found of something that a whole machine shares.

    Attributes:
        what: The thing.
        told: What was found of it, and done.
        failed: Whether it should have been put back, and could not be.
    """

    what: str
    told: str
    failed: bool = False


def restore(places: Places | None = None, *, library: Any = None) -> list[Restored]:
    """Put back clocks and power limits whose holder is dead, and return what was found of each.

    What a living study holds is left alone. It never raises.

    Args:
        places: Where the knobs are.
        library: What stands for NVIDIA's.
    """
    at = places or Places()
    said = []
    for file in sorted(at.locks.glob(clock.LOCK)) + sorted(at.locks.glob(f"{power.LOCK}*")):
        if file.name == clock.LOCK:
            said.append(_mended("clock of the cores", file, partial(clock.put_back, cpus=at.cpus)))
        else:
            what = f"power limit of {file.name.removeprefix(power.LOCK)}"
            said.append(_mended(what, file, partial(power.put_back, library=library)))
    return said


def _mended(what: str, file: Path, put_back: Callable[[Found], None]) -> Restored:
    try:
        hold = Hold.take(file, put_back)
    except Refused as error:  # a living study has it
        return Restored(what, str(error))
    except OSError as error:
        return Restored(what, f"it cannot be put back: {error}", failed=True)
    told = hold.mended or "it is as it was found."
    hold.release()
    return Restored(what, told)
