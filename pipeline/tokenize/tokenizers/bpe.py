"""Byte-pair encoding of characters as in textbooks (arXiv 1508.07909), with an end-of-word mark."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from clozeline.pipeline.tokenize.tokenizers._pieces import (
    SPECIAL_PIECES,
    TrainableTokenizer,
    training_texts,
)
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import (
    FrequencyOptions,
    count_letters,
    special_piece_roles,
)
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson

_END_OF_WORD: Final = "_"
"""end-of-word mark, as in textbooks"""
_UNDERSCORE_SUBSTITUTE: Final = "\0"
"""replaces an underscore of the text, which would be confused with the mark; it has no piece"""
_WHITE_SPACE: Final = r"\s\x{1c}-\x{1f}"
"""white space of Python, at which training splits words"""


class Bpe(TokenizerJson, TrainableTokenizer):
    """Byte-pair encoding of textbooks: merge the most frequent pair, again and again.

    Of equally frequent pairs, the first one in the corpus is merged. White space separates words,
    and decodes to a single space. An underscore becomes the unknown token.

    Example:
        low x5, lowest x2, newer x6, wider x3, new x2 give er, er_, ne, new, lo, low, newer_, low_;
        then "lower" is `low` `er_`.
    """

    SAMPLE_BYTES = 10**8
    MIN_PIECES = (2, "2 letters")
    LOSS = (
        "several spaces become one; underscores, and characters that are missing in the training "
        "text, become the unknown token"
    )

    Options: TypeAlias = FrequencyOptions

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> Bpe:
        """Train the merges and write `tokenizer.json`.

        Raises:
            ConfigurationError: `size` is too small.
        """
        cls.check_size(options)

        # the words that the most frequent letters can spell
        words: Counter[str] = Counter()
        for text in training_texts(texts):
            words.update(word + _END_OF_WORD for word in text.split() if _END_OF_WORD not in word)
        reserved = options.special_pieces()
        budget = options.size - len(reserved)
        letters = count_letters(words, list)[:budget]
        known = set(letters)
        spelled = {word: count for word, count in words.items() if known.issuperset(word)}

        # special pieces, letters and merges, as a model of the library
        merges = learn_merges(spelled, budget - len(letters), options.min_frequency, reserved)
        names = dict.fromkeys([*reserved, *letters, *(left + right for left, right in merges)])
        ids = {name: token for token, name in enumerate(names)}
        model = Tokenizer(models.BPE(ids, merges, unk_token=SPECIAL_PIECES["unk"]))
        ends = normalizers.Replace(
            Regex(f"(?<=[^{_WHITE_SPACE}])(?![^{_WHITE_SPACE}])"), _END_OF_WORD
        )
        model.normalizer = normalizers.Sequence(
            [normalizers.Replace(_END_OF_WORD, _UNDERSCORE_SUBSTITUTE), ends]
        )
        model.pre_tokenizer = pre_tokenizers.Split(Regex(f"[{_WHITE_SPACE}]+"), "removed")
        model.decoder = decoders.BPEDecoder(_END_OF_WORD)
        return cls.write(folder, model, special_piece_roles(options))


def learn_merges(
    words: Mapping[str, int], limit: int, min_frequency: int = 2, banned: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Return at most `limit` merges of pairs that occur `min_frequency` times, in training order.

    `words` counts the words, in order of first appearance. No merge creates a `banned` piece.
    """
    # the symbols of each word, and for each pair its count and its words
    corpus = [list(word) for word in words]
    counts = list(words.values())
    totals: Counter[tuple[str, str]] = Counter()
    words_of: dict[tuple[str, str], set[int]] = defaultdict(set)

    def add(number: int, sign: int) -> None:
        for pair in pairwise(corpus[number]):
            totals[pair] += sign * counts[number]
            if sign > 0:
                words_of[pair].add(number)
            else:
                words_of[pair].discard(number)

    def rank(pair: tuple[str, str]) -> tuple[int, int, int, tuple[str, str]]:
        """Return the sort key of a pair: its count, its first word, the characters before it."""
        number = min(words_of[pair])
        index = list(pairwise(corpus[number])).index(pair)
        return -totals[pair], number, len("".join(corpus[number][:index])), pair

    for number in range(len(corpus)):
        add(number, 1)
    queue = [rank(pair) for pair in totals]
    heapq.heapify(queue)
    merges: list[tuple[str, str]] = []

    while queue and len(merges) < limit:
        *_, pair = entry = heapq.heappop(queue)
        if totals[pair] < min_frequency or "".join(pair) in banned:
            continue

        # a pair gets rarer, and its first word later, so a stored rank may be too early
        if entry != (current := rank(pair)):
            heapq.heappush(queue, current)
            continue

        # merge the pair in all its words, and rank the new pairs
        merges.append(pair)
        changed = list(words_of[pair])
        for number in changed:
            add(number, -1)
            corpus[number] = merge_pair(corpus[number], pair)
            add(number, 1)

        new_pairs: set[tuple[str, str]] = set()
        for number in changed:
            new_pairs.update(new for new in pairwise(corpus[number]) if "".join(pair) in new)
        for new in new_pairs:
            heapq.heappush(queue, rank(new))

    return merges


def merge_pair(word: list[str], pair: tuple[str, str]) -> list[str]:
    """Return the symbols of a word after merging a pair, from left to right."""
    merged: list[str] = []
    index = 0
    while index < len(word):
        size = 2 if (*word[index : index + 2],) == pair else 1
        merged.append("".join(word[index : index + size]))
        index += size
    return merged
