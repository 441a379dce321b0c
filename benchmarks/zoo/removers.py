"""Ways to take a part out of a model: Étude's, and those that the oracles have to see through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch import Tensor, nn

from benchmarks.zoo.family import Inputs
from benchmarks.zoo.oracles import Repaired


class Refused(Exception):  # noqa: N818 - it is no mishap: the answer to a question
    """A part cannot be taken out.

    Attributes:
        code: Why, one of a few.
        instead: What could be taken out instead.
    """

    def __init__(self, code: str, why: str, instead: str = "") -> None:
        super().__init__(why)
        self.code = code
        self.instead = instead


Remover = Callable[[nn.Module, str, Inputs], tuple[Repaired, int]]
"""Takes a part out: a model, a path, inputs -> what is left, and how deep the repair cut."""


def etude_remove(model: nn.Module, path: str, inputs: Inputs) -> tuple[Repaired, int]:
    """Take a part out with ``etude.remove``."""
    import etude

    try:
        done = etude.remove(model, f"layer:{path}", inputs)
    except etude.ConfigError as error:
        refusal: Any = error
        if not hasattr(refusal, "code"):
            raise  # no refusal: the call itself was wrong
        raise Refused(str(refusal.code.value), refusal.why, refusal.instead) from None
    return Repaired(done.model, done.changes, int(done.rung)), int(done.rung)


def blind(model: nn.Module, path: str, inputs: Inputs) -> tuple[Repaired, int]:
    """Put ``nn.Identity`` in its place and look no further."""
    _put(model, path, nn.Identity())
    return Repaired(model, rung=1), 1


def hidden(model: nn.Module, path: str, inputs: Inputs) -> tuple[Repaired, int]:
    """Say that it is done, and do nothing."""
    return Repaired(model), 1


class _First(nn.Module):
    """Gives the first example's values for all examples."""

    def forward(self, x: Tensor, *rest: Any, **named: Any) -> Any:
        return x[:1].expand_as(x)


def mixing(model: nn.Module, path: str, inputs: Inputs) -> tuple[Repaired, int]:
    """Put something in its place that gives every example the first one's values."""
    _put(model, path, _First())
    return Repaired(model), 5


class _Cut(nn.Module):
    """Lets no gradient through."""

    def forward(self, x: Tensor, *rest: Any, **named: Any) -> Any:
        return x.detach()


def cutting(model: nn.Module, path: str, inputs: Inputs) -> tuple[Repaired, int]:
    """Put something in its place that lets no gradient through."""
    _put(model, path, _Cut())
    return Repaired(model, rung=1), 1


def _put(model: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)


REMOVERS: Final[dict[str, Remover]] = {"étude": etude_remove, "identity": blind}
"""Whom the benchmark compares."""
