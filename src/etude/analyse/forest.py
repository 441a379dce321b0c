"""A forest of regression trees over a search's parameters, and what it says of them once all others are averaged over.

A tree cuts the space into boxes, with a value for each. What one parameter does by itself is the mean over all others,
each place of the space counting the same: at a place, the sum over the boxes that it lies in, of value times how much
of the other parameters' room they take. So it does not matter where the search went most often, as long as the forest
has learned what is there.

Optuna's fANOVA is the same, and asks each tree for each mean separately, in Python. Here all boxes of a tree are taken
at once, which is some hundred times faster (``docs/decisions/boxes-of-trees.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from etude.analyse.columns import Column
from etude.core.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

LEAF: Final = -1


@dataclass(frozen=True)
class Boxes:
    """A tree: the boxes that it cuts the space into.

    Attributes:
        low: Their lower ends, a row for each box and a column for each parameter.
        high: Their upper ends.
        value: What the tree says inside.
    """

    low: Array
    high: Array
    value: Array

    @property
    def sizes(self) -> Array:
        """How much of each parameter's room a box takes."""
        return self.high - self.low

    def variance(self) -> float:
        """Return the variance of what the tree says over the whole space."""
        room = self.sizes.prod(axis=1)
        mean = float(room @ self.value)
        return float(room @ (self.value - mean) ** 2)

    def mean_at(self, parameters: Sequence[int], places: Sequence[Array]) -> Array:
        """Return what the tree says at places of some parameters, the others averaged over.

        Args:
            parameters: Which: one or two.
            places: For each of them where, from 0 to 1.

        Returns:
            A number for each place of the first, or for each place of the first and of the second.
        """
        import numpy as np

        rest = np.delete(self.sizes, list(parameters), axis=1).prod(axis=1) * self.value
        inside = [
            (places[nth][:, None] >= self.low[None, :, which])
            & ((places[nth][:, None] < self.high[None, :, which]) | (self.high[None, :, which] >= 1.0))
            for nth, which in enumerate(parameters)
        ]
        if len(parameters) == 1:
            return np.asarray(inside[0] @ rest)
        return np.asarray((inside[0] * rest) @ inside[1].T.astype(float))

    def own_variance(self, parameter: int) -> float:
        """Return the variance of what one parameter does by itself, all others averaged over."""
        import numpy as np

        low, high = self.low[:, parameter], self.high[:, parameter]
        edges = np.unique(np.concatenate([low, high]))
        rest = np.delete(self.sizes, parameter, axis=1).prod(axis=1) * self.value
        steps = np.zeros(len(edges))
        np.add.at(steps, np.searchsorted(edges, low), rest)
        np.subtract.at(steps, np.searchsorted(edges, high), rest)
        level, width = np.cumsum(steps)[:-1], np.diff(edges)
        mean = float(width @ level)
        return float(width @ (level - mean) ** 2)


class Forest:
    """Trees that were grown on what trials came to.

    Args:
        columns: The parameters, which all trials have.
        values: What each trial came to.
        trees: How many.
        seed: Of what they draw.

    Raises:
        ConfigError: scikit-learn is missing.
    """

    def __init__(self, columns: Sequence[Column], values: Array, *, trees: int = 64, seed: int = 0) -> None:
        try:
            from sklearn.ensemble import RandomForestRegressor
        except ImportError as error:
            raise ConfigError(
                "Importances by fANOVA and effects that are corrected for the sampler come from a forest of "
                "scikit-learn's, which is missing. Install it: pip install 'etude[stats]'."
            ) from error
        self.columns = tuple(columns)
        self._model = RandomForestRegressor(n_estimators=trees, random_state=seed).fit(unit(columns), values)
        self.boxes = [_boxes(one.tree_, len(self.columns)) for one in self._model.estimators_]

    def predict(self, places: Array) -> Array:
        """Return what the forest says at places, a row for each."""
        import numpy as np

        return np.asarray(self._model.predict(places))

    def shares(self) -> dict[str, float]:
        """Return for each parameter which share of the variance over the space is its own, as the trees say on average.

        Source:
            Hutter et al. 2014, "An Efficient Approach for Assessing Hyperparameter Importance", equation 3 on.
        """
        import numpy as np

        told = [(boxes, boxes.variance()) for boxes in self.boxes]
        told = [(boxes, whole) for boxes, whole in told if whole > 0]
        return {
            column.name: float(np.mean([boxes.own_variance(nth) / whole for boxes, whole in told])) if told else 0.0
            for nth, column in enumerate(self.columns)
        }

    def mean_at(self, parameters: Sequence[int], places: Sequence[Array]) -> Array:
        """Return the mean of what the trees say at places; as ``Boxes.mean_at``."""
        import numpy as np

        return np.asarray(np.mean([boxes.mean_at(parameters, places) for boxes in self.boxes], axis=0))


def unit(columns: Sequence[Column]) -> Array:
    """Return where trials lie, a row for each; the values of a choice are cells of equal width from 0 to 1."""
    import numpy as np

    placed = [(one.places + 0.5) / len(one.labels) if one.is_choice else one.places.clip(0, 1) for one in columns]
    return np.stack(placed, axis=1)


def _boxes(tree: Any, parameters: int) -> Boxes:
    """Return the leaves of a tree of scikit-learn's as boxes."""
    import numpy as np

    left, right, which, bar = tree.children_left, tree.children_right, tree.feature, tree.threshold
    low = np.zeros((tree.node_count, parameters))
    high = np.ones((tree.node_count, parameters))
    for node in range(tree.node_count):  # parents come before their children
        if left[node] == LEAF:
            continue
        for child in (left[node], right[node]):
            low[child], high[child] = low[node], high[node]
        high[left[node], which[node]] = bar[node]
        low[right[node], which[node]] = bar[node]
    leaves = left == LEAF
    return Boxes(low[leaves], high[leaves], tree.value[leaves, 0, 0])
