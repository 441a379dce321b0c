"""More models of Hugging Face's transformers: further lineages of text, pictures, sound, films and series."""

from __future__ import annotations

from typing import Any, Final

import torch

from benchmarks.zoo.family import Inputs
from benchmarks.zoo.hugging import (
    READER,
    VIEWER,
    VISION,
    VOCABULARY,
    WRITER,
    hugging,
    pair,
    past_and_future,
    pixels,
    text,
    tokens,
    wave,
)

SEEN: Final[dict[str, Any]] = {**VISION, "num_hidden_layers": 2}


def film(batch: int) -> Inputs:
    return {"pixel_values": torch.randn(batch, 4, 2, 16, 16)}


def series(batch: int) -> Inputs:
    return {"past_values": torch.randn(batch, 32, 2)}


def played(batch: int) -> Inputs:
    return {
        "states": torch.randn(batch, 7, 9), "actions": torch.randn(batch, 7, 4), "rewards": torch.randn(batch, 7, 1),
        "returns_to_go": torch.randn(batch, 7, 1), "timesteps": torch.randint(0, 20, (batch, 7)),
        "attention_mask": torch.ones(batch, 7, dtype=torch.long),
    }  # fmt: skip


def coloured(size: int) -> Any:
    return lambda batch: {"pixel_values": torch.randn(batch, 3, size, size)}


def bytes_read(batch: int) -> Inputs:
    return {"inputs": tokens(batch, 18)}


