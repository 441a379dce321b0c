"""``resume`` of a final training: it goes on from its own folder, or from its mirror."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import etude as library

if TYPE_CHECKING:
    from .conftest import Etude

SCRIPT = """
import pathlib
import sys
import time

import torch
from torch import nn

import etude


def model():
    return nn.Linear(3, 1)


def train(model, run, lr: float = 0.1):
    net = model()
    run.log(f"begins with {net.weight.sum().item():.6f}")
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    run.keep(net=net, optimizer=optimizer)
    for _ in run.epochs(4):
        while run.seed == 1 and not pathlib.Path("go").exists():
            pathlib.Path("started").touch()
            time.sleep(0.01)
        loss = (net(torch.ones(4, 3)) - 5).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.report(loss=loss.item())


experiment = etude.Experiment(train, model=model, metric="loss", mode="min")

if __name__ == "__main__":
    search = experiment.tune(
        {"lr": [0.1, 0.2]}, workers=1, sampler="grid", stopper="none", name="search", keep=etude.Keep(optimizers=True)
    )
    best = search.best
    weights = etude.Auto([best.weights.with_optimizer(), best.weights.shrunk()], share=1)
    experiment.fit(at=best, weights=weights, seeds=[0, 1], workers=1, name="final", mirror="mirrors")
"""


def test_a_final_training_goes_on_from_its_mirror_without_the_search(etude: Etude) -> None:
    Path("last_training.py").write_text(SCRIPT)
    with subprocess.Popen([sys.executable, "last_training.py"]) as driver:
        try:
            etude.wait_for(lambda: Path("started").exists() or driver.poll() is not None)
            assert driver.poll() is None
            etude.wait_for(lambda: "queued" not in {trial.state for trial in library.open("mirrors/final").trials})
        finally:
            driver.kill()
    shutil.rmtree("studies")
    Path("go").touch()
    for arguments, refused in ((["--trials", "9"], "has no limits"), (["--deadline", "5"], "has no limits")):
        done = etude("resume", "mirrors/final", *arguments)
        assert (done.code, refused in done.err) == (2, True)
        shutil.rmtree("studies")
    done = etude("resume", "mirrors/final", "--json", "--quiet")
    assert done.code == 0, done.err
    assert json.loads(done.out)["standing"] == "complete"
    final = library.open("studies/final")
    assert isinstance(final, library.Fit)
    *probes, first, second = final.trials
    assert [probe.number for probe in final.probes] == [probe.number for probe in probes]
    assert (first.start, first.because) == (second.start, final.chosen)
    assert str(first.start).endswith("with its optimizer")
    assert (first.state, second.state, second.attempts) == ("finished", "finished", 2)
    assert first.curve == second.curve, "both begin with the same weights, and nothing else is random"


def test_a_run_has_the_threads_that_it_had() -> None:
    from etude.cli.work import _same_call_of_fit

    assert _same_call_of_fit({"verb": "fit", "workers": None, "at_a_time": 1, "engine": "local", "name": "one"}) == {
        "workers": None,
        "engine": "local",
        "trials": 1,
    }
