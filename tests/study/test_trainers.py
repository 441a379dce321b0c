"""Trainers of other libraries: killed at some steps, they come bit by bit to what they come to undisturbed."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from support import run_script, write_script

HEAD = """
    import os, random, signal, sys, time, warnings
    from pathlib import Path
    import numpy as np
    import etude

    warnings.simplefilter("ignore")
    PLACE = Path(__file__).parent
    DEADLY = PLACE / "deadly"
    calls = [0]

    def may_be_killed(run):
        # At a step of each of the first attempts; and of the first not before a state of it is surely in the journal.
        calls[0] += 1
        attempt = len(list(PLACE.glob(f"kill-{run.trial}-*")))
        if not DEADLY.exists() or attempt == 3 or calls[0] != (14, 3, 10)[attempt]:
            return
        while attempt == 0 and len(list(run.folder.glob("checkpoints/*.rest.safetensors"))) < 2:
            time.sleep(0.01)
        (PLACE / f"kill-{run.trial}-{attempt}").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    draw = np.random.RandomState(0)
    X = draw.normal(size=(48, 6)).astype("float32")
    Y = X @ draw.normal(size=(6, 1)).astype("float32")
"""

TAIL = """
    def tune(train, name, model=None):
        search = etude.Experiment(train, model=model, metric="val_loss", mode="min").tune(
            {"lr": etude.loguniform(1e-3, 1e-1)}, trials=2, workers=1, retries=20, sampler="random", stopper="none",
            name=name,
        )
        found = [(t.number, t.reason, t.value, t.curve, t.metrics) for t in search.trials]
        assert search.counts() == {"finished": 2}, found
        return found, [t.attempts for t in search.trials]

    if __name__ == "__main__":
        for n, train in enumerate(TRAIN):
            model = globals().get("MODELS", [None] * len(TRAIN))[n]
            expected, _ = tune(train, f"quiet-{n}", model)
            DEADLY.touch()
            found, attempts = tune(train, f"killed-{n}", model)
            assert min(attempts) >= 3, attempts
            assert found == expected, f"{train}\\n{found}\\n{expected}"
            DEADLY.unlink()
            for kill in PLACE.glob("kill-*"):
                kill.unlink()
        print("equal")
"""

SKLEARN = """
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.neural_network import MLPRegressor

    def train(run, lr: float):
        net = MLPRegressor(hidden_layer_sizes=(8,), learning_rate_init=lr)
        kept = run.keep(net=net, seen=[])
        for epoch in run.epochs(6):
            order = np.random.permutation(48)
            for part in np.split(order, 4):
                may_be_killed(run)
                net.partial_fit(X[part], Y[part, 0])
            kept.seen = [*kept.seen, int(order[0])]
            run.report(val_loss=float(np.square(net.predict(X) - Y[:, 0]).mean()))
        return {"val_loss": run.last["val_loss"], "seen": kept.seen, "sum": float(net.coefs_[0].sum())}

    def grown(run, lr: float):
        forest = GradientBoostingRegressor(n_estimators=3, learning_rate=lr, subsample=0.7, warm_start=True)
        run.keep(forest=forest)
        for epoch in run.epochs(18):
            may_be_killed(run)
            forest.set_params(n_estimators=3 * (epoch + 1)).fit(X, Y[:, 0])
            run.report(val_loss=float(np.square(forest.predict(X) - Y[:, 0]).mean()))
        came = {"trees": len(forest.estimators_), "sum": float(forest.predict(X).sum())}
        return {"val_loss": run.last["val_loss"], **came}

    TRAIN = [train, grown]
