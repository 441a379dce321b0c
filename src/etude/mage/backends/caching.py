"""Answers that were given once: a study that goes on, or is repeated, asks nobody twice."""

from __future__ import annotations

import hashlib
from typing import Protocol

import msgspec

from etude.mage.backends.protocol import Backend, Reply, Request


class ReplyCache(Protocol):
    """Keeps answers by the digest of the question."""

    def get(self, digest: str) -> Reply | None:
        """Return an answer; None if there is none."""
        ...

    def put(self, digest: str, reply: Reply) -> None:
        """Keep an answer."""
        ...


class InMemory:
    """Keeps answers as long as it lives itself."""

    def __init__(self) -> None:
        self._replies: dict[str, Reply] = {}

    def get(self, digest: str) -> Reply | None:
        """Return an answer; None if there is none."""
        return self._replies.get(digest)

    def put(self, digest: str, reply: Reply) -> None:
        """Keep an answer."""
        self._replies[digest] = reply


class NoCache:
    """Keeps nothing: everything is asked."""

    def get(self, digest: str) -> Reply | None:
        """Return nothing."""
        return None

    def put(self, digest: str, reply: Reply) -> None:
        """Keep nothing."""


def digest_of_question(backend: Backend, request: Request, *, variant: str = "", nth: int = 0) -> str:
    """Return what tells a question from any other one: who is asked, where, what exactly, and within which limits.

    Args:
        backend: Who is asked.
        request: The question.
        variant: For which variant: of two with the same words each gets an answer of its own.
        nth: Which of several answers to the same question is wanted, from 0.
    """
    where = getattr(backend, "base_url", "")
    asked = (backend.name, where, msgspec.to_builtins(request), variant, nth)
    return hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()
