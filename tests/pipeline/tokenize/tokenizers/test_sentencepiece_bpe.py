from __future__ import annotations

import random

import sentencepiece

from clozeline.pipeline.tokenize.tokenizers.sentencepiece_bpe import SentencepieceBpe
from tests.pipeline.tokenize.published.published_files import corpus


def test_ids_are_the_librarys_and_the_order_of_texts_does_not_matter(tmp_path):
    texts = corpus()
    model = SentencepieceBpe.train(texts, SentencepieceBpe.Options(size=500), tmp_path / "a")
    library = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "a" / "spiece.model"))
    assert all(model.encode([text])[0].ids.tolist() == library.encode(text) for text in texts)
    random.Random(2).shuffle(texts)
    other = SentencepieceBpe.train(texts, SentencepieceBpe.Options(size=500), tmp_path / "b")
    assert other.vocabulary.fingerprint == model.vocabulary.fingerprint
