"""The batches of one rank: its slice of each batch that the user's sampler draws, or batches from a part of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import (
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from etude.core.errors import ConfigError, StateError
from etude.core.streams import stream_seed
from etude.core.text import count
from etude.frameworks.torch_drawing import Drawing, has_length, is_batch
from etude.frameworks.torch_passes import Dealer, Piece, Round, as_list, joined, slice_of

Part = npt.NDArray[np.int64]

SINGLE = (RandomSampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler)
"""Samplers that give one index at a time."""


class Shares(Dealer):
    """Takes the place of a loader's batch sampler: each rank draws the same batches, and gives its slices of them.

    All ranks make the same number of steps. One whose slice is empty gets an example of another rank, with weight 0.

    Args:
        sampler: The user's batch sampler; or his sampler, where the loader makes no batches.
        rank: Which rank this is.
        ranks: How many there are.
        generator: The loader's, alike on all ranks: its state tells passes apart, where something is drawn that the
            user's sampler does not draw. None if it has none.
        per_round: How many of the user's batches one step has.
        size: How many examples his batches have; None if that is not known.
        batches: Whether the loader takes what it gets for batches, whatever it is.
        name: What the loader is called in messages.
    """

    def __init__(
        self,
        sampler: Iterable[Any],
        *,
        rank: int,
        ranks: int,
        generator: torch.Generator | None,
        per_round: int,
        size: int | None,
        batches: bool,
        name: str,
    ) -> None:
        own = torch.Generator().manual_seed(0) if generator is None else generator
        super().__init__(sampler, rank=rank, ranks=ranks, generator=own, notes=True)
        self._goes_on = generator is None  # else it does by itself: a loader draws a seed for each pass
        self._batches = batches
        self._per_round = per_round
        self._size = size
        self._name = name
        self._parts: list[Part] | None = None

    @property
    def parts(self) -> list[Part] | None:
        """The indices of each rank, if each has a part of its own; None if all draw from all."""
        return self._parts

    def __getattr__(self, name: str) -> Any:
        """Return what the user's sampler has under a name: its sampler, its batch size, what tells it of epochs."""
        if name.startswith("__") or "dealt" not in vars(self):
            raise AttributeError(name)
        return getattr(self.dealt, name)

    def check(self) -> None:
        """Refuse what is known not to be divisible.

        Raises:
            ConfigError: The sampler gives one example at a time, or fewer than there are ranks.
        """
        if type(self.dealt) in SINGLE and self._per_round == 1 and self.ranks > 1:
            raise self._indivisible()
        inner: Any = getattr(self.dealt, "sampler", None)
        if inner is not None and has_length(inner) and len(inner) < self.ranks:
            raise ConfigError(
                f"{self._name} draws {count(len(inner), 'example')} in a pass, less than there are ranks "
                f"({self.ranks}). Use fewer ranks."
            )

    def _indivisible(self) -> ConfigError:
        return ConfigError(
            f"{self._name} gives one example at a time, which cannot be divided over {self.ranks} ranks. Give it a "
            'batch_size; or pass batch="per_rank", and each rank has one example in a step.'
        )

    def __len__(self) -> int:
        if self._parts is not None:
            return self._steps(self._parts)
        batches = len(self.dealt)  # type: ignore[arg-type]
        return (batches + self._per_round - 1) // self._per_round

    def drawing(self) -> Drawing:
        """Return what the user's sampler gives in a pass that begins now; on one rank as it would without us."""
        return Drawing(self.dealt, seed=None) if self.ranks == 1 else super().drawing()

    def rounds(self, skip: int) -> Iterator[Round]:
        """Yield the rounds of a pass that begins now, from a position on.

        The position counts the user's batches, or steps where each rank has a part of its own.
        """
        if self._parts is not None:
            yield from self._own_rounds(self._parts, skip)
            return
        drawing = self.drawing()
        drawing.take(skip)
        while items := drawing.take(self._per_round):
            yield Round(len(items), self._single(items) if self._gives_single(items[0]) else self._slice(joined(items)))

    def _gives_single(self, item: Any) -> bool:
        """Say whether the sampler gives one index at a time."""
        return not self._batches and not is_batch(item)

    def _single(self, items: list[Any]) -> Piece:
        if self._per_round == 1 and self.ranks > 1:
            raise self._indivisible()
        there = self.rank < len(items)
        item = items[self.rank] if there else items[0]
        return Piece(item, [item], self.ranks / len(items) if there else 0.0, len(items))

    def _slice(self, batch: Any) -> Piece:
        if not hasattr(batch, "__getitem__"):
            batch = list(batch)
        n = len(batch)
        if self.ranks == 1:
            return Piece(batch, as_list(batch), 1.0, n)
        own = batch[slice_of(n, rank=self.rank, ranks=self.ranks)]
        weight = len(own) * self.ranks / n if n else 0.0
        own = own if len(own) else batch[:1]
        return Piece(own, as_list(own), weight, n)

    # --- each rank has a part of its own ---

    def partition(self, parts: Sequence[Any]) -> None:
        """Let each rank draw from a part of its own, from the next pass on.

        Raises:
            ConfigError: They are no parts for this many ranks.
        """
        if self._size is None and type(self.dealt) not in SINGLE:
            raise ConfigError(
                f"{self._name} has a batch sampler of its own, {type(self.dealt).__name__}, that does not say how "
                "many examples a batch has. Give it an attribute batch_size, or the loader a batch_size."
            )
        found = [np.asarray(part) for part in parts]
        if len(found) != self.ranks or any(part.ndim != 1 or part.dtype.kind not in "iu" for part in found):
            told = ", ".join(f"{part.dtype} {part.shape}" for part in found)
            raise ConfigError(
                f"A partition for {count(self.ranks, 'rank')} is one array of indices for each, and given is [{told}]. "
                "Return a list of arrays of integers."
            )
        if any(len(np.unique(part)) < len(part) for part in found):
            raise ConfigError("A partition has an example twice in one part. Give each to a rank once.")
        if not sum(map(len, found)):
            raise ConfigError("A partition has no examples. Give at least one to a rank.")
        self._parts = [part.astype(np.int64) for part in found]

    def whole_again(self) -> None:
        """Let all ranks draw from all examples, from the next pass on."""
        self._parts = None

    def _each(self) -> int:
        """Return how many examples a rank has in a step."""
        return max(1, (self._size or 1) * self._per_round // self.ranks)

    def _steps(self, parts: list[Part]) -> int:
        each = self._each()
        if getattr(self.dealt, "drop_last", False):
            return min(len(part) for part in parts) // each
        return max(-(-len(part) // each) for part in parts)

    def _own_rounds(self, parts: list[Part], skip: int) -> Iterator[Round]:
        seed = stream_seed(self.seed(), "rank", self.rank, bits=63)
        own = parts[self.rank]
        drawn = own[torch.randperm(len(own), generator=torch.Generator().manual_seed(seed)).numpy()]
        spare = drawn if len(drawn) else np.concatenate(parts)
        each, lengths = self._each(), [len(part) for part in parts]
        single = type(self.dealt) in SINGLE
        for step in range(skip, self._steps(parts)):
            here = slice(step * each, (step + 1) * each)
            n = sum(len(range(length)[here]) for length in lengths)
            ids = drawn[here].tolist()
            weight = len(ids) * self.ranks / n
            ids = ids or spare[:1].tolist()
            yield Round(1, Piece(ids[0] if single else ids, ids, weight, n))

    # --- state ---

    def seed(self) -> int:
        """Return a seed, the same on every rank, and another one for each pass.

        Nothing is drawn for it from what the user's sampler may draw from: with one rank nothing would be.
        """
        if self._goes_on:
            return super().seed()
        return int.from_bytes(hashlib.sha256(self._generator.get_state().numpy().tobytes()).digest()[:7])

    def extra(self) -> dict[str, Any]:
        """Return the parts, if there are some."""
        return {} if self._parts is None else {"parts": self._parts}

    def bring_back_extra(self, state: Mapping[str, Any]) -> None:
        """Take the parts that a state has, or has not.

        Raises:
            StateError: They are for another number of ranks.
        """
        parts = state.get("parts")
        if parts is not None and len(parts) != self.ranks:
            raise StateError(
                f"The state is from within a pass in which each of {len(parts)} ranks had a part of its own, and now "
                f"there are {self.ranks}. Go on with {len(parts)} ranks, or from a state of a pass over the whole."
            )
        self._parts = None if parts is None else [np.asarray(part) for part in parts]


# --- of a loader ----------------------------------------------------------------------------------


def shares_of(loader: Any) -> Shares | None:
    """Return the sampler that gives this rank its batches; None if a loader has none."""
    found = (loader.batch_sampler, loader.sampler)
    return next((sampler for sampler in found if isinstance(sampler, Shares)), None)


def partition(loader: DataLoader[Any], parts: Sequence[Any]) -> None:
    """Let each rank draw from a part of its own, from the next pass on, in an order that is drawn for each pass.

    Ranks have as many examples in a step as they would have otherwise, and equally many steps; where one has fewer
    examples left than others, or none, weights say so.

    Args:
        loader: A training loader that was divided by ``torch_shard.shard``.
        parts: For each rank the indices of its examples, each once.

    Raises:
        ConfigError: They are no parts for this many ranks, or the loader has no indices.
    """
    _with_shares(loader).partition(parts)


def whole_again(loader: DataLoader[Any]) -> None:
    """Let all ranks draw from all examples again, from the next pass on.

    Raises:
        ConfigError: The loader has no indices.
    """
    _with_shares(loader).whole_again()


def _with_shares(loader: DataLoader[Any]) -> Shares:
    shares = shares_of(loader)
    if shares is None:
        raise ConfigError(
            f"A loader of {type(loader.dataset).__name__} has no indices that could be assigned to ranks, or is none "
            "for training. Partitions need a data set with indices: one that has __getitem__ and __len__."
        )
    return shares
