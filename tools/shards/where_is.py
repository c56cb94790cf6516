"""Find when training reads a sample or document.

`clozeline where-is run=mine/run url=http://a.example/7`, or with a set for the run.

Finds the rows of a sample (one per variant) by its uid, or all rows with text of a document by its
uid, its `url` or the `id` of its record; of a document that a stage dropped, the reason. Then
computes, without reading the stream, at which positions each row was or will be read. `clozeline
explain-batch samples=N` shows the entire batch there.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, TypeAlias, get_args

from pydantic import AfterValidator

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.shards import ShardSet
from clozeline.tools.command import Natural, Positive, run_as_script, run_tool
from clozeline.tools.runs.data.feed import STATES, VARIANTS, Feed, FeedOptions, open_feed
from clozeline.tools.shards.provenance.document_table import (
    AddressColumn,
    documents_at,
    find_documents,
    rejections_at,
)
from clozeline.tools.shards.provenance.row_origins import (
    describe_document,
    origin_of,
    storage_location,
)
from clozeline.tools.shards.provenance.row_search import StoredRow, find_document_rows, find_rows

_SAMPLE_DIGITS: Final = 16
_DOCUMENT_DIGITS: Final = 32

FoundRow: TypeAlias = tuple[int, StoredRow]
"""Source of a set of the feed, and a row of the set."""


def _parse_uid(text: str) -> int | bytes:
    """Return the uid of a sample as a number, that of a document as bytes."""
    digits = text.lower().removeprefix("0x")
    try:
        number = int(digits, 16)
    except ValueError:
        number = -1
    if number < 0 or not (len(digits) <= _SAMPLE_DIGITS or len(digits) == _DOCUMENT_DIGITS):
        raise ValueError(
            "expected up to 16 hexadecimal digits of a sample, or the 32 of a document, got "
            f"{text!r}"
        )
    return number if len(digits) <= _SAMPLE_DIGITS else bytes.fromhex(digits)


def _check_uid(text: str) -> str:
    _parse_uid(text)
    return text


@config_class
class WhereOptions(FeedOptions):
    """A sample or a document, and the readings to show."""

    uid: Annotated[str, AfterValidator(_check_uid)] | None = None
    """hexadecimal uid of a sample (16 digits) or of a document (32)"""
    url: str | None = None
    """URL of a document; a trailing * matches every URL that starts so"""
    id: str | None = None
    """id that documents have in their source, such as the record id of a page; a trailing * matches
    every id that starts so"""
    variant: Natural | None = None
    """only this variant of the samples"""
    epoch: Natural = 0
    """first epoch"""
    epochs: Positive | None = None
    """how many; default: to the end of the run, else 1"""
    json: bool = False
    """print one JSON object per reading"""

    @property
    def identity(self) -> int | bytes | None:
        """The uid of a sample as a number, that of a document as bytes."""
        return None if self.uid is None else _parse_uid(self.uid)

    def address(self) -> tuple[AddressColumn, str]:
        """Return the column by which documents are looked up, and the value; not for a uid."""
        columns: tuple[AddressColumn, ...] = get_args(AddressColumn)
        return next((name, value) for name in columns if (value := getattr(self, name)) is not None)


def _distinct_sets(feed: Feed) -> list[tuple[int, ShardSet]]:
    """Return the sets with their source numbers, each set once."""
    sources = {shards.path: source for source, shards in reversed(list(enumerate(feed.sets)))}
    return [(source, feed.sets[source]) for source in sorted(sources.values())]


def document_rows(feed: Feed, uids: Sequence[bytes]) -> tuple[list[FoundRow], str]:
    """Return the rows in all sets with text of some documents.

    Also a text that names undecidable rows.
    """
    per_set = [
        (source, *find_document_rows(shards, uids)) for source, shards in _distinct_sets(feed)
    ]
    rows = [(source, row) for source, stored, _ in per_set for row in stored]
    return rows, ", ".join(dict.fromkeys(undecided for _, _, undecided in per_set if undecided))


def row_reads(
    feed: Feed, rows: Sequence[FoundRow], epochs: Sequence[range], variant: int | None = None
) -> list[dict[str, object]]:
    """Return every reading of some rows as data, in stream order.

    Epochs are given per set.
    """
    readings = []

    for source, row in rows:
        shards = feed.sets[source]

        for epoch in epochs[source]:
            variant_read = epoch % VARIANTS if feed.online(source) else row.variant
            visit = feed.reading.find(source, (row.block, row.row), epoch)
            if visit is None or variant not in (None, variant_read):
                continue
            samples = feed.batch_start(visit)
            reading = {
                "sample": f"{row.uid:016x}",
                "variant": variant_read,
                "set": shards.manifest.name,
                **storage_location(shards, row.block, row.row),
                "epoch": visit.epoch,
                "lane": visit.lane,
                "samples": samples,
                "step": feed.step(samples),
                "place": feed.index_in_batch(visit),
            }
            if feed.taken is not None:
                reading["state"] = feed.state(samples)
                reading["seen"] = reading["state"] == "read"

            readings.append(reading)

    return sorted(readings, key=lambda reading: (reading["samples"], reading["place"]))


def _format_readings(feed: Feed, readings: Sequence[dict[str, Any]]) -> Iterator[str]:
    for reading in readings:
        end = reading["samples"] + feed.rows(reading["samples"])
        yield (
            f"epoch {reading['epoch']}: step {reading['step']:,}, samples {reading['samples']:,} "
            f"to {end:,}, row {reading['place']} (lane "
            f"{reading['lane']}){STATES[reading.get('state', 'unknown')]}: sample "
            f"{reading['sample']}, variant {reading['variant']}; {reading['set']}, "
            f"{reading['shard']}, block {reading['block']}, row {reading['row']}"
        )


def _summarize(
    documents: dict[bytes, dict[str, object] | None],
    readings: Sequence[dict[str, object]],
    undecided: str,
) -> Iterator[str]:
    for uid, line in documents.items():
        yield f"document {describe_document(origin_of(uid, line))}"
    samples = len({(reading["set"], reading["sample"]) for reading in readings})
    counts = Counter(reading.get("state") for reading in readings)
    states = ", ".join(
        f"{counts[state]:,} {text.removeprefix(', ')}"
        for state, text in STATES.items()
        if text and counts[state]
    )

    yield (
        f"{plural(samples, 'sample')}, "
        f"{plural(len(readings), 'reading')}{': ' if states else ''}{states}"
    )
    if undecided:
        yield f"not among them: {undecided}"


def _look_up_documents(options: WhereOptions, feed: Feed) -> dict[bytes, dict[str, object] | None]:
    documents: dict[bytes, dict[str, object] | None] = {}
    uid = options.identity
    if isinstance(uid, bytes):
        for shards in feed.sets:
            documents |= {uid: None} | find_documents(shards.path, [uid]) | documents
        return documents

    column, address = options.address()
    for shards in feed.sets:
        documents |= documents_at(shards.path, column, address)

    if not documents:
        dropped = [
            row for shards in feed.sets for row in rejections_at(shards.path, column, address)
        ]
        reasons = dict.fromkeys(
            f"{row.stage} dropped it: {row.reason} {row.detail}".strip() for row in dropped
        )
        raise ConfigurationError(
            f"{column}={address}: {'; '.join(reasons)}"
            if reasons
            else f"{column}={address}: no document with this {column} in encode/documents-*.arrow "
            f"above {_set_paths(feed)}; a `*` at its end matches anything"
        )

    return documents


def _not_found_error(
    options: WhereOptions, feed: Feed, rows: Sequence[FoundRow], epochs: Sequence[range]
) -> ConfigurationError:
    uid = options.identity
    digits = f"{uid:016x}" if isinstance(uid, int) else (uid or b"").hex()
    request = "=".join(options.address()) if uid is None else f"uid={digits}"
    sets = _set_paths(feed)

    if rows:
        what = (
            "none of its rows" if options.variant is None else f"no variant {options.variant} of it"
        )
        last = max(searched.stop for searched in epochs) - 1
        return ConfigurationError(
            f"{request}: {what} is read in epochs {options.epoch} to {last} of {sets}"
        )

    missing = (
        f"no such sample in {sets}"
        if isinstance(uid, int)
        else (
            f"no row of {sets} has text of it; held-out documents are in the held-out set, those "
            "that grouping dropped are in no set"
        )
    )
    return ConfigurationError(f"{request}: {missing}")


def _set_paths(feed: Feed) -> str:
    return ", ".join(str(shards.path) for shards in feed.sets)


def _find_readings(options: WhereOptions) -> None:
    if [options.uid, options.url, options.id].count(None) != 2:
        raise ConfigurationError("expected one of uid=UID, url=URL and id=ID; see --help")
    feed = open_feed(options)

    # by default the epochs that the run starts, at least one
    epochs = [range(options.epoch, options.epoch + (options.epochs or 1))] * len(feed.sets)

    if options.epochs is None and feed.steps is not None:
        end = feed.samples(feed.steps + 1)
        started = [feed.epochs(source, end) for source in range(len(feed.sets))]
        epochs = [range(options.epoch, max(options.epoch + 1, number)) for number in started]

    # the rows, then every reading of them
    uid = options.identity
    documents: dict[bytes, dict[str, object] | None] = {}
    undecided = ""

    if isinstance(uid, int):
        rows = [
            (source, row)
            for source, shards in _distinct_sets(feed)
            for row in find_rows(shards, uid)
        ]
    else:
        documents = _look_up_documents(options, feed)
        rows, undecided = document_rows(feed, list(documents))

    readings = row_reads(feed, rows, epochs, options.variant)
    if not readings:
        raise _not_found_error(options, feed, rows, epochs)

    if documents and not options.json:
        print("\n".join(_summarize(documents, readings, undecided)))
    for line in map(json.dumps, readings) if options.json else _format_readings(feed, readings):
        print(line)


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, WhereOptions, _find_readings, prints=True)


if __name__ == "__main__":
    run_as_script(main)
