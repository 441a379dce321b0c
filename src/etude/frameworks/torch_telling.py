"""Loaders that tell of each batch, just before they give it, which examples it has and how much it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from torch.utils.data import DataLoader

from etude.frameworks.coats import Coat, Here, put_on, worn
from etude.frameworks.torch_shares import shares_of
from etude.frameworks.torch_views import Noted


class Drawn(NamedTuple):
    """A batch that a divided loader gives next.

    Attributes:
        ids: The indices of its examples, as the sampler gave them, in order; None where there are no indices.
        weight: What a mean over this batch counts in the mean over ranks: this rank's examples times ranks, by all of
            this step. 0 means that all its examples are another rank's, and it is there to be as many steps.
        n: How many examples all ranks have in this step; 0 if nobody can tell.
        loader: Who gives it.
        batch: It.
    """

    ids: Sequence[Any] | None
    weight: float
    n: int
    loader: DataLoader[Any]
    batch: Any


@dataclass(frozen=True, eq=False)
class Listener(Here):
    """Who hears of a loader.

    Attributes:
        drawn: Called just before it gives a batch.
        begins: Called when a pass over it begins, on all ranks at the same point.
    """

    drawn: Callable[[Drawn], object] | None
    begins: Callable[[], object] | None


class _Telling(NamedTuple):
    """What goes with a loader that tells.

    Attributes:
        listener: Who hears of it; None in another process than that which divided it.
        trains: Whether it was divided for training.
        per_step: How many batches of those that the user's length counts are one step.
    """

    listener: Listener | None
    trains: bool
    per_step: int


def let_tell(loader: DataLoader[Any], listener: Listener, *, trains: bool, per_step: int = 1) -> None:
    """Let a loader tell of its batches; it stays the object and, by name, the type that it was.

    Args:
        loader: It.
        listener: Who is told.
        trains: Whether it gives several ranks their parts of its batches to train on.
        per_step: How many batches of those that its length counts are one step.
    """
    put_on(loader, TELLING, _Telling(listener, trains, per_step))


def is_shared(loader: Any) -> bool:
    """Say whether a loader gives several ranks their parts of its batches to train on."""
    telling: _Telling | None = worn(loader, TELLING)
    return telling is not None and telling.trains


def _telling(below: type[Any]) -> Mapping[str, Any]:
    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807 - the inner one begins at once, and draws then
        listener = worn(self, TELLING).listener
        if listener is not None and listener.begins is not None:
            listener.begins()
        before = (getattr(self, "next_iter_state", None) or {}).get("_steps_since_snapshot", 0)
        return _told(below.__iter__(self), self, before)

    def __len__(self: Any) -> int:  # noqa: N807
        n: int = below.__len__(self)
        per_step: int = worn(self, TELLING).per_step
        return n // per_step if self.drop_last else -(-n // per_step)

    return {"__iter__": __iter__, "__len__": __len__}


TELLING: Final = Coat("telling", _telling)


def _told(batches: Iterator[Any], loader: Any, before: int) -> Iterator[Any]:
    """Return the batches of a pass, and tell of each.

    Args:
        batches: They; the pass has begun.
        loader: Who gives them.
        before: How many the loader has passed over to come to where it was.
    """
    shares = shares_of(loader)
    notes = shares.latest.notes if shares is not None and shares.latest is not None else None
    for _ in range(before):
        if notes:
            notes.popleft()

    def told() -> Iterator[Any]:
        for got in batches:
            if type(got) is Noted:
                found = Drawn(None, got.weight, got.n, loader, got.batch)
            elif notes:
                piece = notes.popleft()
                found = Drawn(piece.ids, piece.weight, piece.n, loader, got)
            else:
                found = Drawn(None, 1.0, 0, loader, got)
            telling: _Telling | None = worn(loader, TELLING)  # none, if it was made whole meanwhile
            if telling is not None and telling.listener is not None and telling.listener.drawn is not None:
                telling.listener.drawn(found)
            yield found.batch

    return told()
