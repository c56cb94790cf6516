"""Rewrite a shard set in another container or compression.

    clozeline repack-shards mine/data/encode output=repacked [damaged=skip]

Container, compression and rows per block may change. Rows, their order and the set's name stay. A
stream over the new set gives the same batches, unless the rows per block changed, because the order
depends on them. With `damaged=skip`, a set of samples or examples loses its unreadable blocks.
"""

import shutil
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pyarrow as pa
from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.configuration.paths import as_url
from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.block_options import Codec, Container
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.shards import (
    DamagedBlock,
    Manifest,
    ShardInfo,
    ShardSet,
    open_shards,
    write_manifest,
    write_shard,
)
from clozeline.repair import rebuild_hint
from clozeline.tools.command import OutputPath, Positive, run_as_script, run_tool
from clozeline.tools.options import SetArgument
from clozeline.tools.output_folder import new_folder
from clozeline.tools.shards.provenance.row_search import blocks_of

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
    container: Container | None = None
    """default: unchanged"""
    codec: Codec | None = None
    """buffer compression; default: unchanged"""
    level: Annotated[int, Field(ge=1, le=19)] | None = None
    """zstd level"""
    block_rows: Positive | None = None
    """rows per block; default: unchanged"""
    damaged: Literal["refuse", "skip"] = "refuse"
    """blocks that cannot be read, also those of a missing or shorter shard: end, or leave them
    out"""


def repack(
    source: ShardSet,
    output: Path,
    *,
    container: str | None = None,
    codec: str | None = None,
    level: int | None = None,
    block_rows: int | None = None,
    left_out: list[DamagedBlock] | None = None,
) -> Manifest:
    """Write a set in another format, and return the new manifest.

    None keeps the value of the old set. Damaged blocks are added to `left_out`; None refuses them.
    With a list, no schema names objective and tokenizer: no hash covers those of a damaged file.
    """
    old = source.manifest
    metadata = _schema_metadata(source) if left_out is None else {}
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
    if left_out is not None and old.kind not in ("samples", "examples"):
        raise ConfigurationError(
            f"damaged=skip: {source.path} holds {old.kind}, and other files name their rows by "
            f"number; {rebuild_hint(source.path)}"
        )

    tables = source.path.parent.glob("documents-*.arrow") if old.kind == "tokens" else ()
    infos: list[ShardInfo] = []

    with new_folder(output) as folder:
        target = Output(folder)
        for number, shard in enumerate(old.shards):
            name = str(Path(shard.path).with_suffix(f".{layout['container']}"))
            if left_out is None:
                # block hashes do not cover the schema, which is copied as well
                source.verify_shard(number)
            with target.file(name) as temporary:
                blocks = _read_blocks(source, number, left_out)
                infos.append(
                    write_shard(
                        temporary, blocks, source.columns, metadata=metadata, name=name, **layout
                    )
                )

        for table in tables:
            with target.file(table.name) as temporary:
                shutil.copyfile(table, temporary)

        totals = old.totals.model_dump(
            include={"tokens_by_language", "tokens_by_source", "skipped"}
        )
        if left_out:
            # as the stages count what they skip: `group` in tokens, `corrupt` in rows
            lost = (
                old.totals.tokens - sum(info.tokens for info in infos)
                if old.kind == "samples"
                else old.totals.samples - sum(info.rows for info in infos)
            )
            # tokens by language would count the rows that are left out
            totals = {"skipped": {**totals["skipped"], "damaged_block": lost}}
        parents = [parent.model_dump() for parent in old.parents]
        parents.append({"name": old.name, "digest": old.digest, "role": "repacked"})
        old_manifest = old.model_dump(mode="json")
        fields = {key: old_manifest[key] for key in _COPIED_FIELDS} | {
            "name": old.name,
            "totals": totals,
            "parents": parents,
            "token_counts": source.token_counts(),
        }

        return write_manifest(
            folder, columns=source.columns, shards=infos, output=target, **layout, **fields
        )


def _read_blocks(
    source: ShardSet, shard: int, left_out: list[DamagedBlock] | None
) -> Iterator[RowBatch]:
    for block in blocks_of(source, shard):
        try:
            yield source.read_block(block)
        except DamagedBlock as error:
            if left_out is None:
                raise
            left_out.append(error)


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
    left_out: list[DamagedBlock] | None = [] if options.damaged == "skip" else None
    if (url := as_url(options.manifest)) is not None:
        raise ConfigurationError(f"{url}: expected a local folder; copy the set here first")
    source = open_shards(options.manifest, check_files=left_out is None)
    old = source.manifest
    new = repack(
        source,
        options.output,
        container=options.container,
        codec=options.codec,
        level=options.level,
        block_rows=options.block_rows,
        left_out=left_out,
    )

    same = (
        "the stream is the same"
        if new.block_rows == old.block_rows
        else (
            f"blocks of {new.block_rows:,} rows instead of {old.block_rows:,} give the stream "
            "another order"
        )
    )

    counts = f"{plural(new.totals.samples, 'row')} in {plural(new.totals.blocks, 'block')} of"
    form = f"{new.container}, {new.compression}"
    sizes = f"{old.totals.bytes:,} → {new.totals.bytes:,} bytes ({form})"
    if left_out:
        for error in left_out:
            why = f"expected {error.expected}, got {error.got}"
            print(f"{error.shard}: block {error.block} left out: {why}")
        rows = plural(old.totals.samples - new.totals.samples, "row")
        same = f"{plural(len(left_out), 'damaged block')} of {rows} left out: a new set to a run"
    print(f"{options.output}: {counts} {plural(new.totals.shards, 'shard')}, {sizes}; {same}")


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, RepackOptions, _repack)


if __name__ == "__main__":
    run_as_script(main)
