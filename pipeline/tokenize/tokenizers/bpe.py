"""Byte-pair encoding of characters as in textbooks (arXiv 1508.07909), with an end-of-word mark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from clozeline.pipeline.tokenize.tokenizers._bpe_merges import count_words, learn_merges
from clozeline.pipeline.tokenize.tokenizers._chunk_encoder import ChunkEncoder, Tokens
from clozeline.pipeline.tokenize.tokenizers._json_vocabulary import JsonVocabulary
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces, training_texts
from clozeline.pipeline.tokenize.tokenizers._vocabulary_budget import FrequencyOptions, count_letters

_WORD: Final = re.compile(r"\S+")
_END: Final = "_"
"""End-of-word mark of textbooks."""
_UNDERSCORE: Final = "\0"
"""Replaces an underscore of the text, which would be confused with the mark and has no piece."""


class Bpe(JsonVocabulary):
    """Merges the most frequent pair; in a tie, the first one in the corpus as merged so far.

    Words are separated by white space, which decodes to a single space. Pieces do not mark the start of a word, so each
    piece counts as a word. An underscore is the unknown token.

    Example:
        low x5, lowest x2, newer x6, wider x3, new x2 give er, er_, ne, new, lo, low, newer_, low_; then "lower" is
        `low` `er_`.
    """

    SAMPLE_BYTES: ClassVar[int] = 10**8
    NAME: ClassVar[str] = "bpe"
    LOSS: ClassVar[str] = "white space but one space, underscores, and characters that the training text does not have"
    FEWEST: ClassVar[int] = 2

    Options: TypeAlias = FrequencyOptions

    def __init__(self, facts: Mapping[str, Any]) -> None:
        super().__init__(facts)
        self.vocabulary = replace(self.vocabulary, word_start=~self.vocabulary.special)
        self._merges = [(left, right) for left, right in facts["merges"]]
        vocabulary = {**self._ids, _UNDERSCORE: self._unknown}
        self._library = tokenizers.Tokenizer(models.BPE(vocabulary, self._merges, unk_token=_UNDERSCORE))
        self._encoder = ChunkEncoder(_WORD, self._tokens, self.vocabulary.id_dtype)

    @staticmethod
    def text_of(piece: str) -> str:
        return piece.replace(_END, " ")

    @classmethod
    def train(cls, texts: Iterable[str], options: Options, folder: Path) -> Bpe:
        """Train the merges and write `pieces.json`; ConfigurationError if `size` is too small."""
        cls.check_size(options)
        counts = count_words(word for text in training_texts(texts) for word in text.split())
        marked = {word + _END: count for word, count in counts.items() if _END not in word}
        reserved = special_pieces(options.reserved)
        room = options.size - len(reserved)
        letters = count_letters(marked, list)[:room]
        known = set(letters)
        spelled = {word: count for word, count in marked.items() if known.issuperset(word)}
        merges = learn_merges(spelled, list, room - len(letters), banned=reserved, min_frequency=options.min_frequency)
        pieces = list(dict.fromkeys([*letters, *(left + right for left, right in merges)]))
        return cls.write(folder, {"reserved": options.reserved, "pieces": pieces, "merges": merges})

    def _tokens(self, chunk: str) -> Tokens:
        encoding = self._library.encode(chunk.replace(_END, _UNDERSCORE) + _END)
        return encoding.ids, [min(start, len(chunk) - 1) for start, _ in encoding.offsets]

    def to_tokenizers(self) -> tokenizers.Tokenizer:
        ids = {name: token for token, name in enumerate(self._table.names)}
        model = tokenizers.Tokenizer(models.BPE(ids, self._merges, unk_token=self._table.names[self._unknown]))
        ends = normalizers.Replace(tokenizers.Regex(r"(?<=\S)(?!\S)"), _END)
        model.normalizer = normalizers.Sequence([normalizers.Replace(_END, _UNDERSCORE), ends])
        model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return model
