"""Which parameters an experiment has, and which function takes each: matching by name.

The three functions of an experiment - train, model, data - ask for hyperparameters as Python
functions do: by parameter name, with types and defaults. ``Signature.read`` finds them once, when
the experiment is defined, and refuses what cannot be; ``arguments`` gives each function its share.

A parameter whose annotation is a dataclass is a *group*: its fields are parameters of their own,
named with dots (``optimizer.lr``), to any depth.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Final, TypeVar

import msgspec

from etude.core.errors import SignatureError
from etude.core.metrics import Metrics
from etude.core.near import did_you_mean
from etude.core.text import brief

T = TypeVar("T")


class Kind(Enum):
    """What a parameter means for a trial's identity."""

    STATEFUL = "stateful"
    STATELESS = "stateless"
    DERIVED = "derived"


Stateless = Annotated[T, Kind.STATELESS]
"""``path: etude.Stateless[str]``: may differ between runs without changing the numbers; not searchable."""

Derived = Annotated[T, Kind.DERIVED]
"""``n_features: etude.Derived[int]``: its value comes from the data function."""

GIVEN: Final = {
    "train": frozenset({"model", "data", "run", "seed"}),
    "model": frozenset({"seed"}),
    "data": frozenset({"seed", "without"}),
    "partition": frozenset({"seed"}),
}
"""Names that Étude itself gives to each function; a variant of one, ``model:no_se``, is given the same."""


def variant_of(role: str, variant: str) -> str:
    """Return the role of the function that takes another one's place in a variant."""
    return f"{role}:{variant}"


MISSING: Final = dataclasses.MISSING

WHOLE: Final = frozenset({"config", "cfg", "conf", "params", "hparams", "hyperparameters", "args", "opt", "trial"})
"""What training functions call it that get all hyperparameters in one, as other libraries hand them out."""


@dataclass(frozen=True)
class Parameter:
    """A hyperparameter of an experiment.

    Attributes:
        name: Its name, dotted if it is a field of a group.
        roles: The functions that take it, of ``train``, ``model``, ``data``.
        kind: Whether it is stateful, stateless or derived.
        annotation: Its type; ``Any`` if none was written.
        default: Its default; ``MISSING`` if it has none.
    """

    name: str
    roles: tuple[str, ...]
    kind: Kind
    annotation: Any
    default: Any

    @property
    def required(self) -> bool:
        """Whether somebody has to give it a value."""
        return self.default is MISSING and self.kind is not Kind.DERIVED

    @property
    def taken_by(self) -> str:
        """Who takes it, for messages."""
        return " and ".join(f"{role}()" for role in self.roles)

    def check(self, value: Any) -> None:
        """Refuse a value of another type than the annotation says.

        Raises:
            SignatureError: It does not fit. An int is fine where a float is asked for, a str is not.
        """
        problem = misfit(value, self.annotation)
        if problem is not None:
            raise SignatureError(
                f"{self.name}={value!r} does not fit {self.taken_by}, which asks for "
                f"{self.name}: {_type_name(self.annotation)} ({problem}). Give a value of that type, "
                "or change the annotation."
            )


