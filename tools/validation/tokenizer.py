"""The tokenizer of a shard set, compared with the facts in the manifest."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import ConfigurationError, IntegrityError
from pipeline.shards import ShardSet
from pipeline.tokenizers import find_tokenizer
from pipeline.tokenizers._tokenizer import VOCABULARY_FILE
from pipeline.vocabulary import Vocabulary

__all__ = ["vocabulary_for"]


def vocabulary_for(shards: ShardSet, folder: Path | None = None) -> Vocabulary | None:
    """Return the vocabulary of a set's tokenizer, compared with the manifest; None if no folder above the set has it.

    Args:
        shards: the set.
        folder: the tokenizer's folder; default: the one found above the set.

    Raises:
        ConfigurationError: the named folder has no tokenizer, or not the one of the set.
        IntegrityError: the manifest contradicts it.
    """
    facts = shards.manifest.tokenizer
    if folder is None:
        try:
            folder = find_tokenizer(shards.path, facts.fingerprint)
        except ConfigurationError:
            return None
    if not (folder / VOCABULARY_FILE).is_file():
        raise ConfigurationError(f"--tokenizer {folder}: no tokenizer here, it has no {VOCABULARY_FILE}")
    vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
    if vocabulary.fingerprint != facts.fingerprint:
        raise ConfigurationError(
            f"--tokenizer {folder}: has the fingerprint {vocabulary.fingerprint}, but {shards.path} was made with "
            f"{facts.fingerprint}"
        )
    said = (facts.vocab_size, facts.special_ids, facts.sentinels)
    found = (vocabulary.size, vocabulary.specials, vocabulary.sentinels)
    for name, expected, got in zip(("vocab_size", "special_ids", "sentinels"), found, said, strict=True):
        if got != expected:
            raise IntegrityError(f"{shards.path}: tokenizer.{name}: expected {expected} as {folder} has, got {got}")
    return vocabulary
