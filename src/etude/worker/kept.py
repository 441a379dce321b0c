"""What a training function keeps from one attempt to the next: its objects, its values, and all randomness around them.

    kept = run.keep(net=net, optimizer=optimizer, best=0.0)
    for epoch in run.epochs(10):            # from where the last attempt left off, with everything as it was
        ...
        kept.best = max(kept.best, accuracy)

A state is taken between two epochs, when no loader is being gone through and nothing is half done, or between two
batches, with that of the loader (``worker.steps``). It is two trees: the weights, which others may want, and the rest,
which only the next attempt does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etude.core.errors import StateError
from etude.core.text import brief
from etude.frameworks import torch_adapter
from etude.frameworks.global_sources import global_sources
from etude.frameworks.kinds import Beginning, Handle, beginning_of, handle
from etude.frameworks.sources import Source
from etude.frameworks.trees import digest_of, take_apart


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
        if handle(vars(self)[name], path=f"kept.{name}") is not None:
            raise StateError(f"kept.{name} is an object that has a state of its own, and cannot be another one.")
        vars(self)[name] = value

    def __repr__(self) -> str:
        return f"Kept({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class Keeper:
    """Takes the state of a run, and brings it back.

    Attributes:
        kept: What the training function keeps; None as long as that is nothing.
        beginning: Tells apart what is kept by how it began: optimizers, schedules and values, as they were before the
            first epoch. Empty if that cannot be told.
        twice: Whether what is brought back is to be brought back once more, by ``again``.
        due: Whether the end of an epoch is worth saving. A pause, and the end of a training, are in any case.
    """

    def __init__(self) -> None:
        self.kept: Kept | None = None
        self.beginning = ""
        self.twice = False
        self.due = True
        self._brought: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None
        self._handles: dict[str, Handle] = {}  # of objects; what has none is a plain value
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
        handles = {name: handle(thing, path=f"kept.{name}") for name, thing in things.items()}
        for name, thing in things.items():
            if handles[name] is None:
                take_apart(thing, path=f"kept.{name}")
        if self.kept is None:
            self.kept = Kept({})
        vars(self.kept).update(things)
        self._handles.update({name: found for name, found in handles.items() if found is not None})
        for name in handles:
            for number, generator in enumerate(generators_of(things[name])):
                self.add_source(f"kept {name} {number}", torch_adapter().source_of(generator))
        return self.kept

    def add_source(self, name: str, source: Source) -> None:
        """Have a generator's state saved with the rest; it gets the one that it had, if it had one."""
        self._sources[name] = source
        if name in self._awaited:
            source.set(self._awaited.pop(name))

    def saves(self, generator: Any) -> bool:
        """Whether the state of a generator of torch is saved."""
        return any(getattr(source.get, "__self__", None) is generator for source in self._sources.values())

    def begin(self) -> None:
        """Note how what is kept begins; nothing has been trained, or brought back, yet."""
        begun = {name: beginning_of(thing) for name, thing in self._handles.items()}
        unseen = any(isinstance(thing, Beginning) and begun[name] is None for name, thing in self._handles.items())
        self.beginning = "" if unseen else digest_of({**begun, **self._values()})

    def _objects(self) -> dict[str, Any]:
        """Return the states of the objects that are kept, without their weights, by name."""
        found = {name: thing.rest() for name, thing in self._handles.items()}
        return {name: state for name, state in found.items() if state is not None}

    def _values(self) -> dict[str, Any]:
        """Return the plain values that are kept, by name."""
        return {name: value for name, value in self._here.items() if name not in self._handles}

    def weights(self) -> dict[str, Any]:
        """Return the weights of the models that are kept, by name."""
        found = {name: thing.weights() for name, thing in self._handles.items()}
        return {name: weights for name, weights in found.items() if weights is not None}

    def rest(self) -> dict[str, Any]:
        """Return the states of all else, and of the generators."""
        return {
            "beginning": self.beginning,
            "objects": self._objects(),
            "values": self._values(),
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
        self._brought = (weights, rest) if self.twice else None
        here, objects, values = self._here, rest["objects"], rest["values"]
        saved = weights.keys() | objects.keys() | values.keys()
        if saved != here.keys() or values.keys() != here.keys() - self._handles.keys():
            raise StateError(
                f"The saved state has {', '.join(sorted(saved))}, and run.keep was called with "
                f"{', '.join(sorted(here))}. An attempt has to keep what the one before it kept."
            )
        for name in here:
            if name in self._handles:
                self._handles[name].bring_back(weights.get(name), objects.get(name))
            else:
                here[name] = _brought_back(here[name], values[name])
        self.bring_back_generators(rest)

    def bring_back_generators(self, rest: Mapping[str, Any]) -> None:
        """Give the random generators alone the state that they had."""
        sources = {**global_sources(), **self._sources}
        for name, state in rest["generators"].items():
            if name in sources:
                sources[name].set(state)
            else:
                self._awaited[name] = state

    def inherit(self, optimizers: Mapping[str, Any]) -> None:
        """Give optimizers what others had learned of the gradients; their settings stay their own.

        Args:
            optimizers: The states of those others, by what they were called.

        Raises:
            StateError: One is not kept under that name, or does not fit.
        """
        for name, state in optimizers.items():
            thing = vars(self.kept).get(name) if self.kept is not None else None
            if thing is None:
                raise StateError(
                    f"The run is to begin with the state of the optimizer {name!r}, and keeps none of that name. Keep "
                    f"it, run.keep({name}=...), or leave .with_optimizer() out."
                )
            torch_adapter().take_moments(thing, state, path=f"kept.{name}")

    def again(self) -> None:
        """Bring back once more what was brought back: a trainer draws, and resets, before it begins."""
        brought, self.twice, self._brought = self._brought, False, None
        if brought is not None:
            self.bring_back(*brought)

    @property
    def _here(self) -> dict[str, Any]:
        return vars(self.kept) if self.kept is not None else {}


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


def generators_of(loader: Any) -> list[Any]:
    """Return the generators that a loader of torch has for itself; none if it is no such loader."""
    torch = torch_adapter()
    found: list[Any] = torch.generators(loader) if torch else []
    return found
