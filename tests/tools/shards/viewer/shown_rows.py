"""Rows of the example sets beside what the viewer shows of them."""

from __future__ import annotations

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.inspect_shard import view_of
from tests.tools.small_run import example_sets

LAST = 40


def rows_and_views(shard_sets, label):
    manifest, _ = example_sets(shard_sets)[label]
    for number in range(0, LAST, 5):
        yield row_of(manifest, number), view_of(manifest, number)


def part(view, title):
    return next(found for found in view.parts if found.title.startswith(title))


def text(cell):
    return cell if isinstance(cell, str) else cell.plain


def marked(passage):
    """Return the parts of a passage that have a role, with it."""
    return [(passage.text.plain[span.start : span.end], span.style) for span in passage.text.spans]


def row_of(path, number):
    shards = open_shards(path)
    block, place = shards.locate(number)
    return shards.read_block(block).row(place)


def flat(shown):
    return shown.replace("⏎", "")


def sample_text(shard_sets, label, number, tokenizer):
    """The original of an example, from its sample set."""
    manifest, samples = example_sets(shard_sets)[label]
    uid = row_of(manifest, number).fixed["uid"]
    shards = open_shards(samples)
    for block in range(len(shards.index)):
        for row in shards.read_block(block):
            if row.fixed["uid"] == uid:
                return tokenizer.decode(row["ids"].tolist())
    raise AssertionError("no such sample")