"""

KERAS = """
    import keras

    def in_a_loop(run, lr: float):
        model = keras.Sequential([
            keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.3), keras.layers.Dense(1),
        ])
        model.compile(keras.optimizers.Adam(lr), "mse")
        run.keep(model=model)
        for epoch in run.epochs(5):
            model.reset_metrics()
            for part in np.split(np.random.permutation(48), 4):
                may_be_killed(run)
                noise = keras.ops.convert_to_numpy(keras.random.normal((12, 6), stddev=0.1))
                model.train_on_batch(X[part] + noise, Y[part])
            run.report(val_loss=float(model.test_on_batch(X, Y)))
        return {"val_loss": run.last["val_loss"], "sums": [float(np.sum(w)) for w in model.get_weights()]}

    class Chaos(keras.callbacks.Callback):
        def __init__(self, run):
            super().__init__()
            self.run = run

        def on_train_batch_end(self, batch, logs=None):
            may_be_killed(self.run)

    def by_fit(run, lr: float):
        model = keras.Sequential([
            keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.3), keras.layers.Dense(1),
        ])
        model.compile(keras.optimizers.Adam(lr), "mse")
        slower = keras.callbacks.ReduceLROnPlateau(patience=0, factor=0.7, min_delta=0.2)
        enough = keras.callbacks.EarlyStopping(patience=3, min_delta=1.5, restore_best_weights=True)
        run.keep(slower=slower, enough=enough)
        callbacks = [Chaos(run), slower, enough, etude.callback("keras", run)]
        history = model.fit(
            X, Y, batch_size=12, epochs=9, validation_data=(X, Y), verbose=0, callbacks=callbacks,
        )
        return {
            "val_loss": history.history["val_loss"][-1],
            "sums": [float(np.sum(w)) for w in model.get_weights()],
            "best": enough.best, "slowed_to": float(model.optimizer.learning_rate), "stopped": enough.stopped_epoch,
        }

    TRAIN = [in_a_loop, by_fit]
"""

LIGHTNING = """
    import logging
    import lightning
    import torch
    from lightning.pytorch.callbacks import EarlyStopping
    from torch.utils.data import DataLoader, TensorDataset

    logging.getLogger("lightning").setLevel(logging.ERROR)

    class Net(lightning.LightningModule):
        def __init__(self, run, lr):
            super().__init__()
            self.run, self.lr = run, lr
            self.save_hyperparameters({"anything": Path})
            self.net = torch.nn.Sequential(
                torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)
            )

        def training_step(self, batch, n):
            may_be_killed(self.run)
            x, y = batch
            loss = (self.net(x + 0.1 * torch.randn_like(x)) - y).square().mean()
            self.log("loss", loss, on_epoch=True)
            return loss

        def validation_step(self, batch, n):
            x, y = batch
            self.log("val_loss", (self.net(x) - y).square().mean())

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), self.lr)
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.7, threshold=0.05)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "val_loss"}}

    def fitted(run, lr, *callbacks, **options):
        data = TensorDataset(torch.tensor(X), torch.tensor(Y))
        net = Net(run, lr)
        ours = etude.callback("lightning", run)
        trainer = lightning.Trainer(
            callbacks=[ours, *callbacks], accelerator="cpu", logger=False, enable_progress_bar=False,
            enable_model_summary=False, **options,
        )
        trainer.fit(
            net, DataLoader(data, batch_size=12, shuffle=True), DataLoader(data, batch_size=24),
            ckpt_path=ours.ckpt_path(trainer),
        )
        assert not list(run.folder.glob("*.ckpt"))
        return {
            "val_loss": float(trainer.callback_metrics["val_loss"]), "epoch": trainer.current_epoch,
            "step": trainer.global_step, "lr_at_last": trainer.optimizers[0].param_groups[0]["lr"],
            "sums": [float(p.double().sum()) for p in net.parameters()],
        }

    def to_the_end(run, lr: float):
        return fitted(run, lr, max_epochs=6)

    def until_enough(run, lr: float):
        return fitted(run, lr, EarlyStopping("val_loss", patience=3, min_delta=1.5), max_epochs=-1)

    TRAIN = [to_the_end, until_enough]
