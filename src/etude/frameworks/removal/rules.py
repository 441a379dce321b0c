"""What stands for a tensor that a removed module gave: a rule, with how deep it cuts, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from etude.core.rungs import Rung
from etude.frameworks.removal.edits import Rule

LAST_LEVEL: Final = 3
"""Levels are 0: what reads it gets another width; 1: what goes in gets the width that went out; 2: neither, and zeros
fill up what an addition wants more of; 3: channels come again where more are wanted, and are averaged where fewer."""
BESIDE: Final = 1
"""Up to that level widths change elsewhere."""
Front: TypeAlias = tuple[int, int, int]
"""What has to be made wider or narrower: a value, the axis of its width, counted from behind, and the width."""


class NoRule(Exception):  # noqa: N818 - it becomes a refusal
    """Nothing can stand for an output.

    Attributes:
        code: Name of the refusal's code.
    """

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass
class Choice:
    """What stands for one output.

    Attributes:
        rule: The rule.
        rung: How deep it cuts; None if nobody uses the output.
        width: Whether a width changes, so that others must be resized.
        front: What of it lies in front, and has to be made as wide as what came out; None if what reads it changes.
        reads: Values that it reads.
        why: What joins it, for people.
    """

    rule: Rule
    rung: Rung | None
    width: bool = False
    front: Front | None = None
    reads: tuple[int, ...] = ()
    why: str = ""
