"""Show a corrupted text as a view: text, example, and what a model learns from it."""

from typing import Final

from clozeline.pipeline.corrupt.objectives import Objective
from clozeline.pipeline.corrupt.preview.pieces import Pieces
from clozeline.pipeline.corrupt.preview.predictions import describe_predictions
from clozeline.pipeline.corrupt.preview.rendering import ShownView
from clozeline.pipeline.corrupt.preview.row_parts import row_parts
from clozeline.pipeline.corrupt.preview.view import Passage, Sheet
from clozeline.pipeline.rows import Row

_SIDES: Final = {"ids": "text", "partner_ids": "partner, from another document", "target_ids": "other side"}


def view_of_example(objective: Objective, pieces: Pieces, sample: Row, example: Row) -> ShownView:
    """Return the view of an example: the texts of its sample, its own parts, and what the model does with it."""
    starts = {int(start): "|" for start in sample["sentence_starts"][1:]}
    texts = [
        pieces.passage(title, sample[name], None, starts if name == "ids" else None)
        for name, title in _SIDES.items()
        if name in sample.columns
    ]
    parts = row_parts(pieces, example)
    # the marks of an original say more than the plain text
    if len(texts) == 1 and any(isinstance(part, Passage) and part.title.startswith("original") for part in parts):
        texts = []
    reading = Sheet("what the model does with it", (), tuple(describe_predictions(objective, example).items()))
    heads = ", ".join(objective.heads)
    named = objective.label if objective.label == objective.name else f"{objective.label} ({objective.name})"
    return ShownView(f"{named} · {objective.architecture} · {heads}", (*texts, *parts, reading))
