# ruff: noqa: D102 - what `forward` does, its class says
"""Unseen families that read tables, purchases, what agents see and some points of a curve, after published designs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family


class Dice(nn.Module):
    """An activation that bends where the data are."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm1d(width, eps=1e-8)
        self.alpha = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Any:
        p = torch.sigmoid(self.bn(x.flatten(0, -2)).view_as(x))
        return p * x + self.alpha * (1 - p) * x


class ActivationUnit(nn.Module):
    """How much each thing that was bought matters for the one that is offered."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dnn = nn.Sequential(nn.Linear(4 * width, 18), Dice(18), nn.Linear(18, 10), Dice(10))
        self.dense = nn.Linear(10, 1)

    def forward(self, query: Tensor, behaviour: Tensor) -> Any:
        queries = query.expand(-1, behaviour.shape[1], -1)
        x = torch.cat([queries, behaviour, queries - behaviour, queries * behaviour], dim=-1)
        return self.dense(self.dnn(x))


class DeepInterest(nn.Module):
    """Whether somebody will buy: what he bought is weighed by what is offered."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding_dict = nn.ModuleDict({
            "item": nn.Embedding(50, 8, padding_idx=0), "category": nn.Embedding(12, 5, padding_idx=0),
            "user": nn.Embedding(30, 7),
        })  # fmt: skip
        self.attention = ActivationUnit(13)
        self.dnn = nn.Sequential(nn.Linear(33, 24), Dice(24), nn.Dropout(0.1), nn.Linear(24, 16), Dice(16))
        self.dnn_linear = nn.Linear(16, 1, bias=False)
        self.bias = nn.Parameter(torch.zeros(1))

    def look_up(self, things: Tensor) -> Tensor:
        item, category = self.embedding_dict["item"], self.embedding_dict["category"]
        return torch.cat([item(things[..., 0]), category(things[..., 1])], dim=-1)

    def forward(self, user: Tensor, offered: Tensor, bought: Tensor) -> Any:
        query, keys = self.look_up(offered).unsqueeze(1), self.look_up(bought)
        scores = self.attention(query, keys)
        scores = scores.masked_fill(bought[..., :1] == 0, 0.0)
        interest = (scores * keys).sum(1)
        x = torch.cat([self.embedding_dict["user"](user), query.squeeze(1), interest], dim=-1)
        return torch.sigmoid(self.dnn_linear(self.dnn(x)) + self.bias)


class ObliviousTrees(nn.Module):
    """Soft trees that ask one question at each depth; all leaves are weighed."""

    def __init__(self, seen: int, trees: int, depth: int, out: int) -> None:
        super().__init__()
        self.depth = depth
        self.response = nn.Parameter(torch.randn(trees, out, 2**depth))
        self.feature_selection_logits = nn.Parameter(torch.rand(seen, trees, depth))
        self.feature_thresholds = nn.Parameter(torch.randn(trees, depth))
        self.log_temperatures = nn.Parameter(torch.zeros(trees, depth))

    def forward(self, x: Tensor) -> Any:
        chosen = torch.softmax(self.feature_selection_logits, dim=0)
        values = torch.einsum("bi,itd->btd", x, chosen)
        right = torch.sigmoid((values - self.feature_thresholds) * torch.exp(-self.log_temperatures))
        reached = torch.ones_like(right[:, :, :1])
        for depth in range(self.depth):
            step = right[:, :, depth : depth + 1]
            reached = torch.cat([reached * (1 - step), reached * step], dim=-1)
        return torch.einsum("btl,tol->bto", reached, self.response)


class SoftTrees(nn.Module):
    """Layers of soft trees, of which each reads the answers of all before it; they vote."""

    def __init__(self) -> None:
        super().__init__()
        self.input_norm = nn.BatchNorm1d(9)
        self.layers = nn.ModuleList([ObliviousTrees(9, 6, 3, 4), ObliviousTrees(33, 5, 2, 4)])
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Any:
        x, votes = self.input_norm(x), []
        for layer in self.layers:
            told = layer(self.dropout(x))
            votes.append(told)
            x = torch.cat([x, told.flatten(1)], dim=1)
        return torch.cat(votes, dim=1).mean(1)


