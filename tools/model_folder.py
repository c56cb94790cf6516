"""Write folders with a model, complete or not at all.

The folder must be empty; the file that marks it finished comes last.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from clozeline.checksummed_json import add_checksum
from clozeline.configuration.config import adapter_of
from clozeline.configuration.overrides import dump_yaml
from clozeline.errors import ConfigurationError, StorageError
from clozeline.files import file_hash, publish, publish_json, publish_text
from clozeline.hub import origin_of
from clozeline.model.checkpoints._conversion.adapter_import import PEFT_CONFIG
from clozeline.model.checkpoints._conversion.published_texts import find_published
from clozeline.model.checkpoints._conversion.tensor_files import divide_tensors, weight_files
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.model.checkpoints.import_record import (
    IMPORT_RECORD,
    IMPORT_RECORD_FORMAT,
    MODEL,
    UNREAD,
    WEIGHTS,
)
from clozeline.model.layers.quantization import flatten_integers, holds_integers

TOKENIZER: Final = "tokenizer"
"""Folder of the tokenizer in a folder with a model."""


def require_empty(folder: Path) -> None:
    """Refuse a path that is a file or a folder with content."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(
            f"{folder}: expected a new or empty folder for the model, it is not empty"
        )


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, str] | None = None
) -> None:
    """Publish tensors as safetensors, each with its own storage, and metadata with them."""
    with publish(path) as temporary:
        try:
            contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
            save_file(contiguous, temporary, dict(facts or {"format": "pt"}))
            _sort_metadata(temporary)
        except SafetensorError as error:
            raise StorageError(
                f"cannot write {path}: {error}; free some space, or choose another folder"
            ) from error
        temporary.chmod(0o644)  # safetensors makes it readable only by its owner


def _sort_metadata(path: Path) -> None:
    """Sort the metadata of a safetensors file in place.

    The library writes them in another order each time.
    """
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        content = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        file.seek(8)
        file.write(content.ljust(size))


def write_weights(folder: Path, tensors: Mapping[str, Tensor], max_bytes: int) -> None:
    """Publish `model.safetensors`, or numbered parts and finally `model.safetensors.index.json`."""
    parts, (*names, last) = divide_tensors(tensors, max_bytes), weight_files(tensors, max_bytes)
    if not names:
        write_tensors(folder / last, tensors)
        return
    files: dict[str, str] = {}
    for file, part in zip(names, parts, strict=True):
        write_tensors(folder / file, part)
        files |= dict.fromkeys(part, file)
    size = sum(tensor.nbytes for tensor in tensors.values())
    publish_json(folder / last, {"metadata": {"total_size": size}, "weight_map": files})


def write_imported(folder: Path, checkpoint: Checkpoint, source: Path) -> None:
    """Write a model in our format: model.yaml, model.safetensors, then model.json.

    The tokenizer is already there.

    `source` is a folder of transformers or peft, one in our format, or a run.
    """
    files = (MODEL, "config.json", PEFT_CONFIG, "config.yaml")
    described = next(source / name for name in files if (source / name).is_file())
    config: dict[str, object] = adapter_of(type(checkpoint.config)).dump_python(
        checkpoint.config, mode="json", exclude_none=True
    )
    origin = origin_of(source)
    publish_text(
        folder / MODEL,
        f"# Imported from {origin}, type {checkpoint.model_type}\n{dump_yaml(config)}",
    )
    unread = {f"{UNREAD}{name}": tensor for name, tensor in checkpoint.unread.items()}
    tensors = {**checkpoint.tensors, **unread}
    metadata = None
    if any(map(holds_integers, tensors.values())):
        tensors, metadata = flatten_integers(tensors)
    write_tensors(folder / WEIGHTS, tensors, metadata)
    facts = {
        "format": IMPORT_RECORD_FORMAT,
        "model_type": checkpoint.model_type,
        "vocab_size": checkpoint.vocab_size,
        "token_ids": dict(checkpoint.token_ids),
        "absent": list(checkpoint.absent),
        "source": origin,
        "files": {path.name: file_hash(path) for path in (described, *checkpoint.files)},
        "config": file_hash(folder / MODEL),
        "weights": file_hash(folder / WEIGHTS),
        "tokenizer": TOKENIZER if (folder / TOKENIZER).is_dir() else None,
        **({"trained": list(checkpoint.trained)} if checkpoint.trained else {}),
        "published": find_published(source),
    }

    publish_json(folder / IMPORT_RECORD, add_checksum(facts))
