"""Models of Hugging Face's transformers, built from small configurations; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn

from benchmarks.zoo.family import Family, Inputs

VOCABULARY: Final = 60
LENGTH: Final = 11

TINY: Final[dict[str, Any]] = {
    "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 36, "max_position_embeddings": 40,
}  # fmt: skip
"""What most text encoders call their sizes."""
DECODER: Final[dict[str, Any]] = {**TINY, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
GROUPED: Final[dict[str, Any]] = {**DECODER, "num_key_value_heads": 2, "head_dim": 6}
VISION: Final[dict[str, Any]] = {
    "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 36, "image_size": 16,
    "patch_size": 4, "num_channels": 2, "num_labels": 7,
}  # fmt: skip
READER: Final[dict[str, Any]] = {**TINY, "num_hidden_layers": 2}
WRITER: Final[dict[str, Any]] = {**DECODER, "num_hidden_layers": 2}
SHARED: Final[dict[str, Any]] = {**GROUPED, "num_hidden_layers": 2}
VIEWER: Final[dict[str, Any]] = {
    **{name: size for name, size in VISION.items() if name != "num_labels"}, "num_hidden_layers": 2,
}  # fmt: skip


def hugging(name: str, kind: str, model: str, config: str, inputs: Callable[[int], Inputs], **sizes: Any) -> Family:
    """Return a family whose models a configuration of transformers makes."""

    def make(**others: Any) -> nn.Module:
        import transformers

        made: nn.Module = getattr(transformers, model)(getattr(transformers, config)(**{**sizes, **others}))
        return made

    return Family(name, kind, make, inputs)


def tokens(batch: int, length: int = LENGTH) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (batch, length))


def text(batch: int) -> Inputs:
    return {"input_ids": tokens(batch)}


def pair(batch: int) -> Inputs:
    return {"input_ids": tokens(batch), "decoder_input_ids": tokens(batch, 7)}


def pixels(*shape: int) -> Callable[[int], Inputs]:
    return lambda batch: {"pixel_values": torch.randn(batch, *shape)}


def wave(samples: int) -> Callable[[int], Inputs]:
    return lambda batch: {"input_values": torch.randn(batch, samples)}


def heard(batch: int) -> Inputs:
    return {"input_features": torch.randn(batch, 10, 26), "decoder_input_ids": tokens(batch, 7)}


def seen_and_read(batch: int) -> Inputs:
    return {"input_ids": tokens(batch), "pixel_values": torch.randn(batch, 2, 16, 16)}


def shown(batch: int) -> Inputs:
    return {"input_ids": tokens(batch, 9), "pixel_values": torch.randn(batch, 2, 16, 16)}


def sounding(batch: int) -> Inputs:
    return {"input_values": torch.randn(batch, 1, 96)}


def past_and_future(batch: int) -> Inputs:
    return {
        "past_values": torch.randn(batch, 26), "past_time_features": torch.randn(batch, 26, 2),
        "past_observed_mask": torch.ones(batch, 26), "future_values": torch.randn(batch, 8),
        "future_time_features": torch.randn(batch, 8, 2),
    }  # fmt: skip


def _without(sizes: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: size for name, size in sizes.items() if name not in names}


HUGGING: Final = (
    hugging("bert", "text", "BertForSequenceClassification", "BertConfig", text, **TINY, num_labels=5),
    hugging("roberta", "text", "RobertaForTokenClassification", "RobertaConfig", text, **TINY, num_labels=5),
    hugging("albert", "text", "AlbertForSequenceClassification", "AlbertConfig", text, **TINY, embedding_size=14,
            num_labels=5),
    hugging("electra", "text", "ElectraForPreTraining", "ElectraConfig", text, **TINY, embedding_size=14),
    hugging("distilbert", "text", "DistilBertForQuestionAnswering", "DistilBertConfig", text, vocab_size=VOCABULARY,
            dim=24, n_layers=3, n_heads=4, hidden_dim=36, max_position_embeddings=40),
    hugging("gpt2", "text", "GPT2LMHeadModel", "GPT2Config", text, vocab_size=VOCABULARY, n_embd=24, n_layer=3,
            n_head=4, n_positions=40, bos_token_id=1, eos_token_id=2),
    hugging("opt", "text", "OPTForCausalLM", "OPTConfig", text, **_without(DECODER, "intermediate_size"), ffn_dim=36,
            word_embed_proj_dim=24),
    hugging("gpt_neox", "text", "GPTNeoXForCausalLM", "GPTNeoXConfig", text, **DECODER),
    hugging("llama", "text", "LlamaForCausalLM", "LlamaConfig", text, **GROUPED),
    hugging("mistral", "text", "MistralForCausalLM", "MistralConfig", text, **GROUPED, sliding_window=8),
    hugging("qwen2", "text", "Qwen2ForCausalLM", "Qwen2Config", text, **_without(GROUPED, "head_dim")),
    hugging("gemma", "text", "GemmaForCausalLM", "GemmaConfig", text, **GROUPED),
    hugging("t5", "text", "T5ForConditionalGeneration", "T5Config", pair, vocab_size=VOCABULARY, d_model=24, d_kv=6,
            d_ff=36, num_layers=3, num_heads=4, decoder_start_token_id=0),
    hugging("vit", "image", "ViTForImageClassification", "ViTConfig", pixels(2, 16, 16), **VISION),
    hugging("deit", "image", "DeiTForImageClassificationWithTeacher", "DeiTConfig", pixels(2, 16, 16), **VISION),
    hugging("swin", "image", "SwinForImageClassification", "SwinConfig", pixels(2, 32, 32), image_size=32, patch_size=4,
            num_channels=2, embed_dim=12, depths=[2, 1], num_heads=[2, 4], window_size=4, num_labels=7),
    hugging("convnext", "image", "ConvNextForImageClassification", "ConvNextConfig", pixels(2, 32, 32), num_channels=2,
            hidden_sizes=[8, 12, 20], depths=[1, 2, 1], num_stages=3, image_size=32, num_labels=7),
    hugging("segformer", "image", "SegformerForSemanticSegmentation", "SegformerConfig", pixels(2, 64, 64),
            num_channels=2, num_encoder_blocks=2, depths=[2, 1], sr_ratios=[4, 2], hidden_sizes=[8, 12],
            patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[2, 4], mlp_ratios=[2, 2], decoder_hidden_size=20,
            num_labels=7),
    hugging("wav2vec2", "sound", "Wav2Vec2ForCTC", "Wav2Vec2Config", wave(400), hidden_size=24, num_hidden_layers=2,
            num_attention_heads=4, intermediate_size=36, vocab_size=VOCABULARY, conv_dim=[8, 14], conv_stride=[5, 2],
            conv_kernel=[10, 3], num_feat_extract_layers=2, num_conv_pos_embeddings=8,
            num_conv_pos_embedding_groups=2, mask_time_prob=0.0, apply_spec_augment=False, layerdrop=0.0),
    hugging("whisper", "sound", "WhisperForConditionalGeneration", "WhisperConfig", heard, vocab_size=VOCABULARY,
            num_mel_bins=10, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=36, decoder_ffn_dim=36, max_source_positions=13,
            max_target_positions=20, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
            use_cache=False),
    hugging("clip", "image and text", "CLIPModel", "CLIPConfig", seen_and_read,
            text_config={**TINY, "num_hidden_layers": 2, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0},
            vision_config={**_without(VISION, "num_labels"), "num_hidden_layers": 2, "hidden_size": 28},
            projection_dim=20),
)  # fmt: skip
