"""Gradients are averages over ranks, whatever the code does: shown in two or three real processes, beside one rank."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from ranks_at_work import outcome, run
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from etude.core.errors import ConfigError, RanksError
from etude.frameworks.torch_average import Averager
from etude.frameworks.torch_ranks import Groups

CLOSE = {"rtol": 1e-9, "atol": 1e-12}


class Net(nn.Module):
    """Has a loss of its own, which a wrapper's forward would never see."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, width)
        self.last = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(self(x), y)


def net(seed: int = 0, **more: Any) -> Net:
    torch.manual_seed(seed)
    return Net(**more).double()


def batch(step: int = 0, n: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(n, 4, generator=generator, dtype=torch.float64)
    return x, x.sum(dim=1, keepdim=True).sin()


def mine(groups: Groups, averager: Averager, n: int) -> slice:
    """Return this rank's part of a batch, and let the averager know how much it counts."""
    sizes = [len(part) for part in np.array_split(np.arange(n), groups.ranks)]
    averager.weight = sizes[groups.rank] * groups.ranks / n
    start = sum(sizes[: groups.rank])
    return slice(start, start + sizes[groups.rank])


def gradients(module: nn.Module) -> dict[str, torch.Tensor | None]:
    return {name: None if p.grad is None else p.grad.clone() for name, p in module.named_parameters()}


def equal(module: nn.Module, reference: nn.Module, **close: float) -> None:
    theirs = gradients(reference)
    for name, gradient in gradients(module).items():
        other = theirs[name]
        assert (gradient is None) == (other is None), name
        if gradient is not None:
            torch.testing.assert_close(
                gradient, other, **(close or CLOSE), msg=lambda told, name=name: f"{name}: {told}"
            )


def same_everywhere(groups: Groups, module: nn.Module) -> None:
    state = {name: value.tolist() for name, value in module.state_dict().items()}
    assert all(other == state for other in groups.gather(state))


# --- what ranks do --------------------------------------------------------------------------------


def the_loss_of_a_method(groups: Groups) -> None:
    """net.loss() trains as net() does, for several steps and uneven batches."""
    model, reference = net(), net()
    averager = Averager({"": model}, groups)
    averager.leave(reference.parameters())
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.01) for m in (model, reference)]
    for step in range(5):
        x, y = batch(step, n=13)
        part = mine(groups, averager, 13)
        for optimizer, one, some in ((optimizers[0], model, part), (optimizers[1], reference, slice(None))):
            optimizer.zero_grad()
            one.loss(x[some], y[some]).backward()
            if one is model:
                equal(model, net_with(reference, x, y))
            optimizer.step()
    same_everywhere(groups, model)
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-7, atol=1e-9)
    averager.detach()
    model.zero_grad()
    x, y = batch(groups.rank)
    model.loss(x, y).backward()
    alone = net_with(model, x, y)
    equal(model, alone, rtol=0, atol=0)  # detached, gradients are the rank's own


def net_with(module: Net, x: torch.Tensor, y: torch.Tensor) -> Net:
    """Return a copy that has the gradients of a whole batch."""
    copied = copy.deepcopy(module)
    copied.zero_grad()
    copied.loss(x, y).backward()
    return copied


