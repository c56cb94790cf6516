"""Learn BPE merges (arXiv 1508.07909): merge the most frequent pair; the first in the corpus wins a tie."""

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

Pair: TypeAlias = tuple[str, str]


def count_words(words: Iterable[str]) -> dict[str, int]:
    """Return how often each word occurs, in order of first appearance."""
    return dict(Counter(words))


class _Corpus:
    """The words as merged so far, and the words in which each pair occurs.

    The count of a pair only falls and its first occurrence only moves back until a merge creates it again, so the first
    entry of the queue can be validated when it is popped.
    """

    def __init__(self, words: Sequence[Sequence[str]], counts: Sequence[int], lengths: Callable[[str], int]) -> None:
        self.words = [list(word) for word in words]
        self.counts, self.lengths = counts, lengths
        self.totals: dict[Pair, int] = defaultdict(int)
        self.words_of: dict[Pair, list[int]] = defaultdict(list)
        self.passed: dict[Pair, int] = defaultdict(int)
        for number in range(len(self.words)):
            self.add(number, 1)

    def add(self, number: int, sign: int) -> set[Pair]:
        """Add (sign 1) or subtract (sign -1) the pairs of a word, and return them."""
        word = self.words[number]
        pairs = list(pairwise(word))
        for pair in pairs:
            self.totals[pair] += sign * self.counts[number]
        for pair in set(pairs) if sign > 0 else ():
            words = self.words_of[pair]
            at = bisect_left(words, number)
            if at == len(words) or words[at] != number:
                words.insert(at, number)
            self.passed[pair] = min(self.passed[pair], at)
        return set(pairs)

    def first(self, pair: Pair) -> tuple[int, int]:
        """Return the first word that contains a pair, and the characters before the pair in it."""
        words = self.words_of[pair]
        while self.passed[pair] < len(words):
            number, before = words[self.passed[pair]], 0
            word = self.words[number]
            for left, right in pairwise(word):
                if (left, right) == pair:
                    return number, before
                before += self.lengths(left)
            self.passed[pair] += 1
        return len(self.words), 0


def learn_merges(
    words: Mapping[str, int],
    symbols: Callable[[str], Sequence[str]],
    limit: int,
    *,
    join: Callable[[str, str], str] = str.__add__,
    lengths: Callable[[str], int] = len,
    banned: Collection[str] = (),
    min_frequency: int = 2,
) -> list[Pair]:
    """Return at most `limit` merges in the order in which they are learned.

    `words` counts the words, in order of first appearance; `symbols` splits one into its initial symbols, `join` merges
    two, `lengths` counts the characters of one, and no merge creates one of `banned`. A pair occurs `min_frequency`
    times at least.

    Example: low x4, lowest x2, newer x6, wider x3, new x2, each with `_` at its end, give er, er_, ne, new, lo, low,
        newer_, low_.
    """
    corpus = _Corpus([symbols(word) for word in words], list(words.values()), lengths)
    queue = [(-total, *corpus.first(pair), pair) for pair, total in corpus.totals.items()]
    heapq.heapify(queue)
    merges: list[Pair] = []
    while queue and len(merges) < limit:
        total, number, before, pair = heapq.heappop(queue)
        current = (-corpus.totals[pair], *corpus.first(pair))
        if -current[0] < min_frequency or join(*pair) in banned:
            continue
        if current != (total, number, before):
            heapq.heappush(queue, (*current, pair))
            continue
        merges.append(pair)
        for changed in _merge(corpus, pair, join(*pair)):
            heapq.heappush(queue, (-corpus.totals[changed], *corpus.first(changed), changed))
    return merges


def _merge(corpus: _Corpus, pair: Pair, merged: str) -> list[Pair]:
    """Merge a pair in all words, and return the new pairs, sorted."""
    fresh: set[Pair] = set()
    for number in corpus.words_of[pair][corpus.passed[pair] :]:
        word = corpus.words[number]
        if pair not in pairwise(word):
            continue
        before = corpus.add(number, -1)
        replaced: list[str] = []
        at = 0
        while at < len(word):
            is_pair = at + 1 < len(word) and (word[at], word[at + 1]) == pair
            replaced.append(merged if is_pair else word[at])
            at += 1 + is_pair
        corpus.words[number] = replaced
        fresh |= corpus.add(number, 1) - before
    corpus.totals[pair] = 0
    return sorted(new for new in fresh if merged in new)
