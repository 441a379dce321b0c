"""Whether a mirror and a folder hold the same study, and how much of it the mirror has.

A segment holds a digest over all rows up to its end. So a single one that can be read tells whether everything up to
there is what the folder has, even if those before it are gone: then nothing is lost, and all can be shipped again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from etude.core.errors import StudyError
from etude.core.text import count
from etude.store import segments
from etude.store.journal import Journal
from etude.store.rows import Digest
from etude.store.segments import Chain

MOST: Final = 20_000
"""Rows that are read at a time, at most."""


@dataclass(frozen=True)
class Standing:
    """How far a mirror is.

    Attributes:
        chain: The segments to go on from; none if all is to be shipped anew.
        broken: Why it is to be shipped anew although there was something; empty if nothing is wrong.
    """

    chain: Chain
    broken: str = ""


def standing(journal: Journal, contents: Mapping[str, bytes], *, folder: object, url: str, since: int = 0) -> Standing:
    """Return how far a mirror is, beside the journal that is shipped there.

    Args:
        journal: The journal.
        contents: The segments that are in the mirror, by name.
        folder: The journal's folder, for messages.
        url: The mirror, for messages.
        since: The first epoch in which it was this journal's driver who wrote there; 0 if it has not written yet.
            What stands in earlier ones was compared when it took over.

    Raises:
        StudyError: It is another study's, or has what the journal has not.
    """
    try:
        chain = segments.chain_in(contents)
    except ValueError as error:
        if has_all_of(journal, contents, since=since):
            return Standing(Chain([]), str(error))
        raise segments.damaged(url, error) from None
    digest = digest_of(journal, chain.upto)
    if (digest.upto, digest.told) == (chain.upto, chain.digest.told):
        return Standing(chain)
    if since and has_all_of(journal, contents, since=since):  # what an earlier driver wrote too late has come to light
        return Standing(Chain([]), f"all segments since epoch {since} are missing")
    if digest.upto < chain.upto and is_beginning(digest, chain):
        raise StudyError(
            f"The mirror {url} has {count(chain.upto - digest.upto, 'fact')} more than {folder}: the study went on "
            f"elsewhere. `etude resume {url}` brings them here and goes on."
        )
    raise StudyError(
        f"The mirror {url} is that of another study than {folder}, or both went on for themselves. Nothing was "
        "changed. Give another mirror, or another name; or move one of the two away."
    )


def has_all_of(journal: Journal, contents: Mapping[str, bytes], *, since: int = 0) -> bool:
    """Say whether a journal has all that can still be read in a mirror, however damaged that is."""
    newest = segments.newest_in(contents, since=since)
    if newest is None:
        return True
    digest = digest_of(journal, newest.rows.upto)
    return (digest.upto, digest.told) == (newest.rows.upto, newest.digest)


def digest_of(journal: Journal, upto: int) -> Digest:
    """Return the digest over a journal's rows, up to a number, or to its end if that comes first."""
    digest = Digest()
    while digest.upto < upto:
        rows = journal.rows(digest.upto, min(MOST, upto - digest.upto))
        if rows.upto == rows.after:
            break
        digest.feed(rows)
    return digest


def is_beginning(digest: Digest, chain: Chain) -> bool:
    """Say whether rows with this digest are the first ones of a chain."""
    known = Digest()
    for segment in chain.segments:
        if segment.rows.upto <= digest.upto:
            known.feed(segment.rows)
        else:
            known.feed(segment.rows.until(digest.upto))
            break
    return known.upto == digest.upto and known.told == digest.told
