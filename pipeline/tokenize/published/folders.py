"""Tokenizer folders: find those of Clozeline, and copy the publisher's small files unchanged."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.files import read_object
from clozeline.hub import is_tokenizer_file
from clozeline.pipeline.tokenize.tokenizers._tokenizer import NAME_FILE, VOCABULARY_FILE, read_name

SOURCE: Final = "source"
"""folder of the publisher's files in a tokenizer folder"""
GENERATION: Final = "generation_config.json"
MODEL: Final = "config.json"
"""file with the configuration of the model"""
_MOST_FILE_BYTES: Final = 1 << 28
"""most bytes of a copied file; vocabularies of published models have up to 35 million bytes"""


def copy_source_files(source: Path, folder: Path) -> None:
    """Copy the small files of a published folder (or of the folder of a file).

    Weights and code are not copied.

    Raises:
        ConfigurationError: a file is too large, or links to another folder.
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
            raise ConfigurationError(
                f"{file}: this link leads to a file outside of {root}: copy the file into the "
                "folder"
            )

        if (size := file.stat().st_size) > _MOST_FILE_BYTES:
            raise ConfigurationError(
                f"{file}: a file of a tokenizer has at most {_MOST_FILE_BYTES:,} bytes, this one "
                f"has {size:,}"
            )

        target = folder / SOURCE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def published_files(folder: Path) -> list[Path]:
    """Return the publisher's files of a tokenizer folder, relative to `source/`."""
    source = folder / SOURCE
    return sorted(file.relative_to(source) for file in source.rglob("*") if file.is_file())


def read_source_json(folder: Path | None, name: str) -> dict[str, Any]:
    """Return a JSON file of the publisher; an empty object without this file."""
    return {} if folder is None else read_object(folder / SOURCE / name)


def end_ids(folder: Path | None, default: Iterable[int]) -> set[int]:
    """Return the ids that end a generated text, from the publisher's files, or else `default`."""
    for name in (GENERATION, MODEL):
        if (stated := read_source_json(folder, name).get("eos_token_id")) is not None:
            ids = stated if isinstance(stated, list) else [stated]
            if not all(type(token) is int and token >= 0 for token in ids):
                raise ConfigurationError(
                    f"{name} of the publisher: eos_token_id: expected an id or a list of ids, got "
                    f"{stated!r}; correct it there, and import the model again"
                )
            return set(ids)
    return set(default)


_SUBFOLDERS: Final = (".", "tokenizer", "train_tokenizer/tokenizer", "tokenizer/tokenizer")
"""tokenizer folders relative to a path: the path itself, an imported model, a pipeline output"""


@dataclass(frozen=True)
class ClozelineTokenizer:
    """A tokenizer that Clozeline trained or imported: its algorithm, its folder and its files."""

    algorithm: str
    folder: Path
    files: tuple[Path, ...]


def find_clozeline_tokenizer(path: Path) -> ClozelineTokenizer | None:
    """Find a tokenizer of Clozeline; return None if the path has none.

    The path may be a tokenizer folder, a pipeline output, an imported model or a training run.

    Raises:
        IntegrityError: the name of the algorithm is missing.
    """
    for folder in (path / name for name in _SUBFOLDERS):
        if (folder / VOCABULARY_FILE).is_file() or (
            folder / NAME_FILE
        ).is_file():  # one of them may be missing
            return _read_tokenizer_folder(folder)
    return None


def _read_tokenizer_folder(folder: Path) -> ClozelineTokenizer:
    files = [*folder.iterdir(), *(folder / SOURCE / name for name in published_files(folder))]
    return ClozelineTokenizer(
        read_name(folder), folder, tuple(sorted(path for path in files if path.is_file()))
    )
