"""The merges of byte-pair encoding with their counts, by hand and by a slow way."""

import random
from collections import Counter

import pytest

from clozeline.pipeline.tokenize.merge_steps import replay_merges
from clozeline.pipeline.tokenize.tokenizers.bpe import Bpe
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe
from clozeline.pipeline.tokenize.tokenizers.word import Word
from tests.refusals import refused

LECTURE = ["low"] * 4 + ["lowest"] * 2 + ["newer"] * 6 + ["wider"] * 3 + ["new"] * 2
# worked out by hand: newer 6 + wider 3 = 9, newer 6 + new 2 = 8, low 4 + lowest 2 = 6
BY_HAND = [
    ("e", "r", 9, "n e w er _"),
    ("er", "_", 9, "n e w er_"),
    ("n", "e", 8, "ne w er_"),
    ("ne", "w", 8, "new er_"),
    ("l", "o", 6, "lo w _"),
    ("lo", "w", 6, "low _"),
    ("new", "er_", 6, "newer_"),
    ("low", "_", 4, "low_"),
]


def test_the_example_of_lectures(tmp_path):
    Bpe.train(LECTURE, Bpe.Options(size=300), tmp_path)
    assert list(replay_merges(tmp_path, LECTURE, 8)) == BY_HAND
    assert len(list(replay_merges(tmp_path, LECTURE, 3))) == 3


def pair_counts(words):
    """The count of each pair of symbols, by writing every word as often as it occurs."""
    counts = Counter()
    for symbols, times in words:
        for _ in range(times):
            counts.update((symbols[at], symbols[at + 1]) for at in range(len(symbols) - 1))
    return counts


@pytest.mark.parametrize(("trained", "size"), [(Bpe, 200), (ByteBpe, 500)])
def test_each_merge_is_of_a_most_frequent_pair(trained, size, tmp_path):
    draw = random.Random(3)
    texts = [
        " ".join("".join(draw.choices("abcé", k=draw.randint(1, 6))) for _ in range(30))
        for _ in range(8)
    ]
    trained.train(texts, trained.Options(size=size), tmp_path)
    mark = "_" if trained is Bpe else ""
    first = {" ": "Ġ", "é": "Ã©"} if trained is ByteBpe else {}
    pieces = (
        text.split() if trained is Bpe else text.replace(" ", "\n ").split("\n") for text in texts
    )
    written = Counter(
        "".join(first.get(letter, letter) for letter in word) for words in pieces for word in words
    )
    words = [([*word, *mark], times) for word, times in written.items()]

    steps = list(replay_merges(tmp_path, texts, 12))

    assert len(steps) == 12
    for step in steps:
        counts = pair_counts(words)
        assert step.occurrences == counts[step.left, step.right] == max(counts.values())
        joined = []
        for symbols, times in words:
            text = "\t".join(symbols)
            while f"\t{step.left}\t{step.right}\t" in f"\t{text}\t":
                text = f"\t{text}\t".replace(
                    f"\t{step.left}\t{step.right}\t", f"\t{step.left}{step.right}\t", 1
                )[1:-1]
            joined.append((text.split("\t"), times))
        words = joined


def test_a_tokenizer_without_merges_is_named(tmp_path):
    Word.train(["a b a b"], Word.Options(size=200, min_frequency=1), tmp_path)
    with refused("does not merge pairs"):
        list(replay_merges(tmp_path, ["a"], 1))
