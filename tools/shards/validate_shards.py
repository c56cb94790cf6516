"""Check a shard set: `clozeline validate-shards mine/data/encode [against=MANIFEST]`.

Checks manifest, index, size and SHA-256 of every file, the hash of every block, counts, ids, and
the rules that follow from the meaning of columns. `against=SAMPLES` also restores every example to
its original tokens; for a column set, `against=SET` compares it with its rows, and `teacher=RUN`
computes a sample of blocks again. The tokenizer is looked for above the set and above the samples,
or named with `tokenizer`; without it, only the comparison with the manifest is skipped. Exit code 0
with a summary line; 65 with file, block and sample of the first mismatch; 64 for wrong usage; 74
for a missing file.
"""

import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import open_shards
from clozeline.tools.command import UserPath, run_as_script, run_tool
from clozeline.tools.options import SetArgument, TokenizerOption
from clozeline.tools.shards.column_kinds import kinds_of
from clozeline.tools.shards.provenance.document_table import vocabulary_for, vocabulary_of_manifest
from clozeline.tools.shards.validation.round_trip import RoundTrip, check_origin
from clozeline.tools.shards.validation.shard_set import ComparedColumns, check_shard_set


@config_class
class ValidateOptions(TokenizerOption, SetArgument):
    """A set, and what it is compared with."""

    against: UserPath | None = None
    """the sample set that the examples were made from; of a column set, the set of its rows"""
    teacher: UserPath | None = None
    """of a column set: the run or model folder that scored it, to compute a sample of blocks
    again"""
    json: bool = False
    """print what was checked as a JSON object"""


@dataclass(frozen=True)
class Validation:
    """What was checked of a shard set, all of which agrees."""

    name: str
    kind: str
    container: str
    rows: int
    tokens: int
    blocks: int
    shards: int
    bytes: int
    restored: int | None = None
    """examples that were restored to their samples; None: none were given, or they could not be
    restored"""
    scores: ComparedColumns | None = None
    """of a column set, compared with its rows"""
    without_tokenizer: bool = False
    """no tokenizer was found to compare the manifest with"""
    unrestored: str = ""
    """why no example was restored, although samples were given"""

    def describe(self) -> str:
        """Return a line that lists the checks that ran, and those that did not."""
        blocks = (
            f"{self.blocks:,} blocks of {self.shards:,} shards, {self.bytes:,} bytes; every hash "
            "and count agrees"
        )
        if self.kind == "columns":
            compared = "" if self.scores is None else f"; {self.scores.describe()}"
            return f"OK: {self.name} (columns): {self.rows:,} rows in {blocks}{compared}"

        line = (
            f"OK: {self.name} ({self.kind}, {self.container}): {self.rows:,} rows, {self.tokens:,} "
            f"tokens in {blocks}"
        )

        if self.without_tokenizer:
            unrestored = (
                f" and no example was restored ({self.unrestored})" if self.unrestored else ""
            )
            unchecked = f"the manifest was not compared with it{unrestored}"
            line = (
                f"{line}; its tokenizer is not above it, so {unchecked}: give its folder with "
                "tokenizer=DIR"
            )

        if self.restored is None:
            return line
        return f"{line}; {self.restored:,} examples restored to their samples"


def validate(
    path: Path,
    against: Path | None = None,
    tokenizer: Path | None = None,
    teacher: Path | None = None,
) -> Validation:
    """Check a set; return the checks that ran.

    `against` is the sample set that its examples were made from. The tokenizer is `tokenizer` (see
    `tokenizer_folder`), or the one found above the set, or above the samples. For a column set
    `against` is the set of its rows.
    """
    shards = open_shards(path)
    of_columns = shards.manifest.kind == "columns"
    if teacher is not None and not (of_columns and against is not None):
        raise ConfigurationError(
            f"teacher: {path}: expected a column set, and against=SET with its rows"
        )

    vocabulary = None
    round_trip = None
    scores = None
    unrestored = ""

    if of_columns and against is not None:
        if not (kinds := kinds_of([shards])):
            raise ConfigurationError(
                f"{path}: no extension here knows its columns; clozeline doctor lists extensions"
            )
        scores = kinds[0][0].compare(shards, open_shards(against), teacher)

    if not of_columns:
        vocabulary = vocabulary_for(shards, tokenizer)
    if not of_columns and against is not None:
        samples = open_shards(against, verify="shard")
        check_origin(shards, samples)
        if vocabulary is None:
            with contextlib.suppress(ConfigurationError):  # none above the samples either
                vocabulary = vocabulary_for(shards, against)

        try:
            round_trip = RoundTrip(
                shards, samples, vocabulary or vocabulary_of_manifest(shards.manifest.tokenizer)
            )
        except ConfigurationError as error:  # for example mode tokens, which no manifest lists
            if vocabulary is not None:
                raise
            unrestored = str(error)

    check_shard_set(shards, round_trip)
    manifest = shards.manifest
    totals = manifest.totals
    return Validation(
        manifest.name,
        manifest.kind,
        manifest.container,
        totals.samples,
        totals.tokens,
        totals.blocks,
        totals.shards,
        totals.bytes,
        restored=None if round_trip is None else round_trip.restored,
        scores=scores,
        without_tokenizer=vocabulary is None and not of_columns,
        unrestored=unrestored,
    )


def _validate(options: ValidateOptions) -> None:
    result = validate(options.manifest, options.against, options.tokenizer, options.teacher)
    print(json.dumps(asdict(result)) if options.json else result.describe())


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ValidateOptions, _validate, prints=True)


if __name__ == "__main__":
    run_as_script(main)
