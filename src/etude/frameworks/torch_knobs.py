"""A stand-in until the real one is merged."""

from __future__ import annotations

from typing import Any


class TorchKnobs:
    """Sets nothing."""

    def __init__(self, **given: Any) -> None:
        self.now: dict[str, Any] = {}
        self.lacks: dict[str, str] = {}

    def data(self, found: Any) -> Any:
        return found

    def model(self, built: Any) -> Any:
        return built

    def kept(self, things: Any) -> None:
        pass

    def apply(self, setting: Any) -> None:
        pass

    def close(self) -> None:
        pass
