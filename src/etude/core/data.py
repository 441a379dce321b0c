"""What a data function may return when two loaders are not enough."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Data:
    """The parts of a data set, and what only the data can know.

    Args:
        train: What is trained on: a loader, arrays, a table - whatever the training function takes.
        valid: What hyperparameters are chosen on.
        test: What neither training nor choosing has seen.
        derived: Values for ``etude.Derived`` parameters, by name: ``n_features=30``.

    Unpacks into the parts that were given, in the order train, valid, test.

    Example:
        >>> train, valid = Data([1, 2], [3], n_features=1)
        >>> train, valid
        ([1, 2], [3])
    """

    def __init__(self, train: Any, valid: Any = None, test: Any = None, **derived: Any) -> None:
        self.train = train
        self.valid = valid
        self.test = test
        self.derived = derived

    def __iter__(self) -> Iterator[Any]:
        return iter([part for part in (self.train, self.valid, self.test) if part is not None])

    def __repr__(self) -> str:
        parts = [f"{name}=..." for name in ("train", "valid", "test") if getattr(self, name) is not None]
        return f"Data({', '.join(parts + [f'{k}={v!r}' for k, v in self.derived.items()])})"
