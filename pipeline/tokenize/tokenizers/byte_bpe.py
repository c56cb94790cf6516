"""Byte-level byte-pair encoding: 256 bytes and the most frequent merges (arXiv 1508.07909; bytes as in GPT-2)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from clozeline.errors import IntegrityError
from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.pipeline.tokenize.tokenizers._pieces import (
    ENCODING_CUT,
    PieceTable,
    byte_alphabet,
    cut,
    fingerprint,
    special_pieces,
    training_texts,
)
from clozeline.pipeline.tokenize.tokenizers._tiktoken_encoder import library_encoder, rank_encoder
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import FrequencyOptions, check_room
from clozeline.pipeline.tokenize.tokenizers._vocabulary_extension import ByteMerges, with_merges
from clozeline.repair import repair_of

_SPACE: Final = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_ALONE: Final = "(?![^\0-\x7f])"
_WORD: Final = re.compile(
    f"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]++{_ALONE}| ?[0-9]++{_ALONE}| ?[^{_SPACE}A-Za-z0-9\x80-\U0010ffff]++{_ALONE}"
    f"| ?[^{_SPACE}]+|[{_SPACE}]+(?![^{_SPACE}])|[{_SPACE}]+"
)
"""The library's words, which no merge crosses, spelled out for ASCII; other words extend to the next white space."""
_BORDER: Final = re.compile(f"[{_SPACE}][^{_SPACE}]|[^{_SPACE}][{_SPACE}]")


class ByteBpe(ByteMerges):
    """Byte-level BPE, trained by the `tokenizers` library and encoded by `tiktoken`.

    Text is first split into words with their leading space, numbers, punctuation and white space; merges stay inside
    these. Training breaks ties by id, so it is deterministic.

    Example:
        "the mask" becomes the pieces `the` `Ġmask`, and the text "<mask>" becomes `<` `mask` `>`, never the special.
    """

    SAMPLE_BYTES: ClassVar[int] = 10 * 10**9
    FILE: ClassVar[str] = "tokenizer.json"

    Options: TypeAlias = FrequencyOptions

    def __init__(self, model: Tokenizer) -> None:
        self._model = model
        # special pieces are marked in the file for other programs; here text never becomes one
        model.encode_special_tokens = True
        facts = json.loads(model.to_str())
        special = {entry["id"] for entry in facts["added_tokens"] if entry["special"]}
        vocabulary: dict[str, int] = facts["model"]["vocab"]
        if sorted(vocabulary.values()) != list(range(len(vocabulary))):
            raise ValueError(f"expected the ids 0 to {len(vocabulary) - 1} without gaps")
        names = sorted(vocabulary, key=vocabulary.__getitem__)
        alphabet = byte_alphabet()
        pieces = [None if token in special else bytes(alphabet[c] for c in name) for token, name in enumerate(names)]
        self._table = PieceTable(pieces, names)
        bare = {names[token] for token in special}
        self._encode = rank_encoder(model, facts, bare) or library_encoder(model)
        decisive = {name: facts[name] for name in ("added_tokens", "normalizer", "pre_tokenizer", "model")}
        self.vocabulary = self._table.vocabulary(fingerprint({"name": "byte_bpe", **decisive}))

    @classmethod
    def check_size(cls, options: Options) -> None:
        check_room("byte_bpe", options, 256, "256 bytes")

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> ByteBpe:
        """Train the merges and write `tokenizer.json`; ConfigurationError if `size` is too small."""
        cls.check_size(options)
        reserved = special_pieces(options.reserved)
        model = Tokenizer(models.BPE())
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        model.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=options.size,
            min_frequency=options.min_frequency,
            special_tokens=reserved,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        model.train_from_iterator(training_texts(texts), trainer)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / cls.FILE).write_text(model.to_str(pretty=True), encoding="utf-8")
        return cls(model)

    @classmethod
    def load(cls, folder: Path) -> ByteBpe:
        """Read `tokenizer.json`; IntegrityError if it is missing or damaged."""
        path = folder / cls.FILE
        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises bare Exception
            raise IntegrityError(f"{path}: not a byte-level BPE tokenizer ({error}); {repair_of(path)}") from error

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        rows, half = [], ENCODING_CUT // 2
        for text in texts:
            parts = [text]
            # a word may exceed `ENCODING_CUT` if half of it contains no whitespace boundary
            if any(not _BORDER.search(text, at, at + half) for at in range(0, len(text) - half + 1, half)):
                parts = [part for word in _WORD.findall(text) for part in cut(word, ENCODING_CUT)]
            rows.append(np.concatenate([self._encode(part) for part in parts]).astype(self.vocabulary.id_dtype))
        return self._table.encodings(texts, rows)

    def extend(self, merges: Sequence[tuple[str, str]], folder: Path) -> ByteBpe:
        """Write the vocabulary with further merges, each with a new piece at the end; existing ids stay."""
        facts = with_merges(json.loads(self._model.to_str()), merges)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.FILE).write_text(Tokenizer.from_str(json.dumps(facts)).to_str(pretty=True), encoding="utf-8")
        return self.load(folder)

    def to_tokenizers(self) -> Tokenizer:
        """Convert the model to the `tokenizers` library; the export marks the special pieces."""
        facts = json.loads(self._model.to_str())
        model = Tokenizer.from_str(json.dumps({**facts, "added_tokens": []}))
        model.encode_special_tokens = False
        return model
