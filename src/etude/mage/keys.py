"""What looks like a key: files by their names, texts by how widely used services spell theirs."""

from __future__ import annotations

import re
from typing import Final

REMOVED: Final = "(removed)"
"""What stands in the place of a key, or of another secret."""

_NAMES: Final = re.compile(
    r"(^|[-_.])(secrets?|credentials?|passwords?|passwd|api[-_]?keys?|access[-_]?tokens?|service[-_]?account)\d*([-_.]|$)"
    r"|^(id_(rsa|dsa|ecdsa|ed25519)|tokens?\.(txt|json|ya?ml|ini|cfg))"
    r"|^\.(env(\..*)?|netrc|npmrc|pypirc|ssh|aws|gnupg)$"
    r"|\.(pem|key|p12|pfx|crt|kdbx|asc|gpg)$",
    re.IGNORECASE,
)
_TEXTS: Final = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}"
    r"|\b(?:ghp|gho|ghs|ghu)_[A-Za-z0-9]{36}\b|\bgithub_pat_[A-Za-z0-9_]{40,}"
    r"|\bhf_[A-Za-z0-9]{30,}\b"
    r"|\bxox[abprs]-[A-Za-z0-9-]{20,}"
    r"|\bAIza[0-9A-Za-z_-]{35}\b"
)
"""One that is spelt differently is not recognised."""
_IN_BYTES: Final = re.compile(_TEXTS.encode())
_BLOCK: Final = r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
_IN_TEXT: Final = re.compile(f"{_BLOCK}|{_TEXTS}", re.DOTALL)
_IN_VALUE: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|pk|rk)[-_](?=[-_A-Za-z]*\d)[-_A-Za-z0-9]{12,}|gh[opusr]_[A-Za-z0-9]{12,}|github_pat_\w{12,}"
    r"|hf_[A-Za-z0-9]{12,}|xox[abeoprs]-[-A-Za-z0-9]{10,}|glpat-[-\w]{12,}|A[KS]IA[A-Z0-9]{12,}|AIza[-\w]{20,})"
)
"""Looser than in texts of any length: where a value of the environment is taken for a key, hardly anything is lost."""


def is_named_like_keys(name: str) -> bool:
    """Say whether a file or folder may hold keys or passwords, by its name.

    Example:
        >>> [is_named_like_keys(name) for name in ("api_key.txt", ".env", ".ssh", "tokenizer.py")]
        [True, True, True, False]
    """
    return _NAMES.search(name) is not None


def holds_keys(content: bytes) -> bool:
    """Say whether a content holds what looks like a key."""
    return _IN_BYTES.search(content) is not None


def without_keys(text: str) -> str:
    """Return a text without what looks like a key.

    Example:
        >>> without_keys("refused: AKIAABCDEFGHIJKLMNOP")
        'refused: (removed)'
    """
    return _IN_TEXT.sub(REMOVED, text)


def keys_in_value(value: str) -> list[str]:
    """Return what looks like a key in the value of a variable of the environment."""
    return _IN_VALUE.findall(value)
