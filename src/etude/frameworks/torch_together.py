"""The ranks of an attempt as its worker deals with them: loaders divided, models averaged, reports reduced."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from torch import nn
from torch.utils.data import DataLoader

from etude.core.errors import RankLostError, RanksError
from etude.core.ranks import Parallel, Rank
from etude.frameworks.torch import every, modules
from etude.frameworks.torch_alike import told
from etude.frameworks.torch_average import Averager
from etude.frameworks.torch_criterion import tracked
from etude.frameworks.torch_examples import Examples
from etude.frameworks.torch_ranks import Gang, join, open_store
from etude.frameworks.torch_reports import Pending
from etude.frameworks.torch_shard import Drawn, is_shared, shard, shares_of
from etude.frameworks.torch_watch import Watch

LOOPBACK: Final = "lo"
INTERFACE: Final = "GLOO_SOCKET_IFNAME"
NCCL_INTERFACE: Final = "NCCL_SOCKET_IFNAME"
_chosen: dict[str, str] = {}
"""What we have set these two to."""


class Together:
    """What the ranks do together. All of them call the same methods in the same order.

    Args:
        rank: Which one this process is.
        parallel: How they train.
        store: The store that this process serves, if it is rank 0.
        port: Where it is served.
        prefix: Of this attempt, and of no other.
        say: Tells users something.

    Raises:
        RankLostError: The others did not come.
    """

    def __init__(
        self, rank: Rank, parallel: Parallel, *, store: Any, port: int, prefix: str, say: Callable[[str], None]
    ) -> None:
        self._parallel = parallel
        self._say = say
        self._averagers: list[Averager] = []
        self._examples: Examples | None = None
        self._trained = False  # since parameters were compared
        self.rank, self.ranks = rank.number, rank.ranks
        self._evaluated = (
            0.0  # how many examples the divided loader has that was gone through last, since the last report
        )
        self._attaches = parallel.how.attach is not False
        use_interface(rank.host, port)
        self._gang: Gang = join(
            rank=rank.number,
            ranks=rank.ranks,
            prefix=prefix,
            timeout_s=parallel.how.timeout_s,
            store=store,
            host=rank.host,
            port=port,
            local_rank=rank.local,
        )

    def mean(self, values: Mapping[str, float], *, stop: bool) -> Pending:
        """Begin to make one report of those of all ranks."""
        weight, self._evaluated = self._evaluated or 1.0, 0.0
        return self._gang.mean(values, weight=weight, stop=stop, how=self._parallel.how.reduce)

    def agree(self, *flags: bool) -> tuple[bool, ...]:
        """Return for each flag whether any rank has it set."""
        return tuple(any(one) for one in zip(*self._gang.gather(flags), strict=True))

    def broadcast(self, thing: Any) -> Any:
        """Return what rank 0 gives."""
        return self._gang.broadcast(thing)

    def gather(self, thing: Any) -> list[Any]:
        """Return what each rank gives, by rank."""
        return self._gang.gather(thing)

    def shard(self, data: Any) -> Any:
        """Divide the batches of loaders over the ranks, in place, and return the data."""
        if not self._attaches:
            return data
        self._compare(told(data))
        shard(
            data,
            rank=self.rank,
            ranks=self.ranks,
            batch=self._parallel.batch,
            evaluation=self._parallel.how.evaluation,
            drawn=self._take_note,
            begins=self._begin_pass,
        )
        if self.rank == 0:
            self._say(_how_divided(data, self.ranks, self._parallel.batch))
        return data

    def _compare(self, mine: list[str]) -> None:
        """Make sure that all ranks have the same data.

        Raises:
            RanksError: They do not.
        """
        first, *others = self.gather(mine)
        for rank, other in enumerate(others, start=1):
            for here, there in itertools.zip_longest(first, other, fillvalue="nothing"):
                if here != there:
                    raise RanksError(
                        f"Rank {rank} has other data than rank 0: it has {there}, and rank 0 has {here}. All ranks "
                        "train on the same data, and each is given its part of every batch: let data() give the same "
                        "everywhere, and draw by seed alone."
                    )

    def attach(self, model: Any) -> Any:
        """Have the gradients of a model's modules averaged over the ranks, and return it."""
        found = modules(model)
        if self._attaches and found and not any(_trains_itself(module) for module in found.values()):
            averager = Averager(found, self._gang)
            for note in averager.notes:
                self._say(note)
            self._averagers.append(averager)
        return model

    def check(self) -> None:
        """Make sure that all ranks have the same parameters.

        Raises:
            DriftError: They do not.
        """
        self._trained = False
        for averager in self._averagers:
            for note in averager.check():
                self._say(note)

    def remember(self) -> None:
        """Take buffers as they are for the same on all ranks: a state was brought back."""
        for averager in self._averagers:
            averager.remember_buffers()

    def watch(self, needs: frozenset[str], wants: frozenset[str]) -> Watch:
        """Return what remembers so much of what criteria see."""
        return Watch(needs, wants)

    def criterion(self, loss: Any, watch: Watch, **settings: Any) -> Any:
        """Return a loss that is watched."""
        return tracked(loss, watch, **settings)

    def examples(self, data: Any, watch: Watch) -> Examples:
        """Return the training examples of the data, as they are divided by now."""
        loaders = [loader for loader in every(DataLoader, data) if is_shared(loader)]
        self._examples = Examples(loaders, watch)
        return self._examples

    def leave(self) -> None:
        """Part with the others."""
        for averager in self._averagers:
            averager.detach()
        self._gang.leave()

    def _begin_pass(self) -> None:
        """Take a pass over a training loader for an epoch, where the training function asks for none."""
        if self._trained:
            self.check()

    def _take_note(self, drawn: Drawn) -> None:
        """See how much the batch that comes now counts on this rank."""
        if not is_shared(drawn.loader):
            with contextlib.suppress(TypeError):  # it has no length
                self._evaluated = float(len(drawn.loader.dataset))  # type: ignore[arg-type] # it may have none
            return
        self._trained = True
        for averager in self._averagers:
            averager.weight = drawn.weight
        if self._examples is not None:
            self._examples.drawn(drawn)


