"""Tokenizers of the source of a model and of the shards: equal, one with further tokens, another one, or none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.errors import ConfigurationError
from pipeline.tokenizers import save_tokenizer
from pipeline.tokenizers.character import Character
from train.beginning.source_tokenizer import compare_tokenizers

RESERVED = 154 + 256
"""Ids before those of the characters."""


def tokenizer(folder: Path, letters: str) -> str:
    """Write a tokenizer with a piece for each letter; return its fingerprint."""
    folder.mkdir(parents=True)
    text = "".join(letter * (9 - place) for place, letter in enumerate(letters))
    trained = Character.train([text], Character.Options(size=RESERVED + len(letters)), folder)
    save_tokenizer(trained, "character", folder)
    return trained.vocabulary.fingerprint


def compared(folder: Path, theirs: str, ours: str) -> list[str]:
    """Compare the tokenizers of a folder with a model and of a shard set."""
    tokenizer(folder / "model" / "tokenizer", theirs)
    fingerprint = tokenizer(folder / "train_tokenizer" / "tokenizer", ours)
    return compare_tokenizers(folder / "model", shard_set(folder, fingerprint))


def shard_set(folder: Path, fingerprint: str) -> Any:
    """The facts of a shard set that are read."""
    facts = SimpleNamespace(tokenizer=SimpleNamespace(fingerprint=fingerprint))
    return SimpleNamespace(path=folder / "corrupt" / "set" / "manifest.json", manifest=facts)


def test_equal_tokenizers_need_no_word(tmp_path: Path) -> None:
    assert compared(tmp_path, "abc", "abc") == []


def test_further_tokens_are_said(tmp_path: Path) -> None:
    (line,) = compared(tmp_path, "abc", "abcd")
    assert f"another tokenizer: {RESERVED + 3} ids there, {RESERVED + 4} here" in line


def test_another_piece_at_an_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=rf"id {RESERVED + 1} is 'b' there, 'x' here; make the shards with"):
        compared(tmp_path, "abc", "axc")


def test_where_one_is_not_found_nothing_is_compared(tmp_path: Path) -> None:
    fingerprint = tokenizer(tmp_path / "train_tokenizer" / "tokenizer", "abc")
    assert compare_tokenizers(tmp_path / "nowhere", shard_set(tmp_path, fingerprint)) == []
    tokenizer(tmp_path / "model" / "tokenizer", "abd")
    assert compare_tokenizers(tmp_path / "model", shard_set(tmp_path, "f" * 64)) == []
