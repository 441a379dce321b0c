"""Engines of other people's clusters, for real; each file is skipped where its framework is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))  # their support.py is ours too
