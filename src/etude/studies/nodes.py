"""Workers that nodes bring from elsewhere: let in, kept in reserve, and what they write brought home."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from etude.engines.settling import sources_of
from etude.places.url_depot import depot_at
from etude.wire import messages
from etude.wire.credentials import Invitation, make_keys
from etude.wire.gate import Gate, NodeWorker, told
from etude.wire.messages import Serve
from etude.wire.node_messages import Piece
from etude.worker.received import keep, pieces_of

BEAT_S: Final = 10.0
"""Seconds between two words to nodes that the driver is alive; they wait longer for one (``engines.node``)."""

REMARK: Final = 1_000
"""Characters of what a node says of itself that users are told."""


class Host(Protocol):
    """The crew, as far as nodes have to do with it; beside this it hears workers (``wire.server.Listener``)."""

    @property
    def full(self) -> bool:
        """Whether there are as many workers as there may be."""
        ...

    def knows(self, worker: str) -> bool:
        """Return whether there is a worker of this name."""
        ...

    def take_in(self, link: NodeWorker) -> None:
        """Have a worker take the study up."""
        ...

    def sign_of_life(self, worker: str) -> None:
        """Note that a worker has been heard."""
        ...

    def given(self, worker: str) -> messages.Run | None:
        """Return what a worker was given last."""
        ...

    def heard(self, link: NodeWorker, message: messages.FromWorker) -> None:
        """Take in what a worker says."""
        ...

    def gone(self, link: NodeWorker, reason: str) -> None:
        """Take in that a worker is gone."""
        ...


class Nodes:
    """The nodes of a study. Lives in the driver's event loop.

    Args:
        serve: What their workers are told about the study.
        host: Whom the workers are for.
        note: Takes what users should be told.
    """

    def __init__(self, serve: Serve, host: Host, *, note: Callable[[str], None]) -> None:
        self._serve = serve
        self._host = host
        self._note = note
        self._depot = depot_at(serve.states, Path(serve.trials))
        self._gate = Gate(serve, host=self, keys=make_keys(), sources=sources_of(serve.files, serve.path))
        self._reserve: list[NodeWorker] = []
        self._invitation: Invitation | None = None
        self._refused: set[str] = set()  # for what reasons, as far as users were told
        self._next_beat = 0.0

    def invite(self, bind: str, port: int, advertise: Sequence[str]) -> Invitation:
        """Listen, once, and return what a node needs to come.

        Raises:
            ConfigError: The address cannot be had.
        """
        if self._invitation is None:
            self._invitation = self._gate.open(bind, port, advertise)
        return self._invitation

    async def bring(self, link: NodeWorker, job: messages.Run) -> None:
        """Give a worker an attempt, and before that what it is to go on from."""
        await link.bring(pieces_of(job, self._depot, self._serve.trials), job)

    def fill_up(self) -> None:
        """Have those in reserve take the places that are free."""
        while self._reserve and not self._host.full:
            self._host.take_in(self._reserve.pop(0))

    def tick(self, now_s: float) -> None:
        """Let nodes know now and then that the driver is alive."""
        if now_s >= self._next_beat:
            self._next_beat = now_s + BEAT_S
            self._gate.beat()

    def close(self) -> None:
        """Send all nodes home, and say who was not let in."""
        self._gate.close()
        if refused := told(self._gate.refusals):
            self._note(refused)

    # --- what comes through the gate (wire.gate.Host) ---------------------------------------------

    def arrived(self, link: NodeWorker) -> None:
        """Take in a worker; if there are enough, it is kept in reserve."""
        if self._host.knows(link.name):
            link.close()
        else:
            self._reserve.append(link)
            self.fill_up()

    def heard(self, link: NodeWorker, message: messages.FromWorker) -> None:
        """Pass on what a worker says."""
        self._host.heard(link, message)

    def brought(self, link: NodeWorker, piece: Piece) -> None:
        """Write part of a file of an attempt, if it is one that this worker was given."""
        self._host.sign_of_life(link.name)
        given = self._host.given(link.name)
        if given is None or (given.trial, given.attempt) != (piece.trial, piece.attempt):
            return
        try:
            keep(piece, self._serve.trials)
        except OSError as error:
            self._note(f"What trial {piece.trial} wrote on its machine cannot be kept here: {error}.")

    def remarked(self, node: str, text: str) -> None:
        """Tell users what a node has to say of itself."""
        self._note(f"Node {node}: {text[:REMARK]}")

    def refused(self, why: str) -> None:
        """Tell users at once, and once, that somebody is not let in; how many they were is told in the end."""
        if why not in self._refused:
            self._refused.add(why)
            self._note(f"A node was not let in: it has {why}. It was told so.")

    def gone(self, link: NodeWorker, reason: str) -> None:
        """Take in that a worker is gone."""
        if link in self._reserve:
            self._reserve.remove(link)
        else:
            self._host.gone(link, reason)
