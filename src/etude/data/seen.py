"""What rows weights have seen: trained on, or been chosen by. It goes with them, in their file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from etude.core.data import Data
from etude.data.hashes import Known, UnknownRowsError, rows_of
from etude.data.sketch import Sketch

if TYPE_CHECKING:
    from etude.data.hashes import Hashes

PARTS: Final = ("train", "valid", "test")


@dataclass(frozen=True)
class Seen:
    """What rows weights have seen, and those that they began with, as far as that is known.

    Attributes:
        trained: The rows that they were trained on; None if nothing is known.
        chosen: Those of validation parts; None if there were none, or nothing is known.
        unknown: Why there may be others, as parts of sentences.
    """

    trained: Sketch | None = None
    chosen: Sketch | None = None
    unknown: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether nothing is known."""
        return self.trained is None and self.chosen is None

    def __or__(self, other: Seen) -> Seen:
        """Return what both have seen."""
        return Seen(
            _both(self.trained, other.trained),
            _both(self.chosen, other.chosen),
            tuple(dict.fromkeys([*self.unknown, *other.unknown])),
        )

    def plain(self) -> dict[str, Any] | None:
        """Return it as JSON can hold it; None for what is read where nothing was written."""
        if self == UNSAID:
            return None
        return {
            "trained": self.trained.plain() if self.trained is not None else None,
            "chosen": self.chosen.plain() if self.chosen is not None else None,
            "unknown": list(self.unknown),
        }

    @classmethod
    def read(cls, plain: Any) -> Seen:
        """Return what was written as plain data; of a file without it, nothing is known."""
        if plain is None:
            return UNSAID
        try:
            trained, chosen = (Sketch.read(plain[n]) if plain[n] is not None else None for n in ("trained", "chosen"))
            return cls(trained, chosen, tuple(map(str, plain["unknown"])))
        except (ValueError, TypeError, KeyError):
            return cls(unknown=("what their file says of the rows that they were trained on cannot be read",))


UNSAID: Final = Seen(unknown=("their file does not say what rows they were trained on",))
"""What is known of weights of whose rows nothing was ever written down."""


@dataclass(frozen=True)
class Rows:
    """The rows of each part of a data set.

    Attributes:
        parts: Name of a part that there is -> its rows; or why they cannot be told, as a part of a sentence.
        named: Whether anything says which part is which.
    """

    parts: Mapping[str, Hashes | str]
    named: bool = True


def read_rows(found: Any) -> Rows:
    """Return the rows of what the data function returned; nothing ends because they cannot be told."""
    if not isinstance(found, Data):
        return Rows({}, named=False)
    known: Known = {}
    parts = {name: getattr(found, name) for name in PARTS}
    return Rows({name: _rows(name, part, known) for name, part in parts.items() if part is not None})


def _rows(name: str, part: Any, known: Known) -> Hashes | str:
    try:
        return rows_of(part, known)
    except UnknownRowsError as error:
        return f"of its {name} part, {error}"
    except Exception as error:  # a data set of somebody else's raised: where that matters, training will tell
        return f"its {name} part cannot be read ({type(error).__name__}: {error})"


def see(rows: Rows) -> Seen:
    """Return what is seen by who trains on a data set.

    Args:
        rows: Of its parts.
    """
    if not rows.named:
        return Seen(unknown=("what data() gave there was no etude.Data, so nothing tells what was trained on",))
    train, valid = rows.parts.get("train"), rows.parts.get("valid")
    why = tuple(part for part in (train, valid) if isinstance(part, str))
    return Seen(_sketch(train), _sketch(valid), why)


def _sketch(rows: Hashes | str | None) -> Sketch | None:
    return None if rows is None or isinstance(rows, str) else Sketch.of(rows)


def _both(one: Sketch | None, other: Sketch | None) -> Sketch | None:
    return one | other if one is not None and other is not None else one or other
