# ruff: noqa: D102 - what `forward` does, its class says
"""More families that read tables, clicks, sets, molecules and what an agent sees, as people write them at work.

They are of the third set of families that were unseen once.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family
from benchmarks.zoo.graphs import graph


def mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)


class Dlrm(nn.Module):
    """Products of all pairs of embeddings, beside the numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = mlp(7, 22, 12)
        self.tables = nn.ModuleList(nn.EmbeddingBag(size, 12, mode="sum") for size in (9, 15, 22))
        self.top = mlp(18, 26, 14)
        self.click = nn.Linear(14, 1)

    def forward(self, numbers: Tensor, bags: Tensor) -> Any:
        dense = self.bottom(numbers)
        fields = torch.stack([dense, *(table(bags[:, k]) for k, table in enumerate(self.tables))], 1)
        products = torch.bmm(fields, fields.transpose(1, 2))
        row, column = torch.tril_indices(fields.shape[1], fields.shape[1], offset=-1)
        return torch.sigmoid(self.click(self.top(torch.cat([dense, products[:, row, column]], 1)))).squeeze(1)


class GatedExperts(nn.Module):
    """Experts that all tasks share; each task has a gate and a tower of its own, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(14)
        self.experts = nn.ModuleList(mlp(14, 18, 12) for _ in range(4))
        self.gates = nn.ModuleDict({task: nn.Linear(14, 4, bias=False) for task in ("buys", "stays")})
        self.towers = nn.ModuleDict(
            {
                "buys": nn.Sequential(nn.Linear(12, 10), nn.LeakyReLU(), nn.Linear(10, 1)),
                "stays": nn.Sequential(nn.Linear(12, 8), nn.Dropout(0.2), nn.SELU(), nn.Linear(8, 6)),
            }
        )

    def forward(self, x: Tensor) -> Any:
        x = self.norm(x)
        seen = torch.stack([expert(x) for expert in self.experts], dim=1)
        given = {}
        for task, tower in self.towers.items():
            shares = F.softmax(self.gates[task](x), dim=1)
            given[task] = tower(torch.einsum("be,bed->bd", shares, seen))
        return given


class GluLayer(nn.Module):
    """A linear layer, a norm, a gate."""

    def __init__(self, width: int, out: int, fc: nn.Linear | None = None) -> None:
        super().__init__()
        self.fc = nn.Linear(width, 2 * out, bias=False) if fc is None else fc
        self.bn = nn.BatchNorm1d(2 * out)
        self.out = out

    def forward(self, x: Tensor) -> Any:
        y = self.bn(self.fc(x))
        return y[:, : self.out] * torch.sigmoid(y[:, self.out :])


class Features(nn.Module):
    """Two gated layers: the first one's weights are those of all steps."""

    def __init__(self, shared: nn.Linear, width: int, out: int) -> None:
        super().__init__()
        self.shared = GluLayer(width, out, shared)
        self.own = GluLayer(out, out)

    def forward(self, x: Tensor) -> Any:
        x = self.shared(x)
        return (x + self.own(x)) * 0.5**0.5


class TabNet(nn.Module):
    """Step by step, it chooses columns that it has not looked at much."""

    def __init__(self, steps: int = 2) -> None:
        super().__init__()
        self.initial_bn = nn.BatchNorm1d(11)
        shared = nn.Linear(11, 2 * 14, bias=False)
        self.first = Features(shared, 11, 14)
        self.features = nn.ModuleList(Features(shared, 11, 14) for _ in range(steps))
        self.choosers = nn.ModuleList(
            nn.Sequential(nn.Linear(8, 11, bias=False), nn.BatchNorm1d(11)) for _ in range(steps)
        )
        self.final = nn.Linear(6, 7, bias=False)

    def forward(self, x: Tensor) -> Any:
        x = self.initial_bn(x)
        prior = torch.ones_like(x)
        told = self.first(x)[:, 6:]
        result = x.new_zeros(x.shape[0], 6)
        for features, choose in zip(self.features, self.choosers, strict=True):
            mask = F.softmax(choose(told) * prior, dim=-1)
            prior = prior * (1.3 - mask)
            decided, told = features(mask * x).split([6, 8], dim=1)
            result = result + F.relu(decided)
        return self.final(result), prior


