from __future__ import annotations

import json

import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.tokenize.tokenizers.word import Word


def test_the_file_comes_back_and_another_is_refused(tmp_path):
    model = Word.train(["a b a b"], Word.Options(size=200, reserved=1), tmp_path)
    assert Word.load(tmp_path).vocabulary.fingerprint == model.vocabulary.fingerprint
    assert json.loads((tmp_path / "pieces.json").read_text()) == {"reserved": 1, "pieces": [" b"]}
    (tmp_path / "pieces.json").write_text("[]")
    with pytest.raises(IntegrityError, match="not a vocabulary written by train_tokenizer"):
        Word.load(tmp_path)
