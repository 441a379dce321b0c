"""Segments: a journal in pieces that are written once, for places where a file cannot grow or be locked.

A segment is a file of its own, called by the epoch of the driver that wrote it and a number: rows of the journal,
what was recorded beside them, and which files of the study there are. The first segment of an epoch says which one of
an earlier epoch it follows. So whatever a driver writes after another has taken over is in no later chain: it is
fenced off by where it stands, and nobody needs a lock.

    segments/000002-00000001.seg     16 bytes of magic, 8 of length, 32 of SHA-256, then MessagePack
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import struct
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from etude.core.errors import StudyError
from etude.store.rows import Digest, Rows

FOLDER: Final = "segments"
MAGIC: Final = b"etude-segment-1\n"
LENGTH: Final = struct.Struct(">Q")
HEAD: Final = len(MAGIC) + LENGTH.size + hashlib.sha256().digest_size
NAME: Final = re.compile(r"(\d{6})-(\d{8})\.seg")

Number = tuple[int, int]
"""Epoch, and number in that epoch from 1 on."""


class Stored(msgspec.Struct, frozen=True):
    """A file as a mirror has it: under its hash, since that never changes."""

    sha256: str
    size: int
    mtime: float


class Segment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of a study.

    Attributes:
        number: Its epoch, and its number there.
        follows: The segment before it; None for the first of all.
        rows: Rows of the journal.
        digest: Over all rows up to the last of these.
        meta: What was recorded since, as the journal has it: key -> JSON.
        files: Files that are new or changed, by their path in the study's folder.
    """

    number: Number
    follows: Number | None
    rows: Rows
    digest: str
    meta: dict[str, str] = {}
    files: dict[str, Stored] = {}


class Torn(ValueError):  # noqa: N818 - it says what the segment is
    """A segment that was never whole: whoever wrote it died in the middle."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Segment).decode


def name_of(number: Number) -> str:
    """Return how a segment is called."""
    return f"{number[0]:06d}-{number[1]:08d}.seg"


def path_of(number: Number) -> str:
    """Return where a segment is in its mirror."""
    return f"{FOLDER}/{name_of(number)}"


def numbers_in(names: Iterable[str]) -> list[Number]:
    """Return which segments there are, in order; other files are none."""
    found = (NAME.fullmatch(name) for name in names)
    return sorted((int(match[1]), int(match[2])) for match in found if match is not None)


def pack(segment: Segment) -> bytes:
    """Return a segment as it is written."""
    body = _encode(segment)
    return MAGIC + LENGTH.pack(len(body)) + hashlib.sha256(body).digest() + body


def unpack(content: bytes) -> Segment:
    """Read a segment.

    Raises:
        Torn: A part of it is missing.
        ValueError: It is damaged, or no segment.
    """
    if len(content) < HEAD and MAGIC.startswith(content[: len(MAGIC)]):
        raise Torn("its head is not whole")
    if not content.startswith(MAGIC):
        raise ValueError("it is no segment of this version of Étude")
    (length,) = LENGTH.unpack_from(content, len(MAGIC))
    digest, body = content[HEAD - hashlib.sha256().digest_size : HEAD], content[HEAD:]
    if len(body) < length:
        raise Torn(f"{len(body)} of its {length} bytes are there")
    if hashlib.sha256(body).digest() != digest:
        raise ValueError("its hash is another")
    return _decode(body)


class Chain:
    """The segments that count, in order, put together.

    Attributes:
        segments: They.
        meta: What was recorded about the study: key -> JSON.
        files: Its files, by path.
        digest: Over all rows.
    """

    def __init__(self, segments: Iterable[Segment]) -> None:
        self.segments = list(segments)
        self.meta: dict[str, str] = {}
        self.files: dict[str, Stored] = {}
        self.digest = Digest()
        for segment in self.segments:
            if segment.rows.after != self.digest.upto or self.digest.feed(segment.rows) != segment.digest:
                raise ValueError(f"segment {name_of(segment.number)} does not go with those before it")
            self.meta |= segment.meta
            self.files |= segment.files

    @property
    def upto(self) -> int:
        """The number of the last fact."""
        return self.digest.upto

    @property
    def last(self) -> Number | None:
        """The last segment."""
        return self.segments[-1].number if self.segments else None


def read_chain(contents: Mapping[str, bytes], *, where: str) -> Chain:
    """Return the segments that count.

    Args:
        contents: The segments that there are, by name.
        where: The mirror, for messages.

    Raises:
        StudyError: A segment is damaged or missing. A torn one at the end was never whole, and is left out.
    """
    try:
        return chain_in(contents)
    except ValueError as error:
        raise damaged(where, error) from None


def chain_in(contents: Mapping[str, bytes]) -> Chain:
    """Return the segments that count, of those that there are.

    Raises:
        ValueError: A segment is damaged or missing.
    """
    numbers = numbers_in(contents)
    found: list[Segment] = []
    wanted: Number | None = _newest(numbers, contents)
    while wanted is not None:
        segment = _segment(wanted, contents)
        found.append(segment)
        wanted = segment.follows
    return Chain(reversed(found))


def newest_in(contents: Mapping[str, bytes], *, since: int = 0) -> Segment | None:
    """Return the last segment that can be read, whatever became of those before it; None if there is none.

    Args:
        contents: The segments that there are.
        since: The first epoch that is of interest.
    """
    for number in reversed(numbers_in(contents)):
        if number[0] >= since:
            with contextlib.suppress(ValueError):
                return _segment(number, contents)
    return None


def _segment(number: Number, contents: Mapping[str, bytes]) -> Segment:
    name = name_of(number)
    try:
        if name not in contents:
            raise ValueError("it is missing")
        segment = unpack(contents[name])
        if segment.number != number:
            raise ValueError("it is called after another")
    except Torn as error:
        raise Torn(f"{name}: {error}") from None
    except (ValueError, msgspec.DecodeError) as error:
        raise ValueError(f"{name}: {error}") from None
    return segment


def _newest(numbers: list[Number], contents: Mapping[str, bytes]) -> Number | None:
    """Return the last whole segment of the last epoch that has one."""
    for epoch in sorted({epoch for epoch, _ in numbers}, reverse=True):
        mine = [number for number in numbers if number[0] == epoch]
        for number in reversed(mine):
            try:
                _segment(number, contents)
            except Torn:
                if number != mine[-1]:
                    raise
                continue
            return number
    return None


def damaged(where: str, why: object) -> StudyError:
    """Return the error that says what is wrong with a mirror."""
    return StudyError(
        f"The mirror {where} is damaged: {why}. It was not touched. Restore it from a copy, or go on where the study's "
        "own folder is."
    )