def _how_divided(data: Any, ranks: int, batch: str) -> str:
    """Say what batches the ranks have."""
    sizes = {getattr(shares_of(one) or one, "batch_size", None) for one in every(DataLoader, data) if is_shared(one)}
    if not sizes:
        return (
            f"{ranks} ranks train each trial, and data() gives no loader that could be divided: each rank trains on "
            "all of it. The result is that of one rank, and no sooner there."
        )
    rate = "The learning rate is the function's own, and is not scaled."
    each = " or ".join(str(size) for size in sorted(sizes, key=str))
    if batch == "per_rank":
        return f"{ranks} ranks train each trial, with batches of {each} examples on each of them. {rate}"
    return (
        f"{ranks} ranks train each trial: the batch of {each} examples that data() asks for is that of all ranks "
        f"together, and is divided over them. {rate}"
    )


def _trains_itself(module: nn.Module) -> bool:
    """Whether a module's trainer sees to ranks: a LightningModule."""
    return any(cls.__name__ == "LightningModule" for cls in type(module).__mro__)


def serve(rank: Rank, timeout_s: float) -> tuple[Any, int]:
    """Return a store that this process serves to the other ranks, and its port."""
    return open_store(rank.host, timeout_s=timeout_s)


def is_lost(error: BaseException) -> bool:
    """Whether an error only says that other ranks are gone, or do not answer."""
    return isinstance(error, RankLostError | TimeoutError)


def use_interface(host: str, port: int) -> None:
    """Have gloo and NCCL use the network interface by which the ranks reach each other, unless somebody said which.

    A process that runs attempt after attempt may have to take another one each time.
    """
    name = interface_of(address_towards(host, port))
    exact = {INTERFACE: name, NCCL_INTERFACE: f"={name}" if name not in ("", LOOPBACK) else ""}
    for variable, value in exact.items():
        said = os.environ.get(variable)
        if said and said != _chosen.get(variable):
            continue
        _chosen[variable] = value
        if value:
            os.environ[variable] = value
        else:
            os.environ.pop(variable, None)


def address_towards(host: str, port: int) -> str:
    """Return the address of this machine from which a host is reached; empty if that cannot be told."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((host, port))  # sends nothing
            return str(sock.getsockname()[0])
    return ""


def interface_of(address: str) -> str:
    """Return the name of the network interface that has an address; empty if none has."""
    import fcntl
    import struct

    if address.startswith("127."):
        return LOOPBACK
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                found = fcntl.ioctl(sock.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
                if socket.inet_ntoa(found[20:24]) == address:
                    return name
    return ""
