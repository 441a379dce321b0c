# ruff: noqa: D102 - what `forward` does, its class says
"""Families that read pictures, films, fields and rays, as research code writes them."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family


class Nerf(nn.Module):
    """Density and colour of a point seen from a direction; halfway, the point is put in again."""

    bands: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(16, 36), nn.Linear(36, 36), nn.Linear(52, 36), nn.Linear(36, 36)])
        self.density = nn.Linear(36, 1)
        self.feature = nn.Linear(36, 22)
        self.view = nn.Linear(28, 18)
        self.colour = nn.Linear(18, 4)
        self.register_buffer("bands", 2.0 ** torch.arange(2))

    def forward(self, points: Tensor, directions: Tensor) -> Any:
        angles = (points.unsqueeze(-1) * self.bands).flatten(-2)
        encoded = torch.cat([torch.sin(angles), torch.cos(angles)], -1)
        x = encoded
        for nth, layer in enumerate(self.layers):
            if nth == 2:
                x = torch.cat([encoded, x], -1)
            x = F.relu(layer(x))
        seen = F.relu(self.view(torch.cat([self.feature(x), directions], -1)))
        return torch.sigmoid(self.colour(seen)), F.softplus(self.density(x))


class TimedBlock(nn.Module):
    """Two convolutions, between which a time is added."""

    def __init__(self, width: int, out: int, time: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(2, width), nn.Conv2d(width, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.norm2, self.conv2 = nn.GroupNorm(2, out), nn.Conv2d(out, out, 3, padding=1)
        self.dropout = nn.Dropout(0.1)
        self.skip = nn.Conv2d(width, out, 1) if width != out else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Any:
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(self.dropout(F.silu(self.norm2(y))))


class SpatialAttention(nn.Module):
    """Each pixel looks at all others."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, width)
        self.qkv = nn.Conv2d(width, 3 * width, 1)
        self.proj = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor) -> Any:
        q, k, v = self.qkv(self.norm(x)).flatten(2).chunk(3, dim=1)
        weights = torch.softmax(q.transpose(1, 2) @ k / q.shape[1] ** 0.5, dim=-1)
        return x + self.proj((v @ weights.transpose(1, 2)).view_as(x))


class Denoiser(nn.Module):
    """The noise in an image at a time of a diffusion."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(12, 28), nn.SiLU(), nn.Linear(28, 28))
        self.enter = nn.Conv2d(2, 8, 3, padding=1)
        self.down1, self.shrink = TimedBlock(8, 8, 28), nn.Conv2d(8, 8, 3, 2, 1)
        self.down2 = TimedBlock(8, 14, 28)
        self.middle1, self.attention, self.middle2 = (
            TimedBlock(14, 14, 28),
            SpatialAttention(14),
            TimedBlock(14, 14, 28),
        )
        self.up2 = TimedBlock(28, 14, 28)
        self.grow = nn.Conv2d(14, 14, 3, padding=1)
        self.up1 = TimedBlock(22, 8, 28)
        self.norm, self.leave = nn.GroupNorm(2, 8), nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x: Tensor, steps: Tensor) -> Any:
        angles = steps[:, None] * 10.0 ** -torch.linspace(0, 2, 6)
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        one = self.down1(self.enter(x), time)
        two = self.down2(self.shrink(one), time)
        y = self.middle2(self.attention(self.middle1(two, time)), time)
        y = self.up2(torch.cat([y, two], 1), time)
        y = self.grow(F.interpolate(y, scale_factor=2, mode="nearest"))
        return self.leave(F.silu(self.norm(self.up1(torch.cat([y, one], 1), time))))


class Capsules(nn.Module):
    """Capsules vote for capsules above; who agrees is heard more."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 12, 5, 2)
        self.primary = nn.Conv2d(12, 16, 3, 2)
        self.votes = nn.Parameter(torch.randn(7, 16, 4, 6) * 0.3)
        self.decoder = nn.Sequential(nn.Linear(42, 26), nn.ReLU(inplace=True), nn.Linear(26, 64), nn.Sigmoid())

    def squash(self, x: Tensor) -> Tensor:
        square = (x**2).sum(-1, keepdim=True)
        return square / (1 + square) * x / torch.sqrt(square + 1e-8)

    def forward(self, x: Tensor) -> Any:
        y = self.primary(F.relu(self.conv(x)))
        low = self.squash(y.view(x.shape[0], 4, 16).transpose(1, 2))
        votes = torch.einsum("bik,oikd->boid", low, self.votes)
        agreed = torch.zeros(votes.shape[:3], dtype=votes.dtype)
        for _ in range(2):
            high = self.squash((torch.softmax(agreed, dim=1).unsqueeze(-1) * votes).sum(2))
            agreed = agreed + (votes * high.unsqueeze(2)).sum(-1)
        return {"length": high.norm(dim=-1), "image": self.decoder(high.flatten(1))}


