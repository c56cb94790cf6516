"""Models trained by SentencePiece, converted for the `tokenizers` library, give the ids of
SentencePiece."""

import random

import pytest
import sentencepiece

from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.pipeline.tokenize.tokenizers._sentencepiece_trainer import (
    PIECE_TYPES,
    SPACE,
    piece_bytes,
)
from clozeline.pipeline.tokenize.tokenizers.sentencepiece_bpe import SentencepieceBpe
from clozeline.pipeline.tokenize.tokenizers.unigram import Unigram
from tests.pipeline.tokenize.published.published_files import NASTY, corpus


@pytest.mark.parametrize("kind", [Unigram, SentencepieceBpe], ids=["unigram", "bpe"])
def test_ids_are_those_of_sentencepiece(tmp_path, kind):
    """Also those of the model that is converted; pairs are the same whatever the order of texts."""
    texts = [*corpus(), "low\n\nlow\nlow"]
    tokenizer = kind.train(texts, kind.Options(size=480), tmp_path / "a")
    library = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "a" / "spiece.model"))
    converted = tokenizer.to_tokenizers()
    # known to differ: literal special pieces and space marks
    left_out = [SPACE, *special_pieces(16)]
    same = [
        text
        for text in (*NASTY, *texts, "a\nb\n\n the  cat\n")
        if not any(map(text.__contains__, left_out))
    ]

    assert len(same) > 100

    ids = [encoding.ids.tolist() for encoding in tokenizer.encode(same)]

    assert [library.encode(text) for text in same] == ids
    assert [converted.encode(text, add_special_tokens=False).ids for text in same] == ids
    assert (
        [library.decode(each) for each in ids] == [converted.decode(each) for each in ids] == same
    )
    # the mark of a space goes through its bytes, and a newline is a piece
    marked = tokenizer.encode(["a\u2581 b\n"])[0].ids.tolist()

    assert [tokenizer.piece(token) for token in marked][-6:-3] == ["<0xE2>", "<0x96>", "<0x81>"]
    assert library.decode(marked) == "a\u2581 b\n"
    assert tokenizer.piece(marked[-1]) == "\n"
    assert tokenizer.vocabulary.word_start[marked[-1]]

    random.Random(2).shuffle(texts)
    other = kind.train(texts, kind.Options(size=480), tmp_path / "b")

    assert kind is Unigram or other.vocabulary.fingerprint == tokenizer.vocabulary.fingerprint


def test_bytes_of_pieces():
    made = lambda text, kind: PIECE_TYPES(piece=text, score=0.0, type=getattr(PIECE_TYPES, kind))  # noqa: E731
    assert piece_bytes(made("▁a", "NORMAL")) == b" a"
    assert piece_bytes(made("<0xE2>", "BYTE")) == b"\xe2"
    assert piece_bytes(made("<s>", "CONTROL")) is piece_bytes(made("<unk>", "UNKNOWN")) is None
    assert piece_bytes(made("▁", "USER_DEFINED")) == b" "
