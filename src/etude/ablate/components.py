"""Components: what an ablation can take away, as strings and as small values.

    "feature:age"   "layers:[conv1,pool1]"   "between:mixed0..mixed1"   "filters:conv2[0:16]"   "dropout"

``read_component`` makes the value of a string, and the value prints itself as the shortest string that reads back to
it. A component is what was asked for; what it stands for in a certain model and its data, ``etude.ablate.matching``
finds out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, Literal, cast, get_args

from etude.ablate.spelling import (
    END,
    PART,
    QUOTE,
    TO,
    Scanner,
    read_value,
    spelled,
    spelled_indices,
    spelled_names,
    spelled_value,
)
from etude.core.errors import ConfigError
from etude.core.text import brief

DataKind = Literal["feature", "channel", "modality"]
LayerKind = Literal["layer", "module", "type"]
PartKind = Literal["filters", "units", "heads"]
How = Literal["drop", "permute", "constant"]
Repair = Literal["auto", "learned"]


class Natural(Enum):
    """The "off" value that a number or a switch has by itself."""

    OFF = "0 of a number, False of a switch"


@dataclass(frozen=True)
class _Named:
    """What components that go by names or by a pattern have in common."""

    kind: Any
    names: tuple[str, ...]
    pattern: str | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(dict.fromkeys(self.names)))
        if bool(self.names) == bool(self.pattern):
            raise ConfigError(
                f"A {self.kind} is taken away by its name, or by matching=: pass one of them, and not both."
            )
        if not all(isinstance(name, str) and name for name in self.names):
            raise ConfigError(f"names={self.names!r} of a component {self.kind!r} are not all names. Pass texts.")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise ConfigError(
                f"{self.pattern!r} is no regular expression ({error}). A '~' before a name makes it one; "
                "with '*' and '?' alone leave the '~' out."
            ) from None

    @property
    def body(self) -> str:
        """The kind and the names, as they are spelled."""
        plural = len(self.names) > 1
        if self.pattern is not None:
            return f"{self.kind}:~{spelled(self.pattern, END, reserved=QUOTE)}"
        return f"{PLURALS[self.kind] if plural else self.kind}:{spelled_names(self.names)}"


@dataclass(frozen=True)
class DataComponent(_Named):
    """Features, channels or modalities of the data.

    Attributes:
        kind: ``"feature"``, ``"channel"`` or ``"modality"``.
        names: Their names; in these ``*`` and ``?`` stand for other characters, unless a name has them.
        pattern: A regular expression that is searched for in names, instead.
        how: ``"drop"``, or ``"permute"`` or ``"constant"``, which keep the shape and ask another question.
        value: The constant.
    """

    kind: DataKind
    names: tuple[str, ...] = ()
    pattern: str | None = None
    how: How = "drop"
    value: float | str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _one_of("how", self.how, get_args(How))
        if (self.value is not None) != (self.how == "constant"):
            raise ConfigError(
                f"how={self.how!r} and value={self.value!r} do not fit together. A constant needs its value, "
                'and only a constant has one: how="constant", value=0.'
            )

    def __str__(self) -> str:
        how = "" if self.how == "drop" else f" how={self.how}"
        return self.body + how + ("" if self.value is None else f" value={spelled_value(self.value, END)}")


def names_along(with_: Any) -> tuple[str, ...]:
    """Return the names of what goes along, as a tuple; a text is one name.

    Raises:
        ConfigError: They are no names.
    """
    names = (with_,) if isinstance(with_, str) else tuple(with_) if isinstance(with_, Iterable) else (with_,)
    if not all(isinstance(name, str) and name for name in names):
        raise ConfigError(
            f"with_={brief(with_)} does not name what goes along. Pass a name such as 'relu2', or several."
        )
    return names


@dataclass(frozen=True, kw_only=True)
class _OfModel:
    """Options of what is taken out of a model.

    Attributes:
        with_: What else goes along, by name: the activation after a layer, for instance.
        repair: ``"learned"`` allows a small adapter with parameters where nothing without any fits.
    """

    with_: tuple[str, ...] = ()
    repair: Repair = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "with_", names_along(self.with_))
        _one_of("repair", self.repair, get_args(Repair))

    @property
    def options(self) -> str:
        """The options, as they are spelled."""
        along = f" with={spelled_names(self.with_)}" if self.with_ else ""
        return along + (f" repair={self.repair}" if self.repair != "auto" else "")


@dataclass(frozen=True)
class LayerComponent(_Named, _OfModel):
    """Layers and blocks, by their paths or by the class that they are of.

    Attributes:
        kind: ``"layer"`` or ``"module"``, which mean the same; ``"type"``, and the names are those of classes.
        names: Paths, or the ends of paths; in these ``*`` and ``?`` stand for other characters, but no dots.
        pattern: A regular expression that is searched for in paths, instead.
    """

    kind: LayerKind
    names: tuple[str, ...] = ()
    pattern: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _OfModel.__post_init__(self)

    def __str__(self) -> str:
        return self.body + self.options


@dataclass(frozen=True)
class BetweenComponent(_OfModel):
    """Everything that is called after one layer, up to and including another.

    Attributes:
        first: The layer that stays.
        last: The last one that goes.
    """

    first: str
    last: str

    def __str__(self) -> str:
        return (
            f"between:{spelled(self.first, TO, '..', QUOTE)}..{spelled(self.last, END, reserved=QUOTE)}{self.options}"
        )


@dataclass(frozen=True)
class PartComponent(_OfModel):
    """Some of the filters, units or heads of a layer.

    Attributes:
        of: What it is that goes.
        name: The layer, by its path or the end of it.
        indices: Which, as they stand in brackets: ``"0:16"``.
    """

    of: PartKind
    name: str
    indices: str

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "indices", spelled_indices(self.indices))

    def __str__(self) -> str:
        return f"{self.of}:{spelled(self.name, PART, '[', QUOTE)}[{self.indices}]{self.options}"


@dataclass(frozen=True)
class SettingComponent:
    """A hyperparameter that is switched off.

    Attributes:
        name: The parameter.
        off: The value that it has when it is off.
    """

    name: str
    off: Any = Natural.OFF

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _SETTING.fullmatch(self.name):
            raise ConfigError(f"{self.name!r} is no name of a hyperparameter. Pass one such as 'dropout'.")
        if self.off != self.off:
            raise ConfigError(f"{self.name!r} cannot have the off value NaN, which equals nothing. Pass another.")

    def __str__(self) -> str:
        return self.name if self.off is Natural.OFF else f"{self.name}={spelled_value(self.off)}"


@dataclass(frozen=True)
class CustomComponent:
    """Functions that take the place of the experiment's. It prints its name, which cannot be read back.

    Attributes:
        name: What the arm is called.
        model: A model function, if it is another.
        data: A data function, if it is another.
        train: A training function, if it is another.
        paired: Whether its runs and the base's with equal seeds are pairs, for functions of which nothing is seen;
            None goes by how they begin.
        says: What else a plan and a report say of it.
    """

    name: str
    model: Callable[..., Any] | None = None
    data: Callable[..., Any] | None = None
    train: Callable[..., Any] | None = None
    paired: bool | None = None
    says: str = ""

    roles: ClassVar = ("model", "data", "train")

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise ConfigError(f"etude.custom({self.name!r}) needs a name: it is what the arm is called in tables.")
        given = {role: getattr(self, role) for role in self.roles}
        if all(function is None for function in given.values()):
            raise ConfigError(f"etude.custom({self.name!r}) changes nothing. Pass model=, data= or train=.")
        for role, function in given.items():
            if function is not None and not callable(function):
                raise ConfigError(f"etude.custom({self.name!r}, {role}={function!r}) is no function. Pass a function.")
        if not (self.paired is None or isinstance(self.paired, bool)):
            raise ConfigError(
                f"etude.custom({self.name!r}, paired={self.paired!r}) says neither that its runs are pairs nor that "
                "they are not. Pass True or False, or leave it out to go by how they begin."
            )
        if not isinstance(self.says, str):
            raise ConfigError(f"etude.custom({self.name!r}, says={self.says!r}) is no sentence. Pass a text.")

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions that were given, by role."""
        return {role: getattr(self, role) for role in self.roles if getattr(self, role) is not None}

    def __str__(self) -> str:
        return f"custom:{spelled(self.name, END)}"


