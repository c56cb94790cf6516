"""From characters to tokens: at which token each sentence begins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def sentence_starts(
    text: str, starts: Sequence[int], token_starts: NDArray[np.int64], token_ends: NDArray[np.int64] | None = None
) -> NDArray[np.uint32]:
    """Return the token indices of the sentences: first 0, strictly increasing.

    A sentence begins at the token of its first visible character. White space at the front of a token does not count:
    ` The` opens its sentence. A token of white space alone belongs to the sentence before it, and so does a token that
    spans a boundary, such as `。他`. Sentences that begin at one token are merged, so the result may be shorter than
    `starts`.

    Args:
        text: the document.
        starts: character offsets of the sentences, each but the first that of a visible character.
        token_starts: [tokens] character at which each token begins, ascending, at least one token.
        token_ends: `Encoding.ends`, by which a space with the first byte of a letter opens the sentence; None: no token
            ends inside a character.

    Example:
        "Hi. The end." with sentences at 0, 4 and the tokens `Hi` `.` `Ġthe` `Ġend` `.` gives 0, 2.
    """
    visible = np.asarray(starts, dtype=np.int64)
    tokens = np.searchsorted(token_starts, visible)
    at = np.minimum(tokens, len(token_starts) - 1)
    unsure = (token_starts[at] != visible) | (tokens == len(token_starts))
    if token_ends is not None:
        unsure |= token_ends[np.maximum(tokens - 1, 0)] > visible
    for row in np.flatnonzero(unsure).tolist():
        before = int(tokens[row]) - 1
        if before >= 0 and text[int(token_starts[before]) : int(visible[row])].isspace():
            tokens[row] = before
    tokens[0] = 0
    return np.unique(tokens[tokens < len(token_starts)]).astype(np.uint32)
