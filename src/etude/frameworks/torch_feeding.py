"""A loader in hand: how its batches are to be made, why it may have to be left alone, and what its passes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.utils.data import BatchSampler, DataLoader

from etude.frameworks.torch_examined import Examined
from etude.frameworks.torch_fetching import Kept, keeps
from etude.frameworks.torch_stretches import PREFETCHED, Apart, Here, Stretch, Way
from etude.frameworks.torch_twins import Indices

MEND: Final = (
    "Let an example be the same wherever and whenever it is fetched, and a sampler draw from a generator of its own."
)


class Feeding:
    """What goes with a loader in hand.

    Args:
        loader: It; a plain one, of a data set with indices.
        stepped: Called for each batch that is drawn while gradients are enabled, with the seconds since the one before,
            and those that the training waited for this one.
        barred: Called once, with the reason, when it comes out that the loader is to be left as it is.

    Attributes:
        loader: It.
        own: How the user would have batches made.
        wanted: How they are to be made.
        batch_size: How many examples a batch is to have from the next pass on; None for what the user set.
        own_size: How many the user has it have; None if the loader does not say.
        bars: Knob -> why it is left alone.
    """

    def __init__(
        self, loader: DataLoader[Any], *, stepped: Callable[[float, float], None], barred: Callable[[str], None]
    ) -> None:
        self.loader = loader
        self.own = Way(
            loader.num_workers,
            loader.prefetch_factor or PREFETCHED,
            loader.persistent_workers,
            loader.pin_memory,
        )
        self.wanted = self.own
        self.batch_size: int | None = None
        self.bars: dict[str, str] = {}
        self.stepped = stepped
        self.kept = Kept()
        self.proven = False
        self._barred = barred
        self._idle: Apart | None = None
        self._mark: bytes | None = None
        self._changed = False
        self.own_size = loader.batch_size
        self._examine()

    def _examine(self) -> None:
        found = Examined(self.loader.dataset)
        if found.draws:
            self.bar(f"its data set holds a generator ({found.draws})", quietly=True)
        if found.bound and not self.own.workers:
            self.bars["loader_workers"] = f"its data set cannot go to other processes: {found.bound}."
        if found.mark is None:
            why = f"nobody can tell whether its data set changes between epochs: {found.bound}."
            self.bars |= {"persistent_workers": why, "cache": why}
        if not keeps(self.loader.collate_fn, batches=self.loader.batch_sampler is not None):
            self.bars["cache"] = (
                "its batches may share memory with its examples, so that what is kept could change. Leave collate_fn"
                " out, and set a batch_size."
            )

    def bar(self, why: str, *, quietly: bool = False) -> None:
        """Leave the loader as it is from now on.

        Args:
            why: The reason.
            quietly: Whether nobody is told: nothing was tried yet.
        """
        new = "loader_workers" not in self.bars
        for knob in ("loader_workers", "prefetch", "persistent_workers", "pin_memory", "cache"):
            self.bars.setdefault(knob, f"{why}. {MEND}")
        if new and not quietly:
            self._barred(why)

    def keep_nothing(self) -> None:
        """Take in that examples are drawn anew in each pass: all but keeping them is as good as before."""
        self.bars["cache"] = "its data set draws, so that an example is another one in each pass. Leave it out."

    @property
    def way(self) -> Way:
        """How batches are to be made, as far as that may be."""
        wanted, own, bars = self.wanted, self.own, self.bars
        return Way(
            own.workers if "loader_workers" in bars else wanted.workers,
            own.prefetch if "prefetch" in bars else wanted.prefetch,
            own.persistent if "persistent_workers" in bars else wanted.persistent,
            own.pin if "pin_memory" in bars else wanted.pin,
            wanted.keep and "cache" not in bars,
        )

    def stretch(self, way: Way, indices: Indices, *, start: int, seed: torch.Tensor) -> Stretch:
        """Return what makes batches in some way, from one on.

        Args:
            way: How.
            indices: What the pass draws.
            start: The number of the first batch.
            seed: The state of the generator from which torch seeds worker processes.
        """
        own = way.plain == self.own.plain
        if not way.workers:
            return Here(self.loader, way, indices, start=start, kept=self.kept, own=own)
        apart = self._resting(way, own) if way.persistent else None
        if apart is None:
            generator = torch.Generator()
            generator.set_state(seed)
            apart = Apart(self.loader, way, seed=generator, own=own)
        apart.begin(indices, start=start)
        return apart

    def prove(self, indices: Indices, number: int, *, seed: torch.Tensor) -> bool:
        """See in a process apart, once, whether a batch of the pass comes again when it is fetched again.

        Returns:
            Whether it does.
        """
        if not self.proven:
            generator = torch.Generator()
            generator.set_state(seed)
            apart = Apart(self.loader, Way(1, 1), seed=generator, own=False)
            try:
                apart.begin(indices, start=number, most=1)
                self.proven = not apart.batch(number).differs
            finally:
                apart.close()
        return self.proven

    def rest(self, stretch: Stretch) -> None:
        """Take a stretch back that is over: its workers stay for another pass, or end."""
        if isinstance(stretch, Apart) and stretch.way.persistent and self._idle is None:
            stretch.end()
            self._idle = stretch
        else:
            stretch.close()

    def _resting(self, way: Way, own: bool) -> Apart | None:
        idle, self._idle = self._idle, None
        if idle is None:
            return None
        if idle.own == own and idle.way.plain == way.plain and (own or not self._changed):
            idle.way = way
            return idle
        idle.close()
        return None

    def begin(self) -> None:
        """Take in that a pass begins: settings of whole passes are made, and what is old is dropped."""
        self._changed = False
        if self._idle is not None and self._idle.way.plain != self.way.plain:
            idle, self._idle = self._idle, None
            idle.close()
        way = self.way
        if not way.keep and self.kept.examples:
            self.kept = Kept()
        if way.keep or (way.persistent and way.workers):
            mark = Examined(self.loader.dataset).mark
            self._changed = mark is None or mark != self._mark
            self._mark = mark
            if self._changed and self.kept.examples:
                self.kept = Kept()
        self._size(self.batch_size or self.own_size)

    def _size(self, size: int | None) -> None:
        if size is not None and size != self.loader.batch_size and type(self.loader.batch_sampler) is BatchSampler:
            self.loader.batch_sampler.batch_size = size
            object.__setattr__(self.loader, "batch_size", size)  # torch forbids it, for a pass that is under way

    def close(self) -> None:
        """Give the loader back as it was."""
        self.wanted, self.batch_size = self.own, None
        self._size(self.own_size)
        idle, self._idle = self._idle, None
        self.kept = Kept()
        if idle is not None:
            idle.close()
