"""Which rule stands for each tensor that a removed module gave: the ladder, but for the widths.

The order is not the one in which things happen to run. A branch of a residual connection for which its input would
come out gives x + x, runs, and is wrong: so what joins an output is asked first, and identity second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from etude.core.rungs import Rung
from etude.frameworks.removal.branches import Branches
from etude.frameworks.removal.edits import Fill, Same
from etude.frameworks.removal.flow import Flow
from etude.frameworks.removal.joins import Joins
from etude.frameworks.removal.meaning import Meaning
from etude.frameworks.removal.nested import Path
from etude.frameworks.removal.rules import LAST_LEVEL, Choice, NoRule
from etude.frameworks.removal.shaping import Shaping
from etude.frameworks.removal.states import States
from etude.frameworks.removal.trace import Call


@dataclass(frozen=True)
class Chooser:
    """Chooses rules for the outputs of a module's calls.

    Attributes:
        flow: A run's data flow.
        joins: Where its values meet.
        meaning: What its axes mean.
        calls: Calls of the module that goes.
        own: Values of its own parameters.
        level: Where another width may come out; see ``rules.LAST_LEVEL``.
        learned: Whether an adapter may be learned.
        starved: Parameters and content that would have no effect any more, as bits: what they lead to must be read.
        besides: Values that lead nowhere but to this module and say how it works, as bits: they go idle with it.
        dropped: Results whose branches go though other layers are left in them, since these lead elsewhere too.
    """

    flow: Flow
    joins: Joins
    meaning: Meaning
    calls: list[Call]
    own: frozenset[int] = frozenset()
    level: int = 0
    learned: bool = False
    starved: int = 0
    besides: int = 0
    dropped: frozenset[Path] = frozenset()

    def choose(self, call: Call, path: Path) -> Choice:
        """Return what stands for the output at a path.

        Raises:
            NoRule: Nothing can.
        """
        value = call.outputs[path]
        for where, n in call.inputs.items():
            if n == value:  # it was passed through
                return Choice(Same(where, clone=False), None, reads=(n,))
        if not self.flow.used_outside(value, [call]):
            return self._unused(call, value)
        if not self.flow.trace.values[value].is_float:
            return self._not_float(call, value)
        self._refuse_owned(call, path, value)
        neutral = self._branches.joined(call, value, goes_on=self._states.is_last(path, value))
        if neutral is not None and self.starved:  # the branch goes, and what only it led to has to go on
            lost = [source for source in self._sources(call, value) if self._is_starved(source[1])]
            self._branches.refuse_skipped(call, value, lost)
            return self._shaping.adapted(call, value, lost) if lost else neutral
        return neutral or self._from_inputs(call, path, value)

    def _unused(self, call: Call, value: int) -> Choice:
        here = self.flow.trace.values[value]
        dtype = "" if here.is_float else str(here.dtype).removeprefix("torch.")
        return Choice(Fill(0, self.meaning.dims(call, value), dtype, unused=True), None)

    def _not_float(self, call: Call, value: int) -> Choice:
        here = self.flow.trace.values[value]
        for where, n in call.inputs.items():
            given = self.flow.trace.values[n]
            if given.dtype == here.dtype and given.shape == here.shape and self.flow.is_ancestor(n, value):
                return Choice(Same(where), Rung.IDENTITY, reads=(n,))
        kind = str(here.dtype).removeprefix("torch.")
        raise NoRule("NOT_FLOAT", f"it gives {kind} values, indices or a mask, for which nothing can stand in.")

    def _refuse_owned(self, call: Call, path: Path, value: int) -> None:
        """Refuse a second output of the module's own making, which others use: T5's position bias, for instance."""
        if not any(self.flow.is_ancestor(n, value) for n in self.own):
            return
        carried = [self._carried(call, n) for where, n in call.outputs.items() if where != path]
        if any(carried) and not self._carried(call, value):
            raise NoRule("OWNED_STATE", "besides its result it gives something of its own that other layers use.")

    def _carried(self, call: Call, value: int) -> bool:
        """Say whether an output has content in it that came in."""
        return any(self.flow.carries(n) for _, n in self._inputs(call, value))

    def _from_inputs(self, call: Call, path: Path, value: int) -> Choice:
        """Return what comes out of inputs: one as it is, with another width, or brought into shape."""
        sources = self._states.without_others(self._sources(call, value), path)
        shape = self.flow.trace.values[value].shape
        same = [s for s in sources if self.flow.trace.values[s[1]].shape == shape and self._same_axes(s[1], value)]
        near = [s for s in sources if self._differs_in_width(s[1], value)]
        first = (same or near or sources)[:1]
        both = first + [source for source in sources if source not in first and self._is_starved(source[1])]
        if len(both) > 1:  # else what only the others lead to would have no effect any more
            self._refuse_repeated(call, path, both)
            goes_on = self.flow.is_added_to(value, both[0][1])  # beside the component, anyway
            return self._shaping.adapted(call, value, both[1:] if goes_on else both)
        if same:
            return Choice(Same(same[0][0]), Rung.IDENTITY, reads=(same[0][1],))
        if near and self.level < LAST_LEVEL:
            return self._shaping.respliced(*near[0], value)
        return self._shaping.adapted(call, value, near or sources)

    def _refuse_repeated(self, call: Call, path: Path, sources: list[tuple[Path, int]]) -> None:
        """Refuse to add up in each step what comes again in the next one: a state has it already."""
        state = self._states.of(path)
        nth = self.calls.index(call)
        if not nth or state not in [where for where, _ in sources]:
            return
        others = [(where, n) for where, n in sources if where != state]
        for earlier in (self.calls[nth - 1].inputs.get(where) for where, _ in others):
            if earlier is not None and any(self.flow.has_in_it(n, earlier) for _, n in others):
                why = "other layers would have no effect any more, and of what they give a part comes again in the next"
                raise NoRule("NO_PATH", f"{why} step, when its state has it already.")

    def _sources(self, call: Call, value: int) -> list[tuple[Path, int]]:
        """Return the inputs that an output really depended on, the best first."""

        def worse(source: tuple[Path, int]) -> tuple[bool, bool, bool]:
            n = source[1]
            fits = self.flow.trace.values[n].shape == self.flow.trace.values[value].shape and self._same_axes(n, value)
            return not self.flow.carries(n), not fits, not self._differs_in_width(n, value)

        return sorted(self._inputs(call, value), key=worse)

    def _inputs(self, call: Call, value: int) -> list[tuple[Path, int]]:
        """Return the inputs that a result can have learned from, each once: keys are often the values as well."""
        of, floats = self.flow.trace.values, self.flow.differentiable[value]
        found: dict[int, Path] = {}
        for where, n in call.inputs.items():
            if of[n].is_float and floats >> n & 1:
                found.setdefault(n, where)
        return [(where, n) for n, where in found.items()]

    def _same_axes(self, n: int, value: int) -> bool:
        if not self.meaning.known:
            return True
        return self.meaning.batch_axis(n) == self.meaning.batch_axis(value)

    def _differs_in_width(self, n: int, value: int) -> bool:
        """Say whether an input has the output's shape, but for the width."""
        mine, its = self.flow.trace.values[n].shape, self.flow.trace.values[value].shape
        if len(mine) != len(its) or not mine or not self._same_axes(n, value):
            return False
        axis = self.meaning.width_axis(value)
        return all(a == b for by, (a, b) in enumerate(zip(mine, its, strict=True)) if by != axis)

    def _is_starved(self, value: int) -> bool:
        return bool(self.flow.ancestors[value] & self.starved)

    @cached_property
    def _branches(self) -> Branches:
        return Branches(
            self.flow,
            self.joins,
            self.meaning,
            self.calls,
            level=self.level,
            starved=bool(self.starved),
            besides=self.besides,
            dropped=self.dropped,
        )

    @cached_property
    def _shaping(self) -> Shaping:
        return Shaping(
            self.flow,
            self.joins,
            self.meaning,
            self.calls,
            level=self.level,
            learned=self.learned,
            starved=bool(self.starved),
        )

    @cached_property
    def _states(self) -> States:
        """The states of a module that is called step by step."""
        return States(self.calls)
