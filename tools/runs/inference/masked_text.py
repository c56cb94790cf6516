"""Fill the masks of a text with a run's masked LM."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.unmask import Filling, unmask
from clozeline.train.checkpoint.trained_model import TrainedModel

MASK = "<mask>"


def encode_masked_text(trained: TrainedModel, text: str) -> tuple[NDArray[np.int64], list[int]]:
    """Return the token row of a text with `<mask>`s, and their positions.

    Each mask includes the space before it.

    The tokenizer's mask, such as `[MASK]`, is one too.

    Raises:
        ConfigurationError: the text has no mask, or more tokens than the model reads.
    """
    parts = _own_masks(trained, text).split(MASK)
    if len(parts) == 1:
        raise ConfigurationError(f"expected a text with {MASK}, got {text!r}")
    vocabulary = trained.tokenizer.vocabulary
    special = {name: vocabulary.id_of(name, "fill_mask") for name in ("cls", "sep", "mask")}
    ids = [special["cls"]]
    positions = []

    for encoding in trained.tokenizer.encode([part.removesuffix(" ") for part in parts[:-1]]):
        ids += encoding.ids.tolist()
        positions.append(len(ids))
        ids.append(special["mask"])

    ids += [*trained.tokenizer.encode(parts[-1:])[0].ids.tolist(), special["sep"]]

    if len(ids) > trained.max_length:
        raise ConfigurationError(
            f"{len(ids)} tokens, the model reads rows of at most {trained.max_length}: shorten it"
        )

    return np.array(ids), positions


def _own_masks(trained: TrainedModel, text: str) -> str:
    tokenizer = trained.tokenizer
    return text.replace(tokenizer.piece(tokenizer.vocabulary.id_of("mask", "fill_mask")), MASK)


def fill_text(
    trained: TrainedModel, text: str, decoding: Decoding, samples: int = 1
) -> list[Filling]:
    """Return fillings of a text.

    Random samples if the decoding has a temperature, else the best ones.

    Special tokens are never predicted. A text without `<mask>` is followed by `decoding.max_tokens`
    of them.
    """
    text = _own_masks(trained, text)
    masked = text if MASK in text else " ".join([text, *[MASK] * decoding.max_tokens])
    ids, _ = encode_masked_text(trained, masked)
    vocabulary = trained.tokenizer.vocabulary
    fillings = unmask(
        trained.model,
        [ids.tolist()] * (samples if decoding.width is None else 1),
        vocabulary.id_of("mask", "fill_mask"),
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