class Equivariant(nn.Module):
    """Each element less what the whole set says."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.Gamma = nn.Linear(width, out)
        self.Lambda = nn.Linear(width, out, bias=False)

    def forward(self, x: Tensor) -> Any:
        return self.Gamma(x) - self.Lambda(x.max(1, keepdim=True).values)


class DeepSets(nn.Module):
    """Sums what it sees of each element, and reads the sum together with what is known of the set."""

    def __init__(self) -> None:
        super().__init__()
        self.phi = nn.Sequential(Equivariant(6, 18), nn.ELU(inplace=True), Equivariant(18, 16), nn.ELU(inplace=True),
                                 nn.Linear(16, 14))  # fmt: skip
        self.known = nn.Sequential(nn.Linear(4, 14), nn.Tanh())
        self.ro = nn.Sequential(nn.Dropout(0.2), nn.Linear(28, 20), nn.ELU(), nn.Dropout(0.2), nn.Linear(20, 7))

    def forward(self, elements: Tensor, about: Tensor) -> Any:
        return self.ro(torch.cat([self.phi(elements).sum(1), self.known(about)], dim=-1))


class ColumnBlock(nn.Module):
    """Attention among columns, and a feed-forward net with a gate."""

    def __init__(self, width: int, heads: int, *, first: bool) -> None:
        super().__init__()
        self.attention_norm = None if first else nn.LayerNorm(width)
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(width, width) for _ in range(4))
        self.ffn_norm = nn.LayerNorm(width)
        self.linear0, self.linear1 = nn.Linear(width, 44), nn.Linear(22, width)
        self.heads = heads

    def forward(self, x: Tensor) -> Any:
        y = x if self.attention_norm is None else self.attention_norm(x)
        q, k, v = (one(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in (self.W_q, self.W_k, self.W_v))
        weights = F.softmax(torch.matmul(q, k.mT) / q.shape[-1] ** 0.5, dim=-1)
        x = x + self.W_out(torch.matmul(weights, v).transpose(1, 2).flatten(2))
        one, gate = self.linear0(self.ffn_norm(x)).tensor_split(2, dim=-1)
        return x + self.linear1(one * F.relu(gate))


class ColumnTransformer(nn.Module):
    """Each column is a token: numbers by weights, categories by one table with offsets."""

    offsets: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(0.3 * torch.randn(7, 16)), nn.Parameter(0.3 * torch.randn(7, 16))
        self.table = nn.Embedding(46, 16)
        self.register_buffer("offsets", torch.tensor([0, 9, 24]))
        self.cls = nn.Parameter(0.3 * torch.randn(16))
        self.blocks = nn.ModuleList(ColumnBlock(16, 4, first=nth == 0) for nth in range(2))
        self.output = nn.Sequential(nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 6))

    def forward(self, numbers: Tensor, categories: Tensor) -> Any:
        tokens = torch.cat([
            self.cls.expand(numbers.shape[0], 1, -1), numbers.unsqueeze(-1) * self.weight + self.bias,
            self.table(categories + self.offsets),
        ], dim=1)  # fmt: skip
        for block in self.blocks:
            tokens = block(tokens)
        return self.output(tokens[:, 0])


class CrossNet(nn.Module):
    """Products of the input with itself, of one more degree each time, by matrices of low rank."""

    def __init__(self, width: int, rank: int, depth: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(width, rank, bias=False) for _ in range(depth))
        self.up = nn.ModuleList(nn.Linear(rank, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Any:
        start = x
        for down, up in zip(self.down, self.up, strict=True):
            x = torch.addcmul(x, start, up(down(x)))
        return x


class DeepCross(nn.Module):
    """Crossed features beside a deep net, and what people did last."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(40, 10)
        self.user = nn.Embedding(30, 8)
        self.score = nn.Sequential(nn.Linear(40, 14), nn.PReLU(), nn.Linear(14, 1))
        self.cross = CrossNet(28, 6, 2)
        self.deep = nn.Sequential(nn.Linear(28, 26), nn.BatchNorm1d(26), nn.ReLU(), nn.Dropout(0.1), nn.Linear(26, 18))
        self.out = nn.Linear(46, 1)

    def forward(self, user: Tensor, item: Tensor, history: Tensor) -> Any:
        wanted, done = self.items(item), self.items(history)
        asked = wanted.unsqueeze(1).expand_as(done)
        weights = self.score(torch.cat([asked, done, asked - done, asked * done], -1))
        x = torch.cat([self.user(user), wanted, (weights * done).sum(1)], 1)
        return self.out(torch.hstack([self.cross(x), self.deep(x)]))


