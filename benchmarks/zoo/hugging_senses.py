"""Models of Hugging Face's transformers that read pictures, sounds and series, alone or beside words."""

from __future__ import annotations

from typing import Final

import torch

from benchmarks.zoo.family import Inputs
from benchmarks.zoo.hugging import READER, SHARED, VIEWER, VOCABULARY, hugging, pixels, shown, sounding, tokens

IMAGE_TOKEN: Final = 2


def hidden_patches(batch: int) -> Inputs:
    return {"pixel_values": torch.randn(batch, 2, 16, 16), "noise": torch.rand(batch, 16)}


def told_with_picture(batch: int) -> Inputs:
    """Return words, among which the places of a picture's patches are kept free."""
    pictured = torch.full((batch, 16), IMAGE_TOKEN)
    return {
        "input_ids": torch.cat([tokens(batch, 2), pictured, tokens(batch, 7)], 1),
        "pixel_values": torch.randn(batch, 2, 16, 16),
    }


def spectrum(batch: int) -> Inputs:
    return {"input_features": torch.randn(batch, 26, 16)}


def spectrum_and_noise(batch: int) -> Inputs:
    return {"input_features": torch.randn(batch, 14, 10), "noise_sequence": torch.randn(batch, 14, 12)}


def pasts(batch: int) -> Inputs:
    return {"past_values": torch.randn(batch, 24), "freq": [0] * batch}


SENSES: Final = (
    hugging("hgnet_v2", "image", "HGNetV2ForImageClassification", "HGNetV2Config", pixels(2, 32, 32), num_channels=2,
            embedding_size=8, hidden_sizes=[18, 22], depths=[1, 2], stem_channels=[2, 6, 8], stage_in_channels=[8, 18],
            stage_mid_channels=[5, 7], stage_out_channels=[18, 22], stage_num_blocks=[1, 2],
            stage_downsample=[False, True], stage_light_block=[False, True], stage_kernel_size=[3, 5],
            stage_numb_of_layers=[2, 2], use_learnable_affine_block=True, num_labels=7),
    hugging("cvt", "image", "CvtForImageClassification", "CvtConfig", pixels(2, 32, 32), num_channels=2,
            patch_sizes=[7, 3], patch_stride=[4, 2], patch_padding=[2, 1], embed_dim=[8, 18], num_heads=[2, 3],
            depth=[1, 2], mlp_ratio=[2.0, 3.0], attention_drop_rate=[0.0, 0.0], drop_rate=[0.0, 0.0],
            drop_path_rate=[0.0, 0.0], qkv_bias=[True, True], cls_token=[False, True],
            qkv_projection_method=["dw_bn", "dw_bn"], kernel_qkv=[3, 3], padding_kv=[1, 1], stride_kv=[2, 2],
            padding_q=[1, 1], stride_q=[1, 1], num_labels=7),
    hugging("swin2sr", "image", "Swin2SRForImageSuperResolution", "Swin2SRConfig", pixels(2, 16, 16), image_size=16,
            num_channels=2, embed_dim=12, depths=[2, 1], num_heads=[2, 4], window_size=4, mlp_ratio=3.0,
            drop_path_rate=0.0, upscale=2, upsampler="pixelshuffledirect"),
    hugging("deformable_detr", "detection", "DeformableDetrForObjectDetection", "DeformableDetrConfig",
            pixels(2, 64, 64), num_channels=2, backbone_config={"model_type": "resnet", "num_channels": 2,
            "embedding_size": 8, "hidden_sizes": [10, 14], "depths": [1, 1], "layer_type": "basic",
            "out_features": ["stage1", "stage2"]}, num_queries=9, encoder_layers=1, decoder_layers=2, d_model=32,
            encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=36, decoder_ffn_dim=28,
            num_feature_levels=2, encoder_n_points=2, decoder_n_points=2, with_box_refine=True, num_labels=7,
            disable_custom_kernels=True),
    hugging("vit_mae", "image", "ViTMAEForPreTraining", "ViTMAEConfig", hidden_patches, **VIEWER,
            decoder_num_attention_heads=2, decoder_hidden_size=16, decoder_num_hidden_layers=1,
            decoder_intermediate_size=26, mask_ratio=0.5),
    hugging("encodec", "sound", "EncodecModel", "EncodecConfig", sounding, target_bandwidths=[6.0], hidden_size=14,
            num_filters=4, upsampling_ratios=[4, 2], num_lstm_layers=1, codebook_size=16, sampling_rate=4000),
    hugging("parakeet", "sound", "ParakeetForCTC", "ParakeetCTCConfig", spectrum, vocab_size=VOCABULARY,
            pad_token_id=0, encoder_config={"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 36, "conv_kernel_size": 5, "subsampling_factor": 4, "subsampling_conv_channels": 10,
            "num_mel_bins": 16, "layerdrop": 0.0, "max_position_embeddings": 40}),
    hugging("univnet", "sound", "UnivNetModel", "UnivNetConfig", spectrum_and_noise, model_in_channels=12,
            model_hidden_channels=8, num_mel_bins=10, resblock_kernel_sizes=[3, 3], resblock_stride_sizes=[4, 2],
            resblock_dilation_sizes=[[1, 3], [1, 3]], kernel_predictor_num_blocks=1,
            kernel_predictor_hidden_channels=12),
    hugging("llava", "image and text", "LlavaForConditionalGeneration", "LlavaConfig", told_with_picture,
            text_config={"model_type": "llama", **SHARED, "max_position_embeddings": 50},
            vision_config={"model_type": "clip_vision_model", **VIEWER, "hidden_size": 28, "intermediate_size": 30,
                           "projection_dim": 20},
            image_token_index=IMAGE_TOKEN, image_seq_length=16, vision_feature_layer=-1),
    hugging("clipseg", "image and text", "CLIPSegForImageSegmentation", "CLIPSegConfig", shown,
            text_config={**READER, "max_position_embeddings": 9, "bos_token_id": 1, "eos_token_id": 2,
                         "pad_token_id": 0},
            vision_config={**VIEWER, "hidden_size": 28}, projection_dim=20, extract_layers=[0, 1], reduce_dim=16,
            decoder_intermediate_size=26),
    hugging("timesfm", "series", "TimesFmModelForPrediction", "TimesFmConfig", pasts, patch_length=6,
            context_length=24, horizon_length=8, num_hidden_layers=2, hidden_size=20, intermediate_size=26, head_dim=5,
            num_attention_heads=4, quantiles=[0.1, 0.5, 0.9]),
)  # fmt: skip
