"""Operators of PyTorch: how often they run and where, and with which numbers where no module stands around them."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etude.mage.probe.inside.seen import Seen

COMPILED = "calls of modules and operators were not counted: the program compiles its model"
ARITHMETIC = frozenset(
    "add sub rsub mul div pow clamp clamp_min clamp_max lerp addcmul addcdiv remainder floor_divide".split()  # noqa: SIM905
)
"""Operators whose whole numbers are values; those of others are sizes and places."""


class Operators:
    """Counts operators from the import of PyTorch on: then ours is the outermost that looks at them.

    Args:
        seen: Where facts are kept.
    """

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._counting: Any = None
        self._is_on = False
        self._thread = threading.get_ident()
        self._names: dict[Any, str] = {}
        self._counts: dict[str, int] = {}
        self._elsewhere: dict[str, int] = {}
        self._inside: dict[int, dict[str, int]] = {}
        self._stack: list[int] = []  # numbers of the modules whose calls run
        self._stepping = 0
        self._backward: Any = None

    # --- where it runs ----------------------------------------------------------------------------

    @property
    def is_apart(self) -> bool:
        """Whether no call of a module runs."""
        return not self._stack and threading.get_ident() == self._thread

    def enter(self, module: Any) -> None:
        """A call of a module begins."""
        if threading.get_ident() == self._thread:
            self._stack.append(id(module))

    def leave_module(self, module: Any) -> None:
        """A call of a module has ended, and with it those that began in it."""
        if threading.get_ident() == self._thread and id(module) in self._stack:
            while self._stack.pop() != id(module):
                pass

    def step(self, begins: bool) -> None:
        """A step of an optimizer begins or ends."""
        self._stepping += 1 if begins else -1

    def of(self, module: Any) -> dict[str, int]:
        """Return what ran in the calls of a module, those of modules inside it apart."""
        return self._inside.get(id(module), {})

    def update(self) -> None:
        """Hand over what was counted."""
        if self._backward is not None:
            self._seen.facts["operators"] = dict(self._counts)
            self._seen.facts["elsewhere"] = dict(self._elsewhere)

    # --- counting ---------------------------------------------------------------------------------

    def watch(self, torch: Any) -> None:
        """Count from here on, unless something else looks at operators already."""
        modes = sys.modules["torch.utils._python_dispatch"]
        self._backward = torch._C._current_graph_task_id
        if modes._len_torch_dispatch_stack():
            self._seen.note("operators were not counted: something else looks at them from the beginning")
            return
        seen, count = self._seen, self._count

        class Counting(modes.TorchDispatchMode):  # type: ignore[name-defined, misc]
            """Counts operators, and runs them as they are."""

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                if not seen.is_busy:
                    count(func, args)
                return func(*args, **(kwargs or {}))

        self._counting, self._is_on = Counting(), True
        self._counting.__enter__()

    def compile(self) -> None:
        """Count no more, and take back what was counted: under a mode of ours the program would not compile."""
        self.leave()
        self._seen.note(COMPILED)
        for counts in (self._counts, self._elsewhere, self._inside):
            counts.clear()

    def leave(self) -> None:
        """Count no more: this is a child of the watched process, or it compiles."""
        counting, self._counting, self._is_on = self._counting, None, False
        if counting is not None:
            counting.__exit__(None, None, None)

    def _count(self, func: Any, args: Any) -> None:
        if not self._is_on or not self._seen.is_on:
            return
        name = self._names.get(func)
        if name is None:
            whole = str(func).rpartition(".")[0]
            name = self._names[func] = "" if whole.startswith("profiler.") else whole
        if not name:
            return
        self._counts[name] = self._counts.get(name, 0) + 1
        if self._stack:
            counts = self._inside.setdefault(self._stack[-1], {})
            counts[name] = counts.get(name, 0) + 1
        elif not self._stepping and self._backward() == -1:
            self._elsewhere[name] = self._elsewhere.get(name, 0) + 1
            self._take(name, args)

    def _take(self, name: str, args: Any) -> None:
        """Keep the numbers that it runs with."""
        kinds: Any = (float, int) if name.rpartition(".")[2].rstrip("_") in ARITHMETIC else float
        numbers = [f"{n}={one}" for n, one in enumerate(args) if isinstance(one, kinds) and not isinstance(one, bool)]
        if numbers:
            self._seen.take(name, " ".join(numbers))
