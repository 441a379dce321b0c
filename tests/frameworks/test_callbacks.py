"""Callbacks for trainers of other libraries: a stop ends the training, and a pause comes after the save."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lines import HeldAtOne, Line, run_on, through_a_file

import etude
from etude.core.errors import ConfigError, StateError
from etude.frameworks import state_file
from etude.frameworks.kinds import handle
from etude.frameworks.trees import put_together, take_apart
from etude.worker.run import Hold, Run, Stop

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries

X = np.random.RandomState(0).normal(size=(24, 6)).astype("float32")
Y = X[:, :1].copy()


Fit = Callable[..., Any]


def keras_net(*layers: Any, compiled: bool = True) -> Any:
    import keras

    net = keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(1)])
    if compiled:
        net.compile("adam", "mse")
    return net


def fit_keras(
    run: Run, *, epochs: int = 3, names: dict[str, str] | None = None, ask: bool = True, **options: Any
) -> Any:
    callback = etude.callback("keras", run, names=names)
    return keras_net().fit(X, Y, epochs=epochs, verbose=0, callbacks=[callback], **options)


def fit_lightning(run: Run, *, epochs: int = 3, names: dict[str, str] | None = None, ask: bool = True) -> Any:
    import lightning
    import torch

    class Net(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(6, 1)

        def training_step(self, batch: Any, n: int) -> Any:
            loss = (self.net(batch[0]) - batch[1]).square().mean()
            self.log("loss", loss, on_step=False, on_epoch=True)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    callback = etude.callback("lightning", run, names=names)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        callbacks=[callback],
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y)), 12)
    trainer.fit(Net(), loader, ckpt_path=callback.ckpt_path(trainer) if ask else None)
    return trainer


def fit_transformers(
    run: Run, *, epochs: int = 3, names: dict[str, str] | None = None, ask: bool = True, **options: Any
) -> Any:
    import torch
    import transformers

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(6, 1)

        def forward(self, x: Any, labels: Any) -> Any:
            return {"loss": (self.net(x) - labels).square().mean()}

    callback = etude.callback("transformers", run, names=names)
    options = {"save_strategy": "no", "logging_strategy": "epoch", "num_train_epochs": epochs, **options}
    args = transformers.TrainingArguments(
        str(run.folder / "trainer"), use_cpu=True, report_to="none", disable_tqdm=True, **options
    )
    rows = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
    trainer = transformers.Trainer(Net(), args, train_dataset=rows, callbacks=[callback])
    trainer.train(resume_from_checkpoint=callback.checkpoint() if ask else None)
    return trainer


FITS = [
    pytest.param(fit_keras, id="keras"),
    pytest.param(fit_lightning, id="lightning"),
    pytest.param(fit_transformers, id="transformers"),
]


@pytest.mark.parametrize("fit", FITS)
def test_each_epoch_is_reported_and_saved(fit: Fit, tmp_path: Path) -> None:
    line = Line()
    fit(run_on(line, tmp_path), names={"loss": "training_loss"})
    assert [state.epoch for state in line.states] == [1, 2, 3]
    assert [state.rest["over"] for state in line.states[:-1]] == [False, False]
    assert len(line.reports) == 3
    assert all(np.isfinite(metrics["training_loss"]) and "loss" not in metrics for metrics in line.reports)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("fit", FITS)
def test_a_stop_ends_the_training(fit: Fit, tmp_path: Path) -> None:
    line = Line(halted=True)
    with pytest.raises(Stop):
        fit(run_on(line, tmp_path))
    assert line.states == []


@pytest.mark.parametrize("fit", FITS)
def test_a_pause_comes_after_the_save_and_the_next_attempt_goes_on_from_there(fit: Fit, tmp_path: Path) -> None:
    paused = HeldAtOne()
    with pytest.raises(Hold):
        fit(run_on(paused, tmp_path))
    assert [state.epoch for state in paused.states] == [1]
    rest = Line(before=through_a_file(paused.states[0], tmp_path))
    fit(run_on(rest, tmp_path))
    assert [state.epoch for state in rest.states] == [2, 3]


@pytest.mark.parametrize("fit", FITS)
def test_a_trial_with_a_larger_budget_goes_on_where_it_is_seen_that_it_can(fit: Fit, tmp_path: Path) -> None:
    """The trainers of Lightning and Transformers make schedules for as many epochs as they are to have."""
    small, large = Line(), Line()
    random.seed(0)
    fit(run_on(small, tmp_path), epochs=2)
    large.before = through_a_file(small.states[-1]._replace(source=0), tmp_path)
    random.seed(0)
    fit(run_on(large, tmp_path), epochs=3)
    assert [state.epoch for state in large.states] == ([3] if fit.__name__.endswith("keras") else [1, 2, 3])


@pytest.mark.parametrize("fit", FITS)
def test_a_plain_call_trains_and_leaves_no_files(fit: Fit, tmp_path: Path) -> None:
    run = Run(metrics=("loss",), params={}, seed=1, folder=lambda: tmp_path)
    fit(run)
    assert "loss" in run.last
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("fit", FITS)
def test_a_rehearsal_ends_after_its_one_epoch(fit: Fit, tmp_path: Path) -> None:
    line = Line()
    run = run_on(line, tmp_path)
    everything = run.epochs
    run.epochs = lambda n: everything(min(n, 1))  # type: ignore[method-assign]
    fit(run, epochs=5)
    assert len(line.states) == 1
    assert len(line.reports) <= 2


@pytest.mark.parametrize("fit", [fit_lightning, fit_transformers])
def test_a_trainer_that_is_not_told_where_to_go_on_from_is_refused_at_once(fit: Fit, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        fit(run_on(Line(), tmp_path), ask=False)
    assert "was not asked where to go on from, so an attempt that is lost would start over. " in str(refused.value)
    assert str(refused.value).endswith(("ckpt_path=callback.ckpt_path(trainer)).", "callback.checkpoint())."))


def test_a_checkpoint_without_its_optimizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="save_only_model=True leaves out the optimizer"):
        fit_transformers(run_on(Line(), tmp_path), save_only_model=True)


def test_a_checkpoint_that_the_user_wants_stays(tmp_path: Path) -> None:
    fit_transformers(run_on(Line(), tmp_path), save_strategy="epoch", save_total_limit=1)
    assert [path.name for path in (tmp_path / "trainer").iterdir()] == ["checkpoint-9"]


def test_an_unknown_trainer_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        etude.callback("fastai", run_on(Line(), tmp_path))
    assert str(refused.value) == (
        "etude.callback('fastai', ...) is for no trainer that is known. There are 'keras', 'lightning', "
        "'transformers', 'xgboost', 'lightgbm'. A loop of your own needs none: for epoch in run.epochs(n)."
    )


# --- Keras' own things, as run.keep takes them ----------------------------------------------------


def test_a_keras_model_is_kept_with_its_optimizer_and_its_seeds(tmp_path: Path) -> None:
    import keras

    one, other = keras_net(keras.layers.Dropout(0.5, seed=3)), keras_net(keras.layers.Dropout(0.5, seed=4))
    one.fit(X, Y, epochs=2, verbose=0)
    taken, given = handle(one, path="kept.net"), handle(other, path="kept.net")
    assert taken is not None
    assert given is not None
    state_file.write(tmp_path / "state", *take_apart([taken.weights(), taken.rest()], path="state"))
    given.bring_back(*state_file.read(tmp_path / "state"))
    for a, b in zip(
        [*one.variables, *one.optimizer.variables], [*other.variables, *other.optimizer.variables], strict=True
    ):
        assert np.array_equal(keras.ops.convert_to_numpy(a), keras.ops.convert_to_numpy(b)), a.path
    for net in (one, other):
        net.reset_metrics()
    assert [one.train_on_batch(X, Y) for _ in range(3)] == [other.train_on_batch(X, Y) for _ in range(3)]


def test_numbers_that_numpy_does_not_know_are_kept_by_their_bits(tmp_path: Path) -> None:
    import keras

    one, other = (keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype="bfloat16")]) for _ in range(2))
    taken, given = handle(one, path="net"), handle(other, path="net")
    assert taken is not None
    assert given is not None
    state_file.write(tmp_path / "state", *take_apart([taken.weights(), taken.rest()], path="state"))
    given.bring_back(*state_file.read(tmp_path / "state"))
    assert keras.backend.standardize_dtype(other.weights[0].dtype) == "bfloat16"
    assert bool(keras.ops.all(one.weights[0] == other.weights[0]))


def test_keras_global_generator_is_seeded_and_saved_with_the_others() -> None:
    import keras

    from etude.frameworks.global_sources import global_sources
    from etude.worker.seeds import kept_generators, seed_generators

    def drawn() -> list[float]:
        return [float(x) for x in keras.random.normal((3,))]

    with kept_generators():
        seed_generators(1, "train")
        first = drawn()
        source = global_sources()["keras"]
        state, second = source.get(), drawn()
        seed_generators(1, "train")
        assert drawn() == first
        source.set(state)
        assert drawn() == second
        seed_generators(2, "train")
        assert drawn() != first


def test_what_is_not_built_is_refused_with_how_it_is() -> None:
    import keras

    with pytest.raises(StateError) as refused:
        handle(keras.Sequential([keras.layers.Dense(1)], name="net"), path="kept.net")
    assert str(refused.value) == (
        "kept.net is <Sequential name=net, built=False> (Sequential), which is not built: it has no weights yet that "
        "could be brought back. Let it begin with keras.Input(shape=...), or call its build(input_shape), and keep "
        "it then."
    )
    with pytest.raises(StateError, match=r"Call its build\(model.trainable_variables\), and keep it then"):
        handle(keras.optimizers.Adam(), path="kept.optimizer")


def test_another_model_than_the_one_that_was_saved_is_refused() -> None:
    import keras

    given = handle(keras_net(), path="kept.net")
    deeper = handle(keras_net(keras.layers.Dense(6)), path="kept.net")
    bare = handle(keras_net(compiled=False), path="kept.net")
    assert given is not None
    assert deeper is not None
    assert bare is not None
    with pytest.raises(
        StateError, match=r"kept.net has variables of the shapes \[\(6, 1\), \(1,\)\] \(list\), and those that were"
    ):
        given.bring_back(deeper.weights(), deeper.rest())
    with pytest.raises(
        StateError, match=r"was not compiled when its state was saved, and now it is\. Compile it before"
    ):
        given.bring_back(bare.weights(), bare.rest())


def test_a_keras_callback_is_kept_with_what_it_compares_by() -> None:
    import keras

    one, other = (keras.callbacks.EarlyStopping(patience=2, min_delta=0.5) for _ in range(2))
    net = keras_net()
    net.fit(X, Y, epochs=2, validation_data=(X, Y), verbose=0, callbacks=[one])
    taken, given = handle(one, path="kept.enough"), handle(other, path="kept.enough")
    assert taken is not None
    assert given is not None
    plain, arrays = take_apart(taken.rest(), path="")
    given.bring_back(None, put_together(plain, arrays))
    mine = {"model", "params", "_model", "_params"}
    assert {k: v for k, v in vars(other).items() if k not in mine} == {
        k: v for k, v in vars(one).items() if k not in mine
    }
    assert other.monitor_op is keras.ops.less


def test_an_optimizer_that_stands_alone_is_kept() -> None:
    import keras

    net = keras_net(compiled=False)
    one, other = keras.optimizers.Adam(0.1), keras.optimizers.Adam(0.2)
    for optimizer in (one, other):
        optimizer.build(net.trainable_variables)
    one.iterations.assign(5)
    taken, given = handle(one, path="kept.optimizer"), handle(other, path="kept.optimizer")
    assert taken is not None
    assert given is not None
    given.bring_back(taken.weights(), taken.rest())
    assert int(other.iterations) == 5
    assert float(other.learning_rate) == pytest.approx(0.1)
