"""Published SentencePiece models: offsets against the library's own, ids on real texts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import sentencepiece

from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from tests.pipeline.tokenize.published.published_files import NASTY, corpus, sentencepiece_model
from tests.pipeline.tokenize.tokenizers.real_texts import DATA, all_texts

PUBLISHED = (sentencepiece_model,)
KINDS = {
    "unigram": {},
    "bytes": {
        "byte_fallback": True,
        "vocab_size": 350,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
    },
    "bpe": {"model_type": "bpe", "user_defined_symbols": ["(x)", "\n"]},
}
MODELS = ["albert/spiece.model", "llama2/tokenizer.model", "sp_fixtures/test_ja_model.model",
          "sp_fixtures/test_sentencepiece.model", "sp_fixtures/test_sentencepiece_bpe.model"]  # fmt: skip


def library_starts(model: sentencepiece.SentencePieceProcessor, text: str) -> list[int]:
    """Characters before each piece's first byte, by the library's slow answer."""
    raw = text.encode()
    begins = [piece.begin for piece in model.encode(text, return_type="proto").pieces]
    return [len(raw[:begin].decode()) for begin in begins]


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_are_the_librarys(tmp_path, kind):
    path = sentencepiece_model(tmp_path, **KINDS[kind])
    tokenizer, model = (
        import_tokenizer(path, tmp_path / "out"),
        sentencepiece.SentencePieceProcessor(model_file=str(path)),
    )
    texts = [*NASTY, *corpus()[:20], "Ünï (x) the\ncat ½ ﬁ"]
    quick = 0
    for text, encoding in zip(texts, tokenizer.encode(texts), strict=True):
        assert encoding.ids.tolist() == model.encode(text)
        starts = library_starts(model, text)
        # A piece made of normalised characters only begins where they come from; the library may say one later.
        for start, other in zip(encoding.starts.tolist(), starts, strict=True):
            assert start == other or text[min(start, other) : max(start, other)].isspace() or not text.isascii()
        quick += encoding.starts.tolist() == starts
    assert quick > 0.7 * len(texts)


def test_decode_keeps_the_space_in_front(tmp_path):
    tokenizer = import_tokenizer(sentencepiece_model(tmp_path), tmp_path / "out")
    ids = tokenizer.encode(["the  cat "])[0].ids
    assert tokenizer.decode(ids) == "the cat"
    assert tokenizer.decode_part(ids) == " the cat"
    assert "".join(tokenizer.piece(token) for token in ids.tolist()) == "▁the▁cat"


@pytest.mark.data
@pytest.mark.skipif("CLOZELINE_DATA" not in os.environ, reason="CLOZELINE_DATA names no folder of real files")
@pytest.mark.parametrize("name", MODELS)
def test_ids_of_real_texts_are_the_librarys(tmp_path, name):
    path = Path(os.environ[DATA]) / "hf" / name
    tokenizer, model = import_tokenizer(path, tmp_path), sentencepiece.SentencePieceProcessor(model_file=str(path))
    texts = all_texts(20_000)
    assert len(texts) > 200
    # ALBERT's model holds specials as control pieces, which its library does not find in text either.
    assert [encoding.ids.tolist() for encoding in tokenizer.encode(texts)] == model.encode(texts)
