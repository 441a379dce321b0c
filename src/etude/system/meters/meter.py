"""What a meter is."""

from __future__ import annotations

from typing import Protocol

from etude.system.energy import Energy, Label


class Meter(Protocol):
    """Tells the energy that something took between two moments.

    It never holds up who asks, never raises because of what it reads, and never gives 0 for what it does not know: then
    its figure is unavailable, and says why. One stretch at a time is measured; another ``begin`` begins anew.
    """

    @property
    def source(self) -> str:
        """What it reads, for people."""
        ...

    @property
    def label(self) -> Label:
        """What its figures are, if all goes well."""
        ...

    def lacks(self) -> str:
        """Return why it gives no figures here, and what would enable it; empty if it does."""
        ...

    def begin(self) -> None:
        """Begin a stretch."""
        ...

    def end(self) -> Energy:
        """End the stretch, and return what it took."""
        ...


NOT_BEGUN = "the meter was not begun"
"""Why nobody knows what a stretch took that never began."""
