"""How an input is laid on the shape of an output: which of its positions are which of the output's.

What has no order is never averaged or repeated, and no kind of axis is taken for another one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from etude.frameworks.removal.edits import Axes, Place
from etude.frameworks.removal.meaning import Meaning
from etude.frameworks.removal.positions import Positions
from etude.frameworks.removal.sameness import Axis
from etude.frameworks.removal.trace import Call


class CannotLie(Exception):  # noqa: N818 - it becomes a refusal
    """An input cannot be laid on the shape of an output; says why, as a sentence without its end."""


_Name: TypeAlias = tuple[tuple[int, ...], int]
"""Labels of positions, and which one it is of several axes that have the same: of pairs of atoms, say."""


class _Run(NamedTuple):
    """An axis, or a part of it: what it consists of."""

    axis: int
    of: Axis
    nth: int = 0

    @property
    def labels(self) -> tuple[int, ...]:
        return tuple(label for label, _ in self.of)

    @property
    def name(self) -> _Name:
        return self.labels, self.nth

    @property
    def size(self) -> int:
        return math.prod(size for _, size in self.of)


def laid(
    meaning: Meaning,
    source: int,
    value: int,
    calls: Sequence[Call],
    *,
    whole_numbers: bool = False,
    beside: bool = False,
) -> tuple[Axes, Axes]:
    """Return what the axes of an input and of an output mean, with the places that both have.

    Args:
        meaning: What the axes of a run mean.
        source: The input.
        value: The output.
        calls: Calls of the module that gave it.
        whole_numbers: Whether the input has no channels: each of its numbers stands for a token.
        beside: Whether another input has the output's positions, and the mean over those of this one goes to all of
            them. So it is where all that is attended to counts the same.

    Raises:
        CannotLie: It cannot be.
    """
    of, to = meaning.axes(source, calls), meaning.axes(value)
    if of is None or to is None or (of.batch is not None and to.batch is None):
        raise CannotLie("its examples cannot be told apart")
    if whole_numbers:
        of = Axes(of.batch, of.each, len(meaning.positions.of(source)))
    known = meaning.positions
    if not meaning.has_channels(source) and _are_all_positions(known, (source, of), (value, to)):
        of = Axes(of.batch, of.each, len(known.of(source)))
    mine, its = _runs(known, source, of), _runs(known, value, to)
    mine, its = _taken_apart(mine, its), _taken_apart(its, mine)
    _refuse_pairs(mine, its)
    _refuse_channels(known, (source, of, mine), (value, to, its))
    takes = {run.name: known.taken(run.of, calls) for run in mine if run.name not in _names(its)}
    spread = beside and _is_read_as_a_whole(meaning, mine, its)
    _refuse_sets(known, mine, its, takes, spread=spread)
    number = {name: n for n, name in enumerate(dict.fromkeys([*_names(its), *_names(mine)]))}
    return _with(of, mine, number, takes), _with(to, its, number, {})


def _are_all_positions(known: Positions, source: tuple[int, Axes], value: tuple[int, Axes]) -> bool:
    """Say whether all axes of an input are positions of an output: each of its numbers stands for itself, then."""
    (_, of), (_, to) = source, value
    mine = {label for n, axis in enumerate(known.of(source[0])) if n != of.batch for label, _ in axis}
    its = {label for n, axis in enumerate(known.of(value[0])) if n not in (to.batch, to.width) for label, _ in axis}
    return bool(mine) and mine <= its


def _runs(known: Positions, value: int, axes: Axes) -> list[_Run]:
    """Return the positions of a value, in the order in which an adapter takes them apart."""
    found = known.of(value)
    runs = []
    if axes.batch is not None and axes.each > 1:
        runs.append(_Run(axes.batch, found[axes.batch][1:]))
        if runs[0].size != axes.each:
            raise CannotLie("its examples cannot be told apart")
    rest = [axis for axis in range(len(found)) if axis not in (axes.batch, axes.width)]
    return runs + [_Run(axis, found[axis]) for axis in rest]


def _taken_apart(runs: list[_Run], others: list[_Run]) -> list[_Run]:
    """Take axes apart of which the other side has a part, or in another order."""
    whole = {run.of for run in others}
    labels = {label for run in others for label in run.labels}
    found = []
    for run in runs:
        apart = run.of not in whole and labels.intersection(run.labels)
        found += [_Run(run.axis, (atom,)) for atom in run.of] if apart else [run]
    seen = Counter[tuple[int, ...]]()
    for n, run in enumerate(found):
        found[n] = _Run(run.axis, run.of, seen[run.labels])
        seen[run.labels] += 1
    return found


def _refuse_pairs(mine: list[_Run], its: list[_Run]) -> None:
    """Refuse axes of the same positions, unless both sides have as many of them, in their order."""
    had, has = (Counter(run.labels for run in runs) for runs in (mine, its))
    if any(count > 1 and had[labels] != has[labels] for labels, count in (had | has).items()):
        raise CannotLie("two of its axes are the same positions")


def _names(runs: list[_Run]) -> list[_Name]:
    return [run.name for run in runs]


def _refuse_channels(known: Positions, *sides: tuple[int, Axes, list[_Run]]) -> None:
    """Refuse where positions of one side are the channels of the other one."""
    for (value, axes, _), (_, _, others) in zip(sides, sides[::-1], strict=True):
        found = known.of(value)
        width = {label for label, size in found[axes.width] if size > 1} if axes.width < len(found) else set[int]()
        if any(width.intersection(run.labels) for run in others):
            raise CannotLie("what are channels in one of the two are positions in the other")


def _is_read_as_a_whole(meaning: Meaning, mine: list[_Run], its: list[_Run]) -> bool:
    """Say whether all positions that only the input has are such over which the model itself takes sums."""
    lost = [run for run in mine if run.name not in _names(its) and run.size > 1]
    return all(label in meaning.attended or meaning.positions.is_pooled(label) for run in lost for label in run.labels)


def _refuse_sets(
    known: Positions, mine: list[_Run], its: list[_Run], takes: dict[_Name, int | None], *, spread: bool = False
) -> None:
    """Refuse to average or repeat what has no neighbours, and to lose positions where others are wanted."""
    before = {run.name: run.size for run in mine}
    after = {run.name: run.size for run in its}
    lost = [run for run in mine if run.name not in after and run.size > 1]
    for run in lost:
        if takes[run.name] is None and not spread and not all(map(known.is_pooled, run.labels)):
            raise CannotLie(f"{run.size} entries would be averaged that have no order")
    for run in its:
        had = before.get(run.name)
        if had is None and run.size > 1 and lost and not spread and not all(map(known.is_made, run.labels)):
            raise CannotLie("it has other positions than what goes in")
        if had in (None, 1, run.size):
            continue
        if not all(map(known.is_pooled if run.size == 1 else known.has_neighbours, run.labels)):
            raise CannotLie(f"{had} entries that have no order would become {run.size}")


def _with(axes: Axes, runs: list[_Run], number: dict[_Name, int], takes: dict[_Name, int | None]) -> Axes:
    """Return axes with their places: those that an axis has to itself are as long as it is."""
    axis_of = [run.axis for run in runs]
    places = []
    for run in runs:
        alone = axis_of.count(run.axis) == 1 and run.axis != axes.batch
        places.append(Place(run.axis, number[run.name], 0 if alone else run.size, takes.get(run.name)))
    return Axes(axes.batch, axes.each, axes.width, tuple(places))
