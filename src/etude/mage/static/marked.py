"""The user's marks and hints: they belong to the user, and stay as they are."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from etude.mage.patch.lines import lines_of
from etude.mage.sources.options import read_options
from etude.mage.static.policy import Broken, Change, Named, Rule

_MARK: Final = re.compile(r"#\s*ABLATABLE_COMPONENT\b.*")
_EDGE: Final = re.compile(r"#\s*ABLATION_HINT_(START|END)\b")
_TARGET: Final = re.compile(r"([\w.]+)\s*(?::[^=]*)?=(?!=)|(?:class|(?:async\s+)?def)\s+(\w+)")


@dataclass(frozen=True)
class _Marks:
    """The marks of a source: comment and code of each line that has one, and the hints' texts."""

    components: tuple[tuple[str, str], ...]
    hints: tuple[str, ...]


def find_lost_marks(change: Change, named: Named) -> Iterator[Broken]:
    """Yield marks and hints that are gone though what they mark is not, and those that are new."""
    if not change.python or not change.after:
        return
    before, after = _marks(change.before), _marks(change.after)
    still = set(after.components)
    targets = [_target(line) for line in lines_of(change.after)]
    for comment, code in before.components:
        target = _target(code)
        moved = any(comment == other and _target(line) == target for other, line in after.components)
        there = code in map(_code, lines_of(change.after)) or (target and target in targets)
        goes = target in named or any(name in named for name in _said(comment))
        if (comment, code) not in still and not moved and there and not goes:
            yield _broken(change, f"loses the mark {comment} of {target or code}", comment, "no mark")
    known = {_target(code) or code for _, code in before.components}
    more = len(after.components) > len(before.components)
    for comment, code in after.components:
        if (_target(code) or code) not in known and (more or _target(code)):
            yield _broken(change, f"has a new {comment} at {_target(code) or code}", "no new mark", comment)
    for hint in (Counter(before.hints) - Counter(after.hints)).elements():
        yield _broken(change, f"changes or loses the hint {hint.splitlines()[0] if hint else ''!r}", hint, "another")
    if len(after.hints) > len(before.hints):
        yield _broken(change, "has a new hint", "no new hint", after.hints[-1])


def _broken(change: Change, what: str, expected: str, found: str) -> Broken:
    text = f"The patch {what} in {change.path}. Marks and hints are the user's: leave them where they are."
    return Broken(Rule.MARKS, text, expected=expected, found=found)


def _marks(text: str) -> _Marks:
    lines = lines_of(text)
    components: list[tuple[str, str]] = []
    hints: list[str] = []
    hint: list[str] | None = None
    try:
        tokens = [one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type == tokenize.COMMENT]
    except (tokenize.TokenError, SyntaxError):
        tokens = []
    for token in tokens:
        edge = _EDGE.match(token.string)
        if edge:
            if edge.group(1) == "END" and hint is not None:
                hints.append("\n".join(hint))
            hint = [] if edge.group(1) == "START" else None
        elif hint is not None:
            hint.append(token.string.strip())
        elif _MARK.match(token.string):
            number = token.start[0]
            code = token.line[: token.start[1]].strip()
            if not code:  # a mark above what it belongs to
                code = next((_code(one) for one in lines[number:] if one.strip()), "")
            components.append((" ".join(token.string.lstrip("# \t").split()), code))
    return _Marks(tuple(components), tuple(hints))


def _code(line: str) -> str:
    return line.partition("#")[0].strip()


def _said(comment: str) -> tuple[str, ...]:
    """Return the names that a mark gives to what it marks, as in ``(name=shift)``."""
    return read_options(comment.removeprefix("ABLATABLE_COMPONENT").strip()).names


def _target(line: str) -> str:
    match = _TARGET.match(line.strip())
    return (match.group(1) or match.group(2)) if match else ""
