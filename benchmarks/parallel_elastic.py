"""Epochs that are broken off at any step and go on with another number of ranks: is each example seen once?"""

from __future__ import annotations

import collections
import importlib
import importlib.util
import itertools
import random
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Benchmark, Cell, Quantity, Result, Target

MOST_RANKS: Final = 8
EPOCHS: Final = 2
MOST_CRASHES: Final = 4
LOADER_WORKERS_IN: Final = 0.05
"""In so many of the schedules loaders have worker processes; each start of them takes a tenth of a second."""

HOW: Final = ("random", "weighted", "own", "batches", "divided batches")
BATCHED: Final = ("batches", "divided batches")

Seen = collections.Counter[int]


def cells(small: bool, *, schedules: int) -> Sequence[Cell]:
    args = {"schedules": 20 if small else schedules}
    found = [Cell("étude", args, limit_s=3600.0)]
    if _has_torchdata():
        found.append(Cell("torchdata", {**args, "peer": True}, limit_s=3600.0))
        found.append(Cell("torchdata, ranks stay", {**args, "peer": True, "stay": True}, limit_s=3600.0))
    return found


def _has_torchdata() -> bool:
    return importlib.util.find_spec("torchdata") is not None


def work(args: Mapping[str, Any], place: Path) -> Result:
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of torchdata: that it calls what is deprecated
    begun = time.perf_counter()
    wrong, crashes = collections.Counter[str](), 0
    for number in range(args["schedules"]):
        schedule = Schedule(number, peer=args.get("peer", False), stay=args.get("stay", False))
        if not is_right(schedule, train(schedule)):
            wrong[schedule.kind] += 1
        crashes += schedule.crashed
    return {
        "right_percent": 100 * (1 - wrong.total() / args["schedules"]),
        "crashes": crashes,
        "seconds": time.perf_counter() - begun,
        "details": {"schedules": args["schedules"], "wrong by kind of sampler": dict(wrong)},
    }


class Schedule:
    """What happens to a training: how many ranks it has, and when it is broken off.

    Args:
        number: Its seed.
        peer: Whether the sampler is that of torchdata, which has one kind.
        stay: Whether the number of ranks never changes.

    Attributes:
        n: How many examples there are.
        size: How many a rank has in a step; of divided batches, how many all have.
        kind: Of the sampler.
        workers: How many worker processes a loader has.
        stateful: Whether the loader is that of torchdata.
        peer: Whether the sampler is.
        crashed: How often the training was broken off.
        padded: How many examples more the ranks have together than there are, at most.
    """

    def __init__(self, number: int, *, peer: bool, stay: bool) -> None:
        self._random = random.Random(number)
        self._stays = self._random.randint(1, MOST_RANKS) if stay else None
        self.n = self._random.randint(MOST_RANKS, 300)
        self.size = self._random.randint(1, 10)
        self.kind = "random" if peer else self._random.choice(HOW)
        self.workers = self._random.randint(1, 2) if self._random.random() < LOADER_WORKERS_IN else 0
        self.stateful = peer or (self._random.random() < 0.5 and _has_torchdata())
        self.peer = peer
        self.crashed = 0
        self.padded = 0

    def ranks(self) -> int:
        """Return how many ranks go on."""
        ranks = self._stays or self._random.randint(1, MOST_RANKS)
        self.padded += ranks - 1 if self.peer else 0
        return ranks

    def breaks_after(self, steps: int) -> int:
        """Return after which of so many steps it is broken off; one that is never made for not in this epoch."""
        more = self._random.randint(1, 2 * steps if self.crashed else steps)  # once at least
        return more if self.crashed < MOST_CRASHES else steps + 1


def sampler_of(schedule: Schedule, rank: int, ranks: int) -> Any:
    """Return a rank's sampler."""
    import torch
    from torch.utils.data import BatchSampler, RandomSampler, WeightedRandomSampler

    import etude

    if schedule.peer:
        theirs = importlib.import_module("torchdata.stateful_dataloader.sampler")
        return theirs.StatefulDistributedSampler(range(schedule.n), num_replicas=ranks, rank=rank)
    torch.manual_seed(1000 * schedule.crashed + rank)  # on each rank another one
    sampler: Any = Shuffled(schedule.n) if schedule.kind == "own" else RandomSampler(range(schedule.n))
    if schedule.kind == "weighted":
        sampler = WeightedRandomSampler([float(weight) for weight in range(1, schedule.n + 1)], schedule.n)
    if schedule.kind in BATCHED:
        sampler = BatchSampler(sampler, max(schedule.size, MOST_RANKS), False)
    divided = schedule.kind == "divided batches"
    return etude.distribute(sampler, rank=rank, ranks=ranks, batch="global" if divided else "per_rank")