class ConvLstmCell(nn.Module):
    """An LSTM whose state is a picture."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Conv2d(width + hidden, 4 * hidden, 3, padding=1)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        h, c = state
        i, f, o, g = torch.split(self.gates(torch.cat([x, h], 1)), self.hidden, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class ConvLstm(nn.Module):
    """The next picture of a film."""

    def __init__(self) -> None:
        super().__init__()
        self.cell1, self.cell2 = ConvLstmCell(2, 6), ConvLstmCell(6, 9)
        self.norm = nn.BatchNorm2d(9)
        self.out = nn.Conv2d(9, 2, 1)

    def forward(self, film: Tensor) -> Any:
        batch, _, _, high, wide = film.shape
        one = (film.new_zeros(batch, 6, high, wide), film.new_zeros(batch, 6, high, wide))
        two = (film.new_zeros(batch, 9, high, wide), film.new_zeros(batch, 9, high, wide))
        for x in film.unbind(1):
            one = self.cell1(x, one)
            two = self.cell2(one[0], two)
        return self.out(self.norm(two[0]))


class ResNextBlock(nn.Module):
    """Many narrow convolutions side by side, as groups of one."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.reduce, self.bn1 = nn.Conv2d(width, 12, 1, bias=False), nn.BatchNorm2d(12)
        self.conv, self.bn2 = nn.Conv2d(12, 12, 3, stride, 1, groups=4, bias=False), nn.BatchNorm2d(12)
        self.expand, self.bn3 = nn.Conv2d(12, out, 1, bias=False), nn.BatchNorm2d(out)
        self.shortcut: nn.Module | None = None
        if stride != 1 or width != out:
            self.shortcut = nn.Sequential(nn.AvgPool2d(stride), nn.Conv2d(width, out, 1))

    def forward(self, x: Tensor) -> Any:
        y = F.relu(self.bn1(self.reduce(x)))
        y = self.bn3(self.expand(F.relu(self.bn2(self.conv(y)))))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNext(nn.Module):
    """Blocks of grouped convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 10, 3, 1, 1, bias=False), nn.BatchNorm2d(10), nn.ReLU(inplace=True))
        self.stages = nn.ModuleList([ResNextBlock(10, 10, 1), ResNextBlock(10, 18, 2), ResNextBlock(18, 18, 1)])
        self.head = nn.Linear(18, 7)

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.head(x.amax((2, 3)))


class Cbam(nn.Module):
    """Says which channels count, then which places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(width, 6), nn.ReLU(), nn.Linear(6, width))
        self.place = nn.Conv2d(2, 1, 5, padding=2, bias=False)

    def forward(self, x: Tensor) -> Any:
        scale = torch.sigmoid(self.mlp(x.mean((2, 3))) + self.mlp(x.amax((2, 3))))
        x = x * scale[:, :, None, None]
        pooled = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return x * torch.sigmoid(self.place(pooled))


