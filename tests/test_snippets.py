"""Blocks of pages that take a preparation, or a library that takes long to load: each runs as it stands on its page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.pages import blocks_of, etude_command, run

TITANIC = """
    import csv, os
    import etude
    os.mkdir("titanic")
    with open("titanic/train.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["PassengerId", "Survived", "Pclass", "Sex", "Age", "SibSp", "Parch", "Fare"])
        for n in range(50):
            sex, age = ("male", "female")[n % 2], n + 1 if n % 7 else ""
            rows.writerow([n, n % 3 and n % 2, n % 3 + 1, sex, age, n % 4, n % 5, 7.25 + n])
"""
NOTEBOOK = """
    import etude

    def train(lr: float):
        if lr > 0.5:
            raise ValueError("too fast")
        return lr

    def tune(highest, name):
        experiment = etude.Experiment(train, metric="score", mode="max")
        space = {"lr": [0.1, 0.2, highest]}
        return experiment.tune(space, sampler="grid", stopper="none", workers=1, name=name)

    def last_cell(search):
        BLOCK

    last_cell(tune(0.3, "well"))
    try:
        last_cell(tune(0.9, "badly"))
    except etude.StudyError as error:
        print(error)
"""
MODEL = """
    import etude
    import torch
    from torch import nn

    def model(dropout: float = 0.2):
        layers = {"conv1": nn.Conv1d(1, 2, 3, padding=1), "conv2": nn.Conv1d(2, 2, 3, padding=1), "flat": nn.Flatten()}
        net = nn.Sequential()
        for name, layer in {**layers, "drop": nn.Dropout(dropout), "head": nn.Linear(8, 2)}.items():
            net.add_module(name, layer)
        return net
"""
DATASETS = (
    MODEL
    + """
    def data(dataset: str = "adult"):
        return {"adult": 0.0, "covertype": 1.0, "titanic": 2.0}[dataset]

    def train(model, data, seed: int):
        net = model()
        net(torch.zeros(4, 1, 4))
        return data() + len(net) + seed % 7 / 100

    experiment = etude.Experiment(train, model=model, data=data, metric="accuracy", mode="max")
"""
)
FOLDS = (
    MODEL
    + """
    def load():
        return list(range(40))

    def train(model, data, seed: int):
        rest, held_out = data()
        assert sorted(rest + held_out) == load()
        net = model()
        net(torch.zeros(4, 1, 4))
        return len(net) + len(held_out) / 100 + seed % 7 / 1000
"""
)
RACE = """
    import etude

    def model(width: int = 8):
        return width

    def train(model, seed: int):
        return model() + seed % 7 / 10

    components = [etude.custom("thin", model=lambda: 4)]
    experiment = etude.Experiment(train, model=model, metric="score", mode="max")
"""
BY_SEED = """
    import etude
    import torch
    from torch import nn

    rows = torch.randn(500, 4, generator=torch.Generator().manual_seed(0))
    labels = (rows.sum(1) > 0).long()

    def split(seed: int):
        order = (torch.arange(500) - 60 * seed) % 500
        parts = [order[part] for part in (slice(300), slice(300, 400), slice(400, 500))]
        return etude.Data(*((rows[part], labels[part]) for part in parts))

    def train(model, data, run, lr: float = 0.1):
        net, parts = model(), data()
        optimizer = torch.optim.SGD(net.parameters(), lr=lr)
        run.keep(net=net, optimizer=optimizer)
        for _ in run.epochs(4):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(parts.train[0]), parts.train[1]).backward()
            optimizer.step()
            run.report(loss=nn.functional.cross_entropy(net(parts.valid[0]), parts.valid[1]).item())

    experiment = etude.Experiment(train, model=lambda: nn.Linear(4, 2), data=split, metric="loss", mode="min")
    search = experiment.tune({"lr": [0.1]}, sampler="grid", stopper="none", workers=1, name="split")
"""
LOADED = """
    import os, warnings
    os.environ["KERAS_BACKEND"] = "torch"
    import numpy as np
    import etude
    import torch
    from torch import nn, optim
    from torch.utils.data import DataLoader, TensorDataset

    warnings.simplefilter("ignore")
    draws = np.random.default_rng(0)
    x = draws.normal(size=(64, 6)).astype("float32")
    y = x.sum(1, keepdims=True)
    rows = TensorDataset(torch.as_tensor(x), torch.as_tensor(y))
"""
TUNED = """
    search = etude.Experiment(train, metric="METRIC", mode="min").tune(
        {"lr": etude.loguniform(1e-3, 1e-1)}, trials=2, workers=1, sampler="random", stopper="none"
    )
    assert search.counts() == {"finished": 2}, search
    print("reported", [len(trial.curve) for trial in search.trials])
