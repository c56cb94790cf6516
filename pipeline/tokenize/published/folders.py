"""Tokenizer folders: find those of Clozeline, and copy the publisher's small files unchanged."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from clozeline.configuration.overrides import parse_yaml
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import read_object, read_text
from clozeline.hub import is_tokenizer_file
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer
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
        ConfigurationError: the shards of a run, or their tokenizer, no longer exist.
        IntegrityError: the name of the algorithm is missing.
    """
    for folder in (path / name for name in _SUBFOLDERS):
        if (folder / VOCABULARY_FILE).is_file() or (
            folder / NAME_FILE
        ).is_file():  # one of them may be missing
            return _read_tokenizer_folder(folder)
    if (path / "config.yaml").is_file() and (path / "checkpoints").is_dir():
        manifest_path = _first_set(path / "config.yaml")
        return _read_tokenizer_folder(
            find_tokenizer(manifest_path, Manifest.load(manifest_path).tokenizer.fingerprint)
        )
    return None


def _read_tokenizer_folder(folder: Path) -> ClozelineTokenizer:
    files = [*folder.iterdir(), *(folder / SOURCE / name for name in published_files(folder))]
    return ClozelineTokenizer(
        read_name(folder), folder, tuple(sorted(path for path in files if path.is_file()))
    )


def _first_set(config: Path) -> Path:
    """Return the manifest path of the first training set of a run."""
    try:
        keys = parse_yaml(read_text(config))
    except (ValueError, yaml.YAMLError) as error:
        raise IntegrityError(
            f"{config}: the file is damaged ({error}); give the folder of the tokenizer instead"
        ) from error

    data: object = keys.get("data") if isinstance(keys, dict) else None
    data = data if isinstance(data, dict) else {}
    phases = data.get("phases") or [{}]
    shards = data.get("shards") or phases[0].get("shards")
    first = shards[0] if isinstance(shards, list) else shards
    if not isinstance(first, str):
        raise ConfigurationError(
            f"tokenizer.path {config.parent}: expected the key data.shards in {config}"
        )

    path = Path(first).expanduser()
    return path if path.name == "manifest.json" else path / "manifest.json"
