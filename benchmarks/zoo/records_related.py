# ruff: noqa: D102 - what `forward` does, its class says
"""Families that read what is related: fields, states and actions, atoms, places of a protein, points that are near."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family


class CompressedInteraction(nn.Module):
    """Products of fields with fields, compressed by convolutions; half of each layer goes on, half goes out."""

    def __init__(self, fields: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.conv_layers = nn.ModuleList()
        before = fields
        for nth, size in enumerate(sizes):
            self.conv_layers.append(nn.Conv1d(fields * before, size, 1))
            before = size // 2 if nth < len(sizes) - 1 else size
        self.sizes = sizes
        self.fc = nn.Linear(sum(size // 2 for size in sizes[:-1]) + sizes[-1], 1)

    def forward(self, x: Tensor) -> Any:
        x0, h, found = x.unsqueeze(2), x, []
        for nth, conv in enumerate(self.conv_layers):
            z = x0 * h.unsqueeze(1)
            z = F.relu(conv(z.flatten(1, 2)))
            if nth < len(self.sizes) - 1:
                z, h = torch.split(z, self.sizes[nth] // 2, dim=1)
            found.append(z)
        return self.fc(torch.sum(torch.cat(found, dim=1), 2))


class CompressedInteractions(nn.Module):
    """A linear part, a deep part, and explicit interactions of embedded columns."""

    offsets: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.first_order = nn.Embedding(58, 6), nn.Embedding(58, 1)
        self.register_buffer("offsets", torch.tensor([0, 9, 24, 46]))
        self.cin = CompressedInteraction(4, (10, 8))
        self.numbers = nn.BatchNorm1d(7)
        deep: list[nn.Module] = []
        for before, after in pairwise((31, 22, 16)):
            deep += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU(), nn.Dropout(0.2)]
        self.mlp = nn.Sequential(*deep, nn.Linear(16, 1))
        self.linear = nn.Linear(7, 1)

    def forward(self, numbers: Tensor, columns: Tensor) -> Any:
        columns = columns + self.offsets
        x, numbers = self.embedding(columns), self.numbers(numbers)
        first = self.first_order(columns).sum(1) + self.linear(numbers)
        deep = self.mlp(torch.cat([x.flatten(1), numbers], dim=-1))
        return torch.sigmoid(first + self.cin(x) + deep).squeeze(1)


class Actor(nn.Module):
    """What to do, squashed between bounds, and how likely that was."""

    action_scale: Tensor

    def __init__(self, seen: int, actions: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(seen, 22), nn.Linear(22, 18)
        self.fc_mean, self.fc_logstd = nn.Linear(18, actions), nn.Linear(18, actions)
        self.register_buffer("action_scale", torch.linspace(0.5, 2, actions))

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.fc2(F.relu(self.fc1(state))))
        mean, log_std = self.fc_mean(x), torch.tanh(self.fc_logstd(x))
        log_std = -5 + 0.5 * (2 + 5) * (log_std + 1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        drawn = normal.rsample() if self.training else mean
        squashed = torch.tanh(drawn)
        log_prob = normal.log_prob(drawn) - torch.log(self.action_scale * (1 - squashed.pow(2)) + 1e-6)
        return squashed * self.action_scale, log_prob.sum(1, keepdim=True)


class Critic(nn.Module):
    """What an action is worth in a state."""

    def __init__(self, seen: int, actions: int) -> None:
        super().__init__()
        self.fc1, self.norm1 = nn.Linear(seen + actions, 26), nn.LayerNorm(26)
        self.fc2 = nn.Linear(26, 20)
        self.fc3 = nn.Linear(20, 1)

    def forward(self, state: Tensor, action: Tensor) -> Any:
        x = torch.cat([state, action], 1)
        x = F.relu(self.norm1(self.fc1(x)))
        return self.fc3(F.relu(self.fc2(x)))


class SoftActorCritic(nn.Module):
    """An actor and two critics, of which the one that hopes less is believed; two more are slower copies."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = Actor(9, 4)
        self.qf1, self.qf2 = Critic(9, 4), Critic(9, 4)
        self.qf1_target, self.qf2_target = Critic(9, 4).requires_grad_(False), Critic(9, 4).requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.zeros(1))

    def forward(self, state: Tensor, action: Tensor, reward: Tensor, after: Tensor) -> Any:
        with torch.no_grad():
            acted, log_prob = self.actor(after)
            least = torch.min(self.qf1_target(after, acted), self.qf2_target(after, acted))
            wanted = reward.view(-1, 1) + 0.9 * (least - self.log_alpha.exp() * log_prob)
        far1, far2 = self.qf1(state, action) - wanted, self.qf2(state, action) - wanted
        acted, log_prob = self.actor(state)
        least = torch.minimum(self.qf1(state, acted), self.qf2(state, acted))
        return {"action": acted, "critics": far1**2 + far2**2, "actor": self.log_alpha.exp() * log_prob - least}