"""
LIGHTNING = """
    import lightning

    class Net(lightning.LightningModule):
        def __init__(self, lr: float = 0.01):
            super().__init__()
            self.lr, self.net = lr, nn.Linear(6, 1)

        def training_step(self, batch):
            return nn.functional.mse_loss(self.net(batch[0]), batch[1])

        def validation_step(self, batch):
            self.log("val_loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]))

        def configure_optimizers(self):
            return optim.SGD(self.parameters(), self.lr)

    train_loader, valid_loader = DataLoader(rows, batch_size=16, shuffle=True), DataLoader(rows, batch_size=64)

    def data():
        return train_loader, valid_loader
"""
TRANSFORMERS = """
    from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

    class Net(PreTrainedModel):
        config_class = PretrainedConfig

        def __init__(self, config):
            super().__init__(config)
            self.net = nn.Linear(6, 1)
            self.post_init()

        def _init_weights(self, module):
            pass

        def forward(self, x, labels):
            out = self.net(x)
            return {"loss": nn.functional.mse_loss(out, labels), "logits": out}

    def model():
        return Net(PretrainedConfig())

    rows = [{"x": one, "labels": other} for one, other in rows]

    def data():
        return rows, rows
"""
DECODER = """
    import etude
    import torch
    from torch import nn

    class DecoderLayer(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 8)

        def forward(self, x):
            return x + self.net(x)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.head = nn.Sequential(DecoderLayer(), DecoderLayer()), nn.Linear(8, 1)

        def loss(self, x):
            return self.head(self.layers(x)).square().mean()

    def train(model, run):
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        run.keep(net=net, optimizer=optimizer)
        for epoch in run.epochs(2):
            optimizer.zero_grad()
            loss = net.loss(torch.ones(4, 8))
            loss.backward()
            optimizer.step()
            run.report(loss=float(loss.detach()))

    experiment = etude.Experiment(train, model=Decoder, metric="loss", mode="min")
"""


@pytest.fixture
def block(request: pytest.FixtureRequest) -> str:
    """The block of a page that is marked as run by this test."""
    (found,) = blocks_of("tests/test_snippets.py", request.node.originalname)
    return found


def dedented(text: str) -> str:
    return "".join(line.removeprefix("    ") for line in text.splitlines(keepends=True))


def came_of(folder: Path, *parts: str, warnings: str = "default", **environment: str) -> str:
    """Run a script of several parts, and return what it printed."""
    (folder / "script.py").write_text("".join(parts))
    done = run(sys.executable, "-W", warnings, "script.py", cwd=folder, **environment)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_a_table_in_a_file_is_read(block: str, tmp_path: Path) -> None:
    after = "parts = data()\nprint(parts.train[0].shape, len(parts.test[1]), parts.features)\n"
    told = came_of(tmp_path, dedented(TITANIC), block, after, warnings="error")
    assert told == "(35, 6) 10 ('Pclass', 'Fare', 'SibSp', 'Sex', 'Parch', 'Age')\n"


def test_a_notebook_ends_with_an_error_if_trials_failed(block: str, tmp_path: Path) -> None:
    told = came_of(tmp_path, dedented(NOTEBOOK).replace("BLOCK", block.strip()))
    assert told.count("ValueError: too fast") == 1


def test_an_ablation_runs_on_each_data_set(block: str, tmp_path: Path) -> None:
    told = came_of(tmp_path, dedented(DATASETS), block)
    assert all(f"dataset={name}" in told for name in ("adult", "covertype", "titanic"))


def test_an_ablation_runs_in_folds(block: str, tmp_path: Path) -> None:
    came_of(tmp_path, dedented(FOLDS), block)


def test_an_ablation_runs_until_it_is_decided(block: str, tmp_path: Path) -> None:
    told = came_of(tmp_path, dedented(RACE), block, "print(ablation)\n")
    assert " matters" in told


def test_trials_have_the_gpus_that_they_need(block: str, tmp_path: Path) -> None:
    """GPUs are ids here: what trials see of them is all that can be told without any."""
    before = "import os\nimport etude\n\ndef train(lr):\n"
    before += '    return {"score": lr, "gpus": os.environ["CUDA_VISIBLE_DEVICES"]}\n\n'
    before += 'experiment = etude.Experiment(train, metric="score", mode="max")\nspace = {"lr": etude.uniform(0, 1)}\n'
    after = 'print({trial.metrics["gpus"] for trial in search.trials} <= {"4", "5"}, search.counts())\n'
    told = came_of(tmp_path, before, block, after, CUDA_VISIBLE_DEVICES="4,5")
    assert told == "True {'finished': 100}\n"


def test_weights_that_know_the_answers_are_refused(block: str, tmp_path: Path) -> None:
    tried = "try:\n" + "".join(f"    {line}\n" for line in block.splitlines()) + "except etude.ConfigError as error:\n"
    told = came_of(tmp_path, dedented(BY_SEED), tried + "    print(error)\n")
    said = " ".join(line.removeprefix("# ") for line in block.splitlines()[1:])
    assert told.startswith(said.removeprefix("ConfigError: ").removesuffix(" ..."))


def test_marks_and_hints_are_found(block: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(block)
    done = etude_command("etude mage scan .", tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1:] for line in done.stdout.splitlines()[1:]] == [["component", "conv2"], ["hint", "train"]]


@pytest.mark.thorough
def test_a_loader_goes_on_within_an_epoch(block: str, tmp_path: Path) -> None:
    pytest.importorskip("torchdata")
    before = "images = TensorDataset(torch.randn(256, 6), torch.arange(256) % 3)\n\n"
    before += "def model():\n    return nn.Linear(6, 3)\n\n"
    after = dedented(TUNED).replace("(train,", "(train, model=model, data=data,").replace("METRIC", "loss")
    assert "reported [10, 10]" in came_of(tmp_path, dedented(LOADED), before, block, after)


@pytest.mark.thorough
def test_layers_of_a_large_model_are_planned_and_taken_out(block: str, tmp_path: Path) -> None:
    pytest.importorskip("keras")
    images = 'images = np.zeros((2, 75, 75, 3), "float32")\n'
    assert "mixed" in came_of(tmp_path, dedented(LOADED), images, block)


@pytest.mark.thorough
def test_keras_is_fitted_without_a_call(block: str, tmp_path: Path) -> None:
    pytest.importorskip("keras")
    before = 'def data():\n    x = draws.normal(size=(96, 64)).astype("float32")\n'
    before += "    y = x[:, :10].argmax(1)\n    return x[:64], y[:64], x[64:], y[64:]\n\n"
    after = "print({len(trial.curve) for trial in search.trials if trial.state == 'finished'}, search.counts())\n"
    told = came_of(tmp_path, dedented(LOADED), before, block, after).splitlines()[-1]
    assert told.startswith("{10} ")
    assert "failed" not in told


@pytest.mark.thorough
def test_lightning_trains_without_a_call(block: str, tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    after = 'search = experiment.tune({"lr": [0.1, 0.01]}, sampler="grid", stopper="none", workers=1)\n'
    after += 'print("reported", [len(trial.curve) for trial in search.trials])\n'
    told = came_of(tmp_path, dedented(LOADED), dedented(LIGHTNING), block, after)
    assert "reported [20, 20]" in told


@pytest.mark.thorough
def test_the_trainer_of_transformers_is_told_where_to_go_on_from(block: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    after = 'experiment = etude.Experiment(train, model=model, data=data, metric="eval_loss", mode="min")\n'
    after += 'final = experiment.fit(at={})\nprint("reported", len(final.trials[0].curve))\n'
    told = came_of(tmp_path, dedented(LOADED), dedented(TRANSFORMERS), block, after)
    assert "reported 3" in told


@pytest.mark.thorough
def test_keras_is_kept_by_a_callback(block: str, tmp_path: Path) -> None:
    pytest.importorskip("keras")
    after = dedented(TUNED).replace("METRIC", "val_loss")
    assert "reported [" in came_of(tmp_path, dedented(LOADED), block, after)


@pytest.mark.thorough
def test_lightning_is_kept_by_a_callback(block: str, tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    after = dedented(TUNED).replace("METRIC", "val_loss")
    told = came_of(tmp_path, dedented(LOADED), dedented(LIGHTNING), block, after)
    assert "reported [20, 20]" in told


@pytest.mark.thorough
def test_transformers_is_kept_by_a_callback(block: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    after = dedented(TUNED).replace("METRIC", "loss")
    told = came_of(tmp_path, dedented(LOADED), dedented(TRANSFORMERS), block, after)
    assert "reported [3, 3]" in told


@pytest.mark.thorough
def test_accelerate_divides_what_two_ranks_train_on(block: str, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    before = "def model():\n    return nn.Linear(6, 1)\n\ndef data():\n"
    before += "    return DataLoader(rows, batch_size=8, shuffle=True), DataLoader(rows, batch_size=64)\n\n"
    after = 'experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")\n'
    after += "final = experiment.fit(at={}, ranks=2, parallel=etude.DDP(attach=False))\n"
    after += 'print(final.trials[0].reason, "reported", len(final.trials[0].curve))\n'
    told = came_of(tmp_path, dedented(LOADED), before, block, after)
    assert "reported 10" in told


@pytest.mark.thorough
def test_a_model_is_sharded_over_four_ranks(block: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    told = came_of(tmp_path, dedented(DECODER), "final = ", block, "print(final.counts())\n")
    assert told.endswith("{'finished': 1}\n")
