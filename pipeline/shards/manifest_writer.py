"""Writing the manifest, the last file of a shard set."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from clozeline.pipeline.shards.columns import ColumnSpec
from clozeline.pipeline.shards.errors import ManifestError
from clozeline.pipeline.shards.index import write_index
from clozeline.pipeline.shards.manifest import (
    FORMAT,
    SIZE_LIMIT,
    Manifest,
    canonical_sha256,
    first_problem,
    manifest_text,
)
from clozeline.pipeline.shards.shard import ShardInfo
from clozeline.pipeline.shards.shard_table import SHARDS_FILE, plain_shards, write_shards_file

# From this number of shards on, their list is a file next to the manifest.
_INLINE_LIMIT: Final = 100_000


class Outputs(Protocol):
    """A publisher of files: `file` yields a temporary path and renames it when the block ends without an error."""

    @property
    def folder(self) -> Path:
        """Folder that relative names start from."""

    def file(self, relative: str) -> AbstractContextManager[Path]:
        """Return a temporary path for `relative`."""


def write_manifest(
    folder: Path,
    *,
    name: str,
    kind: Literal["tokens", "samples", "examples", "columns"],
    seed: int,
    tokenizer: Mapping[str, Any],
    columns: Sequence[ColumnSpec],
    block_rows: int,
    container: Literal["arrow", "tar"],
    codec: Literal["none", "zstd"],
    level: int = 3,
    shards: Sequence[ShardInfo],
    output: Outputs,
    totals: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Manifest:
    """Write `index.arrow`, then `manifest.json`, for shards that are already in `folder`, in the order given.

    `folder` is in `output.folder`. With the seed, `name` decides the order of the stream. The arguments from `columns`
    to `level` are those of `write_shard`, which returned `shards`. `tokenizer` has the keys `name`, `fingerprint`,
    `vocab_size`, `special_ids` and `sentinels`; `totals` has `tokens_by_language`, `tokens_by_source` and `skipped`,
    the other totals are counted here; `fields` are other keys of the manifest: `grouping`, `objective`, `config`, ...
    """
    prefix = folder.relative_to(output.folder)
    with output.file(str(prefix / "index.arrow")) as path:
        write_index(path, shards)
        raw = path.read_bytes()
    listed = [
        {"path": shard.path, "bytes": shard.bytes, "sha256": shard.sha256, "blocks": len(shard.blocks),
         "rows": shard.rows}
        for shard in shards
    ]  # fmt: skip
    table = None
    if len(listed) >= _INLINE_LIMIT:
        with output.file(str(prefix / SHARDS_FILE)) as path:
            table = write_shards_file(path, listed)
    counted = {
        "samples": sum(shard.rows for shard in shards),
        "tokens": sum(shard.tokens for shard in shards),
        "blocks": sum(len(shard.blocks) for shard in shards),
        "shards": len(shards),
        "bytes": sum(shard.bytes for shard in shards),
    }
    facts = {
        **fields,
        "format": FORMAT,
        "name": name,
        "kind": kind,
        "seed": seed,
        "tokenizer": dict(tokenizer),
        "columns": [
            {"name": spec.name, "arrow_type": spec.arrow_type, "description": spec.description} for spec in columns
        ],
        "max_length": max((shard.longest for shard in shards), default=0),
        "block_rows": block_rows,
        "max_block_bytes": max((shard.largest_block for shard in shards), default=0),
        "container": container,
        "compression": {"codec": codec, "level": level if codec == "zstd" else None},
        "totals": {**(totals or {}), **counted},
        "index": {"path": "index.arrow", "sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)},
        "shards": listed if table is None else plain_shards(table),
        "code": {"package_version": version("clozeline")},
    }
    try:
        manifest = Manifest.model_validate_json(json.dumps(facts, allow_nan=False))
    except ValueError as error:
        raise ManifestError(f"{folder}: refusing to write this manifest: {first_problem(error)}") from error
    if table is not None:
        manifest = manifest.model_copy(update={"shards": table})
    plain = manifest.model_dump(mode="json", exclude={"checksum"})
    plain["checksum"] = canonical_sha256(plain)
    text = manifest_text(plain).encode()
    if len(text) > SIZE_LIMIT:
        raise ManifestError(f"{folder}: refusing to write a manifest of {len(text)} bytes, {SIZE_LIMIT} are read")
    with output.file(str(prefix / "manifest.json")) as path:
        path.write_bytes(text)
    return manifest
