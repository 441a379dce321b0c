"""Gradients on their way between ranks: in buckets, while backward goes on.

A bucket holds the gradients of some parameters, of one type on one device, and goes as soon as the last of them is
there. The order of a module's buckets is fixed, so that all ranks send the same one at the same time, whatever their
batches use.

What each rank sends is w x (what lies in ``.grad``), where w is its weight and 1 is the mean of all weights. ``.grad``
is G + g: what earlier backwards left, the same on all ranks, and what this one added. So the mean over ranks is G +
mean(w g), which is what accumulation means: only what is new is weighted, and what was averaged stays.

Behind its gradients a bucket has a mark for each parameter that this backward reached. A parameter that no rank reached
is left as it is, and its gradient None if it was; one that another rank reached counts here as zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from etude.core.errors import RanksError
from etude.frameworks.standstill import Awaited
from etude.frameworks.torch_drift import is_dense
from etude.frameworks.torch_ranks import Groups

BUCKET_B: Final = 25 * 2**20
FIRST_B: Final = 2**20
"""The first one is small, so that something is under way early."""

UNEQUAL: Final = 0.05
"""How far the mean of all weights may be from 1, in the coarsest type."""

MOST_PLANS: Final = 8


class Slot:
    """A parameter and where it stands in this backward.

    Attributes:
        name: Its whole name.
        param: It.
        bucket: What its gradient goes in; None while it is frozen.
        reached: Whether this backward gave it a gradient.
    """

    __slots__ = ("bucket", "name", "param", "reached")

    def __init__(self, name: str, param: torch.Tensor) -> None:
        self.name = name
        self.param = param
        self.bucket: Bucket | None = None
        self.reached = False


class Bucket:
    """Gradients of one type on one device that go together.

    Args:
        slots: The parameters.
    """

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = list(slots)
        first = slots[0].param
        self.dtype, self.device = first.dtype, first.device
        self.numel = sum(slot.param.numel() for slot in slots)
        self.is_small = self.numel * first.element_size() <= FIRST_B
        self.flat = torch.zeros(self.numel + len(slots) + 1, dtype=self.dtype, device=self.device)
        self.body = self.flat[: self.numel]
        self.marks = self.flat[self.numel :]
        self.views, start = [], 0
        for slot in slots:
            self.views.append(shaped(self.flat, start, slot.param))
            start += slot.param.numel()
        self.left = len(slots)
        self.work: Any = None

    def reset(self) -> None:
        """Make ready for another backward."""
        self.left, self.work = len(self.slots), None
        for slot in self.slots:
            slot.reached = False

    def send(self, groups: Groups, group: int | None, weight: float) -> None:
        """Copy what is there, weighted, and send it."""
        share = weight / groups.ranks
        with torch.no_grad():
            gradients, views = [], []
            for slot, view in zip(self.slots, self.views, strict=True):
                gradient = slot.param.grad
                if gradient is None or not weight:  # 0 x NaN is NaN, and an example without weight is not to count
                    view.zero_()
                    continue
                self._check(slot, gradient)
                gradients.append(gradient.detach() if gradient.requires_grad else gradient)
                views.append(view)
            if self.is_small and gradients:  # one call for all, and another time through them
                torch._foreach_copy_(views, gradients)
                self.body.mul_(share)
            else:
                for gradient, view in zip(gradients, views, strict=True):
                    torch.mul(gradient, share, out=view)
            self.marks.fill_(1)
            self.marks[-1] = weight
            if self.left:
                for nth, slot in enumerate(self.slots):
                    if not slot.reached:
                        self.marks[nth] = 0
            self.work = groups.all_reduce(self.flat, group)

    def _check(self, slot: Slot, gradient: torch.Tensor) -> None:
        if gradient.dtype is self.dtype and gradient.device == self.device and gradient.layout is torch.strided:
            return
        if gradient.layout is not torch.strided:
            raise RanksError(
                f"{slot.name} has a sparse gradient, and gradients are averaged as dense ones. Leave out sparse=True."
            )
        raise RanksError(
            f"{slot.name} has a gradient of type {gradient.dtype} on {gradient.device}, and was a parameter of type "
            f"{self.dtype} on {self.device} before. Convert or move whole models, and between steps."
        )

    def receive(self, groups: Groups, backward: Awaited) -> None:
        """Wait, and put the averages where the gradients are."""
        groups.wait(self.work, backward, f"gradients of {self.slots[-1].name}", device=self.device.type)
        with torch.no_grad():
            if self.device.type == "cpu":
                self._check_weights(groups)
            marks = [1.0] * len(self.slots) if not self.left else self.marks.abs().tolist()
            gradients, averages = [], []
            for slot, view, mark in zip(self.slots, self.views, marks, strict=False):
                if slot.reached or mark:
                    if slot.param.grad is None:
                        slot.param.grad = view.clone(memory_format=torch.preserve_format)
                    else:
                        gradients.append(slot.param.grad)
                        averages.append(view)
            if gradients:
                torch._foreach_copy_(gradients, averages)

    def _check_weights(self, groups: Groups) -> None:
        total = abs(self.marks[-1].item())
        if abs(total / groups.ranks - 1) > UNEQUAL:
            raise RanksError(
                f"The weights of the {groups.ranks} ranks' gradients are {total:.4g} together, and would be "
                f"{groups.ranks} if all of them were at the same batch. A rank is at another one: it left an epoch "
                "early, or took a batch more. Let all ranks go through their loaders alike; decide by run.mean(value) "
                "when to leave an epoch."
            )


class Lane:
    """The gradients of one module: its buckets, in their order, in a group that nobody else uses meanwhile.

    Args:
        name: What the module is called.
        slots: All its parameters, those that are frozen included.
        groups: Those of the ranks.
        group: What its buckets go through; None for the default one.
        early: Whether buckets go while backward goes on, and not only at its end.
    """

    def __init__(self, name: str, slots: Sequence[Slot], groups: Groups, group: int | None, *, early: bool) -> None:
        self.name = name
        self.slots = list(slots)
        self.early = early
        self.open = False
        self._groups = groups
        self._group = group
        self._plans: dict[tuple[bool, ...], list[Bucket]] = {}
        self._wanted: tuple[bool, ...] = ()
        self._buckets: list[Bucket] = []
        self._next = 0

    def begin(self) -> None:
        """Make ready for a backward; parameters that were frozen or set free since are seen here, on all ranks."""
        wanted = tuple([slot.param.requires_grad for slot in self.slots])
        moved = any(b.slots[0].param.dtype is not b.dtype or b.slots[0].param.device != b.device for b in self._buckets)
        if wanted != self._wanted or moved:
            if moved or len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            if wanted not in self._plans:
                self._plans[wanted] = planned([slot for slot in self.slots if slot.param.requires_grad])
            self._wanted, self._buckets = wanted, self._plans[wanted]
            for slot in self.slots:
                slot.bucket, slot.reached = None, False
            for bucket in self._buckets:
                for slot in bucket.slots:
                    slot.bucket = bucket
        for bucket in self._buckets:
            bucket.reset()
        self._next = 0
        self.open = True

    def reached(self, slot: Slot, weight: float) -> None:
        """Note that a gradient is there; send what is complete."""
        bucket = slot.bucket
        if bucket is None:
            raise RanksError(f"{slot.name} was set free during backward. Set requires_grad between steps.")
        if slot.reached:
            if bucket.work is not None:
                raise RanksError(
                    f"{slot.name} got a second gradient before the average of the first was there. Either a "
                    "checkpointed part that uses it was put in after the first step: use checkpoint(..., "
                    "use_reentrant=False). Or an earlier backward ended with an exception that was caught: let it end "
                    "the training."
                )
            return
        slot.reached = True
        bucket.left -= 1
        if self.early and not bucket.left:
            while self._next < len(self._buckets) and not self._buckets[self._next].left:
                self._buckets[self._next].send(self._groups, self._group, weight)
                self._next += 1

    def send_rest(self, weight: float) -> None:
        """Send what was not sent, with zeros where there is no gradient."""
        for bucket in self._buckets[self._next :]:
            bucket.send(self._groups, self._group, weight)
        self._next = len(self._buckets)

    def receive(self, backward: Awaited) -> None:
        """Wait for all buckets; afterwards gradients are averages."""
        for bucket in self._buckets:
            bucket.receive(self._groups, backward)
        self.open = False


def planned(slots: Sequence[Slot]) -> list[Bucket]:
    """Return buckets for parameters, the last first, since their gradients come first."""
    groups: list[list[Slot]] = []
    open_groups: dict[Any, tuple[list[Slot], int]] = {}
    for slot in reversed(slots):
        kind = slot.param.dtype, slot.param.device
        group, size = open_groups.pop(kind, ([], 0))
        group.append(slot)
        size += slot.param.numel() * slot.param.element_size()
        if size >= (BUCKET_B if groups else FIRST_B):
            groups.append(group)
        else:
            open_groups[kind] = (group, size)
    groups += [group for group, _ in open_groups.values()]
    return [Bucket(group) for group in groups]


def shaped(flat: torch.Tensor, start: int, like: torch.Tensor) -> torch.Tensor:
    """Return a part of a flat tensor in the shape of another, and in the order in memory where that has no gaps."""
    if is_dense(like):
        return flat.as_strided(like.shape, like.stride(), start)
    return flat[start : start + like.numel()].view(like.shape)
