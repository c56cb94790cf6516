from __future__ import annotations

import random

import pytest
import sentencepiece

from clozeline.pipeline.tokenize.tokenizers.unigram import Unigram


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unigram")
    draw = random.Random(1)
    words = ["low", "lower", "newest", "widest", "don't", "état", "中文字", "...", "12", "345"]
    texts = [" ".join(draw.choices(words, k=50)) + "\n\n" + " ".join(draw.choices(words, k=50)) for _ in range(50)]
    Unigram.train(texts, Unigram.Options(size=440), folder)
    return folder


def test_ids_are_those_of_the_library(folder):
    ours = Unigram.load(folder)
    library = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    for text in ("low lower\n\nwidest  état", "<mask> 中文 x", "", " ", "345" * 50):
        ids = ours.encode([text])[0].ids.tolist()
        assert ids == library.encode(text)
        assert library.decode(ids) == text


def test_the_space_mark_of_the_library_goes_through_its_bytes(folder):
    model = Unigram.load(folder)
    ids = model.encode(["a\u2581 b"])[0].ids.tolist()
    assert [model.piece(token) for token in ids][1:4] == ["<0xE2>", "<0x96>", "<0x81>"]
    library = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    assert library.decode(ids) == "a\u2581 b"


def test_a_newline_is_a_piece(folder):
    model = Unigram.load(folder)
    ids = model.encode(["low\n\nlow"])[0].ids.tolist()
    newlines = [token for token in ids if model.piece(token) == "\n"]
    assert len(newlines) == 2
    assert model.vocabulary.word_start[newlines[0]]