class CbamNet(nn.Module):
    """Residual convolutions with attention to channels and places."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 12, 3, 2, 1)
        self.conv1, self.norm1, self.cbam1 = nn.Conv2d(12, 12, 3, 1, 1), nn.BatchNorm2d(12), Cbam(12)
        self.conv2, self.norm2, self.cbam2 = nn.Conv2d(12, 12, 3, 1, 1), nn.BatchNorm2d(12), Cbam(12)
        self.pool = nn.AdaptiveMaxPool2d(2)
        self.out = nn.Linear(48, 9)

    def forward(self, x: Tensor) -> Any:
        x = F.leaky_relu(self.stem(x), 0.1)
        x = F.leaky_relu(x + self.cbam1(self.norm1(self.conv1(x))), 0.1)
        x = F.leaky_relu(x + self.cbam2(self.norm2(self.conv2(x))), 0.1)
        return self.out(self.pool(x).flatten(1))


class Ghost(nn.Module):
    """Half of the channels are computed; the others are cheap pictures of them."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        half = out // 2
        self.primary = nn.Sequential(nn.Conv2d(width, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU())
        self.cheap = nn.Sequential(
            nn.Conv2d(half, half, 3, 1, 1, groups=half, bias=False), nn.BatchNorm2d(half), nn.ReLU()
        )

    def forward(self, x: Tensor) -> Any:
        y = self.primary(x)
        return torch.cat([y, self.cheap(y)], 1)


class GhostNet(nn.Module):
    """Ghost modules beside skips."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 8, 3, 2, 1)
        self.wide1, self.narrow1 = Ghost(8, 20), Ghost(20, 8)
        self.wide2 = Ghost(8, 22)
        self.stride = nn.Sequential(nn.Conv2d(22, 22, 3, 2, 1, groups=22, bias=False), nn.BatchNorm2d(22))
        self.narrow2 = Ghost(22, 14)
        self.short = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(8, 14, 1))
        self.head = nn.Conv2d(14, 26, 1)
        self.out = nn.Linear(26, 7)

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        x = x + self.narrow1(self.wide1(x))
        x = self.short(x) + self.narrow2(self.stride(self.wide2(x)))
        return self.out(F.hardswish(self.head(x.mean((2, 3), keepdim=True))).flatten(1))


class Triplet(nn.Module):
    """Distances of an image to one that is like it, and to one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(2, 8, 3, 2, 1), nn.InstanceNorm2d(8, affine=True)
        self.conv2, self.norm2 = nn.Conv2d(8, 14, 3, 2, 1), nn.InstanceNorm2d(14, affine=True)
        self.embed = nn.Linear(14 * 16, 18)

    def look(self, x: Tensor) -> Tensor:
        x = F.elu(self.norm1(self.conv1(x)))
        x = F.elu(self.norm2(self.conv2(x)))
        return F.normalize(self.embed(x.flatten(1)), dim=1)

    def forward(self, anchor: Tensor, alike: Tensor, other: Tensor) -> Any:
        a, p, n = self.look(anchor), self.look(alike), self.look(other)
        return {"alike": ((a - p) ** 2).sum(1), "other": ((a - n) ** 2).sum(1)}


class SpectralConv(nn.Module):
    """A convolution that is a product of a few frequencies."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, 2) * 0.2)

    def forward(self, x: Tensor) -> Any:
        frequencies = torch.fft.rfft(x)
        kept = torch.einsum("bim,iom->bom", frequencies[..., : self.modes], torch.view_as_complex(self.weight))
        padded = F.pad(torch.view_as_real(kept), (0, 0, 0, frequencies.shape[-1] - self.modes))
        return torch.fft.irfft(torch.view_as_complex(padded.contiguous()), n=x.shape[-1])


class FourierOperator(nn.Module):
    """A function of one field to another."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Linear(2, 12)
        self.spectral = nn.ModuleList(SpectralConv(12, 6) for _ in range(2))
        self.local = nn.ModuleList(nn.Conv1d(12, 12, 1) for _ in range(2))
        self.project = nn.Sequential(nn.Linear(12, 28), nn.GELU(), nn.Linear(28, 1))

    def forward(self, field: Tensor) -> Any:
        x = self.lift(field).transpose(1, 2)
        for spectral, local in zip(self.spectral, self.local, strict=True):
            x = F.gelu(spectral(x) + local(x))
        return self.project(x.transpose(1, 2))


class VqVae(nn.Module):
    """What an image is encoded to is rounded to entries of a book."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(2, 10, 4, 2, 1), nn.ReLU(), nn.Conv2d(10, 14, 4, 2, 1))
        self.before, self.after = nn.Conv2d(14, 6, 1), nn.Conv2d(6, 14, 1)
        self.book = nn.Embedding(20, 6)
        self.decoder = nn.Sequential(nn.ConvTranspose2d(14, 10, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(10, 2, 4, 2, 1))

    def forward(self, x: Tensor) -> Any:
        z = self.before(self.encoder(x)).permute(0, 2, 3, 1)
        flat = z.reshape(-1, 6)
        nearest = torch.cdist(flat, self.book.weight).argmin(1)
        chosen = self.book(nearest).view_as(z)
        straight = (z + (chosen - z).detach()).permute(0, 3, 1, 2)
        return self.decoder(self.after(straight)), ((chosen - z.detach()) ** 2).mean((1, 2, 3))


class MaskedConv(nn.Conv2d):
    """A convolution that does not see what comes later."""

    mask: Tensor

    def __init__(self, width: int, out: int, size: int, *, first: bool) -> None:
        middle = size // 2
        super().__init__(width, out, size, padding=middle)
        mask = torch.ones_like(self.weight)
        mask[:, :, middle, middle + (not first) :] = 0
        mask[:, :, middle + 1 :] = 0
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight * self.mask, self.bias, padding=self.padding)


class PixelCnn(nn.Module):
    """Each pixel from those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = MaskedConv(2, 12, 5, first=True)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.ReLU(), nn.Conv2d(12, 7, 1), nn.ReLU(), MaskedConv(7, 7, 3, first=False), nn.ReLU(),
                          nn.Conv2d(7, 12, 1)) for _ in range(2)
        )  # fmt: skip
        self.out = nn.Conv2d(12, 16, 1)

    def forward(self, x: Tensor) -> Any:
        y = self.first(x)
        for block in self.blocks:
            y = y + block(y)
        return self.out(F.relu(y)).view(x.shape[0], 2, 8, *x.shape[2:])


