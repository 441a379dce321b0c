"""Messages that were written for Python, as somebody with a file needs them: ``sampler='tpe'`` is ``sampler: tpe``."""

from __future__ import annotations

import re
from typing import Final

from etude.files.keys import keys

CALL: Final = r"(?:etude\.)?[A-Za-z_][\w.]*\([^()]*\)"
PLAIN: Final = r"\([\d., ]+(?:None)?\)|-?\d+(?:\.\d+)?(?:e-?\d+)?|True|False|None|\.\.\.|<[^<>]*>"
VALUE: Final = rf"{CALL}|'[^']*'|\"[^\"]*\"|\[[^\[\]]*\]|{PLAIN}"


def in_keys(message: str) -> str:
    """Return a message with keys in place of arguments.

    Example:
        >>> in_keys("Pass sampler='tpe', workers=(2, None), or stopper=etude.ASHA(eta=4).")
        'Pass sampler: tpe, workers: [2, null], or stopper: ASHA(eta=4).'
        >>> in_keys("Call run.report(seed=3).")
        'Call run.report(seed=3).'
    """
    names = "|".join(keys())
    # What stands in other calls is none of ours.
    return re.sub(rf"(?<![\w.])(?P<name>{names})=(?P<value>{VALUE})|[a-z_][\w.]*\([^()]*\)", _key, message)


def _key(found: re.Match[str]) -> str:
    if found["name"] is None:
        return found[0]
    value = found["value"]
    if value.startswith("("):
        value = f"[{value[1:-1]}]"
    if value[0] in "'\"" and re.fullmatch(r"[\w./ -]+", value[1:-1]):
        value = value[1:-1]
    value = {"True": "true", "False": "false", "None": "null"}.get(value, value.replace("None", "null"))
    return f"{found['name']}: {value.removeprefix('etude.')}"
