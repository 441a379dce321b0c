# ruff: noqa: D102 - what `forward` does, its class says
"""Families that make a picture from another, or from its noise."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor, nn

from benchmarks.zoo.family import Family


class SkipConnection(nn.Module):
    """One height of a net for pictures from pictures; what is below it is one of its layers."""

    def __init__(self, outer: int, inner: int, *, below: nn.Module | None = None, into: int | None = None) -> None:
        super().__init__()
        self.outermost = into is not None
        down = nn.Conv2d(outer if into is None else into, inner, 4, 2, 1, bias=False)
        if self.outermost and below is not None:
            layers = [down, below, nn.ReLU(True), nn.ConvTranspose2d(2 * inner, outer, 4, 2, 1), nn.Tanh()]
        elif below is None:
            layers = [nn.LeakyReLU(0.2, True), down, nn.ReLU(True),
                      nn.ConvTranspose2d(inner, outer, 4, 2, 1, bias=False), nn.BatchNorm2d(outer)]  # fmt: skip
        else:
            layers = [nn.LeakyReLU(0.2, True), down, nn.BatchNorm2d(inner), below, nn.ReLU(True),
                      nn.ConvTranspose2d(2 * inner, outer, 4, 2, 1, bias=False), nn.BatchNorm2d(outer),
                      nn.Dropout(0.5)]  # fmt: skip
        self.model = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Any:
        return self.model(x) if self.outermost else torch.cat([x, self.model(x)], 1)


class ImageTranslation(nn.Module):
    """A picture from a picture; patch by patch it is judged whether such pairs are real."""

    def __init__(self) -> None:
        super().__init__()
        below = SkipConnection(14, 18)
        below = SkipConnection(10, 14, below=below)
        self.netG = SkipConnection(4, 10, below=below, into=2)
        self.netD = nn.Sequential(
            nn.Conv2d(6, 8, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(8, 12, 4, 2, 1, bias=False), nn.InstanceNorm2d(12, affine=True), nn.LeakyReLU(0.2, True),
            nn.Conv2d(12, 1, 4, 1, 1),
        )  # fmt: skip

    def forward(self, real_a: Tensor, real_b: Tensor) -> Any:
        fake_b = self.netG(real_a)
        fake, real = self.netD(torch.cat((real_a, fake_b), 1)), self.netD(torch.cat((real_a, real_b), 1))
        return fake_b, fake, real


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class TimestepEmbedder(nn.Module):
    """Waves of a time, read by a small net."""

    def __init__(self, width: int, waves: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(waves, width), nn.SiLU(), nn.Linear(width, width))
        self.waves = waves

    def forward(self, t: Tensor) -> Any:
        half = self.waves // 2
        frequencies = torch.exp(-math.log(100) * torch.arange(half, dtype=t.dtype) / half)
        angles = t[:, None] * frequencies[None]
        return self.mlp(torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1))


class ConditionedBlock(nn.Module):
    """A transformer's block whose norms a condition scales and shifts, and whose branches it gates."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, 44), nn.GELU(approximate="tanh"), nn.Linear(44, width))
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, c: Tensor) -> Any:
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = self.adaLN_modulation(c).chunk(6, dim=1)
        y = modulate(self.norm1(x), shift_msa, scale_msa)
        x = x + gate_msa.unsqueeze(1) * self.attn(y, y, y, need_weights=False)[0]
        return x + gate_mlp.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift_mlp, scale_mlp))


class FinalLayer(nn.Module):
    """A norm that a condition scales and shifts, and pixels."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.norm_final = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.linear = nn.Linear(width, out)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))

    def forward(self, x: Tensor, c: Tensor) -> Any:
        shift, scale = self.adaLN_modulation(c).chunk(2, dim=1)
        return self.linear(modulate(self.norm_final(x), shift, scale))


class DiffusionTransformer(nn.Module):
    """The noise in a picture, and how sure that is, by a transformer of patches."""

    pos_embed: Tensor

    def __init__(self, depth: int = 2, patch: int = 4) -> None:
        super().__init__()
        self.patch, self.out_channels = patch, 4
        self.x_embedder = nn.Conv2d(2, 20, patch, patch)
        self.t_embedder = TimestepEmbedder(20, 14)
        self.y_embedder = nn.Embedding(9, 20)
        self.register_buffer("pos_embed", 0.3 * torch.randn(1, 16, 20))
        self.blocks = nn.ModuleList(ConditionedBlock(20, 4) for _ in range(depth))
        self.final_layer = FinalLayer(20, patch * patch * self.out_channels)

    def unpatchify(self, x: Tensor) -> Tensor:
        side = int(x.shape[1] ** 0.5)
        x = x.reshape(x.shape[0], side, side, self.patch, self.patch, self.out_channels)
        x = torch.einsum("nhwpqc->nchpwq", x)
        return x.reshape(x.shape[0], self.out_channels, side * self.patch, side * self.patch)

    def forward(self, x: Tensor, t: Tensor, y: Tensor) -> Any:
        x = self.x_embedder(x).flatten(2).transpose(1, 2) + self.pos_embed
        c = self.t_embedder(t) + self.y_embedder(y)
        for block in self.blocks:
            x = block(x, c)
        return self.unpatchify(self.final_layer(x, c))


TRANSLATED: Final = (
    Family("image_translation", "image", ImageTranslation,
           lambda b: (torch.randn(b, 2, 16, 16), torch.randn(b, 4, 16, 16))),
    Family("diffusion_transformer", "image", DiffusionTransformer,
           lambda b: (torch.randn(b, 2, 16, 16), 90 * torch.rand(b), torch.randint(0, 9, (b,)))),
)  # fmt: skip
