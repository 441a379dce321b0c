"""Follows what functions can reach, by their bytecode, and writes down what it meets."""

from __future__ import annotations

import contextlib
import datetime
import dis
import enum
import functools
import importlib.machinery
import importlib.util
import inspect
import itertools
import logging
import numbers
import os
import re
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import PurePath
from typing import Any, Final

from etude.definition.meaning import bytecode, compiled
from etude.definition.origins import Origin, find_module, is_sent_along, origin_of, travels_by_value, version_of
from etude.definition.text import Source

LARGEST_VALUE: Final = 10_000
"""Characters and elements that one global may have to count by value."""


class _Unreadable(Exception):  # noqa: N818 - a signal inside this file, never seen outside
    """A value that cannot be given as a short text; the message is its type."""


class Reader:
    """Follows names from function to function, breadth first, and writes down what it meets."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self.packages: dict[str, str] = {}
        self.preload: set[str] = set()
        self.unseen: set[str] = set()
        self.files: dict[str, str] = {}
        self._homes = {"__main__"}  # modules that are read name by name
        self._labels: dict[int, str] = {}
        self._met: set[tuple[int, str] | str] = set()  # globals, and modules
        self._alive: list[object] = []  # an id is a name only as long as its object lives
        self._open: set[int] = set()  # the containers around the value that is being read
        self._left = 0
        self._todo: list[tuple[str, bool, Callable[[], None]]] = []
        self._by_value = True  # whether what is being read travels to workers as it is here
        self._files: dict[str, Source] = {}

    def read(self, functions: Mapping[str, Any]) -> None:
        """Read what the functions, given by role, can reach."""
        for function in functions.values():
            inner = function
            while isinstance(inner, functools.partial):
                inner = inner.func
            with contextlib.suppress(Exception):  # whatever a callable object may answer
                self._homes |= {inner.__module__} if origin_of(inner.__module__) is Origin.PROJECT else set()
        for role in sorted(functions):
            self._record(role, functions[role])
        for label, by_value, step in self._todo:  # it grows while it is read
            self._by_value = by_value
            try:
                step()
            except Exception as problem:
                self.unseen.add(f"{label} could not be read ({type(problem).__name__})")

    def _record(self, name: str, thing: object) -> None:
        """Make a part of what ``thing`` is worth, or say that it cannot be read."""
        self._left = LARGEST_VALUE
        try:
            text = self._value(thing)
        except Exception as problem:
            text = _type_name(thing)
            inner = str(problem) if isinstance(problem, _Unreadable) else text
            told = text if inner == text else f"{text} holding {inner}"
            named = re.sub(r"^(global|default|closure value) (\S+)", r"\1 `\2`", name)
            self.unseen.add(f"{named} ({told}) is not part of the identity")
        if text.partition(" ")[2] != name.partition(" ")[2]:  # "global mse: function mse" says nothing
            self.parts[_free(name, self.parts)] = text

    # Values: each gives one line of text, and has the functions and classes on its way read.

    def _value(self, thing: Any) -> str:
        sized = isinstance(thing, (str, bytes, list, tuple, dict, set, frozenset))
        self._left -= 1 + (len(thing) if sized else 0)
        if self._left < 0:
            raise _Unreadable(_type_name(thing))
        readers: tuple[tuple[Any, Callable[[Any], str]], ...] = (
            (enum.Enum, lambda e: f"{self._value(type(e))}.{e.name}={self._value(e.value)}"),
            ((numbers.Number, str, bytes, range, slice, types.NoneType, types.EllipsisType), repr),
            ((datetime.date, datetime.time, datetime.timedelta), repr),
            (PurePath, lambda path: f"Path({path.as_posix()!r})"),
            (re.Pattern, lambda pattern: f"re.compile({pattern.pattern!r}, {pattern.flags})"),
            (logging.Logger, lambda logger: f"logger {logger.name}"),
            ((list, tuple, dict, set, frozenset), self._container),
            (types.ModuleType, lambda module: self._module(module.__name__)),
            (functools.partial, lambda p: f"partial{self._value((p.func, p.args, p.keywords))}"),
            (types.MethodType, lambda m: f"{self._value(m.__func__)} of {self._value(m.__self__)}"),
            ((types.FunctionType, type), self._definition),
        )
        for kinds, read in readers:
            if isinstance(thing, kinds):
                return read(thing)
        return repr(thing) if _type_name(thing) in ("torch.dtype", "torch.device") else self._instance(thing)

    def _container(self, thing: Any) -> str:
        if id(thing) in self._open:
            return "..."
        self._open.add(id(thing))
        try:
            if isinstance(thing, dict):
                items = [f"{self._value(key)}: {self._value(thing[key])}" for key in _in_order(thing)]
            else:
                ordered = _in_order(thing) if isinstance(thing, (set, frozenset)) else thing
                items = [self._value(item) for item in ordered]
        finally:
            self._open.discard(id(thing))
        name = "" if type(thing) in (list, dict, tuple) else type(thing).__name__
        start, end = "[]" if isinstance(thing, list) else "{}" if isinstance(thing, dict) else "()"
        return f"{name}{start}{', '.join(items)}{end}"

    def _instance(self, thing: Any) -> str:
        kind: Any = type(thing)
        label = self._value(kind)
        if hasattr(thing, "__wrapped__"):  # functools.lru_cache and its like
            return f"{label}({self._value(thing.__wrapped__)})"
        if hasattr(thing, "__name__") and not getattr(thing, "__dict__", None):  # a function written in C
            owner = getattr(thing, "__self__", None)  # its module or class
            module = getattr(thing, "__module__", None) or getattr(owner, "__module__", None)
            module = self._module(str(module or getattr(owner, "__name__", "builtins")))
            return f"{module}.{thing.__name__}"
        if label.startswith("etude."):
            return label
        # What pickles in a way of its own may keep its state out of Python's sight (arrays, generators),
        # and so may what is not the project's and shows no state, or one that is not plain.
        sealed = kind.__reduce__ is not object.__reduce__ or kind.__reduce_ex__ is not object.__reduce_ex__
        try:
            # __dict__ and __slots__, as pickle finds them. Not asked of an array: it would copy itself.
            state: Any = None if sealed else object.__reduce_ex__(thing, 2)[2]
        except TypeError:
            sealed = True
        if sealed or not (self._is_ours(kind.__module__) or (state and _is_plain(state))):
            raise _Unreadable(_type_name(thing))
        return label if state is None else f"{label} {self._value(state)}"

    # Definitions: functions and classes give their label; their text is read later, once.

    def _definition(self, thing: Any) -> str:
        if id(thing) in self._labels:
            return self._labels[id(thing)]
        is_class = isinstance(thing, type)
        module = str(thing.__module__ if is_class else thing.__globals__.get("__name__"))
        label = f"{module}.{thing.__qualname__}"
        # What something by reference uses is imported together with it, whatever it is.
        by_value = self._by_value and travels_by_value(thing)
        read: Callable[..., None] = self._carried
        if module in self._homes or origin_of(module) is Origin.UNKNOWN:
            name = f"{'class' if is_class else 'function'} {thing.__qualname__.replace('<locals>.', '')}"
            label = _free(name, self._labels.values())
            read = self._class if is_class else self._function
            if not by_value:
                self._imported(module)
        else:
            self._module(module)
        self._labels[id(thing)] = label
        self._alive.append(thing)
        self._todo.append((label, by_value, lambda: read(thing, label)))
        return label

    def _function(self, function: types.FunctionType, label: str) -> None:
        code, names = function.__code__, function.__globals__
        text, running = self._running(code, names)
        self.parts[label] = text or self._not_its_text(code, label)
        for inner in running:
            self._names(inner, names)
        values = function.__defaults__ or ()
        defaults = dict(zip(code.co_varnames[code.co_argcount - len(values) :], values, strict=False))
        for name, value in {**defaults, **(function.__kwdefaults__ or {})}.items():
            self._record(f"default {name} of {label}", value)
        self._closure(function, label)

    def _carried(self, thing: Any, label: str) -> None:
        """Read what comes from a module that is read whole: its text is there, unless another text is what runs."""
        if self._by_value and isinstance(thing, types.FunctionType) and origin_of(thing.__module__) is Origin.PROJECT:
            code = thing.__code__
            if not self._running(code, thing.__globals__)[0]:
                self.parts[f"function {label}"] = self._not_its_text(code, f"function {label}")
        self._closure(thing, label)

    def _closure(self, thing: Any, label: str) -> None:
        """Read what a function carries: its closure cells, and the function that it wraps."""
        if not isinstance(thing, types.FunctionType):
            return
        inside = {"wrapped function": vars(thing)["__wrapped__"]} if "__wrapped__" in vars(thing) else {}
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=False):
            with contextlib.suppress(ValueError):  # an empty cell
                inside[f"closure value {name}"] = cell.cell_contents
        inside.pop("closure value __class__", None)
        # Of an installed wrapper (torch.no_grad) only the project's own function matters.
        ours = self._is_ours(thing.__globals__.get("__name__"))
        for name, value in inside.items():
            if ours or self._is_ours(getattr(value, "__globals__", {"__name__": "builtins"}).get("__name__")):
                self._record(f"{name} of {label}", value)

    def _class(self, cls: type, label: str) -> None:
        members = {name: getattr(m, "__func__", getattr(m, "fget", m)) for name, m in vars(cls).items()}
        unwrapped = {name: inspect.unwrap(m) for name, m in members.items() if inspect.isroutine(m)}
        methods = {name: m for name, m in unwrapped.items() if getattr(m, "__module__", "") == cls.__module__}
        methods = {name: m for name, m in methods.items() if isinstance(m, types.FunctionType)}
        names = next((m.__globals__ for m in methods.values()), vars(sys.modules.get(cls.__module__, cls)))
        for file in sorted({str(names.get("__file__")), *(m.__code__.co_filename for m in methods.values())}):
            source = self._source(file, names)
            own = [m.__code__ for m in methods.values() if m.__code__.co_filename == file]
            own = [code for code in own if code.co_qualname.rpartition(".")[0] == cls.__qualname__]
            found = source.classes(cls.__name__, own)
            if not found and not (self._by_value and source.edited):
                found = source.classes(cls.__name__)
            if found:  # of two with one name, both: which one it was cannot be told
                self.parts[label] = "".join(map(source.cut, found))
                self._names(compiled(self.parts[label], file), names)
        for base in cls.__bases__:
            self._value(base)
        for name, member in sorted(members.items()):
            if label in self.parts:  # its text holds that of its methods, but not what they enclose
                self._closure(methods.get(name), f"{label}.{name}")
            elif name in methods or not name.endswith("_"):
                self._record(f"{name} of {label}", member)

    # Names: what a code object reads from its globals, and what it imports.

    def _names(self, code: types.CodeType, names: Mapping[str, Any]) -> None:
        steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
        for at, step in enumerate(steps):
            if step.opname == "IMPORT_NAME":
                module = "." * steps[at - 2].argval + step.argval
                with contextlib.suppress(ImportError):
                    self._import(importlib.util.resolve_name(module, names.get("__package__")), steps[at - 1].argval)
            elif step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in names:
                self._global(step.argval, names)
                self._dotted(names[step.argval], steps[at + 1 : at + 6])
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._names(constant, names)

    def _dotted(self, thing: object, steps: list[dis.Instruction]) -> None:
        """Follow ``torch.nn.functional.relu`` through three modules, loaded or not."""
        module = thing.__name__ if isinstance(thing, types.ModuleType) else None
        for step in steps:
            if module is None or step.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                return
            inner = vars(sys.modules.get(module, object)).get(step.argval)
            name = inner.__name__ if isinstance(inner, types.ModuleType) else f"{module}.{step.argval}"
            module = self._module(name) if find_module(name) is not None else None

    def _global(self, name: str, names: Mapping[str, Any]) -> None:
        if (id(names), name) not in self._met and not name.startswith("__"):
            self._met.add((id(names), name))
            self._record(f"global {name}", names[name])

    def _import(self, module: str, names: tuple[str, ...] | None) -> None:
        self._module(module)
        for inner in (f"{module}.{name}" for name in names or ()):
            if find_module(inner) is not None:
                self._module(inner)

    def _module(self, name: str) -> str:
        if name in self._met:
            return name
        self._met.add(name)
        origin = origin_of(name)
        if origin is Origin.INSTALLED:
            top = name.partition(".")[0]
            self.packages[top] = version_of(top)
            public = list(itertools.takewhile(lambda part: not part.startswith("_"), name.split(".")))
            while public and find_module(".".join(public)) is None:
                public.pop()
            self.preload.update([".".join(public)] if public else [])
        elif origin is Origin.UNKNOWN:
            self.unseen.add(f"module {name} cannot be found and is not part of the identity")
        elif origin is Origin.PROJECT and name != "__main__":  # that one is read name by name
            self._todo.append((f"module {name}", False, lambda: self._whole(name)))
        return name

    def _whole(self, name: str) -> None:
        parent = name.rpartition(".")[0]
        if parent:
            self._module(parent)
        file, inner = find_module(name) or (None, [])
        if file is not None:
            source = self._source(file, {})
            if not source.text and source.sha256 is None:
                raise FileNotFoundError(file)
            if not is_sent_along(name):
                self._imported(name)
            self.parts[f"module {name}"] = source.text or f"bytes {source.sha256}"
            self._names(compiled(source.text, file), {"__package__": name if inner else parent})

    # Text.

    def _source(self, file: str, names: Mapping[str, Any]) -> Source:
        if file not in self._files:
            self._files[file] = Source(file, names)
        return self._files[file]

    def _running(self, code: types.CodeType, names: Mapping[str, Any]) -> tuple[str, list[types.CodeType]]:
        """Return the text of what workers run for ``code``, empty if there is none, and its code objects."""
        source = self._source(code.co_filename, names)
        same = source.same(code)
        if same or not source.edited:
            # What compiled it may have changed it, as pytest does with assertions, and then the line tells.
            return "".join(map(source.cut, same or source.at_the_line(code))), [code]
        if self._by_value:
            return "", [code]
        found = source.namesake(code) or source.at_the_line(code)  # they import what the file holds now
        return "".join(map(source.cut, found)), found or [code]

    def _not_its_text(self, code: types.CodeType, label: str) -> str:
        """Return what stands for a function without text, and say so if it had one."""
        if self._files[code.co_filename].edited:
            file = PurePath(code.co_filename).name
            self.unseen.add(
                f"{file} was edited after it was loaded: of {label} the bytecode is part of the identity, "
                "since its text is not what runs"
            )
        return bytecode(code)

    def _imported(self, module: str) -> None:
        """Note the files that a worker reads when it imports a module."""
        while module:
            file = (find_module(module) or (None, []))[0]
            if file is not None and (sha256 := self._source(file, {}).sha256) is not None:
                self.files[os.path.abspath(file)] = sha256
            module = module.rpartition(".")[0]

    def _is_ours(self, module: object) -> bool:
        return module in self._homes or origin_of(str(module)) in (Origin.PROJECT, Origin.UNKNOWN)


def _free(name: str, taken: Collection[str]) -> str:
    numbered = (f"{name} ({number})" for number in itertools.count(2))
    return name if name not in taken else next(other for other in numbered if other not in taken)


def _type_name(thing: object) -> str:
    module, name = type(thing).__module__.partition(".")[0], type(thing).__qualname__
    return name if module == "builtins" else f"{module}.{name}"


def _is_plain(thing: object, depth: int = 5) -> bool:
    if isinstance(thing, (list, tuple, set, frozenset, dict)) and depth > 0 and len(thing) < LARGEST_VALUE:
        inner = [*thing, *thing.values()] if isinstance(thing, dict) else thing
        return all(_is_plain(item, depth - 1) for item in inner)
    return isinstance(thing, (types.NoneType, int, float, complex, str, bytes))


def _in_order(items: Iterable[Any]) -> list[Any]:
    """Return the items of a set or dict in an order that no hash seed and no address can change."""
    return sorted(items, key=lambda item: repr(item) if _is_plain(item) else getattr(item, "__qualname__", ""))
