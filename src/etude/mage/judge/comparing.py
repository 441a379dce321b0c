"""When two facts are the same, and how they are told."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

MOST: Final = 3
"""So many names are told; of the others, how many there are."""


def same(one: Any, other: Any) -> bool:
    """Say whether two facts are equal; tuples are lists once they have been in a journal, and NaN is NaN."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if _is_list(one) and _is_list(other):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float) and one != one:  # noqa: PLR0124 - NaN is not itself
        return other != other  # noqa: PLR0124
    return bool(one == other)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def shown(value: Any) -> str:
    """Return a fact as a person reads it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shown(one)}" for key, one in value.items()) + "}"
    if _is_list(value):
        return "[" + ", ".join(map(shown, value)) + "]"
    return value if isinstance(value, str) else repr(value)


def listed(names: Collection[str]) -> str:
    """Return names as they stand in a sentence: ``a``, ``b`` and 4 more.

    Example:
        >>> listed(["a", "b"])
        '`a` and `b`'
    """
    given = [f"`{name}`" for name in names]
    if len(given) > MOST:
        given = [*given[: MOST - 1], f"{len(given) - MOST + 1} more"]
    return given[0] if len(given) == 1 else f"{', '.join(given[:-1])} and {given[-1]}"


def under(path: str, name: str) -> bool:
    """Say whether a name is at a path or below it; everything is below the empty one."""
    return not path or name == path or name.startswith(f"{path}.")


def owner(row: str) -> str:
    """Return the module that a parameter belongs to."""
    return row.rpartition(".")[0]


def names_call(name: str, called: str) -> bool:
    """Say whether a claim's name means a function or an operator that was called.

    ``clip_grad_norm_`` means that of ``torch.nn.utils`` wherever it lives there, ``smooth`` means ``train.py:smooth``.
    """
    if name == called or plain(name) == plain(called):
        return True
    if ":" in name:
        file, _, function = name.partition(":")
        theirs, _, qualified = called.partition(":")
        return function == qualified and (theirs.endswith(f"/{file}") or file.endswith(f"/{theirs}"))
    last = name.rpartition(".")[2]
    if ":" in called:
        return "." not in name and called.partition(":")[2].rpartition(".")[2] == name
    # libraries say where a function is imported from or where it is written: torch.nn.utils.clip_grad.clip_grad_norm_
    if called.rpartition(".")[2] != last or "." not in called:
        return False
    wanted, there = name.split(".")[:-1], called.split(".")[:-1]
    return set(wanted) <= set(there) or set(there) <= set(wanted)


def plain(operator: str) -> str:
    """Return an operator's name without its namespace and overload.

    Example:
        >>> plain("aten.convolution.default"), plain("aten::relu_"), plain("max_pool2d_with_indices")
        ('convolution', 'relu', 'max_pool2d_with_indices')
    """
    found = re.fullmatch(r"aten(?:\.|::)(\w+)(?:\.\w+)?", operator)
    name = found[1] if found else operator
    return name.rstrip("_") if found or ("." not in name and ":" not in name) else name


def counted(operators: Mapping[str, int]) -> dict[str, int]:
    """Return operators by their plain names; in place or not is the same."""
    counts: dict[str, int] = {}
    for name, count in operators.items():
        counts[plain(name)] = counts.get(plain(name), 0) + count
    return counts


def words_of(name: str) -> set[str]:
    """Return the words of an identifier, in lower case: ``use_gradClip`` is use, grad, clip."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
