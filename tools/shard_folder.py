"""New folders made from shard sets: the set to read, the fields to keep, and files published all or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.files import sweep
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.shards import Manifest, ShardSet, open_shards
from clozeline.pipeline.shards.quarantine import QUARANTINE, entries_of, publish_quarantine
from clozeline.pipeline.shards.store import as_url, local_path

_CARRIED: Final = (
    "kind", "seed", "tokenizer", "grouping", "objective", "variants", "languages", "source_groups", "config",
)  # fmt: skip
_LAST: Final = ("manifest.json", "export.json")
"""files that are written last: a folder with one of them is finished"""


def here(path: Path) -> Path:
    """Return a path on this machine, which may be given as `file:` URL; ConfigurationError for a URL of a store."""
    url = as_url(path)
    if url is not None:
        raise ConfigurationError(f"{url}: expected a folder of this machine; copy the set here first")
    return local_path(path)


def open_files(path: Path) -> ShardSet:
    """Open a set whose shards are files of this machine."""
    return open_shards(here(path))


def carried(manifest: Manifest) -> dict[str, Any]:
    """Return the arguments of `write_manifest` that describe the rows, not how they are stored."""
    plain = manifest.model_dump(mode="json")
    return {key: plain[key] for key in _CARRIED}


@contextmanager
def new_files(folder: Path) -> Iterator[Output]:
    """Publish files in a folder: all, or none. An error or an interrupt removes the files published so far.

    A killed process leaves files, but never the one that is written last; the next run replaces them.

    Raises:
        ConfigurationError: the folder holds a finished set or export already, or is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"--output {folder}: expected a folder, got a file")
    for last in _LAST:
        if (folder / last).exists():
            what = "an export" if last == "export.json" else "a shard set"
            raise ConfigurationError(f"--output {folder}: holds {what} already; choose another folder")
    target, missing = Output(folder), [path for path in (folder, *folder.parents) if not path.exists()]
    if not missing:
        sweep(folder)
    try:
        yield target
    except BaseException:
        with suppress(OSError):
            for name in target.files:
                (folder / name).unlink(missing_ok=True)
            for path in [*{(folder / name).parent for name in target.files} - {folder}, *missing]:
                path.rmdir()
        raise


def quarantine_entries(shards: ShardSet, names: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return the entries of `quarantine.json` for a copy whose shards have other names.

    Args:
        shards: the set; blocks keep their numbers in the copy.
        names: new name of each shard by its number.
    """
    if not shards.quarantined:
        return []
    numbers = {facts.path: number for number, facts in enumerate(shards.manifest.shards)}
    path = shards.path.parent / QUARANTINE
    entries = entries_of(str(path), path.read_bytes())
    return [{**entry, "shard": names[numbers[entry["shard"]]]} for entry in entries]


def write_quarantine(target: Output, entries: list[dict[str, Any]]) -> None:
    """Write `quarantine.json`, before the manifest so that no reader misses it, over what a killed process left."""
    (target.folder / QUARANTINE).unlink(missing_ok=True)
    if entries:
        publish_quarantine(target.folder, entries)
        target.files[QUARANTINE] = {}
