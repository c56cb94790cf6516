"""Words of tokenizers of each kind, against the words of the text."""

import random

import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from tests.pipeline.tokenize.tokenizers.word_marks import KINDS, ROLES, TEXTS, UNMARKED, words_of
from tests.refusals import refused


def imported(write, folder):
    return import_tokenizer(write(folder / "in"), folder / "out", **ROLES)


@pytest.fixture(scope="module", params=KINDS)
def case(request, tmp_path_factory):
    write, words = KINDS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    return imported(write, folder), words


def some_texts():
    draw = random.Random(4)
    words = " ".join(TEXTS[:3]).split()
    return [" ".join(draw.choices(words, k=14)) for _ in range(40)]


def test_words_are_those_of_the_text(case):
    tokenizer, words = case

    for text, encoding in zip(some_texts(), tokenizer.encode(some_texts()), strict=True):
        assert not tokenizer.vocabulary.special[encoding.ids].any()
        assert words_of(
            encoding.starts, tokenizer.vocabulary.opens_word(encoding.ids), text
        ) == words(text)


@pytest.mark.parametrize("name", UNMARKED)
def test_objectives_of_words_are_refused_where_no_piece_marks_one(name, tmp_path):
    vocabulary = imported(UNMARKED[name], tmp_path).vocabulary

    for options in (
        "whole_word_masking",
        "span_boundary",
        "sentence_order_prediction",
        {"name": "text_infilling", "unit": "word"},
    ):
        with refused("does not mark where words start"):
            build_objective(options, vocabulary)

    for options in (
        "masked_lm",
        "text_infilling",
        {"name": "sentence_order_prediction", "max_span_length": 0},
    ):
        build_objective(options, vocabulary)
