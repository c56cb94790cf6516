"""Spellings come from the tokenizer above a set, where the family asks for them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tokenize.tokenizers._tokenizer import save_tokenizer
from clozeline.pipeline.tokenize.tokenizers.word import Word
from clozeline.train.startup.token_characters import spellings_of
from tests.model.small_models import small_config


def shards_below(folder: Path, tokenizer: Word, fingerprint: str = "") -> Any:
    """A set beside its tokenizer, as far as it is read."""
    place = folder / "train_tokenizer" / "tokenizer"
    place.mkdir(parents=True, exist_ok=True)
    for path in (folder / "trained").iterdir():
        (place / path.name).write_bytes(path.read_bytes())
    save_tokenizer(tokenizer, "word", place)
    facts = SimpleNamespace(fingerprint=fingerprint or tokenizer.vocabulary.fingerprint)
    manifest = folder / "corrupt" / "elmo" / "train" / "manifest.json"
    return SimpleNamespace(path=manifest, manifest=SimpleNamespace(tokenizer=facts))


def test_each_token_is_spelled_by_a_family_that_reads_characters(tmp_path: Path) -> None:
    (tmp_path / "trained").mkdir()
    options = Word.Options(size=400, min_frequency=1)
    tokenizer = Word.train(["the cat, the café"], options, tmp_path / "trained")
    shards = shards_below(tmp_path, tokenizer)
    found = spellings_of(small_config("elmo"), shards)
    assert found is not None
    assert len(found) == tokenizer.vocabulary.size
    words = [found[token] for token in tokenizer.encode(["the cat, café"])[0].ids.tolist()]
    assert words == [b"the", b" cat", b",", " café".encode()]
    assert found[tokenizer.vocabulary.specials["bos"]] == b"<s>"
    assert spellings_of(small_config("decoder"), SimpleNamespace()) is None  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="made with the tokenizer other"):
        spellings_of(small_config("elmo"), shards_below(tmp_path, tokenizer, "other"))
