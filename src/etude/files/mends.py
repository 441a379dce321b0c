"""What a text that is no YAML lacks, in words that help: PyYAML says where its parser stood, and not what was meant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from etude.files.source import Place, Source

KEY: Final = re.compile(r"\s*[\w.-]+")
MENDS: Final[Mapping[str, str]] = {
    r"'\t'": "A tab cannot indent. Write spaces.",
    "mapping values are not allowed": "A second ': ' on one line. Put a text that has one in quotes; or indent by "
    "spaces below its key.",
    "could not find expected ':'": "A key has to end in ':' on its own line. Write 'key: value', with a space.",
    "expected <block end>": "This is indented differently than what stands above it. Lines that belong together "
    "begin in one column.",
    "expected ',' or ']'": "A list in [...] is not closed, or lacks a comma. Put a text with brackets or commas in "
    "quotes, and ${...} on a line of its own.",
    "expected ',' or '}'": "A mapping in {...} is not closed, or lacks a comma. Put a text with brackets or commas in "
    "quotes, and ${...} on a line of its own.",
    "unexpected end of stream": "A quotation mark is not closed before the end of the file.",
    "found unexpected document": "A quotation mark is not closed.",
    "that cannot start any token": "No text without quotes may begin so. Put it in quotes.",
    "unknown escape character": r"In double quotes a backslash begins something special. Write two, or single quotes.",
    "did not find expected alphabetic": "No text without quotes may begin with & or *. Put it in quotes.",
    "undefined tag handle": "No text without quotes may begin with !. Put it in quotes.",
    "expected the node content": "Here a value was expected. A list in [...] or a mapping in {...} is not closed, or "
    "a comma has nothing before it; or put a text that begins so in quotes.",
}
"""What PyYAML says -> what it usually means."""


def in_words(error: Any, source: Source, place: Place) -> str:
    """Return what is wrong, and how it is mended.

    Args:
        error: PyYAML's.
        source: The text.
        place: Where its parser could not go on.
    """
    said = " ".join(filter(None, (error.context, error.problem)))
    mend = next((mend for part, mend in MENDS.items() if part in said), f"This is no YAML: {said}.")
    line = source.line(place.line)
    if "mapping values" in said and KEY.fullmatch(line[: place.column - 1]):
        return (
            "This line is indented below one that has a value already. Lines that belong together begin in one column."
        )
    if line[: place.column].strip() == "" and "\t" in line[: place.column]:
        mend = MENDS[r"'\t'"]
    begun = error.context_mark
    where = ""
    if begun is not None and (begun.line + 1, begun.column + 1) != (place.line, place.column):
        where = f" It began at {Place(source, begun.line + 1, begun.column + 1)}."
    return mend + where
