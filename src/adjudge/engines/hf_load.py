"""Folders of transformers: what may be loaded out of them, and how."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from adjudge.cache import file_hash
from adjudge.errors import ConfigError
from adjudge.schema import content_hash

DTYPES = ("float32", "bfloat16", "float16")
DEVICES = ("cpu", "cuda")
#: Tokens whose states are held while texts are written, for each that is evaluated at a time.
HELD = 8
#: Tokens that are evaluated together: the least, and what is enough to be as fast as can be.
LEAST_BATCH = 64
MOST_ON_A_CPU = 2048
MOST_ON_A_GPU = 16384
#: What makes a model's numbers what they are: weights, configuration and tokenizer.
PARTS = (
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
    "*.model",
)


class Loaded(NamedTuple):
    """A model and its tokenizer, and whether the model writes: a causal one."""

    model: Any
    tokenizer: Any
    causal: bool


def load(folder: Path, name: str, *, dtype: str, device: str) -> Loaded:
    """Return the model of a folder, in evaluation mode.

    Only safetensors are read and no code of a model's own is run.

    Raises
    ------
    ConfigError
        If the folder holds no model of transformers that this engine can use.
    """
    transformers = imported("transformers")
    local = {"local_files_only": True, "trust_remote_code": False}
    _check_files(folder)
    with loading(folder), quiet():
        config = transformers.AutoConfig.from_pretrained(folder, **local)
        causal = _is_causal(config, name)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **local)
        kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModel
        model, report = kind.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, output_loading_info=True, **local
        )
    if missing := sorted(key for key in report["missing_keys"] if "pooler" not in key):
        raise ConfigError(
            f"the weights in {str(folder)!r} lack {len(missing)} that the model needs, such as "
            f"{missing[0]!r}: they are for another kind of model, or incomplete"
        )
    if not tokenizer.is_fast:
        raise ConfigError(
            f"the tokenizer in {str(folder)!r} cannot say which characters its tokens stand for; "
            "a model with a tokenizer.json is needed"
        )
    return Loaded(model.to(device).eval(), tokenizer, causal)


def folder_hash(folder: Path) -> str:
    """Return a sha256 over the weights, configuration and tokenizer of a folder."""
    files = {path.name: path for part in PARTS for path in folder.glob(part) if path.is_file()}
    return content_hash({name: file_hash(files[name]) for name in sorted(files)})


def chosen_device(asked: str | None) -> str:
    """Return ``cuda`` or ``cpu``: as asked, or what there is."""
    there = imported("torch").cuda.is_available()
    if asked == "cuda" and not there:
        raise ConfigError("device=cuda: torch finds no GPU here; leave it out to use the CPU")
    return asked or ("cuda" if there else "cpu")


def usual_dtype(device: str) -> str:
    """Return 32 bits for a CPU and 16 for a GPU, with the range of 32 where it has them."""
    if device == "cpu":
        return "float32"
    return "bfloat16" if imported("torch").cuda.is_bf16_supported() else "float16"


def usual_batch(model: Any) -> int:
    """Return how many tokens a quarter of the device's free memory can evaluate together.

    Beyond a few thousand a larger batch is no faster.
    """
    import psutil
    import torch

    config = model.config.get_text_config()
    hidden, n_heads = (
        int(config.hidden_size),
        int(getattr(config, "num_attention_heads", None) or 1),
    )
    inner = int(getattr(config, "intermediate_size", None) or 4 * hidden)
    width = int(getattr(config, "head_dim", None) or hidden // n_heads)
    states = 2 * width * int(getattr(config, "num_key_value_heads", None) or n_heads)
    numbers = HELD * int(config.num_hidden_layers) * states + 8 * hidden + 4 * inner
    if model.device.type == "cuda":
        free, most = torch.cuda.mem_get_info(model.device)[0], MOST_ON_A_GPU
    else:
        free, most = psutil.virtual_memory().available, MOST_ON_A_CPU
    return max(LEAST_BATCH, min(most, int(free // (4 * numbers * model.dtype.itemsize))))


def imported(package: str) -> Any:
    """Return torch or transformers, or say how to get them."""
    from importlib import import_module

    try:
        return import_module(package)
    except ImportError as error:
        raise ConfigError(
            "the hf engine needs torch and transformers: pip install 'adjudge[hf]'"
        ) from error


@contextmanager
def loading(path: Path) -> Iterator[None]:
    """Say in one line what transformers does not like about a file or a folder."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:  # tokenizers and safetensors raise nothing narrower
        reason = (str(error).strip().splitlines() or [repr(error)])[0]
        raise ConfigError(f"transformers cannot load {str(path)!r}: {reason}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from drawing bars and writing remarks for as long as this lasts."""
    logging = imported("transformers").logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _check_files(folder: Path) -> None:
    """Raise ConfigError if a folder holds no configuration or no weights that are safe to load."""
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"{str(folder)!r} holds no config.json; the hf engine takes a folder as "
            "transformers' save_pretrained writes it"
        )
    if any(folder.glob("*.safetensors")):
        return
    unsafe = [path.name for kind in ("*.bin", "*.pt", "*.pth") for path in folder.glob(kind)]
    if unsafe:
        raise ConfigError(
            f"{str(folder)!r} has its weights only in {unsafe[0]}, a format that can run any "
            "code when it is loaded; only *.safetensors are read: take a revision that has "
            "them, or save the model again with transformers"
        )
    raise ConfigError(f"{str(folder)!r} holds no weights: no *.safetensors")


def _is_causal(config: Any, name: str) -> bool:
    """Return whether a model writes; False: it turns texts into vectors."""
    from transformers.models.auto import modeling_auto

    kinds = list(getattr(config, "architectures", None) or ())
    shown = ", ".join(kinds) or config.model_type
    if config.is_encoder_decoder or any("ConditionalGeneration" in kind for kind in kinds):
        raise ConfigError(
            f"{name} is a {shown}; the hf engine takes causal language models and encoders of text"
        )
    causal = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if kinds:
        return bool(set(kinds) & set(causal.values()))
    return (
        config.model_type in causal
        and config.model_type not in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    )
