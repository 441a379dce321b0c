"""Arms that are tried before anything runs, and what a plan and a summary say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.frameworks.removal.nets import Plain
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import etude
from etude.core.errors import ConfigError


class Net(nn.Module):
    def __init__(self, dropout: float = 0.25) -> None:
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(6, 12), nn.Linear(12, 12), nn.Linear(12, 2)
        self.thrown = nn.Linear(12, 12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.middle(torch.relu(self.first(x))))
        self.thrown(x)
        return self.last(self.dropout(x))


def model(dropout: float = 0.25) -> nn.Module:
    return Net(dropout)


def images() -> Any:
    x = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    return DataLoader(TensorDataset(x, torch.arange(8) % 2), batch_size=4)


def untrained() -> nn.Module:
    return Plain()


def trained() -> nn.Module:
    net = Plain()
    generator = torch.Generator().manual_seed(5)
    net.load_state_dict({name: torch.rand(one.shape, generator=generator) for name, one in net.state_dict().items()})
    return net


def data(batch_size: int = 8) -> Any:
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
    return DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=batch_size)


def plain() -> Any:
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
    return x, (x.sum(1) > 0).long().numpy()


def train(model: Any, data: Any, lr: float = 0.1, epochs: int = 1) -> float:
    net = model()
    data()
    return float(next(net.parameters()).detach().mean()) + lr


def train_batch(model: Any, data: Any, lr: float = 0.1) -> float:
    return float(model()(data()[0]).detach().mean())


def broken(lr: float = 0.1, on: bool = True) -> float:
    raise ValueError("there is no table")


@pytest.fixture
def studies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ETUDE_STUDIES", str(tmp_path / "studies"))
    return tmp_path


def of(**functions: Any) -> etude.Experiment:
    own: dict[str, Any] = {"model": model, "data": data} | functions
    return etude.Experiment(own.pop("train", train), **own, metric="loss", mode="min")


def refused(component: Any, **options: Any) -> str:
    draft = of().ablate(component, seeds=8, dry_run=True, **options)
    return " | ".join(one.refused for one in draft.refused)


@pytest.mark.parametrize(
    ("component", "why"),
    [
        ("dropout=abc", "dropout='abc' does not fit model()"),
        ("dropout=3.0", "ValueError: dropout probability has to be between 0 and 1"),
        ("batch_size", "data() ends with ValueError"),
        (etude.custom("v", model=lambda zz: None), "'zz', and nothing gives it"),
        (etude.custom("v", data=lambda: {}["x"]), "data:v() ends with KeyError: 'x'"),
    ],
)
def test_settings_and_variants_are_called_once_before_anything_runs(component: Any, why: str) -> None:
    assert why in refused(component)


def test_pairs_with_a_variant_that_cannot_be_built_are_refused() -> None:
    variant = etude.custom("v", model=lambda zz: None)
    assert refused([variant, "layer:middle"], policy="pairs").count("'zz'") == 2


def test_functions_of_equal_arms_are_called_once() -> None:
    calls: list[int] = []

    def variant(dropout: float = 0.25) -> nn.Module:
        calls.append(1)
        return Net(dropout)

    of().ablate([etude.custom("v", model=variant), "lr"], policy="pairs", seeds=8, dry_run=True)
    assert len(calls) == 2  # without lr, and with it


def test_no_training_is_said_in_the_plan_and_a_setting_is_told_once() -> None:
    said = str(of().ablate(["lr", "epochs", "dropout"], seeds=9, dry_run=True))
    assert "  lr: 0.1 -> 0.0; nothing is trained with 0.0: write 'lr=...' for another value" in said
    assert "nothing is trained with 0: write 'epochs=...'" in said
    assert "  dropout: 0.25 -> 0.0\n" in said + "\n"


@pytest.mark.parametrize("nothing", [None, 3, {"layer": "middle"}])
def test_what_is_no_component_is_refused_in_words(nothing: Any) -> None:
    with pytest.raises(ConfigError, match=r"components=.*Pass a text"):
        of().ablate(nothing, seeds=8, dry_run=True)


def test_a_text_is_one_name_of_what_goes_along() -> None:
    found = etude.remove(Net(), "layer:middle", torch.rand(4, 6), with_="dropout")
    assert any("dropout" in one for one in found.changes)
    with pytest.raises(ConfigError, match="'relu', and there is no such layer"):
        of().ablate("layer:middle with=relu", seeds=8, dry_run=True)


def test_a_layer_whose_result_nobody_uses_is_said_to_be_dead() -> None:
    draft = of().ablate(["layer:thrown", "layer:middle"], seeds=8, dry_run=True)
    says = {one.arm.name: " ".join(one.says) for one in draft.arms}
    assert "a dead component" in says["layer:thrown"]
    assert "dead" not in says["layer:middle"]


def test_a_layer_without_which_all_is_the_same_is_said_to_be_dead_before_anything_runs() -> None:
    draft = of().ablate(["layer:dropout", "layer:middle"], at={"dropout": 0.0}, seeds=8, dry_run=True)
    says = {one.arm.name: one.says for one in draft.arms}
    assert says["layer:dropout"] == (
        "the model gives and learns the same without 'dropout': a dead component, whose removal changes nothing",
    )
    assert says["layer:middle"] == ()
    assert "'dropout': a dead component, whose removal changes nothing" in str(draft)
    [_, live] = of().ablate("layer:dropout", seeds=8, dry_run=True).arms
    assert live.says == ()


def test_layers_that_are_drawn_anew_are_marked_and_so_are_lost_weights(studies: Path) -> None:
    anew = str(of(model=untrained, data=images).ablate("layer:conv1", seeds=8, dry_run=True))
    assert "1 layer drawn anew" in anew
    assert "without the trained weights" not in anew
    found = of(model=trained, data=images).ablate("layer:conv1", seeds=1, workers=1, force=True)
    assert [arm.rebuilt for arm in found.arms] == [(), ("conv2.weight",)]
    assert "1 layer drawn anew, without the trained weights" in str(found)


def test_a_model_is_built_once_more_for_all_arms_that_may_lose_its_weights() -> None:
    seeds: list[int] = []

    def counted(seed: int) -> nn.Module:
        seeds.append(seed)
        return untrained()

    draft = of(model=counted, data=images).ablate(["layer:conv1", "layer:conv2"], policy="pairs", seeds=8, dry_run=True)
    assert sum(bool(one.rebuilt) for one in draft.arms) > 1
    assert len([seed for seed in seeds if seed != draft.seeds[0]]) == 1


def test_a_summary_says_whether_arms_are_paired_and_plain_tensors_are_batches(studies: Path) -> None:
    found = of(data=plain, train=train_batch).ablate("layer:middle", seeds=2, workers=1, force=True)
    assert {one.batches for one in found.pairing("layer:middle").values()} == {True}
    assert "All arms are paired." in str(found)
    with pytest.raises(ConfigError, match=r"'layer:midle' is no arm.*'layer:middle'"):
        found.pairing("layer:midle")


def test_why_all_failed_is_printed_and_another_ablation_is_no_edit(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = etude.Experiment(broken, metric="loss", mode="min")
    experiment.ablate("on", seeds=2, workers=2, force=True, progress=True)
    assert "ValueError: there is no table" in capsys.readouterr().err
    experiment.ablate("lr", seeds=2, workers=2, force=True, progress=True)
    assert "definition is not that" not in capsys.readouterr().err
