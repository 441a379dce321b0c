"""Telling when the program has imported a library: only then is it looked at, and never is it imported by us."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

Told = Callable[[Any], object]


class Told_when_imported:  # noqa: N801 - it is no name that anybody else uses
    """A finder that finds nothing by itself: it has others find a module, and says when that was run.

    Args:
        told: Name of a module -> who is told of it, with the module.
    """

    def __init__(self, told: dict[str, Told]) -> None:
        self._told = told

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return how a module of ours is loaded; None for all others."""
        told = self._told.pop(name, None)  # it is asked once, and so the others can be asked from here
        if told is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            told(module)

        try:
            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:  # a loader that may not be touched
            return None
        return spec


def tell(told: dict[str, Told]) -> None:
    """Tell somebody of each module, when it is imported, or now if it was already."""
    waiting = {}
    for name, one in told.items():
        if name in sys.modules:
            one(sys.modules[name])
        else:
            waiting[name] = one
    sys.meta_path.insert(0, Told_when_imported(waiting))
