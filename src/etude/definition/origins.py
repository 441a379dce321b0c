"""Where modules come from, found without importing them."""

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
from typing import Final


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
