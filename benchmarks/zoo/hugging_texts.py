"""Models of Hugging Face's transformers that read and write texts."""

from __future__ import annotations

from typing import Final

from benchmarks.zoo.hugging import DECODER, READER, SHARED, VOCABULARY, WRITER, hugging, pair, text

TEXTS: Final = (
    hugging("convbert", "text", "ConvBertForTokenClassification", "ConvBertConfig", text, **READER, embedding_size=14,
            head_ratio=2, conv_kernel_size=5, num_groups=2, num_labels=6),
    hugging("gemma2", "text", "Gemma2ForCausalLM", "Gemma2Config", text, **SHARED, query_pre_attn_scalar=6,
            sliding_window=5),
    hugging("diffllama", "text", "DiffLlamaForCausalLM", "DiffLlamaConfig", text, **SHARED),
    hugging("falcon_h1", "text", "FalconH1ForCausalLM", "FalconH1Config", text,
            **{**WRITER, "num_key_value_heads": 2}, mamba_d_ssm=30, mamba_n_heads=5,
            mamba_d_head=6, mamba_d_state=7, mamba_d_conv=3, mamba_chunk_size=8, mamba_rms_norm=True,
            embedding_multiplier=1.5, key_multiplier=0.7, attention_out_multiplier=0.8, ssm_out_multiplier=1.2),
    hugging("jetmoe", "text", "JetMoeForCausalLM", "JetMoeConfig", text,
            **{name: size for name, size in DECODER.items() if name != "num_attention_heads"} | {
                "num_hidden_layers": 2}, num_key_value_heads=2, kv_channels=6, num_local_experts=4,
            num_experts_per_tok=2),
    hugging("minimax", "text", "MiniMaxForCausalLM", "MiniMaxConfig", text, **SHARED, num_local_experts=4,
            num_experts_per_tok=2, block_size=4, layer_types=["linear_attention", "full_attention"]),
    hugging("longt5", "text", "LongT5ForConditionalGeneration", "LongT5Config", pair, vocab_size=VOCABULARY,
            d_model=24, d_kv=6, d_ff=36, num_layers=2, num_decoder_layers=1, num_heads=4, local_radius=4,
            global_block_size=4, encoder_attention_type="transient-global", feed_forward_proj="gated-gelu",
            use_cache=False, decoder_start_token_id=0),
)  # fmt: skip
