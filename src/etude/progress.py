"""Progress of a study at work."""

from __future__ import annotations

from etude.results import Search
from etude.study import Study


def watch(study: Study, search: Search, *, shown: bool | None = None) -> None:
    """Wait for a study to end."""
    while not study.wait(0.2):
        pass
