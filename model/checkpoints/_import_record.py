"""model.json of an imported folder: what the import knew, with a hash of itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import xxhash
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from clozeline.errors import ConfigurationError, WeightsError
from clozeline.model.checkpoints._tensor_files import read_json

IMPORT_RECORD: Final = "model.json"
IMPORT_RECORD_FORMAT: Final = 1


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", strict=True))
class ImportRecord:
    """The content of model.json."""

    format: int
    model_type: str | None
    vocab_size: int
    """rows of the token table"""
    token_ids: dict[str, Any]
    absent: list[str]
    """parameters of the head, where the source holds the body alone"""
    source: str
    files: dict[str, str]
    """xxh3-128 (hex) of each file of the source"""
    weights: str
    """xxh3-128 (hex) of model.safetensors"""
    tokenizer: str | None
    config: str | None = None
    """xxh3-128 (hex) of model.yaml; none where an earlier version imported"""


def read_import_record(path: Path) -> ImportRecord:
    """Read model.json; one of an earlier version holds no hash of itself.

    Raises:
        ConfigurationError: a newer version wrote it.
        WeightsError: it is missing, malformed, or was changed after the import.
    """
    if not path.is_file():
        raise WeightsError(f"{path}: missing, so the import was never finished: import the model again")
    plain = read_json(path)
    checksum = plain.pop("checksum", None)
    if checksum is not None and checksum != _checksum(plain):
        raise WeightsError(f"{path}: changed after the import, its checksum differs; import the model again")
    if isinstance(found := plain.get("format"), int) and found > IMPORT_RECORD_FORMAT:
        raise ConfigurationError(
            f"{path}: format {found} of a newer version, this version reads format {IMPORT_RECORD_FORMAT}: install a "
            "newer Clozeline, or import the model again"
        )
    try:
        facts: ImportRecord = TypeAdapter(ImportRecord).validate_json(json.dumps(plain))
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise WeightsError(f"{path}: {key}: {error.errors()[0]['msg']}; import the model again") from error
    return facts


def find_imported_tokenizer(folder: Path) -> Path | None:
    """Return the folder of the tokenizer that came with an import; None where there was none, or no import was.

    It may be damaged or gone: that shows when it is loaded.
    """
    path = folder / IMPORT_RECORD
    name = read_import_record(path).tokenizer if path.is_file() else None
    return None if name is None else folder / name


def _checksum(plain: dict[str, Any]) -> str:
    """Return the hash of an object's canonical JSON, as the pipeline's sealed files have it."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))
