"""Find a tokenizer of Clozeline in its folder, a pipeline output, a training run or an imported model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from clozeline.configuration.overrides import parse_yaml
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tokenize.published.source_files import SOURCE, kept_files
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import NAME_FILE, VOCABULARY_FILE, read_name

_SUBFOLDERS: Final = (".", "tokenizer", "train_tokenizer/tokenizer", "tokenizer/tokenizer")
"""Tokenizer folders relative to the path: itself, in an imported model, in a pipeline output."""


@dataclass(frozen=True)
class OwnTokenizer:
    """A tokenizer that Clozeline trained or imported: its algorithm, its folder and its files."""

    kind: str
    folder: Path
    files: tuple[Path, ...]


def own_tokenizer(path: Path) -> OwnTokenizer | None:
    """Return the tokenizer of a tokenizer folder, pipeline output, imported model or training run; None otherwise.

    Raises:
        ConfigurationError: the shards of a run, or their tokenizer, no longer exist.
        IntegrityError: the name of the algorithm is missing.
    """
    for folder in (path / name for name in _SUBFOLDERS):
        if (folder / VOCABULARY_FILE).is_file() or (folder / NAME_FILE).is_file():  # one of them may be missing
            return _of_folder(folder)
    if (path / "config.yaml").is_file() and (path / "checkpoints").is_dir():
        manifest_path = _first_set(path / "config.yaml")
        return _of_folder(find_tokenizer(manifest_path, Manifest.load(manifest_path).tokenizer.fingerprint))
    return None


def _of_folder(folder: Path) -> OwnTokenizer:
    files = [*folder.iterdir(), *(folder / SOURCE / name for name in kept_files(folder))]
    return OwnTokenizer(read_name(folder), folder, tuple(sorted(path for path in files if path.is_file())))


def _first_set(config: Path) -> Path:
    """Return the manifest path of the first training set of a run."""
    try:
        plain = parse_yaml(config.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        raise IntegrityError(f"{config}: is damaged ({error}); give the folder of its tokenizer") from error
    data: Any = plain.get("data") if isinstance(plain, dict) else None
    data = data if isinstance(data, dict) else {}
    phases = data.get("phases") or [{}]
    shards = data.get("shards") or phases[0].get("shards")
    first = shards[0] if isinstance(shards, list) else shards
    if not isinstance(first, str):
        raise ConfigurationError(f"tokenizer.path {config.parent}: {config} names no shards, expected data.shards")
    path = Path(first).expanduser()
    return path if path.name == "manifest.json" else path / "manifest.json"
