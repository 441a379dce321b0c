"""Where dropped features lie in what a PyTorch model is called with: found by comparing it with and without them.

Names say which columns or channels are left, where what the data function gave reaches the model as it is, or as
something that a training function made of it column by column: with noise, scaled, or less the mean of an example.
Then values differ between the two, and each column that is left has to be more like the one that its name says than
like any other. Where columns were mixed, names say nothing any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import torch

from etude.frameworks.cutting import CannotCutError, Kept
from etude.frameworks.removal.nested import Path, mapped, tensors
from etude.frameworks.removal.tracing import arguments

Where: TypeAlias = tuple[int, tuple[int, ...]]
"""An axis, and places along it."""

EQUALLY: Final = 1e-5
"""By how little a column may be more like another one than like its own: two that are equal are like both."""

LIKE: Final = 0.5
"""How high a column has to be correlated with its own at least: noise that is stronger than it hides what it was."""


def places_of_dropped(whole: Any, rest: Any, kept: Sequence[Kept], *, same: bool = True) -> dict[Path, Where | None]:
    """Return where what is dropped lies: of a tensor along which axis and at which places; None for all of it.

    Args:
        whole: What a model is called with, with all features.
        rest: What it is called with, without some, for the same examples.
        kept: What stays of columns or channels, as far as names tell it.
        same: Whether other tensors have to be the same in both; not, if the data function makes them anew.

    Raises:
        CannotCutError: Nobody can tell.
    """
    before, after = dict(tensors(arguments(whole))), dict(tensors(arguments(rest)))
    gone: dict[Path, Where | None] = {}
    for path, tensor in before.items():
        left = after.get(path)
        if left is None:
            gone[path] = None
        elif left.shape != tensor.shape:
            gone[path] = _places(tensor, left, kept, same=same)
        elif same and not _equal(left, tensor):
            raise CannotCutError("the model is called with other values than beside them, and not only with fewer")
    if after.keys() - before.keys():
        raise CannotCutError("the model is called in another way without them")
    return gone


def without_dropped(whole: Any, rest: Any, gone: Mapping[Path, Where | None]) -> Any:
    """Return what a model is called with, without what is dropped, with the values that the rest has beside it."""
    before = dict(tensors(arguments(whole)))
    path_of = {id(tensor): path for path, tensor in tensors(arguments(rest))}

    def beside(tensor: torch.Tensor) -> torch.Tensor:
        path = path_of[id(tensor)]
        found, where = before[path], gone.get(path)
        if where is None:
            return found
        left = [place for place in range(found.shape[where[0]]) if place not in where[1]]
        return found.index_select(where[0], indices(left))

    args, kwargs = mapped(arguments(rest), beside)
    return kwargs or args


def indices(places: Sequence[int]) -> torch.Tensor:
    """Return places as a tensor of whole numbers, also if there are none."""
    return torch.tensor(places, dtype=torch.long)


def _places(tensor: torch.Tensor, left: torch.Tensor, kept: Sequence[Kept], *, same: bool) -> Where:
    said = f"the model is called with {_shape(left)} in place of {_shape(tensor)}"
    shapes = list(zip(tensor.shape, left.shape, strict=True)) if tensor.ndim == left.ndim else []
    axes = [axis for axis, (of, n) in enumerate(shapes) if of != n]
    axis = axes[0] if len(axes) == 1 else 0
    of, n = shapes[axis] if len(axes) == 1 else (0, 0)
    fits = [one.places for one in dict.fromkeys(kept) if len(axes) == 1 and (one.of, len(one.places)) == (of, n)]
    if not fits:
        raise CannotCutError(
            f"{said}, and no names tell which of these are left. Give them names, etude.Data(..., features=[...]), one "
            "for each column"
        )
    if same:
        equal = [one for one in fits if _equal(tensor.index_select(axis, indices(one)), left)]
        fits = equal or [one for one in fits if _most_like(tensor, left, axis, one)]
    if not fits:
        raise CannotCutError(
            f"{said}, and what is left is no longer like the columns that have these names: the training function "
            "makes other numbers of them, or takes other examples. Make these in the data function, and let it take "
            "without: frozenset[str]"
        )
    if len(fits) > 1:
        raise CannotCutError(f"{said}, and several inputs have so many columns, of which others are dropped")
    return axis, tuple(sorted(set(range(of)) - set(fits[0])))


def _most_like(tensor: torch.Tensor, left: torch.Tensor, axis: int, places: Sequence[int]) -> bool:
    """Say whether each column that is left is correlated with that at its place by name as much as with any other."""
    before, after = _standard(tensor, axis), _standard(left, axis)
    likeness = after @ before.T
    own = likeness.gather(1, indices(places).unsqueeze(1)).squeeze(1)
    varies = after.any(1)
    return bool(((own >= likeness.amax(1) - EQUALLY) & (own > LIKE))[varies].all())


def _standard(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    """Return what lies along an axis as rows, each with mean 0 and length 1; of a constant, zeros."""
    rows = tensor.nan_to_num().double().movedim(axis, 0).flatten(1)
    return torch.nn.functional.normalize(rows - rows.mean(1, keepdim=True), dim=1)


def _equal(one: torch.Tensor, two: torch.Tensor) -> bool:
    return one.dtype == two.dtype and torch.equal(one.nan_to_num(), two.nan_to_num())


def _shape(tensor: torch.Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"
