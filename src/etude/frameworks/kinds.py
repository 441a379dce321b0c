"""How an object that a run keeps is taken apart and brought back, by the kind of thing that it is.

Most give their state and take one (``state_dict``). Some libraries have other ways; each has a module of ours, which is
loaded when the user's code has loaded the library and never before. A thing of no kind is a plain value.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any, Final, Protocol, runtime_checkable

LIBRARIES: Final = {"keras": "etude.frameworks.keras", "sklearn": "etude.frameworks.sklearn"}
"""Library -> our module for it, whose ``handle`` answers as the one here does. They come first: with torch as its
backend a Keras model has ``state_dict`` too, and that leaves out its optimizer."""

SHARDS: Final = "etude.frameworks.torch_fsdp"
"""Our module that shards models. As long as it is not loaded, nothing is sharded by us."""
STATES_OF_SHARDS: Final = "etude.frameworks.torch_fsdp_states"


@runtime_checkable
class Handle(Protocol):
    """An object that is kept, as trees of plain data and arrays (``frameworks.trees``).

    Whatever has these methods itself is its own.
    """

    def weights(self) -> Any:
        """Return its weights, which others may want; None if it has none."""
        ...

    def rest(self) -> Any:
        """Return the rest of its state, which only the next attempt wants; None if there is none."""
        ...

    def bring_back(self, weights: Any, rest: Any) -> None:
        """Give it the state that both returned; it stays the object that it is.

        Raises:
            StateError: It does not fit.
        """
        ...


@runtime_checkable
class Beginning(Protocol):
    """A handle that says by itself how its object began; of others it is the rest of their state."""

    def beginning(self) -> Any:
        """Return what tells it from objects that were set up otherwise, before the first epoch; None if it cannot."""
        ...


def beginning_of(thing: Handle) -> Any:
    """Return what tells an object from others that were set up otherwise, before the first epoch."""
    return thing.beginning() if isinstance(thing, Beginning) else thing.rest()


@runtime_checkable
class Stateful(Protocol):
    """Anything that gives its state and takes one: modules, optimizers, schedulers, scalers, loaders."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return the state."""
        ...

    def load_state_dict(self, state: Any, /) -> Any:
        """Take a state."""
        ...


def handle(thing: Any, *, path: str) -> Handle | None:
    """Return how an object is kept; None for a plain value.

    Args:
        thing: To be kept.
        path: What it is called, for the message.

    Raises:
        StateError: It is of a kind that is kept, and cannot be.
    """
    if isinstance(thing, Handle) and not isinstance(thing, type):
        return thing
    for library, module in LIBRARIES.items():
        if library in sys.modules:
            found: Handle | None = importlib.import_module(module).handle(thing, path=path)
            if found is not None:
                return found
    return _StateDict(thing) if isinstance(thing, Stateful) else None


class _StateDict:
    """An object with ``state_dict``: that of a module is its weights. Of what is sharded it is this rank's."""

    def __init__(self, thing: Stateful) -> None:
        self._thing = thing
        torch = sys.modules.get("torch")
        self._is_module = torch is not None and isinstance(thing, torch.nn.Module)
        self._is_loader = torch is not None and isinstance(thing, torch.utils.data.DataLoader)

    def weights(self) -> Any:
        return _state_of(self._thing) if self._is_module else None

    def rest(self) -> Any:
        return None if self._is_module else _state_of(self._thing)

    def bring_back(self, weights: Any, rest: Any) -> None:
        state = weights if self._is_module else rest
        if SHARDS in sys.modules:
            state = importlib.import_module(STATES_OF_SHARDS).put_back(state, self._thing)
        self._thing.load_state_dict(state)
        if (
            self._is_loader
        ):  # a loader of torch draws when it makes ready to go on: now, and not when it is gone through
            self._thing.state_dict()


def _state_of(thing: Stateful) -> Any:
    """Return the state of an object, this rank's shards in place of what we have sharded."""
    state = thing.state_dict()
    return importlib.import_module(STATES_OF_SHARDS).shards_of(state) if SHARDS in sys.modules else state
