"""Fill the masks of a text with a run's masked LM.

This file imports torch.
"""

from collections.abc import Sequence
from itertools import groupby

from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.unmask import Filling, unmask
from clozeline.tools.runs.inference.masked_text import MASK, encode_masked_text, unify_masks
from clozeline.train.checkpoint.trained_model import TrainedModel


def fill_text(
    trained: TrainedModel, text: str, decoding: Decoding, samples: int = 1
) -> list[Filling]:
    """Return fillings of a text.

    Random samples if the decoding has a temperature, else the best ones.

    Special tokens are never predicted. A text without `<mask>` is followed by `decoding.max_tokens`
    of them.
    """
    text = unify_masks(trained, text)
    masked = text if MASK in text else " ".join([text, *[MASK] * decoding.max_tokens])
    ids, _ = encode_masked_text(trained, masked)
    vocabulary = trained.tokenizer.vocabulary
    fillings = unmask(
        trained.model,
        [ids.tolist()] * (samples if decoding.width is None else 1),
        vocabulary.id_of("mask", "a guess"),
        decoding,
        banned=vocabulary.special.nonzero()[0].tolist(),
        previous=trained.predicts_next,
    )

    return [filling for of_row in fillings for filling in of_row][:samples]


def parts_of(trained: TrainedModel, filling: Filling) -> Sequence[tuple[str, bool]]:
    """Return the parts of a filled text, and whether each was a mask.

    Special tokens around the text are dropped.
    """
    filled = set(filling.filled)
    inside = (
        (token, position in filled)
        for position, token in enumerate(filling.ids)
        if 0 < position < len(filling.ids) - 1
    )
    return [
        (trained.tokenizer.decode_part([token for token, _ in part]), new)
        for new, part in groupby(inside, key=lambda each: each[1])
    ]
