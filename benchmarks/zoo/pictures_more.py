# ruff: noqa: D102 - what `forward` does, its class says
"""More families that read pictures, as people write them at work.

They are of the third set of families that were unseen once.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family
from benchmarks.zoo.pictures import images


class Double(nn.Module):
    """Two convolutions; their activations are functions."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out)

    def forward(self, x: Tensor) -> Any:
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)))


class SkipGate(nn.Module):
    """What comes from below says where to look in what was seen on the way down."""

    def __init__(self, below: int, beside: int, middle: int) -> None:
        super().__init__()
        self.w_below = nn.Sequential(nn.Conv2d(below, middle, 1), nn.BatchNorm2d(middle))
        self.w_beside = nn.Sequential(nn.Conv2d(beside, middle, 1), nn.BatchNorm2d(middle))
        self.psi = nn.Sequential(nn.Conv2d(middle, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())

    def forward(self, below: Tensor, beside: Tensor) -> Any:
        return beside * self.psi(F.relu(self.w_below(below) + self.w_beside(beside)))


class AttentionUNet(nn.Module):
    """Down and up again; gates stand in the skips, and training has a second output."""

    def __init__(self) -> None:
        super().__init__()
        self.enc1, self.enc2, self.middle = Double(2, 6), Double(6, 10), Double(10, 14)
        self.up2, self.gate2, self.dec2 = nn.Conv2d(14, 10, 3, padding=1), SkipGate(10, 10, 7), Double(20, 10)
        self.up1, self.gate1, self.dec1 = nn.Conv2d(10, 6, 3, padding=1), SkipGate(6, 6, 4), Double(12, 6)
        self.out = nn.Conv2d(6, 4, 1)
        self.deep = nn.Conv2d(10, 4, 1)

    def forward(self, x: Tensor) -> Any:
        one = self.enc1(x)
        two = self.enc2(F.max_pool2d(one, 2))
        y = self.middle(F.max_pool2d(two, 2))
        y = self.up2(F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False))
        y = two_up = self.dec2(torch.cat([self.gate2(y, two), y], 1))
        y = self.up1(F.interpolate(y, size=one.shape[2:], mode="nearest"))
        y = self.out(self.dec1(torch.cat([self.gate1(y, one), y], 1)))
        return {"mask": y, "deep": self.deep(two_up)} if self.training else {"mask": y}


class Residual(nn.Module):
    """Adds what a function makes of something."""

    def __init__(self, fn: nn.Module) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: Tensor) -> Any:
        return self.fn(x) + x


def conv_mixer(width: int = 18, depth: int = 2, kernel: int = 5) -> nn.Sequential:
    """Return a net without a class of its own: patches, mixed in space, then in channels."""
    return nn.Sequential(
        nn.Conv2d(2, width, 4, 4), nn.GELU(), nn.BatchNorm2d(width),
        *[nn.Sequential(
            Residual(nn.Sequential(nn.Conv2d(width, width, kernel, groups=width, padding="same"), nn.GELU(),
                                   nn.BatchNorm2d(width))),
            nn.Conv2d(width, width, 1), nn.GELU(), nn.BatchNorm2d(width),
        ) for _ in range(depth)],
        nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(width, 7),
    )  # fmt: skip


class ScaledBlock(nn.Module):
    """Attention and a gated feed-forward net, both scaled by what is learned."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.q_norm, self.k_norm = nn.RMSNorm(width // heads), nn.RMSNorm(width // heads)
        self.w12, self.w3 = nn.Linear(width, 2 * 26), nn.Linear(26, width)
        self.scale1, self.scale2 = nn.Parameter(0.1 * torch.ones(width)), nn.Parameter(0.1 * torch.ones(width))
        self.drop = nn.Dropout(0.1)

    def attend(self, x: Tensor) -> Tensor:
        batch, count, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        out: Tensor = self.proj(y.transpose(1, 2).flatten(2))
        return out

    def forward(self, x: Tensor) -> Any:
        x = x + self.drop(self.scale1 * self.attend(self.norm1(x)))
        one, two = self.w12(self.norm2(x)).chunk(2, dim=-1)
        return x + self.drop(self.scale2 * self.w3(F.silu(one) * two))


class RegisterVit(nn.Module):
    """A transformer of patches with registers, which are thrown away at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(2, 20, 4, 4)
        self.cls_token = nn.Parameter(0.1 * torch.randn(1, 1, 20))
        self.registers = nn.Parameter(0.1 * torch.randn(1, 2, 20))
        self.pos_embed = nn.Parameter(0.1 * torch.randn(1, 16, 20))
        self.blocks = nn.ModuleList(ScaledBlock(20, 4) for _ in range(2))
        self.norm = nn.LayerNorm(20)
        self.head = nn.Linear(40, 7)

    def forward(self, x: Tensor) -> Any:
        x = self.patch_embed(x).flatten(2).transpose(1, 2) + self.pos_embed
        tokens = [self.cls_token.expand(x.shape[0], -1, -1), self.registers.expand(x.shape[0], -1, -1), x]
        x = torch.cat(tokens, dim=1)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return self.head(torch.cat([x[:, 0], x[:, 1 + self.registers.shape[1] :].mean(1)], dim=-1))