def two_models_with_two_optimizers(groups: Groups) -> None:
    """A GAN: each backward touches one or both, and those that it did not touch are neither waited for nor changed."""
    torch.manual_seed(1)
    pairs = []
    for _ in range(2):
        torch.manual_seed(1)
        pairs.append(
            {"g": nn.Linear(4, 4).double(), "d": nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).double()}
        )
    averager = Averager(pairs[0], groups)
    for reference in pairs[1].values():
        averager.leave(reference.parameters())
    optimizers = [{name: torch.optim.Adam(m.parameters(), lr=0.02) for name, m in pair.items()} for pair in pairs]
    for step in range(4):
        noise, real = batch(step)[0], batch(step + 100)[0]
        for nth, (pair, optimizer) in enumerate(zip(pairs, optimizers, strict=True)):
            part = mine(groups, averager, 12) if nth == 0 else slice(None)
            g, d = pair["g"], pair["d"]
            optimizer["d"].zero_grad()
            (F.softplus(-d(real[part])).mean() + F.softplus(d(g(noise[part]).detach())).mean()).backward()
            assert step or g.weight.grad is None
            optimizer["d"].step()
            optimizer["g"].zero_grad()
            d.requires_grad_(step % 2 == 0)  # some freeze it for this step
            F.softplus(-d(g(noise[part]))).mean().backward()
            d.requires_grad_(True)
            optimizer["g"].step()
        for name in ("g", "d"):
            equal(pairs[0][name], pairs[1][name], rtol=1e-6, atol=1e-9)
    for name in ("g", "d"):
        same_everywhere(groups, pairs[0][name])
    averager.detach()


def parameters_that_one_rank_did_not_use(groups: Groups) -> None:
    """A gradient that is missing here counts as zero; one that is missing everywhere stays None."""
    pairs = [nn.ModuleDict({name: nn.Linear(4, 1) for name in ("a", "b", "c")}).double() for _ in range(2)]
    pairs[1].load_state_dict(pairs[0].state_dict())
    averager = Averager({"net": pairs[0]}, groups)
    pairs[1].load_state_dict(pairs[0].state_dict())
    x, _ = batch(n=4)
    name = "a" if groups.rank == 0 else "b"
    (pairs[0][name](x).mean()).backward()
    (pairs[1]["a"](x).mean() / groups.ranks + pairs[1]["b"](x).mean() * (groups.ranks - 1) / groups.ranks).backward()
    equal(*pairs)
    assert pairs[0]["c"].weight.grad is None
    averager.detach()


def modules_that_one_rank_did_not_use(groups: Groups) -> None:
    """Of three modules each rank touches another one, and nobody the last."""
    modules = {name: nn.Linear(2, 1, bias=False).double() for name in ("0", "1", "2", "never")}
    averager = Averager(modules, groups)
    x = torch.ones(1, 2, dtype=torch.float64)
    modules[str(groups.rank)](x).sum().backward()
    for name in map(str, range(groups.ranks)):
        torch.testing.assert_close(modules[name].weight.grad, x / groups.ranks)
    assert modules["never"].weight.grad is None
    averager.detach()


def accumulation(groups: Groups) -> None:
    """Several backwards before a step, of uneven batches, with gradients set to None and to zero."""
    model, reference = net(), net()
    averager = Averager({"": model}, groups)
    for none in (True, False):
        for one in (model, reference):
            one.zero_grad(set_to_none=none)
        for step, n in enumerate((12, 7, 4)):
            x, y = batch(step, n)
            part = mine(groups, averager, n)
            model.loss(x[part], y[part]).backward()
            reference.loss(x, y).backward()
            equal(model, reference)
    averager.detach()


def a_rank_without_examples(groups: Groups) -> None:
    """It has one example without weight, and even NaN there counts for nothing."""
    model, reference = net(), net()
    averager = Averager({"": model}, groups)
    x, y = batch(n=groups.ranks - 1)
    part = mine(groups, averager, groups.ranks - 1)
    idle = averager.weight == 0
    assert idle == (groups.rank == groups.ranks - 1)
    loss = model.loss(x[:1] * float("nan"), y[:1]) if idle else model.loss(x[part], y[part])
    loss.backward()
    reference.loss(x, y).backward()
    equal(model, reference)
    averager.detach()


def graphs_that_are_used_twice(groups: Groups) -> None:
    model, reference = net(), net()
    averager = Averager({"": model}, groups)
    x, y = batch()
    part = mine(groups, averager, 12)
    for one, some in ((model, part), (reference, slice(None))):
        out = one(x[some])
        F.mse_loss(out, y[some]).backward(retain_graph=True)
        out.square().mean().backward()
        direct = torch.autograd.grad(one.loss(x[some], y[some]), list(one.parameters()))
        assert len(direct) == 6  # asks for its own gradients, and gets them
        penalised = x[some].clone().requires_grad_()
        (grad,) = torch.autograd.grad(one(penalised).sum(), penalised, create_graph=True)
        grad.square().mean().backward()
    equal(model, reference)
    averager.detach()


