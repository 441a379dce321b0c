"""scikit-learn: how estimators are kept that learn in parts, with ``partial_fit`` or ``warm_start``.

An estimator is its attributes. What stands in them is walked through and written as a flat list of objects and arrays
which refer to each other by number, since learning writes into arrays that have several names. Some arrays are views of
others, and some objects go round in circles.

Nothing is pickled: an object of scikit-learn is its class and its attributes, and what is neither that nor data is
refused by name. A user's own subclass of an estimator is kept by its attributes too, but an object of a class from
elsewhere, within one, is not: making it anew would mean to run anybody's code.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from sklearn.base import BaseEstimator

from etude.core.errors import StateError
from etude.core.text import brief
from etude.frameworks.kinds import Handle

PLAIN: Final = (type(None), bool, int, float, str, bytes)
NUMBERS: Final = "biufc"
TEXTS: Final = "OUS"
"""Kinds of arrays that no file of arrays holds, and that are written out: of names, mostly."""

GLOBAL: Final = np.random.mtrand._rand
"""numpy's global generator, which an estimator without ``random_state`` draws from."""

Written = list[Any]
"""How a value is written: what it is, and what there is of it."""


def handle(thing: Any, *, path: str) -> Handle | None:
    """Return how an estimator is kept; None if it is none that learns in parts.

    Raises:
        StateError: There is something in it that only pickle could write.
    """
    if not isinstance(thing, BaseEstimator) or hasattr(thing, "state_dict"):
        return None
    if not hasattr(thing, "partial_fit") and getattr(thing, "warm_start", False) is not True:
        return None
    found = _Estimator(thing, path)
    found.weights()
    return found


class _Estimator:
    """An estimator. All of it counts as its weights: whoever wants those wants to predict."""

    def __init__(self, estimator: BaseEstimator, path: str) -> None:
        self._estimator = estimator
        self._path = path

    def weights(self) -> Any:
        return _Writing(self._estimator, self._path).written

    def rest(self) -> Any:
        return None

    def bring_back(self, weights: Any, rest: Any) -> None:
        here = vars(self._estimator)
        found = _Reading(self._estimator, weights).attributes
        for name, value in found.items():  # one that was handed over may be in other hands as well
            if isinstance(value, np.random.RandomState) and isinstance(here.get(name), np.random.RandomState):
                here[name].set_state(value.get_state())
                found[name] = here[name]
        for name in here.keys() - found.keys() - _left_out(self._estimator):
            del here[name]
        here.update(found)


def _left_out(estimator: Any) -> set[str]:
    """Return the parameters that are functions: whoever makes the estimator gives it those."""
    parameters = estimator.get_params(deep=False)
    return {name for name, value in parameters.items() if callable(value) and not isinstance(value, type)}


