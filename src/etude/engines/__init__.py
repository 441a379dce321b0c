"""Engines start workers somewhere, and do nothing more. The simulated one only says how they would be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from pathlib import Path

    from etude.wire.credentials import Invitation


class Door(Protocol):
    """How workers come to a study.

    Attributes:
        folder: The study's folder.
    """

    folder: Path

    def connect(self, name: str, sock: socket.socket) -> None:
        """Take in a worker that was started here.

        Args:
            name: A name that no other worker of this study has had; ``Engine.end`` is called with it.
            sock: The driver's side of a connected pair of stream sockets, of which the worker has the other one. It is
                the driver's from then on, which also closes it.

        Raises:
            ConfigError: This machine has no GPUs left for it.
        """
        ...

    def invite(self, bind: str, port: int = 0, advertise: Sequence[str] = ()) -> Invitation:
        """Listen on an address of this machine, and return what a node needs to come (``etude.engines.node``).

        Args:
            bind: The address: ``"127.0.0.1"`` for this machine alone, ``"0.0.0.0"`` for all that reach it.
            port: The port; 0 for one that is free.
            advertise: Under which addresses nodes find this machine, where that is not ``bind``.

        Returns:
            Addresses and port, the certificate, and the token of this run, which is a secret. A study listens once:
            another call returns the same.

        Raises:
            ConfigError: The address cannot be had, or a library for TLS is missing.
        """
        ...

    def tell(self, text: str) -> None:
        """Tell users something, in any thread, such as how workers may come.

        Args:
            text: A sentence or two. It becomes a note of the study.
        """
        ...

    def fail(self, error: BaseException) -> None:
        """Say, in any thread, that no worker will come any more, and why: the study ends with that.

        Args:
            error: What the user's call raises.
        """
        ...


class Engine(Protocol):
    """Starts workers somewhere.

    An engine knows nothing of trials. What it starts talks to the driver: here over a socket that it hands over, or
    else where it runs through a node, which comes with an invitation. ``etude.testing.check_engine`` checks what is
    promised here.

    It may have two more methods. ``prepare(n)`` is for one that has to reach a cluster first: it is called once before
    anything of the study is begun, and may raise a ConfigError. It is ``prepare(n, resources)`` if the call says what
    each worker needs, and ``prepare(n, resources, least=k)`` if ``k`` of them have to be there before the first trial,
    as in ``workers=(k, n)``: an engine that will never have so many refuses that. Where several ranks train each trial,
    each is a worker, ``n`` and ``k`` count them, and ``ranks=`` says how many are of one trial. ``machine()`` says that
    workers get what ``resources=`` asks for: it returns the machine that all of them share
    (``etude.worker.machine.this_machine`` for those that are started here), so that it is seen how many fit, or None if
    each finds room where it is. A part of that machine that is None is not counted. Without it, a call that says
    ``resources=`` is refused.
    """

    def start(self, n: int, door: Door) -> None:
        """Start ``n`` workers: ``door.connect`` each, or have nodes come that carry them.

        It is called in the driver's thread, which waits: what is to be connected is when it returns, in that thread. A
        worker need not be ready: the driver waits for its first word. A worker that was connected and ended is
        replaced by another call. Those that nodes carry are the nodes' to replace, and nodes the engine's.

        Args:
            n: How many to start now, beside those that there are.
            door: Where they come in; equal in all calls of a study.
        """
        ...

    def end(self, worker: str) -> None:
        """End one worker with everything that it started; fine if it has ended already.

        It is called in another thread. When it returns, the driver takes the worker's trial to be over, and gives it to
        somebody else.

        Args:
            worker: The name that it was connected with.
        """
        ...

    def stop(self) -> None:
        """End the study's use of all workers: attempts that run are ended. ``start`` may be called again after it."""
        ...