class Deep(nn.Module):
    """Blocks under activation checkpointing; the first is used twice."""

    def __init__(self, reentrant: bool, head: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3))
        self.head = nn.Linear(4, 4) if head else nn.Identity()
        self.reentrant = reentrant

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.clone().requires_grad_()
        for block in (*self.blocks, self.blocks[0]):
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return F.mse_loss(self.head(x).sum(dim=1, keepdim=True), y)


def counted(function: Any, calls: list[int]) -> Any:
    def call(*args: Any, **more: Any) -> Any:
        calls.append(1)
        return function(*args, **more)

    return call


def activation_checkpointing(groups: Groups) -> None:
    """Reentrant or not, with something outside of the checkpointed parts or nothing; a block is in two of them."""
    for reentrant, head in ((False, True), (True, True), (True, False)):
        torch.manual_seed(2)
        model = Deep(reentrant, head).double()
        reference = copy.deepcopy(model)
        averager = Averager({"": model}, groups)
        sent: list[int] = []
        for step in range(3):
            x, y = batch(step)
            part = mine(groups, averager, 12)
            for one in (model, reference):
                one.zero_grad()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(groups, "all_reduce", counted(groups.all_reduce, sent))
                model.loss(x[part], y[part]).backward()
            reference.loss(x, y).backward()
            equal(model, reference)
        assert len(sent) == 3  # once a backward, however many there were inside
        averager.detach()


def parameters_that_are_set_free_later(groups: Groups) -> None:
    model, reference = net(), net()
    for one in (model, reference):
        one.first.requires_grad_(False)
    averager = Averager({"": model}, groups)
    for step in range(4):
        x, y = batch(step)
        part = mine(groups, averager, 12)
        for one in (model, reference):
            one.zero_grad()
            one.first.requires_grad_(step in (1, 3))
            one.last.requires_grad_(step != 3)
        model.loss(x[part], y[part]).backward()
        reference.loss(x, y).backward()
        equal(model, reference)
    averager.detach()


def kinds_of_numbers(groups: Groups) -> None:
    """float32, bfloat16, half and complex in one module, and gradients that do not lie in order."""
    torch.manual_seed(3)
    kinds = (torch.float32, torch.bfloat16, torch.float16, torch.complex64, torch.float64)
    model = nn.ParameterDict({f"is_{str(kind)[6:]}": nn.Parameter(torch.randn(3, 5).to(kind)) for kind in kinds})
    model["image"] = nn.Parameter(torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last))
    model["gap"] = nn.Parameter(torch.randn(6, 6)[:, ::2])
    model["turned"] = nn.Parameter(torch.randn(3, 5).t())
    model["whole"] = nn.Parameter(torch.ones(2, dtype=torch.int8), requires_grad=False)
    model["number"] = nn.Parameter(torch.tensor(2.0))
    averager = Averager({"": model}, groups)
    sum(
        (p.abs().float() if p.is_complex() else p.float()).square().sum() * (groups.rank + 1) for p in model.values()
    ).backward()
    middle = (groups.ranks + 1) / 2
    assert model.pop("whole").grad is None
    for name, p in model.items():
        torch.testing.assert_close(p.grad, (2 * middle * p).detach().to(p.dtype), rtol=2e-2, atol=1e-3, msg=name)
    torch.testing.assert_close(model["image"].grad, 2 * middle * model["image"].detach(), rtol=1e-6, atol=1e-6)
    assert model["image"].grad.is_contiguous(memory_format=torch.channels_last)
    averager.detach()


