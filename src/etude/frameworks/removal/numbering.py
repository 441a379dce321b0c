"""Numbers of blocks: where a block says at which place of a cache its keys and values lie.

A model that writes word by word asks its first block how long the cache is, and each block for its own place in it. So
where a block goes, or the attention in it, those that are left get the numbers 0, 1, 2, ... as if they were all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from torch import nn

from etude.frameworks.removal.edits import Attribute, Edit
from etude.frameworks.removal.names import under
from etude.frameworks.removal.nested import leaves
from etude.frameworks.removal.trace import Op
from etude.frameworks.removal.tracing import Runs

PLACE: Final = re.compile(r"^(layer|block)?_?(idx|index|id|number)$")
"""Attributes of such names say which of the blocks it is."""
ANEW: Final = "blocks numbered anew: their places in a cache"
NOT_ANEW: Final = "its blocks keep their numbers: with a cache, word by word, only where positions are passed"


class Numbering:
    """Numbers blocks anew where some of them go.

    Args:
        runs: Runs of a copy of the model, from which nothing was taken out.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs, self._model = runs, runs.copy.model

    def anew(self, removed: Sequence[str], edits: Sequence[Edit]) -> tuple[Sequence[Edit], str]:
        """Return the edits that number blocks anew, and what is to be said; both are empty if no block has a number.

        Args:
            removed: Paths of the modules that go.
            edits: What is done besides.
        """
        found = self._without(removed)
        if not found:
            return [], ""
        kinds = getattr(getattr(self._model, "config", None), "layer_types", None) or ()
        if len(set(kinds)) > 1 or (self._matters(found) and _reckons(self._runs, [*edits], found)):
            return [], NOT_ANEW
        return found, ANEW

    def _without(self, removed: Sequence[str]) -> list[Attribute]:
        return [one for path, blocks in self._lists.items() for one in _in_list(path, blocks, removed)]

    @property
    def _lists(self) -> dict[str, nn.ModuleList]:
        """The lists of blocks, by path; a list of one block has no numbers to be told apart by."""
        return {path: m for path, m in self._model.named_modules() if isinstance(m, nn.ModuleList) and len(m) > 1}

    def _matters(self, numbers: Sequence[Attribute]) -> bool:
        """Say whether it may matter which number a block has: not where each has the one before its own already."""
        steps = {self._number(one) - one.value for one in numbers}
        return steps != {1} or not self._is_idle

    def _number(self, one: Attribute) -> int:
        return int(getattr(self._model.get_submodule(one.path), one.name))

    @cached_property
    def _is_idle(self) -> bool:
        """Whether the model does the same if each block has the number before its own: asked once for all plans."""
        return not _reckons(self._runs, [], self._without([f"{path}.0" for path in self._lists]))


def _in_list(path: str, blocks: nn.ModuleList, removed: Sequence[str]) -> list[Attribute]:
    """Return the numbers that are new in one list of blocks: of those things in them that have one."""
    places: dict[tuple[str, str], list[int]] = {}
    wrong: set[tuple[str, str]] = set()
    for n, block in enumerate(blocks):
        for inner, module in block.named_modules():
            for name, value in vars(module).items():
                if PLACE.match(name) and type(value) is int:
                    places.setdefault((inner, name), []).append(n)
                    wrong |= {(inner, name)} if value != n else set()
    found: list[Attribute] = []
    for (inner, name), has in places.items():
        here = {n: ".".join(part for part in (path, str(n), inner) if part) for n in has}
        left = [n for n in has if not any(under(here[n], gone) for gone in removed)]
        if (inner, name) not in wrong and len(left) < len(has) == len(blocks):
            found += [Attribute(here[n], name, new) for new, n in enumerate(left) if new != n]
    return found


def _reckons(runs: Runs, edits: list[Edit], numbers: Sequence[Edit]) -> bool:
    """Say whether a model computes with the numbers of its blocks, so that others would make another model of it."""
    with runs.trying() as carry:
        carry(edits)
        before = runs.traced(train=False)
        carry(numbers)
        try:
            after = runs.traced(train=False)
        except Exception:  # the first block may have what the others have not
            return True
    return [_plainly(op) for op in before.ops] != [_plainly(op) for op in after.ops]


def _plainly(op: Op) -> tuple[str, list[Any]]:
    return op.name, [one for _, one in leaves((op.args, op.kwargs)) if isinstance(one, int | float | str)]
