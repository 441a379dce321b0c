"""Functions that were written anew in a notebook or at a prompt, where an experiment still has the earlier ones.

Where the function and the experiment are made in different cells, running the first one again gives the name another
function and leaves the experiment as it was. Nothing breaks, and what was edited is not what runs.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any

PLAIN = bool | int | float | str | None


class Redefined:
    """Watches the functions that an experiment was made of, as far as their names stood for them then.

    Only what was written at a prompt or in a cell is watched, and only under its own name: what a function or a
    decorator made has none.

    Args:
        functions: The functions of an experiment, by role.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._watched: dict[str, Any] = {}
        for given in functions.values():
            thing = _inner(given)
            name = getattr(thing, "__qualname__", "")
            if getattr(thing, "__module__", "") == "__main__" and _called(name) is thing and name:
                self._watched[name] = thing

    def warn(self, *, stacklevel: int) -> None:
        """Warn of each function that does something else now than the one that the experiment has; of each once."""
        if not hasattr(sys, "ps1"):  # nobody runs a part of a script again
            return
        for name, had in list(self._watched.items()):
            now = _called(name)
            if now is had or type(now) is not type(had) or _does(now) == _does(had):
                continue
            del self._watched[name]
            warnings.warn(
                f"{name} was defined again, and this experiment still has the one before, which is what runs. "
                "Run the cell that makes the Experiment again.",
                stacklevel=stacklevel + 1,
            )


def _inner(given: Any) -> Any:
    return _inner(given.func) if isinstance(given, functools.partial) else given


def _called(name: str) -> Any:
    return vars(sys.modules["__main__"]).get(name)


def _does(thing: Any) -> Any:
    """Return what a function or a class does, in a form that compares: a cell that is only run again changes nothing.

    Values of other kinds than plain ones are left out: nobody can tell whether those are the same.
    """
    from etude.definition.meaning import bytecode

    if isinstance(thing, type):
        return {name: _does(inner) for name, inner in vars(thing).items() if isinstance(inner, types.FunctionType)}
    function = inspect.unwrap(thing)
    code = getattr(function, "__code__", None)
    defaults = [*(getattr(function, "__defaults__", None) or ())]
    defaults += (getattr(function, "__kwdefaults__", None) or {}).values()
    shown = [repr(value) if isinstance(value, PLAIN) else "" for value in defaults]
    return (bytecode(code) if code is not None else None, shown)
