"""Write a set from many units: each writes one shard and its metadata, a final unit writes the manifest."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from clozeline.errors import IntegrityError, StorageError
from clozeline.files import parse_json, read_json
from clozeline.pipeline.block_options import BlockRows, Compression
from clozeline.pipeline.rows import Feature, Rows
from clozeline.pipeline.shards.columns import ColumnSpec, base_columns, feature_columns
from clozeline.pipeline.shards.layout import block_rows_of, shard_name
from clozeline.pipeline.shards.manifest import Manifest
from clozeline.pipeline.shards.manifest_writer import Outputs, write_manifest
from clozeline.pipeline.shards.shard import ShardInfo
from clozeline.pipeline.shards.writer import write_shard
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import repair_of


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
