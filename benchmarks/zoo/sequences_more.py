# ruff: noqa: D102 - what `forward` does, its class says
"""More families that read words, sounds and series, as people write them at work.

They are of the third set of families that were unseen once.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.classic import words
from benchmarks.zoo.family import Family


class SpatialGate(nn.Module):
    """Half of the features are scaled by what the other half says of all places."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.proj = nn.Conv1d(length, length, 1)

    def forward(self, x: Tensor) -> Any:
        u, v = x.chunk(2, dim=-1)
        return u * self.proj(self.norm(v))


class GatedMlp(nn.Module):
    """No attention: linear layers and gates along the words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.enter = nn.ModuleList(nn.Linear(16, 36) for _ in range(2))
        self.gates = nn.ModuleList(SpatialGate(18, 11) for _ in range(2))
        self.leave = nn.ModuleList(nn.Linear(18, 16) for _ in range(2))
        self.to_logits = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 40))

    def forward(self, words: Tensor) -> Any:
        x = self.embed(words)
        for k in range(len(self.norms)):
            x = x + self.leave[k](self.gates[k](F.gelu(self.enter[k](self.norms[k](x)))))
        return self.to_logits(x)


class DiagonalStates(nn.Module):
    """A convolution as long as the series, made from states that decay and turn."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.D = nn.Parameter(torch.randn(width))
        self.C = nn.Parameter(0.5 * torch.randn(width, states, 2))
        self.log_dt = nn.Parameter(torch.linspace(math.log(0.01), math.log(0.1), width))
        self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(width, states)))
        self.A_imag = nn.Parameter(math.pi * torch.arange(states).float().repeat(width, 1))
        self.output_linear = nn.Sequential(nn.Conv1d(width, 2 * width, 1), nn.GLU(dim=-2))

    def forward(self, u: Tensor) -> Any:
        length = u.shape[-1]
        a = torch.complex(-torch.exp(self.log_A_real), self.A_imag)
        step = a * torch.exp(self.log_dt)[:, None]
        c = torch.view_as_complex(self.C) * (torch.exp(step) - 1) / a
        k = 2 * torch.einsum("hn,hnl->hl", c, torch.exp(step[..., None] * torch.arange(length))).real
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * length) * torch.fft.rfft(k, n=2 * length), n=2 * length)
        return self.output_linear(F.gelu(y[..., :length] + u * self.D.unsqueeze(-1)))


class StateSpaces(nn.Module):
    """Layers of state spaces with norms behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 14), nn.Linear(14, 7)
        self.layers = nn.ModuleList(DiagonalStates(14, 6) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(14) for _ in range(3))
        self.dropouts = nn.ModuleList(nn.Dropout1d(0.1) for _ in range(3))

    def forward(self, x: Tensor) -> Any:
        x = self.encoder(x).transpose(-1, -2)
        for layer, norm, dropout in zip(self.layers, self.norms, self.dropouts, strict=True):
            x = x + dropout(layer(x))
            x = norm(x.transpose(-1, -2)).transpose(-1, -2)
        return self.decoder(x.mean(-1))


class Separable(nn.Module):
    """Convolutions of each channel alone, then of each moment alone, again and again, beside a skip."""

    def __init__(self, width: int, out: int, kernel: int, repeat: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for nth in range(repeat):
            into = width if nth == 0 else out
            layers += [nn.Conv1d(into, into, kernel, padding=kernel // 2, groups=into, bias=False),
                       nn.Conv1d(into, out, 1, bias=False), nn.BatchNorm1d(out)]  # fmt: skip
            layers += [nn.ReLU(), nn.Dropout(0.1)] if nth < repeat - 1 else []
        self.mconv = nn.ModuleList(layers)
        self.res = nn.Sequential(nn.Conv1d(width, out, 1, bias=False), nn.BatchNorm1d(out))
        self.out = nn.Sequential(nn.ReLU(), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Any:
        y = x
        for layer in self.mconv:
            y = layer(y)
        return self.out(y + self.res(x))


class CtcConvolutions(nn.Module):
    """A letter or nothing for each moment of a sound, in the order of axes that the loss wants."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(12, 14, 7, 2, 3, bias=False), nn.BatchNorm1d(14), nn.ReLU())
        self.blocks = nn.Sequential(Separable(14, 18, 7, 2), Separable(18, 16, 9, 2))
        self.last = nn.Conv1d(16, 22, 1)
        self.letters = nn.Conv1d(22, 28, 1)

    def forward(self, spectrum: Tensor) -> Any:
        x = F.hardtanh(self.last(self.blocks(self.first(spectrum))), 0, 20)
        return {"log_probs": F.log_softmax(self.letters(x), dim=1).transpose(1, 2)}


