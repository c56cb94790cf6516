"""Save, load and find tokenizers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import folders_above, read_bytes
from clozeline.pipeline.registries import TOKENIZERS
from clozeline.pipeline.tokenize.tokenizers._pieces import Tokenizer, TrainableTokenizer
from clozeline.pipeline.vocabulary import Corpus, Vocabulary
from clozeline.repair import rebuild_hint

if TYPE_CHECKING:
    from clozeline.pipeline.shards import ShardSet

VOCABULARY_FILE: Final = "vocabulary.json"
NAME_FILE: Final = "name"
_STAGES: Final = ("train_tokenizer", "tokenizer")
"""stages that write a tokenizer"""


def list_trainable() -> list[str]:
    """Return the names of algorithms that can be trained; all others read published files."""
    return list(filter(is_trainable, TOKENIZERS.classes()))


def is_trainable(name: str) -> bool:
    """Return whether an algorithm can be trained."""
    return issubclass(TOKENIZERS.load_class(name), TrainableTokenizer)


def special_ids(tokenizer: Tokenizer) -> dict[str, int]:
    """Return the id of each special piece by its name."""
    ids = np.flatnonzero(tokenizer.vocabulary.special).tolist()
    return {piece: token for token in ids if (piece := tokenizer.piece(token))}


def pieces_pattern(pieces: Iterable[str]) -> str:
    """Return a regular expression that matches any of the pieces, the longest first."""
    return "|".join(map(re.escape, sorted(pieces, key=len, reverse=True))) or "(?!)"


def save_tokenizer(tokenizer: Tokenizer, name: str, folder: Path) -> None:
    """Write the vocabulary and the name of the algorithm to the folder of the model file."""
    tokenizer.vocabulary.save(folder / VOCABULARY_FILE)
    (folder / NAME_FILE).write_text(f"{name}\n", encoding="utf-8")


def read_name(folder: Path) -> str:
    """Return the name of a tokenizer's algorithm; raise IntegrityError if it is missing."""
    path = folder / NAME_FILE
    try:
        return read_bytes(path).decode(errors="replace").removesuffix("\n")
    except OSError as error:
        raise IntegrityError(
            f"{path}: cannot be read ({error.strerror}); {rebuild_hint(path)}"
        ) from error


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load a tokenizer folder, such as the output of `train_tokenizer`.

    Raises:
        ConfigurationError: the folder has no tokenizer.
        IntegrityError: a file is missing or damaged, or model file and `vocabulary.json` do not
            belong together.
    """
    try:
        name = read_name(folder)
    except IntegrityError as error:
        if (folder / VOCABULARY_FILE).is_file():
            raise
        raise ConfigurationError(
            f"{folder}: this folder has no tokenizer; run train_tokenizer first"
        ) from error

    if not TOKENIZERS.is_known(name):
        known = ", ".join(TOKENIZERS.available())
        raise IntegrityError(
            f"{folder / NAME_FILE}: expected the name of a tokenizer ({known}), got {name!r}; "
            f"{rebuild_hint(folder / NAME_FILE)}"
        )

    tokenizer = TOKENIZERS.load_class(name).load(folder)
    stored = Vocabulary.load(folder / VOCABULARY_FILE)
    if stored.fingerprint != tokenizer.vocabulary.fingerprint:
        raise IntegrityError(
            f"{folder}: {VOCABULARY_FILE} has the fingerprint {stored.fingerprint}, but "
            f"{tokenizer.FILE} has {tokenizer.vocabulary.fingerprint}; restore both files from the "
            f"same training: {rebuild_hint(folder / VOCABULARY_FILE)}"
        )

    tokenizer.vocabulary = stored  # the same vocabulary, with its folder
    return tokenizer


def tokenizer_metadata(folder: Path, vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the metadata that manifests record of the tokenizer in a folder."""
    return {
        "name": read_name(folder).strip(),
        "fingerprint": vocabulary.fingerprint,
        "vocab_size": vocabulary.size,
        "special_ids": vocabulary.specials,
        "sentinels": list(vocabulary.sentinels),
    }


def find_tokenizer(manifest_path: Path, fingerprint: str) -> Path:
    """Return the folder of the tokenizer of a shard set.

    Search `train_tokenizer/tokenizer/` and `tokenizer/tokenizer/` in the folder of the manifest and
    all its parents, first along the given path, then with symbolic links resolved.

    Raises:
        ConfigurationError: no tokenizer has this fingerprint; the message lists the candidates.
        IntegrityError: a vocabulary is damaged, or is missing and no other one fits.
    """
    candidates = []
    unread = []

    for folder in folders_above(manifest_path):
        for stage in _STAGES:
            candidate = folder / stage / "tokenizer"
            if (candidate / VOCABULARY_FILE).is_file():
                actual = Vocabulary.load(candidate / VOCABULARY_FILE).fingerprint
                if actual == fingerprint:
                    return candidate
                candidates.append(f"{candidate} has {actual}")
            elif (candidate / NAME_FILE).is_file():
                unread.append(candidate / VOCABULARY_FILE)

    if unread:
        raise IntegrityError(
            f"{unread[0]}: this file of a tokenizer is missing; {rebuild_hint(unread[0])}"
        )

    seen = "; ".join(candidates) or f"no train_tokenizer/tokenizer above {manifest_path}"
    raise ConfigurationError(
        f"{manifest_path}: no tokenizer has the fingerprint {fingerprint} of this set; {seen}"
    )


def find_vocabulary(shards: ShardSet) -> Vocabulary:
    """Return the vocabulary of a shard set, with the token counts of its corpus if it has them.

    Raises:
        ConfigurationError: no tokenizer in the folders of the manifest has its fingerprint.
        ManifestError: the file of the counts is missing or has changed.
    """
    folder = find_tokenizer(shards.path, shards.manifest.tokenizer.fingerprint)
    vocabulary = Vocabulary.load(folder / VOCABULARY_FILE)
    counts = shards.token_counts()
    return vocabulary if counts is None else replace(vocabulary, corpus=Corpus(counts))
