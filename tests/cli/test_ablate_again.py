"""An ablation at the command line: it goes on where its driver was killed, and every command tells of its arms."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import etude as library

if TYPE_CHECKING:
    from .conftest import Etude

SCRIPT = """
import pathlib
import time

import torch
from torch import nn

import etude


def model():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 2))


def data():
    return torch.utils.data.DataLoader(torch.ones(16, 6), batch_size=8)


def train(model, data, run, lr: float = 0.1):
    net = model()
    for x in data():
        net(x)
    while run.trial and run.trial > 2 and not pathlib.Path("go").exists():
        pathlib.Path("started").touch()
        time.sleep(0.01)
    return next(net.parameters()).detach().sum().item() + lr


experiment = etude.Experiment(train, model=model, data=data, metric="loss", mode="min")

if __name__ == "__main__":
    experiment.ablate(["layer:2", "lr"], seeds=2, workers=1, name="one", force=True)
"""


@pytest.mark.thorough
def test_an_ablation_whose_driver_was_killed_goes_on_and_every_command_shows_it(etude: Etude) -> None:
    Path("training.py").write_text(SCRIPT)
    with subprocess.Popen([sys.executable, "training.py"]) as driver:
        try:
            etude.wait_for(lambda: Path("started").exists() or driver.poll() is not None)
            assert driver.poll() is None
        finally:
            driver.kill()
    Path("go").touch()
    done = etude("resume", "one", "--trials", "9")
    assert (done.code, "whose trials are its arms with each seed" in done.err) == (2, True)
    done = etude("resume", "one", "--quiet")
    assert done.code == 0, done.err
    assert "layer:2: mean loss" in done.out
    ablation = library.open("one")
    assert isinstance(ablation, library.Ablation)
    assert ablation.counts() == {"finished": 6}
    assert [len(arm.values) for arm in ablation.arms] == [2, 2, 2]
    assert all(pair.is_pair for pair in ablation.pairing("layer:2").values())

    told = etude("show", "one").out
    assert "base: mean loss" in told
    assert "Best loss" not in told
    arms = json.loads(etude("show", "one", "--json").out)["arms"]
    assert [arm["name"] for arm in arms] == ["base", "layer:2", "lr"]
    assert "layer:2" in etude("trials", "one").out
    assert {trial["arm"] for trial in json.loads(etude("trials", "one", "--json").out)} == {"base", "layer:2", "lr"}
    rows = list(csv.DictReader(io.StringIO(etude("export", "one").out)))
    assert sorted(row["arm"] for row in rows) == ["base", "base", "layer:2", "layer:2", "lr", "lr"]
    assert "fingerprints" not in rows[0]
    assert "one" in etude("ls").out


@pytest.mark.thorough
def test_a_variant_is_no_notebook(etude: Etude) -> None:
    ours = 'etude.custom("none", model=lambda: nn.Linear(6, 2))'
    Path("training.py").write_text(SCRIPT.replace('["layer:2", "lr"]', f"[{ours}]"))
    Path("go").touch()
    subprocess.run([sys.executable, "training.py"], check=True)
    done = etude("export", "one", "--format", "yaml")
    assert done.code == 2
    assert "Study one was started with variants (custom:none), which no file can hold." in done.err


@pytest.mark.thorough
def test_what_no_journal_holds_is_said(etude: Etude) -> None:
    Path("training.py").write_text(SCRIPT.replace('["layer:2", "lr"]', '["lr", "layer:2"], policy="path"'))
    Path("go").touch()
    subprocess.run([sys.executable, "training.py"], check=True)
    done = etude("resume", "one")
    assert done.code == 2
    assert "the policy 'path', which goes by results" in done.err
