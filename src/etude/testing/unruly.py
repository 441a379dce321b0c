"""Runs a script as ``python script.py`` does, with a driver whose messages come late and twice.

``python -m etude.testing.unruly SEED TARGET ARGUMENTS...`` is what ``etude.testing.chaos`` starts; ``TARGET`` is a
script, or ``module:function``. The one thing that differs from a plain run is the link to each worker, which is
exchanged at the seam that ``etude.wire.server`` has for it.

Each direction of a link keeps its order, as a socket does: a message that is held back holds up those behind it. What
is said twice is said again later, when others have come in between: as stale as it would be after a connection that
broke and was made anew.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import runpy
import socket
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from etude.testing.faults import MESSAGES
from etude.wire import messages, server

HELD_BACK: Final = 0.03
"""Share of the messages that are held back."""
DOUBLED: Final = 0.05
"""Share of the messages that are said twice."""
LATE_S: Final = 0.3
"""Longest time, in seconds, for which a message is held back, and after which it is said again."""


class Post:
    """Carries messages in order; some later, some twice.

    Args:
        carry: Takes a message.
        rng: Draws what happens to each.
    """

    def __init__(self, carry: Callable[[Callable[[], None]], None], rng: random.Random) -> None:
        self._carry = carry
        self._rng = rng
        self._waiting: deque[Callable[[], None]] = deque()
        self._held = False

    def take(self, act: Callable[[], None], *, once: bool = False) -> None:
        """Have ``act`` called when the message arrives; only once for what is no message."""
        loop = asyncio.get_running_loop()
        after_s = self._rng.uniform(0.0, LATE_S)
        if not once and self._rng.random() < DOUBLED:
            _note("doubled")
            act = _and_again(act, lambda said: loop.call_later(after_s, self._carry, said))
        if self._held:
            self._waiting.append(act)
        elif not once and self._rng.random() < HELD_BACK:
            _note("delayed")
            self._held = True
            self._waiting.append(act)
            loop.call_later(self._rng.uniform(0.0, LATE_S), self._let_go)
        else:
            self._carry(act)

    def _let_go(self) -> None:
        self._held = False
        while self._waiting:
            self._carry(self._waiting.popleft())


class UnrulyLink(server.WorkerLink):
    """The driver's end of a connection, with an unruly post in both directions."""

    def __init__(self, name: str, sock: socket.socket, listener: server.Listener, rng: random.Random) -> None:
        super().__init__(name, sock, self)
        self._behind = listener
        self._in, self._out = Post(self._if_open, rng), Post(self._if_open, rng)

    def send(self, message: messages.Message) -> None:
        """Send a message, sooner or later."""
        self._out.take(lambda: super(UnrulyLink, self).send(message))

    def heard(self, link: server.WorkerLink, message: messages.FromWorker) -> None:
        """Pass on what was said (server.Listener)."""
        self._in.take(lambda: self._behind.heard(self, message))

    def gone(self, link: server.WorkerLink, reason: str) -> None:
        """Pass on that the worker is gone, after what it said before (server.Listener)."""
        self._in.take(lambda: self._behind.gone(self, reason), once=True)

    def _if_open(self, act: Callable[[], None]) -> None:
        if not self._parted:
            act()

    def close(self) -> None:
        """Close our end; nothing is heard or sent any more, however late it is."""
        self._parted = True
        super().close()

    _parted = False


def install(seed: str) -> None:
    """Have every link of this process be an unruly one."""
    count = iter(range(sys.maxsize))

    def connect(name: str, sock: socket.socket, listener: server.Listener) -> server.WorkerLink:
        return UnrulyLink(name, sock, listener, random.Random(f"{seed} {next(count)}"))

    server.connect = connect


def _and_again(act: Callable[[], None], later: Callable[[Callable[[], None]], object]) -> Callable[[], None]:
    """Return what acts, and sees to it that the same is done once more: never before the first time."""

    def twice() -> None:
        act()
        later(act)

    return twice


def _note(what: str) -> None:
    path = os.environ.get(MESSAGES)
    if path:
        with open(path, "a") as file:
            file.write(f"{what}\n")


def main() -> None:
    """Do what the module says."""
    seed, target, *arguments = sys.argv[1:]
    install(seed)
    sys.argv = [target, *arguments]
    if target.endswith(".py"):
        sys.path[0] = str(Path(target).absolute().parent)
        runpy.run_path(target, run_name="__main__")
    else:
        module, _, function = target.partition(":")
        getattr(importlib.import_module(module), function)(*arguments)


if __name__ == "__main__":
    main()
