"""How many processes train one trial together, and how: values, which others see to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from etude.core.errors import ConfigError
from etude.core.numbers import is_number, whole
from etude.core.text import brief

Batch = Literal["global", "per_rank"]
Reduction = Literal["mean", "sum", "rank 0"]
REDUCTIONS: Final = ("mean", "sum", "rank 0")
EVALUATIONS: Final = ("whole", "divided")
BATCHES: Final = ("global", "per_rank")
TIMEOUT_S: Final = 600.0

MOST_RANKS: Final = 1 << 14


class DDP(msgspec.Struct, frozen=True, kw_only=True, tag="ddp", omit_defaults=True):
    """Data-parallel training: each rank has the whole model, and gradients are averaged over the ranks.

    Args:
        evaluation: ``"whole"`` gives each rank all of the validation and test data, so that every metric is what one
            rank would have found, and code that decides by it decides alike on all ranks. ``"divided"`` gives each a
            part of it: metrics are then means over the ranks, weighted by how many examples each saw.
        reduce: Metric -> what becomes of the values that the ranks report: ``"mean"``, the default, ``"sum"``, or
            ``"rank 0"`` for that of the first rank alone.
        attach: Whether Étude averages gradients and divides batches itself. False leaves both to a library that sees
            the ranks by torchrun's environment, as Lightning, Accelerate and the Trainer of Transformers do. Left out,
            it does unless the model is a LightningModule.
        timeout_s: Seconds that a rank waits for the others before the attempt counts as lost.

    Raises:
        ConfigError: A value cannot be.
    """

    evaluation: Literal["whole", "divided"] = "whole"
    reduce: Mapping[str, Reduction] = {}
    attach: bool | None = None
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        if self.evaluation not in EVALUATIONS:
            raise ConfigError(f"evaluation={brief(self.evaluation)} is not known. Pass 'whole' or 'divided'.")
        for name, how in dict(self.reduce).items():
            if how not in REDUCTIONS:
                raise ConfigError(
                    f"reduce={{{name!r}: {brief(how)}}} is not known. Pass one of {', '.join(map(repr, REDUCTIONS))}."
                )
        if self.attach not in (None, True, False):
            raise ConfigError(f"attach={brief(self.attach)} is no answer. Pass True or False, or leave it out.")
        if not (is_number(self.timeout_s) and self.timeout_s > 0):
            raise ConfigError(f"timeout_s={self.timeout_s!r} leaves no time. Pass seconds above 0.")


class FSDP(DDP, frozen=True, kw_only=True, tag="fsdp", omit_defaults=True):
    """Data-parallel training with parameters, gradients and optimizer state sharded over the ranks (FSDP2 of PyTorch).

    A block is gathered as a whole while it computes, and given back afterwards; what is in no block is one more. Each
    rank needs room for its share of the model and for a block or two.

    Args:
        block: The name of the class of the model's repeated blocks, such as ``"DecoderLayer"``, or several names.
            Without any, the model is gathered as a whole.
        methods: Methods that are called in place of ``forward`` and need the parameters, such as ``"loss"``.

    Raises:
        ConfigError: A value cannot be.

    Source:
        Zhao et al. 2023, "PyTorch FSDP", doi:10.14778/3611540.3611569; ``torch.distributed.fsdp.fully_shard``.

    Example:
        >>> FSDP(block="DecoderLayer").block
        ('DecoderLayer',)
    """

    block: str | tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for field, given in (("block", self.block), ("methods", self.methods)):
            names = (given,) if isinstance(given, str) else tuple(given)
            if not all(isinstance(name, str) and name for name in names):
                what = "the class of the repeated blocks" if field == "block" else "methods of the model"
                example = 'block="DecoderLayer"' if field == "block" else 'methods="loss"'
                raise ConfigError(
                    f"FSDP({field}={given!r}) has something in it that is no name. Name {what}, for instance "
                    f"FSDP({example}); or leave {field} out."
                )
            msgspec.structs.force_setattr(self, field, names)
        if self.evaluation == "divided":
            raise ConfigError(
                'FSDP(evaluation="divided") cannot be: blocks are gathered from all ranks for each batch, so all need '
                'equally many. Leave evaluation out, or take DDP(evaluation="divided").'
            )
        if self.attach is False:
            raise ConfigError(
                "FSDP(attach=False) cannot be: it shards the model itself. For a library that is to shard it, pass "
                "DDP(attach=False), which leaves all to it."
            )

    @property
    def blocks(self) -> tuple[str, ...]:
        """The names of the classes, as a tuple."""
        return (self.block,) if isinstance(self.block, str) else self.block


class Parallel(msgspec.Struct, frozen=True):
    """How all trials of a study are trained by several ranks.

    Attributes:
        ranks: How many processes train one trial, from 2.
        how: The way that they do it.
        batch: Whether the batch size that the data function asks for is that of all ranks, or of each.
    """

    ranks: int
    how: DDP | FSDP
    batch: Batch = "global"

    @property
    def in_shards(self) -> bool:
        """Whether each rank has a shard of the model, and saves its shard of each state."""
        return isinstance(self.how, FSDP)

    @property
    def identity(self) -> str:
        """What of it changes the numbers of a trial, as text."""
        reduced = dict(sorted(self.how.reduce.items()))
        told = f"{type(self.how).__name__.lower()}, {self.ranks} ranks, batch {self.batch}"
        told += f", evaluation {self.how.evaluation}, metrics {reduced or 'mean'}"
        told += f", attached: {self.how.attach}" if self.how.attach is not None else ""
        return told + (f", blocks {', '.join(self.how.blocks)}" if isinstance(self.how, FSDP) else "")


class Rank(msgspec.Struct, frozen=True):
    """One process of a trial.

    Attributes:
        number: From 0.
        ranks: How many there are.
        local: Which of those on its machine it is, from 0.
        locals: How many are on its machine.
        host: The address at which rank 0 can be reached by all.
    """

    number: int
    ranks: int
    local: int
    locals: int
    host: str


def read_parallel(ranks: object, parallel: object, batch: object) -> Parallel | None:
    """Read what a verb was given; None for one rank.

    Raises:
        ConfigError: Something of it cannot be.

    Example:
        >>> read_parallel(4, "ddp", "global").ranks
        4
    """
    n = whole("ranks", ranks, 1, "nobody would train")
    if n > MOST_RANKS:
        raise ConfigError(f"ranks={n} is more than can work together. Pass {MOST_RANKS} at most.")
    how = _how(parallel)
    if batch not in BATCHES:
        raise ConfigError(
            f"batch={brief(batch)} is not known. Pass 'global', and the batch of all ranks together is what the data "
            "function asks for, or 'per_rank', and each has so many."
        )
    return Parallel(n, how, batch) if n > 1 else None


def _how(given: Any) -> DDP | FSDP:
    if isinstance(given, DDP):  # and so FSDP
        return given
    if isinstance(given, Mapping):  # as it lies in a journal
        return msgspec.convert(given, DDP | FSDP)
    if given == "ddp":
        return DDP()
    if given == "fsdp":
        return FSDP()
    raise ConfigError(f"parallel={brief(given)} is not known. Pass 'ddp', 'fsdp', etude.DDP(...) or etude.FSDP(...).")
