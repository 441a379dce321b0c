"""Arms that are tuned before they are compared, each by a search of its own."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from support import left_behind_by, run_script, running, start_script, wait_for, write_script
from torch import nn

import etude
from etude.core.errors import ConfigError

SPACE = {
    "lr": etude.uniform(0, 1),
    "helps": [0, 1],
    "opt": etude.choice({"sgd": {"momentum": etude.uniform(0, 1)}, "adam": {}}),
}
TWO = [etude.setting("helps", off=0), etude.setting("opt", off="adam")]


def train(seed: int, lr: float = 0.5, helps: int = 1, opt: str = "sgd", momentum: float = 0.5) -> float:
    best = 0.3 if helps else 0.8
    return 1 - (lr - best) ** 2 + 0.05 * helps + 0.001 * (seed % 7) + (0.1 * momentum if opt == "sgd" else 0.0)


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> etude.Experiment:
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "studies"))
    return etude.Experiment(train, metric="score", mode="max")


def tuned(experiment: etude.Experiment, **options: Any) -> etude.Ablation:
    given = {"retune": 13, "space": SPACE, "seeds": 7, "workers": 1, "reuse_child": True, "progress": False, **options}
    ablation = experiment.ablate(TWO, **given)
    assert isinstance(ablation, etude.Ablation)
    return ablation


def test_each_arm_is_compared_with_the_configuration_that_its_own_search_found(experiment: etude.Experiment) -> None:
    ablation = tuned(experiment)
    searches = {name: [t for t in ablation.trials if t.tunes and t.arm == name] for name in ablation.retuned}
    assert {name: len(of) for name, of in searches.items()} == {"base": 13, "helps=0": 13, "opt=adam": 13}
    assert {t.seed for of in searches.values() for t in of}.isdisjoint(ablation.arms[0].values), "a seed of its own"
    for arm in ablation.arms:
        best = max(searches[arm.name], key=lambda trial: (trial.value, -trial.number))
        assert ablation.retuned[arm.name].number == best.number  # type: ignore[union-attr]
        assert [trial.params for trial in ablation.of(arm.name)] == [best.params] * 7
        assert list(arm.values) == list(ablation.arms[0].values), "the seeds are those of the base"
    base, helps, adam = (dict(ablation.retuned[arm.name].params) for arm in ablation.arms)  # type: ignore[union-attr]
    assert (base["helps"], base["opt"]) == (1, "sgd"), "what is ablated is nobody's to choose"
    assert helps["helps"] == 0
    assert "momentum" not in adam
    drawn = [[t.params["lr"] for t in searches[name][1:10]] for name in ("base", "helps=0")]
    assert drawn[0] == drawn[1], "searches for the same begin with the same draws"
    assert "13 trials of its own" in str(ablation)
    assert str(etude.open(ablation.folder)) == str(ablation), "all of it is in the journal"


def test_arms_are_tuned_and_compared_alike_where_what_they_need_is_learned(experiment: etude.Experiment) -> None:
    plain = tuned(experiment, retune=4, name="plain")
    learned = tuned(experiment, retune=4, resources="auto", workers=2, name="learned")
    assert learned.complete
    assert learned.meta["call"]["resources"] == "memory_gb=auto"
    assert all(trial.usage.memory_mb for trial in learned.trials if trial.usage is not None)
    assert {arm.name: dict(arm.values) for arm in learned.arms} == {arm.name: dict(arm.values) for arm in plain.arms}
    chosen = [{name: trial and trial.params for name, trial in one.retuned.items()} for one in (plain, learned)]
    assert chosen[0] == chosen[1]


def test_searches_of_arms_are_never_part_of_the_comparison(experiment: etude.Experiment, tmp_path: Path) -> None:
    ablation = tuned(experiment, retune=3, sampler="random")
    assert [len(arm.values) for arm in ablation.arms] == [7, 7, 7]
    assert [one.n for one in ablation.verdicts()] == [7, 7]
    assert [row["tunes"] for row in ablation.rows()] == [True] * 9 + [False] * 21
    facts = json.loads((ablation.report(tmp_path / "report").parent / "report.json").read_text())
    assert sum(one["group"] == "base" for one in facts["trials"]) == 7
    threats = ablation.threats()
    assert threats["arms not tuned again"] is None
    assert "chosen among 3 trials by 'score'" in threats["evaluation on tuning data"].finding
    with pytest.raises(ConfigError, match=r"of which no trial can be taken|Its trials were trained with seed"):
        experiment.ablate(TWO, seeds=[ablation.trials[0].seed], reuse=ablation, force=True)


def test_the_space_is_that_of_the_search_that_chose_the_configuration(experiment: etude.Experiment) -> None:
    search = experiment.tune(
        {"lr": etude.uniform(0, 1)}, trials=4, sampler="qmc", workers=1, reuse_child=True, progress=False
    )
    draft = experiment.ablate(TWO, at=search.best, retune=5, seeds=7, dry_run=True)
    said = str(draft)
    assert "Each of 3 arms is tuned first: 5 trials of QMC() over lr, the configuration of the whole the first" in said
    assert draft.trials == 3 * 5 + 3 * 7
    assert "36 trials with these." in said
    ablation = tuned(experiment, at=search.best, retune=5, space=None)
    assert ablation.trials[0].params["lr"] == search.best.params["lr"]
    drawn = {trial.params["lr"] for trial in search.trials}
    assert drawn.isdisjoint(t.params["lr"] for t in ablation.trials[3:15]), "it does not begin as that search did"
    found = ablation.threats()["arms not tuned again"]
    assert "each arm had a search of 5 trials of its own" in found.finding
    assert "chosen among 4 trials for the whole" in found.finding
    again = experiment.ablate(TWO, at=search.best, retune=5, seeds=7, dry_run=True)
    assert "36 of 36 trials are there already" in str(again)


def test_no_search_has_more_trials_than_there_are_configurations(experiment: etude.Experiment) -> None:
    draft = experiment.ablate(
        TWO, at={"lr": 0.5}, retune=9, space={"lr": [0.1, 0.2], "opt": ["sgd", "adam"]}, dry_run=True
    )
    assert draft.retuned is not None
    assert draft.retuned.trials == 3 * 3, "two values, and the configuration of the whole beside them"
    assert "Not searched, since arms set it: opt." in str(draft)
    draft = experiment.ablate(TWO, retune=9, space={"opt": ["sgd", "adam"]}, dry_run=True)
    assert draft.retuned is not None
    assert draft.retuned.trials == 3
    assert "over nothing, " in str(draft)


class Picky:
    """A sampler that searches no space of fewer than three parameters."""

    def why_not(self, space: Any, metrics: int) -> str | None:
        return None if len(space.names) > 2 else "it takes three"

    def tell(self, told: Any) -> None:
        """Forget it."""

    def suggest(self, request: Any) -> Any:
        """Draw at random."""
        return request.space.sample(request.stream())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"retune": 5}, "retune=5 does not say what is searched"),
        ({"retune": 1, "space": SPACE}, "retune=1 cannot be: a search of one trial has nothing to choose from"),
        ({"space": SPACE}, "space= is for arms that are tuned"),
        ({"sampler": "tpe"}, "sampler= is for arms that are tuned"),
        ({"retune": 5, "space": SPACE, "policy": "path"}, "the policy path decides on arms by what others came to"),
        ({"retune": 5, "space": SPACE, "stopper": "median"}, "retune=5 and stopper= cannot be together"),
        ({"retune": 5, "space": SPACE, "sampler": "cmaes"}, "cannot be used here"),
        ({"retune": 5, "space": {"depth": [1, 2]}}, "No function takes 'depth'"),
        ({"retune": 5, "space": {**SPACE, "helps": 1}, "sampler": Picky()}, "cannot be used here: it takes three"),
    ],
)
def test_what_cannot_be_tuned_is_refused(experiment: etude.Experiment, options: dict[str, Any], said: str) -> None:
    with pytest.raises(etude.EtudeError) as refused:
        experiment.ablate(TWO, dry_run=True, **options)
    assert said in str(refused.value)


def test_a_race_goes_on_with_what_the_searches_found(experiment: etude.Experiment) -> None:
    pytest.importorskip("scipy")
    ablation = tuned(experiment, retune=4, seeds="until decided", workers=2)
    assert ablation.complete
    assert ablation.why.endswith("after 12 trials that tuned the arms")
    assert len({str(trial.params) for trial in ablation.of("helps=0")}) == 1
    assert ablation.verdicts()[0].verdict == "matters"


def test_it_is_so_on_each_data_set(experiment: etude.Experiment) -> None:
    search = experiment.tune({"lr": etude.uniform(0, 1), "momentum": [0.2, 0.4]}, trials=2, sampler="random", workers=1,
                             reuse_child=True, progress=False)  # fmt: skip
    across = experiment.ablate(
        etude.setting("helps", off=0), across={"momentum": [0.1, 0.9]}, at=search.best, retune=3, seeds=7, workers=1,
        reuse_child=True, progress=False,
    )  # fmt: skip
    for name, (ablation,) in across.items():
        assert {f"momentum={trial.params['momentum']}" for trial in ablation.trials} == {name}
        assert sum(trial.tunes for trial in ablation.trials) == 6


def test_a_simulated_study_shows_what_it_will_take(experiment: etude.Experiment) -> None:
    def curve(params, seed):
        yield 2.0, {"score": train(seed, **params)}

    ablation = tuned(experiment, engine=etude.Simulated(curves=curve), workers=3)
    assert ablation.complete
    assert ablation.makespan_s == pytest.approx(2.0 * (3 * 13 + 3 * 7) / 3, rel=0.1)


def model(width: int = 4, dropout: float = 0.1) -> nn.Module:
    return nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.Linear(width, 1))


def data() -> Any:
    return torch.utils.data.DataLoader(torch.ones(8, 3), batch_size=4)


def fit(model, data, run, lr: float = 0.1) -> float:
    net = model()
    for x in data():
        net(x)
    return float(next(net.parameters()).detach().abs().mean()) + lr


def test_parameters_of_the_model_are_held_where_its_repair_was_planned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "studies"))
    experiment = etude.Experiment(fit, model=model, data=data, metric="loss", mode="min")
    space = {"lr": etude.uniform(0, 1), "width": [4, 8]}
    ablation = experiment.ablate(
        "layer:2", retune=3, space=space, seeds=6, workers=1, reuse_child=True, progress=False, sampler="random"
    )
    assert isinstance(ablation, etude.Ablation)
    assert ablation.counts() == {"finished": 2 * 3 + 2 * 6}
    assert {trial.params["width"] for trial in ablation.trials} == {4}
    assert all(pair.is_pair for pair in ablation.pairing("layer:2").values()), "streams stay those of the seeds"
    draft = experiment.ablate("layer:2", retune=3, space=space, seeds=6, dry_run=True)
    assert "Not searched: width. The model function takes it" in str(draft)


SCRIPT = """
    import json, os, sys, time
    import etude

    def train(seed, run, lr: float = 0.5, helps: int = 1):
        with open(os.environ["STARTS"], "a") as file:
            file.write(f"{run.trial}\\n")
        return 1 - (lr - (0.3 if helps else 0.8)) ** 2 + 0.05 * helps + 0.001 * (seed % 7)

    experiment = etude.Experiment(train, metric="score", mode="max")

    if __name__ == "__main__":
        ablation = experiment.ablate(
            etude.setting("helps", off=0), retune=13, space={"lr": etude.uniform(0, 1)}, seeds=7, workers=1,
            name="study", reuse_child=True,
        )
        print(json.dumps(ablation.rows(), sort_keys=True))
