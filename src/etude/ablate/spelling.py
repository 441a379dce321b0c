"""How components are spelled: names with and without quotes, lists of them, values, indices.

A name stands as it is where that can be read back, and else in double quotes, as JSON has it.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable
from typing import Any, Final

from etude.core.errors import ConfigError

END: Final = re.compile(r"\s+(?:with|repair|how|value)=")
"""A name by itself ends where an option begins."""
IN_LIST: Final = re.compile(r"[,\]]")
PART: Final = re.compile(r"\[")
TO: Final = re.compile(r"\.\.")

QUOTE: Final = '"'

_ITEM: Final = r"-?\d+|(?:-?\d+)?:(?:-?\d+)?(?::[1-9]\d*)?"
_INDICES: Final = re.compile(rf"(?:{_ITEM})(?:,(?:{_ITEM}))*")
_FLOATS: Final = {"inf": float("inf"), "-inf": float("-inf")}


class Scanner:
    """Reads a component's text from the left.

    Args:
        text: All of it, for messages.
        at: Where to begin.
    """

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.at = at

    @property
    def rest(self) -> str:
        """What was not read yet."""
        return self.text[self.at :]

    def take(self, mark: str) -> bool:
        """Read ``mark`` if it comes next."""
        here = self.text.startswith(mark, self.at)
        self.at += len(mark) if here else 0
        return here

    def name(self, stop: re.Pattern[str]) -> str:
        """Read a name: one in quotes, or everything up to ``stop``."""
        if self.text.startswith(QUOTE, self.at):
            try:
                name, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
            except ValueError:
                raise self.problem("has a quote that is not closed, or that JSON could not read") from None
            return str(name)
        found = stop.search(self.text, self.at)
        end = len(self.text) if found is None else found.start()
        name = self.text[self.at : end].strip()
        if not name:
            raise self.problem("lacks a name")
        self.at = end
        return name

    def names(self) -> tuple[str, ...]:
        """Read a name, or several in brackets."""
        if not self.take("["):
            return (self._plain_name(END),)
        names = []
        while True:
            self.spaces()
            names.append(self._plain_name(IN_LIST))
            self.spaces()
            if self.take("]"):
                return tuple(names)
            if not self.take(","):
                raise self.problem("has a bracket that is not closed")

    def indices(self) -> str:
        """Read ``[0:16]``, as it stands between the brackets."""
        end = self.text.find("]", self.at)
        if not self.take("[") or end < 0:
            raise self.problem("does not say which, in brackets")
        between = self.text[self.at : end]
        self.at = end + 1
        return between

    def options(self, known: Iterable[str]) -> dict[str, str | tuple[str, ...]]:
        """Read ``repair=learned`` and the like, to the end."""
        allowed = tuple(known)
        found: dict[str, str | tuple[str, ...]] = {}
        while option := re.compile(r"\s+(\w+)=").match(self.text, self.at):
            key = option[1]
            if key not in allowed:
                these = ", ".join(f"{name}=" for name in allowed) or "none"
                raise self.problem(f"has the option {key}=, and here there are: {these}")
            if key in found:
                raise self.problem(f"has the option {key}= twice")
            self.at = option.end()
            found[key] = self.names() if key == "with" else self._option()
        self.spaces()
        if self.rest:
            raise self.problem(f"goes on with {self.rest!r}, which cannot be read")
        return found

    def spaces(self) -> None:
        """Read white space."""
        self.at += len(self.rest) - len(self.rest.lstrip())

    def problem(self, what: str) -> ConfigError:
        """Return the error for a text that cannot be read."""
        return ConfigError(
            f"{self.text!r} is no component: it {what}. Names with odd characters stand in double quotes; "
            "etude.components has functions that make the same from plain arguments."
        )

    def _plain_name(self, stop: re.Pattern[str]) -> str:
        """Read a name where a pattern cannot be, and somebody may think that it could."""
        if self.rest.startswith("~"):
            raise self.problem("has a pattern where names are asked for; a pattern stands alone, as in 'layers:~drop'")
        return self.name(stop)

    def _option(self) -> str:
        """Read the value of an option, with its quotes."""
        start = self.at
        if self.rest[:1] in ('"', "'"):  # an option may begin in what is quoted
            quoted = re.compile(r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'", re.DOTALL).match(self.text, self.at)
            self.at = quoted.end() if quoted else self.at
        found = END.search(self.text, self.at)
        self.at = len(self.text) if found is None else found.start()
        return self.text[start : self.at].strip()


def spelled(name: str, stop: re.Pattern[str], follower: str = "", reserved: str = '"[~') -> str:
    """Return a name as it has to stand before ``follower``: in quotes only if it could not be read back without.

    Args:
        name: The name.
        stop: Where it ends, as ``Scanner.name`` is told.
        follower: What comes after it.
        reserved: What it may not begin with.
    """
    if name and name[0] not in reserved and name == name.strip():
        found = stop.search(name + follower)
        if (len(name) if found is None else found.start()) == len(name):
            return name
    return json.dumps(name, ensure_ascii=False)


def spelled_names(names: tuple[str, ...]) -> str:
    """Return one name, or several in brackets."""
    if len(names) == 1:
        return spelled(names[0], END)
    listed = ",".join(spelled(name, IN_LIST, ",", reserved=QUOTE + "~") for name in names)
    return f"[{listed}]"


def read_value(text: str) -> Any:
    """Return the value that a text stands for: that of a Python literal, and else the text itself.

    Example:
        >>> read_value("0.5"), read_value("sgd"), read_value("'0.5'"), read_value("inf")
        (0.5, 'sgd', '0.5', inf)
    """
    text = text.strip()
    if text in _FLOATS:
        return _FLOATS[text]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what the compiler warns of is no literal
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, Warning):
        return text


def spelled_value(value: Any, stop: re.Pattern[str] | None = None) -> str:
    """Return the shortest text from which ``read_value`` gives a value; of objects that have none, their ``repr``.

    Args:
        value: The value.
        stop: What may not be in the text outside of quotes.
    """
    if isinstance(value, str) and value and type(read_value(value)) is str and read_value(value) == value:
        return value if stop is None or not stop.search(f" {value}") else repr(value)
    return repr(value)


def spelled_indices(which: Any) -> str:
    """Return indices as they stand in brackets, whatever form they have: ``range(16)`` is ``"0:16"``.

    Args:
        which: An integer, a slice, a range, a text such as ``"0:8,12"``, or several of these.

    Raises:
        ConfigError: It is none of these, or there is nothing in it.

    Example:
        >>> spelled_indices(slice(-8, None)), spelled_indices([0, 3]), spelled_indices(" 0:16 ")
        ('-8:', '0,3', '0:16')
    """
    match which:
        case bool():
            pass
        case int():
            return str(which)
        case range() if len(which) and which.start >= 0:
            return spelled_indices(slice(which.start, which.stop, which.step))
        case slice() if _INDICES.fullmatch(text := _slice(which)):
            return text
        case str() if _INDICES.fullmatch(text := re.sub(r"\s", "", which)):
            return re.sub(r"\d+", lambda digits: str(int(digits[0])), text)
        case tuple() | list() | set() | frozenset() if which:
            return ",".join(spelled_indices(one) for one in (sorted(which) if isinstance(which, set) else which))
    raise ConfigError(
        f"indices={which!r} does not say which. Pass whole numbers, a slice or a range that is not empty, "
        'or a text such as "0:16" or "0,3".'
    )


def counted(indices: str, n: int) -> tuple[int, ...] | None:
    """Return the numbers that indices stand for, of ``n`` that there are, in order; None if they go beyond these."""
    found: set[int] = set()
    for item in indices.split(","):
        numbers = [int(number) if number else None for number in item.split(":")]
        if any(number is not None and not -n <= number <= n for number in numbers[:2]):
            return None
        if ":" in item:
            found.update(range(*slice(*numbers).indices(n)))
        elif (index := int(item)) < n:
            found.add(index % n)
        else:
            return None
    return tuple(sorted(found))


def _slice(which: slice) -> str:
    text = ":".join("" if part is None else str(part) for part in (which.start, which.stop))
    return text if which.step in (None, 1) else f"{text}:{which.step}"
