"""Read the configuration of the model that `model.init_from` or `model.size` names."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from clozeline.configuration.config import adapter_of, load_config, to_data, validate
from clozeline.configuration.overrides import merge
from clozeline.errors import ClozelineError, ConfigurationError, reading_run
from clozeline.hub import fetch_folder
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.sizes import read_size


def with_source(value: object) -> Any:
    """Fill in the keys of the size or model that `size` or `init_from` names.

    The keys of `init_from` are not filled in if a family is configured.

    Examples: `size:bert_base`, only a size; `{size: bert_base, layers: 6}`, a size with another
    number of layers; `{init_from: runs/bert, dropout: {hidden: 0.1}}`, the model of runs/bert with
    another dropout.

    Raises:
        ConfigurationError: there is no such size, or the source is not the folder of a run or a
            model.
    """
    # a size
    value = {"size": value} if isinstance(value, str) else value
    if isinstance(value, Mapping) and isinstance(size := value.get("size"), str):
        changes = {key: part for key, part in value.items() if key != "size"}
        if "family" in changes:
            raise ConfigurationError(
                f"model: expected size or family, got both; model=size:{size} replaces all keys"
            )
        value = merge(ModelConfig, read_size(size.removeprefix("size:")), changes)

    # a run or a model folder
    if not isinstance(value, Mapping) or not isinstance(value.get("init_from") or None, str):
        return value
    value = {**value, "init_from": str(fetch_folder(value["init_from"]))}
    if "family" in value:
        return value
    source = Path(value["init_from"]).expanduser()
    if not source.is_dir():
        raise ConfigurationError(
            f"model.init_from: {source}: no such folder; expected a run, or a folder with a model"
        )

    return {**_read_model_keys(source), **value}


def unset_head_key(model: ModelConfig, head: str, key: str) -> str:
    """Return how to unset a key of a head, which may come from the model in `init_from`."""
    if model.init_from is not None:
        source = with_source({"init_from": str(model.init_from)}).get("heads", {}).get(head)
        if isinstance(source, Mapping) and source.get(key) == to_data(model.heads[head])[key]:
            empty = {"labels": "[]", "multi_label": "false"}.get(key, "null")
            return (
                f"set model.heads.{head}.{key}={empty} for a new head (model.init_from sets the "
                "key)"
            )
    return "remove the key"


def _read_model_keys(source: Path) -> dict[str, object]:
    """Return the keys of the model in a run or a model folder."""
    # a model folder
    run = source / "config.yaml"
    if not run.is_file():
        # imports torch, which most readers of a configuration do not need
        from clozeline.model.checkpoints.reading import read_checkpoint

        checkpoint = read_checkpoint(source, key="model.init_from")
        config = checkpoint.config
        keys: dict[str, object] = adapter_of(type(config)).dump_python(
            config, mode="json", exclude_none=True
        )
        return {**keys, "vocab_multiple": table_multiple(source, checkpoint.vocab_size)}

    # a run
    with reading_run(run, "model.init_from: "):
        model = load_config(dict[str, Any], run).get("model")
        if not isinstance(model, dict):
            raise ConfigurationError(
                f"{run}: expected the configuration of a run, with the key model"
            )
        keys = {key: part for key, part in model.items() if key != "init_from"}
        # validate here: errors then name the file of the run
        validate(ModelConfig, keys, str(run), "model.")

    return keys


_MAX_VOCAB_MULTIPLE: Final = 4096


def row_multiple(rows: int, vocab_size: int) -> int | None:
    """Return the multiple that pads a vocabulary to `rows`, up to 4096, or None.

    Prefers the smallest power of two, then the smallest multiple of 8, then the smallest number
    that adds less than a hundredth: the 151,936 rows of Qwen 2 and 3 are 128 x 1187, for 151,646
    ids or more.
    """
    from clozeline.model.layers.vocabulary import table_rows  # imports torch

    largest = _MAX_VOCAB_MULTIPLE
    powers = (1 << power for power in range(largest.bit_length()))
    numbers = (*powers, *range(8, largest + 1, 8), *range(1, min(largest, rows // 100) + 1))
    return next((number for number in numbers if table_rows(vocab_size, number) == rows), None)


def table_multiple(source: Path, rows: int) -> int:
    """Return `vocab_multiple` of a model folder; 1 if it has no tokenizer of this vocabulary."""
    from clozeline.pipeline.tokenize.published.importing import import_tokenizer

    try:
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = import_tokenizer(source, Path(folder))
    except (ClozelineError, OSError):  # without a usable tokenizer
        return 1

    return row_multiple(rows, tokenizer.vocabulary.size) or 1
