"""Check a shard set: `python tools/validate_shards.py MANIFEST [--against SAMPLE_MANIFEST]`.

Manifest, index, size and SHA-256 of every file, hash of every block, counts, ids, and what rows must obey by the
meaning of their columns. With `--against` every example is restored to its original tokens, too. Exit code 0 with a
line of figures, 65 naming file, block and sample of the first mismatch, 64 for wrong use, 74 for a missing file.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline.shards import open_shards
from tools.command import Arguments, run_tool
from tools.validation.restoring import Restoring
from tools.validation.shard_set import check_shard_set

__all__ = ["main", "validate"]


def validate(path: Path, against: Path | None = None) -> str:
    """Check a set; the line of figures.

    Raises:
        ClozelineError: the first thing that is wrong.
    """
    shards = open_shards(path)
    restoring = None if against is None else Restoring(shards, open_shards(against, verify="shard"))
    start = time.perf_counter()
    check_shard_set(shards, restoring)
    seconds = time.perf_counter() - start
    manifest, totals = shards.manifest, shards.manifest.totals
    line = (
        f"OK: {manifest.name} ({manifest.kind}, {manifest.container}): {totals.samples:,} rows, {totals.tokens:,} "
        f"tokens in {totals.blocks:,} blocks of {totals.shards:,} shards, {totals.bytes:,} bytes; "
        "every hash and count agrees"
    )
    if restoring is None:
        return line
    if not restoring.objective.invertible:
        return f"{line}; {restoring.objective.name} cannot be undone, so nothing was restored"
    speed = restoring.tokens / max(seconds, 1e-9)
    return f"{line}; {restoring.restored:,} examples restored to their samples, {speed:,.0f} tokens/s"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument("manifest", type=Path, help="manifest.json of a shard set, or its folder")
    parser.add_argument("--against", type=Path, metavar="SAMPLE_MANIFEST", help="the sample set the examples come from")

    def action(options: argparse.Namespace) -> int:
        print(validate(options.manifest, options.against))
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
