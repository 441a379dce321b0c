"""A model sharded over two real processes trains as one does alone, and comes back from its shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from ranks_at_work import outcome, run
from torch import nn
from torch.distributed.tensor import DTensor, Partial
from torch.nn import functional as F

from etude.core.errors import ConfigError, StateError
from etude.core.ranks import DDP, FSDP, read_parallel
from etude.frameworks import state_file, torch_fsdp
from etude.frameworks.kinds import handle
from etude.frameworks.shards import has_shards, join
from etude.frameworks.torch_fsdp_states import put_back, shards_of
from etude.frameworks.torch_ranks import Groups
from etude.frameworks.trees import take_apart


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


def full_state(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the whole state of a sharded module; all ranks call it."""
    state = model.state_dict().items()
    return {name: (t.full_tensor() if isinstance(t, DTensor) else t).detach().clone() for name, t in state}


def write(state: Any, groups: Groups, folder: Path) -> list[tuple[Path, str]]:
    """Write what each rank has of a state, and return the files with their digests, by rank."""
    path = folder / f"{groups.rank}.safetensors"
    return groups.gather((path, state_file.write(path, *take_apart(state, path=""))[0]))


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
    whole = full_state(model)
    for name, value in whole.items():
        torch.testing.assert_close(value, reference.state_dict()[name], rtol=1e-4, atol=1e-6)

    kept = {"model": handle(model, path="model"), "optimizer": handle(optimizer, path="optimizer")}
    trees = {"model": kept["model"].weights(), "optimizer": kept["optimizer"].rest()}
    files = write(trees, groups, Path(folder))
    shard = state_file.read(*files[groups.rank])
    of_block = shard["model"]["blocks.0.inner.weight"]
    assert of_block["shape"] == [6, 6]
    assert of_block["etude.shard"].shape == (3, 6), "half of it, and no rank has the whole"
    assert shard["optimizer"]["state"][0]["exp_avg"]["etude.shard"].shape == (3, 4)
    all_of_it = join([state_file.read(*file) for file in files])
    assert not has_shards(all_of_it)
    assert all(torch.equal(value, whole[name]) for name, value in all_of_it["model"].items())
    moments = alone.state_dict()["state"]
    for number, found in all_of_it["optimizer"]["state"].items():
        torch.testing.assert_close(found["exp_avg"], moments[number]["exp_avg"], rtol=1e-4, atol=1e-6)
    step(4)
    later = full_state(model)
    kept["model"].bring_back(shard["model"], None)
    kept["optimizer"].bring_back(None, shard["optimizer"])
    step(4)
    again = full_state(model)
    assert all(torch.equal(value, again[name]) for name, value in later.items())


def states_that_do_not_fit(groups: Groups, folder: str) -> list[str]:
    model = net()
    sharded = torch_fsdp.Sharded({"": model}, FSDP(block="Block"), groups)
    state = shards_of(model.state_dict())
    told = []
    with pytest.raises(StateError) as refused:
        put_back(state, net())
    told.append(str(refused.value))
    with pytest.raises(StateError) as refused:
        shards_of({"a": DTensor.from_local(torch.ones(2), sharded.mesh, [Partial()])})
    told.append(str(refused.value))
    plain = {"a": torch.ones(2), "b": [1, (2, None)]}
    assert put_back(plain, net()) is plain
    return told


def what_cannot_be_sharded(groups: Groups, folder: str) -> list[str]:
    told = []
    for spec in (FSDP(block="DecoderLayer"), FSDP(block="Block", methods=("lose",))):
        with pytest.raises(ConfigError) as refused:
            torch_fsdp.Sharded({"": net()}, spec, groups)
        told.append(str(refused.value))
    return told


TOGETHER = ("one_model_on_all", "states_that_do_not_fit", "what_cannot_be_sharded")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    place = tmp_path_factory.mktemp("fsdp")
    return run(__file__, TOGETHER, 2, place / "ranks", folder=str(place / "state"))


@pytest.mark.parametrize("name", TOGETHER)
def test_on_two_ranks(ranks: list[dict[str, Any]], name: str) -> None:
    outcome(ranks, name)


def test_states_that_are_not_sharded_alike_are_refused(ranks: list[dict[str, Any]]) -> None:
    assert outcome(ranks, "states_that_do_not_fit")[0] == [
        "The saved state of Net is sharded, and it is not. Keep the same things.",
        "A tensor of shape (2,) lies on the ranks as (Partial(sum),), and what is kept may be sharded over all ranks "
        "in one way alone. Keep what etude.FSDP(...) shards, or whole tensors.",
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
