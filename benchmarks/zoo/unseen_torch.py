# ruff: noqa: D102 - what `forward` does, its class says
"""Unseen families that put together what torch itself has: transformers, recurrent layers, heads, bags, norms."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.zoo.family import Family

PAD: Final = 0


class Translator(nn.Module):
    """`nn.Transformer` with masks of what is to come and of padding."""

    def __init__(self) -> None:
        super().__init__()
        self.src_tok_emb, self.tgt_tok_emb = nn.Embedding(40, 20, padding_idx=PAD), nn.Embedding(30, 20)
        self.positional = nn.Parameter(torch.randn(1, 16, 20))
        layer = nn.TransformerEncoderLayer(20, 4, 36, 0.1, batch_first=True, norm_first=True)
        encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(20), enable_nested_tensor=False)
        self.transformer = nn.Transformer(
            20, 4, 2, 2, 36, 0.1, custom_encoder=encoder, batch_first=True, norm_first=True
        )
        self.generator = nn.Linear(20, 30)

    def forward(self, src: Tensor, tgt: Tensor) -> Any:
        x = self.src_tok_emb(src) + self.positional[:, : src.shape[1]]
        y = self.tgt_tok_emb(tgt) + self.positional[:, : tgt.shape[1]]
        later = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1], dtype=x.dtype)
        padded = torch.zeros_like(src, dtype=x.dtype).masked_fill(src == PAD, float("-inf"))
        out = self.transformer(
            x, y, tgt_mask=later, src_key_padding_mask=padded, memory_key_padding_mask=padded, tgt_is_causal=True
        )
        return self.generator(out)


class PackedReader(nn.Module):
    """A bidirectional `nn.LSTM` of two layers over sequences of different lengths, packed."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 12, padding_idx=PAD)
        self.lstm = nn.LSTM(12, 14, 2, batch_first=True, dropout=0.2, bidirectional=True)
        self.norm = nn.LayerNorm(28)
        self.tags, self.label = nn.Linear(28, 8), nn.Linear(56, 5)

    def forward(self, words: Tensor) -> Any:
        lengths = (words != PAD).sum(1)
        packed = pack_padded_sequence(self.embedding(words), lengths, batch_first=True, enforce_sorted=False)
        out, (h, _) = self.lstm(packed)
        x, _ = pad_packed_sequence(out, batch_first=True, total_length=words.shape[1])
        x = self.norm(x)
        last = torch.cat([h[-2], h[-1]], dim=1)
        return {"tags": self.tags(x), "label": self.label(torch.cat([last, x.amax(1)], dim=1))}


class WeightedBags(nn.Module):
    """`nn.EmbeddingBag` of words, averaged, and of pairs of words, each with a weight; `nn.Bilinear` joins them."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(40, 10, mode="mean", padding_idx=PAD)
        self.pairs = nn.EmbeddingBag(60, 12, mode="sum")
        self.join = nn.Bilinear(10, 12, 16)
        self.act = nn.Mish()
        self.norm = nn.LayerNorm(16)
        self.out = nn.Sequential(nn.Dropout(0.1), nn.Linear(38, 18), nn.Mish(), nn.Linear(18, 5))

    def forward(self, words: Tensor, pairs: Tensor, weights: Tensor) -> Any:
        one, other = self.words(words), self.pairs(pairs, per_sample_weights=weights)
        joined = self.norm(self.act(self.join(one, other)))
        return self.out(torch.cat([one, other, joined], dim=1))


class FusionLayer(nn.Module):
    """`nn.MultiheadAttention` of one kind of thing to itself and to another of other widths, with masks."""

    def __init__(self, width: int, sound: int, picture: int) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(width, 4, dropout=0.1, batch_first=True, add_zero_attn=True)
        self.cross_attn = nn.MultiheadAttention(width, 2, kdim=sound, vdim=picture, batch_first=True)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 30), nn.GELU(), nn.Dropout(0.1), nn.Linear(30, width))

    def forward(self, x: Tensor, sound: Tensor, picture: Tensor, later: Tensor, padded: Tensor) -> Any:
        y, _ = self.self_attn(x, x, x, attn_mask=later, key_padding_mask=padded, need_weights=False)
        x = self.norm1(x + y)
        y, seen = self.cross_attn(x, sound, picture, average_attn_weights=False)
        x = self.norm2(x + y)
        return self.norm3(x + self.ff(x)), seen


class Fusion(nn.Module):
    """Words that look at a film: what was heard says where, what was seen says what."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16, padding_idx=PAD)
        self.sound = nn.GRU(6, 10, batch_first=True)
        self.picture = nn.Sequential(nn.Linear(9, 14), nn.Tanh())
        self.layers = nn.ModuleList(FusionLayer(16, 10, 14) for _ in range(depth))
        self.head = nn.Linear(16, 40)

    def forward(self, words: Tensor, heard: Tensor, seen: Tensor) -> Any:
        x, (sound, _), picture = self.embed(words), self.sound(heard), self.picture(seen)
        later = torch.ones(words.shape[1], words.shape[1], dtype=torch.bool).triu(1)
        for layer in self.layers:
            x, looked = layer(x, sound, picture, later, words == PAD)
        return self.head(x), looked


class NormedWeights(nn.Module):
    """Weights that `torch.nn.utils.parametrizations` computes: a vocoder's halves, one that makes, one that judges."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_pre = weight_norm(nn.Conv1d(10, 14, 5, padding=2))
        self.up = weight_norm(nn.ConvTranspose1d(14, 8, 4, 2, padding=1))
        self.resblocks = nn.ModuleList(weight_norm(nn.Conv1d(8, 8, 3, dilation=step, padding=step)) for step in (1, 3))
        self.conv_post = weight_norm(nn.Conv1d(8, 1, 5, padding=2))
        self.judge = nn.ModuleList(
            [
                spectral_norm(nn.Conv1d(1, 9, 5, 2, padding=2)),
                spectral_norm(nn.Conv1d(9, 12, 5, 2, padding=2)),
                spectral_norm(nn.Conv1d(12, 1, 3, padding=1)),
            ]
        )
        self.act = nn.LeakyReLU(0.1)

    def forward(self, mel: Tensor) -> Any:
        x = self.up(self.act(self.conv_pre(mel)))
        for block in self.resblocks:
            x = x + block(self.act(x))
        wave = torch.tanh(self.conv_post(self.act(x)))
        y, features = wave, []
        for conv in self.judge[:-1]:
            y = self.act(conv(y))
            features.append(y)
        return {"wave": wave, "score": self.judge[-1](y).flatten(1), "features": features}


def padded(batch: int, length: int, most: int = 40) -> Tensor:
    """Return words; each example ends somewhere else, the first one at the end."""
    ends = torch.randint(length // 2, length + 1, (batch, 1))
    ends[0] = length
    return torch.randint(1, most, (batch, length)).masked_fill(torch.arange(length) >= ends, PAD)


TORCH: Final = (
    Family("translator", "text", Translator, lambda b: (padded(b, 11), torch.randint(1, 30, (b, 7)))),
    Family("packed_reader", "text", PackedReader, lambda b: (padded(b, 11),)),
    Family("weighted_bags", "text", WeightedBags,
           lambda b: (padded(b, 11), torch.randint(0, 60, (b, 7)), torch.rand(b, 7))),
    Family("fusion", "film and text", Fusion, lambda b: (padded(b, 9), torch.randn(b, 13, 6), torch.randn(b, 13, 9))),
    Family("normed_weights", "sound", NormedWeights, lambda b: (torch.randn(b, 10, 18),)),
)  # fmt: skip
