"""Show the rows of a training batch: `clozeline explain-batch --run DIR --step N`, or with `--samples N`.

For every row of a global batch, past or future: sample, variant, where it is stored, document and its source, and the
decoded text. Nothing needs to have been trained: `clozeline explain-batch MANIFEST --seed S --global-batch G`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import Skip
from clozeline.pipeline.corrupt.preview.pieces import Pieces
from clozeline.pipeline.rows import Row, Rows
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.errors import DamagedBlock
from clozeline.pipeline.tasks.readers import facts_of
from clozeline.tools.command import IntermixedArguments, natural, positive, run_tool, some_path
from clozeline.tools.runs.data.feed import STATES, VARIANTS, Feed, add_feed_arguments, open_feed
from clozeline.tools.shards.provenance.row_origins import (
    BlockRow,
    describe_origin,
    documents_of,
    partners_of,
    stored_at,
)
from clozeline.tools.shards.provenance.row_search import PAIR_LABEL
from clozeline.tools.shards.provenance.tokenizer import TOKENIZER_HELP, find_pieces
from clozeline.tools.shards.viewer.task_answers import answer_of
from clozeline.train.data.sets.recorded_sets import TOKENIZER_FOLDER

_TEXTS: Final = ("input_ids", "label_ids", "target_ids", "ids", "partner_ids")
_NUMBERS: Final = (PAIR_LABEL, "attention", "prefix_length", "task")
_ANSWERS: Final = ("label", "target")


def explain(
    feed: Feed, samples: int, *, lane: int | None = None, tokens: int = 64, tokenizer: Path | None = None
) -> list[dict[str, Any]]:
    """Return the rows of the global batch at a position, as plain data; a filler row has no sample.

    Args:
        feed: what is read.
        samples: position at which the batch begins.
        lane: only rows of this lane; None: all.
        tokens: limit of the decoded tokens of a text.
        tokenizer: its folder, or a set or output folder that has it; default: the one found above each set; ids are
            given where there is none.

    Raises:
        ClozelineError: no batch begins there, or a block is damaged.
    """
    if lane is not None and lane >= feed.lanes:
        raise ConfigurationError(f"--lane {lane}: expected a lane below {feed.lanes}")
    visits = [(place, visit) for place, visit in enumerate(feed.batch(samples)) if lane in (None, visit.lane)]
    found: dict[int, dict[str, Any]] = {}
    for source, shards in enumerate(feed.sets):
        mine = [(place, visit) for place, visit in visits if visit.source == source]
        stored, lost = _read(shards, {visit.stored for _, visit in mine if visit.stored}, skip=feed.skip)
        documents, partners = documents_of(shards, stored), partners_of(shards, stored)
        pieces = find_pieces(shards, tokenizer)
        delivered, task = _delivered(feed, source), facts_of(shards.manifest)
        for place, visit in mine:
            facts: dict[str, Any] = {"place": place, "lane": visit.lane, "epoch": visit.epoch}
            facts["set"] = shards.manifest.name
            if visit.stored:
                facts |= stored_at(shards, *visit.stored)
            if visit.stored in stored:
                row, skipped = delivered(stored[visit.stored], visit.epoch)
                facts |= _identity(row, documents[visit.stored]) | partners.get(visit.stored, {})
                shown = {**_numbers(row), **answer_of(task, row), **dict(_texts(row, pieces, tokens))}
                facts |= {"filler": skipped} if skipped else shown
            elif visit.stored:
                facts["filler"] = lost[visit.stored[0]]
            found[place] = facts
    return [found[place] for place, _ in visits]


def _read(shards: ShardSet, stored: Collection[BlockRow], *, skip: bool) -> tuple[dict[BlockRow, Rows], dict[int, str]]:
    """Return single rows by block and row, and the reasons of blocks that are not read; read every block once."""
    found: dict[BlockRow, Rows] = {}
    lost: dict[int, str] = {}
    for block in sorted({block for block, _ in stored}):
        if block in shards.quarantined:
            lost[block] = "its block is in quarantine"
            continue
        try:
            rows = shards.read_block(block)
        except DamagedBlock as error:
            if not skip:
                raise
            lost[block] = f"its block is skipped: {error}"
            continue
        numbers = {row for its_block, row in stored if its_block == block}
        found |= {(block, number): rows.take(np.array([number])) for number in numbers}  # copies: the block can go
    return found, lost


def _delivered(feed: Feed, source: int) -> Callable[[Rows, int], tuple[Row, str]]:
    """Return a stored row as the stream gives it in an epoch, and the reason if it is left out."""
    corruption = feed.reading.inputs[source].corruption
    if corruption is None:
        return lambda rows, epoch: (rows.row(0), "")

    def corrupted(rows: Rows, epoch: int) -> tuple[Row, str]:
        variants = np.array([epoch % VARIANTS], np.uint16)
        examples, skips = corruption(rows, variants)
        if skips[0]:
            skipped = f"skipped by the objective ({Skip(int(skips[0])).reason})"
            return Rows({**rows.fixed, "variant": variants}, rows.columns).row(0), skipped
        return examples.row(0), ""

    return corrupted


def _identity(row: Row, documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Describe a row. Further documents begin in it; `documents` counts all of them, also those without a name."""
    fixed, starts = row.fixed, row.columns.get("document_starts", ())
    return {
        "sample": f"{int(fixed['uid']):016x}",
        "variant": int(fixed["variant"]),
        **documents[0],
        "document_offset": int(fixed["document_offset"]),
        "copy": int(fixed["copy"]),
        "documents": max(len(documents), len(starts)),
        "others": documents[1:],
    }