class Smear(nn.Module):
    """Bells over distances."""

    centres: Tensor

    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_buffer("centres", torch.linspace(0, 4, count))

    def forward(self, distances: Tensor) -> Any:
        return torch.exp(-2 * (distances.unsqueeze(-1) - self.centres) ** 2)


class Interaction(nn.Module):
    """Atoms hear others through filters that their distances make."""

    def __init__(self, width: int, bells: int) -> None:
        super().__init__()
        self.filter = nn.Sequential(nn.Linear(bells, 14), nn.Softplus(), nn.Linear(14, 14))
        self.lin1, self.lin2 = nn.Linear(width, 14, bias=False), nn.Linear(14, width)
        self.lin = nn.Linear(width, width)

    def forward(self, x: Tensor, bells: Tensor, near: Tensor) -> Any:
        filters = self.filter(bells) * near.unsqueeze(-1)
        heard = (filters * self.lin1(x).unsqueeze(1)).sum(2)
        return self.lin(F.softplus(self.lin2(heard)) - 0.6931)


class Molecules(nn.Module):
    """The energy of a molecule from its atoms and where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(12, 16, padding_idx=0)
        self.smear = Smear(10)
        self.interactions = nn.ModuleList(Interaction(16, 10) for _ in range(2))
        self.readout = nn.Sequential(nn.Linear(16, 8), nn.Softplus(), nn.Linear(8, 1))

    def forward(self, atoms: Tensor, places: Tensor) -> Any:
        x = self.embedding(atoms)
        between = (places.unsqueeze(2) - places.unsqueeze(1)).norm(dim=-1)
        bells, near = self.smear(between), ((between < 3) & (between > 0)).to(x.dtype)
        for interaction in self.interactions:
            x = x + interaction(x, bells, near)
        return self.readout(x).masked_fill((atoms == 0).unsqueeze(-1), 0.0).sum(1)


class GatedEdges(nn.Module):
    """Edges say how much of a neighbour is heard, and are told in turn."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.A, self.B, self.C, self.U, self.V = (nn.Linear(width, width) for _ in range(5))
        self.bn_x, self.bn_e = nn.BatchNorm1d(width), nn.BatchNorm1d(width)

    def forward(self, x: Tensor, e: Tensor, edges: Tensor) -> Any:
        start, end = edges
        e_hat = self.A(x)[end] + self.B(x)[start] + self.C(e)
        sigma = torch.sigmoid(e_hat)
        heard = torch.zeros_like(x).index_add_(0, end, sigma * self.V(x)[start])
        total = torch.zeros_like(x).index_add_(0, end, sigma)
        x = x + F.relu(self.bn_x(self.U(x) + heard / (total + 1e-6)))
        return x, e + F.relu(self.bn_e(e_hat))


class JumpingGraph(nn.Module):
    """A class for each node from all rounds, the largest value of each feature."""

    def __init__(self) -> None:
        super().__init__()
        self.lift, self.lift_edge = nn.Linear(9, 14), nn.Linear(9, 14)
        self.rounds = nn.ModuleList(GatedEdges(14) for _ in range(2))
        self.out = nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 7))

    def forward(self, x: Tensor, edges: Tensor) -> Any:
        e = self.lift_edge(x[edges[0]] - x[edges[1]])
        x = self.lift(x)
        seen = [x]
        for one in self.rounds:
            x, e = one(x, e, edges)
            seen.append(x)
        return self.out(torch.stack(seen, -1).max(-1)[0])


