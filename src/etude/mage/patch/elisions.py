"""Code that somebody left out of an answer, such as ``# ... rest unchanged``.

Where a block takes the place of code, what it leaves out is gone. Comments that the base has itself are no elisions,
nor are remarks behind code, which is there; and ``...`` is Python where the base has no code of that name.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from typing import Final

from etude.mage.sources.definitions import Defined, definitions, parsed

_WHAT: Final = (
    r"(?:code|class|classes|functions?|methods?|file|module|script|implementation|definitions?|body|layers?|imports?|"
    r"logic|lines?|stuff|training|forward|init|__init__|setup|content|program|loop|part|section|block)"
)
_OLD: Final = r"(?:existing|original|previous|old|unchanged|other|remaining|unmodified|rest of (?:the|this|your))"
_SAME: Final = (
    r"(?:unchanged|the same|same|as before|as is|as above|omitted|unmodified|as in the original|untouched|not shown|"
    r"goes here|here|stays?|remains?|continues?|kept|elided|truncated|skipped)"
)
STRONG: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"^[\[(<{]?\s*(?:\.{3,}|…)",  # begins with dots
        rf"\b{_OLD} (?:\w+ )?{_WHAT}\b.*(?:{_SAME}\b|\.\.\.|…)",
        rf"^\W*(?:the )?{_OLD} (?:\w+ )?{_WHAT}\W*$",
        rf"\b(?:the )?(?:rest|remainder)\b (?:of (?:the|this|your) (?:\w+ )?{_WHAT}\b)?.*\b{_SAME}\b",
        r"^\W*(?:the )?(?:rest|remainder) of (?:the|this|your) (?:\w+ )?" + _WHAT + r"\W*$",
        rf"\b{_WHAT} (?:\w+ )?(?:omitted|elided|not shown|truncated|unchanged)\b",
        r"\bomitted for brevity\b|\bfor brevity\b.*\bomit",
        rf"\bkeep (?:the |your |all )?(?:rest|{_OLD})(?: (?:\w+ )?{_WHAT})?(?: {_SAME})?\W*$",
        r"(?:\.\.\.|…).*\b(?:unchanged|same|rest|existing|before|omitted)\b",
        r"\b(?:unchanged|same as before|existing|rest)\s*(?:\.\.\.|…)$",
    )
)
WEAK: Final = re.compile(rf"^\W*(?:(?:is|are|all|everything|stays|remains|no changes?)\s*)*{_SAME}?\W*$", re.IGNORECASE)
"""Says that something stays, and may be a remark about the code below it: an elision only where no code follows."""
_COMMENT: Final = re.compile(r"^\s*(?:#|//|--|;|<!--|/\*)\s?(.*?)(?:-->|\*/)?\s*$")


def elided(text: str, base: str, *, python: bool) -> list[tuple[int, str]]:
    """Return the lines at which a text leaves out code, from 1, and what stands there.

    Args:
        text: What somebody wrote.
        base: What it takes the place of, or all of the file.
        python: Whether both are Python.
    """
    there = {line.strip() for line in base.splitlines()}
    found = {line: said for line, said in _comments(text, python=python) if said not in there}
    if python:
        found |= dict(_dots(text, base))
    return sorted(found.items())


def _comments(text: str, *, python: bool) -> Iterator[tuple[int, str]]:
    lines = text.splitlines()
    for number in _alone(text) if python else range(1, len(lines) + 1):
        line = lines[number - 1].strip()
        if not python and line in ("...", "…"):
            yield number, line
        match = _COMMENT.match(line)
        said = match.group(1).strip() if match else ""
        if said and (any(one.search(said) for one in STRONG) or (WEAK.match(said) and _ends(lines, number))):
            yield number, line


def _alone(text: str) -> list[int]:
    """Return the lines that are comments; of what is no Python yet, the lines that look like one."""
    lines = text.splitlines()
    looks = [n for n, line in enumerate(lines, start=1) if line.lstrip().startswith("#")]
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return looks
    comments = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    return [n for n in looks if n in comments]


def _ends(lines: list[str], number: int) -> bool:
    """Say whether no code follows at a comment's own indentation."""
    here = len(lines[number - 1]) - len(lines[number - 1].lstrip())
    for line in lines[number:]:
        if line.strip() and not line.lstrip().startswith("#"):
            return len(line) - len(line.lstrip()) < here
    return True


def _dots(text: str, base: str) -> Iterator[tuple[int, str]]:
    """Yield ``...`` that stands where the base has code: in a definition that it has, too, and more than there."""
    try:
        new, old = parsed(text), parsed(base)
    except SyntaxError:
        return
    before = {name: len(lines) for name, lines in _dots_by_scope(old).items()}
    known = Counter(one.name for one in definitions(old))
    for name, lines in _dots_by_scope(new).items():
        if (not name or name in known) and len(lines) > before.get(name, 0):
            for line in lines[before.get(name, 0) :]:
                yield line, "..."


def _dots_by_scope(tree: ast.Module) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name, scope in [("", tree), *((one.name, one.node) for one in definitions(tree))]:
        found.setdefault(name, []).extend(_dots_in(scope))
    return found


def _dots_in(scope: ast.AST) -> Iterator[int]:
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is Ellipsis:
            yield node.lineno
        elif not isinstance(node, Defined):
            yield from _dots_in(node)
