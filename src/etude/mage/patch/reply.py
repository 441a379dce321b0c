"""An answer as blocks, read strictly: what is not certainly meant is refused, with what was found.

The form is that of ``rendering.GRAMMAR``. Fences are those of Markdown, of backticks and at the left edge; a longer
fence may hold shorter ones. Every fence has to be a change: a second one that is only shown, or that slipped to the
right, would otherwise be left out silently, and half a change is worse than none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from etude.core.text import shortened
from etude.mage.patch.blocks import Block, Search, Symbol, Whole
from etude.mage.patch.refusals import BadReply
from etude.mage.patch.rendering import WITHOUT_NEWLINE
from etude.mage.sources.definitions import plain_name
from etude.mage.values import Value
from etude.mage.verdicts import Reason

__all__ = ["BadReply", "Written", "read_reply"]

CANNOT: Final = "CANNOT:"
KINDS: Final = ("search", "whole", "replace")
MOST: Final = 120
"""So many characters of what was not understood are told."""
_OPENS: Final = re.compile(r"(`{3,})([^`]*)$")
_ASTRAY: Final = re.compile(r"[\s>*+-]*(?:`{3,}|~{3,})[^`]*$")
_WORD: Final = re.compile(r'([A-Za-z_-]+)=("(?:[^"\\]|\\.)*"|[^\s"]+)(?=\s|$)|(\S+)')


class Written(Value, frozen=True):
    """What an answer says.

    Attributes:
        blocks: The changes; none if it says that there can be none.
        prose: What stands between them. It is kept, and never executed.
        cannot: Why it cannot be done; None if it is.
    """

    blocks: tuple[Block, ...] = ()
    prose: str = ""
    cannot: str | None = None


@dataclass
class _Fence:
    """A fenced block as it stands there."""

    line: int
    info: str
    text: str = ""
    kind: str = ""
    language: str = ""
    values: dict[str, str] = field(default_factory=dict)


def read_reply(text: str, *, cut_off: bool = False, most_tokens: int = 0) -> Written:
    """Return what an answer says.

    Args:
        text: The answer.
        cut_off: Whether it ended at the limit of tokens. Then nothing of it is read.
        most_tokens: That limit; 0 if it is not known.

    Raises:
        BadReply: It is cut off, holds no change, or one that cannot be read without doubt.
    """
    if cut_off:
        at = f" at {most_tokens:,} output tokens" if most_tokens else ""
        raise _bad(
            f"Reply cut off{at}; nothing applied. Asking for fewer blocks.",
            claim="a reply is complete",
            expected="an end",
            found=f"cut off{at}",
        )
    prose: list[str] = []
    fences = list(_fences(text, prose))
    cannot = _cannot(prose)
    if cannot is not None and fences:
        raise _bad(
            f"The reply says {CANNOT} and has {_count(len(fences), 'block')} as well; nothing applied. Send either.",
            claim="a reply is a change or a reason why there is none",
            found=cannot,
        )
    if cannot is None and not fences:
        raise _bad(
            "The reply has no block, only prose; nothing applied. Send the change as fenced blocks that name file and "
            f"symbol, or one line that begins with {CANNOT} and says why there can be none.",
            claim="a reply holds a change",
            expected="at least one block",
            found=shortened(" ".join(" ".join(prose).split()), MOST) or "nothing",
        )
    blocks = tuple(_blocks(fences))
    return Written(blocks=blocks, prose="\n".join(prose).strip(), cannot=cannot)


def _fences(text: str, prose: list[str]) -> Iterator[_Fence]:
    """Yield the fenced blocks, and put everything else into the prose."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at].rstrip("\r")
        opens = _OPENS.match(line)
        at += 1
        if opens is None:
            if _ASTRAY.match(line):
                raise _bad(
                    f"Line {at} of the reply looks like a fence, and is none: {shortened(line, MOST)!r}; nothing "
                    "applied. Fences are three or more backticks at the left edge of a line.",
                    claim="every fence begins at the left edge",
                    found=line,
                )
            prose.append(line)
            continue
        ticks, info = opens.groups()
        body: list[str] = []
        start = at
        while at < len(lines) and not _closes(lines[at], ticks):
            body.append(lines[at])
            at += 1
        if at == len(lines):
            raise _bad(
                f"The block that is opened in line {start} of the reply ({ticks}{info}) is never closed; nothing "
                f"applied. Close it with {ticks}.",
                claim="a reply is complete",
                expected=ticks,
                found="the end of the reply",
            )
        at += 1
        yield _Fence(start, info.strip(), "".join(f"{one}\n" for one in body))


def _closes(line: str, ticks: str) -> bool:
    bare = line.rstrip()
    return len(bare) >= len(ticks) and not bare.strip("`")


