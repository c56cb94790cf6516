from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.pipeline.tokenize.tokenizers import Tokenizer, load_tokenizer


@pytest.fixture(scope="session")
def tokenizer(shard_sets: Path) -> Tokenizer:
    """The tokenizer of the sets."""
    return load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer")
