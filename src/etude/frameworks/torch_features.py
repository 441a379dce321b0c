"""Features in data sets and loaders of PyTorch: a data set of which examples are changed as they are fetched."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from etude.frameworks import torch_data
from etude.frameworks.torch_drawing import GLOBAL, has_length, set_all

Edit: TypeAlias = Callable[[Any, Any], Any]
"""An example, and another whose features it gets; without an order the other is None."""

PASSED_ON: Final = ("classes", "class_to_idx", "targets")
"""What a changed data set still answers: it is of labels alone. Whatever else it held may have what was taken out."""


def is_tensor(value: Any) -> bool:
    """Say whether something is a tensor."""
    return torch.is_tensor(value)


def is_data_set(value: Any) -> bool:
    """Say whether something is a data set, or a loader of one."""
    return isinstance(value, Dataset | DataLoader)


def is_stream(value: Any) -> bool:
    """Say whether something is a data set, or a loader of one, that is gone through in an order of its own."""
    return isinstance(_unloaded(value), IterableDataset)


def first(value: Any) -> list[Any]:
    """Return the first example of a data set or a loader's, in a list; an empty one if it cannot be had.

    The global generators stay as they are.
    """
    data_set = _unloaded(value)
    before = [source.get() for source in GLOBAL]
    try:
        if isinstance(data_set, IterableDataset):
            return [one for one, _ in zip(data_set, range(1), strict=False)]
        return [data_set[0]] if not has_length(data_set) or len(data_set) else []
    except (
        Exception
    ):  # a data set of somebody else's, with keys of its own: whoever trains on it will see what is wrong
        return []
    finally:
        set_all(GLOBAL, before)


def fill_value(tensor: torch.Tensor, value: Any) -> torch.Tensor:
    """Return a value of a tensor's type.

    Raises:
        ValueError: The type has no such value.
    """
    made = torch.tensor(value, dtype=tensor.dtype)
    if not made.is_floating_point() and made.item() != value:
        raise ValueError(f"{tensor.dtype} has no {value!r}")
    return made


def rows_drawn(loader: Any) -> Sequence[int] | None:
    """Return which rows a loader draws, as far as its sampler says it; None for all."""
    try:
        inside = torch_data.inside(loader) if isinstance(loader, DataLoader) else None
    except ValueError:
        return None
    return inside.rows if inside is not None else None


def with_data_set(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a loader of a changed data set, with the sampler, workers and generator that it had; or the data set.

    Args:
        value: A loader or a data set. It stays as it is.
        change: Takes a data set and returns another one, with as many examples in the same order.
    """
    if not isinstance(value, DataLoader):
        return change(value)
    made = copy.copy(value)
    made.__dict__["dataset"] = change(value.dataset)  # a loader refuses to be given another one
    made.__dict__["_iterator"] = None  # that of the other, if its workers persist
    return made


def rebuilt(data_set: Any, change: Callable[[Any], Any], edit: Edit, tensors: Callable[[Any], Any]) -> Any:
    """Return a data set whose examples are edited, each on its own.

    Args:
        data_set: It stays as it is.
        change: Returns the same of another data set; it may know it already.
        edit: Edits an example.
        tensors: Edits all examples of a data set that is made of tensors at once.
    """
    if type(data_set) is TensorDataset:
        return TensorDataset(*tensors(data_set.tensors))
    if type(data_set) is Subset:
        return Subset(change(data_set.dataset), data_set.indices)
    return EditedStream(data_set, edit) if isinstance(data_set, IterableDataset) else Edited(data_set, edit, None)


def mixed(data_set: Any, edit: Edit, order: Any, tensors: Callable[[Any], Any]) -> Any:
    """Return a data set in which each example gets features of another one.

    Args:
        data_set: It stays as it is.
        edit: Gives the features of its second argument to its first.
        order: For each example, which one it gets them from.
        tensors: Does so with all examples of a data set that is made of tensors at once.
    """
    if type(data_set) is TensorDataset:
        return TensorDataset(*tensors(data_set.tensors))
    return Edited(data_set, edit, order)


class Edited(Dataset[Any]):
    """A data set whose examples are edited as they are fetched.

    Args:
        inner: The data set.
        edit: Edits an example.
        order: For each example, which other one ``edit`` gets as well; None for none. That one is fetched with the
            global generators put back afterwards, so that what the data set draws for others stays as it was.
    """

    def __init__(self, inner: Any, edit: Edit, order: Any) -> None:
        self._inner = inner
        self._edit = edit
        self._order = order

    def __getitem__(self, index: Any) -> Any:
        item = self._inner[index]
        if self._order is None:
            return self._edit(item, None)
        before = [source.get() for source in GLOBAL]
        try:
            other = self._inner[int(self._order[index])]
        finally:
            set_all(GLOBAL, before)
        return self._edit(item, other)

    def __len__(self) -> int:
        return len(self._inner)

    def __getattr__(self, name: str) -> Any:
        if name in PASSED_ON:
            return getattr(self._inner, name)
        raise AttributeError(f"a data set that features were taken out of does not tell {name!r}")


class EditedStream(IterableDataset[Any]):
    """The same for a data set that has its own order."""

    def __init__(self, inner: Any, edit: Edit) -> None:
        self._inner = inner
        self._edit = edit

    def __iter__(self) -> Iterator[Any]:
        for item in self._inner:
            yield self._edit(item, None)

    def __len__(self) -> int:
        return len(self._inner)


def _unloaded(value: Any) -> Any:
    return value.dataset if isinstance(value, DataLoader) else value
