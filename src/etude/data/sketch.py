"""A set of rows that may be too large to keep, known by the smallest of its hashes.

A row's hash is as good as a random number that is the same wherever the row occurs. So the smallest hashes of two sets
are samples of the same rows, and what share of one set lies in the other can be told from them alone.
"""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from etude.data.hashes import Hashes

KEPT: Final = 2048
"""So many hashes are kept: 16 KB. Of a set with no more rows than that all are, and whatever is told of it is exact."""

LARGEST: Final = 2**64 - 1


@dataclass(frozen=True)
class Sketch:
    """The smallest hashes of a set of rows.

    Attributes:
        least: They, ascending, each once.
        whole: Whether they are all that there are.

    Source:
        Broder 1997, "On the resemblance and containment of documents", doi:10.1109/SEQUEN.1997.666900: the sketch of
        the s smallest, by which containment is estimated.
    """

    least: tuple[int, ...]
    whole: bool

    @classmethod
    def of(cls, hashes: Sequence[int] | Hashes, *, kept: int = KEPT) -> Sketch:
        """Return the sketch of a set.

        Args:
            hashes: Of its rows, ascending, each once.
            kept: How many are kept at most.
        """
        return cls(tuple(map(int, hashes[:kept])), whole=len(hashes) <= kept)

    @property
    def upto(self) -> int:
        """The hash up to which it has all of the set."""
        return LARGEST if self.whole else self.least[-1]

    def __or__(self, other: Sketch) -> Sketch:
        """Return the sketch of both sets together.

        Example:
            >>> Sketch((1, 5), whole=False) | Sketch((2, 9), whole=True)
            Sketch(least=(1, 2, 5), whole=False)
        """
        upto = min(self.upto, other.upto)
        both = [each for each in sorted({*self.least, *other.least}) if each <= upto]
        most = max(KEPT, len(self.least), len(other.least))
        return Sketch(tuple(both[:most]), whole=self.whole and other.whole and len(both) <= most)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {"least": base64.b64encode(_little(array("Q", self.least)).tobytes()).decode(), "whole": self.whole}

    @classmethod
    def read(cls, plain: Any) -> Sketch:
        """Return what was written as plain data.

        Raises:
            ValueError, TypeError, KeyError: It is none.
        """
        least = array("Q")
        least.frombytes(base64.b64decode(plain["least"]))
        return cls(tuple(_little(least)), whole=bool(plain["whole"]))


def _little(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
