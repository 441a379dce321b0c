"""Trainers that distribute themselves, each with two ranks in a script of its own.

Weights are the same on both ranks, each example is one rank's in an epoch, a stop is agreed, and a rank that is killed
changes nothing.
"""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest
from support import run_script, write_script

HEAD = """
    import os, re, signal, sys, time, warnings
    from pathlib import Path
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    import etude

    warnings.simplefilter("ignore")
    PLACE = Path(__file__).parent
    DEADLY, STOPS = PLACE / "deadly", PLACE / "stops"
    EPOCHS, STEPS = 5, 4
    draw = torch.Generator().manual_seed(0)
    X = torch.cat([torch.arange(48.0)[:, None] / 48, torch.randn(48, 5, generator=draw)], dim=1)
    Y = X @ torch.randn(6, 1, generator=draw)
    calls = [0]

    def seen(run, x):
        # Tells which examples are trained on. Rank 1 may be killed there, when a state is surely in the journal.
        print("saw", *(x[:, 0] * 48).round().int().tolist(), flush=True)
        calls[0] += 1
        if not DEADLY.exists() or run.rank == 0 or calls[0] != 3 * STEPS + 2:
            return
        if (PLACE / "killed").exists():
            return
        while len(list(run.folder.parent.glob("checkpoints/*.rest.safetensors"))) < 2:
            time.sleep(0.01)
        (PLACE / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)

    def data():
        rows = TensorDataset(X, Y)
        return DataLoader(rows, batch_size=6, shuffle=True), DataLoader(rows, batch_size=24)

    def tell(net):
        print("ends with", *(repr(float(p.detach().double().sum())) for p in net.parameters()), flush=True)
"""

TAIL = """
    class AfterTwo:
        def decide(self, report, standing):
            return etude.Decision(etude.Act.STOP, "enough") if report.step == 2 else etude.GO_ON

    def logs(study, attempt):
        folder = study.folder / "trials" / "00000" / f"attempt-{attempt}"
        return [(folder / place / "log.txt").read_text() for place in ("", "rank-1")]

    def saw(log):
        return [list(map(int, line.split()[1:])) for line in log.splitlines() if line.startswith("saw ")]

    def end(log):
        return next(line for line in log.splitlines() if line.startswith("ends with"))

    if __name__ == "__main__":
        experiment = etude.Experiment(train, model=model, data=data, metric="val_loss", mode="min")
        for parallel in PARALLEL:
            quiet = experiment.fit(at={}, ranks=2, parallel=parallel)
            [trial] = quiet.trials
            assert trial.state == "finished", trial.traceback
            assert len(trial.curve) == EPOCHS
            there = logs(quiet, 1)
            assert end(there[0]) == end(there[1])
            shown = [saw(log) for log in there]
            assert [len(steps) for steps in shown] == [EPOCHS * STEPS] * 2, shown
            orders = set()
            for epoch in range(EPOCHS):
                both = [steps[epoch * STEPS : (epoch + 1) * STEPS] for steps in shown]
                ids = [i for steps in both for step in steps for i in step]
                assert sorted(ids) == list(range(48)), ids
                orders.add(tuple(ids))
            assert len(orders) == EPOCHS  # each epoch is shuffled anew

        DEADLY.touch()
        killed = experiment.fit(at={}, ranks=2, parallel=parallel, name="killed")
        DEADLY.unlink()
        [trial] = killed.trials
        assert (trial.state, trial.attempts) == ("finished", 2), trial.reason
        later = logs(killed, 2)
        assert 0 < len(saw(later[0])) < EPOCHS * STEPS  # it went on, and did not start over
        assert [end(log) for log in later] == [end(log) for log in there]
        assert trial.curve == quiet.trials[0].curve

        STOPS.touch()
        stopped = experiment.tune(
            {"lr": [0.05]}, trials=1, ranks=2, parallel=parallel, stopper=AfterTwo(), sampler="grid", name="stopped"
        )
        assert stopped.counts() == {"stopped": 1}, stopped.trials[0].traceback
        first, second = (len(saw(log)) for log in logs(stopped, 1))
        assert first == second > 0, (first, second)
        print("equal")
"""

LIGHTNING = """
    import logging
    import lightning

    logging.getLogger("lightning").setLevel(logging.ERROR)

    class Net(lightning.LightningModule):
        def __init__(self, lr):
            super().__init__()
            self.lr = lr
            self.net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))

        def training_step(self, batch, n):
            x, y = batch
            seen(self.run, x)
            loss = (self.net(x) - y).square().mean()
            self.log("loss", loss, on_epoch=True)
            return loss

        def validation_step(self, batch, n):
            x, y = batch
            self.log("val_loss", (self.net(x) - y).square().mean(), sync_dist=True)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), self.lr)

    def model(lr: float = 0.05):
        return Net(lr)

    def train(model, data, run):
        if STOPS.exists():
            net, (loader, valid) = model(), data()
        else:
            loader, valid = data()  # before the model is known: they are the Trainer's even so
            net = model()
        net.run = run
        ours = etude.callback("lightning", run)
        trainer = lightning.Trainer(
            max_epochs=99 if STOPS.exists() else EPOCHS, callbacks=[ours], accelerator="cpu", devices=run.ranks,
            strategy="ddp", logger=False, enable_progress_bar=False, enable_model_summary=False,
        )
        trainer.fit(net, loader, valid, ckpt_path=ours.ckpt_path(trainer))
        assert trainer.world_size == 2
        tell(net)

    PARALLEL = [etude.DDP(attach=False), "ddp"]
"""

