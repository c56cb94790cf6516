"""Check a shard set: `python tools/validate_shards.py MANIFEST [--against SAMPLE_MANIFEST] [--tokenizer FOLDER]`.

Checked are manifest, index, size and SHA-256 of every file, hash of every block, counts, ids, and the rules that follow
from the meaning of columns. With `--against` every example is also restored to its original tokens. If the tokenizer
is not above the set, name its folder with `--tokenizer`; without it, less is checked. Exit code 0 with a line of
figures; 65 with file, block and sample of the first mismatch; 64 for wrong use; 74 for a missing file.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline.shards import open_shards
from tools.lib.command import Arguments, run_tool, some_path
from tools.validation.restoring import Restoring, check_origin
from tools.validation.shard_set import check_shard_set
from tools.validation.tokenizer import vocabulary_for

__all__ = ["main", "validate"]


def validate(path: Path, against: Path | None = None, tokenizer: Path | None = None) -> str:
    """Check a set; return a line of figures, which also names what could not be checked.

    Args:
        path: manifest of the set, or its folder.
        against: the sample set that its examples were made from.
        tokenizer: the tokenizer's folder; default: the one found above the set.

    Raises:
        ClozelineError: the first mismatch.
    """
    shards = open_shards(path)
    vocabulary = vocabulary_for(shards, tokenizer)
    restoring = None
    if against is not None:
        samples = open_shards(against, verify="shard")
        check_origin(shards, samples)
        restoring = None if vocabulary is None else Restoring(shards, samples, vocabulary)
    start = time.perf_counter()
    check_shard_set(shards, restoring)
    seconds = time.perf_counter() - start
    manifest, totals = shards.manifest, shards.manifest.totals
    line = (
        f"OK: {manifest.name} ({manifest.kind}, {manifest.container}): {totals.samples:,} rows, {totals.tokens:,} "
        f"tokens in {totals.blocks:,} blocks of {totals.shards:,} shards, {totals.bytes:,} bytes; "
        "every hash and count agrees"
    )
    if vocabulary is None:
        unchecked = "nothing was compared with it" + (" and no example was restored" if against else "")
        return f"{line}; its tokenizer is not above it, so {unchecked}: give its folder with --tokenizer"
    if restoring is None:
        return line
    if not restoring.objective.invertible:
        return f"{line}; {restoring.objective.name} cannot be inverted, so nothing was restored"
    speed = restoring.tokens / max(seconds, 1e-9)
    return f"{line}; {restoring.restored:,} examples restored to their samples, {speed:,.0f} tokens/s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = Arguments(__doc__)
    parser.add_argument("manifest", type=some_path, help="manifest.json of a shard set, or its folder")
    parser.add_argument(
        "--against", type=some_path, metavar="SAMPLE_MANIFEST", help="the sample set that the examples were made from"
    )
    parser.add_argument("--tokenizer", type=some_path, metavar="FOLDER", help="default: found above the set")

    def action(options: argparse.Namespace) -> int:
        print(validate(options.manifest, options.against, options.tokenizer))
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
