"""Byte-pair encoding of characters as in textbooks (arXiv 1508.07909), with an end-of-word mark."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

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

_END: Final = "_"
"""End-of-word mark of textbooks."""
_UNDERSCORE: Final = "\0"
"""Replaces an underscore of the text, which would be confused with the mark and has no piece."""
_SPACE: Final = r"\s\x{1c}-\x{1f}"
"""White space of Python, at which training splits words."""


class Bpe(TokenizerJson, TrainableTokenizer):
    """Merges the most frequent pair; in a tie, the first one in the corpus as merged so far.

    Words are separated by white space, which decodes to a single space. An underscore is the
    unknown token.

    Example:
        low x5, lowest x2, newer x6, wider x3, new x2 give er, er_, ne, new, lo, low, newer_, low_;
        then "lower" is `low` `er_`.
    """

    SAMPLE_BYTES: ClassVar[int] = 10**8
    MIN_PIECES: ClassVar[tuple[int, str]] = (2, "2 letters")
    LOSS: ClassVar[str] = (
        "white space but one space, underscores, and characters that the training text does not "
        "have"
    )

    Options: TypeAlias = FrequencyOptions

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> Bpe:
        """Train the merges and write `tokenizer.json`; ConfigurationError if `size` is too small."""
        cls.check_size(options)
        words = Counter(
            word + _END
            for text in training_texts(texts)
            for word in text.split()
            if _END not in word
        )
        reserved = options.special_pieces()
        budget = options.size - len(reserved)
        letters = count_letters(words, list)[:budget]
        known = set(letters)
        spelled = {word: count for word, count in words.items() if known.issuperset(word)}
        merges = learn_merges(spelled, budget - len(letters), options.min_frequency, reserved)
        names = dict.fromkeys([*reserved, *letters, *(left + right for left, right in merges)])
        ids = {name: token for token, name in enumerate(names)}
        model = Tokenizer(models.BPE(ids, merges, unk_token=SPECIAL_PIECES["unk"]))
        ends = normalizers.Replace(Regex(f"(?<=[^{_SPACE}])(?![^{_SPACE}])"), _END)
        model.normalizer = normalizers.Sequence([normalizers.Replace(_END, _UNDERSCORE), ends])
        model.pre_tokenizer = pre_tokenizers.Split(Regex(f"[{_SPACE}]+"), "removed")
        model.decoder = decoders.BPEDecoder(_END)
        return cls.write(folder, model, special_piece_roles(options))


def learn_merges(
    words: Mapping[str, int], limit: int, min_frequency: int = 2, banned: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Return at most `limit` merges of pairs that occur `min_frequency` times, in the order in which they are learned.

    `words` counts the words, in order of first appearance. No merge creates one of `banned`.
    """
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
        """Sort by count, then by the first word with the pair and the characters before it."""
        number = min(words_of[pair])
        at = list(pairwise(corpus[number])).index(pair)
        return -totals[pair], number, len("".join(corpus[number][:at])), pair

    for number in range(len(corpus)):
        add(number, 1)
    queue = [rank(pair) for pair in totals]
    heapq.heapify(queue)
    merges: list[tuple[str, str]] = []
    while queue and len(merges) < limit:
        *_, pair = entry = heapq.heappop(queue)
        if totals[pair] < min_frequency or "".join(pair) in banned:
            continue
        # a pair only gets rarer and its first word later, until a merge makes it again, so the old
        # rank is too early
        if entry != (current := rank(pair)):
            heapq.heappush(queue, current)
            continue
        merges.append(pair)
        changed = list(words_of[pair])
        for number in changed:
            add(number, -1)
            corpus[number] = _merge(corpus[number], pair)
            add(number, 1)
        made = {
            new for number in changed for new in pairwise(corpus[number]) if "".join(pair) in new
        }
        for new in made:
            heapq.heappush(queue, rank(new))
    return merges


def _merge(word: list[str], pair: tuple[str, str]) -> list[str]:
    """Return the symbols of a word with a pair merged, from left to right."""
    merged: list[str] = []
    at = 0
    while at < len(word):
        size = 2 if (*word[at : at + 2],) == pair else 1
        merged.append("".join(word[at : at + size]))
        at += size
    return merged
