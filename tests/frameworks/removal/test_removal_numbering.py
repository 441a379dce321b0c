"""Blocks that carry a number of their own, by which they find their place in a cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from repaired import planned, without
from torch import nn

transformers = pytest.importorskip("transformers")

ANEW = "blocks numbered anew: their places in a cache"


def language_model(name: str) -> Any:
    torch.manual_seed(0)
    if name == "ctrl":
        config = transformers.CTRLConfig(vocab_size=40, n_positions=32, n_embd=24, dff=32, n_layer=3, n_head=2)
        return transformers.CTRLLMHeadModel(config).eval()
    if name == "gpt_bigcode":
        config = transformers.GPTBigCodeConfig(vocab_size=40, n_positions=32, n_embd=24, n_layer=3, n_head=2)
        return transformers.GPTBigCodeForCausalLM(config).eval()
    config = transformers.OlmoeConfig(
        vocab_size=40,
        hidden_size=24,
        intermediate_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=2,
        num_experts=3,
        num_experts_per_tok=2,
        pad_token_id=0,
        eos_token_id=1,
    )
    return transformers.OlmoeForCausalLM(config).eval()


def word_by_word(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    found, cache = [], None
    with torch.no_grad():
        for n in range(tokens.shape[1]):
            given = model(input_ids=tokens[:, n : n + 1], past_key_values=cache, use_cache=True)
            cache = given.past_key_values
            found.append(given.logits)
    return torch.cat(found, 1)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("ctrl", "transformer.h.0"),
        ("ctrl", "transformer.h.0.multi_head_attention"),
        ("gpt_bigcode", "transformer.h.0"),
        ("olmoe", "model.layers.0"),
        ("olmoe", "model.layers.0.self_attn"),
    ],
)
def test_a_model_without_its_first_block_writes_word_by_word(name: str, path: str) -> None:
    model, tokens = language_model(name), torch.randint(2, 40, (3, 7))
    found = planned(model, path, {"input_ids": tokens})
    assert ANEW in found.changes
    changed = without(model, found)
    with torch.no_grad():
        whole = changed(input_ids=tokens, use_cache=False).logits
    torch.testing.assert_close(word_by_word(changed, tokens), whole, rtol=1e-4, atol=1e-5)


class Numbered(nn.Module):
    """Blocks that know their number, and may reckon with it."""

    class Block(nn.Module):
        def __init__(self, n: int, reckons: bool) -> None:
            super().__init__()
            self.layer_idx, self.reckons, self.mix = n, reckons, nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.mix(x) / (self.layer_idx + 1.5 if self.reckons else 2.0)

    def __init__(self, reckons: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([self.Block(n, reckons) for n in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def test_blocks_behind_the_one_that_goes_move_up() -> None:
    net, x = Numbered(reckons=False), torch.randn(5, 6)
    found = planned(net, "blocks.1", x)
    assert [block.layer_idx for block in without(net, found).blocks][::2] == [0, 1]
    assert ANEW in found.changes


def test_what_reckons_with_its_number_keeps_it() -> None:
    net, x = Numbered(reckons=True), torch.randn(5, 6)
    found = planned(net, "blocks.1", x)
    assert [block.layer_idx for block in without(net, found).blocks][::2] == [0, 2]
    assert "its blocks keep their numbers: with a cache, word by word, only where positions are passed" in found.changes


class Led(Numbered):
    """The first block has a norm of its own."""

    class Block(nn.Module):
        def __init__(self, n: int, reckons: bool) -> None:
            super().__init__()
            self.layer_idx, self.mix = n, nn.Linear(6, 6)
            if n == 0:
                self.norm = nn.LayerNorm(6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.mix(self.norm(x) if self.layer_idx == 0 else x)


def test_no_block_becomes_the_first_one_that_has_not_what_that_needs() -> None:
    net, x = Led(reckons=False), torch.randn(5, 6)
    found = planned(net, "blocks.0", x)
    torch.testing.assert_close(without(net, found)(x), net.blocks[2](net.blocks[1](x)))
    assert "its blocks keep their numbers: with a cache, word by word, only where positions are passed" in found.changes


def test_nothing_is_said_where_no_number_changes() -> None:
    found = planned(Numbered(reckons=True), "blocks.2", torch.randn(5, 6))
    assert not [word for word in found.changes if "cache" in word]
