# ruff: noqa: D102 - what `forward` does, its class says
"""Unseen families that read series, words, trees and letters to be spoken, after published designs."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family


class DecayCell(nn.Module):
    """A gated cell; what was last seen, and what it remembers, fade with the time since."""

    def __init__(self, seen: int, hidden: int) -> None:
        super().__init__()
        self.gamma_x = nn.Parameter(torch.rand(seen))
        self.gamma_h = nn.Linear(seen, hidden)
        self.cell = nn.GRUCell(2 * seen, hidden)

    def forward(self, x: Tensor, last: Tensor, mask: Tensor, since: Tensor, mean: Tensor, h: Tensor) -> Any:
        fades_x = torch.exp(-F.relu(self.gamma_x * since))
        fades_h = torch.exp(-F.relu(self.gamma_h(since)))
        filled = mask * x + (1 - mask) * (fades_x * last + (1 - fades_x) * mean)
        return self.cell(torch.cat([filled, mask], dim=1), fades_h * h)


class GruDecay(nn.Module):
    """A diagnosis from measurements of which many are missing."""

    x_mean: Tensor

    def __init__(self, seen: int = 6, hidden: int = 18) -> None:
        super().__init__()
        self.hidden = hidden
        self.register_buffer("x_mean", torch.linspace(-0.5, 0.5, seen))
        self.grud = DecayCell(seen, hidden)
        self.bn = nn.BatchNorm1d(hidden)
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(hidden, 5)

    def forward(self, x: Tensor, mask: Tensor, since: Tensor) -> Any:
        h, last = x.new_zeros(x.shape[0], self.hidden), self.x_mean.expand_as(x[:, 0])
        for t in range(x.shape[1]):
            h = self.grud(x[:, t], last, mask[:, t], since[:, t], self.x_mean, h)
            last = torch.where(mask[:, t] > 0, x[:, t], last)
        return torch.sigmoid(self.fc(self.drop(self.bn(h))))


class LocationAttention(nn.Module):
    """Which letter is spoken now, from what was said and from where it looked so far."""

    def __init__(self, query: int, memory: int, width: int) -> None:
        super().__init__()
        self.query_layer = nn.Linear(query, width, bias=False)
        self.memory_layer = nn.Linear(memory, width, bias=False)
        self.location_conv = nn.Conv1d(2, 5, 3, padding=1, bias=False)
        self.location_dense = nn.Linear(5, width, bias=False)
        self.v = nn.Linear(width, 1, bias=False)

    def forward(self, query: Tensor, memory: Tensor, looked: Tensor) -> tuple[Tensor, Tensor]:
        where = self.location_dense(self.location_conv(looked).transpose(1, 2))
        energies = self.v(torch.tanh(self.query_layer(query).unsqueeze(1) + where + self.memory_layer(memory)))
        weights = F.softmax(energies.squeeze(-1), dim=1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), weights


class Voice(nn.Module):
    """Frames of sound from letters: convolutions and a recurrent net read, two cells speak, a net polishes."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 14)
        self.convolutions = nn.ModuleList(
            nn.Sequential(nn.Conv1d(14, 14, 5, padding=2), nn.BatchNorm1d(14)) for _ in range(2)
        )
        self.lstm = nn.LSTM(14, 9, batch_first=True, bidirectional=True)
        self.prenet = nn.ModuleList([nn.Linear(10, 12, bias=False), nn.Linear(12, 12, bias=False)])
        self.attention_rnn, self.decoder_rnn = nn.LSTMCell(30, 20), nn.LSTMCell(38, 22)
        self.attention_layer = LocationAttention(20, 18, 16)
        self.linear_projection, self.gate_layer = nn.Linear(40, 10), nn.Linear(40, 1)
        self.postnet = nn.ModuleList(
            [
                nn.Sequential(nn.Conv1d(10, 13, 5, padding=2), nn.BatchNorm1d(13)),
                nn.Sequential(nn.Conv1d(13, 10, 5, padding=2), nn.BatchNorm1d(10)),
            ]
        )

    def decode(self, memory: Tensor, frames: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch, length, _ = memory.shape
        h1, c1, h2, c2 = (memory.new_zeros(batch, size) for size in (20, 20, 22, 22))
        context, weights = memory.new_zeros(batch, 18), memory.new_zeros(batch, length)
        total, mels, gates, looked = weights, [], [], []
        for t in range(frames.shape[1]):
            h1, c1 = self.attention_rnn(torch.cat([frames[:, t], context], dim=-1), (h1, c1))
            context, weights = self.attention_layer(h1, memory, torch.stack([weights, total], dim=1))
            total = total + weights
            h2, c2 = self.decoder_rnn(torch.cat([h1, context], dim=-1), (h2, c2))
            both = torch.cat([h2, context], dim=1)
            mels.append(self.linear_projection(both))
            gates.append(self.gate_layer(both))
            looked.append(weights)
        return torch.stack(mels, 1), torch.cat(gates, 1), torch.stack(looked, 1)

    def forward(self, letters: Tensor, mel: Tensor) -> Any:
        x = self.embedding(letters).transpose(1, 2)
        for conv in self.convolutions:
            x = F.dropout(F.relu(conv(x)), 0.5, self.training)
        memory, _ = self.lstm(x.transpose(1, 2))
        frames = F.pad(mel, (0, 0, 1, 0))[:, :-1]
        for linear in self.prenet:
            frames = F.dropout(F.relu(linear(frames)), 0.5, self.training)
        told, gates, looked = self.decode(memory, frames)
        y = told.transpose(1, 2)
        y = torch.tanh(self.postnet[0](y))
        y = self.postnet[1](F.dropout(y, 0.5, self.training))
        return {"mel": told, "polished": told + y.transpose(1, 2), "gate": gates, "alignments": looked}


class QuasiRecurrentLayer(nn.Module):
    """Gates from a convolution over the last words; the rest is a running sum."""

    def __init__(self, width: int, hidden: int, window: int = 2) -> None:
        super().__init__()
        self.window, self.hidden = window, hidden
        self.conv = nn.Conv1d(width, 3 * hidden, window)

    def forward(self, x: Tensor) -> Any:
        gates = self.conv(F.pad(x, (self.window - 1, 0)))
        z, f, o = torch.split(gates, self.hidden, dim=1)
        z, f, o = torch.tanh(z), torch.sigmoid(f), torch.sigmoid(o)
        c, states = x.new_zeros(x.shape[0], self.hidden), []
        for t in range(x.shape[2]):
            c = f[:, :, t] * c + (1 - f[:, :, t]) * z[:, :, t]
            states.append(o[:, :, t] * c)
        return torch.stack(states, dim=2)


class QuasiRecurrent(nn.Module):
    """A language model of convolutions that remember; each layer reads all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Embedding(40, 12)
        self.layers = nn.ModuleList([QuasiRecurrentLayer(12, 14), QuasiRecurrentLayer(26, 16)])
        self.drop = nn.Dropout(0.2)
        self.decoder = nn.Linear(42, 40)

    def forward(self, words: Tensor) -> Any:
        x = self.drop(self.encoder(words)).transpose(1, 2)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], dim=1)
        return self.decoder(self.drop(x.transpose(1, 2)))


class TreeCell(nn.Module):
    """A memory from those of two children, each with a gate of its own to be forgotten."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(width, 5 * width), nn.Linear(width, 5 * width, bias=False)

    def forward(self, one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        i, f1, f2, g, o = (self.left(one[0]) + self.right(other[0])).chunk(5, dim=-1)
        c = torch.sigmoid(i) * torch.tanh(g) + torch.sigmoid(f1) * one[1] + torch.sigmoid(f2) * other[1]
        return torch.sigmoid(o) * torch.tanh(c), c


class TreePairs(nn.Module):
    """Whether one sentence follows from another; both are read as binary trees, from the leaves up."""

    def __init__(self) -> None:
        super().__init__()
        self.word_embedding = nn.Embedding(40, 12)
        self.word_linear = nn.Linear(12, 32)
        self.treelstm = TreeCell(16)
        self.bn_mlp_input = nn.BatchNorm1d(64)
        self.mlp = nn.Sequential(nn.Linear(64, 22), nn.ReLU(), nn.BatchNorm1d(22), nn.Dropout(0.1), nn.Linear(22, 3))

    def encode(self, words: Tensor) -> Any:
        h, c = self.word_linear(self.word_embedding(words)).chunk(2, dim=-1)
        while h.shape[1] > 1:
            h, c = self.treelstm((h[:, 0::2], c[:, 0::2]), (h[:, 1::2], c[:, 1::2]))
        return h.squeeze(1)

    def forward(self, premise: Tensor, hypothesis: Tensor) -> Any:
        one, other = self.encode(premise), self.encode(hypothesis)
        features = torch.cat([one, other, (one - other).abs(), one * other], dim=1)
        return self.mlp(self.bn_mlp_input(features))


def measured(batch: int) -> tuple[Tensor, ...]:
    return torch.randn(batch, 9, 6), (torch.rand(batch, 9, 6) > 0.4).float(), torch.rand(batch, 9, 6)


SEQUENCES: Final = (
    Family("gru_decay", "series", GruDecay, measured),
    Family("voice", "sound", Voice, lambda b: (torch.randint(1, 40, (b, 11)), torch.randn(b, 8, 10))),
    Family("quasi_recurrent", "text", QuasiRecurrent, lambda batch: (torch.randint(1, 40, (batch, 11)),)),
    Family("tree_pairs", "text", TreePairs,
           lambda b: (torch.randint(1, 40, (b, 8)), torch.randint(1, 40, (b, 16)))),
)  # fmt: skip
