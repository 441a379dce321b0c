"""Settings as they are when the program runs: flags, configurations, and globals in upper case."""

from __future__ import annotations

import dataclasses
import functools
import gc
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etude.mage.probe.inside.seen import Seen

CONFIGURATION = re.compile(r"(Config|Configuration|Conf|Cfg|Args|Arguments|Settings|Options|Params|HParams|Hparams)$")
NAMES = frozenset(("args", "cfg", "conf", "config", "hparams", "hps", "opt", "opts", "params", "settings"))
"""What variables are called that hold a configuration."""
GLOBAL = re.compile(r"[A-Z][A-Z0-9_]*$")


class Settings:
    """Reads settings.

    Args:
        seen: Where they are kept.
    """

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._flags: dict[str, Any] = {}
        self._found: dict[str, Any] = {}

    def watch(self, argparse: Any) -> None:
        """See what the program's own parsers give."""
        original = argparse.ArgumentParser.parse_known_args

        @functools.wraps(original)
        def parse_known_args(parser: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(parser, *args, **kwargs)
            self._take(found[0], sys._getframe(1))
            return found

        self._take = self._seen.hook(self._parsed)
        argparse.ArgumentParser.parse_known_args = parse_known_args

    def _parsed(self, flags: Any, frame: Any) -> None:
        while frame is not None and frame.f_globals.get("__name__") == "argparse":
            frame = frame.f_back
        if frame is not None and self._seen.place(frame.f_code.co_filename):
            self._flags.update(self._seen.plain.plain_items(vars(flags).items()))
            self._seen.write()

    def update(self) -> None:
        """Look again, and hand over what is there now.

        The same value goes by its short name, if no setting has that already, and by its long one.
        """
        found: dict[str, Any] = dict(self._flags)
        for owner, items in [*self._objects(), *self._variables(), *self._globals()]:
            for name, value in self._seen.plain.plain_items(items).items():
                found.setdefault(name, value)
                if owner:
                    found.setdefault(f"{owner}.{name}", value)
        self._found.update(found)
        self._seen.facts["settings"] = dict(self._found)

    def _objects(self) -> list[tuple[str, Any]]:
        """Return instances of the project's configurations; objects are looked through only if there are such."""
        wanted = {kind for kind in self._seen.plain.classes(object) if self._is_configuration(kind)}
        return [
            (type(one).__name__, [(f.name, getattr(one, f.name, None)) for f in dataclasses.fields(one)])
            for one in (gc.get_objects() if wanted else ())
            if type(one) in wanted
        ]

    def _is_configuration(self, kind: type) -> bool:
        is_named = "__dataclass_fields__" in kind.__dict__ and CONFIGURATION.search(kind.__name__) is not None
        return is_named and bool(self._seen.place(_file(sys.modules.get(kind.__module__))))

    def _variables(self) -> list[tuple[str, Any]]:
        """Return mappings and namespaces that running functions hold under a name that says so."""
        found = []
        frame: Any = sys._getframe(1)
        while frame is not None:
            if self._seen.place(frame.f_code.co_filename):
                for name in NAMES.intersection(frame.f_code.co_varnames):
                    found += _items(name, frame.f_locals.get(name))
            frame = frame.f_back
        return found

    def _globals(self) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        own = [module for module in list(sys.modules.values()) if self._seen.place(_file(module))]
        own.sort(key=lambda module: module.__name__ != "__main__")
        for module in own:
            owner = "" if module.__name__ == "__main__" else module.__name__
            held = dict(vars(module))
            found.append((owner, [(name, value) for name, value in held.items() if GLOBAL.match(name)]))
            for name in NAMES.intersection(held):
                found += _items(name, held[name])
        return found


def _file(module: Any) -> str:
    """Return where a module comes from; some would import more if they were asked in another way."""
    found = getattr(module, "__dict__", {}).get("__file__")
    if not found and getattr(module, "__name__", "") == "__main__":  # Python has taken it away again at the end
        found = next((part for part in sys.orig_argv[1:] if part.endswith(".py")), None)
    return found or "<unknown>"


def _items(name: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(name, list(value.items()))]
    if type(value).__name__ in ("Namespace", "SimpleNamespace"):
        return [(name, list(vars(value).items()))]
    return []
