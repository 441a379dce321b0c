# ruff: noqa: D102 - what `forward` does, its class says
"""Families that read tables, sets, graphs and states, as research code writes them."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family
from benchmarks.zoo.graphs import graph


class MixtureDensity(nn.Module):
    """Several bells: how much of each, where, and how wide."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(7, 30), nn.Tanh(), nn.Linear(30, 30), nn.Tanh())
        self.weights, self.means, self.widths = nn.Linear(30, 6), nn.Linear(30, 12), nn.Linear(30, 6)

    def forward(self, x: Tensor) -> Any:
        y = self.trunk(x)
        return {
            "weights": F.softmax(self.weights(y), dim=1),
            "means": self.means(y).view(-1, 6, 2),
            "widths": F.elu(self.widths(y)) + 1.01,
        }


class Attend(nn.Module):
    """One set looks at another, in heads."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v = (nn.Linear(width, width) for _ in range(3))
        self.ln0, self.ln1 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.fc_o = nn.Linear(width, width)
        self.heads = heads

    def forward(self, one: Tensor, other: Tensor) -> Any:
        q, k, v = self.fc_q(one), self.fc_k(other), self.fc_v(other)
        size = q.shape[-1] // self.heads
        q_, k_, v_ = (torch.cat(each.split(size, 2), 0) for each in (q, k, v))
        weights = torch.softmax(q_.bmm(k_.transpose(1, 2)) / q.shape[-1] ** 0.5, 2)
        y = self.ln0(torch.cat((q_ + weights.bmm(v_)).split(q.shape[0], 0), 2))
        return self.ln1(y + F.relu(self.fc_o(y)))


class Induced(nn.Module):
    """A set looks at a few points that looked at it."""

    def __init__(self, width: int, heads: int, points: int) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.randn(1, points, width) * 0.3)
        self.mab0, self.mab1 = Attend(width, heads), Attend(width, heads)

    def forward(self, x: Tensor) -> Any:
        return self.mab1(x, self.mab0(self.points.repeat(x.shape[0], 1, 1), x))


class SetTransformer(nn.Module):
    """What does not depend on the order."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(6, 16)
        self.encoder = nn.Sequential(Induced(16, 2, 7), Induced(16, 2, 7))
        self.seeds = nn.Parameter(torch.randn(1, 2, 16) * 0.3)
        self.pool = Attend(16, 2)
        self.out = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 9))

    def forward(self, x: Tensor) -> Any:
        y = self.encoder(self.enter(x))
        return self.out(self.pool(self.seeds.repeat(x.shape[0], 1, 1), y))


class Coupling(nn.Module):
    """One half scales and moves the other."""

    def __init__(self, width: int, hidden: int, *, turned: bool) -> None:
        super().__init__()
        self.turned = turned
        half = width // 2
        self.scale = nn.Sequential(nn.Linear(half, hidden), nn.LeakyReLU(), nn.Linear(hidden, half), nn.Tanh())
        self.move = nn.Sequential(nn.Linear(half, hidden), nn.LeakyReLU(), nn.Linear(hidden, half))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        one, two = x.chunk(2, dim=1)
        if self.turned:
            one, two = two, one
        scale = self.scale(one)
        two = two * scale.exp() + self.move(one)
        return torch.cat((two, one) if self.turned else (one, two), 1), scale.sum(1)


class Flow(nn.Module):
    """Numbers to others of a simple law, and by how much volumes change."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList(Coupling(12, 22, turned=bool(k % 2)) for k in range(4))
        self.bias, self.log_scale = nn.Parameter(torch.zeros(12)), nn.Parameter(torch.zeros(12))

    def forward(self, x: Tensor) -> Any:
        z = (x + self.bias) * self.log_scale.exp()
        volume = self.log_scale.sum().expand(x.shape[0])
        for step in self.steps:
            z, more = step(z)
            volume = volume + more
        return z, volume


class HyperNetwork(nn.Module):
    """A network writes the weights of another, which reads the numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.task = nn.Linear(6, 20)
        self.weight1, self.bias1 = nn.Linear(20, 9 * 14), nn.Linear(20, 14)
        self.weight2, self.bias2 = nn.Linear(20, 14 * 8), nn.Linear(20, 8)
        self.norm = nn.LayerNorm(14)

    def forward(self, x: Tensor, task: Tensor) -> Any:
        z = F.silu(self.task(task))
        y = torch.bmm(x, self.weight1(z).view(-1, 9, 14)) + self.bias1(z).unsqueeze(1)
        y = F.relu(self.norm(y))
        return torch.baddbmm(self.bias2(z).unsqueeze(1), y, self.weight2(z).view(-1, 14, 8))


