"""Settings are applied to loaders, models and optimizers of a training, and put back."""

from __future__ import annotations

import copy
import importlib.util
import multiprocessing
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import etude
from etude.frameworks.torch import prepare_data
from etude.frameworks.torch_knobs import TorchKnobs
from etude.frameworks.torch_shard import shard


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(range(10))


class Mine(DataLoader[Any]):
    """A loader of the user's own class."""


def rows(n: int = 40, channels: int = 1) -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(torch.rand(n, channels, 8, 8, generator=generator), torch.arange(n) % 3)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(64, 3),
    )


class Training:
    """A training that is told what to set before each epoch."""

    def __init__(self, *, model: nn.Module | None = None, **loader: Any) -> None:
        self.said: list[str] = []
        self.steps: list[tuple[float, float]] = []
        self.knobs = TorchKnobs(say=self.said.append, stepped=lambda *times: self.steps.append(times))
        given = {"batch_size": 8, "shuffle": True, **loader}
        self.loader = self.knobs.data(prepare_data(DataLoader(rows(), **given), seed=0, device="cpu"))
        self.model = self.knobs.model(model if model is not None else net())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.knobs.kept({"model": self.model, "optimizer": self.optimizer})
        torch.manual_seed(1)

    def epoch(self) -> list[float]:
        losses = []
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses


@pytest.fixture
def training() -> Iterator[Training]:
    it = Training()
    yield it
    it.knobs.close()
    assert not multiprocessing.active_children()


def test_what_there_is_and_what_it_lacks(training: Training) -> None:
    now, lacks = training.knobs.now, training.knobs.lacks
    assert {**now, "threads": 0, "cores": 0} == {
        "threads": 0,
        "cores": 0,
        "loader_workers": 0,
        "prefetch": 2,
        "persistent_workers": False,
        "cache": False,
        "batch_size": 8,
        "channels_last": False,
        "compile": False,
        "amp": False,
        "accumulation": 1,
    }
    assert set(lacks) == {"pin_memory"}
    assert (
        lacks["pin_memory"] == "torch sees no GPU, so that nothing would be fetched from there. Let the trial see one."
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([1, 2], "data() gave no DataLoader of torch. Return the loaders themselves."),
        (DataLoader(Stream()), "the data set Stream can only be gone through"),
        (Mine(rows()), "the loader is a Mine, which may do more than torch's own. Use a DataLoader."),
        (DataLoader(rows(), num_workers=1, in_order=False), "in_order=False"),
    ],
)
def test_loaders_that_are_left_alone_are_named(data: Any, why: str) -> None:
    knobs = TorchKnobs(say=print, stepped=lambda step_s, waited_s: None)
    assert knobs.data(data) is data
    assert why in knobs.lacks["loader_workers"]
    assert "loader_workers" not in knobs.now
    knobs.apply({"loader_workers": 2, "batch_size": 3, "channels_last": True})
    knobs.close()


def test_the_loader_is_the_object_that_it_was() -> None:
    loader = DataLoader(rows(), batch_size=4)
    knobs = TorchKnobs(say=print, stepped=lambda step_s, waited_s: None)
    found = knobs.data(etude.Data(loader, None))
    assert found.train is loader
    assert isinstance(loader, DataLoader)
    assert type(loader).__name__ == "DataLoader"
    assert copy.copy(loader).batch_size == 4
    knobs.close()
    assert type(loader) is DataLoader


def test_settings_that_change_nothing_leave_losses_to_the_bit() -> None:
    plain = Training()
    expected = [plain.epoch() for _ in range(4)]
    plain.knobs.close()
    it = Training()
    found = []
    for setting in (
        {},
        {"loader_workers": 2},
        {"loader_workers": 1, "prefetch": 8, "persistent_workers": True},
        {"cache": True},
    ):
        it.knobs.apply(setting)
        found.append(it.epoch())
    it.knobs.close()
    assert found == expected
    assert len(it.steps) == 20
    assert all(0 <= waited_s <= step_s for step_s, waited_s in it.steps)
    assert not it.said


def test_evaluation_is_no_step(training: Training) -> None:
    with torch.no_grad():
        list(training.loader)
    assert not training.steps


@pytest.mark.parametrize("knob", ["channels_last", "amp"])
def test_a_model_computes_in_another_way_and_back_again(training: Training, knob: str) -> None:
    training.model.eval()
    x = next(iter(training.loader))[0]
    before = training.model(x)
    strides = [parameter.stride() for parameter in training.model.parameters()]

    training.knobs.apply({knob: True})
    other = training.model(x)
    assert other.dtype is torch.float32
    assert torch.allclose(other, before, atol=1e-5 if knob == "channels_last" else 0.1)
    if knob == "channels_last":
        assert training.model[3].weight.is_contiguous(memory_format=torch.channels_last)
    else:
        assert not torch.equal(other, before)
    training.model.train()
    training.epoch()
    training.model.load_state_dict(net().state_dict())

    training.knobs.apply({})
    training.model.eval()
    assert torch.equal(training.model(x), before)
    assert [parameter.stride() for parameter in training.model.parameters()] == strides
    assert not training.said


def test_a_model_that_comes_later_computes_in_the_same_way(training: Training) -> None:
    training.knobs.apply({"channels_last": True})
    later = training.knobs.model({"other": net(), "known": training.model})["other"]
    assert later[3].weight.is_contiguous(memory_format=torch.channels_last)
    training.knobs.close()
    assert later[3].weight.is_contiguous()


