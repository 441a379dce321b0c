"""Secrets are taken out of everything that is kept, shown or sent back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, overload
from urllib.parse import quote, quote_plus, unquote

from etude.mage.keys import REMOVED, keys_in_value

TELLING: Final = frozenset(
    (
        *("KEY", "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS"),
        *("AUTH", "AUTHORIZATION", "COOKIE", "DSN"),
    )
)
"""Words in the name of a variable that say that its value is a secret."""

ENDING: Final = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS", "COOKIE")
"""How such a word may end that is written together with another one, as in ``GITHUBTOKEN``."""

SHORTEST: Final = 8
"""What is shorter than this is taken for no secret: a text would lose ordinary words with it."""

LONGEST_WORD: Final = 16
_WORDS: Final = re.compile(r"[A-Za-z]+([-_. ][A-Za-z]+)*")
_PATH: Final = re.compile(r"[/~]|\.{1,2}/|[A-Za-z]:[\\/]")
_IN_URL: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@", re.IGNORECASE)


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of an environment that are secrets, the longest first.

    These are the values of variables whose names say so, such as ``OPENAI_API_KEY``; passwords in addresses, such as
    that of a proxy; and whatever is written as services write their keys, such as ``ghp_...``.
    """
    found: set[str] = set()
    for name, value in environment.items():
        said = name.upper()
        if TELLING & set(re.split(r"[^A-Z]+", said)) or said.endswith(ENDING):
            found.update(part for part in (value.strip(), *value.split()) if could_be_secret(part))
        for password in _IN_URL.findall(value):
            found.update(one for one in (password, unquote(password)) if len(one) >= SHORTEST)
        found.update(keys_in_value(value))
    return tuple(sorted(found, key=lambda one: (-len(one), one)))


def could_be_secret(value: str) -> bool:
    """Say whether a value could be a secret.

    A path is none: it only says where one lies. Nor is an ordinary word, such as ``development`` or the ``lm-studio``
    that stands for a key where none is needed: to take that out of an answer would change what was answered.
    """
    is_word = len(value) < LONGEST_WORD and _WORDS.fullmatch(value) is not None
    return len(value) >= SHORTEST and not is_word and _PATH.match(value) is None


@overload
def scrub(text: str, secrets: Iterable[str]) -> str: ...
@overload
def scrub(text: bytes, secrets: Iterable[str]) -> bytes: ...
def scrub(text: str | bytes, secrets: Iterable[str]) -> str | bytes:
    """Return a text without secrets, however they are spelled: within JSON, Python or an address, or as they are."""
    for secret in secrets:
        for spelled in _spellings(secret):
            if isinstance(text, bytes):
                text = text.replace(spelled.encode(errors="surrogateescape"), REMOVED.encode())
            else:
                text = text.replace(spelled, REMOVED)
    return text


def scrub_all(value: Any, secrets: Iterable[str]) -> Any:
    """Return plain values, however nested, in whose texts secrets gave way to ``(removed)``.

    Example:
        >>> scrub_all({"told": ["key sk-0123456789 is wrong"]}, ["sk-0123456789"])
        {'told': ['key (removed) is wrong']}
    """
    known = tuple(secrets)
    return every_text(value, lambda text: scrub(text, known))


def every_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return plain values, however nested, each of whose texts is changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {every_text(name, change): every_text(inner, change) for name, inner in value.items()}
    return [every_text(one, change) for one in value] if isinstance(value, list | tuple) else value


def _spellings(secret: str) -> list[str]:
    """Return how a secret may be spelled, the longest first."""
    quoted = (form(secret, errors="surrogateescape") for form in (quote, quote_plus))
    inner = (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])
    whole = quote(secret, safe="", errors="surrogateescape")
    return sorted({secret, whole, *quoted, *inner}, key=lambda one: (-len(one), one))
