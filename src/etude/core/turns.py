"""What is computed from a table of states and turns: what follows, what it would take instead, and its picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TypeVar

from etude.core.errors import TransitionError

S = TypeVar("S", bound=Enum)
T = TypeVar("T", bound=Enum)


def following(table: Mapping[tuple[S, T], S], state: S, turn: T, *, of: str) -> S:
    """Return the state that follows ``state`` when ``turn`` happens.

    Args:
        table: The states that follow.
        state: The state now.
        turn: What happens.
        of: Of what, for the message: ``trial 7``.

    Raises:
        TransitionError: The table has no such row; the message lists what could happen instead.
    """
    try:
        return table[state, turn]
    except KeyError:
        takes = ", ".join(t.value for s, t in table if s is state) or "nothing, it is final"
        raise TransitionError(f"{of} is {state.value}, and got {turn.value!r}. From here it takes: {takes}.") from None


def drawn(table: Mapping[tuple[S, T], S], *, begins: S, ends: Iterable[S]) -> str:
    """Return a table as a Mermaid state diagram, for the docs.

    Args:
        table: The states that follow.
        begins: The first state.
        ends: Those that nothing leads out of, in the order in which they are told.
    """

    def name(state: S) -> str:
        return str(state.value).replace(" ", "_")

    lines = ["stateDiagram-v2", f"    [*] --> {name(begins)}"]
    lines += [f"    {name(state)} --> {name(to)}: {turn.value}" for (state, turn), to in table.items()]
    lines += [f"    {name(state)} --> [*]" for state in ends]
    return "\n".join(lines)
