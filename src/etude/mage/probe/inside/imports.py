"""Telling when the program has imported a library: only then is it looked at, and never is it imported by us.

Large libraries call millions of functions of their own when they are imported. Nobody is told of these.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

Told = Callable[[Any], object]
UNTRACED = (
    *("torch", "torch._dynamo", "torchvision", "transformers", "lightning"),  # PyTorch imports its compiler late
    *("numpy", "scipy", "pandas", "sklearn", "xgboost", "lightgbm", "matplotlib", "tensorflow", "keras", "jax"),
)
"""Libraries whose imports are not traced."""


class Told_when_imported:  # noqa: N801 - it is no name that anybody else uses
    """A finder that finds nothing by itself: it has others find a module, and says when that was run.

    Args:
        told: Name of a module -> who is told of it, with the module; None if nobody is, and it is not to be traced.
    """

    def __init__(self, told: dict[str, Told | None]) -> None:
        self._told = told

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return how a module of ours is loaded; None for all others."""
        if name not in self._told:
            return None
        told = self._told.pop(name)  # it is asked once, and so the others can be asked from here
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            _untraced(run, module)
            if told is not None:
                told(module)

        try:
            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:  # a loader that may not be touched
            return None
        return spec


def tell(told: dict[str, Told]) -> None:
    """Tell somebody of each module, when it is imported, or now if it was already."""
    waiting: dict[str, Told | None] = {name: None for name in UNTRACED if name not in sys.modules}
    for name, one in told.items():
        if name in sys.modules:
            one(sys.modules[name])
        else:
            waiting[name] = one
    sys.meta_path.insert(0, Told_when_imported(waiting))


def _untraced(run: Told, module: Any) -> None:
    """Run a module, and tell no trace function of the frames that begin meanwhile."""
    trace = sys.gettrace()
    sys.settrace(None)
    try:
        run(module)
    finally:
        if sys.gettrace() is None:
            sys.settrace(trace)
