"""Coats: an object of the user's stays the object that it is, and does one thing more.

Its class is exchanged in place, for a subclass made on the fly that has the same name. So what Python looks up on the
class, such as ``__iter__``, can be another thing for this one object. An object may wear several coats, one over the
other. Pickle would not find such a class by its name: what it writes is the plain object and the coats that it is to
have again.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Coat:
    """What some objects do more than others of their class.

    Attributes:
        name: What it is called; no other has that name.
        methods: A function of a module, for pickle's sake. It takes the class that the coat goes over, and returns the
            methods of the subclass by their names.
        copied: Whether copies wear it too, pickled ones as well.

    Example:
        >>> def counts_from_one(below):
        ...     def index(self, item):
        ...         return below.index(self, item) + worn(self, ONE)
        ...     return {"index": index}
        >>> ONE = Coat("one", counts_from_one)
        >>> class Row(list):
        ...     pass
        >>> row = Row("abc")
        >>> put_on(row, ONE, 1)
        >>> row.index("c"), type(row).__name__, plain_class(row) is Row
        (3, 'Row', True)
    """

    name: str
    methods: Callable[[type[Any]], Mapping[str, Any]]
    copied: bool = True


class Here:
    """Something of this process alone: a copy of what has it has the very same, a pickled one has None in its place."""

    def __deepcopy__(self, memo: Any) -> Here:
        return self

    def __reduce__(self) -> Any:
        return type(None), ()


PLAIN: Final = "_etude_plain"
"""Where a class of ours has the one that the user knows its objects by."""
COATS: Final = "_etude_coats"
"""Where it has the coats of its objects, the outermost last."""
MADE: Final = "_etude_made"
"""Is true of it once it is made."""


def put_on(thing: Any, coat: Coat, what: Any) -> None:
    """Put a coat on an object; on one that wears it, only what goes with it becomes another thing.

    Args:
        thing: The object; it has a ``__dict__``.
        coat: It.
        what: What this object's methods find by ``worn``.
    """
    thing.__dict__[_key(coat)] = what
    if not wears(thing, coat):
        thing.__class__ = _coated(type(thing), coat)


def take_off(thing: Any, coat: Coat) -> None:
    """Take a coat off an object, if it wears it; others that it wears stay."""
    thing.__dict__.pop(_key(coat), None)
    if wears(thing, coat):
        others = (other for other in _coats(thing) if other != coat)
        thing.__class__ = functools.reduce(_coated, others, plain_class(thing))


def wears(thing: Any, coat: Coat) -> bool:
    """Say whether an object wears a coat."""
    return coat in _coats(thing)


def worn(thing: Any, coat: Coat) -> Any:
    """Return what goes with a coat that an object wears; None if it wears none of that kind, or cannot wear any."""
    return getattr(thing, _key(coat), None)


def plain_class(thing: Any) -> type[Any]:
    """Return the class that the user knows an object by."""
    found: type[Any] = getattr(type(thing), PLAIN, type(thing))
    return found


def named_like(cls: type[Any], body: Mapping[str, Any], *, made_by: type[Any] | None = None) -> type[Any]:
    """Return a subclass that has the name of its class.

    Args:
        cls: The class.
        body: What the subclass has.
        made_by: Its metaclass; that of the class if left out.
    """
    names = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    told = {} if made_by is None else {"metaclass": made_by}
    return types.new_class(cls.__name__, (cls,), told, lambda space: space.update({**names, **body}))


def _key(coat: Coat) -> str:
    return f"_etude_{coat.name}"


def _coats(thing: Any) -> tuple[Coat, ...]:
    found: tuple[Coat, ...] = getattr(type(thing), COATS, ())
    return found


def _coated(cls: type[Any], coat: Coat) -> type[Any]:
    """Return the subclass whose objects wear a coat over what those of a class do."""
    if (cls, coat) not in _CLASSES:
        ours = {PLAIN: getattr(cls, PLAIN, cls), COATS: (*getattr(cls, COATS, ()), coat), "__reduce_ex__": _reduced}
        meta: Any = type(cls)
        made = _CLASSES[cls, coat] = named_like(cls, {**coat.methods(cls), **ours}, made_by=_handing_on(meta))
        type.__setattr__(made, MADE, True)
    return _CLASSES[cls, coat]


@functools.cache
def _handing_on(meta: Any) -> Any:
    """Return a metaclass whose classes, once made, hand what is set on them on to the class that the user knows.

    So a method that counts calls by ``type(self).calls += 1`` counts them where the user looks.
    """
    if hasattr(meta, MADE):
        return meta

    def __setattr__(cls: Any, name: str, value: Any) -> None:  # noqa: N807
        if MADE in vars(cls) and not _is_pythons_own(name):
            setattr(getattr(cls, PLAIN), name, value)
        else:
            meta.__setattr__(cls, name, value)

    def __delattr__(cls: Any, name: str) -> None:  # noqa: N807
        if MADE in vars(cls) and not _is_pythons_own(name):
            delattr(getattr(cls, PLAIN), name)
        else:
            meta.__delattr__(cls, name)

    body = {MADE: False, "__setattr__": __setattr__, "__delattr__": __delattr__}
    return named_like(meta, body)


def _is_pythons_own(name: str) -> bool:
    return name == "_abc_impl" or (name.startswith("__") and name.endswith("__"))


_CLASSES: Final[dict[tuple[type[Any], Coat], type[Any]]] = {}
"""Made once, so that objects of one class stay of one."""


def _reduced(thing: Any, protocol: Any) -> Any:
    """Return what pickle and copy make another one of, as ``__reduce_ex__`` does."""
    plain, coats = plain_class(thing), _coats(thing)
    reduce: Any = plain.__reduce_ex__
    made = reduce(thing, protocol)
    if isinstance(made, str):  # it is found by that name
        return made
    make, args, *state = made
    if state and isinstance(state[0], dict):
        alone = {_key(coat) for coat in coats if not coat.copied}
        state[0] = {name: value for name, value in state[0].items() if name not in alone}
    own = tuple(plain if arg is type(thing) else arg for arg in args)
    return _made_again, (make, own, [(coat, worn(thing, coat)) for coat in coats if coat.copied]), *state


def _made_again(make: Callable[..., Any], args: tuple[Any, ...], coats: list[tuple[Coat, Any]]) -> Any:
    thing = make(*args)
    for coat, what in coats:
        put_on(thing, coat, what)
    return thing
