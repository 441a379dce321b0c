"""What drops the branch that a removed module ends: where its result meets others, these stay as they are.

A 0 is nothing to a sum, a 1 to a product; gates stay open, and what shifts or scales others leaves them alone. Where
no such element is known, and what goes in would come twice or change the other side, that is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from etude.core.rungs import Rung
from etude.frameworks.removal.edits import Dim, Fill, Limit
from etude.frameworks.removal.flow import Flow
from etude.frameworks.removal.joins import Join, Joins
from etude.frameworks.removal.meaning import Meaning
from etude.frameworks.removal.meeting import Meeting
from etude.frameworks.removal.modulation import Modulation
from etude.frameworks.removal.nested import Path
from etude.frameworks.removal.rules import Choice, NoRule
from etude.frameworks.removal.trace import Call
from etude.frameworks.removal.vanishing import Vanishing

NEUTRALS: Final[dict[str, int | Limit]] = {"add": 0, "mul": 1, "least": "inf", "greatest": "-inf"}
COMPARED: Final = frozenset(["least", "greatest"])
MET: Final = {"add": "added to", "mul": "multiplied with", "least": "compared with", "greatest": "compared with"}
OPEN: Final = 10_000
"""A sigmoid of this is 1, in all types."""


@dataclass(frozen=True)
class Branches:
    """The branches that a module's results end.

    Attributes:
        flow: A run's data flow.
        joins: Where its values meet.
        meaning: What its axes mean.
        calls: Calls of the module that goes.
        level: Where another width may come out; see ``rules.LAST_LEVEL``.
        starved: Whether something would have no effect any more, so that what it leads to must be read.
        besides: Values that lead nowhere but to this module and say how it works, as bits: they go idle with it.
        dropped: Results whose branches go though other layers are left in them, since these lead elsewhere too.
    """

    flow: Flow
    joins: Joins
    meaning: Meaning
    calls: list[Call]
    level: int = 0
    starved: bool = False
    besides: int = 0
    dropped: frozenset[Path] = frozenset()

    def joined(self, call: Call, value: int, *, goes_on: bool = False) -> Choice | None:
        """Return the neutral element of what joins an output, or None where what goes in may come out.

        Args:
            call: A call.
            value: What it gives.
            goes_on: Whether it is known that something goes on, and ends no branch.

        Raises:
            NoRule: It may not, and nobody knows what may.
        """
        neutral = None if goes_on else self._neutral(call, value)
        if neutral is None:
            self._refuse_unknown(call, value)
            self._refuse_twins(call, value)
        return neutral

    def refuse_skipped(self, call: Call, value: int, sources: list[tuple[Path, int]]) -> None:
        """Refuse what has in it, beside what layers make of it, the very thing that it would be added to."""
        begun = {other for join in self.joins.of(value, call, self.calls) for other in join.others}
        carried = set().union(*(self.flow.unmixed(other) for other in begun if self.flow.carries(other)))
        if any(n in carried for _, n in sources):
            why = "other layers would have no effect any more, and what they give is in part what it is added to"
            raise NoRule("NO_PATH", f"{why}, which would come twice.")

    def _neutral(self, call: Call, value: int, *, alone: bool = False) -> Choice | None:
        """Return the neutral element of what joins an output, if it ends a branch that has nothing else in it.

        Args:
            call: A call.
            value: What it gives.
            alone: Whether the call's other results count for nothing.
        """
        circle = self.joins.trigonometry(value)
        if circle:
            rule = Fill(1 if circle == "cos" else 0, self.meaning.dims(call, value))
            return Choice(rule, Rung.NEUTRAL, why="no rotation")
        joins = self.joins.of(value, call, self.calls, dropped=self._is_dropped(call, value))
        kinds = {join.kind for join in joins}
        if len(kinds) != 1 or not all(self._is_whole_branch(join) for join in joins):
            gate = self._open_gate(call, value) or (None if alone else self._beside_nothing(call, value, joins))
            dropped = gate or self._with_all_of_it(call, value, joins) or self._vanished(call, value)
            return dropped or self._unmodulated(call, value)
        kind = kinds.pop()
        if not self._ends_there(kind, value, joins):
            return None
        if kind in NEUTRALS:
            return self._neutral_of(kind, call, value)
        dims = self.meaning.dims(call, value)
        axis = self.meaning.width_axis(value)
        if self.level > 0 or not all(self._joined_along(join, value, axis) for join in joins):
            for met in filter(None, map(self.joins.reduced, joins)):
                why = f"a 0 would stand for it in a stack that {met!r} reads, which would take it for a value."
                raise NoRule("DOES_NOT_FIT", f"{why} Take away the block round it.")
            return Choice(Fill(0, dims), Rung.NEUTRAL, why="the rest of the concatenation stays, and 0 beside it")
        none = tuple(Dim(0) if n == axis else dim for n, dim in enumerate(dims))
        return Choice(Fill(0, none), Rung.SPLICE, width=True, why="the rest of the concatenation stays")

    def _neutral_of(self, kind: str, call: Call, value: int) -> Choice:
        why = f"what it was {MET[kind]} stays"
        return Choice(Fill(NEUTRALS[kind], self.meaning.dims(call, value)), Rung.NEUTRAL, why=why)

    def _ends_there(self, kind: str, value: int, joins: list[Join]) -> bool:
        """Say whether a branch that ends in joins of a kind ends as it is, and is not what a gate scales."""
        if kind in COMPARED:  # more than any number, times -1, is less than any
            return all(self.joins.is_moved(join, value) for join in joins)
        return kind != "mul" or not all(map(self.joins.is_scaled, joins))

    def _open_gate(self, call: Call, value: int) -> Choice | None:
        """Return what leaves a gate open that has nothing else in it."""
        kind, joins = self.joins.gated(value)
        if not kind or not all(self._is_whole_branch(join) for join in joins):
            return None
        if kind == "one plus":
            why = "what was scaled by it stays"
            return Choice(Fill(0, self.meaning.dims(call, value)), Rung.NEUTRAL, why=why)
        if kind == "sigmoid":
            why = "the gate that was made of it is open"
            return Choice(Fill(OPEN, self.meaning.dims(call, value)), Rung.NEUTRAL, why=why)
        if all(self._is_summed(join) for join in joins):
            return Choice(Fill(0, self.meaning.dims(call, value)), Rung.NEUTRAL, why="all shares are the same")
        why = "a softmax of it scales something, and no constant makes a 1 of each share."
        raise NoRule("DOES_NOT_FIT", f"{why} Take the softmax along with it, or take away the block round both.")

    def _is_summed(self, join: Join) -> bool:
        """Say whether what is scaled is a weighted sum: without its layer all weights are the same."""
        ops = [self.flow.trace.ops[n] for out in join.op.outputs for n in self.flow.consumers[out]]
        return bool(ops) and all(op.name == "sum" for op in ops)

    def _beside_nothing(self, call: Call, value: int, joins: list[Join]) -> Choice | None:
        """Return a 0 for a result that is added, if another one that is added ends a branch: both go."""
        if not joins or any(join.kind != "add" for join in joins):
            return None
        others = [n for n in call.outputs.values() if n != value and self.flow.used_outside(n, [call])]
        found = [self._neutral(call, n, alone=True) for n in others if self.flow.trace.values[n].is_float]
        fills = [choice.rule for choice in found if choice and isinstance(choice.rule, Fill)]
        both = any(not fill.value and not fill.ones for fill in fills)
        rest = all(any(self.flow.depends_on_content(n) for n in join.others) for join in joins)
        if not both or not rest:
            return None
        return self._neutral_of("add", call, value)

    def _with_all_of_it(self, call: Call, value: int, joins: list[Join]) -> Choice | None:
        """Return what drops a branch with all that is left in it, if that is asked for."""
        kinds = {join.kind for join in joins}
        if not self._is_dropped(call, value) or len(kinds) != 1 or not kinds <= NEUTRALS.keys() - COMPARED:
            return None
        rest = all(any(self.flow.depends_on_content(n) for n in join.others) for join in joins)
        return self._neutral_of(kinds.pop(), call, value) if rest else None

    def _is_dropped(self, call: Call, value: int) -> bool:
        return any(call.outputs.get(path) == value for path in self.dropped)

    def _vanished(self, call: Call, value: int) -> Choice | None:
        """Return a 0 for a result if all that it meets stays as it is then, and what went in would come twice."""
        if not Vanishing(self.flow, self.joins, self.calls).is_neutral(value, call, self.besides):
            return None
        return Choice(Fill(0, self.meaning.dims(call, value)), Rung.NEUTRAL, why="what it was joined with stays")

    def _unmodulated(self, call: Call, value: int) -> Choice | None:
        """Return what neither shifts nor scales and leaves gates open, of what says how others work."""
        found = None if self.starved else Modulation(self.flow, self.joins, call, self.calls).ones(value)
        dims = self.meaning.dims(call, value)
        if found is None or dims[found[0]].path is not None:
            return None
        rule = Fill(0, dims, axis=found[0], ones=found[1])
        return Choice(rule, Rung.NEUTRAL, why="what it shifted and scaled stays, and its gates are open")

    def _is_whole_branch(self, join: Join) -> bool:
        rest = any(self.flow.depends_on_content(n) for n in join.others)
        return rest and not self.joins.mixing_left(join, self.calls, self.besides)

    def _joined_along(self, join: Join, value: int, axis: int) -> bool:
        """Say whether a concatenation lengthens the width, and reads the output itself."""
        if join.branch != value:
            return False
        here, there = self.flow.trace.values[value].shape, self.flow.trace.values[join.op.outputs[0]].shape
        if len(here) != len(there) or here[axis] == there[axis]:
            return False
        return all(a == b for n, (a, b) in enumerate(zip(here, there, strict=True)) if n != axis)

    def _refuse_unknown(self, call: Call, value: int) -> None:
        """Refuse identity where it would meet another path from the same input in a way that is not known."""
        met = Meeting(self.flow, self.joins, call, self.calls, self.besides).unknown(value)
        if met:
            why = f"it is joined with another path from the same input by {met!r}, and Étude does not know what would"
            raise NoRule("DOES_NOT_FIT", f"{why} leave the other path as it is. Take away the block round both.")

    def _refuse_twins(self, call: Call, value: int) -> None:
        """Refuse identity where what goes in is computed a second time, and added: it would come twice."""
        others = [other for join in self.joins.of(value, call, self.calls) for other in join.others]
        for n in call.inputs.values():
            if any(other != n and self.flow.are_twins(other, n) for other in others):
                why = "it is joined with what goes into it, which the model computes twice, and would be doubled."
                raise NoRule("DOES_NOT_FIT", f"{why} Compute it once.")
