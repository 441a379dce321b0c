"""Estimators: what reaches ``fit``, column by column, and what they are asked."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etude.mage.probe.inside.seen import Seen

METHODS = ("fit", "fit_transform", "fit_predict")
ASKS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score")
MOST_FITS = 100
"""So many are kept."""
MOST_ROWS = 5_000
"""Of a longer table, so many rows that lie evenly are looked at."""
MOST_COLUMNS = 5_000
MOST_ANSWERS = 200
"""So many are known again, the last ones."""
MOST_CLASSES = 20
"""Of an answer with so many columns at most, each is known by itself."""
TABLE = 2
"""Axes of a table."""
CHAIN = "Pipeline"


class Fits:
    """Watches estimators of scikit-learn's kind, and the native interfaces of XGBoost and LightGBM.

    Args:
        seen: Where facts are kept.
    """

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._running: list[str] = []
        self._predictors = 0
        self._answers: dict[str, str] = {}
        self._answered = seen.hook(self._keep_answer)
        seen.facts["fits"] = []

    @property
    def is_running(self) -> bool:
        """Whether an estimator is at work."""
        return bool(self._running)

    def answer(self, value: Any) -> str:
        """Return which answer of an estimator an array is, such as ``predict_proba[1]``; empty if it is none."""
        plain = self._seen.plain
        return self._answers.get(plain.digest(plain.bytes_of(value)), "")

    # --- scikit-learn -----------------------------------------------------------------------------

    def watch_sklearn(self, base: Any) -> None:
        """Watch every class of estimators that is made from here on, the user's own among them."""
        kind = base.BaseEstimator
        original = kind.__init_subclass__.__func__
        mixed_in: set[Any] = set()  # classes that are no estimators, and have methods of them

        def init_subclass(cls: Any, /, **kwargs: Any) -> None:
            original(cls, **kwargs)
            for one in cls.__mro__:
                if one is cls or not (one is object or one in mixed_in or issubclass(one, kind)):
                    mixed_in.add(one)
                    self._watch(one)

        kind.__init_subclass__ = classmethod(init_subclass)

    def _watch(self, kind: Any) -> None:
        """Watch the methods that a class has itself."""
        for watch, names in ((self._watched, METHODS), (self._asked, ASKS)):
            for name in names:
                method = vars(kind).get(name)
                if callable(method):
                    with contextlib.suppress(TypeError):  # a class that is not written in Python
                        setattr(kind, name, watch(method, name))
                elif hasattr(method, "fn"):  # it depends on an estimator inside whether there is such a method
                    method.fn = watch(method.fn, name)

    def _watched(self, fit: Any, method: str) -> Any:
        @functools.wraps(fit)
        def fitting(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._seen.is_on:
                return fit(estimator, *args, **kwargs)
            is_outermost = not self._running
            if is_outermost or set(self._running) == {CHAIN}:  # what reaches its last step is seen as well
                self._take(fit, type(estimator).__name__, estimator, args, kwargs)
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

    def _asked(self, method: Any, name: str) -> Any:
        @functools.wraps(method)
        def asking(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            kind = f"{type(estimator).__name__}.{name}"
            if not self._seen.is_on or any(one != f"{CHAIN}.{name}" for one in self._running):
                return method(estimator, *args, **kwargs)
            self._take(method, kind, estimator, args, kwargs)
            self._running.append(kind)
            try:
                found = method(estimator, *args, **kwargs)
            finally:
                self._running.pop()
            if not self._running:
                self._answered(name, found)
            return found

        return asking

    def _fitted(self) -> None:
        self._predictors += 1
        if self._predictors >= self._seen.steps_wanted:
            self._seen.enough()
        self._seen.write()

    def _take(self, method: Any, kind: str, estimator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        def take() -> None:
            given = _given(method, estimator, args, kwargs)
            held = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
            values = {name: _named(value) for name, value in held.items()}
            table, labels = given.pop("X", None), given.pop("y", None)
            others = {f"fit.{name}": self._told(value) for name, value in given.items() if value is not None}
            self.keep(kind, table, labels, {**values, **others}, is_asked="." in kind)

        self._seen.hook(take)()

    def _keep_answer(self, name: str, answer: Any) -> None:
        """Keep an answer, and each of its columns, to know it again."""
        plain = self._seen.plain
        parts = {name: answer}
        shape: tuple[int, ...] = getattr(answer, "shape", ())
        if len(shape) == TABLE and shape[1] <= MOST_CLASSES:
            parts |= {f"{name}[{nth}]": answer[:, nth] for nth in range(shape[1])}
        self._answers |= {plain.digest(plain.bytes_of(part)): told for told, part in parts.items() if len(shape)}
        while len(self._answers) > MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def _told(self, value: Any) -> Any:
        """Return a value that ``fit`` gets beside its table, as it can be written down."""
        plain = self._seen.plain
        shape = getattr(value, "shape", None)
        if shape:  # a table says how long it is: its columns may be what goes
            return f"{shape[0]} rows" if len(shape) >= TABLE else plain.digest(plain.bytes_of(value))
        if plain.is_plain(plain.plain(value)):
            return value
        if isinstance(value, list | tuple):
            told = [self._told(one) for one in value]
            return told if plain.is_plain(plain.plain(told)) else plain.digest(repr(told).encode())
        return type(value).__name__

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

    def keep(self, kind: str, table: Any, labels: Any, values: Any, *, is_asked: bool = False) -> None:
        """Keep a call of ``fit``, or of a method that asks for something."""
        plain, fits = self._seen.plain, self._seen.facts["fits"]
        if len(fits) < MOST_FITS:
            columns = _columns(table)
            fits.append(
                {
                    "type": kind,
                    "rows": _rows(table) or 0,
                    "columns": columns,
                    "target": "" if labels is None else plain.digest(plain.bytes_of(labels)),
                    "values": plain.plain_items(values.items()),
                    "digests": [] if is_asked else self._digests(table, len(columns)),
                    "within": self._running[-1] if self._running else "",
                }
            )

    def _digests(self, table: Any, width: int) -> list[str]:
        """Return a digest of each column, of rows that lie evenly; none where they cannot be told apart."""
        if width > MOST_COLUMNS:
            self._seen.note(f"values of {width} columns were not looked at")
            return []
        plain = self._seen.plain
        try:
            columns = _split(table)
            return [plain.digest(plain.bytes_of(one)) for one in columns] if len(columns) == width else []
        except Exception:  # something of another kind
            return []

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
            given = _given(train, params, (data, *args), kwargs)
            others = {f"train.{name}": self._told(value) for name, value in list(given.items())[1:]}
            values = {**dict(params), **{name: value for name, value in others.items() if value is not None}}
            raw = [] if take is not None else self._raw(data)
            if take is not None:
                self._seen.hook(take)(kind, values, data)
                used = self._few_of_matrix(data)
            self._running.append(kind)
            try:
                found = train(params, used, *args, **kwargs)
            finally:
                self._running.pop()
            if take is None:
                self._seen.hook(self._take_dataset)(kind, values, data, found, raw)
            self._fitted()
            return found

        return training

    def _take_matrix(self, kind: str, values: Any, matrix: Any) -> None:
        columns = matrix.feature_names or [str(n) for n in range(matrix.num_col())]
        n = int(matrix.num_row())
        few = matrix if n <= MOST_ROWS else matrix.slice(list(range(0, n, n // MOST_ROWS)))
        digests = self._digests(few.get_data(), len(columns)) if hasattr(few, "get_data") else []
        self._take_native(kind, values, n, list(columns), matrix.get_label(), matrix.get_weight(), digests)

    def _take_dataset(self, kind: str, values: Any, data: Any, booster: Any, raw: list[str]) -> None:
        names = booster.feature_name()
        has_none = names == [f"Column_{n}" for n in range(len(names))]
        columns = [str(n) for n in range(len(names))] if has_none else names
        digests = raw if len(raw) == len(columns) else []
        self._take_native(kind, values, data.num_data(), columns, data.get_label(), data.get_weight(), digests)

    def _raw(self, data: Any) -> list[str]:
        """Return the digests of the table that a data set of LightGBM is made of: afterwards it has it no more."""
        found: list[str] = []

        def look() -> None:
            table = getattr(data, "data", None)
            found.extend(self._digests(table, len(_columns(table))))

        self._seen.hook(look)()
        return found

    def _take_native(
        self, kind: str, values: Any, rows: int, columns: list[str], labels: Any, weights: Any, digests: list[str]
    ) -> None:
        plain = self._seen.plain
        if weights is not None and len(weights):
            values = {**values, "weight": plain.digest(plain.bytes_of(weights))}
        self._seen.facts["fits"].append(
            {
                "type": kind,
                "rows": int(rows),
                "columns": [str(one) for one in columns],
                "target": plain.digest(plain.bytes_of(labels)),
                "values": plain.plain_items(values.items()),
                "digests": digests,
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


def _named(value: Any) -> Any:
    """Return the name of an estimator's class, as that of one that is held by another; any other value as it is."""
    is_estimator = hasattr(value, "get_params") and not isinstance(value, type)
    return f"{type(value).__name__}()" if is_estimator else value


def _given(method: Any, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return what a method is called with, by name and without its first parameter."""
    try:
        bound = inspect.signature(method).bind(first, *args, **kwargs)
    except (TypeError, ValueError):  # the method will say so itself
        return {}
    own, *_ = bound.arguments
    names = {name: value for name, value in bound.arguments.items() if name != own}
    for one in bound.signature.parameters.values():
        if one.kind is one.VAR_KEYWORD:
            names.update(names.pop(one.name, {}))
    return names


def _split(table: Any) -> list[Any]:
    """Return the columns of a table, of rows that lie evenly."""
    step = (_rows(table) or 0) // MOST_ROWS + 1
    few = table.iloc[::step] if hasattr(table, "iloc") else table[::step]
    if hasattr(few, "columns"):
        return [few[name] for name in few.columns] if len(set(few.columns)) == len(few.columns) else []
    if "numpy" not in sys.modules:
        return []
    dense = sys.modules["numpy"].asarray(few.toarray() if hasattr(few, "toarray") else few)
    return [dense[:, n] for n in range(dense.shape[1])] if dense.ndim == TABLE else [dense]


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
