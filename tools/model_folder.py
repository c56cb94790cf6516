"""Folders with a model: written whole, into an empty place, their last file last."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from clozeline.configuration.strict_yaml import dump_yaml
from clozeline.errors import ConfigurationError, StorageError
from clozeline.files import file_hash, publish, publish_json
from clozeline.model.checkpoints import IMPORT_RECORD, IMPORT_RECORD_FORMAT, MODEL, UNREAD, WEIGHTS, Checkpoint
from clozeline.sealed_json import seal

TOKENIZER: Final = "tokenizer"
"""Folder of the tokenizer in a folder with a model."""


def refuse_full(folder: Path) -> None:
    """Refuse a place that holds something."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder}: expected a new or empty folder for the model, it holds something")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, str] | None = None) -> None:
    """Publish tensors as safetensors, each with a storage of its own, and facts beside them.

    Raises:
        StorageError: the file cannot be written.
    """
    with publish(path) as temporary:
        try:
            whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
            save_file(whole, temporary, dict(facts or {"format": "pt"}))
        except SafetensorError as error:
            raise StorageError(f"cannot write {path}: {error}; free some space, or choose another folder") from error
        temporary.chmod(0o644)  # safetensors gives it to its owner alone


def write_imported(folder: Path, checkpoint: Checkpoint, source: Path) -> None:
    """Write a model in our form: model.yaml, model.safetensors, and last model.json; a tokenizer is there already.

    Args:
        folder: new or empty.
        checkpoint: the model.
        source: the folder it was read from.
    """
    config: dict[str, Any] = TypeAdapter(type(checkpoint.config)).dump_python(
        checkpoint.config, mode="json", exclude_none=True
    )
    with publish(folder / MODEL) as temporary:
        temporary.write_text(f"# Imported from {source.name}, type {checkpoint.model_type}\n{dump_yaml(config)}")
    unread = {f"{UNREAD}{name}": tensor for name, tensor in checkpoint.unread.items()}
    write_tensors(folder / WEIGHTS, {**checkpoint.tensors, **unread})
    facts = {
        "format": IMPORT_RECORD_FORMAT,
        "model_type": checkpoint.model_type,
        "vocab_size": checkpoint.vocab_size,
        "token_ids": dict(checkpoint.token_ids),
        "absent": list(checkpoint.absent),
        "source": source.name,
        "files": {path.name: file_hash(path) for path in (source / "config.json", *checkpoint.files)},
        "config": file_hash(folder / MODEL),
        "weights": file_hash(folder / WEIGHTS),
        "tokenizer": TOKENIZER if (folder / TOKENIZER).is_dir() else None,
    }
    publish_json(folder / IMPORT_RECORD, seal(facts))
