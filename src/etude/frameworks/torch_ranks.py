"""Ranks that know each other: process groups of torch.distributed for one attempt of one trial.

Every group has a timeout, and every attempt a prefix of its own in the store: ranks that start again after a loss would
otherwise read the addresses of those that are gone. What the groups carry is plain TCP, neither secret nor signed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from etude.core.errors import ConfigError, RankLostError
from etude.frameworks.torch_reports import How, Pending


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
    return Groups(rank, ranks, local_rank, timeout_s, control, store)


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

    def __init__(self, rank: int, ranks: int, local_rank: int, timeout_s: float, control: Any, store: Any) -> None:
        self.rank = rank
        self.ranks = ranks
        self.local_rank = local_rank
        self.timeout_s = timeout_s
        self.control = control
        self._store = store
        self._groups: list[Any] = []
        self.averaged: set[int] = set()
        self._reports = 0

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

    def all_reduce(self, tensor: torch.Tensor, group: int | None, *, asynchronously: bool = False) -> Any:
        """Sum a tensor over all ranks, in a group by its number or in the default one; return what to wait for."""
        there = None if group is None else self._groups[group]
        real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        return dist.all_reduce(real, group=there, async_op=asynchronously)

    def gather(self, value: Any) -> list[Any]:
        """Return what every rank gave, by rank: small plain values."""
        found: list[Any] = [None] * self.ranks
        with self.waiting("what the other ranks gave"):
            dist.all_gather_object(found, value, group=self.control)
        return found

    def broadcast(self, value: Any = None) -> Any:
        """Return what rank 0 gave: a small plain value."""
        found = [value if self.rank == 0 else None]
        with self.waiting("what rank 0 gave"):
            dist.broadcast_object_list(found, src=0, group=self.control)
        return found[0]

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
        self._reports += 1
        return Pending(self, self._reports, dict(values), weight, stop, dict(how or {}))

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Tell by our own error if a rank is lost meanwhile."""
        with waiting(f"rank {self.rank} waited for {what}", self.timeout_s):
            yield

    def post(self, key: str, value: str) -> None:
        """Put a text into the store, for the others to read."""
        self._store.set(key, value)

    def read(self, key: str) -> str:
        """Return a text from the store, as soon as it is there."""
        with self.waiting(f"the word of another rank ({key})"):
            return str(self._store.get(key).decode())


@contextlib.contextmanager
def waiting(what: str, timeout_s: float) -> Iterator[None]:
    """Turn what torch raises when a rank is lost into our own error."""
    try:
        yield
    except (RuntimeError, dist.DistError) as error:
        told = str(error).split("\n")[0]
        late = "imed out" in told or "imeout" in told
        raise RankLostError(
            f"{what}, and "
            + (
                f"nothing came within {timeout_s:g} s: another rank hangs, or does not do the same as this one (a "
                "backward or a report that only some ranks reach). "
                if late
                else "the connection broke: another rank ended. Its own error is the one to read. "
            )
            + f"torch says: {told}"
        ) from error
