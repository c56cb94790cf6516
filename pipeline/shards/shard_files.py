"""Compare the files of a shard set with its manifest, by one listing per folder or one file at a time."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from clozeline.pipeline.shards.errors import ManifestError
from clozeline.pipeline.shards.manifest import Manifest
from clozeline.pipeline.shards.shard_table import numbers_of, paths_of
from clozeline.repair import repair_of


def shard_folders(manifest: Manifest) -> set[str]:
    """Return the folders of the shards, relative to the manifest."""
    return {path.rpartition("/")[0] for path in paths_of(manifest.shards)}


def list_folders(root: Path, folders: Collection[str]) -> dict[str, dict[str, int]]:
    """List sizes in bytes by folder and name; this asks the file system for the size of each file."""
    sizes: dict[str, dict[str, int]] = {folder: {} for folder in folders}
    for folder, listing in sizes.items():
        if (root / folder).is_dir():
            with os.scandir(root / folder) as entries:
                listing.update({entry.name: entry.stat().st_size for entry in entries if entry.is_file()})
    return sizes


def compare_files(
    base: str, manifest: Manifest, listings: Mapping[str, Mapping[str, int]], unneeded: Collection[int]
) -> None:
    """Raise ManifestError unless every shard is listed with its size; the files of `unneeded` shards may be missing."""
    sizes = numbers_of(manifest.shards, "bytes").tolist()
    for number, (path, size) in enumerate(zip(paths_of(manifest.shards), sizes, strict=True)):
        if number not in unneeded:
            parent, _, name = path.rpartition("/")
            compare_size(f"{base}/{path}", size, listings[parent].get(name))


def compare_size(where: str, expected: int, actual: int | None) -> None:
    """Raise ManifestError unless a shard file has its size in bytes; None: there is no such file."""
    if actual is None:
        message = "the manifest names this shard, but there is no such file"
        raise ManifestError(f"{where}: {message}: {repair_of(where)}")
    if actual != expected:
        raise ManifestError(f"{where}: expected {expected} bytes, got {actual}; {repair_of(where)}")
