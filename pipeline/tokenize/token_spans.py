"""Find the characters of tokens, and the tokens of words."""

import numpy as np

from clozeline.arrays import Int64


def token_spans(text: str, starts: Int64, ends: Int64 | None = None) -> Int64:
    """Return first character and end of each token without surrounding whitespace, [tokens, 2].

    Tokens that share a character all span it; the first one holds its first byte. A whitespace
    token is empty.

    Args:
        text: the encoded text.
        starts: `Encoding.starts`, [tokens].
        ends: `Encoding.ends`, [tokens]; None if no token ends inside a character.

    Example:
        >>> token_spans(" a  bc", np.array([0, 2, 5])).tolist()
        [[1, 2], [4, 5], [5, 6]]
    """
    # start of the next token with another start [T]
    following = np.append(starts, len(text))[np.searchsorted(starts, starts, side="right")]
    if ends is not None:
        following = np.maximum(following, ends)
    # for each character: end of the last and start of the next visible one, [characters + 1]
    positions = np.arange(len(text) + 1)
    blank = np.fromiter(map(str.isspace, text), np.bool_, len(text))
    last = np.maximum.accumulate(np.where(np.append(True, ~blank), positions, 0))
    visible = np.where(np.append(~blank, True), positions, len(text))
    first = np.minimum.accumulate(visible[::-1])[::-1]
    begins = np.minimum(first[starts], following)
    return np.stack((begins, np.maximum(last[following], begins)), axis=1)


def first_tokens(spans: Int64, bounds: Int64) -> Int64:
    """Return the token with the first byte of each word, [words]; -1 for a word without tokens.

    `spans` are character ranges of tokens, [tokens, 2], ascending; `bounds` of words, [words, 2].

    Example:
        >>> spans, bounds = np.array([[0, 2], [2, 3], [5, 6]]), np.array([[0, 3], [4, 5], [5, 6]])
        >>> first_tokens(spans, bounds).tolist()
        [0, -1, 2]
    """
    begins = bounds[:, 0]
    tokens = np.searchsorted(spans[:, 1], begins, side="right")
    return np.where(np.append(spans[:, 0], np.iinfo(np.int64).max)[tokens] <= begins, tokens, -1)