class _Writing:
    """An estimator, and all that hangs on it, written down.

    Attributes:
        written: The state.
    """

    def __init__(self, estimator: BaseEstimator, path: str) -> None:
        self._numbers: dict[int, int] = {id(estimator): 0}  # of what was met already
        self._objects: list[Any] = [estimator]
        self._paths = [path]
        self._bases = Counter(id(_base(array)) for array in _arrays(estimator))
        self._arrays: list[Any] = []
        self._array_numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # what is known by its id has to live
        bodies: list[Any] = []
        while len(bodies) < len(self._objects):  # while it grows
            n = len(bodies)
            bodies.append(self._body(self._objects[n], self._paths[n]))
        self.written = {"objects": bodies, "arrays": self._arrays}

    def _body(self, thing: Any, path: str) -> Written:
        if isinstance(thing, np.random.RandomState):
            state = thing.get_state(legacy=False)
            if isinstance(state, dict) and state.get("bit_generator") == "MT19937":
                return ["random", state]
            raise StateError(f"{path} is {brief(thing)}, of another kind than numpy.random.RandomState() makes.")
        if isinstance(thing, np.random.Generator):
            if isinstance(thing.bit_generator, np.random.PCG64):
                return ["generator", dict(thing.bit_generator.state)]
            raise StateError(f"{path} is {brief(thing)}, of another kind than numpy.random.default_rng() makes.")
        if (left_out := thing is self._objects[0]) or hasattr(thing, "__dict__"):
            names = vars(thing).keys() - (_left_out(thing) if left_out else set())
            body = {name: self._value(vars(thing)[name], f"{path}.{name}") for name in vars(thing) if name in names}
            return ["attributes", _name_of(thing), body]
        made = thing.__reduce__()  # of C, such as a loss: its class, and what that is called with
        match made:
            case (cls, tuple() as arguments) if cls is type(thing) and _is_plain(arguments):
                return ["called", _name_of(thing), list(arguments)]
            case (cls, tuple() as arguments, dict() as state) if cls is type(thing):  # a tree
                return ["filled", _name_of(thing), self._value(arguments, path), self._value(state, path)]
        raise _refused(thing, path)

    def _value(self, value: Any, path: str) -> Written:
        if _is_plain(value):
            return ["plain", value]
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if isinstance(value, Mapping):
            pairs = [[self._value(k, f"a key of {path}"), self._value(v, f"{path}[{k!r}]")] for k, v in value.items()]
            return ["dict", pairs]
        if type(value) in (list, tuple, set):
            return [type(value).__name__, [self._value(item, f"{path}[{n}]") for n, item in enumerate(value)]]
        return self._object(value, path)

    def _object(self, value: Any, path: str) -> Written:
        if isinstance(value, type) and issubclass(value, np.generic):
            return ["type", value.__name__]
        if isinstance(value, np.dtype) and value.kind in NUMBERS:
            return ["dtype", value.str]
        if value is GLOBAL:
            return ["global", None]
        if isinstance(value, np.random.RandomState | np.random.Generator) or _is_theirs(type(value)):
            if id(value) not in self._numbers:
                self._numbers[id(value)] = len(self._objects)
                self._objects.append(value)
                self._paths.append(path)
            return ["object", self._numbers[id(value)]]
        raise _refused(value, path)

    def _array(self, array: Any, path: str) -> Written:
        if array.dtype.kind in TEXTS and _is_plain(array.tolist()):
            return ["texts", [array.dtype.str, list(array.shape), array.reshape(-1).tolist()]]
        if array.dtype.kind == "O":
            items = [self._value(item, f"{path}[{n}]") for n, item in enumerate(array.reshape(-1))]
            return ["items", [list(array.shape), items]]
        if array.dtype.names and not array.dtype.hasobject:
            row = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            return ["rows", [np.lib.format.dtype_to_descr(array.dtype), list(array.shape), self._number_of(row)]]
        if array.dtype.kind not in NUMBERS:
            raise _refused(array, path)
        base = _base(array)
        is_one_row = base.flags.c_contiguous or base.flags.f_contiguous
        if self._bases[id(base)] > 1 and is_one_row and base.dtype == array.dtype:  # others see what is written into it
            start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
            return ["view", [self._number_of(base), start, list(array.shape), list(array.strides)]]
        return ["array", self._number_of(array)]

    def _number_of(self, array: Any) -> Written:
        if id(array) not in self._array_numbers:
            self._array_numbers[id(array)] = len(self._arrays)
            self._alive.append(array)
            by_columns = array.flags.f_contiguous and not array.flags.c_contiguous  # another order, another last bit
            self._arrays.append(["F", array.T] if by_columns else ["C", array])
        return [self._array_numbers[id(array)]]


