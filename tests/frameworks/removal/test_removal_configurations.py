"""Removing a layer gives the model that its configuration builds with one layer fewer: an oracle without repairs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from etude.core.errors import RefusalCode, RemovalRefused
from etude.core.removal import Layers, Whole
from etude.frameworks.removal.apply import apply
from etude.frameworks.removal.check import check
from etude.frameworks.removal.plan import plan

transformers = pytest.importorskip("transformers")

VOCABULARY = 53


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, shape, generator=torch.Generator().manual_seed(0))


def bert(layers: int) -> Any:
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=layers, num_attention_heads=3, intermediate_size=44
    )
    return transformers.BertForSequenceClassification(config)


def gpt2(layers: int) -> Any:
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_embd=24, n_layer=layers, n_head=3, n_positions=32)
    return transformers.GPT2LMHeadModel(config)


def llama(layers: int) -> Any:
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=52,
    )
    return transformers.LlamaForCausalLM(config)


def vit(layers: int) -> Any:
    config = transformers.ViTConfig(
        hidden_size=24,
        num_hidden_layers=layers,
        num_attention_heads=3,
        intermediate_size=44,
        image_size=16,
        patch_size=8,
    )
    return transformers.ViTForImageClassification(config)


def t5(layers: int) -> Any:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=24, d_kv=7, d_ff=44, num_layers=layers, num_heads=3, num_decoder_layers=2
    )
    return transformers.T5ForConditionalGeneration(config)


TEXT = {"input_ids": tokens(4, 9)}
BOTH = {"input_ids": tokens(4, 9), "decoder_input_ids": tokens(4, 6)}
PIXELS = {"pixel_values": torch.randn(4, 3, 16, 16)}
FAMILIES: dict[str, tuple[Callable[[int], Any], dict[str, torch.Tensor], str]] = {
    "bert": (bert, TEXT, "bert.encoder.layer"),
    "gpt2": (gpt2, TEXT, "transformer.h"),
    "llama": (llama, TEXT, "model.layers"),
    "vit": (vit, PIXELS, ""),
    "t5": (t5, BOTH, "encoder.block"),
}


def layers_of(model: Any, path: str) -> str:
    """Return where a model's list of layers is; its versions disagree."""
    return path or next(name for name, _ in model.named_modules() if name.endswith(("layers", "layer")))


@pytest.mark.parametrize(("family", "which"), [("bert", 2), *((family, 1) for family in FAMILIES)])
def test_removing_a_layer_gives_the_model_with_one_layer_fewer(family: str, which: int) -> None:
    make, example, path = FAMILIES[family]
    torch.manual_seed(0)
    model, smaller = make(3).eval(), make(2).eval()
    path = layers_of(model, path)
    found = plan(model, Layers((Whole(f"{path}.{which}"),)), example)
    check(model, found, example)
    apply(model, found, seed=0)

    def as_built(name: str) -> str:
        """Count the layers behind the removed one as the smaller model does."""
        number = re.fullmatch(rf"{re.escape(path)}\.(\d+)(\..*)", name)
        return f"{path}.{int(number[1]) - (int(number[1]) > which)}{number[2]}" if number else name

    smaller.load_state_dict({as_built(name): value for name, value in model.state_dict().items()}, strict=True)
    with torch.no_grad():
        assert torch.equal(model(**example).logits, smaller(**example).logits)


def test_the_layer_that_owns_the_bias_of_all_others_is_refused() -> None:
    with pytest.raises(RemovalRefused) as refused:
        plan(t5(3), Layers((Whole("encoder.block.0"),)), BOTH)
    assert refused.value.code is RefusalCode.OWNED_STATE
    assert refused.value.instead == "encoder.block"
