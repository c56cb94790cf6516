"""The tokenizer of a shard set: where it is, and what the manifest alone says of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.preview.pieces import Numbers, Pieces
from clozeline.pipeline.shards import ShardSet
from clozeline.pipeline.shards.manifest import TokenizerFacts
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.vocabulary import Vocabulary

TOKENIZER_HELP = "tokenizer folder, or a set or output folder that has it above or in it; default: found above the set"


def tokenizer_folder(shards: ShardSet, given: Path | None = None) -> Path:
    """Return the folder of the tokenizer that a set was made with.

    Args:
        shards: the set.
        given: the folder itself, or a set or an output folder of the pipeline: its parent's, for a set that was moved.

    Raises:
        ConfigurationError: there is no tokenizer, or only another one.
        IntegrityError: the vocabulary of one is damaged.
    """
    fingerprint = shards.manifest.tokenizer.fingerprint
    if given is None:
        return find_tokenizer(shards.path, fingerprint)
    if (given / VOCABULARY_FILE).is_file():
        found = Vocabulary.load(given / VOCABULARY_FILE).fingerprint
        if found != fingerprint:
            raise ConfigurationError(
                f"--tokenizer {given}: has the fingerprint {found}, but {shards.path} was made with {fingerprint}"
            )
        return given
    try:
        return find_tokenizer(given / "manifest.json", fingerprint)
    except ConfigurationError as error:
        raise ConfigurationError(f"--tokenizer {given}: no tokenizer here, no {VOCABULARY_FILE}; {error}") from error


def find_pieces(shards: ShardSet, tokenizer: Path | None = None, limit: int = 1024) -> Pieces | None:
    """Return pieces that decode ids by a set's tokenizer; None if no folder above the set has it.

    Args:
        shards: the set.
        tokenizer: where to look instead, see `tokenizer_folder`.
        limit: tokens of a passage that are shown.

    Raises:
        ConfigurationError: there is no such tokenizer at the named path.
        IntegrityError: the tokenizer is damaged.
    """
    try:
        return Pieces(load_tokenizer(tokenizer_folder(shards, tokenizer)), limit)
    except ConfigurationError:
        if tokenizer is not None:
            raise
        return None


def id_pieces(shards: ShardSet, limit: int = 1024) -> Pieces:
    """Return pieces that show the ids themselves."""
    return Pieces(Numbers(vocabulary_of_manifest(shards.manifest.tokenizer)), limit)


def vocabulary_of_manifest(facts: TokenizerFacts) -> Vocabulary:
    """Return what a manifest says of its tokenizer: enough to undo corruption, not to choose tokens or find words."""
    special = np.zeros(facts.vocab_size, np.bool_)
    special[[*facts.special_ids.values(), *facts.sentinels]] = True
    return Vocabulary(
        size=facts.vocab_size,
        specials=facts.special_ids,
        sentinels=facts.sentinels,
        modes={},
        special=special,
        word_start=np.zeros(facts.vocab_size, np.bool_),
        fingerprint=facts.fingerprint,
    )
