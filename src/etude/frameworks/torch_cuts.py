"""PyTorch loaders that are cut short: each pass over them ends early."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from torch.utils.data import DataLoader

from etude.core.data import Data
from etude.core.errors import ResultError
from etude.frameworks.coats import Coat, Here, put_on, worn
from etude.frameworks.torch import every


def training_loaders(data: Any) -> list[DataLoader[Any]]:
    """Return the loaders that training goes through.

    Those of the part ``train``, of a ``Data`` or of a mapping that has one; else the first that there is.
    """
    if isinstance(data, Data):
        return list(every(DataLoader, data.train))
    if isinstance(data, Mapping) and "train" in data:
        return list(every(DataLoader, data["train"]))
    return list(every(DataLoader, data))[:1]


def cut_short(loader: DataLoader[Any], batches: Callable[[int], int], over: Callable[[], None]) -> None:
    """Let a loader yield some batches of each pass alone; it stays the object and, by name, the type that it was.

    Args:
        loader: A loader.
        batches: Says how many of so many it is to yield; asked when the pass begins.
        over: Called when a pass begins and another one came to its end before.
    """
    put_on(loader, CUT, _Cut(batches, over))


@dataclass(eq=False)
class _Cut(Here):
    """How a loader is cut, and whether a pass over it has come to its end."""

    batches: Callable[[int], int]
    over: Callable[[], None]
    ended: bool = False


def _cuts(below: type[Any]) -> Mapping[str, Any]:
    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
        cut: _Cut | None = worn(self, CUT)
        if cut is None:  # in another process nobody says how
            yield from below.__iter__(self)
            return
        if cut.ended:
            cut.over()
        most = cut.batches(_length(self, below))
        for nth, batch in enumerate(below.__iter__(self), start=1):
            yield batch
            if nth == most:
                break
        cut.ended = True

    return {"__iter__": __iter__}


CUT: Final = Coat("cut", _cuts)


def _length(loader: Any, cls: type[Any]) -> int:
    try:
        return int(cls.__len__(loader))
    except TypeError as error:
        raise ResultError(
            "A probe has a part of the first epoch, and the training loader does not say how long that is: its data "
            "set has no length. Give it one (__len__), or say what the training is to begin with: "
            "weights=search.best.weights."
        ) from error
