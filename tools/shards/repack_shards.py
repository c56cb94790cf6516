"""Rewrite a shard set in another container or compression.

    clozeline repack-shards MANIFEST output=DIR

Container, compression and rows per block may change. Rows, their order, the set's name and the
quarantined blocks stay. A stream over the new set gives the same batches, unless the rows per block
changed, because the order depends on them.
"""

import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pyarrow as pa
from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.shards import (
    Manifest,
    ShardInfo,
    ShardSet,
    open_shards,
    write_manifest,
    write_shard,
)
from clozeline.pipeline.shards.column_set import TOKEN_COUNTS_FILE
from clozeline.pipeline.shards.quarantine import QUARANTINE, entries_of, publish_quarantine
from clozeline.tools.command import OutputPath, Positive, run_as_script, run_tool
from clozeline.tools.options import SetArgument
from clozeline.tools.shards.provenance.row_search import blocks_of
from clozeline.tools.shards.rewriting.output_folder import local_folder, new_files

_MAGIC_BYTES: Final = 8
"""bytes before the schema message of an Arrow file"""
_MAX_ROWS: Final = 65536
"""largest number of rows per block, as in recipes"""

_COPIED_FIELDS: Final = (
    "kind",
    "seed",
    "tokenizer",
    "grouping",
    "objective",
    "variants",
    "languages",
    "source_groups",
    "config",
)
"""fields of a manifest that describe rows rather than their storage"""


@config_class
class RepackOptions(SetArgument):
    """The new set; what is not given stays as it is."""

    output: OutputPath
    """folder of the new set"""
    container: Literal["arrow", "tar"] | None = None
    """default: unchanged"""
    codec: Literal["none", "zstd"] | None = None
    """buffer compression; default: unchanged"""
    level: Annotated[int, Field(ge=1, le=19)] | None = None
    """zstd level"""
    block_rows: Positive | None = None
    """rows per block; default: unchanged"""


def repack(
    source: ShardSet,
    output: Path,
    *,
    container: str | None = None,
    codec: str | None = None,
    level: int | None = None,
    block_rows: int | None = None,
) -> Manifest:
    """Write a set in another format, and return the new manifest.

    None keeps the value of the old set.
    """
    old = source.manifest
    metadata = _schema_metadata(source)
    layout: dict[str, Any] = {
        "container": container or old.container,
        "codec": codec or old.compression.codec,
    }
    layout |= {
        "level": level or old.compression.level or 3,
        "block_rows": block_rows or old.block_rows,
    }
    if layout["block_rows"] > _MAX_ROWS:
        raise ConfigurationError(f"block_rows={block_rows}: expected at most {_MAX_ROWS}")
    if layout["codec"] == "none" and level is not None:
        raise ConfigurationError(f"level={level}: only zstd has levels; add codec=zstd")
    if source.quarantined and layout["block_rows"] != old.block_rows:
        raise ConfigurationError(
            f"block_rows={block_rows}: {source.path} has "
            f"{plural(len(source.quarantined), 'block')} in quarantine, of {old.block_rows} rows "
            "each; omit the option"
        )

    new_names = {
        number: str(Path(shard.path).with_suffix(f".{layout['container']}"))
        for number, shard in enumerate(old.shards)
    }
    # document tables and token counts
    patterns = ("documents-*.arrow", TOKEN_COUNTS_FILE) if old.kind == "tokens" else ()
    extras = [path for name in patterns for path in source.path.parent.glob(name)]
    infos: list[ShardInfo] = []

    with new_files(output) as target:
        for shard, name in new_names.items():
            # block hashes do not cover the schema, which is copied as well
            source.verify_shard(shard)
            with target.file(name) as temporary:
                blocks = (source.read_block(block) for block in blocks_of(source, shard))
                infos.append(
                    write_shard(
                        temporary, blocks, source.columns, metadata=metadata, name=name, **layout
                    )
                )

        for extra in extras:
            with target.file(extra.name) as temporary:
                shutil.copyfile(extra, temporary)
        # before the manifest, so that every reader sees it, and instead of a killed process's file
        (output / QUARANTINE).unlink(missing_ok=True)

        if source.quarantined:
            numbers = {shard.path: number for number, shard in enumerate(old.shards)}
            path = source.path.parent / QUARANTINE
            entries = entries_of(str(path), path.read_bytes())
            publish_quarantine(
                output,
                [{**entry, "shard": new_names[numbers[entry["shard"]]]} for entry in entries],
            )
            target.files[QUARANTINE] = {}

        totals = old.totals.model_dump(
            include={"tokens_by_language", "tokens_by_source", "skipped"}
        )
        parents = [parent.model_dump() for parent in old.parents]
        parents.append({"name": old.name, "digest": old.digest, "role": "repacked"})
        old_manifest = old.model_dump(mode="json")
        fields = {key: old_manifest[key] for key in _COPIED_FIELDS} | {
            "name": old.name,
            "totals": totals,
            "parents": parents,
        }

        return write_manifest(
            output, columns=source.columns, shards=infos, output=target, **layout, **fields
        )


def _schema_metadata(source: ShardSet) -> dict[str, str]:
    if not len(source.index):
        return {}
    # the schema lies between the file's magic bytes and its first block
    start = (tarfile.BLOCKSIZE if source.manifest.container == "tar" else 0) + _MAGIC_BYTES
    first = int(source.index.shard[0])
    source.verify_shard(first)
    with source.shard_path(first).open("rb") as file:
        file.seek(start)
        schema = pa.ipc.read_schema(pa.py_buffer(file.read(int(source.index.offset[0]) - start)))
    return {name.decode(): value.decode() for name, value in (schema.metadata or {}).items()}


def _repack(options: RepackOptions) -> None:
    source = open_shards(local_folder(options.manifest))
    old = source.manifest
    new = repack(
        source,
        options.output,
        container=options.container,
        codec=options.codec,
        level=options.level,
        block_rows=options.block_rows,
    )

    level = new.compression.level
    codec = new.compression.codec if level is None else f"zstd {level}"
    same = (
        "the stream is the same"
        if new.block_rows == old.block_rows
        else (
            f"blocks of {new.block_rows:,} rows instead of {old.block_rows:,} give the stream "
            "another order"
        )
    )

    counts = f"{plural(new.totals.samples, 'row')} in {plural(new.totals.blocks, 'block')} of"
    sizes = f"{old.totals.bytes:,} → {new.totals.bytes:,} bytes ({new.container}, {codec})"
    print(f"{options.output}: {counts} {plural(new.totals.shards, 'shard')}, {sizes}; {same}")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, RepackOptions, _repack)


if __name__ == "__main__":
    run_as_script(main)
