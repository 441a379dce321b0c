"""Heads of attentions, however they are laid out: what is left equals the model whose removed heads give 0."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import msgspec
import pytest
import torch
from repaired import assert_same, gradients, parts_planned, planned, refusal, without, zeroed
from torch import nn

from etude.core.errors import ConfigError, RefusalCode, RemovalRefused
from etude.core.removal import Layers, Part
from etude.frameworks.removal.attention import CutAttention
from etude.frameworks.removal.check import check
from etude.frameworks.removal.edits import Padded, Resize
from etude.frameworks.removal.plan import plan
from etude.removing import layers_of, remove

SIZE = 8  # of a head
TOKENS = torch.randint(3, 50, (3, 7), generator=torch.Generator().manual_seed(0))


def columns(*heads: int, size: int = SIZE) -> list[int]:
    return [head * size + n for head in heads for n in range(size)]


class Packed(nn.Module):
    """Torch's own attention, whose projections are one tensor."""

    def __init__(self, *, twice: bool = False, **options: Any) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(5, 24), nn.Linear(24, 2)
        self.attn = nn.MultiheadAttention(24, 3, **options)
        self.twice = nn.MultiheadAttention(24, 3) if twice else None

    def forward(self, x: torch.Tensor, **masks: Any) -> torch.Tensor:
        x = self.stem(x)
        key = x[..., : self.attn.kdim] if self.attn.kdim != 24 else x
        return self.head(x + self.attn(x, key, key, **masks)[0])


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch first": {"batch_first": True},
    "no bias": {"bias": False},
    "added": {"add_bias_kv": True, "add_zero_attn": True},
    "keys of another width": {"kdim": 10, "vdim": 10},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("weights", [True, False], ids=["with weights", "without"])
def test_a_packed_attention_gives_what_its_other_heads_give(options: dict[str, Any], weights: bool) -> None:
    class Net(Packed):
        def forward(self, x: torch.Tensor, **masks: Any) -> torch.Tensor:
            return super().forward(x, need_weights=weights, **masks)

    net, x = Net(**options), torch.randn(4, 7, 5)
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.3)
    found = parts_planned(net, "attn", "heads", (1,), x)
    changed = without(net, found)
    assert_same(changed, zeroed(net, "attn.out_proj", columns(1)), x)
    assert (changed.attn.num_heads, changed.attn.head_dim, changed.attn.embed_dim) == (2, SIZE, 24)


def test_surviving_rows_and_columns_of_a_packed_attention_keep_their_values_and_gradients() -> None:
    net, x = Packed(batch_first=True), torch.randn(4, 7, 5)
    found = parts_planned(net, "attn", "heads", (0,), x)
    assert found.changes == ("1 head of attn removed", "792 fewer parameters")
    changed = without(net, found)
    rows = [part * 24 + row for part in range(3) for row in columns(1, 2)]
    assert torch.equal(changed.attn.in_proj_weight, net.attn.in_proj_weight[rows])
    assert torch.equal(changed.attn.in_proj_bias, net.attn.in_proj_bias[rows])
    assert torch.equal(changed.attn.out_proj.weight, net.attn.out_proj.weight[:, columns(1, 2)])
    one, two = gradients(changed, x), gradients(zeroed(net, "attn.out_proj", columns(0)), x)
    torch.testing.assert_close(one["attn.in_proj_weight"], two["attn.in_proj_weight"][rows])


@pytest.mark.parametrize("mask", ["causal", "padding", "for each head", "both"])
def test_masks_of_a_packed_attention_are_those_of_the_heads_that_are_left(mask: str) -> None:
    net, x = Packed(batch_first=True).double(), torch.randn(4, 7, 5).double()
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.3)
    hidden = torch.zeros(4, 7, dtype=torch.bool)
    hidden[1, 5:] = True
    causal = torch.ones(7, 7, dtype=torch.bool).triu(1)
    masks: dict[str, Any] = {
        "causal": {"attn_mask": causal, "is_causal": True},
        "padding": {"key_padding_mask": hidden},
        "for each head": {"attn_mask": torch.randn(4 * 3, 7, 7).double()},
        "both": {"attn_mask": causal, "key_padding_mask": hidden},
    }[mask]
    changed = without(net, parts_planned(net, "attn", "heads", (1,), x))
    expected = zeroed(net, "attn.out_proj", columns(1))(x, **masks)
    torch.testing.assert_close(changed(x, **masks), expected)
    torch.testing.assert_close(changed(x, need_weights=False, **masks), expected)


