# ruff: noqa: D102 - what `forward` does, its class says
"""Classic networks, small, in plain torch, the way they are usually written."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.family import Family


class Cnn(nn.Module):
    """Three convolutions and two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 12, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.conv3 = nn.Conv2d(12, 20, 3, padding=1)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(20 * 4 * 4, 36)
        self.fc2 = nn.Linear(36, 10)

    def forward(self, x: Tensor) -> Any:
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = F.relu(self.conv3(x))
        x = self.dropout(torch.flatten(x, 1))
        return self.fc2(F.relu(self.fc1(x)))


class Vgg(nn.Module):
    """Blocks of convolutions in one Sequential, and a classifier in another."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 2
        for size in (8, 8, 0, 12, 12, 0, 20, 20, 0):
            if size == 0:
                layers.append(nn.MaxPool2d(2))
                continue
            layers += [nn.Conv2d(width, size, 3, padding=1), nn.BatchNorm2d(size), nn.ReLU(inplace=True)]
            width = size
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(2)
        self.classifier = nn.Sequential(
            nn.Linear(80, 36), nn.ReLU(True), nn.Dropout(), nn.Linear(36, 28), nn.ReLU(True), nn.Linear(28, 10)
        )

    def forward(self, x: Tensor) -> Any:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


class AlexNet(nn.Module):
    """Convolutions with large kernels and strides, overlapping pools, dropout before the dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(2, 8, 5, stride=2, padding=2), nn.ReLU(), nn.LocalResponseNorm(2), nn.MaxPool2d(3, 2),
            nn.Conv2d(8, 12, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(12, 20, 3, padding=1), nn.ReLU(), nn.Conv2d(20, 14, 3, padding=1), nn.ReLU(),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Dropout(), nn.Linear(14 * 9, 36), nn.ReLU(), nn.Dropout(), nn.Linear(36, 28), nn.ReLU(), nn.Linear(28, 9)
        )

    def forward(self, x: Tensor) -> Any:
        return self.classifier(torch.flatten(self.features(x), 1))


