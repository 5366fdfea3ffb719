"""Random models of transformers of a few thousand weights, with tokenizers of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CORPUS = (
    "Better or worse, similar or not: which of the two summaries is more coherent than the other? "
    "The better one answers yes and the worse one answers no. Worst of all is one with no end. "
    "user assistant system Read this article and write what it says in one short sentence. "
) * 4
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = ["hello", "there", "world", "the", "cat", "sat", "##s", "##ing", ".", ",", "?"]


def write_tiny_llama(
    folder: Path,
    *,
    template: str | None = CHATML,
    begins: bool = False,
    context: int = 512,
    seed: int = 0,
) -> None:
    """Write a causal model; `begins`: whether its tokenizer puts a token before every text."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _byte_pairs(["<|im_start|>", "<|im_end|>"])
    if begins:
        tokenizer.post_processor = _around("<|im_start|> $A", tokenizer, ["<|im_start|>"])
    wrapped = _wrapped(tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>")
    wrapped.chat_template = template
    wrapped.save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


def write_tiny_bert(folder: Path, *, longest: int = 40) -> None:
    """Write an encoder that knows a few words and all letters."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*specials, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = _around("[CLS] $A [SEP]", tokenizer, ["[CLS]", "[SEP]"])
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    _wrapped(tokenizer, **dict(zip(names, specials, strict=True))).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=longest,
        initializer_range=0.3,
    )
    BertModel(config).save_pretrained(folder)


def write_tiny_roberta(folder: Path, *, positions: int) -> None:
    """Write an encoder whose places count from 2, so that `positions` has room for 2 fewer."""
    import torch
    from transformers import RobertaConfig, RobertaModel

    tokenizer = _byte_pairs(["<s>", "<pad>", "</s>"])
    tokenizer.post_processor = _around("<s> $A </s>", tokenizer, ["<s>", "</s>"])
    names = {"cls_token": "<s>", "bos_token": "<s>", "pad_token": "<pad>"}
    names |= {"sep_token": "</s>", "eos_token": "</s>"}
    _wrapped(tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=positions,
        type_vocab_size=1,
    )
    RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)


def _byte_pairs(specials: list[str]) -> Any:
    """Return a byte-level tokenizer that is trained on a few sentences."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=specials,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([CORPUS], trainer)
    return tokenizer


def _around(pattern: str, tokenizer: Any, specials: list[str]) -> Any:
    from tokenizers import processors

    ids = [(each, tokenizer.token_to_id(each)) for each in specials]
    return processors.TemplateProcessing(single=pattern, special_tokens=ids)


def _wrapped(tokenizer: Any, **names: str) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
