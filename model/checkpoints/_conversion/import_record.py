"""model.json of an imported folder: the record of the import, with a checksum of itself."""

import json
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.errors import WeightsError
from clozeline.files import publish_json
from clozeline.model.checkpoints._conversion.tensor_files import read_checkpoint_json

IMPORT_RECORD: Final = "model.json"
IMPORT_RECORD_FORMAT: Final = 1
CONFIG: Final = "config.json"
GENERATION: Final = "generation_config.json"
_PUBLISHED_FILE: Final = "published.json"
"""File of a run with the published config.json and generation_config.json of the model that the run
continues."""


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
    config: str
    """xxh3-128 (hex) of model.yaml"""
    trained: list[str] = field(default_factory=list)
    """parameters of the head that were trained with an imported adapter"""
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


def find_imported_tokenizer(folder: Path) -> Path | None:
    """Return the folder of an imported model's tokenizer; None: it has none, or is not an import.

    The tokenizer may be damaged or missing, which is reported when it is loaded.
    """
    path = folder / IMPORT_RECORD
    name = read_import_record(path).tokenizer if path.is_file() else None
    return None if name is None else folder / name


def find_published(folder: Path) -> dict[str, str]:
    """Return the texts of config.json and generation_config.json that a model was published with.

    The folder is one of transformers, an import, or a run that continues one of them; without these
    texts, the result is empty.
    """
    # the folder is an import
    if (path := folder / IMPORT_RECORD).is_file():
        return read_import_record(path).published
    # the folder is a run that continues a published model
    if (path := folder / _PUBLISHED_FILE).is_file():
        try:
            return {
                str(name): str(text)
                for name, text in verify_checksum(read_checkpoint_json(path), path)[
                    "published"
                ].items()
            }
        except (ValueError, KeyError, AttributeError) as error:
            raise WeightsError(
                f"{path} is damaged: {error}; remove it to export without the published keys"
            ) from error
    # the folder is one of transformers
    files = [folder / name for name in (CONFIG, GENERATION)]
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in files
        if path.is_file() and read_checkpoint_json(path)
    }


def store_published(source: Path, run: Path) -> None:
    """Store the published texts of the model that a run continues, in case its source is lost."""
    if published := find_published(source):
        publish_json(run / _PUBLISHED_FILE, add_checksum({"format": 1, "published": published}))
