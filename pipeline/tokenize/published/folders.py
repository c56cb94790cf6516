"""The folder of a tokenizer: that of Clozeline, where it stands, and the publisher's small files, kept as they are."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from clozeline.configuration.overrides import parse_yaml
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import parse_json
from clozeline.hub import is_tokenizer_file
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import NAME_FILE, VOCABULARY_FILE, read_name

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
            raise ConfigurationError(
                f"{file}: is a link to a file outside of {root}: copy the file into the folder"
            )
        if (size := file.stat().st_size) > _LARGEST:
            raise ConfigurationError(
                f"{file}: expected at most {_LARGEST:,} bytes in a tokenizer, got {size:,}"
            )
        target = folder / SOURCE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def published_files(folder: Path) -> list[Path]:
    """Return the files that the publisher of a tokenizer folder gave, relative to `source/`."""
    kept = folder / SOURCE
    return sorted(file.relative_to(kept) for file in kept.rglob("*") if file.is_file())


def read_source_json(folder: Path | None, name: str) -> dict[str, Any]:
    """Return a JSON file that the publisher of a tokenizer folder gave; empty if there is none."""
    path = None if folder is None else folder / SOURCE / name
    if path is None or not path.is_file():
        return {}
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigurationError(
            f"{path}: not JSON ({error}); import the model again from files that are"
        ) from error
    return content if isinstance(content, dict) else {}


def end_ids(folder: Path | None, default: Iterable[int]) -> set[int]:
    """Return the ids that end a generated text: of the publisher's generation defaults or model, else the default."""
    for name in (GENERATION, MODEL):
        if (stated := read_source_json(folder, name).get("eos_token_id")) is not None:
            ids = stated if isinstance(stated, list) else [stated]
            if not all(type(token) is int and token >= 0 for token in ids):
                raise ConfigurationError(
                    f"{name} of the publisher: eos_token_id: expected an id or a list of ids, got "
                    f"{stated!r}; mend it "
                    "there, and import the model again"
                )
            return set(ids)
    return set(default)


_SUBFOLDERS: Final = (".", "tokenizer", "train_tokenizer/tokenizer", "tokenizer/tokenizer")
"""Tokenizer folders relative to the path: itself, in an imported model, in a pipeline output."""


@dataclass(frozen=True)
class ClozelineTokenizer:
    """A tokenizer that Clozeline trained or imported: its algorithm, its folder and its files."""

    kind: str
    folder: Path
    files: tuple[Path, ...]


def find_clozeline_tokenizer(path: Path) -> ClozelineTokenizer | None:
    """Return the tokenizer of a tokenizer folder, pipeline output, imported model or training run; None otherwise.

    Raises:
        ConfigurationError: the shards of a run, or their tokenizer, no longer exist.
        IntegrityError: the name of the algorithm is missing.
    """
    for folder in (path / name for name in _SUBFOLDERS):
        if (folder / VOCABULARY_FILE).is_file() or (
            folder / NAME_FILE
        ).is_file():  # one of them may be missing
            return _of_folder(folder)
    if (path / "config.yaml").is_file() and (path / "checkpoints").is_dir():
        manifest_path = _first_set(path / "config.yaml")
        return _of_folder(
            find_tokenizer(manifest_path, Manifest.load(manifest_path).tokenizer.fingerprint)
        )
    return None


def _of_folder(folder: Path) -> ClozelineTokenizer:
    files = [*folder.iterdir(), *(folder / SOURCE / name for name in published_files(folder))]
    return ClozelineTokenizer(
        read_name(folder), folder, tuple(sorted(path for path in files if path.is_file()))
    )


def _first_set(config: Path) -> Path:
    """Return the manifest path of the first training set of a run."""
    try:
        plain = parse_yaml(config.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        raise IntegrityError(
            f"{config}: is damaged ({error}); give the folder of its tokenizer"
        ) from error
    data: object = plain.get("data") if isinstance(plain, dict) else None
    data = data if isinstance(data, dict) else {}
    phases = data.get("phases") or [{}]
    shards = data.get("shards") or phases[0].get("shards")
    first = shards[0] if isinstance(shards, list) else shards
    if not isinstance(first, str):
        raise ConfigurationError(
            f"tokenizer.path {config.parent}: {config} names no shards, expected data.shards"
        )
    path = Path(first).expanduser()
    return path if path.name == "manifest.json" else path / "manifest.json"
