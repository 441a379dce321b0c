"""Estimators: what reaches ``fit``, column by column."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etude.mage.probe.inside.seen import Seen

METHODS = ("fit", "fit_transform", "fit_predict")
MOST_FITS = 100
"""So many are kept."""


class Fits:
    """Watches estimators of scikit-learn's kind, and the native interfaces of XGBoost and LightGBM.

    Args:
        seen: Where facts are kept.
    """

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._running: list[str] = []
        self._predictors = 0
        seen.facts["fits"] = []

    # --- scikit-learn -----------------------------------------------------------------------------

    def watch_sklearn(self, base: Any) -> None:
        """Watch every class of estimators that is made from here on, the user's own among them."""
        kind = base.BaseEstimator
        original = kind.__init_subclass__.__func__

        def init_subclass(cls: Any, /, **kwargs: Any) -> None:
            original(cls, **kwargs)
            for name in METHODS:
                if callable(cls.__dict__.get(name)):
                    setattr(cls, name, self._watched(cls.__dict__[name], name))

        kind.__init_subclass__ = classmethod(init_subclass)

    def _watched(self, fit: Any, method: str) -> Any:
        @functools.wraps(fit)
        def fitting(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._seen.is_on:
                return fit(estimator, *args, **kwargs)
            is_outermost = not self._running
            if is_outermost or set(self._running) == {"Pipeline"}:  # what reaches its last step is seen as well
                self._take(estimator, args, kwargs)
            is_predictor = is_outermost and hasattr(estimator, "predict")
            if is_predictor and method == "fit":
                args, kwargs = self._cut(args, kwargs)
            self._running.append(type(estimator).__name__)
            try:
                found = fit(estimator, *args, **kwargs)
            finally:
                self._running.pop()
            if is_predictor:
                self._fitted()
            return found

        return fitting

    def _fitted(self) -> None:
        self._predictors += 1
        if self._predictors >= self._seen.steps_wanted:
            self._seen.enough()
        self._seen.write()

    def _take(self, estimator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        def take() -> None:
            table = args[0] if args else kwargs.get("X")
            labels = args[1] if len(args) > 1 else kwargs.get("y")
            values = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
            self.keep(type(estimator).__name__, table, labels, values)

        self._seen.hook(take)()

    def _cut(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments with few rows, evenly spaced so that all labels are among them."""
        table, most = (args[0] if args else kwargs.get("X")), self._seen.rows
        n = _rows(table)
        if most is None or n is None or n <= most:
            return args, kwargs
        few = slice(None, (n // most) * most, n // most)

        def cut(value: Any) -> Any:
            if _rows(value) != n or isinstance(value, str | dict):
                return value
            return value.iloc[few] if hasattr(value, "iloc") else value[few]

        try:
            found = tuple(map(cut, args)), {name: cut(value) for name, value in kwargs.items()}
        except Exception:  # a table that cannot be cut is used as it is
            return args, kwargs
        self._seen.note(f"fit got {most} of {n} rows")
        return found

    def keep(self, kind: str, table: Any, labels: Any, values: Any) -> None:
        """Keep a call of ``fit``."""
        plain, fits = self._seen.plain, self._seen.facts["fits"]
        if len(fits) < MOST_FITS:
            fits.append(
                {
                    "type": kind,
                    "rows": _rows(table) or 0,
                    "columns": _columns(table),
                    "target": "" if labels is None else plain.digest(plain.bytes_of(labels)),
                    "values": plain.plain_items(values.items()),
                }
            )

    # --- boosting ---------------------------------------------------------------------------------

    def watch_xgboost(self, xgboost: Any) -> None:
        """Watch ``xgboost.train`` and ``xgboost.cv``."""
        for name in ("train", "cv"):
            setattr(xgboost, name, self._boosting(getattr(xgboost, name), f"xgboost.{name}", self._take_matrix))

    def watch_lightgbm(self, lightgbm: Any) -> None:
        """Watch ``lightgbm.train``; a data set of LightGBM knows its columns only when it was used."""
        lightgbm.train = self._boosting(lightgbm.train, "lightgbm.train", None)

    def _boosting(self, train: Any, kind: str, take: Any) -> Any:
        @functools.wraps(train)
        def training(params: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
            if self._running or not self._seen.is_on:
                return train(params, data, *args, **kwargs)
            used = data
            if take is not None:
                self._seen.hook(take)(kind, params, data)
                used = self._few_of_matrix(data)
            self._running.append(kind)
            try:
                found = train(params, used, *args, **kwargs)
            finally:
                self._running.pop()
            if take is None:
                self._seen.hook(self._take_dataset)(kind, params, data, found)
            self._fitted()
            return found

        return training

    def _take_matrix(self, kind: str, params: Any, matrix: Any) -> None:
        columns = matrix.feature_names or [str(n) for n in range(matrix.num_col())]
        self._take_native(kind, params, matrix.num_row(), list(columns), matrix.get_label())

    def _take_dataset(self, kind: str, params: Any, data: Any, booster: Any) -> None:
        names = booster.feature_name()
        has_none = names == [f"Column_{n}" for n in range(len(names))]
        columns = [str(n) for n in range(len(names))] if has_none else names
        self._take_native(kind, params, data.num_data(), columns, data.get_label())

    def _take_native(self, kind: str, params: Any, rows: int, columns: list[str], labels: Any) -> None:
        plain = self._seen.plain
        self._seen.facts["fits"].append(
            {
                "type": kind,
                "rows": int(rows),
                "columns": [str(one) for one in columns],
                "target": plain.digest(plain.bytes_of(labels)),
                "values": plain.plain_items(dict(params).items()),
            }
        )

    def _few_of_matrix(self, matrix: Any) -> Any:
        most = self._seen.rows
        try:
            n = matrix.num_row()
            if most is None or n <= most:
                return matrix
            few = matrix.slice(list(range(0, (n // most) * most, n // most)))
        except Exception:  # one that lies in pieces, or in ranks
            return matrix
        self._seen.note(f"fit got {most} of {n} rows")
        return few


def _rows(table: Any) -> int | None:
    shape = getattr(table, "shape", None)
    if shape:
        return int(shape[0])
    return len(table) if isinstance(table, list | tuple) else None


def _columns(table: Any) -> list[str]:
    if hasattr(table, "columns"):
        return [str(one) for one in table.columns]
    shape = getattr(table, "shape", None)
    if shape is None and isinstance(table, list | tuple) and table and "numpy" in sys.modules:
        shape = sys.modules["numpy"].shape(table[0])
        shape = (len(table), *shape)
    width = int(shape[1]) if shape is not None and len(shape) > 1 else 1
    return [str(n) for n in range(width)]
