"""Ranks that know each other: process groups of torch.distributed for one attempt of one trial.

Every group has a timeout, and every attempt a prefix of its own in the store: ranks that start again after a loss would
otherwise read the addresses of those that are gone. What the groups carry is plain TCP, neither secret nor signed.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from etude.core.errors import ConfigError, RankLostError
from etude.frameworks.standstill import Awaited
from etude.frameworks.torch_reports import How, Pending, place_of
from etude.frameworks.torch_waits import LOOK_S, Waits, Work


def open_store(host: str = "127.0.0.1", *, timeout_s: float) -> tuple[TCPStore, int]:
    """Return a store that this process serves, and the port of it: rank 0 does this, and tells the others.

    Args:
        host: Under which the others reach this machine.
        timeout_s: How long anybody waits for a key.
    """
    limit = timedelta(seconds=timeout_s)
    store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=limit)
    return store, store.port


def join(
    *,
    rank: int,
    ranks: int,
    prefix: str,
    timeout_s: float,
    store: Store | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    local_rank: int = 0,
    look_s: float = LOOK_S,
) -> Groups:
    """Make this process a rank; all of them call it, and it returns when all are there.

    Args:
        rank: Its number, from 0.
        ranks: How many there are.
        prefix: Of the attempt, and of no other.
        timeout_s: After how many seconds a rank that does not answer counts as lost, in every group.
        store: The store, for the rank that serves it.
        host: Where it is served, for all others.
        port: The same.
        local_rank: Its number among those of its machine: which GPU is its own.
        look_s: How often a rank that waits looks after the others, in seconds.

    Raises:
        ConfigError: This process is in a group already, or the numbers cannot be.
        RankLostError: The others did not come.
    """
    if not 0 <= rank < ranks:
        raise ConfigError(f"rank={rank} of ranks={ranks} cannot be: ranks count from 0. Pass 0 <= rank < ranks.")
    if dist.is_initialized():
        raise ConfigError(
            "This process has a default group of torch.distributed already, so it cannot become a rank of ours. Leave "
            "out dist.init_process_group(...), or let the library that called it distribute by itself (attach=False)."
        )
    limit = timedelta(seconds=timeout_s)
    backend = "gloo"
    if torch.cuda.is_available() and dist.is_nccl_available():
        torch.cuda.set_device(local_rank % torch.cuda.device_count())  # it may see its own alone
        backend = "cpu:gloo,cuda:nccl"
    try:
        with waiting(f"rank {rank} waited for all {ranks} ranks", timeout_s):
            if store is None:
                store = TCPStore(host, port, is_master=False, timeout=limit)
            store = PrefixStore(prefix, store)
            store.set_timeout(limit)
            dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=limit)
            control = dist.new_group(backend="gloo", timeout=limit)
    except RankLostError:
        if dist.is_initialized():
            dist.destroy_process_group()
        raise
    waits = Waits(rank, ranks, store, look_s=look_s)
    return Groups(rank, ranks, local_rank, timeout_s, control, store, waits)


class Groups:
    """The process groups of one attempt, as one of its ranks has them.

    Attributes:
        rank: Its number, from 0.
        ranks: How many there are.
        local_rank: Its number on its machine.
        timeout_s: After how many seconds a rank that does not answer counts as lost.
        control: A group for all that is no gradient.
        averaged: Which parameters are averaged, of whatever model; an optimizer may change no others.
    """

    def __init__(
        self, rank: int, ranks: int, local_rank: int, timeout_s: float, control: Any, store: Any, waits: Waits
    ) -> None:
        self.rank = rank
        self.ranks = ranks
        self.local_rank = local_rank
        self.timeout_s = timeout_s
        self.control = control
        self._store = store
        self._waits = waits
        self._groups: list[Any] = []
        self.averaged: set[int] = set()

    def leave(self) -> None:
        """Leave all groups; nobody is waited for."""
        # Nobody else holds a group, so their threads end here. One that lives on when the interpreter ends, and drops
        # a tensor then, takes the process down.
        self._groups.clear()
        self.control = None
        if dist.is_initialized():
            dist.destroy_process_group()

    def add(self) -> int:
        """Return the number of a new gloo group of all ranks; all of them ask for it at the same point."""
        with self.waiting("a new group"):
            self._groups.append(dist.new_group(backend="gloo", timeout=timedelta(seconds=self.timeout_s)))
        return len(self._groups) - 1

    def begin(self, kind: str, at: str = "") -> Awaited:
        """Note that something begins that all ranks take part in, for them to know of each other what they wait for.

        Args:
            kind: Counted for itself; all ranks begin equally many.
            at: What users call it; left out, the kind and the number.
        """
        return self._waits.begin(kind, at)

    def wait(self, work: Work, awaited: Awaited, what: str = "", *, device: str = "cpu") -> None:
        """Wait for something that is under way between the ranks.

        Args:
            work: It.
            awaited: Of what it is a part.
            what: What comes of it, in words; left out, what users call it.
            device: Where. GPUs wait for each other by themselves, and nobody here sees for how long.

        Raises:
            RanksError: It will never come: the ranks wait for each other at different places.
            RankLostError: A rank is lost.
        """
        with self.waiting(what or awaited.at):
            if device == "cpu":
                self._waits.wait(work, awaited)
            else:
                work.wait()

    def carry_out(
        self, collective: Callable[..., Any], *given: Any, awaited: Awaited, what: str, **settings: Any
    ) -> None:
        """Carry out a collective of torch.distributed in the control group, and wait for it.

        Args:
            collective: It.
            given: What it takes.
            awaited: Of what it is a part.
            what: What comes of it, in words.
            settings: More that it takes.
        """
        with self.waiting(what):
            work = collective(*given, group=self.control, async_op=True, **settings)
        self.wait(work, awaited, what)

    def all_reduce(self, tensor: torch.Tensor, group: int | None) -> Any:
        """Sum a tensor over all ranks, in a group by its number or in the default one; return what to wait for."""
        there = None if group is None else self._groups[group]
        real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        return dist.all_reduce(real, group=there, async_op=True)

    def gather(self, value: Any, at: str = "") -> list[Any]:
        """Return what every rank gave, by rank: small plain values.

        Args:
            value: That of this rank.
            at: What users call it.
        """
        awaited, what = self.begin("exchange", at), "what the other ranks gave"
        mine = _packed(value)
        sizes = torch.empty(self.ranks, 1, dtype=torch.int64)
        sent = torch.tensor([len(mine)])
        self.carry_out(dist.all_gather, list(sizes), sent, awaited=awaited, what=what)
        padded = torch.zeros(int(sizes.max()), dtype=torch.uint8)
        padded[: len(mine)] = mine
        found = torch.empty(self.ranks, len(padded), dtype=torch.uint8)
        self.carry_out(dist.all_gather, list(found), padded, awaited=awaited, what=what)
        return [_unpacked(row[:size]) for row, size in zip(found, sizes.flatten().tolist(), strict=True)]

    def broadcast(self, value: Any = None, at: str = "") -> Any:
        """Return what rank 0 gave: plain values, or tensors on the CPU.

        Args:
            value: That of rank 0.
            at: What users call it.
        """
        awaited, what = self.begin("word of rank 0", at), "what rank 0 gave"
        sent = _packed(value) if self.rank == 0 else torch.empty(0, dtype=torch.uint8)
        size = torch.tensor([len(sent)])
        self.carry_out(dist.broadcast, size, src=0, awaited=awaited, what=what)
        sent = sent if self.rank == 0 else torch.empty(int(size), dtype=torch.uint8)
        self.carry_out(dist.broadcast, sent, src=0, awaited=awaited, what=what)
        return value if self.rank == 0 else _unpacked(sent)

    def mean(
        self,
        values: Mapping[str, float],
        *,
        weight: float = 1.0,
        stop: bool = False,
        how: Mapping[str, How] | None = None,
    ) -> Pending:
        """Begin to make one report of those of all ranks; all of them call it at the same report.

        Several may be under way. What this rank gave is copied, and nobody is waited for.

        Args:
            values: The metrics.
            weight: How many examples they are of; a rank without any gives 0.
            stop: Whether this rank is to stop: if one is, all are.
            how: What becomes of a metric; the mean where nothing is said.
        """
        awaited = self.begin("report", place_of(values))
        return Pending(self, awaited, dict(values), weight, stop, dict(how or {}))

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Tell by our own error if a rank is lost meanwhile."""
        with waiting(f"rank {self.rank} waited for {what}", self.timeout_s, heard=self._waits.last_heard):
            yield

    def post(self, key: str, value: str) -> None:
        """Put a text into the store, for the others to read."""
        self._store.set(key, value)

    def read(self, key: str) -> str:
        """Return a text from the store, as soon as it is there."""
        with self.waiting(f"the word of another rank ({key})"):
            return str(self._store.get(key).decode())


def _packed(value: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8)


def _unpacked(sent: torch.Tensor) -> Any:
    return pickle.loads(sent.numpy().data)  # noqa: S301 - another rank of this trial made it


@contextlib.contextmanager
def waiting(what: str, timeout_s: float, *, heard: Callable[[], str] = str) -> Iterator[None]:
    """Turn what torch raises when a rank is lost into our own error, with what was heard of the others."""
    try:
        yield
    except (RuntimeError, dist.DistError) as error:
        told = str(error).split("\n")[0]
        late = "imed out" in told or "imeout" in told
        said = f"{where} " if late and (where := heard()) else ""
        raise RankLostError(
            f"{what}, and "
            + (
                f"nothing came within {timeout_s:g} s: another rank hangs, or does not do the same as this one (a "
                f"backward or a report that only some ranks reach). {said}"
                if late
                else "the connection broke: another rank ended. Its own error is the one to read. "
            )
            + f"torch says: {told}"
        ) from error
