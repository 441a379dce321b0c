# ruff: noqa: D102 - what `forward` does, its class says
"""Families that read words, sounds and series, as research code writes them."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.classic import words
from benchmarks.zoo.family import Family


class Recurrence(nn.Module):
    """Attention to a segment and to what is remembered of the one before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.q, self.kv = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.distance = nn.Embedding(32, heads)
        self.out = nn.Linear(width, width)
        self.ff = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 44), nn.ReLU(), nn.Linear(44, width))

    def forward(self, x: Tensor, memory: Tensor) -> Any:
        both = self.norm(torch.cat([memory, x], 1))
        batch, length, width = x.shape
        q = self.q(both[:, -length:]).view(batch, length, self.heads, -1).transpose(1, 2)
        k, v = self.kv(both).view(batch, both.shape[1], self.heads, -1).transpose(1, 2).chunk(2, dim=-1)
        gap = torch.arange(length)[:, None] + memory.shape[1] - torch.arange(both.shape[1])[None]
        scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5 + self.distance(gap.clamp(0)).permute(2, 0, 1)
        weights = scores.masked_fill(gap < 0, -1e9).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.ff(x)


class TransformerXl(nn.Module):
    """Segment after segment; each layer remembers what it read in the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 20)
        self.layers = nn.ModuleList(Recurrence(20, 4) for _ in range(2))
        self.norm, self.out = nn.LayerNorm(20), nn.Linear(20, 40)

    def forward(self, words: Tensor) -> Any:
        memories = [torch.zeros(words.shape[0], 7, 20, dtype=self.words.weight.dtype) for _ in self.layers]
        given = []
        for segment in words.split(7, dim=1):
            x, new = self.words(segment), []
            for layer, memory in zip(self.layers, memories, strict=True):
                new.append(x.detach())
                x = layer(x, memory)
            memories = new
            given.append(self.out(self.norm(x)))
        return torch.cat(given, 1)


class Chomp(nn.Module):
    """Cuts off what looks into the future."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, : -self.size].contiguous()


class TemporalBlock(nn.Module):
    """Two dilated causal convolutions beside a skip."""

    def __init__(self, width: int, out: int, dilation: int) -> None:
        super().__init__()
        pad = 2 * dilation
        self.net = nn.Sequential(
            nn.Conv1d(width, out, 3, padding=pad, dilation=dilation), Chomp(pad), nn.ReLU(), nn.Dropout(0.2),
            nn.Conv1d(out, out, 3, padding=pad, dilation=dilation), Chomp(pad), nn.ReLU(), nn.Dropout(0.2),
        )  # fmt: skip
        self.downsample = nn.Conv1d(width, out, 1) if width != out else None
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Any:
        skip = x if self.downsample is None else self.downsample(x)
        return self.relu(self.net(x) + skip)


class Tcn(nn.Module):
    """The last moment of causal convolutions says it."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(TemporalBlock(4, 12, 1), TemporalBlock(12, 12, 2), TemporalBlock(12, 16, 4))
        self.linear = nn.Linear(16, 7)

    def forward(self, x: Tensor) -> Any:
        return self.linear(self.network(x)[:, :, -1])


class MemoryNetwork(nn.Module):
    """Reads a story again and again, each time with what it found out."""

    def __init__(self) -> None:
        super().__init__()
        self.question = nn.Embedding(40, 16)
        self.keys = nn.ModuleList(nn.Embedding(40, 16) for _ in range(2))
        self.values = nn.ModuleList(nn.Embedding(40, 16) for _ in range(2))
        self.hop = nn.Linear(16, 16, bias=False)
        self.when = nn.Parameter(torch.randn(6, 16) * 0.2)
        self.answer = nn.Linear(16, 40)

    def forward(self, story: Tensor, question: Tensor) -> Any:
        state = self.question(question).sum(1)
        for key, value in zip(self.keys, self.values, strict=True):
            read = key(story).sum(2) + self.when
            weights = torch.softmax((read * state.unsqueeze(1)).sum(-1), dim=1)
            state = self.hop(state) + (weights.unsqueeze(-1) * value(story).sum(2)).sum(1)
        return self.answer(state)


class Highway(nn.Module):
    """A gate between what comes in and what is made of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.change, self.gate = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Any:
        open_ = torch.sigmoid(self.gate(x))
        return open_ * F.relu(self.change(x)) + (1 - open_) * x


