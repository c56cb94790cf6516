"""Create folders for new shard sets and exports: all files are published, or none."""

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

_COPIED_FIELDS: Final = (
    "kind", "seed", "tokenizer", "grouping", "objective", "variants", "languages", "source_groups", "config",
)  # fmt: skip
_WRITTEN_LAST: Final = ("manifest.json", "export.json")
"""a folder with one of these files is finished"""


def local_folder(path: Path) -> Path:
    """Return the local path of a path or `file:` URL; refuse the URL of a remote store."""
    url = as_url(path)
    if url is not None:
        raise ConfigurationError(f"{url}: expected a local folder; copy the set here first")
    return local_path(path)


def open_local(path: Path) -> ShardSet:
    """Open a set whose shards are local files."""
    return open_shards(local_folder(path))


def row_fields(manifest: Manifest) -> dict[str, Any]:
    """Return the arguments of `write_manifest` that describe rows rather than their storage."""
    plain = manifest.model_dump(mode="json")
    return {key: plain[key] for key in _COPIED_FIELDS}


@contextmanager
def new_files(folder: Path) -> Iterator[Output]:
    """Publish files in a folder, all or none: an error or interrupt removes the files published so far.

    A killed process leaves files, but never the one that is written last; the next run replaces them.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"--output {folder}: expected a folder, got a file")
    for last in _WRITTEN_LAST:
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
    """Return the entries of `quarantine.json` for a copy of a set, given the new name of each shard number."""
    if not shards.quarantined:
        return []
    numbers = {facts.path: number for number, facts in enumerate(shards.manifest.shards)}
    path = shards.path.parent / QUARANTINE
    entries = entries_of(str(path), path.read_bytes())
    return [{**entry, "shard": names[numbers[entry["shard"]]]} for entry in entries]


def write_quarantine(target: Output, entries: list[dict[str, Any]]) -> None:
    """Write `quarantine.json` before the manifest, so that every reader sees it, replacing a killed process's file."""
    (target.folder / QUARANTINE).unlink(missing_ok=True)
    if entries:
        publish_quarantine(target.folder, entries)
        target.files[QUARANTINE] = {}