class PreActivation(nn.Module):
    """Norm and activation come before each convolution."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(width), nn.Conv2d(width, out // 2, 1)
        self.bn2, self.conv2 = nn.BatchNorm2d(out // 2), nn.Conv2d(out // 2, out, 3, padding=1)
        if width != out:
            self.skip = nn.Conv2d(width, out, 1)

    def forward(self, x: Tensor) -> Any:
        y = self.conv1(F.relu(self.bn1(x)))
        y = self.conv2(F.relu(self.bn2(y)))
        return y + (self.skip(x) if hasattr(self, "skip") else x)


class Hourglass(nn.Module):
    """Calls itself at half the size."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.up1 = PreActivation(width, width)
        self.pool = nn.MaxPool2d(2, 2)
        self.low1 = PreActivation(width, width)
        self.low2 = Hourglass(depth - 1, width) if depth > 1 else PreActivation(width, width)
        self.up2 = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x: Tensor) -> Any:
        return self.up1(x) + self.up2(self.low2(self.low1(self.pool(x))))


class Keypoints(nn.Module):
    """A heat map for each point, and where it is on average."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 10, 7, 2, 3), nn.BatchNorm2d(10), nn.ReLU(inplace=True))
        self.enter = PreActivation(10, 14)
        self.glass = Hourglass(2, 14)
        self.after = nn.Sequential(nn.Conv2d(14, 14, 1), nn.BatchNorm2d(14), nn.ReLU(inplace=True))
        self.maps = nn.Conv2d(14, 6, 1)

    def forward(self, x: Tensor) -> Any:
        maps = self.maps(self.after(self.glass(self.enter(self.stem(x)))))
        shares = maps.flatten(2).softmax(-1).view_as(maps)
        across = torch.linspace(-1, 1, maps.shape[3], dtype=maps.dtype)
        down = torch.linspace(-1, 1, maps.shape[2], dtype=maps.dtype)
        places = torch.stack([(shares.sum(2) * across).sum(-1), (shares.sum(3) * down).sum(-1)], -1)
        return {"maps": maps, "places": places}


class Pooled(nn.Sequential):
    """What the whole picture says, everywhere."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, out, 1, bias=False), nn.GroupNorm(2, out), nn.ReLU())

    def forward(self, x: Tensor) -> Any:
        size = x.shape[-2:]
        for layer in self:
            x = layer(x)
        return F.interpolate(x, size=size, mode="bilinear", align_corners=False)


class DeepLab(nn.Module):
    """Convolutions with holes of several sizes side by side; low features come in again late."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Sequential(nn.Conv2d(2, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.high = nn.Sequential(nn.Conv2d(8, 14, 3, 2, 1), nn.BatchNorm2d(14), nn.ReLU())
        holes: dict[str, nn.Module] = {
            f"rate{rate}": nn.Sequential(
                nn.Conv2d(14, out, 3 if rate > 1 else 1, padding=rate if rate > 1 else 0, dilation=rate, bias=False),
                nn.BatchNorm2d(out),
                nn.ReLU(),
            )
            for rate, out in ((1, 6), (2, 7), (4, 8))
        }
        self.holes = nn.ModuleDict({**holes, "pooled": Pooled(14, 4)})
        self.project = nn.Sequential(nn.Conv2d(25, 12, 1, bias=False), nn.BatchNorm2d(12), nn.ReLU(), nn.Dropout(0.1))
        self.reduce = nn.Conv2d(8, 6, 1)
        self.classifier = nn.Sequential(nn.Conv2d(18, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 7, 1))

    def forward(self, x: Tensor) -> Any:
        low = self.low(x)
        high = self.high(low)
        y = self.project(torch.cat([branch(high) for branch in self.holes.values()], dim=1))
        y = F.interpolate(y, size=low.shape[-2:], mode="bilinear", align_corners=False)
        y = self.classifier(torch.cat([y, F.relu(self.reduce(low))], dim=1))
        return F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)


class ConvAct(nn.Module):
    """Convolution, norm, activation."""

    def __init__(self, width: int, out: int, kernel: int = 1, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, out, kernel, stride, kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(out)
        self.act = nn.SiLU(inplace=True)

    def forward(self, x: Tensor) -> Any:
        return self.act(self.bn(self.conv(x)))


class CrossStage(nn.Module):
    """Half of the channels take a detour."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        half = out // 2
        self.cv1, self.cv2, self.cv3 = ConvAct(width, half), ConvAct(width, half), ConvAct(out, out)
        self.m = nn.Sequential(ConvAct(half, half, 1), ConvAct(half, half, 3))

    def forward(self, x: Tensor) -> Any:
        y = self.cv1(x)
        return self.cv3(torch.cat((y + self.m(y), self.cv2(x)), 1))