def a_model_that_is_converted_later(groups: Groups) -> None:
    model = net().float()
    averager = Averager({"": model}, groups)
    model.loss(*(t.float() for t in batch())).backward()
    model.double()
    model.zero_grad()
    reference = copy.deepcopy(model)
    x, y = batch(1)
    part = mine(groups, averager, 12)
    model.loss(x[part], y[part]).backward()
    reference.loss(x, y).backward()
    equal(model, reference)
    averager.detach()


def clipping_and_scaling(groups: Groups) -> None:
    """What comes after backward sees averages; an overflow on one rank is one on all."""
    model, reference = net(), net()
    averager = Averager({"": model}, groups)
    x, y = batch()
    part = mine(groups, averager, 12)
    model.loss(x[part], y[part]).backward()
    reference.loss(x, y).backward()
    norms = [float(nn.utils.clip_grad_norm_(one.parameters(), 0.01)) for one in (model, reference)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-9)
    equal(model, reference)
    model = net().float()
    other = Averager({"": model}, groups)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    before = copy.deepcopy(model.state_dict())
    x, y = (t.float() for t in batch())
    scaler.scale(model.loss(x, y * (1e38 if groups.rank == 0 else 1))).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**9
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    averager.detach()
    other.detach()


def compiled(groups: Groups) -> None:
    model, reference = net(), net()
    averager = Averager({"": model}, groups)
    fast = torch.compile(model, backend="aot_eager")
    x, y = batch()
    part = mine(groups, averager, 12)
    F.mse_loss(fast(x[part]), y[part]).backward()
    reference.loss(x, y).backward()
    equal(model, reference)
    averager.detach()


def buckets_go_while_backward_goes_on(groups: Groups) -> list[str]:
    """The average of the last layer is there while backward stands still in the middle, before the first layer."""
    torch.manual_seed(3)
    last = nn.Linear(512, 512)  # 1 MiB and its bias: a bucket of its own
    model = nn.Sequential(nn.Linear(4, 512), nn.Tanh(), last)
    story: list[str] = []
    handle = model[0].weight.register_post_accumulate_grad_hook(lambda _: story.append("the first layer is reached"))
    averager = Averager({"": model}, groups)
    works: list[Any] = []
    send = groups.all_reduce

    def noted(tensor: torch.Tensor, group: int | None) -> Any:
        story.append(f"bucket {len(works) + 1} goes")
        works.append(send(tensor, group))
        return works[-1]

    def between(_: torch.Tensor) -> None:
        story.append("backward is in the middle")
        for work in works:
            assert work.wait()
            story.append("what has gone has come from all")

    x, _ = batch(n=12)
    part = mine(groups, averager, 12)
    hidden = model[1](model[0](x[part].float()))
    hidden.register_hook(between)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "all_reduce", noted)
        last(hidden).square().mean().backward()
    handle.remove()
    averager.detach()
    return story


def the_model_stays_what_it_is(groups: Groups) -> None:
    """Type, names, copies and pickles; a copy is not averaged."""
    model = net()
    names, kind = list(model.state_dict()), type(model)
    averager = Averager({"": model, "again": model}, groups)
    assert type(model) is kind
    assert list(model.state_dict()) == names
    copied = copy.deepcopy(model)
    again = pickle.loads(pickle.dumps(model))
    written = io.BytesIO()
    torch.save(model, written)
    written.seek(0)
    read = torch.load(written, weights_only=False)
    x, y = batch(groups.rank)
    for one in (copied, again, read):
        one.loss(x, y).backward()
        equal(one, net_with(net(), x, y))  # this rank's own
    model.loss(x, y).backward()
    assert not torch.equal(model.last.weight.grad, copied.last.weight.grad)
    averager.detach()


