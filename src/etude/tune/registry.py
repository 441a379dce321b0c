"""Things that go by a name or by the call that makes them: Étude's own samplers and stoppers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from etude.core.errors import ConfigError
from etude.core.near import did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """Dataclasses by name, whose fields are their options.

    Args:
        kind: What they are, as the argument is called that takes them.
        classes: Name -> class.
        presets: Further names -> a class with options that are not its defaults.
        advice: Names that people may look for and that are none -> what to do instead.
    """

    def __init__(
        self,
        kind: str,
        classes: Mapping[str, type[T]],
        *,
        presets: Mapping[str, Callable[[], T]] = MappingProxyType({}),
        advice: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.kind = kind
        self.classes = dict(classes)
        self.presets = dict(presets)
        self.advice = dict(advice)

    @property
    def choices(self) -> tuple[str, ...]:
        """All names."""
        return (*self.classes, *self.presets)

    @property
    def names(self) -> str:
        """All names, for messages."""
        return ", ".join(map(repr, self.choices))

    def make(self, name: str) -> T:
        """Return the one of that name, with its defaults.

        Raises:
            ConfigError: There is none.
        """
        if name in self.presets:
            return self.presets[name]()
        if name in self.advice:
            raise ConfigError(self.advice[name])
        if name not in self.classes:
            meant = did_you_mean(name, self.choices)
            raise ConfigError(f"{self.kind}={name!r} is not known. {meant}There are: {self.names}.")
        return self.classes[name]()

    def has(self, thing: object) -> bool:
        """Say whether this is one of ours."""
        return type(thing) in self.classes.values()

    def fresh(self, thing: T, **other: Any) -> T:
        """Return one of ours anew, with its options alone, some of them others: what it has seen stays there."""
        return type(thing)(**{**self._options(thing), **other})

    def uncalled(self, cls: type) -> ConfigError:
        """Return the error for a class where what it makes was wanted."""
        name = f"etude.{cls.__name__}" if cls in self.classes.values() else cls.__qualname__
        return ConfigError(f"{self.kind}={name} is a class, and no {self.kind} yet. Call it: {self.kind}={name}().")

    def describe(self, thing: object) -> str:
        """Return the call that makes one of ours; of others the name of its class."""
        if not self.has(thing):
            return type(thing).__qualname__
        defaults = {f.name: f.default for f in dataclasses.fields(thing)}  # type: ignore[arg-type]
        said = [f"{name}={value!r}" for name, value in self._options(thing).items() if value != defaults[name]]
        return f"{type(thing).__name__}({', '.join(said)})"

    def to_plain(self, thing: object) -> dict[str, Any] | None:
        """Return one of ours as plain data; None if it is not ours."""
        name = next((name for name, cls in self.classes.items() if type(thing) is cls), None)
        return None if name is None else {"name": name, **self._options(thing)}

    def from_plain(self, data: Mapping[str, Any]) -> T:
        """Return what ``to_plain`` made ``data`` of."""
        options = {option: value for option, value in data.items() if option != "name"}
        return self.classes[data["name"]](**options)

    def _options(self, thing: object) -> dict[str, Any]:
        return {f.name: getattr(thing, f.name) for f in dataclasses.fields(thing) if f.init}  # type: ignore[arg-type]
