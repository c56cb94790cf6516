"""Find when training reads a sample or document: `clozeline where-is run=DIR uid=UID`, or with a set for the run.

Finds the rows of a sample (one per variant), or all rows with text of a document, by its uid or
with `url`; of a document that a stage dropped, the reason. Then computes, without reading the
stream, at which positions each row was or will be read. `clozeline explain-batch samples=N` shows
the entire batch there.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.shards import ShardSet
from clozeline.tools.command import IntermixedArguments, natural, positive, run_as_script, run_tool
from clozeline.tools.runs.data.feed import STATES, VARIANTS, Feed, add_feed_arguments, open_feed
from clozeline.tools.shards.provenance.document_table import (
    documents_at,
    find_documents,
    rejections_at,
)
from clozeline.tools.shards.provenance.row_origins import describe_origin, storage_location
from clozeline.tools.shards.provenance.row_search import StoredRow, find_document_rows, find_rows

_SAMPLE_DIGITS: Final = 16
_DOCUMENT_DIGITS: Final = 32

FoundRow: TypeAlias = tuple[int, StoredRow]
"""Source of a set of the feed, and a row of the set."""


def _distinct_sets(feed: Feed) -> list[tuple[int, ShardSet]]:
    """Return the sets with their source numbers, each set once."""
    sources = {shards.path: source for source, shards in reversed(list(enumerate(feed.sets)))}
    return [(source, feed.sets[source]) for source in sorted(sources.values())]


def document_rows(feed: Feed, uids: Sequence[bytes]) -> tuple[list[FoundRow], str]:
    """Return the rows in all sets with text of some documents, and a text that names undecidable rows."""
    per_set = [
        (source, *find_document_rows(shards, uids)) for source, shards in _distinct_sets(feed)
    ]
    rows = [(source, row) for source, stored, _ in per_set for row in stored]
    return rows, ", ".join(dict.fromkeys(undecided for _, _, undecided in per_set if undecided))


def visits(
    feed: Feed, rows: Sequence[FoundRow], epochs: Sequence[range], variant: int | None = None
) -> list[dict[str, object]]:
    """Return every reading of some rows as plain data, in stream order; epochs are given per set."""
    readings = []
    for source, row in rows:
        shards = feed.sets[source]
        for epoch in epochs[source]:
            variant_read = epoch % VARIANTS if feed.online(source) else row.variant
            visit = feed.reading.find(source, (row.block, row.row), epoch)
            if visit is None or variant not in (None, variant_read):
                continue
            samples = feed.batch_start(visit)
            facts = {
                "sample": f"{row.uid:016x}",
                "variant": variant_read,
                "set": shards.manifest.name,
            }
            facts |= storage_location(shards, row.block, row.row) | {
                "epoch": visit.epoch,
                "lane": visit.lane,
            }
            facts |= {
                "samples": samples,
                "step": feed.step(samples),
                "place": feed.index_in_batch(visit),
            }
            if feed.taken is not None:
                facts["state"] = feed.state(samples)
                facts["seen"] = facts["state"] == "read"
            readings.append(facts)
    return sorted(readings, key=lambda facts: (facts["samples"], facts["place"]))


def _format_readings(feed: Feed, readings: Sequence[dict[str, Any]]) -> Iterator[str]:
    for facts in readings:
        end = facts["samples"] + feed.rows(facts["samples"])
        yield (
            f"epoch {facts['epoch']}: step {facts['step']:,}, samples {facts['samples']:,} to "
            f"{end:,}, row "
            f"{facts['place']} (lane {facts['lane']}){STATES[facts.get('state', 'unknown')]}: "
            "sample "
            f"{facts['sample']}, variant {facts['variant']}; {facts['set']}, {facts['shard']}, "
            f"block {facts['block']}, "
            f"row {facts['row']}"
        )


def _summarize(
    documents: dict[bytes, dict[str, object] | None],
    readings: Sequence[dict[str, object]],
    undecided: str,
) -> Iterator[str]:
    for uid, line in documents.items():
        yield f"document {uid.hex()}{describe_origin(line or {})}"
    samples = len({(reading["set"], reading["sample"]) for reading in readings})
    counts = Counter(reading.get("state") for reading in readings)
    states = ", ".join(
        f"{counts[state]:,} {text.removeprefix(', ')}"
        for state, text in STATES.items()
        if text and counts[state]
    )
    yield f"{plural(samples, 'sample')}, {plural(len(readings), 'reading')}{': ' if states else ''}{states}"
    if undecided:
        yield f"not among them: {undecided}"


def _parse_uid(text: str) -> int | bytes:
    digits = text.lower().removeprefix("0x")
    try:
        number = int(digits, 16)
    except ValueError:
        number = -1
    if number < 0 or not (len(digits) <= _SAMPLE_DIGITS or len(digits) == _DOCUMENT_DIGITS):
        raise argparse.ArgumentTypeError(
            "expected up to 16 hexadecimal digits of a sample, or the 32 of a document, got "
            f"{text!r}"
        )
    return number if len(digits) <= _SAMPLE_DIGITS else bytes.fromhex(digits)


def _look_up_documents(
    options: argparse.Namespace, feed: Feed
) -> dict[bytes, dict[str, object] | None]:
    documents: dict[bytes, dict[str, object] | None] = {}
    for shards in feed.sets:
        if options.url is None:
            documents |= (
                {options.uid: None} | find_documents(shards.path, [options.uid]) | documents
            )
        else:
            documents |= documents_at(shards.path, options.url)
    if not documents:
        dropped = [row for shards in feed.sets for row in rejections_at(shards.path, options.url)]
        reasons = dict.fromkeys(
            f"{row.stage} dropped it: {row.reason} {row.detail}".strip() for row in dropped
        )
        raise ConfigurationError(
            f"url={options.url}: {'; '.join(reasons)}"
            if reasons
            else f"url={options.url}: no document from there in encode/documents-*.arrow above "
            f"{_set_paths(feed)}; "
            "a `*` at its end matches anything"
        )
    return documents


def _not_found_error(
    options: argparse.Namespace, feed: Feed, rows: Sequence[FoundRow], epochs: Sequence[range]
) -> ConfigurationError:
    uid = (
        f"{options.uid:016x}" if isinstance(options.uid, int) else options.uid and options.uid.hex()
    )
    request = f"url={options.url}" if options.uid is None else f"uid={uid}"
    sets = _set_paths(feed)
    if rows:
        what = (
            "none of its rows" if options.variant is None else f"no variant {options.variant} of it"
        )
        last = max(searched.stop for searched in epochs) - 1
        return ConfigurationError(
            f"{request}: {what} is read in epochs {options.epoch} to {last} of {sets}"
        )
    quarantined = sum(len(shards.quarantined) for shards in feed.sets)
    missing = (
        f"no such sample in {sets}"
        if isinstance(options.uid, int)
        else (
            f"no row of {sets} has text of it; held-out documents are in the held-out set, those "
            "that grouping dropped "
            "are in no set"
        )
    )
    not_searched = (
        f"; {plural(quarantined, 'block')} in quarantine not searched" if quarantined else ""
    )
    return ConfigurationError(f"{request}: {missing}{not_searched}")


def _set_paths(feed: Feed) -> str:
    return ", ".join(str(shards.path) for shards in feed.sets)


def main(arguments: Sequence[str]) -> int:
    parser = IntermixedArguments(__doc__)
    add_feed_arguments(parser)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument(
        "--uid",
        type=_parse_uid,
        help="hexadecimal uid of a sample (16 digits) or of a document (32)",
    )
    asked.add_argument(
        "--url", help="URL of a document; a trailing * matches every URL that starts so"
    )
    parser.add_argument(
        "--variant", type=natural, metavar="V", help="only this variant of the samples"
    )
    parser.add_argument(
        "--epoch", type=natural, default=0, metavar="E", help="first epoch (%(default)s)"
    )
    parser.add_argument(
        "--epochs",
        type=positive,
        metavar="N",
        help="how many; default: to the end of the run, else 1",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per reading")

    def action(options: argparse.Namespace) -> None:
        # find the rows, then every reading of them
        feed = open_feed(options)
        # by default the epochs that the run starts, at least one
        epochs = [range(options.epoch, options.epoch + (options.epochs or 1))] * len(feed.sets)
        if options.epochs is None and feed.steps is not None:
            end = feed.samples(feed.steps + 1)
            started = [feed.epochs(source, end) for source in range(len(feed.sets))]
            epochs = [range(options.epoch, max(options.epoch + 1, number)) for number in started]
        documents = {} if isinstance(options.uid, int) else _look_up_documents(options, feed)
        rows, undecided = document_rows(feed, list(documents)) if documents else ([], "")
        if not documents:
            rows = [
                (source, row)
                for source, shards in _distinct_sets(feed)
                for row in find_rows(shards, options.uid)
            ]
        readings = visits(feed, rows, epochs, options.variant)
        if not readings:
            raise _not_found_error(options, feed, rows, epochs)
        if documents and not options.json:
            print("\n".join(_summarize(documents, readings, undecided)))
        for line in map(json.dumps, readings) if options.json else _format_readings(feed, readings):
            print(line)

    return run_tool(parser, arguments, action, prints=True)


if __name__ == "__main__":
    run_as_script(main)
