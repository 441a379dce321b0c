"""What is recorded of each example, from scores and targets: loss, correctness, probabilities.

Of what an example has several (tokens, pixels, outputs) the mean is taken, of those that are not ignored, or the sum of
losses where the user's own loss is a sum. Where nothing of an example counts, all of this is 0. Nothing here waits for
a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import torch

from etude.frameworks.aspects import CORRECT, EL2N, LOSS, PROBABILITY
from etude.frameworks.torch_losses import PAIR, Classes, Form, pair

Flattened = Literal["batch_first", "time_first"]
"""Which rows come one after the other, where examples have several: all of an example, or the first of all examples."""


def classes_of(form: Form, scores: Any, targets: Any) -> Classes | None:
    """Return how scores and targets are those of classes; None if they are not."""
    if form.kind.classes != "guess":
        return form.kind.classes
    if not torch.is_tensor(scores) or not torch.is_tensor(targets) or scores.dim() < 2:  # noqa: PLR2004
        return None
    whole = not targets.is_floating_point() and not targets.is_complex()
    return "softmax" if whole and targets.shape == scores.shape[:1] + scores.shape[2:] else None


class UnmatchedError(Exception):
    """Rows cannot be told to be those of the examples: how many there are."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows


def aspects(
    form: Form,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    wanted: frozenset[str],
    *,
    n: int,
    flattened: Flattened | None = None,
) -> dict[str, torch.Tensor]:
    """Return what is wanted of each example, one array each, on the device where the scores are.

    Args:
        form: Of the loss.
        args: What the loss was called with.
        kwargs: Likewise.
        wanted: Names of aspects; those that the loss cannot give are left out.
        n: How many examples there are.
        flattened: In which order rows come, if there are several for each example.

    Raises:
        UnmatchedError: There are other rows than those of ``n`` examples.
    """
    scores, targets = pair(args, kwargs)
    classes = classes_of(form, scores, targets) if wanted - {LOSS} else None
    counted = None
    if form.kind.classes == "softmax" and targets.shape != scores.shape:
        counted = targets != form.ignored(kwargs)
    by_example = ByExample(n, flattened, counted)
    found = {}
    if LOSS in wanted:
        if form.kind.classes == "softmax" and len(args) == len(PAIR) and _narrow(scores):
            across = targets.t() if targets.dim() == scores.dim() else targets
            losses = form.unreduced(_classes_first(scores)[None], across[None], **kwargs)[0]
        else:
            losses = torch.as_tensor(form.unreduced(*args, **kwargs))
        found[LOSS] = by_example(losses, sums=form.sums(kwargs))
    if classes == "softmax":
        found |= _of_classes(scores.float(), targets, wanted, by_example)
    elif classes is not None:
        found |= _of_labels(scores.float(), targets.float(), classes, wanted, by_example)
    return found


NARROW: Final = 32
"""Of so few classes and many examples, torch computes a softmax several times faster where the classes come first."""


def _narrow(scores: torch.Tensor) -> bool:
    wide = scores.dim() != 2 or scores.shape[1] > NARROW or len(scores) < NARROW  # noqa: PLR2004
    return not wide and scores.device.type == "cpu"


def _classes_first(scores: torch.Tensor) -> torch.Tensor:
    return scores.t().contiguous()


class ByExample(NamedTuple):
    """Makes one number for each example of one or several.

    Attributes:
        n: How many examples there are.
        flattened: In which order rows come, if there are several for each example.
        counted: Which of the values count; None if all do.
    """

    n: int
    flattened: Flattened | None
    counted: torch.Tensor | None

    def __call__(self, values: torch.Tensor, *, sums: bool = False) -> torch.Tensor:
        """Return the mean of those that count, or their sum; 0 where none does."""
        rows = self.rows(values)
        if self.counted is None:
            return rows.sum(1) if sums else rows.mean(1) if rows.shape[1] != 1 else rows[:, 0]
        counts = self.rows(self.counted)
        if rows.shape[1] == 1:
            return torch.where(counts, rows, 0.0)[:, 0]
        total = torch.where(counts, rows, 0.0).sum(1)
        return total if sums else total / counts.sum(1).clamp(min=1)

    def rows(self, values: torch.Tensor) -> torch.Tensor:
        """Return all values of an example as one row.

        Raises:
            UnmatchedError: There are other rows than those of ``n`` examples.
        """
        given = values.shape[0] if values.dim() else 1
        if given != self.n and (self.flattened is None or not self.n or given % self.n):
            raise UnmatchedError(given)
        if self.flattened == "time_first" and given != self.n:
            values = values.unflatten(0, (-1, self.n)).transpose(0, 1)
        return values.reshape(self.n, -1)


def _of_classes(
    scores: torch.Tensor, targets: torch.Tensor, wanted: frozenset[str], by_example: ByExample
) -> dict[str, torch.Tensor]:
    found = {}
    counted = by_example.counted
    mixed = targets.shape == scores.shape  # probabilities of the classes
    true = targets.argmax(1) if mixed else targets if counted is None else torch.where(counted, targets, 0)
    if CORRECT in wanted:
        right = (scores.argmax(1) == true).to(scores.dtype)
        found[CORRECT] = by_example(torch.where(scores.isnan().any(1), torch.nan, right))
    if wanted & {PROBABILITY, EL2N}:
        probabilities = _classes_first(scores).softmax(0).t() if _narrow(scores) else scores.softmax(1)
        of_true = probabilities.gather(1, true.unsqueeze(1)).squeeze(1)
        if PROBABILITY in wanted:
            found[PROBABILITY] = by_example(of_true)
        if EL2N in wanted and mixed:
            found[EL2N] = by_example((probabilities - targets).norm(dim=1))
        elif EL2N in wanted:
            others = probabilities.square().sum(1) - of_true.square()  # the target is 0 there
            found[EL2N] = by_example((others.clamp(min=0) + (1 - of_true).square()).sqrt())
    return found


def _of_labels(
    scores: torch.Tensor, targets: torch.Tensor, classes: Classes, wanted: frozenset[str], by_example: ByExample
) -> dict[str, torch.Tensor]:
    found = {}
    probabilities = scores.sigmoid() if classes == "sigmoid" else scores
    of_true = targets * probabilities + (1 - targets) * (1 - probabilities)
    if CORRECT in wanted:
        right = ((probabilities > 0.5) == (targets > 0.5)).to(scores.dtype)  # noqa: PLR2004
        found[CORRECT] = by_example(torch.where(scores.isnan(), torch.nan, right))
    if PROBABILITY in wanted:
        found[PROBABILITY] = by_example(of_true)
    if EL2N in wanted:
        found[EL2N] = by_example.rows(probabilities - targets).norm(dim=1)
    return found
