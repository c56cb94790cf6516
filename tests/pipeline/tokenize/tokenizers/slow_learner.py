"""Byte-pair encoding word by word as its paper describes it (arXiv 1508.07909), for tests of the
learners."""

from collections import Counter


def slow_letters(words, room):
    """The most frequent symbols; those met first before others as frequent."""
    counts = Counter(symbol for word in words for symbol in word)
    met = list(counts)
    return sorted(counts, key=lambda symbol: (-counts[symbol], met.index(symbol)))[:room]


def slow_learner(words, room, fewest, join, banned=(), letters=None):
    """The merges, at most `room`: the most frequent pair of all words, each as often as it comes,
    counted again.

    Of pairs as frequent, the one met first in the words as merged so far is taken; with `letters`,
    that of the smallest ids, which letters and merges have in their order.
    """
    merges = []
    while len(merges) < room:
        counts = Counter((word[at], word[at + 1]) for word in words for at in range(len(word) - 1))
        able = [pair for pair in counts if counts[pair] >= fewest and join(*pair) not in banned]
        if not able:
            break
        most = max(counts[pair] for pair in able)
        tied = [pair for pair in able if counts[pair] == most]
        names = [*(letters or ()), *(join(*pair) for pair in merges)]
        merges.append(
            list(
                tied[0]
                if letters is None
                else min(tied, key=lambda pair: [*map(names.index, pair)])
            )
        )

        words = [slow_merge(word, merges[-1], join) for word in words]

    return merges


def slow_merge(word, pair, join):
    """The symbols of a word with a pair of them merged, from left to right."""
    done = []

    for symbol in word:
        if done and [done[-1], symbol] == pair:
            # What was merged just now may be no part of the same pair again.
            done[-1] = join(*pair) + "\0"
        else:
            done.append(symbol)

    return [symbol.removesuffix("\0") for symbol in done]
