"""Find when a sample or a document is read: `clozeline where-is --run DIR --uid UID`, or a set in place of a run.

Finds the rows of a sample (one a variant), or all rows that hold text of a document: by its uid, or by its address
with `--url`. Then it computes, without reading the stream, at which positions each was or will be read.
`clozeline explain-batch --samples N` shows the whole batch there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import ShardSet
from clozeline.tools.command import IntermixedArguments, counted, natural, positive, run_tool
from clozeline.tools.runs.data.feed import STATES, VARIANTS, Feed, add_feed_arguments, open_feed
from clozeline.tools.shards.provenance.document_table import documents_at, find_documents
from clozeline.tools.shards.provenance.row_origins import describe_origin, stored_at
from clozeline.tools.shards.provenance.row_search import StoredRow, find_document_rows, find_rows
from clozeline.train.data.stream.reading_order import Visit

_SAMPLE_DIGITS: Final = 16
_DOCUMENT_DIGITS: Final = 32


class Found(NamedTuple):
    """A row of one of the sets of a feed."""

    source: int
    stored: StoredRow


def sample_rows(feed: Feed, uid: int) -> list[Found]:
    """Return the rows of a sample in all sets."""
    return [Found(source, one) for source, shards in _searched(feed) for one in find_rows(shards, uid)]


def _searched(feed: Feed) -> list[tuple[int, ShardSet]]:
    """Return the sets with their source numbers, each set once whatever becomes of its samples."""
    first = {shards.path: source for source, shards in reversed(list(enumerate(feed.sets)))}
    return [(source, feed.sets[source]) for source in sorted(first.values())]


def document_rows(feed: Feed, uids: Sequence[bytes]) -> tuple[list[Found], str]:
    """Return the rows in all sets that hold text of some documents, and the rows that cannot be decided."""
    found = [(source, *find_document_rows(shards, uids)) for source, shards in _searched(feed)]
    rows = [Found(source, one) for source, stored, _ in found for one in stored]
    return rows, ", ".join(dict.fromkeys(untold for _, _, untold in found if untold))


def visits(
    feed: Feed, rows: Sequence[Found], epochs: Sequence[range], variant: int | None = None
) -> list[dict[str, Any]]:
    """Return every time that rows are read in some epochs, as plain data in the order of the stream.

    Args:
        feed: what is read.
        rows: of its sets.
        epochs: of each set.
        variant: only this one; None: all.
    """
    found = [
        _facts(feed, one.stored, visit)
        for one in rows
        for epoch in epochs[one.source]
        if variant in (None, _variant(feed, one, epoch))
        and (visit := feed.visit(one.source, (one.stored.block, one.stored.row), epoch)) is not None
    ]
    return sorted(found, key=lambda one: (one["samples"], one["place"]))


def _variant(feed: Feed, row: Found, epoch: int) -> int:
    """Return the variant of a row's sample in an epoch."""
    return epoch % VARIANTS if feed.online(row.source) else row.stored.variant


def _facts(feed: Feed, row: StoredRow, visit: Visit) -> dict[str, Any]:
    """Return a visit of a stored row as plain data."""
    shards = feed.sets[visit.source]
    facts: dict[str, Any] = {
        "sample": f"{row.uid:016x}",
        "variant": _variant(feed, Found(visit.source, row), visit.epoch),
        "set": shards.manifest.name,
        **stored_at(shards, row.block, row.row),
        "epoch": visit.epoch,
        "lane": visit.lane,
        "samples": (samples := feed.begin(visit)),
        "step": feed.step(samples),
        "place": feed.place(visit),
    }
    if feed.taken is not None:
        facts["state"] = feed.state(samples)
        facts["seen"] = facts["state"] == "read"
    return facts


def _lines(feed: Feed, found: Sequence[dict[str, Any]]) -> Iterator[str]:
    for one in found:
        end = one["samples"] + feed.rows(one["samples"])
        yield (
            f"epoch {one['epoch']}: step {one['step']:,}, samples {one['samples']:,} to {end:,}, row {one['place']} "
            f"(lane {one['lane']}){STATES[one.get('state', 'unknown')]}: sample {one['sample']}, variant "
            f"{one['variant']}; {one['set']}, {one['shard']}, block {one['block']}, row {one['row']}"
        )


def _summary(
    documents: dict[bytes, dict[str, Any] | None], found: Sequence[dict[str, Any]], untold: str
) -> Iterator[str]:
    """Yield lines that name the request and count its rows."""
    for uid, line in documents.items():
        yield f"document {uid.hex()}{describe_origin(line or {})}"
    samples = len({(one["set"], one["sample"]) for one in found})
    counts = {text: sum(one.get("state") == state for one in found) for state, text in STATES.items() if text}
    states = ", ".join(f"{count:,} {text.removeprefix(', ')}" for text, count in counts.items() if count)
    yield f"{counted(samples, 'sample')}, {counted(len(found), 'reading')}{': ' if states else ''}{states}"
    if untold:
        yield f"not among them: {untold}"


