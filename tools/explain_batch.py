"""Which rows a training batch holds: `python tools/explain_batch.py --run DIR --step N`, or with `--samples N`.

For every row of a global batch, past or future: sample, variant, place in the shards, document and its source, and the
decoded text. Nothing needs to have been trained: `python tools/explain_batch.py MANIFEST --seed S --global-batch G`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from pipeline.errors import ConfigurationError
from pipeline.example import Row, Rows
from pipeline.objectives import Skip
from pipeline.shards import ShardSet
from tools.command import Arguments, natural, positive, run_tool
from tools.documents import find_documents
from tools.feed import VARIANTS, Feed, add_feed_arguments, open_feed
from tools.viewer.pieces import Pieces, pieces_of
from train.online import corruption_of

__all__ = ["explain", "main"]

_TEXTS: Final = ("input_ids", "target_ids", "ids", "token_ids")


def explain(feed: Feed, samples: int, *, lane: int | None = None, tokens: int = 64) -> list[dict[str, Any]]:
    """The rows of the global batch at a position, as plain data; a filler row has no sample.

    Args:
        feed: what is read.
        samples: position at which the batch begins.
        lane: only rows of this lane; None: all.
        tokens: most tokens of a text that are decoded.

    Raises:
        ClozelineError: no batch begins there, or a block is damaged.
    """
    if lane is not None and lane >= feed.lanes:
        raise ConfigurationError(f"--lane {lane}: expected a lane below {feed.lanes}")
    visits = [visit for visit in feed.batch(samples) if lane in (None, visit.lane)]
    found: dict[int, dict[str, Any]] = {}
    for source, shards in enumerate(feed.sets):
        mine = [visit for visit in visits if visit.source == source]
        stored = _read(shards, [visit.stored for visit in mine if visit.stored])
        uids = {rows.fixed["document_uid"].tobytes() for rows in stored.values()}
        documents, pieces = find_documents(shards.path, uids), pieces_of(shards)
        delivered = _delivered(feed, source)
        for visit in mine:
            facts: dict[str, Any] = {"place": visit.place, "lane": visit.lane, "epoch": visit.epoch}
            facts["set"] = shards.manifest.name
            if visit.stored:
                row, skipped = delivered(stored[visit.stored], visit.epoch)
                facts |= _facts(shards, *visit.stored, row)
                facts |= _source(documents.get(row.fixed["document_uid"].tobytes()))
                facts |= {"skipped": skipped} if skipped else dict(_texts(row, pieces, tokens))
            found[visit.place] = facts
    return [found[visit.place] for visit in visits]


def _read(shards: ShardSet, stored: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Rows]:
    """Single rows by block and row; every block is read once."""
    found: dict[tuple[int, int], Rows] = {}
    for block in sorted({block for block, _ in stored}):
        rows = shards.read_block(block)
        numbers = {row for its_block, row in stored if its_block == block}
        found |= {(block, number): rows.take(np.array([number])) for number in numbers}  # copies: the block can go
    return found


def _delivered(feed: Feed, source: int) -> Callable[[Rows, int], tuple[Row, str]]:
    """What a stored row is when it comes out of the stream in an epoch, and why it is left out, if it is."""
    if feed.corrupt is None or not feed.online(source):
        return lambda rows, epoch: (rows.row(0), "")
    corruption = corruption_of(feed.corrupt, feed.sets[source])

    def corrupted(rows: Rows, epoch: int) -> tuple[Row, str]:
        variants = np.array([epoch % VARIANTS], np.uint16)
        examples, skips = corruption(rows, variants)
        if skips[0]:
            return Rows({**rows.fixed, "variant": variants}, rows.columns).row(0), Skip(int(skips[0])).reason
        return examples.row(0), ""

    return corrupted


def _facts(shards: ShardSet, block: int, row: int, content: Row) -> dict[str, Any]:
    """Identity of a row. Of the documents in it the first is known by its uid, the others by their number."""
    fixed, starts = content.fixed, content.columns.get("document_starts", ())
    return {
        "sample": f"{int(fixed['uid']):016x}",
        "variant": int(fixed["variant"]),
        "shard": shards.manifest.shards[int(shards.index.shard[block])].path,
        "block": int(shards.index.block[block]),
        "row": row,
        "document": fixed["document_uid"].tobytes().hex(),
        "document_offset": int(fixed["document_offset"]),
        "copy": int(fixed["copy"]),
        "documents": max(1, len(starts)),
    }


def _source(document: dict[str, Any] | None) -> dict[str, Any]:
    if document is None:
        return {}
    return {"source": document["source"], "source_offset": document["offset"], "url": document["url"]}


def _texts(row: Row, pieces: Pieces | None, most: int) -> Iterator[tuple[str, str]]:
    """The decoded columns; ids where the tokenizer is not found."""
    for name in _TEXTS:
        if name in row.columns:
            ids = row.columns[name][:most].tolist()
            text = " ".join(map(str, ids)) if pieces is None else " ".join(pieces.text(ids).replace("⏎", "").split())
            yield name, text + (" …" if len(row.columns[name]) > most else "")


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    """A row for a person."""
    head = f"{facts['place']:>5}  lane {facts['lane']}, {facts['set']}, epoch {facts['epoch']}"
    if "sample" not in facts:
        yield f"{head}: filler row, weight 0"
        return
    yield (
        f"{head}: sample {facts['sample']}, variant {facts['variant']}: {facts['shard']}, block {facts['block']}, "
        f"row {facts['row']}"
    )
    copy = f", copy {facts['copy']}" if facts["copy"] else ""
    more = f"; {facts['documents'] - 1} more begin in the row" if facts["documents"] > 1 else ""
    yield f"       document {facts['document']}, from token {facts['document_offset']}{copy}{more}"
    if "source" in facts:
        yield f"       source {facts['source']}, record at {facts['source_offset']:,}, {facts['url'] or 'no url'}"
    if "skipped" in facts:
        yield f"       skipped by the objective ({facts['skipped']}): a filler row, weight 0"
    for name in _TEXTS:
        if name in facts:
            yield f"       {name}: {facts[name]}"


def _position(options: argparse.Namespace, feed: Feed) -> int:
    if (options.samples is None) == (options.step is None):
        raise ConfigurationError("expected --samples N or --step N, one of them; see --help")
    samples: int = options.samples if options.step is None else feed.samples(options.step)
    return samples


def _title(feed: Feed, samples: int) -> str:
    names = " + ".join(shards.manifest.name for shards in feed.sets)
    end = samples + feed.rows(samples)
    state = "" if feed.consumed is None else ", read already" if end <= feed.consumed else ", not read yet"
    step = feed.step(samples)
    number = f", step {step:,}" if feed.samples(step) == samples else ""
    return f"{names}: samples {samples:,} to {end:,}{number}{state}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = Arguments(__doc__)
    add_feed_arguments(parser)
    parser.add_argument("--samples", type=natural, metavar="N", help="the batch that begins after N samples")
    parser.add_argument("--step", type=positive, metavar="N", help="the batch of training step N, counted from 1")
    parser.add_argument("--lane", type=natural, metavar="L", help="only rows of this lane")
    parser.add_argument("--tokens", type=positive, default=64, metavar="N", help="tokens of a text (%(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")

    def action(options: argparse.Namespace) -> int:
        feed = open_feed(options)
        samples = _position(options, feed)
        rows = explain(feed, samples, lane=options.lane, tokens=options.tokens)
        if not options.json:
            print(_title(feed, samples))
        for facts in rows:
            print(json.dumps(facts, ensure_ascii=False) if options.json else "\n".join(_lines(facts)))
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
