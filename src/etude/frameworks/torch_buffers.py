"""Buffers of a module on several ranks: what floating-point ones become after each backward.

They are the mean over ranks, weighted as the gradients are, of what each rank made of what all had before. Only the
change travels, so that a buffer that nobody changed stays what it is, to the bit: many hold constants.

Running statistics are written by kernels that tell nobody, so they are always sent. Of other buffers a rank sees when
one was written or replaced; it says so, and then all ranks send it. Other types stay as they are on each rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from etude.frameworks.standstill import Awaited
from etude.frameworks.torch_keras import untrained
from etude.frameworks.torch_ranks import Groups


class Place(NamedTuple):
    """Where a buffer is: it may be replaced by another tensor. One of Keras is a parameter that nobody trains."""

    module: nn.Module
    name: str

    def now(self) -> torch.Tensor | None:
        """Return what is there; None if it is no buffer any more."""
        found = self.module._parameters.get(self.name)
        if found is not None:
            return None if found.requires_grad else found
        return self.module._buffers.get(self.name)


class Buffers:
    """Floating-point buffers of one module.

    Args:
        module: It.
        groups: Those of the ranks.
        group: What they go through; None for the default one.
    """

    def __init__(self, module: nn.Module, groups: Groups, group: int | None) -> None:
        self._groups = groups
        self._group = group
        self._always: list[Place] = []
        self._seldom: list[Place] = []
        seen: set[int] = set()
        for part in module.modules():
            for name, buffer in part._buffers.items():
                if (
                    buffer is not None
                    and id(buffer) not in seen
                    and (buffer.is_floating_point() or buffer.is_complex())
                ):
                    seen.add(id(buffer))
                    (self._always if isinstance(part, _NormBase) else self._seldom).append(Place(part, name))
        for variable in untrained(module):
            if variable.tensor.is_floating_point():
                self._seldom.append(Place(variable.holder, variable.key))
        self._before: dict[Place, torch.Tensor] = {}
        self._stamps: list[Any] = []
        self.remember()

    def __bool__(self) -> bool:
        return bool(self._always or self._seldom)

    def remember(self) -> None:
        """Take what is there now as what all ranks have."""
        with torch.no_grad():
            for place in (*self._always, *self._seldom):
                now = place.now()
                if now is not None:
                    self._before[place] = now.detach().clone()
        self._stamps = [_stamp(place) for place in self._seldom]

    def average(self, weight: float, backward: Awaited) -> None:
        """Let all floating-point buffers be the mean over ranks.

        Args:
            weight: That of this rank; 1 is the mean of all.
            backward: After which.
        """
        with torch.no_grad():
            stamps = [_stamp(place) for place in self._seldom]
            told = [float(now != then) for now, then in zip(stamps, self._stamps, strict=True)]
            written = self._agree(told, backward)
            self._reduce(
                [*self._always, *(place for place, mark in zip(self._seldom, written, strict=True) if mark)],
                weight,
                backward,
            )
        if any(written):
            self._stamps = [_stamp(place) for place in self._seldom]

    def _agree(self, told: Sequence[float], backward: Awaited) -> list[float]:
        """Return which of the other buffers any rank has written."""
        if not told:
            return []
        marks = torch.tensor(told)
        self._groups.carry_out(dist.all_reduce, marks, awaited=backward, what="buffers")
        found: list[float] = marks.tolist()
        return found

    def _reduce(self, places: Sequence[Place], weight: float, backward: Awaited) -> None:
        pairs = [(now, self._before[place]) for place in places if (now := place.now()) is not None]
        kinds: dict[Any, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        for now, before in pairs:
            kinds.setdefault((now.dtype, now.device), []).append((now, before))
        for (_, device), some in kinds.items():
            flat = torch.cat([_change(now, before).reshape(-1) for now, before in some])
            flat = flat.mul_(weight / self._groups.ranks) if weight else flat.zero_()
            self._groups.wait(self._groups.all_reduce(flat, self._group), backward, "buffers", device=device.type)
            parts = flat.split([now.numel() for now, _ in some])
            for (now, before), part in zip(some, parts, strict=True):
                change = part.view(now.shape)
                before.copy_(torch.where(change == 0, before, before + change))
                now.copy_(before)


def _change(now: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """Return what was added; nothing where they are equal, infinite ones included."""
    return torch.where(now == before, 0, now - before)


def _stamp(place: Place) -> Any:
    now = place.now()
    return None if now is None else (id(now), now._version)
