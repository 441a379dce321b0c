"""Modules of one tree, kept apart from those of the same names that the process has already.

A variant's ``train.py`` imports its own ``model.py``, and the process that plans an ablation has the project's
``model.py`` loaded. Both live side by side: while code of a tree is called, ``sys.modules`` holds that tree's modules,
and afterwards those that were there before. Import statements inside its functions run later, when nobody knows that
they are of a tree: so each of its modules has an ``__import__`` of its own, which makes the same exchange.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

_EXCHANGING = threading.RLock()
_INSIDE: list[Apart] = []


class StudyStarts(BaseException):  # so that `except Exception` in a script does not read on
    """A script that is only being read has come to a call that starts a study."""


class Apart:
    """The modules of a tree in one process.

    Args:
        folder: Where the tree lies.
        search: Folders in it in which modules are found, relative to it, the script's first.
        files: The tree's paths.
    """

    def __init__(self, folder: Path, search: Sequence[str], files: Sequence[str]) -> None:
        self.folder = folder
        self._places = [str(folder / place) for place in search]
        self._names = names_in(files, search)
        self._modules: dict[str, ModuleType] = {}
        self._builtins = {**vars(builtins), "__import__": self._import}

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Have this tree's modules in place of any others of their names."""
        with _EXCHANGING:
            there = bool(_INSIDE) and _INSIDE[-1] is self
            if not there:
                hidden = self._exchange(self._modules)
                sys.meta_path.insert(0, self)
                sys.path[:0] = self._places  # for what is started by itself, such as spawned loader workers
                _INSIDE.append(self)
        try:
            yield
        finally:
            if not there:
                with _EXCHANGING:
                    _INSIDE.remove(self)
                    sys.meta_path.remove(self)
                    for place in self._places:
                        if place in sys.path:
                            sys.path.remove(place)
                    self._modules = self._exchange(hidden)

    def script(self, path: str, verbs: type | None = None) -> ModuleType:
        """Return a script of the tree as a module, read at most once.

        Args:
            path: Its path in the tree.
            verbs: A class whose ``tune``, ``ablate`` and ``fit`` start studies: at the first call of one reading ends.
        """
        name = Path(path).stem
        with self.inside():
            if name not in sys.modules:
                file = self.folder / path
                spec = importlib.util.spec_from_file_location(name, file, loader=_Loader(self, name, str(file)))
                assert spec is not None
                assert spec.loader is not None
                module = importlib.util.module_from_spec(spec)
                sys.modules[name] = module
                try:
                    with _no_study_may_start(verbs), contextlib.suppress(StudyStarts):
                        spec.loader.exec_module(module)
                except BaseException:
                    del sys.modules[name]
                    raise
            return sys.modules[name]

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Find a module of the tree, before anybody else does."""
        if name.partition(".")[0] not in self._names:
            return None
        spec = PathFinder.find_spec(name, self._places if path is None else path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(self, name, spec.loader.path)
        return spec

    def prepare(self, module: ModuleType) -> None:
        """Give a module the tree's own way of importing."""
        vars(module)["__builtins__"] = self._builtins

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as Python calls it
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        if not level and name.partition(".")[0] not in self._names and name in sys.modules:
            return builtins.__import__(name, globals, locals, fromlist, level)
        with self.inside():
            return builtins.__import__(name, globals, locals, fromlist, level)

    def _exchange(self, others: Mapping[str, ModuleType]) -> dict[str, ModuleType]:
        """Put modules in place of those that have the tree's names, and return these."""
        hidden = {name: module for name, module in list(sys.modules.items()) if name.partition(".")[0] in self._names}
        for name in hidden:
            del sys.modules[name]
        sys.modules.update(others)
        return hidden


class _Loader(SourceFileLoader):
    """Loads a source of a tree, never from a cache: that cannot tell two trees that were written within a second."""

    def __init__(self, apart: Apart, name: str, path: str) -> None:
        super().__init__(name, path)
        self._apart = apart

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code

    def exec_module(self, module: ModuleType) -> None:
        self._apart.prepare(module)
        super().exec_module(module)


def names_in(files: Sequence[str], search: Sequence[str]) -> frozenset[str]:
    """Return the names of modules and packages that are found in some folders of a tree.

    Example:
        >>> sorted(names_in(["train.py", "src/nets/cnn.py", "data/x.csv"], [".", "src"]))
        ['nets', 'src', 'train']
    """
    found = set()
    for place in search:
        prefix = "" if place in ("", ".") else f"{place}/"
        for file in files:
            if file.startswith(prefix) and file.endswith(".py"):
                found.add(file.removeprefix(prefix).partition("/")[0].removesuffix(".py"))
    return frozenset(found)


@contextlib.contextmanager
def _no_study_may_start(verbs: type | None) -> Iterator[None]:
    def read_no_further(*args: Any, **named: Any) -> None:
        raise StudyStarts

    had = {name: getattr(verbs, name) for name in ("tune", "ablate", "fit")} if verbs is not None else {}
    for name in had:
        setattr(verbs, name, read_no_further)
    try:
        yield
    finally:
        for name, verb in had.items():
            setattr(verbs, name, verb)
