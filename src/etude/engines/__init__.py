"""Engines start workers somewhere, and do nothing more."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol


class Engine(Protocol):
    """Starts workers somewhere.

    An engine knows nothing of trials. What it starts talks to the driver over the socket that it
    hands to ``connect``; when a worker ends, that socket ends.
    """

    def start(self, n: int, connect: Callable[[str, socket.socket], None]) -> None:
        """Start ``n`` workers; call ``connect(name, socket)`` once for each, with a name of its own."""
        ...

    def end(self, worker: str) -> None:
        """End one worker with everything that it started; fine if it has ended already."""
        ...

    def stop(self) -> None:
        """End the study's use of all workers."""
        ...
