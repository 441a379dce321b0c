"""What a failure comes to for whoever has to mend it: the smallest text that explains it.

Two failures with one *signature* are the same: the type of what was raised, the innermost frame of the project, and the
message with its numbers masked. Who gets the same one twice has not understood it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from etude.mage.facts import Ended
from etude.mage.values import Value
from etude.mage.verdicts import Reason, Rung, Verdict

LINES: Final = 60
"""So many lines of an output are told, from its beginning and its end."""

NUMBER: Final = re.compile(r"0x[0-9a-fA-F]+|(?:(?<![A-Za-z_\d])|(?<=\dx))\d+(?:\.\d+)?(?:e[+-]?\d+)?")
"""A number, and not the end of a name such as ``conv2``: sizes are written as 8x512."""


class Evidence(Value, frozen=True):
    """Why a rung said no.

    Attributes:
        rung: The rung.
        text: What is told.
        signature: What tells it from other failures.
    """

    rung: Rung
    text: str
    signature: str


def of_verdict(verdict: Verdict, *, ended: Ended | None = None) -> Evidence:
    """Return the evidence of a rung that failed.

    Args:
        verdict: What it says.
        ended: How the program ended, if it raised.
    """
    text = "\n".join(_told(reason) for reason in verdict.reasons) or f"It failed at the rung {_name(verdict.rung)}."
    if ended is not None and ended.error:
        frames = head_and_tail(in_order(ended.traceback))
        text = f"{text}\n\n{frames}" if frames and frames not in text else text
        return Evidence(rung=verdict.rung, text=text, signature=_signature_of(ended, verdict.rung))
    signs = (f"{reason.claim}: {masked(reason.text)}" for reason in verdict.reasons)
    return Evidence(rung=verdict.rung, text=text, signature=f"{int(verdict.rung)} " + "; ".join(signs))


def of_reasons(rung: Rung, reasons: Iterable[Reason]) -> Evidence:
    """Return the evidence of a reply or a patch that was refused."""
    from etude.mage.verdicts import Outcome

    return of_verdict(Verdict(rung=rung, outcome=Outcome.FAILED, reasons=tuple(reasons)))


def masked(message: str) -> str:
    """Return a message without its numbers and addresses.

    Example:
        >>> masked("mat1 and mat2 shapes cannot be multiplied (8x512 and 128x10)")
        'mat1 and mat2 shapes cannot be multiplied (#x# and #x#)'
    """
    return NUMBER.sub("#", message)


def head_and_tail(text: str, lines: int = LINES) -> str:
    """Return a text of at most so many lines: its head and its tail, and how many are left out between them."""
    every = text.splitlines()
    if len(every) <= lines:
        return "\n".join(every)
    head = lines // 2
    tail = lines - head - 1
    left_out = len(every) - head - tail
    return "\n".join([*every[:head], f"[{left_out} lines left out]", *every[-tail:]])


def in_order(traceback: str) -> str:
    """Return a traceback with the frames of the project first, since those can be mended.

    Frames of libraries are those under ``site-packages`` or ``lib/python``.
    """
    ours: list[str] = []
    others: list[str] = []
    rest: list[str] = []
    into = rest
    for line in traceback.splitlines():
        if line.startswith('  File "'):
            into = others if "site-packages" in line or "/lib/python" in line or '"<' in line else ours
        elif not line.startswith("  "):
            into = rest
        into.append(line)
    return "\n".join([*rest[:1], *ours, *others, *rest[1:]])


def _signature_of(ended: Ended, rung: Rung) -> str:
    return f"{int(rung)} {ended.error} in {masked(ended.frame)}: {masked(ended.message)}"


def _told(reason: Reason) -> str:
    if not reason.expected and not reason.found:
        return reason.text
    parts = [reason.text]
    parts += [f"  claim: {reason.claim}"] if reason.claim and reason.claim not in reason.text else []
    parts += [f"  expected: {reason.expected}"] if reason.expected and reason.expected not in reason.text else []
    parts += [f"  found: {reason.found}"] if reason.found and reason.found not in reason.text else []
    return "\n".join(parts)


def _name(rung: Rung) -> str:
    return rung.name.lower().replace("_", " ")