def buffers_are_means(groups: Groups) -> None:
    """Running statistics are the weighted mean; constants stay to the bit, numbers of batches are each rank's own."""
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    model[0].register_buffer("table", torch.tensor([0.1, -torch.inf, torch.nan, 1e-42]))
    model[2].register_buffer("seen", torch.tensor(0.1))
    model[2].register_buffer("own", torch.tensor(0))
    averager = Averager({"": model}, groups)
    table = model[0].table.clone()
    mean = model[1].running_mean.double()
    for step in range(3):
        x = batch(step, 13)[0].float()
        part = mine(groups, averager, 13)
        inner = model[0](x[part]).detach()
        everywhere = groups.gather([inner.double().mean(dim=0).tolist(), averager.weight])
        batch_mean = sum(torch.tensor(m).double() * w for m, w in everywhere) / groups.ranks
        mean = 0.9 * mean + 0.1 * batch_mean
        if step == 1:
            model[2].seen += groups.rank
        model[2].own += groups.rank
        model(x[part]).mean().backward()
        torch.testing.assert_close(model[1].running_mean.double(), mean, rtol=1e-5, atol=1e-6)
        everybody = groups.gather(model[1].running_var.tolist())
        assert all(other == everybody[0] for other in everybody)
    assert torch.equal(model[0].table.nan_to_num(7), table.nan_to_num(7))
    sizes = [len(part) for part in np.array_split(np.arange(13), groups.ranks)]
    expected = 0.1 + sum(rank * size for rank, size in enumerate(sizes)) / 13
    assert float(model[2].seen) == pytest.approx(expected, rel=1e-5)
    assert int(model[2].own) == 3 * groups.rank
    frozen = model[1].running_mean.clone()
    model.eval()
    averager.weight = 1.0
    model(x).mean().backward()
    assert torch.equal(model[1].running_mean, frozen)
    averager.check()
    assert int(model[2].own) == 0
    averager.detach()


def the_beginning_is_rank_0s(groups: Groups) -> list[str]:
    model = net(seed=groups.rank)
    averager = Averager({"": model}, groups)
    same_everywhere(groups, model)
    equal_to = net(seed=0).state_dict()
    assert all(torch.equal(value, equal_to[name]) for name, value in model.state_dict().items())
    averager.detach()
    return averager.notes


def a_head_that_came_later(groups: Groups) -> str:
    model = net()
    averager = Averager({"": model}, groups)
    model.last = nn.Linear(8, 1).double()
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.loss(*batch()).backward()
    with pytest.raises(RanksError) as refused:
        optimizer.step()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    attack = torch.zeros(3, requires_grad=True)  # no parameter, and of this rank alone
    torch.optim.SGD([attack], lr=0.1).step()
    averager.detach()
    return str(refused.value)


def steps_and_backwards_that_cannot_be(groups: Groups) -> list[str]:
    model = net()
    averager = Averager({"": model}, groups)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    told = []
    handle = model.first.weight.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    with pytest.raises(RanksError) as refused:
        model.loss(*batch()).backward()
    told.append(str(refused.value))
    handle.remove()
    with pytest.raises(RanksError) as refused:
        model.loss(*batch()).backward()
    told.append(str(refused.value))
    averager.detach()
    return told


def an_exception_that_was_caught(groups: Groups) -> str:
    """Before any gradient was sent."""
    model = net()

    def fail(_: torch.Tensor) -> None:
        raise ValueError("here")

    averager = Averager({"": model}, groups)
    handle = model.last.weight.register_post_accumulate_grad_hook(fail)
    with pytest.raises(ValueError, match="here"):
        model.loss(*batch()).backward()
    handle.remove()
    with pytest.raises(RanksError) as refused:
        model.loss(*batch()).backward()
    averager.detach()
    return str(refused.value)


def ranks_at_other_batches(groups: Groups) -> str:
    model = net()
    averager = Averager({"": model}, groups)
    averager.weight = 1.0 if groups.rank == 0 else 0.5
    with pytest.raises(RanksError) as refused:
        model.loss(*batch()).backward()
    averager.detach()
    return str(refused.value)


def sparse_embeddings(groups: Groups) -> list[str]:
    told = []
    with pytest.raises(ConfigError) as refused:
        Averager({"": nn.Sequential(nn.Embedding(4, 2, sparse=True))}, groups)
    told.append(str(refused.value))
    table = nn.Parameter(torch.zeros(4, 2))
    averager = Averager({"": nn.ParameterList([table])}, groups)
    with pytest.raises(RanksError) as first:
        F.embedding(torch.tensor([1]), table, sparse=True).sum().backward()
    told.append(str(first.value))
    averager.detach()
    return told


