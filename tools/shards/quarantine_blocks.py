"""Put unreadable blocks in quarantine: `clozeline quarantine-blocks MANIFEST`.

Every block of the set is read. Damaged blocks are added to `quarantine.json` beside the manifest; of a shard that is
missing or has another size, every block. The stream delivers filler rows instead of them and does not read them:
neither the order nor the digest of the set changes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from clozeline.pipeline.shards import DamagedBlock, Manifest, open_shards
from clozeline.pipeline.shards.manifest import manifest_path
from clozeline.pipeline.shards.quarantine import QUARANTINE, entries_of, publish_quarantine, read_quarantine
from clozeline.tools.command import Arguments, counted, run_tool, some_path
from clozeline.tools.shard_folder import here

Entries: TypeAlias = list[dict[str, Any]]


def put_in_quarantine(path: Path) -> tuple[Entries, Entries]:
    """Read a whole set; return the entries of the quarantine before, and the new ones.

    Raises:
        ClozelineError: the set is in a store, or more than its shards is damaged.
    """
    path = manifest_path(here(path))
    manifest = Manifest.load(path)
    overlay = path.parent / QUARANTINE
    before: Entries = []
    if overlay.exists():
        raw = overlay.read_bytes()
        read_quarantine(str(overlay), raw, manifest)
        before = entries_of(str(overlay), raw)
    new = _of_lost_shards(path.parent, manifest, {(entry["shard"], entry["block"]) for entry in before})
    if new:  # the set does not open without these entries
        publish_quarantine(path.parent, before + new)
    shards = open_shards(path)
    for block in range(len(shards.index)):
        if block in shards.quarantined:
            continue
        try:
            shards.read_block(block)
        except DamagedBlock as error:
            shard = manifest.shards[int(shards.index.shard[block])].path
            reason = f"expected {error.expected}, got {error.got}"
            new.append({"shard": shard, "block": error.block, "reason": reason})
    if new:
        publish_quarantine(path.parent, before + new)
    return before, new


def _of_lost_shards(folder: Path, manifest: Manifest, known: set[tuple[str, int]]) -> Entries:
    """Return every block of the shards whose file is missing or has another size."""
    found: Entries = []
    for facts in manifest.shards:
        path = folder / facts.path
        size = path.stat().st_size if path.is_file() else None
        if size != facts.bytes:
            reason = "the shard is missing" if size is None else f"the shard has {size} bytes, expected {facts.bytes}"
            blocks = [block for block in range(facts.blocks) if (facts.path, block) not in known]
            found += [{"shard": facts.path, "block": block, "reason": reason} for block in blocks]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument("manifest", type=some_path, help="manifest.json of a shard set, or its folder")

    def action(options: argparse.Namespace) -> int:
        before, new = put_in_quarantine(options.manifest)
        for entry in new:
            print(f"{entry['shard']}: block {entry['block']}: {entry['reason']}")
        print(f"{options.manifest}: {counted(len(new), 'block')} put in quarantine, {len(before):,} were there before")
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