Component = DataComponent | LayerComponent | BetweenComponent | PartComponent | SettingComponent | CustomComponent
"""What an ablation can take away."""

PLURALS: Final = {
    "feature": "features",
    "channel": "channels",
    "modality": "modalities",
    "layer": "layers",
    "module": "modules",
    "type": "types",
}
_SINGULARS: Final = {**{kind: kind for kind in PLURALS}, **{plural: kind for kind, plural in PLURALS.items()}}
_PREFIX: Final = re.compile(r"\s*([A-Za-z_]\w*):\s*")
_SETTING: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_SWITCHED: Final = re.compile(rf"\s*({_SETTING.pattern})\s*(?:=(.*))?", re.DOTALL)


def read_component(text: str | Component) -> Component:
    """Return the component that a text stands for; one that is a component already as it is.

    Args:
        text: ``"layer:conv2"``, ``"features:[age,fare]"``, the name of a hyperparameter; or a component.

    Raises:
        ConfigError: It cannot be read.

    Example:
        >>> read_component("layers:[conv1, pool1] repair=learned").names
        ('conv1', 'pool1')
        >>> str(read_component("features:[age]"))
        'feature:age'
    """
    if isinstance(text, get_args(Component)):
        return cast("Component", text)
    if not isinstance(text, str):
        raise ConfigError(
            f"{text!r} is no component. Pass a text such as 'layer:conv2', 'feature:age' or 'dropout', "
            "or a value of etude.components."
        )
    if switched := _SWITCHED.fullmatch(text):
        return SettingComponent(switched[1], Natural.OFF if switched[2] is None else read_value(switched[2]))
    prefix = _PREFIX.match(text)
    if prefix is None:
        raise ConfigError(
            f"{text!r} is no component: it has no kind, and is no name of a hyperparameter. "
            f"Write a kind before it, of {', '.join(_KINDS)}: 'layer:conv2', 'feature:age'."
        )
    return _read(prefix[1], Scanner(text, prefix.end()))