def test_weights_of_a_packed_attention_are_given_as_torch_gives_them() -> None:
    net, x = Packed().double(), torch.randn(7, 4, 24).double()
    changed = without(net, parts_planned(net, "attn", "heads", (1,), torch.randn(4, 7, 5)))
    apart = net.attn(x, x, x, average_attn_weights=False)[1]
    torch.testing.assert_close(changed.attn(x, x, x, average_attn_weights=False)[1], apart[:, [0, 2]])
    torch.testing.assert_close(changed.attn(x, x, x)[1], apart[:, [0, 2]].mean(1))
    torch.testing.assert_close(changed.attn(x[:, 0], x[:, 0], x[:, 0])[0], changed.attn(x, x, x)[0][:, 0])


def test_heads_can_be_taken_out_again_and_the_attention_is_copied_and_saved() -> None:
    net, x = Packed(), torch.randn(4, 7, 5)
    untouched = copy.deepcopy(net)
    remove(net, "heads:attn[0]", x)
    remove(net, "heads:attn[1]", x)
    assert_same(net, zeroed(untouched, "attn.out_proj", columns(0, 2)), x)
    again = pickle.loads(pickle.dumps(net.attn))
    assert type(again) is CutAttention
    assert again.heads_kept == (1,)
    fresh = copy.deepcopy(net)
    nn.init.zeros_(fresh.attn.in_proj_weight)
    fresh.load_state_dict(net.state_dict())
    assert torch.equal(fresh(x), net(x))


@pytest.mark.parametrize("path", ["layers.0", "layers.0.self_attn"])
def test_layers_of_an_encoder_of_torch_do_not_take_the_fast_way(path: str) -> None:
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 44, batch_first=True), 2).eval()
    x = torch.randn(3, 7, 32)
    changed = without(net, parts_planned(net, path, "heads", (2,), x))
    expected = zeroed(net, "layers.0.self_attn.out_proj", columns(2))
    assert_same(changed, expected, x)
    with torch.no_grad():
        torch.testing.assert_close(changed(x), expected(x))


def test_a_block_of_two_attentions_is_refused_and_both_are_named() -> None:
    net = nn.TransformerDecoder(nn.TransformerDecoderLayer(24, 3, 44, batch_first=True), 1)
    why = refusal(net, Layers((Part("layers.0", "heads", (0,)),)), (torch.randn(3, 7, 24), torch.randn(3, 5, 24)))
    assert "Name one: 'layers.0.self_attn' or 'layers.0.multihead_attn'" in str(why)


def test_an_attention_of_a_class_of_its_own_is_refused_by_name() -> None:
    class Special(nn.MultiheadAttention):
        pass

    net = Packed()
    net.attn = Special(24, 3)
    x = torch.randn(4, 7, 5)
    why = refusal(net, Layers((Part("attn", "heads", (0,)),)), x)
    assert why.code is RefusalCode.DOES_NOT_FIT
    assert "attn" not in dict(without(net, planned(net, "attn", x)).named_parameters())  # as a whole it goes
    assert "Special is a class of its own" in str(why)


