"""Keras on two ranks: its ``fit`` comes to what one rank comes to, or is refused with the way out."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from support import run_script, write_script

SCRIPT = """
    import os, signal, sys, time, warnings
    from pathlib import Path
    import keras, numpy as np, torch
    from torch.utils.data import DataLoader, TensorDataset
    import etude

    warnings.simplefilter("ignore")

    def rows():
        x = torch.randn(44, 6, generator=torch.Generator().manual_seed(0))
        return x, x.sum(1, keepdim=True)

    def model(kind: str = "plain"):
        layers = [keras.Input((6,)), keras.layers.Dense(8, "tanh")]
        if kind == "drawn":
            layers += [keras.layers.BatchNormalization(), keras.layers.Dropout(0.3)]
        if kind == "unbuilt":
            layers = layers[1:]
        made = keras.Sequential([*layers, keras.layers.Dense(1)])
        made.compile(keras.optimizers.Adam(0.05), "mse")
        return made

    def data():
        rows_ = TensorDataset(*rows())
        return DataLoader(rows_, 8, shuffle=True), DataLoader(rows_, 24)

    class Deadly(keras.callbacks.Callback):
        def __init__(self, run):
            super().__init__()
            self.run = run

        def on_epoch_begin(self, epoch, logs=None):
            flag = self.run.folder.parents[1] / "killed"
            if (epoch, self.run.rank) == (3, 1) and not flag.exists():
                while len(list(self.run.folder.parent.glob("checkpoints/*.rest.safetensors"))) < 2:
                    time.sleep(0.01)
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    def train(model, data, run, given: str = "loader", deadly: bool = False):
        net, (loader, valid) = model(), data()
        x, y = rows()
        x, y = {
            "loader": (loader, None),
            "other": (DataLoader(TensorDataset(x, y), 8), None),
            "arrays": (x.numpy(), y.numpy()),
        }[given]
        callbacks = [*([Deadly(run)] if deadly else []), etude.callback("keras", run)]
        history = net.fit(x, y, epochs=5, validation_data=valid, verbose=0, callbacks=callbacks)
        seeds = [int(v.numpy()[0]) for v in net.variables if v.path.endswith("seed_generator_state")]
        print("ends with", [repr(float(np.sum(w))) for w in net.get_weights()], flush=True)
        print("seeds", seeds, flush=True)

    def in_a_loop(model, data, run):
        net, (loader, valid) = model(), data()
        criterion = run.criterion(torch.nn.MSELoss())
        optimizer = torch.optim.Adam(net.parameters(), 0.05)
        for epoch in run.epochs(2):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(net(x, training=True), y).backward()
                optimizer.step()
            run.report(val_loss=float(net.evaluate(valid, verbose=0)), loss=0.0)

    def log(study, rank, attempt=1):
        folder = study.folder / "trials" / "00000" / f"attempt-{attempt}"
        lines = (folder / (f"rank-{rank}" if rank else "") / "log.txt").read_text().splitlines()
        return {line.split()[0]: line for line in lines}

    def close(a, b):
        return len(a) == len(b) and np.allclose(a, b, rtol=1e-5)

    def fit(function, given, ranks=2, **more):
        experiment = etude.Experiment(function, model=model, data=data, metric=METRIC)
        return experiment.fit(at=given, seed=1, ranks=ranks, **more)

    METRIC = {"val_loss": "min", "loss": "min"}

    if __name__ == "__main__":
        alone, both = fit(train, {}, 1), fit(train, {}, 2)
        assert both.trials[0].state == "finished", both.trials[0].traceback
        assert close(alone.trials[0].curve, both.trials[0].curve), (alone.trials[0].curve, both.trials[0].curve)
        # What fit says of the training is the mean over all examples.
        assert close([alone.trials[0].values["loss"]], [both.trials[0].values["loss"]]), both.trials[0].values
        assert log(both, 0)["ends"] == log(both, 1)["ends"]

        quiet, killed = fit(train, {"kind": "drawn"}), fit(train, {"kind": "drawn", "deadly": True})
        assert quiet.trials[0].state == "finished", quiet.trials[0].traceback
        assert killed.trials[0].attempts == 2, killed.trials[0].reason
        assert killed.trials[0].curve == quiet.trials[0].curve
        assert log(quiet, 0)["seeds"] != log(quiet, 1)["seeds"]  # dropout is each rank's own
        assert log(quiet, 0)["ends"] == log(killed, 0, 2)["ends"]
        # All weights are alike, running statistics included; the seeds are no weights.
        assert log(quiet, 0)["ends"] == log(quiet, 1)["ends"]

        measured = etude.partitions.SnakeStripes(warmup=1, interval=1, ignore=0)
        for told in (
            fit(train, {"given": "arrays"}),
            fit(train, {"given": "other"}),
            fit(train, {"kind": "unbuilt"}),
            fit(train, {}, partition=measured),
            fit(train, {}, parallel="fsdp"),
        ):
            [trial] = told.trials
            assert trial.state == "failed"
            print(trial.reason.partition(": ")[2])
        for partition, function in ((etude.partitions.Random(), train), (measured, in_a_loop)):
            [trial] = fit(function, {}, partition=partition).trials
            assert trial.state == "finished", trial.traceback
        print("equal")
"""

TOLD = [
    "ConfigError: Keras's fit was called with ndarray objects, and only loaders that data() gives for training are "
    "divided over ranks: each rank would train on all examples. Return DataLoader(TensorDataset(x, y), batch_size=..., "
    "shuffle=True) from data(), and pass that to fit.",
    "ConfigError: Keras's fit was called with a DataLoader that data() did not give, and only loaders that data() "
    "gives for training are divided over ranks: each rank would train on all examples. Return it from data(), and pass "
    "what data() gives.",
    "ConfigError: model() returned a Sequential of Keras that is not built: it has no weights yet whose gradients "
    "could be averaged. Let it begin with keras.Input(shape=...), or call its build(input_shape).",
    "ConfigError: Keras's fit cannot be with a partition by importance: it computes its loss where run.criterion does "
    "not see it. Write the loop yourself, with criterion = run.criterion(...); or take a partition that goes by no "
    "measure, such as partition=etude.partitions.Random().",
    'ConfigError: Sequential is a model of Keras, whose variables FSDP cannot shard. Use parallel="ddp".',
    "equal",
]


@pytest.mark.thorough
def test_keras_on_two_ranks(tmp_path: Path) -> None:
    pytest.importorskip("keras")
    done = run_script(write_script(tmp_path, textwrap.dedent(SCRIPT)), patience_s=600.0)
    assert (done.returncode, done.stdout.splitlines()) == (0, TOLD), done.stderr
