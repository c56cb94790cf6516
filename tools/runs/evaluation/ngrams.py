"""Interpolated Kneser-Ney n-grams (Kneser and Ney 1995; Chen and Goodman 1998), the baselines of language models.

Those of perplexity count the tokens of the model's own tokenizer, so both perplexities are over the same tokens; those
of minimal pairs count words.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.errors import ConfigurationError

_WORD: Final = re.compile(r"\w+|[^\w\s]")
_USUAL_DISCOUNT: Final = 0.5
"""of an order in which no n-gram has count 1, or none has count 2"""


@dataclass(frozen=True)
class _Order:
    """The n-grams of one length, by index: an n-gram's key is the index of its first n - 1 tokens and its last token.

    Arrays end with an entry for what is unknown, index -1.
    """

    keys: Int64
    """[n-grams + 1] ascending"""
    counts: Int64
    """[n-grams + 1] occurrences, or below the highest order numbers of different tokens before the n-gram"""
    totals: Int64
    """[(n-1)-grams + 1] sum of the counts of the n-grams that start with it"""
    kinds: Int64
    """[(n-1)-grams + 1] number of those n-grams"""
    discount: float

    def find(self, keys: Int64) -> Int64:
        """Return the index of each key, -1 where there is none."""
        at = np.searchsorted(self.keys, keys)
        return np.where(self.keys[at] == keys, at, -1)


class TokenNgrams:
    """Counts of the n-grams of documents, none of which crosses the start of a document."""

    def __init__(self, documents: Iterable[Sequence[int] | Int64], order: int, vocab_size: int) -> None:
        """Count documents: token ids, of which the first is only context.

        Raises:
            ConfigurationError: there is nothing to count.
        """
        arrays = [np.asarray(document, np.int64) for document in documents]
        self.tokens = sum(max(0, len(array) - 1) for array in arrays)
        """number of counted tokens"""
        if not self.tokens:
            raise ConfigurationError("baseline: expected texts with tokens to count, got none")
        self.order, self._size = order, vocab_size
        tokens = np.concatenate(arrays)
        depths = np.concatenate([np.arange(len(array)) for array in arrays])
        self._orders = self._count(tokens, depths)

    def _count(self, tokens: Int64, depths: Int64) -> list[_Order]:
        orders: list[_Order] = []
        # ends [n-grams at positions], their positions and indices; the 0-gram has index 0 and ends everywhere
        before, contexts = np.zeros(len(tokens), np.int64), 1
        grams: list[tuple[Int64, Int64, Int64]] = []
        for n in range(1, self.order + 1):
            ends = np.flatnonzero(depths >= n - 1)
            keys, indices = np.unique(before[ends] * self._size + tokens[ends], return_inverse=True)
            grams.append((keys, ends, indices))
            # the context of the next order: the n-gram that ends one position before
            before = np.full(len(tokens), -1)
            before[ends[ends + 1 < len(tokens)] + 1] = indices[ends + 1 < len(tokens)]
        for n, (keys, ends, indices) in enumerate(grams, 1):
            if n == self.order:
                counted = indices[depths[ends] >= 1]
            else:
                # one for each different (n+1)-gram that ends with it, and for each start of a document
                longer_keys, longer_ends, longer = grams[n]
                first = np.full(len(longer_keys), len(tokens))
                np.minimum.at(first, longer, longer_ends)
                of_position = np.full(len(tokens), -1)
                of_position[ends] = indices
                starts = ends[(depths[ends] == n - 1) & (n > 1)]
                counted = of_position[np.concatenate([first, starts])]
            counts = np.bincount(counted, minlength=len(keys))
            prefixes, positive = keys // self._size, counts > 0
            totals = np.bincount(prefixes, counts, minlength=contexts + 1).astype(np.int64)
            kinds = np.bincount(prefixes[positive], minlength=contexts + 1)
            once, twice = int((counts == 1).sum()), int((counts == 2).sum())
            discount = once / (once + 2 * twice) if once and twice else _USUAL_DISCOUNT
            keys, counts = np.append(keys, np.iinfo(np.int64).max), np.append(counts, 0)
            orders.append(_Order(keys, counts, totals, kinds, discount))
            contexts = len(keys) - 1
        return orders

    def log_probabilities(self, document: Sequence[int]) -> NDArray[np.float64]:
        """Return the natural log-probability of each token [tokens - 1] given up to n - 1 before it, after the first.

        p(w | h) = (max(c(hw) - D, 0) + D k(h) p(w | h')) / c(h), where k(h) is the number of different tokens after h,
        h' lacks the first token of h, and the shortest history leads to 1 / vocab_size.
        """
        tokens = np.asarray(document, np.int64)
        probabilities = np.full(len(tokens), 1.0 / self._size)
        contexts = np.zeros(len(tokens), np.int64)
        for order in self._orders:
            indices = order.find(contexts * self._size + tokens)
            kept = np.maximum(order.counts[indices] - order.discount, 0.0)
            spread = order.discount * order.kinds[contexts] * probabilities
            totals = order.totals[contexts]
            probabilities = np.where(totals > 0, (kept + spread) / np.maximum(totals, 1), probabilities)
            contexts = np.concatenate([[-1], indices[:-1]])
        return np.asarray(np.log(probabilities[1:]))


class WordNgrams:
    """Unigrams and bigrams of the words of texts; words that the texts lack share one id."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._ids = {"": 0}  # the start of a text, which is only context
        documents = [
            np.array([0, *(self._ids.setdefault(word, len(self._ids)) for word in _WORD.findall(text))])
            for text in texts
        ]
        self._models = [TokenNgrams(documents, order, len(self._ids) + 1) for order in (1, 2)]
        self.words = self._models[0].tokens
        """number of counted words"""

    def log_probability(self, text: str, order: int) -> float:
        """Return the natural log-probability of a text by unigrams (order 1) or bigrams (order 2)."""
        ids = [0, *(self._ids.get(word, len(self._ids)) for word in _WORD.findall(text))]
        return float(self._models[order - 1].log_probabilities(ids).sum())