def lazy_modules(groups: Groups) -> str:
    with pytest.raises(ConfigError) as refused:
        Averager({"": nn.LazyLinear(3)}, groups)
    return str(refused.value)


def models_of_other_forms(groups: Groups) -> str:
    with pytest.raises(RanksError) as refused:
        Averager({"": net(width=8 + groups.rank)}, groups)
    return str(refused.value)


def beside_torchs_own(groups: Groups) -> None:
    """Equal to DistributedDataParallel to the bit, where that works."""
    torch.manual_seed(5)
    ours = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    theirs = nn.parallel.DistributedDataParallel(copy.deepcopy(ours))
    averager = Averager({"": ours}, groups)
    averager.leave(theirs.parameters())
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9) for one in (ours, theirs)]
    for step in range(4):
        x = torch.randn(8, 1, 8, 8, generator=torch.Generator().manual_seed(10 * step + groups.rank))
        for one, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            one(x).square().mean().backward()
            optimizer.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-7)
    averager.detach()


class Choosing(nn.Module):
    """Layers of which each example uses some."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def loss(self, x: torch.Tensor, using: torch.Tensor) -> torch.Tensor:
        total = x.sum() * 0
        for nth, layer in enumerate(self.layers):
            if (some := using[:, nth]).any():
                total = total + layer(x[some]).square().sum()
        return total / len(x)


def programs_of_chance(groups: Groups) -> int:
    """Three modules; backwards that touch some of them, with some of their layers, for some examples; at times a "
    "step."""
    chance = np.random.default_rng(11)
    torch.manual_seed(4)
    ours = {name: Choosing().double() for name in "abc"}
    alone = {name: copy.deepcopy(module) for name, module in ours.items()}
    averager = Averager(ours, groups)
    everything = [p for one in (ours, alone) for m in one.values() for p in m.parameters()]
    compared = 0
    for _ in range(60):
        n = int(chance.integers(groups.ranks, 3 * groups.ranks + 1))
        x, _ = batch(int(chance.integers(1000)), n)
        using = torch.from_numpy(chance.random((3, n, 4)) < 0.4)
        using[0, :, 0] = True  # each rank touches something
        part = mine(groups, averager, n)
        free = chance.random(4) < 0.9
        for modules, some in ((ours, part), (alone, slice(None))):
            for wanted, layer in zip(free.tolist(), modules["b"].layers, strict=True):
                layer.requires_grad_(wanted)
            sum(m.loss(x[some], using[nth][some]) for nth, m in enumerate(modules.values())).backward()
        for name, module in ours.items():
            equal(module, alone[name])
            compared += 1
        if chance.random() < 0.3:
            with torch.no_grad():
                for p in everything:
                    p.sub_(0.01 * (0 if p.grad is None else p.grad))
        if chance.random() < 0.4:
            none = bool(chance.random() < 0.5)
            for module in (*ours.values(), *alone.values()):
                module.zero_grad(set_to_none=none)
    for module in ours.values():
        same_everywhere(groups, module)
    averager.detach()
    return compared


# --- the tests ------------------------------------------------------------------------------------

