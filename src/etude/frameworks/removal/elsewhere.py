"""Weights of a module with which something is done where it is not called: they are read there, or changed in place.

What is changed and then read by the module alone goes with it, and the change has no effect any more. But what comes
out in the module's place was not changed: it may stand only for what did not go through that weight.
"""

from __future__ import annotations

from collections.abc import Sequence

from etude.frameworks.removal.flow import Flow, within
from etude.frameworks.removal.operations import DIVIDE, MUL, SHAPES
from etude.frameworks.removal.rules import Choice
from etude.frameworks.removal.trace import Call, Op


class Elsewhere:
    """What is done with a parameter elsewhere.

    Args:
        flow: A run's data flow.
        value: The parameter.
        calls: Calls of the module whose parameter it is.

    Attributes:
        is_read: Whether something elsewhere depends on it.
    """

    def __init__(self, flow: Flow, value: int, calls: Sequence[Call]) -> None:
        self._flow, self._calls = flow, calls
        self.is_read = False
        self._done: list[Op] = []
        self._inside: list[Op] = []
        waiting, mine, seen = [value], {value}, set[int]()
        while waiting:
            now = waiting.pop()
            self.is_read = self.is_read or now in flow.ends
            for op in (flow.trace.ops[n] for n in flow.consumers[now] if n not in seen):
                seen.add(op.n)
                if within(op.n, calls):
                    self._inside.append(op)
                    continue
                self._done.append(op)
                self.is_read = self.is_read or any(n not in mine and _is_of_model(flow, n) for n in op.inputs)
                waiting += op.outputs
                mine.update(op.outputs)

    def is_missed(self, chosen: Sequence[Choice]) -> bool:
        """Say whether something stands for what went through the parameter, and is not changed as that was.

        Args:
            chosen: What stands for each result of each call.
        """
        if all(map(_changes_nothing, self._done)):
            return False
        cut = {out: () for op in self._inside for out in op.outputs}
        results = [n for call in self._calls for n in call.outputs.values()]
        for value, choice in zip(results, chosen, strict=True):
            reached = self._flow.reached(cut, ends=[value])
            if any(not reached >> n & 1 for n in choice.reads):
                return True
        return False


def _is_of_model(flow: Flow, value: int) -> bool:
    """Say whether a value comes from elsewhere in the model, and is no number that stands in its code."""
    return flow.trace.values[value].kind != "constant"


def _changes_nothing(op: Op) -> bool:
    """Say whether an operation leaves numbers what they are: a shape, or a scale of 1."""
    return op.name in SHAPES or (op.name in MUL | DIVIDE and len(op.inputs) == 1 and 1 in op.args[1:])
