"""What the ranks of an attempt do together, seen from one of them.

They meet before the user's functions are called. From then on each does the same as the others: whatever all take part
in comes in the same order everywhere, since all run the same function. What one rank alone decides, such as that the
study wants the attempt to stop, is agreed on first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from etude.core.errors import ConfigError, ResultError
from etude.core.ranks import Parallel, Rank
from etude.frameworks import other_keras_backend, torch_adapter
from etude.worker.network import use_interface
from etude.worker.ranks import Ranks

RUN_ID: Final = "TORCHELASTIC_RUN_ID"

NO_TORCH: Final = (
    "The trial is to be trained by {ranks} ranks, and its functions use no torch: gradients of torch alone are "
    "averaged. Leave ranks= out."
)


def check_backend(ranks: int) -> None:
    """Refuse ranks for models whose gradients nobody would average.

    Raises:
        ConfigError: Keras is loaded with another backend than torch.
    """
    if ranks > 1 and (backend := other_keras_backend()):
        raise ConfigError(
            f"ranks={ranks} was given, and Keras runs on its backend {backend!r}, whose gradients are not averaged: "
            "each rank would train a model of its own. Leave ranks= out, or set KERAS_BACKEND=torch before Keras is "
            "imported."
        )


class Together:
    """The part of one rank.

    Args:
        rank: Which one it is.
        parallel: How they train.
        attempt: Which attempt of the trial it is, from 1.
        announce: Lets the other ranks know the port at which rank 0 awaits them.
        await_port: Waits for that port.
        say: Tells users something.

    Attributes:
        number: Which rank it is.
        ranks: How many there are.
        say: Tells users something.
        draws_alike: Whether ranks go on from the generators of rank 0, and not from some of their own.
        in_shards: Whether each rank saves a shard of each state, and goes on from it.
    """

    def __init__(
        self,
        rank: Rank,
        parallel: Parallel,
        *,
        attempt: int,
        announce: Callable[[int], None],
        await_port: Callable[[float], int],
        say: Callable[[str], None],
    ) -> None:
        self.number = rank.number
        self.ranks = rank.ranks
        self._rank = rank
        self._parallel = parallel
        self._attempt = attempt
        self._announce = announce
        self._await_port = await_port
        self.say = say
        self.draws_alike = False
        self.in_shards = parallel.in_shards
        self._all: Ranks | None = None

    def begin(self) -> None:
        """Meet the other ranks.

        Raises:
            ResultError: The functions use no torch.
            Exception: They do not come.
        """
        if torch_adapter() is None:
            raise ResultError(NO_TORCH.format(ranks=self.ranks))
        from etude.frameworks import torch_together

        os.environ.update(_environment(self._rank, self._attempt))
        timeout_s = self._parallel.how.timeout_s
        if self.number == 0:
            store, port = torch_together.serve(self._rank, timeout_s)
            self._announce(port)
        else:
            store, port = None, self._await_port(timeout_s)
        os.environ["MASTER_PORT"] = str(port)
        use_interface(self._rank.host, port)
        self._all = torch_together.Together(
            self._rank, self._parallel, store=store, port=port, prefix=f"attempt {self._attempt}", say=self.say
        )

    @property
    def all(self) -> Ranks:
        """The ranks, once they have met."""
        assert self._all is not None, "they have met"
        return self._all

    def shard(self, data: Any) -> Any:
        """Divide the batches of loaders over the ranks, and return the data."""
        return self.all.shard(data)

    def attach(self, model: Any) -> Any:
        """Have the gradients of a model averaged over the ranks, and return it.

        Raises:
            ConfigError: Nobody can.
        """
        check_backend(self.ranks)
        return self.all.attach(model)

    def stand_back(self, who: str, *, draws_alike: bool = False) -> None:
        """Leave the ranks to a library that sees to them itself.

        Args:
            who: Which one.
            draws_alike: Whether it seeds all ranks alike, and relies on that: it may shuffle with what they draw.
        """
        self.draws_alike = draws_alike
        self.all.stand_back(who)

    def remember(self) -> None:
        """Take what models have beside parameters for the same on all ranks: a state was brought back."""
        self.all.remember()

    def stream(self, *name: str | int) -> tuple[str | int, ...]:
        """Return the name of a random stream that is this rank's own; rank 0 has that of a single one."""
        return (*name, "rank", self.number) if self.number else name

    def reduce(self, at: str, metrics: Mapping[str, float]) -> Mapping[str, float]:
        """Return metrics as they are for all ranks, at a place that all come to."""
        return self.all.reduce(at, metrics)

    def has_lost(self, error: BaseException) -> bool:
        """Whether an error only says that other ranks are gone, or do not answer."""
        if torch_adapter() is None:
            return False
        from etude.frameworks import torch_together

        return torch_together.is_lost(error)

    def end(self) -> None:
        """Part with the other ranks."""
        if self._all is not None:
            self._all.leave()


def _environment(rank: Rank, attempt: int) -> dict[str, str]:
    """Return what torchrun would tell a rank, for libraries that go by it."""
    return {
        "RANK": str(rank.number),
        "WORLD_SIZE": str(rank.ranks),
        "LOCAL_RANK": str(rank.local),
        "LOCAL_WORLD_SIZE": str(rank.locals),
        "MASTER_ADDR": rank.host,
        "TORCHELASTIC_RESTART_COUNT": str(attempt - 1),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        RUN_ID: "etude",
    }
