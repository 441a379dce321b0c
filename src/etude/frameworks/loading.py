"""Weights into a model that may not be quite the one that they are from: what fits is loaded, and all is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from etude.core.errors import StateError
from etude.core.text import count

SHOWN: Final = 6
"""So many names are shown in a message."""

Parts = Mapping[str, Mapping[str, Any]]
"""What a module is called -> name -> array: the states of modules, as ``run.keep`` has them."""


@dataclass(frozen=True)
class Loaded:
    """What became of weights.

    Attributes:
        loaded: Names in the model that have them.
        missing: Names in the model that nothing was there for.
        reshaped: Names that are in both, in other shapes.
        unused: Names of weights that the model has no place for.
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...] = ()
    reshaped: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether all of the model has weights, and all weights were of use."""
        return not (self.missing or self.reshaped or self.unused)

    def __str__(self) -> str:
        """Say what was loaded, and what was not, by name.

        Example:
            >>> print(Loaded(("0.weight",), missing=("1.bias",)))
            1 of 2 tensors loaded; not in the weights: 1.bias
        """
        there = len(self.loaded) + len(self.missing) + len(self.reshaped)
        told = [f"{len(self.loaded)} of {count(there, 'tensor')} loaded"]
        for what, names in (
            ("of another shape", self.reshaped),
            ("not in the weights", self.missing),
            ("not in the model", self.unused),
        ):
            if names:
                told.append(f"{what}: {', '.join(names[:SHOWN])}{', ...' if len(names) > SHOWN else ''}")
        return "; ".join(told)


def match(modules: Parts, weights: Parts) -> tuple[dict[str, str], Loaded]:
    """Return which part of the weights each module gets, and what will be loaded.

    A module gets the part with which it has most in common, by name and shape; each part goes to one module.

    Args:
        modules: What the model is made of.
        weights: What there is to load.

    Raises:
        StateError: Nothing fits.
    """
    common = {
        (module, part): sum(_shape(state.get(name)) == _shape(array) for name, array in given.items())
        for module, state in modules.items()
        for part, given in weights.items()
    }
    pairs: dict[str, str] = {}
    for module, part in sorted(common, key=lambda pair: (-common[pair], pair)):
        if module not in pairs and part not in pairs.values() and common[module, part]:
            pairs[module] = part
    found: dict[str, list[str]] = {"loaded": [], "missing": [], "reshaped": [], "unused": []}
    for module, state in modules.items():
        given = weights[pairs[module]] if module in pairs else {}
        for name, array in state.items():
            how = "missing" if name not in given else "loaded" if _shape(given[name]) == _shape(array) else "reshaped"
            found[how].append(_called(module, name))
        found["unused"] += [_called(pairs[module], name) for name in given if name not in state]
    for part in weights.keys() - set(pairs.values()):
        found["unused"] += [_called(part, name) for name in weights[part]]
    told = Loaded(**{how: tuple(names) for how, names in found.items()})
    if not told.loaded:
        raise StateError(
            f"The weights do not fit the model at all: {told}. Give weights of this model, or of one that shares "
            "layers with it by name and shape."
        )
    return pairs, told


def _shape(array: Any) -> tuple[int, ...] | None:
    return tuple(array.shape) if array is not None else None


def _called(part: str, name: str) -> str:
    return f"{part}.{name}" if part else name
