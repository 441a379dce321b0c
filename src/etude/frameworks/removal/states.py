"""States of a module that is called step by step: results that come back in its next call."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from etude.frameworks.removal.nested import Path
from etude.frameworks.removal.trace import Call


class States:
    """Which results of a module come back, and where.

    Args:
        calls: All calls of the module in a run.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        found: dict[Path, set[Path]] = {}
        for call, after in itertools.pairwise(calls):
            for path, value in call.outputs.items():
                back = [where for where, n in after.inputs.items() if n == value]
                if len(back) == 1 and value not in call.inputs.values():
                    found.setdefault(path, set()).add(back[0])
        self._back = {path: back.pop() for path, back in found.items() if len(back) == 1}

    def of(self, path: Path) -> Path | None:
        """Return where a result comes back in the next call; None if it does not."""
        return self._back.get(path)

    def is_last(self, path: Path, value: int) -> bool:
        """Say whether a result comes back in other calls, and this one does not: it is the state after all steps."""
        return path in self._back and not any(value in call.inputs.values() for call in self._calls)

    def without_others(self, sources: list[tuple[Path, int]], path: Path) -> list[tuple[Path, int]]:
        """Leave out the states that other results become: a result that comes back goes on from its own.

        Args:
            sources: Inputs that a result depends on.
            path: Of the result.
        """
        if path not in self._back:
            return sources
        others = {state for result, state in self._back.items() if result != path} - {self._back[path]}
        return [source for source in sources if source[0] not in others]
