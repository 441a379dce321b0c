"""Metrics of a program that has no idea of ours: from an agreed file, or from the last lines that name a number."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

NUMBER: Final = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)"
NAMED: Final = re.compile(rf"(?<![\w./])([A-Za-z][\w.@/-]*(?: [A-Za-z][\w.@/-]*)?)\s*[:=]\s*({NUMBER})(?![\w.:/])")
MOST_LINES: Final = 200
MOST_COLUMNS: Final = 500
"""Of a line, so much is searched: what hostile code prints must not keep us for hours."""
MOST_BYTES: Final = 1_000_000


def printed(out: str) -> dict[str, float]:
    """Return what the last lines of an output name, as in ``accuracy: 0.93`` or ``loss=0.3``; the last one counts."""
    found: dict[str, float] = {}
    for line in out.splitlines()[-MOST_LINES:]:
        # a number that is cut is another one
        searched = line if len(line) <= MOST_COLUMNS else line[:MOST_COLUMNS].rpartition(" ")[0]
        for name, value in NAMED.findall(searched):
            found[name.strip()] = float(value)
    return found


def written(file: Path) -> dict[str, float]:
    """Return the numbers of a JSON file, names of what is nested joined by dots; none if there is no such file."""
    try:
        if not file.is_file() or file.stat().st_size > MOST_BYTES:
            return {}
        return dict(_numbers("", json.loads(file.read_text(encoding="utf-8"))))
    except (OSError, ValueError, OverflowError, RecursionError):
        return {}


def _numbers(name: str, value: Any) -> list[tuple[str, float]]:
    if isinstance(value, dict):
        return [pair for key, one in value.items() for pair in _numbers(f"{name}.{key}" if name else str(key), one)]
    return [(name, float(value))] if isinstance(value, int | float) and name else []
