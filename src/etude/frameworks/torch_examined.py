"""What a data set holds, seen without asking it for an example: whether other processes can fetch from it."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import random
import sysconfig
import types
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

GENERATORS: Final = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
LIBRARIES: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
"""Code below these is nobody's data set; nor is our own, which data sets may wear."""

OURS: Final = Path(__file__).parent

WHOLE_BYTES: Final = 1 << 26
"""A larger array is known again by where it lies, and not by what is in it."""


class Examined:
    """What was found in a data set.

    Args:
        dataset: It.

    Attributes:
        draws: The kind of a generator that it holds; empty if it holds none.
        bound: What it holds that other processes cannot have, such as an open file; empty if there is nothing.
        mark: Is another one where anything in it has changed; None if nobody can tell.
    """

    def __init__(self, dataset: Any) -> None:
        walk = _Walk()
        self.bound = ""
        self.mark: bytes | None = None
        try:
            walk.over(dataset)
        except Exception as error:  # whatever the classes of what is in it raise where they are pickled
            self.bound = str(error) or type(error).__name__
        else:
            self.mark = walk.digest
        self.draws = walk.draws


class _Walk(pickle.Pickler):
    """Goes where pickle would, past arrays and into functions, and writes nothing but a digest."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._seen: dict[int, Any] = {}  # functions and classes that were gone into
        self._waiting: list[Any] = []
        self.draws = ""
        super().__init__(self)

    def over(self, dataset: Any) -> None:
        """Go over all that a data set holds."""
        self._waiting = [dataset]
        while self._waiting:
            self.dump(self._waiting.pop())

    @property
    def digest(self) -> bytes:
        """What tells it from others."""
        return self._digest.digest()

    def write(self, data: Any) -> int:
        """Take in what pickle writes."""
        self._digest.update(data)
        return len(data)

    def persistent_id(self, obj: Any) -> Any:
        """Return what stands for an object into which pickle is not to go; None where it is."""
        if isinstance(obj, GENERATORS):
            if obj is not getattr(random.random, "__self__", None) and obj is not getattr(
                np.random.rand, "__self__", None
            ):
                self.draws = self.draws or type(obj).__name__
            return "generator"
        if isinstance(obj, torch.Tensor):
            place = obj.data_ptr() if obj.layout is torch.strided else id(obj)
            return "tensor", place, obj._version, tuple(obj.shape)
        if isinstance(obj, np.ndarray) and not obj.dtype.hasobject:
            whole = obj.nbytes <= WHOLE_BYTES and not isinstance(obj, np.memmap)
            return (
                "array",
                obj.__array_interface__["data"][0],
                _sum(obj) if whole else 0,
            )
        if isinstance(obj, types.FunctionType):
            self._into(obj)
            return "function", obj.__module__, obj.__qualname__
        if isinstance(obj, type | types.ModuleType | types.BuiltinFunctionType) and not isinstance(
            getattr(obj, "__self__", None), GENERATORS
        ):
            return "name", getattr(obj, "__module__", ""), getattr(obj, "__qualname__", obj.__name__)
        self._into_class(type(obj))
        return None

    def _into(self, function: types.FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen[id(function)] = function
        self._waiting += _globals(function)
        self._waiting += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # an empty one
                self._waiting.append(cell.cell_contents)

    def _into_class(self, cls: type[Any]) -> None:
        for base in cls.__mro__:
            if id(base) not in self._seen:
                self._seen[id(base)] = base
                for method in vars(base).values():
                    if isinstance(method, types.FunctionType):
                        self._waiting += _globals(method)


def _globals(function: types.FunctionType) -> list[Any]:
    """Return what a function of the user's names that may draw: generators and functions of its module."""
    if not _is_the_users(function.__code__.co_filename):
        return []
    there = (function.__globals__.get(name) for name in _names(function.__code__))
    bound = (value for value in there if isinstance(value, (*GENERATORS, types.FunctionType)))
    return list(bound)


def _names(code: types.CodeType) -> set[str]:
    inner = (_names(const) for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*inner)


def _is_the_users(path: str) -> bool:
    return not path.startswith((*LIBRARIES, str(OURS))) and not path.startswith("<frozen")


def _sum(array: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(array).tobytes()) if array.size else 0