class PointerNet(nn.Module):
    """Says which of the points comes next, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 14)
        self.encoder = nn.LSTM(14, 18, batch_first=True)
        self.cell = nn.LSTMCell(14, 18)
        self.start = nn.Parameter(0.3 * torch.randn(14))
        self.w_ref, self.w_query = nn.Conv1d(18, 16, 1), nn.Linear(18, 16)
        self.v = nn.Parameter(0.3 * torch.randn(16))

    def forward(self, points: Tensor) -> Any:
        x = self.embed(points)
        memory, (h, c) = self.encoder(x)
        h, c = h[0], c[0]
        reference = self.w_ref(memory.permute(0, 2, 1))
        given, entered, taken = [], self.start.expand(points.shape[0], -1), torch.zeros(points.shape[:2])
        for _ in range(4):
            h, c = self.cell(entered, (h, c))
            query = self.w_query(h).unsqueeze(2)
            scores = torch.einsum("d,bdn->bn", self.v, torch.tanh(reference + query)) - 1e4 * taken
            given.append(F.log_softmax(scores, dim=1))
            chosen = scores.argmax(1)
            taken = taken + F.one_hot(chosen, points.shape[1])
            entered = x[torch.arange(points.shape[0]), chosen]
        return torch.stack(given, 1)


class Crf(nn.Module):
    """How likely a row of tags is among all rows."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.start, self.end = nn.Parameter(0.3 * torch.randn(tags)), nn.Parameter(0.3 * torch.randn(tags))
        self.transitions = nn.Parameter(0.3 * torch.randn(tags, tags))

    def forward(self, emissions: Tensor, tags: Tensor) -> Any:
        score = self.start[tags[:, 0]] + emissions[:, 0].gather(1, tags[:, :1]).squeeze(1)
        alpha = self.start + emissions[:, 0]
        for t in range(1, tags.shape[1]):
            score = score + self.transitions[tags[:, t - 1], tags[:, t]]
            score = score + emissions[:, t].gather(1, tags[:, t : t + 1]).squeeze(1)
            alpha = torch.logsumexp(alpha.unsqueeze(2) + self.transitions + emissions[:, t].unsqueeze(1), dim=1)
        return score + self.end[tags[:, -1]] - torch.logsumexp(alpha + self.end, dim=1)


class CrfTagger(nn.Module):
    """Words and their shapes, read both ways; tags depend on their neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.embeds = nn.ModuleDict({"word": nn.Embedding(40, 14), "shape": nn.Embedding(8, 6)})
        self.drop = nn.Dropout(0.2)
        self.forwards, self.backwards = nn.GRU(20, 12, batch_first=True), nn.GRU(20, 12, batch_first=True)
        self.mix = nn.Sequential(nn.Linear(24, 18), nn.Tanh())
        self.hidden2tag = nn.Linear(18, 9)
        self.crf = Crf(9)

    def forward(self, words: Tensor, shapes: Tensor, tags: Tensor) -> Any:
        x = self.drop(torch.cat([self.embeds["word"](words), self.embeds["shape"](shapes)], -1))
        one, _ = self.forwards(x)
        other, _ = self.backwards(x.flip(1))
        emissions = self.hidden2tag(self.mix(torch.cat([one, other.flip(1)], -1)))
        return self.crf(emissions, tags), emissions


class Retention(nn.Module):
    """Attention without a softmax; what is long ago counts less, at each head's own pace."""

    gamma: Tensor

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.v_proj, self.g_proj = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.group_norm = nn.GroupNorm(heads, 2 * width)
        self.out_proj = nn.Linear(2 * width, width, bias=False)
        self.register_buffer("gamma", 1 - 2.0 ** (-2 - torch.arange(heads)))

    def forward(self, x: Tensor) -> Any:
        batch, length, _ = x.shape
        q, k, v = (
            proj(x).view(batch, length, self.heads, -1).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        gap = torch.arange(length)[:, None] - torch.arange(length)[None, :]
        decay = torch.where(gap >= 0, self.gamma[:, None, None] ** gap.clamp(min=0), 0.0)
        y = (q @ k.transpose(-1, -2) * k.shape[-1] ** -0.5 * decay) @ v
        y = self.group_norm(y.transpose(1, 2).reshape(batch * length, -1)).view(batch, length, -1)
        return self.out_proj(F.silu(self.g_proj(x)) * y)


class RetNet(nn.Module):
    """Blocks of retention; the words that go in and those that come out have the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.retentions = nn.ModuleList([Retention(16, 4), Retention(16, 4)])
        self.ffns = nn.ModuleList(nn.Sequential(nn.Linear(16, 30), nn.GELU(), nn.Linear(30, 16)) for _ in range(2))
        self.norms1 = nn.ModuleList(nn.RMSNorm(16) for _ in range(2))
        self.norms2 = nn.ModuleList(nn.RMSNorm(16) for _ in range(2))
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, words: Tensor) -> Any:
        x = self.embed(words)
        for norm1, retention, norm2, ffn in zip(self.norms1, self.retentions, self.norms2, self.ffns, strict=True):
            y = retention(norm1(x)) + x
            x = ffn(norm2(y)) + y
        return self.head(x)


class GatedResidual(nn.Module):
    """As much of a small network as is needed, beside a skip; a context may have a say."""

    def __init__(self, width: int, out: int, context: int = 0) -> None:
        super().__init__()
        self.skip = nn.Linear(width, out) if width != out else None
        self.fc1, self.fc2 = nn.Linear(width, 14), nn.Linear(14, 14)
        self.context = nn.Linear(context, 14, bias=False) if context else None
        self.gate = nn.Linear(14, 2 * out)
        self.norm = nn.LayerNorm(out)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Any:
        y = self.fc1(x)
        if self.context is not None and context is not None:
            y = y + self.context(context)
        y = F.glu(self.gate(self.fc2(F.elu(y))), dim=-1)
        return self.norm(y + (x if self.skip is None else self.skip(x)))


class TemporalFusion(nn.Module):
    """Chooses among variables by name, reads them in order, looks back, and says quantiles."""

    def __init__(self) -> None:
        super().__init__()
        self.static = nn.Embedding(9, 12)
        self.lifts = nn.ModuleDict({name: nn.Linear(1, 12) for name in ("price", "load", "heat")})
        self.choose = GatedResidual(36, 3, context=12)
        self.lstm = nn.LSTM(12, 12, batch_first=True)
        self.norm = nn.LayerNorm(12)
        self.attend = nn.MultiheadAttention(12, 2, batch_first=True)
        self.after = GatedResidual(12, 12)
        self.quantiles = nn.Linear(12, 7)

    def forward(self, known: dict[str, Tensor], kind: Tensor) -> Any:
        told = self.static(kind)
        lifted = [self.lifts[name](one.unsqueeze(-1)) for name, one in sorted(known.items())]
        weights = self.choose(torch.cat(lifted, -1), told.unsqueeze(1)).softmax(-1)
        x = (torch.stack(lifted, -1) * weights.unsqueeze(-2)).sum(-1)
        state = told.unsqueeze(0)
        y, _ = self.lstm(x, (state, torch.zeros_like(state)))
        y = self.norm(y + x)
        later = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)
        found, _ = self.attend(y, y, y, attn_mask=later, need_weights=False)
        return self.quantiles(self.after(y + found)[:, -4:])


class Reversible(nn.Module):
    """Takes level and spread of a series away, and gives them back at the end."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.affine_weight, self.affine_bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def normalize(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = x.mean(1, keepdim=True).detach()
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5).detach()
        return (x - mean) / std * self.affine_weight + self.affine_bias, mean, std

    def forward(self, y: Tensor, mean: Tensor, std: Tensor) -> Any:
        return (y - self.affine_bias) / self.affine_weight * std + mean


