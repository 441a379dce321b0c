"""A model that is sharded over ranks, in a study: as good as whole, also when a rank is killed."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support import facts_of
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

import etude
from etude.core.events import Checkpointed, Resumed
from etude.frameworks import state_file
from etude.frameworks.shards import has_shards

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
    return StatefulDataLoader(TensorDataset(rows), 8, shuffle=True), DataLoader(TensorDataset(rows[:20]), 20)


def train(model, data, run, ill: str = ""):
    net, (loader, valid) = model(), data()
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    kept = run.keep(net=net, optimizer=optimizer, mine=run.rank)
    flag = Path(run.folder).parents[1 if run.rank else 0] / "ill"
    is_first = not flag.exists()
    if not is_first and ill in DAMAGES and run.rank == 1:
        [*_, newest] = sorted(flag.parent.glob("attempt-1/checkpoints/*.rank-1.weights.safetensors"))
        DAMAGES[ill](newest)
    for epoch in run.epochs(EPOCHS):
        for nth, (x,) in enumerate(run.steps(loader, every=2 if ill == WITHIN else 1000)):
            if is_first and ill == WITHIN and (epoch, nth, run.rank) == (EPOCHS - 2, 5, 1):
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            net.loss(x).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            net.calls += 1 + run.rank
        kept.mine += 10 + run.rank
        with torch.no_grad():
            [found] = [float(net.loss(x)) for (x,) in valid]
        run.report(loss=found)
        if is_first and run.rank == 1 and epoch == EPOCHS - 2:
            if ill == "full":
                state_file.write = full
            elif ill == "killed while it writes":
                flag.touch()
                state_file._save = killed
            elif ill and ill != WITHIN:
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
    parts = [p.to_local() if hasattr(p, "to_local") else p for p in net.parameters()]
    run.log(f"has {sum(p.numel() for p in parts)} of {sum(p.numel() for p in net.parameters())}, {kept.mine}")


WRITE = state_file.write


def full(path: Path, *given: Any, **more: Any) -> Any:
    if path.name >= f"0-0000{EPOCHS - 1}":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return WRITE(path, *given, **more)


def killed(path: Path, *given: Any) -> None:
    path.write_bytes(b"half of it")
    os.kill(os.getpid(), signal.SIGKILL)


def changed(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


DAMAGES: dict[str, Callable[[Path], None]] = {"a shard is gone": Path.unlink, "a shard is damaged": changed}
WITHIN = "killed within an epoch"
EPOCHS = 6
"""When a rank is lost in the last but one, two states at least are in the journal: a shard is only begun then."""


def log_of(study: etude.Fit, *, rank: int = 0, attempt: int = 1) -> str:
    folder = study.folder / "trials" / "00000" / f"attempt-{attempt}"
    return (folder / (f"rank-{rank}" if rank else "") / "log.txt").read_text()


def weights_of(study: etude.Fit) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = study.trials[0].weights.load()["net"]
    return {name: value for name, value in found.items() if name != "calls"}


def apart(here: torch.Tensor, there: torch.Tensor, name: str) -> float:
    """Return how far weights are apart; but for the bias of keys, whose gradient is rounding alone."""
    third = len(here) // 3
    seen = torch.ones(len(here), dtype=torch.bool)
    if name.endswith("in_proj_bias"):
        seen[third : 2 * third] = False
    return float((here - there)[seen].abs().max())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let all studies of this file be in one place."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("fsdp"))
        yield


@pytest.fixture(scope="module")
def experiment(place: None) -> etude.Experiment:
    return etude.Experiment(train, model=model, data=data, metric="loss", mode="min")


@pytest.fixture(scope="module")
def sharded(experiment: etude.Experiment) -> etude.Fit:
    """Give a study that nobody disturbed."""
    return experiment.fit(at={}, seed=1, ranks=2, parallel=SHARDED, keep=etude.Keep(optimizers=True))


@pytest.mark.filterwarnings("ignore")  # of torch's own
def test_a_sharded_model_is_as_good_as_a_whole_one(experiment: etude.Experiment, sharded: etude.Fit) -> None:
    alone = experiment.fit(at={}, seed=1)
    whole = experiment.fit(at={}, seed=1, ranks=2)
    for other in (whole, sharded):
        assert other.trials[0].curve == pytest.approx(alone.trials[0].curve, rel=1e-5)
        for name, value in weights_of(alone).items():
            assert apart(weights_of(other)[name], value, name) < 1e-5, name
    n = sum(value.numel() for value in weights_of(alone).values())
    held = [log_of(sharded, rank=rank).splitlines()[-1].replace(",", "").split() for rank in (0, 1)]
    assert [int(words[3]) for words in held] == [n, n]
    assert sum(int(words[1]) for words in held) == n  # each number is on one rank alone
    assert max(int(words[1]) for words in held) < 0.6 * n


def files_of(study: etude.Fit) -> dict[str, int]:
    """Return the files of states that are there, with their sizes."""
    found = (study.folder / "trials" / "00000").glob("attempt-*/checkpoints/*")
    return {path.name: path.stat().st_size for path in found}


def test_each_rank_writes_its_shard_and_whoever_reads_gets_all_of_it(
    experiment: etude.Experiment, sharded: etude.Fit
) -> None:
    sizes = files_of(sharded)
    assert sizes.keys() == {
        f"0-0000{EPOCHS}{rank}.{part}.safetensors" for rank in ("", ".rank-1") for part in ("weights", "rest")
    }, "the last is the best"
    n = sum(value.numel() for value in weights_of(sharded).values())
    weighed = [size for name, size in sizes.items() if "weights" in name]
    assert sum(weighed) > 4 * n
    assert max(weighed) < 0.6 * 4 * n + 20_000, "each has half of the numbers, and some text"
    weights = sharded.trials[0].weights
    assert not has_shards(weights.load())
    assert float(weights.load()["net"]["calls"]) == 6 * EPOCHS  # buffers are rank 0's
    net = sharded.model()
    assert isinstance(net, Decoder)  # whole, in a process that knows no ranks
    assert all(torch.equal(value, weights_of(sharded)[name]) for name, value in net.named_parameters())
    moments = weights.with_optimizer().optimizers()["optimizer"]
    shapes = [moments["state"][number]["exp_avg"].shape for number in moments["param_groups"][0]["params"]]
    assert shapes == [value.shape for value in net.parameters()]
    more = experiment.fit(at={}, seed=2, ranks=2, parallel=SHARDED, weights=weights.with_optimizer(), name="more")
    assert more.trials[0].state == "finished", more.trials[0].reason
    assert more.trials[0].curve[0] < sharded.trials[0].curve[0] / 2
    saved = sharded.save("whole.safetensors")
    assert {name: value.shape for name, value in load_file(saved).items()} == {
        f"net.{name}": value.shape for name, value in net.state_dict().items()
    }


@pytest.mark.parametrize("ill", ["killed", WITHIN, "killed while it writes", *DAMAGES])
def test_a_trial_that_lost_a_rank_ends_as_one_that_did_not(
    experiment: etude.Experiment, sharded: etude.Fit, ill: str
) -> None:
    study = experiment.fit(at={"ill": ill}, seed=1, ranks=2, parallel=SHARDED)
    assert study.trials[0].attempts == 2
    [resumed] = facts_of(study.folder, Resumed)
    assert resumed.origin.key is not None
    assert resumed.origin.key[2] >= 1
    saved = [fact.checkpoint for fact in facts_of(study.folder, Checkpointed)]
    assert {point.ranks for point in saved} == {2}
    assert any(point.batch for point in saved) == (ill == WITHIN)
    assert study.trials[0].curve == sharded.trials[0].curve
    assert all(torch.equal(weights_of(sharded)[name], value) for name, value in weights_of(study).items())
    for rank in (0, 1):  # what each rank keeps is its own
        told = log_of(study, rank=rank, attempt=2).splitlines()[-1]
        assert told == log_of(sharded, rank=rank).splitlines()[-1]
        assert told.endswith(f", {rank + EPOCHS * (10 + rank)}")
    assert len(files_of(study)) == 2, "weights alone, and nothing that was left half-written"
    if ill in DAMAGES:
        assert "rank 1: " in resumed.origin.reason
        assert any("could not use what it had saved, so it goes on from epoch" in note for note in study.notes)
    else:
        assert resumed.origin.reason == ""


def test_a_full_disk_of_one_rank_costs_the_states_of_all_and_not_the_trial(
    experiment: etude.Experiment, sharded: etude.Fit
) -> None:
    study = experiment.fit(at={"ill": "full"}, seed=1, ranks=2, parallel=SHARDED)
    assert study.trials[0].attempts == 1
    assert study.trials[0].curve == sharded.trials[0].curve
    [note] = [note for note in study.notes if "could not be saved" in note]
    assert f"after epoch {EPOCHS - 1} could not be saved (No space left on device)" in note
    assert files_of(study).keys() == {f"0-0000{EPOCHS - 2}{rank}.weights.safetensors" for rank in ("", ".rank-1")}, (
        "the last that all could write"
    )


def test_a_block_that_is_not_there_is_told(experiment: etude.Experiment) -> None:
    [trial] = experiment.fit(at={}, ranks=2, parallel=etude.FSDP(block="Layer")).trials
    assert trial.state == "failed"
    assert "ConfigError: FSDP(block='Layer') names no class of the model, whose parts are" in trial.reason
