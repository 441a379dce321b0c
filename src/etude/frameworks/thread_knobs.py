"""A stand-in until the real one is merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class ThreadKnobs:
    """Sets threads."""

    def __init__(self, *, say: Callable[[str], None]) -> None:
        self.lacks: dict[str, str] = {}
        self._had: int | None = None

    @property
    def now(self) -> dict[str, Any]:
        import sys

        torch = sys.modules.get("torch")
        if torch is None:
            return {}
        if self._had is None:
            self._had = torch.get_num_threads()
        return {"threads": self._had}

    def apply(self, setting: Mapping[str, Any]) -> None:
        import sys

        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(setting.get("threads", self.now["threads"]))

    def close(self) -> None:
        self.apply({})
