# ruff: noqa: D102 - what `forward` does, its class says
"""Families that whoever wrote the remover had not seen when it was first measured, and has seen since.

That first figure is history, and is told in docs/results/removal.md. They count as developed on now, as do those of
the second set, ``pictures``, ``sequences``, ``records`` and ``hugging_more``, those of the third, ``pictures_more``,
``pictures_made``, ``sequences_more``, ``records_more`` and ``hugging_further``, and those of the fourth,
``pictures_paths``, ``pictures_translated``, ``sequences_heard``, ``sequences_read``, ``records_related``,
``hugging_texts`` and ``hugging_senses``.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.classic import conv_bn, image
from benchmarks.zoo.family import Family, Inputs
from benchmarks.zoo.graphs import graph
from benchmarks.zoo.hugging import (
    DECODER,
    GROUPED,
    LENGTH,
    READER,
    VIEWER,
    VISION,
    VOCABULARY,
    hugging,
    pair,
    pixels,
    text,
    tokens,
    wave,
)


class SqueezeExcite(nn.Module):
    """Scales channels by what the whole image says."""

    def __init__(self, width: int, squeezed: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(width, squeezed, 1)
        self.expand = nn.Conv2d(squeezed, width, 1)

    def forward(self, x: Tensor) -> Any:
        scale = F.silu(self.reduce(x.mean((2, 3), keepdim=True)))
        return x * torch.sigmoid(self.expand(scale))


class MbConv(nn.Module):
    """Widen, convolve each channel alone, squeeze and excite, narrow."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        middle = 2 * width
        self.expand = nn.Sequential(nn.Conv2d(width, middle, 1, bias=False), nn.BatchNorm2d(middle), nn.SiLU())
        self.depthwise = nn.Conv2d(middle, middle, 3, stride, 1, groups=middle, bias=False)
        self.norm = nn.BatchNorm2d(middle)
        self.se = SqueezeExcite(middle, 5)
        self.project = nn.Sequential(nn.Conv2d(middle, out, 1, bias=False), nn.BatchNorm2d(out))
        self.drop = nn.Dropout(0.1)
        self.skips = stride == 1 and width == out

    def forward(self, x: Tensor) -> Any:
        y = self.project(self.se(F.silu(self.norm(self.depthwise(self.expand(x))))))
        return x + self.drop(y) if self.skips else y


