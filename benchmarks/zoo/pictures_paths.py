# ruff: noqa: D102 - what `forward` does, its class says
"""Families that see a picture or a film along several paths: resolutions, kernels, speeds, views."""

from __future__ import annotations

import copy
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family
from benchmarks.zoo.pictures import images


class Plain(nn.Module):
    """Two convolutions beside a skip."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Any:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class Exchange(nn.Module):
    """Blocks at several resolutions; then each gets the sum of what all of them send it."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(Plain(width), Plain(width)) for width in widths)
        self.fuse = nn.ModuleList(
            nn.ModuleList(self.link(widths, start, end) for start in range(len(widths))) for end in range(len(widths))
        )

    @staticmethod
    def link(widths: tuple[int, ...], start: int, end: int) -> nn.Module:
        if start == end:
            return nn.Identity()
        if start > end:
            return nn.Sequential(
                nn.Conv2d(widths[start], widths[end], 1, bias=False), nn.BatchNorm2d(widths[end]),
                nn.Upsample(scale_factor=2 ** (start - end), mode="nearest"),
            )  # fmt: skip
        steps: list[nn.Module] = []
        for step in range(start, end):
            out = widths[end] if step == end - 1 else widths[start]
            steps += [nn.Conv2d(widths[start], out, 3, 2, 1, bias=False), nn.BatchNorm2d(out)]
            steps += [nn.ReLU()] if step < end - 1 else []
        return nn.Sequential(*steps)

    def forward(self, levels: list[Tensor]) -> Any:
        levels = [branch(level) for branch, level in zip(self.branches, levels, strict=True)]
        fused = []
        for links in self.fuse:
            total = links[0](levels[0])  # type: ignore[index]
            for nth in range(1, len(levels)):
                total = total + links[nth](levels[nth])  # type: ignore[index]
            fused.append(F.relu(total))
        return fused