class TwoTowers(nn.Module):
    """A user and a thing, each a point; how near they are."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.user_bias = nn.Embedding(30, 10), nn.Embedding(30, 1)
        self.thing, self.thing_bias = nn.Embedding(50, 14), nn.Embedding(50, 1)
        self.words = nn.EmbeddingBag(40, 6, mode="mean")
        self.user_tower = nn.Sequential(nn.Linear(17, 26), nn.ReLU(), nn.Dropout(0.1), nn.Linear(26, 12))
        self.thing_tower = nn.Sequential(nn.Linear(20, 28), nn.ReLU(), nn.Dropout(0.1), nn.Linear(28, 12))
        self.temperature = nn.Parameter(torch.tensor(0.5))

    def forward(self, user: Tensor, about: Tensor, thing: Tensor, title: Tensor) -> Any:
        a = F.normalize(self.user_tower(torch.cat([self.user(user), about], 1)), dim=-1)
        b = F.normalize(self.thing_tower(torch.cat([self.thing(thing), self.words(title)], 1)), dim=-1)
        near = (a * b).sum(1) * self.temperature.exp()
        return near + self.user_bias(user).squeeze(1) + self.thing_bias(thing).squeeze(1)


class TabLayer(nn.Module):
    """Attention over the columns of a row."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.to_qkv, self.to_out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 56), nn.Linear(28, width)

    def forward(self, x: Tensor) -> Any:
        batch, columns, width = x.shape
        q, k, v = self.to_qkv(self.norm1(x)).view(batch, columns, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.to_out(y.transpose(1, 2).reshape(batch, columns, width))
        value, gate = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(value * F.gelu(gate))


class TabTransformer(nn.Module):
    """Categories through attention, numbers beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.categories = nn.ModuleList(nn.Embedding(size, 12) for size in (9, 15, 22, 31))
        self.column = nn.Parameter(torch.randn(4, 12) * 0.2)
        self.layers = nn.ModuleList(TabLayer(12) for _ in range(2))
        self.norm = nn.LayerNorm(7)
        self.head = nn.Sequential(nn.Linear(55, 40), nn.SELU(), nn.Linear(40, 18), nn.SELU(), nn.Linear(18, 6))

    def forward(self, categories: Tensor, numbers: Tensor) -> Any:
        x = torch.stack([e(c) for e, c in zip(self.categories, categories.unbind(1), strict=True)], 1) + self.column
        for layer in self.layers:
            x = layer(x)
        return self.head(torch.cat([x.flatten(1), self.norm(numbers)], 1))


class EdgeAttention(nn.Module):
    """Neighbours are weighed by what the edge to them says; the edge learns from both ends."""

    def __init__(self, width: int, edge: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.edge = nn.Linear(edge, width, bias=False)
        self.update = nn.Sequential(nn.Linear(2 * width + edge, 26), nn.ReLU(), nn.Linear(26, edge))
        self.norm, self.edge_norm = nn.LayerNorm(width), nn.LayerNorm(edge)

    def forward(self, x: Tensor, edges: Tensor, said: Tensor) -> tuple[Tensor, Tensor]:
        start, end = edges
        told = self.edge(said)
        score = (self.query(x)[end] * (self.key(x)[start] + told)).sum(-1, keepdim=True) / x.shape[1] ** 0.5
        score = score.clamp(-9, 9).exp()
        total = torch.zeros(x.shape[0], 1, dtype=x.dtype).index_add(0, end, score)
        sent = (self.value(x)[start] + told) * score / total[end]
        x = self.norm(x + torch.zeros_like(x).index_add(0, end, sent))
        said = self.edge_norm(said + self.update(torch.cat([x[start], x[end], said], 1)))
        return x, said


class EdgeGraph(nn.Module):
    """A number for each edge, a class for each node."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes, self.edges = nn.Linear(9, 16), nn.Linear(6, 10)
        self.rounds = nn.ModuleList(EdgeAttention(16, 10) for _ in range(2))
        self.classes, self.weights = nn.Linear(16, 7), nn.Linear(10, 1)

    def forward(self, x: Tensor, edges: Tensor, said: Tensor) -> Any:
        x, said = self.nodes(x), self.edges(said)
        for each in self.rounds:
            x, said = each(x, edges, said)
        return self.classes(x), self.weights(said)


class Slope(nn.Module):
    """How a state changes at a time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(width + 1, 24), nn.Linear(24, width)

    def forward(self, time: float, x: Tensor) -> Any:
        return self.leave(torch.tanh(self.enter(F.pad(x, (0, 1), value=time))))


class NeuralOde(nn.Module):
    """Follows a state by Runge and Kutta's steps."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(7, 12)
        self.slope = Slope(12)
        self.decode = nn.Linear(12, 6)

    def forward(self, x: Tensor) -> Any:
        state, step, path = self.encode(x), 0.5, []
        for nth in range(2):
            time = nth * step
            a = self.slope(time, state)
            b = self.slope(time + step / 2, state + step / 2 * a)
            c = self.slope(time + step / 2, state + step / 2 * b)
            d = self.slope(time + step, state + step * c)
            state = state + step / 6 * (a + 2 * b + 2 * c + d)
            path.append(self.decode(state))
        return torch.stack(path, 1)


class ManyTasks(nn.Module):
    """Experts for all tasks; each task has a gate that mixes them."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(14, 22), nn.ReLU(), nn.Linear(22, 16), nn.ReLU()) for _ in range(4)
        )
        self.gates = nn.ModuleDict({task: nn.Linear(14, 4, bias=False) for task in ("click", "buy")})
        self.towers = nn.ModuleDict({
            task: nn.Sequential(nn.Linear(16, 9), nn.ReLU(), nn.Linear(9, 1)) for task in ("click", "buy")
        })  # fmt: skip

    def forward(self, x: Tensor) -> Any:
        made = torch.stack([expert(x) for expert in self.experts], 1)
        given = {}
        for task, gate in self.gates.items():
            mixed = (gate(x).softmax(-1).unsqueeze(-1) * made).sum(1)
            given[task] = self.towers[task](mixed).squeeze(-1)
        return given


class ActorCritic(nn.Module):
    """What to do, what that is worth, and what to remember."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(2, 8, 4, 2), nn.Conv2d(8, 12, 3)
        self.fc = nn.Linear(12 * 16, 24)
        self.memory = nn.GRUCell(24, 18)
        self.actor = nn.Sequential(nn.Linear(18, 20), nn.Tanh(), nn.Linear(20, 7))
        self.critic = nn.Sequential(nn.Linear(18, 20), nn.Tanh(), nn.Linear(20, 1))

    def forward(self, seen: Tensor, state: Tensor) -> Any:
        x = F.relu(self.fc(F.relu(self.conv2(F.relu(self.conv1(seen)))).flatten(1)))
        state = self.memory(x, state)
        return F.log_softmax(self.actor(state), dim=-1), self.critic(state).squeeze(-1), state


class Energy(nn.Module):
    """How odd something is: layers that are kept from growing, beside a quadratic part."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.utils.parametrizations.spectral_norm(nn.Linear(11, 26))
        self.layer2 = nn.Linear(26, 26)
        self.act = nn.Mish()
        self.norm = nn.RMSNorm(26)
        self.linear = nn.Linear(11, 1)
        self.low_rank = nn.Linear(11, 6, bias=False)
        self.out = nn.Linear(26, 1)

    def forward(self, x: Tensor) -> Any:
        y = self.act(self.layer1(x))
        y = self.norm(y + self.act(self.layer2(y)))
        return (self.out(y) + self.linear(x)).squeeze(1) + (self.low_rank(x) ** 2).sum(1)


def row(batch: int) -> tuple[Tensor, Tensor]:
    return torch.stack([torch.randint(0, size, (batch,)) for size in (9, 15, 22, 31)], 1), torch.randn(batch, 7)


def wanted(batch: int) -> tuple[Tensor, ...]:
    return (torch.randint(0, 30, (batch,)), torch.randn(batch, 7), torch.randint(0, 50, (batch,)),
            torch.randint(0, 40, (batch, 11)))  # fmt: skip


def told_edges(batch: int) -> tuple[Tensor, ...]:
    x, edges = graph(batch)
    return x, edges, torch.randn(edges.shape[1], 6)


RECORDS: Final = (
    Family("mixture_density", "table", MixtureDensity, lambda batch: (torch.randn(batch, 7),)),
    Family("set_transformer", "set", SetTransformer, lambda batch: (torch.randn(batch, 13, 6),)),
    Family("flow", "table", Flow, lambda batch: (torch.randn(batch, 12),)),
    Family("hyper_network", "table", HyperNetwork, lambda b: (torch.randn(b, 11, 9), torch.randn(b, 6))),
    Family("two_towers", "table", TwoTowers, wanted),
    Family("tab_transformer", "table", TabTransformer, row),
    Family("edge_graph", "graph", EdgeGraph, told_edges, shared=("[1]", "[2]")),
    Family("neural_ode", "table", NeuralOde, lambda batch: (torch.randn(batch, 7),)),
    Family("many_tasks", "table", ManyTasks, lambda batch: (torch.randn(batch, 14),)),
    Family("actor_critic", "image", ActorCritic, lambda b: (torch.randn(b, 2, 14, 14), torch.randn(b, 18))),
    Family("energy", "table", Energy, lambda batch: (torch.randn(batch, 11),)),
)
