"""Split a held-out set in two by shards: entries are tuned on one half and judged on the other."""

from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import ShardSet, open_shards, write_manifest, write_shard
from clozeline.tools.shards.provenance.row_search import blocks_of
from clozeline.tools.shards.rewriting.shard_folder import new_files, row_fields

HALVES: Final = ("judging", "tuning")
"""Names of the halves: shards with even numbers, and shards with odd numbers."""


def split_heldout(heldout: Path, output: Path) -> None:
    """Write both halves of a held-out set, if needed, in folders of their names; a document is in one half only."""
    source = open_shards(heldout)
    for first, name in enumerate(HALVES):
        chosen = range(first, len(source.manifest.shards), len(HALVES))
        if not sum(source.manifest.shards[shard].rows for shard in chosen):
            raise ConfigurationError(
                f"{heldout}: expected at least two shards with rows, for tuning and for judging, got "
                f"{len(source.manifest.shards)}; raise heldout.fraction or lower plan.shard_bytes"
            )
        if not (output / name / "manifest.json").exists():
            _write(source, chosen, output / name)


def _write(source: ShardSet, chosen: range, output: Path) -> None:
    old = source.manifest
    form: dict[str, Any] = {
        "container": old.container, "codec": old.compression.codec, "level": old.compression.level or 3,
        "block_rows": old.block_rows,
    }  # fmt: skip
    infos = []
    with new_files(output) as target:
        for shard in chosen:
            source.verify_shard(shard)
            with target.file(old.shards[shard].path) as temporary:
                blocks = (source.read_block(block) for block in blocks_of(source, shard))
                infos.append(write_shard(temporary, blocks, source.columns, name=old.shards[shard].path, **form))
        parents = [{"name": old.name, "digest": old.digest, "role": "split"}]
        fields = row_fields(old) | {"name": f"{old.name} {output.name}", "totals": {}, "parents": parents}
        write_manifest(output, columns=source.columns, shards=infos, output=target, **form, **fields)
