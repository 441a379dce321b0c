"""The base of what the mage writes down."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that never changes, and is written into the journal as it stands."""


class Tagged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag=str.lower):
    """One of several kinds of values; ``kind`` says which."""
