"""The vocabulary of small task rows."""

import pytest

from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from tests.pipeline.task_files import write_vocabulary


@pytest.fixture
def words(tmp_path):
    """Whole words, `[CLS]` 2, `[SEP]` 3 and `[EOS]` after the special tokens of BERT."""
    return import_tokenizer(write_vocabulary(tmp_path, further=["[EOS]"]), tmp_path / "ours")