"""

TRANSFORMERS = """
    import torch
    from torch import nn
    from transformers import EarlyStoppingCallback, PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
    from transformers.utils import logging

    logging.set_verbosity_error()

    class Config(PretrainedConfig):
        model_type = "small"

    class Net(PreTrainedModel):
        config_class = Config

        def __init__(self, config, run):
            super().__init__(config)
            self.run = run
            self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
            self.post_init()

        def _init_weights(self, module):
            pass

        def forward(self, x, labels=None):
            if self.training:
                may_be_killed(self.run)
                x = x + 0.1 * torch.randn_like(x)
            out = self.net(x)
            return {"loss": (out - labels).square().mean(), "logits": out}

    def fitted(run, lr, *callbacks, **options):
        rows = [{"x": x, "labels": y} for x, y in zip(X, Y)]
        ours = etude.callback("transformers", run, names={"eval_loss": "val_loss"})
        args = TrainingArguments(
            output_dir=str(run.folder / "trainer"), seed=run.seed % 2**32, learning_rate=lr,
            per_device_train_batch_size=12, logging_strategy="epoch", eval_strategy="epoch", use_cpu=True,
            report_to="none", disable_tqdm=True, **options,
        )
        net = Net(Config(), run)
        trainer = Trainer(net, args, train_dataset=rows, eval_dataset=rows, callbacks=[ours, *callbacks])
        trainer.train(resume_from_checkpoint=ours.checkpoint())
        left = {path.name for path in run.folder.iterdir()} | {path.name for path in run.folder.glob("trainer/*")}
        assert args.save_strategy != "no" or not left & {"resume", *(f"checkpoint-{n}" for n in range(99))}, left
        return {
            "val_loss": run.last["val_loss"], "step": trainer.state.global_step,
            "sums": [float(p.double().sum()) for p in net.parameters()],
            "losses": [row["loss"] for row in trainer.state.log_history if "loss" in row],
        }

    def to_the_end(run, lr: float):
        return fitted(run, lr, num_train_epochs=6, save_strategy="no")

    def until_enough(run, lr: float):
        return fitted(
            run, lr, EarlyStoppingCallback(3, 1.5), num_train_epochs=20, save_strategy="epoch", save_total_limit=1,
            load_best_model_at_end=False, metric_for_best_model="eval_loss", greater_is_better=False,
        )

    TRAIN = [to_the_end, until_enough]
"""

BOOSTERS = """
    import lightgbm, xgboost

    L = (Y[:, 0] > 0).astype(int)

    class Chaos(xgboost.callback.TrainingCallback):
        def __init__(self, run):
            self.run = run

        def before_iteration(self, model, epoch, evals_log):
            may_be_killed(self.run)
            return False

    def by_xgboost(run, lr: float):
        rows, log = xgboost.DMatrix(X[:32], L[:32]), {}
        booster = xgboost.train(
            {"objective": "binary:logistic", "eta": lr, "nthread": 1}, rows, 40,
            evals=[(xgboost.DMatrix(X[32:], L[32:]), "valid")], evals_result=log, verbose_eval=False,
            callbacks=[Chaos(run), etude.callback("xgboost", run, names={"valid-logloss": "val_loss"})],
            early_stopping_rounds=20,
        )
        predicted = booster.predict(xgboost.DMatrix(X))
        return {
            "val_loss": log["valid"]["logloss"][-1], "log": log["valid"]["logloss"],
            "rounds": booster.num_boosted_rounds(), "best": booster.best_iteration, "sum": float(predicted.sum()),
        }

    def by_an_estimator(run, lr: float):
        ours = etude.callback("lightgbm", run, names={"binary_logloss": "val_loss"})

        def chaos(env):
            may_be_killed(run)

        chaos.before_iteration = True
        made = lightgbm.LGBMClassifier(
            n_estimators=ours.rounds(40), learning_rate=lr, min_child_samples=4, n_jobs=1, verbosity=-1,
        )
        enough = ours.beside(lightgbm.early_stopping(30, verbose=False))
        made.fit(
            X[:32], L[:32], eval_X=(X[32:],), eval_y=(L[32:],), init_model=ours.init_model(),
            callbacks=[chaos, ours, enough],
        )
        return {
            "val_loss": made.best_score_["valid_0"]["binary_logloss"], "best": made.best_iteration_,
            "rounds": made.booster_.current_iteration(), "sum": float(made.predict_proba(X)[:, 0].sum()),
        }

    TRAIN = [by_xgboost, by_an_estimator]
