"""The user's functions, packed for the way to the workers: by value, once per study."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import pickle
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from etude.core.errors import ConfigError
from etude.core.signature import annotated
from etude.definition.origins import travels_by_value

LARGE_B: Final = 16 * 2**20
TOO_LARGE_B: Final = 2**30


def packed(functions: Mapping[str, Callable[..., Any]]) -> bytes:
    """Return the functions, pickled; warn if what they use is large.

    Raises:
        ConfigError: They cannot be pickled, or are larger than 1 GB.
    """
    try:
        content = _pickled(functions, [annotated(function) for function in functions.values()])
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"The functions cannot be sent to workers: {str(error).rstrip('.')}. {_culprits(functions)} something that "
            "exists in this process only, such as an open file, a lock or a connection. Make it inside data() or "
            "train()."
        ) from None
    if len(content) > LARGE_B:
        names = _largest_globals(functions)
        told = f"The functions weigh {len(content) / 2**20:.0f} MB with what they use; the largest: {names}."
        if len(content) > TOO_LARGE_B:
            raise ConfigError(f"{told} Every worker would hold a copy. Load it in data() instead.")
        print(f"{told} Loading it in data() starts workers faster.", file=sys.stderr)  # noqa: T201
    return content


def _pickled(thing: object, read: Sequence[object] = ()) -> bytes:
    """Return something pickled by value, with what cloudpickle alone would lose.

    It knows what ``functools.cache`` makes by its name alone, and so a worker would look for it in a script that it
    never runs. What travels is the function inside, with an empty cache. Of the names around a function it sends those
    in its code, and not those that only its annotations have, as texts (``from __future__ import annotations``). And
    from 3.1.3 on it forgets in which file code is, so that tracebacks show no lines.

    Args:
        thing: What is pickled.
        read: The functions whose annotations are read by the worker.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, functools._lru_cache_wrapper) and travels_by_value(obj):
                return _cached, (obj.__wrapped__, obj.cache_parameters())
            if isinstance(obj, types.CodeType):
                return _in_file, (obj.co_filename, *self.dispatch_table[types.CodeType](obj))
            reduced = super().reducer_override(obj)
            if isinstance(reduced, tuple) and any(obj is function for function in read):
                _, slots = reduced[2]  # cloudpickle's state of a function that travels by value
                slots["__globals__"].update(_named_in_annotations(obj))
            return reduced

    content = io.BytesIO()
    Pickler(content).dump(thing)
    return content.getvalue()


def _named_in_annotations(function: Any) -> dict[str, Any]:
    """Return the globals that a function's annotations name, where these are texts."""
    names: set[str] = set()
    for annotation in getattr(function, "__annotations__", {}).values():
        if isinstance(annotation, str):
            with contextlib.suppress(SyntaxError):
                names.update(compile(annotation, "<annotation>", "eval").co_names)
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


def _cached(function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    cached: Callable[..., Any] = functools.lru_cache(**options)(function)
    return cached


def _in_file(file: str, make: Callable[..., types.CodeType], arguments: tuple[Any, ...]) -> types.CodeType:
    return make(*arguments).replace(co_filename=file)


def _culprits(functions: Mapping[str, Callable[..., Any]]) -> str:
    """Say which variables cannot be packed, as the subject and verb of a sentence."""
    found = []
    for name, value in _variables(functions).items():
        try:
            _pickled(value)
        except Exception:
            found.append(name)
    return f"{' and '.join(map(repr, found))} {'is' if len(found) == 1 else 'are'}" if found else "They use"


def _largest_globals(functions: Mapping[str, Callable[..., Any]]) -> str:
    sizes = {name: len(_pickled(value)) for name, value in _variables(functions).items()}
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} ({size / 2**20:.0f} MB)" for name, size in largest) or "closures"


def _variables(functions: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return what functions use of what stands around them, by name: globals that are no modules, and closures.

    Of functions among these, what they use in turn stands in their place.
    """
    found: dict[str, Any] = {}
    seen, left = set(), [annotated(function) for function in functions.values()]
    while left:
        function = left.pop()
        if id(function) in seen or not inspect.isfunction(function):
            continue
        seen.add(id(function))
        code = function.__code__
        used = {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):  # an empty cell
                used[name] = cell.cell_contents
        own = {name for name, value in used.items() if inspect.isfunction(value) and travels_by_value(value)}
        left += [used[name] for name in own]
        found |= {n: value for n, value in used.items() if n not in own and not inspect.ismodule(value)}
    return found
