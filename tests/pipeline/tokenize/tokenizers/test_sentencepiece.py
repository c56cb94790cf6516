"""Models trained by SentencePiece, converted for the `tokenizers` library, give the ids of SentencePiece."""

from __future__ import annotations

import pytest

from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.pipeline.tokenize.tokenizers._sentencepiece_trainer import KINDS, SPACE, bytes_of
from clozeline.pipeline.tokenize.tokenizers.sentencepiece_bpe import SentencepieceBpe
from clozeline.pipeline.tokenize.tokenizers.unigram import Unigram
from tests.pipeline.tokenize.published.published_files import NASTY, corpus


@pytest.mark.parametrize("kind", [Unigram, SentencepieceBpe])
def test_ids_are_those_of_sentencepiece(tmp_path, kind):
    tokenizer = kind.train(corpus(), kind.Options(size=460), tmp_path)
    converted = tokenizer.to_tokenizers()
    # known to differ: literal special pieces and space marks
    left_out = [SPACE, *special_pieces(16)]
    texts = [text for text in (*NASTY, *corpus(), "a\nb\n\n the  cat\n") if not any(map(text.__contains__, left_out))]
    assert len(texts) > 100
    ids = [encoding.ids.tolist() for encoding in tokenizer.encode(texts)]
    assert [converted.encode(text, add_special_tokens=False).ids for text in texts] == ids
    assert [converted.decode(each) for each in ids] == texts


def test_bytes_of_pieces():
    made = lambda text, kind: KINDS(piece=text, score=0.0, type=getattr(KINDS, kind))  # noqa: E731
    assert bytes_of(made("▁a", "NORMAL")) == b" a"
    assert bytes_of(made("<0xE2>", "BYTE")) == b"\xe2"
    assert bytes_of(made("<s>", "CONTROL")) is bytes_of(made("<unk>", "UNKNOWN")) is None
    assert bytes_of(made("▁", "USER_DEFINED")) == b" "
