"""A project's files at one moment: what variants are patches of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import msgspec


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Tree:
    """The files of a project that may be read or changed, and nothing else of it.

    Attributes:
        files: Path -> content. Paths are relative to the project's folder, with slashes.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """What tells this tree from another: the digest of all paths and contents."""
        return digest_of(msgspec.msgpack.encode([(path, digest_of(self.files[path])) for path in self]))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.files))

    def __contains__(self, path: object) -> bool:
        return path in self.files

    def text(self, path: str) -> str:
        """Return a file as text; its line ends are left as they are.

        Raises:
            KeyError: There is no such file.
            UnicodeDecodeError: It is no UTF-8.
        """
        return self.files[path].decode("utf-8")

    def with_files(self, changed: Mapping[str, bytes | None]) -> Tree:
        """Return another tree in which some files have other contents; None takes one away."""
        files = {**self.files, **changed}
        return Tree({path: content for path, content in files.items() if content is not None})
