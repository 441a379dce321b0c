"""What rows weights have seen: trained on, or been chosen by. It goes with them, in their file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from etude.core.data import Data
from etude.data.hashes import UnknownRowsError, rows_of
from etude.data.sketch import Sketch


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


def see(found: Any) -> Seen:
    """Return what is seen by who trains on data.

    Args:
        found: What the data function returned.
    """
    if not isinstance(found, Data):
        return Seen(unknown=("what data() gave there was no etude.Data, so nothing tells what was trained on",))
    trained, why = _look("train", found.train)
    chosen, why_not = _look("valid", found.valid) if found.valid is not None else (None, ())
    return Seen(trained, chosen, (*why, *why_not))


def _look(name: str, part: Any) -> tuple[Sketch | None, tuple[str, ...]]:
    try:
        return Sketch.of(rows_of(part)), ()
    except UnknownRowsError as error:
        return None, (f"of its {name} part, {error}",)
    except Exception as error:  # a data set of somebody else's raised: no training should end for that
        return None, (f"of its {name} part, the rows cannot be read ({type(error).__name__}: {error})",)


def _both(one: Sketch | None, other: Sketch | None) -> Sketch | None:
    return one | other if one is not None and other is not None else one or other
