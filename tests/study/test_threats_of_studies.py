"""Threats, importances and effects of real studies, from what their journals have."""

from __future__ import annotations

import importlib.util
import math

import pytest

import etude
from etude.core.errors import ConfigError

if importlib.util.find_spec("sklearn") is None:  # it is not imported: it starts threads, and attempts could not fork
    pytest.skip("scikit-learn is missing", allow_module_level=True)

SPACE = {
    "lr": etude.loguniform(1e-3, 1.0),
    "opt": etude.choice({"sgd": {"momentum": etude.uniform(0, 1)}, "adam": {}}),
    "width": etude.integers(1, 8),
}


def train(lr: float = 0.1, opt: str = "sgd", width: int = 3, momentum: float = 0.5) -> float:
    if width > 6:
        raise MemoryError("too wide")
    return -((math.log10(lr) + 1) ** 2) + (0.5 + momentum if opt == "sgd" else 0.0)


def parts(seed: int, helps: int = 1, idle: int = 1) -> float:
    return 0.9 + 0.5 * helps + 0.01 * (seed % 7) + 0.001 * ((seed * idle) % 5)


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> etude.Search:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ETUDE_STUDIES", str(tmp_path_factory.mktemp("studies")))
        return etude.Experiment(train, metric="score", mode="max", reference=1.5).tune(
            SPACE,
            trials=40,
            workers=2,
            sampler=etude.TPE(startup=20),
            stopper="none",
            start=[{"lr": 0.1, "opt": "adam", "width": 3}],
            retries=0,
            reuse_child=True,
            progress=False,
        )


def test_a_search_says_what_threatens_it(search: etude.Search) -> None:
    found = search.threats()
    assert found["survival bias"].seriousness == "serious"
    assert "width" in found["survival bias"].finding
    led = found["sampler bias"]
    assert (led.numbers["led"], led.numbers["drawn"]) == (20, 19), "one was given"
    assert "Threat: survival bias: " in search.summary()
    assert "sampler bias" not in search.summary(), "only what is serious is said without being asked"
    again = etude.open(search.folder)
    assert str(again.threats()) == str(found), "all of it is in the journal"


def test_a_reference_is_compared_with_the_best(search: etude.Search) -> None:
    assert search.best.value is not None
    assert search.threats(reference=search.best.value)["reference not reproduced"] is None
    assert search.threats(reference=9.0)["reference not reproduced"].seriousness == "serious"
    with pytest.raises(ConfigError, match=r"reference='0.9' \(str\) is no number"):
        etude.Experiment(train, metric="score", mode="max", reference="0.9")  # type: ignore[arg-type]


def test_a_search_says_what_matters_and_that_it_is_no_random_sample(search: etude.Search) -> None:
    found = search.importance(intervals=False)
    assert [one.parameter for one in found][-1] == "width", "it only fails"
    assert found["opt=sgd/momentum"].within is not None
    assert found.says[0].startswith("No random sample: ")
    assert "failed" in found.says[1]
    drawn = search.importance(by="pedanova", part="random", intervals=False)
    assert drawn.trials < found.trials
    assert not any(line.startswith("No random sample") for line in drawn.says)


def test_effects_are_of_one_parameter_or_of_two(search: etude.Search) -> None:
    found = search.effects("opt")
    assert {one.values for one in found} == {("sgd",), ("adam",)}
    assert found["sgd"].corrected > found["adam"].corrected
    assert found["sgd"].drawn < found["sgd"].n
    assert len(search.effects("lr", "opt", corrected=False)) == 10
    with pytest.raises(ConfigError, match="'depth' is no parameter"):
        search.effects("depth")


def test_the_way_to_the_best_begins_with_the_defaults(search: etude.Search) -> None:
    found = search.steps({"lr": 0.001, "opt": "adam", "width": 3})
    assert {one.parameter for one in found} <= {"lr", "opt", "width"}
    assert found[-1].expected > found.start
    assert found.says[0] == "Expected by a forest, and not run."
    with pytest.raises(ConfigError, match="does not hold the functions' defaults"):
        etude.open(search.folder).steps()


def test_the_way_leads_through_parameters_that_not_all_configurations_have(search: etude.Search) -> None:
    assert search.best.params["opt"] == "sgd"
    found = search.steps({"lr": 0.001, "opt": "adam", "width": 3})
    [opt] = [one for one in found if one.parameter == "opt"]
    assert opt.along == (("momentum", search.best.params["momentum"]),)
    assert all(search.best.params[one.parameter] == one.after for one in found)
    same = search.steps({"lr": 0.001, "momentum": 0.0})
    assert "opt=sgd/momentum" in {one.parameter for one in same}, "both have it, so it is a step of its own"
    assert {one.parameter for one in search.steps()} <= {"lr", "width", "opt=sgd/momentum"}, "from the defaults"
    with pytest.raises(ConfigError, match=r"The way cannot start with lr=5.0 \(float\), which is above 1.0"):
        search.steps({"lr": 5.0})


