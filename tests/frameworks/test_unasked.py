"""Models of Keras and Lightning that the training function fits without our callback: it is put in for it, once."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import lightning
import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lines import HeldAtOne, Line, run_on, through_a_file
from torch.utils.data import DataLoader, TensorDataset

import etude
from etude.core.errors import ConfigError
from etude.core.signature import Signature
from etude.worker.bind import Bound
from etude.worker.run import Hold, Stop
from etude.worker.seeds import kept_generators

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries

logging.getLogger("lightning").setLevel(logging.ERROR)

X = np.random.RandomState(0).normal(size=(24, 6)).astype("float32")
Y = X[:, :1].copy()


def keras_model() -> Any:
    net = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4), keras.layers.Dropout(0.3), keras.layers.Dense(1)])
    net.compile("adam", "mse", metrics=["mae"])
    return net


def fit_keras(net: Any, *, epochs: int = 3, callbacks: Any = None, **options: Any) -> Any:
    enough = keras.callbacks.EarlyStopping(patience=20)
    history = net.fit(
        X, Y, batch_size=12, epochs=epochs, verbose=0, validation_data=(X, Y), callbacks=[*(callbacks or []), enough],
        **options,
    )  # fmt: skip
    return history.history, history.epoch, enough.best, [float(np.sum(weight)) for weight in net.get_weights()]


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Dropout(0.3), torch.nn.Linear(4, 1))

    def training_step(self, batch: Any, n: int) -> Any:
        loss = (self.net(batch[0]) - batch[1]).square().mean()
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, n: int) -> None:
        self.log("val_loss", (self.net(batch[0]) - batch[1]).square().mean())

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam(self.parameters(), 0.01)

    def configure_callbacks(self) -> Any:
        return EarlyStopping("val_loss", patience=20)


def trainer_of(*, epochs: int = 3, callbacks: Any = None, checkpointing: bool = False) -> Any:
    return lightning.Trainer(
        max_epochs=epochs,
        callbacks=callbacks,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=checkpointing,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def loaders() -> tuple[Any, Any]:
    rows = TensorDataset(torch.tensor(X), torch.tensor(Y))
    return DataLoader(rows, 12, shuffle=True), DataLoader(rows, 24)


def fit_lightning(
    net: Any, *, epochs: int = 3, callbacks: Any = None, ckpt_path: Any = None, trainer: Any = None
) -> Any:
    trainer = trainer or trainer_of(epochs=epochs, callbacks=callbacks)
    trainer.fit(net, *loaders(), ckpt_path=ckpt_path)
    [enough] = [one for one in trainer.callbacks if isinstance(one, EarlyStopping)]
    return trainer.global_step, float(enough.best_score), [float(p.double().sum()) for p in net.parameters()]


Fit = Callable[..., Any]

FITS = [pytest.param(fit_keras, id="keras"), pytest.param(fit_lightning, id="lightning")]


def model_of(fit: Fit) -> Callable[[], Any]:
    return keras_model if fit is fit_keras else Net


def run_with(fit: Fit, train: Any, line: Line, folder: Path, *, auto_report: bool = True, metric: str = "loss") -> Any:
    """Call a training function as a trial does."""
    run = run_on(line, folder, metric, auto_report=auto_report)
    functions = {"model": model_of(fit), "train": train}
    with kept_generators():
        return Bound(functions, Signature.read(functions), {}, run).train()


@pytest.mark.parametrize("fit", FITS)
def test_each_epoch_is_reported_and_saved_without_a_call(fit: Fit, tmp_path: Path) -> None:
    line, alone = Line(), Line()
    came = run_with(fit, lambda model: fit(model()), line, tmp_path)
    assert [state.epoch for state in line.states] == [1, 2, 3]
    assert [sorted(metrics) for metrics in line.reports] == [
        ["loss", "mae", "val_loss", "val_mae"] if fit is fit_keras else ["loss", "val_loss"]
    ] * 3
    if fit is fit_keras:
        assert [metrics["loss"] for metrics in line.reports] == came[0]["loss"]
    assert run_with(fit, lambda model: fit(model()), alone, tmp_path, auto_report=False) == came
    assert (alone.reports, alone.states) == ([], [])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fit", FITS)
def test_a_stop_ends_the_training(fit: Fit, tmp_path: Path) -> None:
    class HaltedAtOne(Line):
        def report(self, step: int, metrics: dict[str, float]) -> None:
            super().report(step, metrics)
            self.halted = True

    line = HaltedAtOne()
    with pytest.raises(Stop):
        run_with(fit, lambda model: fit(model(), epochs=9), line, tmp_path)
    gc.collect()  # Keras has a thread for its callbacks
    assert len(line.reports) == 1


@pytest.mark.parametrize("fit", FITS)
def test_an_attempt_that_goes_on_comes_to_the_same_with_its_history_and_its_patience(fit: Fit, tmp_path: Path) -> None:
    paused = HeldAtOne()
    with pytest.raises(Hold):
        run_with(fit, lambda model: fit(model()), paused, tmp_path)
    gc.collect()
    assert [state.epoch for state in paused.states] == [1]
    rest = Line(before=through_a_file(paused.states[0], tmp_path))
    came = run_with(fit, lambda model: fit(model()), rest, tmp_path)
    assert came == run_with(fit, lambda model: fit(model()), Line(), tmp_path, auto_report=False)
    assert [state.epoch for state in rest.states] == [2, 3]
    assert len(rest.reports) == 2


@pytest.mark.parametrize("fit", FITS)
def test_where_our_callback_is_passed_nothing_happens_twice(fit: Fit, tmp_path: Path) -> None:
    line = Line()

    def train(model: Any, run: Any) -> None:
        net, ours = model(), etude.callback(fit.__name__.removeprefix("fit_"), run)
        if fit is fit_keras:
            fit(net, callbacks=[ours])
        else:
            trainer = trainer_of(callbacks=[ours], checkpointing=True)
            fit(net, trainer=trainer, ckpt_path=ours.ckpt_path(trainer))
            assert len([one for one in trainer.callbacks if type(one).__name__ == "Callback"]) == 1

    run_with(fit, train, line, tmp_path)
    assert (len(line.reports), len(line.states)) == (3, 3)


@pytest.mark.parametrize("fit", FITS)
def test_our_callback_may_follow_a_fit_without_it(fit: Fit, tmp_path: Path) -> None:
    line = Line()

    def train(model: Any, run: Any) -> None:
        net = model()
        fit(net, epochs=2)
        ours = etude.callback(fit.__name__.removeprefix("fit_"), run)
        if fit is fit_keras:
            fit(net, callbacks=[ours])
        else:
            trainer = trainer_of(callbacks=[ours], checkpointing=True)
            fit(net, trainer=trainer, ckpt_path=ours.ckpt_path(trainer))

    run_with(fit, train, line, tmp_path)
    assert [(state.loop, state.epoch) for state in line.states] == [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)]
    assert len(line.reports) == 5


@pytest.mark.parametrize("fit", FITS)
def test_whoever_has_a_loop_of_epochs_is_left_alone(fit: Fit, tmp_path: Path) -> None:
    line = Line()

    def train(model: Any, run: Any) -> None:
        net = model()
        for epoch in run.epochs(2):
            fit(net, epochs=1)
            run.report(loss=epoch)
        fit(net, epochs=1)

    run_with(fit, train, line, tmp_path)
    assert line.reports == [{"loss": 0.0}, {"loss": 1.0}]


@pytest.mark.parametrize("fit", FITS)
def test_a_metric_that_the_function_reports_by_a_callback_of_its_own_counts_once(fit: Fit, tmp_path: Path) -> None:
    line = Line()

    def train(model: Any, run: Any) -> None:
        class Own(Callback):
            def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
                run.report(loss=7.0)

        own = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: run.report(loss=7.0))
        fit(model(), callbacks=[own if fit is fit_keras else Own()])

    run_with(fit, train, line, tmp_path)
    assert [metrics["loss"] for metrics in line.reports if "loss" in metrics] == [7.0] * 3
    assert ["val_loss" in metrics for metrics in line.reports] == [False, True] * 3


@pytest.mark.parametrize("fit", FITS)
def test_a_second_fit_is_reported_and_the_first_is_what_is_saved(fit: Fit, tmp_path: Path) -> None:
    def train(model: Any) -> Any:
        net, other = model(), model()
        fit(net, epochs=2)
        fit(other, epochs=1)
        return fit(net, epochs=2)

    line = Line()
    came = run_with(fit, train, line, tmp_path)
    assert [(state.loop, state.epoch) for state in line.states] == [(0, 1), (0, 2)]
    assert len(line.reports) == 5
    again = Line(before=through_a_file(line.states[0], tmp_path))
    assert run_with(fit, train, again, tmp_path) == came
    assert len(again.reports) == 4


def test_a_trainer_of_lightning_may_fit_twice_and_test_in_between(tmp_path: Path) -> None:
    line = Line()

    def train(model: Any) -> None:
        trainer, net = trainer_of(epochs=2), model()
        fit_lightning(net, trainer=trainer)
        trainer.validate(net, loaders()[1], verbose=False)
        trainer.fit_loop.max_epochs = 3
        fit_lightning(net, trainer=trainer)

    run_with(fit_lightning, train, line, tmp_path)
    assert len(line.reports) == 3
    assert len(line.states) == 2


def test_what_lightning_is_to_begin_with_is_there_in_a_first_attempt_alone(tmp_path: Path) -> None:
    trainer = trainer_of(epochs=1)
    trainer.fit(Net(), *loaders())
    trainer.save_checkpoint(tmp_path / "earlier.ckpt")

    def train(model: Any) -> Any:
        return fit_lightning(model(), epochs=4, ckpt_path=tmp_path / "earlier.ckpt")

    line = Line()
    came = run_with(fit_lightning, train, line, tmp_path)
    assert came[0] == 8
    assert len(line.reports) == 3
    again = Line(before=through_a_file(line.states[1], tmp_path))
    assert run_with(fit_lightning, train, again, tmp_path) == came
    assert len(again.reports) == 1


def test_checkpoints_of_lightning_stay_what_they_are(tmp_path: Path) -> None:
    own = ModelCheckpoint(tmp_path / "own", save_top_k=-1, every_n_epochs=1)

    def train(model: Any) -> None:
        trainer = lightning.Trainer(
            max_epochs=2, callbacks=[own], accelerator="cpu", logger=False, enable_progress_bar=False
        )
        fit_lightning(model(), trainer=trainer)

    line = Line()
    run_with(fit_lightning, train, line, tmp_path)
    assert sorted(path.name for path in (tmp_path / "own").iterdir()) == ["epoch=0-step=2.ckpt", "epoch=1-step=4.ckpt"]
    assert len(line.states) == 2


def test_what_cannot_be_saved_is_reported_and_a_note_says_why(tmp_path: Path) -> None:
    class Odd(Callback):
        def state_dict(self) -> dict[str, Any]:
            return {"thing": object()}

    line = Line()
    run_with(fit_lightning, lambda model: fit_lightning(model(), callbacks=[Odd()]), line, tmp_path)
    assert (len(line.reports), line.states) == (3, [])
    [_, note] = line.notes
    assert note.startswith("What model() returned is reported after each epoch, and not saved: ")
    assert "which no file can hold without pickling it" in note


def test_a_callback_of_keras_may_come_in_any_way(tmp_path: Path) -> None:
    def given(*args: Any, **options: Any) -> int:
        line = Line()
        run_with(fit_keras, lambda model: model().fit(X, Y, *args, **options), line, tmp_path)
        return len(line.reports)

    assert given(None, 2, 0) == 2
    assert given(12, 2, 0, [keras.callbacks.TerminateOnNaN()]) == 2
    assert given(epochs=2, verbose=0, callbacks=keras.callbacks.TerminateOnNaN()) == 2
    assert given(epochs=2, verbose=0, callbacks=(keras.callbacks.TerminateOnNaN(),)) == 2


def test_a_list_of_callbacks_that_keras_has_made_already_is_left_as_it_is(tmp_path: Path) -> None:
    def train(model: Any) -> None:
        net = model()
        listed = keras.callbacks.CallbackList([], add_history=True, model=net, epochs=2)
        net.fit(X, Y, epochs=2, verbose=0, callbacks=listed)

    line = Line()
    run_with(fit_keras, train, line, tmp_path)
    assert line.reports == []


def test_a_model_that_has_a_fit_of_its_own_keeps_it(tmp_path: Path) -> None:
    seen = []

    class Own(keras.Sequential):
        def fit(self, x: Any, y: Any) -> Any:
            seen.append("own")
            return super().fit(x, y, epochs=2, verbose=0)

    def model() -> Any:
        net = Own([keras.Input((6,)), keras.layers.Dense(1)])
        net.compile("adam", "mse")
        return net

    line = Line()
    run = run_on(line, tmp_path, auto_report=True)
    functions = {"model": model, "train": lambda model: model().fit(X, Y)}
    Bound(functions, Signature.read(functions), {}, run).train()
    assert seen == ["own"]
    assert line.reports == []  # it takes no callbacks


def test_a_metric_that_is_logged_of_validation_data_alone_is_the_study_s(tmp_path: Path) -> None:
    class Judged(Net):
        def validation_step(self, batch: Any, n: int) -> None:
            super().validation_step(batch, n)
            self.log("val_score", 0.5)

    line = Line()
    run = run_on(line, tmp_path, "score", auto_report=True)
    functions = {"model": Judged, "train": lambda model: fit_lightning(model(), epochs=1)}
    Bound(functions, Signature.read(functions), {}, run).train()
    [metrics] = line.reports
    assert metrics["score"] == metrics["val_score"] == 0.5
    assert line.notes == []


def test_a_metric_of_the_training_data_is_taken_at_its_word_and_a_note_says_so(tmp_path: Path) -> None:
    line = Line()
    came = run_with(fit_keras, lambda model: fit_keras(model()), line, tmp_path, metric="mae")
    assert [metrics["mae"] for metrics in line.reports] == came[0]["mae"]
    assert line.notes == [
        "The trainer logs 'mae' and 'val_mae', and the study goes by 'mae', which by its name is of the training data. "
        "If the validation data is to count, say metric='val_mae'."
    ]
    line = Line()
    run_with(fit_keras, lambda model: fit_keras(model()), line, tmp_path, metric="val_mae")
    assert line.notes == []


@pytest.mark.parametrize("fit", FITS)
def test_a_plain_call_is_a_trial_and_leaves_the_libraries_as_they_were(fit: Fit, tmp_path: Path) -> None:
    before = keras.Model.fit, lightning.Trainer.fit, Net.configure_callbacks
    models = []

    def train(model: Any) -> Any:
        models.append(model())
        return fit(models[-1])

    made = model_of(fit)
    experiment = etude.Experiment(train, model=made, metric="loss", mode="min")
    silent = etude.Experiment(lambda model: fit(model()), model=made, metric="loss", mode="min", auto_report=False)
    assert experiment.run() == silent.run()
    assert (keras.Model.fit, lightning.Trainer.fit, Net.configure_callbacks) == before
    assert type(models[0]).__name__ in ("Sequential", "Net")
    assert experiment.check().reported["loss"] < 3  # one epoch is enough to see that; Lightning begins another


def test_whether_to_report_is_said_with_true_or_false() -> None:
    with pytest.raises(ConfigError) as refused:
        etude.Experiment(lambda: 0.0, metric="loss", mode="min", auto_report="no")  # type: ignore[arg-type]
    assert str(refused.value) == "auto_report='no' (str) is neither True nor False. Pass one of them."
