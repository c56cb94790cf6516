"""Files of a model folder of ours, and model.json: its record, with a checksum of itself."""

import json
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from clozeline.checksummed_json import verify_checksum
from clozeline.errors import WeightsError
from clozeline.files import read_object

IMPORT_RECORD: Final = "model.json"
IMPORT_RECORD_FORMAT: Final = 1
MODEL: Final = "model.yaml"
WEIGHTS: Final = "model.safetensors"
UNREAD: Final = "unread."
"""Prefix of the names of `Checkpoint.unread` in a folder of our own format."""
_JSON_LIMIT: Final = 64 << 20
"""Size in bytes of the largest JSON file that is parsed."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class ImportRecord:
    """The content of model.json."""

    format: int
    model_type: str | None
    vocab_size: int
    """number of rows of the token table"""
    token_ids: dict[str, Any]
    absent: list[str]
    """parameters of the head, if the source only has the body"""
    source: str
    files: dict[str, str]
    """xxh3-128 (hex) of each file of the source"""
    weights: str
    """xxh3-128 (hex) of model.safetensors"""
    tokenizer: str | None
    """fingerprint of the tokenizer in its folder; None without one; earlier versions wrote the name
    of the folder"""
    config: str
    """xxh3-128 (hex) of model.yaml"""
    trained: list[str] = field(default_factory=list)
    """not read: parameters trained with an adapter of peft, which 0.1.0 could import"""
    published: dict[str, str] = field(default_factory=dict)
    """texts of the publisher's config.json and generation_config.json"""


def read_import_record(path: Path) -> ImportRecord:
    """Read model.json.

    Raises:
        NewerFormatError: a newer version wrote it.
        WeightsError: the file is missing, malformed, or was changed after the import.
    """
    # the file must exist, and must not have changed since the import
    if not path.is_file():
        raise WeightsError(
            f"{path} is missing, so the import was not finished: import the model again"
        )

    try:
        content = verify_checksum(read_checkpoint_json(path), path, IMPORT_RECORD_FORMAT)
    except ValueError as error:
        raise WeightsError(
            f"{path} was changed after the import: {error}; import the model again"
        ) from error

    try:
        record: ImportRecord = TypeAdapter(ImportRecord).validate_json(json.dumps(content))
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise WeightsError(
            f"{path}: {key}: {error.errors()[0]['msg']}; import the model again"
        ) from error

    return record


def read_checkpoint_json(path: Path) -> dict[str, Any]:
    """Return the keys of a JSON file.

    Raises:
        WeightsError: the file is too large.
        IntegrityError: it is not valid JSON, or not a mapping.
    """
    if (size := path.stat().st_size) > _JSON_LIMIT:
        raise WeightsError(
            f"{path}: {size} bytes, expected at most {_JSON_LIMIT}; download it again"
        )

    return read_object(path)
