# ruff: noqa: D102 - what `forward` does, its class says
"""Families that draw pictures or say how they moved, as people write them at work.

They are of the third set of families that were unseen once.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family
from benchmarks.zoo.pictures import images


class ClassNorm(nn.Module):
    """A batch norm whose scale and shift a class says."""

    def __init__(self, width: int, condition: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(width, affine=False)
        self.scale, self.shift = nn.Linear(condition, width), nn.Linear(condition, width)

    def forward(self, x: Tensor, condition: Tensor) -> Any:
        scale, shift = self.scale(condition), self.shift(condition)
        return (1 + scale[:, :, None, None]) * self.bn(x) + shift[:, :, None, None]


class Draw(nn.Module):
    """Twice the size, given a class."""

    def __init__(self, width: int, out: int, condition: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = ClassNorm(width, condition), nn.Conv2d(width, out, 3, padding=1)
        self.norm2, self.conv2 = ClassNorm(out, condition), nn.Conv2d(out, out, 3, padding=1)
        self.short = nn.Conv2d(width, out, 1)

    def forward(self, x: Tensor, condition: Tensor) -> Any:
        y = F.interpolate(F.relu(self.norm1(x, condition)), scale_factor=2)
        y = self.conv2(F.relu(self.norm2(self.conv1(y), condition)))
        return y + self.short(F.interpolate(x, scale_factor=2))


class ClassGenerator(nn.Module):
    """A picture of a class from noise, which every block gets a piece of."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = nn.Embedding(9, 8)
        self.linear = nn.Linear(6, 12 * 16)
        self.blocks = nn.ModuleList([Draw(12, 10, 14), Draw(10, 8, 14)])
        self.norm = nn.BatchNorm2d(8)
        self.to_rgb = nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, noise: Tensor, label: Tensor) -> Any:
        pieces = noise.chunk(3, dim=1)
        told = self.classes(label)
        x = self.linear(pieces[0]).view(-1, 12, 4, 4)
        for block, piece in zip(self.blocks, pieces[1:], strict=True):
            x = block(x, torch.cat([told, piece], 1))
        return torch.tanh(self.to_rgb(F.relu(self.norm(x))))