class _Reading:
    """An estimator read again.

    Attributes:
        attributes: Of the estimator itself.
    """

    def __init__(self, estimator: BaseEstimator, written: Mapping[str, Any]) -> None:
        self._arrays = [value.T if order == "F" else value for order, value in written["arrays"]]
        bodies = written["objects"]
        self._objects: list[Any] = [estimator, *(self._made(body) for body in bodies[1:])]
        for thing, body in zip(self._objects[1:], bodies[1:], strict=True):
            if body[0] == "attributes":
                vars(thing).update(self._read(body[2]))
            elif body[0] == "filled":
                thing.__setstate__(self._value(*body[3]))
        self.attributes = self._read(bodies[0][2])

    def _read(self, body: Mapping[str, Written]) -> dict[str, Any]:
        return {name: self._value(*written) for name, written in body.items()}

    def _made(self, body: Written) -> Any:
        """Return an object of which the attributes are still to come."""
        match body:
            case ["random", state]:
                generator = np.random.RandomState()  # its state is set right away
                generator.set_state(state)
                return generator
            case ["generator", state]:
                bits = np.random.PCG64()
                bits.state = state
                return np.random.Generator(bits)
            case ["filled", name, arguments, _]:
                return _class(name)(*self._value(*arguments))
            case ["called", name, arguments]:
                return _class(name)(*arguments)
        cls = _class(body[1])
        return cls.__new__(cls)

    def _value(self, kind: str, of: Any) -> Any:
        match kind:
            case "array" | "view" | "rows" | "items":
                return self._array(kind, of)
            case "dict":
                return {self._value(*key): self._value(*value) for key, value in of}
            case "list" | "tuple" | "set":
                return SEQUENCES[kind](self._value(*item) for item in of)
            case "object":
                return self._objects[of]
        return LEAVES[kind](of)

    def _array(self, kind: str, of: Any) -> Any:
        match kind:
            case "view":
                (base,), start, shape, strides = of
                array = self._arrays[base]
                return np.ndarray(shape, array.dtype, array.reshape(-1, order="A").data, start, strides)
            case "rows":  # of several values each, as the nodes of a tree are
                descr, shape, (number,) = of
                return self._arrays[number].view(np.lib.format.descr_to_dtype(descr)).reshape(shape)
            case "items":
                items = np.empty(len(of[1]), dtype=object)
                items[:] = [self._value(*item) for item in of[1]]
                return items.reshape(of[0])
        return self._arrays[of[0]]


SEQUENCES: Final[dict[str, Any]] = {"list": list, "tuple": tuple, "set": set}
LEAVES: Final[dict[str, Any]] = {
    "plain": lambda of: of,
    "texts": lambda of: np.array(of[2], dtype=of[0]).reshape(of[1]),
    "type": lambda of: getattr(np, of),
    "dtype": np.dtype,
    "global": lambda of: GLOBAL,
}


def _class(name: str) -> Any:
    module, _, qualified = name.partition(":")
    cls = getattr(importlib.import_module(module), qualified, None) if _is_in_library(module) else None
    if not isinstance(cls, type) or not _is_theirs(cls):
        raise StateError(f"{name!r} is no class of the scikit-learn that is installed.")
    return cls


def _name_of(thing: Any) -> str:
    return f"{type(thing).__module__}:{type(thing).__qualname__}"


def _is_theirs(cls: type) -> bool:
    return _is_in_library(cls.__module__)


def _is_in_library(module: str) -> bool:
    return module == "sklearn" or module.startswith("sklearn.")


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    return type(value) in PLAIN or (isinstance(value, np.generic) and value.dtype.kind in NUMBERS)


def _refused(value: Any, path: str) -> StateError:
    return StateError(
        f"{path} is {brief(value)}, which no file can hold without pickling it. Of an estimator arrays, plain values, "
        "generators made by numpy.random.RandomState or default_rng, and objects of scikit-learn can be kept."
    )


def _base(array: Any) -> Any:
    """Return the array that the memory belongs to."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _arrays(estimator: BaseEstimator) -> Iterable[Any]:
    """Return the arrays in an estimator, each once."""
    met: dict[int, Any] = {}
    to_do: list[Any] = [estimator]
    while to_do:
        thing = to_do.pop()
        if id(thing) in met or _is_plain(thing):
            continue
        met[id(thing)] = thing
        if isinstance(thing, Mapping):
            to_do += [*thing.keys(), *thing.values()]
        elif type(thing) in (list, tuple, set):
            to_do += thing
        elif thing is estimator or (_is_theirs(type(thing)) and hasattr(thing, "__dict__")):
            to_do += vars(thing).values()
    return [thing for thing in met.values() if isinstance(thing, np.ndarray)]