class EquivariantLayer(nn.Module):
    """Nodes hear others by features and distances; places move along the lines between them."""

    def __init__(self, width: int, edge: int, hidden: int) -> None:
        super().__init__()
        act = nn.SiLU()
        self.edge_mlp = nn.Sequential(nn.Linear(2 * width + 1 + edge, hidden), act, nn.Linear(hidden, hidden), act)
        self.att_mlp = nn.Sequential(nn.Linear(hidden, 1), nn.Sigmoid())
        self.node_mlp = nn.Sequential(nn.Linear(width + hidden, hidden), act, nn.Linear(hidden, width))
        self.coord_mlp = nn.Sequential(nn.Linear(hidden, hidden), act, nn.Linear(hidden, 1, bias=False), nn.Tanh())

    def forward(self, h: Tensor, places: Tensor, bonds: Tensor) -> tuple[Tensor, Tensor]:
        count = h.shape[1]
        between = places.unsqueeze(2) - places.unsqueeze(1)
        radial = between.pow(2).sum(-1, keepdim=True)
        one, other = h.unsqueeze(2).expand(-1, -1, count, -1), h.unsqueeze(1).expand(-1, count, -1, -1)
        message = self.edge_mlp(torch.cat([one, other, radial, bonds], dim=-1))
        message = message * self.att_mlp(message)
        apart = 1 - torch.eye(count, dtype=h.dtype).unsqueeze(-1)
        places = places + (between / ((radial + 1e-8).sqrt() + 1) * self.coord_mlp(message) * apart).mean(2)
        heard = (message * apart).sum(2)
        return h + self.node_mlp(torch.cat([h, heard], dim=-1)), places


