"""Random models of a few hundred thousand weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

WIDTH, LAYERS, HEADS, INNER = 64, 2, 2, 128


def write_tiny_model(tokenizer_of: Path, target: Path, *, context: int, seed: int = 0) -> None:
    """Write a random Llama model in 16 bits with another model's tokenizer and template."""
    import gguf

    reader = gguf.GGUFReader(tokenizer_of)
    writer = _writer(target, context)
    for name, field in reader.fields.items():
        if name.startswith("tokenizer."):
            kind = field.types[0]
            inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, sub_type=inner)
    _write_weights(writer, len(reader.fields["tokenizer.ggml.tokens"].data), seed)


def write_tiny_sentencepiece_model(target: Path, *, template: str, words: list[str]) -> None:
    """Write a random model whose tokenizer is of the SentencePiece kind, as Llama 2's is.

    It knows single letters and `words`, each also with a blank before it, and puts a blank
    before every text and a beginning-of-text token before every prompt.
    """

    pieces: dict[str, float] = {}
    for word in words:
        for text, weight in ((f"\u2581{word}", 2.0), (word, 1.0)):
            pieces |= {text[:n]: weight * n for n in range(2, len(text) + 1)}
    letters = [chr(code) for code in range(33, 127)] + ["\u2581"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (len(letters) + len(pieces))
    scores = [0.0] * len(tokens) + [-1.0] * len(letters) + list(pieces.values())
    tokens += letters + list(pieces)
    writer = _writer(target, 512)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(True)
    writer.add_chat_template(template)
    _write_weights(writer, len(tokens), 0)


def write_tiny_adapter(target: Path, *, seed: int = 0) -> None:
    """Write a random LoRA adapter of rank 2 for the query weights of the tiny models."""
    import gguf

    writer = gguf.GGUFWriter(target, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 4.0)
    rng = np.random.default_rng(seed)
    for layer in range(LAYERS):
        name = f"blk.{layer}.attn_q.weight"
        for part, shape in (("lora_a", (2, WIDTH)), ("lora_b", (WIDTH, 2))):
            writer.add_tensor(f"{name}.{part}", rng.standard_normal(shape).astype(np.float32))
    _finish(writer)


def _writer(target: Path, context: int) -> Any:
    import gguf

    writer = gguf.GGUFWriter(target, "llama")
    writer.add_context_length(context)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    return writer


def _write_weights(writer: Any, n_vocab: int, seed: int) -> None:
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
    _finish(writer)


def _finish(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
