"""Which branch a component lies in, and what joins it: a branch that is left without anything in it is dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from etude.frameworks.keras_removal.edits import Output
from etude.frameworks.keras_removal.graph import Call, Graph, has_graph
from etude.frameworks.keras_removal.kinds import FREE, NORMS, is_of_keras, joins, mixes
from etude.frameworks.keras_removal.neutral import changes_neutral, is_gating


class Region(NamedTuple):
    """Calls that go and hang together.

    Attributes:
        calls: They, in order.
        inputs: What they are given from outside.
        outputs: What others use of them.
    """

    calls: tuple[Call, ...]
    inputs: tuple[Output, ...]
    outputs: tuple[Output, ...]


class Branch(NamedTuple):
    """A branch that is dropped.

    Attributes:
        join: What joins it with others.
        kept: Which of its operands are left.
        lost: Calls that have no effect any more.
    """

    join: Call
    kept: tuple[int, ...]
    lost: tuple[Call, ...]


def regions(graph: Graph, gone: set[int]) -> list[Region]:
    """Return the regions that calls make up, the last one first."""
    left = set(gone)
    found = []
    while left:
        mine, reached = {max(left)}, [max(left)]
        while reached:
            call = graph.calls[reached.pop()]
            near = [graph.made[output].n for output in call.inputs]
            near += [user.n for output in call.outputs for user in graph.used[output]]
            new = [n for n in near if n in left and n not in mine]
            mine.update(new)
            reached += new
        left -= mine
        calls = tuple(graph.calls[n] for n in sorted(mine))
        given = dict.fromkeys(o for call in calls for o in call.inputs if graph.made[o].n not in mine)
        used = [
            output
            for call in calls
            for output in call.outputs
            if output in graph.results or any(user.n not in mine for user in graph.used[output])
        ]
        found.append(Region(calls, tuple(given), tuple(used)))
    return sorted(found, key=lambda region: -region.calls[0].n)


class MeetingError(Exception):
    """A branch meets others, and what is left without it is not known."""


def dropped(graph: Graph, region: Region, gone: set[int]) -> Branch | None:
    """Return the branch that is dropped with a region; None if it is in none, or others of its layers are left.

    A branch is what only one operand of a join depends on. It begins somewhere inside: a branch that an input of the
    model enters is none, for that input would lead nowhere.

    Raises:
        MeetingError: Identity would add, multiply or compare what goes in with itself, and nothing can be dropped.
    """
    for meeting in meetings(graph, region, gone):
        where = f"what it gives meets a branch beside it in {meeting.join.operation.name}, a {meeting.join.kind}"
        if not joins(meeting.join.operation):
            raise MeetingError(f"{where}, and it is not known what that does without one of them. {_MEND}")
        if (found := _without(graph, region, meeting, gone, where)) is not None:
            return found
    for meeting in _gated(graph, region):
        where = f"what it gives is a factor in {meeting.join.operation.name}"
        if (found := _without(graph, region, meeting, gone, where, is_gate=True)) is not None:
            return found
    return None


def _without(
    graph: Graph, region: Region, meeting: Meeting, gone: set[int], where: str, *, is_gate: bool = False
) -> Branch | None:
    """Return the branch that a join does without; None if other layers are left in it, so that it still is one.

    What feeds a gate has no effect without it.

    Raises:
        MeetingError: It cannot do without.
    """
    join, mine, kept = meeting
    others = graph.upstream(tuple(join.inputs[k] for k in kept))
    only = graph.upstream(tuple(join.inputs[k] for k in mine)) - others
    left = [graph.calls[n] for n in sorted(only - gone)]
    before = graph.upstream(region.inputs)
    if not is_gate and any(mixes(call.operation) for call in left if call.n in before):
        return None
    after = graph.downstream(region.outputs)
    between = after - graph.downstream(join.outputs) - {join.n}
    given = [*region.outputs, *(output for n in between for output in graph.calls[n].outputs)]
    loose = [c for c in left if any(u.n not in only | {join.n} for o in c.outputs for u in graph.used[o])]
    if loose or not between <= only or any(output in graph.results for output in given):
        raise MeetingError(f"{where}, and is used elsewhere too. {_MEND}")
    if any(call.is_input or (mixes(call.operation) and not (is_gate and call.n in before)) for call in left):
        raise MeetingError(f"{where}, together with others that would have no effect any more. {_MEND}")
    if join.kind == "Subtract" and 0 in mine:
        raise MeetingError(f"{where}, from which it is subtracted: nothing but its negative would be left. {_MEND}")
    for call in left:
        if call.n in after and (why := changes_neutral(call, join.kind)):
            raise MeetingError(f"{where}, and {why}.")
    return Branch(join, kept, tuple(left))


def _gated(graph: Graph, region: Region) -> Iterator[Meeting]:
    """Yield products in which what a region gives is a gate: between 0 and 1, and 1 without it.

    Where the activation stays, and what goes in is as wide as what came out, that makes a gate instead.
    """
    [output] = region.outputs if len(region.outputs) == 1 else [None]
    if output is None:
        return
    widths = {graph.shape(one)[-1:] for one in region.inputs}
    is_gate = is_gating(graph.made[output])
    stays = not is_gate and widths == {graph.shape(output)[-1:]}
    while not stays:
        users = graph.used[output]
        if len(users) != 1 or output in graph.results or len(users[0].outputs) != 1:
            return
        [call] = users
        if len(call.inputs) > 1:
            mine = tuple(n for n, one in enumerate(call.inputs) if one == output)
            kept = tuple(n for n in range(len(call.inputs)) if n not in mine)
            if is_gate and kept and call.kind == "Multiply" and joins(call.operation):
                yield Meeting(call, mine, kept)
            return
        if mixes(call.operation) or not call.inputs:
            return
        is_gate = is_gate or is_gating(call)
        [output] = call.outputs


def only_added(graph: Graph, output: Output) -> bool:
    """Whether nothing but additions reads a tensor, so that zeros in it change nothing there."""
    waiting = [output]
    while waiting:
        one = waiting.pop()
        if one in graph.results or not graph.used[one]:
            return False
        for call in graph.used[one]:
            if call.kind == "Add" and joins(call.operation) and len(call.inputs) > 1:
                continue
            passes_zeros = call.kind in FREE - NORMS | {"BatchNormalization"} and not changes_neutral(call, "Add")
            if not passes_zeros or len(call.inputs) > 1:
                return False
            waiting += call.outputs
    return True


_MEND = (
    "Join branches with layers.Add, Subtract (as the second), Multiply, Average, Maximum, Minimum or Concatenate, take "
    "out the block that holds both, or give variants: etude.custom(name, model=...)."
)


class Meeting(NamedTuple):
    """What a region gives meets what goes past it.

    Attributes:
        join: Where.
        mine: Which of its operands depend on the region.
        kept: Which do not.
    """

    join: Call
    mine: tuple[int, ...]
    kept: tuple[int, ...]


def meetings(graph: Graph, region: Region, gone: set[int]) -> Iterator[Meeting]:
    """Yield where a region meets a path that comes from what goes into it, no layer that mixes being in between."""
    carried, below = set(region.outputs), graph.downstream(region.outputs) | {call.n for call in region.calls}
    given = sources(graph, region, gone)
    for call in graph.calls:
        if call in region.calls or carried.isdisjoint(call.inputs):
            continue
        mine = tuple(k for k, output in enumerate(call.inputs) if graph.made[output].n in below)
        kept = tuple(k for k in range(len(call.inputs)) if k not in mine)
        is_mixed = mixes(call.operation)
        if kept and not (is_mixed and is_of_keras(call.operation) and not has_graph(call.operation)):
            others = graph.upstream(tuple(call.inputs[k] for k in kept))
            if any(graph.made[output].n in others for output in given):
                yield Meeting(call, mine, kept)
        if not is_mixed:
            carried.update(call.outputs)


def sources(graph: Graph, region: Region, gone: set[int]) -> set[Output]:
    """Return the tensors that enter a region, and those that they come from without a layer that mixes in between."""
    found: set[Output] = set()
    left = list(region.inputs)
    while left:
        output = left.pop()
        if output not in found:
            found.add(output)
            call = graph.made[output]
            if call.n in gone or not mixes(call.operation):
                left += call.inputs
    return found


def passes(graph: Graph, region: Region, gone: set[int]) -> bool:
    """Whether a model that is left without a region gives what goes in, no layer that mixes being in between."""
    if not any(graph.made[output].is_input for output in sources(graph, region, gone)):
        return False
    carried = set(region.outputs)
    for call in graph.calls:
        if not carried.isdisjoint(call.inputs) and (call.n in gone or not mixes(call.operation)):
            carried.update(call.outputs)
    return not carried.isdisjoint(graph.results)