class Fused(nn.Module):
    """As vision transformers have it: one projection, of which heads are the second axis."""

    def __init__(self, *, by_width: bool, by_head: bool = False) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.by_width, self.by_head = 3, SIZE, by_width, by_head
        self.qkv, self.proj = nn.Linear(24, 72), nn.Linear(24, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, tokens, width = x.shape
        size = width // self.num_heads if self.by_width else self.head_dim
        if self.by_head:
            q, k, v = self.qkv(x).view(n, tokens, self.num_heads, 3 * size).transpose(1, 2).chunk(3, -1)
        else:
            q, k, v = self.qkv(x).reshape(n, tokens, 3, self.num_heads, size).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = (q @ k.transpose(-2, -1) * size**-0.5).softmax(-1) @ v
        return self.proj(mixed.transpose(1, 2).reshape(n, tokens, width if self.by_width else -1))


class Holder(nn.Module):
    def __init__(self, attn: nn.Module) -> None:
        super().__init__()
        self.stem, self.attn, self.norm, self.head = nn.Linear(5, 24), attn, nn.LayerNorm(24), nn.Linear(24, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        return self.head(self.norm(x + self.attn(x)))


@pytest.mark.parametrize("by_head", [False, True], ids=["queries first", "head by head"])
@pytest.mark.parametrize("by_width", [False, True], ids=["by their size", "by the width"])
def test_a_fused_projection_is_cut_where_its_heads_are(by_width: bool, by_head: bool) -> None:
    net, x = Holder(Fused(by_width=by_width, by_head=by_head)), torch.randn(3, 7, 5)
    found = parts_planned(net, "attn", "heads", (1,), x)
    changed = without(net, found)
    assert_same(changed, zeroed(net, "attn.proj", columns(1)), x)
    lost = columns(3, 4, 5) if by_head else columns(1, 4, 7)
    assert torch.equal(changed.attn.qkv.weight, net.attn.qkv.weight[[n for n in range(72) if n not in lost]])
    assert changed.attn.proj.weight.shape == (24, 16)
    assert any(isinstance(edit, Padded) for edit in found.edits) == by_width  # its code cannot have another width
    assert ("attn keeps its width, with zeros for the heads that are gone" in found.changes) == by_width
    assert pickle.loads(pickle.dumps(changed.attn.qkv)).weight.shape == (48, 24)


class Reckoning(Fused):
    """Its shapes are right with any number of heads; a number that it reckons with is that of all of them together."""

    def __init__(self, by: str) -> None:
        super().__init__(by_width=False)
        self.by = by

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, tokens, width = x.shape
        qkv = self.qkv(x)
        q, k, v = qkv.view(n, tokens, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        scale = {"width": (width // self.num_heads) ** -0.5, "channels": qkv.shape[-1] ** -0.5}.get(self.by, 0.3)
        if self.by == "channels":
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)
        else:
            mixed = (q @ k.transpose(-2, -1) * scale).softmax(-1) @ v
        mixed = self.proj(mixed.transpose(1, 2).flatten(2))
        return mixed / self.num_heads if self.by == "heads" else mixed


@pytest.mark.parametrize(("by", "keeps_width"), [("width", True), ("channels", True), ("heads", True), ("size", False)])
def test_an_attention_that_would_reckon_with_other_numbers_keeps_its_width(by: str, keeps_width: bool) -> None:
    net, x = Holder(Reckoning(by)), torch.randn(3, 7, 5)
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.3)
    found = parts_planned(net, "attn", "heads", (0,), x)
    assert_same(without(net, found), zeroed(net, "attn.proj", columns(0)), x)
    assert any(isinstance(edit, Padded) for edit in found.edits) == keeps_width


class Unsaid(nn.Module):
    """An attention that calls the number of its heads by no name that is known."""

    def __init__(self, *, at_once: bool) -> None:
        super().__init__()
        self.h, self.at_once = 3, at_once
        self.qkv, self.proj, self.drop = nn.Linear(24, 72), nn.Linear(24, 24), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, tokens, width = x.shape
        q, k, v = self.qkv(x).view(n, tokens, 3, self.h, width // self.h).permute(2, 0, 3, 1, 4)
        if self.at_once:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mixed = self.drop((q @ k.transpose(-1, -2) / 3).softmax(-1)) @ v
        return self.proj(mixed.transpose(1, 2).reshape(n, tokens, width))


@pytest.mark.parametrize("at_once", [True, False])
def test_heads_are_counted_where_nothing_says_how_many_there_are(at_once: bool) -> None:
    x = torch.randn(4, 7, 5)
    net = nn.Sequential(Holder(Unsaid(at_once=at_once)).eval())
    assert [(one.path, one.heads) for one in layers_of(net, x) if one.heads] == [("0.attn", 3)]
    expected = zeroed(net, "0.attn.proj", columns(1))
    found = remove(net, "heads:0[1]", x)  # of the block's only attention
    assert found.changes[0] == "1 head of 0.attn removed"
    assert_same(net, expected, x)
    with pytest.raises(ConfigError, match=r"are all 3 heads of '0\.attn'"):
        remove(nn.Sequential(Holder(Unsaid(at_once=at_once))), "heads:attn[0:3]", x)


def test_no_heads_are_seen_where_a_softmax_is_no_attention() -> None:
    class Map(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ x.transpose(-1, -2).softmax(-1)

    net = nn.Sequential(nn.Conv2d(3, 4, 3), Map(), nn.Flatten(), nn.Linear(4 * 36, 2))
    assert not any(one.heads for one in layers_of(net, torch.randn(2, 3, 8, 8)))


def test_the_check_sees_when_other_channels_went_than_were_meant() -> None:
    net, x = Holder(Fused(by_width=True)), torch.randn(4, 7, 5)
    found = plan(net, Layers((Part("attn", "heads", (1,)),)), x)
    assert "masked re-execution" in check(net, found, x)
    other = tuple(n for n in range(72) if n not in columns(1, 4, 8))  # the values of another head
    edits = [
        msgspec.structs.replace(e, keep=other) if isinstance(e, Padded | Resize) and e.side == "out" else e
        for e in found.edits
    ]
    with pytest.raises(RemovalRefused, match="is not that of the model that does not read the heads that are gone"):
        check(net, msgspec.structs.replace(found, edits=tuple(edits)), x)


def test_queries_and_keys_that_meet_in_no_known_product_are_refused() -> None:
    class Summed(Fused):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = (t.unflatten(-1, (-1, SIZE)) for t in self.qkv(x).chunk(3, -1))
            seen = torch.einsum("bihd,bjhd->bhij", q, k).softmax(-1)
            return self.proj(torch.einsum("bhij,bjhd->bihd", seen, v).flatten(2))

    why = refusal(Holder(Summed(by_width=False)), Layers((Part("attn", "heads", (1,)),)), torch.randn(3, 7, 5))
    assert why.code is RefusalCode.NOT_FOUND
    assert "no attention was seen in it, of queries and keys that layers of its own make" in why.why


def test_a_norm_over_all_heads_is_refused() -> None:
    class Normed(Fused):
        def __init__(self) -> None:
            super().__init__(by_width=False)
            self.norm = nn.LayerNorm(72)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = self.norm(self.qkv(x)).chunk(3, -1)
            q, k, v = (t.unflatten(-1, (-1, SIZE)).transpose(1, 2) for t in (q, k, v))
            mixed = nn.functional.scaled_dot_product_attention(q, k, v)
            return self.proj(mixed.transpose(1, 2).flatten(2))

    why = refusal(Holder(Normed()), Layers((Part("attn", "heads", (1,)),)), torch.randn(3, 7, 5))
    assert "a norm looks at all of its heads together" in str(why)
    assert why.instead == ""  # the attention is a whole of its own


# --- those of Hugging Face ----------------------------------------------------------------------------


SIZES: dict[str, Any] = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 44}
GROUPED: dict[str, Any] = SIZES | {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
T5: dict[str, Any] = {"d_model": 24, "d_kv": SIZE, "d_ff": 44, "num_layers": 2, "num_heads": 3, "num_decoder_layers": 2}
WORDS: dict[str, Any] = {"vocab_size": 53, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertForSequenceClassification", "BertConfig", SIZES | WORDS),
    "vit": ("ViTForImageClassification", "ViTConfig", SIZES | {"image_size": 16, "patch_size": 8}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 24, "n_layer": 2, "n_head": 3} | WORDS),
    "neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", SIZES | WORDS),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"hidden_size": 24, "n_layer": 2, "n_head": 3} | WORDS),
    "t5": ("T5ForConditionalGeneration", "T5Config", T5 | WORDS | {"decoder_start_token_id": 0}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", GROUPED | WORDS),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED | WORDS),
}


def build(family: str) -> Any:
    transformers = pytest.importorskip("transformers")
    model, config, sizes = MODELS[family]
    return getattr(transformers, model)(getattr(transformers, config)(**sizes))


TEXT = {"input_ids": TOKENS}
PIXELS = {"pixel_values": torch.randn(3, 3, 16, 16)}
BOTH = {"input_ids": TOKENS, "decoder_input_ids": TOKENS[:, :5]}
LLAMA = ("llama", TEXT, "model.layers.0.self_attn", "o_proj")
ATTENTIONS: dict[str, tuple[str, dict[str, torch.Tensor], str, str, tuple[int, ...], bool]] = {
    "bert": ("bert", TEXT, "bert.encoder.layer.0.attention", "output.dense", (1,), False),
    "vit": ("vit", PIXELS, "vit.layers.0.attention", "o_proj", (0,), False),
    "gpt2": ("gpt2", TEXT, "transformer.h.1.attn", "c_proj", (2,), False),
    "neox": ("neox", TEXT, "gpt_neox.layers.0.attention", "dense", (1,), False),
    "a whole group": (*LLAMA, (2, 3), False),
    "one of each group": (*LLAMA, (0, 3), False),
    "one of one group": (*LLAMA, (0,), True),
    "fused groups": ("phi3", TEXT, "model.layers.0.self_attn", "o_proj", (0,), True),
    "biases of positions": ("bloom", TEXT, "transformer.h.0.self_attention", "dense", (1,), True),
    "t5": ("t5", BOTH, "encoder.block.0.layer.0.SelfAttention", "o", (1,), True),
}


@pytest.mark.parametrize("case", ATTENTIONS.values(), ids=ATTENTIONS)
def test_attentions_of_transformers_lose_heads(case: Any) -> None:
    family, example, path, name, gone, keeps_width = case
    reader = f"{path}.{name}"
    torch.manual_seed(0)
    net = build(family).eval()
    for parameter in net.parameters():  # biases are 0 at first, and would hide what is done to them
        parameter.data += 0.05 * torch.randn_like(parameter)
    found = parts_planned(net, path, "heads", gone, example)
    assert not found.rebuilt
    assert any(isinstance(edit, Padded) for edit in found.edits) == keeps_width
    changed = without(net, found)
    turned = type(net.get_submodule(reader)).__name__ == "Conv1D"
    assert_same(changed, zeroed(net, reader, columns(*gone), axis=0 if turned else 1), example)


def test_a_key_stays_while_a_head_uses_it() -> None:
    net = build("llama")
    one = without(net, parts_planned(net, "model.layers.0.self_attn", "heads", (0,), TEXT))
    whole = without(net, parts_planned(net, "model.layers.0.self_attn", "heads", (0, 1), TEXT))
    attention = net.model.layers[0].self_attn
    assert torch.equal(one.model.layers[0].self_attn.k_proj.weight, attention.k_proj.weight)
    assert torch.equal(one.model.layers[0].self_attn.q_proj.weight, attention.q_proj.weight[SIZE:])
    assert torch.equal(whole.model.layers[0].self_attn.k_proj.weight, attention.k_proj.weight[SIZE:])
    apart = without(net, parts_planned(net, "model.layers.0.self_attn", "heads", (0, 3), TEXT))
    assert apart.model.layers[0].self_attn.num_key_value_groups == 1  # each key is left with one head


def test_heads_are_counted_where_only_the_configuration_has_their_number() -> None:
    found = remove(build("llama"), "heads:model.layers.0.self_attn[-1]", TEXT)
    assert "1 head of model.layers.0.self_attn removed" in found.changes
