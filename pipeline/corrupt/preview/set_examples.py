"""Show some rows of an example set on the page of a pipeline run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer, row_parts
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.report.views import Section, Table

SHOWN_ROWS: Final = 3
_MOST_SHOWN_TOKENS: Final = 256
"""most tokens of a text that are shown; the page counts the others"""
_MOST_SHOWN_LABELS: Final = 40


def example_views(manifest: Path) -> Iterator[Section]:
    """Yield views of rows from the start, the middle and the end of a set.

    Args:
        manifest: the file `manifest.json` of the set; the tokenizer is in a folder above it.
    """
    shards = open_shards(manifest)
    tokenizer = load_tokenizer(find_tokenizer(manifest, shards.manifest.tokenizer.fingerprint))
    pieces = TokenRenderer(tokenizer, _MOST_SHOWN_TOKENS)
    count = min(SHOWN_ROWS, len(shards))
    for number in (index * (len(shards) - 1) // max(1, count - 1) for index in range(count)):
        block, in_block = shards.locate(number)
        row = shards.read_block(block).row(in_block)
        parts = [
            part.shorten(_MOST_SHOWN_LABELS) if isinstance(part, Table) else part
            for part in row_parts(pieces, row, shards.manifest.roles)
        ]
        yield Section(f"row {number + 1:,} of {len(shards):,}", parts)
