"""What an ablation's call says beside its components: controls, early stopping, ranks, seeds, what is taken over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import etude
from etude.core.errors import ConfigError


class Net(nn.Module):
    def __init__(self, width: int = 40) -> None:
        super().__init__()
        self.first = nn.Linear(6, width)
        self.middle = nn.Linear(width, width)
        self.last = nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.middle(torch.relu(self.first(x)))))


def model() -> nn.Module:
    return Net()


def data() -> Any:
    return torch.utils.data.DataLoader(torch.randn(16, 6, generator=torch.Generator().manual_seed(0)), batch_size=8)


def train(model, data, run, dropout: float = 0.5, epochs: int = 2):
    net = model()
    for _ in run.epochs(epochs):
        for x in data():
            net(x)
        run.report(loss=float(next(net.parameters()).detach().abs().mean()) + dropout)


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> etude.Experiment:
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "studies"))
    return etude.Experiment(train, model=model, data=data, metric="loss", mode="min")


def test_a_control_is_the_whole_with_as_many_parameters_as_its_arm(experiment: etude.Experiment) -> None:
    ablation = experiment.ablate("layer:middle", seeds=1, workers=1, controls=True, force=True)
    base, middle, control = ablation.arms
    assert control.name == "size of layer:middle"
    assert abs(control.parameters - middle.parameters) <= 0.02 * middle.parameters < 0.02 * base.parameters
    assert control.changes
    assert ablation.counts() == {"finished": 3}
    assert ablation.pairing(control.name).keys() == base.values.keys()
    assert [one.component for one in ablation.verdicts(beside="controls")] == ["layer:middle"]
    assert "Is it the part, or the size?" in str(ablation)
    with pytest.raises(ConfigError, match="beside='size'"):
        ablation.verdicts(beside="size")


def test_an_arm_with_a_learned_repair_has_a_control_unless_it_is_as_large_as_the_whole() -> None:
    def deep() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 60), nn.ReLU(), nn.Linear(60, 24), nn.ReLU(), nn.Linear(24, 2))

    of_deep = etude.Experiment(train, model=deep, data=data, metric="loss", mode="min")
    draft = of_deep.ablate("layers:[0,1,2] repair=learned", seeds=8, dry_run=True)
    _, arm, control = draft.arms
    assert (arm.rung, arm.parameters) == ("rung 6, learned", 7 * 24 + 50)
    assert control.arm.name == "size of layers:[0,1,2] repair=learned"
    assert abs(control.parameters - arm.parameters) <= 0.02 * arm.parameters
    draft = of_deep.ablate("layer:2 repair=learned", seeds=8, dry_run=True)
    assert [one.arm.name for one in draft.arms] == ["base", "layer:2 repair=learned"]
    assert "what is learned in the place of '2' has as many parameters, so that nothing is missed" in str(draft)


def test_an_arm_is_judged_beside_its_control_as_a_claim_of_its_own() -> None:
    pytest.importorskip("scipy")
    from etude.results.ablated import ArmResult
    from etude.results.judged import beside_controls

    def arm(name: str, values: list[float]) -> ArmResult:
        return ArmResult(name, dict(enumerate(values)), 0.0, 8, (), None)

    base = [0.9 + 0.01 * (seed % 3) for seed in range(8)]
    arms = [
        arm("base", base),
        arm("part", [value - 0.2 - 0.001 * nth for nth, value in enumerate(base)]),
        arm("size of part", [value - 0.1 for value in base]),
        arm("small", [value - 0.1 - 0.001 * (nth % 2) for nth, value in enumerate(base)]),
        arm("size of small", [value - 0.1 - 0.001 * (nth < 4) for nth, value in enumerate(base)]),
        arm("alone", base),
    ]
    asked = {"verdicts": {"judged": ["part", "small", "alone"], "level": 0.05}}
    part, small = beside_controls(arms, question=asked, mode="max", margin=0.02)
    assert (part.component, part.verdict, part.n) == ("part", "matters", 8)
    assert part.effect == pytest.approx(0.1035), "of its size it is worse by so much"
    assert (small.component, small.verdict) == ("small", "does not matter"), "it was the size"
    with pytest.raises(ConfigError, match="No arm of this ablation has a control"):
        beside_controls(arms[:2], question=asked, mode="max")
    race = {"verdicts": {"judged": ["part"], "race": {"components": 1}}}
    with pytest.raises(ConfigError, match="no verdict on it would have an error rate"):
        beside_controls(arms, question=race, mode="max")


def test_controls_are_for_arms_of_another_size_and_it_is_said_where_there_is_none(
    experiment: etude.Experiment,
) -> None:
    assert len(experiment.ablate("layer:middle", seeds=2, dry_run=True).arms) == 2, "repair is not learned"
    draft = experiment.ablate(["dropout", "layer:first"], seeds=2, controls=True, dry_run=True)
    assert [one.arm.name for one in draft.arms][:3] == ["base", "dropout", "layer:first"]
    small = etude.Experiment(train, model=lambda: Net(2), data=data, metric="loss", mode="min")
    draft = small.ablate("layer:middle", seeds=2, controls=True, dry_run=True)
    assert "no control of its size: the base cannot be narrowed to 20 parameters within 2%" in str(draft)


def test_nothing_is_stopped_early_unless_it_is_asked_for_and_then_it_is_said(experiment: etude.Experiment) -> None:
    assert "stopped early" not in str(experiment.ablate("dropout", seeds=2, dry_run=True))
    draft = experiment.ablate("dropout", seeds=2, stopper="median", dry_run=True)
    assert "an arm that begins slowly is stopped more often" in str(draft)

    class AtOnce:
        def decide(self, report: Any, standing: Any) -> etude.Decision:
            return etude.Decision(etude.Act.STOP, "enough")

    endless = {"epochs": 1_000_000}
    ablation = experiment.ablate("dropout", at=endless, seeds=1, workers=1, stopper=AtOnce(), timeout_s=120, force=True)
    assert ablation.counts() == {"stopped": 2}


def test_more_seeds_go_on_with_the_study_and_another_ablation_gives_what_both_have(
    experiment: etude.Experiment,
) -> None:
    first = experiment.ablate("dropout", seeds=1, workers=1, force=True)
    draft = experiment.ablate("dropout", seeds=2, dry_run=True)
    assert "2 of 4 trials are there already, and not run again" in str(draft)
    more = experiment.ablate("dropout", seeds=2, workers=1, force=True)
    assert more.folder == first.folder
    assert [len(arm.values) for arm in more.arms] == [2, 2]
    assert more.trials[0].ended_at == first.trials[0].ended_at
    draft = experiment.ablate(["dropout", "layer:middle"], seeds=2, reuse=more, dry_run=True)
    assert draft.done == 4
    other = experiment.ablate(["dropout", "layer:middle"], seeds=2, reuse=more, workers=1, force=True)
    assert {trial.arm: trial.reused_from is not None for trial in other.trials} == {
        "base": True, "dropout": True, "layer:middle": False,
    }  # fmt: skip
    third = experiment.ablate(["layer:middle"], seeds=2, reuse=other, workers=1, force=True)
    assert all(trial.reused_from is not None for trial in third.trials), "arms are known by what they go without"


def test_a_search_gives_no_arms(experiment: etude.Experiment) -> None:
    search = experiment.tune({"dropout": [0.5]}, trials=1, workers=1, sampler="grid")
    with pytest.raises(ConfigError, match="which is no ablation: its trials may have taken part in choosing"):
        experiment.ablate("dropout", seeds=[search.trials[0].seed + 1], reuse=search, force=True)


def descend(model, data, run):
    net = model()
    torch.save(net.state_dict(), run.folder / "first.pt")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in run.epochs(1):
        for x in data():
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
    return float(next(net.parameters()).detach().abs().mean())


def test_several_ranks_train_an_arm(experiment: etude.Experiment) -> None:
    of = etude.Experiment(descend, model=model, data=data, metric="loss", mode="min")
    ablation = of.ablate("layer:middle", seeds=1, workers=1, ranks=2, force=True)
    assert ablation.counts() == {"finished": 2}
    [pair] = ablation.pairing("layer:middle").values()
    assert (pair.is_pair, pair.shared, pair.batches) == (True, 4, True)


def test_the_plan_is_shown_first(experiment: etude.Experiment, capfd: pytest.CaptureFixture[str]) -> None:
    call: Any = {"components": ["layer:middle", "epochs=0"], "seeds": 1, "workers": 1, "force": True}
    draft = experiment.ablate(**call, dry_run=True)
    assert capfd.readouterr().err == "", "a plan that is returned is not shown as well"
    experiment.ablate(**call, progress=True)
    told = capfd.readouterr().err
    assert told.startswith(f"{draft}\n"), "the plan, before anything else"
    assert "epochs=0: epochs: 2 -> 0; nothing is trained with 0: write 'epochs=...' for another value" in told
    experiment.ablate(**call, progress=True)
    assert "2 of 3 trials are there already, and not run again" in capfd.readouterr().err


@pytest.mark.parametrize("off", [{"progress": False}, {}])
def test_the_plan_is_not_shown_where_progress_is_not(
    experiment: etude.Experiment, capfd: pytest.CaptureFixture[str], off: dict[str, bool]
) -> None:
    experiment.ablate("layer:middle", seeds=1, workers=1, force=True, **off)  # in tests ETUDE_PROGRESS is 0
    assert "layer:middle" not in capfd.readouterr().err


def named() -> etude.Data:
    rows = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
    loader = torch.utils.data.DataLoader(rows, batch_size=8)
    return etude.Data(loader, loader, features=["age", "fare", "port", "mass_a", "mass_b", "sex"])


def train_named(model, data, dropout: float = 0.5):
    net, (loader, _) = model(), data()
    return sum(float(net(x).detach().mean()) for x in loader)


TAKEN = {
    "base": "nothing is taken away",
    "feature:age": "age dropped; first 6->5 inputs",
    "feature:fare how=permute": "fare shuffled among the rows",
    "feature:sex how=constant value=0.0": "sex 0.0 everywhere",
    "features:~^mass": "mass_a, mass_b dropped; first 6->4 inputs; 'feature:~^mass' is 2 features: mass_a, mass_b",
    "dropout": "0.5 -> 0.0",
    "etude": "its own functions",
}


def test_the_plan_says_of_each_arm_what_is_taken_away() -> None:
    experiment = etude.Experiment(train_named, model=model, data=named, metric="loss", mode="min")
    own = etude.custom("etude", model=lambda: Net(8))
    draft = experiment.ablate([*list(TAKEN)[1:-1], own], seeds=8, dry_run=True)
    told = [str(one).partition(" [")[0].removeprefix(f"{one.arm.name}: ") for one in draft.arms]
    assert told == list(TAKEN.values())


def test_a_refused_arm_says_what_its_pattern_matched() -> None:
    def narrow() -> Any:
        return Net(), nn.Linear(3, 3)

    experiment = etude.Experiment(
        lambda model, data, lr=0.1: [model()[0](x) for x in data()], model=narrow, data=data, metric="loss", mode="min"
    )
    draft = experiment.ablate(["layer:~^1$"], seeds=2, dry_run=True)
    [refused] = draft.refused
    assert str(refused).startswith("layer:~^1$: 'layer:~^1$' is 1 layer: 1; ")
    assert refused.refused in str(refused)


# --- whether runs are pairs, where nothing of them is seen -----------------------------------------


def score(seed: int) -> float:
    return 0.5 + (seed % 17) / 1000


def less(seed: int) -> float:
    return 0.4 + (seed * 31 % 19) / 1000


def test_what_is_said_of_an_arm_later_holds_from_then_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A threat tells people to say it, who have run the ablation by then."""
    pytest.importorskip("scipy")
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "studies"))
    by_itself = etude.Experiment(score, metric="score", mode="max")

    def ablated(**said: Any) -> Any:
        other = etude.custom("o", train=less, **said)
        return by_itself.ablate(other, seeds=7, name="said", workers=1, force=True)

    first = ablated()
    assert "Not known whether paired, since nothing was seen of how they began: custom:o." in str(first)
    assert "say it: etude.custom(..., paired=False)" in str(first.threats())
    second = ablated(paired=False, says="the order of its data is another")
    assert second.counts() == first.counts() == {"finished": 14}
    assert "What is said of custom:o is new, and holds from now on." in capsys.readouterr().err
    for found in (second, etude.open("said")):
        assert "Not paired, as was said of them: custom:o." in str(found)
        assert found.paired() == {"custom:o": (0, 7)}
        assert found.meta["question"]["arms"][1]["says"] == ["the order of its data is another"]
    assert second.verdicts()[0].p != first.verdicts()[0].p
    ablated(paired=False, says="the order of its data is another")
    assert "What is said" not in capsys.readouterr().err  # it is as before
    third = ablated(paired=True)
    assert "All arms are paired." in str(third)
