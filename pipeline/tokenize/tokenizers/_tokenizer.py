"""Tokenizers: one algorithm a file, all lossless; how a trained one is stored, loaded and found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import numpy as np
import tokenizers
from numpy.typing import NDArray

from clozeline import registry
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.shards.token_set import find_token_counts
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import repair_of

VOCABULARY_FILE: Final = "vocabulary.json"
NAME_FILE: Final = "name"
_STAGES: Final = ("train_tokenizer", "tokenizer")
"""Stages that write a tokenizer."""


class Encoding:
    """The tokens of one text.

    Args:
        ids: [tokens] uint16 or uint32.
        starts: what `starts` returns, or a function that computes it when it is first read.
        ends: a function that computes what `ends` returns; None for a tokenizer whose tokens end with a character.
    """

    __slots__ = ("_ends", "_starts", "ids")

    def __init__(
        self,
        ids: NDArray[Any],
        starts: NDArray[np.int64] | Callable[[], NDArray[np.int64]],
        ends: Callable[[], NDArray[np.int64]] | None = None,
    ) -> None:
        self.ids, self._starts, self._ends = ids, starts, ends

    @property
    def starts(self) -> NDArray[np.int64]:
        """[tokens] character at which each token begins; a character spread over several tokens is that of all."""
        if not isinstance(self._starts, np.ndarray):
            self._starts = self._starts()
        return self._starts

    @property
    def ends(self) -> NDArray[np.int64] | None:
        """[tokens] character after the last one that each token holds a part of; None if no token ends inside one.

        Byte-level tokens end inside characters: the space and the first byte of a letter are often one token, which
        `starts` alone would take for a space.
        """
        return None if self._ends is None else self._ends()


class Tokenizer(Protocol):
    """The interface of tokenizers.

    No text ever encodes to a special id but the unknown one; where `LOSS` is empty, `decode(encode(text)) == text`.
    """

    SAMPLE_BYTES: ClassVar[int]
    """default size of the training sample in bytes of UTF-8"""
    FILE: ClassVar[str]
    """name of the model file"""
    LOSS: ClassVar[str]
    """parts of a text that do not come back from its ids; empty where nothing is lost"""
    vocabulary: Vocabulary

    @classmethod
    def check_size(cls, options: Any) -> None:
        """Raise ConfigurationError where `size` has no room for what every vocabulary of this kind holds."""
        ...

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
        """Return the text of all ids of a text, as the tokenizer's own library gives it.

        The space that some tokenizers put in front of a text is removed. Special ids appear as their pieces (`<mask>`),
        broken UTF-8 as U+FFFD.
        """
        ...

    def decode_part(self, ids: Iterable[int]) -> str:
        """Return the text of ids inside a text, with the space that opens a word: `▁mask` is " mask"."""
        ...

    def piece(self, token: int) -> str:
        """Return the piece as the model file writes it."""
        ...

    def to_tokenizers(self) -> tokenizers.Tokenizer:
        """Return the model for the `tokenizers` library, without special tokens, for `export_tokenizer`."""
        ...


def trainable() -> list[str]:
    """Return the algorithms that can be trained; the others read published files only."""
    names = registry.names("clozeline.pipeline.tokenize.tokenizers")
    return [name for name in names if hasattr(registry.find("clozeline.pipeline.tokenize.tokenizers", name), "train")]


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
        name = (folder / NAME_FILE).read_bytes().decode(errors="replace").removesuffix("\n")
    except OSError as error:
        raise ConfigurationError(f"{folder}: no tokenizer here; run train_tokenizer first") from error
    if name not in (known := registry.names("clozeline.pipeline.tokenize.tokenizers")):
        raise IntegrityError(
            f"{folder / NAME_FILE}: expected the name of a tokenizer ({', '.join(known)}), got {name!r}; "
            f"{repair_of(folder / NAME_FILE)}"
        )
    tokenizer: Tokenizer = registry.find("clozeline.pipeline.tokenize.tokenizers", name).load(folder)
    stored = Vocabulary.load(folder / VOCABULARY_FILE)
    if stored.fingerprint != tokenizer.vocabulary.fingerprint:
        raise IntegrityError(
            f"{folder}: {VOCABULARY_FILE} has the fingerprint {stored.fingerprint}, {tokenizer.FILE} has "
            f"{tokenizer.vocabulary.fingerprint}; restore both files from one training: "
            f"{repair_of(folder / VOCABULARY_FILE)}"
        )
    tokenizer.vocabulary = stored  # the same, and it knows its folder
    return tokenizer


def find_tokenizer(manifest_path: Path, fingerprint: str) -> Path:
    """Return the folder of the tokenizer that a shard set was made with.

    Looks for `train_tokenizer/tokenizer/` and `tokenizer/tokenizer/` in the manifest's folder and in each folder above
    it: in those of the path as given, then in those of the path with its links resolved.

    Raises:
        ConfigurationError: none of them has this fingerprint; the message lists those found.
        IntegrityError: the vocabulary of one is damaged; or it is missing, and no other has this fingerprint.
    """
    candidates, unread = [], []
    for folder in dict.fromkeys((*manifest_path.absolute().parents, *manifest_path.resolve().parents)):
        for stage in _STAGES:
            candidate = folder / stage / "tokenizer"
            if (candidate / VOCABULARY_FILE).is_file():
                have = Vocabulary.load(candidate / VOCABULARY_FILE).fingerprint
                if have == fingerprint:
                    return candidate
                candidates.append(f"{candidate} has {have}")
            elif (candidate / NAME_FILE).is_file():
                unread.append(candidate / VOCABULARY_FILE)
    if unread:
        raise IntegrityError(f"{unread[0]}: missing, or no file, in the folder of a tokenizer; {repair_of(unread[0])}")
    seen = "; ".join(candidates) or f"no train_tokenizer/tokenizer above {manifest_path}"
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
