"""A model sharded over two real processes trains as one does alone, and comes back from its shards."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import safetensors.torch
import torch
from ranks_at_work import outcome, run
from torch import nn
from torch.nn import functional as F

from etude.core.errors import ConfigError, StateError
from etude.core.ranks import DDP, FSDP, read_parallel
from etude.frameworks import torch_fsdp
from etude.frameworks.torch_ranks import Groups


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.inner(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.blocks = nn.ModuleList(Block(6) for _ in range(2))
        self.last = nn.Linear(6, 1)
        self.register_buffer("scale", torch.tensor(1.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x) * self.scale

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self(x), y)


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def batch(step: int, n: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(step))
    return x, x.sum(dim=1, keepdim=True).sin()


def one_model_on_all(groups: Groups, folder: str) -> None:
    """It trains as on one rank, with uneven batches; what was saved goes on to the bit."""
    model, reference = net(), net()
    sharded = torch_fsdp.Sharded({"": model}, FSDP(block="Block", methods=("loss",)), groups)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    alone = torch.optim.AdamW(reference.parameters(), lr=0.01)
    part = slice(0, 3) if groups.rank == 0 else slice(3, 5)
    sharded.weight = (part.stop - part.start) * groups.ranks / 5

    def step(nth: int) -> None:
        x, y = batch(nth)
        optimizer.zero_grad()
        model.loss(x[part], y[part]).backward()
        optimizer.step()

    for nth in range(4):
        step(nth)
        alone.zero_grad()
        reference.loss(*batch(nth)).backward()
        alone.step()
    whole = torch_fsdp.full_state(model, groups)
    assert bool(whole) == (groups.rank == 0)
    for name, value in whole.items():
        torch.testing.assert_close(value, reference.state_dict()[name], rtol=1e-4, atol=1e-6)

    place = Path(folder)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    torch_fsdp.save(place, state, groups)
    index = json.loads((place / "index.json").read_text())
    assert index["ranks"] == 2
    assert [one["file"] for one in index["files"]] == [
        "shard-00001-of-00002.safetensors", "shard-00002-of-00002.safetensors"
    ]  # fmt: skip
    assert index["tensors"]["model.blocks.0.inner.weight"]["shape"] == [6, 6]
    assert index["tensors"]["model.blocks.0.inner.weight"]["placements"] == ["shard 0"]
    shards = [safetensors.torch.load_file(place / one["file"]) for one in index["files"]]
    parts = [shard["model.blocks.0.inner.weight.etude.local"] for shard in shards]
    if groups.rank == 0:
        assert torch.equal(torch.cat(parts), whole["blocks.0.inner.weight"])
    step(4)
    later = copy.deepcopy(torch_fsdp.full_state(model, groups))
    back = torch_fsdp.load(place, groups, sharded.mesh)
    assert back["epoch"] == 3
    model.load_state_dict(back["model"])
    optimizer.load_state_dict(back["optimizer"])
    step(4)
    again = torch_fsdp.full_state(model, groups)
    assert all(torch.equal(value, again[name]) for name, value in later.items())


def states_that_cannot_be_loaded(groups: Groups, folder: str) -> list[str]:
    mesh = torch_fsdp.mesh_of({}, groups)
    place = Path(folder) / "other"
    torch_fsdp.save(place, {"a": torch.ones(2)}, groups)
    told = []
    if groups.rank == 0:
        index = json.loads((place / "index.json").read_text())
        (place / "index.json").write_text(json.dumps({**index, "ranks": 4}))
        with pytest.raises(StateError) as refused:
            torch_fsdp.load(place, groups, mesh)
        told.append(str(refused.value).replace(folder, ""))
        (place / "index.json").write_text(json.dumps(index))
        file = place / index["files"][0]["file"]
        file.write_bytes(file.read_bytes()[:-1] + b"x")
        with pytest.raises(StateError, match="is not what was written"):
            torch_fsdp.load(place, groups, mesh)
        (place / "index.json").unlink()
        with pytest.raises(StateError, match=r"holds no complete state: its index\.json is missing"):
            torch_fsdp.load(place, groups, mesh)
    return told


def what_cannot_be_sharded(groups: Groups, folder: str) -> list[str]:
    told = []
    for spec in (FSDP(block="DecoderLayer"), FSDP(block="Block", methods=("lose",))):
        with pytest.raises(ConfigError) as refused:
            torch_fsdp.Sharded({"": net()}, spec, groups)
        told.append(str(refused.value))
    return told


TOGETHER = ("one_model_on_all", "states_that_cannot_be_loaded", "what_cannot_be_sharded")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    place = tmp_path_factory.mktemp("fsdp")
    return run(__file__, TOGETHER, 2, place / "ranks", folder=str(place / "state"))


@pytest.mark.parametrize("name", TOGETHER)
def test_on_two_ranks(ranks: list[dict[str, Any]], name: str) -> None:
    outcome(ranks, name)


def test_a_state_is_for_as_many_ranks_as_saved_it(ranks: list[dict[str, Any]]) -> None:
    assert outcome(ranks, "states_that_cannot_be_loaded")[0] == [
        "/other was saved by 4 ranks, and 2 are to go on. A sharded state is for as many ranks as saved it: go on with "
        "ranks=4, or begin from its whole weights."
    ]


def test_a_block_or_method_that_is_not_there_is_refused(ranks: list[dict[str, Any]]) -> None:
    assert outcome(ranks, "what_cannot_be_sharded")[0] == [
        "FSDP(block='DecoderLayer') names no class of the model, whose parts are Block, Linear, ModuleList, Net. Name "
        "the class of the blocks that it repeats.",
        "FSDP(methods=('lose',)) names 'lose', which no module has. Name methods of what the model function returns.",
    ]


@pytest.mark.parametrize("block", ["", ("Block", 3)])
def test_a_block_needs_a_name(block: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        FSDP(block=block)
    assert str(refused.value) == (
        f"FSDP(block={block!r}) has something in it that is no name. Name the class of the repeated blocks, for "
        'instance FSDP(block="DecoderLayer"); or leave block out.'
    )


def test_one_block_or_several_or_none() -> None:
    assert FSDP(block="A") == FSDP(block=("A",))
    assert FSDP(block=("A", "B"), methods=["loss"]).methods == ("loss",)  # type: ignore[arg-type]
    found = read_parallel(2, "fsdp", "global")
    assert found is not None
    assert found.how == FSDP()
    assert msgspec.json.decode(msgspec.json.encode(FSDP(block="A")), type=DDP | FSDP) == FSDP(block="A")
    with pytest.raises(ConfigError, match=r"it shards the model itself"):
        FSDP(attach=False)
