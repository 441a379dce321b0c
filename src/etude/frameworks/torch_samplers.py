"""Any sampler of PyTorch over several ranks: ``etude.distribute``.

    sampler = etude.distribute(WeightedRandomSampler(weights, 50_000))
    loader = DataLoader(data, sampler=sampler, batch_size=64)

Every rank draws the whole order, and takes its own part of it. That takes some time, and no messages; and it is why an
epoch can go on with another number of ranks: all that has to be known is how far the order was gone through.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, get_args

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from etude.core.errors import ConfigError, StateError
from etude.core.streams import stream_seed
from etude.core.text import brief, count
from etude.frameworks.torch_drawing import has_length, is_batch, samplers_in
from etude.frameworks.torch_passes import Dealer, Piece, Round, as_list, joined, slice_of

Uneven = Literal["keep", "repeat", "drop"]
Batch = Literal["per_rank", "global"]

SEED: Final = 0


def distribute(
    sampler: Iterable[Any],
    *,
    rank: int | None = None,
    ranks: int | None = None,
    batch: Batch = "per_rank",
    uneven: Uneven = "keep",
    seed: int = SEED,
) -> Distributed:
    """Return a sampler that gives this rank its part of what another one gives, in its order, each once.

    It can be stopped at any step and go on with another number of ranks: ``state_dict`` says how far the common order
    was gone through. A sampler of indices is dealt out index by index, a sampler of batches batch by batch.

    All ranks have to draw the same order. A sampler of PyTorch that has no generator gets one (``RandomSampler`` would
    draw a seed from the global one, which is another on each rank). One that draws from the global generators of
    ``random``, numpy or torch finds these alike, seeded anew for each pass, and they are put back after each draw. A
    generator that the user made has to be seeded alike on all ranks.

    Args:
        sampler: A sampler of indices or of batches, or anything that can be gone through many times. A generator may be
            put into it; it is to be used through what is returned alone.
        rank: Which rank this is, from 0. Like ``ranks`` it is taken from ``torch.distributed`` if that is initialised,
            else from ``RANK`` and ``WORLD_SIZE`` in the environment, else there is one rank.
        ranks: How many ranks there are.
        batch: For a sampler of batches: ``"per_rank"`` deals whole batches out, so that ranks together have ``ranks``
            times as many examples in a step, and divides the last ones if they do not suffice; ``"global"`` divides
            each batch over the ranks, so that any number of ranks makes the steps that one would.
        uneven: What is done with examples that cannot be divided evenly. ``"keep"``: each is given once, so some ranks
            get one more; it is the default since nothing is lost or counted twice. With batches of indices it means
            one step more on some ranks only if the last batch of the others is full: then a loop with collectives
            waits for ever, and needs one of the others. ``"repeat"`` gives some examples twice, ``"drop"`` leaves some
            out, less than ``ranks`` of them in a pass (``"global"``: in a batch); all ranks get as many then.
        seed: Of the generators that are given to the sampler, the same on all ranks.

    Raises:
        ConfigError: It cannot be divided, or ``rank`` and ``ranks`` do not fit.

    Example:
        >>> parts = [distribute(range(5), rank=rank, ranks=2) for rank in range(2)]
        >>> [list(part) for part in parts]
        [[0, 2, 4], [1, 3]]
    """
    rank, ranks = _place(rank, ranks)
    for name, value, known in (("batch", batch, Batch), ("uneven", uneven, Uneven)):
        if value not in get_args(known):
            raise ConfigError(f"{name}={value!r} is unknown. Pass one of {', '.join(map(repr, get_args(known)))}.")
    _check(sampler)
    _check_size(sampler, ranks=ranks, batch=batch)
    _give_generators(sampler, seed)
    return Distributed(sampler, rank=rank, ranks=ranks, batch=batch, uneven=uneven, seed=seed)


class Distributed(Dealer):
    """A rank's part of a sampler; ``distribute`` makes it.

    Attributes:
        sampler: What is divided.
        rank: Which rank this is.
        ranks: How many there are.
        batch: How batches are divided.
        uneven: What is done with what cannot be divided evenly.
    """

    def __init__(
        self, sampler: Iterable[Any], *, rank: int, ranks: int, batch: Batch, uneven: Uneven, seed: int
    ) -> None:
        generator = torch.Generator().manual_seed(stream_seed(seed, "sampler", bits=63))
        super().__init__(sampler, rank=rank, ranks=ranks, generator=generator)
        self.sampler = sampler
        self.batch = batch
        self.uneven = uneven

    def set_epoch(self, epoch: int) -> None:
        """Tell the sampler that is divided which epoch begins, if it wants to know; else nothing comes of it.

        Passes are counted, and each draws anew, without this.
        """
        tell = getattr(self.sampler, "set_epoch", None)
        if tell is not None:
            tell(epoch)

    def state_dict(self, done: int | None = None) -> dict[str, Any]:
        """Return how far the common order was gone through; any number of ranks can go on from there.

        A ``StatefulDataLoader`` asks by itself, and knows what it has given out. Beside a plain ``DataLoader`` with
        ``num_workers=0`` nothing has to be said either. With worker processes it draws ahead: say how much is done.

        Args:
            done: How many indices (batches, of a sampler of batches) this rank is done with, since the pass began or
                since it went on from a state: ``steps * batch_size``; a last batch that is smaller may be counted as
                a whole one.

        Raises:
            StateError: ``done`` is needed, or cannot be.
        """
        begun = self._begun
        if begun is not None and begun.ahead and done is None and self._waiting is None:
            raise StateError(
                "The loader has worker processes, and has drawn from the sampler what it has not given out yet. Say "
                "how many indices the training is done with in this pass, state_dict(done=steps * batch_size) (or "
                "done=steps, if the sampler gives batches), and done=len(sampler) after its end. Or use the "
                "StatefulDataLoader of torchdata."
            )
        if done is not None and begun is not None and begun.over:
            done = min(done, begun.drawn)
        return super().state_dict(done)

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        full, left = divmod(n, 1 if self.batch == "global" and self._gives_batches() else self.ranks)
        if not self._gives_batches():
            return full + (self._gets(left) if left else 0)
        last = self._examples_in_last_round(n)
        if last is None:
            return full + bool(left)
        return full + bool(left) - (not self._gets(last))

    def _gives_batches(self) -> bool:
        return self.batch == "global" or isinstance(self.sampler, BatchSampler)

    def _examples_in_last_round(self, n: int) -> int | None:
        """Return how many examples the last round has of ``n`` batches; None if nobody can tell, or it is whole."""
        inner = self.sampler
        if not isinstance(inner, BatchSampler) or not has_length(inner.sampler) or n == 0:
            return None
        size = 1 if self.batch == "global" else self.ranks
        before = (n - 1) // size * size
        total = len(inner.sampler)  # type: ignore[arg-type]
        if self.batch == "per_rank" and n % size == 0:
            return None
        return (n * inner.batch_size if inner.drop_last else total) - before * inner.batch_size

    def _gets(self, n: int) -> bool:
        """Say whether this rank gets something of ``n`` examples that are divided over all ranks."""
        if self.uneven == "keep":
            return self.rank < n
        return n > 0 if self.uneven == "repeat" else n >= self.ranks

    def rounds(self, skip: int) -> Iterator[Round]:
        """Yield the rounds of a pass that begins now, from a position on."""
        drawing = self.drawing()
        first = drawing.take(skip)[: self.ranks]
        size = 1 if self.batch == "global" else self.ranks
        while items := drawing.take(size):
            if len(first) < self.ranks:
                first = [*first, *items][: self.ranks]
                if size > 1 and not is_batch(items[0]):
                    _check_enough(len(first), self.ranks)
            yield Round(len(items), self._own(items, first))

    def _own(self, items: list[Any], first: list[Any]) -> Piece | None:
        if self.batch == "global":
            if not is_batch(items[0]):
                raise ConfigError(
                    f'batch="global" divides batches, and the sampler gave {brief(items[0])}. Wrap it, '
                    "BatchSampler(sampler, batch_size, drop_last=False), and pass batch_sampler= to the loader; or "
                    'leave batch="global" out.'
                )
            return self._slice(items[0])
        short = isinstance(self.sampler, BatchSampler) and len(items[-1]) < len(items[0])
        if len(items) == self.ranks and not short:
            return Piece(items[self.rank])
        if is_batch(items[0]):
            return self._slice(joined(items))
        if self.rank < len(items) and self.uneven != "drop":
            return Piece(items[self.rank])
        return Piece(first[(self.rank - len(items)) % len(first)]) if self.uneven == "repeat" else None

    def _slice(self, batch: Any) -> Piece | None:
        n = len(batch)
        if self.uneven == "drop":
            n -= n % self.ranks
        elif self.uneven == "repeat" and n % self.ranks:
            indices = as_list(batch)
            missing = -n % self.ranks
            batch = [*indices, *(indices * (1 + missing // n))[:missing]]
            n += missing
        own = batch[slice_of(n, rank=self.rank, ranks=self.ranks)]
        return Piece(own) if len(own) else None


def _place(rank: int | None, ranks: int | None) -> tuple[int, int]:
    """Return which rank this is, of how many."""
    if (rank is None) != (ranks is None):
        raise ConfigError(f"rank={rank} and ranks={ranks}: one of them is missing. Pass both, or neither.")
    if rank is None or ranks is None:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_rank(), torch.distributed.get_world_size()
        rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if not 0 <= rank < ranks:
        raise ConfigError(f"rank={rank} cannot be one of ranks={ranks}. They are counted from 0: rank is below ranks.")
    return rank, ranks


def _check(sampler: Any) -> None:
    """Refuse what is no sampler."""
    if isinstance(sampler, DataLoader):
        raise ConfigError(
            "distribute() got a DataLoader, and divides what a loader draws. Pass its sampler (or batch sampler), and "
            "make the loader with what comes back."
        )
    if isinstance(sampler, Dataset):
        raise ConfigError(
            f"distribute() got a data set, {type(sampler).__name__}. Pass a sampler: distribute(RandomSampler(dataset))"
            " to shuffle, distribute(SequentialSampler(dataset)) otherwise."
        )
    check_undivided(sampler)
    if isinstance(sampler, Iterator):
        raise ConfigError(
            f"distribute() got {brief(sampler)}, which ends for good with its first pass. Pass a sampler, or a list."
        )
    if not isinstance(sampler, Iterable):
        raise ConfigError(f"distribute() got {brief(sampler)}, which gives no indices. Pass a sampler.")


def check_undivided(sampler: Any) -> None:
    """Refuse a sampler that gives a rank's part already."""
    for place in samplers_in(sampler):
        if isinstance(place, DistributedSampler | Distributed):
            raise ConfigError(
                f"The sampler {type(place).__name__} gives a rank's part already, and would be divided twice. Leave it "
                "out, and pass what one rank would use: RandomSampler(dataset) where that was shuffled."
            )


def _check_size(sampler: Any, *, ranks: int, batch: Batch) -> None:
    """Refuse to divide less than there is for all ranks."""
    indices = sampler.sampler if isinstance(sampler, BatchSampler) else sampler
    if isinstance(sampler, BatchSampler) and batch == "global" and sampler.batch_size < ranks:
        raise ConfigError(
            f'batch="global" divides each batch over ranks={ranks}, and batches have {sampler.batch_size}. Make them '
            f'larger, at least {ranks}; or pass batch="per_rank".'
        )
    if isinstance(indices, RandomSampler | SequentialSampler | SubsetRandomSampler | WeightedRandomSampler | range):
        _check_enough(len(indices), ranks)


def _check_enough(n: int, ranks: int) -> None:
    if n < ranks:
        raise ConfigError(
            f"ranks={ranks} are more than there are examples: the sampler gives {count(n, 'example')}. Use fewer ranks."
        )


def _give_generators(sampler: Any, seed: int) -> None:
    """Give a generator to each sampler that could have one, and has none."""
    for number, place in enumerate(samplers_in(sampler)):
        if getattr(place, "generator", place) is None:
            place.generator = torch.Generator().manual_seed(stream_seed(seed, "sampler", number, bits=63))