class CharacterWords(nn.Module):
    """Words from their letters: convolutions of several lengths, highways, an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(30, 9)
        self.convs = nn.ModuleList([nn.Conv1d(9, 8, 2), nn.Conv1d(9, 10, 4)])
        self.highways = nn.Sequential(Highway(18), Highway(18))
        self.lstm = nn.LSTM(18, 22, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.out = nn.Linear(22, 26)

    def forward(self, letters: Tensor) -> Any:
        batch, words, _ = letters.shape
        x = self.letters(letters.flatten(0, 1)).transpose(1, 2)
        x = torch.cat([torch.tanh(conv(x)).amax(2) for conv in self.convs], 1)
        seen, (hidden, _) = self.lstm(self.highways(x).view(batch, words, -1))
        return {"words": self.out(self.dropout(seen)), "state": hidden.transpose(0, 1)}


class UniversalLayer(nn.Module):
    """One layer of a transformer, written with torch's attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.linear1, self.linear2 = nn.Linear(width, 30), nn.Linear(30, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Any:
        y, _ = self.attention(x, x, x, need_weights=False)
        x = self.norm1(x + self.dropout(y))
        return self.norm2(x + self.linear2(F.gelu(self.linear1(x))))


class UniversalTransformer(nn.Module):
    """The same layer three times, each time told which time it is."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.position = nn.Embedding(40, 28), nn.Embedding(14, 28)
        self.time = nn.Parameter(torch.randn(3, 28) * 0.2)
        self.layer = UniversalLayer(28)
        self.halt = nn.Linear(28, 1)
        self.out = nn.Linear(28, 9)

    def forward(self, words: Tensor) -> Any:
        x = self.words(words) + self.position(torch.arange(words.shape[1]))
        total: Any = 0
        for time in self.time:
            x = self.layer(x + time)
            total = total + torch.sigmoid(self.halt(x)) * x
        return self.out(total)


class GatedConvolutions(nn.Module):
    """Causal convolutions with gates; words are written with the weights they are read with."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 14)
        self.convs = nn.ModuleList(nn.Conv1d(14, 28, 4) for _ in range(2))
        self.norms = nn.ModuleList(nn.GroupNorm(2, 14) for _ in range(2))
        self.out = nn.Linear(14, 40, bias=False)
        self.out.weight = self.words.weight

    def forward(self, words: Tensor) -> Any:
        x = self.words(words).transpose(1, 2)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + norm(F.glu(conv(F.pad(x, (3, 0))), dim=1))
        return self.out(x.transpose(1, 2))


class Speech(nn.Module):
    """A spectrogram to letters: convolutions, recurrent layers with time first, log-probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 6, (5, 4), (2, 2), (2, 1)), nn.BatchNorm2d(6), nn.Hardtanh(0, 20, inplace=True)
        )
        self.rnn1 = nn.GRU(36, 10, bidirectional=True)
        self.norm = nn.BatchNorm1d(20)
        self.rnn2 = nn.GRU(20, 14)
        self.fc = nn.Linear(14, 19)

    def forward(self, sound: Tensor) -> Any:
        x = self.conv(sound.unsqueeze(1))
        batch, channels, bands, times = x.shape
        x = x.view(batch, channels * bands, times).permute(2, 0, 1).contiguous()
        x, _ = self.rnn1(x)
        x = self.norm(x.flatten(0, 1)).view(times, batch, -1)
        x, _ = self.rnn2(x)
        return self.fc(x).log_softmax(-1).transpose(0, 1)


class Stack(nn.Module):
    """What it explains of the past is taken off; what it says of the future is added up."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.back, self.fore = nn.Linear(32, 6), nn.Linear(32, 6)
        self.back_basis, self.fore_basis = nn.Linear(6, 20, bias=False), nn.Linear(6, 8, bias=False)

    def forward(self, x: Tensor) -> tuple[Any, Any]:
        y = self.layers(x)
        return self.back_basis(self.back(y)), self.fore_basis(self.fore(y))


class Nbeats(nn.Module):
    """Doubly residual stacks."""

    def __init__(self) -> None:
        super().__init__()
        self.stacks = nn.ModuleList(Stack() for _ in range(2))

    def forward(self, past: Tensor) -> Any:
        future = past.new_zeros(past.shape[0], 8)
        for stack in self.stacks:
            back, fore = stack(past)
            past = past - back
            future = future + fore
        return future


SEQUENCES: Final = (
    Family("transformer_xl", "text", TransformerXl, words(14)),
    Family("tcn", "series", Tcn, lambda batch: (torch.randn(batch, 4, 22),)),
    Family("memory_network", "text", MemoryNetwork,
           lambda b: (torch.randint(1, 40, (b, 6, 11)), torch.randint(1, 40, (b, 8)))),
    Family("character_words", "text", CharacterWords, words(7, 11, most=30)),
    Family("universal_transformer", "text", UniversalTransformer, words(11)),
    Family("gated_convolutions", "text", GatedConvolutions, words(11)),
    Family("speech", "sound", Speech, lambda batch: (torch.randn(batch, 12, 26),)),
    Family("nbeats", "series", Nbeats, lambda batch: (torch.randn(batch, 20),)),
)  # fmt: skip