"""

UNASKED = (
    KERAS
    + LIGHTNING
    + """
    def keras_model():
        net = keras.Sequential([
            keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.3), keras.layers.Dense(1),
        ])
        net.compile(keras.optimizers.Adam(0.05), "mse")
        return net

    MODELS = [keras_model, lambda: Net(None, 0.05)]

    def keras_alone(model, run, lr: float):
        net = model()
        enough = keras.callbacks.EarlyStopping(patience=2, min_delta=1.0, restore_best_weights=True)
        history = net.fit(
            X, Y, batch_size=12, epochs=9, validation_data=(X, Y), verbose=0, callbacks=[Chaos(run), enough],
        ).history
        return {
            "val_loss": min(history["val_loss"]), "history": history, "best": enough.best,
            "sums": [float(np.sum(w)) for w in net.get_weights()],
        }

    def lightning_alone(model, run, lr: float):
        data = TensorDataset(torch.tensor(X), torch.tensor(Y))
        net = model()
        net.run, net.lr = run, lr
        trainer = lightning.Trainer(
            max_epochs=6, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
            enable_checkpointing=False, callbacks=[EarlyStopping("val_loss", patience=4, min_delta=0.5)],
        )
        trainer.fit(net, DataLoader(data, batch_size=12, shuffle=True), DataLoader(data, batch_size=24))
        return {
            "val_loss": float(trainer.callback_metrics["val_loss"]), "epoch": trainer.current_epoch,
            "step": trainer.global_step, "sums": [float(p.double().sum()) for p in net.parameters()],
        }

    TRAIN = [keras_alone, lightning_alone]
"""
)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(SKLEARN, id="scikit-learn"),
        pytest.param(KERAS, id="keras"),
        pytest.param(LIGHTNING, id="lightning"),
        pytest.param(TRANSFORMERS, id="transformers"),
        pytest.param(BOOSTERS, id="boosters"),
        pytest.param(UNASKED, id="without a call"),
    ],
)
@pytest.mark.thorough
def test_a_trainer_that_is_killed_comes_to_what_one_comes_to_that_is_not(body: str, tmp_path: Path) -> None:
    script = write_script(tmp_path, textwrap.dedent(HEAD) + textwrap.dedent(body) + textwrap.dedent(TAIL))
    done = run_script(script, patience_s=600.0)  # loading such a library takes a process ten seconds
    assert (done.returncode, done.stdout) == (0, "equal\n"), done.stderr


SILENT = """
    import keras, numpy as np, etude

    X = np.zeros((24, 6), "float32")

    def model():
        net = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
        net.compile("sgd", "mse")
        return net

    def train(model, lr: float):
        model().fit(X, X[:, :1], epochs=2, verbose=0)

    def tune(metric, **options):
        experiment = etude.Experiment(train, model=model, metric=metric, mode="min", **options)
        return experiment.tune({"lr": [0.1]}, trials=1, workers=1, name=metric)

    if __name__ == "__main__":
        [trial] = tune("loss").trials
        assert (trial.state, len(trial.curve)) == ("finished", 2), trial.traceback
        assert tune("loss").trials[0].weights is not None
        for metric, options in (("val_loss", {}), ("f1", {"auto_report": False}), ("loss", {"auto_report": False})):
            try:
                tune(metric, **options)
            except etude.StudyError as error:
                print(error)
"""


def test_whether_trainers_are_reported_unasked_is_part_of_a_study_and_what_they_log_of_its_errors(
    tmp_path: Path,
) -> None:
    done = run_script(write_script(tmp_path, SILENT), patience_s=300.0)
    assert done.returncode == 0, done.stderr
    first, second, *third = done.stdout.splitlines()
    assert first.partition(" No trial has gone well so far")[0] == (
        "Trial 0 gave no result: The metric 'val_loss' never came: the training function returned nothing, and "
        "reported 'loss'. Its trainer logs 'loss': name one of them as the metric, or have it log 'val_loss'. It logs "
        "'val_loss' once it is given validation data. Else return a number or {'val_loss': ...}, or call "
        "run.report(val_loss=...) at least once."
    )
    assert second.partition(" No trial has gone well so far")[0] == (
        "Trial 0 gave no result: The metric 'f1' never came: the training function returned nothing, and reported "
        "none. Return a number or {'f1': ...}, or call run.report(f1=...) at least once."
    )
    assert third[0] == "The study 'loss' began with another definition:"
    assert [line.strip() for line in third if "auto_report" in line] == ["added auto_report: False"]