class SpatialTransformer(nn.Module):
    """Turns an image before it reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.find = nn.Sequential(nn.Conv2d(2, 6, 5, 2), nn.MaxPool2d(2), nn.ReLU())
        self.angles = nn.Sequential(nn.Linear(54, 20), nn.ReLU(True), nn.Linear(20, 6))
        self.conv = nn.Conv2d(2, 10, 3)
        self.drop = nn.Dropout2d(0.2)
        self.fc = nn.Linear(10 * 49, 8)

    def forward(self, x: Tensor) -> Any:
        theta = self.angles(self.find(x).flatten(1)).view(-1, 2, 3)
        x = F.grid_sample(x, F.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False)
        x = F.relu(F.max_pool2d(self.drop(self.conv(x)), 2))
        return F.log_softmax(self.fc(x.flatten(1)), dim=1)


class Pyramid(nn.Module):
    """Boxes and classes at three scales, by heads that the scales share."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2, self.c3 = nn.Conv2d(2, 8, 3, 2, 1), nn.Conv2d(8, 14, 3, 2, 1), nn.Conv2d(14, 18, 3, 2, 1)
        self.lateral = nn.ModuleList([nn.Conv2d(8, 12, 1), nn.Conv2d(14, 12, 1), nn.Conv2d(18, 12, 1)])
        self.smooth = nn.ModuleList(nn.Conv2d(12, 12, 3, padding=1) for _ in range(3))
        self.classes = nn.Sequential(nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 7, 3, padding=1))
        self.boxes = nn.Sequential(nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 4, 3, padding=1))

    def forward(self, x: Tensor) -> Any:
        one = F.relu(self.c1(x))
        two = F.relu(self.c2(one))
        three = F.relu(self.c3(two))
        top = self.lateral[2](three)
        middle = self.lateral[1](two) + F.interpolate(top, scale_factor=2)
        low = self.lateral[0](one) + F.interpolate(middle, scale_factor=2)
        levels = [smooth(level) for smooth, level in zip(self.smooth, (low, middle, top), strict=True)]
        return [{"classes": self.classes(level), "boxes": self.boxes(level).exp()} for level in levels]


class Film(nn.Module):
    """Convolutions in space, then in time."""

    def __init__(self) -> None:
        super().__init__()
        self.space1, self.time1 = (
            nn.Conv3d(2, 9, (1, 3, 3), padding=(0, 1, 1)),
            nn.Conv3d(9, 12, (3, 1, 1), padding=(1, 0, 0)),
        )
        self.norm1 = nn.BatchNorm3d(12)
        self.space2, self.time2 = (
            nn.Conv3d(12, 10, (1, 3, 3), (1, 2, 2), (0, 1, 1)),
            nn.Conv3d(10, 12, (3, 1, 1), padding=(1, 0, 0)),
        )
        self.norm2 = nn.BatchNorm3d(12)
        self.short = nn.AvgPool3d((1, 2, 2))
        self.act = nn.Softplus()
        self.fc = nn.Linear(12, 7)

    def forward(self, film: Tensor) -> Any:
        x = self.act(self.norm1(self.time1(self.act(self.space1(film)))))
        x = self.act(self.short(x) + self.norm2(self.time2(self.act(self.space2(x)))))
        return self.fc(x.mean((2, 3, 4)))


def images(count: int) -> Any:
    return lambda batch: tuple(torch.randn(batch, 2, 16, 16) for _ in range(count))


PICTURES: Final = (
    Family("nerf", "points", Nerf, lambda batch: (torch.randn(batch, 17, 4), torch.randn(batch, 17, 6))),
    Family("diffusion", "image", Denoiser, lambda b: (torch.randn(b, 2, 16, 16), torch.randint(0, 90, (b,)).float())),
    Family("capsules", "image", Capsules, lambda batch: (torch.randn(batch, 2, 13, 13),)),
    Family("conv_lstm", "film", ConvLstm, lambda batch: (torch.randn(batch, 4, 2, 8, 8),)),
    Family("resnext", "image", ResNext, images(1)),
    Family("cbam", "image", CbamNet, images(1)),
    Family("ghostnet", "image", GhostNet, images(1)),
    Family("triplet", "image", Triplet, images(3)),
    Family("fourier_operator", "field", FourierOperator, lambda batch: (torch.randn(batch, 22, 2),)),
    Family("vq_vae", "image", VqVae, images(1)),
    Family("pixel_cnn", "image", PixelCnn, lambda batch: (torch.randn(batch, 2, 9, 9),)),
    Family("spatial_transformer", "image", SpatialTransformer, images(1)),
    Family("pyramid", "image", Pyramid, images(1)),
    Family("film", "film", Film, lambda batch: (torch.randn(batch, 2, 6, 8, 8),)),
)
