# ruff: noqa: D102 - what `forward` does, its class says
"""Families that read sounds: who speaks, and what is said."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family


class Separator(nn.Module):
    """A dilated convolution of each channel alone; it gives a residual and a skip."""

    def __init__(self, width: int, hidden: int, skip: int, dilation: int) -> None:
        super().__init__()
        self.conv1d = nn.Conv1d(width, hidden, 1)
        self.dconv1d = nn.Conv1d(hidden, hidden, 3, dilation=dilation, groups=hidden, padding=dilation)
        self.res_out, self.skip_out = nn.Conv1d(hidden, width, 1), nn.Conv1d(hidden, skip, 1)
        self.nonlinearity1, self.nonlinearity2 = nn.PReLU(), nn.PReLU()
        self.reg1, self.reg2 = nn.GroupNorm(1, hidden, eps=1e-8), nn.GroupNorm(1, hidden, eps=1e-8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.reg1(self.nonlinearity1(self.conv1d(x)))
        y = self.reg2(self.nonlinearity2(self.dconv1d(y)))
        return self.res_out(y), self.skip_out(y)


class SourceSeparation(nn.Module):
    """Who says what in a mixture: masks for what a learned transform makes of the wave."""

    def __init__(self, speakers: int = 2, layers: int = 2, stacks: int = 2) -> None:
        super().__init__()
        self.speakers = speakers
        self.encoder = nn.Conv1d(1, 24, 8, bias=False, stride=4)
        self.norm = nn.GroupNorm(1, 24, eps=1e-8)
        self.bottleneck = nn.Conv1d(24, 14, 1)
        self.tcn = nn.ModuleList(Separator(14, 30, 18, 2**layer) for _ in range(stacks) for layer in range(layers))
        self.output = nn.Sequential(nn.PReLU(), nn.Conv1d(18, speakers * 24, 1))
        self.decoder = nn.ConvTranspose1d(24, 1, 8, bias=False, stride=4)

    def forward(self, mixture: Tensor) -> Any:
        seen = F.relu(self.encoder(mixture.unsqueeze(1)))
        y = self.bottleneck(self.norm(seen))
        skips: Any = 0.0
        for layer in self.tcn:
            residual, skip = layer(y)
            y = y + residual
            skips = skips + skip
        masks = torch.sigmoid(self.output(skips)).view(seen.shape[0], self.speakers, 24, -1)
        masked = seen.unsqueeze(1) * masks
        return self.decoder(masked.flatten(0, 1)).view(seen.shape[0], self.speakers, -1)


class TimeReduction(nn.Module):
    """Puts moments beside each other, so many at a time."""

    def __init__(self, width: int, factor: int) -> None:
        super().__init__()
        self.factor = factor
        self.proj = nn.Linear(width * factor, width)

    def forward(self, x: Tensor) -> Any:
        batch, length, width = x.shape
        x = x[:, : length - length % self.factor]
        return self.proj(x.reshape(batch, -1, width * self.factor))


class Transducer(nn.Module):
    """What is said, for each moment and each number of letters before it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleList([nn.LSTM(12, 18, batch_first=True), nn.LSTM(18, 18, batch_first=True)])
        self.norms = nn.ModuleList(nn.LayerNorm(18) for _ in range(2))
        self.reduce = TimeReduction(18, 2)
        self.dropout = nn.Dropout(0.1)
        self.predictor = nn.ModuleDict({
            "embed": nn.Embedding(29, 14), "norm": nn.LayerNorm(14), "lstm": nn.LSTM(14, 16, batch_first=True),
            "linear": nn.Linear(16, 20),
        })  # fmt: skip
        self.encoder_proj = nn.Linear(18, 20)
        self.joiner = nn.Sequential(nn.Tanh(), nn.Linear(20, 29))

    def forward(self, features: Tensor, targets: Tensor) -> Any:
        x, _ = self.encoder[0](features)
        x = self.reduce(self.dropout(self.norms[0](x)))
        y, _ = self.encoder[1](x)
        x = self.encoder_proj(self.norms[1](x + y))
        before = F.pad(targets, (1, 0))
        told, _ = self.predictor["lstm"](self.predictor["norm"](self.predictor["embed"](before)))
        told = self.predictor["linear"](told)
        return F.log_softmax(self.joiner(x.unsqueeze(2) + told.unsqueeze(1)), dim=-1)


HEARD: Final = (
    Family("source_separation", "sound", SourceSeparation, lambda batch: (torch.randn(batch, 104),)),
    Family("transducer", "sound", Transducer, lambda b: (torch.randn(b, 22, 12), torch.randint(1, 29, (b, 7)))),
)
