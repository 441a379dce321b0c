"""scikit-learn's estimators: brought back from a file, they learn on bit by bit as if they had never been away."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import is_classifier, is_regressor
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.neural_network import MLPClassifier

from etude.core.errors import StateError
from etude.frameworks import state_file
from etude.frameworks.kinds import handle
from etude.frameworks.trees import take_apart

pytestmark = pytest.mark.filterwarnings("ignore")  # of estimators that have not seen enough, or are to go one day

CLASSES = np.array(["ham", "spam"])
LEARNERS = {
    "cluster": ["Birch", "MiniBatchKMeans"],
    "decomposition": [
        *("IncrementalPCA", "LatentDirichletAllocation", "MiniBatchDictionaryLearning", "MiniBatchNMF"),
    ],
    "linear_model": [
        *("PassiveAggressiveClassifier", "PassiveAggressiveRegressor", "Perceptron", "SGDClassifier", "SGDRegressor"),
        *("SGDOneClassSVM", "SGDClassifier average=True", "SGDRegressor average=5, learning_rate='adaptive'"),
    ],
    "multiclass": ["OneVsOneClassifier SGDClassifier()", "OneVsRestClassifier SGDClassifier()"],
    "multioutput": ["MultiOutputClassifier SGDClassifier()", "MultiOutputRegressor SGDRegressor()"],
    "naive_bayes": ["BernoulliNB", "CategoricalNB", "ComplementNB", "GaussianNB", "MultinomialNB"],
    "neural_network": [
        *("BernoulliRBM", "MLPClassifier", "MLPRegressor"),
        "MLPClassifier solver='sgd', learning_rate='adaptive', random_state=3",
    ],
    "preprocessing": ["MaxAbsScaler", "MinMaxScaler", "StandardScaler"],
}
"""Module of scikit-learn -> estimators that have ``partial_fit``, with what they are called with."""


def made(module: str, call: str) -> Any:
    name, _, arguments = call.partition(" ")
    names = {"SGDClassifier": SGDClassifier, "SGDRegressor": SGDRegressor}
    cls = getattr(importlib.import_module(f"sklearn.{module}"), name)
    return eval(f"cls({arguments})", {"cls": cls, **names})


def learn(estimator: Any, step: int) -> None:
    """Let an estimator see the next part of the data."""
    draw = np.random.RandomState(step)
    x = np.abs(draw.normal(size=(40, 6)))
    y = (x[:, 0] > x[:, 1]).astype(int)
    name = type(estimator).__name__
    if name == "CategoricalNB":
        estimator.partial_fit((x > 1).astype(int), CLASSES[y], classes=CLASSES)
    elif isinstance(estimator, MultiOutputClassifier):
        estimator.partial_fit(x, np.c_[y, 1 - y], classes=[np.array([0, 1])] * 2)
    elif isinstance(estimator, MultiOutputRegressor):
        estimator.partial_fit(x, x[:, :2])
    elif name == "OneVsOneClassifier":  # wants numbers
        estimator.partial_fit(x, y, classes=[0, 1])
    elif is_classifier(estimator):
        estimator.partial_fit(x, CLASSES[y], classes=CLASSES)
    elif is_regressor(estimator):
        estimator.partial_fit(x, x @ np.arange(6))
    else:
        estimator.partial_fit(x)


def through_a_file(source: Any, target: Any, folder: Path) -> None:
    """Bring an estimator's state to another one."""
    taken, given = handle(source, path="kept.e"), handle(target, path="kept.e")
    assert taken is not None
    assert given is not None
    state_file.write(folder / "state", *take_apart(taken.weights(), path="e"))
    given.bring_back(state_file.read(folder / "state"), None)


def assert_equal(one: Any, other: Any, path: str = "e", met: set[int] | None = None) -> None:
    """Fail at the first difference in two graphs of objects."""
    met = set() if met is None else met
    if id(one) in met:
        return
    met.add(id(one))
    assert type(one) is type(other), path
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape, one.flags.c_contiguous) == (other.dtype, other.shape, other.flags.c_contiguous)
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f"), path
    elif isinstance(one, np.random.RandomState):
        assert_equal(one.get_state(legacy=False), other.get_state(legacy=False), path, met)
    elif isinstance(one, dict):
        assert list(one) == list(other), path
        for key in one:
            assert_equal(one[key], other[key], f"{path}[{key!r}]", met)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), path
        for n, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_equal(a, b, f"{path}[{n}]", met)
    elif hasattr(one, "__dict__") and not isinstance(one, type):
        assert vars(one).keys() == vars(other).keys(), path
        for name in vars(one):
            assert_equal(vars(one)[name], vars(other)[name], f"{path}.{name}", met)


@pytest.mark.parametrize(("module", "call"), [(module, call) for module, calls in LEARNERS.items() for call in calls])
def test_an_estimator_that_was_away_learns_on_as_one_that_was_not(module: str, call: str, tmp_path: Path) -> None:
    undisturbed, stopped = made(module, call), made(module, call)
    np.random.seed(1)
    for step in range(3):
        learn(undisturbed, step)
    np.random.seed(1)
    learn(stopped, 0)
    drawn = np.random.get_state()
    np.random.seed(2)
    resumed = made(module, call)
    learn(resumed, 9)  # whatever it was before
    through_a_file(stopped, resumed, tmp_path)
    np.random.set_state(drawn)
    for step in (1, 2):
        learn(resumed, step)
    assert_equal(undisturbed, resumed)


