"""What the numbers of a study depend on, as text that can be compared, hashed and shown.

A study may go on tomorrow only if it is still the same study, and two trials are equal only if all
that shaped their numbers was equal. So we read the code that the user's functions can reach:

- a function or class of the functions' own files, by its source; what it names is read in turn;
- any other project module, by its whole file, with the project modules that it imports;
- installed packages by their version; the standard library and Étude itself not at all;
- small plain values (settings, closure cells, default arguments) by value.

What is reachable is read from the bytecode, which knows which names are global, and never by
running or importing anything. What cannot be read is listed in ``unseen`` and is no error: a study with a
large table among its globals should start, and its user should know.

Everything is text, in one of two kinds: *code* ends with a newline and means what its syntax tree
means, so that comments, blank lines and docstrings are free; a *value* is one line and means what it says.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import difflib
import dis
import enum
import functools
import hashlib
import importlib.machinery
import importlib.util
import inspect
import itertools
import json
import linecache
import logging
import numbers
import os
import re
import sys
import textwrap
import types
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final

LARGEST_VALUE: Final = 10_000
"""Characters and elements that one global may have to count by value."""

LONGEST_DIFF: Final = 30
"""Lines of a difference that are shown of one part."""


@dataclass(frozen=True)
class Code:
    """What some functions depend on.

    Args:
        parts: What was read, by a readable name: ``{"function train": "def train(...", ...}``.
        packages: The version of each installed package they use, by the name that is imported.
        preload: Installed modules they name, sorted: what a warm worker imports ahead of time.
        unseen: Sentences about what they use and we could not read.
    """

    parts: Mapping[str, str]
    packages: Mapping[str, str]
    preload: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The sha256 of parts and packages, equal in every process and on every machine."""
        meanings = {name: _meaning(text) for name, text in self.parts.items()}
        said = json.dumps([meanings, dict(self.packages)], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()


def read_code(functions: Mapping[str, Callable[..., Any]]) -> Code:
    """Read everything that ``functions`` can reach; none of it is run or imported, nothing raises.

    Args:
        functions: The functions of an experiment by their role: ``{"train": train, "model": model}``.
    """
    reader = _Reader()
    reader.read(functions)
    return Code(
        parts=dict(sorted(reader.parts.items())),
        packages=dict(sorted(reader.packages.items())),
        preload=tuple(sorted(reader.preload)),
        unseen=tuple(sorted(reader.unseen)),
    )


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Say what changed from ``old`` to ``new`` parts; empty if nothing that matters did.

    Example:
        >>> print(difference({"lr": "uniform(0.0, 1.0)"}, {"lr": "uniform(0.0, 2.0)"}))
        lr: uniform(0.0, 1.0) -> uniform(0.0, 2.0)
    """
    said: list[str] = []
    for name in sorted({*old, *new}):
        before, after = old.get(name), new.get(name)
        if before is None or after is None:
            text = after if before is None else before
            value = "" if text is None or "\n" in text else f": {text}"
            said.append(f"{'added' if before is None else 'removed'} {name}{value}")
        elif "\n" not in before + after:
            said += [] if before == after else [f"{name}: {before} -> {after}"]
        elif _meaning(before) != _meaning(after):
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2)
            shown = list(lines)[2:]  # without the file names
            more = len(shown) - LONGEST_DIFF
            said += [f"{name}:", *(f"  {line}" for line in shown[:LONGEST_DIFF])]
            said += [f"  ... and {more} more lines"] if more > 0 else []
    return "\n".join(said)


def source_line(function: Callable[..., Any]) -> tuple[str, int] | None:
    """Return the file, relative to the working folder if inside it, and the first line of a function."""
    inner: Any = function
    while isinstance(inner, functools.partial) or hasattr(inner, "__wrapped__"):
        inner = inner.func if isinstance(inner, functools.partial) else inner.__wrapped__
    named = getattr(inner, "__init__" if isinstance(inner, type) else "__call__", None)
    code = getattr(inner, "__code__", getattr(named, "__code__", None))
    if code is None or code.co_filename.startswith("<"):
        return None
    file = Path(code.co_filename).absolute()
    inside = file.is_relative_to(Path.cwd())
    return (file.relative_to(Path.cwd()).as_posix() if inside else file.name), code.co_firstlineno


def where_is(experiment: object) -> str | None:
    """Return ``path/to/script.py:name`` of an object that a project file binds to ``name``.

    The path is relative to the working folder. None if no file does, as in a notebook.
    """
    modules = dict(sys.modules)
    for module_name in ("__main__", *(name for name in modules if name != "__main__")):
        module = modules.get(module_name)
        names = getattr(module, "__dict__", {})
        name = next((name for name, bound in list(names.items()) if bound is experiment), None)
        file = names.get("__file__")
        if name and isinstance(file, str) and _origin(module_name) is _Origin.PROJECT:
            return f"{Path(os.path.relpath(file)).as_posix()}:{name}"
    return None


class _Unreadable(Exception):  # noqa: N818 - a signal inside this file, never seen outside
    """A value that cannot be given as a short text; the message is its type."""


class _Reader:
    """Follows names from function to function, breadth first, and writes down what it meets."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}
        self.packages: dict[str, str] = {}
        self.preload: set[str] = set()
        self.unseen: set[str] = set()
        self._homes = {"__main__"}  # modules that are read name by name
        self._labels: dict[int, str] = {}
        self._met: set[tuple[int, str] | str] = set()  # globals, and modules
        self._alive: list[object] = []  # an id is a name only as long as its object lives
        self._open: set[int] = set()  # the containers around the value that is being read
        self._left = 0
        self._todo: list[tuple[str, Callable[[], None]]] = []
        self._files: dict[str, tuple[str, list[_Definition]]] = {}

    def read(self, functions: Mapping[str, Any]) -> None:
        for function in functions.values():
            inner = function
            while isinstance(inner, functools.partial):
                inner = inner.func
            with contextlib.suppress(Exception):  # whatever a callable object may answer
                self._homes |= {inner.__module__} if _origin(inner.__module__) is _Origin.PROJECT else set()
        for role in sorted(functions):
            self._record(role, functions[role])
        for label, step in self._todo:  # it grows while it is read
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
        read: Callable[..., None] = self._closure
        if module in self._homes or _origin(module) is _Origin.UNKNOWN:
            name = f"{'class' if is_class else 'function'} {thing.__qualname__.replace('<locals>.', '')}"
            label = _free(name, self._labels.values())
            read = self._class if is_class else self._function
        else:
            self._module(module)
        self._labels[id(thing)] = label
        self._alive.append(thing)
        self._todo.append((label, lambda: read(thing, label)))
        return label

    def _function(self, function: types.FunctionType, label: str) -> None:
        code, names = function.__code__, function.__globals__
        self.parts[label] = self._source(code, names) or _bytecode(code)
        self._names(code, names)
        values = function.__defaults__ or ()
        defaults = dict(zip(code.co_varnames[code.co_argcount - len(values) :], values, strict=False))
        for name, value in {**defaults, **(function.__kwdefaults__ or {})}.items():
            self._record(f"default {name} of {label}", value)
        self._closure(function, label)

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
            text, nodes = self._definitions(file, names)
            found = [n for n in nodes if isinstance(n, ast.ClassDef) and n.name == cls.__name__]
            if found:  # of two with one name, both: which one it was cannot be told
                self.parts[label] = "".join(_cut(text, node) for node in found)
                self._names(_compiled(self.parts[label], file), names)
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
            module = self._module(name) if _find(name) is not None else None

    def _global(self, name: str, names: Mapping[str, Any]) -> None:
        if (id(names), name) not in self._met and not name.startswith("__"):
            self._met.add((id(names), name))
            self._record(f"global {name}", names[name])

    def _import(self, module: str, names: tuple[str, ...] | None) -> None:
        self._module(module)
        for inner in (f"{module}.{name}" for name in names or ()):
            if _find(inner) is not None:
                self._module(inner)

    def _module(self, name: str) -> str:
        if name in self._met:
            return name
        self._met.add(name)
        origin = _origin(name)
        if origin is _Origin.INSTALLED:
            top = name.partition(".")[0]
            self.packages[top] = _version(top)
            public = list(itertools.takewhile(lambda part: not part.startswith("_"), name.split(".")))
            while public and _find(".".join(public)) is None:
                public.pop()
            self.preload.update([".".join(public)] if public else [])
        elif origin is _Origin.UNKNOWN:
            self.unseen.add(f"module {name} cannot be found and is not part of the identity")
        elif origin is _Origin.PROJECT and name != "__main__":  # that one is read name by name
            self._todo.append((f"module {name}", lambda: self._whole(name)))
        return name

    def _whole(self, name: str) -> None:
        parent = name.rpartition(".")[0]
        if parent:
            self._module(parent)
        file, inner = _find(name) or (None, [])
        if file is not None:
            text = self._definitions(file, {})[0]
            self.parts[f"module {name}"] = text or f"bytes {hashlib.sha256(Path(file).read_bytes()).hexdigest()}"
            self._names(_compiled(text, file), {"__package__": name if inner else parent})

    # Text.

    def _definitions(self, file: str, names: Mapping[str, Any]) -> tuple[str, list[_Definition]]:
        """Return the text of a file and the functions, lambdas and classes in it."""
        if file not in self._files:
            linecache.checkcache(file)
            text = "".join(linecache.getlines(file, dict(names)))
            with contextlib.suppress(SyntaxError, ValueError):
                self._files[file] = (text, [n for n in ast.walk(_parsed(text)) if isinstance(n, _Definition)])
        return self._files.setdefault(file, ("", []))

    def _source(self, code: types.CodeType, names: Mapping[str, Any]) -> str:
        text, nodes = self._definitions(code.co_filename, names)
        found = [
            node
            for node in nodes
            if _first_line(node) == code.co_firstlineno and getattr(node, "name", "<lambda>") == code.co_name
        ]
        if len(found) > 1:  # lambdas of one line
            spans = set(code.co_positions())
            found = [n for n in found if isinstance(n, ast.Lambda) and _span(n.body) in spans] or found
        return "".join(_cut(text, node) for node in found)

    def _is_ours(self, module: object) -> bool:
        return module in self._homes or _origin(str(module)) in (_Origin.PROJECT, _Origin.UNKNOWN)


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


def _first_line(node: _Definition) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _span(node: ast.expr) -> tuple[int, int | None, int, int | None]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _cut(text: str, node: _Definition) -> str:
    if isinstance(node, ast.Lambda):
        return f"{ast.get_source_segment(text, node)}\n"
    lines = text.splitlines()[_first_line(node) - 1 : node.end_lineno]
    return textwrap.dedent("\n".join(lines)) + "\n"


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd escapes in strings, which Python has told already
        try:
            return ast.parse(text)
        except IndentationError:  # a text with less indented strings in it cannot be dedented
            return ast.parse(f"if True:\n{text}")


def _compiled(text: str, file: str) -> types.CodeType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(_parsed(text), file, "exec", dont_inherit=True)


def _meaning(text: str) -> str:
    """Return code as its syntax tree without docstrings, and a value as it is."""
    if "\n" not in text:
        return text
    try:
        tree = _parsed(text)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                has_docstring = ast.get_docstring(node, clean=False) is not None
                node.body = node.body[1:] if has_docstring else node.body
        return _shape(tree)
    except (SyntaxError, ValueError, RecursionError):
        return text


def _shape(node: object) -> str:
    """Return what ``ast.dump`` does, but alike in every Python: fields that are not used are left out."""
    if isinstance(node, ast.Constant):
        return repr(node.value)
    if isinstance(node, ast.AST):
        used = [f"{name}={_shape(value)}" for name, value in ast.iter_fields(node) if value not in (None, [])]
        return f"{type(node).__name__}({', '.join(used)})"
    return f"[{', '.join(map(_shape, node))}]" if isinstance(node, list) else repr(node)


def _bytecode(code: types.CodeType) -> str:
    """Return a hash of a function without source; never its repr, which holds an address."""
    constants = [
        _bytecode(constant)
        if isinstance(constant, types.CodeType)
        else repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)
        for constant in code.co_consts
    ]
    told = repr((code.co_code, code.co_names, code.co_varnames, constants))
    return f"bytecode {hashlib.sha256(told.encode()).hexdigest()}"


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


