"""The rungs for one module that is called: the first whose shapes fit, with what else it takes.

What comes out is a step of a plan. Where no rung is left, it is told why the first width did not go.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from etude.core.errors import RefusalCode, RemovalRefused
from etude.frameworks.removal.choosing import Leaving
from etude.frameworks.removal.edits import Edit, StandIn
from etude.frameworks.removal.elsewhere import Elsewhere
from etude.frameworks.removal.fitting import Fitting, code_of
from etude.frameworks.removal.names import tied, under
from etude.frameworks.removal.parametrized import HOLDER
from etude.frameworks.removal.resize import Unresizable
from etude.frameworks.removal.rules import LAST_LEVEL, Choice
from etude.frameworks.removal.widths import Widened


@dataclass(frozen=True)
class Step:
    """What it takes to take out one thing.

    Attributes:
        edits: What is done.
        choices: What stands for each result.
        widened: What else changes with it.
        why: What is to be said of it.
        idle: Names of parameters that stay and have no effect any more.
        unread: Paths of modules without parameters that nothing reads any more.
        notes: What else is to be told.
    """

    edits: list[Edit]
    choices: list[Choice] = field(default_factory=list)
    widened: Widened = field(default_factory=Widened)
    why: str = ""
    idle: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Climb:
    """One module's way up the ladder.

    Attributes:
        model: A copy of the model, from which other modules may be gone.
        leaving: The module.
        fitting: Tries what fits.
        done: What was done before.
    """

    model: nn.Module
    leaving: Leaving
    fitting: Fitting
    done: list[Edit]

    def step(self) -> Step:
        """Return what takes the module's place.

        Raises:
            RemovalRefused: Nothing can.
        """
        leaving = self.leaving
        self._refuse_read_elsewhere()
        if HOLDER in leaving.path.split("."):
            why = "it makes a weight, and gives no result that anything could stand in for."
            raise RemovalRefused(RefusalCode.WITHOUT_CALL, leaving.what, why)
        failure = ""
        tried: list[tuple[StandIn, list[Choice]]] = []
        for level in range(LAST_LEVEL + (not leaving.learned)):  # a layer that learns is better than the last one
            try:
                edit, choices = _stand_in(leaving, level)
                if (edit, _flat(choices)) in tried:
                    continue
                tried.append((edit, _flat(choices)))
                widened = self._fitted(edit, choices)
            except RemovalRefused as none:
                _refuse(none, failure, again=level < LAST_LEVEL or leaving.learned)
                continue
            except Unresizable as why:
                failure = failure or str(why)
                continue
            self._refuse_read_elsewhere(choices)
            note = f"{leaving.what}: what reads it gets no other width, since {failure}"
            return Step(
                [edit, *widened.edits],
                _flat(choices),
                widened,
                idle=frozenset(leaving.idle(choices)),
                unread=tuple(leaving.unread(choices)),
                notes=(note,) if failure else (),
            )
        if not leaving.learned:
            raise RemovalRefused(code_of(failure), leaving.what, f"{failure}.")
        edit, choices = leaving.stand_in(level=LAST_LEVEL, learned=True)
        self._refuse_read_elsewhere(choices)
        return Step([edit], _flat(choices), self._fitted(edit, choices))

    def _fitted(self, edit: StandIn, choices: list[list[Choice]]) -> Widened:
        wide = any(choice.width for choice in _flat(choices))
        fronts = [[choice.front for choice in of_mode if choice.front] for of_mode in choices]
        leaving = self.leaving
        return self.fitting.fit(edit, leaving.modes, leaving.calls, self.done, wide=wide, fronts=fronts)

    def _refuse_read_elsewhere(self, choices: list[list[Choice]] | None = None) -> None:
        """Refuse a module whose parameters are used by others without calling it.

        Args:
            choices: What stands for it, once that is known.
        """
        leaving, shared = self.leaving, tied(self.model)
        for at, (mode, of_mode) in enumerate(zip(leaving.modes, leaving.calls, strict=True)):
            if not of_mode:
                continue
            for name, n in mode.trace.parameters.items():
                if not under(name, leaving.path) or name in shared or mode.trace.values[n].kind != "parameter":
                    continue
                elsewhere = Elsewhere(mode.flow, n, of_mode)
                if elsewhere.is_read or (choices is not None and elsewhere.is_missed(choices[at])):
                    raise RemovalRefused(RefusalCode.WITHOUT_CALL, leaving.what, f"{name} is also used without it.")


def _stand_in(leaving: Leaving, level: int) -> tuple[StandIn, list[list[Choice]]]:
    """Return a stand-in with which nothing loses its effect that should not, if there is one."""
    edit, choices = leaving.stand_in(level=level)
    starved = leaving.starved(choices)
    if starved:
        edit, choices = leaving.stand_in(level=level, starved=starved)
    doubled = leaving.doubled(choices)
    return _dropped(leaving, level, doubled) if doubled else (edit, choices)


def _dropped(leaving: Leaving, level: int, doubled: str) -> tuple[StandIn, list[list[Choice]]]:
    """Return a stand-in that drops a branch with all that is left in it, where identity would say something twice.

    Raises:
        RemovalRefused: Layers would lose all effect with it, or something is said twice all the same.
    """
    for results in leaving.droppable():
        edit, choices = leaving.stand_in(level=level, dropped=results)
        if not leaving.starved(choices) and not leaving.doubled(choices):
            return edit, choices
    why = f"without it one side of {doubled!r} would say what the other one says already, as in x + x"
    raise RemovalRefused(RefusalCode.DOES_NOT_FIT, leaving.what, f"{why}. Take away the block round both.")


def _refuse(none: RemovalRefused, failure: str, *, again: bool) -> None:
    """Refuse what nothing can stand in for, unless something else may."""
    if none.code is RefusalCode.DOES_NOT_FIT and again:
        return
    if none.code is RefusalCode.DOES_NOT_FIT and failure and not failure.startswith("the model would give"):
        why = f"{none.why} Nor does another width go: {failure}."
        raise RemovalRefused(code_of(failure), none.what, why) from None
    raise none


def _flat(choices: list[list[Choice]]) -> list[Choice]:
    return [choice for group in choices for choice in group]
