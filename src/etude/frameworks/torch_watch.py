"""What criteria see of each example, remembered from the same forward pass.

A step costs a copy of the scores and the targets. What is wanted of each example is computed from many of these copies
at once, later, on the device where they lie; only ``Watch.take`` brings it over, once in an epoch, and nothing else
waits for a GPU. They are copies, and not references: what the user changes in place after a step does not count. Large
scores are used at once.

What counts is the first call after a batch was drawn that gradients are wanted of. Further calls for the same batch, as
for a second loss, do not; nor does evaluation.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.amp import is_autocast_available

from etude.core.errors import ConfigError, ResultError
from etude.core.text import count
from etude.frameworks.torch_ahead import Ahead
from etude.frameworks.torch_aspects import Flattened, UnmatchedError, aspects
from etude.frameworks.torch_losses import PAIR, Form

STEPS: Final = 64
"""So many steps are computed together, at most."""

WAITING_B: Final = 2**23
"""So many bytes wait, at most."""

COPIED_B: Final = 2**19
"""Scores above this are used at once, without a copy."""


class Taken(NamedTuple):
    """What was seen since the last time.

    Attributes:
        ids: Of the examples, in the order in which they were seen.
        values: Aspect -> a number for each of them.
        notes: What the user should know.
    """

    ids: npt.NDArray[np.int64]
    values: dict[str, npt.NDArray[np.float32]]
    notes: tuple[str, ...] = ()


class _Call(NamedTuple):
    """A call of a criterion, copied.

    Attributes:
        form: Of the loss.
        flattened: In which order rows come, if there are several for each example.
        settings: What the call named beside scores and targets.
        ids: Of the examples.
        scores: A copy.
        targets: A copy.
    """

    form: Form
    flattened: Flattened | None
    settings: Mapping[str, Any]
    ids: Sequence[int]
    scores: torch.Tensor
    targets: torch.Tensor

    def like(self) -> tuple[Any, ...]:
        """Return what calls have in common that are computed together."""
        scores, targets = self.scores, self.targets
        kinds = (scores.shape, targets.shape, scores.dtype, targets.dtype, scores.device)
        return self.form, self.flattened, self.settings, len(self.ids), kinds


class Watch:
    """Remembers what criteria saw, from the batches that it is told of.

    Args:
        needs: The aspects that there must be.
        wants: Those that are taken where the loss is one of classes.

    Attributes:
        called: Whether there is a criterion that is watched.
        asleep: Whether nothing is wanted for now.
    """

    def __init__(self, needs: frozenset[str], wants: frozenset[str] = frozenset()) -> None:
        self.called = False
        self.asleep = False
        self.needs = needs
        self.wanted = needs | wants
        self._ids: Sequence[int] | None = None
        self._waiting: list[_Call] = []
        self._waiting_b = 0
        self._ready: list[tuple[list[Sequence[int]], dict[str, torch.Tensor]]] = []
        self._any = False
        self._further = self._unmatched = self._unseen = 0
        self._last_unmatched = (0, 0)
        self._ahead = Ahead()

    def drawn(self, ids: Sequence[int] | npt.NDArray[np.integer] | None, batch: Any = None) -> None:
        """Say which examples the batch has that the training function is given next; None for one that does not count.

        The order of ids is that of the batch. The array is kept as it is, and must not be changed.

        Args:
            ids: They.
            batch: The batch itself, if it is at hand.
        """
        if self._ids is not None:
            self._unseen += 1
        if self._ahead.looks:
            self._ahead.drawn(batch)
        self._ids = ids  # type: ignore[assignment] # an array is as good as a sequence here

    def saw(
        self, form: Form, args: tuple[Any, ...], kwargs: Mapping[str, Any], value: Any, flattened: Flattened | None
    ) -> None:
        """Take note of a call of a criterion.

        Raises:
            ResultError: It had not as many examples as the batch that was drawn, and so has been each call so far.
        """
        if self.asleep or not torch.is_grad_enabled() or not getattr(value, "requires_grad", True):
            return
        ids = self._ids
        if ids is None:
            self._further += 1
            return
        self._ids = None
        # This is paid for in every step, with nothing of it in the processor's caches: so little is done, and what
        # can be looked at later is. The first call is looked at now, so that what is wrong is said in the first step.
        if kwargs and form.kind.later:
            args, kwargs = _sorted(args, kwargs)
        if self._ahead.looks:
            self._ahead.saw(args)
        if (
            self._any
            and form.kind.later
            and len(args) == len(PAIR)
            and isinstance(scores := args[0], torch.Tensor)
            and isinstance(targets := args[1], torch.Tensor)
            and not (kwargs and any(map(torch.is_tensor, kwargs.values())))  # which may be changed
            and (size_b := scores.nbytes) <= COPIED_B
        ):
            targets = (targets.detach() if targets.requires_grad else targets).clone()
            self._waiting.append(_Call(form, flattened, kwargs, ids, scores.detach().clone(), targets))
            self._waiting_b += size_b
            if len(self._waiting) >= STEPS or self._waiting_b > WAITING_B:
                self.flush()
        else:
            self._at_once(form, args, kwargs, ids, flattened)

    def _at_once(
        self,
        form: Form,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        ids: Sequence[int],
        flattened: Flattened | None,
    ) -> None:
        self.flush()  # in the order in which they were seen
        n = len(ids)
        try:
            with torch.no_grad():
                found = aspects(form, args, kwargs, self.wanted, n=n, flattened=flattened)
        except UnmatchedError as error:
            self._mismatch(error.rows, n)
        else:
            self._add(form, [ids], found)

    def flush(self) -> None:
        """Compute what waits. On a GPU it is only asked for."""
        waiting, self._waiting, self._waiting_b = self._waiting, [], 0
        for _, alike in itertools.groupby(waiting, _Call.like):
            self._compute(list(alike))

    def _compute(self, calls: list[_Call]) -> None:
        first = calls[0]
        n, rows = len(first.ids), len(first.scores) if first.scores.dim() else 1
        if rows != n and (first.flattened is None or not n or rows % n):
            for _ in calls:
                self._mismatch(rows, n)
            return
        together = (
            [calls] if first.form.can_be_joined((first.scores, first.targets), first.settings) else [[c] for c in calls]
        )
        place = first.scores.device.type
        plain = torch.autocast(place, enabled=False) if is_autocast_available(place) else contextlib.nullcontext()
        with torch.no_grad(), plain:  # a step of the user's may be going on, with settings of its own
            for some in together:
                scores = torch.cat([_in_order(call, call.scores) for call in some])
                targets = torch.cat([_in_order(call, call.targets) for call in some])
                if scores.dtype in (torch.float16, torch.bfloat16):
                    scores = scores.float()
                flattened: Flattened | None = "batch_first" if rows != n else None
                given = (scores, targets)
                found = aspects(first.form, given, first.settings, self.wanted, n=n * len(some), flattened=flattened)
                self._add(first.form, [call.ids for call in some], found)

    def take(self) -> Taken:
        """Return what was seen since the last time, and forget it. On a GPU this waits for it.

        Raises:
            ResultError: What was seen is not of the examples that were drawn.
        """
        self._ahead.check()
        self.flush()
        ready, self._ready = self._ready, []
        ids = [np.asarray(batch, dtype=np.int64) for batches, _ in ready for batch in batches]
        names = sorted({name for _, found in ready for name in found})
        values = {}
        for name in names:
            columns = [
                found[name].float() if name in found else torch.full((sum(map(len, batches)),), torch.nan)
                for batches, found in ready
            ]
            device = columns[0].device
            values[name] = torch.cat([column.to(device) for column in columns]).cpu().numpy()
        told = self._notes()
        self._further = self._unmatched = self._unseen = 0
        return Taken(np.concatenate(ids) if ids else np.empty(0, dtype=np.int64), values, told)

    def _add(self, form: Form, ids: list[Sequence[int]], found: dict[str, torch.Tensor]) -> None:
        if missing := self.needs - found.keys():
            raise no_classes(form, missing)
        self._ready.append((ids, found))
        self._any = True

    def _mismatch(self, given: int, drawn: int) -> None:
        if not self._any:
            many = drawn and given > drawn and given % drawn == 0
            way_out = (
                f"If these are {given // drawn} of each example (tokens, say), pass "
                "run.criterion(loss, flattened='batch_first') where those of an example follow each other, or "
                "'time_first'."
                if many
                else "Call it once for each batch, with the whole batch; or train without a partition."
            )
            raise ResultError(
                f"The criterion was given {count(given, 'example')} where the loader had drawn {drawn:,}, so it cannot "
                f"be told which losses are those of which examples. {way_out}"
            )
        self._unmatched += 1
        self._last_unmatched = (given, drawn)

    def _notes(self) -> tuple[str, ...]:
        given, drawn = self._last_unmatched
        told = []
        if self._further:
            told.append(
                f"{count(self._further, 'call')} of a criterion did not count: only the first one after a batch does."
            )
        if self._unmatched:
            told.append(
                f"{count(self._unmatched, 'call')} of a criterion did not count: the last had "
                f"{count(given, 'example')} where the loader had drawn {drawn:,}."
            )
        if self._unseen:
            told.append(f"Of {count(self._unseen, 'batch').replace('batchs', 'batches')} no criterion saw anything.")
        return tuple(told)


def no_classes(form: Form, missing: frozenset[str]) -> ConfigError:
    """Return the error of a measure that wants classes of a loss that has none."""
    return ConfigError(
        f"The measure needs {', '.join(sorted(missing))} of each example, and {form.name} is no loss of classes. "
        "Take a measure of losses: 'mean', 'variance', 'last' or 'ema'."
    )


def _sorted(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return scores and targets without their names, and what else was named."""
    named = tuple(kwargs[name] for name in PAIR[len(args) :] if name in kwargs)
    return (*args, *named), {name: given for name, given in kwargs.items() if name not in PAIR}


def _in_order(call: _Call, tensor: torch.Tensor) -> torch.Tensor:
    """Return rows in the order of the examples."""
    if call.flattened != "time_first" or len(tensor) == len(call.ids):
        return tensor
    by_time: torch.Tensor = tensor.unflatten(0, (-1, len(call.ids)))
    return by_time.transpose(0, 1).flatten(0, 1)
