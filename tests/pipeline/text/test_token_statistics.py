"""Counts by a table of tokens: those of plain loops, whatever the table knows, and those of the compiled form."""

from __future__ import annotations

import pytest
from hypothesis import given

from clozeline.native.words import split_words
from clozeline.pipeline.text import word_tokens as module
from clozeline.pipeline.text.token_statistics import TableTokens, TokenNgrams
from clozeline.pipeline.text.word_tokens import TokenTable, word_rules, word_tokens
from tests.clozeline.native.test_words import TEXTS, needs_module

LISTED = frozenset({"the", "a", "It", "n't", "漢字", "", "missing", "x" * 300})
MEASURES = ("token_count", "words", "word_chars", "tokens_with_letter", "letter_share")


def measures(tokens) -> list[object]:
    return [*(getattr(tokens, name) for name in MEASURES), tokens.count_listed(LISTED)]


@given(TEXTS)
def test_counts_are_those_of_loops(text: str) -> None:
    tokens, spaced = word_tokens(text), text.split()
    words = [token for token in tokens if any(map(str.isalnum, token))]
    with_letter = sum(any(c.isalnum() and not c.isdecimal() for c in token) for token in tokens)
    share = sum(any(map(str.isalpha, word)) for word in spaced) / max(1, len(spaced))
    expected = [len(tokens), len(words), sum(map(len, words)), with_letter, share, len(LISTED.intersection(tokens))]
    assert measures(TableTokens(text)) == expected


@needs_module
@given(TEXTS)
def test_the_compiled_form_has_the_same_measures(text: str) -> None:
    ours, native = TableTokens(text), split_words(text, word_rules)
    assert native is not None
    assert measures(native) == measures(ours)
    assert native.lengths.tolist() == ours.lengths.tolist()
    # equal tokens, and only they, have equal ids
    pairs = set(zip(native.number_tokens().tolist(), ours.number_tokens().tolist(), strict=True))
    assert len(pairs) == len({left for left, _ in pairs}) == len({right for _, right in pairs})


def test_measures_do_not_depend_on_what_the_table_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that fill the table, make it grow, and find it replaced have the measures of a process of their own."""
    monkeypatch.setattr(module, "_CACHED", 3000)
    monkeypatch.setattr(module, "_ROOM", 16)
    monkeypatch.setattr(module, "_shared", TokenTable())
    for text in [" ".join(f"w{index}x{number}, 1." for index in range(0, number * 900, 7)) for number in range(9)]:
        shared = TableTokens(text)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_shared", TokenTable())
            own = TableTokens(text)
            assert own._table is not shared._table
        assert measures(shared) == measures(own)
        ngrams = [TokenNgrams(each.number_tokens(), each.lengths) for each in (shared, own)]
        assert len({tuple(each.top_ngram_chars(n) for n in (2, 3)) for each in ngrams}) == 1
