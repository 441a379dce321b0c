"""The lines that benchmarks printed, read again: runs that were trained once are judged as often as one likes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from benchmarks.common import ROOT, Result

LINES: Final = ROOT / "docs" / "results" / "lines"
"""Where they are kept."""


def kept_details(benchmark: str, folder: Path = LINES) -> dict[str, Result]:
    """Return the details that a benchmark's kept line has of its cells.

    Raises:
        SystemExit: There is no line of it.
    """
    file = folder / f"{benchmark}.json"
    if not file.is_file():
        raise SystemExit(f"There is no {file}. Train it with: python -m benchmarks.{benchmark} --runs 1")
    details: dict[str, Result] = json.loads(file.read_text().strip().splitlines()[-1])["details"]
    return details