def _uid(text: str) -> int | bytes:
    """Return a sample's number or a document's bytes."""
    digits = text.lower().removeprefix("0x")
    try:
        number = int(digits, 16)
    except ValueError:
        number = -1
    if number < 0 or not (len(digits) <= _SAMPLE_DIGITS or len(digits) == _DOCUMENT_DIGITS):
        raise argparse.ArgumentTypeError(
            f"expected up to 16 hexadecimal digits of a sample, or the 32 of a document, got {text!r}"
        )
    return number if len(digits) <= _SAMPLE_DIGITS else bytes.fromhex(digits)


def _epochs(options: argparse.Namespace, feed: Feed) -> list[range]:
    """Return the epochs of each set asked for; default: those that the run begins, at least one."""
    if options.epochs is None and feed.steps is not None:
        begun = [feed.epochs(source, feed.samples(feed.steps + 1)) for source in range(len(feed.sets))]
        return [range(options.epoch, max(options.epoch + 1, number)) for number in begun]
    return [range(options.epoch, options.epoch + (options.epochs or 1))] * len(feed.sets)


def _documents(options: argparse.Namespace, feed: Feed) -> dict[bytes, dict[str, Any] | None]:
    """Return the documents requested by uid or address, with their lines in the tables of `encode`, if any."""
    found: dict[bytes, dict[str, Any] | None] = {}
    for shards in feed.sets:
        if options.url is None:
            found |= {options.uid: None} | find_documents(shards.path, [options.uid]) | found
        else:
            found |= documents_at(shards.path, options.url)
    if not found:
        raise ConfigurationError(
            f"--url {options.url}: no document from there in encode/documents-*.arrow above {_paths(feed)}; "
            "a `*` at its end matches anything"
        )
    return found


def _nothing(
    options: argparse.Namespace, feed: Feed, rows: Sequence[Found], epochs: Sequence[range]
) -> ConfigurationError:
    """Return why no visit was found."""
    asked = f"--url {options.url}" if options.uid is None else f"--uid {_shown(options.uid)}"
    if rows:
        what = "none of its rows" if options.variant is None else f"no variant {options.variant} of it"
        where = f"in epochs {options.epoch} to {max(one.stop for one in epochs) - 1} of {_paths(feed)}"
        return ConfigurationError(f"{asked}: {what} is read {where}")
    quarantined = sum(len(shards.quarantined) for shards in feed.sets)
    not_searched = f"; {counted(quarantined, 'block')} in quarantine not searched" if quarantined else ""
    if isinstance(options.uid, int):
        return ConfigurationError(f"{asked}: no such sample in {_paths(feed)}{not_searched}")
    return ConfigurationError(
        f"{asked}: no row of {_paths(feed)} holds text of it; held-out documents are in the held-out set, documents "
        f"that grouping dropped are in no set{not_searched}"
    )


def _shown(uid: int | bytes) -> str:
    return f"{uid:016x}" if isinstance(uid, int) else uid.hex()


def _paths(feed: Feed) -> str:
    return ", ".join(str(shards.path) for shards in feed.sets)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = IntermixedArguments(__doc__)
    add_feed_arguments(parser)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--uid", type=_uid, help="hexadecimal uid of a sample (16 digits) or of a document (32)")
    asked.add_argument("--url", help="address of a document; with * at its end: of all that begin so")
    parser.add_argument("--variant", type=natural, metavar="V", help="only this variant of the samples")
    parser.add_argument("--epoch", type=natural, default=0, metavar="E", help="first epoch (%(default)s)")
    parser.add_argument("--epochs", type=positive, metavar="N", help="how many; default: to the end of the run, else 1")
    parser.add_argument("--json", action="store_true", help="one JSON object a visit")

    def action(options: argparse.Namespace) -> int:
        feed = open_feed(options)
        epochs = _epochs(options, feed)
        documents = {} if isinstance(options.uid, int) else _documents(options, feed)
        rows, untold = document_rows(feed, list(documents)) if documents else (sample_rows(feed, options.uid), "")
        found = visits(feed, rows, epochs, options.variant)
        if not found:
            raise _nothing(options, feed, rows, epochs)
        if documents and not options.json:
            print("\n".join(_summary(documents, found, untold)))
        for line in map(json.dumps, found) if options.json else _lines(feed, found):
            print(line)
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
