"""Keeping secrets out of what is written down or sent: keys of our environment, and what else looks like one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from etude.mage.keys import without_keys

NAME_OF_A_KEY: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|DSN", re.IGNORECASE)
LOOKS_LIKE_A_KEY: Final = re.compile(r"(sk|pk|ghp|gho|github_pat|hf|xox[abp]|glpat|AKIA|AIza)[-_A-Za-z0-9]{12,}$")
SHORTEST: Final = 8
"""Shorter values occur in texts by chance."""


def keys_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Return those variables of an environment that hold a key, as it seems, by name."""
    return {
        name: value
        for name, value in environment.items()
        if len(value) >= SHORTEST and (NAME_OF_A_KEY.search(name) or LOOKS_LIKE_A_KEY.match(value))
    }


def scrubbed(text: str, environment: Mapping[str, str]) -> str:
    """Return a text in which the values of keys are replaced by the names of their variables, and other keys are gone.

    A program reads files that are never sent, and what it raises goes to whoever mends it.
    """
    for name, value in sorted(keys_in(environment).items(), key=lambda item: -len(item[1])):
        text = text.replace(value, f"[{name}]")
    return without_keys(text)


def scrubbed_all(value: Any, environment: Mapping[str, str]) -> Any:
    """Return a nest of lists and dicts with all of its texts scrubbed."""
    if isinstance(value, str):
        return scrubbed(value, environment)
    if isinstance(value, list):
        return [scrubbed_all(one, environment) for one in value]
    if isinstance(value, dict):
        return {scrubbed(name, environment): scrubbed_all(one, environment) for name, one in value.items()}
    return value
