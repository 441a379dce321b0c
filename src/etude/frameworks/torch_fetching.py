"""Batches made from a data set in any process, and whether that depends on where and when it is done.

A data set that draws while it fetches, or that holds something which changes with each example, gives other examples
in another process. Nobody can tell for sure before it is asked. So it is watched: whether a fetch moved a global
generator, always; and, where a process that was not meant to fetch begins, whether the same fetch gives the same bits
twice under different seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from torch.utils.data import default_collate, get_worker_info

from etude.frameworks.torch_bits import alike
from etude.frameworks.torch_drawing import GLOBAL, moved, seed_all, set_all
from etude.frameworks.torch_reseeded import Marked, drew

SEED: Final = 20_040_509
"""Global generators have it for the second of two fetches that are compared; any number does."""

TRUSTED_AFTER: Final = 32
"""So many examples that are kept are fetched once more and compared, before the rest is believed."""

LEAST_FREE: Final = 0.2
"""No more examples are kept where less than this share of the machine's memory is free."""

LOOK_EVERY: Final = 64
"""After so many examples it is looked how much is free."""


class Fetched(NamedTuple):
    """A batch; a tuple, so that it can be pinned.

    Attributes:
        batch: It.
        differs: Whether it may be another one in another process, or at another time.
    """

    batch: Any
    differs: bool


class Fetcher:
    """Makes batches as torch does, in any process, and watches the data set.

    It takes the place of a data set in a loader that makes no batches of its own.

    Args:
        dataset: The user's.
        collate: What makes a batch of examples.
        batches: Whether an index is a batch of indices.
        twice: Whether the first fetch of a process is done twice.
    """

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], *, batches: bool, twice: bool = False) -> None:
        self.dataset = dataset
        self._collate = collate
        self._batches = batches
        self._twice = twice

    def __getitem__(self, index: Any) -> Fetched:
        """Return a batch, and whether it depends on where it was made."""
        before = [source.get() for source in GLOBAL]
        batch = self.fetch(index)
        differs = bool(moved(dict(enumerate(before))))
        if self._twice:
            self._twice = False
            differs = differs or not self._comes_again(index, batch)
        return Fetched(batch, differs)

    def fetch(self, index: Any) -> Any:
        """Return a batch."""
        return self._collate(self.examples(index))

    def examples(self, index: Any) -> Any:
        """Return the examples of a batch, as torch gets them from a data set."""
        if not self._batches:
            return self.dataset[index]
        if getattr(self.dataset, "__getitems__", None):
            return self.dataset.__getitems__(index)
        return [self.dataset[one] for one in index]

    def _comes_again(self, index: Any, batch: Any) -> bool:
        here = [source.get() for source in GLOBAL]
        seed_all(SEED)
        try:
            return alike(batch, self.fetch(index))
        finally:
            set_all(GLOBAL, here)


class Begin:
    """Begins a worker process: the user's data set is what he finds there, and not ours.

    Args:
        begin: The user's function that begins a worker process; None if there is none.
    """

    def __init__(self, begin: Callable[[int], Any] | None) -> None:
        self._begin = begin

    def __call__(self, worker: int) -> None:
        """Put it there, and call the user's function."""
        info: Any = get_worker_info()
        fetcher = info.dataset
        object.__setattr__(info, "dataset", fetcher.dataset)  # torch forbids it: nobody should
        if self._begin is not None:
            self._begin(worker)


class Keeping(Fetcher):
    """Makes batches in the process that trains, of examples that it keeps.

    Args:
        dataset: The user's.
        collate: What makes a batch of examples.
        kept: The examples that are kept, by index; of all passes.
    """

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], kept: Kept) -> None:
        super().__init__(dataset, collate, batches=True)
        self._kept = kept

    def examples(self, index: Any) -> Any:
        """Return the examples of a batch: those that are kept, and the others as the data set gives them."""
        kept, given = self._kept, index.index if type(index) is Marked else index
        if not all(type(one) is int for one in given):
            return super().examples(index)
        known = [one for one in given if one in kept.examples]
        if kept.unproven > 0 and known:
            found: list[Any] = super().examples(index)
            if drew(self.dataset):
                kept.give_up()
            else:
                kept.compare(given, found)
            return found
        new = list(dict.fromkeys(one for one in given if one not in kept.examples))
        asked = index._replace(index=new) if type(index) is Marked else new
        got = dict(zip(new, super().examples(asked), strict=True)) if new else {}
        if drew(self.dataset):
            kept.give_up()
            return super().examples(index)
        kept.take(got)
        return [kept.examples[one] if one in kept.examples else got[one] for one in given]


class Kept:
    """Examples that a process keeps.

    Attributes:
        examples: They, by index.
        unproven: How many are still to be compared before they are believed.
        wrong: Whether one was another when it was fetched again.
        drawn: Whether they are drawn, another one in each pass.
    """

    def __init__(self) -> None:
        self.examples: dict[int, Any] = {}
        self.unproven = TRUSTED_AFTER
        self.wrong = False
        self.drawn = False
        self._left = 0
        self._full = False

    def take(self, examples: Mapping[int, Any]) -> None:
        """Keep more, where there is room."""
        self._left -= len(examples)
        if self._left <= 0:
            self._left = LOOK_EVERY
            self._full = free_share() < LEAST_FREE
        if not self._full and not self.wrong:
            self.examples.update(examples)

    def compare(self, index: list[int], found: list[Any]) -> None:
        """Take in examples that were fetched again."""
        known = [(one, example) for one, example in zip(index, found, strict=True) if one in self.examples]
        self.unproven -= len(known)
        if all(alike(self.examples[one], example) for one, example in known):
            self.take(dict(zip(index, found, strict=True)))
        else:
            self.drop()

    def give_up(self) -> None:
        """Keep nothing, and never again: examples are drawn."""
        self.drawn = True
        self.examples.clear()

    def drop(self) -> None:
        """Keep nothing, and never again: examples change."""
        self.wrong = True
        self.examples.clear()


def keeps(collate: Any, *, batches: bool) -> bool:
    """Say whether examples may be kept: batches have to be made of copies, so that nobody can change what is kept."""
    return batches and collate is default_collate


def free_share() -> float:
    """Return which share of the machine's memory is free; 1 where nobody can tell."""
    found: dict[str, float] = {}
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                name, _, rest = line.partition(":")
                if name in ("MemTotal", "MemAvailable"):
                    found[name] = float(rest.split()[0])
        return found["MemAvailable"] / found["MemTotal"]
    except (OSError, KeyError, ValueError, ZeroDivisionError):
        return 1.0