class OneShot(nn.Module):
    """Boxes for anchors on two grids, at one look."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.stage1 = ConvAct(2, 8, 3, 2), CrossStage(8, 8)
        self.shrink, self.stage2 = ConvAct(8, 12, 3, 2), ConvAct(12, 12, 3)
        self.pools = nn.ModuleList(nn.MaxPool2d(k, 1, k // 2) for k in (3, 5))
        self.spp = ConvAct(36, 14)
        self.up = nn.Upsample(scale_factor=2)
        self.merge = CrossStage(22, 10)
        self.detect = nn.ModuleList([nn.Conv2d(10, 2 * 9, 1), nn.Conv2d(14, 2 * 9, 1)])

    def forward(self, x: Tensor) -> Any:
        one = self.stage1(self.stem(x))
        two = self.stage2(self.shrink(one))
        two = self.spp(torch.cat([two, *(pool(two) for pool in self.pools)], 1))
        one = self.merge(torch.cat([self.up(two), one], 1))
        found = []
        for level, detect in zip((one, two), self.detect, strict=True):
            batch, _, high, wide = level.shape
            y = detect(level).view(batch, 2, 9, high, wide).permute(0, 1, 3, 4, 2)
            box, rest = y.split((4, 5), dim=-1)
            found.append(torch.cat([box.sigmoid() * 2 - 0.5, rest], -1).flatten(1, 3))
        return torch.cat(found, 1)


class Mixed(nn.Module):
    """All operations at once, weighed by what is learned."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ops = nn.ModuleDict({
            "conv": nn.Sequential(nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1), nn.BatchNorm2d(width)),
            "apart": nn.Sequential(
                nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1, groups=width), nn.Conv2d(width, width, 1)
            ),
            "max": nn.MaxPool2d(3, 1, 1),
            "skip": nn.Identity(),
        })  # fmt: skip

    def forward(self, x: Tensor, weights: Tensor) -> Any:
        return sum(weight * op(x) for weight, op in zip(weights, self.ops.values(), strict=True))


class SearchedCell(nn.Module):
    """A cell of three nodes, of which every one reads all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8))
        self.edges = nn.ModuleDict({f"{a}to{b}": Mixed(8) for b in (1, 2) for a in range(b)})
        self.alphas = nn.Parameter(0.3 * torch.randn(len(self.edges), 4))
        self.classifier = nn.Linear(16, 7)

    def forward(self, x: Tensor) -> Any:
        nodes, weights = [self.stem(x)], F.softmax(self.alphas, dim=-1)
        names = list(self.edges)
        for b in (1, 2):
            nodes.append(torch.stack([
                self.edges[f"{a}to{b}"](nodes[a], weights[names.index(f"{a}to{b}")]) for a in range(b)
            ]).sum(0))  # fmt: skip
        return self.classifier(torch.cat(nodes[1:], 1).mean((-2, -1)))


MORE_PICTURES: Final = (
    Family("attention_unet", "image", AttentionUNet, images(1)),
    Family("conv_mixer", "image", conv_mixer, images(1)),
    Family("vit_registers", "image", RegisterVit, images(1)),
    Family("keypoints", "image", Keypoints, images(1)),
    Family("deeplab", "image", DeepLab, images(1)),
    Family("one_shot", "detection", OneShot, images(1)),
    Family("searched_cell", "image", SearchedCell, images(1)),
)
