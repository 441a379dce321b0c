"""The ranks of an attempt as its worker deals with them: loaders divided, models averaged, reports reduced."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

from etude.core.errors import ConfigError, RankLostError, RanksError
from etude.core.ranks import FSDP, Parallel, Rank
from etude.core.text import count
from etude.frameworks import torch_distributing as distributing
from etude.frameworks.torch import every, modules
from etude.frameworks.torch_alike import told
from etude.frameworks.torch_average import Averager
from etude.frameworks.torch_criterion import tracked
from etude.frameworks.torch_divided import undivide
from etude.frameworks.torch_examples import Examples
from etude.frameworks.torch_keras import FitGuard, draw_apart, is_keras
from etude.frameworks.torch_ranks import Groups, join, open_store
from etude.frameworks.torch_reports import PLACE, Pending
from etude.frameworks.torch_shard import shard
from etude.frameworks.torch_shares import shares_of
from etude.frameworks.torch_telling import Drawn, is_shared
from etude.frameworks.torch_watch import Watch

BROKEN: Final = ("gloo/transport", "remote process exited")
"""What torch says of a connection to another rank that broke: of gloo, and of NCCL."""

APART: Final = (
    "Gradients are of batches of two loaders that count otherwise on this rank ({weights}), since the last batch of "
    "one does not divide evenly. Leave smaller last batches out, with drop_last=True; or call backward for the loss of "
    "each loader before the next batch is drawn."
)
AHEAD: Final = (
    "A loader gave two batches before a backward, and one of them counts otherwise on this rank, since it does not "
    "divide evenly: nobody can tell which of them gradients are of. Go through the loader batch by batch; or leave the "
    "smaller last batch out, with drop_last=True."
)


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
        self._attached: list[Any] = []  # averagers, or what shards
        self._keras: list[tuple[Any, FitGuard]] = []
        self._own_seeds: dict[int, int] = {}  # of models of Keras
        self._divided: list[Any] = []  # what data functions gave
        self._examples: Examples | None = None
        self._watches = False  # what criteria see
        self._trained = False  # since parameters were compared
        self._waiting: dict[int, float] = {}  # loader that has given a batch since the last backward -> its weight
        self._is_ahead = self._is_uneven = False  # whether one gave two, and whether some count otherwise, in this pass
        self.rank, self.ranks = rank.number, rank.ranks
        self._evaluated = 0.0  # examples of the divided loader that was gone through last
        self._attaches = parallel.how.attach is not False
        self._groups: Groups = join(
            rank=rank.number,
            ranks=rank.ranks,
            prefix=prefix,
            timeout_s=parallel.how.timeout_s,
            store=store,
            host=rank.host,
            port=port,
            local_rank=rank.local,
        )
        self._hook = register_optimizer_step_pre_hook(self._before_step)

    def mean(self, values: Mapping[str, float], *, stop: bool) -> Pending:
        """Begin to make one report of those of all ranks."""
        return self._groups.mean(values, weight=self._evaluated or 1.0, stop=stop, how=self._parallel.how.reduce)

    def agree(self, at: str, *flags: bool) -> tuple[bool, ...]:
        """Return for each flag whether any rank has it set.

        Args:
            at: Where in the training all ranks are by that.
            flags: Those of this rank.

        Raises:
            RanksError: A rank is elsewhere.
        """
        said = {f"{PLACE}{at}": 0.0, **{str(nth): float(flag) for nth, flag in enumerate(flags)}}
        agreed = self._groups.mean(said).wait().values
        return tuple(agreed[str(nth)] > 0 for nth in range(len(flags)))

    def reduce(self, at: str, values: Mapping[str, float]) -> dict[str, float]:
        """Return metrics as they are for all ranks, at a place that all come to.

        Raises:
            RanksError: A rank is elsewhere.
        """
        agreed = self.mean({f"{PLACE}{at}": 0.0, **values}, stop=False).wait().values
        return {name: agreed[name] for name in values}

    def broadcast(self, thing: Any) -> Any:
        """Return what rank 0 gives."""
        return self._groups.broadcast(thing, "the state to go on from")

    def gather(self, thing: Any, what: str) -> list[Any]:
        """Return what each rank gives, by rank.

        Args:
            thing: What this one gives.
            what: In words, for those who wait in vain.
        """
        return self._groups.gather(thing, what)

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
        self._divided.append(data)
        if self.rank == 0:
            self._say(_how_divided(data, self.ranks, self._parallel.batch))
        return data

    def _compare(self, mine: list[str]) -> None:
        """Make sure that all ranks have the same data.

        Raises:
            RanksError: They do not.
        """
        first, *others = self._groups.gather(mine, "data()")
        for rank, other in enumerate(others, start=1):
            for here, there in itertools.zip_longest(first, other, fillvalue="nothing"):
                if here != there:
                    raise RanksError(
                        f"Rank {rank} has other data than rank 0: it has {there}, and rank 0 has {here}. All ranks "
                        "train on the same data, and each is given its part of every batch: let data() give the same "
                        "everywhere, and draw by seed alone."
                    )

    def attach(self, model: Any) -> Any:
        """Have the gradients of a model's modules averaged over the ranks, or the modules sharded, and return it.

        Raises:
            ConfigError: That cannot be.
        """
        found = modules(model)
        if self._parallel.how.attach is None and any(map(distributing.trains_itself, found.values())):
            self.stand_back("The Trainer of a LightningModule")
        if self._attaches and found:
            for module in filter(is_keras, found.values()):
                guard = FitGuard(module, is_divided=is_shared, watched=lambda: self._watches)
                self._keras.append((module, guard))
            sharded = isinstance(self._parallel.how, FSDP)
            attached = self._sharded(found) if sharded else Averager(found, self._groups, begins=self._begin_backward)
            for note in (*attached.notes, *_of_batch_norm(found.values())):
                self._say(note)
            self._attached.append(attached)
            self._draw_apart()
        return model

    def _sharded(self, found: Mapping[str, Any]) -> Any:
        from etude.frameworks.torch_fsdp import Sharded  # takes a second to load, and few want it

        assert isinstance(self._parallel.how, FSDP)
        if odd := next(filter(is_keras, found.values()), None):
            raise ConfigError(
                f'{type(odd).__name__} is a model of Keras, whose variables FSDP cannot shard. Use parallel="ddp".'
            )
        return Sharded(found, self._parallel.how, self._groups)

    def stand_back(self, who: str) -> None:
        """Leave the ranks to a library that sees to them itself; what was done is undone.

        Args:
            who: Which one.

        Raises:
            ConfigError: Something was asked for that only we can do.
        """
        if not self._attaches:
            return
        how = self._parallel.how
        if how.attach or isinstance(how, FSDP):
            given = 'parallel="fsdp"' if isinstance(how, FSDP) else "DDP(attach=True)"
            raise ConfigError(distributing.NOT_LEFT.format(who=who, given=given))
        if self._examples is not None:
            raise ConfigError(distributing.NO_PARTITION.format(who=who))
        self._attaches = False
        self._detach()
        undivide(self._divided)
        self._say(distributing.LEFT.format(who=who))

    def check(self) -> None:
        """Make sure that all ranks have the same parameters.

        Raises:
            DriftError: They do not.
        """
        self._trained = False
        for attached in self._attached:
            for note in attached.check():
                self._say(note)

    def remember(self) -> None:
        """Take buffers as they are for the same on all ranks: a state was brought back."""
        for attached in self._attached:
            attached.remember_buffers()
        self._draw_apart()

    def watch(self, needs: frozenset[str], wants: frozenset[str]) -> Watch:
        """Return what remembers so much of what criteria see."""
        self._watches = bool(needs)
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
        self._detach()
        self._hook.remove()
        self._groups.leave()

    def _detach(self) -> None:
        for attached in self._attached:
            attached.detach()
        for _, guard in self._keras:
            guard.remove()
        self._attached.clear()
        self._keras.clear()

    def _draw_apart(self) -> None:
        """Let models of Keras draw otherwise than those of rank 0, as which they are now."""
        for module, _ in self._keras:
            draw_apart(module, self.rank, self._own_seeds)

    def _refuse_twice(self) -> None:
        """Refuse to average what a library averages too: it divides examples as well."""
        if self._attaches and (who := distributing.library_at_work()):
            raise ConfigError(distributing.TWICE.format(who=who, ranks=self.ranks))

    def _before_step(self, optimizer: Optimizer, *_: Any) -> None:
        """Refuse to train what nobody averages."""
        self._refuse_twice()
        if self._attaches and not self._attached:
            name = type(optimizer).__name__
            raise ConfigError(distributing.NOBODY.format(optimizer=name, ranks=self.ranks))

    def _begin_pass(self) -> None:
        """Take a pass over a training loader for an epoch, where the training function asks for none."""
        if self._trained:
            self.check()
        self._waiting.clear()
        self._is_ahead = self._is_uneven = False

    def _begin_backward(self) -> None:
        """See to it that the weight is that of the batch which gradients are of.

        Raises:
            RanksError: It cannot be told which batch, or they are of several that count otherwise.
        """
        self._refuse_twice()
        if self._is_ahead and self._is_uneven:
            raise RanksError(AHEAD)
        if len(weights := set(self._waiting.values())) > 1:
            raise RanksError(
                APART.format(weights=" and ".join(f"{one:.3g} times its share" for one in sorted(weights)))
            )
        self._waiting.clear()

    def _take_note(self, drawn: Drawn) -> None:
        """See how much the batch that comes now counts on this rank."""
        if not is_shared(drawn.loader):
            with contextlib.suppress(TypeError):  # it has no length
                self._evaluated = float(len(drawn.loader.dataset))  # type: ignore[arg-type] # it may have none
            return
        self._trained = True
        self._is_ahead |= id(drawn.loader) in self._waiting
        self._is_uneven |= drawn.weight != 1
        self._waiting[id(drawn.loader)] = drawn.weight
        for attached in self._attached:
            attached.weight = drawn.weight
        if self._examples is not None:
            self._examples.drawn(drawn)


def _how_divided(data: Any, ranks: int, batch: str) -> str:
    """Say what batches the ranks have."""
    sizes = set()
    for loader in filter(is_shared, every(DataLoader, data)):
        shares = shares_of(loader)
        sizes.add(getattr(loader if shares is None else shares, "batch_size", None))
    if not sizes:
        return (
            f"{ranks} ranks train each trial, and data() gives no loader that could be divided: each rank trains on "
            "all of it, in an order of its own if the training function draws one. Return a DataLoader from data()."
        )
    rate = "The learning rate is the function's own, and is not scaled."
    each = " or ".join(str(size) for size in sorted(sizes, key=str))
    if batch == "per_rank":
        total = " or ".join(str(size * ranks) for size in sorted(sizes, key=str) if isinstance(size, int))
        together = f", so that a step has {total}" if total else ""
        return f"{ranks} ranks train each trial, with batches of {each} examples on each of them{together}. {rate}"
    return (
        f"{ranks} ranks train each trial: the batch of {each} examples that data() asks for is that of all ranks "
        f"together, and is divided over them. {rate}"
    )


def _of_batch_norm(modules: Iterable[nn.Module]) -> list[str]:
    """Return a note if modules normalise by what a rank has of a batch."""
    layers = [layer for module in modules for layer in module.modules() if isinstance(layer, _BatchNorm)]
    n = sum(not isinstance(layer, nn.SyncBatchNorm) and layer.training for layer in layers)
    if not n:
        return []
    return [
        f"{count(n, 'layer')} of BatchNorm see on each rank what it has of a batch, so the network is not trained as "
        "on one rank; running statistics are averaged. On GPUs torch.nn.SyncBatchNorm sees all of it."
    ]


def serve(rank: Rank, timeout_s: float) -> tuple[Any, int]:
    """Return a store that this process serves to the other ranks, and its port."""
    return open_store(rank.host, timeout_s=timeout_s)


def is_lost(error: BaseException) -> bool:
    """Whether an error only says that other ranks are gone, or do not answer.

    A library that distributes by itself has groups of its own, and what these raise is torch's own error.
    """
    broke = isinstance(error, RuntimeError) and any(sign in str(error) for sign in BROKEN)
    return broke or isinstance(error, RankLostError | TimeoutError | dist.DistNetworkError | dist.DistStoreError)
