"""Which rule stands for each tensor that a removed module gave: the ladder, but for the widths.

The order is not the one in which things happen to run. A branch of a residual connection for which its input would
come out gives x + x, runs, and is wrong: so what joins an output is asked first, and identity second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NoReturn, TypeAlias

from etude.core.rungs import Rung
from etude.frameworks.removal.choices import chosen_along
from etude.frameworks.removal.edits import Axes, Dim, Fill, Fit, Limit, Rule, Same, Source
from etude.frameworks.removal.flow import Flow
from etude.frameworks.removal.joins import Join, Joins
from etude.frameworks.removal.laying import CannotLie, laid
from etude.frameworks.removal.meaning import Meaning
from etude.frameworks.removal.meeting import Meeting
from etude.frameworks.removal.modulation import Modulation
from etude.frameworks.removal.nested import Path
from etude.frameworks.removal.states import States
from etude.frameworks.removal.trace import Call, Trace
from etude.frameworks.removal.vanishing import Vanishing

LEARNED: Final = "adapter"
LAST_LEVEL: Final = 3
"""Levels are 0: what reads it gets another width; 1: what goes in gets the width that went out; 2: neither, and zeros
fill up what an addition wants more of; 3: channels come again where more are wanted, and are averaged where fewer."""
BESIDE: Final = 1
"""Up to that level widths change elsewhere."""
Front: TypeAlias = tuple[int, int, int]
"""What has to be made wider or narrower: a value, the axis of its width, counted from behind, and the width."""
NEUTRALS: Final[dict[str, int | Limit]] = {"add": 0, "mul": 1, "least": "inf", "greatest": "-inf"}
COMPARED: Final = frozenset(["least", "greatest"])
MET: Final = {"add": "added to", "mul": "multiplied with", "least": "compared with", "greatest": "compared with"}
CHANNELS: Final = {
    "zeros": "zeros beside its channels",
    "again": "its {here} channels again from the first on, up to {there}",
    "averaged": "its {here} channels averaged to {there}",
}
OPEN: Final = 10_000
"""A sigmoid of this is 1, in all types."""


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


@dataclass
class Chooser:
    """Chooses rules for the outputs of a module's calls.

    Attributes:
        trace: The run.
        flow: Its data flow.
        joins: Where its values meet.
        meaning: What its axes mean.
        calls: Calls of the module that goes.
        own: Values of its own parameters.
        level: Where another width may come out; see ``LAST_LEVEL``.
        learned: Whether an adapter may be learned.
        starved: Parameters and content that would have no effect any more, as bits: what they lead to must be read.
        besides: Values that lead nowhere but to this module and say how it works, as bits: they go idle with it.
        dropped: Results whose branches go though other layers are left in them, since these lead elsewhere too.
    """

    trace: Trace
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
    _asking: bool = False

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
        neutral = self.joined(call, value, goes_on=self._states.is_last(path, value))
        if neutral is not None and self.starved:  # the branch goes, and what only it led to has to go on
            lost = [source for source in self._sources(call, value) if self._is_starved(source[1])]
            self._refuse_skipped(call, value, lost)
            return self._adapter(call, value, lost) if lost else neutral
        return neutral or self._from_inputs(call, path, value)

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

    def _refuse_skipped(self, call: Call, value: int, sources: list[tuple[Path, int]]) -> None:
        """Refuse what has in it, beside what layers make of it, the very thing that it would be added to."""
        begun = {other for join in self.joins.of(value, call, self.calls) for other in join.others}
        carried = set().union(*(self.flow.unmixed(other) for other in begun if self.flow.carries(other)))
        if any(n in carried for _, n in sources):
            why = "other layers would have no effect any more, and what they give is in part what it is added to"
            raise NoRule("NO_PATH", f"{why}, which would come twice.")

    def _is_starved(self, value: int) -> bool:
        return bool(self.flow.ancestors[value] & self.starved)

    def _from_inputs(self, call: Call, path: Path, value: int) -> Choice:
        """Return what comes out of inputs: one as it is, with another width, or brought into shape."""
        sources = self._states.without_others(self._sources(call, value), path)
        shape = self.trace.values[value].shape
        same = [s for s in sources if self.trace.values[s[1]].shape == shape and self._same_axes(s[1], value)]
        near = [s for s in sources if self._differs_in_width(s[1], value)]
        first = (same or near or sources)[:1]
        both = first + [source for source in sources if source not in first and self._is_starved(source[1])]
        if len(both) > 1 and self.flow.is_added_to(value, both[0][1]):
            both = both[1:]  # it goes on beside the component anyway
            return self._adapter(call, value, both)
        if len(both) > 1:  # else what only the others lead to would have no effect any more
            return self._adapter(call, value, both)
        if same:
            return Choice(Same(same[0][0]), Rung.IDENTITY, reads=(same[0][1],))
        if near and self.level < LAST_LEVEL:
            where, n = near[0]
            self._refuse_other_choices(value)
            front = self._front(n, value) if self.level else None
            if front is not None and self._is_last(value):
                self._no_width(value, self._width(n, self.calls), self._width(value))
            return Choice(Same(where), Rung.SPLICE, width=True, front=front, reads=(n,))
        return self._adapter(call, value, near or sources)

    @cached_property
    def _states(self) -> States:
        """The states of a module that is called step by step."""
        return States(self.calls)

    def _refuse_other_choices(self, value: int) -> None:
        """Refuse another width where the model chooses among the channels: experts, which are as many as they are."""
        if any(
            chosen_along(self.trace.ops[n], self.flow, self.meaning, made)
            for made in self.flow.made_of(value)
            for n in self.flow.consumers[made]
        ):
            raise NoRule("DOES_NOT_FIT", f"the model chooses among its {self._width(value)} channels.")

    def _front(self, source: int, value: int) -> Front:
        """Return what has to be made as wide as an output."""
        shape, axis = self.trace.values[source].shape, self.meaning.width_axis(source, self.calls)
        return source, axis - len(shape), self._width(value)

    def _width(self, value: int, readers: Sequence[Call] = ()) -> int:
        shape = self.trace.values[value].shape
        return shape[self.meaning.width_axis(value, readers)] if shape else 1

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
        circle = self.joins.trigonometry(value)
        if circle:
            rule = Fill(1 if circle == "cos" else 0, self.meaning.dims(call, value))
            return Choice(rule, Rung.NEUTRAL, why="no rotation")
        joins = self.joins.of(value, call, self.calls, dropped=self._is_dropped(call, value))
        kinds = {join.kind for join in joins}
        if len(kinds) != 1 or not all(self._is_whole_branch(join) for join in joins):
            gate = self._open_gate(call, value) or self._beside_nothing(call, value, joins)
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

    def _with_all_of_it(self, call: Call, value: int, joins: list[Join]) -> Choice | None:
        """Return what drops a branch with all that is left in it, if that is asked for."""
        kinds = {join.kind for join in joins}
        if not self._is_dropped(call, value) or len(kinds) != 1 or not kinds <= NEUTRALS.keys() - COMPARED:
            return None
        rest = all(any(self.flow.depends_on_content(n) for n in join.others) for join in joins)
        return self._neutral_of(kinds.pop(), call, value) if rest else None

    def _is_dropped(self, call: Call, value: int) -> bool:
        return any(call.outputs.get(path) == value for path in self.dropped)

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
        ops = [self.trace.ops[n] for out in join.op.outputs for n in self.flow.consumers[out]]
        return bool(ops) and all(op.name == "sum" for op in ops)

    def _beside_nothing(self, call: Call, value: int, joins: list[Join]) -> Choice | None:
        """Return a 0 for a result that is added, if another one that is added ends a branch: both go."""
        if not joins or self._asking or any(join.kind != "add" for join in joins):
            return None
        self._asking = True
        others = [n for n in call.outputs.values() if n != value and self.flow.used_outside(n, [call])]
        found = [self._neutral(call, n) for n in others if self.trace.values[n].is_float]
        self._asking = False
        fills = [choice.rule for choice in found if choice and isinstance(choice.rule, Fill)]
        both = any(not fill.value and not fill.ones for fill in fills)
        rest = all(any(self.flow.depends_on_content(n) for n in join.others) for join in joins)
        if not both or not rest:
            return None
        return self._neutral_of("add", call, value)

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
        """Return an adapter from inputs; by default from the first that can lie where the output lay."""
        if not sources and self.learned:
            sources = [(where, n) for where, n in call.inputs.items() if self.flow.is_ancestor(n, value)][:1]
        if not sources:
            self._no_source(call, value)
            raise NoRule("DOES_NOT_FIT", "nothing that it is given is what it gives in another shape.")
        found: list[tuple[Path, int, Axes, Axes]] = []
        failures: list[str] = []
        for where, n in sources:
            try:
                beside = bool(found) and bool(self.starved)
                whole = self._is_whole(n)
                found.append((where, n, *laid(self.meaning, n, value, self.calls, whole_numbers=whole, beside=beside)))
            except CannotLie as reason:
                failures.append(str(reason))
            if (found and not self.starved) or (failures and self.starved):
                break
        to = found[0][3] if found else None
        if to is None or (self.starved and failures) or any(each[3] != to for each in found):
            why = failures[0] if failures else "its inputs lie in different ways"
            if self.starved:
                raise NoRule(
                    "NO_PATH", f"other layers would have no effect any more, and what they give cannot be added: {why}."
                )
            raise NoRule("DOES_NOT_FIT", f"no adapter brings what goes in into the shape of what it gives: {why}.")
        return self._fit(call, value, found, to)

    def _fit(self, call: Call, value: int, found: list[tuple[Path, int, Axes, Axes]], to: Axes) -> Choice:
        """Return an adapter, with the width that comes or the one that is wanted."""
        sources = tuple(Source(where, of) for where, _, of, _ in found)
        reads = tuple(n for _, n, *_ in found)
        dims = self.meaning.dims(call, value)
        if self.learned:
            return Choice(Fit(sources, dims, to, learned=LEARNED), Rung.LEARNED, reads=reads)
        widths = list(dict.fromkeys(self._width_of(n, of) for _, n, of, _ in found))
        here, there = widths[0], 1 if to.batch == to.width else self._width(value)
        if len(widths) > 1:
            return self._fit_each(call, value, found, to)
        if here != there and self.level < LAST_LEVEL:
            self._refuse_other_choices(value)
        if here == there or self.level == 0:  # the width that comes goes on, also where it is another one later on
            comes = found[0][2].width < len(self.trace.values[reads[0]].shape) and to.batch != to.width
            wide = Dim(here, found[0][0], found[0][2].width) if comes else Dim(here)
            if to.batch != to.width:
                dims = tuple(wide if axis == to.width else dim for axis, dim in enumerate(dims))
        if here == there:
            return Choice(Fit(sources, dims, to), Rung.ADAPTER, reads=reads)
        if self.level == 0 and to.batch != to.width:
            return Choice(Fit(sources, dims, to), Rung.ADAPTER, width=True, reads=reads)
        if self.level <= BESIDE and len(found) == 1 and here > 1 and not self._is_last(value):
            return Choice(
                Fit(sources, dims, to), Rung.ADAPTER, width=True, front=self._front(reads[0], value), reads=reads
            )
        added = self.joins.is_summand(value) and here < there
        if self.level < LAST_LEVEL and not added:
            self._no_width(value, here, there)
        self._refuse_doubled(call, value, reads)
        how: Literal["zeros", "again", "averaged"] = "zeros" if added else "averaged" if here > there else "again"
        said = CHANNELS[how].format(here=here, there=there)
        said += "; the model's result is made of them" * self._is_last(value)
        return Choice(Fit(sources, dims, to, channels=how), Rung.ADAPTER, reads=reads, why=said)

    def _fit_each(self, call: Call, value: int, found: list[tuple[Path, int, Axes, Axes]], to: Axes) -> Choice:
        """Return an adapter that adds up inputs of several widths: one has the output's, and the others get it."""
        sources = tuple(Source(where, of) for where, _, of, _ in found)
        reads, dims = tuple(n for _, n, *_ in found), self.meaning.dims(call, value)
        there = 1 if to.batch == to.width else self._width(value)
        others = [(n, here) for _, n, of, _ in found if (here := self._width_of(n, of)) != there]
        why = "other layers would have no effect any more, and what they give is of another width than the rest."
        if len(others) == len(found) or not all(
            self.flow.carries(n) for n, _ in others
        ):  # a state, and what comes next
            raise NoRule("NO_PATH", why)
        if self.level == BESIDE and len(others) == 1 and others[0][1] > 1 and not self._is_last(value):
            front = self._front(others[0][0], value)
            return Choice(Fit(sources, dims, to), Rung.ADAPTER, width=True, front=front, reads=reads)
        if self.level < LAST_LEVEL:
            raise NoRule("DOES_NOT_FIT", why)
        self._refuse_doubled(call, value, reads)
        said = [CHANNELS["averaged" if here > there else "again"].format(here=here, there=there) for _, here in others]
        said += ["the model's result is made of them"] * self._is_last(value)
        how: Literal["again", "averaged"] = "again" if any(here < there for _, here in others) else "averaged"
        return Choice(Fit(sources, dims, to, channels=how), Rung.ADAPTER, reads=reads, why="; ".join(said))

    def _refuse_doubled(self, call: Call, value: int, reads: tuple[int, ...]) -> None:
        """Refuse where what goes in is added in another shape already: it would come twice."""
        others = {other for join in self.joins.of(value, call, self.calls) for other in join.others}
        if any(others & (self.flow.made_of(n) - {n}) for n in reads):
            raise NoRule("DOES_NOT_FIT", "it is added to what is made of its own input alone, which would come twice.")

    def _is_whole(self, n: int) -> bool:
        return not self.trace.values[n].is_float

    def _width_of(self, n: int, axes: Axes) -> int:
        shape = self.trace.values[n].shape
        return 1 if axes.width == len(shape) or axes.batch == axes.width else shape[axes.width]

    def _no_width(self, value: int, here: int, there: int) -> NoReturn:
        """Refuse: channels have no neighbours that could be averaged."""
        if self._is_last(value):
            raise NoRule(
                "DOES_NOT_FIT",
                f"it gives the model's result its width: nothing without parameters makes {there} numbers of {here}. "
                'repair="learned" puts a small dense layer there.',
            )
        raise NoRule("DOES_NOT_FIT", f"nothing without parameters makes {there} channels of {here}.")

    def _is_last(self, value: int) -> bool:
        """Say whether a value becomes one of the model's results without another layer, or other content."""
        return not self.flow.made_of(value).isdisjoint(self.flow.ends)

    def _no_source(self, call: Call, value: int) -> None:
        ids = [n for n in call.inputs.values() if not self.trace.values[n].is_float]
        if any(self.flow.is_ancestor(n, value) for n in ids):
            raise NoRule(
                "NO_PATH",
                "it turns whole numbers into what the rest computes with, and nothing without parameters does that. "
                'repair="learned" puts a small learned adapter there.',
            )