class Basic(nn.Module):
    """Two convolutions beside a skip."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample: Any = None
        if stride != 1 or width != out:
            self.downsample = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Any:
        skip = x
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        if self.downsample is not None:
            skip = self.downsample(x)
        y += skip
        return self.relu(y)


class Bottleneck(nn.Module):
    """Narrow, convolve, widen, beside a skip."""

    def __init__(self, width: int, middle: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, middle, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, middle, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(middle)
        self.conv3 = nn.Conv2d(middle, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU()
        self.shortcut = nn.Sequential()
        if stride != 1 or width != out:
            self.shortcut = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Any:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """A stem, three stages, a pool, a head."""

    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential

    def __init__(self, depths: tuple[int, int, int] = (2, 2, 1), *, bottleneck: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        width = 8
        for nth, (out, depth) in enumerate(zip((8, 12, 20), depths, strict=True)):
            blocks = []
            for k in range(depth):
                stride = 2 if nth > 0 and k == 0 else 1
                blocks.append(Bottleneck(width, 6, out, stride) if bottleneck else Basic(width, out, stride))
                width = out
            setattr(self, f"layer{nth + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class DenseLayer(nn.Module):
    """Norm, convolution, norm, convolution; its input is kept beside what it gives."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(width)
        self.conv1 = nn.Conv2d(width, 14, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(14)
        self.conv2 = nn.Conv2d(14, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Any:
        y = self.conv1(F.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(F.relu(self.norm2(y)))], 1)


class DenseNet(nn.Module):
    """Two dense blocks and a transition between them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 8, 3, padding=1, bias=False)
        self.block1 = nn.Sequential(DenseLayer(8, 6), DenseLayer(14, 6), DenseLayer(20, 6))
        self.transition = nn.Sequential(
            nn.BatchNorm2d(26), nn.ReLU(), nn.Conv2d(26, 12, 1, bias=False), nn.AvgPool2d(2)
        )
        self.block2 = nn.Sequential(DenseLayer(12, 6), DenseLayer(18, 6))
        self.norm = nn.BatchNorm2d(24)
        self.classifier = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Any:
        x = F.relu(self.norm(self.block2(self.transition(self.block1(self.stem(x))))))
        return self.classifier(F.adaptive_avg_pool2d(x, 1).flatten(1))


def conv_bn(width: int, out: int, kernel: int = 1, **how: Any) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width, out, kernel, bias=False, **how), nn.BatchNorm2d(out), nn.ReLU())


class Mixed(nn.Module):
    """Four branches side by side."""

    def __init__(self, width: int, sizes: tuple[int, int, int, int]) -> None:
        super().__init__()
        one, three, five, pooled = sizes
        self.branch1 = conv_bn(width, one)
        self.branch2 = nn.Sequential(conv_bn(width, 5), conv_bn(5, three, 3, padding=1))
        self.branch3 = nn.Sequential(
            conv_bn(width, 4), conv_bn(4, five, 3, padding=1), conv_bn(five, five, 3, padding=1)
        )
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), conv_bn(width, pooled))

    def forward(self, x: Tensor) -> Any:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], dim=1)


class Inception(nn.Module):
    """Two mixed blocks, and a second head that only training has."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_bn(2, 8, 3, padding=1)
        self.mixed0 = Mixed(8, (6, 7, 4, 5))
        self.pool = nn.MaxPool2d(2)
        self.mixed1 = Mixed(22, (8, 9, 5, 6))
        self.dropout = nn.Dropout(0.2)
        self.aux = nn.Linear(22, 10)
        self.fc = nn.Linear(28, 10)

    def forward(self, x: Tensor) -> Any:
        middle = self.pool(self.mixed0(self.stem(x)))
        out = self.fc(self.dropout(self.mixed1(middle).mean((2, 3))))
        return (out, self.aux(middle.mean((2, 3)))) if self.training else out


class Inverted(nn.Module):
    """Widen, convolve each channel alone, narrow; a skip where shapes allow."""

    def __init__(self, width: int, out: int, stride: int, expand: int) -> None:
        super().__init__()
        middle = width * expand
        self.use_skip = stride == 1 and width == out
        self.conv = nn.Sequential(
            nn.Conv2d(width, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.ReLU6(inplace=True),
            nn.Conv2d(middle, middle, 3, stride, 1, groups=middle, bias=False), nn.BatchNorm2d(middle), nn.ReLU6(True),
            nn.Conv2d(middle, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Any:
        return x + self.conv(x) if self.use_skip else self.conv(x)


class MobileNet(nn.Module):
    """Inverted residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv_bn(2, 8, 3, stride=2, padding=1), Inverted(8, 8, 1, 2), Inverted(8, 12, 2, 2), Inverted(12, 12, 1, 3),
            Inverted(12, 14, 1, 2), conv_bn(14, 28),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(28, 10))

    def forward(self, x: Tensor) -> Any:
        return self.classifier(self.features(x).mean([2, 3]))


class Twice(nn.Module):
    """Two convolutions with norms."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(width, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Any:
        return self.net(x)


class UNet(nn.Module):
    """Down and up again, with what was seen on the way down put beside; one pool for all levels."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = Twice(2, 6), Twice(6, 10), Twice(10, 14)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(14, 10, 2, 2)
        self.merge2 = Twice(20, 10)
        self.up1 = nn.ConvTranspose2d(10, 6, 2, 2)
        self.merge1 = Twice(12, 6)
        self.out = nn.Conv2d(6, 4, 1)

    def forward(self, x: Tensor) -> Any:
        one = self.down1(x)
        two = self.down2(self.pool(one))
        y = self.bottom(self.pool(two))
        y = self.merge2(torch.cat([self.up2(y), two], 1))
        return self.out(self.merge1(torch.cat([self.up1(y), one], 1)))


class LstmTagger(nn.Module):
    """A word's tag from a bidirectional LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 12)
        self.lstm = nn.LSTM(12, 14, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.dropout = nn.Dropout(0.1)
        self.hidden = nn.Linear(28, 20)
        self.tag = nn.Linear(20, 9)

    def forward(self, words: Tensor) -> Any:
        found, _ = self.lstm(self.embedding(words))
        return F.log_softmax(self.tag(torch.tanh(self.hidden(self.dropout(found)))), dim=-1)


class GruClassifier(nn.Module):
    """A sentence's class from the last state of a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 12)
        self.norm = nn.LayerNorm(12)
        self.gru = nn.GRU(12, 20, num_layers=2, batch_first=True)
        self.fc = nn.Linear(20, 16)
        self.out = nn.Linear(16, 6)

    def forward(self, words: Tensor) -> Any:
        _, state = self.gru(self.norm(self.embedding(words)))
        return self.out(F.gelu(self.fc(state[-1])))


class TransformerClassifier(nn.Module):
    """torch's own encoder."""

    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 16)
        self.position = nn.Embedding(32, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 36, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, nn.LayerNorm(16), enable_nested_tensor=False)
        self.out = nn.Linear(16, 6)

    def forward(self, words: Tensor) -> Any:
        x = self.embedding(words) + self.position(torch.arange(words.shape[1]))
        return self.out(self.encoder(x).mean(1))


class Gan(nn.Module):
    """A generator, and a discriminator that judges real and generated images."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.Linear(7, 12 * 4), nn.Unflatten(1, (12, 2, 2)), nn.BatchNorm2d(12), nn.ReLU(),
            nn.ConvTranspose2d(12, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 2, 4, 2, 1),
            nn.Tanh(),
        )  # fmt: skip
        self.discriminator = nn.Sequential(
            nn.Conv2d(2, 6, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(6, 10, 3, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(),
            nn.Linear(40, 14), nn.LeakyReLU(0.2), nn.Linear(14, 1),
        )  # fmt: skip

    def forward(self, noise: Tensor, real: Tensor) -> Any:
        return self.discriminator(self.generator(noise)), self.discriminator(real)


class Vae(nn.Module):
    """An image, what it is encoded to, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 36), nn.ReLU(), nn.Linear(36, 20), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(20, 6), nn.Linear(20, 6)
        self.decoder = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 36), nn.ReLU(), nn.Linear(36, 64))

    def forward(self, x: Tensor) -> Any:
        y = self.encoder(x.flatten(1))
        mean, log_variance = self.mean(y), self.log_variance(y)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance) if self.training else mean
        return {"image": torch.sigmoid(self.decoder(z)).view(x.shape), "mean": mean, "log_variance": log_variance}


