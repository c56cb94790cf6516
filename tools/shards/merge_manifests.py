"""Join shard sets into one: `clozeline merge-manifests MANIFEST MANIFEST ... --output DIR --name NAME`.

The shards do not change: each is read once to verify its hash, then linked under a new name, or copied if the file
system has no links. One manifest lists them all, in the order given. Rows must mean the same in all sets, and a sample
should be in only one of them: sets that share a shard are refused, and so is a set together with its own repacked or
merged copy. To keep examples aligned with samples, merge the example sets and their sample sets in the same order.
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from clozeline.errors import ConfigurationError
from clozeline.files import publish
from clozeline.pipeline.execution.unit_record import Output, add_counts
from clozeline.pipeline.shards import Block, Manifest, ShardInfo, ShardSet, write_manifest
from clozeline.pipeline.shards.layout import shard_name
from clozeline.tools.command import Arguments, plural, run_tool, some_path
from clozeline.tools.shards.provenance.row_search import blocks_of
from clozeline.tools.shards.rewriting import shard_folder
from clozeline.tools.shards.rewriting.manifest_differences import differences

_SAME: Final = (
    "kind", "tokenizer", "columns", "grouping", "objective", "variants", "languages", "source_groups", "block_rows",
    "container", "compression",
)  # fmt: skip
"""fields that must be equal in all sets"""
_REPACKED: Final = {"block_rows", "container", "compression"}


def merge(paths: Sequence[Path], output: Path, name: str, *, copy: bool = False) -> Manifest:
    """Merge sets and return the new manifest; `name` determines the order of its stream."""
    if not name:
        raise ConfigurationError("--name: expected the name of the new set, got nothing")
    sets = [shard_folder.open_local(path) for path in paths]
    _require_compatible(sets)
    first, manifests = sets[0].manifest, [shards.manifest for shards in sets]
    members = [(shards, number) for shards in sets for number in range(len(shards.manifest.shards))]

    def variant_of(member: tuple[ShardSet, int]) -> int:  # shard v * K + k holds variant v
        shards, number = member
        return number * shards.manifest.variants // len(shards.manifest.shards)

    ordered = sorted(members, key=variant_of)  # stable: keeps the order of sets per variant
    names = [shard_name(number, len(ordered), first.container) for number in range(len(ordered))]
    new_names = {(shards.path, old): name for (shards, old), name in zip(ordered, names, strict=True)}
    quarantined = [
        entry
        for shards in sets
        for entry in shard_folder.quarantine_entries(
            shards, {number: new_names[shards.path, number] for number in range(len(shards.manifest.shards))}
        )
    ]
    with shard_folder.new_files(output) as target:
        for (shards, old), new in zip(ordered, names, strict=True):
            shards.verify_shard(old)
            _link_or_copy(shards.shard_path(old), target, new, copy=copy)
        shard_folder.write_quarantine(target, quarantined)
        merged = [{"name": old.name, "seed": old.seed, "config": old.config} for old in manifests]
        fields = shard_folder.row_fields(first) | {"config": {"merged": merged}}
        return write_manifest(
            output, name=name, columns=sets[0].columns, block_rows=first.block_rows, container=first.container,
            codec=first.compression.codec, level=first.compression.level or 3, output=target,
            shards=[_shard_info(shards, old, new) for (shards, old), new in zip(ordered, names, strict=True)],
            totals=_sum_tables(manifests),
            parents=[{"name": old.name, "digest": old.digest, "role": "merged"} for old in manifests], **fields,
        )  # fmt: skip


def _require_compatible(sets: Sequence[ShardSet]) -> None:
    reference = sets[0]
    if reference.manifest.kind == "tokens":
        raise ConfigurationError(f"{reference.path}: token sets come with document tables; merge sample sets instead")
    for shards in sets:
        for difference in differences(reference.manifest, shards.manifest):
            if difference.root in _SAME:
                hint = "; clozeline repack-shards makes them equal" if difference.root in _REPACKED else ""
                raise ConfigurationError(
                    f"{shards.path}: {difference.field}: expected {difference.left} as in {reference.path}, got "
                    f"{difference.right}{hint}"
                )
        if len(shards.manifest.shards) % shards.manifest.variants:
            raise ConfigurationError(
                f"{shards.path}: {len(shards.manifest.shards)} shards cannot hold {shards.manifest.variants} variants"
            )
    _refuse_overlap(sets)


def _refuse_overlap(sets: Sequence[ShardSet]) -> None:
    digests: dict[str, Path] = {}
    shas: dict[str, Path] = {}
    for shards in sets:
        origins = {parent.digest for parent in shards.manifest.parents if parent.role in ("repacked", "merged")}
        shard_hashes = {facts.sha256 for facts in shards.manifest.shards if facts.rows}
        for seen, digests_found in ((digests, {shards.digest, *origins}), (shas, shard_hashes)):
            for digest in digests_found & seen.keys():
                raise ConfigurationError(
                    f"{shards.path}: holds rows of {seen[digest]} again; name only one of them, or each row would be "
                    "read twice an epoch"
                )
            seen |= dict.fromkeys(digests_found, shards.path)


def _shard_info(shards: ShardSet, shard: int, name: str) -> ShardInfo:
    """Return the record of a shard under its new name; the first one gets all tokens, which only sets record."""
    facts, index, manifest = shards.manifest.shards[shard], shards.index, shards.manifest
    blocks = tuple(
        Block(int(index.offset[at]), int(index.length[at]), int(index.rows[at]), index.xxh3[at].tobytes())
        for at in blocks_of(shards, shard)
    )
    tokens = manifest.totals.tokens if shard == 0 else 0
    set_figures = (tokens, manifest.max_length, manifest.max_block_bytes)
    return ShardInfo(name, facts.bytes, facts.sha256, facts.rows, blocks, *set_figures)


def _link_or_copy(source: Path, target: Output, name: str, *, copy: bool) -> None:
    """Link or copy a file, replacing one that a killed process left."""
    path = target.folder / name
    if not copy:
        target.folder.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        try:
            path.hardlink_to(source.resolve())
        except OSError:  # the file system cannot link
            copy = True
    if copy:
        with publish(path) as temporary:
            shutil.copyfile(source, temporary)
    target.files[name] = {}


def _sum_tables(manifests: Sequence[Manifest]) -> dict[str, Any]:
    """Return the summed tables; one that a set lacks is dropped, because its sum would be wrong."""
    totals: dict[str, Any] = {"skipped": {}}
    for manifest in manifests:
        add_counts(totals, {"skipped": manifest.totals.skipped})
    for name in ("tokens_by_language", "tokens_by_source"):
        tables = [getattr(manifest.totals, name) for manifest in manifests if manifest.totals.tokens]
        if all(tables):
            totals[name] = {}
            for table in tables:
                add_counts(totals[name], table)
    return totals


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(__doc__)
    parser.add_argument("manifests", type=some_path, nargs="+", metavar="MANIFEST", help="manifest.json, or its folder")
    parser.add_argument("--output", type=some_path, required=True, metavar="DIR", help="folder of the new set")
    parser.add_argument("--name", required=True, help="name of the set; with the seed it decides the stream's order")
    parser.add_argument("--copy", action="store_true", help="copy shards instead of linking them")

    def action(options: argparse.Namespace) -> None:
        new = merge(options.manifests, options.output, options.name, copy=options.copy)
        totals = new.totals
        print(
            f"{options.output}: {new.name}: {plural(totals.samples, 'row')}, {plural(totals.tokens, 'token')} in "
            f"{plural(totals.blocks, 'block')} of {plural(totals.shards, 'shard')}, {totals.bytes:,} bytes, "
            f"from {plural(len(options.manifests), 'set')}"
        )

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
