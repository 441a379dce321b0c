"""Further models of Hugging Face's transformers, from the third set of families that were unseen once."""

from __future__ import annotations

from typing import Final

import torch

from benchmarks.zoo.family import Inputs
from benchmarks.zoo.hugging import (
    READER,
    SHARED,
    VIEWER,
    VOCABULARY,
    WRITER,
    hugging,
    pair,
    past_and_future,
    pixels,
    shown,
    sounding,
    text,
    tokens,
    wave,
)


def letters(batch: int) -> Inputs:
    return {"input_ids": torch.randint(3, 900, (batch, 20))}


def dozen(batch: int) -> Inputs:
    return {"input_ids": tokens(batch, 12)}


def clip_of_film(batch: int) -> Inputs:
    return {"pixel_values": torch.randn(batch, 3, 2, 16, 16)}


def spoken(batch: int) -> Inputs:
    return {"input_values": torch.randn(batch, 1300), "decoder_input_ids": tokens(batch, 7)}


def noted(batch: int) -> Inputs:
    return {"input_ids": torch.randint(0, 30, (batch, 14))}


FURTHER: Final = (
    hugging("nystromformer", "text", "NystromformerForMaskedLM", "NystromformerConfig", dozen, **READER,
            segment_means_seq_len=12, num_landmarks=3, conv_kernel_size=5),
    hugging("canine", "text", "CanineForSequenceClassification", "CanineConfig", letters, hidden_size=24,
            num_hidden_layers=1, num_attention_heads=4, intermediate_size=36, max_position_embeddings=40,
            num_hash_functions=3, num_hash_buckets=50, local_transformer_stride=8, num_labels=6),
    hugging("modernbert", "text", "ModernBertForSequenceClassification", "ModernBertConfig", text, **READER,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, local_attention=4,
            num_labels=6),
    hugging("mpt", "text", "MptForSequenceClassification", "MptConfig", text, vocab_size=VOCABULARY, d_model=32,
            n_heads=4, n_layers=2, expansion_ratio=2, max_seq_len=40, use_cache=False, num_labels=6, pad_token_id=0),
    hugging("lfm2", "text", "Lfm2ForCausalLM", "Lfm2Config", text, **{**WRITER, "num_key_value_heads": 2},
            layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False),
    hugging("gpt_oss", "text", "GptOssForCausalLM", "GptOssConfig", text, **SHARED, num_local_experts=4,
            num_experts_per_tok=2, sliding_window=5),
    hugging("jamba", "text", "JambaForCausalLM", "JambaConfig", text, **{**WRITER, "num_key_value_heads": 2},
            num_experts=4, num_experts_per_tok=2, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2,
            expert_layer_offset=1, mamba_d_state=5, mamba_d_conv=3, mamba_dt_rank=4, use_mamba_kernels=False),
    hugging("qwen3_next", "text", "Qwen3NextForCausalLM", "Qwen3NextConfig", text,
            **SHARED, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2,
            linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=5, num_experts=4,
            num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=18),
    hugging("switch_transformers", "text", "SwitchTransformersForConditionalGeneration", "SwitchTransformersConfig",
            pair, vocab_size=VOCABULARY, d_model=24, d_kv=6, d_ff=36, num_layers=1, num_decoder_layers=1, num_heads=4,
            num_experts=2, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1, router_jitter_noise=0.0,
            expert_capacity=64, decoder_start_token_id=0, use_cache=False),
    hugging("pvt_v2", "image", "PvtV2ForImageClassification", "PvtV2Config", pixels(2, 32, 32), image_size=32,
            num_channels=2, num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 12],
            patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[2, 3], mlp_ratios=[3, 2], num_labels=7,
            linear_attention=True),
    hugging("convnextv2", "image", "ConvNextV2ForImageClassification", "ConvNextV2Config", pixels(2, 32, 32),
            num_channels=2, hidden_sizes=[8, 12], depths=[1, 1], num_stages=2, image_size=32, num_labels=7),
    hugging("bit", "image", "BitForImageClassification", "BitConfig", pixels(2, 32, 32), num_channels=2,
            embedding_size=8, hidden_sizes=[16, 24], depths=[1, 1], num_groups=2, num_labels=7),
    hugging("timesformer", "film", "TimesformerForVideoClassification", "TimesformerConfig", clip_of_film,
            hidden_size=24, num_hidden_layers=1, num_attention_heads=4, intermediate_size=36, image_size=16,
            patch_size=4, num_channels=2, num_frames=3, num_labels=7),
    hugging("imagegpt", "image", "ImageGPTForImageClassification", "ImageGPTConfig", noted, vocab_size=30,
            n_positions=20, n_embd=24, n_layer=2, n_head=4, n_inner=36, num_labels=6, use_cache=False, pad_token_id=0),
    hugging("wav2vec2_conformer", "sound", "Wav2Vec2ConformerForCTC", "Wav2Vec2ConformerConfig", wave(400),
            hidden_size=24, num_hidden_layers=1, num_attention_heads=4, intermediate_size=36, vocab_size=VOCABULARY,
            conv_dim=[8, 14], conv_stride=[5, 2], conv_kernel=[10, 3], num_feat_extract_layers=2,
            num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, apply_spec_augment=False, layerdrop=0.0,
            conv_depthwise_kernel_size=5, position_embeddings_type="relative", max_source_positions=60,
            ctc_loss_reduction="mean"),
    hugging("moonshine", "sound", "MoonshineForConditionalGeneration", "MoonshineConfig", spoken,
            vocab_size=VOCABULARY, hidden_size=24, intermediate_size=36, encoder_num_hidden_layers=1,
            decoder_num_hidden_layers=1, encoder_num_attention_heads=2, decoder_num_attention_heads=2,
            max_position_embeddings=40, use_cache=False, pad_token_id=0),
    hugging("dac", "sound", "DacModel", "DacConfig", sounding, encoder_hidden_size=4, downsampling_ratios=[4],
            decoder_hidden_size=16, n_codebooks=2, codebook_size=16, codebook_dim=5, hop_length=4,
            quantizer_dropout=0.0),
    hugging("siglip", "image and text", "SiglipModel", "SiglipConfig", shown,
            text_config={**READER, "num_hidden_layers": 1, "max_position_embeddings": 9, "projection_size": 28},
            vision_config={**VIEWER, "hidden_size": 28, "num_hidden_layers": 1}),
    hugging("git", "image and text", "GitForCausalLM", "GitConfig", shown, **{**WRITER, "num_hidden_layers": 1},
            vision_config={**VIEWER, "num_hidden_layers": 1}),
    hugging("autoformer", "series", "AutoformerForPrediction", "AutoformerConfig", past_and_future,
            prediction_length=8, context_length=19, lags_sequence=[1, 2, 7], num_time_features=2, d_model=24,
            encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=36, decoder_ffn_dim=36, moving_average=5, label_length=6, use_cache=False,
            encoder_layerdrop=0.0, decoder_layerdrop=0.0),
)  # fmt: skip