class HighResolution(nn.Module):
    """The high resolution is never left; lower ones run beside it, and all are read at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 10, 3, 2, 1, bias=False), nn.BatchNorm2d(10), nn.ReLU(inplace=True))
        self.transition1 = nn.ModuleList([self.step(10, 8, 1), self.step(10, 14, 2)])
        self.stage2 = Exchange((8, 14))
        self.transition2 = self.step(14, 22, 2)
        self.stage3 = Exchange((8, 14, 22))
        self.last_layer = nn.Sequential(
            nn.Conv2d(44, 18, 1), nn.BatchNorm2d(18), nn.ReLU(inplace=True), nn.Conv2d(18, 7, 1)
        )

    @staticmethod
    def step(width: int, out: int, stride: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        levels = self.stage2([transition(x) for transition in self.transition1])
        levels = self.stage3([*levels, self.transition2(levels[-1])])
        size = levels[0].shape[-2:]
        rest = [F.interpolate(level, size=size, mode="bilinear", align_corners=False) for level in levels[1:]]
        return self.last_layer(torch.cat([levels[0], *rest], dim=1))


class SelectiveKernel(nn.Module):
    """Kernels of several sizes; for each channel, what the picture says which one counts."""

    def __init__(self, width: int, squeezed: int, branches: int = 2) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1 + nth, dilation=1 + nth, groups=2, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            )
            for nth in range(branches)
        )
        self.gap = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Sequential(nn.Conv2d(width, squeezed, 1, bias=False), nn.BatchNorm2d(squeezed), nn.ReLU())
        self.fcs = nn.ModuleList(nn.Conv2d(squeezed, width, 1) for _ in range(branches))
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x: Tensor) -> Any:
        seen = torch.stack([conv(x) for conv in self.convs], dim=1)
        told = self.fc(self.gap(seen.sum(dim=1)))
        shares = self.softmax(torch.stack([fc(told) for fc in self.fcs], dim=1))
        return (seen * shares).sum(dim=1)


class SelectiveUnit(nn.Module):
    """Narrow, select, widen, beside a skip."""

    def __init__(self, width: int, middle: int, out: int) -> None:
        super().__init__()
        self.conv1 = nn.Sequential(nn.Conv2d(width, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU())
        self.conv2_sk = SelectiveKernel(middle, 5)
        self.conv3 = nn.Sequential(nn.Conv2d(middle, out, 1, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Sequential() if width == out else nn.Sequential(
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Any:
        return F.relu(self.conv3(self.conv2_sk(self.conv1(x))) + self.shortcut(x))


class SelectiveNet(nn.Module):
    """Stages of units that select kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.basic_conv = nn.Sequential(nn.Conv2d(2, 8, 5, 1, 2, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.stage_1 = nn.Sequential(SelectiveUnit(8, 6, 14), SelectiveUnit(14, 6, 14))
        self.stage_2 = nn.Sequential(nn.AvgPool2d(2), SelectiveUnit(14, 10, 20))
        self.classifier = nn.Linear(20, 7)

    def forward(self, x: Tensor) -> Any:
        x = self.stage_2(self.stage_1(self.maxpool(self.basic_conv(x))))
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Nested(nn.Module):
    """A net of nets: each node reads all before it at its height, and what is below."""

    def __init__(self, *, deep_supervision: bool = True) -> None:
        super().__init__()
        widths = (6, 10, 14)
        self.deep_supervision = deep_supervision
        self.pool, self.up = nn.MaxPool2d(2, 2), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.conv0_0 = self.block(2, 6)
        self.conv1_0 = self.block(6, 10)
        self.conv2_0 = self.block(10, 14)
        self.conv0_1 = self.block(widths[0] + widths[1], 6)
        self.conv1_1 = self.block(widths[1] + widths[2], 10)
        self.conv0_2 = self.block(2 * widths[0] + widths[1], 6)
        self.final1, self.final2 = nn.Conv2d(6, 4, 1), nn.Conv2d(6, 4, 1)

    @staticmethod
    def block(width: int, out: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(width, out, 3, padding=1), nn.BatchNorm2d(out), nn.LeakyReLU(0.1, inplace=True),
            nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out), nn.LeakyReLU(0.1, inplace=True),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Any:
        x0_0 = self.conv0_0(x)
        x1_0 = self.conv1_0(self.pool(x0_0))
        x0_1 = self.conv0_1(torch.cat([x0_0, self.up(x1_0)], 1))
        x2_0 = self.conv2_0(self.pool(x1_0))
        x1_1 = self.conv1_1(torch.cat([x1_0, self.up(x2_0)], 1))
        x0_2 = self.conv0_2(torch.cat([x0_0, x0_1, self.up(x1_1)], 1))
        if self.training and self.deep_supervision:
            return [self.final1(x0_1), self.final2(x0_2)]
        return [self.final2(x0_2)]


class FilmUnit(nn.Module):
    """A convolution over time, one over space, one over neither, beside a skip."""

    def __init__(self, width: int, middle: int, out: int, times: int, stride: int) -> None:
        super().__init__()
        self.a = nn.Conv3d(width, middle, (times, 1, 1), padding=(times // 2, 0, 0), bias=False)
        self.a_bn, self.a_relu = nn.BatchNorm3d(middle), nn.ReLU(inplace=True)
        self.b = nn.Conv3d(middle, middle, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)
        self.b_bn, self.b_relu = nn.BatchNorm3d(middle), nn.ReLU(inplace=True)
        self.c, self.c_bn = nn.Conv3d(middle, out, 1, bias=False), nn.BatchNorm3d(out)
        if width != out or stride != 1:
            self.branch1 = nn.Conv3d(width, out, 1, (1, stride, stride), bias=False)
            self.branch1_bn = nn.BatchNorm3d(out)

    def forward(self, x: Tensor) -> Any:
        y = self.b_relu(self.b_bn(self.b(self.a_relu(self.a_bn(self.a(x))))))
        y = self.c_bn(self.c(y))
        short = self.branch1_bn(self.branch1(x)) if hasattr(self, "branch1") else x
        return F.relu(short + y)


class FuseFastToSlow(nn.Module):
    """The slow path gets what the fast one sees."""

    def __init__(self, width: int, every: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(width, 2 * width, (5, 1, 1), (every, 1, 1), (2, 0, 0), bias=False)
        self.bn = nn.BatchNorm3d(2 * width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, slow: Tensor, fast: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([slow, self.relu(self.bn(self.conv(fast)))], 1), fast


class SlowFast(nn.Module):
    """A path that sees few frames with many channels, and one that sees all with few."""

    def __init__(self, every: int = 4) -> None:
        super().__init__()
        self.every = every
        self.slow_stem = nn.Sequential(nn.Conv3d(2, 10, (1, 3, 3), (1, 2, 2), (0, 1, 1)), nn.BatchNorm3d(10), nn.ReLU())
        self.fast_stem = nn.Sequential(nn.Conv3d(2, 4, (5, 3, 3), (1, 2, 2), (2, 1, 1)), nn.BatchNorm3d(4), nn.ReLU())
        self.fuse1, self.fuse2 = FuseFastToSlow(4, every), FuseFastToSlow(6, every)
        self.slow_res2, self.fast_res2 = FilmUnit(18, 8, 20, 1, 1), FilmUnit(4, 2, 6, 3, 1)
        self.slow_res3 = nn.Sequential(FilmUnit(32, 12, 26, 1, 2), FilmUnit(26, 12, 26, 3, 1))
        self.fast_res3 = nn.Sequential(FilmUnit(6, 4, 9, 3, 2), FilmUnit(9, 4, 9, 3, 1))
        self.dropout = nn.Dropout(0.5)
        self.projection = nn.Linear(35, 7)

    def forward(self, film: Tensor) -> Any:
        slow, fast = self.slow_stem(film[:, :, :: self.every]), self.fast_stem(film)
        slow, fast = self.fuse1(slow, fast)
        slow, fast = self.fuse2(self.slow_res2(slow), self.fast_res2(fast))
        slow, fast = self.slow_res3(slow), self.fast_res3(fast)
        pooled = [F.adaptive_avg_pool3d(path, 1).flatten(1) for path in (slow, fast)]
        return self.projection(self.dropout(torch.cat(pooled, dim=1)))


class BootstrapLatent(nn.Module):
    """Says of one view of a picture what a slower copy of itself says of the other."""

    def __init__(self) -> None:
        super().__init__()
        encoder = nn.Sequential(
            nn.Conv2d(2, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), Plain(8),
            nn.Conv2d(8, 14, 3, 2, 1, bias=False), nn.BatchNorm2d(14), nn.ReLU(inplace=True), Plain(14),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.online_encoder = nn.Sequential(encoder, self.mlp(14, 28, 12))
        self.target_encoder = copy.deepcopy(self.online_encoder).requires_grad_(False)
        self.online_predictor = self.mlp(12, 22, 12)

    @staticmethod
    def mlp(width: int, hidden: int, out: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True), nn.Linear(hidden, out)
        )

    def forward(self, one: Tensor, other: Tensor) -> Any:
        said = [self.online_predictor(self.online_encoder(view)) for view in (one, other)]
        with torch.no_grad():
            meant = [self.target_encoder(view) for view in (other, one)]
        return sum(2 - 2 * F.cosine_similarity(a, b, dim=-1) for a, b in zip(said, meant, strict=True))


PATHS: Final = (
    Family("high_resolution", "image", HighResolution, images(1)),
    Family("selective_kernels", "image", SelectiveNet, images(1)),
    Family("nested_unet", "image", Nested, images(1)),
    Family("slow_fast", "film", SlowFast, lambda batch: (torch.randn(batch, 2, 8, 10, 14),)),
    Family("bootstrap_latent", "image", BootstrapLatent, images(2)),
)
