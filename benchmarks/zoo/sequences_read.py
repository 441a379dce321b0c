# ruff: noqa: D102 - what `forward` does, its class says
"""Families that read texts: questions, documents, long ones."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from benchmarks.zoo.classic import words
from benchmarks.zoo.family import Family


class Highways(nn.Module):
    """Layers that let through what they do not change."""

    def __init__(self, width: int, depth: int = 2) -> None:
        super().__init__()
        self.linears = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth))
        self.gates = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Sigmoid()) for _ in range(depth))

    def forward(self, x: Tensor) -> Any:
        for linear, gate in zip(self.linears, self.gates, strict=True):
            g = gate(x)
            x = g * linear(x) + (1 - g) * x
        return x


class AttentionFlow(nn.Module):
    """Where in a text the answer to a question begins and ends; each looks at the other."""

    def __init__(self) -> None:
        super().__init__()
        self.char_emb = nn.Embedding(30, 6, padding_idx=0)
        self.char_conv = nn.Conv1d(6, 8, 4)
        self.word_emb = nn.Embedding(40, 12)
        self.highway = Highways(20)
        self.context_lstm = nn.LSTM(20, 9, bidirectional=True, batch_first=True)
        self.att_weight_c, self.att_weight_q = nn.Linear(18, 1), nn.Linear(18, 1)
        self.att_weight_cq = nn.Linear(18, 1)
        self.modeling_lstm1 = nn.LSTM(72, 9, bidirectional=True, batch_first=True)
        self.modeling_lstm2 = nn.LSTM(18, 9, bidirectional=True, batch_first=True)
        self.p1_weight_g, self.p1_weight_m = nn.Linear(72, 1), nn.Linear(18, 1)
        self.p2_weight_g, self.p2_weight_m = nn.Linear(72, 1), nn.Linear(18, 1)
        self.output_lstm = nn.LSTM(18, 9, bidirectional=True, batch_first=True)
        self.dropout = nn.Dropout(0.2)

    def embed(self, words: Tensor, letters: Tensor) -> Tensor:
        batch, length, most = letters.shape
        spelled = self.dropout(self.char_emb(letters)).view(batch * length, most, -1).transpose(1, 2)
        spelled = F.max_pool1d(F.relu(self.char_conv(spelled)), most - 3).squeeze(-1).view(batch, length, -1)
        x = self.highway(torch.cat([spelled, self.word_emb(words)], dim=-1))
        found: Tensor = self.context_lstm(self.dropout(x))[0]
        return found

    def flow(self, c: Tensor, q: Tensor) -> Tensor:
        s = self.att_weight_c(c) + self.att_weight_q(q).transpose(1, 2)
        s = s + self.att_weight_cq(c.unsqueeze(2) * q.unsqueeze(1)).squeeze(-1)
        c2q = torch.bmm(F.softmax(s, dim=2), q)
        b = F.softmax(torch.max(s, dim=2)[0], dim=1).unsqueeze(1)
        q2c = torch.bmm(b, c).expand(-1, c.shape[1], -1)
        return torch.cat([c, c2q, c * c2q, c * q2c], dim=-1)

    def forward(self, context: Tensor, context_letters: Tensor, query: Tensor, query_letters: Tensor) -> Any:
        g = self.flow(self.embed(context, context_letters), self.embed(query, query_letters))
        m = self.modeling_lstm2(self.dropout(self.modeling_lstm1(g)[0]))[0]
        start = (self.p1_weight_g(g) + self.p1_weight_m(m)).squeeze(-1)
        m2 = self.output_lstm(m)[0]
        end = (self.p2_weight_g(g) + self.p2_weight_m(m2)).squeeze(-1)
        return start, end


class CausalSelfAttention(nn.Module):
    """Heads that turn queries and keys by their places; several queries share a key."""

    cos: Tensor
    sin: Tensor

    def __init__(self, width: int, heads: int, key_heads: int, length: int) -> None:
        super().__init__()
        self.heads, self.key_heads, self.size = heads, key_heads, width // heads
        self.wq = nn.Linear(width, heads * self.size, bias=False)
        self.wk = nn.Linear(width, key_heads * self.size, bias=False)
        self.wv = nn.Linear(width, key_heads * self.size, bias=False)
        self.wo = nn.Linear(heads * self.size, width, bias=False)
        self.resid_dropout = nn.Dropout(0.1)
        angles = torch.outer(torch.arange(length), 100.0 ** -torch.arange(0, 1, 2 / self.size))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def rotate(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        cos, sin = self.cos[:length, None], self.sin[:length, None]
        one, other = x[..., ::2], x[..., 1::2]
        return torch.stack([one * cos - other * sin, one * sin + other * cos], dim=-1).flatten(-2)

    def forward(self, x: Tensor) -> Any:
        batch, length, _ = x.shape
        q = self.rotate(self.wq(x).view(batch, length, self.heads, self.size))
        k = self.rotate(self.wk(x).view(batch, length, self.key_heads, self.size))
        v = self.wv(x).view(batch, length, self.key_heads, self.size)
        k, v = (one.repeat_interleave(self.heads // self.key_heads, dim=2) for one in (k, v))
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.resid_dropout(self.wo(y.transpose(1, 2).contiguous().view(batch, length, -1)))


class Expert(nn.Module):
    """A feed-forward net with a gate."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1, self.w3 = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Any:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class SparseExperts(nn.Module):
    """Each word goes to two experts of four, and to one that all words go to."""

    def __init__(self, width: int, experts: int = 4, chosen: int = 2) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(Expert(width, 22) for _ in range(experts))
        self.shared_expert = Expert(width, 26)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.view(-1, x.shape[-1])
        logits = self.router(flat)
        weights, chosen = torch.topk(logits, self.chosen, dim=-1)
        weights = F.softmax(weights, dim=-1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            row, nth = torch.where(chosen == number)
            out = out.index_add(0, row, weights[row, nth, None] * expert(flat[row]))
        balance = len(self.experts) * (logits.softmax(-1).mean(0) ** 2).sum()
        return (out + self.shared_expert(flat)).view_as(x), balance


class ExpertTransformer(nn.Module):
    """A language model whose feed-forward nets are experts; while it learns, it says how evenly they are used."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(40, 16)
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "attention_norm": nn.RMSNorm(16), "attention": CausalSelfAttention(16, 4, 2, 32),
                "ffn_norm": nn.RMSNorm(16), "experts": SparseExperts(16),
            }) for _ in range(depth)
        )  # fmt: skip
        self.norm = nn.RMSNorm(16)
        self.output = nn.Linear(16, 40, bias=False)

    def forward(self, words: Tensor) -> Any:
        x = self.tok_embeddings(words)
        uneven = x.new_zeros(())
        for layer in self.layers:
            x = x + layer["attention"](layer["attention_norm"](x))  # type: ignore[index]
            y, balance = layer["experts"](layer["ffn_norm"](x))  # type: ignore[index]
            x, uneven = x + y, uneven + balance
        logits = self.output(self.norm(x))
        return (logits, uneven) if self.training else logits


class WordAttention(nn.Module):
    """A recurrent net reads both ways; what matters is summed."""

    def __init__(self, width: int, hidden: int, attended: int) -> None:
        super().__init__()
        self.gru = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.layer_norm = nn.LayerNorm(2 * hidden)
        self.attention = nn.Linear(2 * hidden, attended)
        self.context_vector = nn.Linear(attended, 1, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        states, _ = self.gru(x)
        scores = self.context_vector(torch.tanh(self.attention(self.layer_norm(states)))).squeeze(-1)
        weights = torch.softmax(scores, dim=1)
        return (states * weights.unsqueeze(-1)).sum(dim=1), weights


class HierarchicalAttention(nn.Module):
    """Words make sentences, sentences a document; both are weighed."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(40, 12)
        self.word_attention = WordAttention(12, 9, 14)
        self.sentence_attention = WordAttention(18, 10, 16)
        self.dropout = nn.Dropout(0.3)
        self.fc = nn.Linear(20, 7)

    def forward(self, documents: Tensor) -> Any:
        batch, sentences, length = documents.shape
        x = self.dropout(self.embeddings(documents.reshape(batch * sentences, length)))
        x, word_weights = self.word_attention(x)
        x, sentence_weights = self.sentence_attention(self.dropout(x.view(batch, sentences, -1)))
        scores = self.fc(self.dropout(x))
        return {"scores": scores, "words": word_weights.view(batch, sentences, length), "sentences": sentence_weights}


class Sin(nn.Module):
    """A sine whose frequencies are learned."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.freq = nn.Parameter(10 * torch.ones(1, width))

    def forward(self, x: Tensor) -> Any:
        return torch.sin(self.freq * x)


class ImplicitFilter(nn.Module):
    """A filter as long as the text, which a small net says from the place; it decays."""

    z: Tensor
    t: Tensor
    deltas: Tensor

    def __init__(self, width: int, length: int, bands: int = 2) -> None:
        super().__init__()
        t = torch.linspace(0, 1, length)[:, None]
        waves = torch.linspace(1e-4, bands - 1, bands)[None] * 2 * math.pi * torch.arange(length)[:, None] / length
        self.register_buffer("z", torch.cat([t, waves.cos(), -waves.sin()], dim=-1))
        self.register_buffer("t", t)
        self.register_buffer("deltas", torch.linspace(2, 8, width)[None])
        act = Sin(18)
        self.implicit_filter = nn.Sequential(
            nn.Linear(2 * bands + 1, 18), act, nn.Linear(18, 18), act, nn.Linear(18, width, bias=False)
        )
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x: Tensor) -> Any:
        length = x.shape[-1]
        k = (self.implicit_filter(self.z[:length]) * torch.exp(-self.t[:length] * self.deltas)).transpose(0, 1)
        y = torch.fft.irfft(torch.fft.rfft(x, n=2 * length) * torch.fft.rfft(k, n=2 * length), n=2 * length)
        return y[..., :length] + x * self.bias.unsqueeze(-1)


class LongConvolution(nn.Module):
    """Long filters between gates, after short ones; no attention."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.width = width
        self.in_proj, self.out_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.short_filter = nn.Conv1d(3 * width, 3 * width, 3, padding=2, groups=3 * width)
        self.filter_fn = ImplicitFilter(width, length)
        self.dropout = nn.Dropout(0.1)

    def forward(self, u: Tensor) -> Any:
        length = u.shape[1]
        u = self.short_filter(self.in_proj(u).transpose(1, 2))[..., :length]
        x0, x1, v = u.split(self.width, dim=1)
        v = self.filter_fn(self.dropout(v * x1))
        return self.out_proj((v * x0).transpose(1, 2))


class LongConvolutions(nn.Module):
    """A language model of long convolutions."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 14)
        self.mixers = nn.ModuleList(LongConvolution(14, 32) for _ in range(depth))
        self.mlps = nn.ModuleList(nn.Sequential(nn.Linear(14, 30), nn.GELU(), nn.Linear(30, 14)) for _ in range(depth))
        self.norms1 = nn.ModuleList(nn.LayerNorm(14) for _ in range(depth))
        self.norms2 = nn.ModuleList(nn.LayerNorm(14) for _ in range(depth))
        self.ln_f = nn.LayerNorm(14)
        self.lm_head = nn.Linear(14, 40, bias=False)

    def forward(self, words: Tensor) -> Any:
        x = self.embedding(words)
        for norm1, mixer, norm2, mlp in zip(self.norms1, self.mixers, self.norms2, self.mlps, strict=True):
            x = x + mixer(norm1(x))
            x = x + mlp(norm2(x))
        return self.lm_head(self.ln_f(x))


def asked(batch: int) -> tuple[Tensor, ...]:
    return (
        torch.randint(1, 40, (batch, 11)), torch.randint(1, 30, (batch, 11, 8)),
        torch.randint(1, 40, (batch, 7)), torch.randint(1, 30, (batch, 7, 8)),
    )  # fmt: skip


READ: Final = (
    Family("attention_flow", "text", AttentionFlow, asked),
    Family("expert_transformer", "text", ExpertTransformer, words(11)),
    Family("hierarchical_attention", "text", HierarchicalAttention, words(6, 11)),
    Family("long_convolutions", "text", LongConvolutions, words(22)),
)
