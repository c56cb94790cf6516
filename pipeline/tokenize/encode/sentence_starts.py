"""Map the character offsets of sentences to token indices."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def sentence_starts(
    text: str, starts: Sequence[int], token_starts: NDArray[np.int64], token_ends: NDArray[np.int64] | None = None
) -> NDArray[np.uint32]:
    """Return the first token of each sentence: starts with 0, strictly increasing.

    A sentence starts at the token of its first visible character; leading white space of a token is ignored, so ` The`
    starts a sentence. A whitespace token, or one that spans a boundary (`。他`), belongs to the previous sentence.
    Sentences that start at the same token are merged, so the result may be shorter than `starts`.

    Args:
        text: the document.
        starts: character offsets of the sentences; visible characters, except the first.
        token_starts: `Encoding.starts`, [T], T >= 1.
        token_ends: `Encoding.ends`, [T], for tokens of a space and the first byte of a letter; None if no token ends
            inside a character.

    Example:
        "Hi. The end." with sentences at 0, 4 and the tokens `Hi` `.` `Ġthe` `Ġend` `.` gives 0, 2.
    """
    # first token at or after each sentence start [S]; unsure where the token before may hold the character
    visible = np.asarray(starts, dtype=np.int64)
    tokens = np.searchsorted(token_starts, visible)
    at = np.minimum(tokens, len(token_starts) - 1)
    unsure = (token_starts[at] != visible) | (tokens == len(token_starts))
    if token_ends is not None:
        unsure |= token_ends[np.maximum(tokens - 1, 0)] > visible
    # the token before starts the sentence if only white space precedes the character in it
    for row in np.flatnonzero(unsure).tolist():
        before = int(tokens[row]) - 1
        if before >= 0 and text[int(token_starts[before]) : int(visible[row])].isspace():
            tokens[row] = before
    tokens[0] = 0
    return np.unique(tokens[tokens < len(token_starts)]).astype(np.uint32)
