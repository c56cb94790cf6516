"""SentencePiece models converted for the `tokenizers` library give the ids of SentencePiece."""

from __future__ import annotations

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from clozeline.pipeline.tokenize.tokenizers._sentencepiece import KINDS, bytes_of, to_tokenizers
from tests.pipeline.tokenize.published.published_files import NASTY, SPECIALS, corpus, sentencepiece_model

MODELS = {
    "unigram": {},
    "unigram bytes": {"byte_fallback": True, "vocab_size": 350},
    "bpe": {"model_type": "bpe"},
    "llama": {
        "model_type": "bpe",
        "byte_fallback": True,
        "vocab_size": 400,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
    },
    "marks": {"user_defined_symbols": ["(x)", "\n"], "add_dummy_prefix": False, "normalization_rule_name": "identity"},
}


@pytest.mark.parametrize("name", MODELS)
def test_ids_are_those_of_sentencepiece(tmp_path, name):
    path = sentencepiece_model(tmp_path, **MODELS[name])
    facts = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
    ours, theirs = to_tokenizers(facts, facts.pieces), sentencepiece.SentencePieceProcessor(model_file=str(path))
    # Known to differ: literal special pieces and space marks, and accents that one character stacks.
    left_out = [*SPECIALS, "\u2581", "\u0323"]
    texts = [text for text in (*NASTY, *corpus(), "a(x)b (x)\nthe") if not any(piece in text for piece in left_out)]
    assert len(texts) > 100
    differing = [text for text in texts if ours.encode(text, add_special_tokens=False).ids != theirs.encode(text)]
    assert differing == []


def test_bytes_of_pieces():
    made = lambda text, kind: KINDS(piece=text, score=0.0, type=getattr(KINDS, kind))  # noqa: E731
    assert bytes_of(made("▁a", "NORMAL")) == b" a"
    assert bytes_of(made("<0xE2>", "BYTE")) == b"\xe2"
    assert bytes_of(made("<s>", "CONTROL")) is bytes_of(made("<unk>", "UNKNOWN")) is None
    assert bytes_of(made("▁", "USER_DEFINED")) == b" "
