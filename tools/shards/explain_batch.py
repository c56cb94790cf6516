"""Show the rows of a training batch: `clozeline explain-batch run=mine/run step=9`, or `samples=N`.

For every row of a global batch, past or future: sample, variant, storage location, document with
its source, and the decoded text. No training run is needed: `clozeline explain-batch MANIFEST
seed=S global_batch=G`.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.columns import Role
from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import Skip
from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer
from clozeline.pipeline.rows import RowBatch, ShardRow
from clozeline.pipeline.set_kinds import kind_of
from clozeline.pipeline.shards import DamagedBlock, ShardSet
from clozeline.report.terminal_view import print_view
from clozeline.report.views import Grid, Section, Span
from clozeline.terminal import Terminal
from clozeline.tools.command import Natural, Positive, run_as_script, run_tool
from clozeline.tools.options import TokenizerOption
from clozeline.tools.runs.data.feed import STATES, VARIANTS, Feed, FeedOptions, open_feed
from clozeline.tools.shards.provenance import row_origins
from clozeline.tools.shards.provenance.document_table import find_pieces
from clozeline.train.data.sets.recorded_sets import TOKENIZER_FOLDER


@config_class
class ExplainOptions(TokenizerOption, FeedOptions):
    """The batch to show."""

    samples: Natural | None = None
    """the batch that starts after so many samples"""
    step: Positive | None = None
    """the batch of this training step, counted from 1"""
    lane: Natural | None = None
    """only rows of this lane"""
    tokens: Positive = 64
    """tokens shown per text"""
    json: bool = False
    """print one JSON object per row"""
    verbose: bool = False
    """also print the hashes that name samples and documents"""


def explain(
    feed: Feed,
    samples: int,
    *,
    lane: int | None = None,
    tokens: int = 64,
    tokenizer: Path | None = None,
) -> list[dict[str, object]]:
    """Return the rows of the global batch at a stream position as data.

    A filler row has no sample.

    `tokens` are decoded per text; `tokenizer` as in `tokenizer_folder`. Without one, ids are shown.
    """
    if lane is not None and lane >= feed.lanes:
        raise ConfigurationError(f"lane={lane}: expected a lane below {feed.lanes}")
    row_reads = [
        (position, visit)
        for position, visit in enumerate(feed.batch(samples))
        if lane in (None, visit.lane)
    ]

    facts_by_position: dict[int, dict[str, object]] = {}

    for source, shards in enumerate(feed.sets):
        of_set = [(position, visit) for position, visit in row_reads if visit.source == source]
        # rows of this set, their documents, and the epoch's corruption
        stored, unread = _read_rows(
            shards, {visit.stored for _, visit in of_set if visit.stored}, skip=feed.skip
        )
        origins = row_origins.origins_of(shards, stored)
        pieces = find_pieces(shards, tokenizer)
        read_row = _row_reader(feed, source)
        kind = kind_of(shards.manifest.objective)
        roles = feed.reading.inputs[source].manifest.roles | shards.manifest.roles

        for position, visit in of_set:
            properties: dict[str, object] = {
                "place": position,
                "lane": visit.lane,
                "epoch": visit.epoch,
                "set": shards.manifest.name,
            }

            if visit.stored in stored:
                row, skipped = read_row(stored[visit.stored], visit.epoch)
                properties |= row_origins.describe_row(
                    shards, visit.stored, row, origins[visit.stored]
                )
                single = {
                    name: row.columns[name].item()
                    for name, role in roles.items()
                    if role.use in ("row", "undo") and len(row.columns.get(name, ())) == 1
                }
                shown = {
                    **single,
                    **({} if kind is None else kind.describe_answer(row)),
                    **dict(_decode_texts(row, roles, pieces, tokens)),
                }

                properties |= {"filler": skipped} if skipped else shown
            elif visit.stored:
                properties |= row_origins.storage_location(shards, *visit.stored)
                properties["filler"] = unread[visit.stored[0]]

            facts_by_position[position] = properties

    return [facts_by_position[position] for position, _ in row_reads]


def _read_rows(
    shards: ShardSet, stored: Collection[row_origins.BlockRow], *, skip: bool
) -> tuple[dict[row_origins.BlockRow, RowBatch], dict[int, str]]:
    """Return single rows by (block, row), and why blocks are not read; each block is read once."""
    rows_read: dict[row_origins.BlockRow, RowBatch] = {}
    unread: dict[int, str] = {}

    for block in sorted({block for block, _ in stored}):
        try:
            rows = shards.read_block(block)
        except DamagedBlock as error:
            if not skip:
                raise
            unread[block] = f"its block is skipped: {error}"
            continue

        row_numbers = {row for its_block, row in stored if its_block == block}
        # copies, so that the block can be freed
        rows_read |= {(block, number): rows.take(np.array([number])) for number in row_numbers}

    return rows_read, unread


def _row_reader(feed: Feed, source: int) -> Callable[[RowBatch, int], tuple[ShardRow, str]]:
    """Return a function that gives a row as the stream delivers it in an epoch.

    For a filler it gives the reason.
    """
    corruption = feed.reading.inputs[source].corruption
    if corruption is None:
        return lambda rows, epoch: (rows.row(0), "")

    def corrupt(rows: RowBatch, epoch: int) -> tuple[ShardRow, str]:
        variants = np.array([epoch % VARIANTS], np.uint16)
        examples, skips = corruption(rows, variants)
        if skips[0]:
            skipped = f"skipped by the objective ({Skip(int(skips[0])).reason})"
            return RowBatch({**rows.fixed, "variant": variants}, rows.columns).row(0), skipped
        return examples.row(0), ""

    return corrupt


def _decode_texts(
    row: ShardRow, roles: Mapping[str, Role], pieces: TokenRenderer, limit: int
) -> Iterator[tuple[str, str]]:
    for name, role in roles.items():
        if role.below == "vocabulary" and name in row.columns:
            ids = row.columns[name][:limit].tolist()
            if role.use == "label" and role.of in row.columns:
                text = " | ".join(label_runs(ids, row.columns[role.of][:limit], pieces))
            else:
                text = " ".join(pieces.text(ids).replace("⏎", "").split())
            yield name, text + (" …" if len(row.columns[name]) > limit else "")


def label_runs(ids: list[int], positions: NDArray[Any], pieces: TokenRenderer) -> Iterator[str]:
    """Yield labels of consecutive positions as text, which has whole letters, after positions."""
    ends = np.flatnonzero(np.diff(positions.astype(np.int64)) != 1) + 1
    for first, last in pairwise((0, *ends.tolist(), len(ids))):
        text = pieces.piece(ids[first]) if last == first + 1 else pieces.text(ids[first:last])
        at = f"{positions[first]}-{positions[last - 1]}" if last > first + 1 else positions[first]
        yield f"{at} {' '.join(text.split()) or '␣'}"


def _show_row(facts: dict[str, Any], *, hashes: bool) -> Section:
    """Return the facts of a row, titled with its place in the batch."""
    place, lane, epoch, name = (facts.pop(key) for key in ("place", "lane", "epoch", "set"))
    lines = row_origins.list_facts(facts, hashes=hashes)
    lines += [] if "shard" in facts else [("filler", "row of weight 0")]
    grid = Grid([[(name, [Span(text)])] for name, text in lines])
    return Section(f"{place}: lane {lane}, {name}, epoch {epoch}", [grid])


def _print_batch(options: ExplainOptions) -> None:
    feed = open_feed(options)

    if options.step is not None and options.samples is None:
        samples = feed.samples(options.step)
    elif options.samples is not None and options.step is None:
        samples = options.samples
    else:
        raise ConfigurationError("expected samples=N or step=N, such as step=10; see --help")

    # the tokenizer of the run, else one that is looked for above the sets
    recorded = None if options.run is None else options.run / TOKENIZER_FOLDER
    tokenizer = options.tokenizer or (
        recorded if recorded is not None and recorded.is_dir() else None
    )
    rows = explain(feed, samples, lane=options.lane, tokens=options.tokens, tokenizer=tokenizer)

    if options.json:
        for facts in rows:
            print(json.dumps(facts, ensure_ascii=False))
        return
    names = " + ".join(feed.reading.names(feed.reading.span_at(samples // feed.lanes)))
    step = feed.step(samples)
    number = f", step {step:,}" if feed.samples(step) == samples else ""
    until = f"samples {samples:,} to {samples + feed.rows(samples):,}"
    title = f"{names}: {until}{number}{STATES[feed.state(samples)]}"
    print_view(
        Section("", [title, *(_show_row(facts, hashes=options.verbose) for facts in rows)]),
        Terminal(),
    )


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, ExplainOptions, _print_batch, prints=True)


if __name__ == "__main__":
    run_as_script(main)
