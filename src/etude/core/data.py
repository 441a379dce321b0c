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


class Joined(Data):
    """Data whose training and validation part are one, as ``fit(on="train+valid")`` gives it: ``valid`` is None.

    It unpacks into train, None and test: who takes the second for validation must not get the test part.

    Example:
        >>> train, valid, test = Joined([1, 2, 3], None, [4])
        >>> valid is None
        True
    """

    def __iter__(self) -> Iterator[Any]:
        return iter([self.train, self.valid, self.test])