def test_a_model_without_images_lacks_channels_last() -> None:
    it = Training(model=nn.Sequential(nn.Flatten(), nn.Linear(64, 3)))
    assert it.knobs.lacks["channels_last"].startswith("no layer of the model has a weight of four dimensions")
    assert "channels_last" not in it.knobs.now
    it.knobs.apply({"channels_last": True})
    it.epoch()
    it.knobs.close()


def test_without_a_compiler_nothing_is_compiled(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert training.knobs.lacks["compile"] == "there is no compiler for C++. Install g++."
    training.knobs.apply({"compile": True})
    assert training.model._compiled_call_impl is None


def test_a_compiler_that_fails_is_said_once_and_the_training_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Training()
    expected = plain.epoch()
    plain.knobs.close()
    it = Training()

    def compile_it(function: Any, **options: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            torch.rand(3)
            raise torch._dynamo.exc.BackendCompilerFailed(print, RuntimeError("no room"), None)

        return call

    monkeypatch.setattr(torch, "compile", compile_it)
    it.knobs.apply({"compile": True})
    assert it.epoch() == expected
    assert len(it.said) == 1
    assert it.said[0].startswith("compile could not be set, and stays as it was: BackendCompilerFailed")
    assert "compile" in it.knobs.lacks
    it.knobs.apply({"compile": True})
    it.epoch()
    assert len(it.said) == 1
    it.knobs.close()


@pytest.mark.filterwarnings("ignore")  # torch warns of what it does itself
@pytest.mark.thorough
def test_a_model_is_compiled_in_place_and_draws_what_it_drew(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tqdm := importlib.util.find_spec("tqdm"):  # the compiler shows its progress, and leaves a thread that watches it
        monkeypatch.setattr(f"{tqdm.name}.tqdm.monitor_interval", 0)
    if "compile" in training.knobs.lacks:
        pytest.skip(training.knobs.lacks["compile"])
    plain = Training()
    expected = plain.epoch()
    plain.knobs.close()
    torch.manual_seed(1)
    training.knobs.apply({"compile": True})
    assert not training.said
    assert training.model._compiled_call_impl is not None
    found = training.epoch()
    assert found == pytest.approx(expected, abs=1e-5)
    assert sum(torch._dynamo.utils.counters["frames"].values()) > 0
    assert not training.said
    training.knobs.apply({})
    assert training.model._compiled_call_impl is None


def test_batches_have_another_size_between_epochs(training: Training) -> None:
    assert len(training.epoch()) == 5
    training.knobs.apply({"batch_size": 16})
    assert len(training.epoch()) == 3
    assert training.knobs.now["batch_size"] == 8
    training.knobs.apply({})
    assert len(training.epoch()) == 5


def test_batches_that_are_divided_keep_their_size() -> None:
    loader = shard(prepare_data(DataLoader(rows(), batch_size=8), seed=0, device="cpu"), rank=0, ranks=2)
    knobs = TorchKnobs(say=print, stepped=lambda step_s, waited_s: None)
    knobs.data(loader)
    assert "batch_size" in knobs.lacks
    assert "loader_workers" in knobs.now
    knobs.close()


def test_gradients_of_several_steps_are_gathered() -> None:
    def weights(accumulation: int, size: int) -> torch.Tensor:
        it = Training(model=nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), shuffle=False, batch_size=size)
        scheduler = torch.optim.lr_scheduler.StepLR(it.optimizer, 100)
        torch.manual_seed(7)
        nn.init.normal_(it.model[1].weight)
        nn.init.zeros_(it.model[1].bias)
        it.knobs.apply({"accumulation": accumulation})
        it.epoch()
        scheduler.step()
        it.knobs.close()
        assert "zero_grad" not in vars(it.optimizer)
        found: torch.Tensor = it.model[1].weight.detach().clone()
        return found

    assert torch.allclose(weights(2, 8), weights(1, 16), atol=1e-6), "40 examples: the last update has one step of 8"
    assert not torch.allclose(weights(1, 8), weights(1, 16), atol=1e-6)


def test_without_an_optimizer_that_is_kept_nothing_is_gathered() -> None:
    knobs = TorchKnobs(say=print, stepped=lambda step_s, waited_s: None)
    assert knobs.lacks["accumulation"].endswith("Pass it to run.keep(optimizer=optimizer).")


def test_one_knob_that_fails_does_not_keep_the_others_from_being_set(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(training.model, "register_forward_pre_hook", refuse)
    training.knobs.apply({"channels_last": True, "batch_size": 16, "amp": True})
    assert training.said == ["channels_last could not be set, and stays as it was: RuntimeError: no"]
    assert "channels_last" in training.knobs.lacks
    assert len(training.epoch()) == 3
    assert training.model[3].weight.is_contiguous()


class Random(Dataset[Any]):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        return torch.rand(1, 8, 8), index % 3


def test_a_data_set_that_draws_is_named_after_its_first_batches() -> None:
    said: list[str] = []
    knobs = TorchKnobs(say=said.append, stepped=lambda step_s, waited_s: None)
    loader = knobs.data(DataLoader(Random(), batch_size=4))
    assert "loader_workers" in knobs.now
    for _ in loader:
        pass
    assert "loader_workers" not in knobs.now
    assert knobs.lacks["cache"] == (
        "its data set draws random numbers when it is asked for an example. Let an example be the same wherever and "
        "whenever it is fetched, and a sampler draw from a generator of its own."
    )
    assert not said
    knobs.close()