class Fire(nn.Module):
    """Squeeze, then two sizes of kernels side by side."""

    def __init__(self, width: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(width, squeeze, 1)
        self.expand1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3 = nn.Conv2d(squeeze, expand + 2, 3, padding=1)

    def forward(self, x: Tensor) -> Any:
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.expand1(x)), F.relu(self.expand3(x))], 1)


class SqueezeNet(nn.Module):
    """Fire modules; the classifier is a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(2, 8, 3, stride=2, padding=1),
            nn.ReLU(),
            Fire(8, 4, 6),
            Fire(14, 5, 6),
            nn.MaxPool2d(2),
            Fire(14, 6, 9),
        )
        self.classifier = nn.Sequential(nn.Dropout(), nn.Conv2d(20, 10, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1))

    def forward(self, x: Tensor) -> Any:
        return self.classifier(self.features(x)).flatten(1)


class MixerBlock(nn.Module):
    """Mixes tokens, then channels."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, 10), nn.GELU(), nn.Linear(10, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 36), nn.GELU(), nn.Linear(36, width))

    def forward(self, x: Tensor) -> Any:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    """Patches, mixed along both axes."""

    def __init__(self, depth: int = 3) -> None:
        super().__init__()
        self.patches = nn.Conv2d(2, 20, 4, 4)
        self.blocks = nn.ModuleList(MixerBlock(16, 20) for _ in range(depth))
        self.norm = nn.LayerNorm(20)
        self.head = nn.Linear(20, 7)

    def forward(self, x: Tensor) -> Any:
        y = self.patches(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            y = block(y)
        return self.head(self.norm(y).mean(1))


def image(*shape: int) -> Any:
    return lambda batch: (torch.randn(batch, *shape),)


def words(*shape: int, most: int = 40) -> Any:
    return lambda batch: (torch.randint(1, most, (batch, *shape)),)


CLASSIC: Final = (
    Family("cnn", "image", Cnn, image(2, 16, 16)),
    Family("vgg", "image", Vgg, image(2, 16, 16)),
    Family("alexnet", "image", AlexNet, image(2, 31, 31)),
    Family("resnet", "image", ResNet, image(2, 16, 16)),
    Family("resnet_bottleneck", "image", lambda: ResNet(bottleneck=True), image(2, 16, 16)),
    Family("densenet", "image", DenseNet, image(2, 16, 16)),
    Family("inception", "image", Inception, image(2, 16, 16)),
    Family("mobilenet", "image", MobileNet, image(2, 16, 16)),
    Family("unet", "image", UNet, image(2, 16, 16)),
    Family("lstm_tagger", "text", LstmTagger, words(11)),
    Family("gru_classifier", "text", GruClassifier, words(11)),
    Family("transformer", "text", TransformerClassifier, words(11)),
    Family("gan", "image", Gan, lambda batch: (torch.randn(batch, 7), torch.randn(batch, 2, 8, 8))),
    Family("vae", "image", Vae, image(1, 8, 8)),
    Family("squeezenet", "image", SqueezeNet, image(2, 16, 16)),
    Family("mixer", "image", Mixer, image(2, 16, 16)),
)