class EfficientNet(nn.Module):
    """Blocks of MbConv."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_bn(2, 8, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(MbConv(8, 8, 1), MbConv(8, 12, 2), MbConv(12, 12, 1), MbConv(12, 14, 1))
        self.top = conv_bn(14, 30)
        self.out = nn.Linear(30, 10)

    def forward(self, x: Tensor) -> Any:
        return self.out(F.adaptive_avg_pool2d(self.top(self.blocks(self.stem(x))), 1).flatten(1))


class Shuffle(nn.Module):
    """One half of the channels goes through, the other is convolved; then they are interleaved."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.branch = nn.Sequential(
            nn.Conv2d(half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(),
            nn.Conv2d(half, half, 3, 1, 1, groups=half, bias=False), nn.BatchNorm2d(half),
            nn.Conv2d(half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Any:
        kept, changed = x.chunk(2, dim=1)
        y = torch.cat([kept, self.branch(changed)], 1)
        batch, width, high, wide = y.shape
        return y.view(batch, 2, width // 2, high, wide).transpose(1, 2).reshape(batch, width, high, wide)


class ShuffleNet(nn.Module):
    """Units that split and interleave channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_bn(2, 12, 3, stride=2, padding=1)
        self.units = nn.Sequential(Shuffle(12), Shuffle(12), conv_bn(12, 20, 3, stride=2, padding=1), Shuffle(20))
        self.fc = nn.Linear(20, 7)

    def forward(self, x: Tensor) -> Any:
        return self.fc(self.units(self.stem(x)).mean((2, 3)))


class Seq2Seq(nn.Module):
    """A GRU reads, another writes, and looks back by attention."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(40, 12), nn.Embedding(40, 14)
        self.reader = nn.GRU(12, 18, batch_first=True)
        self.bridge = nn.Linear(18, 22)
        self.writer = nn.GRU(14, 22, batch_first=True)
        self.query = nn.Linear(22, 18, bias=False)
        self.mix = nn.Linear(40, 26)
        self.dropout = nn.Dropout(0.1)
        self.out = nn.Linear(26, 40)

    def forward(self, source: Tensor, target: Tensor) -> Any:
        seen, state = self.reader(self.source(source))
        written, _ = self.writer(self.target(target), torch.tanh(self.bridge(state)))
        weights = torch.softmax(self.query(written) @ seen.transpose(1, 2), dim=-1)
        return self.out(self.dropout(torch.tanh(self.mix(torch.cat([written, weights @ seen], -1)))))


class GraphAttention(nn.Module):
    """Neighbours are weighed by attention, in two heads."""

    def __init__(self, width: int, out: int, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.out = heads, out
        self.lin = nn.Linear(width, heads * out, bias=False)
        self.att_source = nn.Parameter(torch.randn(heads, out) * 0.3)
        self.att_target = nn.Parameter(torch.randn(heads, out) * 0.3)
        self.bias = nn.Parameter(torch.zeros(heads * out))

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        start, end = edges
        y = self.lin(x).view(-1, self.heads, self.out)
        score = F.leaky_relu((y * self.att_source).sum(-1)[start] + (y * self.att_target).sum(-1)[end], 0.2).exp()
        total = torch.zeros(x.shape[0], self.heads, dtype=x.dtype).index_add(0, end, score) + 1e-9
        sent = y[start] * (score / total[end]).unsqueeze(-1)
        summed = torch.zeros_like(y).index_add(0, end, sent)
        return summed.flatten(1) + self.bias


class Gat(nn.Module):
    """Three rounds of attention over neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = GraphAttention(9, 8), GraphAttention(16, 8), GraphAttention(16, 6)
        self.norm = nn.LayerNorm(16)
        self.skip = nn.Linear(16, 12)
        self.out = nn.Linear(12, 5)

    def forward(self, x: Tensor, edges: Tensor) -> Any:
        x = F.elu(self.conv1(x, edges))
        x = self.norm(x + F.elu(self.conv2(x, edges)))
        return self.out(F.elu(self.conv3(x, edges) + self.skip(x)))


class Temporal(nn.Module):
    """A dilated causal convolution with a gate, a residual and a skip."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.reach = dilation
        self.filter = nn.Conv1d(width, width, 2, dilation=dilation)
        self.gate = nn.Conv1d(width, width, 2, dilation=dilation)
        self.residual = nn.Conv1d(width, width, 1)
        self.skip = nn.Conv1d(width, 20, 1)

    def forward(self, x: Tensor) -> tuple[Any, Any]:
        padded = F.pad(x, (self.reach, 0))
        y = torch.tanh(self.filter(padded)) * torch.sigmoid(self.gate(padded))
        return x + self.residual(y), self.skip(y)


class WaveNet(nn.Module):
    """Each layer's skip is summed up."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Conv1d(2, 14, 1)
        self.layers = nn.ModuleList(Temporal(14, 2**k) for k in range(3))
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(20, 16, 1), nn.ReLU(), nn.Conv1d(16, 9, 1))

    def forward(self, x: Tensor) -> Any:
        x = self.start(x)
        total: Any = 0
        for layer in self.layers:
            x, skipped = layer(x)
            total = total + skipped
        return self.end(total)


class WideAndDeep(nn.Module):
    """Tables: a linear part, embeddings of categories, factorised pairs of them, and a deep part."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(size, 6) for size in (9, 15, 22))
        self.biases = nn.ModuleList(nn.Embedding(size, 1) for size in (9, 15, 22))
        self.norm = nn.BatchNorm1d(7)
        self.numbers = nn.Linear(7, 6)
        self.deep = nn.Sequential(
            nn.Linear(25, 20),
            nn.BatchNorm1d(20),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(20, 14),
            nn.ReLU(),
            nn.Linear(14, 1),
        )
        self.wide = nn.Linear(7, 1)

    def forward(self, numbers: Tensor, categories: Tensor) -> Any:
        x = self.norm(numbers)
        fields = torch.stack([e(categories[:, k]) for k, e in enumerate(self.embeddings)] + [self.numbers(x)], 1)
        pairs = 0.5 * (fields.sum(1) ** 2 - (fields**2).sum(1)).sum(1, keepdim=True)
        linear: Any = sum(b(categories[:, k]) for k, b in enumerate(self.biases))
        return self.wide(x) + linear + pairs + self.deep(torch.cat([fields[:, :3].flatten(1), x], 1))


class PointNet(nn.Module):
    """A cloud of points is turned by what it learns about it, then pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Sequential(nn.Conv1d(4, 8, 1), nn.ReLU(), nn.Conv1d(8, 14, 1), nn.ReLU())
        self.angles = nn.Linear(14, 16)
        self.mlp1 = nn.Sequential(nn.Conv1d(4, 10, 1), nn.BatchNorm1d(10), nn.ReLU())
        self.mlp2 = nn.Sequential(nn.Conv1d(10, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 28, 1))
        self.segment = nn.Sequential(nn.Conv1d(38, 18, 1), nn.ReLU(), nn.Conv1d(18, 6, 1))

    def forward(self, points: Tensor) -> Any:
        turn = self.angles(self.turn(points).amax(2)).view(-1, 4, 4) + torch.eye(4, dtype=points.dtype)
        near = self.mlp1(turn @ points)
        far = self.mlp2(near).amax(2, keepdim=True).expand(-1, -1, near.shape[2])
        return self.segment(torch.cat([near, far], 1))


class Siamese(nn.Module):
    """Two images through one tower; how far apart they are."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(
            nn.Conv2d(2, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.PReLU(), nn.Conv2d(8, 14, 3, 2, 1), nn.InstanceNorm2d(14),
            nn.ELU(), nn.Flatten(), nn.Linear(14 * 16, 22),
        )  # fmt: skip
        self.compare = nn.Bilinear(22, 22, 6)
        self.out = nn.Linear(28, 1)

    def forward(self, one: Tensor, other: Tensor) -> Any:
        a, b = self.tower(one), self.tower(other)
        return torch.sigmoid(self.out(torch.cat([(a - b).abs(), self.compare(a, b)], 1)))


def two_sentences(batch: int) -> tuple[Tensor, Tensor]:
    return torch.randint(1, 40, (batch, 11)), torch.randint(1, 40, (batch, 7))


def table(batch: int) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, 7), torch.stack([torch.randint(0, size, (batch,)) for size in (9, 15, 22)], 1)


def read_and_seen(batch: int) -> Inputs:
    return {"input_ids": tokens(batch), "pixel_values": torch.randn(batch, 2, 16, 16),
            "pixel_mask": torch.ones(batch, 16, 16, dtype=torch.long)}  # fmt: skip


def coloured(batch: int) -> Inputs:
    return {"input_ids": tokens(batch), "pixel_values": torch.randn(batch, 3, 16, 16)}


def layout(batch: int) -> Inputs:
    corner = torch.randint(0, 15, (batch, LENGTH, 2))
    return {"input_ids": tokens(batch), "bbox": torch.cat([corner, corner + 4], -1)}


def spectrogram(batch: int) -> Inputs:
    return {"input_values": torch.randn(batch, 26, 10)}


def spoken(batch: int) -> Inputs:
    return {"input_features": torch.randn(batch, 44, 10), "decoder_input_ids": tokens(batch, 7)}


def series(batch: int) -> Inputs:
    return {"past_values": torch.randn(batch, 32, 2)}


def described(batch: int) -> Inputs:
    return {
        "input_ids": tokens(batch),
        "visual_feats": torch.randn(batch, 5, 18),
        "visual_pos": torch.rand(batch, 5, 4),
    }


HEARD: Final[dict[str, Any]] = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 36,
    "vocab_size": VOCABULARY, "conv_dim": [8, 14], "conv_stride": [5, 2], "conv_kernel": [10, 3],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "apply_spec_augment": False, "layerdrop": 0.0,
}  # fmt: skip
BART: Final[dict[str, Any]] = {
    "vocab_size": VOCABULARY, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 36, "decoder_ffn_dim": 36, "max_position_embeddings": 40,
    "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}  # fmt: skip

ONCE_UNSEEN: Final = (
    Family("efficientnet", "image", EfficientNet, image(2, 16, 16)),
    Family("shufflenet", "image", ShuffleNet, image(2, 16, 16)),
    Family("seq2seq", "text", Seq2Seq, two_sentences),
    Family("gat", "graph", Gat, graph, shared=("[1]",)),
    Family("wavenet", "sound", WaveNet, image(2, 22)),
    Family("wide_and_deep", "table", WideAndDeep, table),
    Family("pointnet", "points", PointNet, image(4, 17)),
    Family("siamese", "image", Siamese, lambda batch: (torch.randn(batch, 2, 16, 16), torch.randn(batch, 2, 16, 16))),
    hugging("bart", "text", "BartForConditionalGeneration", "BartConfig", pair, **BART),
    hugging("marian", "text", "MarianMTModel", "MarianConfig", pair, **BART),
    hugging("deberta", "text", "DebertaV2ForSequenceClassification", "DebertaV2Config", text, **READER, num_labels=5,
            relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"]),
    hugging("mpnet", "text", "MPNetForTokenClassification", "MPNetConfig", text, **READER, num_labels=5),
    hugging("roformer", "text", "RoFormerForMaskedLM", "RoFormerConfig", text, **READER, embedding_size=14),
    hugging("fnet", "text", "FNetForSequenceClassification", "FNetConfig", text, vocab_size=VOCABULARY, hidden_size=24,
            num_hidden_layers=3, intermediate_size=36, max_position_embeddings=40, num_labels=5),
    hugging("funnel", "text", "FunnelForSequenceClassification", "FunnelConfig", text, vocab_size=VOCABULARY,
            block_sizes=[1, 2], num_decoder_layers=1, d_model=24, n_head=4, d_head=6, d_inner=36, num_labels=5),
    hugging("xlnet", "text", "XLNetForTokenClassification", "XLNetConfig", text, vocab_size=VOCABULARY, d_model=24,
            n_layer=2, n_head=4, d_inner=36, num_labels=5),
    hugging("squeezebert", "text", "SqueezeBertForSequenceClassification", "SqueezeBertConfig", text, **READER,
            embedding_size=24, num_labels=5),
    hugging("bloom", "text", "BloomForCausalLM", "BloomConfig", text, vocab_size=VOCABULARY, hidden_size=24, n_layer=2,
            n_head=4, use_cache=False),
    hugging("falcon", "text", "FalconForCausalLM", "FalconConfig", text, vocab_size=VOCABULARY, hidden_size=24,
            num_hidden_layers=2, num_attention_heads=4, use_cache=False),
    hugging("phi", "text", "PhiForCausalLM", "PhiConfig", text,
            **{**DECODER, "num_hidden_layers": 2, "hidden_size": 32}),
    hugging("gptj", "text", "GPTJForCausalLM", "GPTJConfig", text, vocab_size=VOCABULARY, n_embd=24, n_layer=2,
            n_head=4, rotary_dim=4, n_positions=40, use_cache=False),
    hugging("mixtral", "text", "MixtralForCausalLM", "MixtralConfig", text, **{**GROUPED, "num_hidden_layers": 2},
            num_local_experts=4),
    hugging("mamba", "text", "MambaForCausalLM", "MambaConfig", text, vocab_size=VOCABULARY, hidden_size=24,
            num_hidden_layers=2, state_size=6, use_cache=False),
    hugging("olmo2", "text", "Olmo2ForCausalLM", "Olmo2Config", text, **{**DECODER, "num_hidden_layers": 2}),
    hugging("dinov2", "image", "Dinov2ForImageClassification", "Dinov2Config", pixels(2, 16, 16), **VISION),
    hugging("beit", "image", "BeitForImageClassification", "BeitConfig", pixels(2, 16, 16), **VISION,
            use_relative_position_bias=True),
    hugging("regnet", "image", "RegNetForImageClassification", "RegNetConfig", pixels(2, 32, 32), num_channels=2,
            embedding_size=8, hidden_sizes=[8, 12, 20], depths=[1, 2, 1], groups_width=4, num_labels=7),
    hugging("poolformer", "image", "PoolFormerForImageClassification", "PoolFormerConfig", pixels(2, 32, 32),
            num_channels=2, hidden_sizes=[8, 12], depths=[2, 1], patch_sizes=[7, 3], strides=[4, 2], padding=[2, 1],
            num_encoder_blocks=2, num_labels=7),
    hugging("focalnet", "image", "FocalNetForImageClassification", "FocalNetConfig", pixels(2, 32, 32), image_size=32,
            num_channels=2, embed_dim=8, hidden_sizes=[8, 16], depths=[1, 2], focal_levels=[2, 2], focal_windows=[3, 3],
            num_labels=7),
    hugging("hubert", "sound", "HubertForSequenceClassification", "HubertConfig", wave(400), **HEARD, num_labels=5,
            classifier_proj_size=20),
    hugging("ast", "sound", "ASTForAudioClassification", "ASTConfig", spectrogram, hidden_size=24, num_hidden_layers=2,
            num_attention_heads=4, intermediate_size=36, patch_size=4, frequency_stride=3, time_stride=3, max_length=26,
            num_mel_bins=10, num_labels=7),
    hugging("speech_to_text", "sound", "Speech2TextForConditionalGeneration", "Speech2TextConfig", spoken,
            **{k: v for k, v in BART.items() if k not in ("max_position_embeddings", "forced_eos_token_id")},
            max_source_positions=60, max_target_positions=40, input_feat_per_channel=10, conv_channels=28),
    hugging("vilt", "image and text", "ViltForQuestionAnswering", "ViltConfig", read_and_seen,
            **{**VIEWER, **READER, "image_size": 16}, num_labels=5),
    hugging("blip", "image and text", "BlipForImageTextRetrieval", "BlipConfig", coloured,
            text_config={**READER, "encoder_hidden_size": 24, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                         "sep_token_id": 2},
            vision_config={**VIEWER, "num_channels": 3}, projection_dim=20, image_text_hidden_size=18),
    hugging("lxmert", "image and text", "LxmertModel", "LxmertConfig", described, vocab_size=VOCABULARY, hidden_size=24,
            num_attention_heads=4, intermediate_size=36, l_layers=2, r_layers=1, x_layers=1, visual_feat_dim=18,
            max_position_embeddings=40),
    hugging("layoutlm", "image and text", "LayoutLMForTokenClassification", "LayoutLMConfig", layout, **READER,
            max_2d_position_embeddings=32, num_labels=5),
    hugging("patchtst", "series", "PatchTSTForPrediction", "PatchTSTConfig", series, num_input_channels=2,
            context_length=32, patch_length=4, patch_stride=4, d_model=24, num_attention_heads=4, ffn_dim=36,
            num_hidden_layers=2, prediction_length=6, loss="mse"),
)  # fmt: skip
