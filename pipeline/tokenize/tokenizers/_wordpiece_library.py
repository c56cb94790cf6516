"""WordPiece by the library `tokenizers`, each chunk of text between white space encoded once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import tokenizers

from clozeline.pipeline.tokenize.tokenizers._chunk_encoder import BETWEEN_SPACES, ChunkEncoder, Tokens

HIDDEN: Final = "\0"
"""Put before a piece that must not be found in text, which never has this character."""


def word_encoder(
    library: tokenizers.Tokenizer, facts: Mapping[str, Any], bare: Collection[str], dtype: Any
) -> ChunkEncoder | None:
    """Return the encoder by chunks for a `tokenizer.json`, None where a step could cross white space.

    BERT's normaliser changes each character by itself, with the accents after it, and its words end at white space. A
    further token that is found in text could hold a space.

    Args:
        library: the file as `tokenizers` reads it.
        facts: content of the file.
        bare: pieces that no text gives.
        dtype: type of ids.

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
    """Return the tokens of chunks, which the library gets as one text: a call for each would take longer."""
    row = library.encode("\n".join(chunks), add_special_tokens=False)
    ids, places = np.array(row.ids, dtype), np.array([start for start, _ in row.offsets], np.int32)
    lengths = np.fromiter(map(len, chunks), np.int64, len(chunks)) + 1
    begins = np.cumsum(lengths) - lengths
    cuts = [*np.searchsorted(places, begins).tolist(), len(ids)]
    places -= np.repeat(begins, np.diff(cuts)).astype(np.int32)
    return [(ids[start:end], places[start:end]) for start, end in pairwise(cuts)]
