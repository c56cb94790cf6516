"""Put unreadable blocks in quarantine: `clozeline quarantine-blocks MANIFEST`.

Reads every block of the set. Damaged blocks are added to `quarantine.json` next to the manifest,
and so is every block of a shard that is missing or has the wrong size. The stream delivers filler
rows instead of them: neither the order nor the digest of the set changes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from clozeline.errors import plural
from clozeline.pipeline.shards import DamagedBlock, Manifest, open_shards
from clozeline.pipeline.shards.manifest import manifest_path
from clozeline.pipeline.shards.quarantine import (
    QUARANTINE,
    entries_of,
    publish_quarantine,
    read_quarantine,
)
from clozeline.tools.command import run_as_script, run_tool
from clozeline.tools.options import SetArgument
from clozeline.tools.shards.rewriting.output_folder import local_folder

Entries: TypeAlias = list[dict[str, Any]]


def put_in_quarantine(path: Path) -> tuple[Entries, Entries]:
    """Read an entire set; return the previous quarantine entries and the new ones."""
    path = manifest_path(local_folder(path))
    manifest = Manifest.load(path)
    overlay = path.parent / QUARANTINE
    before: Entries = []

    if overlay.exists():
        raw = overlay.read_bytes()
        read_quarantine(str(overlay), raw, manifest)
        before = entries_of(str(overlay), raw)

    new = _list_missing_shards(
        path.parent, manifest, {(entry["shard"], entry["block"]) for entry in before}
    )
    if new:  # the set cannot be opened without these entries
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


def _list_missing_shards(folder: Path, manifest: Manifest, known: set[tuple[str, int]]) -> Entries:
    entries: Entries = []

    for shard in manifest.shards:
        path = folder / shard.path
        size = path.stat().st_size if path.is_file() else None
        if size != shard.bytes:
            reason = (
                "the shard is missing"
                if size is None
                else f"the shard has {size} bytes, expected {shard.bytes}"
            )
            blocks = [block for block in range(shard.blocks) if (shard.path, block) not in known]
            entries += [{"shard": shard.path, "block": block, "reason": reason} for block in blocks]

    return entries


def _quarantine(options: SetArgument) -> None:
    before, new = put_in_quarantine(options.manifest)
    for entry in new:
        print(f"{entry['shard']}: block {entry['block']}: {entry['reason']}")
    print(
        f"{options.manifest}: {plural(len(new), 'block')} put in quarantine, {len(before):,} were "
        "there before"
    )


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, SetArgument, _quarantine)


if __name__ == "__main__":
    run_as_script(main)
