"""Whether what takes a place fits: level by level, with as little else rebuilt as does.

First what goes in takes the place as it is: other numbers of positions are followed, and what reads other channels is
rebuilt. Then positions are averaged. Then the layers in front are built with the width that went out, so that what
reads it stays as it is. Then, in front of an addition, zeros stand for the channels that are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.rungs import Rung
from etude.frameworks.keras_removal.adapters import Adapters, why_last
from etude.frameworks.keras_removal.branches import only_added
from etude.frameworks.keras_removal.edits import Instead, Output, Resize
from etude.frameworks.keras_removal.graph import Call, Graph
from etude.frameworks.keras_removal.kinds import Columns
from etude.frameworks.keras_removal.sizes import Sizes
from etude.frameworks.keras_removal.widths import CoupledError, MisfitError, Widths, drawn

TOO_MUCH: Final = 0.2
"""No more than this share of the parameters that are left may be drawn anew."""


class Level(NamedTuple):
    """What may be done where shapes differ.

    Attributes:
        front: Layers in front get the width that went out.
        positions: Positions are averaged.
        zeros: Zeros stand for channels in front of an addition.
        learned: A dense layer brings it into shape.
    """

    front: bool = False
    positions: bool = False
    zeros: bool = False
    learned: bool = False


PLAIN: Final = Level()
LEVELS: Final = (
    PLAIN,
    Level(positions=True),
    Level(front=True),
    Level(front=True, positions=True),
    Level(positions=True, zeros=True),
)
LEVELS_LEARNED: Final = (PLAIN, Level(learned=True))


class Fitted(NamedTuple):
    """What fits.

    Attributes:
        instead: What takes the place of tensors.
        resizes: What is rebuilt for that.
        rung: How deep it cuts.
    """

    instead: dict[Output, Instead]
    resizes: list[Resize]
    rung: Rung


class Fitting:
    """Finds what else has to change for tensors that take the place of others.

    Args:
        graph: The graph.
        adapters: What brings tensors into shape.
        joins: Which of their operands are left to calls.
        cuts: Which outputs layers have by decision, by their places.
    """

    def __init__(
        self,
        graph: Graph,
        adapters: Adapters,
        joins: Mapping[Output, tuple[int, ...]],
        cuts: Mapping[int, Columns],
    ) -> None:
        self._graph, self._adapters, self._joins, self._cuts = graph, adapters, joins, cuts

    def fit(self, plain: Mapping[Output, Instead], rung: Rung) -> Fitted:
        """Return what fits, on the first level that does.

        Args:
            plain: What takes the place of tensors, as it is where it can.
            rung: How deep it cuts as yet.

        Raises:
            RemovalRefused: Nothing fits.
        """
        refused: tuple[RefusalCode, str] | None = None
        for level in LEVELS_LEARNED if self._adapters.learned else LEVELS:
            if not self._is_possible(level, plain.values()):
                continue
            try:
                instead = {of: self._brought(one, level) for of, one in plain.items()}
                front = [one for one in plain.values() if level.front and self._has_other_width(one)]
                resizes, coupled = self._resized(instead, front)
                share = self._share(instead, resizes)
                if share > TOO_MUCH:
                    refused = refused or (RefusalCode.TOO_MUCH, f"{share:.0%} of what is left would be drawn anew.")
                    continue
            except MisfitError as misfit:
                refused = refused or (RefusalCode.DOES_NOT_FIT, f"{misfit}.")
            except RemovalRefused as one:
                refused = refused or (one.code, one.why)
            else:
                return Fitted(instead, resizes, self._rung(rung, instead, resizes, coupled=coupled or bool(front)))
        assert refused is not None
        code, why = refused
        if said := next(filter(None, map(self._why_last, plain.values())), ""):
            code, why = RefusalCode.DOES_NOT_FIT, said
        raise RemovalRefused(code, self._adapters.what, why)

    # --- levels -----------------------------------------------------------------------------------

    def _is_possible(self, level: Level, plain: Iterable[Instead]) -> bool:
        """Whether there is anything that a level could do."""
        wide = [one for one in plain if self._has_other_width(one)]
        moved = [one for one in plain if self._has_other_positions(one)]
        if level.zeros:
            narrow = [one for one in wide if self._is_narrow(one)]
            return bool(narrow) and all(only_added(self._graph, one.of) for one in narrow)
        if level.front and not (wide and all(len(one.sources) == 1 and not self._why_last(one) for one in wide)):
            return False
        if level.learned:
            return any(one.shape is None for one in wide) or bool(moved)
        return bool(moved) or not level.positions

    def _has_other_width(self, one: Instead) -> bool:
        brings_its_own = one.shape is None or one.shape[-1:] == (None,)
        return brings_its_own and self._graph.shape(one.sources[0])[-1:] != self._graph.shape(one.of)[-1:]

    def _has_other_positions(self, one: Instead) -> bool:
        return one.shape is None and self._graph.shape(one.sources[0])[:-1] != self._graph.shape(one.of)[:-1]

    def _is_narrow(self, one: Instead) -> bool:
        here, wanted = self._graph.shape(one.sources[0]), self._graph.shape(one.of)
        return one.shape is None and (here[-1] or 0) < (wanted[-1] or 0)

    def _why_last(self, one: Instead) -> str:
        return why_last(self._graph, one.sources[0], one.of)

    def _brought(self, one: Instead, level: Level) -> Instead:
        """Return what takes a place on a level."""
        other, narrow = self._has_other_positions(one), level.zeros and self._is_narrow(one)
        if level.learned and one.shape is None and (other or self._has_other_width(one)):
            return self._adapters.bring(one.of, one.sources, self._graph.shape(one.of))
        if narrow or (level.positions and other):
            return self._adapters.average(one.of, one.sources, zeros=narrow)
        return one

    def _rung(self, rung: Rung, instead: Mapping[Output, Instead], resizes: list[Resize], *, coupled: bool) -> Rung:
        if any(one.shape is not None for one in instead.values()):
            return Rung.LEARNED if self._adapters.learned else Rung.ADAPTER
        if resizes:
            return max(rung, Rung.WIDTH if coupled else Rung.SPLICE)
        return rung

    # --- widths -----------------------------------------------------------------------------------

    def _resized(self, instead: Mapping[Output, Instead], front: list[Instead]) -> tuple[list[Resize], bool]:
        """Return what is rebuilt, and whether layers that are coupled get another width.

        Raises:
            MisfitError: There are no widths that fit.
        """
        plain = {of: one.sources[0] for of, one in instead.items() if one.shape is None or one.shape[-1] is None}
        for output, kept in self._joins.items():
            if len(kept) == 1 and self._graph.made[output].kind != "Concatenate":
                plain[output] = self._graph.made[output].inputs[kept[0]]
        joins = {output: kept for output, kept in self._joins.items() if output not in plain}
        brought = {output for output, one in instead.items() if one.shape is not None}
        fixed, left = brought - plain.keys(), self._left(instead)
        flat = Sizes(self._graph, plain, joins, left, brought).flat
        widths = Widths(self._graph, plain, joins, left, fixed, flat)
        outputs, coupled = dict(self._cuts), False
        for one in front:
            columns: Columns = (None,) * int(self._graph.shape(one.of)[-1] or 0)
            _widen(outputs, widths.producers(one.sources[0]), columns, again=True)
        for _ in range(len(self._graph.calls)):
            try:
                widths.follow(outputs)
            except CoupledError as meet:
                coupled = True
                calls = [call for operand in meet.operands for call in widths.producers(operand)]
                if not calls:
                    raise MisfitError("operands of different widths meet") from None
                _widen(outputs, calls, meet.columns)
            else:
                return widths.resizes(), coupled
        raise MisfitError("widths do not settle")

    def _left(self, instead: Mapping[Output, Instead]) -> set[int]:
        return self._graph.left({of: one.sources for of, one in instead.items()}, self._joins)

    def _share(self, instead: Mapping[Output, Instead], resizes: list[Resize]) -> float:
        total, new = counted(self._graph, self._left(instead), resizes)
        return new / max(total, 1)


def _widen(outputs: dict[int, Columns], calls: list[Call], columns: Columns, *, again: bool = False) -> None:
    """Give layers other outputs.

    Args:
        outputs: Which outputs layers have by decision, by their places.
        calls: Of the layers.
        columns: Their outputs then.
        again: Whether one may be given the same ones twice.

    Raises:
        MisfitError: One of them has others.
    """
    for call in calls:
        if call.place in outputs and not (again and outputs[call.place] == columns):
            raise MisfitError(f"{call.operation.name} would need two widths")
        outputs[call.place] = columns


def counted(graph: Graph, left: set[int], resizes: Iterable[Resize]) -> tuple[int, int]:
    """Return how many parameters are left, and how many of them are drawn anew.

    Args:
        graph: The graph.
        left: Numbers of the calls that are left.
        resizes: What is rebuilt.
    """
    by_place = {one.operation: one for one in resizes}
    total = new = 0
    for place in {graph.calls[n].place for n in left}:
        operation = graph.operations[place]
        if place in by_place:
            some, drawn_anew, _ = drawn(operation, by_place[place])
            total, new = total + some, new + drawn_anew
        elif hasattr(operation, "count_params"):
            total += operation.count_params()
    return total, new