def other_way(lr: float = 0.1, opt: str = "sgd", momentum: float = 0.5) -> float:
    return lr + (1.0 if opt == "adam" else momentum)


def test_the_way_may_start_under_a_value_that_the_best_trial_has_not(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path))
    experiment = etude.Experiment(other_way, metric="score", mode="max")
    space = {"lr": SPACE["lr"], "opt": SPACE["opt"]}
    found = experiment.tune(space, trials=30, sampler="random", workers=1, reuse_child=True, progress=False)
    assert found.best.params["opt"] == "adam"
    for start in (None, {"opt": "sgd"}, {"opt": "sgd", "momentum": 0.9}):
        [opt] = [one for one in found.steps(start) if one.parameter == "opt"]
        assert (opt.before, opt.after, opt.along) == ("sgd", "adam", ())


def test_fewer_trials_would_have_found_less(search: etude.Search) -> None:
    curve = search.budget()
    assert not curve.random
    assert curve.best[-1] == search.best.value
    assert curve.sizes[-1] == sum(trial.state == "finished" for trial in search.trials)


def test_an_ablation_knows_who_chose_its_configuration(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path))
    experiment = etude.Experiment(parts, metric="score", mode="max")
    chosen = experiment.tune({"helps": [0, 1]}, trials=2, workers=1, reuse_child=True, progress=False).best
    ablation = experiment.ablate(
        [etude.setting("helps", off=0)], at=chosen, seeds=7, workers=1, reuse_child=True, progress=False
    )
    found = ablation.threats(reference=3.0)
    names = {one.name for one in found}
    assert {"evaluation on tuning data", "arms not tuned again", "reference not reproduced"} <= names
    assert "chosen among 2 trials" in found["arms not tuned again"].finding
    assert "Threat" not in str(ablation), "nothing of it is serious, and no reference was given"
    with pytest.raises(ConfigError, match=r"of an ablation, see ablation\.verdicts"):
        ablation.importance()
    final = experiment.fit(at=chosen, progress=False)
    assert "evaluation on tuning data" in {one.name for one in final.threats()}
    assert experiment.fit(at={"helps": 1}, seed=5, progress=False).threats()["evaluation on tuning data"] is None


def test_serious_threats_stand_above_verdicts(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path))
    experiment = etude.Experiment(parts, metric="score", mode="max", reference=3.0)
    ablation = experiment.ablate([etude.setting("helps", off=0)], seeds=7, workers=1, reuse_child=True, progress=False)
    assert str(ablation.verdicts()).startswith("Threat: reference not reproduced: the mean of 7 runs of the base is ")
    assert str(ablation).count("Threat: ") == 1
    assert str(etude.open(ablation.folder)).count("Threat: ") == 1, "the journal has the reference"


def loads(folder: str = "."):
    import numpy as np

    rows = np.load(f"{folder}/rows.npy")
    return etude.Data(rows[:40], rows[40:])


def looks(data, run, lr: float = 0.1) -> float:
    return float(data().train.mean()) + lr + run.seed % 7


def test_a_data_set_that_changed_between_a_search_and_an_ablation_is_told(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np = pytest.importorskip("numpy")
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "studies"))
    rows = np.random.default_rng(0).normal(size=(50, 3))
    np.save(tmp_path / "rows.npy", rows)
    experiment = etude.Experiment(looks, data=loads, metric="score", mode="max")
    space = {"lr": [0.1, 0.2], "folder": [str(tmp_path)]}
    chosen = experiment.tune(space, trials=2, workers=1, reuse_child=True, progress=False).best
    assert chosen.fingerprints["rows"]["train"][::2] == [40, True]
    assert chosen.metrics == {}, "they are no metric"

    def ablate(name: str) -> etude.Ablation:
        found = experiment.ablate(
            etude.setting("lr", off=0.0), at=chosen, seeds=6, workers=1, reuse_child=True, progress=False, name=name
        )
        assert isinstance(found, etude.Ablation)
        return found

    threats = ablate("same").threats()
    assert threats["different data"] is None
    assert "on the same rows" in threats["evaluation on tuning data"].finding
    np.save(tmp_path / "rows.npy", np.concatenate([rows, rows + 1]))
    ablation = ablate("changed")
    found = ablation.threats()["different data"]
    assert "rows were train 40, valid 10, and are train 40, valid 60." in found.finding
    assert str(etude.open(ablation.folder).threats()["different data"]) == str(found), "it is in the journal"