class Modulated(nn.Module):
    """A convolution whose weights a style scales, differently for each picture."""

    def __init__(self, width: int, out: int, kernel: int, style: int, *, demodulate: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.2 * torch.randn(1, out, width, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(out))
        self.affine = nn.Linear(style, width)
        self.demodulate = demodulate

    def forward(self, x: Tensor, style: Tensor) -> Any:
        batch, width, high, wide = x.shape
        weight = self.weight * (1 + self.affine(style).view(batch, 1, width, 1, 1))
        if self.demodulate:
            weight = weight * torch.rsqrt(weight.pow(2).sum((2, 3, 4), keepdim=True) + 1e-6)
        weight = weight.flatten(0, 1)
        y = F.conv2d(x.reshape(1, -1, high, wide), weight, padding=weight.shape[-1] // 2, groups=batch)
        return y.view(batch, -1, high, wide) + self.bias[:, None, None]


class StyleGenerator(nn.Module):
    """From a learned constant, styled again and again; pictures of all sizes are summed."""

    def __init__(self) -> None:
        super().__init__()
        self.mapping = nn.Sequential(*[m for k in (6, 16, 16) for m in (nn.Linear(k, 16), nn.LeakyReLU(0.2))])
        self.constant = nn.Parameter(torch.randn(1, 14, 4, 4))
        self.styled = nn.ModuleList([Modulated(14, 14, 3, 16), Modulated(14, 10, 3, 16), Modulated(10, 8, 3, 16)])
        self.to_rgb = nn.ModuleList(Modulated(width, 2, 1, 16, demodulate=False) for width in (14, 10, 8))

    def forward(self, z: Tensor) -> Any:
        style = self.mapping(F.normalize(z, dim=1))
        x = self.constant.expand(z.shape[0], -1, -1, -1)
        picture: Any = None
        for nth, (conv, rgb) in enumerate(zip(self.styled, self.to_rgb, strict=True)):
            if nth:
                x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
                picture = F.interpolate(picture, scale_factor=2, mode="bilinear", align_corners=False)
            x = F.leaky_relu(conv(x, style), 0.2)
            picture = rgb(x, style) if picture is None else picture + rgb(x, style)
        return picture


class ChannelAttention(nn.Module):
    """Scales channels, beside a skip."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.PReLU(width), nn.Conv2d(width, width, 3, 1, 1))
        self.attend = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, 4, 1), nn.ReLU(), nn.Conv2d(4, width, 1), nn.Sigmoid()
        )

    def forward(self, x: Tensor) -> Any:
        y = self.body(x)
        return torch.add(x, y * self.attend(y), alpha=0.5)


class SuperResolution(nn.Module):
    """Twice the size: what is learned is added to the enlarged picture."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(2, 12, 3, 1, 1)
        self.body = nn.Sequential(ChannelAttention(12), nn.Conv2d(12, 12, 3, 1, 1))
        self.tail = nn.Sequential(nn.Conv2d(12, 24, 3, 1, 1), nn.PixelShuffle(2), nn.Conv2d(6, 2, 3, 1, 1))

    def forward(self, x: Tensor) -> Any:
        y = self.head(x)
        y = self.body(y) + y
        return self.tail(y) + F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)


class ConvGru(nn.Module):
    """A GRU whose state is a picture."""

    def __init__(self, hidden: int, width: int) -> None:
        super().__init__()
        self.convz, self.convr, self.convq = (nn.Conv2d(hidden + width, hidden, 3, padding=1) for _ in range(3))

    def forward(self, h: Tensor, x: Tensor) -> Any:
        both = torch.cat([h, x], dim=1)
        z, r = torch.sigmoid(self.convz(both)), torch.sigmoid(self.convr(both))
        q = torch.tanh(self.convq(torch.cat([r * h, x], dim=1)))
        return (1 - z) * h + z * q


class OpticalFlow(nn.Module):
    """How everything moved between two pictures, made better step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(2, 8, 3, 2, 1), nn.InstanceNorm2d(8), nn.ReLU(), nn.Conv2d(8, 12, 3, 1, 1)
        )
        self.context = nn.Sequential(
            nn.Conv2d(2, 10, 3, 2, 1), nn.BatchNorm2d(10), nn.ReLU(), nn.Conv2d(10, 18, 3, 1, 1)
        )
        self.correlated = nn.Conv2d(64, 10, 1)
        self.moved = nn.Conv2d(2, 6, 3, padding=1)
        self.gru = ConvGru(10, 24)
        self.head = nn.Sequential(nn.Conv2d(10, 14, 3, padding=1), nn.ReLU(), nn.Conv2d(14, 2, 3, padding=1))

    def forward(self, one: Tensor, other: Tensor) -> Any:
        f1, f2 = self.features(one), self.features(other)
        batch, width, high, wide = f1.shape
        seen = torch.einsum("bcp,bcq->bqp", f1.flatten(2), f2.flatten(2)).view(batch, -1, high, wide) / width**0.5
        hidden, context = self.context(one).split([10, 8], dim=1)
        hidden, context = torch.tanh(hidden), torch.relu(context)
        flow, flows = f1.new_zeros(batch, 2, high, wide), []
        for _ in range(2):
            flow = flow.detach()
            motion = torch.cat([F.relu(self.correlated(seen)), F.relu(self.moved(flow))], 1)
            hidden = self.gru(hidden, torch.cat([context, motion], 1))
            flow = flow + self.head(hidden)
            flows.append(flow)
        return flows


PICTURES_MADE: Final = (
    Family("class_generator", "image", ClassGenerator, lambda b: (torch.randn(b, 18), torch.randint(0, 9, (b,)))),
    Family("style_generator", "image", StyleGenerator, lambda batch: (torch.randn(batch, 6),)),
    Family("super_resolution", "image", SuperResolution, lambda batch: (torch.randn(batch, 2, 9, 9),)),
    Family("optical_flow", "film", OpticalFlow, images(2)),
)