_KINDS: Final = (*PLURALS, "between", *get_args(PartKind))


def _read(word: str, scanner: Scanner) -> Component:
    kind = _SINGULARS.get(word, word)
    match kind:
        case "feature" | "channel" | "modality" | "layer" | "module" | "type":
            names, pattern = _names_or_pattern(scanner)
            if kind in get_args(DataKind):
                options = scanner.options(("how", "value"))
                how, value = cast("How", options.get("how", "drop")), options.get("value")
                constant = None if value is None else read_value(str(value))
                return DataComponent(cast("DataKind", kind), names, pattern, how, constant)
            return LayerComponent(cast("LayerKind", kind), names, pattern, **_of_model(scanner))
        case "between":
            first = scanner.name(TO)
            if not scanner.take(".."):
                raise scanner.problem("does not say up to where: 'between:FIRST..LAST'")
            return BetweenComponent(first, scanner.name(END), **_of_model(scanner))
        case "filters" | "units" | "heads":
            name, indices = scanner.name(PART), scanner.indices()
            return PartComponent(kind, name, indices, **_of_model(scanner))
        case "custom":
            raise ConfigError(
                f"{scanner.text!r} has functions, and no text holds these. "
                f"Pass etude.custom({scanner.name(END)!r}, model=...) itself."
            )
    raise scanner.problem(f"has the kind {word!r}, and there are: {', '.join(_KINDS)}")


def _names_or_pattern(scanner: Scanner) -> tuple[tuple[str, ...], str | None]:
    return ((), scanner.name(END)) if scanner.take("~") else (scanner.names(), None)


def _of_model(scanner: Scanner) -> dict[str, Any]:
    options = scanner.options(("with", "repair"))
    return {"with_": options.get("with", ()), "repair": options.get("repair", "auto")}


def _one_of(what: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{what}={value!r} is not known. There are: {', '.join(map(repr, allowed))}.")
