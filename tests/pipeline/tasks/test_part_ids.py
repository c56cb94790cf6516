from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.part_ids import part_ids
from clozeline.pipeline.tasks.readers import Part
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from tests.pipeline.task_files import write_vocabulary


def test_texts_and_special_tokens_keep_their_order(tmp_path: Path) -> None:
    tokenizer = import_tokenizer(write_vocabulary(tmp_path / "words"), tmp_path / "ours")
    parts = [Part("a film"), Part("sep", special=True), Part("[SEP] bad", is_target=True)]
    encodings = tokenizer.encode([part.text for part in parts if not part.special])
    first, end, last = part_ids(parts, encodings, tokenizer.vocabulary)
    assert (first.tolist(), end.tolist()) == (encodings[0].ids.tolist(), [3])
    assert last.tolist() == encodings[1].ids.tolist()
    assert 3 not in last
    with pytest.raises(ConfigurationError, match="the template of the task needs the special token 'eos'"):
        part_ids([Part("eos", special=True)], [], tokenizer.vocabulary)
