"""A loader that is divided over ranks: what of it is another thing meanwhile, and how it becomes whole again."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from torch.utils.data import DataLoader

from etude.frameworks.coats import take_off
from etude.frameworks.torch import every
from etude.frameworks.torch_telling import TELLING

WHOLE: Final = "_etude_whole"
"""What of a loader was replaced."""


class Divided(NamedTuple):
    """A loader that is divided.

    Attributes:
        loader: It.
        name: What it is called in messages.
        rank: Which rank this is.
        ranks: How many there are.
    """

    loader: DataLoader[Any]
    name: str
    rank: int
    ranks: int

    def put(self, name: str, value: Any) -> None:
        """Set what torch forbids to set, since a pass that is under way would not know of it: none is, here."""
        self.loader.__dict__.setdefault(WHOLE, {}).setdefault(name, getattr(self.loader, name))
        object.__setattr__(self.loader, name, value)
        self.loader._iterator = None  # it may have worker processes that go by what was there


def make_whole(loader: DataLoader[Any]) -> None:
    """Undo what was done to a loader: it may be older than this run, and serve many."""
    for name, value in loader.__dict__.pop(WHOLE, {}).items():
        object.__setattr__(loader, name, value)
        loader._iterator = None
    take_off(loader, TELLING)


def undivide(data: Any) -> None:
    """Let all loaders give what they would give to one rank: a library divides their batches itself."""
    for loader in every(DataLoader, data):
        make_whole(loader)
