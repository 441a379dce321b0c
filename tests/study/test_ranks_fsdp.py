"""A model that is sharded over ranks, in a study: as good as whole, also when a rank is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from support import facts_of
from torch import nn
from torch.distributed.tensor import DTensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import etude
from etude.core.errors import RanksError
from etude.core.events import Resumed
from etude.frameworks import torch_fsdp

SHARDED = etude.FSDP(block="DecoderLayer", methods=("loss",), timeout_s=120)


class DecoderLayer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        y = self.norm1(x)
        x = x + self.mix(y, y, y, attn_mask=mask, need_weights=False)[0]
        mixed: torch.Tensor = x + self.mlp(self.norm2(x))
        return mixed


class Decoder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, width)
        self.layers = nn.ModuleList(DecoderLayer(width) for _ in range(2))
        self.head = nn.Linear(width, 11)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        found: torch.Tensor = self.head(x)
        return found + 0

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())


def model(width: int = 16) -> nn.Module:
    return Decoder(width)


def data() -> tuple[Any, Any]:
    steps = torch.randint(1, 5, (44, 1), generator=torch.Generator().manual_seed(0))
    rows = (torch.arange(10)[None] * steps) % 11
    return DataLoader(TensorDataset(rows), 8, shuffle=True), DataLoader(TensorDataset(rows[:20]), 20)


def train(model, data, run, deadly: bool = False):
    net, (loader, valid) = model(), data()
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    run.keep(net=net, optimizer=optimizer)
    for epoch in run.epochs(4):
        for (x,) in loader:
            optimizer.zero_grad()
            net.loss(x).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            net.calls += 1 + run.rank
        with torch.no_grad():
            [found] = [float(net.loss(x)) for (x,) in valid]
        run.report(loss=found)
        flag = Path(run.folder).parents[1] / "killed"
        if deadly and (epoch, run.rank) == (2, 1) and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    base = Path(run.folder).parent if run.rank else Path(run.folder)
    if run.ranks > 1 and isinstance(net.head.weight, DTensor):  # what too large models do for themselves
        torch_fsdp.save_shards(base / "shards", {"net": net.state_dict(), "optimizer": optimizer.state_dict()})
        before = [p.to_local().clone() for p in net.parameters()]
        nn.init.zeros_(net.head.weight)
        back = torch_fsdp.load_shards(base / "shards", net)
        net.load_state_dict(back["net"])
        optimizer.load_state_dict(back["optimizer"])
        assert all(torch.equal(p.to_local(), b) for p, b in zip(net.parameters(), before, strict=True))
        assert isinstance(optimizer.state_dict()["state"][0]["exp_avg"], DTensor)
    elif run.ranks == 1:
        with pytest.raises(RanksError, match=r"This process is no rank of Étude"):
            torch_fsdp.save_shards(base, {})
    parts = [p.to_local() if hasattr(p, "to_local") else p for p in net.parameters()]
    run.log(f"has {sum(p.numel() for p in parts)} of {sum(p.numel() for p in net.parameters())}")


@pytest.fixture
def experiment() -> etude.Experiment:
    return etude.Experiment(train, model=model, data=data, metric="loss", mode="min")


def log_of(study: etude.Search, *, rank: int = 0, attempt: int = 1) -> str:
    folder = study.folder / "trials" / "00000" / f"attempt-{attempt}"
    return (folder / (f"rank-{rank}" if rank else "") / "log.txt").read_text()


def weights_of(study: etude.Search) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = study.trials[0].weights.load()["net"]
    return {name: value for name, value in found.items() if name != "calls"}


def apart(here: torch.Tensor, there: torch.Tensor, name: str) -> float:
    """Return how far weights are apart; but for the bias of keys, whose gradient is rounding alone."""
    third = len(here) // 3
    seen = torch.ones(len(here), dtype=torch.bool)
    if name.endswith("in_proj_bias"):
        seen[third : 2 * third] = False
    return float((here - there)[seen].abs().max())


@pytest.mark.filterwarnings("ignore")  # of torch's own
def test_a_sharded_model_is_as_good_as_a_whole_one_also_after_a_loss(experiment: etude.Experiment) -> None:
    alone = experiment.fit(at={}, seed=1)
    whole = experiment.fit(at={}, seed=1, ranks=2)
    sharded = experiment.fit(at={}, seed=1, ranks=2, parallel=SHARDED)
    for other in (whole, sharded):
        assert other.trials[0].curve == pytest.approx(alone.trials[0].curve, rel=1e-5)
        for name, value in weights_of(alone).items():
            assert apart(weights_of(other)[name], value, name) < 1e-5, name
    n = sum(value.numel() for value in weights_of(alone).values())
    held = [log_of(sharded, rank=rank).splitlines()[-1].split() for rank in (0, 1)]
    assert [int(words[3]) for words in held] == [n, n]
    assert sum(int(words[1]) for words in held) == n  # each number is on one rank alone
    assert max(int(words[1]) for words in held) < 0.6 * n
    files = sorted(path.name for path in (sharded.folder / "trials" / "00000" / "attempt-1" / "shards").iterdir())
    assert files == ["index.json", "shard-00001-of-00002.safetensors", "shard-00002-of-00002.safetensors"]
    assert isinstance(sharded.model(), Decoder)  # whole, in a process that knows no ranks
    assert float(sharded.trials[0].weights.load()["net"]["calls"]) == 6 * 4  # buffers are rank 0's

    killed = experiment.fit(at={"deadly": True}, seed=1, ranks=2, parallel=SHARDED)
    assert killed.trials[0].attempts == 2
    [resumed] = facts_of(killed.folder, Resumed)
    assert resumed.origin.key is not None
    assert killed.trials[0].curve == sharded.trials[0].curve
    assert all(torch.equal(weights_of(sharded)[name], value) for name, value in weights_of(killed).items())


def test_a_block_that_is_not_there_is_told(experiment: etude.Experiment) -> None:
    [trial] = experiment.fit(at={}, ranks=2, parallel=etude.FSDP(block="Layer")).trials
    assert trial.state == "failed"
    assert "ConfigError: FSDP(block='Layer') names no class of the model, whose parts are" in trial.reason