class WorldModel(nn.Module):
    """What comes next when an agent acts: a state that runs on, and heads that read it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(9, 18), nn.LayerNorm(18), nn.SiLU())
        self.enter = nn.Linear(8 + 4, 16)
        self.cell = nn.GRUCell(16, 14)
        self.prior = nn.Sequential(nn.Linear(14, 16), nn.SiLU(), nn.Linear(16, 16))
        self.posterior = nn.Sequential(nn.Linear(32, 16), nn.SiLU(), nn.Linear(16, 16))
        self.heads = nn.ModuleDict(
            {
                "seen": nn.Sequential(nn.Linear(22, 18), nn.SiLU(), nn.Linear(18, 9)),
                "reward": nn.Linear(22, 1),
                "goes_on": nn.Sequential(nn.Linear(22, 10), nn.SiLU(), nn.Linear(10, 1), nn.Sigmoid()),
            }
        )

    def forward(self, seen: Tensor, actions: Tensor) -> Any:
        embedded = self.encoder(seen)
        h, z = seen.new_zeros(seen.shape[0], 14), seen.new_zeros(seen.shape[0], 8)
        states, far = [], []
        for t in range(seen.shape[1]):
            h = self.cell(F.silu(self.enter(torch.cat([z, actions[:, t]], -1))), h)
            expected, _ = self.prior(h).chunk(2, -1)
            mean, width = self.posterior(torch.cat([h, embedded[:, t]], -1)).chunk(2, -1)
            z = mean + F.softplus(width) * torch.randn_like(mean) if self.training else mean
            states.append(torch.cat([h, z], -1))
            far.append(((mean - expected) ** 2).sum(-1))
        latent = torch.stack(states, 1)
        return {**{name: head(latent) for name, head in self.heads.items()}, "far": torch.stack(far, 1)}


class NoisyLinear(nn.Module):
    """A linear layer whose weights shake while it learns."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.mu = nn.Linear(width, out)
        self.sigma_weight, self.sigma_bias = (
            nn.Parameter(0.1 * torch.ones(out, width)),
            nn.Parameter(0.1 * torch.ones(out)),
        )

    def forward(self, x: Tensor) -> Any:
        if not self.training:
            return F.linear(x, self.mu.weight, self.mu.bias)
        weight = self.mu.weight + self.sigma_weight * torch.randn_like(self.sigma_weight)
        return F.linear(x, weight, self.mu.bias + self.sigma_bias * torch.randn_like(self.sigma_bias))


class Dueling(nn.Module):
    """What a state is worth, and what each action adds, as quantiles."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(4, 8, 4, 2), nn.Conv2d(8, 12, 3)
        self.cosines = nn.Linear(10, 12 * 9)
        self.hidden = nn.Linear(12 * 9, 26)
        self.value1, self.value2 = NoisyLinear(26, 16), NoisyLinear(16, 1)
        self.advantage1, self.advantage2 = NoisyLinear(26, 16), NoisyLinear(16, 6)

    def forward(self, frames: Tensor, taus: Tensor) -> Any:
        x = F.relu(self.conv1(frames / 2.0))
        x = F.relu(self.conv2(x)).flatten(start_dim=1)
        waves = torch.cos(torch.arange(1, 11) * torch.pi * taus.unsqueeze(-1))
        x = F.relu(self.hidden(x.unsqueeze(1) * F.relu(self.cosines(waves))))
        value = self.value2(F.relu(self.value1(x)))
        advantage = self.advantage2(F.relu(self.advantage1(x)))
        return value + advantage - advantage.mean(-1, keepdim=True)


def bags(batch: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, 7), torch.stack([torch.randint(0, size, (batch, 4)) for size in (9, 15, 22)], 1)


def row(batch: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, 7), torch.stack([torch.randint(0, size, (batch,)) for size in (9, 15, 22)], 1)


def bought(batch: int) -> tuple[Tensor, ...]:
    return torch.randint(0, 30, (batch,)), torch.randint(0, 40, (batch,)), torch.randint(0, 40, (batch, 11))


MORE_RECORDS: Final = (
    Family("dlrm", "table", Dlrm, bags),
    Family("gated_experts", "table", GatedExperts, lambda batch: (torch.randn(batch, 14),)),
    Family("tabnet", "table", TabNet, lambda batch: (torch.randn(batch, 11),)),
    Family("deep_sets", "set", DeepSets, lambda batch: (torch.randn(batch, 13, 6), torch.randn(batch, 4))),
    Family("column_transformer", "table", ColumnTransformer, row),
    Family("deep_cross", "table", DeepCross, bought),
    Family("molecules", "points", Molecules, lambda b: (torch.randint(0, 12, (b, 9)), torch.randn(b, 9, 4))),
    Family("jumping_graph", "graph", JumpingGraph, graph, shared=("[1]",)),
    Family("world_model", "control", WorldModel, lambda b: (torch.randn(b, 6, 9), torch.randn(b, 6, 4))),
    Family("dueling", "control", Dueling, lambda b: (torch.randn(b, 4, 12, 12), torch.rand(b, 7))),
)
