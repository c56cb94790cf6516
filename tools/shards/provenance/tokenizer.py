"""Find the tokenizer of a shard set and compare it with the manifest, or describe it by the manifest alone."""

import sys
from pathlib import Path

import numpy as np

from clozeline.errors import ConfigurationError, IntegrityError, message_text
from clozeline.pipeline.corrupt.preview.row_view import Pieces
from clozeline.pipeline.execution.unit_record import records
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.manifest import TokenizerFacts
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import repair_of

TOKENIZER_HELP = "tokenizer folder, or a set or output folder that has it above or in it; default: found above the set"


def tokenizer_folder(shards: ShardSet, folder: Path | None = None) -> Path:
    """Return the tokenizer folder of a set: above it, or `folder`, or in a set or pipeline output there."""
    fingerprint = shards.manifest.tokenizer.fingerprint
    if folder is None:
        return find_tokenizer(shards.path, fingerprint)
    if (folder / VOCABULARY_FILE).is_file():
        other = Vocabulary.load(folder / VOCABULARY_FILE).fingerprint
        if other != fingerprint:
            raise ConfigurationError(
                f"tokenizer={folder}: has the fingerprint {other}, but {shards.path} was made with {fingerprint}"
            )
        return folder
    try:
        return find_tokenizer(folder / "manifest.json", fingerprint)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"tokenizer={folder}: no tokenizer here, no {VOCABULARY_FILE}; {error}; give another folder"
        ) from error


def find_pieces(shards: ShardSet, tokenizer: Path | None = None, limit: int = 1024) -> Pieces | None:
    """Return pieces that decode ids with a set's tokenizer; None, and a note, if no folder above the set has it.

    `tokenizer`: look here instead, see `tokenizer_folder`; nothing there is an error.
    """
    try:
        return Pieces(load_tokenizer(tokenizer_folder(shards, tokenizer)), limit)
    except ConfigurationError:
        if tokenizer is not None:
            raise
        note = f"note: no tokenizer above {shards.path}: ids are shown; tokenizer=DIR names its folder\n"
        sys.stderr.write(message_text(note))
        return None


def id_pieces(shards: ShardSet, limit: int = 1024) -> Pieces:
    """Return pieces that show plain ids."""
    return Pieces(vocabulary_of_manifest(shards.manifest.tokenizer), limit)


def vocabulary_of_manifest(facts: TokenizerFacts) -> Vocabulary:
    """Return the vocabulary as a manifest records it: enough to invert corruption only."""
    special = np.zeros(facts.vocab_size, np.bool_)
    special[[*facts.special_ids.values(), *facts.sentinels]] = True
    return Vocabulary(
        size=facts.vocab_size, specials=facts.special_ids, sentinels=facts.sentinels, modes={}, special=special,
        word_start=~special, fingerprint=facts.fingerprint,
    )  # fmt: skip


def vocabulary_for(shards: ShardSet, folder: Path | None = None) -> Vocabulary | None:
    """Return the vocabulary of a set's tokenizer after comparing it with the manifest; None if it is not above the set.

    The tokenizer is loaded, and its files are compared with the record of the stage that wrote them, if there is one. A
    folder with only `vocabulary.json` is compared by its vocabulary.
    """
    facts = shards.manifest.tokenizer
    try:
        location = tokenizer_folder(shards, folder)
    except ConfigurationError:
        if folder is not None:
            raise
        return None
    for record in records(location.parent, "main"):
        if gap := record.gap(location.parent, temporary=False, verify=True):
            raise IntegrityError(f"{gap}; {repair_of(location / record.pass_name)}")
    if [file.name for file in location.iterdir()] == [VOCABULARY_FILE]:
        vocabulary = Vocabulary.load(location / VOCABULARY_FILE)
    else:
        vocabulary = load_tokenizer(location).vocabulary
    recorded = (facts.vocab_size, facts.special_ids, facts.sentinels)
    actual = (vocabulary.size, vocabulary.specials, vocabulary.sentinels)
    for name, expected, got in zip(("vocab_size", "special_ids", "sentinels"), actual, recorded, strict=True):
        if got != expected:
            raise IntegrityError(f"{shards.path}: tokenizer.{name}: expected {expected} as {location} has, got {got}")
    return vocabulary
