"""The small files of a published model, kept as they are: an export writes them back."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json

SOURCE: Final = "source"
"""Folder of these files in a tokenizer folder."""
GENERATION: Final = "generation_config.json"
_NAMES: Final = frozenset({
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"),
    *("vocab.txt", "vocab.json", "merges.txt", "encoder.json", "vocab.bpe", GENERATION),
})  # fmt: skip
_ENDINGS: Final = (".model", ".tiktoken")
_LARGEST: Final = 1 << 28
"""Bytes of a file; the vocabularies of published models have up to 35 million."""


def copy_source_files(source: Path, folder: Path) -> None:
    """Copy the small files of a published folder, or of the folder of a published file, without following links."""
    parent = source if source.is_dir() else source.parent
    target = folder / SOURCE
    target.mkdir()
    for file in sorted(parent.iterdir()):
        if (file.name in _NAMES or file.suffix in _ENDINGS or file == source) and file.is_file():
            if (size := file.stat().st_size) > _LARGEST:
                raise ConfigurationError(f"{file}: expected at most {_LARGEST:,} bytes in a tokenizer, got {size:,}")
            shutil.copyfile(file, target / file.name)


def read_source(folder: Path | None, name: str) -> dict[str, Any]:
    """Return a JSON file that the publisher of a tokenizer folder gave; empty if there is none."""
    path = None if folder is None else folder / SOURCE / name
    if path is None or not path.is_file():
        return {}
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigurationError(f"{path}: not JSON ({error}); import the model again from files that are") from error
    return content if isinstance(content, dict) else {}


def end_ids(folder: Path | None, default: Iterable[int]) -> set[int]:
    """Return the ids that end a generated text: those of the publisher's generation defaults, else the default."""
    stated = read_source(folder, GENERATION).get("eos_token_id")
    if stated is None:
        return set(default)
    return set(stated) if isinstance(stated, list) else {stated}
