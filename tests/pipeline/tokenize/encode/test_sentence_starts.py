from __future__ import annotations

import random

import numpy as np
import pytest

from clozeline.pipeline.tokenize.encode.tokenize_documents import sentence_starts


def cut(*pieces: str) -> tuple[str, np.ndarray]:
    """A text and where its tokens begin."""
    starts = np.cumsum([0, *(len(piece) for piece in pieces[:-1])]) if pieces else np.empty(0)
    return "".join(pieces), starts.astype(np.int64)


@pytest.mark.parametrize(
    ("pieces", "sentences", "expected"),
    [
        (("Hi", ".", " the", " end", "."), [0, 4], [0, 2]),
        (("Hi.", " ", "The", " end"), [0, 4], [0, 2]),
        (("Hi.", "\n", "\n", "The", " end"), [0, 5], [0, 3]),
        (("Hi.", " ", " The", " end"), [0, 5], [0, 2]),
        (("好", "。他", "来", "了"), [0, 2], [0, 2]),  # a token that spans the boundary stays with its beginning
        (("好。他来了",), [0, 2], [0]),  # merged with the first
        (("A", ". ", "B", "."), [0, 3], [0, 2]),
        (("A. B. C",), [0, 3, 6], [0]),
        (("  ", "A.", " B"), [0, 5], [0, 2]),
        (("A.", " B. C", " d"), [0, 3, 6], [0, 1, 2]),
    ],
)
def test_by_hand(pieces, sentences, expected):
    text, tokens = cut(*pieces)
    assert sentence_starts(text, sentences, tokens).tolist() == expected


def slow(text: str, sentences: list[int], tokens: list[int]) -> list[int]:
    """The rule, word for word."""
    found = {0}
    for start in sentences[1:]:
        index = next((index for index, first in enumerate(tokens) if first >= start), len(tokens))
        exact = index < len(tokens) and tokens[index] == start
        if not exact and index and not text[tokens[index - 1] : start].strip():
            index -= 1
        if index < len(tokens):
            found.add(index)
    return sorted(found)


def test_against_the_slow_rule_on_random_cuts():
    draw = random.Random(2)
    for _ in range(400):
        text = "".join(draw.choices("ab. \n", k=draw.randrange(1, 40)))
        visible = [place for place in range(1, len(text)) if not text[place].isspace()]
        sentences = [0, *sorted(draw.sample(visible, min(len(visible), draw.randrange(4))))]
        tokens = [0, *sorted(draw.sample(range(1, len(text)), draw.randrange(min(len(text), 12))))]
        assert sentence_starts(text, sentences, np.array(tokens)).tolist() == slow(text, sentences, tokens)


def test_a_character_of_several_tokens_begins_at_its_first():
    assert sentence_starts("a. 😀", [0, 3], np.array([0, 1, 2, 3, 3, 3, 3])).tolist() == [0, 3]


def test_a_space_with_the_first_byte_of_a_letter_opens_the_sentence():
    """Byte-level pieces of `A. Я.`: `A` `.` and the space with one byte of the letter, its other byte, `.`."""
    starts, ends = np.array([0, 1, 2, 3, 4]), np.array([1, 2, 4, 4, 5])
    assert sentence_starts("A. Я.", [0, 3], starts, ends).tolist() == [0, 2]
    assert sentence_starts("A.Я.", [0, 2], np.array([0, 1, 2, 3]), np.array([1, 3, 3, 4])).tolist() == [0, 2]
