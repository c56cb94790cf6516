"""Check a shard set: `clozeline validate-shards MANIFEST [against=MANIFEST] [tokenizer=FOLDER]`.

Checks manifest, index, size and SHA-256 of every file, the hash of every block, counts, ids, and the rules that follow
from the meaning of columns. `against=SAMPLES` also restores every example to its original tokens; for a column set,
`against=SET` compares it with its rows, and `teacher=RUN` computes a sample of blocks again. The tokenizer is
looked for above the set and above the samples, or named with `tokenizer`; without it, only the comparison with the
manifest is skipped. Exit code 0 with a summary line; 65 with file, block and sample of the first mismatch; 64 for wrong
usage; 74 for a missing file.
"""

import argparse
import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import open_shards
from clozeline.tools.command import Arguments, run_as_script, run_tool, some_path
from clozeline.tools.shards.provenance.document_table import TOKENIZER_HELP, vocabulary_for, vocabulary_of_manifest
from clozeline.tools.shards.validation.round_trip import RoundTrip, check_origin
from clozeline.tools.shards.validation.shard_set import check_shard_set


def validate(
    path: Path, against: Path | None = None, tokenizer: Path | None = None, teacher: Path | None = None
) -> str:
    """Check a set; return a summary line, which also says what could not be checked.

    `against` is the sample set that its examples were made from. The tokenizer is `tokenizer` (see `tokenizer_folder`),
    or the one found above the set, or above the samples. For a column set `against` is the set of its rows.
    """
    shards = open_shards(path)
    of_columns = shards.manifest.kind == "columns"
    if teacher is not None and not (of_columns and against is not None):
        raise ConfigurationError(f"teacher: {path}: expected a column set, and against=SET with its rows")
    if of_columns:
        checked = ""
        if against is not None:
            from clozeline.tools.shards.validation.stored_scores import check_stored_scores  # torch, only here

            checked = f"; {check_stored_scores(shards, open_shards(against), teacher)}"
        check_shard_set(shards)
        totals = shards.manifest.totals
        return (
            f"OK: {shards.manifest.name} (columns): {totals.samples:,} rows in {totals.blocks:,} blocks of "
            f"{totals.shards:,} shards, {totals.bytes:,} bytes; every hash and count agrees{checked}"
        )
    vocabulary = vocabulary_for(shards, tokenizer)
    round_trip, unrestored = None, ""
    if against is not None:
        samples = open_shards(against, verify="shard")
        check_origin(shards, samples)
        if vocabulary is None:
            with contextlib.suppress(ConfigurationError):  # none above the samples either
                vocabulary = vocabulary_for(shards, against)
        try:
            round_trip = RoundTrip(shards, samples, vocabulary or vocabulary_of_manifest(shards.manifest.tokenizer))
        except ConfigurationError as error:  # for example mode tokens, which no manifest lists
            if vocabulary is not None:
                raise
            unrestored = f" and no example was restored ({error})"
    start = time.perf_counter()
    check_shard_set(shards, round_trip)
    seconds = time.perf_counter() - start
    manifest, totals = shards.manifest, shards.manifest.totals
    line = (
        f"OK: {manifest.name} ({manifest.kind}, {manifest.container}): {totals.samples:,} rows, {totals.tokens:,} "
        f"tokens in {totals.blocks:,} blocks of {totals.shards:,} shards, {totals.bytes:,} bytes; "
        "every hash and count agrees"
    )
    if vocabulary is None:
        unchecked = f"the manifest was not compared with it{unrestored}"
        line = f"{line}; its tokenizer is not above it, so {unchecked}: give its folder with tokenizer=DIR"
    if round_trip is None:
        return line
    speed = round_trip.tokens / max(seconds, 1e-9)
    return f"{line}; {round_trip.restored:,} examples restored to their samples, {speed:,.0f} tokens/s"


def main(arguments: Sequence[str]) -> int:
    parser = Arguments(__doc__)
    parser.add_argument("manifest", type=some_path, help="manifest.json of a shard set, or its folder")
    against = "the sample set that the examples were made from; of a column set, the set of its rows"
    parser.add_argument("--against", type=some_path, metavar="MANIFEST", help=against)
    again = "of a column set: the run or model folder that scored it, to compute a sample of blocks again"
    parser.add_argument("--teacher", type=some_path, metavar="RUN", help=again)
    parser.add_argument("--tokenizer", type=some_path, metavar="FOLDER", help=TOKENIZER_HELP)

    def action(options: argparse.Namespace) -> None:
        print(validate(options.manifest, options.against, options.tokenizer, options.teacher))

    return run_tool(parser, arguments, action, prints=True)


if __name__ == "__main__":
    run_as_script(main)
