"""From characters to tokens: at which token each sentence begins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["sentence_starts"]


def sentence_starts(text: str, starts: Sequence[int], token_starts: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Token indices of the sentences: first 0, strictly increasing.

    A sentence begins at the first token that begins at its first visible character or later, or at the token before
    that one where only white space stands between that token's beginning and the character: so a space that a token
    carries in front does not matter (` The` opens its sentence), and a token of white space alone ends the sentence
    before. A token that spans a boundary (`。他`) belongs to the sentence that it begins in. Sentences that begin at
    one token are merged: the result may be shorter than `starts`.

    Args:
        text: the document.
        starts: character offsets of the sentences, each but the first that of a visible character.
        token_starts: [tokens] character at which each token begins, ascending, at least one token.

    Example:
        "Hi. The end." with sentences at 0, 4 and the tokens `Hi` `.` `Ġthe` `Ġend` `.` gives 0, 2.
    """
    visible = np.asarray(starts, dtype=np.int64)
    tokens = np.searchsorted(token_starts, visible)
    at = np.minimum(tokens, len(token_starts) - 1)
    for row in np.flatnonzero((token_starts[at] != visible) | (tokens == len(token_starts))).tolist():
        before = int(tokens[row]) - 1
        if before >= 0 and text[int(token_starts[before]) : int(visible[row])].isspace():
            tokens[row] = before
    tokens[0] = 0
    return np.unique(tokens[tokens < len(token_starts)]).astype(np.uint32)
