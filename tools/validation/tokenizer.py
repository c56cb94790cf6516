"""The tokenizer of a shard set, compared with the facts in the manifest."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import ConfigurationError, IntegrityError
from pipeline.shards import ShardSet
from pipeline.tokenizers._tokenizer import VOCABULARY_FILE
from pipeline.vocabulary import Vocabulary
from tools.lib.set_tokenizer import tokenizer_folder

__all__ = ["vocabulary_for"]


def vocabulary_for(shards: ShardSet, folder: Path | None = None) -> Vocabulary | None:
    """Return the vocabulary of a set's tokenizer, compared with the manifest; None if no folder above the set has it.

    Args:
        shards: the set.
        folder: see `tokenizer_folder`; default: the one found above the set.

    Raises:
        ConfigurationError: the named folder has no tokenizer, or not the one of the set.
        IntegrityError: the manifest contradicts it.
    """
    facts = shards.manifest.tokenizer
    try:
        found_in = tokenizer_folder(shards, folder)
    except ConfigurationError:
        if folder is not None:
            raise
        return None
    vocabulary = Vocabulary.load(found_in / VOCABULARY_FILE)
    said = (facts.vocab_size, facts.special_ids, facts.sentinels)
    found = (vocabulary.size, vocabulary.specials, vocabulary.sentinels)
    for name, expected, got in zip(("vocab_size", "special_ids", "sentinels"), found, said, strict=True):
        if got != expected:
            raise IntegrityError(f"{shards.path}: tokenizer.{name}: expected {expected} as {found_in} has, got {got}")
    return vocabulary
