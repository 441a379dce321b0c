"""What brings inputs into the shape of what a removed module gave: adapters, other widths, more or fewer channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

from etude.core.rungs import Rung
from etude.frameworks.removal.choices import chosen_along
from etude.frameworks.removal.edits import Axes, Dim, Fit, Same, Source
from etude.frameworks.removal.flow import Flow
from etude.frameworks.removal.joins import Joins
from etude.frameworks.removal.laying import CannotLie, laid
from etude.frameworks.removal.meaning import Meaning
from etude.frameworks.removal.nested import Path
from etude.frameworks.removal.rules import BESIDE, LAST_LEVEL, Choice, Front, NoRule
from etude.frameworks.removal.trace import Call

LEARNED: Final = "adapter"
CHANNELS: Final = {
    "zeros": "zeros beside its channels",
    "again": "its {here} channels again from the first on, up to {there}",
    "averaged": "its {here} channels averaged to {there}",
}


@dataclass(frozen=True)
class Shaping:
    """Brings inputs of a module into the shape of its results.

    Attributes:
        flow: A run's data flow.
        joins: Where its values meet.
        meaning: What its axes mean.
        calls: Calls of the module that goes.
        level: Where another width may come out; see ``rules.LAST_LEVEL``.
        learned: Whether an adapter may be learned.
        starved: Whether something would have no effect any more, so that all inputs must be read.
    """

    flow: Flow
    joins: Joins
    meaning: Meaning
    calls: list[Call]
    level: int = 0
    learned: bool = False
    starved: bool = False

    def respliced(self, where: Path, n: int, value: int) -> Choice:
        """Return an input as it is in place of an output of another width.

        Args:
            where: The input.
            n: Its value.
            value: The output.

        Raises:
            NoRule: The width cannot change.
        """
        self._refuse_other_choices(value)
        front = self._front(n, value) if self.level else None
        if front is not None and self._is_last(value):
            self._no_width(value, self._width(n, self.calls), self._width(value))
        return Choice(Same(where), Rung.SPLICE, width=True, front=front, reads=(n,))

    def adapted(self, call: Call, value: int, sources: list[tuple[Path, int]]) -> Choice:
        """Return an adapter from inputs; by default from the first that can lie where the output lay.

        Args:
            call: A call.
            value: What it gives.
            sources: Inputs that it depends on, the best first.

        Raises:
            NoRule: None of them can, or not all where all must be read.
        """
        if not sources and self.learned:
            sources = [(where, n) for where, n in call.inputs.items() if self.flow.is_ancestor(n, value)][:1]
        if not sources:
            self._no_source(call, value)
            raise NoRule("DOES_NOT_FIT", "nothing that it is given is what it gives in another shape.")
        found: list[tuple[Path, int, Axes, Axes]] = []
        failures: list[str] = []
        for where, n in sources:
            try:
                beside = bool(found) and self.starved
                whole = not self.flow.trace.values[n].is_float
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

    def _no_source(self, call: Call, value: int) -> None:
        ids = [n for n in call.inputs.values() if not self.flow.trace.values[n].is_float]
        if any(self.flow.is_ancestor(n, value) for n in ids):
            raise NoRule(
                "NO_PATH",
                "it turns whole numbers into what the rest computes with, and nothing without parameters does that. "
                'repair="learned" puts a small learned adapter there.',
            )

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
            comes = found[0][2].width < len(self.flow.trace.values[reads[0]].shape) and to.batch != to.width
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
        carried = all(self.flow.carries(n) for n, _ in others)  # else a state, and what comes next
        if len(others) == len(found) or not carried:
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

    def _front(self, source: int, value: int) -> Front:
        """Return what has to be made as wide as an output."""
        shape, axis = self.flow.trace.values[source].shape, self.meaning.width_axis(source, self.calls)
        return source, axis - len(shape), self._width(value)

    def _width(self, value: int, readers: Sequence[Call] = ()) -> int:
        shape = self.flow.trace.values[value].shape
        return shape[self.meaning.width_axis(value, readers)] if shape else 1

    def _width_of(self, n: int, axes: Axes) -> int:
        return axes.width_in(self.flow.trace.values[n].shape)

    def _is_last(self, value: int) -> bool:
        """Say whether a value becomes one of the model's results without another layer, or other content."""
        return not self.flow.made_of(value).isdisjoint(self.flow.ends)

    def _refuse_other_choices(self, value: int) -> None:
        """Refuse another width where the model chooses among the channels: experts, which are as many as they are."""
        if any(
            chosen_along(self.flow.trace.ops[n], self.flow, self.meaning, made)
            for made in self.flow.made_of(value)
            for n in self.flow.consumers[made]
        ):
            raise NoRule("DOES_NOT_FIT", f"the model chooses among its {self._width(value)} channels.")

    def _refuse_doubled(self, call: Call, value: int, reads: tuple[int, ...]) -> None:
        """Refuse where what goes in is added in another shape already: it would come twice."""
        others = {other for join in self.joins.of(value, call, self.calls) for other in join.others}
        if any(others & (self.flow.made_of(n) - {n}) for n in reads):
            raise NoRule("DOES_NOT_FIT", "it is added to what is made of its own input alone, which would come twice.")

    def _no_width(self, value: int, here: int, there: int) -> NoReturn:
        """Refuse: channels have no neighbours that could be averaged."""
        if self._is_last(value):
            raise NoRule(
                "DOES_NOT_FIT",
                f"it gives the model's result its width: nothing without parameters makes {there} numbers of {here}. "
                'repair="learned" puts a small dense layer there.',
            )
        raise NoRule("DOES_NOT_FIT", f"nothing without parameters makes {there} channels of {here}.")
