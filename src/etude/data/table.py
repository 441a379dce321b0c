"""A ready data function for a table in a file: split, filled, encoded, with named features."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from etude.core.data import Data
from etude.core.errors import ConfigError
from etude.core.streams import stream_seed
from etude.core.text import brief, count
from etude.data.columns import MISSING, Column, digest_of, names_in, read_columns

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Places = npt.NDArray[np.int64]

MOST_CATEGORIES: Final = 50
"""A text with more different values is no category: nearly every example would have one of its own."""

MOST_CLASSES: Final = 20
"""A label of whole numbers with more different values is a number to be predicted, and no class."""


def table(
    path: str,
    *,
    label: str,
    features: Sequence[str] | None = None,
    ids: Sequence[str] = (),
    test_share: float = 0.2,
    valid_share: float = 0.1,
    split_seed: int | None = 0,
    task: Literal["classes", "numbers"] | None = None,
    scale: bool = True,
    missing: Collection[str] = MISSING,
) -> Callable[..., Data]:
    r"""Return a data function for a table in a CSV or Parquet file.

    It gives ``etude.Data`` whose parts are pairs of arrays of numpy: inputs of shape (rows, columns) in float32, and
    labels. Numbers are filled up with the median and scaled to mean 0 and deviation 1, texts become a column for each
    category (one alone if there are two; none that is missing or new is any of them). All that is learned of the
    training part alone, and of the features that are there: dropped ones are not even read in. ``n_features`` and
    ``n_classes`` are there for whoever asks for them as Derived.

    Args:
        path: The file, which may be gzipped if it is a CSV. It has to be there on every machine, and a study notes its
            content.
        label: Name of the column that is to be predicted.
        features: Names of the columns that are learned from; None for all the others.
        ids: Names of columns that only tell examples apart: they are left out.
        test_share: Share of the rows that are put aside to judge by, from 0 to 1.
        valid_share: Share of the rows by which hyperparameters are chosen.
        split_seed: The seed by which rows are shared out; None for that of the trial, so that each seed has parts of
            its own. Then weights of one seed have seen what another is tested on, and starting from them is refused.
        task: Whether labels are classes, as int64 from 0, or numbers, as float32; None for numbers if they are not
            texts and have a fraction or more than 20 different values.
        scale: Whether numbers are scaled.
        missing: What stands in a CSV where a value is missing.

    Raises:
        ConfigError: There is no such file or column, or the shares leave nothing to train on. When the function is
            called: a text that is no category, a label that is missing, a file that has been changed.

    Example:
        >>> import pathlib
        >>> rows = "age,sex,died\n31,f,no\n,m,yes\n45,m,no\n19,f,yes\n"
        >>> _ = pathlib.Path("people.csv").write_text(rows)
        >>> train, test = table("people.csv", label="died", test_share=0.25, valid_share=0)()
        >>> train[0].shape, test[1].shape
        ((3, 2), (1,))
    """
    if not (0 <= test_share < 1 and 0 <= valid_share < 1 and test_share + valid_share < 1):
        raise ConfigError(
            f"test_share={test_share} and valid_share={valid_share} leave nothing to train on. Pass shares from 0 to 1 "
            "that are less than 1 together."
        )
    told = {
        "path": str(path),
        "digest": digest_of(str(path)),
        "label": label,
        "features": None if features is None else [features] if isinstance(features, str) else list(features),
        "ids": [ids] if isinstance(ids, str) else list(ids),
        "test_share": test_share,
        "valid_share": valid_share,
        "split_seed": split_seed,
        "task": task,
        "scale": scale,
        "missing": sorted(missing),
    }
    _chosen({name: [] for name in names_in(str(path))}, told)  # a name that is wrong is told now
    return functools.partial(_by_trial if split_seed is None else _by_number, told)  # plain data: a study notes it


def _by_number(told: Mapping[str, Any], /, *, without: frozenset[str] = frozenset()) -> Data:
    return _load(told, without, told["split_seed"])


def _by_trial(told: Mapping[str, Any], /, *, without: frozenset[str] = frozenset(), seed: int) -> Data:
    return _load(told, without, seed)


def _load(told: Mapping[str, Any], without: frozenset[str], seed: int) -> Data:
    """Return the data."""
    import numpy as np

    path, label = told["path"], told["label"]
    if digest_of(path) != told["digest"]:
        raise ConfigError(f"{path!r} has been changed since etude.table() was called. Run the script again.")
    columns = read_columns(path, missing=told["missing"])
    labels, classes = _labels(columns[label], told)
    chosen = {name: column for name, column in _chosen(columns, told).items() if name not in without}
    if not chosen:
        raise ConfigError(f"No feature of {path!r} is left to learn from. Leave some in.")
    parts = _split(len(labels), told, seed)
    encoders = {name: _encoder(name, column, parts[0], told) for name, column in chosen.items()}
    inputs = np.concatenate([encoders[name].encode(column) for name, column in chosen.items()], axis=1)
    train, valid, test = ((inputs[rows], labels[rows]) if len(rows) else None for rows in parts)
    names = [name for name, encoder in encoders.items() for _ in range(encoder.width)]
    found = Data(train, valid, test, features=names, n_features=inputs.shape[1])
    found.derived |= {"n_classes": classes} if classes else {}
    return found


def _chosen(columns: Mapping[str, Column], told: Mapping[str, Any]) -> dict[str, Column]:
    """Return the columns that are features."""
    label, features, ids = told["label"], told["features"], told["ids"]
    unknown = [name for name in (label, *(features or ()), *ids) if name not in columns]
    if unknown:
        raise ConfigError(
            f"{told['path']!r} has no column {', '.join(map(repr, unknown))}. It has: {', '.join(columns)}."
        )
    if features is not None and label in features:
        raise ConfigError(f"{label!r} is the label, and cannot be a feature as well. Leave it out of features.")
    names = features if features is not None else [name for name in columns if name != label]
    found = {name: columns[name] for name in names if name not in ids}
    if not found:
        raise ConfigError(f"{told['path']!r} has no feature but {label!r}, which is the label. Pass some features.")
    return found


def _split(n: int, told: Mapping[str, Any], seed: int) -> list[Places]:
    """Return which rows are in each part, ascending."""
    import numpy as np

    order = np.argsort(np.random.Generator(np.random.PCG64(stream_seed(seed, "split"))).random(n), kind="stable")
    n_test, n_valid = round(n * told["test_share"]), round(n * told["valid_share"])
    test, valid, train = np.split(order, [n_test, n_test + n_valid])
    if not len(train):
        raise ConfigError(f"{told['path']!r} has {count(n, 'row')}, and none is left to train on. Lower the shares.")
    return [np.sort(part) for part in (train, valid, test)]


def _labels(column: Column, told: Mapping[str, Any]) -> tuple[Any, int]:
    """Return labels, and how many classes they have; none if they are numbers."""
    import numpy as np

    values = column if isinstance(column, list) else column.tolist()
    lacking = sum(value is None or value != value for value in values)  # noqa: PLR0124 - NaN
    if lacking:
        raise ConfigError(
            f"{told['label']!r} is missing in {count(lacking, 'row')} of {told['path']!r}, so that nothing can be "
            "learned from them. Leave them out of the file."
        )
    classes = sorted(set(values))
    whole = not isinstance(column, list) and all(float(value).is_integer() for value in classes)
    natural = "classes" if isinstance(column, list) or (whole and len(classes) <= MOST_CLASSES) else "numbers"
    task = told["task"] or natural
    if task == "numbers" and isinstance(column, list):
        raise ConfigError(f'task="numbers", and {told["label"]!r} has {brief(classes[0])}. Leave task= out.')
    if task == "numbers":
        return np.asarray(column, dtype=np.float32), 0
    codes = {value: code for code, value in enumerate(classes)}
    return np.array([codes[value] for value in values], dtype=np.int64), len(classes)


@dataclass(frozen=True)
class _Numbers:
    """A column of numbers: how it is filled up, and scaled."""

    median: float
    mean: float
    deviation: float
    width: ClassVar[int] = 1

    def encode(self, column: Any) -> Floats:
        import numpy as np

        filled = np.where(np.isnan(column), self.median, column)
        return np.asarray((filled - self.mean) / self.deviation, dtype=np.float32)[:, None]


@dataclass(frozen=True)
class _Categories:
    """A column of texts: those that have a column of zeros and ones."""

    known: tuple[str | None, ...]

    @property
    def width(self) -> int:
        return len(self.known)

    def encode(self, column: Any) -> Floats:
        import numpy as np

        return np.array([[value == each for each in self.known] for value in column], dtype=np.float32).reshape(
            len(column), len(self.known)
        )


def _encoder(name: str, column: Column, train: Places, told: Mapping[str, Any]) -> _Numbers | _Categories:
    """Return what is learned of a column from the training part."""
    import numpy as np

    if isinstance(column, list):
        there = {column[place] for place in train}
        if len(there) > MOST_CATEGORIES:
            raise ConfigError(
                f"{name!r} is a text with {len(there)} different values among {count(len(train), 'row')}, and no "
                f"category. Pass features=[...] without it, or ids=[{name!r}]."
            )
        known = sorted(there, key=lambda value: (value is None, value))
        return _Categories(tuple(known[1:] if len(known) == 2 else known))  # noqa: PLR2004 - one tells two apart
    seen = column[train]
    seen = seen[~np.isnan(seen)]
    if not len(seen):
        return _Numbers(0.0, 0.0, 1.0)
    median = float(np.median(seen))
    filled = np.where(np.isnan(column[train]), median, column[train])
    mean, deviation = float(filled.mean()), float(filled.std())
    return _Numbers(median, mean, deviation or 1.0) if told["scale"] else _Numbers(median, 0.0, 1.0)
