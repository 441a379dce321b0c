"""A training on two ranks, each on a machine of its own, whose records lie on a third one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.utils.data import DataLoader

import etude
from benchmarks.moved.blocks import Records
from benchmarks.moved.images import CLASSES, PIXELS, RECORD_B
from benchmarks.moved.networks import DATA, bytes_over

SERVER: Final = "MOVED_SERVER"
"""Where this node finds the records: host and port."""
CACHE: Final = "MOVED_CACHE"
"""Where this node keeps them."""
NOTES: Final = "epochs.jsonl"
"""What a node noted, beside its cache: a line before the first epoch, and one after each."""


def model() -> nn.Module:
    """Return a small network."""
    return nn.Sequential(nn.Linear(PIXELS, 32), nn.ReLU(), nn.Linear(32, CLASSES))


def data(n: int = 10_000, batch: int = 200) -> DataLoader[Any]:
    """Return the loader; the records are on another machine."""
    host, _, port = os.environ[SERVER].rpartition(":")
    records = Records((host, int(port)), Path(os.environ[CACHE]), n, RECORD_B)
    return DataLoader(records, batch_size=batch, shuffle=True)


def train(model: Any, data: Any, run: Any, epochs: int = 65) -> None:
    """Train, and note after each epoch what this node has fetched, and what its link has carried."""
    net, loader = model(), data()
    criterion = run.criterion(nn.CrossEntropyLoss())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    note(loader)
    for _ in run.epochs(epochs):
        total = 0.0
        for x, y in loader:
            loss = criterion(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        loader.dataset.keep_drawn()
        note(loader)
        run.report(loss=total / len(loader))


def note(loader: Any) -> None:
    """Write down what was fetched so far, and what went over the link."""
    with open(Path(os.environ[CACHE]).parent / NOTES, "a") as file:
        print(json.dumps([loader.dataset.fetched, bytes_over(DATA)]), file=file)


def study(given: str) -> None:
    """Train once, on workers that come by themselves, and print what came of it."""
    args = json.loads(given)
    partition = None
    if args["partition"]:
        settings = {} if args["partition"] == "Random" else {"ignore": 0, "measure": args["measure"]}
        kind = getattr(etude.partitions, args["partition"])
        partition = kind(warmup=args["warmup"], interval=args["interval"], **settings)
    final = etude.Experiment(train, model=model, data=data, metric="loss", mode="min").fit(
        at={"epochs": args["epochs"], "n": args["n"], "batch": args["batch"]},
        ranks=2,
        partition=partition,
        engine=etude.Cluster(bind=args["bind"], credentials=args["credentials"]),
        name="moved",
        retries=0,
    )
    [trial] = final.trials
    print(json.dumps({"state": trial.state, "metrics": dict(trial.metrics), "notes": list(final.notes)}, default=str))
