"""The settings in a configuration file, by path, as far as a change of them can be told by reading lines.

YAML is not parsed: lines with a name and a value are enough to see which value changed, and a file that cannot be read
fails when the program reads it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

BY_LINES: Final = (".yaml", ".yml", ".ini", ".cfg", ".conf")
_SETTING: Final = re.compile(r"([ \t]*(?:- +)*)[\"']?([\w.-]+)[\"']?[ \t]*(?::(?=\s|$)|=)[ \t]*(.*)")
_SECTION: Final = re.compile(r"\[([^\]]+)\]\s*$")
_INLINE: Final = re.compile(r"[\"']?([\w.-]+)[\"']?\s*:\s*([^,{}]+)")
_REMARK: Final = re.compile(r"(?:^|\s)[#;].*$")


def leaves_of(path: str, text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    r"""Yield the settings of a configuration file, each with its path and the text of its value.

    Example:
        >>> list(leaves_of("a.yaml", "optim:\n  lr: 0.1  # slow\nseed: 1\n"))
        [(('optim', 'lr'), '0.1'), (('seed',), '1')]
    """
    try:
        if path.endswith(".json"):
            yield from _nested(json.loads(text))
        elif path.endswith(".toml"):
            yield from _nested(tomllib.loads(text))
    except (ValueError, RecursionError):
        return  # whether it can be read is another rung's question
    if path.endswith(BY_LINES):
        yield from _lines(text)


def _nested(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _nested(one, (*path, str(key)))
    elif isinstance(value, list) and any(isinstance(one, Mapping | list) for one in value):
        for one in value:
            yield from _nested(one, path)
    elif path:
        yield path, repr(value)


def _lines(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        section = _SECTION.match(line)
        if section:
            above = [(-1, section.group(1))]
            continue
        match = _SETTING.match(line)
        if match is None:
            continue
        depth, key, value = len(match.group(1)), match.group(2), _REMARK.sub("", match.group(3)).strip()
        above = [(other, name) for other, name in above if other < depth]
        path = tuple(name for _, name in above)
        if value.startswith("{"):
            yield from (((*path, key, name), said.strip()) for name, said in _INLINE.findall(value))
        elif value:
            yield (*path, key), value
        else:
            above.append((depth, key))
