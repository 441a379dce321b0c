"""Where a process finds modules, for another one."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def search_path() -> tuple[str, ...]:
    """Return where this process finds modules, as another one can use it."""
    return tuple(str(Path(place).absolute()) if place else os.getcwd() for place in sys.path)
