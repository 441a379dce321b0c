"""Families that whoever changes the remover has not seen: the first figure over them is the one that counts.

They are frozen. ``benchmarks.zoo.contact.digest()`` is printed with every result, so that everybody can see whether
two results are of the same ones. Families that were unseen once, and no longer are, stand in other modules.

Those of Hugging Face are from ``python -m benchmarks.zoo.drawing`` with transformers 5.23.0: three from the front of
CAUSAL_LM, two of MASKED_LM, IMAGE_CLASSIFICATION and IMAGE_TEXT_TO_TEXT, one of each other line. Passed over were near
copies of what there is (pegasus, biogpt, xglm, cwm, trocr, starcoder2, exaone4; rembert, roc_bert, eurobert, ernie;
those of IMAGE_CLASSIFICATION between mobilevit and siglip2; data2vec-audio, altclip, tapas, plbart), what gives as many
results as it finds (superpoint, vits), and what is reached only while something is generated (diffusion_gemma,
qwen2_5_omni, csm, bark). The line of SEQ_TO_SEQ_CAUSAL_LM goes on with speech, of which there is one.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from benchmarks.zoo.family import Inputs
from benchmarks.zoo.hugging import READER, SHARED, VOCABULARY, hugging, pixels, text, tokens
from benchmarks.zoo.unseen_pictures import PICTURES
from benchmarks.zoo.unseen_records import RECORDS
from benchmarks.zoo.unseen_sequences import SEQUENCES
from benchmarks.zoo.unseen_torch import TORCH

STRIPES: Final[dict[str, Any]] = {
    "reduce_channel": [1, 1, 0], "return_channel": [1, 1, 0],
    **{f"vertical_long_to_small_conv_{ratio}ratio": [[size, 1], 1, [size // 2, 0]]
       for ratio, size in (("long", 7), ("mid", 5), ("short", 3))},
    **{f"horizontal_small_to_long_conv_{ratio}ratio": [[1, size], 1, [0, size // 2]]
       for ratio, size in (("long", 7), ("mid", 5), ("short", 3))},
    **{f"symmetric_conv_long_{ratio}ratio": [size, 1, size // 2]
       for ratio, size in (("long", 7), ("mid", 5), ("short", 3))},
}  # fmt: skip
EXPERTS: Final[dict[str, Any]] = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
IMAGE_TOKEN: Final = 2
TWO_WAYS: Final = ["sliding_attention", "full_attention"]


def mel(length: int, bands: int) -> Any:
    return lambda batch: {"input_features": torch.randn(batch, length, bands)}


def film(batch: int) -> Inputs:
    return {"pixel_values_videos": torch.randn(batch, 4, 2, 16, 16)}


def patches(batch: int) -> Inputs:
    """Return patches of pictures, of which every other one is flat and has two fewer."""
    shapes = torch.tensor([[3, 4], [2, 5]]).repeat(batch, 1)[:batch]
    there = torch.arange(12) < shapes.prod(1, keepdim=True)
    return {
        "pixel_values": torch.randn(batch, 12, 32), "pixel_attention_mask": there.long(), "spatial_shapes": shapes,
    }  # fmt: skip


def told_aloud(batch: int) -> Inputs:
    return {"input_features": torch.randn(batch, 24, 10), "decoder_input_ids": tokens(batch, 7)}


def form(batch: int) -> Inputs:
    corner, size = torch.randint(0, 9, (batch, 9, 2)), torch.randint(1, 9, (batch, 9, 2))
    return {
        "input_ids": tokens(batch, 9), "bbox": torch.cat([corner, corner + size], -1) / 18,
        "pixel_values": torch.randn(batch, 2, 16, 16), "decoder_input_ids": tokens(batch, 7),
    }  # fmt: skip


def pictured(batch: int) -> Inputs:
    """Return words, among which one place is kept free for a patch of a film."""
    place = torch.full((batch, 1), IMAGE_TOKEN)
    return {
        "input_ids": torch.cat([tokens(batch, 2), place, tokens(batch, 7)], 1),
        "pixel_values": torch.randn(batch, 2, 4, 4, 3),
    }


def coloured_and_read(batch: int) -> Inputs:
    return {"input_ids": tokens(batch, 9), "pixel_values": torch.randn(batch, 3, 16, 16)}


def pasts(batch: int) -> Inputs:
    return {"past_values": torch.randn(batch, 24)}


CONFIGURED: Final = (
    hugging("cohere_compass", "text", "CohereCompassForCausalLM", "CohereCompassTextConfig", text, **SHARED,
            sliding_window=5, layer_types=TWO_WAYS, logit_scale=0.7,
            rope_parameters={way: {"rope_type": "default", "rope_theta": 900.0, "mrope_section": [1, 1, 1]}
                             for way in TWO_WAYS}),
    hugging("flint", "text", "FlintForCausalLM", "FlintConfig", text, **SHARED, **EXPERTS, sliding_window=5,
            layer_types=TWO_WAYS, num_experts=4, shared_expert_intermediate_size=18, mlp_only_layers=[0]),
    hugging("mimo_v2_flash", "text", "MiMoV2FlashForCausalLM", "MiMoV2FlashConfig", text, **SHARED, **EXPERTS,
            sliding_window=5, layer_types=TWO_WAYS, n_routed_experts=4, v_head_dim=5),
    hugging("gte", "text", "GteForMaskedLM", "GteConfig", text, **READER, pad_token_id=0),
    hugging("esmc", "protein", "EsmcForMaskedLM", "EsmcConfig", text, **READER, head_dim=6, num_key_value_heads=4,
            mask_token_id=2),
    hugging("mobilevit", "image", "MobileViTForImageClassification", "MobileViTConfig", pixels(2, 32, 32),
            num_channels=2, image_size=32, hidden_sizes=[12, 16, 20], neck_hidden_sizes=[6, 8, 10, 12, 14, 18, 26],
            num_attention_heads=2, expand_ratio=2.0, initializer_range=0.7, num_labels=7),
    hugging("siglip2", "image", "Siglip2ForImageClassification", "Siglip2Config", patches,
            vision_config={"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 36, "num_channels": 2, "patch_size": 4, "num_patches": 16}, num_labels=7),
    hugging("pp_ocrv6_medium_det", "detection", "PPOCRV6MediumDetForObjectDetection", "PPOCRV6MediumDetConfig",
            pixels(3, 64, 64), neck_out_channels=24, scale_factor_list=[1, 2, 4, 8], kernel_list=[3, 2, 2],
            intraclass_block_number=4, intraclass_block_config=STRIPES, backbone_config={"model_type": "pp_lcnet_v4",
            "stem_channels": [3, 6, 8], "block_configs": [[[3, 8, 8, 1, True]], [[3, 8, 12, 2, False]],
            [[3, 12, 16, 2, False]], [[3, 16, 20, 2, True]]],
            "out_features": ["stage1", "stage2", "stage3", "stage4"]}),
    hugging("oneformer", "segmentation", "OneFormerForUniversalSegmentation", "OneFormerConfig",
            lambda b: {"pixel_values": torch.randn(b, 2, 64, 64), "task_inputs": torch.randint(1, 40, (b, 9))},
            backbone_config={"model_type": "swin", "image_size": 64, "patch_size": 4, "num_channels": 2,
            "embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [2, 2, 2, 2], "window_size": 2,
            "drop_path_rate": 0.0, "out_features": ["stage1", "stage2", "stage3", "stage4"]}, num_queries=9,
            task_seq_len=9, text_encoder_width=16, text_encoder_context_length=9, text_encoder_num_layers=1,
            text_encoder_vocab_size=40, conv_dim=32, mask_dim=32, hidden_dim=32, encoder_feedforward_dim=28,
            dim_feedforward=36, encoder_layers=1, decoder_layers=2, num_attention_heads=4, num_labels=7),
    hugging("tipsv2_dpt", "segmentation", "Tipsv2DptForSemanticSegmentation", "Tipsv2DptConfig", pixels(2, 16, 16),
            backbone_config={"model_type": "tipsv2_vision_model", "hidden_size": 24, "num_hidden_layers": 2,
            "num_attention_heads": 4, "image_size": 16, "patch_size": 4, "num_channels": 2,
            "out_features": ["stage1", "stage2"], "reshape_hidden_states": False}, neck_hidden_sizes=[6, 10],
            reassemble_factors=[2, 1], fusion_hidden_size=12, num_labels=7),
    hugging("depth_pro", "depth", "DepthProForDepthEstimation", "DepthProConfig", pixels(2, 32, 32), patch_size=16,
            fusion_hidden_size=12, intermediate_hook_ids=[1, 0], intermediate_feature_dims=[10, 12],
            scaled_images_ratios=[0.5, 1.0], scaled_images_overlap_ratios=[0.0, 0.25],
            scaled_images_feature_dims=[14, 16], merge_padding_value=1, use_batch_norm_in_fusion_residual=True,
            use_fov_model=True, num_fov_head_layers=1,
            **{f"{who}_model_config": {"model_type": "dinov2", "hidden_size": 24, "num_hidden_layers": 2,
               "num_attention_heads": 4, "mlp_ratio": 2, "image_size": 16, "patch_size": 4, "num_channels": 2,
               "use_mask_token": False} for who in ("image", "patch", "fov")}),
    hugging("granite_speech5_ctc", "sound", "GraniteSpeech5ForCTC", "GraniteSpeech5CTCConfig", mel(26, 40),
            vocab_size=VOCABULARY, encoder_config={"vocab_size": VOCABULARY, "hidden_size": 24,
            "intermediate_size": 36, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
            "num_mel_bins": 10, "head_dim": 6, "context_size": 7, "conv_kernel_size": 5, "subsample_layers": [0]}),
    hugging("wav2vec2_bert", "sound", "Wav2Vec2BertForSequenceClassification", "Wav2Vec2BertConfig", mel(22, 10),
            hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=36, vocab_size=VOCABULARY,
            feature_projection_input_dim=10, apply_spec_augment=False, layerdrop=0.0, conv_depthwise_kernel_size=5,
            left_max_position_embeddings=6, right_max_position_embeddings=4, classifier_proj_size=20, num_labels=6),
    hugging("seamless_m4t_v2", "sound", "SeamlessM4Tv2ForSpeechToText", "SeamlessM4Tv2Config", told_aloud,
            vocab_size=VOCABULARY, hidden_size=24, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=36,
            decoder_ffn_dim=36, encoder_attention_heads=4, decoder_attention_heads=4, max_position_embeddings=40,
            encoder_layerdrop=0.0, decoder_layerdrop=0.0, speech_encoder_layers=2, speech_encoder_attention_heads=4,
            speech_encoder_intermediate_size=36, speech_encoder_layerdrop=0.0, feature_projection_input_dim=10,
            conv_depthwise_kernel_size=5, speech_encoder_chunk_size=9, adaptor_kernel_size=4, adaptor_stride=4,
            left_max_position_embeddings=6, right_max_position_embeddings=4, use_cache=False),
    hugging("vjepa2", "film", "VJEPA2ForVideoClassification", "VJEPA2Config", film, patch_size=4, crop_size=16,
            frames_per_clip=4, tubelet_size=2, hidden_size=24, in_chans=2, num_attention_heads=2, num_hidden_layers=2,
            mlp_ratio=2.0, num_pooler_layers=1, pred_hidden_size=24, pred_num_attention_heads=2,
            pred_num_hidden_layers=1, pred_num_mask_tokens=2, num_labels=7),
    hugging("inkling", "image and text", "InklingForConditionalGeneration", "InklingConfig", pictured,
            text_config={**{name: size for name, size in SHARED.items() if name != "use_cache"}, **EXPERTS,
            "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 6, "sliding_window_size": 5,
            "d_rel": 5, "rel_extent": 20, "layer_types": ["hybrid_sliding", "hybrid"],
            "mlp_layer_types": ["dense", "sparse"], "conv_kernel_size": 3, "n_routed_experts": 4,
            "n_shared_experts": 1, "logits_mup_width_multiplier": 2.0, "route_scale": 1.5},
            audio_config={"n_mel_bins": 6, "mel_vocab_size": 8},
            vision_config={"patch_size": 4, "temporal_patch_size": 2, "num_channels": 3, "hidden_size": 20,
                           "num_hidden_layers": 2, "num_attention_heads": 4}, image_token_id=IMAGE_TOKEN,
            audio_token_id=1, image_bos_token_id=0, audio_bos_token_id=1),
    hugging("udop", "image and text", "UdopForConditionalGeneration", "UdopConfig", form, vocab_size=VOCABULARY,
            d_model=24, d_kv=6, d_ff=36, num_layers=2, num_decoder_layers=1, num_heads=4, image_size=16, patch_size=4,
            num_channels=2, max_2d_position_embeddings=50, use_cache=False),
    hugging("blip_2", "image and text", "Blip2ForImageTextRetrieval", "Blip2Config", coloured_and_read,
            vision_config={"hidden_size": 28, "intermediate_size": 36, "num_hidden_layers": 1,
                           "num_attention_heads": 4, "image_size": 16, "patch_size": 4},
            qformer_config={**READER, "encoder_hidden_size": 28, "pad_token_id": 0,
                            "use_qformer_text_input": True}, num_query_tokens=6,
            image_text_hidden_size=18),
    hugging("timesfm2_5", "series", "TimesFm2_5ModelForPrediction", "TimesFm2_5Config", pasts, patch_length=6,
            context_length=24, horizon_length=8, num_hidden_layers=2, hidden_size=20, intermediate_size=26, head_dim=6,
            num_attention_heads=4, num_key_value_heads=4, quantiles=[0.1, 0.5, 0.9], output_quantile_len=8,
            decode_index=1),
)  # fmt: skip

UNSEEN: Final = (*PICTURES, *SEQUENCES, *RECORDS, *TORCH, *CONFIGURED)
