from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.tools.experiments.multirun.small_bert import publish_small_bert, small_vocabulary


def test_vocabulary_spells_every_word_and_has_the_frequent_ones_whole() -> None:
    pieces = small_vocabulary("Cab, cab and dad: and cab 7", 100)
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert set(pieces[5:-3]) == {*",:7abcdn", *(f"##{character}" for character in ",:7abcdn")}
    assert pieces[-3:] == ["cab", "and", "dad"]
    assert len(set(pieces)) == len(pieces)
    assert small_vocabulary("one two", 8) == [*pieces[:5], "e", "n", "o"]


@pytest.mark.slow
def test_equal_at_every_call(tmp_path: Path) -> None:
    """Files that transformers writes of it load, and have the same bytes."""
    digests = []
    for name in ("one", "two"):
        publish_small_bert(tmp_path / name)
        files = sorted((tmp_path / name).iterdir())
        digests.append([(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files])
    assert digests[0] == digests[1]
    assert {"config.json", "model.safetensors", "vocab.txt", "tokenizer.json"} <= {name for name, _ in digests[0]}


def test_without_transformers_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigurationError, match="pip install transformers"):
        publish_small_bert(tmp_path / "small")
    assert not (tmp_path / "small").exists()
