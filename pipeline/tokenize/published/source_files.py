"""The small files of a published model, kept as they are: an export writes them back."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.files import parse_json
from clozeline.hub import is_tokenizer_file

SOURCE: Final = "source"
"""Folder of these files in a tokenizer folder."""
GENERATION: Final = "generation_config.json"
MODEL: Final = "config.json"
_LARGEST: Final = 1 << 28
"""Bytes of a file; the vocabularies of published models have up to 35 million."""


def copy_source_files(source: Path, folder: Path) -> None:
    """Copy the small files of a published folder, or of the folder of a published file; no weights and no code.

    Raises:
        ConfigurationError: a file is too large, or is a link to a file of another folder.
    """
    parent = source if source.is_dir() else source.parent
    root = parent.resolve()
    if root.parent.name == "snapshots":  # the cache of a hub: links lead to `blobs` next to it
        root = root.parents[1]
    for file in sorted((*parent.iterdir(), *parent.glob("*/*.jinja"))):
        name = file.relative_to(parent)
        if not file.is_file() or not (is_tokenizer_file(name.as_posix()) or file == source):
            continue
        if not file.resolve().is_relative_to(root):
            raise ConfigurationError(f"{file}: is a link to a file outside of {root}: copy the file into the folder")
        if (size := file.stat().st_size) > _LARGEST:
            raise ConfigurationError(f"{file}: expected at most {_LARGEST:,} bytes in a tokenizer, got {size:,}")
        target = folder / SOURCE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def kept_files(folder: Path) -> list[Path]:
    """Return the files that the publisher of a tokenizer folder gave, relative to `source/`."""
    kept = folder / SOURCE
    return sorted(file.relative_to(kept) for file in kept.rglob("*") if file.is_file())


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
    """Return the ids that end a generated text: of the publisher's generation defaults or model, else the default."""
    for name in (GENERATION, MODEL):
        if (stated := read_source(folder, name).get("eos_token_id")) is not None:
            ids = stated if isinstance(stated, list) else [stated]
            if not all(type(token) is int and token >= 0 for token in ids):
                raise ConfigurationError(
                    f"{name} of the publisher: eos_token_id: expected an id or a list of ids, got {stated!r}; mend it "
                    "there, and import the model again"
                )
            return set(ids)
    return set(default)
