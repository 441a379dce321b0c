"""What an error of Spark's is about, in a line or two."""

from __future__ import annotations

import re
from typing import Final

FRAME: Final = (
    r"(?:[\w$<>-]+[./])+[\w$<>]+\((?:[\w$]+\.(?:java|scala|kt)(?::\d+)?|Native Method|Unknown Source|<generated>)\)"
)
PAGES: Final = re.compile(rf"\n\s*(?:at (?=[\w$<>-]+[./])|Caused by: |Driver stacktrace:|{FRAME})|\s+SQLSTATE:")
"""Where the pages of Java begin that follow what an error is about."""


def in_short(error: BaseException) -> str:
    """Return what an error of Spark's is about, without the pages around it."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error)
    said, *pages = PAGES.split(text, maxsplit=1)
    text = said.strip()
    if pages and text.endswith(":"):  # "This stopped SparkContext was created at:"
        text = text.rpartition("\n")[0].strip() or text
    if "Traceback (most recent call last)" in text:
        lines = text.splitlines()
        after = 1 + max((n for n, line in enumerate(lines) if line.startswith("  ")), default=-1)
        text = "\n".join(lines[after:]).strip()
    return text if text.endswith(".") else f"{text}."
