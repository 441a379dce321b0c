"""What a training function keeps from one attempt to the next: its objects, its values, and all randomness around them.

    kept = run.keep(net=net, optimizer=optimizer, best=0.0)
    for epoch in run.epochs(10):            # from where the last attempt left off, with everything as it was
        ...
        kept.best = max(kept.best, accuracy)

A state is taken between two epochs, when no loader is being gone through and nothing is half done. It is two trees: the
weights, which others may want, and the rest, which only the next attempt does.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from etude.core.errors import StateError
from etude.core.text import brief
from etude.frameworks import torch_adapter
from etude.frameworks.trees import digest_of, take_apart


@runtime_checkable
class Stateful(Protocol):
    """Anything that gives its state and takes one: modules, optimizers, schedulers, scalers, loaders."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return the state."""
        ...

    def load_state_dict(self, state: Any, /) -> Any:
        """Take a state."""
        ...


class Kept:
    """What a training function keeps; each thing is an attribute, and plain values may be set.

    Example:
        >>> kept = Kept({"best": 0.5})
        >>> kept.best = 0.75
        >>> kept
        Kept(best=0.75)
    """

    def __init__(self, things: Mapping[str, Any]) -> None:
        vars(self).update(things)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in vars(self):
            raise StateError(f"kept.{name} is not kept. Say so first: run.keep({name}=...).")
        if isinstance(vars(self)[name], Stateful):
            raise StateError(f"kept.{name} is an object that has a state of its own, and cannot be another one.")
        vars(self)[name] = value

    def __repr__(self) -> str:
        return f"Kept({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class Source(NamedTuple):
    """Something random: how its state is read, and set."""

    get: Callable[[], Any]
    set: Callable[[Any], Any]


class Keeper:
    """Takes the state of a run, and brings it back.

    Attributes:
        kept: What the training function keeps; None as long as that is nothing.
        beginning: Tells apart what is kept by how it began: optimizers, schedules and values, as they were before the
            first epoch.
    """

    def __init__(self) -> None:
        self.kept: Kept | None = None
        self.beginning = ""
        self._sources: dict[str, Source] = {}
        self._awaited: dict[str, Any] = {}  # states of generators that are not there yet

    def keep(self, things: Mapping[str, Any]) -> Kept:
        """Keep more things; return all that is kept.

        Raises:
            StateError: One is kept already, or cannot be.
        """
        before = vars(self.kept) if self.kept is not None else {}
        for name, thing in things.items():
            if name in before:
                raise StateError(f"run.keep({name}=...) was called twice. Keep each thing once, before the epochs.")
            if name.startswith("_"):
                raise StateError(f"run.keep({name}=...) has a name that begins with '_'. Give it another one.")
            if isinstance(thing, type):
                raise StateError(f"run.keep({name}={brief(thing)}) is a class. Pass what was made of it.")
            if not isinstance(thing, Stateful):
                take_apart(thing, path=f"kept.{name}")
        if self.kept is None:
            self.kept = Kept({})
        vars(self.kept).update(things)
        return self.kept

    def add_source(self, name: str, source: Source) -> None:
        """Have a generator's state saved with the rest; it gets the one that it had, if it had one."""
        self._sources[name] = source
        if name in self._awaited:
            source.set(self._awaited.pop(name))

    def begin(self) -> None:
        """Note how what is kept begins; nothing has been trained, or brought back, yet."""
        things = {name: thing for name, thing in self._things if not _is_module(thing)}
        states = {name: t.state_dict() if isinstance(t, Stateful) else t for name, t in things.items()}
        self.beginning = digest_of(states)

    def weights(self) -> dict[str, Any]:
        """Return the states of the modules that are kept, by name."""
        return {name: thing.state_dict() for name, thing in self._things if _is_module(thing)}

    def rest(self) -> dict[str, Any]:
        """Return the states of all else, and of the generators."""
        things = [(name, thing) for name, thing in self._things if not _is_module(thing)]
        return {
            "beginning": self.beginning,
            "objects": {name: thing.state_dict() for name, thing in things if isinstance(thing, Stateful)},
            "values": {name: thing for name, thing in things if not isinstance(thing, Stateful)},
            "generators": {
                **self._awaited,
                **{name: source.get() for name, source in {**global_sources(), **self._sources}.items()},
            },
        }

    def bring_back(self, weights: Mapping[str, Any], rest: Mapping[str, Any]) -> None:
        """Give everything the state that it had.

        Raises:
            StateError: What is kept is not what was kept.
        """
        here = vars(self.kept) if self.kept is not None else {}
        saved = {**weights, **rest["objects"], **rest["values"]}
        if saved.keys() != here.keys():
            raise StateError(
                f"The saved state has {', '.join(sorted(saved))}, and run.keep was called with "
                f"{', '.join(sorted(here))}. An attempt has to keep what the one before it kept."
            )
        for name, state in saved.items():
            if isinstance(here[name], Stateful):
                here[name].load_state_dict(state)
            else:
                here[name] = _brought_back(here[name], state)
        sources = {**global_sources(), **self._sources}
        for name, state in rest["generators"].items():
            if name in sources:
                sources[name].set(state)
            else:
                self._awaited[name] = state

    @property
    def _things(self) -> list[tuple[str, Any]]:
        return list(vars(self.kept).items()) if self.kept is not None else []


def _brought_back(here: Any, state: Any) -> Any:
    """Return a plain value as it was: in the same list, dict or array where there is one, since others may hold it."""
    if type(here) is list and type(state) is list:
        here[:] = state
    elif type(here) is dict and type(state) is dict:
        here.clear()
        here.update(state)
    elif type(here) is type(state) and hasattr(here, "copy_") and here.shape == state.shape:
        here.detach().copy_(state)
    elif type(here) is type(state) and hasattr(here, "dtype") and getattr(here, "shape", ()) == state.shape != ():
        here[...] = state
    else:
        return state
    return here


def _is_module(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def global_sources() -> dict[str, Source]:
    """Return the global generators of ``random``, and of numpy and torch where they are loaded."""
    sources = {"random": Source(random.getstate, random.setstate)}
    if numpy := sys.modules.get("numpy"):
        sources["numpy"] = Source(lambda: numpy.random.get_state(legacy=False), numpy.random.set_state)
    if torch := torch_adapter():
        sources["torch"] = Source(torch.random_state, torch.restore_random_state)
    return sources
