"""How a model is sharded over ranks that each have a part of it; known without any framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from etude.core.errors import ConfigError


@final
@dataclass(frozen=True)
class FSDP:
    """Shard parameters, gradients and optimizer state over the ranks with PyTorch's FSDP2.

    A block is gathered as a whole while it computes, and given back afterwards; what is in no block is one more. Each
    rank needs room for its share of the model and for a block or two.

    Args:
        block: The name of the class of the model's repeated blocks, or several names.
        methods: Methods that are called in place of ``forward`` and need the parameters, such as ``loss``.

    Raises:
        ConfigError: A name is missing.

    Source:
        Zhao et al. 2023, "PyTorch FSDP", doi:10.14778/3611540.3611569; ``torch.distributed.fsdp.fully_shard``.

    Example:
        >>> FSDP(block="DecoderLayer")
        FSDP(block=('DecoderLayer',), methods=())
    """

    block: str | tuple[str, ...]
    methods: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        block = (self.block,) if isinstance(self.block, str) else tuple(self.block)
        if not block or not all(isinstance(name, str) and name for name in block):
            raise ConfigError(
                f"FSDP(block={self.block!r}) names no class, and without blocks each rank would gather the whole model "
                'at once. Name the class of the repeated blocks, for instance FSDP(block="DecoderLayer").'
            )
        object.__setattr__(self, "block", block)
        object.__setattr__(self, "methods", (self.methods,) if isinstance(self.methods, str) else tuple(self.methods))
