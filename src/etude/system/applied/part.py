"""What all that sets knobs of the host have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from etude.system.knobs import Value


class Refused(Exception):  # noqa: N818 - it becomes a text
    """A knob cannot be set, now or here; the text says why, and the mend."""


class Part(Protocol):
    """Sets one knob of the host, or several that are found in one place. Made where it is of use, or ``Refused``.

    It raises what goes wrong: who asks it sees to it that no training ends of that.

    Attributes:
        mended: What an earlier one had left changed, and was put back; empty if nothing.
    """

    mended: str

    @property
    def now(self) -> Mapping[str, Value]:
        """Its knobs, and their values as they were found."""
        ...

    def put(self, name: str, value: Value) -> None:
        """Set a knob, everywhere or nowhere. The value that was found brings back what was found, to the letter.

        Raises:
            Refused: It cannot be set so.
            OSError: The system says so.
        """
        ...

    def close(self) -> None:
        """Bring back what was found, and let go.

        Raises:
            OSError: That cannot be done.
        """
        ...
