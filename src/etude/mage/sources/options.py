"""What a mark says in brackets: ``(name=conv2, with=[pool, dropout])``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from etude.mage.near import nearest

KEYS: Final = ("name", "with")
PART: Final = re.compile(r"""\s*(\w+)\s*=\s*(\[[^\]]*\]|"[^"]*"|'[^']*'|[^,\[\]"'()=]*)\s*(?:,|$)""")
ITEM: Final = re.compile(r"[\w.*-]+", re.UNICODE)


@dataclass(frozen=True)
class Options:
    """What was said.

    Attributes:
        names: The names of ``name=``.
        along: Those of ``with=``.
        wrong: Why it cannot be read, and the mend; empty if it can.
    """

    names: tuple[str, ...] = ()
    along: tuple[str, ...] = ()
    wrong: str = ""


def read_options(text: str) -> Options:
    """Return what stands behind a mark's word.

    Args:
        text: Nothing, or something in brackets.
    """
    if not text:
        return Options()
    if not (text.startswith("(") and text.endswith(")")):
        return Options(wrong="Only brackets with `name=` and `with=` may follow. Put other text on a line of its own.")
    inside, found = text[1:-1].strip(), dict[str, tuple[str, ...]]()
    while inside:
        part = PART.match(inside)
        if part is None:
            return Options(wrong=f"`{inside}` is no option. Write `(name=..., with=...)`; several names in [ ].")
        key, value = part[1], tuple(ITEM.findall(part[2]))
        if wrong := _wrong(key, value, found):
            return Options(wrong=wrong)
        found[key] = value
        inside = inside[part.end() :].strip()
    return Options(found.get("name", ()), found.get("with", ()))


def _wrong(key: str, value: tuple[str, ...], found: Mapping[str, tuple[str, ...]]) -> str:
    if key not in KEYS:
        near = nearest(key, KEYS)
        mend = f"Did you mean `{near[0]}`?" if near else "There are `name` and `with`."
        return f"There is no option `{key}`. {mend}"
    if key in found:
        return f"`{key}` is given twice. Several names go into one list: `{key}=[a, b]`."
    return "" if value else f"`{key}=` has no value. Name something, or leave it out."
