# ruff: noqa: D102 - what `forward` does, its class says
"""Unseen families that read pictures and films, after designs that are published and much rebuilt."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.classic import image
from benchmarks.zoo.family import Family


class DualPathBlock(nn.Module):
    """A part of what the last convolution gives is added to what there is, the rest is put beside it."""

    def __init__(self, before: int, middle: int, out: int, dense: int, *, first: bool, stride: int = 1) -> None:
        super().__init__()
        self.out_planes, self.dense_depth = out, dense
        self.conv1, self.bn1 = nn.Conv2d(before, middle, 1, bias=False), nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, middle, 3, stride, 1, groups=2, bias=False)
        self.bn2 = nn.BatchNorm2d(middle)
        self.conv3, self.bn3 = nn.Conv2d(middle, out + dense, 1, bias=False), nn.BatchNorm2d(out + dense)
        self.shortcut = nn.Sequential()
        if first:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, out + dense, 1, stride, bias=False), nn.BatchNorm2d(out + dense)
            )

    def forward(self, x: Tensor) -> Any:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        x = self.shortcut(x)
        d = self.out_planes
        return F.relu(torch.cat([x[:, :d] + out[:, :d], x[:, d:], out[:, d:]], 1))


class DualPath(nn.Module):
    """Two stages of blocks that add and put beside at once."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(2, 10, 3, 1, 1, bias=False), nn.BatchNorm2d(10)
        self.layer1 = nn.Sequential(DualPathBlock(10, 8, 14, 4, first=True), DualPathBlock(22, 8, 14, 4, first=False))
        self.layer2 = nn.Sequential(
            DualPathBlock(26, 12, 18, 5, first=True, stride=2), DualPathBlock(28, 12, 18, 5, first=False)
        )
        self.linear = nn.Linear(33, 7)

    def forward(self, x: Tensor) -> Any:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer2(self.layer1(x))
        x = F.avg_pool2d(x, 4)
        return self.linear(x.mean((2, 3)))


class TemporalShift(nn.Module):
    """Some channels of each frame come from the frame before, some from the one after; then its net."""

    def __init__(self, net: nn.Module, segments: int, fold: int) -> None:
        super().__init__()
        self.net, self.n_segment, self.fold = net, segments, fold

    def forward(self, x: Tensor) -> Any:
        frames, channels, height, width = x.shape
        x = x.view(frames // self.n_segment, self.n_segment, channels, height, width)
        out = torch.zeros_like(x)
        out[:, :-1, : self.fold] = x[:, 1:, : self.fold]
        out[:, 1:, self.fold : 2 * self.fold] = x[:, :-1, self.fold : 2 * self.fold]
        out[:, :, 2 * self.fold :] = x[:, :, 2 * self.fold :]
        return self.net(out.view(frames, channels, height, width))


class ShiftedBlock(nn.Module):
    """A block of two convolutions, of which the first is shifted in time."""

    def __init__(self, width: int, out: int, stride: int, segments: int) -> None:
        super().__init__()
        self.conv1 = TemporalShift(nn.Conv2d(width, out, 3, stride, 1, bias=False), segments, width // 4)
        self.bn1, self.relu = nn.BatchNorm2d(out), nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or width != out:
            self.downsample = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Any:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + identity)


class ShiftedFilm(nn.Module):
    """What is done in a film, by a net of pictures whose frames borrow channels; frames vote."""

    def __init__(self, segments: int = 4) -> None:
        super().__init__()
        self.num_segments = segments
        self.base_model = nn.Sequential(
            nn.Conv2d(2, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
            ShiftedBlock(8, 8, 1, segments), ShiftedBlock(8, 14, 2, segments), ShiftedBlock(14, 14, 1, segments),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5),
        )  # fmt: skip
        self.new_fc = nn.Linear(14, 7)

    def forward(self, film: Tensor) -> Any:
        frames = self.base_model(film.flatten(0, 1))
        votes = self.new_fc(frames)
        return votes.view(-1, self.num_segments, votes.shape[1]).mean(dim=1)


class OctaveConv(nn.Module):
    """A convolution of a fine and a coarse half, which tell each other; either half may be missing."""

    def __init__(self, before: tuple[int, int], out: tuple[int, int]) -> None:
        super().__init__()

        def conv(width: int, wide: int) -> nn.Module | None:
            return nn.Conv2d(width, wide, 3, padding=1, bias=False) if width and wide else None

        self.downsample = nn.AvgPool2d(2, 2)
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.h2h: Any = conv(before[0], out[0])
        self.h2l = conv(before[0], out[1])
        self.l2h, self.l2l = conv(before[1], out[0]), conv(before[1], out[1])
        self.bn_h: Any = nn.BatchNorm2d(out[0]) if out[0] else None
        self.bn_l: Any = nn.BatchNorm2d(out[1]) if out[1] else None
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: tuple[Tensor, Tensor | None]) -> tuple[Tensor, Tensor | None]:
        high, low = x
        fine, coarse = self.h2h(high), None
        if low is not None and self.l2h is not None:
            fine = fine + self.upsample(self.l2h(low))
        if self.h2l is not None:
            coarse = self.h2l(self.downsample(high))
            if low is not None and self.l2l is not None:
                coarse = coarse + self.l2l(low)
            coarse = self.relu(self.bn_l(coarse))
        return self.relu(self.bn_h(fine)), coarse


