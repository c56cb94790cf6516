"""Check the tokenizer of a shard set: its files, and the facts about it in the manifest."""

from __future__ import annotations

from pathlib import Path

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.execution.unit_record import records
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import repair_of
from clozeline.tools.shards.provenance.tokenizer import tokenizer_folder


def vocabulary_for(shards: ShardSet, folder: Path | None = None) -> Vocabulary | None:
    """Return the vocabulary of a set's tokenizer, compared with the manifest; None if no folder above the set has it.

    The tokenizer is loaded, and its files are compared with the record of the stage that wrote them, where it is there.
    A folder of `vocabulary.json` alone, without a model file, is compared by its vocabulary.

    Args:
        shards: the set.
        folder: see `tokenizer_folder`; default: the one found above the set.

    Raises:
        ConfigurationError: the named folder has no tokenizer, or not the one of the set.
        IntegrityError: a file of the tokenizer is damaged, or the manifest contradicts it.
    """
    facts = shards.manifest.tokenizer
    try:
        found_in = tokenizer_folder(shards, folder)
    except ConfigurationError:
        if folder is not None:
            raise
        return None
    _compare_with_records(found_in)
    vocabulary = _vocabulary_in(found_in)
    said = (facts.vocab_size, facts.special_ids, facts.sentinels)
    found = (vocabulary.size, vocabulary.specials, vocabulary.sentinels)
    for name, expected, got in zip(("vocab_size", "special_ids", "sentinels"), found, said, strict=True):
        if got != expected:
            raise IntegrityError(f"{shards.path}: tokenizer.{name}: expected {expected} as {found_in} has, got {got}")
    return vocabulary


def _vocabulary_in(folder: Path) -> Vocabulary:
    """Return the vocabulary of the tokenizer in a folder, which is loaded where more than the vocabulary came along."""
    if [file.name for file in folder.iterdir()] == [VOCABULARY_FILE]:
        return Vocabulary.load(folder / VOCABULARY_FILE)
    return load_tokenizer(folder).vocabulary


def _compare_with_records(folder: Path) -> None:
    """Raise IntegrityError where a file of a tokenizer differs from what the stage that wrote it recorded."""
    for record in records(folder.parent, "main"):
        if gap := record.gap(folder.parent, temporary=False, verify=True):
            raise IntegrityError(f"{gap}; {repair_of(folder / record.pass_name)}")
