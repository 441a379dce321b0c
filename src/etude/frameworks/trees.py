"""State as plain data and arrays: what ``state_dict`` gives, taken apart for a file and put together again.

A file of arrays holds names and arrays, and nothing is pickled. So a tree of dicts, lists and values becomes text in
which each array is a name. What text cannot tell (a tuple from a list, a key that is a number, NaN) is tagged:

    {"lr": 0.1, "betas": (0.9, nan), "step": tensor}
    {"lr": 0.1, "betas": {"$": "tuple", "of": [0.9, {"$": "float", "of": "nan"}]},
     "step": {"$": "tensor", "of": "optimizer.step"}}

What goes with a state and is no part of it is beside it: {"$": "beside", "of": the state, "with": what goes with it}.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from etude.core.errors import StateError
from etude.core.text import brief

TAG: Final = "$"
OF: Final = "of"
BESIDE: Final = "beside"
WITH: Final = "with"
DEEPEST: Final = 100
NONE: Final[Mapping[str, Any]] = {}

Arrays = dict[str, Any]
"""Where in the state -> numpy array or torch tensor, on the CPU, and nobody else's."""


def take_apart(value: Any, *, path: str, spare: Mapping[str, Any] = NONE) -> tuple[Any, Arrays]:
    """Return a value as what JSON can hold, and copies of its arrays, each under its path.

    Args:
        value: Made of dicts, lists, tuples, sets, plain values, numpy arrays and torch tensors.
        path: What the value is called, for the message.
        spare: Arrays of an earlier copy that nobody needs any more. Where they fit they are written over and returned:
            most of the time that a copy takes is that of memory which the system hands out anew.

    Raises:
        StateError: There is something in it that only pickle could write.
    """
    arrays: Arrays = {}
    return _TakingApart(arrays, spare).take(value, path, 0), arrays


def put_together(plain: Any, arrays: Mapping[str, Any]) -> Any:
    """Return what was taken apart; arrays are those given.

    Raises:
        StateError: It was not taken apart by us, or an array is missing.
    """
    if isinstance(plain, list):
        return [put_together(item, arrays) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if TAG not in plain:
        return {name: put_together(item, arrays) for name, item in plain.items()}
    try:
        return _MAKE[plain[TAG]](plain[OF], arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"{brief(plain)} is no part of a saved state ({error!r}).") from error


def digest_of(value: Any) -> str:
    """Return what is the same for equal values, and for no others.

    Raises:
        StateError: There is something in it that only pickle could write.
    """
    plain, arrays = take_apart(value, path="")
    digest = hashlib.blake2b(json.dumps(plain, sort_keys=True).encode(errors="surrogatepass"), digest_size=16)
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {tuple(array.shape)}".encode(errors="surrogatepass"))
        digest.update(_bytes_of(array))
    return digest.hexdigest()


def _bytes_of(array: Any) -> Any:
    """Return what an array holds."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        array = array.reshape(-1).view(torch.uint8).numpy()
    return array.tobytes()


class _TakingApart:
    def __init__(self, arrays: Arrays, spare: Mapping[str, Any]) -> None:
        self._arrays = arrays
        self._spare = spare

    def take(self, value: Any, path: str, depth: int) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {TAG: "float", OF: repr(value)}
        if depth == DEEPEST:
            raise StateError(f"{path} is nested more than {DEEPEST} deep, or holds itself. Keep what is flatter.")
        if isinstance(value, Mapping):
            return self._mapping(value, path, depth)
        if isinstance(value, list | tuple | set | frozenset):
            items = [self.take(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(value)]
            kind = next(kind for kind in (list, tuple, set, frozenset) if isinstance(value, kind))
            return items if kind is list else {TAG: kind.__name__, OF: items}
        return self._leaf(value, path)

    def _mapping(self, value: Mapping[Any, Any], path: str, depth: int) -> Any:
        if all(type(key) is str for key in value) and TAG not in value:
            return {key: self.take(item, f"{path}.{key}" if path else key, depth + 1) for key, item in value.items()}
        pairs = [
            [self.take(key, f"a key of {path}", depth + 1), self.take(item, f"{path}[{key!r}]", depth + 1)]
            for key, item in value.items()
        ]
        return {TAG: "dict", OF: pairs}

    def _leaf(self, value: Any, path: str) -> Any:
        if isinstance(value, bytes | bytearray):
            return {TAG: "bytes", OF: base64.b64encode(value).decode()}
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and isinstance(value, torch.Tensor):
            return {TAG: "tensor", OF: self._keep(path, value.detach(), _copy_of_tensor)}
        if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
            return {TAG: "array", OF: self._keep(path, value, _copy_of_array)}
        if numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in "biufc":
            return {TAG: "scalar", OF: self._keep(path, numpy.asarray(value).reshape(1), _copy_of_array)}
        if isinstance(value, bool | int | float | str):  # of a class of its own, such as an enum
            return self.take(next(kind for kind in (bool, int, float, str) if isinstance(value, kind))(value), path, 0)
        raise StateError(
            f"{path} is {brief(value)}, which no file can hold without pickling it. Keep tensors, arrays, numbers, "
            "texts, and dicts and lists of them; or give its class state_dict() and load_state_dict()."
        )

    def _keep(self, path: str, array: Any, copy_of: Callable[[Any, Any], Any]) -> str:
        name, n = path, 1
        while name in self._arrays:  # two ways to the same path: {"a.b": ...} and {"a": {"b": ...}}
            name, n = f"{path}~{n}", n + 1
        self._arrays[name] = copy_of(array, self._spare.get(name))
        return name


def _copy_of_tensor(tensor: Any, spare: Any) -> Any:
    fits = type(spare) is type(tensor) and _kind(spare) == _kind(tensor)
    return spare.copy_(tensor) if fits else tensor.to("cpu", copy=True).contiguous()


def _kind(tensor: Any) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype, tensor.layout


def _copy_of_array(array: Any, spare: Any) -> Any:
    if type(spare) is not type(array) or (spare.shape, spare.dtype) != (array.shape, array.dtype):
        return array.copy(order="C")
    spare[...] = array
    return spare


_MAKE: Final[dict[str, Callable[[Any, Mapping[str, Any]], Any]]] = {
    "float": lambda of, _: float(of),
    "bytes": lambda of, _: base64.b64decode(of),
    BESIDE: put_together,
    "tuple": lambda of, arrays: tuple(put_together(of, arrays)),
    "set": lambda of, arrays: set(put_together(of, arrays)),
    "frozenset": lambda of, arrays: frozenset(put_together(of, arrays)),
    "dict": lambda of, arrays: {put_together(key, arrays): put_together(item, arrays) for key, item in of},
    "tensor": lambda of, arrays: arrays[of],
    "array": lambda of, arrays: _as_numpy(arrays[of]),
    "scalar": lambda of, arrays: _as_numpy(arrays[of])[0],
}


def _as_numpy(array: Any) -> Any:
    return array.numpy() if hasattr(array, "numpy") else array
