"""Which rule stands for each tensor that a removed module gave: the ladder, but for the widths.

The order is not the one in which things happen to run. A branch of a residual connection for which its input would
come out gives x + x, runs, and is wrong: so what joins an output is asked first, and identity second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from etude.core.rungs import Rung
from etude.frameworks.removal.edits import Axes, Dim, Fill, Fit, Rule, Same, Source
from etude.frameworks.removal.flow import Flow, Join
from etude.frameworks.removal.meaning import Meaning
from etude.frameworks.removal.nested import Path
from etude.frameworks.removal.trace import Call, Trace

LEARNED: Final = "adapter"
NEUTRALS: Final = {"add": 0, "mul": 1}


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
        width: Whether another width comes out, so that others must be resized.
        reads: Values that it reads.
        why: What joins it, for people.
    """

    rule: Rule
    rung: Rung | None
    width: bool = False
    reads: tuple[int, ...] = ()
    why: str = ""


@dataclass
class Chooser:
    """Chooses rules for the outputs of a module's calls.

    Attributes:
        trace: The run.
        flow: Its data flow.
        meaning: What its axes mean.
        calls: Calls of the module that goes.
        own: Values of its own parameters.
        level: 0 prefers another width to an adapter, 1 an adapter.
        learned: Whether an adapter may be learned.
    """

    trace: Trace
    flow: Flow
    meaning: Meaning
    calls: list[Call]
    own: frozenset[int] = frozenset()
    level: int = 0
    learned: bool = False
    starved: int = field(default=0)

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
        if not self.trace.values[value].is_float:
            return self._not_float(call, value)
        self._refuse_owned(call, path, value)
        neutral = self._neutral(call, value)
        if neutral is not None and self.starved:  # the branch goes, and what only it led to has to go on
            lost = [source for source in self._sources(call, value) if self._is_starved(source[1])]
            return self._adapter(call, value, lost) if lost else neutral
        return neutral or self._from_inputs(call, value)

    def _is_starved(self, value: int) -> bool:
        return bool(self.flow.ancestors[value] & self.starved)

    def _from_inputs(self, call: Call, value: int) -> Choice:
        """Return what comes out of inputs: one as it is, with another width, or brought into shape."""
        sources = self._sources(call, value)
        shape = self.trace.values[value].shape
        same = [s for s in sources if self.trace.values[s[1]].shape == shape and self._same_axes(s[1], value)]
        near = [s for s in sources if self._differs_in_width(s[1], value)]
        first = (same or (near if self.level == 0 else []) or sources)[:1]
        both = first + [source for source in sources if source not in first and self._is_starved(source[1])]
        if len(both) > 1 and self.flow.is_added_to(value, both[0][1]):
            both = both[1:]  # it goes on beside the component anyway
            return self._adapter(call, value, both)
        if len(both) > 1:  # else what only the others lead to would have no effect any more
            return self._adapter(call, value, both)
        if same:
            return Choice(Same(same[0][0]), Rung.IDENTITY, reads=(same[0][1],))
        if near and self.level == 0:
            return Choice(Same(near[0][0]), Rung.SPLICE, width=True, reads=(near[0][1],))
        return self._adapter(call, value, sources)

    def _unused(self, call: Call, value: int) -> Choice:
        here = self.trace.values[value]
        dtype = "" if here.is_float else str(here.dtype).removeprefix("torch.")
        return Choice(Fill(0, self.meaning.dims(call, value), dtype, unused=True), None)

    def _not_float(self, call: Call, value: int) -> Choice:
        here = self.trace.values[value]
        for where, n in call.inputs.items():
            given = self.trace.values[n]
            if given.dtype == here.dtype and given.shape == here.shape and self.flow.is_ancestor(n, value):
                return Choice(Same(where), Rung.IDENTITY, reads=(n,))
        kind = str(here.dtype).removeprefix("torch.")
        raise NoRule("NOT_FLOAT", f"it gives {kind} values, indices or a mask, for which nothing can stand in.")

    def _neutral(self, call: Call, value: int) -> Choice | None:
        """Return the neutral element of what joins an output, if it ends a branch that has nothing else in it."""
        circle = self.flow.trigonometry(value)
        if circle:
            rule = Fill(1 if circle == "cos" else 0, self.meaning.dims(call, value))
            return Choice(rule, Rung.NEUTRAL, why="no rotation")
        joins = self.flow.join(value, call, self.calls)
        kinds = {join.kind for join in joins}
        if len(kinds) != 1 or not all(self._is_whole_branch(join) for join in joins):
            return None
        kind = kinds.pop()
        dims = self.meaning.dims(call, value)
        if kind in NEUTRALS:
            why = "what it was added to stays" if kind == "add" else "what it was multiplied with stays"
            return Choice(Fill(NEUTRALS[kind], dims), Rung.NEUTRAL, why=why)
        axis = self.meaning.width_axis(value)
        if self.level > 0 or not all(self._joined_along(join, value, axis) for join in joins):
            return None
        none = tuple(Dim(0) if n == axis else dim for n, dim in enumerate(dims))
        return Choice(Fill(0, none), Rung.SPLICE, width=True, why="the rest of the concatenation stays")

    def _is_whole_branch(self, join: Join) -> bool:
        rest = any(self.flow.depends_on_content(n) for n in join.others)
        return rest and not self.flow.mixing_left(join, self.calls)

    def _joined_along(self, join: Join, value: int, axis: int) -> bool:
        """Say whether a concatenation lengthens the width, and reads the output itself."""
        if join.branch != value:
            return False
        here, there = self.trace.values[value].shape, self.trace.values[join.op.outputs[0]].shape
        if len(here) != len(there) or here[axis] == there[axis]:
            return False
        return all(a == b for n, (a, b) in enumerate(zip(here, there, strict=True)) if n != axis)

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

    def _inputs(self, call: Call, value: int) -> list[tuple[Path, int]]:
        floats = self.flow.differentiable[value]
        return [(where, n) for where, n in call.inputs.items() if self.trace.values[n].is_float and floats >> n & 1]

    def _sources(self, call: Call, value: int) -> list[tuple[Path, int]]:
        """Return the inputs that an output really depended on, the best first."""

        def worse(source: tuple[Path, int]) -> tuple[bool, bool, bool]:
            n = source[1]
            fits = self.trace.values[n].shape == self.trace.values[value].shape and self._same_axes(n, value)
            return not self.flow.carries(n), not fits, not self._differs_in_width(n, value)

        return sorted(self._inputs(call, value), key=worse)

    def _same_axes(self, n: int, value: int) -> bool:
        if not self.meaning.known:
            return True
        return self.meaning.batch_axis(n) == self.meaning.batch_axis(value)

    def _differs_in_width(self, n: int, value: int) -> bool:
        """Say whether an input has the output's shape, but for the width."""
        mine, its = self.trace.values[n].shape, self.trace.values[value].shape
        if len(mine) != len(its) or not mine or not self._same_axes(n, value):
            return False
        axis = self.meaning.width_axis(value)
        return all(a == b for by, (a, b) in enumerate(zip(mine, its, strict=True)) if by != axis)

    def _adapter(self, call: Call, value: int, sources: list[tuple[Path, int]]) -> Choice:
        """Return an adapter from inputs; by default from the best one."""
        if not self.starved:
            sources = sources[:1]
        to = self.meaning.axes(value)
        of = [(where, n, self.meaning.axes(n)) for where, n in sources]
        dims = self.meaning.dims(call, value)
        if not of and self.learned:
            of = [(w, n, self.meaning.axes(n)) for w, n in call.inputs.items() if self.flow.is_ancestor(n, value)][:1]
            of = [(w, n, _with_width(axes, len(self.trace.values[n].shape))) for w, n, axes in of]
        usable = to is not None and of and all(a is not None and _no_example_lost(a, to) for *_, a in of)
        if not usable or to is None:
            self._no_source(call, value)
            raise NoRule("DOES_NOT_FIT", "nothing that it is given can be brought into the shape of what it gives.")
        made = tuple(Source(where, axes) for where, _, axes in of if axes is not None)
        reads = tuple(n for _, n, _ in of)
        if self.learned:
            return Choice(Fit(made, dims, to, learned=LEARNED), Rung.LEARNED, reads=reads)
        return Choice(Fit(made, dims, to), Rung.ADAPTER, reads=reads)

    def _no_source(self, call: Call, value: int) -> None:
        ids = [n for n in call.inputs.values() if not self.trace.values[n].is_float]
        if any(self.flow.is_ancestor(n, value) for n in ids):
            raise NoRule(
                "NO_PATH",
                "it turns whole numbers into what the rest computes with, and nothing without parameters does that. "
                'repair="learned" puts a small learned adapter there.',
            )


def _with_width(axes: Axes | None, rank: int) -> Axes | None:
    """Return the axes of whole numbers: each stands for a token, so that there is no width."""
    if axes is None:
        return None
    return Axes(axes.batch, axes.each, rank)


def _no_example_lost(of: Axes, to: Axes) -> bool:
    return of.batch is None or to.batch is not None