class InvertedForecast(nn.Module):
    """Each variable's whole past is one token; its trend goes past the transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.revin = Reversible(4)
        self.smooth = nn.AvgPool1d(7, 1, 3, count_include_pad=False)
        self.trend = nn.Linear(26, 8)
        self.embed = nn.Linear(26, 16)
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 4, 30, 0.1, "gelu", batch_first=True) for _ in range(2)
        )
        self.projector = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Any:
        x, mean, std = self.revin.normalize(x)
        x = x.transpose(1, 2)
        trend = self.smooth(x)
        y = self.embed(x - trend)
        for layer in self.encoder:
            y = layer(y)
        return self.revin((self.projector(y) + self.trend(trend)).transpose(1, 2), mean, std)


class Captioner(nn.Module):
    """Words about a picture, each from those before it and from all places."""

    def __init__(self) -> None:
        super().__init__()
        self.see = nn.Sequential(nn.Conv2d(2, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU())
        self.places = nn.Parameter(0.2 * torch.randn(16, 16))
        self.words = nn.Embedding(40, 16)
        self.order = nn.Embedding(11, 16)
        layer = nn.TransformerDecoderLayer(16, 4, 28, dropout=0.1, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2)
        self.out = nn.Linear(16, 40)

    def forward(self, picture: Tensor, words: Tensor) -> Any:
        memory = self.see(picture).flatten(2).permute(0, 2, 1) + self.places
        x = self.words(words) * 16**0.5 + self.order(torch.arange(words.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        return self.out(self.decoder(x, memory, tgt_mask=mask, tgt_is_causal=True))


def tagged(batch: int) -> tuple[Tensor, ...]:
    return tuple(torch.randint(0, most, (batch, 11)) for most in (40, 8, 9))


def measured(batch: int) -> tuple[Any, ...]:
    return {name: torch.randn(batch, 13) for name in ("heat", "load", "price")}, torch.randint(0, 9, (batch,))


MORE_SEQUENCES: Final = (
    Family("gated_mlp", "text", GatedMlp, words(11)),
    Family("state_spaces", "series", StateSpaces, lambda batch: (torch.randn(batch, 22, 4),)),
    Family("ctc_convolutions", "sound", CtcConvolutions, lambda batch: (torch.randn(batch, 12, 26),)),
    Family("pointer_net", "points", PointerNet, lambda batch: (torch.randn(batch, 9, 4),)),
    Family("crf_tagger", "text", CrfTagger, tagged),
    Family("retnet", "text", RetNet, words(11)),
    Family("temporal_fusion", "series", TemporalFusion, measured),
    Family("inverted_forecast", "series", InvertedForecast, lambda batch: (torch.randn(batch, 26, 4),)),
    Family("captioner", "image and text", Captioner,
           lambda b: (torch.randn(b, 2, 16, 16), torch.randint(1, 40, (b, 9)))),
)  # fmt: skip
