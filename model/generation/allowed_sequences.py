"""Restrict generation to a given set of token sequences, held in a trie."""

from collections.abc import Collection, Sequence
from typing import Final, TypeAlias

from clozeline.errors import ConfigurationError

_Node: TypeAlias = dict[int, "_Node"]
_END: Final = -1
"""key of nodes at which a sequence is complete; no token has this id"""


class AllowedSequences:
    """A trie of token sequences: the only ones that a generation may write, each followed by an end token.

    The end token decides between a sequence and its extensions, and makes the probabilities of the sequences those of
    different events. Calling it returns the tokens that may follow, as `prefix_allowed_tokens_fn` of transformers does.

    Raises:
        ConfigurationError: no sequence is given, one is empty, or the model has no end token.

    Example:
        >>> allowed = AllowedSequences([[5, 6], [5, 6, 7], [8]], end_ids={2})
        >>> sorted(allowed([])), sorted(allowed([5])), sorted(allowed([5, 6]))
        ([5, 8], [6], [2, 7])
    """

    def __init__(self, sequences: Collection[Sequence[int]], end_ids: Collection[int]) -> None:
        if not end_ids:
            raise ConfigurationError("allowed: the tokenizer has no end token, by which an allowed text would end")
        if not sequences or not all(sequences):
            raise ConfigurationError("allowed: expected texts of at least one token each")
        self.longest = 1 + max(map(len, sequences))
        """tokens of the longest sequence and its end"""
        self._end_ids = frozenset(end_ids)
        self._root: _Node = {}
        for sequence in sequences:
            node = self._root
            for token in sequence:
                node = node.setdefault(token, {})
            node[_END] = {}

    def __call__(self, ids: Sequence[int]) -> Collection[int]:
        """Return the tokens that may follow these new tokens; none after a sequence that is not allowed."""
        node = self._root
        for token in ids:
            node = node.get(token, {})
        following = {*node} - {_END}
        return following | self._end_ids if _END in node else following
