"""Where modules come from and how they travel, found without importing them."""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final


class Origin(enum.Enum):
    """Whose a module is."""

    PROJECT = "project"
    INSTALLED = "installed"
    OTHER = "the standard library, or Étude"
    UNKNOWN = "unknown"


def origin_of(name: str) -> Origin:
    """Say whose the module of that name is."""
    top = name.partition(".")[0]
    file, inner = find_module(name) or (None, [])
    place = file or next(iter(inner), None)
    if top == "etude" or (place is None and top in sys.stdlib_module_names):
        return Origin.OTHER
    if place is None:
        return Origin.UNKNOWN
    if {"site-packages", "dist-packages"} & set(Path(place).parts):
        return Origin.INSTALLED
    return Origin.OTHER if place.startswith(os.path.dirname(os.__file__) + os.sep) else Origin.PROJECT


def find_module(name: str) -> tuple[str | None, list[str]] | None:
    """Return the file of a module and the folders of its submodules; None if there is no such module."""
    module = sys.modules.get(name)
    if module is not None:
        names = getattr(module, "__dict__", {})  # not getattr: torch.classes answers to any name
        return names.get("__file__"), list(names.get("__path__") or ())
    parent = name.rpartition(".")[0]
    try:
        if parent:  # importlib.util.find_spec would import the parent
            spec = importlib.machinery.PathFinder.find_spec(name, (find_module(parent) or ("", []))[1])
        else:
            spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None:
        return None
    return spec.origin if spec.has_location else None, list(spec.submodule_search_locations or ())


def travels_by_value(thing: Any) -> bool:
    """Say whether a worker gets this very object; else it gets a name, and imports what the file then holds.

    This is how cloudpickle sees it: by reference goes what its module, once imported, has under its name.
    """
    found: Any = sys.modules.get(thing.__module__)
    if found is None or thing.__module__ == "__main__" or is_sent_along(thing.__module__):
        return True
    for name in thing.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is not thing


def is_sent_along(module: str) -> bool:
    """Say whether somebody had cloudpickle send all of a module by value, so that workers do not import it."""
    cloudpickle = sys.modules.get("cloudpickle")
    registered = cloudpickle.list_registry_pickle_by_value() if cloudpickle is not None else ()
    return any(module == name or module.startswith(f"{name}.") for name in registered)


@functools.cache
def version_of(top: str) -> str:
    """Return the version of the distribution that a top-level package comes from."""
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(_NAMED_OTHERWISE.get(top, top))
    for distribution in _distributions().get(top, ()):
        return metadata.version(distribution)
    return str(getattr(sys.modules.get(top), "__version__", "unknown"))


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    from importlib import metadata

    return metadata.packages_distributions()  # some 100 ms, so only if all else failed


_NAMED_OTHERWISE: Final = {
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "PIL": "pillow",
    "yaml": "PyYAML",
}
