"""`quarantine.json` lists blocks that must not be read. It changes neither digest nor order."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from pydantic import FailFast, TypeAdapter

from clozeline.files import parse_json, publish_json
from clozeline.pipeline.shards.bounded_reading import check_entries
from clozeline.pipeline.shards.errors import ManifestError
from clozeline.pipeline.shards.manifest import Manifest, first_problem
from clozeline.pipeline.shards.shard_table import Strict, numbers_of, paths_of
from clozeline.sealed_json import seal, unseal

QUARANTINE = "quarantine.json"


@dataclass(frozen=True)
class Quarantine:
    """Blocks, numbered over all shards, and the file's SHA-256 (empty where there is no file)."""

    blocks: frozenset[int] = frozenset()
    sha256: str = ""


class _Entry(Strict):
    shard: str
    block: int
    reason: str


_Entries = Annotated[list[_Entry], FailFast()]


class _File(Strict):
    """The file as tools write it, with a hash of itself."""

    blocks: _Entries
    checksum: str


_LIST: Final = TypeAdapter(_Entries)
_REMEDY: Final = (
    "copy it again, or remove it and run `clozeline quarantine-blocks MANIFEST`, which lists the unreadable "
    "blocks of the set again"
)
_VALUE_LIMIT: Final = 3 << 20  # a million blocks


def read_quarantine(where: str, raw: bytes, manifest: Manifest) -> Quarantine:
    """Parse the content of a `quarantine.json`, and number its blocks over all shards."""
    shards = {path: number for number, path in enumerate(paths_of(manifest.shards))}
    counts = numbers_of(manifest.shards, "blocks")
    first = np.cumsum(counts) - counts
    blocks = set()
    try:
        for entry in entries_of(where, raw):
            shard = shards.get(entry["shard"])
            if shard is None or not 0 <= entry["block"] < counts[shard]:
                raise ValueError(f"the set has no block {entry['block']} of {entry['shard']}")
            blocks.add(int(first[shard]) + entry["block"])
    except ValueError as error:
        raise ManifestError(
            f"{where}: not a list of blocks in quarantine: {first_problem(error)}; {_REMEDY}"
        ) from error
    return Quarantine(frozenset(blocks), hashlib.sha256(raw).hexdigest())


def entries_of(where: str, raw: bytes) -> list[dict[str, Any]]:
    """Return the entries `{"shard": path, "block": number in it, "reason": text}` of a `quarantine.json`.

    Tools write `{"blocks": entries, "checksum": hash}`; a list alone, as written by hand, is taken as it is.
    """
    check_entries(where, raw, _VALUE_LIMIT)
    try:
        if not raw.lstrip().startswith(b"{"):
            return [entry.model_dump() for entry in _LIST.validate_json(raw)]
        file = _File.model_validate_json(raw)
    except ValueError as error:
        with suppress(ValueError):
            unseal(parse_json(raw), where)
        raise ManifestError(
            f"{where}: not a list of blocks in quarantine: {first_problem(error)}; {_REMEDY}"
        ) from error
    entries = [entry.model_dump() for entry in file.blocks]
    if _content(entries)["checksum"] != file.checksum:
        raise ManifestError(f"{where}: changed after it was written, its checksum differs; {_REMEDY}")
    return entries


def publish_quarantine(folder: Path, entries: Sequence[dict[str, Any]]) -> None:
    """Publish `quarantine.json` in the folder of a manifest, with a hash of itself."""
    publish_json(folder / QUARANTINE, _content(entries))


def _content(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return seal({"blocks": list(entries)})
