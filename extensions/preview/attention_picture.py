"""Draw which positions of an example each position reads, as an SVG file; imports torch."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.extensions.preview import CorruptedText
from clozeline.files import PAGE_MARK
from clozeline.model.layers.masks import pair_mask, plan_attention, prefix_mask
from clozeline.pipeline.rows import Ragged
from clozeline.report.escaping import escape
from clozeline.train.data.stream.collate import Architecture, Collate

_MOST_TOKENS: Final = 64
"""Length of the longest row that is drawn."""
_CELL_PIXELS: Final = 22
_LETTER_PIXELS: Final = 8
_TITLE_PIXELS: Final = 44
"""height of the title of a grid and of the name of its columns"""
_STYLE: Final = (
    "text{font:13px monospace}.axis{fill:#5b6475}rect{stroke:#99a3b0;fill:#fff}.read{fill:#2a66c8}"
)


class AttentionGrid(NamedTuple):
    """Which columns each row reads: `reads` [rows, columns] bool."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    reads: Tensor
    axes: str = "row reads column"


def example_tensors(shown: CorruptedText) -> dict[str, Tensor]:
    """Return the tensors of a batch of this example alone, as a model reads them."""
    objective = shown.objective
    roles = {feature.name: feature.role for feature in objective.features}
    collate = Collate(
        cast(Architecture, objective.architecture),
        roles,
        dict(objective.vocabulary.specials),
        objective.form,
    )
    columns = shown.example.columns.items()
    return collate({name: Ragged.from_lists([row], row.dtype) for name, row in columns}, None)


def attention_grids(shown: CorruptedText) -> list[AttentionGrid]:
    """Return what each position reads; an encoder-decoder has three grids.

    The masks are those that the model builds.

    In permuted language modeling, a row is what predicts its token; otherwise, it is the state of
    its position.
    """
    tensors = example_tensors(shown)
    words = shown.codec.words(tensors["input_ids"][0].tolist())
    architecture = shown.objective.architecture
    if "rank" in tensors:
        rank = tensors["rank"][0]
        reads = rank < rank[:, None].clamp(min=1)
        return [AttentionGrid("self-attention", words, words, reads)]

    count = len(words)
    causal = architecture == "decoder"
    prefix = (
        prefix_mask(tensors["prefix_length"], count)
        if causal and "prefix_length" in tensors
        else None
    )
    pairs = pair_mask(tensors)
    plan = plan_attention(None, None, causal, pairs=pairs, prefix=prefix)
    every = torch.ones(count, count, dtype=torch.bool)
    reads = plan.mask[0, 0] if plan.mask is not None else every.tril() if plan.causal else every
    if architecture != "encoder_decoder":
        return [AttentionGrid("self-attention", words, words, reads)]

    # the decoder reads its earlier positions, and all of the encoder's
    ids = tensors["decoder_input_ids"][0]
    targets = shown.codec.words(ids.tolist())
    earlier = torch.ones(len(targets), len(targets), dtype=torch.bool).tril()
    source = torch.ones(len(targets), count, dtype=torch.bool)
    if "decoder_document_ids" in tensors:
        documents = tensors["decoder_document_ids"][0][:, None]
        earlier &= documents == documents.T
        source &= documents == tensors["document_ids"]
    return [
        AttentionGrid("encoder", words, words, reads),
        AttentionGrid("decoder", targets, targets, earlier),
        AttentionGrid("cross-attention", targets, words, source, "decoder reads encoder"),
    ]


def draw_attention(shown: CorruptedText) -> str:
    """Return the picture: a row for each position, which reads the columns that are filled.

    Raises:
        ConfigurationError: a row of the example has more than 64 tokens.
    """
    grids = attention_grids(shown)
    longest = max(len(grid.columns) for grid in grids)
    if longest > _MOST_TOKENS:
        raise ConfigurationError(
            f"picture: expected an example of at most {_MOST_TOKENS} tokens, got {longest}"
        )

    shapes = []
    left = 0
    height = 0
    for grid in grids:
        margin = _LETTER_PIXELS * (max(map(len, [*grid.rows, *grid.columns])) + 1)
        shapes += [f'<g transform="translate({left} 0)">', *_grid_shapes(grid, margin), "</g>"]
        cells = margin + _CELL_PIXELS * len(grid.columns)
        left += max(cells, _LETTER_PIXELS * len(grid.axes)) + _CELL_PIXELS
        height = max(height, _TITLE_PIXELS + margin + _CELL_PIXELS * len(grid.rows) + 1)

    title = f"<title>{escape(shown.objective.label)}: positions read</title>"
    size = f'width="{left}" height="{height}" viewBox="0 0 {left} {height}"'
    inside = "\n".join((f"<!--{PAGE_MARK}-->", f"<style>{_STYLE}</style>", title, *shapes))
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{inside}\n</svg>\n'


def _grid_shapes(grid: AttentionGrid, margin: int) -> Iterator[str]:
    """Yield the title, the names and the cells of a grid; `margin` is what the names take."""
    top = _TITLE_PIXELS + margin
    yield f'<text y="15">{escape(grid.title)}</text>'
    yield f'<text class="axis" y="33">{grid.axes}</text>'
    for column, word in enumerate(grid.columns):
        middle = margin + _CELL_PIXELS * (column + 1) - 6
        yield f'<text transform="translate({middle} {top - 4}) rotate(-90)">{escape(word)}</text>'
    for row, (word, visible) in enumerate(zip(grid.rows, grid.reads.tolist(), strict=True)):
        at = top + _CELL_PIXELS * row
        middle = at + _CELL_PIXELS - 6
        yield f'<text x="{margin - 4}" y="{middle}" text-anchor="end">{escape(word)}</text>'
        for column, read in enumerate(visible):
            mark = 'class="read" ' if read else ""
            place = f'x="{margin + _CELL_PIXELS * column}" y="{at}"'
            yield f'<rect {mark}{place} width="{_CELL_PIXELS}" height="{_CELL_PIXELS}"/>'