def _cannot(prose: list[str]) -> str | None:
    for number, line in enumerate(prose):
        if line.startswith(CANNOT):
            said = line.removeprefix(CANNOT).strip()
            rest = " ".join(one.strip() for one in prose[number + 1 :] if one.strip())
            return said or rest or "no reason was given"
    return None


def _blocks(fences: list[_Fence]) -> Iterator[Block]:
    for fence in fences:
        _understand(fence)
    seen: dict[tuple[str, str, str], int] = {}
    at = 0
    while at < len(fences):
        fence = fences[at]
        after = fences[at + 1] if at + 1 < len(fences) else None
        block = _block(fence, after)
        at += 2 if isinstance(block, Search) else 1
        target = _target(block)
        if target in seen:
            raise _bad(
                f"Two blocks of the reply are about {target[1]} of {block.file} (lines {seen[target]} and "
                f"{fence.line} of the reply); nothing applied. Send one.",
                claim="one block for each target",
                expected="1 block",
                found=f"2 blocks for {target[1]}",
            )
        seen[target] = fence.line
        yield block


def _target(block: Block) -> tuple[str, str, str]:
    if isinstance(block, Symbol):
        number = f" (number {block.nth})" if block.nth else ""
        return block.file, f"`{plain_name(block.name)}`{number}", ""
    return (block.file, "one search text", block.search) if isinstance(block, Search) else (block.file, "all", "")


def _understand(fence: _Fence) -> None:
    """Read the line that opens a block."""
    for match in _WORD.finditer(fence.info):
        key, value, word = match.groups()
        if key is not None:
            if key not in ("file", "symbol", "nth") or key in fence.values:
                raise _unknown(fence, f"{key}=")
            fence.values[key] = _plain(fence, value)
        elif word in KINDS or word == WITHOUT_NEWLINE:
            if word == WITHOUT_NEWLINE:
                fence.text = fence.text.removesuffix("\n")
            elif fence.kind:
                raise _unknown(fence, word)
            else:
                fence.kind = word
        elif match.start() == 0:
            fence.language = word
        else:
            raise _unknown(fence, word)
    if "symbol" in fence.values:
        if fence.kind:
            raise _unknown(fence, fence.kind)
        fence.kind = "symbol"


def _plain(fence: _Fence, value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        return str(json.loads(value))
    except ValueError:
        raise _unknown(fence, value) from None


def _block(fence: _Fence, after: _Fence | None) -> Block:
    file = fence.values.get("file", "")
    if fence.kind == "replace":
        raise _bad(
            f"The block in line {fence.line} of the reply replaces, and no search block is right before it; nothing "
            "applied.",
            claim="a replace block follows its search block",
            found=fence.info,
        )
    if not file or not fence.kind:
        missing = "a file" if not file else "what in the file is meant"
        raise _bad(
            f"The block in line {fence.line} of the reply (```{fence.info}) does not name {missing}; nothing applied. "
            "Open every block with file=PATH and symbol=NAME, search, or whole, and show no other code in fences.",
            claim="every block names file and target",
            expected="file=PATH and symbol=NAME, search, or whole",
            found=f"```{fence.info}",
        )
    if fence.kind == "symbol":
        nth = fence.values.get("nth", "0")
        if (
            not (nth.isascii() and nth.isdigit())
            or not fence.values["symbol"]
            or ("nth" in fence.values and not int(nth))
        ):
            raise _unknown(fence, f"nth={nth}")
        return Symbol(file=file, name=fence.values["symbol"], text=fence.text, nth=int(nth))
    if "nth" in fence.values:
        raise _unknown(fence, "nth=")
    if fence.kind == "whole":
        return Whole(file=file, text=fence.text)
    if after is None or after.kind != "replace" or after.values.get("file", file) != file:
        raise _bad(
            f"The search block in line {fence.line} of the reply has no replace block right after it; nothing applied. "
            "Open one with ```replace; leave it empty to delete the lines.",
            claim="a replace block follows its search block",
            expected="```replace",
            found=f"```{after.info}" if after else "nothing",
        )
    return Search(file=file, search=fence.text, text=after.text)


def _unknown(fence: _Fence, word: str) -> BadReply:
    return _bad(
        f"The block in line {fence.line} of the reply is opened with {word!r}, which is not known there "
        f"(```{fence.info}); nothing applied. A block is file=PATH symbol=NAME, file=PATH search, or file=PATH whole.",
        claim="every block is of a known kind",
        expected="symbol=NAME, search, or whole",
        found=word,
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _bad(text: str, *, claim: str, expected: str = "", found: str = "") -> BadReply:
    return BadReply(Reason(text=text, claim=claim, expected=expected, found=found))