class Agent(nn.Module):
    """What an agent thinks of its actions, from what it sees and remembers."""

    def __init__(self, seen: int, hidden: int, actions: int) -> None:
        super().__init__()
        self.fc1, self.rnn = nn.Linear(seen, hidden), nn.GRUCell(hidden, hidden)
        self.fc2 = nn.Linear(hidden, actions)

    def forward(self, seen: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.rnn(F.relu(self.fc1(seen)), h)
        return self.fc2(h), h


class MonotonicMixer(nn.Module):
    """What all agents together are worth: never less where one of them is worth more. Nets say its weights."""

    def __init__(self, agents: int, state: int, hidden: int) -> None:
        super().__init__()
        self.n_agents, self.embed_dim = agents, hidden
        self.hyper_w_1 = nn.Linear(state, hidden * agents)
        self.hyper_w_final = nn.Sequential(nn.Linear(state, 14), nn.ReLU(), nn.Linear(14, hidden))
        self.hyper_b_1 = nn.Linear(state, hidden)
        self.V = nn.Sequential(nn.Linear(state, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, values: Tensor, states: Tensor) -> Any:
        batch, times, _ = values.shape
        states, values = states.flatten(0, 1), values.reshape(-1, 1, self.n_agents)
        first = torch.abs(self.hyper_w_1(states)).view(-1, self.n_agents, self.embed_dim)
        hidden = F.elu(torch.bmm(values, first) + self.hyper_b_1(states).unsqueeze(1))
        last = torch.abs(self.hyper_w_final(states)).unsqueeze(2)
        return (torch.bmm(hidden, last).squeeze(2) + self.V(states)).view(batch, times)


class MixedAgents(nn.Module):
    """Agents with one net for all of them act for some moments; a mixer says what that was worth."""

    def __init__(self, agents: int = 4) -> None:
        super().__init__()
        self.n_agents = agents
        self.agent = Agent(8 + agents, 16, 6)
        self.mixer = MonotonicMixer(agents, 11, 10)

    def forward(self, seen: Tensor, actions: Tensor, states: Tensor) -> Any:
        batch, times = seen.shape[:2]
        who = torch.eye(self.n_agents, dtype=seen.dtype).expand(batch, -1, -1)
        h, chosen = seen.new_zeros(batch * self.n_agents, 16), []
        for t in range(times):
            q, h = self.agent(torch.cat([seen[:, t], who], dim=-1).flatten(0, 1), h)
            q = q.view(batch, self.n_agents, -1)
            chosen.append(q.gather(2, actions[:, t].unsqueeze(2)).squeeze(2))
        return self.mixer(torch.stack(chosen, dim=1), states)


class CrossHeads(nn.Module):
    """Points that are asked for look at those that are known, with several heads of functions, not of a layer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Any:
        q, k, v = (
            proj(one).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for proj, one in ((self.q_proj, q), (self.k_proj, k), (self.v_proj, v))
        )
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths[:-1]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


class NeuralProcess(nn.Module):
    """A curve from some of its points, and how sure that is: a path with attention, and one that draws."""

    def __init__(self) -> None:
        super().__init__()
        self.deterministic, self.latent = mlp(4, 18, 14), mlp(4, 18, 14)
        self.cross_attention = CrossHeads(14, 2)
        self.place = mlp(2, 16, 14)
        self.penultimate = nn.Linear(14, 12)
        self.mean, self.log_var = nn.Linear(12, 6), nn.Linear(12, 6)
        self.decoder = mlp(22, 20, 4)

    def forward(self, known_x: Tensor, known_y: Tensor, asked_x: Tensor) -> Any:
        pairs = torch.cat([known_x, known_y], dim=-1)
        r = self.cross_attention(self.place(asked_x), self.place(known_x), self.deterministic(pairs))
        s = torch.relu(self.penultimate(self.latent(pairs).mean(dim=1)))
        mean, log_var = self.mean(s), self.log_var(s)
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean) if self.training else mean
        z = z.unsqueeze(1).expand(-1, asked_x.shape[1], -1)
        told, spread = self.decoder(torch.cat([r, z, asked_x], dim=-1)).chunk(2, dim=-1)
        return {"mean": told, "sigma": 0.1 + 0.9 * F.softplus(spread), "z": (mean, log_var)}


def purchases(batch: int) -> tuple[Tensor, ...]:
    def things(*shape: int) -> Tensor:
        return torch.stack([torch.randint(1, 50, shape), torch.randint(1, 12, shape)], dim=-1)

    return torch.randint(0, 30, (batch,)), things(batch), things(batch, 9)


def played(batch: int) -> tuple[Tensor, ...]:
    return torch.randn(batch, 7, 4, 8), torch.randint(0, 6, (batch, 7, 4)), torch.randn(batch, 7, 11)


RECORDS: Final = (
    Family("deep_interest", "table", DeepInterest, purchases),
    Family("soft_trees", "table", SoftTrees, lambda batch: (torch.randn(batch, 9),)),
    Family("mixed_agents", "control", MixedAgents, played),
    Family("neural_process", "set", NeuralProcess,
           lambda b: (torch.randn(b, 8, 2), torch.randn(b, 8, 2), torch.randn(b, 11, 2))),
)  # fmt: skip
