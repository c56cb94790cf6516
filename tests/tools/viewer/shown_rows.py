"""Rows of the example sets beside what the viewer shows of them."""

from __future__ import annotations

from pipeline.shards import open_shards
from tests.tools.small_run import example_sets
from tools.inspect_shard import view_of

LAST = 40


def rows_and_views(shard_sets, label):
    manifest, _ = example_sets(shard_sets)[label]
    shards = open_shards(manifest)
    for number in range(0, LAST, 5):
        block, place = shards.locate(number)
        yield shards.read_block(block).row(place), view_of(manifest, number)


def part(view, title):
    return next(found for found in view.parts if found.title.startswith(title))


def text(cell):
    return cell if isinstance(cell, str) else "".join(token.text for token in cell)
