"""Predict the masked tokens of a text with a run's masked LM, for commands of extensions."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError
from clozeline.train.checkpoint.trained_model import TrainedModel

MASK = "<mask>"


def encode_masked_text(trained: TrainedModel, text: str) -> tuple[NDArray[np.int64], list[int]]:
    """Return the token row of a text with `<mask>`s, and their positions.

    Each mask includes the space before it.

    `[MASK]`, `___` and the tokenizer's mask are masks, too.

    Raises:
        ConfigurationError: the text has no mask, or more tokens than the model reads.
    """
    parts = unify_masks(trained, text).split(MASK)
    if len(parts) == 1:
        raise ConfigurationError(f"expected a text with {MASK}, got {text!r}")
    cls, sep, mask = trained.masked_row_ids("a guess")
    ids = [cls]
    positions = []

    for encoding in trained.tokenizer.encode([part.removesuffix(" ") for part in parts[:-1]]):
        ids += encoding.ids.tolist()
        positions.append(len(ids))
        ids.append(mask)

    ids += [*trained.tokenizer.encode(parts[-1:])[0].ids.tolist(), sep]

    if len(ids) > trained.max_length:
        raise ConfigurationError(
            f"{len(ids)} tokens, the model reads rows of at most {trained.max_length}: shorten it"
        )

    return np.array(ids), positions


def unify_masks(trained: TrainedModel, text: str) -> str:
    """Return a text with `<mask>` for the mask of the tokenizer, `[MASK]`, and `___`."""
    tokenizer = trained.tokenizer
    piece = tokenizer.piece(tokenizer.vocabulary.id_of("mask", "a guess"))
    return re.sub(rf"{re.escape(piece)}|\[MASK\]|_{{3,}}", MASK, text)


@dataclass(frozen=True)
class Guess:
    """A predicted piece of text and its probability."""

    text: str
    probability: float


def guesses(trained: TrainedModel, ids: NDArray[Any], position: int, top: int) -> list[Guess]:
    """Return the most probable tokens at the masked position of a row with its special tokens."""
    from clozeline.model.scoring.masked import logits_at_masks

    ((logits,),) = logits_at_masks(
        trained.model, [ids.tolist()], [[position]], previous=trained.predicts_next
    )
    best = logits.softmax(-1).topk(top)
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [
        Guess(trained.tokenizer.decode_part([token]), probability) for token, probability in pairs
    ]