class OctaveNet(nn.Module):
    """Fine and coarse features beside each other, from the first layer to the last."""

    def __init__(self) -> None:
        super().__init__()
        self.first = OctaveConv((2, 0), (8, 6))
        self.blocks = nn.ModuleList([OctaveConv((8, 6), (10, 6)), OctaveConv((10, 6), (10, 6))])
        self.pool = nn.MaxPool2d(2)
        self.last = OctaveConv((10, 6), (18, 0))
        self.fc = nn.Sequential(nn.Dropout(0.2), nn.Linear(18, 7))

    def forward(self, x: Tensor) -> Any:
        high, low = self.first((x, None))
        for nth, block in enumerate(self.blocks):
            new_high, new_low = block((high, low))
            if nth > 0:  # the first one widens
                new_high, new_low = new_high + high, new_low + low
            high, low = self.pool(new_high), self.pool(new_low)
        high, _ = self.last((high, low))
        return self.fc(high.mean(dim=(2, 3)))


class ConditionalConv(nn.Module):
    """A convolution whose kernel is mixed for each picture from several."""

    def __init__(self, width: int, out: int, experts: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.stride, self.out = stride, out
        self.routing = nn.Linear(width, experts)
        self.weight = nn.Parameter(torch.randn(experts, out, width, 3, 3) / math.sqrt(9 * width))
        self.bias = nn.Parameter(torch.zeros(experts, out))

    def forward(self, x: Tensor) -> Any:
        batch, width, height, wide = x.shape
        shares = torch.sigmoid(self.routing(F.adaptive_avg_pool2d(x, 1).flatten(1)))
        kernels = torch.einsum("be,eoikl->boikl", shares, self.weight).reshape(batch * self.out, width, 3, 3)
        bias = (shares @ self.bias).view(-1)
        x = F.conv2d(x.reshape(1, batch * width, height, wide), kernels, bias, self.stride, 1, groups=batch)
        return x.view(batch, self.out, *x.shape[2:])


class ConditionalKernels(nn.Module):
    """Kernels that each picture chooses, between plain layers and a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
        self.cond1, self.bn1 = ConditionalConv(8, 8), nn.BatchNorm2d(8)
        self.cond2, self.bn2 = ConditionalConv(8, 14, stride=2), nn.BatchNorm2d(14)
        self.act = nn.Hardswish()
        self.drop = nn.Dropout(0.2)
        self.classifier = nn.Linear(14, 7)

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        x = x + self.act(self.bn1(self.cond1(x)))
        x = self.act(self.bn2(self.cond2(x)))
        return self.classifier(self.drop(x.mean((2, 3))))


class ActNorm(nn.Module):
    """Scales and shifts channels; it says how that changes volumes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(1, width, 1, 1))
        self.log_scale = nn.Parameter(torch.zeros(1, width, 1, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return (x + self.loc) * self.log_scale.exp(), x.shape[2] * x.shape[3] * self.log_scale.sum()


class InvertibleMix(nn.Module):
    """Channels are mixed by a matrix that can be inverted."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(width, width))[0])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        volume = x.shape[2] * x.shape[3] * torch.linalg.slogdet(self.weight)[1]
        return F.conv2d(x, self.weight[:, :, None, None]), volume


class AffineCoupling(nn.Module):
    """One half of the channels says how the other is scaled and shifted."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(width // 2, hidden, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(hidden, hidden, 1), nn.ReLU(inplace=True), nn.Conv2d(hidden, width, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        one, other = x.chunk(2, 1)
        log_s, t = self.net(one).chunk(2, 1)
        s = torch.sigmoid(log_s + 2)
        return torch.cat([one, (other + t) * s], 1), s.log().flatten(1).sum(1)


class InvertibleStep(nn.Module):
    """A norm, a mixing and a coupling."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.actnorm, self.invconv = ActNorm(width), InvertibleMix(width)
        self.coupling = AffineCoupling(width, hidden)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x, first = self.actnorm(x)
        x, second = self.invconv(x)
        x, third = self.coupling(x)
        return x, first + second + third


class InvertiblePictures(nn.Module):
    """How likely a picture is, by steps that can all be undone; half of it goes out at each scale."""

    def __init__(self, scales: int = 2, steps: int = 2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList()
        width = 2
        for _ in range(scales):
            width *= 4
            self.blocks.append(nn.ModuleList(InvertibleStep(width, 10) for _ in range(steps)))
            width //= 2
        self.prior = nn.Conv2d(width, 2 * width, 3, padding=1)

    def forward(self, x: Tensor) -> Any:
        total, count = x.new_zeros(x.shape[0]), x[0].numel()
        out = []
        for block in self.blocks:
            x = F.pixel_unshuffle(x, 2)
            for step in block:  # type: ignore[attr-defined]
                x, volume = step(x)
                total = total + volume
            x, aside = x.chunk(2, 1)
            out.append(aside)
        mean, log_sd = self.prior(torch.zeros_like(x)).chunk(2, 1)
        total = total - (log_sd + 0.5 * (x - mean) ** 2 / (2 * log_sd).exp()).flatten(1).sum(1)
        total = total - sum(0.5 * (one**2).flatten(1).sum(1) for one in out)
        return {"bits_per_dim": -total / (math.log(2) * count), "z": [*out, x]}


PICTURES: Final = (
    Family("dual_path", "image", DualPath, image(2, 16, 16)),
    Family("shifted_film", "film", ShiftedFilm, image(4, 2, 16, 16)),
    Family("octave_convolutions", "image", OctaveNet, image(2, 16, 16)),
    Family("conditional_kernels", "image", ConditionalKernels, image(2, 16, 16)),
    Family("invertible_pictures", "image", InvertiblePictures, image(2, 12, 12)),
)