AT_TWO = (
    "the_loss_of_a_method", "two_models_with_two_optimizers", "parameters_that_one_rank_did_not_use",
    "modules_that_one_rank_did_not_use", "accumulation", "a_rank_without_examples", "graphs_that_are_used_twice",
    "activation_checkpointing", "parameters_that_are_set_free_later", "kinds_of_numbers",
    "a_model_that_is_converted_later", "clipping_and_scaling", "compiled", "the_model_stays_what_it_is",
    "buffers_are_means", "buckets_go_while_backward_goes_on", "the_beginning_is_rank_0s", "a_head_that_came_later",
    "steps_and_backwards_that_cannot_be",
    "programs_of_chance", "an_exception_that_was_caught", "ranks_at_other_batches", "sparse_embeddings", "lazy_modules",
"models_of_other_forms", "beside_torchs_own", )  # fmt: skip
AT_THREE = (
    "parameters_that_one_rank_did_not_use", "modules_that_one_rank_did_not_use", "accumulation",
    "a_rank_without_examples", "buffers_are_means", "graphs_that_are_used_twice", "programs_of_chance",
)  # fmt: skip
"""Those that need no optimizer: the first one of a process takes seconds."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run(__file__, AT_TWO, 2, tmp_path_factory.mktemp("two") / "ranks")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run(__file__, AT_THREE, 3, tmp_path_factory.mktemp("three") / "ranks")


@pytest.mark.parametrize("name", AT_TWO)
@pytest.mark.thorough
def test_on_two_ranks(two: list[dict[str, Any]], name: str) -> None:
    outcome(two, name)


@pytest.mark.parametrize("name", AT_THREE)
def test_on_three_ranks(three: list[dict[str, Any]], name: str) -> None:
    outcome(three, name)


def test_programs_of_chance_were_compared(three: list[dict[str, Any]]) -> None:
    assert outcome(three, "programs_of_chance") == [180, 180, 180]


def test_gradients_are_under_way_while_backward_goes_on(two: list[dict[str, Any]]) -> None:
    story = [
        "bucket 1 goes",
        "backward is in the middle",
        "what has gone has come from all",
        "the first layer is reached",
        "bucket 2 goes",
    ]
    assert outcome(two, "buckets_go_while_backward_goes_on") == [story] * 2


def test_a_note_says_that_ranks_began_differently(two: list[dict[str, Any]]) -> None:
    note = (
        "The ranks began with different values of first.weight, first.bias, second.weight, second.bias, last.weight "
        "and 1 more; all of them have rank 0's now."
    )
    assert outcome(two, "the_beginning_is_rank_0s") == [[note], [note]]


MESSAGES = {
    "a_head_that_came_later": (
        "SGD is about to change parameters whose gradients are this rank's alone: last.weight, last.bias. They came "
        "after the model function had returned, so the ranks would train models of their own without a word. Put new "
        "heads and losses with parameters into what the model function returns."
    ),
    "ranks_at_other_batches": (
        "The weights of the 2 ranks' gradients are 1.5 together, and would be 2 if all of them were at the same batch. "
        "A rank is at another one: it left an epoch early, or took a batch more. Let all ranks go through their "
        "loaders alike; decide by run.mean(value) when to leave an epoch."
    ),
    "lazy_modules": (
        "weight, bias has no shape yet: the module is lazy, so ranks would make it from numbers of their own. Let one "
        "batch go through the model in the model function, before it is returned."
    ),
    "sparse_embeddings": [
        "0 is an embedding with sparse=True, and gradients are averaged over ranks as dense ones. Leave out "
        "sparse=True, or train on one rank.",
        "0 has a sparse gradient, and gradients are averaged as dense ones. Leave out sparse=True.",
    ],
    "steps_and_backwards_that_cannot_be": [
        "An optimizer steps before backward has ended, from a hook or after an exception, so with gradients of this "
        "rank alone. Call optimizer.step() after loss.backward().",
        "last.bias got a second gradient before the average of the first was there. Either a checkpointed part that "
        "uses it was put in after the first step: use checkpoint(..., use_reentrant=False). Or an earlier backward "
        "ended with an exception that was caught: let it end the training.",
    ],
    "an_exception_that_was_caught": (
        "An earlier backward ended with an exception that was caught, so that gradients went to the other ranks in "
        "part. Ranks cannot go on from there; let the exception end the training, which may begin again from its last "
        "checkpoint."
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_what_cannot_be_is_refused_with_the_mend(two: list[dict[str, Any]], name: str) -> None:
    assert outcome(two, name) == [MESSAGES[name]] * 2
