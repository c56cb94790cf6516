"""Write folders of imported models in our format."""

from pathlib import Path

from clozeline.checksummed_json import add_checksum
from clozeline.configuration.config import adapter_of
from clozeline.configuration.overrides import dump_yaml
from clozeline.extensions.published.conversion.published_texts import CONFIG, find_published
from clozeline.files import file_hash, publish_json, publish_text
from clozeline.hub import origin_of
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.model.checkpoints.import_record import (
    IMPORT_RECORD,
    IMPORT_RECORD_FORMAT,
    MODEL,
    UNREAD,
    WEIGHTS,
)
from clozeline.model.layers.quantization import flatten_integers, holds_integers
from clozeline.tools.model_folder import TOKENIZER, write_tensors
from clozeline.train.data.sets.recorded_sets import fingerprint_of


def write_imported(folder: Path, checkpoint: Checkpoint, source: Path) -> None:
    """Write a model in our format: model.yaml, model.safetensors, then model.json.

    The tokenizer is already there.

    `source` is a folder of transformers, one in our format, or a run.
    """
    files = (MODEL, CONFIG, "config.yaml")
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
        "tokenizer": fingerprint_of(folder / TOKENIZER),
        "published": find_published(source),
    }

    publish_json(folder / IMPORT_RECORD, add_checksum(facts))
