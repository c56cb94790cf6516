from __future__ import annotations

import pytest

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.tokenize.tokenizers.sentencepiece_bpe import SentencepieceBpe
from clozeline.pipeline.tokenize.tokenizers.unigram import Unigram


@pytest.mark.parametrize("kind", [Unigram, SentencepieceBpe], ids=["unigram", "bpe"])
def test_errors_name_the_algorithm(kind, tmp_path):
    with pytest.raises(ConfigurationError, match=f"{kind.NAME}: size 300 is too small"):
        kind.check_size(kind.Options(size=300))
    with pytest.raises(ConfigurationError, match=f"{kind.NAME}: the sample cannot be trained on"):
        kind.train([], kind.Options(size=500), tmp_path)
    (tmp_path / "spiece.model").write_bytes(b"nonsense")
    with pytest.raises(IntegrityError, match=f"not a {kind.NAME} model"):
        kind.load(tmp_path)
