"""Encode WordPiece with the `tokenizers` library, each whitespace-separated chunk once."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import tokenizers

from clozeline.pipeline.tokenize.tokenizers._chunk_encoder import BETWEEN_SPACES, ChunkEncoder, Tokens

HIDDEN: Final = "\0"
"""Prefix that hides a piece from text, which never contains this character."""


def word_encoder(
    library: tokenizers.Tokenizer, facts: Mapping[str, Any], bare: Collection[str], dtype: Any
) -> ChunkEncoder | None:
    """Return a chunk encoder for a `tokenizer.json`; None if a step could cross white space.

    BERT's normalizer changes each character with its accents separately, and its words end at white space; an added
    token in text could contain a space.

    Example: "the cat, the mat" has the chunks `the` `cat,` `mat`, and `the` is encoded once.
    """
    steps = [(facts[name] or {}).get("type") for name in ("model", "pre_tokenizer", "normalizer")]
    if steps[:2] != ["WordPiece", "BertPreTokenizer"] or steps[2] not in (None, "BertNormalizer"):
        return None
    if not all(entry["content"] in bare for entry in facts["added_tokens"]):
        return None
    together = partial(tokens_of_chunks, library, dtype)
    return ChunkEncoder(BETWEEN_SPACES, lambda chunk: together([chunk])[0], dtype, together)


def tokens_of_chunks(library: tokenizers.Tokenizer, dtype: Any, chunks: Sequence[str]) -> list[Tokens]:
    """Return the tokens of chunks, encoded as a single text because calls are slow."""
    row = library.encode("\n".join(chunks), add_special_tokens=False)
    # ids and character offsets of all tokens [T], then the first token of each chunk
    ids, starts = np.array(row.ids, dtype), np.array([start for start, _ in row.offsets], np.int32)
    lengths = np.fromiter(map(len, chunks), np.int64, len(chunks)) + 1
    begins = np.cumsum(lengths) - lengths
    cuts = [*np.searchsorted(starts, begins).tolist(), len(ids)]
    starts -= np.repeat(begins, np.diff(cuts)).astype(np.int32)
    return [(ids[start:end], starts[start:end]) for start, end in pairwise(cuts)]
