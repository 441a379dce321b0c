"""Clusters of past runs: k-means as in the paper, and scikit-learn's other clusterings by name.

Source:
    Rocha et al. 2020, "PipeTune: Pipeline Parallelism of Hyper and System Parameters Tuning for Deep Learning
    Clusters", doi:10.1145/3423211.3425692, sections 5.4 and 5.6.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np

from etude.core.errors import ConfigError
from etude.system.similarity import Match, Nearest, Recogniser, Similarity
from etude.system.vectors import Array, Rates, Ruler, ruler

CLUSTERINGS: Final = {
    "affinity propagation": "AffinityPropagation",
    "agglomerative": "AgglomerativeClustering",
    "birch": "Birch",
    "bisecting k-means": "BisectingKMeans",
    "dbscan": "DBSCAN",
    "hdbscan": "HDBSCAN",
    "mean shift": "MeanShift",
    "optics": "OPTICS",
}
"""Name -> class of ``sklearn.cluster``."""

MOST_CLUSTERS: Final = 12
"""How many are tried at most where the number is not given."""


@final
@dataclass(frozen=True)
class KMeans:
    """A run is known if it lies no further from its cluster's centre than the inertia says.

    The paper compares the distance with the inertia, which is a sum of squares. So it is the square of the distance
    that is compared here. The sum grows with the number of past runs: of a long history nearly everything is known.
    ``Nearest`` has no such fault.

    Attributes:
        k: How many clusters; 2 in the paper. None for the number, from 2, with the largest mean silhouette.
        seed: Of the centres that are tried first.

    Raises:
        ConfigError: ``k`` is below 1.
    """

    k: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise ConfigError(f"k={self.k} is below 1, and past runs need a cluster. Pass 2, as in the paper, or None.")

    def fit(self, past: Sequence[Rates], groups: Sequence[str]) -> Recogniser:
        """Return what has learned past runs; see ``Similarity.fit``. Groups are not looked at."""
        by, rows = _full_rows(past)
        places = len(np.unique(rows, axis=0)) if rows.size else 0
        if places < 2:  # noqa: PLR2004 - one place is one cluster, whatever k is
            return _Clusters.of(by, rows, np.zeros(len(rows), dtype=int))
        most = max(2, min(MOST_CLUSTERS, places - 1))  # a silhouette needs a cluster of more than one place
        numbers = range(2, most + 1) if self.k is None else [min(self.k, places)]
        tried = [self._labels(rows, k) for k in numbers]
        best = max(tried, key=lambda labels: _silhouette(rows, labels)) if len(tried) > 1 else tried[0]
        return _Clusters.of(by, rows, best)

    def _labels(self, rows: Array, k: int) -> np.ndarray[Any, Any]:
        return _sklearn("KMeans")(n_clusters=k, random_state=self.seed, n_init=10).fit_predict(rows)  # type: ignore[no-any-return]


@final
@dataclass(frozen=True)
class Clustering:
    """Clusters by one of scikit-learn's clusterings; otherwise as ``KMeans``. Runs that it calls noise are left out.

    Attributes:
        name: Which, one of ``CLUSTERINGS``.
        options: Arguments for scikit-learn's class.

    Raises:
        ConfigError: There is none of that name, scikit-learn is missing, or it does not take the options.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_name(self.name, CLUSTERINGS)
        self._made()

    def fit(self, past: Sequence[Rates], groups: Sequence[str]) -> Recogniser:
        """Return what has learned past runs; see ``Similarity.fit``. Groups are not looked at."""
        by, rows = _full_rows(past)
        if len(rows) < 2 or not rows.shape[1]:  # noqa: PLR2004 - nothing to part
            return _Clusters.of(by, rows, np.zeros(len(rows), dtype=int))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it did not settle shows in what it calls unknown
            return _Clusters.of(by, rows, np.asarray(self._made().fit_predict(rows)))

    def _made(self) -> Any:
        try:
            return _sklearn(CLUSTERINGS[self.name])(**self.options)
        except TypeError as error:
            raise ConfigError(
                f"The clustering {self.name!r} does not take these options: {error}. They are those of scikit-learn's "
                f"{CLUSTERINGS[self.name]}."
            ) from None


def similarity(name: str) -> Similarity:
    """Return a similarity by its name: ``nearest``, ``k-means``, or one of ``CLUSTERINGS``.

    Raises:
        ConfigError: There is none of that name.
    """
    own: dict[str, Similarity] = {"nearest": Nearest(), "k-means": KMeans()}
    _check_name(name, {**own, **CLUSTERINGS})
    return own[name] if name in own else Clustering(name)


@dataclass(frozen=True, eq=False)
class _Clusters:
    by: Ruler
    rows: Array
    labels: np.ndarray[Any, Any]
    centres: Array
    inertia: float

    @classmethod
    def of(cls, by: Ruler, rows: Array, labels: np.ndarray[Any, Any]) -> _Clusters:
        numbers = np.unique(labels[labels >= 0])
        centres = np.array([rows[labels == one].mean(axis=0) for one in numbers]).reshape(len(numbers), rows.shape[1])
        kept = np.searchsorted(numbers, labels)
        own = np.where(labels >= 0, kept, -1)
        inside = own >= 0
        return cls(by, rows, own, centres, float(((rows[inside] - centres[own[inside]]) ** 2).sum()))

    def look_up(self, rates: Rates) -> Match:
        place = self.by.place(rates)
        shared = np.isfinite(place)
        if not len(self.centres) or not shared.any():
            return Match(None, math.inf, False, "no cluster of past runs has rates to compare with")
        squares = ((self.centres - place)[:, shared] ** 2).sum(axis=1)
        nth = int(squares.argmin())
        score = math.sqrt(squares[nth] / self.inertia) if self.inertia > 0 else (math.inf if squares[nth] else 0.0)
        said = (
            f"the nearest of {len(self.centres)} clusters has its centre {math.sqrt(squares[nth]):.2g} away, and the "
            f"inertia allows {math.sqrt(self.inertia):.2g}"
        )
        if score > 1:
            return Match(nth, score, False, said)
        members = np.flatnonzero(self.labels == nth)
        order = ((self.rows[members] - place)[:, shared] ** 2).sum(axis=1).argsort(kind="stable")
        return Match(nth, score, True, said, tuple(int(one) for one in members[order]))


def _full_rows(past: Sequence[Rates]) -> tuple[Ruler, Array]:
    """Return past runs by the rates that all of them have, since clusterings take no gaps."""
    shared = set.intersection(*(set(rates) for rates in past)) if past else set()
    by = ruler([{name: rates[name] for name in shared} for rates in past])
    rows = np.array([by.place(rates) for rates in past]).reshape(len(past), len(by.names))
    whole = np.isfinite(rows).all(axis=0)
    names = tuple(name for name, kept in zip(by.names, whole, strict=True) if kept)
    return Ruler(names, by.near_zero[whole], by.spread[whole]), rows[:, whole]


def _silhouette(rows: Array, labels: np.ndarray[Any, Any]) -> float:
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(rows, labels))


def _sklearn(name: str) -> Any:
    try:
        from sklearn import cluster
    except ImportError as error:
        raise ConfigError(
            "Past runs are put into clusters by scikit-learn, which is missing. Install it: "
            "pip install 'etude[stats]'; or take the similarity 'nearest', which needs nothing."
        ) from error
    return getattr(cluster, name)


def _check_name(name: str, known: Mapping[str, object]) -> None:
    if name not in known:
        names = ", ".join(sorted(known))
        raise ConfigError(f"There is no similarity {name!r}. There are: {names}.")
