"""Making a shard set out of others: what its manifest takes over, and the folder it is written to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pipeline.errors import ConfigurationError
from pipeline.shards import Manifest
from pipeline.stage import Output

__all__ = ["carried", "new_set"]

_CARRIED: Final = (
    "kind", "seed", "tokenizer", "grouping", "objective", "variants", "languages", "source_groups", "config",
)  # fmt: skip


def carried(manifest: Manifest) -> dict[str, Any]:
    """Arguments of `write_manifest` that say what the rows are, not how they are stored."""
    plain = manifest.model_dump(mode="json")
    return {key: plain[key] for key in _CARRIED}


def new_set(folder: Path) -> Output:
    """Where the files of a new set are published, the manifest last.

    Files that an interrupted attempt left are written again.

    Raises:
        ConfigurationError: the folder holds a set already, or is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"--output {folder}: is a file, expected a folder")
    if (folder / "manifest.json").exists():
        raise ConfigurationError(f"--output {folder}: holds a shard set already; choose another folder")
    return Output(folder)
