"""A random model of a few hundred thousand weights, with the tokenizer of the embedded one."""

from __future__ import annotations

from pathlib import Path

import numpy as np

WIDTH, LAYERS, HEADS, INNER = 64, 2, 2, 128


def write_tiny_model(tokenizer_of: Path, target: Path, *, context: int, seed: int = 0) -> None:
    """Write a random Llama model in 16 bits with another model's tokenizer and template."""
    import gguf

    reader = gguf.GGUFReader(tokenizer_of)
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    n_vocab = 0
    for name, field in reader.fields.items():
        if name.startswith("tokenizer."):
            kind = field.types[0]
            inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, sub_type=inner)
            if name == "tokenizer.ggml.tokens":
                n_vocab = len(field.data)
    rng = np.random.default_rng(seed)

    def weights(name: str, *shape: int, scale: float = 0.2) -> None:
        writer.add_tensor(name, (rng.standard_normal(shape) * scale).astype(np.float16))

    def ones(name: str) -> None:
        writer.add_tensor(name, np.ones(WIDTH, np.float32))

    weights("token_embd.weight", n_vocab, WIDTH, scale=0.3)
    ones("output_norm.weight")
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        ones(f"{block}.attn_norm.weight")
        ones(f"{block}.ffn_norm.weight")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"{block}.{part}.weight", WIDTH, WIDTH)
        weights(f"{block}.ffn_gate.weight", INNER, WIDTH)
        weights(f"{block}.ffn_up.weight", INNER, WIDTH)
        weights(f"{block}.ffn_down.weight", WIDTH, INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
