"""Read and write `quarantine.json`, a list of blocks that readers skip.

It changes neither digest nor order of a set.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import FailFast, TypeAdapter

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.files import parse_json, publish_json
from clozeline.pipeline.shards.manifest import (
    Manifest,
    ManifestError,
    Strict,
    check_entries,
    first_problem,
)

QUARANTINE: Final = "quarantine.json"
_MOST_VALUES: Final = 3 << 20  # a million blocks


@dataclass(frozen=True)
class Quarantine:
    """Quarantined blocks, numbered over all shards, and the SHA-256 of their file, if any."""

    blocks: frozenset[int] = frozenset()
    sha256: str = ""


class _Entry(Strict):
    shard: str
    block: int
    reason: str


_ENTRIES: Final = TypeAdapter(Annotated[list[_Entry], FailFast()])


def read_quarantine(where: str, raw: bytes, manifest: Manifest) -> Quarantine:
    """Parse a `quarantine.json`, and number its blocks over all shards."""
    first = 0
    blocks = set()
    known = {}
    for shard in manifest.shards:
        known[shard.path] = range(first, first := first + shard.blocks)
    for entry in entries_of(where, raw):
        numbers = known.get(entry["shard"], range(0))
        if not 0 <= entry["block"] < len(numbers):
            raise _malformed_error(
                where, f"the set has no block {entry['block']} in {entry['shard']}"
            )
        blocks.add(numbers[entry["block"]])

    return Quarantine(frozenset(blocks), hashlib.sha256(raw).hexdigest())


def entries_of(where: str, raw: bytes) -> list[dict[str, Any]]:
    """Return the entries of a `quarantine.json`.

    An entry is `{"shard": path, "block": index in the shard, "reason": text}`. Tools write
    `{"blocks": entries, "checksum": hash}`; a list without a checksum, as written by hand, is
    accepted.
    """
    check_entries(where, raw, _MOST_VALUES)
    try:
        content = parse_json(raw)
        if not isinstance(content, list):
            content = verify_checksum(content, where)["blocks"]
        return [entry.model_dump() for entry in _ENTRIES.validate_python(content)]
    except (ValueError, KeyError) as error:
        raise _malformed_error(where, first_problem(error)) from error


def publish_quarantine(folder: Path, entries: Sequence[dict[str, object]]) -> None:
    """Publish `quarantine.json` with a checksum in the folder of a manifest."""
    publish_json(folder / QUARANTINE, add_checksum({"blocks": list(entries)}))


def _malformed_error(where: str, problem: str) -> ManifestError:
    return ManifestError(
        f"{where}: not a list of quarantined blocks: {problem}; copy it again, or remove it and "
        "run `clozeline quarantine-blocks MANIFEST`, which lists the unreadable blocks again"
    )
