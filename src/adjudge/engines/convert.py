"""The same weights in another format: 16 bits, or a folder of transformers."""

from __future__ import annotations

import io
import tempfile
from contextlib import redirect_stderr
from pathlib import Path

from adjudge.engines.hf_load import DTYPES, imported, loading, quiet
from adjudge.engines.models import resolve
from adjudge.errors import ConfigError


def write_half_precision(source: Path, target: Path) -> None:
    """Write a GGUF file with the same weights as `source` in 16 bits."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, entry in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        if name == "general.file_type":
            writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
            continue
        kind = entry.types[0]
        inner = entry.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, entry.contents(), kind, sub_type=inner)
    for tensor in reader.tensors:
        kept = tensor.tensor_type == gguf.GGMLQuantizationType.F32
        data = tensor.data if kept else gguf.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, data if kept else data.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_folder(reference: str, folder: Path, *, dtype: str = "float32") -> None:
    """Write a GGUF model, its tokenizer and its chat template as a folder of transformers.

    Parameters
    ----------
    reference
        A known name, or a path to a ``.gguf`` file.
    folder
        A folder that is empty or not there yet.
    dtype
        What weights are kept as: ``float32``, ``float16`` or ``bfloat16``.

    Raises
    ------
    ConfigError
        If the model is not there, transformers cannot read it, or the folder has files in it.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype must be {' or '.join(DTYPES)}, not {dtype!r}")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise ConfigError(f"{str(folder)!r} is not an empty folder; name a new one")
    path = resolve(reference).path
    if not path.is_file():
        raise ConfigError(f"there is no model file {str(path)!r}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".convert-") as work:
        part = Path(work, "folder")
        # a bar that transformers draws whatever it is told goes to the stream
        with loading(path), quiet(), redirect_stderr(io.StringIO()):
            _write_part(path, part, dtype)
        part.replace(folder)


def _write_part(path: Path, part: Path, dtype: str) -> None:
    """Write a model that transformers reads from GGUF.

    That object remembers that it was quantised and refuses to be saved, so its weights go into a
    new one.
    """
    transformers, torch = imported("transformers"), imported("torch")
    source = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    read = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    config = read.config
    del config.quantization_config
    with torch.device("meta"):
        fresh = type(read)(config)
    fresh.load_state_dict(read.state_dict(), assign=True)
    fresh.tie_weights()
    fresh.to(getattr(torch, dtype)).save_pretrained(part)
    transformers.AutoTokenizer.from_pretrained(**source).save_pretrained(part)
