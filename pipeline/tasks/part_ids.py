"""Token ids of the parts of a text that is put together from encoded texts and special tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.tasks.readers import Part
from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.pipeline.vocabulary import Vocabulary


def part_ids(parts: Sequence[Part], encodings: Sequence[Encoding], vocabulary: Vocabulary) -> list[NDArray[Any]]:
    """Return the ids of each part: those of its text, which are never special, or its special token.

    Args:
        parts: in their order.
        encodings: of the parts that are texts.
        vocabulary: of the tokenizer.

    Raises:
        ConfigurationError: the vocabulary lacks a special token that a part names.
    """
    texts = iter(encodings)
    return [
        np.array([vocabulary.id_of(part.text, "the template of the task")], vocabulary.id_dtype)
        if part.special
        else next(texts).ids
        for part in parts
    ]
