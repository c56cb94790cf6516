"""Draw which positions of an example each position reads, as an SVG file."""

from typing import Final, cast

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.layers.masks import pair_mask, plan_attention, prefix_mask
from clozeline.pipeline.corrupt.preview import CorruptedText
from clozeline.pipeline.rows import Ragged
from clozeline.report.html_page import escape
from clozeline.train.data.stream.collate import Architecture, Collate

_MOST_TOKENS: Final = 64
"""Length of the longest example that is drawn."""
_CELL_PIXELS: Final = 22
_LETTER_PIXELS: Final = 8
_STYLE: Final = "text{font:13px monospace}rect{stroke:#99a3b0;fill:#fff}.read{fill:#2a66c8}"


def read_positions(shown: CorruptedText) -> Tensor:
    """Return which positions of `input_ids` each position reads, [T, T] bool.

    The masks are those that the model builds.

    In permuted language modeling, a row is what predicts its token; otherwise, it is the state of
    its position.
    """
    objective = shown.objective
    columns = shown.example.columns
    roles = {feature.name: feature.role for feature in objective.features}
    architecture = cast(Architecture, objective.architecture)
    specials = dict(objective.vocabulary.specials)
    collate = Collate(architecture, roles, specials, decoder_start=objective.layout.decoder_start)
    tensors = collate(
        {name: Ragged.from_lists([column], column.dtype) for name, column in columns.items()}, None
    )
    if "rank" in tensors:
        rank = tensors["rank"][0]
        return rank < rank[:, None].clamp(min=1)

    count = tensors["input_ids"].shape[1]
    causal = architecture == "decoder"
    prefix = (
        prefix_mask(tensors["prefix_length"], count)
        if causal and "prefix_length" in tensors
        else None
    )

    plan = plan_attention(None, None, causal, pairs=pair_mask(tensors), prefix=prefix)
    if plan.mask is not None:
        return plan.mask[0, 0]
    visible = torch.ones(count, count, dtype=torch.bool)
    return visible.tril() if plan.causal else visible


def draw_attention(shown: CorruptedText) -> str:
    """Return the picture: a row for each position, which reads the columns that are filled.

    Raises:
        ConfigurationError: the example has more than 64 tokens.
    """
    words = shown.codec.words(shown.example["input_ids"].tolist())
    if len(words) > _MOST_TOKENS:
        raise ConfigurationError(
            f"picture: expected an example of at most {_MOST_TOKENS} tokens, got {len(words)}"
        )

    margin = _LETTER_PIXELS * max(map(len, words)) + _LETTER_PIXELS
    side = margin + _CELL_PIXELS * len(words) + 1
    shapes = [
        f"<style>{_STYLE}</style>",
        f"<title>{escape(shown.objective.label)}: positions read</title>",
    ]

    for row, (word, visible) in enumerate(zip(words, read_positions(shown), strict=True)):
        at = margin + _CELL_PIXELS * row
        name = escape(word)
        middle = at + _CELL_PIXELS - 6
        before = margin - 4
        shapes.append(f'<text x="{before}" y="{middle}" text-anchor="end">{name}</text>')
        shapes.append(f'<text transform="translate({middle} {before}) rotate(-90)">{name}</text>')
        for column, read in enumerate(visible.tolist()):
            mark = 'class="read" ' if read else ""
            left = margin + _CELL_PIXELS * column
            shapes.append(
                f'<rect {mark}x="{left}" y="{at}" width="{_CELL_PIXELS}" height="{_CELL_PIXELS}"/>'
            )

    size = f'width="{side}" height="{side}" viewBox="0 0 {side} {side}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n' + "\n".join(shapes) + "\n</svg>\n"
