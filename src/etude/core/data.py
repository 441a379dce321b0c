"""What a data function may return when two loaders are not enough."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

D = TypeVar("D", bound="Data")

DESCRIBING: Final = ("features", "target", "ids", "fields", "channels", "modalities")
"""What says which features there are. A Derived parameter of that name gets it."""


class Data:
    """The parts of a data set, and what only the data can know.

    Args:
        train: What is trained on: a loader, arrays, a table - whatever the training function takes.
        valid: What hyperparameters are chosen on.
        test: What neither training nor choosing has seen.
        features: Names of features: of the columns of an array (along its last axis; a feature that has several
            columns has its name once for each), or of those columns of a table or items of a dict that are features.
            For an array in a field: ``{"table": ["age", "fare"]}``. Tables and dicts have names of their own.
        target: Name of the label, or of several, where it is a column or a field: it is no feature.
        ids: Names of what only tells examples apart, and is no feature either.
        fields: Names of the items of a tuple, where an example is one: ``["image", "age", "label"]``.
        channels: How many channels images have, or their names; by itself 1 to 4 are recognised.
        modalities: Modality -> its features. Without it, those in a field of that name.
        derived: Values for ``etude.Derived`` parameters, by name: ``n_classes=10``. ``n_features`` and ``n_channels``
            are counted where they are asked for and not given.

    Unpacks into the parts that were given, in the order train, valid, test.

    Example:
        >>> train, valid = Data([1, 2], [3], n_features=1)
        >>> train, valid
        ([1, 2], [3])
    """

    def __init__(
        self,
        train: Any,
        valid: Any = None,
        test: Any = None,
        *,
        features: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        target: str | Sequence[str] | None = None,
        ids: str | Sequence[str] | None = None,
        fields: Sequence[str] | None = None,
        channels: int | Sequence[str] | None = None,
        modalities: Mapping[str, Sequence[str]] | None = None,
        **derived: Any,
    ) -> None:
        self.train = train
        self.valid = valid
        self.test = test
        self.derived = derived
        self.features = self._described("features", features, maps=True)
        self.target: tuple[str, ...] = self._described("target", target) or ()
        self.ids: tuple[str, ...] = self._described("ids", ids) or ()
        self.fields: tuple[str, ...] | None = self._described("fields", fields)
        self.channels: int | tuple[str, ...] | None = (
            channels if type(channels) is int else self._described("channels", channels)
        )
        self.modalities: dict[str, tuple[str, ...]] = self._described("modalities", modalities, maps=True) or {}

    def _described(self, name: str, value: Any, *, maps: bool = False) -> Any:
        """Return names as they are kept; what holds none is a value for a Derived parameter, as it always was."""
        if isinstance(value, str):
            return (value,)
        if maps and isinstance(value, Mapping):
            return {key: self._described(name, names) for key, names in value.items()}
        try:
            names = tuple(value)
        except TypeError:
            names = (value,)
        if all(isinstance(one, str) for one in names):
            return names
        if value is not None:
            self.derived[name] = value
        return None

    def with_parts(self: D, train: Any, valid: Any = None, test: Any = None) -> D:
        """Return data of which the same is known, with other parts.

        Args:
            train: The training part.
            valid: The validation part; None for none.
            test: The test part; None for none.
        """
        made = copy.copy(self)
        made.train, made.valid, made.test, made.derived = train, valid, test, dict(self.derived)
        return made

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

    @classmethod
    def of(cls, data: Data, train: Any) -> Joined:
        """Return data whose first two parts are joined, as ``train``; all else is known of it as before."""
        made = cls(train, None, data.test)
        vars(made).update({**vars(data), "train": train, "valid": None, "derived": dict(data.derived)})
        return made
