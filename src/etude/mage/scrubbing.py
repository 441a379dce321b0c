"""Secrets are taken out of everything that is kept, shown or sent back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, overload
from urllib.parse import quote, quote_plus

REMOVED: Final = "(removed)"
"""What stands in the place of a secret."""

TELLING: Final = frozenset(
    ("KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "COOKIE")
)
"""Words in the name of a variable that say that its value is a secret."""

SHORTEST: Final = 8
"""What is shorter than this is taken for no secret: a text would lose ordinary words with it."""

LONGEST_WORD: Final = 16
_WORDS: Final = re.compile(r"[A-Za-z]+([-_. ][A-Za-z]+)*")
_IN_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@", re.IGNORECASE)


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of an environment that are secrets, the longest first.

    These are the values of variables whose names say so, such as ``OPENAI_API_KEY``, and passwords in addresses, such
    as that of a proxy.
    """
    found: set[str] = set()
    for name, value in environment.items():
        said = name.upper()
        if TELLING & set(said.split("_")) or said.endswith(("KEY", "TOKEN", "SECRET", "PASSWORD")):
            found.update(part for part in (value.strip(), *value.split()) if could_be_secret(part))
        found.update(part for part in _IN_URL.findall(value) if len(part) >= SHORTEST)
    return tuple(sorted(found, key=lambda one: (-len(one), one)))


def could_be_secret(value: str) -> bool:
    """Say whether a value could be a secret.

    A path is none: it only says where one lies. Nor is an ordinary word, such as ``development`` or the ``lm-studio``
    that stands for a key where none is needed: to take that out of an answer would change what was answered.
    """
    is_word = len(value) < LONGEST_WORD and _WORDS.fullmatch(value) is not None
    return len(value) >= SHORTEST and not is_word and not value.startswith(("/", "~"))


@overload
def scrub(text: str, secrets: Iterable[str]) -> str: ...
@overload
def scrub(text: bytes, secrets: Iterable[str]) -> bytes: ...
def scrub(text: str | bytes, secrets: Iterable[str]) -> str | bytes:
    """Return a text without secrets, however they are spelled: as they are, within JSON, or within an address."""
    for secret in secrets:
        for spelled in sorted({secret, json.dumps(secret)[1:-1], quote(secret, safe=""), quote_plus(secret)}):
            if isinstance(text, bytes):
                text = text.replace(spelled.encode(), REMOVED.encode())
            else:
                text = text.replace(spelled, REMOVED)
    return text