GROWERS = {
    "linear_model": ["LogisticRegression max_iter=2", "ElasticNet max_iter=2, selection='random'"],
    "neural_network": ["MLPRegressor max_iter=2, solver='lbfgs'"],
    "ensemble": [
        *("RandomForestClassifier n_estimators=3", "ExtraTreesRegressor n_estimators=3, random_state=0"),
        *("GradientBoostingClassifier n_estimators=3, subsample=0.5", "GradientBoostingRegressor n_estimators=3"),
        *("BaggingClassifier n_estimators=3", "IsolationForest n_estimators=3, random_state=1"),
        *("HistGradientBoostingClassifier max_iter=3", "HistGradientBoostingRegressor max_iter=3, max_features=0.5"),
    ],
}
"""Module -> estimators that learn on with ``warm_start``."""


def grow(estimator: Any, step: int) -> None:
    """Let an estimator learn on; those that have a number of rounds or trees get more of them."""
    draw = np.random.RandomState(0)
    x = draw.normal(size=(60, 6))
    y = (x[:, 0] > x[:, 1]).astype(int)
    name = "n_estimators" if hasattr(estimator, "n_estimators") else "max_iter"
    if hasattr(estimator, "estimators_") or hasattr(estimator, "n_trees_per_iteration_"):
        estimator.set_params(**{name: 3 * (step + 1)})
    estimator.fit(x, y)


@pytest.mark.parametrize(("module", "call"), [(module, call) for module in GROWERS for call in GROWERS[module]])
def test_an_estimator_with_a_warm_start_learns_on_as_one_that_was_not_away(
    module: str, call: str, tmp_path: Path
) -> None:
    np.random.seed(1)
    one = made(module, f"{call}, warm_start=True")
    for step in range(2):
        grow(one, step)
    found = handle(one, path="kept.one")
    assert found is not None
    state_file.write(tmp_path / "state", *take_apart([found.weights(), found.rest()], path=""))
    drawn = np.random.get_state()
    other = made(module, f"{call}, warm_start=True")
    given = handle(other, path="kept.one")
    assert given is not None
    given.bring_back(*state_file.read(tmp_path / "state"))
    x = np.random.RandomState(7).normal(size=(200, 6))
    predict = "predict_proba" if hasattr(one, "predict_proba") else "predict"
    assert np.array_equal(getattr(one, predict)(x), getattr(other, predict)(x))
    for step in (2, 3):
        grow(one, step)
    np.random.set_state(drawn)
    for step in (2, 3):
        grow(other, step)
    assert np.array_equal(getattr(one, predict)(x), getattr(other, predict)(x))
    if hasattr(one, "n_estimators"):
        assert len(other.estimators_) == 12


def test_a_generator_that_others_hold_stays_that_generator(tmp_path: Path) -> None:
    stopped = MLPClassifier((4,), random_state=np.random.RandomState(5))
    learn(stopped, 0)
    mine = np.random.RandomState(7)
    resumed = MLPClassifier((4,), random_state=mine)
    through_a_file(stopped, resumed, tmp_path)
    assert resumed.random_state is mine
    assert mine.uniform() == stopped.random_state.uniform()


def test_one_that_draws_from_numpys_global_generator_still_does(tmp_path: Path) -> None:
    stopped, resumed = MLPClassifier((4,)), MLPClassifier((4,))
    learn(stopped, 0)
    assert stopped._random_state is np.random.mtrand._rand
    through_a_file(stopped, resumed, tmp_path)
    assert resumed._random_state is np.random.mtrand._rand


class Mine(SGDClassifier):
    """A user's own estimator."""


def test_a_class_of_ones_own_is_kept_and_what_stands_in_it_is_refused_by_name(tmp_path: Path) -> None:
    stopped, resumed = Mine(random_state=0), Mine(random_state=0)
    learn(stopped, 0)
    through_a_file(stopped, resumed, tmp_path)
    assert_equal(stopped, resumed)
    resumed.other = Mine()
    with pytest.raises(StateError) as refused:
        handle(resumed, path="kept.net")
    assert str(refused.value) == (
        "kept.net.other is Mine() (Mine), which no file can hold without pickling it. Of an estimator arrays, plain "
        "values, generators made by numpy.random.RandomState or default_rng, and objects of scikit-learn can be kept."
    )


def test_no_class_from_elsewhere_is_made_of_what_a_file_says() -> None:
    given = handle(MLPClassifier(), path="kept.e")
    assert given is not None
    for name in ("subprocess:Popen", "sklearn.base:BaseEstimator.__init__", "sklearn.utils:np"):
        forged = {"objects": [["attributes", "", {"a": ["object", 1]}], ["called", name, [["true"]]]], "arrays": []}
        with pytest.raises(StateError, match="is no class of the scikit-learn that is installed"):
            given.bring_back(forged, None)


def test_an_estimator_that_learns_in_one_go_is_no_kind_that_is_kept() -> None:
    from sklearn.ensemble import RandomForestClassifier

    assert handle(RandomForestClassifier(), path="kept.e") is None