def _numbers(row: Row) -> dict[str, int]:
    """Return the columns with one number in every row."""
    return {name: int(row.columns[name][0]) for name in _NUMBERS if len(row.columns.get(name, ())) == 1}


def _texts(row: Row, pieces: Pieces | None, limit: int) -> Iterator[tuple[str, str]]:
    """Yield the decoded columns, labels one by one; ids where the tokenizer is not found."""
    for name in _TEXTS:
        if name in row.columns:
            ids = row.columns[name][:limit].tolist()
            if pieces is None:
                text = " ".join(map(str, ids))
            elif name == "label_ids":
                text = " | ".join("".join(pieces.piece(token).split()) or "␣" for token in ids)
            else:
                text = " ".join(pieces.text(ids).replace("⏎", "").split())
            yield name, text + (" …" if len(row.columns[name]) > limit else "")


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that show a row."""
    head = f"{facts['place']:>5}  lane {facts['lane']}, {facts['set']}, epoch {facts['epoch']}"
    if "shard" not in facts:
        yield f"{head}: filler row, weight 0"
        return
    what = f" sample {facts['sample']}, variant {facts['variant']}:" if "sample" in facts else ""
    yield f"{head}:{what} {facts['shard']}, block {facts['block']}, row {facts['row']}"
    if "sample" in facts:
        copy = f", copy {facts['copy']}" if facts["copy"] else ""
        more = facts["documents"] - len(facts["others"]) - 1
        start = f"from token {facts['document_offset']}{copy}"
        yield f"       document {facts['document']}, {start}{describe_origin(facts)}"
        for other in facts["others"]:
            yield f"       then document {other['document']}{describe_origin(other)}"
        if "partner" in facts:
            yield f"       partner document {facts['partner']['document']}{describe_origin(facts['partner'])}"
        if more:
            yield f"       then {more} more, which only the sample set and the tables of encode can name"
    if "filler" in facts:
        yield f"       a filler row, weight 0: {facts['filler']}"
    for name in (*_NUMBERS, *_ANSWERS, *_TEXTS):
        if name in facts:
            yield f"       {name}: {facts[name]}"


def _position(options: argparse.Namespace, feed: Feed) -> int:
    if (options.samples is None) == (options.step is None):
        raise ConfigurationError("expected --samples N or --step N, one of them; see --help")
    samples: int = options.samples if options.step is None else feed.samples(options.step)
    return samples


def _title(feed: Feed, samples: int) -> str:
    names = " + ".join(feed.reading.names(feed.reading.stretch(samples // feed.lanes)))
    end, step = samples + feed.rows(samples), feed.step(samples)
    number = f", step {step:,}" if feed.samples(step) == samples else ""
    return f"{names}: samples {samples:,} to {end:,}{number}{STATES[feed.state(samples)]}"


def _tokenizer_of(run: Path | None) -> Path | None:
    """Return the tokenizer in a run directory; None where there is none: it is looked for above the sets."""
    folder = None if run is None else run / TOKENIZER_FOLDER
    return folder if folder is not None and folder.is_dir() else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = IntermixedArguments(__doc__)
    add_feed_arguments(parser)
    parser.add_argument("--samples", type=natural, metavar="N", help="the batch that begins after N samples")
    parser.add_argument("--step", type=positive, metavar="N", help="the batch of training step N, counted from 1")
    parser.add_argument("--lane", type=natural, metavar="L", help="only rows of this lane")
    parser.add_argument("--tokens", type=positive, default=64, metavar="N", help="tokens of a text (%(default)s)")
    parser.add_argument("--tokenizer", type=some_path, metavar="DIR", help=TOKENIZER_HELP)
    parser.add_argument("--json", action="store_true", help="one JSON object a row")

    def action(options: argparse.Namespace) -> int:
        feed = open_feed(options)
        samples = _position(options, feed)
        tokenizer = options.tokenizer or _tokenizer_of(options.run)
        rows = explain(feed, samples, lane=options.lane, tokens=options.tokens, tokenizer=tokenizer)
        for shards in feed.sets:
            if find_pieces(shards, tokenizer) is None:
                hint = "ids are shown; --tokenizer names its folder"
                sys.stderr.write(f"note: no tokenizer above {shards.path}: {hint}\n")
        if not options.json:
            print(_title(feed, samples))
        for facts in rows:
            print(json.dumps(facts, ensure_ascii=False) if options.json else "\n".join(_lines(facts)))
        return 0

    return run_tool(parser, arguments, action)


if __name__ == "__main__":
    raise SystemExit(main())
