"""What a mark says in brackets: ``(name=conv2, with=[pool, dropout])``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from etude.mage.near import nearest

NONE: Final = "none"
"""``with=none``: nothing goes along. It is an answer, where saying nothing is a question."""
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
    inside, found = text[1:-1].strip(), {}
    while inside:
        part = PART.match(inside)
        if part is None:
            return Options(wrong=f"`{inside}` is no option. Write `(name=..., with=...)`; several names in [ ].")
        key, value = part[1], tuple(ITEM.findall(part[2]))
        if key not in KEYS:
            near = nearest(key, KEYS)
            mend = f"Did you mean `{near[0]}`?" if near else "There are `name` and `with`."
            return Options(wrong=f"There is no option `{key}`. {mend}")
        if key in found:
            return Options(wrong=f"`{key}` is given twice. Several names go into one list: `{key}=[a, b]`.")
        if not value:
            return Options(wrong=f"`{key}=` has no value. Name something, or leave it out.")
        found[key] = value
        inside = inside[part.end() :]
    return Options(found.get("name", ()), found.get("with", ()))
