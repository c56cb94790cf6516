"""Read a model from a folder of ours, or of a form that an extension reads."""

from pathlib import Path

import yaml
from torch import Tensor

from clozeline.configuration.config import adapter_of
from clozeline.errors import ConfigurationError, WeightsError
from clozeline.files import file_hash, read_text
from clozeline.model.checkpoints.checkpoint import Checkpoint, check_shapes, parameter_shapes
from clozeline.model.checkpoints.import_record import (
    IMPORT_RECORD,
    MODEL,
    UNREAD,
    WEIGHTS,
    read_import_record,
)
from clozeline.model.checkpoints.published_forms import explain_no_source, list_sources
from clozeline.model.checkpoints.tensor_files import check_values, read_metadata, read_safetensors
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.quantization import has_integers, restore_integers


def read_checkpoint(
    folder: Path, *, key: str = "", strict: bool = False, quantized: bool = False
) -> Checkpoint:
    """Read a folder of ours (model.yaml), or of a form that an extension reads.

    Args:
        folder: the folder.
        key: configuration key that names it, for messages.
        strict: refuse heads that its type does not have; by default they are skipped, with a note.
        quantized: read integer weights of torchao, too: models can compute with them, but neither
            train nor convert them.

    Raises:
        ConfigurationError: the folder has no such file, or its model is not supported.
        WeightsError: tensors are damaged, unknown, missing, of a wrong shape, or contradict each
            other.
    """
    if (folder / MODEL).is_file():
        return _read_our_folder(folder, quantized=quantized)
    sources = list(list_sources())
    for source in sources:
        if source.holds(folder):
            return source.read(folder, strict=strict, quantized=quantized)
    where = f"{key}: {folder}" if key else str(folder)
    if (folder / IMPORT_RECORD).is_file():
        raise ConfigurationError(f"{where}: {MODEL} is missing; import the model again")
    others = [f"{source.expected}, or " for source in sources]
    message = (
        f"{where}: not a run or model directory: expected {''.join(others)}{MODEL}, as an import "
        "writes it; a run has the folder checkpoints"
    )
    # `finetune` writes a folder of runs
    if runs := sorted(folder.glob("*/checkpoints")) or sorted(folder.glob("*/*/checkpoints")):
        message += f"; it contains runs: choose one, such as {runs[0].parent}"
    raise ConfigurationError(message if sources else f"{message}; {explain_no_source()}")


def _read_our_folder(folder: Path, *, quantized: bool) -> Checkpoint:
    try:
        keys = yaml.safe_load(read_text(folder / MODEL))
        config: ModelConfig = adapter_of(ModelConfig).validate_python(keys)
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigurationError(
            f"{folder / MODEL}: not a valid configuration of a model: {reason}; import the model "
            "again"
        ) from error

    record = read_import_record(folder / IMPORT_RECORD)
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise WeightsError(f"{weights} is missing; import the model again")
    stored = read_safetensors(weights)
    if has_integers(metadata := read_metadata([weights])):
        stored = restore(stored, metadata, folder / MODEL, quantized=quantized)
    unread = {
        name.removeprefix(UNREAD): tensor
        for name, tensor in stored.items()
        if name.startswith(UNREAD)
    }

    tensors = {name: tensor for name, tensor in stored.items() if not name.startswith(UNREAD)}
    # the files must not have changed since the import
    for path, digest in ((folder / MODEL, record.config), (weights, record.weights)):
        if (actual := file_hash(path)) != digest:
            reason = "it was changed after the import; import the model again"
            raise WeightsError(f"{path}: expected xxh3-128 {digest}, got {actual}: {reason}")

    rows = record.vocab_size
    absent = record.absent
    shapes = {
        name: list(shape)
        for name, shape in parameter_shapes(config, rows).items()
        if name not in absent
    }

    check_shapes(tensors, shapes, str(weights))
    check_values(stored, str(weights))
    ids = record.token_ids
    return Checkpoint(
        config,
        rows,
        tensors,
        ids,
        record.model_type,
        (weights,),
        tuple(absent),
        (),
        unread,
        fingerprint=None if record.tokenizer == "tokenizer" else record.tokenizer,
    )


def restore(
    stored: dict[str, Tensor], metadata: dict[str, str], described: Path, *, quantized: bool
) -> dict[str, Tensor]:
    """Return the tensors of a file with integers of torchao; errors name the file `described`."""
    if not quantized:
        raise ConfigurationError(
            f"{described}: has integer weights, which cannot be trained or converted; use the "
            "model that they were made from"
        )

    try:
        return restore_integers(stored, metadata)
    except ValueError as error:
        raise WeightsError(
            f"{described}: its integers cannot be read as those of torchao: {error}; quantize the "
            "model again"
        ) from error
