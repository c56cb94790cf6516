from __future__ import annotations

import doctest
import random

import numpy as np
import pytest

import clozeline.pipeline.tasks.window_rows
from clozeline.pipeline.tasks.window_rows import NO_WORD, token_spans, word_bounds, word_numbers


def test_examples() -> None:
    assert not doctest.testmod(clozeline.pipeline.tasks.window_rows, extraglobs={"np": np}).failed


def slow_spans(text: str, starts: list[int]) -> list[list[int]]:
    found = []
    for start in starts:
        later = [other for other in starts if other > start]
        end = min(later) if later else len(text)
        while start < end and text[start].isspace():
            start += 1
        while end > start and text[end - 1].isspace():
            end -= 1
        found.append([start, end])
    return found


@pytest.mark.parametrize("seed", range(40))
def test_spans_equal_a_slow_loop(seed: int) -> None:
    draw = random.Random(seed)
    text = "".join(draw.choice("ab \u00a0\u3042\U0001f600\t") for _ in range(draw.randint(1, 20)))
    starts = sorted(draw.choices(range(len(text)), k=draw.randint(1, 12)))
    found = token_spans(text, np.array(starts))
    slow = slow_spans(text, starts)
    assert [text[start:end] for start, end in found.tolist()] == [text[start:end] for start, end in slow]
    filled = [index for index, (start, end) in enumerate(slow) if start < end]
    assert found[filled].tolist() == [slow[index] for index in filled]


def test_no_tokens() -> None:
    assert token_spans("", np.zeros(0, np.int64)).shape == (0, 2)


def test_words_of_tokens() -> None:
    """A word that the tokenizer removes has no token, and a token of white space no word."""
    words = ("unable", "\u200d", "to", "unable.")
    bounds = word_bounds(words)
    text = " ".join(words)
    assert [text[start:end] for start, end in bounds.tolist()] == list(words)
    starts = np.array([0, 2, 9, 11, 12, 14, 18])
    assert word_numbers(token_spans(text, starts), bounds).tolist() == [0, 0, 2, NO_WORD, 3, 3, 3]