TRANSFORMERS = """
    from torch import nn
    from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
    from transformers.utils import logging

    logging.set_verbosity_error()

    class Config(PretrainedConfig):
        model_type = "small"

    class Net(PreTrainedModel):
        config_class = Config

        def __init__(self, config):
            super().__init__(config)
            self.net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 1))
            self.post_init()

        def _init_weights(self, module):
            pass

        def forward(self, x, labels=None):
            if self.training:
                seen(self.run, x)
            out = self.net(x)
            return {"loss": (out - labels).square().mean(), "logits": out}

    def model():
        return Net(Config())

    def data():
        return [{"x": x, "labels": y} for x, y in zip(X, Y)]

    def train(model, data, run, lr: float = 0.05):
        net, rows = model(), data()
        net.run = run
        ours = etude.callback("transformers", run, names={"eval_loss": "val_loss"})
        args = TrainingArguments(
            output_dir=str(run.folder / "trainer"), seed=3, learning_rate=lr, save_strategy="no",
            num_train_epochs=99 if STOPS.exists() else EPOCHS, per_device_train_batch_size=12 // run.ranks,
            logging_strategy="epoch", eval_strategy="epoch", use_cpu=True, report_to="none", disable_tqdm=True,
            ddp_find_unused_parameters=False,
        )
        trainer = Trainer(net, args, train_dataset=rows, eval_dataset=rows, callbacks=[ours])
        trainer.train(resume_from_checkpoint=ours.checkpoint())
        assert args.world_size == 2
        tell(net)
        return run.last["val_loss"]

    PARALLEL = [etude.DDP(attach=False), "ddp"]
"""

ACCELERATE = """
    from accelerate import Accelerator
    from torch import nn
    from torch.nn import functional as F

    def model():
        return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 1))

    def train(model, data, run, lr: float = 0.05):
        accelerator = Accelerator(cpu=True)
        net, (loader, valid) = model(), data()
        optimizer = torch.optim.Adam(net.parameters(), lr)
        run.keep(net=net, optimizer=optimizer)
        wrapped, stepper, loader, valid = accelerator.prepare(net, optimizer, loader, valid)
        for epoch in run.epochs(99 if STOPS.exists() else EPOCHS):
            wrapped.train()
            for x, y in loader:
                seen(run, x)
                stepper.zero_grad()
                accelerator.backward(F.mse_loss(wrapped(x), y))
                stepper.step()
            wrapped.eval()
            with torch.no_grad():
                found = [F.mse_loss(*accelerator.gather_for_metrics((wrapped(x), y))) for x, y in valid]
            run.report(val_loss=torch.stack(found).mean())
        assert accelerator.num_processes == 2
        tell(net)

    PARALLEL = [etude.DDP(attach=False)]
"""

TWICE = """
    if __name__ == "__main__":
        [trial] = etude.Experiment(train, model=model, data=data, metric="val_loss", mode="min").fit(
            at={}, ranks=2
        ).trials
        assert trial.state == "failed"
        print(trial.reason.partition(": ")[2])
"""


def done_by(place: Path, *parts: str) -> subprocess.CompletedProcess[str]:
    script = write_script(place, "".join(map(textwrap.dedent, parts)))
    return run_script(script, patience_s=600.0)  # loading such a library takes a process ten seconds


@pytest.mark.parametrize(
    ("library", "body"),
    [
        pytest.param("lightning", LIGHTNING, id="lightning"),
        pytest.param("transformers", TRANSFORMERS, id="transformers"),
    ],
)
@pytest.mark.thorough
def test_a_trainer_distributes_itself_over_ranks(library: str, body: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    done = done_by(tmp_path, HEAD, body, TAIL)
    assert (done.returncode, done.stdout) == (0, "equal\n"), done.stderr


@pytest.fixture(scope="module")
def by_accelerate(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """A script that has Accelerate distribute itself, and then the same beside our averaging."""
    pytest.importorskip("accelerate")
    return done_by(tmp_path_factory.mktemp("accelerate"), HEAD, ACCELERATE, TAIL, TWICE)


@pytest.mark.thorough
def test_accelerate_distributes_itself_over_ranks(by_accelerate: subprocess.CompletedProcess[str]) -> None:
    assert (by_accelerate.returncode, by_accelerate.stdout.splitlines()[:1]) == (0, ["equal"]), by_accelerate.stderr


def test_accelerate_beside_our_averaging_is_an_error_that_names_the_way_out(
    by_accelerate: subprocess.CompletedProcess[str],
) -> None:
    assert by_accelerate.stdout.splitlines()[1:] == [
        "ConfigError: Accelerate (or a Trainer that uses it) distributes over 2 processes by itself, while Étude "
        "averages gradients and divides batches too: they would be divided twice. Leave it to the library: "
        "fit(ranks=2, parallel=etude.DDP(attach=False))."
    ], by_accelerate.stderr