"""


@pytest.mark.thorough
def test_a_driver_that_is_killed_in_a_search_and_in_the_comparison_ends_as_one_that_is_not(tmp_path: Path) -> None:
    for folder in ("apart", "here"):
        (tmp_path / folder).mkdir()
    undisturbed = run_script(write_script(tmp_path / "apart", SCRIPT), STARTS=str(tmp_path / "apart" / "starts"))
    assert undisturbed.returncode == 0, undisturbed.stderr
    script, starts = write_script(tmp_path / "here", SCRIPT), tmp_path / "here" / "starts"
    for kill_after in (23, 31):
        with running(start_script(script, STARTS=str(starts))) as driver:
            wait_for(lambda n=kill_after: starts.exists() and len(starts.read_text().split()) >= n)
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            wait_for(lambda d=driver: not left_behind_by(d))
    here = str(tmp_path / "here" / "studies" / "study")
    resume = write_script(tmp_path / "here", "from etude.cli import main\n\nmain()", "resume.py")
    with running(start_script(resume, "resume", "study", "--quiet", STARTS=str(starts))) as driver:
        _, err = driver.communicate(timeout=120)
    assert driver.returncode == 0, err
    told, expected = etude.open(here).rows(), json.loads(undisturbed.stdout)
    assert told[:26] == expected[:26], "the searches, proposal by proposal"
    assert sorted(map(_of_comparison, told[26:])) == sorted(map(_of_comparison, expected[26:]))


def _of_comparison(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return a row without its number: which arm of a seed goes first hangs on how long each took."""
    return row["arm"], row["seed"], row["lr"], row["score"], row["tunes"]