# Modules: where they come from, found without importing them.


class _Origin(enum.Enum):
    PROJECT = "project"
    INSTALLED = "installed"
    OTHER = "the standard library, or Étude"
    UNKNOWN = "unknown"


def _origin(name: str) -> _Origin:
    top = name.partition(".")[0]
    file, inner = _find(name) or (None, [])
    place = file or next(iter(inner), None)
    if top == "etude" or (place is None and top in sys.stdlib_module_names):
        return _Origin.OTHER
    if place is None:
        return _Origin.UNKNOWN
    if {"site-packages", "dist-packages"} & set(Path(place).parts):
        return _Origin.INSTALLED
    return _Origin.OTHER if place.startswith(os.path.dirname(os.__file__) + os.sep) else _Origin.PROJECT


def _find(name: str) -> tuple[str | None, list[str]] | None:
    """Return the file of a module and the folders of its submodules; None if there is no such module."""
    module = sys.modules.get(name)
    if module is not None:
        names = getattr(module, "__dict__", {})  # not getattr: torch.classes answers to any name
        return names.get("__file__"), list(names.get("__path__") or ())
    parent = name.rpartition(".")[0]
    try:
        if parent:  # importlib.util.find_spec would import the parent
            spec = importlib.machinery.PathFinder.find_spec(name, (_find(parent) or ("", []))[1])
        else:
            spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None:
        return None
    return spec.origin if spec.has_location else None, list(spec.submodule_search_locations or ())


@functools.cache
def _version(top: str) -> str:
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
