"""Join shard sets into one: `python tools/merge_manifests.py MANIFEST MANIFEST ... --output DIR --name NAME`.

The shards stay as they are: they are linked (copied where the file system cannot link) under new names, and one
manifest lists them all, sets in the order given. Sets must agree in what their rows mean; each sample should be in
one of them only. Example sets with several variants and the sample sets they came from, merged in one order each,
still belong together.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pipeline.errors import ConfigurationError
from pipeline.shard_format import shard_name
from pipeline.shards import Block, Manifest, ShardInfo, ShardSet, open_shards, write_manifest
from pipeline.stage import Counts, add_counts, publish
from tools.command import Arguments, run_tool
from tools.diff_manifests import differences
from tools.remaking import carried, new_set
from tools.shard_rows import blocks_of

__all__ = ["main", "merge"]

_SAME: Final = (
    "kind", "tokenizer", "columns", "grouping", "objective", "variants", "languages", "source_groups", "block_rows",
    "container", "compression",
)  # fmt: skip
"""Fields in which all sets must agree."""
_REPACKED: Final = {"block_rows", "container", "compression"}


def merge(paths: Sequence[Path], output: Path, name: str, *, copy: bool = False) -> Manifest:
    """Join sets; the new manifest.

    Args:
        paths: manifests, or their folders, in order.
        output: folder of the new set.
        name: name of the new set, which decides the order of its stream.
        copy: copy shards instead of linking them.

    Raises:
        ConfigurationError: the sets do not belong together; the message names the field.
        ClozelineError: a set is damaged, or the folder holds one already.
    """
    sets = [open_shards(path) for path in paths]
    _check(sets)
    target, first = new_set(output), sets[0].manifest
    members = [(shards, number) for shards in sets for number in range(len(shards.manifest.shards))]
    ordered = sorted(members, key=lambda member: _variant(*member))  # stable: sets in their order within a variant
    infos = []
    output.mkdir(parents=True, exist_ok=True)
    for number, (shards, old) in enumerate(ordered):
        info = _info(shards, old, shard_name(number, len(ordered), first.container))
        _place(shards.shard_path(old), output / info.path, copy=copy)
        infos.append(info)
    manifests = [shards.manifest for shards in sets]
    fields = carried(first) | {"config": {"merged": [_origin(manifest) for manifest in manifests]}}
    return write_manifest(
        output, name=name, columns=sets[0].columns, block_rows=first.block_rows, container=first.container,
        codec=first.compression.codec, level=first.compression.level or 3, shards=infos, output=target,
        totals=_totals(manifests),
        parents=[{"name": one.name, "digest": one.digest, "role": "merged"} for one in manifests], **fields,
    )  # fmt: skip


def _check(sets: Sequence[ShardSet]) -> None:
    first = sets[0]
    if first.manifest.kind == "tokens":
        raise ConfigurationError(f"{first.path}: token sets have tables of documents beside them; merge sample sets")
    seen: dict[str, Path] = {}
    for shards in sets:
        for one in differences(first.manifest, shards.manifest):
            if one.root in _SAME:
                hint = "; tools/repack_shards.py makes them equal" if one.root in _REPACKED else ""
                raise ConfigurationError(
                    f"{shards.path}: {one.field}: expected {one.left} as in {first.path}, got {one.right}{hint}"
                )
        if shards.digest in seen:
            raise ConfigurationError(f"{shards.path}: the same set as {seen[shards.digest]}; name each set once")
        seen[shards.digest] = shards.path
        if len(shards.manifest.shards) % shards.manifest.variants:
            raise ConfigurationError(
                f"{shards.path}: {len(shards.manifest.shards)} shards cannot hold {shards.manifest.variants} variants"
            )


def _variant(shards: ShardSet, shard: int) -> int:
    """The variant that a shard holds: shard v * K + k has variant v."""
    return shard * shards.manifest.variants // len(shards.manifest.shards)


def _info(shards: ShardSet, shard: int, name: str) -> ShardInfo:
    """The record of a shard under its new name.

    The manifest knows tokens, longest row and largest block of the whole set, so the first shard stands for all.
    """
    facts, index, manifest = shards.manifest.shards[shard], shards.index, shards.manifest
    blocks = tuple(
        Block(int(index.offset[at]), int(index.length[at]), int(index.rows[at]), index.xxh3[at].tobytes())
        for at in blocks_of(shards, shard)
    )
    tokens = manifest.totals.tokens if shard == 0 else 0
    whole = (tokens, manifest.max_length, manifest.max_block_bytes)
    return ShardInfo(name, facts.bytes, facts.sha256, facts.rows, blocks, *whole)


def _place(source: Path, target: Path, *, copy: bool) -> None:
    """Link or copy a file; one that an interrupted attempt left is replaced."""
    if not copy:
        target.unlink(missing_ok=True)
        try:
            target.hardlink_to(source.resolve())
        except OSError:  # another file system, or one without links
            copy = True
    if copy:
        with publish(target) as temporary:
            shutil.copyfile(source, temporary)


def _totals(manifests: Sequence[Manifest]) -> Counts:
    """Sums of the tables; one that a set with tokens does not have would be wrong, so it is left out."""
    totals: Counts = {"skipped": {}}
    for manifest in manifests:
        add_counts(totals, {"skipped": manifest.totals.skipped})
    for name in ("tokens_by_language", "tokens_by_source"):
        tables = [getattr(manifest.totals, name) for manifest in manifests if manifest.totals.tokens]
        if all(tables):
            totals[name] = {}
            for table in tables:
                add_counts(totals[name], table)
    return totals


def _origin(manifest: Manifest) -> dict[str, Any]:
    return {"name": manifest.name, "seed": manifest.seed, "config": manifest.config}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument("manifests", type=Path, nargs="+", metavar="MANIFEST", help="manifest.json, or its folder")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the new set")
    parser.add_argument(
        "--name", required=True, help="name of the new set; with the seed it decides the stream's order"
    )
    parser.add_argument("--copy", action="store_true", help="copy shards, do not link them")

    def action(options: argparse.Namespace) -> int:
        new = merge(options.manifests, options.output, options.name, copy=options.copy)
        totals = new.totals
        print(
            f"{options.output}: {new.name}: {totals.samples:,} rows, {totals.tokens:,} tokens in {totals.blocks:,} "
            f"blocks of {totals.shards:,} shards, {totals.bytes:,} bytes, from {len(options.manifests)} sets"
        )
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
