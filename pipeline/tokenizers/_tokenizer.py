"""Tokenizers: one algorithm a file, all lossless; how a trained one is stored, loaded and found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline import registry
from pipeline.errors import ConfigurationError, IntegrityError
from pipeline.shards.token_set import find_token_counts
from pipeline.vocabulary import Vocabulary

__all__ = ["Encoding", "Tokenizer", "find_tokenizer", "load_tokenizer", "save_tokenizer", "vocabulary_of"]

VOCABULARY_FILE: Final = "vocabulary.json"
NAME_FILE: Final = "name"


@dataclass(frozen=True, slots=True)
class Encoding:
    """The tokens of one text."""

    ids: NDArray[Any]
    """[tokens] uint16 or uint32"""
    starts: NDArray[np.int64]
    """[tokens] character at which each token begins; a character spread over several tokens is the start of all"""


class Tokenizer(Protocol):
    """The interface of tokenizers. No text ever encodes to a special id, and `decode(encode(text)) == text`."""

    SAMPLE_BYTES: ClassVar[int]
    """default size of the training sample in bytes of UTF-8"""
    FILE: ClassVar[str]
    """name of the model file"""
    vocabulary: Vocabulary

    @classmethod
    def train(cls, texts: Iterable[str], options: Any, folder: Path) -> Tokenizer:
        """Learn the pieces and write the model file; equal texts in equal order give an equal fingerprint."""
        ...

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Read what `train` wrote."""
        ...

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the tokens of each text."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text; special ids appear as their pieces (`<mask>`), broken UTF-8 as U+FFFD."""
        ...

    def piece(self, token: int) -> str:
        """Return the piece as the model file writes it."""
        ...


def save_tokenizer(tokenizer: Tokenizer, name: str, folder: Path) -> None:
    """Write the vocabulary and the algorithm's name beside the model file."""
    tokenizer.vocabulary.save(folder / VOCABULARY_FILE)
    (folder / NAME_FILE).write_text(f"{name}\n", encoding="utf-8")


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read a folder written by `train_tokenizer`.

    Raises:
        ConfigurationError: the folder holds no tokenizer.
        IntegrityError: the model file and `vocabulary.json` are not of one training.
    """
    try:
        name = (folder / NAME_FILE).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(f"{folder}: no tokenizer here; run train_tokenizer first") from error
    tokenizer: Tokenizer = registry.find("pipeline.tokenizers", name).load(folder)
    stored = Vocabulary.load(folder / VOCABULARY_FILE)
    if stored.fingerprint != tokenizer.vocabulary.fingerprint:
        raise IntegrityError(
            f"{folder}: {VOCABULARY_FILE} has the fingerprint {stored.fingerprint}, {tokenizer.FILE} has "
            f"{tokenizer.vocabulary.fingerprint}; restore both files from one training"
        )
    tokenizer.vocabulary = stored  # the same, and it knows its folder
    return tokenizer


def find_tokenizer(manifest_path: Path, fingerprint: str) -> Path:
    """Return the folder of the tokenizer that a shard set was made with.

    Looks for `train_tokenizer/tokenizer/` in the manifest's folder and in each folder above it.

    Raises:
        ConfigurationError: none of them has this fingerprint; the message lists those found.
    """
    found = []
    for folder in manifest_path.resolve().parents:
        candidate = folder / "train_tokenizer" / "tokenizer"
        if (candidate / VOCABULARY_FILE).is_file():
            have = json.loads((candidate / VOCABULARY_FILE).read_text(encoding="utf-8")).get("fingerprint")
            if have == fingerprint:
                return candidate
            found.append(f"{candidate} has {have}")
    seen = "; ".join(found) or f"no train_tokenizer/tokenizer above {manifest_path}"
    raise ConfigurationError(f"{manifest_path}: made with the tokenizer {fingerprint}; {seen}")


def vocabulary_of(manifest_path: Path, fingerprint: str) -> Vocabulary:
    """Return the vocabulary that a shard set was made with, with the corpus's token counts where they are found.

    Raises:
        ConfigurationError: no tokenizer above the manifest has this fingerprint.
    """
    vocabulary = Vocabulary.load(find_tokenizer(manifest_path, fingerprint) / VOCABULARY_FILE)
    counts = find_token_counts(manifest_path)
    if counts is None or len(counts) != vocabulary.size:
        return vocabulary
    return replace(vocabulary, token_counts=counts)