class EquivariantGraph(nn.Module):
    """A molecule turned is the same molecule: what it is worth, and where its atoms go."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding_in = nn.Embedding(12, 14)
        self.bonds = nn.Embedding(6, 8)
        self.layers = nn.ModuleList(EquivariantLayer(14, 8, 18) for _ in range(2))
        self.node_dec = nn.Sequential(nn.Linear(14, 16), nn.SiLU(), nn.Linear(16, 14))
        self.graph_dec = nn.Sequential(nn.Linear(14, 10), nn.SiLU(), nn.Linear(10, 1))

    def forward(self, atoms: Tensor, places: Tensor, bonds: Tensor) -> Any:
        h, told = self.embedding_in(atoms), self.bonds(bonds)
        for layer in self.layers:
            h, places = layer(h, places, told)
        return self.graph_dec(self.node_dec(h).sum(1)).squeeze(1), places


class GatedAttention(nn.Module):
    """Attention along one axis with a gate; a pair of places may have a say."""

    def __init__(self, width: int, heads: int, pair: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.to_q, self.to_kv = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.gating, self.to_out = nn.Linear(width, width), nn.Linear(width, width)
        self.pair_bias = nn.Sequential(nn.LayerNorm(pair), nn.Linear(pair, heads, bias=False)) if pair else None

    def forward(self, x: Tensor, pair: Tensor | None = None) -> Any:
        x = self.norm(x)
        q, k, v = (one.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
                   for one in (self.to_q(x), *self.to_kv(x).chunk(2, dim=-1)))  # fmt: skip
        dots = torch.einsum("...id,...jd->...ij", q, k) * q.shape[-1] ** -0.5
        if self.pair_bias is not None and pair is not None:
            dots = dots + self.pair_bias(pair).permute(0, 3, 1, 2).unsqueeze(1)
        out = torch.einsum("...ij,...jd->...id", dots.softmax(dim=-1), v)
        return self.to_out(out.transpose(-2, -3).flatten(-2) * torch.sigmoid(self.gating(x)))


class OuterMean(nn.Module):
    """What rows say of two places together, on average."""

    def __init__(self, width: int, hidden: int, out: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.left_proj, self.right_proj = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.proj_out = nn.Linear(hidden * hidden, out)

    def forward(self, rows: Tensor) -> Any:
        rows = self.norm(rows)
        outer = torch.einsum("bsic,bsjd->bijcd", self.left_proj(rows), self.right_proj(rows)) / rows.shape[1]
        return self.proj_out(outer.flatten(-2))


class TriangleMultiplication(nn.Module):
    """Each edge hears the other two of all triangles that it is in."""

    def __init__(self, width: int, hidden: int, mix: str) -> None:
        super().__init__()
        self.mix = mix
        self.norm, self.to_out_norm = nn.LayerNorm(width), nn.LayerNorm(hidden)
        self.left_proj, self.right_proj = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.left_gate, self.right_gate = nn.Linear(width, hidden), nn.Linear(width, hidden)
        self.out_gate, self.to_out = nn.Linear(width, width), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Any:
        x = self.norm(x)
        left = self.left_proj(x) * self.left_gate(x).sigmoid()
        right = self.right_proj(x) * self.right_gate(x).sigmoid()
        out = self.to_out_norm(torch.einsum(self.mix, left, right))
        return self.to_out(out) * self.out_gate(x).sigmoid()


class Transition(nn.Module):
    """A feed-forward net with a gate."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.net = nn.Sequential(nn.Linear(width, 2 * hidden), nn.GLU(dim=-1), nn.Dropout(0.1),
                                 nn.Linear(hidden, width))  # fmt: skip

    def forward(self, x: Tensor) -> Any:
        return self.net(self.norm(x))


