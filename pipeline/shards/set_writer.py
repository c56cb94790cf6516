"""Write a set from many units: each writes one shard and its metadata, a final unit writes index and manifest."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np

from clozeline.errors import ConfigurationError, IntegrityError, StorageError
from clozeline.files import parse_json, read_json
from clozeline.pipeline.block_options import BlockRows, Compression
from clozeline.pipeline.rows import Feature, Rows
from clozeline.pipeline.shards.columns import ColumnSpec, base_columns, feature_columns
from clozeline.pipeline.shards.index import write_index
from clozeline.pipeline.shards.layout import block_rows_of, shard_name
from clozeline.pipeline.shards.manifest import (
    ENTRY_LIMIT,
    FORMAT,
    SHARD_LIMIT,
    SIZE_LIMIT,
    Manifest,
    ManifestError,
    canonical_sha256,
    check_entries,
    first_problem,
    manifest_text,
)
from clozeline.pipeline.shards.writer import ShardInfo, write_shard
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import repair_of


class Outputs(Protocol):
    """A publisher of files: `file` yields a temporary path and renames it when the block ends without an error."""

    @property
    def folder(self) -> Path:
        """Folder that relative names start from."""

    def file(self, relative: str) -> AbstractContextManager[Path]:
        """Return a temporary path for `relative`."""


@dataclass(frozen=True)
class SetWriter:
    """Writer of the shards of one set. All units of a set must use equal writers."""

    path: str  # folder of the set, relative to that of the outputs; empty: the same folder
    shards: int  # number of shards
    columns: Sequence[ColumnSpec]  # in file order
    block_rows: int
    container: Literal["arrow", "tar"] = "arrow"
    compression: Compression = field(default_factory=Compression)
    metadata: Mapping[str, str] = field(default_factory=dict)  # for people who open a shard without its manifest

    def __post_init__(self) -> None:
        if self.shards > SHARD_LIMIT:
            raise ConfigurationError(
                f"{self.path}: {self.shards} shards, at most {SHARD_LIMIT} are in a set: make larger ones by "
                "plan.shard_bytes, or fewer variants"
            )

    @classmethod
    def of_rows(
        cls, path: str, shards: int, features: Sequence[Feature], vocabulary: Vocabulary, length: int,
        block_rows: BlockRows, metadata: Mapping[str, str], **options: Any,
    ) -> Self:  # fmt: skip
        """Return the writer of a set of sample or example rows with up to `length` content tokens."""
        columns = [*base_columns(), *feature_columns(features, vocabulary.size)]
        rows = block_rows_of(block_rows, features, length, np.dtype(vocabulary.id_dtype).itemsize)
        return cls(path, shards, columns, rows, metadata={**metadata, "tokenizer": vocabulary.fingerprint}, **options)

    def write_shard(self, output: Outputs, shard: int, rows: Iterable[Rows] | Rows) -> ShardInfo:
        """Write a shard, and its metadata as an intermediate file."""
        name = shard_name(shard, self.shards, self.container)
        with output.file(f"{self.path}/{name}" if self.path else name) as path:
            info = write_shard(
                path, rows, self.columns, block_rows=self.block_rows, container=self.container,
                codec=self.compression.codec, level=self.compression.level, metadata=self.metadata, name=name,
            )  # fmt: skip
        with output.file(self._info(shard)) as path:
            path.write_text(json.dumps(info.to_json()), encoding="utf-8")
        return info

    def is_written(self, output: Outputs, shard: int) -> bool:
        """Return whether an earlier process has published a shard and its metadata."""
        record = read_json(output.folder / self._info(shard)) or {}
        path = output.folder / self.path / shard_name(shard, self.shards, self.container)
        return path.is_file() and path.stat().st_size == record.get("bytes")

    def _info(self, shard: int) -> str:
        if not self.path:
            return f"tmp/shards/{shard:06d}.json"
        return f"tmp/{self.path}/{shard_name(shard, self.shards, self.container)}.json"

    def write_manifest(self, output: Outputs, **fields: Any) -> Manifest:
        """Write the index and the manifest, when all shards are written; `fields` say what the rows are."""
        infos = []
        for shard in range(self.shards):
            path, name = output.folder / self._info(shard), shard_name(shard, self.shards, self.container)
            try:
                infos.append(ShardInfo.from_json(parse_json(path.read_text(encoding="utf-8")), path))
            except FileNotFoundError as error:
                raise StorageError(f"{path}: missing; {repair_of(path)}") from error
            except (OSError, ValueError, IntegrityError) as error:
                raise IntegrityError(f"{path}: damaged ({error}); {repair_of(path)}") from error
            if (got := infos[-1].path) != name:
                raise IntegrityError(f"{path}: expected the facts of {name}, got those of {got}; {repair_of(path)}")
        return write_manifest(
            output.folder / self.path, columns=self.columns, block_rows=self.block_rows, container=self.container,
            codec=self.compression.codec, level=self.compression.level, shards=infos, output=output, **fields,
        )  # fmt: skip


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
        "shards": listed,
        "code": {"package_version": version("clozeline")},
    }
    try:
        manifest = Manifest.model_validate_json(json.dumps(facts, allow_nan=False))
    except ValueError as error:
        raise ManifestError(f"{folder}: refusing to write this manifest: {first_problem(error)}") from error
    plain = manifest.model_dump(mode="json", exclude={"checksum"})
    plain["checksum"] = canonical_sha256(plain)
    text = manifest_text(plain).encode()
    if len(text) > SIZE_LIMIT:
        raise ManifestError(f"{folder}: refusing to write a manifest of {len(text)} bytes, {SIZE_LIMIT} are read")
    check_entries(folder / "manifest.json", text, ENTRY_LIMIT)
    with output.file(str(prefix / "manifest.json")) as path:
        path.write_bytes(text)
    return manifest