class Shuffled:
    """A sampler of the user's own, which draws from Python's global generator."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        return iter(random.sample(range(self.n), self.n))

    def __len__(self) -> int:
        return self.n


def loader_of(schedule: Schedule, sampler: Any) -> Any:
    """Return a rank's loader."""
    from torch.utils.data import DataLoader

    how = {"sampler": sampler, "batch_size": schedule.size}
    if schedule.kind in BATCHED:
        how = {"batch_sampler": sampler}
    cls: Any = DataLoader
    if schedule.stateful:
        cls = importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader
    return cls(list(range(schedule.n)), num_workers=schedule.workers, **how)


def train(schedule: Schedule) -> list[Seen]:
    """Go through the epochs of a schedule; return what was seen in each."""
    seen: list[Seen] = [collections.Counter() for _ in range(EPOCHS)]
    epoch, state = 0, None
    while True:
        ranks = schedule.ranks()
        samplers = [sampler_of(schedule, rank, ranks) for rank in range(ranks)]
        loaders = [loader_of(schedule, sampler) for sampler in samplers]
        if state is not None:
            for kept in loaders if schedule.stateful else samplers:
                kept.load_state_dict(state)
            if not schedule.stateful:
                epoch = samplers[0].epoch
        broken = _until_it_breaks(schedule, samplers, loaders, seen, epoch)
        if broken is None:
            return seen
        epoch, state = broken
        schedule.crashed += 1


def _until_it_breaks(
    schedule: Schedule, samplers: Sequence[Any], loaders: Sequence[Any], seen: Sequence[Seen], epoch: int
) -> tuple[int, Any] | None:
    """Go through the epochs that are left; return in which it broke, and the state then; None if it did not."""
    for number in range(epoch, EPOCHS):
        for sampler in samplers:
            sampler.set_epoch(number)
        going = [iter(loader) for loader in loaders]
        stop = schedule.breaks_after(max(len(loader) for loader in loaders))
        for step in itertools.count(1):
            batches = [batch.tolist() for one in going if (batch := next(one, None)) is not None]
            if not batches:
                break
            seen[number].update(example for batch in batches for example in batch)
            if step == stop:
                return number, _state(schedule, samplers[0], loaders[0], step)
    return None


def _state(schedule: Schedule, sampler: Any, loader: Any, steps: int) -> Any:
    if schedule.stateful:
        return loader.state_dict()
    each = 1 if schedule.kind in BATCHED else schedule.size
    return sampler.state_dict(done=steps * each) if schedule.workers else sampler.state_dict()


def is_right(schedule: Schedule, seen: Sequence[Seen]) -> bool:
    """Say whether each example was seen in each epoch as often as one rank sees it that is never broken off.

    The peer gives some twice so that all ranks have equally many: that is counted as right.
    """
    if schedule.peer:
        return all(len(one) == schedule.n and one.total() - schedule.n <= schedule.padded for one in seen)
    alone = sampler_of(schedule, 0, 1)
    for one in seen:
        items = list(alone)
        expected = collections.Counter(itertools.chain(*items) if schedule.kind in BATCHED else items)
        if one != expected or (schedule.kind != "weighted" and expected != collections.Counter(range(schedule.n))):
            return False
    return True


BENCHMARK = Benchmark(
    name="parallel_elastic",
    cells=cells,
    work=work,
    quantities=(Quantity("right_percent", "%", 1), Quantity("crashes", "", 0), Quantity("seconds", "s", 1)),
    targets=(Target("schedules in which each example is seen once an epoch", "étude: right_percent", 100, "%"),),
    numbers={"schedules": (1000, "how many schedules")},
    note=(
        "A schedule: 2 epochs of 8 to 300 examples, broken off at 1 to 4 random steps; each time another number of\n"
        "ranks goes on, 1 to 8. Samplers: random, weighted, one that draws from Python's generator, batches that are\n"
        "dealt out and batches that are divided; loaders: plain ones and those of torchdata, some with worker\n"
        "processes. Right: in each epoch each example was seen as often as one rank sees it that is not broken off,\n"
        "once. torchdata: its StatefulDistributedSampler with its StatefulDataLoader; what it gives twice, so that\n"
        "ranks have equally many, counts as right. ranks stay: the number of ranks is that of the beginning."
    ),
)

if __name__ == "__main__":
    BENCHMARK.main()