class PairBlock(nn.Module):
    """Rows of an alignment and pairs of places, which tell each other."""

    def __init__(self, rows: int, pairs: int) -> None:
        super().__init__()
        self.row_attn, self.col_attn = GatedAttention(rows, 2, pairs), GatedAttention(rows, 2)
        self.msa_transition = Transition(rows, 20)
        self.outer_mean = OuterMean(rows, 4, pairs)
        self.triangle_out = TriangleMultiplication(pairs, 8, "bikd,bjkd->bijd")
        self.triangle_in = TriangleMultiplication(pairs, 8, "bkid,bkjd->bijd")
        self.pair_transition = Transition(pairs, 18)

    def forward(self, rows: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
        rows = rows + self.row_attn(rows, pairs)
        rows = rows + self.col_attn(rows.transpose(1, 2)).transpose(1, 2)
        rows = rows + self.msa_transition(rows)
        pairs = pairs + self.outer_mean(rows)
        pairs = pairs + self.triangle_out(pairs)
        pairs = pairs + self.triangle_in(pairs)
        return rows, pairs + self.pair_transition(pairs)


class PairRepresentation(nn.Module):
    """How far the places of a protein are apart, and what the alignment says where it is masked."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.token_emb = nn.Embedding(24, 14)
        self.left_single, self.right_single = nn.Embedding(24, 12), nn.Embedding(24, 12)
        self.relative = nn.Embedding(17, 12)
        self.blocks = nn.ModuleList(PairBlock(14, 12) for _ in range(depth))
        self.to_distogram = nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 10))
        self.to_masked = nn.Linear(14, 24)

    def forward(self, alignment: Tensor) -> Any:
        first, length = alignment[:, 0], alignment.shape[2]
        places = torch.arange(length)
        pairs = self.left_single(first).unsqueeze(2) + self.right_single(first).unsqueeze(1)
        pairs = pairs + self.relative((places[:, None] - places[None]).clamp(-8, 8) + 8)
        rows = self.token_emb(alignment)
        for block in self.blocks:
            rows, pairs = block(rows, pairs)
        both = (pairs + pairs.transpose(1, 2)) * 0.5
        return {"distogram": self.to_distogram(both), "masked": self.to_masked(rows)}


def neighbours(x: Tensor, count: int) -> Tensor:
    """Return, for each point, itself beside how the points nearest to it differ."""
    near = torch.cdist(x.transpose(1, 2), x.transpose(1, 2)).topk(count, dim=-1, largest=False)[1]
    batch, width, points = x.shape
    rows = x.transpose(1, 2).reshape(batch * points, width)
    start = torch.arange(batch).view(-1, 1, 1) * points
    found = rows[(near + start).view(-1)].view(batch, points, count, width)
    itself = x.transpose(1, 2).unsqueeze(2).expand(-1, -1, count, -1)
    return torch.cat([found - itself, itself], dim=-1).permute(0, 3, 1, 2).contiguous()


class DynamicGraph(nn.Module):
    """A cloud of points; who is near whom is asked anew in each layer."""

    def __init__(self, near: int = 6) -> None:
        super().__init__()
        self.k = near
        self.conv1 = nn.Sequential(nn.Conv2d(8, 10, 1, bias=False), nn.BatchNorm2d(10), nn.LeakyReLU(0.2))
        self.conv2 = nn.Sequential(nn.Conv2d(20, 12, 1, bias=False), nn.BatchNorm2d(12), nn.LeakyReLU(0.2))
        self.conv3 = nn.Sequential(nn.Conv2d(24, 16, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2))
        self.conv5 = nn.Sequential(nn.Conv1d(38, 22, 1, bias=False), nn.BatchNorm1d(22), nn.LeakyReLU(0.2))
        self.linear1, self.bn6 = nn.Linear(44, 26, bias=False), nn.BatchNorm1d(26)
        self.dp1 = nn.Dropout(0.5)
        self.linear2 = nn.Linear(26, 7)

    def forward(self, x: Tensor) -> Any:
        x1 = self.conv1(neighbours(x, self.k)).max(dim=-1, keepdim=False)[0]
        x2 = self.conv2(neighbours(x1, self.k)).max(dim=-1, keepdim=False)[0]
        x3 = self.conv3(neighbours(x2, self.k)).max(dim=-1, keepdim=False)[0]
        x = self.conv5(torch.cat((x1, x2, x3), dim=1))
        pooled = torch.cat((F.adaptive_max_pool1d(x, 1).squeeze(-1), F.adaptive_avg_pool1d(x, 1).squeeze(-1)), 1)
        return self.linear2(self.dp1(F.leaky_relu(self.bn6(self.linear1(pooled)), negative_slope=0.2)))


def row(batch: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, 7), torch.stack([torch.randint(0, size, (batch,)) for size in (9, 15, 22, 12)], 1)


def stepped(batch: int) -> tuple[Tensor, ...]:
    return torch.randn(batch, 9), torch.randn(batch, 4), torch.randn(batch), torch.randn(batch, 9)


def molecule(batch: int) -> tuple[Tensor, ...]:
    return torch.randint(0, 12, (batch, 11)), torch.randn(batch, 11, 4), torch.randint(0, 6, (batch, 11, 11))


RELATED: Final = (
    Family("compressed_interactions", "table", CompressedInteractions, row),
    Family("soft_actor_critic", "control", SoftActorCritic, stepped),
    Family("equivariant_graph", "points", EquivariantGraph, molecule),
    Family("pair_representation", "protein", PairRepresentation, lambda b: (torch.randint(0, 24, (b, 6, 9)),)),
    Family("dynamic_graph", "points", DynamicGraph, lambda batch: (torch.randn(batch, 4, 17),)),
)