@dataclass(frozen=True)
class Signature:
    """The parameters of an experiment.

    Attributes:
        parameters: All of them, by name.
        given: What each function asks of Étude itself (``run``, ``seed``, ...), by role.
        open: The functions that take whatever nobody else asked for (``**params``).
    """

    parameters: Mapping[str, Parameter]
    given: Mapping[str, frozenset[str]]
    open: tuple[str, ...]
    _groups: Mapping[str, Mapping[str, Any]]  # role -> top-level group name -> dataclass

    @classmethod
    def read(cls, functions: Mapping[str, Callable[..., Any]]) -> Signature:
        """Read the functions of an experiment.

        Args:
            functions: Role (``train``, ``model``, ``data``) -> function.

        Raises:
            SignatureError: A parameter cannot be given by name, two functions disagree about one,
                or the training function asks for a model or data that there is none of.
        """
        read = [_read(function, role) for role, function in functions.items()]
        for need in ("model", "data"):
            if need not in functions and any(need in one.given for one in read):
                raise SignatureError(
                    f"train() asks for {need!r}, and the experiment has no {need} function. "
                    f"Pass Experiment(train, {need}=...), or call the parameter something else."
                )
        found: dict[str, Parameter] = {}
        for parameter in (parameter for one in read for parameter in one.parameters):
            found[parameter.name] = _agree(found.get(parameter.name), parameter)
        return cls(
            parameters=found,
            given={one.role: frozenset(one.given) for one in read},
            open=tuple(one.role for one in read if one.open),
            _groups={one.role: one.groups for one in read},
        )

    def flat(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``params`` with whole groups taken apart into their dotted fields."""
        flat: dict[str, Any] = {}
        for name, value in params.items():
            if _is_whole_group(value) and any(known.startswith(f"{name}.") for known in self.parameters):
                flat.update(_fields_of(name, value))
            else:
                flat[name] = plain(value)
        return flat

    def check(self, params: Mapping[str, Any]) -> None:
        """Refuse a configuration that these functions could not be called with.

        Raises:
            SignatureError: A name that no function takes, a value of the wrong type, one that is
                missing, or one that only the data function may give.
        """
        self.check_names(params)
        self.check_complete(params)
        for name, value in params.items():
            if name in self.parameters:
                self.parameters[name].check(value)

    def check_names(self, names: Iterable[str]) -> None:
        """Refuse names that no function takes, and those that the data function gives."""
        for name in names:
            parameter = self.parameters.get(name)
            if parameter is None and any(name in given for given in GIVEN.values()):
                raise SignatureError(
                    f"{name!r} is not a hyperparameter: Étude gives it to the functions itself. "
                    "Call the hyperparameter something else."
                )
            if parameter is None and not self.open:
                raise SignatureError(f"No function takes {name!r}. {self._nearest(name)}{self._one_by_one(name)}")
            if parameter is not None and parameter.kind is Kind.DERIVED:
                raise SignatureError(
                    f"{name!r} is Derived in {parameter.taken_by}: its value comes from the data function, "
                    "so it cannot be given. Leave it out, or drop the annotation."
                )

    def check_complete(self, names: Collection[str]) -> None:
        """Refuse if a parameter without a default is not among ``names``."""
        for parameter in self.parameters.values():
            if parameter.required and parameter.name not in names:
                raise SignatureError(
                    f"{parameter.taken_by} needs {parameter.name!r}, and nothing gives it: it has no default "
                    f"and no value. Give it a value ({parameter.name}=...), a default, or a place in the space."
                    f"{self._one_by_one()}"
                )

    def arguments(self, role: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the function of ``role`` is called with, apart from what Étude gives itself.

        Args:
            role: ``train``, ``model`` or ``data``.
            params: A configuration that ``check`` accepts, with derived values where there are any.
        """
        mine: dict[str, Any] = {}
        for name, value in params.items():
            parameter = self.parameters.get(name)
            if (parameter is not None and role in parameter.roles) or (parameter is None and role in self.open):
                mine[name] = value if parameter is None else _convert(value, parameter.annotation)
        for group, cls in self._groups[role].items():
            fields = {n.removeprefix(f"{group}."): v for n, v in mine.items() if n.startswith(f"{group}.")}
            mine = {n: v for n, v in mine.items() if not n.startswith(f"{group}.")}
            mine[group] = _assemble(cls, fields, self._defaults_of(group))
        return mine

    def defaults(self) -> dict[str, Any]:
        """Return every default, by parameter."""
        return {p.name: p.default for p in self.parameters.values() if p.default is not MISSING}

    def stateful(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of a configuration that can change a trial's numbers."""
        kinds = {name: p.kind for name, p in self.parameters.items()}
        return {n: v for n, v in params.items() if kinds.get(n, Kind.STATEFUL) is Kind.STATEFUL}

    def _defaults_of(self, group: str) -> dict[str, Any]:
        prefix = f"{group}."
        return {n.removeprefix(prefix): v for n, v in self.defaults().items() if n.startswith(prefix)}

    def _one_by_one(self, name: str = "lr") -> str:
        """Say how hyperparameters come, where a function seems to wait for all of them in one."""
        whole = next((p for p in self.parameters.values() if p.required and p.name in WHOLE), None)
        if whole is None:
            return ""
        return (
            f" Hyperparameters come one by one, by name: write {name} in the place of {whole.name} in the signature of "
            f"{whole.taken_by}, or **{whole.name} for all of them."
        )

    def _nearest(self, name: str) -> str:
        known = ", ".join(sorted(self.parameters)) or "none at all"
        return f"{did_you_mean(name, self.parameters)}They take: {known}."


class Definition(typing.Protocol):
    """An experiment, as those see it who carry it out."""

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Role (``train``, ``model``, ``data``) -> function."""
        ...

    @property
    def signature(self) -> Signature:
        """What the functions take."""
        ...

    @property
    def metrics(self) -> Metrics:
        """What judges a trial."""
        ...


def reports_by_itself(experiment: Definition) -> bool:
    """Return whether trainers of an experiment's models are reported without a call in the training function."""
    return bool(getattr(experiment, "auto_report", True))


def is_group(annotation: Any) -> bool:
    """Say whether a parameter with this annotation is a group of parameters."""
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)


def _is_whole_group(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def misfit(value: Any, annotation: Any) -> str | None:
    """Say why ``value`` does not fit ``annotation``; None if it does, or if that cannot be told."""
    if annotation is Any or (isinstance(annotation, type) and isinstance(value, annotation)):
        # bool is an int to Python, and a mistake to everybody else.
        return "a bool is no number" if isinstance(value, bool) and annotation in (int, float) else None
    try:
        _converted(value, annotation)
    except msgspec.ValidationError as error:
        problem = str(error).removesuffix(".")
        return problem[:1].lower() + problem[1:]
    except TypeError:  # an annotation that msgspec cannot check, such as a union of two containers
        return None
    return None


def plain(value: Any) -> Any:
    """Return numpy scalars as the Python numbers that they stand for; everything else as it is."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return value.item()
    return value


def _convert(value: Any, annotation: Any) -> Any:
    """Return ``value`` as the annotation has it: an Enum from its value, a float from an int."""
    if annotation is Any or (isinstance(annotation, type) and isinstance(value, annotation)):
        return value
    try:
        return _converted(value, annotation)
    except (msgspec.ValidationError, TypeError):
        return value


def _converted(value: Any, annotation: Any) -> Any:
    """Convert, and leave nothing behind: msgspec keeps notes on the user's classes, which do not pickle."""
    try:
        return msgspec.convert(value, annotation, strict=True)
    finally:
        for part in (annotation, *typing.get_args(annotation)):
            if isinstance(part, type) and "__msgspec_cache__" in vars(part):
                with contextlib.suppress(AttributeError, TypeError):
                    delattr(part, "__msgspec_cache__")


def _is_missing(value: object) -> bool:
    """Say whether a dataclass's field has none; a class that was pickled by value has a sentinel of its own."""
    return type(value).__qualname__ == "_MISSING_TYPE"


@dataclass
class _Asked:
    """What one function asks for."""

    role: str
    parameters: list[Parameter] = dataclasses.field(default_factory=list)
    given: list[str] = dataclasses.field(default_factory=list)
    groups: dict[str, Any] = dataclasses.field(default_factory=dict)
    open: bool = False


def _read(function: Callable[..., Any], role: str) -> _Asked:
    _check_returns(function, role)
    asked = _Asked(role)
    signature = _signature(function, role)
    hints = _hints(function)
    for name, p in signature.parameters.items():
        if name == "self" and not asked.parameters and p.default is p.empty:
            raise SignatureError(
                f"{role}() takes 'self': it is a method, taken from its class and not from an object. "
                f"Pass that of an object: Trainer().{getattr(function, '__name__', role)}, or a plain function."
            )
        match p.kind:
            case p.VAR_POSITIONAL:
                continue
            case p.VAR_KEYWORD:
                asked.open = True
            case p.POSITIONAL_ONLY:
                raise SignatureError(
                    f"{role}() takes {name!r} by position only, and parameters are given by name. "
                    f"Remove the '/' from its signature."
                )
            case _ if name in GIVEN[role.partition(":")[0]]:
                asked.given.append(name)
            case _:
                default = MISSING if p.default is p.empty else p.default
                kind, annotation = _kind(hints.get(name, Any))
                if is_group(annotation):
                    asked.groups[name] = annotation
                asked.parameters += _expand(name, role, kind, annotation, default)
    return asked


def _signature(function: Callable[..., Any], role: str) -> inspect.Signature:
    if not callable(function) or _is_built(function):
        raise SignatureError(_no_function(function, role))
    try:
        return inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise SignatureError(
            f"The signature of {role}={function!r} cannot be read ({error}), so nothing can be given to it "
            "by name. Wrap it in a function with named parameters."
        ) from None


def _check_returns(function: Callable[..., Any], role: str) -> None:
    """Refuse a function that does nothing when it is called, but returns what would do it."""
    if inspect.iscoroutinefunction(function):
        raise SignatureError(
            f"{role}() is an async function, and nobody would await it. Write def instead of async def; "
            "asyncio.run(...) in it runs what has to be awaited."
        )
    if role == "train" and inspect.isgeneratorfunction(function):
        raise SignatureError(
            "train() yields, so a call of it trains nothing and returns a generator. Report what it yields: "
            "run.report(...), with run among its parameters."
        )


def _is_built(thing: object) -> bool:
    """Say whether this is a network that has been built: one of PyTorch or Keras can be called, and builds nothing."""
    return not isinstance(thing, type) and any(
        all(hasattr(thing, name) for name in names)
        for names in (("state_dict", "forward"), ("get_weights", "trainable_weights"))
    )


def _no_function(given: object, role: str) -> str:
    kind = type(given).__name__
    if role == "model" and (_is_built(given) or hasattr(given, "get_params")):
        return (
            f"model={kind}(...) is a model that has been built already, and each trial needs one of its own, built "
            f"with its hyperparameters. Pass what builds it: a function that returns {kind}(...), or the class."
        )
    return (
        f"{role}={brief(given)} is no function. Pass a function, a functools.partial or an object that can be called; "
        "the function itself, without parentheses, since each trial calls it."
    )


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = annotated(function)
    return _resolved(getattr(target, "__annotations__", {}), getattr(target, "__globals__", {}))


def annotated(function: Callable[..., Any]) -> Any:
    """Return what bears the annotations of a function: of a class its ``__init__``, of a partial what is in it."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        target: Any = function.__init__  # type: ignore[misc]
    else:
        target = function if inspect.isroutine(function) else type(function).__call__
    return inspect.unwrap(target)


def _hints_of_class(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        found |= _resolved(inspect.get_annotations(base), vars(sys.modules.get(base.__module__, object)))
    return found


def _resolved(annotations: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Return annotations as objects, one by one: one that exists for type checkers only spoils no other."""
    found: dict[str, Any] = {}
    for name, annotation in annotations.items():
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        with contextlib.suppress(NameError, TypeError, AttributeError, SyntaxError):
            found |= typing.get_type_hints(holder, globalns=dict(names), include_extras=True)
    return found


def _kind(annotation: Any) -> tuple[Kind, Any]:
    if typing.get_origin(annotation) is Annotated:
        inner, *notes = typing.get_args(annotation)
        kinds = [note for note in notes if isinstance(note, Kind)]
        return (kinds[0] if kinds else Kind.STATEFUL), inner
    return Kind.STATEFUL, annotation


def _expand(name: str, role: str, kind: Kind, annotation: Any, default: Any) -> Iterator[Parameter]:
    if not is_group(annotation):
        yield Parameter(name, (role,), kind, annotation, default)
        return
    if default is not MISSING and not isinstance(default, annotation):
        raise SignatureError(
            f"{name!r} is a group of parameters in {role}(), and its default {default!r} is no "
            f"{_type_name(annotation)}. Give it one, or none: the fields have defaults of their own."
        )
    hints = _hints_of_class(annotation)
    for field in dataclasses.fields(annotation):
        if not field.init:
            continue
        value: Any = MISSING if _is_missing(field.default) else field.default
        if default is not MISSING:
            value = getattr(default, field.name)
        elif not _is_missing(factory := typing.cast("Any", field.default_factory)):
            value = factory()
        field_kind, field_type = _kind(hints.get(field.name, Any))
        stricter = kind if field_kind is Kind.STATEFUL else field_kind
        yield from _expand(f"{name}.{field.name}", role, stricter, field_type, value)


def _agree(first: Parameter | None, second: Parameter) -> Parameter:
    if first is None:
        return second
    if first.default is not MISSING and second.default is not MISSING and not _same(first.default, second.default):
        raise SignatureError(
            f"{second.name!r} has two defaults: {first.default!r} in {first.taken_by} and {second.default!r} in "
            f"{second.taken_by}. One name is one hyperparameter. Give both the same default, or rename one."
        )
    default = second.default if first.default is MISSING else first.default
    kinds = {first.kind, second.kind}
    kind = next((k for k in (Kind.DERIVED, Kind.STATELESS) if k in kinds), Kind.STATEFUL)
    annotation = second.annotation if first.annotation is Any else first.annotation
    return Parameter(first.name, (*first.roles, *second.roles), kind, annotation, default)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a is b or bool(a == b))


def _fields_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(value):
        if not field.init:
            continue
        inner = getattr(value, field.name)
        if _is_whole_group(inner):
            yield from _fields_of(f"{name}.{field.name}", inner)
        else:
            yield f"{name}.{field.name}", plain(inner)


def _assemble(cls: Any, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
    hints = _hints_of_class(cls)
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        annotation = _kind(hints.get(field.name, Any))[1]
        if is_group(annotation):
            prefix = f"{field.name}."
            inner = {n.removeprefix(prefix): v for n, v in values.items() if n.startswith(prefix)}
            inner_defaults = {n.removeprefix(prefix): v for n, v in defaults.items() if n.startswith(prefix)}
            arguments[field.name] = _assemble(annotation, inner, inner_defaults)
        elif field.name in values:
            arguments[field.name] = _convert(values[field.name], annotation)
        elif field.name in defaults:
            default = defaults[field.name]
            made = not _is_missing(field.default_factory)  # such a one is nobody else's
            arguments[field.name] = copy.deepcopy(default) if made else default
    return cls(**arguments)


def _type_name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
