"""Plain values: what a parameter can be, when two are the same, and how they are written down.

They are compared, hashed, sent to workers and kept in journals, so objects have no place among them.
"""

from __future__ import annotations

import keyword
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from etude.core.errors import SpaceError
from etude.core.numbers import is_number

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...] | None"
"""What a parameter can be: plain, so that it can be compared, hashed, sent and written down."""


def listed(kind: str, values: object) -> tuple[Value, ...]:
    """Return the plain, distinct values that were listed for a domain of this kind."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise SpaceError(
            f"{kind}({values!r}) is given a {type(values).__name__}, not a list. "
            + mend(values, f"Write a list, such as {kind}([1, 2]).")
        )
    if not values:
        raise SpaceError(f"{kind}([]) has no values, so none can be picked. List at least one.")
    plain = tuple(plain_value(value) for value in values)
    counts = Counter(map(key, plain))
    for value in plain:
        if counts[key(value)] > 1:
            raise SpaceError(f"{kind}({list(plain)!r}) has {value!r} more than once, which would favour it. Leave one.")
    return plain


def plain_value(value: Any) -> Value:
    """Return ``value``, which is None, a bool, an int of 64 bits, a finite float, a str or a tuple of such."""
    if type(value) is int and not fits_64_bits(value):
        raise SpaceError(
            f"The value {value!r} does not fit into 64 bits, so it cannot be written to a study's journal. "
            "Pass a smaller one, or its digits as a text, and convert that inside the function."
        )
    if type(value) is str and not is_unicode(value):
        raise SpaceError(
            f"The value {value!r} is no Unicode text, since half of a surrogate pair is no character, so it cannot be "
            "written to a study's journal. Choose by a label, and look the text up inside the function."
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise SpaceError(
            f"The value {value!r} cannot be written to a study's journal. "
            f"Choose by a label, such as {str(value)!r}, and convert it inside the function."
        )
    if type(value) is tuple:
        return tuple(plain_value(part) for part in value)
    if value is None or type(value) in (bool, int, float, str):
        return value  # type: ignore[no-any-return]
    raise SpaceError(
        f"The value {value!r} is of type {type(value).__name__!r}, which is not plain "
        "(None, bool, int, float, str, or a tuple of those). "
        + mend(value, "Choose by a label, such as its name, and build the object inside the function.")
    )


def fits_64_bits(number: int) -> bool:
    """Say whether a whole number fits into 64 bits, with a sign or without: messages and journals hold no others."""
    return -(2**63) <= number < 2**64


def is_unicode(text: str) -> bool:
    """Say whether a text can be encoded; names of files that are no UTF-8 come from the system as texts that cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def mend(given: object, otherwise: str) -> str:
    """Return the advice for something that is nearly right, or else the advice ``otherwise``."""
    if isinstance(given, range) and len(given) > 1 and given.step > 0:
        step = f", step={given.step}" if given.step > 1 else ""
        return f"Write etude.integers({given[0]}, {given[-1]}{step})."
    if isinstance(given, Iterator):
        return "Write a list: list(...) makes one of it."
    if callable(given) and getattr(given, "__module__", "").startswith("etude."):
        return f"Call it: etude.{getattr(given, '__name__', '')}(...)."
    if isinstance(given, set | frozenset):
        return "Write a list, which has the same order in every run."
    if hasattr(given, "tolist"):
        return "Call its .tolist()."
    return "Write a tuple." if isinstance(given, list) else otherwise


def is_pair(value: object) -> bool:
    """Say whether this is how other libraries write a range: two numbers, the smaller first."""
    return (
        isinstance(value, tuple)
        and len(value) == len(("low", "high"))
        and all(map(is_number, value))
        and (value[0] < value[1])
    )


def pair_for_range(name: str, pair: Any) -> str:
    """Return what to say of a pair that stands where a range seems to be meant."""
    low, high = pair
    ints = isinstance(low, int) and isinstance(high, int)
    kinds = "integers" if ints else "loguniform" if low > 0 and high / low > 20 else "uniform"  # noqa: PLR2004
    return (
        f"{name}={pair} is one value, a tuple, and no range. Write etude.{kinds}({low}, {high}) for a range, "
        f"[{low}, {high}] for one of the two; and [{pair}] if the tuple is meant."
    )


def bounds_in(given: Mapping[Any, object]) -> str:
    """Return what to write for a mapping that holds the bounds of a range; nothing for another."""
    for low, high in (("low", "high"), ("min", "max"), ("lower", "upper")):
        if low in given and high in given:
            return f"Write etude.uniform({given[low]}, {given[high]}) for a range."
    return ""


def key(value: object) -> object:
    """Return what is equal for the same values only: Python has True == 1 == 1.0."""
    return (tuple, *map(key, value)) if isinstance(value, tuple) else (type(value), value)


def label(value: Value) -> str:
    """Return ``value`` as part of a path: names as they are, everything else unmistakably quoted."""
    bare = isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value)
    return str(value) if bare else repr(value)


def encoded(value: Value) -> Any:
    """Return ``value`` as data that survives JSON, where a tuple would come back as a list."""
    return {"tuple": [encoded(part) for part in value]} if isinstance(value, tuple) else value


def decoded(data: Any) -> Value:
    """Return the value that ``encoded`` made ``data`` of."""
    return tuple(decoded(part) for part in data["tuple"]) if isinstance(data, dict) else data