MORE: Final = (
    hugging("perceiver", "text", "PerceiverForMaskedLM", "PerceiverConfig", bytes_read, num_latents=7, d_latents=28,
            d_model=24, num_blocks=1, num_self_attends_per_block=2, num_self_attention_heads=4,
            num_cross_attention_heads=4, qk_channels=16, v_channels=28, vocab_size=VOCABULARY,
            max_position_embeddings=18),
    hugging("detr", "detection", "DetrForObjectDetection", "DetrConfig", coloured(64), use_timm_backbone=False,
            use_pretrained_backbone=False, backbone_config={"model_type": "resnet", "embedding_size": 8,
            "hidden_sizes": [8, 12], "depths": [1, 1], "layer_type": "basic", "out_features": ["stage2"]},
            num_queries=9, encoder_layers=1, decoder_layers=1, d_model=24, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=36, decoder_ffn_dim=36, num_labels=7),
    hugging("rwkv", "text", "RwkvForCausalLM", "RwkvConfig", text, vocab_size=VOCABULARY, hidden_size=24,
            attention_hidden_size=20, num_hidden_layers=2, intermediate_size=36, context_length=40, use_cache=False),
    hugging("mamba2", "text", "Mamba2ForCausalLM", "Mamba2Config", text, vocab_size=VOCABULARY, hidden_size=24,
            num_hidden_layers=2, state_size=6, num_heads=4, head_dim=12, n_groups=2, chunk_size=8, use_cache=False),
    hugging("olmoe", "text", "OlmoeForCausalLM", "OlmoeConfig", text, **WRITER, num_experts=4, num_experts_per_tok=2),
    hugging("recurrent_gemma", "text", "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", text, **WRITER,
            num_key_value_heads=1, lru_width=24, attention_window_size=8, block_types=["recurrent", "attention"]),
    hugging("mobilebert", "text", "MobileBertForSequenceClassification", "MobileBertConfig", text,
            **{**READER, "hidden_size": 28}, embedding_size=14, intra_bottleneck_size=16, num_feedforward_networks=2,
            num_labels=6),
    hugging("esm", "protein", "EsmForMaskedLM", "EsmConfig", text, **READER, pad_token_id=1, mask_token_id=2,
            position_embedding_type="rotary", token_dropout=False),
    hugging("gpt_bigcode", "text", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", text, vocab_size=VOCABULARY, n_embd=24,
            n_layer=2, n_head=4, n_positions=40, use_cache=False),
    hugging("ctrl", "text", "CTRLLMHeadModel", "CTRLConfig", text, vocab_size=VOCABULARY, n_embd=24, n_layer=2,
            n_head=4, dff=36, n_positions=40, use_cache=False),
    hugging("prophetnet", "text", "ProphetNetForConditionalGeneration", "ProphetNetConfig", pair,
            vocab_size=VOCABULARY, hidden_size=24, num_encoder_layers=1, num_decoder_layers=2,
            num_encoder_attention_heads=4, num_decoder_attention_heads=4, encoder_ffn_dim=36, decoder_ffn_dim=36,
            max_position_embeddings=40, ngram=2, decoder_start_token_id=2, use_cache=False),
    hugging("xlstm", "text", "xLSTMForCausalLM", "xLSTMConfig", text, vocab_size=VOCABULARY, hidden_size=24,
            num_hidden_layers=2, num_blocks=2, num_heads=4, use_cache=False),
    hugging("reformer", "text", "ReformerForMaskedLM", "ReformerConfig", text, vocab_size=VOCABULARY, hidden_size=24,
            attention_head_size=6, num_attention_heads=4, feed_forward_size=36, attn_layers=["local", "local"],
            axial_pos_embds=False, max_position_embeddings=40, is_decoder=False, local_attn_chunk_length=11),
    hugging("longformer", "text", "LongformerForTokenClassification", "LongformerConfig", text, **READER, num_labels=6,
            attention_window=4, pad_token_id=1),
    hugging("time_series", "series", "TimeSeriesTransformerForPrediction", "TimeSeriesTransformerConfig",
            past_and_future, prediction_length=8, context_length=19, lags_sequence=[1, 2, 7], num_time_features=2,
            d_model=24, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=36, decoder_ffn_dim=36, use_cache=False),
    hugging("patchtsmixer", "series", "PatchTSMixerForPrediction", "PatchTSMixerConfig", series, context_length=32,
            patch_length=4, patch_stride=4, num_input_channels=2, d_model=20, num_layers=2, prediction_length=6,
            mode="mix_channel", gated_attn=True),
    hugging("levit", "image", "LevitForImageClassification", "LevitConfig", pixels(2, 64, 64), image_size=64,
            num_channels=2, hidden_sizes=[16, 24], num_attention_heads=[2, 4], depths=[1, 1], key_dim=[6, 6],
            attention_ratio=[2, 2], mlp_ratio=[2, 2], down_ops=[["Subsample", 6, 4, 4, 2, 2], [""]], num_labels=7),
    hugging("hiera", "image", "HieraForImageClassification", "HieraConfig", pixels(2, 32, 32), image_size=[32, 32],
            num_channels=2, embed_dim=8, patch_size=[7, 7], patch_stride=[4, 4], patch_padding=[3, 3], depths=[1, 2],
            num_heads=[2, 4], mlp_ratio=2.0, query_stride=[2, 2], masked_unit_size=[4, 4],
            masked_unit_attention=[True, False], num_query_pool=1, num_labels=7),
    hugging("dpt", "depth", "DPTForDepthEstimation", "DPTConfig", pixels(2, 32, 32), **{**SEEN, "image_size": 32},
            backbone_out_indices=[0, 1], reassemble_factors=[2, 1], neck_hidden_sizes=[10, 14],
            fusion_hidden_size=12, is_hybrid=False),
    hugging("videomae", "film", "VideoMAEForVideoClassification", "VideoMAEConfig", film, **SEEN, num_frames=4,
            tubelet_size=2),
    hugging("wavlm", "sound", "WavLMForSequenceClassification", "WavLMConfig", wave(400), hidden_size=24,
            num_hidden_layers=2, num_attention_heads=4, intermediate_size=36, vocab_size=VOCABULARY, conv_dim=[8, 14],
            conv_stride=[5, 2], conv_kernel=[10, 3], num_feat_extract_layers=2, num_conv_pos_embeddings=8,
            num_conv_pos_embedding_groups=2, apply_spec_augment=False, layerdrop=0.0, num_labels=6,
            classifier_proj_size=20),
    hugging("owlvit", "detection", "OwlViTForObjectDetection", "OwlViTConfig",
            lambda b: {"pixel_values": torch.randn(b, 2, 16, 16), "input_ids": tokens(2 * b, 7)},
            text_config={**READER, "max_position_embeddings": 7}, vision_config=VIEWER,
            projection_dim=24),
    hugging("decision", "control", "DecisionTransformerModel", "DecisionTransformerConfig", played, state_dim=9,
            act_dim=4, hidden_size=24, n_layer=2, n_head=4, n_positions=64, max_ep_len=20, n_inner=36),
    hugging("yolos", "detection", "YolosForObjectDetection", "YolosConfig", pixels(2, 16, 16),
            **{**SEEN, "image_size": [16, 16]}, num_detection_tokens=9, use_mid_position_embeddings=False),
    hugging("swiftformer", "image", "SwiftFormerForImageClassification", "SwiftFormerConfig", pixels(2, 64, 64),
            image_size=64, num_channels=2, depths=[1, 1], embed_dims=[8, 12], mlp_ratio=2, downsamples=[True, True],
            num_labels=7, drop_path_rate=0.0),
    hugging("deepseek", "text", "DeepseekV3ForCausalLM", "DeepseekV3Config", text, **WRITER, q_lora_rank=10,
            kv_lora_rank=14, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=8, n_routed_experts=4,
            num_experts_per_tok=2, n_group=2, topk_group=1, first_k_dense_replace=1, moe_intermediate_size=20,
            num_key_value_heads=4),
)  # fmt: skip
