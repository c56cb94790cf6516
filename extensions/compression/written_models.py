"""Write a compressed model so that every tool reads it.

A run becomes a run, a model folder a model folder.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.configuration.config import save_yaml, to_data
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.extensions.compression.methods import Method
from clozeline.extensions.compression.token_rules import TopTokens
from clozeline.extensions.published.conversion.published_texts import store_published
from clozeline.extensions.published.imported_folder import write_imported
from clozeline.files import publish_json, publish_text, read_json
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.tools.model_folder import TOKENIZER
from clozeline.train.checkpoint.part_writer import Snapshot, write_part
from clozeline.train.checkpoint.stored_checkpoint import (
    FROZEN,
    LATEST,
    WEIGHT,
    Index,
    ParameterRecord,
    part_name,
)
from clozeline.train.checkpoint.trained_model import TrainedModel, read_config
from clozeline.train.configuration.config import TrainConfig, frozen
from clozeline.train.data.sets.recorded_sets import SETS_FILE

RECORD: Final = "compression.json"
"""File that says how a folder was compressed."""
_MAX_ANCESTORS: Final = 8
"""Longest chain of runs, each initialized from the next, in which the compressed run is looked
for."""


def write_compressed(
    run: TrainedModel, folder: Path, output: Path, smaller: Checkpoint, method: str
) -> None:
    """Write the smaller model to `folder`, which becomes `output`, next to its tokenizer.

    A run becomes a run: config.yaml with the smaller model, sets.json, and a checkpoint of the same
    step with the weights alone, from which no training resumes. Another folder becomes one as
    `clozeline import-model` writes it.
    """
    if run.config is None:
        write_imported(folder, smaller, run.folder)
    else:
        _write_run(run, folder, output, smaller, method)


def write_tokenizer(folder: Path, source: Path, tokenizer: Path | None) -> None:
    """Write the tokenizer of a run or a folder.

    Raises:
        ConfigurationError: there is no tokenizer: ids of such a model mean nothing.
    """
    try:
        import_tokenizer(tokenizer or source, folder / TOKENIZER)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{source}: expected a model with its tokenizer, found none ({error}); export or "
            "import it with its tokenizer"
        ) from error


def write_record(
    folder: Path, run: TrainedModel, name: str, method: Method, lines: Sequence[str]
) -> None:
    """Write how a folder was compressed, and the paper's claim.

    For a run, also write its training sets.
    """
    report = {
        "method": name,
        "options": to_data(method.options),
        "claim": method.published_result,
        "lines": [*lines],
    }
    publish_json(
        folder / RECORD, add_checksum({"format": 1, **report, "source": str(run.folder.absolute())})
    )
    if run.recorded:
        shutil.copyfile(run.folder / SETS_FILE, folder / SETS_FILE)


def find_claim(folder: Path) -> str:
    """Return the method that made a model smaller, with its claim.

    The model is a folder, or what a run was initialized from.
    """
    for _ in range(_MAX_ANCESTORS):
        if (path := folder / RECORD).is_file():
            try:
                record = verify_checksum(read_json(path) or {}, path, 1)
                return f"{record['method']} {_format_options(record['options'])}: {record['claim']}"
            except (ValueError, KeyError) as error:
                raise IntegrityError(
                    f"{path}: is damaged: {error}; compress the model again"
                ) from error

        if not (folder / "config.yaml").is_file():
            return ""
        config = read_config(folder)
        if (prune := vars(config)["prune"]) is not None:
            return (
                f"{prune.value.name} {_format_options(to_data(prune.value.options))}: "
                f"{prune.value.type.published_result}"
            )

        source = config.model.init_from
        if source is None or not source.expanduser().is_dir():
            return ""
        folder = source.expanduser()

    return ""


def _format_options(options: Mapping[str, Any]) -> str:
    """Return the options of a method as words.

    A claim about other options says little about this model.
    """
    return " ".join(f"{key}={value}" for key, value in options.items() if value is not None)


def _write_run(
    run: TrainedModel, folder: Path, output: Path, smaller: Checkpoint, method: str
) -> None:
    """Write a run directory."""
    assert run.stored is not None, "a run has a checkpoint"
    # the smaller model starts from nothing, and is trained by nothing
    model = replace(smaller.config, adapter=None, init_from=None)
    unset: dict[str, Any] = dict.fromkeys(TrainConfig.ADDED)
    config = replace(
        run.require_config(),
        model=model,
        output=output.absolute(),
        init_parts=(),
        freeze=(),
        regularizer=None,
        hooks=(),
        branch_from=None,
        **unset,
    )
    if rule := run.added.get("token_rule"):
        TopTokens(tuple(rule["shares"])).check(config.model.layers)
    store_published(run.folder, folder)
    save_yaml(to_data(config), folder / "config.yaml")
    # the part: weights in a row
    tensors = {f"{WEIGHT}/{name}": tensor.reshape(-1) for name, tensor in smaller.tensors.items()}
    records = {
        name: ParameterRecord(list(tensor.shape), FROZEN, [WEIGHT], [(0, 0, tensor.numel())])
        for name, tensor in smaller.tensors.items()
    }
    checkpoint = folder / "checkpoints" / f"step-{run.step:08d}"
    checkpoint.mkdir(parents=True)
    written = write_part(Snapshot(tensors, [], {}, [], {}), checkpoint / part_name(0))
    # the index: a training with this output is refused, as its configuration has no such key
    before = frozen(run.require_config())
    after = frozen(config)
    # config.yaml may be edited: what the method leaves alone is as the checkpoint has it
    left = {
        key: run.stored.state.frozen.get(key, value)
        for key, value in after.items()
        if before.get(key) == value
    }

    keys = after | left | {"compress.method": method}
    state = replace(
        run.stored.state, base="", best=None, heldout_loss=None, heldout_losses=(), frozen=keys
    )
    Index(state.as_dict(), {}, records, [], {part_name(0): written.file}).write(checkpoint)
    publish_text(checkpoint.with_name(LATEST), f"{checkpoint.name}\n")
