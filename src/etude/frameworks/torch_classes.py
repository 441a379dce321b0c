"""What a finished model makes of each class of data that it was not trained on, and which class an example has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset

from etude.core.data import Data
from etude.core.text import count
from etude.frameworks.torch import every, modules
from etude.frameworks.torch_cuts import training_loaders
from etude.frameworks.torch_divided import make_whole
from etude.frameworks.torch_shares import shares_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LABELS: Final = ("targets", "labels")
"""Where data sets of torchvision and others have the classes of their examples."""


class _UnfitError(Exception):
    """Nothing can be said of classes; the message says why, to stand after "not judged: "."""


def judged(models: Sequence[Any], data: Any) -> dict[str, Any]:
    """Return the accuracy of a finished model on data that it was not trained on, overall and class by class.

    The data are the part ``test``, or else the last loader that does not train. The model is in eval mode meanwhile.

    Args:
        models: What the model function gave, each time that it was called.
        data: What the data function gave.

    Returns:
        ``test_accuracy``, ``worst_class_accuracy``, ``worst_class``, ``class_accuracies`` by class, and ``judged_on``:
        ``"test"`` or ``"the last loader"``. Where they cannot be told, ``not_judged`` says why.
    """
    try:
        model = _only(models)
        loader, name = _untouched(data)
        with _evaluating(model):
            right, seen = _counted(model, loader)
    except _UnfitError as unfit:
        return {"not_judged": str(unfit)}
    except Exception as error:  # the user's model and data, called as he may never call them
        return {"not_judged": f"the model, called with a batch's inputs, raised {type(error).__name__}: {error}"}
    accuracies = {label: right[label] / n for label, n in enumerate(seen) if n}
    worst = min(accuracies, key=accuracies.__getitem__)
    return {
        "test_accuracy": sum(right) / sum(seen),
        "worst_class_accuracy": accuracies[worst],
        "worst_class": worst,
        "class_accuracies": {str(label): accuracy for label, accuracy in accuracies.items()},
        "judged_on": name,
    }


def _only(models: Sequence[Any]) -> torch.nn.Module:
    found = [module for model in models for module in modules(model).values()]
    if len(found) != 1:
        raise _UnfitError(f"the training function made {count(len(found), 'module')}, and nobody can tell which counts")
    return found[0]


def _untouched(data: Any) -> tuple[DataLoader[Any], str]:
    if isinstance(data, Data) and data.test is not None:
        given, name = list(every(DataLoader, data.test)), "test"
    elif isinstance(data, Mapping) and "test" in data:
        given, name = list(every(DataLoader, data["test"])), "test"
    else:
        trains = {id(loader) for loader in training_loaders(data)}
        others = [one for one in every(DataLoader, data) if id(one) not in trains and shares_of(one) is None]
        given, name = others[-1:], "the last loader"
    if len(given) != 1:
        raise _UnfitError(f"there is {count(len(given), 'loader')} of test data. Return etude.Data(train, valid, test)")
    make_whole(given[0])  # ranks may have shared it
    return given[0], name


@contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    training = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, was in training.items():
            module.training = was


def _counted(model: torch.nn.Module, loader: DataLoader[Any]) -> tuple[list[int], list[int]]:
    """Return how many examples of each class were right, and how many there were."""
    right, seen = torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    for batch in loader:
        if not (isinstance(batch, tuple | list) and len(batch) == len(("x", "y")) and torch.is_tensor(batch[1])):
            raise _UnfitError("a batch of the test data is no pair of inputs and classes")
        x, y = batch
        scores = model(x)
        if y.dim() != 1 or y.dtype.is_floating_point or y.dtype in (torch.bool, torch.complex64, torch.complex128):
            raise _UnfitError(
                f"targets are {str(y.dtype).removeprefix('torch.')} of {y.dim()} dimensions, and no classes"
            )
        if not torch.is_tensor(scores) or scores.dim() != 2 or len(scores) != len(y) or scores.shape[1] < 2:  # noqa: PLR2004
            raise _UnfitError("the model does not give a score for each class of each example")
        n = scores.shape[1]
        if len(y) and not 0 <= int(y.min()) <= int(y.max()) < n:
            raise _UnfitError(f"there are targets from {int(y.min())} to {int(y.max())}, and scores for {n} classes")
        hits = y[scores.argmax(1).to(y.device) == y].long()
        right = _added(right, torch.bincount(hits, minlength=n).cpu())
        seen = _added(seen, torch.bincount(y.long(), minlength=n).cpu())
    if not seen.sum():
        raise _UnfitError("there are no test data")
    return right.tolist(), seen.tolist()


def _added(before: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
    return more if not len(before) else before + more


def labels_of(dataset: Any) -> npt.NDArray[np.int64] | None:
    """Return the class of each example, by its index; None if the data set does not say. No example is asked for."""
    import numpy as np

    if isinstance(dataset, Subset):
        inner = labels_of(dataset.dataset)
        return None if inner is None else inner[np.asarray(dataset.indices, dtype=np.int64)]
    if isinstance(dataset, ConcatDataset):
        parts = [labels_of(part) for part in dataset.datasets]
        return None if any(part is None for part in parts) else np.concatenate([p for p in parts if p is not None])
    tensors = getattr(dataset, "tensors", None)
    given = [tensors[-1]] if isinstance(tensors, tuple | list) and tensors else []
    given += [getattr(dataset, name) for name in LABELS if hasattr(dataset, name)]
    for one in given:
        try:
            found = np.asarray(one.cpu() if torch.is_tensor(one) else one)
            if found.dtype.kind in "iu" and found.shape == (len(dataset),):
                return found.astype(np.int64)
        except (TypeError, ValueError):  # no array, or no length
            continue
    return None
