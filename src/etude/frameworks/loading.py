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
    def complete(self) -> bool:
        """Whether all of the model has weights."""
        return not (self.missing or self.reshaped)

    @property
    def whole(self) -> bool:
        """Whether all of the model has weights, and all weights were of use."""
        return self.complete and not self.unused

    @property
    def listed(self) -> str:
        """What was loaded and what was not, a line for each name."""
        kinds = {"loaded": self.loaded, "not in the weights": self.missing}
        kinds |= {"of another shape": self.reshaped, "not in the model": self.unused}
        return "\n".join(f"{what}: {name}" for what, names in kinds.items() for name in names)

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


def match(modules: Parts, weights: Parts) -> tuple[dict[str, dict[str, Any]], Loaded]:
    """Return what each module is to load, and what that leaves over.

    A module gets the part with which it has most in common, by name and shape, and of several such parts the first;
    each part goes to one module. Prefixes of wrappers (``module.``, ``_orig_mod.``) count for nothing.

    Args:
        modules: The states of the modules that the model is made of.
        weights: What there is to load.

    Raises:
        StateError: Nothing fits.
    """
    given = {part: {plain_name(name): array for name, array in arrays.items()} for part, arrays in weights.items()}
    common = {
        (module, part): sum(_fits(array, there.get(plain_name(name))) for name, array in state.items())
        for module, state in modules.items()
        for part, there in given.items()
    }
    pairs: dict[str, str] = {}
    for module, part in sorted(common, key=lambda pair: -common[pair]):  # stable: of equals the first
        if module not in pairs and part not in pairs.values() and common[module, part]:
            pairs[module] = part
    found: dict[str, list[str]] = {"loaded": [], "missing": [], "reshaped": [], "unused": []}
    loads: dict[str, dict[str, Any]] = {}
    for module, state in modules.items():
        there = given[pairs[module]] if module in pairs else {}
        loads[module] = {}
        for name, array in state.items():
            other = there.get(plain_name(name))
            how = "missing" if other is None else "loaded" if _fits(array, other) else "reshaped"
            found[how].append(_called(module, name))
            if how == "loaded":
                loads[module][name] = other
        known = {plain_name(name) for name in state}
        found["unused"] += [_called(pairs[module], name) for name in there if name not in known]
    for part in given.keys() - set(pairs.values()):
        found["unused"] += [_called(part, name) for name in given[part]]
    told = Loaded(**{how: tuple(names) for how, names in found.items()})
    if not told.loaded:
        raise StateError(
            f"The weights do not fit the model at all: {told}. Give weights of this model, or of one that shares "
            "layers with it by name and shape."
        )
    return loads, told


def plain_name(name: str) -> str:
    """Return a name without what wrappers add to it.

    Example:
        >>> plain_name("module._orig_mod.0.weight")
        '0.weight'
    """
    name = name.replace("_orig_mod.", "")
    while name.startswith("module."):
        name = name.removeprefix("module.")
    return name


def _fits(here: Any, there: Any) -> bool:
    """Whether something that is kept may take the place of what a model has by now."""
    if there is None:
        return False
    if type(here).__name__.startswith("Uninitialized"):  # of a lazy module, which takes the shape of what it is given
        return hasattr(there, "shape")
    return getattr(here, "shape", None) == getattr(there, "shape", None)


def _called(part: str, name: str) -> str:
    return f"{part}.{name}" if part else name
